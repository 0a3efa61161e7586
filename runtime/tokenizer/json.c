/* json.c - JSON as a row of nodes, read strictly: a file that isn't JSON to the letter is refused with its line and column.
 * Strings are unescaped in place, in a copy of the text: they never grow. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_internal.h"

enum { DEEPEST = 64, CHECKED_MEMBERS = 64 };

typedef struct {
  BluError *err;
  const char *path, *original; /* the text as it was given, for places: the copy changes */
  char *start, *at, *end;
  BluJson *json;
  int64_t room;
} Reader;

static bool refuse(const Reader *r, const char *what) {
  int64_t line = 1, column = 1;
  for (const char *c = r->original; c < r->original + (r->at - r->start); c++) {
    column++;
    if (*c == '\n') line++, column = 1;
  }
  return blu_error_set(r->err, "%s:%" PRId64 ":%" PRId64 ": not valid JSON: %s", r->path, line, column, what);
}

static int64_t add_node(Reader *r, BluJsonKind kind) {
  if (r->json->nodes == r->room) {
    r->room = r->room ? 2 * r->room : 256;
    r->json->node = blu_need(realloc(r->json->node, (size_t)r->room * sizeof *r->json->node));
  }
  r->json->node[r->json->nodes] = (BluJsonNode){.kind = kind};
  return r->json->nodes++;
}

static void skip_space(Reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t')) r->at++;
}

/* Four hexadecimal digits at `at`; -1: they aren't. */
static int32_t hex(const Reader *r, const char *at) {
  int32_t code = 0;
  if (r->end - at < 4) return -1;
  for (int i = 0; i < 4; i++) {
    char c = at[i];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    code = code << 4 | digit;
  }
  return code;
}

static bool read_code(Reader *r, char **to) { /* behind \u */
  int32_t code = hex(r, r->at);
  if (code < 0) return refuse(r, "\\u lacks its four digits");
  r->at += 4;
  if (code >= 0xdc00 && code < 0xe000) return refuse(r, "half of a surrogate pair");
  if (code >= 0xd800 && code < 0xdc00) {
    int32_t low = r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u' ? hex(r, r->at + 2) : -1;
    if (low < 0xdc00 || low >= 0xe000) return refuse(r, "half of a surrogate pair");
    r->at += 6;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  char bytes[4];
  int64_t n = blu_code_put(bytes, code);
  memcpy(*to, bytes, (size_t)n);
  *to += n;
  return true;
}

static bool read_string(Reader *r) {
  int64_t n = add_node(r, BLU_JSON_STRING);
  char *to = ++r->at, *text = to;
  for (;;) {
    if (r->at == r->end) return refuse(r, "a string without end");
    unsigned char c = (unsigned char)*r->at;
    if (c == '"') break;
    if (c < ' ') return refuse(r, "a control character in a string");
    if (c >= 0x80) {
      int32_t code;
      int64_t bytes = blu_code_at(r->at, r->end, &code);
      if (code == BLU_CODE_NONE) return refuse(r, "not UTF-8");
      memmove(to, r->at, (size_t)bytes);
      to += bytes, r->at += bytes;
    } else if (c != '\\') {
      *to++ = *r->at++;
    } else {
      static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
      const char *escape = r->end - r->at > 1 && r->at[1] ? strchr(escapes, r->at[1]) : NULL;
      bool code = r->end - r->at > 1 && r->at[1] == 'u';
      if (!escape && !code) return refuse(r, "an unknown escape");
      r->at += 2;
      if (escape) *to++ = meanings[escape - escapes];
      else if (!read_code(r, &to)) return false;
    }
  }
  r->at++;
  *to = 0; /* at the closing quote, or before it */
  r->json->node[n].text = text;
  r->json->node[n].bytes = to - text;
  r->json->node[n].next = r->json->nodes;
  return true;
}

static int64_t skip_digits(Reader *r) {
  const char *start = r->at;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
  return r->at - start;
}

static bool read_number(Reader *r) {
  int64_t n = add_node(r, BLU_JSON_NUMBER);
  const char *start = r->at;
  if (*r->at == '-') r->at++;
  bool zero = r->at < r->end && *r->at == '0';
  int64_t digits = skip_digits(r);
  if (!digits || (zero && digits > 1)) return refuse(r, "a malformed number");
  if (r->at < r->end && *r->at == '.' && (r->at++, !skip_digits(r))) return refuse(r, "a malformed number");
  if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
    r->at++;
    if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
    if (!skip_digits(r)) return refuse(r, "a malformed number");
  }
  BluJsonNode *node = &r->json->node[n];
  node->text = start, node->bytes = r->at - start, node->next = r->json->nodes;
  return true;
}

static bool read_word(Reader *r) {
  static const struct { const char *word; BluJsonKind kind; } words[] = {
      {"null", BLU_JSON_NULL}, {"false", BLU_JSON_FALSE}, {"true", BLU_JSON_TRUE}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t bytes = strlen(words[i].word);
    if ((size_t)(r->end - r->at) < bytes || memcmp(r->at, words[i].word, bytes)) continue;
    r->at += bytes;
    int64_t n = add_node(r, words[i].kind);
    r->json->node[n].next = r->json->nodes;
    return true;
  }
  return refuse(r, "an unexpected character");
}

/* Long objects, such as vocabularies, are left to their readers, which look names up in a map. */
static bool check_members(Reader *r, int64_t object) {
  const BluJsonNode *o = &r->json->node[object];
  if (o->count > CHECKED_MEMBERS) return true;
  const BluJsonNode *a = blu_json_child(o);
  for (int64_t i = 0; i < o->count; i++, a = blu_json_next(r->json, blu_json_next(r->json, a))) {
    const BluJsonNode *b = blu_json_child(o);
    for (int64_t j = 0; j < i; j++, b = blu_json_next(r->json, blu_json_next(r->json, b)))
      if (a->bytes == b->bytes && !memcmp(a->text, b->text, (size_t)a->bytes)) return refuse(r, "a name is given twice");
  }
  return true;
}

static bool read_value(Reader *r, int depth);

static bool read_list(Reader *r, int depth) {
  bool object = *r->at++ == '{', good = true;
  int64_t n = add_node(r, object ? BLU_JSON_OBJECT : BLU_JSON_ARRAY), count = 0;
  if (depth == DEEPEST) return refuse(r, "nested too deeply");
  skip_space(r);
  char end = object ? '}' : ']';
  while (r->at < r->end && *r->at != end) {
    if (object) {
      if (*r->at != '"') return refuse(r, "a name is expected");
      if (!read_string(r)) return false;
      skip_space(r);
      if (r->at == r->end || *r->at != ':') return refuse(r, "a ':' is expected");
      r->at++;
    }
    if (!read_value(r, depth + 1)) return false;
    count++;
    if (r->at == r->end || *r->at != ',') break;
    r->at++;
    skip_space(r);
    if (r->at < r->end && *r->at == end) return refuse(r, "nothing follows a ','");
  }
  if (r->at == r->end || *r->at != end) return refuse(r, object ? "a ',' or '}' is expected" : "a ',' or ']' is expected");
  r->at++;
  r->json->node[n].count = count;
  r->json->node[n].next = r->json->nodes;
  if (object) good = check_members(r, n);
  return good;
}

static bool read_value(Reader *r, int depth) {
  skip_space(r);
  if (r->at == r->end) return refuse(r, "it ends too early");
  char c = *r->at;
  bool good = c == '"' ? read_string(r) : c == '{' || c == '[' ? read_list(r, depth) : c == '-' || (c >= '0' && c <= '9') ? read_number(r) : read_word(r);
  skip_space(r);
  return good;
}

bool blu_json_parse(BluError *err, BluJson *json, const char *path, const char *text, int64_t bytes) {
  *json = (BluJson){.text = blu_new(bytes + 1, 1)};
  memcpy(json->text, text, (size_t)bytes);
  Reader r = {.err = err, .path = path, .original = text, .start = json->text, .at = json->text, .end = json->text + bytes, .json = json};
  bool good = read_value(&r, 0) && (r.at == r.end || refuse(&r, "something follows its end"));
  if (!good) blu_json_free(json);
  return good;
}

void blu_json_free(BluJson *json) {
  free(json->node);
  free(json->text);
  *json = (BluJson){0};
}

bool blu_json_is(const BluJsonNode *string, const char *text) {
  return string->kind == BLU_JSON_STRING && (size_t)string->bytes == strlen(text) && !memcmp(string->text, text, (size_t)string->bytes);
}

const BluJsonNode *blu_json_member(const BluJson *json, const BluJsonNode *object, const char *name) {
  if (!object || object->kind != BLU_JSON_OBJECT) return NULL;
  const BluJsonNode *n = blu_json_child(object);
  for (int64_t i = 0; i < object->count; i++) {
    const BluJsonNode *value = blu_json_next(json, n);
    if (blu_json_is(n, name)) return value;
    n = blu_json_next(json, value);
  }
  return NULL;
}

bool blu_json_int(const BluJsonNode *node, int64_t *value) {
  char text[24];
  if (!node || node->kind != BLU_JSON_NUMBER || node->bytes >= (int64_t)sizeof text) return false;
  memcpy(text, node->text, (size_t)node->bytes);
  text[node->bytes] = 0;
  return blu_text_int(text, value);
}
