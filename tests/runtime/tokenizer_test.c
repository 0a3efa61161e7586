/* tokenizer_test.c - ids against those of the `tokenizers` library (tokenizer/make.py wrote them), merging against a plain search, the pieces by
 * themselves, and what is refused. tokenizer_test FOLDER SCRATCH: the folder of the fixtures, and one to write to. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "data_internal.h"
#include "tokenizer/tokenizer_internal.h"
#include "unit.h"

static char *read_file(const char *folder, const char *name, int64_t *bytes) {
  char *path = blu_text_path(folder, name), *copy = NULL;
  BluBytes file = {0};
  BluError err;
  bool open = blu_bytes_open(&err, &file, path, 1);
  CHECK(open, "%s", err.text);
  *bytes = file.size;
  copy = blu_new(file.size + 1, 1);
  if (open) memcpy(copy, file.data, (size_t)file.size);
  blu_bytes_close(&file);
  free(path);
  return copy;
}

static BluTokenizer *open_fixture(const char *folder, const char *name) {
  char *path = blu_text_path(folder, name);
  BluError err;
  BluTokenizer *t = blu_tokenizer_open(&err, path);
  CHECK(t, "%s", err.text);
  free(path);
  return t;
}

/* --- ids of the library --- */

static int64_t from_hex(const char *hex, int64_t digits, char *to) {
  for (int64_t i = 0; i < digits / 2; i++) {
    char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
    to[i] = (char)strtol(pair, NULL, 16);
  }
  return digits / 2;
}

/* Texts are compared with all their blanks but one at the start, which is the decoder's affair: see blu_tokenizer_blank. */
static bool decodes_to(const BluTokenizer *t, const BluIds *ids, const char *text, int64_t bytes) {
  BluText made = {0};
  for (int64_t i = 0; i < ids->ids; i++) {
    int64_t n;
    const char *part = blu_tokenizer_text(t, ids->id[i], &n);
    if (part) blu_text_add(&made, part, n);
  }
  int64_t skip = blu_tokenizer_blank(t) && made.bytes && made.text[0] == ' ';
  bool same = made.bytes - skip == bytes && (!bytes || !memcmp(made.text + skip, text, (size_t)bytes));
  free(made.text);
  return same;
}

static void check_line(BluTokenizer *t, const char *name, int number, char *line) {
  char *ids_at = strchr(line, '\t') + 1, *decoded_at = strchr(ids_at, '\t') + 1;
  int64_t digits = ids_at - 1 - line, wanted = 0, wrong = -1;
  char *text = blu_new(digits / 2 + 1, 1), *decoded = blu_new((int64_t)strlen(decoded_at) + 1, 1);
  int64_t bytes = from_hex(line, digits, text), decoded_bytes = from_hex(decoded_at, (int64_t)strlen(decoded_at), decoded);
  BluIds got = {0};
  BluError err;
  bool good = blu_tokenizer_encode(&err, t, text, bytes, false, &got);
  CHECK(good, "%s:%d: %s", name, number, err.text);
  for (char *at = ids_at; at < decoded_at - 1; wanted++) {
    long id = strtol(at, &at, 10);
    if (wrong < 0 && (wanted >= got.ids || got.id[wanted] != id)) wrong = wanted;
    while (*at == ' ') at++;
  }
  CHECK(wrong < 0 && wanted == got.ids, "%s:%d: '%.60s': %lld ids, not %lld; id %lld differs", name, number, text, (long long)got.ids, (long long)wanted,
        (long long)wrong);
  bool same = *decoded_at == '?' ? true : *decoded_at == '=' ? decodes_to(t, &got, text, bytes) : decodes_to(t, &got, decoded, decoded_bytes);
  CHECK(same, "%s:%d: '%.60s' is decoded to something else", name, number, text);
  free(text), free(decoded), free(got.id);
}

static void check_fixture(const char *folder, const char *name, const char *ids_name, int least) {
  BluTokenizer *t = open_fixture(folder, name);
  int64_t bytes;
  char *lines = read_file(folder, ids_name, &bytes), *end = lines + bytes;
  int number = 0;
  for (char *line = lines, *next; t && line < end; line = next) {
    next = memchr(line, '\n', (size_t)(end - line));
    *next++ = 0;
    check_line(t, name, ++number, line);
  }
  CHECK(number >= least, "%s: only %d cases", ids_name, number);
  free(lines);
  blu_tokenizer_free(t);
}

/* --- merging, by the plainest search there is --- */

static int64_t merge_plainly(const BluTokenizer *t, int32_t *id, int64_t n) {
  for (;;) {
    const BluMerge *best = NULL;
    int64_t at = 0;
    for (int64_t i = 0; i + 1 < n; i++)
      for (int64_t m = 0; m < (int64_t)1 << t->merge_bits; m++) {
        const BluMerge *merge = &t->merge[m];
        if (merge->pair != ((uint64_t)(uint32_t)id[i] << 32 | (uint32_t)id[i + 1]) || (best && merge->rank >= best->rank)) continue;
        best = merge, at = i;
      }
    if (!best) return n;
    id[at] = best->id;
    memmove(&id[at + 1], &id[at + 2], (size_t)(n - at - 2) * sizeof *id);
    n--;
  }
}

static void check_merging(const char *folder) {
  BluTokenizer *t = open_fixture(folder, "gpt2.json");
  uint64_t state = 1;
  for (int word = 0; t && word < 60; word++) {
    enum { LONGEST = 130 };
    static const char letters[] = "theastoin .";
    char text[LONGEST];
    int32_t id[LONGEST];
    int64_t n = 1 + word * 2;
    for (int64_t i = 0; i < n; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text[i] = letters[(state >> 33) % (sizeof letters - 1)];
      id[i] = t->byte_id[(unsigned char)text[i]];
    }
    BluIds got = {0};
    BluError err;
    CHECK(blu_bpe_encode(&err, t, text, n, &got), "%s", err.text);
    int64_t left = merge_plainly(t, id, n);
    CHECK(left == got.ids && !memcmp(id, got.id, (size_t)left * sizeof *id), "word %d of %lld letters", word, (long long)n);
    got.ids = 0; /* from the cache, if it is there */
    CHECK(blu_bpe_encode(&err, t, text, n, &got) && left == got.ids && !memcmp(id, got.id, (size_t)left * sizeof *id), "word %d again", word);
    free(got.id);
  }
  blu_tokenizer_free(t);
}

/* A word of megabytes: a search of the whole row for each merge would take days, a heap takes seconds at worst. */
static void check_long_words(const char *folder) {
  static const char *const names[] = {"gpt2.json", "llama2.json", "qwen2.json"};
  enum { BYTES = 4 << 20 };
  char *text = blu_new(BYTES, 1);
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    for (int kind = 0; kind < 3; kind++) {
      for (int64_t i = 0; i < BYTES; i++) text[i] = kind == 0 ? 't' : kind == 1 ? "thesa"[(i * i + i / 7) % 5] : "e\xcc\x81\xcc\xa3"[i % 5];
      BluTokenizer *t = open_fixture(folder, names[k]);
      BluIds got = {0};
      BluError err;
      struct timespec start, end;
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
      CHECK(t && blu_tokenizer_encode(&err, t, text, BYTES - 4, false, &got), "%s: %s", names[k], err.text);
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
      double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
      CHECK(!(seconds > 60), "%s, kind %d: %.1f s for 4 MB", names[k], kind, seconds);
      free(got.id);
      blu_tokenizer_free(t);
    }
  free(text);
}

/* --- bytes that are no text --- */

static void check_bytes(const char *folder) {
  static const char *const names[] = {"gpt2.json", "llama3.json", "o200k.json", "llama2.json"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    BluTokenizer *t = open_fixture(folder, names[k]);
    uint64_t state = 7;
    for (int round = 0; t && round < 300; round++) {
      char text[64];
      int64_t n = 1 + round % 60;
      for (int64_t i = 0; i < n; i++) {
        static const unsigned char likely[] = {0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0xc3, 0xa9, ' ', 'a', 0xed, 0xa0, 0xff};
        state = state * 6364136223846793005u + 1442695040888963407u;
        text[i] = state >> 63 ? (char)(state >> 40) : (char)likely[(state >> 33) % sizeof likely];
      }
      BluIds got = {0};
      BluError err;
      CHECK(blu_tokenizer_encode(&err, t, text, n, true, &got) && decodes_to(t, &got, text, n), "%s: round %d", names[k], round);
      free(got.id);
    }
    blu_tokenizer_free(t);
  }
}

/* --- questions --- */

static void check_questions(const char *folder) {
  BluTokenizer *t = open_fixture(folder, "llama3.json");
  int64_t n, begin = blu_tokenizer_find(t, "<|begin_of_text|>"), end = blu_tokenizer_find(t, "<|end_of_text|>");
  const int32_t *prefix = blu_tokenizer_prefix(t, &n);
  CHECK(n == 1 && prefix[0] == begin && blu_tokenizer_separator(t) == begin, "prefix of llama3");
  CHECK(blu_tokenizer_is_special(t, end) && !blu_tokenizer_is_special(t, 100) && !blu_tokenizer_is_special(t, -1) && !blu_tokenizer_is_special(t, 1 << 30),
        "special tokens");
  CHECK(blu_tokenizer_find(t, "no such token") == -1 && !blu_tokenizer_text(t, -1, &n) && !blu_tokenizer_text(t, blu_tokenizer_count(t), &n), "no token");
  /* special tokens in a text are found, or are text */
  static const char text[] = "a<|end_of_text|>";
  BluIds found = {0}, ordinary = {0};
  BluError err;
  CHECK(blu_tokenizer_encode(&err, t, text, (int64_t)strlen(text), false, &found) && found.ids == 2 && found.id[1] == end, "special");
  CHECK(blu_tokenizer_encode(&err, t, text, (int64_t)strlen(text), true, &ordinary) && ordinary.ids > 2, "ordinary");
  for (int64_t i = 0; i < ordinary.ids; i++) CHECK(ordinary.id[i] != end, "a special token in ordinary text");
  free(found.id), free(ordinary.id);
  blu_tokenizer_free(t);
  t = open_fixture(folder, "gpt2.json");
  prefix = blu_tokenizer_prefix(t, &n);
  CHECK(n == 0 && blu_tokenizer_separator(t) == blu_tokenizer_find(t, "<|endoftext|>") && !blu_tokenizer_blank(t), "separator of gpt2");
  blu_tokenizer_free(t);
  t = open_fixture(folder, "llama2.json");
  CHECK(blu_tokenizer_blank(t) == 1 && blu_tokenizer_separator(t) == blu_tokenizer_find(t, "</s>"), "separator of llama2");
  blu_tokenizer_free(t);
}

/* --- patterns --- */

static void matches(const char *pattern, const char *text, int64_t from, int64_t first, int64_t last) {
  BluError err;
  BluPattern *p = blu_pattern_compile(&err, pattern, (int64_t)strlen(pattern));
  CHECK(p, "%s: %s", pattern, err.text);
  int64_t a = -1, b = -1;
  int found = p ? blu_pattern_find(p, text, (int64_t)strlen(text), from, &a, &b) : 0;
  CHECK(first < 0 ? !found : found == 1 && a == first && b == last, "'%s' in '%s': %d, %lld to %lld", pattern, text, found, (long long)a, (long long)b);
  blu_pattern_free(p);
}

static void refuses_pattern(const char *pattern, const char *why) {
  BluError err = {""};
  BluPattern *p = blu_pattern_compile(&err, pattern, (int64_t)strlen(pattern));
  CHECK(!p && strstr(err.text, why), "'%s': '%s', not '%s'", pattern, err.text, why);
  blu_pattern_free(p);
}

static void check_patterns(void) {
  matches("b+", "aabbb", 0, 2, 5);
  matches("b+", "aabbb", 3, 3, 5);
  matches("b{2}", "abbb", 0, 1, 3);
  matches("b{1,2}a", "abbba", 0, 2, 5);
  matches("b{2,}", "abab", 0, -1, 0);
  matches("a|ab", "ab", 0, 0, 1); /* the first alternative that works */
  matches("(?:a|ab)c", "abc", 0, 0, 3);
  matches("(?:a|ab)?bc", "abc", 0, 0, 3);
  matches("(a(b|c)?)d", "xacd", 0, 1, 4);
  matches("\\s+(?!\\S)", "a   b", 0, 1, 3);
  matches("\\s+(?=\\S)b", "a   b", 0, 1, 5);
  matches("a++b", "aaab", 0, 0, 4);
  matches("a++ab", "aaab", 0, -1, 0); /* gives nothing back */
  matches("a?+ab", "ab", 0, -1, 0);
  matches("[^a-c\\n]x", "ax\nxdx", 0, 4, 6);
  matches("[]a]+", "x]a]", 0, 1, 4); /* ] first is itself */
  matches("[a\\-z]+", "x-az", 0, 1, 4);
  matches("[a-]+", "b-a", 0, 1, 3);
  matches("\\p{Lu}\\p{Ll}*", "éÉa", 0, 2, 5);
  matches("\\P{L}", "aé1", 0, 3, 4);
  matches("\\p{N}+", "a٣½Ⅳ", 0, 1, 8);
  matches("\\u00e9|\\x41|\\x{1F600}", "x😀", 0, 1, 5);
  matches("(?i:s|k)", "ſ", 0, 0, 2);
  matches("(?i:K)", "k\xe2\x84\xaa", 1, 1, 4);
  matches("(?i:'ll)x", "'Llx", 0, 0, 4);
  matches("(?i:[a])b", "AB", 0, -1, 0); /* folding ends with its group */
  matches("\\.\\?", "a.?", 0, 1, 3);
  matches("\xe4\xb8\x80", "\xe4\xb8\x80", 0, 0, 3);
  matches("[^\\s\\p{L}\\p{N}]+", "a\xff\xe2\x82z", 0, 1, 4); /* bytes of no character have no class */
  matches("\\S\\s", "\xff ", 0, 0, 2);
  matches("a1|a2|a3|a4|a5|a6|a7|a8|a9|b1|b2|b3|b4|b5|b6|b7|b8|b9|c1|c2|c3|c4|c5|c6|c7|c8|c9|d1|d2|d3|d4|d5|d6|d7|d8|d9|e1|e2|e3|e4|e5|e6|e7|e8|e9|f1|"
          "f2|f3|f4|f5|f6|f7|f8|f9|g1|g2|g3|g4|g5|g6|g7|g8|g9|h1|h2|h3|h4|h5|h6|h7|h8|h9",
          "h0h9", 0, 2, 4); /* more alternatives than a word has bits */
  static const struct { const char *pattern, *why; } bad[] = {
      {"a*", "a match of nothing"}, {"a|b?", "a match of nothing"}, {"(?:a)?", "a match of nothing"}, {"", "empty"}, {"a|", "empty"}, {"()", "empty"},
      {"(a", "without its ')'"}, {"a)", "a ')' too many"}, {"[a", "without its ']'"}, {"a{2", "without its '}'"}, {"a{3,2}", "from more to fewer"},
      {"a+?", "a lazy count"}, {"(ab)+", "a repeated group"}, {"(?<=a)b", "the group '(?<'"}, {"(?<n>a)", "the group '(?<'"}, {"(?>a)", "the group '(?>'"},
      {"^a", "'^' in this place"}, {"a$", "'$' in this place"}, {"a.b", "'.' in this place"}, {"*a", "'*' in this place"}, {"\\w", "the escape '\\w'"},
      {"\\b", "the escape '\\b'"}, {"a\\", "a backslash at the end"}, {"\\p{Greek}", "the property '\\p{Greek}'"}, {"\\p", "the property"},
      {"[a[b]]", "a class within a class"}, {"[a&&b]", "a class within a class"}, {"[z-a]", "a range"}, {"(?i:é)", "beyond ASCII"},
      {"(?i:[^a])", "a negated class"}, {"a{1}{2}", "a count of a count"}, {"(?=a)+b", "a count behind a lookahead"}, {"\\x{110000}", "a malformed code"},
      {"\xff", "no UTF-8"}, {"(((((((((((((((((((a)))))))))))))))))))", "nested too deeply"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refuses_pattern(bad[i].pattern, bad[i].why);
  /* a pattern that would take too long says so */
  BluError err;
  char *text = blu_new(200001, 1);
  memset(text, 'a', 200000);
  BluPattern *slow = blu_pattern_compile(&err, "a+a+a+b", 7);
  int64_t a, b;
  CHECK(slow && blu_pattern_find(slow, text, 200000, 0, &a, &b) == -1, "a slow pattern");
  blu_pattern_free(slow);
  free(text);
}

/* --- normal forms --- */

static void normalises(const char *text, BluForm form, const char *wanted) {
  BluText made = {0};
  blu_code_normalise(&made, text, (int64_t)strlen(text), form);
  blu_text_add(&made, "", 1);
  CHECK(!strcmp(made.text, wanted), "'%s' becomes '%s', not '%s'", text, made.text, wanted);
  free(made.text);
}

static void check_forms(void) { /* examples of Unicode's annex 15 */
  normalises("D\xcc\x87", BLU_FORM_NFC, "\xe1\xb8\x8a");
  normalises("\xe1\xb8\x8a\xcc\xa3", BLU_FORM_NFC, "\xe1\xb8\x8c\xcc\x87"); /* the mark below goes first */
  normalises("\xe1\xb8\x8a\xcc\xa3", BLU_FORM_NFD, "D\xcc\xa3\xcc\x87");
  normalises("\xe2\x84\xab", BLU_FORM_NFC, "\xc3\x85");                         /* Angstrom: a singleton */
  normalises("\xea\xb0\x81", BLU_FORM_NFD, "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"); /* Hangul */
  normalises("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", BLU_FORM_NFC, "\xea\xb0\x81");
  normalises("\xea\xb0\x80\xe1\x86\xa8", BLU_FORM_NFC, "\xea\xb0\x81");
  normalises("\xe0\xa5\x98", BLU_FORM_NFC, "\xe0\xa4\x95\xe0\xa4\xbc");          /* excluded from composition */
  normalises("a\xcc\x95\xcc\x80\xcc\x96\xcc\x81", BLU_FORM_NFC, "\xc3\xa0\xcc\x96\xcc\x81\xcc\x95"); /* sorted by order; equals keep theirs */
  normalises("x<\xcc\xb8y", BLU_FORM_NFC, "x\xe2\x89\xaey");                       /* ASCII with what follows */
  normalises("\xff" "e\xcc\x81\xc3(", BLU_FORM_NFC, "\xff\xc3\xa9\xc3(");         /* bytes of no character stay */
  normalises("", BLU_FORM_NFC, "");
}

/* --- refusals --- */

/* The file with the first `from` replaced by `to`. */
static void refuses(const char *folder, const char *name, const char *from, const char *to, const char *why) {
  int64_t bytes;
  char *text = read_file(folder, name, &bytes), *at = strstr(text, from);
  CHECK(at, "%s has no %s", name, from);
  if (at) {
    char *changed = blu_text_print("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    BluError err = {""};
    BluTokenizer *t = blu_tokenizer_parse(&err, "file", changed, (int64_t)strlen(changed));
    CHECK(!t, "%s with %s is accepted", name, to);
    CHECK(strstr(err.text, why) && !strncmp(err.text, "file", 4), "%s with %s: '%s', not '%s'", name, to, err.text, why);
    blu_tokenizer_free(t);
    free(changed);
  }
  free(text);
}

static void check_refusals(const char *folder) {
  static const struct { const char *file, *from, *to, *why; } cases[] = {
      {"gpt2.json", "{\"version\"", "[\"version\"", "not valid JSON: "},
      {"gpt2.json", "\"truncation\":null", "\"truncation\":{\"max_length\":5}", "truncation is not supported"},
      {"gpt2.json", "\"padding\":null", "\"padding\":{}", "padding is not supported"},
      {"gpt2.json", "\"version\":\"1.0\"", "\"version\":\"2.0\"", "version '2.0' is not supported"},
      {"gpt2.json", "\"version\"", "\"verzion\"", "member 'verzion' of tokenizer.json"},
      {"gpt2.json", "\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}", "the normalizer 'Lowercase'"},
      {"gpt2.json", "\"normalizer\":null",
       "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"b\"}", "Replace of anything but a String"},
      {"gpt2.json", "\"pre_tokenizer\":{\"type\":\"ByteLevel\"", "\"pre_tokenizer\":{\"type\":\"Whitespace\"", "the pre_tokenizer 'Whitespace'"},
      {"gpt2.json", "\"decoder\":{\"type\":\"ByteLevel\"", "\"decoder\":{\"type\":\"WordPiece\"", "the decoder 'WordPiece'"},
      {"gpt2.json", "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true}", "\"decoder\":null",
       "without decoder"},
      {"gpt2.json", "\"post_processor\":null", "\"post_processor\":{\"type\":\"BertProcessing\"}", "the post_processor 'BertProcessing'"},
      {"gpt2.json", "\"type\":\"BPE\"", "\"type\":\"Unigram\"", "the model type 'Unigram'"},
      {"gpt2.json", "\"dropout\":null", "\"dropout\":0.1", "dropout of the model"},
      {"gpt2.json", "\"continuing_subword_prefix\":null", "\"continuing_subword_prefix\":\"##\"", "continuing_subword_prefix '##'"},
      {"gpt2.json", "\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"</w>\"", "end_of_word_suffix '</w>'"},
      {"gpt2.json", "\"byte_fallback\":false", "\"byte_fallback\":true", "byte_fallback with"},
      {"gpt2.json", "\"byte_fallback\":false", "\"byte_fallback\":1", "neither true nor false"},
      {"gpt2.json", "\"ignore_merges\":false", "\"new_option\":false", "member 'new_option' of the model"},
      {"gpt2.json", "\"single_word\":false", "\"single_word\":true", "single_word of added token '<|endoftext|>'"},
      {"gpt2.json", "\"content\":\"<|endoftext|>\"", "\"content\":\"\"", "an added token of 0 bytes"},
      {"gpt2.json", "{\"id\":0,\"content\"", "{\"id\":5,\"content\"", "has the id 5"},
      {"gpt2.json", "{\"id\":0,\"content\"", "{\"id\":-1,\"content\"", "is missing or out of range"},
      {"gpt2.json", "\"vocab\":{\"<|endoftext|>\":0", "\"vocab\":{\"<|endoftext|>\":1", "is given twice"},
      {"gpt2.json", "\"vocab\":{\"<|endoftext|>\":0", "\"vocab\":{\"<|endoftext|>\":0.5", "no whole number from 0"},
      {"gpt2.json", "\"vocab\":{\"<|endoftext|>\":0", "\"vocab\":{\"<|endoftext|>\":99999999999", "no whole number from 0"},
      {"gpt2.json", "\"merges\":[\"", "\"merges\":[\"QQQ ZZZ\",\"", "one of them is no token"},
      {"gpt2.json", "\"merges\":[\"", "\"merges\":[\"! #\",\"", "together they are no token"},
      {"gpt2.json", "\"merges\":[\"", "\"merges\":[\"abc\",\"", "merge 0 is neither"},
      {"llama3.json", "\"merges\":[[", "\"merges\":[[\"a\"],[", "merge 0 is neither"},
      {"llama3.json", "{\"type\":\"Split\"", "{\"type\":\"Punctuation\"", "the pre_tokenizer 'Punctuation'"},
      {"llama3.json", "\"behavior\":\"Isolated\"", "\"behavior\":\"Sideways\"", "the behavior of Split 'Sideways'"},
      {"llama3.json", "(?i:'s|", "(?<=a)(?i:'s|", "asks for the group '(?<', which"},
      {"llama3.json", "\"ids\":[0]", "\"ids\":[100000]", "an id that no token has"},
      {"llama2.json", "\"unk_token\":\"<unk>\"", "\"unk_token\":\"<none>\"", "unk_token is not in its vocabulary"},
      {"llama2.json", "{\"type\":\"Strip\",\"content\":\" \",\"start\":1", "{\"type\":\"Strip\",\"content\":\" \",\"start\":2", "Strip of anything but"},
      {"metaspace.json", "\"replacement\":\"\xe2\x96\x81\"", "\"replacement\":\"__\"", "the replacement of Metaspace '__'"},
      {"metaspace.json", "\"prepend_scheme\":\"first\"", "\"prepend_scheme\":\"last\"", "the prepend_scheme of Metaspace 'last'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refuses(folder, cases[i].file, cases[i].from, cases[i].to, cases[i].why);
}

static void refuses_json(const char *text, const char *why) {
  BluError err = {""};
  BluJson json;
  bool good = blu_json_parse(&err, &json, "file", text, (int64_t)strlen(text));
  CHECK(!good && strstr(err.text, why), "%s: '%s', not '%s'", text, err.text, why);
  if (good) blu_json_free(&json);
}

static void check_json(void) {
  static const struct { const char *text, *why; } bad[] = {
      {"", "file:1:1: "}, {"{\n \"a\": }", "file:2:7: "}, {"[1,]", "nothing follows"}, {"[1 2]", "',' or ']'"},
      {"{\"a\" 1}", "':' is expected"}, {"{a:1}", "a name"},
      {"{\"a\":1,\"a\":2}", "given twice"}, {"01", "malformed number"}, {"-", "malformed number"}, {"1.", "malformed number"}, {"1e", "malformed number"},
      {"+1", "unexpected"}, {"nul", "unexpected"}, {"\"a", "without end"}, {"\"a\nb\"", "control character"}, {"\"\\x\"", "unknown escape"},
      {"\"\\u12\"", "four digits"}, {"\"\\ud800\"", "surrogate"}, {"\"\\udc00\"", "surrogate"}, {"\"\\ud800\\u0041\"", "surrogate"}, {"\"\xff\"", "not UTF-8"},
      {"\"\xed\xa0\x80\"", "not UTF-8"}, {"1 1", "follows its end"}, {"'a'", "unexpected"}, {"[", "']' is expected"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuses_json(bad[i].text, bad[i].why);
  char deep[201];
  memset(deep, '[', 200);
  deep[200] = 0;
  refuses_json(deep, "too deeply");
  BluError err;
  BluJson json;
  static const char text[] = " { \"a\\u00e9\\ud83d\\ude00\\n\" : [ -1.5e3 , true , null ] , \"b\" : \"\\u0000\" } ";
  bool good = blu_json_parse(&err, &json, "file", text, (int64_t)strlen(text));
  CHECK(good, "%s", err.text);
  if (!good) return;
  const BluJsonNode *list = blu_json_member(&json, json.node, "a\xc3\xa9\xf0\x9f\x98\x80\n"), *zero = blu_json_member(&json, json.node, "b");
  CHECK(list && list->kind == BLU_JSON_ARRAY && list->count == 3 && blu_json_child(list)->kind == BLU_JSON_NUMBER, "the list");
  CHECK(zero && zero->bytes == 1 && zero->text[0] == 0 && !blu_json_member(&json, json.node, "c"), "the members");
  blu_json_free(&json);
}

/* --- the pair of files, and folders --- */

static void write_text(const char *folder, const char *name, const char *text) {
  char *path = blu_text_path(folder, name);
  FILE *f = fopen(path, "wb");
  CHECK(f && fputs(text, f) >= 0, "%s", path);
  if (f) fclose(f);
  free(path);
}

static void refuses_pair(const char *folder, const char *merges, const char *ids, const char *why) {
  write_text(folder, "merges.txt", merges);
  write_text(folder, "vocab.json", ids);
  BluError err = {""};
  BluTokenizer *t = blu_tokenizer_open(&err, folder);
  CHECK(!t && strstr(err.text, why), "'%s', '%s': '%s', not '%s'", merges, ids, err.text, why);
  blu_tokenizer_free(t);
}

static void check_pair(const char *folder, const char *scratch) {
  check_fixture(folder, "vocab.bpe", "gpt2.ids", 100);
  BluError err;
  CHECK(blu_file_folder(&err, scratch), "%s", err.text);
  static const char ids[] = "{\"a\":0,\"b\":1,\"ab\":2}";
  write_text(scratch, "merges.txt", "#version: 0.2\na b\n");
  write_text(scratch, "vocab.json", ids);
  BluTokenizer *t = blu_tokenizer_open(&err, scratch);
  BluIds got = {0};
  CHECK(t && blu_tokenizer_encode(&err, t, "abba", 4, false, &got) && got.ids == 3 && got.id[0] == 2 && got.id[1] == 1 && got.id[2] == 0, "a folder");
  CHECK(t && !blu_tokenizer_encode(&err, t, "abc", 3, false, &got) && strstr(err.text, "no token for the byte 99"), "a byte without token: %s", err.text);
  CHECK(t && blu_tokenizer_separator(t) == -1, "a separator");
  free(got.id);
  blu_tokenizer_free(t);
  refuses_pair(scratch, "a\n", ids, "merges.txt:1: not a merge");
  refuses_pair(scratch, "#version: 0.2\na b\na b c\n", ids, "merges.txt:3: not a merge");
  refuses_pair(scratch, " b\n", ids, "merge 0 has an empty half");
  refuses_pair(scratch, "a \n", ids, "merge 0 has an empty half");
  refuses_pair(scratch, "b a\n", ids, "together they are no token");
  refuses_pair(scratch, "#version: 0.2\n", ids, "it has no merges");
  refuses_pair(scratch, "a b\n", "[1]", "not a vocabulary");
  refuses_pair(scratch, "a b\n", "{\"a\":0,", "not valid JSON");
  char *path = blu_text_path(scratch, "vocab.json");
  unlink(path);
  CHECK(!blu_tokenizer_open(&err, scratch) && strstr(err.text, "the folder has no tokenizer.json"), "%s", err.text);
  free(path);
  CHECK(!blu_tokenizer_open(&err, "nowhere/tokenizer.json") && strstr(err.text, "nowhere/tokenizer.json"), "%s", err.text);
}

int main(int arguments, char **argument) {
  static const char *const names[] = {"gpt2", "llama3", "qwen2", "o200k", "steps", "llama2", "metaspace", "gemma"};
  if (arguments != 3) return 2;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char json[40], ids[40];
    snprintf(json, sizeof json, "%s.json", names[i]);
    snprintf(ids, sizeof ids, "%s.ids", names[i]);
    check_fixture(argument[1], json, ids, 100);
  }
  check_pair(argument[1], argument[2]);
  check_merging(argument[1]);
  check_long_words(argument[1]);
  check_bytes(argument[1]);
  check_questions(argument[1]);
  check_patterns();
  check_forms();
  check_json();
  check_refusals(argument[1]);
  return unit_verdict();
}
