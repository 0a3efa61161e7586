/* map.c - open addressing with linear probing; grows at half full. */
#include "dialects/map.h"
#include "dialects/memory.h"
#include <stdint.h>
#include <stdlib.h>

static size_t place(const BluMap *m, const void *key) {
  size_t i = (size_t)((uintptr_t)key * 0x9E3779B97F4A7C15u >> 20) & (m->size - 1);
  while (m->slot[i].key && m->slot[i].key != key) i = (i + 1) & (m->size - 1);
  return i;
}

void *blu_map_get(const BluMap *m, const void *key) { return m->size ? m->slot[place(m, key)].value : NULL; }

void blu_map_set(BluMap *m, const void *key, void *value) {
  if (2 * (m->used + 1) > m->size) {
    BluMap bigger = {.size = m->size ? 2 * m->size : 64};
    bigger.slot = blu_alloc_zeroed(bigger.size, sizeof *bigger.slot);
    for (size_t i = 0; i < m->size; i++)
      if (m->slot[i].key) bigger.slot[place(&bigger, m->slot[i].key)] = m->slot[i], bigger.used++;
    free(m->slot);
    *m = bigger;
  }
  size_t i = place(m, key);
  if (!m->slot[i].key) m->used++;
  m->slot[i] = (BluMapSlot){key, value};
}

void blu_map_free(BluMap *m) {
  free(m->slot);
  *m = (BluMap){0};
}
