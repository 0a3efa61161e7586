/* read_events.c - an independent reader of TensorBoard's event files: checks every length and checksum, and prints each
 * scalar as "STEP TAG VALUE". Its crc32c goes bit by bit, from the polynomial's definition. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int good, const char *what) {
  if (!good) fprintf(stderr, "bad event file: %s\n", what), exit(1);
}

static uint32_t masked(const uint8_t *data, size_t bytes) {
  uint32_t crc = 0xffffffff;
  for (size_t i = 0; i < 8 * bytes; i++) {
    uint32_t bit = (crc ^ data[i / 8] >> i % 8) & 1;
    crc = crc >> 1 ^ (bit ? 0x82f63b78 : 0);
  }
  crc ^= 0xffffffff;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

static uint64_t varint(const uint8_t **at, const uint8_t *end) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    check(*at < end, "a number ends after its message");
    uint8_t byte = *(*at)++;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return value;
  }
  check(0, "a number is too long");
  return 0;
}

typedef struct {
  int64_t step;
  char tag[200], version[40];
  float value;
  int values;
} Event;

/* Fields by their path: 2, 3, 5.1.1 and 5.1.2 are those that count. */
static void read_message(const uint8_t *at, const uint8_t *end, int path, Event *event) {
  while (at < end) {
    uint64_t key = varint(&at, end), bytes = 0;
    int field = path * 10 + (int)(key >> 3);
    switch (key & 7) {
      case 0: event->step = (int64_t)varint(&at, end); check(field == 2, "an unknown number"); continue;
      case 1: bytes = 8; check(field == 1, "an unknown double"); break;
      case 5: bytes = 4; check(field == 512, "an unknown float"); break;
      case 2: bytes = varint(&at, end); break;
      default: check(0, "an unknown kind of field");
    }
    check(bytes <= (uint64_t)(end - at), "a field ends after its message");
    if (field == 512) memcpy(&event->value, at, 4), event->values++;
    else if (field == 511) snprintf(event->tag, sizeof event->tag, "%.*s", (int)bytes, (const char *)at);
    else if (field == 3) snprintf(event->version, sizeof event->version, "%.*s", (int)bytes, (const char *)at);
    else if (field == 5 || field == 51) read_message(at, at + bytes, field, event);
    at += bytes;
  }
}

int main(int arguments, char **argument) {
  static uint8_t data[1 << 20];
  char version[40] = "";
  FILE *file = arguments == 2 ? fopen(argument[1], "rb") : NULL;
  if (!file) return 2;
  int records = 0;
  for (uint8_t head[12]; fread(head, 1, 12, file) == 12; records++) {
    uint64_t length;
    uint32_t crc;
    memcpy(&length, head, 8);
    memcpy(&crc, head + 8, 4);
    check(crc == masked(head, 8), "the checksum of a length");
    check(length <= sizeof data && fread(data, 1, length, file) == length && fread(&crc, 1, 4, file) == 4, "it is cut");
    check(crc == masked(data, length), "the checksum of a record");
    Event event = {.step = 0};
    read_message(data, data + length, 0, &event);
    if (!records) snprintf(version, sizeof version, "%s", event.version);
    if (event.values) printf("%" PRId64 " %s %.9g\n", event.step, event.tag, (double)event.value);
  }
  check(feof(file), "it can't be read");
  printf("%d records: %s\n", records, version);
  return 0;
}
