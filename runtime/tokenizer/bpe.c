/* bpe.c - byte-pair encoding of one word: the pair of neighbours whose merge has the lowest rank becomes one, the leftmost of equals first,
 * until no pair merges. Short words look for it in a row; long ones keep a heap of pairs, so that the time grows as n log n. Words that were
 * met before come from a cache, which changes no result. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_internal.h"

#define NO_RANK UINT32_MAX
#define NO_PAIR UINT64_MAX

/* --- maps --- */

static uint64_t mix(uint64_t x) { /* the finaliser of splitmix64 */
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static uint64_t hash_of(const char *text, int64_t bytes) {
  uint64_t h = (uint64_t)bytes * 0x9e3779b97f4a7c15u, word;
  for (; bytes >= 8; text += 8, bytes -= 8) memcpy(&word, text, 8), h = mix(h ^ word);
  word = 0;
  memcpy(&word, text, (size_t)bytes);
  return mix(h ^ word);
}

static int bits_for(int64_t count) { /* at most half full */
  int bits = 4;
  while ((int64_t)1 << bits < 2 * count) bits++;
  return bits;
}

void blu_bpe_reserve(BluTokenizer *t, int64_t names, int64_t merges) {
  t->names.bits = bits_for(names);
  t->names.slot = blu_new((int64_t)1 << t->names.bits, sizeof *t->names.slot);
  memset(t->names.slot, 0xff, sizeof *t->names.slot << t->names.bits);
  t->merge_bits = bits_for(merges);
  t->merge = blu_new((int64_t)1 << t->merge_bits, sizeof *t->merge);
  for (int64_t i = 0; i < (int64_t)1 << t->merge_bits; i++) t->merge[i].pair = NO_PAIR;
}

static int32_t *name_slot(const BluTokenizer *t, const char *text, int64_t bytes) {
  uint64_t mask = ((uint64_t)1 << t->names.bits) - 1, at = hash_of(text, bytes) & mask;
  for (;; at = (at + 1) & mask) {
    int32_t id = t->names.slot[at];
    if (id == BLU_NO_ID || (t->token[id].bytes == bytes && !memcmp(t->token[id].text, text, (size_t)bytes))) return &t->names.slot[at];
  }
}

bool blu_bpe_add(BluTokenizer *t, int32_t id, const char *text, int64_t bytes) {
  int32_t *slot = name_slot(t, text, bytes);
  if (*slot != BLU_NO_ID || t->token[id].text) return false;
  *slot = id;
  char *copy = blu_new(bytes + 1, 1);
  memcpy(copy, text, (size_t)bytes);
  t->token[id] = (BluToken){.text = copy, .bytes = bytes};
  return true;
}

int32_t blu_bpe_find(const BluTokenizer *t, const char *text, int64_t bytes) { return *name_slot(t, text, bytes); }

static BluMerge *merge_slot(const BluTokenizer *t, int32_t left, int32_t right) {
  uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right, mask = ((uint64_t)1 << t->merge_bits) - 1, at = mix(pair) & mask;
  while (t->merge[at].pair != pair && t->merge[at].pair != NO_PAIR) at = (at + 1) & mask;
  return &t->merge[at];
}

void blu_bpe_add_merge(BluTokenizer *t, int32_t left, int32_t right, uint32_t rank, int32_t id) {
  *merge_slot(t, left, right) = (BluMerge){.pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right, .rank = rank, .id = id};
}

/* Rank of the merge of two ids; NO_RANK: none. */
static inline uint32_t rank_of(const BluTokenizer *t, int32_t left, int32_t right, int32_t *id) {
  const BluMerge *m = merge_slot(t, left, right);
  if (m->pair == NO_PAIR) return NO_RANK;
  *id = m->id;
  return m->rank;
}

/* --- merging --- */

void blu_ids_add(BluIds *to, int32_t id) {
  if (to->ids == to->room) {
    to->room = to->room ? 2 * to->room : 1024;
    to->id = blu_need(realloc(to->id, (size_t)to->room * sizeof *to->id));
  }
  to->id[to->ids++] = id;
}

/* Each merge moves what is behind it by one: for short words. */
static int64_t merge_short(const BluTokenizer *t, BluSymbol *s, int64_t n) {
  int32_t ignored;
  for (int64_t i = 0; i + 1 < n; i++) s[i].rank = rank_of(t, s[i].id, s[i + 1].id, &ignored);
  while (n > 1) {
    int64_t best = 0;
    for (int64_t i = 1; i + 1 < n; i++)
      if (s[i].rank < s[best].rank) best = i;
    if (s[best].rank == NO_RANK) break;
    int32_t id = 0;
    rank_of(t, s[best].id, s[best + 1].id, &id);
    s[best].id = id;
    n--;
    memmove(&s[best + 1], &s[best + 2], (size_t)(n - best - 1) * sizeof *s);
    if (best + 1 < n) s[best].rank = rank_of(t, s[best].id, s[best + 1].id, &ignored);
    if (best > 0) s[best - 1].rank = rank_of(t, s[best - 1].id, s[best].id, &ignored);
  }
  return n;
}

static void heap_push(uint64_t *heap, int64_t *n, uint64_t key) {
  int64_t at = (*n)++;
  for (; at && heap[(at - 1) / 2] > key; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = key;
}

static uint64_t heap_pop(uint64_t *heap, int64_t *n) {
  uint64_t top = heap[0], last = heap[--*n];
  int64_t at = 0;
  for (int64_t child; (child = 2 * at + 1) < *n; at = child) {
    if (child + 1 < *n && heap[child + 1] < heap[child]) child++;
    if (heap[child] >= last) break;
    heap[at] = heap[child];
  }
  heap[at] = last;
  return top;
}

/* A key of the heap is rank and place; one whose place has another rank by now is out of date. */
static void offer(const BluTokenizer *t, BluSymbol *s, int64_t *heaped, int32_t at) {
  int32_t ignored;
  s[at].rank = s[at].next < 0 ? NO_RANK : rank_of(t, s[at].id, s[s[at].next].id, &ignored);
  if (s[at].rank != NO_RANK) heap_push(t->heap, heaped, (uint64_t)s[at].rank << 32 | (uint32_t)at);
}

static int64_t merge_long(BluTokenizer *t, BluSymbol *s, int64_t n) {
  if (t->heap_room < 3 * n) { /* n - 1 pairs, and two for each of at most n - 1 merges */
    t->heap_room = 3 * n;
    t->heap = blu_need(realloc(t->heap, (size_t)t->heap_room * sizeof *t->heap));
  }
  int64_t heaped = 0, left = 0;
  for (int64_t i = 0; i < n; i++) s[i].previous = (int32_t)i - 1, s[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
  for (int64_t i = 0; i < n; i++) offer(t, s, &heaped, (int32_t)i);
  while (heaped) {
    uint64_t key = heap_pop(t->heap, &heaped);
    int32_t at = (int32_t)(uint32_t)key, next = s[at].next, id = 0;
    if (s[at].rank != key >> 32) continue;
    rank_of(t, s[at].id, s[next].id, &id);
    s[at].id = id;
    s[at].next = s[next].next;
    s[next].rank = NO_RANK;
    if (s[at].next >= 0) s[s[at].next].previous = at;
    offer(t, s, &heaped, at);
    if (s[at].previous >= 0) offer(t, s, &heaped, s[at].previous);
  }
  for (int32_t at = 0; at >= 0; at = s[at].next) s[left++].id = s[at].id;
  return left;
}

/* --- symbols of a word --- */

static bool unknown_byte(BluError *err, const BluTokenizer *t, const char *at, int64_t bytes) {
  if (t->byte_level || bytes == 1) return blu_error_set(err, "the vocabulary has no token for the byte %d", (unsigned char)*at);
  return blu_error_set(err, "the vocabulary has no token for the character '%.*s'", (int)bytes, at);
}

static bool byte_symbols(BluError *err, BluTokenizer *t, const char *word, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i++)
    if ((t->symbol[i].id = t->byte_id[(unsigned char)word[i]]) == BLU_NO_ID) return unknown_byte(err, t, word + i, 1);
  return true;
}

/* One symbol for a character; its bytes where it has none; the unknown token where they have none. Gives the number, -1 with an error. */
static int64_t character_symbols(BluError *err, BluTokenizer *t, const char *word, int64_t bytes) {
  int64_t n = 0;
  bool unknown = false; /* the last one was */
  for (int64_t at = 0, size; at < bytes; at += size) {
    int32_t code;
    size = blu_code_at(word + at, word + bytes, &code);
    int32_t id = code == BLU_CODE_NONE ? BLU_NO_ID : blu_bpe_find(t, word + at, size);
    bool whole = id != BLU_NO_ID, fall = !whole && t->byte_fallback;
    for (int64_t i = 0; fall && i < size; i++) fall = t->byte_id[(unsigned char)word[at + i]] != BLU_NO_ID;
    if (fall) {
      for (int64_t i = 0; i < size; i++) t->symbol[n++].id = t->byte_id[(unsigned char)word[at + i]];
    } else if (whole) {
      t->symbol[n++].id = id;
    } else if (t->unknown == BLU_NO_ID) {
      return unknown_byte(err, t, word + at, size) - 1;
    } else if (!unknown || !t->fuse_unknown) {
      t->symbol[n++].id = t->unknown;
    }
    unknown = !whole && !fall;
  }
  return n;
}

bool blu_bpe_encode(BluError *err, BluTokenizer *t, const char *word, int64_t bytes, BluIds *to) {
  enum { SHORT = 48 };
  BluCacheRow *row = NULL;
  if (bytes <= (int64_t)sizeof row->word) {
    if (!t->cache) t->cache = blu_new(BLU_CACHE_ROWS, sizeof *t->cache);
    row = &t->cache[hash_of(word, bytes) % BLU_CACHE_ROWS];
    if (row->bytes == bytes && !memcmp(row->word, word, (size_t)bytes)) {
      for (int i = 0; i < row->ids; i++) blu_ids_add(to, row->id[i]);
      return true;
    }
  }
  int32_t whole = t->ignore_merges ? blu_bpe_find(t, word, bytes) : BLU_NO_ID;
  int64_t first = to->ids, n = bytes;
  if (whole != BLU_NO_ID) {
    blu_ids_add(to, whole);
  } else {
    if (bytes > INT32_MAX) return blu_error_set(err, "a word of %" PRId64 " bytes: words have 2147483647 at most", bytes);
    if (t->symbols < bytes) {
      t->symbols = 2 * bytes;
      t->symbol = blu_need(realloc(t->symbol, (size_t)t->symbols * sizeof *t->symbol));
    }
    if (t->byte_level ? !byte_symbols(err, t, word, bytes) : (n = character_symbols(err, t, word, bytes)) < 0) return false;
    n = n <= SHORT ? merge_short(t, t->symbol, n) : merge_long(t, t->symbol, n);
    for (int64_t i = 0; i < n; i++) blu_ids_add(to, t->symbol[i].id);
  }
  n = to->ids - first;
  if (row && n <= (int64_t)(sizeof row->id / sizeof *row->id)) {
    row->bytes = (uint8_t)bytes, row->ids = (uint8_t)n;
    memcpy(row->word, word, (size_t)bytes);
    memcpy(row->id, to->id + first, (size_t)n * sizeof *row->id);
  }
  return true;
}
