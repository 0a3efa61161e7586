/* tokenizer_internal.h - what the parts of the tokenizer offer each other.
 *
 * Reading (read.c, pair.c) takes json.c's tree of a file and fills a BluTokenizer. Encoding (encode.c) cuts a text at added tokens,
 * normalises what lies between (unicode.c), cuts it into words by the stages (pattern.c) and gives each word to bpe.c. */
#ifndef BLU_RUNTIME_TOKENIZER_INTERNAL_H
#define BLU_RUNTIME_TOKENIZER_INTERNAL_H
#include "../runtime_internal.h"
#include "../tokenizer.h"

/* --- json.c: a strict reader ---------------------------------------------------------------------------------------- */

typedef enum { BLU_JSON_NULL, BLU_JSON_FALSE, BLU_JSON_TRUE, BLU_JSON_NUMBER, BLU_JSON_STRING, BLU_JSON_ARRAY, BLU_JSON_OBJECT } BluJsonKind;

/* Nodes lie in the order of the text. The children of an array follow it; those of an object are a name (a string) and a value in turn. */
typedef struct {
  BluJsonKind kind;
  int64_t next;     /* index behind this node and all that is in it */
  int64_t count;    /* ARRAY: elements; OBJECT: members */
  const char *text; /* STRING: its characters, unescaped, NUL behind them; NUMBER: as written */
  int64_t bytes;    /* of text */
} BluJsonNode;

typedef struct {
  BluJsonNode *node; /* node[0] is the whole */
  int64_t nodes;
  char *text;
} BluJson;

/* All of `bytes` as one JSON value: valid UTF-8, no duplicate of a name among the first few, no lone surrogate, nested at most 64 deep. */
bool blu_json_parse(BluError *err, BluJson *json, const char *path, const char *text, int64_t bytes);
void blu_json_free(BluJson *json);
/* The value of a member; NULL: there is none. */
const BluJsonNode *blu_json_member(const BluJson *json, const BluJsonNode *object, const char *name);
/* The first child, and the node behind another: for (n = blu_json_child(a), i = 0; i < a->count; i++, n = blu_json_next(json, n)). */
static inline const BluJsonNode *blu_json_child(const BluJsonNode *node) { return node + 1; }
static inline const BluJsonNode *blu_json_next(const BluJson *json, const BluJsonNode *node) { return json->node + node->next; }
bool blu_json_is(const BluJsonNode *string, const char *text); /* a string of these characters */
bool blu_json_int(const BluJsonNode *node, int64_t *value);    /* a whole number */

/* --- unicode.c: characters ------------------------------------------------------------------------------------------- */

#define BLU_CODE_NONE (-1) /* a byte that is no part of a character */

/* Length in bytes, from 1, of the character at `at` < end, whose code goes to *code. */
int64_t blu_code_at(const char *at, const char *end, int32_t *code);
int64_t blu_code_put(char to[static 4], int32_t code); /* its bytes; gives how many */
bool blu_code_is_space(int32_t code);                  /* White_Space */
int blu_code_class(int32_t code);                      /* number of its general category: bit of a mask; BLU_CODE_NONE has one of its own */
void blu_code_fill_classes(uint8_t *to, int32_t codes);  /* those of all codes below */
/* Mask of the categories that \p{name} stands for: L, Lu, N ..; 0: no such name. */
uint32_t blu_code_classes(const char *name, int64_t bytes);

typedef enum { BLU_FORM_NFC, BLU_FORM_NFD } BluForm;

typedef struct {
  char *text;
  int64_t bytes, room;
} BluText;

void blu_text_add(BluText *to, const char *text, int64_t bytes);
/* Appends the normal form of a text; bytes that are no UTF-8 stay as they are. */
void blu_code_normalise(BluText *to, const char *text, int64_t bytes, BluForm form);

/* --- pattern.c: regular expressions of split patterns ------------------------------------------------------------------ */

typedef struct BluPattern BluPattern;

/* Alternatives, groups, classes, greedy and possessive counts, lookahead, (?i:..) over ASCII. NULL, with an error that says what else
 * the pattern asks for. */
BluPattern *blu_pattern_compile(BluError *err, const char *text, int64_t bytes);
BluPattern *blu_pattern_literal(const char *text, int64_t bytes);
void blu_pattern_free(BluPattern *pattern);
/* The leftmost match at or behind `from`, never empty: 1 and its ends; 0: none; -1: the pattern takes too many steps on this text. */
int blu_pattern_find(const BluPattern *pattern, const char *text, int64_t bytes, int64_t from, int64_t *first, int64_t *last);

/* --- bpe.c: vocabulary and merges ------------------------------------------------------------------------------------- */

#define BLU_NO_ID (-1)

/* A map from strings to ids, and one from pairs of ids to the id that they merge to. */
typedef struct {
  int32_t *slot; /* [1 << bits], an id or BLU_NO_ID */
  int bits;
  int64_t count;
} BluNameMap;

typedef struct {
  uint64_t pair; /* left << 32 | right; ~0: free */
  uint32_t rank;
  int32_t id;
} BluMerge;

typedef struct {
  char *text;        /* what text must be to become it: bytes, or characters with the mark for a blank; owned */
  int64_t bytes;
  char *shown;       /* what it becomes when decoded; NULL: text; owned */
  int64_t shown_bytes;
  bool special;
} BluToken;

typedef struct {
  int32_t id, previous, next;
  uint32_t rank; /* of the merge with the next; ~0: none */
} BluSymbol;

typedef struct { char word[40]; uint8_t bytes, ids; int32_t id[5]; } BluCacheRow; /* bytes 0: free */

/* --- the tokenizer ---------------------------------------------------------------------------------------------------- */

typedef enum { BLU_CUT_ISOLATED, BLU_CUT_REMOVED, BLU_CUT_PREVIOUS, BLU_CUT_NEXT, BLU_CUT_CONTIGUOUS } BluCut;
typedef enum { BLU_STAGE_CUT, BLU_STAGE_BLANK /* a blank before what has none */, BLU_STAGE_REPLACE } BluStageKind;
typedef enum { BLU_BEFORE_NEVER, BLU_BEFORE_FIRST, BLU_BEFORE_ALWAYS } BluBefore;

typedef struct {
  BluStageKind kind;
  BluPattern *pattern;  /* CUT */
  BluCut cut;
  bool invert;
  BluBefore before;     /* REPLACE: blanks become `mark`, which is also put before a text */
  char mark[8];
} BluStage;

typedef enum { BLU_NORMAL_FORM, BLU_NORMAL_BEFORE, BLU_NORMAL_REPLACE } BluNormalKind;
typedef struct {
  BluNormalKind kind;
  BluForm form;
  char *what, *with; /* BEFORE: with; both NUL-terminated, owned */
} BluNormal;

typedef struct {
  char *text;     /* as it stands in the file */
  int64_t bytes;
  int32_t id;
  bool special, normalized, left, right; /* left, right: takes the white space beside it */
} BluAdded;

/* Added tokens of one kind as a trie; children of a node are a list. */
typedef struct {
  struct BluTrieNode { int32_t child, sibling, added; uint8_t byte; } *node; /* added: index, -1: none */
  int32_t nodes, room;
  bool first[256];
} BluTrie;

enum { BLU_STAGES = 16, BLU_CACHE_ROWS = 1 << 14 };

struct BluTokenizer {
  BluToken *token; /* [count]; text NULL: no token has this id */
  int64_t count;
  BluNameMap names;
  BluMerge *merge; /* [1 << merge_bits] */
  int merge_bits;
  bool byte_level, ignore_merges, byte_fallback, fuse_unknown;
  int32_t byte_id[256]; /* of a byte by itself: byte-level, or <0xNN> */
  int32_t unknown;      /* BLU_NO_ID: none */
  char mark[8];         /* no token has this character behind another: words may be cut before it; "": not so */
  bool blank;           /* decoding leaves out one blank at the start */
  BluNormal normal[BLU_STAGES];
  BluStage stage[BLU_STAGES];
  int normals, stages;
  BluAdded *added;
  int64_t addeds;
  BluTrie raw, normalised; /* added tokens, looked for before and after normalisation */
  int32_t *prefix;
  int64_t prefixes;
  /* room for encoding */
  BluText scratch[BLU_STAGES + 1], form;
  BluSymbol *symbol;
  int64_t symbols;
  uint64_t *heap;
  int64_t heap_room;
  BluCacheRow *cache; /* [BLU_CACHE_ROWS]; NULL until used */
};

void blu_bpe_reserve(BluTokenizer *t, int64_t names, int64_t merges); /* room in the maps; once */
/* Adds a token that words may become; its text is copied. False: another has the text, or the id. `id` < count. */
bool blu_bpe_add(BluTokenizer *t, int32_t id, const char *text, int64_t bytes);
int32_t blu_bpe_find(const BluTokenizer *t, const char *text, int64_t bytes); /* BLU_NO_ID: none */
void blu_bpe_add_merge(BluTokenizer *t, int32_t left, int32_t right, uint32_t rank, int32_t id); /* a later one of the same pair counts */
bool blu_bpe_encode(BluError *err, BluTokenizer *t, const char *word, int64_t bytes, BluIds *to);

/* --- read.c, pair.c, encode.c ----------------------------------------------------------------------------------------- */

extern const char blu_gpt2_pattern[]; /* the split pattern of GPT-2, and of ByteLevel in tokenizer.json */
/* Text of a byte-level token as bytes, in `to`, which has room; -1: it has a character that stands for no byte. */
int64_t blu_byte_level_text(const char *text, int64_t bytes, char *to);
/* An empty tokenizer; byte-level or of characters. */
BluTokenizer *blu_tokenizer_new(void);
/* Fills the vocabulary from an object of ids, with room for so many merges; `count` ids at least. */
bool blu_read_names(BluError *err, BluTokenizer *t, const char *path, const BluJson *json, const BluJsonNode *names, int64_t merges, int64_t count);
/* Adds the merge of number `rank`, of two tokens as they stand in the file. */
bool blu_read_merge(BluError *err, BluTokenizer *t, const char *path, const char *left, int64_t left_bytes, const char *right, int64_t right_bytes,
                    int64_t rank);
/* Adds a token that is looked for in text before all else; its content is copied. Error: it contradicts the vocabulary. */
bool blu_read_added(BluError *err, BluTokenizer *t, const char *path, const char *content, int64_t bytes, BluAdded added);
/* What depends on all of the above: the tries, single bytes. */
void blu_read_finish(BluTokenizer *t);
void blu_encode_add_trie(BluTrie *trie, const char *text, int64_t bytes, int32_t added); /* the first of equal texts counts */
/* Appends the normalised text. */
void blu_encode_normalise(BluTokenizer *t, BluText *to, const char *text, int64_t bytes);
#endif
