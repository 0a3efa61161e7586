/* vocabulary.c - a tokenizer's tokens: how they are filled in by the readers, and what a caller may ask about them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_internal.h"

enum { MOST_IDS = 1 << 24, LONGEST_ADDED = 1024 };

/* GPT-2's way to write bytes: those that Latin-1 can print stand for themselves, the others for 256, 257 .. in their order. */
static bool stands_for_itself(int byte) { return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae; }

int64_t blu_byte_level_text(const char *text, int64_t bytes, char *to) {
  static const uint8_t others[] = {0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,  16,  17,  18,  19,  20,  21,  22,
                                   23,  24,  25,  26,  27,  28,  29,  30,  31,  32,  127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139,
                                   140, 141, 142, 143, 144, 145, 146, 147, 148, 149, 150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 173};
  int64_t n = 0;
  for (int64_t at = 0; at < bytes;) {
    int32_t code;
    at += blu_code_at(text + at, text + bytes, &code);
    if (code >= 0 && code < 256 && stands_for_itself(code)) to[n++] = (char)code;
    else if (code >= 256 && code < 256 + (int32_t)sizeof others) to[n++] = (char)others[code - 256];
    else return -1;
  }
  return n;
}

BluTokenizer *blu_tokenizer_new(void) {
  BluTokenizer *t = blu_new(1, sizeof *t);
  t->unknown = BLU_NO_ID;
  return t;
}

void blu_tokenizer_free(BluTokenizer *t) {
  if (!t) return;
  for (int64_t i = 0; i < t->count; i++) free(t->token[i].text), free(t->token[i].shown);
  for (int64_t i = 0; i < t->addeds; i++) free(t->added[i].text);
  for (int i = 0; i < t->normals; i++) free(t->normal[i].what), free(t->normal[i].with);
  for (int i = 0; i < t->stages; i++) blu_pattern_free(t->stage[i].pattern);
  for (int i = 0; i <= BLU_STAGES; i++) free(t->scratch[i].text);
  free(t->form.text);
  free(t->raw.node), free(t->normalised.node);
  free(t->token), free(t->names.slot), free(t->merge), free(t->added), free(t->prefix), free(t->symbol), free(t->heap), free(t->cache);
  free(t);
}

/* --- filling --- */

bool blu_read_names(BluError *err, BluTokenizer *t, const char *path, const BluJson *json, const BluJsonNode *names, int64_t merges, int64_t count) {
  const BluJsonNode *name = blu_json_child(names), *value;
  int64_t id;
  for (int64_t i = 0; i < names->count; i++, name = blu_json_next(json, value)) {
    value = blu_json_next(json, name);
    if (!blu_json_int(value, &id) || id < 0 || id >= MOST_IDS)
      return blu_error_set(err, "%s: the id of token '%.80s' is no whole number from 0 to %d", path, name->text, MOST_IDS - 1);
    if (id >= count) count = id + 1;
  }
  t->token = blu_new(count, sizeof *t->token);
  t->count = count;
  blu_bpe_reserve(t, names->count, merges);
  BluText room = {0};
  bool good = true;
  name = blu_json_child(names);
  for (int64_t i = 0; good && i < names->count; i++, name = blu_json_next(json, value)) {
    value = blu_json_next(json, name);
    blu_json_int(value, &id);
    room.bytes = 0;
    blu_text_add(&room, name->text, name->bytes);
    int64_t bytes = t->byte_level ? blu_byte_level_text(name->text, name->bytes, room.text) : name->bytes;
    if (bytes < 0 && !t->token[id].text) { /* no text becomes it */
      t->token[id].text = blu_text_print("%.*s", (int)name->bytes, name->text);
      t->token[id].bytes = name->bytes;
    } else {
      good = bytes >= 0 && blu_bpe_add(t, (int32_t)id, room.text, bytes);
    }
    if (!good) blu_error_set(err, "%s: token '%.80s' or its id %" PRId64 " is given twice", path, name->text, id);
  }
  free(room.text);
  return good;
}

bool blu_read_merge(BluError *err, BluTokenizer *t, const char *path, const char *left, int64_t left_bytes, const char *right, int64_t right_bytes,
                    int64_t rank) {
  if (!left_bytes || !right_bytes) return blu_error_set(err, "%s: merge %" PRId64 " has an empty half", path, rank);
  BluText joined = {0};
  blu_text_add(&joined, left, left_bytes);
  blu_text_add(&joined, right, right_bytes);
  int64_t a = left_bytes, b = right_bytes;
  if (t->byte_level) {
    a = blu_byte_level_text(left, left_bytes, joined.text); /* not longer than what it is made of */
    b = a < 0 ? -1 : blu_byte_level_text(right, right_bytes, joined.text + a);
  }
  int32_t from = b < 0 ? BLU_NO_ID : blu_bpe_find(t, joined.text, a), with = b < 0 ? BLU_NO_ID : blu_bpe_find(t, joined.text + a, b);
  int32_t id = b < 0 ? BLU_NO_ID : blu_bpe_find(t, joined.text, a + b);
  free(joined.text);
  if (from != BLU_NO_ID && with != BLU_NO_ID && id != BLU_NO_ID) return blu_bpe_add_merge(t, from, with, (uint32_t)rank, id), true;
  return blu_error_set(err, "%s: merge %" PRId64 ", of '%.*s' and '%.*s': %s no token of the vocabulary", path, rank, left_bytes > 80 ? 80 : (int)left_bytes,
                       left, right_bytes > 80 ? 80 : (int)right_bytes, right, from == BLU_NO_ID || with == BLU_NO_ID ? "one of them is" : "together they are");
}

bool blu_read_added(BluError *err, BluTokenizer *t, const char *path, const char *content, int64_t bytes, BluAdded added) {
  if (bytes < 1 || bytes > LONGEST_ADDED)
    return blu_error_set(err, "%s: an added token of %" PRId64 " bytes: they have 1 to %d", path, bytes, LONGEST_ADDED);
  if (added.id < 0 || added.id >= t->count) return blu_error_set(err, "%s: the id of added token '%.*s' is out of range", path, (int)bytes, content);
  BluToken *token = &t->token[added.id];
  int32_t known = blu_bpe_find(t, content, bytes);
  bool same = token->text && token->bytes == bytes && !memcmp(token->text, content, (size_t)bytes);
  if ((token->text && !same) || (known != BLU_NO_ID && known != added.id))
    return blu_error_set(err, "%s: added token '%.*s' has the id %d, which %s", path, (int)bytes, content, added.id,
                         token->text && !same ? "another token has" : "the vocabulary doesn't give it");
  if (!token->text) {
    token->text = blu_new(bytes + 1, 1);
    memcpy(token->text, content, (size_t)bytes);
    token->bytes = bytes;
  }
  token->special = added.special;
  added.text = blu_new(bytes + 1, 1);
  memcpy(added.text, content, (size_t)bytes);
  added.bytes = bytes;
  t->added = blu_need(realloc(t->added, (size_t)(t->addeds + 1) * sizeof *t->added));
  t->added[t->addeds++] = added;
  return true;
}

/* Words may be cut before the mark, a single character, if no token has it behind another character: then no merge goes across. */
static void check_mark(BluTokenizer *t) {
  int64_t n = (int64_t)strlen(t->mark);
  bool cut = n && !t->ignore_merges && blu_bpe_find(t, t->mark, n) != BLU_NO_ID;
  for (int64_t i = 0; cut && i < t->count; i++) {
    const BluToken *token = &t->token[i];
    for (int64_t at = n; cut && at + n <= token->bytes; at++)
      cut = memcmp(token->text + at, t->mark, (size_t)n) || !memcmp(token->text + at - n, t->mark, (size_t)n);
    for (int64_t at = 1; cut && at < n && at + n <= token->bytes; at++) cut = memcmp(token->text + at, t->mark, (size_t)n);
  }
  if (!cut) t->mark[0] = 0;
}

void blu_read_finish(BluTokenizer *t) {
  for (int i = 0; i < 256; i++) {
    char text[8] = {(char)i};
    int n = t->byte_level ? 1 : snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
    t->byte_id[i] = t->byte_level || t->byte_fallback ? blu_bpe_find(t, text, n) : BLU_NO_ID;
  }
  if (!t->byte_level) check_mark(t);
  for (int64_t i = 0; i < t->addeds; i++) {
    const BluAdded *a = &t->added[i];
    BluText normal = {0};
    if (a->normalized) blu_encode_normalise(t, &normal, a->text, a->bytes);
    else blu_text_add(&normal, a->text, a->bytes);
    if (normal.bytes) blu_encode_add_trie(a->normalized ? &t->normalised : &t->raw, normal.text, normal.bytes, (int32_t)i);
    free(normal.text);
  }
}

/* --- asking --- */

int64_t blu_tokenizer_count(const BluTokenizer *t) { return t->count; }

int64_t blu_tokenizer_find(const BluTokenizer *t, const char *token) {
  for (int64_t i = 0; i < t->addeds; i++)
    if (!strcmp(t->added[i].text, token)) return t->added[i].id;
  return blu_bpe_find(t, token, (int64_t)strlen(token));
}

bool blu_tokenizer_is_special(const BluTokenizer *t, int64_t id) { return id >= 0 && id < t->count && t->token[id].special; }

const char *blu_tokenizer_text(const BluTokenizer *t, int64_t id, int64_t *bytes) {
  *bytes = 0;
  if (id < 0 || id >= t->count) return NULL;
  const BluToken *token = &t->token[id];
  *bytes = token->shown ? token->shown_bytes : token->bytes;
  return token->shown ? token->shown : token->text;
}

int64_t blu_tokenizer_blank(const BluTokenizer *t) { return t->blank; }

const int32_t *blu_tokenizer_prefix(const BluTokenizer *t, int64_t *ids) {
  *ids = t->prefixes;
  return t->prefix;
}

int64_t blu_tokenizer_separator(const BluTokenizer *t) {
  static const char *const usual[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};
  if (t->prefixes) return t->prefix[t->prefixes - 1];
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
    int64_t id = blu_tokenizer_find(t, usual[i]);
    if (id >= 0) return id;
  }
  return -1;
}
