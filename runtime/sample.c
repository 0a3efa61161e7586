/* sample.c - the command `sample`: goes on with a text, token by token, by the entry `decode` of a language model.
 *
 * Tokens are those of a tokenizer, given or embedded; the tokens of a program that trains on bytes are bytes. What is printed are whole
 * characters: bytes that can't become one are shown as U+FFFD. Only programs with such an entry contain this file (abi.h). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "half.h"
#include "tokenizer.h"
#include "train_internal.h"

typedef struct {
  const BluOptions *options;
  const BluFunction *entry;
  const BluSlot *token, *at, *logits; /* at: NULL, the entry doesn't ask for the position */
  BluTokenizer *tokenizer; /* NULL: tokens are bytes */
  int64_t vocabulary, context; /* context: positions that the entry takes, INT64_MAX: no end */
  int64_t position;
  BluExec exec;
  BluSampling sampling;
  int64_t seed;
  double *logit, *weight;
  BluProgram program;      /* with the memory that the entry needs */
  float *kept;             /* logits of all positions, for --logits; NULL: not asked for */
  int64_t kept_room;
  /* output */
  char *held;              /* made, not yet printed */
  int64_t bytes, room;
  bool blank;              /* the next blank is left out if it comes first */
  bool terminal;
} Sample;

/* --- output --- */

static void print_bad(void) { fputs("\xef\xbf\xbd", stdout); }

/* Length of the character at text; 0: it may be the start of one; -1: it is none. */
static int64_t character(const char *text, int64_t bytes) {
  const unsigned char *b = (const unsigned char *)text;
  if (b[0] < 0x80) return 1;
  int n = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
  if (b[0] < 0xc2 || b[0] > 0xf4) return -1;
  for (int i = 1; i < n && i < bytes; i++) {
    int least = i > 1 ? 0x80 : b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80, most = i > 1 ? 0xbf : b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    if (b[i] < least || b[i] > most) return -1;
  }
  return bytes < n ? 0 : n;
}

/* Prints the whole characters among the first `bytes` held; `end`: and what can't become one any more. */
static void print_held(Sample *s, int64_t bytes, bool end) {
  int64_t at = 0;
  while (at < bytes) {
    int64_t n = character(s->held + at, bytes - at);
    if (!n && !end) break;
    unsigned char c = (unsigned char)s->held[at];
    bool control = n == 1 && (c == 0x7f || (c < ' ' && c != '\n' && c != '\t')); /* would be a command to a terminal */
    if (n <= 0 || (control && s->terminal)) print_bad();
    else fwrite(s->held + at, 1, (size_t)n, stdout);
    at += n > 0 ? n : 1;
  }
  s->bytes -= at;
  memmove(s->held, s->held + at, (size_t)s->bytes);
  fflush(stdout);
}

/* Where the first of the stop texts begins in what is held; -1: none is there. */
static int64_t find_stop(const Sample *s) {
  int64_t first = -1;
  for (int64_t i = 0; i < s->options->stops; i++) {
    const char *stop = s->options->stop[i], *found = *stop ? memmem(s->held, (size_t)s->bytes, stop, strlen(stop)) : NULL;
    if (found && (first < 0 || found - s->held < first)) first = found - s->held;
  }
  return first;
}

/* How many bytes at the end of what is held may be the start of a stop text. */
static int64_t maybe_stop(const Sample *s) {
  int64_t longest = 0;
  for (int64_t i = 0; i < s->options->stops; i++) {
    const char *stop = s->options->stop[i];
    int64_t n = (int64_t)strlen(stop) - 1;
    for (n = n < s->bytes ? n : s->bytes; n > longest; n--)
      if (!memcmp(s->held + s->bytes - n, stop, (size_t)n)) longest = n;
  }
  return longest;
}

/* Prints what a token adds. False: a stop text has come. */
static bool add_text(Sample *s, const char *text, int64_t bytes) {
  if (s->blank && bytes > 0) {
    s->blank = false;
    if (text[0] == ' ') text++, bytes--;
  }
  if (s->bytes + bytes > s->room) {
    s->room = 2 * (s->bytes + bytes) + 64;
    s->held = blu_need(realloc(s->held, (size_t)s->room));
  }
  memcpy(s->held + s->bytes, text, (size_t)bytes);
  s->bytes += bytes;
  int64_t stop = find_stop(s);
  print_held(s, stop >= 0 ? stop : s->bytes - maybe_stop(s), stop >= 0);
  if (stop >= 0) s->bytes = 0;
  return stop < 0;
}

/* --- the model --- */

static bool find_entry(BluError *err, Sample *s, const BluProgram *program) {
  s->entry = blu_program_function(program, BLU_DECODE);
  for (int64_t i = 0; s->entry && i < s->entry->slots; i++) {
    const BluSlot *slot = &s->entry->slot[i];
    if (slot->role == BLU_ROLE_INPUT) *(s->token ? &s->at : &s->token) = slot;
    if (slot->role == BLU_ROLE_OUTPUT) s->logits = slot;
  }
  if (!s->logits || !s->token) return blu_error_set(err, "this program has no entry `" BLU_DECODE "` to sample from");
  s->vocabulary = blu_slot_count(s->logits);
  s->program = blu_program_for(program, s->entry);
  s->context = s->at && s->at->bound > 0 ? s->at->bound : INT64_MAX;
  return true;
}

static double number_at(const char *from, BluDtype dtype) {
  union { float f; double d; uint16_t h; } v = {0};
  memcpy(&v, from, (size_t)blu_dtype_bytes(dtype));
  return dtype == BLU_DTYPE_F64 ? v.d : dtype == BLU_DTYPE_F32 ? (double)v.f : blu_half_number(dtype, v.h);
}

/* The logits of the last token, as the model gave them. */
static bool fetch_logits(BluError *err, Sample *s) {
  int64_t size = blu_dtype_bytes(s->logits->dtype), bytes = s->vocabulary * size;
  for (int64_t at = 0, part; at < bytes; at += part) {
    const char *from = blu_device_look(err, &s->exec.arena, s->logits->offset + at, (part = bytes - at, &part));
    if (!from) return false;
    for (int64_t i = 0; i < part / size; i++) s->logit[at / size + i] = number_at(from + i * size, s->logits->dtype);
  }
  return true;
}

static bool give_number(BluError *err, Sample *s, const BluSlot *slot, int32_t v) {
  char *place = s->exec.arena.base + slot->offset; /* a device's mirror has INPUT */
  memcpy(place, &v, sizeof v);
  return blu_device_put(err, &s->exec.arena, slot->offset, place, sizeof v);
}

static bool run_token(BluError *err, Sample *s, int32_t token, int64_t step) {
  int32_t at = (int32_t)s->position++;
  if (!give_number(err, s, s->token, token) || (s->at && !give_number(err, s, s->at, at))) return false;
  blu_exec_scalars(&s->exec, step, 1);
  if (!blu_exec_all(err, &s->exec, s->entry) || !fetch_logits(err, s)) return false;
  if (!s->options->logits) return true;
  if (s->position > s->kept_room) {
    s->kept_room = 2 * s->position;
    s->kept = blu_need(realloc(s->kept, (size_t)(s->kept_room * s->vocabulary) * sizeof *s->kept));
  }
  float *row = s->kept + (s->position - 1) * s->vocabulary;
  for (int64_t i = 0; i < s->vocabulary; i++) row[i] = (float)s->logit[i];
  return true;
}

static bool write_logits(BluError *err, const Sample *s) {
  const char *path = s->options->logits;
  int fd;
  if (!path) return true;
  if (!blu_file_create(err, path, &fd)) return false;
  BluSlot row = *s->logits;
  row.dtype = BLU_DTYPE_F32;
  bool good = blu_npy_header(err, fd, path, &row, s->position) &&
              blu_file_write(err, fd, path, s->kept, s->position * s->vocabulary * (int64_t)sizeof *s->kept);
  if (good) good = blu_file_close(err, fd, path);
  else close(fd);
  if (!good) unlink(path);
  return good;
}

/* A vocabulary may be padded to a round number: what is no token isn't drawn. */
static void hide_padding(Sample *s) {
  int64_t bytes;
  for (int64_t i = 0; s->tokenizer && i < s->vocabulary; i++)
    if (!blu_tokenizer_text(s->tokenizer, i, &bytes) && !isnan(s->logit[i])) s->logit[i] = -INFINITY;
}

/* --- prompt --- */

static bool open_tokenizer(BluError *err, Sample *s, const BluProgram *program) {
  const char *path = s->options->tokenizer;
  bool bytes = !strcmp(program->data, "text") || (!program->data[0] && s->vocabulary == 256);
  if (path) s->tokenizer = blu_tokenizer_open(err, path);
  else if (program->tokenizer) s->tokenizer = blu_tokenizer_parse(err, "the embedded tokenizer", program->tokenizer, program->tokenizer_bytes);
  else if (!bytes) return blu_error_set(err, "--tokenizer FILE must say what the tokens of this program stand for");
  if (!s->tokenizer) return !path && !program->tokenizer;
  return blu_tokenizer_count(s->tokenizer) <= s->vocabulary ||
         blu_error_set(err, "the tokenizer has %" PRId64 " tokens, but this program knows %" PRId64, blu_tokenizer_count(s->tokenizer), s->vocabulary);
}

/* The ids that a sample begins with: never none. */
static bool read_prompt(BluError *err, Sample *s, BluIds *ids) {
  const char *prompt = s->options->prompt ? s->options->prompt : "";
  int64_t bytes = (int64_t)strlen(prompt), prefixes = 0, separator = -1;
  if (s->tokenizer) {
    const int32_t *prefix = blu_tokenizer_prefix(s->tokenizer, &prefixes);
    for (int64_t i = 0; i < prefixes; i++) blu_ids_add(ids, prefix[i]);
    if (!blu_tokenizer_encode(err, s->tokenizer, prompt, bytes, false, ids)) return false;
    if (!ids->ids && (separator = blu_tokenizer_separator(s->tokenizer)) >= 0) blu_ids_add(ids, (int32_t)separator);
    if (!ids->ids) return blu_error_set(err, "--prompt TEXT is needed: this tokenizer has no token to begin with");
  } else {
    for (int64_t i = 0; i < bytes; i++) blu_ids_add(ids, (unsigned char)prompt[i]);
    if (!bytes) blu_ids_add(ids, '\n');
  }
  for (int64_t i = 0; i < ids->ids; i++)
    if (ids->id[i] >= s->vocabulary)
      return blu_error_set(err, "the prompt has the byte %d, but this program knows those below %" PRId64, ids->id[i], s->vocabulary);
  return ids->ids <= s->context || blu_error_set(err, "the prompt has %" PRId64 " tokens, but the context of this program is %" PRId64, ids->ids, s->context);
}

/* --- sampling --- */

/* Why it ended: NULL, after all tokens that were asked for. */
static bool generate(BluError *err, Sample *s, int64_t step, int64_t *made, const char **reason) {
  int64_t wanted = s->options->tokens >= 0 ? s->options->tokens : 200;
  *reason = NULL;
  for (*made = 0; *made < wanted; ++*made) {
    hide_padding(s);
    if (!blu_sampling_weights(&s->sampling, s->logit, s->vocabulary, s->weight))
      return blu_error_set(err, "the logits at position %" PRId64 " are not finite: NaN or infinity", s->position - 1);
    int64_t id = blu_sampling_draw(s->weight, s->vocabulary, blu_sampling_uniform(s->seed, *made)), bytes = 1;
    char byte = (char)id;
    const char *text = s->tokenizer ? blu_tokenizer_text(s->tokenizer, id, &bytes) : &byte;
    if (s->tokenizer && blu_tokenizer_is_special(s->tokenizer, id)) return *reason = "", true; /* the text has ended */
    if (!add_text(s, text, bytes)) return ++*made, *reason = "", true;
    if (ferror(stdout)) return true;
    if (*made + 1 == wanted) continue;
    if (s->position == s->context) return ++*made, *reason = "the context is full", true;
    if (!run_token(err, s, (int32_t)id, step)) return false;
  }
  return true;
}

static bool run_sample(BluError *err, Sample *s, int64_t step, const BluIds *ids) {
  const char *prompt = s->options->prompt ? s->options->prompt : "", *reason;
  int64_t made;
  s->terminal = isatty(STDOUT_FILENO);
  s->blank = s->tokenizer && blu_tokenizer_blank(s->tokenizer) && !*prompt;
  fputs(prompt, stdout);
  fflush(stdout);
  for (int64_t i = 0; i < ids->ids; i++)
    if (!run_token(err, s, ids->id[i], step)) return false;
  double start = blu_log_now();
  bool good = generate(err, s, step, &made, &reason);
  double seconds = blu_log_now() - start;
  print_held(s, s->bytes, true);
  fputc('\n', stdout);
  fflush(stdout);
  if (!good || s->options->quiet) return good;
  if (reason && *reason) fprintf(stderr, "stopped after %" PRId64 " tokens: %s (%" PRId64 " positions)\n", made, reason, s->context);
  else if (isatty(STDERR_FILENO) && made > 1 && seconds > 0) fprintf(stderr, "%" PRId64 " tokens, %.1f a second\n", made, (double)made / seconds);
  return true;
}

static bool check_options(BluError *err, const BluOptions *o) {
  return !o->logits || blu_text_ends(o->logits, ".npy") || blu_error_set(err, "--logits %s: its name must end in .npy", o->logits);
}

static bool sample(BluError *err, Sample *s, const BluProgram *program, double *run) {
  const BluOptions *o = s->options;
  char *path = NULL, *text = NULL, word[64] = "0";
  BluIds ids = {0};
  BluError warning;
  int64_t step = 0;
  s->seed = o->seed >= 0 ? o->seed : 1;
  s->sampling = (BluSampling){.temperature = o->temperature >= 0 ? o->temperature : 1, .top_k = o->top_k >= 0 ? o->top_k : 0,
                              .top_p = o->top_p >= 0 ? o->top_p : 1, .min_p = o->min_p >= 0 ? o->min_p : 0};
  bool good = check_options(err, o) &&
              find_entry(err, s, program) && open_tokenizer(err, s, program) && read_prompt(err, s, &ids) &&
              blu_cli_checkpoint(err, program, o, &path) && blu_exec_open(err, &s->exec, &s->program, run, o, blu_host_memory(0)) &&
              blu_checkpoint_load(err, program, &s->exec.arena, path, false, &text, &warning) &&
              blu_train_state_values(err, program, o, text, run);
  if (good && warning.text[0]) fprintf(stderr, "warning: %s\n", warning.text);
  if (good && text && blu_text_value(text, "step", word, sizeof word)) blu_text_int(word, &step);
  s->logit = blu_new(s->vocabulary, sizeof *s->logit);
  s->weight = blu_new(s->vocabulary, sizeof *s->weight);
  good = good && run_sample(err, s, step, &ids) && write_logits(err, s);
  free(ids.id);
  free(text);
  free(path);
  return good;
}

bool blu_sample_run(BluError *err, const BluProgram *program, const BluOptions *options, double *run) {
  Sample s = {.options = options};
  bool good = sample(err, &s, program, run);
  blu_exec_close(&s.exec);
  blu_tokenizer_free(s.tokenizer);
  free(s.logit), free(s.weight), free(s.held), free(s.kept);
  return good;
}
