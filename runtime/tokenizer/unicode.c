/* unicode.c - characters: UTF-8, general categories, white space, and the canonical normal forms of Unicode's annex 15. */
#include <stdlib.h>
#include <string.h>

#include "tables.h"
#include "tokenizer_internal.h"

int64_t blu_code_at(const char *at, const char *end, int32_t *code) {
  const unsigned char *b = (const unsigned char *)at;
  int64_t left = end - at;
  *code = BLU_CODE_NONE;
  if (b[0] < 0x80) return *code = b[0], 1;
  int n = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
  if (b[0] < 0xc2 || b[0] > 0xf4 || left < n) return 1;
  for (int i = 1; i < n; i++)
    if ((b[i] & 0xc0) != 0x80) return 1;
  int32_t c = n == 2 ? (b[0] & 0x1f) << 6 | (b[1] & 0x3f)
              : n == 3 ? (b[0] & 0x0f) << 12 | (b[1] & 0x3f) << 6 | (b[2] & 0x3f)
                       : (b[0] & 0x07) << 18 | (b[1] & 0x3f) << 12 | (b[2] & 0x3f) << 6 | (b[3] & 0x3f);
  if ((n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) || (n == 4 && (c < 0x10000 || c > 0x10ffff))) return 1;
  *code = c;
  return n;
}

int64_t blu_code_put(char to[static 4], int32_t code) {
  if (code < 0x80) return to[0] = (char)code, 1;
  int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (int i = n - 1; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
  to[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | code);
  return n;
}

bool blu_code_is_space(int32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

enum { NO_CLASS = 31 };

/* The run that holds a code; runs begin with 0, and `shift` bits below the first code of each are its value. */
static uint32_t value_of(const uint32_t *run, int runs, int shift, int32_t code) {
  int low = 0, high = runs - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (run[middle] >> shift <= (uint32_t)code) low = middle;
    else high = middle - 1;
  }
  return run[low] & ((UINT32_C(1) << shift) - 1);
}

int blu_code_class(int32_t code) { return code == BLU_CODE_NONE ? NO_CLASS : (int)value_of(blu_class_runs, blu_class_run_count, 5, code); }

void blu_code_fill_classes(uint8_t *to, int32_t codes) {
  for (int run = 0; run < blu_class_run_count; run++) {
    uint32_t first = blu_class_runs[run] >> 5, last = run + 1 < blu_class_run_count ? blu_class_runs[run + 1] >> 5 : 0x110000;
    for (uint32_t c = first; c < last && c < (uint32_t)codes; c++) to[c] = blu_class_runs[run] & 31;
  }
}

uint32_t blu_code_classes(const char *name, int64_t bytes) {
  uint32_t mask = 0;
  for (int i = 0; i < (int)(sizeof blu_class_names / sizeof *blu_class_names); i++)
    if ((bytes == 1 || bytes == 2) && !memcmp(name, blu_class_names[i], (size_t)bytes)) mask |= UINT32_C(1) << i;
  return mask;
}

void blu_text_add(BluText *to, const char *text, int64_t bytes) {
  if (to->bytes + bytes > to->room) {
    to->room = 2 * (to->bytes + bytes) + 64;
    to->text = blu_need(realloc(to->text, (size_t)to->room));
  }
  if (bytes) memcpy(to->text + to->bytes, text, (size_t)bytes);
  to->bytes += bytes;
}

/* --- normal forms --- */

/* Hangul syllables are computed: first, middle and last parts, and their number. */
enum { S_BASE = 0xac00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7, L_COUNT = 19, V_COUNT = 21, T_COUNT = 28, S_COUNT = 11172 };

typedef struct { int32_t code; uint32_t order; } Mark;

typedef struct {
  Mark *mark;
  int64_t marks, room;
} Marks;

static void add_mark(Marks *to, int32_t code) {
  if (to->marks == to->room) {
    to->room = to->room ? 2 * to->room : 64;
    to->mark = blu_need(realloc(to->mark, (size_t)to->room * sizeof *to->mark));
  }
  to->mark[to->marks++] = (Mark){code, value_of(blu_order_runs, blu_order_run_count, 8, code)};
}

static void decompose(Marks *to, int32_t code) {
  if (code >= S_BASE && code < S_BASE + S_COUNT) {
    int32_t s = code - S_BASE;
    add_mark(to, L_BASE + s / (V_COUNT * T_COUNT));
    add_mark(to, V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT);
    if (s % T_COUNT) add_mark(to, T_BASE + s % T_COUNT);
    return;
  }
  int low = 0, high = blu_decomposition_count - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (blu_decompositions[middle][0] < (uint32_t)code) low = middle + 1;
    else high = middle;
  }
  const uint32_t *found = blu_decompositions[low];
  if (found[0] != (uint32_t)code) return add_mark(to, code);
  decompose(to, (int32_t)found[1]); /* a few deep at most */
  if (found[2]) decompose(to, (int32_t)found[2]);
}

/* What two characters compose to; 0: nothing. */
static int32_t compose_two(int32_t a, int32_t b) {
  if (a >= L_BASE && a < L_BASE + L_COUNT && b >= V_BASE && b < V_BASE + V_COUNT) return S_BASE + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
  if (a >= S_BASE && a < S_BASE + S_COUNT && (a - S_BASE) % T_COUNT == 0 && b > T_BASE && b < T_BASE + T_COUNT) return a + (b - T_BASE);
  int low = 0, high = blu_composition_count - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    const uint32_t *m = blu_decompositions[blu_compositions[middle]];
    if (m[1] < (uint32_t)a || (m[1] == (uint32_t)a && m[2] < (uint32_t)b)) low = middle + 1;
    else high = middle;
  }
  const uint32_t *found = blu_decompositions[blu_compositions[low]];
  return found[1] == (uint32_t)a && found[2] == (uint32_t)b ? (int32_t)found[0] : 0;
}

/* Each stretch of marks of an order other than 0 is sorted by it; equals keep their places. Merging, for stretches of any length. */
static void sort_stretch(Mark *mark, int64_t n, Mark *room) {
  if (n < 2) return;
  int64_t half = n / 2, i = 0, j = half;
  sort_stretch(mark, half, room);
  sort_stretch(mark + half, n - half, room);
  for (int64_t k = 0; k < n; k++) room[k] = j == n || (i < half && mark[i].order <= mark[j].order) ? mark[i++] : mark[j++];
  memcpy(mark, room, (size_t)n * sizeof *mark);
}

static void sort_marks(Marks *m) {
  Mark *room = NULL;
  for (int64_t first = 0, last; first < m->marks; first = last) {
    bool sorted = true;
    last = first + 1;
    if (!m->mark[first].order) continue;
    for (; last < m->marks && m->mark[last].order; last++) sorted &= m->mark[last - 1].order <= m->mark[last].order;
    if (sorted) continue;
    if (!room) room = blu_new(m->marks, sizeof *room);
    sort_stretch(m->mark + first, last - first, room);
  }
  free(room);
}

/* A mark composes with the last starter unless one of its own order, or a starter, stands between. */
static void compose(Marks *m) {
  int64_t starter = -1, to = 0;
  for (int64_t i = 0; i < m->marks; i++) {
    Mark x = m->mark[i];
    bool blocked = starter < 0 || (starter < to - 1 && m->mark[to - 1].order >= x.order);
    int32_t made = blocked ? 0 : compose_two(m->mark[starter].code, x.code);
    if (made) {
      m->mark[starter].code = made;
    } else {
      if (!x.order) starter = to;
      m->mark[to++] = x;
    }
  }
  m->marks = to;
}

void blu_code_normalise(BluText *to, const char *text, int64_t bytes, BluForm form) {
  const char *at = text, *end = text + bytes;
  Marks m = {0};
  while (at < end) {
    /* ASCII stays what it is, but for its last character, with which the next may compose. */
    const char *start = at;
    while (at < end && (unsigned char)*at < 0x80) at++;
    if (at < end && at > start) at--;
    blu_text_add(to, start, at - start);
    int32_t code = 0;
    m.marks = 0;
    for (start = at; at < end; at += blu_code_at(at, end, &code)) {
      blu_code_at(at, end, &code);
      if (code == BLU_CODE_NONE || (code < 0x80 && at > start)) break;
      decompose(&m, code);
    }
    sort_marks(&m);
    if (form == BLU_FORM_NFC) compose(&m);
    for (int64_t i = 0; i < m.marks; i++) {
      char made[4];
      blu_text_add(to, made, blu_code_put(made, m.mark[i].code));
    }
    if (at < end && code == BLU_CODE_NONE) blu_text_add(to, at++, 1);
  }
  free(m.mark);
}
