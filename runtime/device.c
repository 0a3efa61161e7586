/* device.c - the host's memory and threads as a device, and the way to a driver where a program has code for one. */
#include <string.h>

#include "runtime_internal.h"

bool blu_device_open(BluError *err, BluArena *arena, const BluProgram *program, const BluDeviceWish *wish) {
  if (!program->images) return true;
  if (!blu_device_driver) return blu_error_set(err, "this program has code for a device, and its runtime has no driver for one");
  arena->driver = blu_device_driver;
  return arena->driver->open(err, arena, program, wish);
}

void blu_device_close(BluArena *arena) {
  if (arena->driver) arena->driver->close(arena);
  arena->driver = NULL;
}

const char *blu_device_look(BluError *err, const BluArena *arena, int64_t offset, int64_t *bytes) {
  return arena->driver ? arena->driver->look(err, arena, offset, bytes) : arena->base + offset;
}

char *blu_device_place(const BluArena *arena, int64_t offset, int64_t *bytes) {
  return arena->driver ? arena->driver->place(arena, offset, bytes) : arena->base + offset;
}

bool blu_device_put(BluError *err, const BluArena *arena, int64_t offset, const char *from, int64_t bytes) {
  return !arena->driver || arena->driver->put(err, arena, offset, from, bytes);
}

bool blu_device_copy(BluError *err, const BluArena *arena, int64_t to, int64_t from, int64_t bytes) {
  if (arena->driver) return arena->driver->copy(err, arena, to, from, bytes);
  memcpy(arena->base + to, arena->base + from, (size_t)bytes);
  return true;
}

bool blu_device_clear(BluError *err, const BluArena *arena, int64_t offset, int64_t bytes) {
  if (arena->driver) return arena->driver->clear(err, arena, offset, bytes);
  memset(arena->base + offset, 0, (size_t)bytes);
  return true;
}

bool blu_device_ready(BluError *err, const BluArena *arena) { return !arena->driver || arena->driver->ready(err, arena); }

bool blu_device_send(BluError *err, const BluArena *arena, const BluFunction *function) {
  return !arena->driver || arena->driver->send(err, arena, function);
}

bool blu_device_run(BluError *err, const BluArena *arena, BluPool *pool, BluProfile *profile, const BluFunction *function, int64_t first,
                    int64_t last) {
  if (arena->driver) return arena->driver->run(err, arena, profile, function, first, last);
  if (profile) blu_profile_run(profile, pool, first, last);
  else blu_pool_run(pool, function->launch + first, last - first);
  return true;
}

bool blu_device_wait(BluError *err, const BluArena *arena) { return !arena->driver || arena->driver->wait(err, arena); }

const char *blu_device_result(const BluArena *arena, const BluSlot *slot) {
  return arena->driver ? arena->driver->result(arena, slot) : arena->base + slot->offset;
}

void blu_device_print_settings(FILE *file, const BluArena *arena) {
  if (arena->driver) arena->driver->print_settings(file, arena);
}

void blu_device_compare_settings(BluError *warning, const BluArena *arena, const char *text) {
  warning->text[0] = 0;
  if (arena->driver) arena->driver->compare_settings(warning, arena, text);
}
