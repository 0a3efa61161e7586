/* tokenize.c - the command line of `bluc tokenize`; the work is done by runtime/tokenizer/tokenize.c, whose tokens trainers read. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/codegen.h"
#include "dialects/memory.h"
#include "runtime/tokenizer.h"

static int usage(FILE *out, int status) {
  fputs("usage: bluc tokenize --tokenizer FILE --output DIR/NAME_ [options] TEXT..\n\n"
    "Makes shards of tokens from texts, to train on: NAME_train_000001.bin .. and, of what is kept for validation, NAME_val_000000.bin ..\n"
    "They are llm.c's, of 16 bits a token, or 32 where the vocabulary has more than 65536; `train (..) from tokens` reads them. A text may\n"
    "be gzipped, and - is standard input.\n\n"
    "  --tokenizer FILE      a tokenizer.json, or vocab.bpe beside encoder.json, or a folder that holds them\n"
    "  --output DIR/NAME_    where to, and what all names begin with\n"
    "  --validation X        a share from 0 to 1 for validation: of documents, evenly spread; of a single one, its last lines\n"
    "  --validation-file FILE  a text for validation; may be given several times\n"
    "  --documents WHAT      file (default): each text is a document; line: each line that isn't empty\n"
    "  --separator TOKEN     token before each document, or none (default: the first that the tokenizer has of its own, <|endoftext|>,\n"
    "                        <|end_of_text|>, </s>, <eos>)\n"
    "  --ordinary            special tokens that stand in a text are text like any other\n"
    "  --shard-tokens N      tokens of a file, at most (default 100000000)\n"
    "  --overwrite           replace files of the same names\n"
    "  --quiet               print errors only\n"
    "  --help\n\n"
    "example:\n"
    "  bluc tokenize --tokenizer tokenizer.json --output data/books_ --validation 0.1 books/*.txt\n"
    "exit status: 0 good, 1 a file can't be read or written, or isn't what it should be, 2 usage\n", out);
  return status;
}

static int complain(const char *what, const char *arg) {
  fprintf(stderr, "bluc tokenize: %s%s%s%s (see bluc tokenize --help)\n", what, *arg ? " '" : "", arg, *arg ? "'" : "");
  return 2;
}

/* The value of --name=VALUE or --name VALUE, "" if it lacks one; NULL: a is another option. */
static const char *value_of(const char *name, int argc, char **argv, int *i) {
  size_t n = strlen(name);
  if (strncmp(argv[*i], name, n)) return NULL;
  if (argv[*i][n] == '=') return argv[*i] + n + 1;
  if (argv[*i][n]) return NULL;
  return *i + 1 < argc ? argv[++*i] : "";
}

static bool share_of(const char *text, double *share) {
  char *end;
  *share = strtod(text, &end);
  return end != text && !*end && *share >= 0 && *share < 1;
}

static bool number_of(const char *text, int64_t *number) {
  char *end;
  errno = 0;
  *number = strtoll(text, &end, 10);
  return end != text && !*end && !errno && *number >= 1 && *number <= INT32_MAX;
}

/* 0: go on; else the exit status + 1. */
static int parse(BluTokenizeOptions *o, const char **texts, const char **validations, int argc, char **argv) {
  const char *v;
  for (int i = 0; i < argc; i++) {
    const char *a = argv[i];
    if (!strcmp(a, "--help") || !strcmp(a, "-h")) return usage(stdout, 0) + 1;
    if (!strcmp(a, "--ordinary")) o->ordinary = true;
    else if (!strcmp(a, "--overwrite")) o->overwrite = true;
    else if (!strcmp(a, "--quiet")) o->quiet = true;
    else if ((v = value_of("--tokenizer", argc, argv, &i))) o->tokenizer = v;
    else if ((v = value_of("--output", argc, argv, &i))) o->output = v;
    else if ((v = value_of("--separator", argc, argv, &i))) {
      if (!*v) return complain("--separator takes a token, or none", "") + 1;
      o->separator = strcmp(v, "none") ? v : "";
    } else if ((v = value_of("--validation-file", argc, argv, &i))) {
      if (!*v) return complain("--validation-file takes a file name", "") + 1;
      validations[o->validations++] = v;
    } else if ((v = value_of("--validation", argc, argv, &i))) {
      if (!share_of(v, &o->share)) return complain("--validation takes a share from 0 to 1, such as 0.1, not", v) + 1;
    } else if ((v = value_of("--shard-tokens", argc, argv, &i))) {
      if (!number_of(v, &o->shard_tokens)) return complain("--shard-tokens takes a whole number from 1 to 2147483647, not", v) + 1;
    } else if ((v = value_of("--documents", argc, argv, &i))) {
      if (!strcmp(v, "line")) o->document = BLU_DOCUMENT_LINE;
      else if (!strcmp(v, "file")) o->document = BLU_DOCUMENT_FILE;
      else return complain("--documents takes file or line, not", v) + 1;
    } else if (a[0] == '-' && a[1]) return complain("unknown option", a) + 1;
    else texts[o->texts++] = a;
  }
  o->text = texts, o->validation = validations;
  if (!o->tokenizer || !*o->tokenizer) return complain("which --tokenizer?", "") + 1;
  if (!o->output || !*o->output) return complain("which --output?", "") + 1;
  if (!o->texts) return complain("which texts?", "") + 1;
  return 0;
}

int blu_tokenize_main(int argc, char **argv) {
  BluTokenizeOptions o = {.shard_tokens = 100000000};
  const char **texts = blu_alloc_zeroed((size_t)argc + 1, sizeof *texts), **validations = blu_alloc_zeroed((size_t)argc + 1, sizeof *validations);
  int status = parse(&o, texts, validations, argc, argv) - 1;
  if (status < 0) {
    BluError err;
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write */
    status = blu_tokenize_run(&err, &o, stdout) ? 0 : 1;
    if (status) fprintf(stderr, "bluc tokenize: %s\n", err.text);
    if (!status && fflush(stdout)) fprintf(stderr, "bluc tokenize: %s\n", strerror(errno)), status = 1;
  }
  free(texts);
  free(validations);
  return status;
}
