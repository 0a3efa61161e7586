/* events.c - scalars for TensorBoard: OUT/events.out.tfevents.SECONDS.HOST.PROCESS.
 *
 * A record is u64 length, masked crc32c of it, the data, masked crc32c of that; little-endian. The data is a protocol
 * buffer `Event`: 1 wall_time (double), 2 step (varint), 3 file_version (string), 5 summary; a summary has 1 value,
 * which has 1 tag and 2 simple_value (float). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "runtime_internal.h"

struct BluEvents {
  FILE *file;
  char *path;
  uint32_t table[256]; /* of crc32c */
};

/* Castagnoli's polynomial, reflected. */
static void make_table(uint32_t table[256]) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
}

static uint32_t masked_crc(const BluEvents *events, const void *data, size_t bytes) {
  const uint8_t *b = data;
  uint32_t crc = ~0u;
  for (size_t i = 0; i < bytes; i++) crc = crc >> 8 ^ events->table[(crc ^ b[i]) & 255];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void write_record(BluEvents *events, const uint8_t *data, size_t bytes) {
  uint64_t length = bytes;
  uint32_t head = masked_crc(events, &length, sizeof length), tail = masked_crc(events, data, bytes);
  fwrite(&length, sizeof length, 1, events->file);
  fwrite(&head, sizeof head, 1, events->file);
  fwrite(data, 1, bytes, events->file);
  fwrite(&tail, sizeof tail, 1, events->file);
}

enum { MOST = 512 };

/* Bytes of a message, appended to; there is room for what this file writes. */
typedef struct {
  uint8_t data[MOST];
  size_t size;
} Message;

static void put_varint(Message *m, uint64_t value) {
  for (; value > 127; value >>= 7) m->data[m->size++] = (uint8_t)(value | 128);
  m->data[m->size++] = (uint8_t)value;
}

static void put_raw(Message *m, int key, const void *value, size_t bytes) {
  m->data[m->size++] = (uint8_t)key;
  memcpy(m->data + m->size, value, bytes);
  m->size += bytes;
}

static void put_bytes(Message *m, int key, const void *value, size_t bytes) {
  m->data[m->size++] = (uint8_t)key;
  put_varint(m, bytes);
  memcpy(m->data + m->size, value, bytes);
  m->size += bytes;
}

enum { KEY_DOUBLE_1 = 1 << 3 | 1, KEY_VARINT_2 = 2 << 3, KEY_BYTES_1 = 1 << 3 | 2, KEY_FLOAT_2 = 2 << 3 | 5,
       KEY_BYTES_3 = 3 << 3 | 2, KEY_BYTES_5 = 5 << 3 | 2 };

static void put_time(Message *m) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  put_raw(m, KEY_DOUBLE_1, &seconds, sizeof seconds);
}

BluEvents *blu_events_open(BluError *err, const char *out) {
  BluEvents *events = blu_new(1, sizeof *events);
  struct utsname host;
  uname(&host);
  char *name = blu_text_print("events.out.tfevents.%lld.%s.%ld", (long long)time(NULL), host.nodename, (long)getpid());
  events->path = blu_text_path(out, name);
  free(name);
  events->file = fopen(events->path, "wbe");
  if (!events->file) {
    blu_error_set(err, "cannot create %s: %s", events->path, strerror(errno));
    blu_events_close(events);
    return NULL;
  }
  make_table(events->table);
  static const char version[] = "brain.Event:2";
  Message m = {.size = 0};
  put_time(&m);
  put_bytes(&m, KEY_BYTES_3, version, sizeof version - 1);
  write_record(events, m.data, m.size);
  return events;
}

void blu_events_add(BluEvents *events, const char *tag, int64_t step, double value) {
  Message entry = {.size = 0}, summary = {.size = 0}, event = {.size = 0};
  float rounded = (float)value;
  put_bytes(&entry, KEY_BYTES_1, tag, strnlen(tag, 200));
  put_raw(&entry, KEY_FLOAT_2, &rounded, sizeof rounded);
  put_bytes(&summary, KEY_BYTES_1, entry.data, entry.size);
  put_time(&event);
  event.data[event.size++] = KEY_VARINT_2;
  put_varint(&event, (uint64_t)step);
  put_bytes(&event, KEY_BYTES_5, summary.data, summary.size);
  write_record(events, event.data, event.size);
}

bool blu_events_flush(BluError *err, BluEvents *events) {
  return !fflush(events->file) || blu_error_set(err, "cannot write %s: %s", events->path, strerror(errno));
}

void blu_events_close(BluEvents *events) {
  if (!events) return;
  if (events->file) fclose(events->file);
  free(events->path);
  free(events);
}
