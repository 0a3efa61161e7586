/* encode.c - a text to ids: added tokens first, then normalisation of what lies between, added tokens again, then the stages that cut it into
 * words, and each word by bpe.c. The order, and what each step sees, is that of the `tokenizers` library. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer_internal.h"

const char blu_gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

typedef struct {
  BluError *err;
  BluTokenizer *t;
  BluIds *to;
  bool ordinary;
} Encoder;

/* --- added tokens --- */

void blu_encode_add_trie(BluTrie *trie, const char *text, int64_t bytes, int32_t added) {
  if (!trie->nodes) {
    trie->room = 64;
    trie->node = blu_new(trie->room, sizeof *trie->node);
    trie->node[trie->nodes++] = (struct BluTrieNode){.child = -1, .sibling = -1, .added = -1};
  }
  int32_t at = 0;
  trie->first[(unsigned char)text[0]] = true;
  for (int64_t i = 0; i < bytes; i++) {
    uint8_t byte = (uint8_t)text[i];
    int32_t child = trie->node[at].child;
    while (child >= 0 && trie->node[child].byte != byte) child = trie->node[child].sibling;
    if (child < 0) {
      if (trie->nodes == trie->room) {
        trie->room *= 2;
        trie->node = blu_need(realloc(trie->node, (size_t)trie->room * sizeof *trie->node));
      }
      child = trie->nodes++;
      trie->node[child] = (struct BluTrieNode){.child = -1, .sibling = trie->node[at].child, .added = -1, .byte = byte};
      trie->node[at].child = child;
    }
    at = child;
  }
  if (trie->node[at].added < 0) trie->node[at].added = added;
}

/* The longest added token that begins at `at`: its index and end; -1: none. */
static int32_t added_at(const BluTrie *trie, const char *text, int64_t bytes, int64_t at, int64_t *end) {
  int32_t node = 0, found = -1;
  while (at < bytes) {
    int32_t child = trie->node[node].child;
    while (child >= 0 && trie->node[child].byte != (uint8_t)text[at]) child = trie->node[child].sibling;
    if (child < 0) break;
    node = child;
    at++;
    if (trie->node[node].added >= 0) found = trie->node[node].added, *end = at;
  }
  return found;
}

static int64_t space_before(const char *text, int64_t from, int64_t at) { /* where the white space that ends at `at` begins */
  while (at > from) {
    int64_t back = 1;
    int32_t code;
    while (back < 4 && at - back > from && ((unsigned char)text[at - back] & 0xc0) == 0x80) back++;
    if (blu_code_at(text + at - back, text + at, &code) != back || !blu_code_is_space(code)) break;
    at -= back;
  }
  return at;
}

static int64_t space_behind(const char *text, int64_t at, int64_t bytes) {
  int32_t code;
  for (int64_t n; at < bytes && (n = blu_code_at(text + at, text + bytes, &code), blu_code_is_space(code)); at += n) continue;
  return at;
}

/* Calls `between` for what lies between the added tokens of one kind. */
static bool cut_at_added(Encoder *e, const BluTrie *trie, const char *text, int64_t bytes, bool first,
                         bool (*between)(Encoder *e, const char *text, int64_t bytes, bool first)) {
  int64_t start = 0;
  for (int64_t at = 0; trie->nodes && at < bytes;) {
    int64_t end = at;
    int32_t found = trie->first[(unsigned char)text[at]] ? added_at(trie, text, bytes, at, &end) : -1;
    if (found < 0) {
      at++;
      continue;
    }
    const BluAdded *a = &e->t->added[found];
    int64_t from = at, to = end;
    at = end;
    if (e->ordinary && a->special) continue;
    if (a->left) from = space_before(text, start, from);
    if (a->right) to = space_behind(text, to, bytes);
    if (from > start && !between(e, text + start, from - start, first && !start)) return false;
    blu_ids_add(e->to, a->id);
    start = to;
    if (at < to) at = to;
  }
  return start >= bytes || between(e, text + start, bytes - start, first && !start);
}

/* --- normalisation --- */

static void replace(BluText *to, const char *text, int64_t bytes, const char *what, const char *with) {
  int64_t n = (int64_t)strlen(what), m = (int64_t)strlen(with);
  for (int64_t at = 0; at < bytes;) {
    const char *found = memmem(text + at, (size_t)(bytes - at), what, (size_t)n);
    int64_t until = found ? found - text : bytes;
    blu_text_add(to, text + at, until - at);
    if (found) blu_text_add(to, with, m);
    at = until + (found ? n : 0);
  }
}

void blu_encode_normalise(BluTokenizer *t, BluText *to, const char *text, int64_t bytes) {
  BluText from = {0}, made = {0};
  blu_text_add(&from, text, bytes);
  for (int i = 0; i < t->normals; i++) {
    const BluNormal *n = &t->normal[i];
    made.bytes = 0;
    if (n->kind == BLU_NORMAL_FORM) {
      blu_code_normalise(&made, from.text, from.bytes, n->form);
    } else if (n->kind == BLU_NORMAL_BEFORE) {
      if (from.bytes) blu_text_add(&made, n->with, (int64_t)strlen(n->with));
      blu_text_add(&made, from.text, from.bytes);
    } else {
      replace(&made, from.text, from.bytes, n->what, n->with);
    }
    BluText last = from;
    from = made;
    made = last;
  }
  blu_text_add(to, from.text, from.bytes);
  free(from.text);
  free(made.text);
}

/* --- words --- */

static bool encode_word(Encoder *e, const char *word, int64_t bytes) {
  enum { MANY = 1 << 18 };
  if (e->to->spill && e->to->ids > MANY) e->to->spill(e->to, e->to->user);
  int64_t n = (int64_t)strlen(e->t->mark), start = 0;
  if (!n) return blu_bpe_encode(e->err, e->t, word, bytes, e->to);
  for (int64_t at = 1; at + n <= bytes; at++) {
    if (word[at] != e->t->mark[0] || memcmp(word + at, e->t->mark, (size_t)n)) continue;
    if (at >= n && !memcmp(word + at - n, e->t->mark, (size_t)n)) continue;
    if (!blu_bpe_encode(e->err, e->t, word + start, at - start, e->to)) return false;
    start = at;
  }
  return blu_bpe_encode(e->err, e->t, word + start, bytes - start, e->to);
}

static bool run_stage(Encoder *e, int stage, const char *text, int64_t bytes, bool first);

/* The pieces of a text in their order, matched or not, joined as the stage says. A piece is held back until it can't grow any more. */
typedef struct {
  Encoder *e;
  int stage;
  const char *text;
  int64_t start, end;
  bool matched, any, first;
} Pieces;

static bool give(Pieces *p) {
  bool good = !p->any || p->end == p->start || run_stage(p->e, p->stage + 1, p->text + p->start, p->end - p->start, p->first && !p->start);
  p->any = false;
  return good;
}

static bool add_piece(Pieces *p, BluCut cut, int64_t start, int64_t end, bool matched) {
  if (start == end) return true;
  bool last = p->matched, join = p->any && (cut == BLU_CUT_CONTIGUOUS ? matched == last : cut == BLU_CUT_PREVIOUS ? matched && !last
                                                                    : cut == BLU_CUT_NEXT ? last && !matched : false);
  if (!join) {
    if (!give(p)) return false;
    p->start = start;
    p->any = cut != BLU_CUT_REMOVED || !matched;
  }
  p->end = end;
  p->matched = matched;
  return true;
}

static bool cut(Encoder *e, int stage, const char *text, int64_t bytes, bool first) {
  const BluStage *s = &e->t->stage[stage];
  Pieces p = {.e = e, .stage = stage, .text = text, .first = first};
  int64_t at = 0, from = 0, to = 0;
  while (at < bytes) {
    int found = blu_pattern_find(s->pattern, text, bytes, at, &from, &to);
    if (found < 0) return blu_error_set(e->err, "the split pattern of the tokenizer takes too many steps on this text");
    if (!found) from = to = bytes;
    if (!add_piece(&p, s->cut, at, from, s->invert) || !add_piece(&p, s->cut, from, to, !s->invert)) return false;
    at = to;
  }
  return give(&p);
}

/* Runs the stages from this one on. */
static bool run_stage(Encoder *e, int stage, const char *text, int64_t bytes, bool first) {
  BluTokenizer *t = e->t;
  if (stage == t->stages) return encode_word(e, text, bytes);
  const BluStage *s = &t->stage[stage];
  BluText *room = &t->scratch[stage];
  int64_t mark = (int64_t)strlen(s->mark);
  switch (s->kind) {
  case BLU_STAGE_CUT: return cut(e, stage, text, bytes, first);
  case BLU_STAGE_BLANK:
    if (text[0] == ' ') break;
    room->bytes = 0;
    blu_text_add(room, " ", 1);
    blu_text_add(room, text, bytes);
    return run_stage(e, stage + 1, room->text, room->bytes, first);
  case BLU_STAGE_REPLACE:
    room->bytes = 0;
    if (s->before == BLU_BEFORE_ALWAYS || (s->before == BLU_BEFORE_FIRST && first))
      if (text[0] != ' ' && (bytes < mark || memcmp(text, s->mark, (size_t)mark))) blu_text_add(room, s->mark, mark);
    replace(room, text, bytes, " ", s->mark);
    return run_stage(e, stage + 1, room->text, room->bytes, first);
  }
  return run_stage(e, stage + 1, text, bytes, first);
}

static bool encode_words(Encoder *e, const char *text, int64_t bytes, bool first) { return run_stage(e, 0, text, bytes, first); }

static bool encode_between(Encoder *e, const char *text, int64_t bytes, bool first) {
  BluTokenizer *t = e->t;
  if (!t->normals) return cut_at_added(e, &t->normalised, text, bytes, first, encode_words);
  t->form.bytes = 0;
  blu_encode_normalise(t, &t->form, text, bytes);
  return cut_at_added(e, &t->normalised, t->form.text, t->form.bytes, first, encode_words);
}

bool blu_tokenizer_encode(BluError *err, BluTokenizer *t, const char *text, int64_t bytes, bool ordinary, BluIds *to) {
  Encoder e = {.err = err, .t = t, .to = to, .ordinary = ordinary};
  return bytes <= 0 || cut_at_added(&e, &t->raw, text, bytes, true, encode_between);
}
