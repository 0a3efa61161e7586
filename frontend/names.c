/* names.c - see names.h. Short tables are searched from front to back, long ones through a hash. */
#include "names.h"
#include <stdint.h>
#include <string.h>
#include "frontend.h"

enum { SHORT = 8, LONGEST_NAME = 63 };

static uint32_t hash(const char *s) {
  uint32_t h = 2166136261u;
  for (; *s; s++) h = (h ^ (unsigned char)*s) * 16777619u;
  return h;
}

static int *slot_of(const BluNames *t, const char *name) {
  uint32_t mask = (uint32_t)t->slots - 1, i = hash(name) & mask;
  while (t->slot[i] && strcmp(t->entry[t->slot[i] - 1].name, name)) i = (i + 1) & mask;
  return &t->slot[i];
}

void *blu_names_find(const BluNames *t, const char *name) {
  if (t->slots) {
    int at = *slot_of(t, name);
    return at ? t->entry[at - 1].item : NULL;
  }
  for (int i = 0; i < t->n; i++)
    if (!strcmp(t->entry[i].name, name)) return t->entry[i].item;
  return NULL;
}

void blu_names_add(BluArena *a, BluNames *t, const char *name, void *item) {
  t->entry = blu_arena_grow(a, t->entry, t->n, sizeof *t->entry);
  t->entry[t->n++] = (BluNameEntry){name, item};
  if (t->n <= SHORT) return;
  if (2 * t->n > t->slots) {
    t->slots = t->slots ? 2 * t->slots : 4 * SHORT;
    t->slot = blu_arena_alloc(a, (size_t)t->slots * sizeof *t->slot);
    for (int i = 0; i < t->n; i++) *slot_of(t, t->entry[i].name) = i + 1;
  } else {
    *slot_of(t, name) = t->n;
  }
}

static int least(int a, int b, int c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); }

/* Edit distance with swaps of neighbours (optimal string alignment); both names are at most LONGEST_NAME long. */
static int distance(const char *a, int na, const char *b, int nb) {
  int row[3][LONGEST_NAME + 1];
  for (int j = 0; j <= nb; j++) row[0][j] = j;
  for (int i = 1; i <= na; i++) {
    int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= nb; j++) {
      now[j] = least(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < now[j])
        now[j] = before[j - 2] + 1;
    }
  }
  return row[na % 3][nb];
}

void blu_nearest_try(BluNearest *n, const char *candidate) {
  size_t na = strlen(n->wanted), nb = strlen(candidate);
  if (na > LONGEST_NAME || nb > LONGEST_NAME || na < 2) return;
  int limit = (int)(na > nb ? na : nb) / 3;
  if (limit < 1) limit = 1;
  int d = distance(n->wanted, (int)na, candidate, (int)nb);
  if (d == 0 || d > limit || (n->best && d >= n->distance)) return;
  n->best = candidate;
  n->distance = d;
}

void blu_nearest_try_all(BluNearest *n, const BluNames *t) {
  for (int i = 0; i < t->n; i++) blu_nearest_try(n, t->entry[i].name);
}

const char *blu_frontend_nearest(const char *wanted, int n, const char *const *names) {
  BluNearest near = {.wanted = wanted};
  for (int i = 0; i < n; i++) blu_nearest_try(&near, names[i]);
  return near.best;
}
