/* memory.c - see memory.h. */
#include "dialects/memory.h"
#include <stdio.h>
#include <stdlib.h>

static void *checked(void *p) {
  if (p) return p;
  fputs("bluc: out of memory\n", stderr);
  abort();
}

void *blu_alloc(size_t size) { return checked(malloc(size ? size : 1)); }
void *blu_alloc_zeroed(size_t n, size_t size) { return checked(calloc(n ? n : 1, size ? size : 1)); }
void *blu_realloc(void *old, size_t size) { return checked(realloc(old, size ? size : 1)); }
