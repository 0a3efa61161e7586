/* arena.c - a list of chunks, each twice as large as the one before up to 1 MiB; large requests get their own. */
#include "arena.h"
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Chunk {
  struct Chunk *next;
  size_t used, size;
  alignas(max_align_t) char bytes[];
} Chunk;

struct BluArena { Chunk *chunk; };

enum { FIRST_CHUNK = 16 << 10, LARGEST_CHUNK = 1 << 20 };

static void *checked(void *p) {
  if (!p) {
    fputs("bluc: out of memory\n", stderr);
    abort();
  }
  return p;
}

BluArena *blu_arena_make(void) { return checked(calloc(1, sizeof(BluArena))); }

void blu_arena_free(BluArena *a) {
  if (!a) return;
  for (Chunk *c = a->chunk, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(a);
}

void *blu_arena_alloc(BluArena *a, size_t bytes) {
  size_t align = alignof(max_align_t);
  bytes = (bytes + align - 1) / align * align;
  Chunk *c = a->chunk;
  if (!c || c->size - c->used < bytes) {
    size_t size = c ? c->size * 2 : FIRST_CHUNK;
    if (size > LARGEST_CHUNK) size = LARGEST_CHUNK;
    if (size < bytes) size = bytes;
    Chunk *fresh = checked(calloc(1, sizeof(Chunk) + size));
    fresh->size = size;
    fresh->next = c;
    a->chunk = c = fresh;
  }
  void *p = c->bytes + c->used;
  c->used += bytes;
  return p;
}

char *blu_arena_copy(BluArena *a, const char *text, size_t n) {
  char *p = blu_arena_alloc(a, n + 1);
  if (n) memcpy(p, text, n);
  return p;
}

char *blu_arena_vprint(BluArena *a, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *p = blu_arena_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
  if (n > 0) vsnprintf(p, (size_t)n + 1, format, args);
  return p;
}

char *blu_arena_print(BluArena *a, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *p = blu_arena_vprint(a, format, args);
  va_end(args);
  return p;
}

void *blu_arena_grow(BluArena *a, void *items, int n, size_t item_bytes) {
  if (n & (n - 1)) return items;
  char *fresh = blu_arena_alloc(a, (n ? 2 * (size_t)n : 1) * item_bytes);
  if (n) memcpy(fresh, items, (size_t)n * item_bytes);
  return fresh;
}
