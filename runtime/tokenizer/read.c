/* read.c - tokenizer.json: each of its parts is understood or refused by name, and so is a member that isn't known. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_internal.h"

typedef struct {
  BluError *err;
  const char *path;
  const BluJson *json;
  BluTokenizer *t;
  bool blanks;             /* the decoder makes the mark a blank */
  bool bytes;              /* and <0xNN> a byte */
  char mark[8];            /* of the decoder */
} Reader;

static bool refuse(const Reader *r, const char *part, const BluJsonNode *value) {
  if (value && value->kind == BLU_JSON_STRING) return blu_error_set(r->err, "%s: %s '%.80s' is not supported", r->path, part, value->text);
  return blu_error_set(r->err, "%s: %s is not supported", r->path, part);
}

static const BluJsonNode *member(const Reader *r, const BluJsonNode *object, const char *name) { return blu_json_member(r->json, object, name); }
static bool absent(const BluJsonNode *value) { return !value || value->kind == BLU_JSON_NULL; }

/* An object whose members are all among the known, each between spaces. */
static bool known(const Reader *r, const BluJsonNode *object, const char *part, const char *names) {
  if (object->kind != BLU_JSON_OBJECT) return blu_error_set(r->err, "%s: %s is no object", r->path, part);
  const BluJsonNode *name = blu_json_child(object);
  for (int64_t i = 0; i < object->count; i++) {
    const BluJsonNode *value = blu_json_next(r->json, name);
    char padded[48];
    snprintf(padded, sizeof padded, " %.40s ", name->text);
    if (!strstr(names, padded) && !absent(value)) return blu_error_set(r->err, "%s: member '%.80s' of %s is not supported", r->path, name->text, part);
    name = blu_json_next(r->json, value);
  }
  return true;
}

/* A member that is true or false; `other` where it is absent. */
static bool flag(const Reader *r, const BluJsonNode *object, const char *part, const char *name, bool other, bool *value) {
  const BluJsonNode *n = member(r, object, name);
  *value = absent(n) ? other : n->kind == BLU_JSON_TRUE;
  return absent(n) || n->kind <= BLU_JSON_TRUE || blu_error_set(r->err, "%s: member '%s' of %s is neither true nor false", r->path, name, part);
}

/* A member that is a string without NUL. */
static const BluJsonNode *text(const Reader *r, const BluJsonNode *object, const char *part, const char *name) {
  const BluJsonNode *n = member(r, object, name);
  if (n && n->kind == BLU_JSON_STRING && strlen(n->text) == (size_t)n->bytes) return n;
  blu_error_set(r->err, "%s: member '%s' of %s is missing or no string", r->path, name, part);
  return NULL;
}

static bool is_type(const Reader *r, const BluJsonNode *object, const char *type) {
  const BluJsonNode *n = member(r, object, "type");
  return n && blu_json_is(n, type);
}

/* Calls `each` for the elements of a Sequence's list. */
static bool for_each(Reader *r, const BluJsonNode *sequence, const char *part, const char *list, bool (*each)(Reader *r, const BluJsonNode *node)) {
  const BluJsonNode *array = member(r, sequence, list);
  if (!array || array->kind != BLU_JSON_ARRAY) return blu_error_set(r->err, "%s: %s has no list '%s'", r->path, part, list);
  const BluJsonNode *n = blu_json_child(array);
  for (int64_t i = 0; i < array->count; i++, n = blu_json_next(r->json, n))
    if (!each(r, n)) return false;
  return true;
}

/* --- normalizer --- */

/* A string of one character, which has 4 bytes at most. */
static bool is_character(const BluJsonNode *string) {
  int32_t code;
  return string->bytes && blu_code_at(string->text, string->text + string->bytes, &code) == string->bytes;
}

static bool add_normal(Reader *r, BluNormal normal) {
  if (r->t->normals == BLU_STAGES) return blu_error_set(r->err, "%s: more than %d normalizers", r->path, BLU_STAGES);
  r->t->normal[r->t->normals++] = normal;
  return true;
}

static bool read_normalizer(Reader *r, const BluJsonNode *n) {
  static const char part[] = "the normalizer";
  static const struct { const char *type; BluForm form; } forms[] = {{"NFC", BLU_FORM_NFC}, {"NFD", BLU_FORM_NFD}};
  if (!known(r, n, part, " type normalizers prepend pattern content ")) return false;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (is_type(r, n, forms[i].type)) return add_normal(r, (BluNormal){.kind = BLU_NORMAL_FORM, .form = forms[i].form});
  if (is_type(r, n, "Sequence")) return for_each(r, n, part, "normalizers", read_normalizer);
  if (is_type(r, n, "Prepend")) {
    const BluJsonNode *with = text(r, n, part, "prepend");
    return with && add_normal(r, (BluNormal){.kind = BLU_NORMAL_BEFORE, .with = blu_text_print("%s", with->text)});
  }
  if (!is_type(r, n, "Replace")) return refuse(r, part, member(r, n, "type"));
  const BluJsonNode *pattern = member(r, n, "pattern"), *with = text(r, n, part, "content"), *what = pattern ? member(r, pattern, "String") : NULL;
  if (!with) return false;
  if (!what || what->kind != BLU_JSON_STRING || !what->bytes || strlen(what->text) != (size_t)what->bytes)
    return blu_error_set(r->err, "%s: %s: Replace of anything but a String is not supported", r->path, part);
  if (!strcmp(what->text, " ") && is_character(with)) strcpy(r->t->mark, with->text);
  return add_normal(r, (BluNormal){.kind = BLU_NORMAL_REPLACE, .what = blu_text_print("%s", what->text), .with = blu_text_print("%s", with->text)});
}

/* --- pre_tokenizer --- */

static bool add_stage(Reader *r, BluStage stage) {
  bool good = r->t->stages < BLU_STAGES && !r->t->byte_level;
  if (good) r->t->stage[r->t->stages++] = stage;
  else {
    blu_pattern_free(stage.pattern);
    blu_error_set(r->err, "%s: the pre_tokenizer has %s", r->path, r->t->byte_level ? "a step behind ByteLevel" : "too many steps");
  }
  return good;
}

static bool add_pattern(Reader *r, const char *pattern, int64_t bytes, BluCut cut, bool invert) {
  BluError why;
  BluPattern *made = blu_pattern_compile(&why, pattern, bytes);
  if (!made) return blu_error_set(r->err, "%s: the pre_tokenizer's pattern asks for %s, which is not supported", r->path, why.text);
  return add_stage(r, (BluStage){.kind = BLU_STAGE_CUT, .pattern = made, .cut = cut, .invert = invert});
}

static bool read_cut(Reader *r, const BluJsonNode *n) {
  static const char part[] = "the pre_tokenizer Split";
  static const struct { const char *name; BluCut cut; } cuts[] = {{"Isolated", BLU_CUT_ISOLATED}, {"Removed", BLU_CUT_REMOVED},
      {"MergedWithPrevious", BLU_CUT_PREVIOUS}, {"MergedWithNext", BLU_CUT_NEXT}, {"Contiguous", BLU_CUT_CONTIGUOUS}};
  const BluJsonNode *pattern = member(r, n, "pattern"), *how = text(r, n, part, "behavior");
  const BluJsonNode *regex = pattern ? member(r, pattern, "Regex") : NULL, *literal = pattern ? member(r, pattern, "String") : NULL;
  bool invert;
  if (!how || !flag(r, n, part, "invert", false, &invert)) return false;
  size_t i = 0;
  while (i < sizeof cuts / sizeof *cuts && !blu_json_is(how, cuts[i].name)) i++;
  if (i == sizeof cuts / sizeof *cuts) return refuse(r, "the behavior of Split", how);
  if (regex && regex->kind == BLU_JSON_STRING) return add_pattern(r, regex->text, regex->bytes, cuts[i].cut, invert);
  BluPattern *made = literal && literal->kind == BLU_JSON_STRING ? blu_pattern_literal(literal->text, literal->bytes) : NULL;
  if (!made) return blu_error_set(r->err, "%s: %s has no pattern Regex or String, or a String that is empty or too long", r->path, part);
  return add_stage(r, (BluStage){.kind = BLU_STAGE_CUT, .pattern = made, .cut = cuts[i].cut, .invert = invert});
}

/* Metaspace, in older files with add_prefix_space in the place of prepend_scheme. */
static bool read_before(Reader *r, const BluJsonNode *n, const char *part, BluBefore *before) {
  const BluJsonNode *scheme = member(r, n, "prepend_scheme");
  bool prefix;
  if (!flag(r, n, part, "add_prefix_space", true, &prefix)) return false;
  *before = prefix ? BLU_BEFORE_ALWAYS : BLU_BEFORE_NEVER;
  if (absent(scheme)) return true;
  if (blu_json_is(scheme, "always")) *before = BLU_BEFORE_ALWAYS;
  else if (blu_json_is(scheme, "first")) *before = BLU_BEFORE_FIRST;
  else if (blu_json_is(scheme, "never")) *before = BLU_BEFORE_NEVER;
  else return refuse(r, "the prepend_scheme of Metaspace", scheme);
  return true;
}

static bool read_metaspace(Reader *r, const BluJsonNode *n) {
  static const char part[] = "the pre_tokenizer Metaspace";
  BluStage stage = {.kind = BLU_STAGE_REPLACE};
  const BluJsonNode *mark = text(r, n, part, "replacement");
  bool split;
  if (!mark || !read_before(r, n, part, &stage.before) || !flag(r, n, part, "split", true, &split)) return false;
  if (!is_character(mark)) return refuse(r, "the replacement of Metaspace", mark);
  strcpy(stage.mark, mark->text);
  strcpy(r->t->mark, mark->text);
  if (!add_stage(r, stage)) return false;
  return !split || add_stage(r, (BluStage){.kind = BLU_STAGE_CUT, .pattern = blu_pattern_literal(mark->text, mark->bytes), .cut = BLU_CUT_NEXT});
}

static bool read_pre_tokenizer(Reader *r, const BluJsonNode *n) {
  static const char part[] = "the pre_tokenizer";
  bool blank, cut;
  if (!known(r, n, part, " type pretokenizers add_prefix_space trim_offsets use_regex pattern behavior invert individual_digits replacement "
                         "prepend_scheme split str_rep "))
    return false;
  if (is_type(r, n, "Sequence")) return for_each(r, n, part, "pretokenizers", read_pre_tokenizer);
  if (is_type(r, n, "Split")) return read_cut(r, n);
  if (is_type(r, n, "Metaspace")) return read_metaspace(r, n);
  if (is_type(r, n, "Digits")) {
    if (!flag(r, n, part, "individual_digits", false, &cut)) return false;
    return add_pattern(r, "\\p{N}", 5, cut ? BLU_CUT_ISOLATED : BLU_CUT_CONTIGUOUS, false);
  }
  if (!is_type(r, n, "ByteLevel")) return refuse(r, part, member(r, n, "type"));
  if (!flag(r, n, part, "add_prefix_space", true, &blank) || !flag(r, n, part, "use_regex", true, &cut)) return false;
  if (blank && !add_stage(r, (BluStage){.kind = BLU_STAGE_BLANK})) return false;
  if (cut && !add_pattern(r, blu_gpt2_pattern, (int64_t)strlen(blu_gpt2_pattern), BLU_CUT_ISOLATED, false)) return false;
  if (r->t->byte_level) return blu_error_set(r->err, "%s: the pre_tokenizer has ByteLevel twice", r->path);
  return r->t->byte_level = true;
}

/* --- decoder --- */

static bool read_decoder(Reader *r, const BluJsonNode *n) {
  static const char part[] = "the decoder";
  if (!known(r, n, part, " type decoders add_prefix_space trim_offsets use_regex pattern content start stop replacement prepend_scheme split str_rep "))
    return false;
  if (is_type(r, n, "Sequence")) return for_each(r, n, part, "decoders", read_decoder);
  if (is_type(r, n, "ByteLevel") && r->t->byte_level) return true;
  if (r->t->byte_level) return refuse(r, "with the pre_tokenizer ByteLevel, the decoder", member(r, n, "type"));
  if (is_type(r, n, "ByteFallback")) return r->bytes = true;
  if (is_type(r, n, "Fuse")) return true;
  if (is_type(r, n, "Metaspace")) {
    const BluJsonNode *mark = text(r, n, part, "replacement");
    BluBefore before;
    if (!mark || !read_before(r, n, part, &before)) return false;
    if (!is_character(mark)) return refuse(r, "the replacement of Metaspace", mark);
    strcpy(r->mark, mark->text);
    r->t->blank = before != BLU_BEFORE_NEVER;
    return r->blanks = true;
  }
  if (is_type(r, n, "Strip")) {
    const BluJsonNode *content = member(r, n, "content");
    int64_t start, stop;
    bool usual = content && blu_json_is(content, " ") && blu_json_int(member(r, n, "start"), &start) && blu_json_int(member(r, n, "stop"), &stop) &&
                 start >= 0 && start <= 1 && !stop;
    if (!usual) return blu_error_set(r->err, "%s: %s: Strip of anything but one blank at the start is not supported", r->path, part);
    r->t->blank = start;
    return true;
  }
  const BluJsonNode *pattern = member(r, n, "pattern"), *what = pattern ? member(r, pattern, "String") : NULL, *with = member(r, n, "content");
  if (!is_type(r, n, "Replace")) return refuse(r, part, member(r, n, "type"));
  if (!what || what->kind != BLU_JSON_STRING || !what->bytes || what->bytes > 4 || !with || !blu_json_is(with, " "))
    return blu_error_set(r->err, "%s: %s: Replace of anything but one character by a blank is not supported", r->path, part);
  memcpy(r->mark, what->text, (size_t)what->bytes + 1);
  return r->blanks = true;
}

/* What the decoder makes of the tokens of a vocabulary of characters. */
static void show_tokens(Reader *r) {
  BluTokenizer *t = r->t;
  int64_t n = (int64_t)strlen(r->mark);
  for (int64_t i = 0; i < t->count && !t->byte_level; i++) {
    BluToken *token = &t->token[i];
    if (!token->text) continue;
    bool byte = r->bytes && token->bytes == 6 && !strncmp(token->text, "<0x", 3) && token->text[5] == '>' && strspn(token->text + 3, "0123456789ABCDEF") == 2;
    if (byte) {
      token->shown = blu_new(2, 1);
      token->shown[0] = (char)strtol(token->text + 3, NULL, 16);
      token->shown_bytes = 1;
    } else if (r->blanks && n && memmem(token->text, (size_t)token->bytes, r->mark, (size_t)n)) {
      BluText shown = {0};
      for (int64_t at = 0; at < token->bytes;) {
        bool mark = at + n <= token->bytes && !memcmp(token->text + at, r->mark, (size_t)n);
        blu_text_add(&shown, mark ? " " : token->text + at, 1);
        at += mark ? n : 1;
      }
      token->shown = shown.text;
      token->shown_bytes = shown.bytes;
    }
  }
}

/* --- post_processor --- */

static bool read_template(Reader *r, const BluJsonNode *n) {
  static const char part[] = "the post_processor TemplateProcessing";
  const BluJsonNode *single = member(r, n, "single"), *specials = member(r, n, "special_tokens");
  if (!single || single->kind != BLU_JSON_ARRAY) return blu_error_set(r->err, "%s: %s has no list 'single'", r->path, part);
  const BluJsonNode *piece = blu_json_child(single);
  for (int64_t i = 0; i < single->count; i++, piece = blu_json_next(r->json, piece)) {
    const BluJsonNode *special = member(r, piece, "SpecialToken"), *name = special ? member(r, special, "id") : NULL;
    if (member(r, piece, "Sequence")) return true; /* what follows it is for whole texts, and isn't used */
    const BluJsonNode *entry = name && name->kind == BLU_JSON_STRING && specials ? member(r, specials, name->text) : NULL;
    const BluJsonNode *ids = entry ? member(r, entry, "ids") : NULL;
    if (!ids || ids->kind != BLU_JSON_ARRAY) return blu_error_set(r->err, "%s: %s has a token without ids", r->path, part);
    const BluJsonNode *id = blu_json_child(ids);
    for (int64_t j = 0; j < ids->count; j++, id = blu_json_next(r->json, id)) {
      int64_t value;
      if (!blu_json_int(id, &value) || value < 0 || value >= r->t->count || !r->t->token[value].text)
        return blu_error_set(r->err, "%s: %s has an id that no token has", r->path, part);
      r->t->prefix = blu_need(realloc(r->t->prefix, (size_t)(r->t->prefixes + 1) * sizeof *r->t->prefix));
      r->t->prefix[r->t->prefixes++] = (int32_t)value;
    }
  }
  return true;
}

static bool read_post_processor(Reader *r, const BluJsonNode *n) {
  static const char part[] = "the post_processor";
  if (!known(r, n, part, " type processors add_prefix_space trim_offsets use_regex single pair special_tokens ")) return false;
  if (is_type(r, n, "Sequence")) return for_each(r, n, part, "processors", read_post_processor);
  if (is_type(r, n, "ByteLevel")) return true; /* it changes offsets alone */
  return is_type(r, n, "TemplateProcessing") ? read_template(r, n) : refuse(r, part, member(r, n, "type"));
}

/* --- model and added tokens --- */

static bool read_merges(Reader *r, const BluJsonNode *merges) {
  const BluJsonNode *n = blu_json_child(merges);
  for (int64_t i = 0; i < merges->count; i++, n = blu_json_next(r->json, n)) {
    const BluJsonNode *left = blu_json_child(n);
    const char *blank = n->kind == BLU_JSON_STRING ? memchr(n->text, ' ', (size_t)n->bytes) : NULL;
    bool pair = n->kind == BLU_JSON_ARRAY && n->count == 2 && left->kind == BLU_JSON_STRING && blu_json_next(r->json, left)->kind == BLU_JSON_STRING;
    if (pair) {
      const BluJsonNode *right = blu_json_next(r->json, left);
      if (!blu_read_merge(r->err, r->t, r->path, left->text, left->bytes, right->text, right->bytes, i)) return false;
    } else if (blank && !memchr(blank + 1, ' ', (size_t)(n->text + n->bytes - blank - 1))) {
      if (!blu_read_merge(r->err, r->t, r->path, n->text, blank - n->text, blank + 1, n->text + n->bytes - blank - 1, i)) return false;
    } else {
      return blu_error_set(r->err, "%s: merge %" PRId64 " is neither \"A B\" nor [\"A\", \"B\"]", r->path, i);
    }
  }
  return true;
}

/* Highest id of the added tokens + 1. */
static int64_t count_added(const Reader *r, const BluJsonNode *added) {
  int64_t count = 0, id;
  const BluJsonNode *n = added ? blu_json_child(added) : NULL;
  for (int64_t i = 0; n && i < added->count; i++, n = blu_json_next(r->json, n))
    if (blu_json_int(member(r, n, "id"), &id) && id >= count && id < 1 << 24) count = id + 1;
  return count;
}

static bool read_added(Reader *r, const BluJsonNode *added) {
  static const char part[] = "an added token";
  const BluJsonNode *n = blu_json_child(added);
  for (int64_t i = 0; i < added->count; i++, n = blu_json_next(r->json, n)) {
    if (!known(r, n, part, " id content single_word lstrip rstrip normalized special ")) return false;
    const BluJsonNode *content = text(r, n, part, "content");
    BluAdded a = {0};
    int64_t id = -1;
    bool word;
    if (!content || !flag(r, n, part, "single_word", false, &word) || !flag(r, n, part, "lstrip", false, &a.left) ||
        !flag(r, n, part, "rstrip", false, &a.right) || !flag(r, n, part, "normalized", false, &a.normalized) ||
        !flag(r, n, part, "special", false, &a.special))
      return false;
    if (word) return blu_error_set(r->err, "%s: single_word of added token '%.80s' is not supported", r->path, content->text);
    if (!blu_json_int(member(r, n, "id"), &id) || id < 0 || id >= r->t->count)
      return blu_error_set(r->err, "%s: the id of added token '%.80s' is missing or out of range", r->path, content->text);
    a.id = (int32_t)id;
    if (!blu_read_added(r->err, r->t, r->path, content->text, content->bytes, a)) return false;
  }
  return true;
}

static bool zero(const BluJsonNode *n) { return absent(n) || (n->kind == BLU_JSON_NUMBER && strspn(n->text, "0.") >= (size_t)n->bytes); }

static bool read_model(Reader *r, const BluJsonNode *model, int64_t count) {
  static const char part[] = "the model";
  if (!known(r, model, part, " type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback ignore_merges vocab merges "))
    return false;
  const BluJsonNode *type = member(r, model, "type"), *names = member(r, model, "vocab"), *merges = member(r, model, "merges");
  if (type && !blu_json_is(type, "BPE")) return refuse(r, "the model type", type);
  if (!zero(member(r, model, "dropout"))) return refuse(r, "dropout of the model", NULL);
  static const char *const parts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  for (int i = 0; i < 2; i++) {
    const BluJsonNode *affix = member(r, model, parts[i]);
    if (!absent(affix) && !blu_json_is(affix, "")) return refuse(r, parts[i], affix);
  }
  BluTokenizer *t = r->t;
  if (!names || names->kind != BLU_JSON_OBJECT || !merges || merges->kind != BLU_JSON_ARRAY)
    return blu_error_set(r->err, "%s: the model lacks its vocab or merges", r->path);
  if (!flag(r, model, part, "fuse_unk", false, &t->fuse_unknown) || !flag(r, model, part, "byte_fallback", false, &t->byte_fallback) ||
      !flag(r, model, part, "ignore_merges", false, &t->ignore_merges))
    return false;
  if (t->byte_level && t->byte_fallback) return blu_error_set(r->err, "%s: byte_fallback with the pre_tokenizer ByteLevel is not supported", r->path);
  if (!blu_read_names(r->err, t, r->path, r->json, names, merges->count, count) || !read_merges(r, merges)) return false;
  const BluJsonNode *unknown = member(r, model, "unk_token");
  if (absent(unknown) || t->byte_level) return true;
  if (unknown->kind == BLU_JSON_STRING) t->unknown = blu_bpe_find(t, unknown->text, unknown->bytes);
  return t->unknown != BLU_NO_ID || blu_error_set(r->err, "%s: the model's unk_token is not in its vocabulary", r->path);
}

static bool read_all(Reader *r) {
  const BluJsonNode *root = r->json->node, *model = root->kind == BLU_JSON_OBJECT ? member(r, root, "model") : NULL;
  if (!model) return blu_error_set(r->err, "%s: not a tokenizer.json: it has no member 'model'", r->path);
  if (!known(r, root, "tokenizer.json", " version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model ")) return false;
  static const char *const none[] = {"truncation", "padding"};
  for (int i = 0; i < 2; i++)
    if (!absent(member(r, root, none[i]))) return refuse(r, none[i], NULL);
  const BluJsonNode *normalizer = member(r, root, "normalizer"), *before = member(r, root, "pre_tokenizer"), *decoder = member(r, root, "decoder");
  const BluJsonNode *added = member(r, root, "added_tokens"), *behind = member(r, root, "post_processor"), *version = member(r, root, "version");
  if (version && !blu_json_is(version, "1.0")) return refuse(r, "version", version);
  if (!absent(added) && added->kind != BLU_JSON_ARRAY) return blu_error_set(r->err, "%s: added_tokens is no list", r->path);
  if (absent(added)) added = NULL;
  if (!absent(normalizer) && !read_normalizer(r, normalizer)) return false;
  if (!absent(before) && !read_pre_tokenizer(r, before)) return false;
  if (absent(decoder)) return blu_error_set(r->err, "%s: a tokenizer without decoder is not supported", r->path);
  if (!read_decoder(r, decoder) || !read_model(r, model, count_added(r, added)) || (added && !read_added(r, added))) return false;
  show_tokens(r);
  blu_read_finish(r->t);
  return absent(behind) || read_post_processor(r, behind);
}

BluTokenizer *blu_tokenizer_parse(BluError *err, const char *path, const char *bytes, int64_t size) {
  BluJson json;
  if (!blu_json_parse(err, &json, path, bytes, size)) return NULL;
  Reader r = {.err = err, .path = path, .json = &json, .t = blu_tokenizer_new()};
  bool good = read_all(&r);
  blu_json_free(&json);
  if (!good) blu_tokenizer_free(r.t);
  return good ? r.t : NULL;
}
