/* tokenizer.h - text to the ids of a vocabulary and back: byte-pair encoding as in tokenizer.json files (GPT-2, Llama, Qwen and their
 * kin) and in GPT-2's own pair of files. Used by trainers (`sample`) and by `bluc tokenize`.
 *
 * Ids are those of the `tokenizers` library for the same file. A file that asks for what isn't done here is refused, and the part is named.
 * Text may be any bytes: what is no UTF-8 is a character of no class for each byte, and comes back as it was from a byte-level vocabulary. */
#ifndef BLU_RUNTIME_TOKENIZER_H
#define BLU_RUNTIME_TOKENIZER_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "safetensors.h"

typedef struct BluTokenizer BluTokenizer; /* holds buffers of its own: one thread at a time */

/* Of the bytes of a tokenizer.json; `path` is for messages. NULL, with an error. The bytes aren't needed afterwards. */
BluTokenizer *blu_tokenizer_parse(BluError *err, const char *path, const char *json, int64_t bytes);
/* Of GPT-2's pair: `merges` (vocab.bpe, merges.txt) has a line for each merge, `ids` (encoder.json, vocab.json) an id for each token. */
BluTokenizer *blu_tokenizer_parse_pair(BluError *err, const char *merges_path, const char *merges, int64_t merges_bytes, const char *ids_path,
                                       const char *ids, int64_t ids_bytes);
/* Of a file: a tokenizer.json, or vocab.bpe or merges.txt with encoder.json or vocab.json beside it; or of a folder that holds such files. */
BluTokenizer *blu_tokenizer_open(BluError *err, const char *path);
void blu_tokenizer_free(BluTokenizer *tokenizer); /* NULL is fine */

int64_t blu_tokenizer_count(const BluTokenizer *tokenizer);                   /* highest id + 1 */
int64_t blu_tokenizer_find(const BluTokenizer *tokenizer, const char *token); /* id of the token with this content; -1: there is none */
bool blu_tokenizer_is_special(const BluTokenizer *tokenizer, int64_t id);
/* What the id stands for: `*bytes` bytes, which may be a part of a character; NULL: no token has this id. */
const char *blu_tokenizer_text(const BluTokenizer *tokenizer, int64_t id, int64_t *bytes);
/* The blank that decoding leaves out at the start of a text: 1 for vocabularies that put one before each text, else 0. */
int64_t blu_tokenizer_blank(const BluTokenizer *tokenizer);
/* The ids that the file says to put before a text, such as that of <s>. */
const int32_t *blu_tokenizer_prefix(const BluTokenizer *tokenizer, int64_t *ids);
/* The token between documents: the last of the prefix, else <|endoftext|>, <|end_of_text|>, </s> or <eos> if there is one; else -1. */
int64_t blu_tokenizer_separator(const BluTokenizer *tokenizer);

typedef struct BluIds {
  int32_t *id;        /* the caller frees it */
  int64_t ids, room;
  void (*spill)(struct BluIds *ids, void *user); /* NULL, or called now and then, to take the ids out: texts may be longer than memory */
  void *user;
} BluIds;

void blu_ids_add(BluIds *to, int32_t id);

/* Appends the ids of a text, without those around it. `ordinary`: special tokens that stand in the text are text like any other.
 * Error: a byte or character that the vocabulary can't express. Time grows as n log n with the longest word at worst. */
bool blu_tokenizer_encode(BluError *err, BluTokenizer *tokenizer, const char *text, int64_t bytes, bool ordinary, BluIds *to);

/* --- tokenize.c: text files to shards of tokens; not in trainers ------------------------------------------------------ */

typedef enum { BLU_DOCUMENT_FILE, BLU_DOCUMENT_LINE } BluDocument;

typedef struct {
  const char *tokenizer, *output;  /* paths; output: DIR/NAME_ */
  const char *const *text, *const *validation; /* files; - is standard input */
  int texts, validations;
  double share;             /* of the documents, evenly spread, that becomes validation; of a single one its end, from a line on; 0: none */
  const char *separator;    /* content of the token before each document; NULL: the tokenizer's, if it has one; "": none */
  int64_t shard_tokens;     /* at most, in a file */
  BluDocument document;
  bool ordinary, overwrite, quiet;
} BluTokenizeOptions;

/* Writes OUTPUTtrain_000001.bin .. and, of validation, OUTPUTval_000000.bin ..: all of them whole, or none under its name. Says to `out`
 * what was written, and on a terminal how far it is. */
bool blu_tokenize_run(BluError *err, const BluTokenizeOptions *options, FILE *out);

#endif
