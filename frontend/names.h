/* names.h - a table from names to things that keeps the order of insertion, and the search for a name nearly right. */
#ifndef BLU_FRONTEND_NAMES_H
#define BLU_FRONTEND_NAMES_H
#include <stdbool.h>
#include "arena.h"

typedef struct { const char *name; void *item; } BluNameEntry;
typedef struct {
  BluNameEntry *entry;
  int n;
  int *slot, slots; /* open addressing: index into entry + 1, 0 = free; none while the table is short */
} BluNames;

void *blu_names_find(const BluNames *t, const char *name);  /* NULL: absent */
void blu_names_add(BluArena *a, BluNames *t, const char *name, void *item); /* the name is new, the item not NULL */

/* The candidate nearest to `wanted`, if any is near: at most a third of its letters changed, added, left out or
 * swapped. */
typedef struct { const char *wanted, *best; int distance; } BluNearest;
void blu_nearest_try(BluNearest *n, const char *candidate);
void blu_nearest_try_all(BluNearest *n, const BluNames *t);

#endif
