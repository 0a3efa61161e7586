/* emulator.c - settings, the random numbers of a run, and the end of one that went wrong. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulator.h"

int64_t blu_emu_setting(const char *name, int64_t fallback) {
  char full[64];
  snprintf(full, sizeof full, "BLU_EMULATOR_%s", name);
  const char *text = getenv(full);
  return text ? strtoll(text, NULL, 10) : fallback;
}

int64_t blu_emu_seed(void) {
  static int64_t seed;
  static bool known;
  if (!known) seed = blu_emu_setting("SEED", 1), known = true;
  return seed;
}

uint64_t blu_emu_random(void) { /* splitmix64 */
  static uint64_t state;
  static bool started;
  if (!started) state = (uint64_t)blu_emu_seed(), started = true;
  uint64_t x = state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

void blu_emu_fault(const char *format, ...) {
  char where[400] = "", what[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  fflush(NULL);
  if (blu_emu_where(where, sizeof where)) fprintf(stderr, "emulated: fault in %s: %s\n", where, what);
  else fprintf(stderr, "emulated: fault: %s\n", what);
  _exit(1);
}
