/* predict.c - runs an entry on the rows of files.
 *
 * An entry was compiled for a batch: the leading dimension that all its inputs and outputs share. Files with any number
 * of rows are run batch by batch, the last one filled up with zeros, whose results are dropped; rows don't see each
 * other's. An entry without such a dimension takes each input whole and runs once. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "half.h"
#include "train_internal.h"

typedef struct {
  const BluSlot *slot;
  BluBytes bytes;
  BluCsv csv;
  BluArray array;
} Input;

typedef struct {
  const BluSlot *slot;
  char *path;
  int fd;
  FILE *csv; /* NULL: npy */
} Output;

typedef struct {
  const BluFunction *entry;
  BluProgram program; /* with the memory that the entry needs */
  Input input[BLU_CLI_FILES];
  Output output[BLU_CLI_FILES];
  int inputs, outputs;
  int64_t batch, rows; /* batch 0: the entry has none, and runs once */
} Predict;

/* --- which entry --- */

static const BluFunction *find_entry(BluError *err, const BluProgram *program, const char *name) {
  const BluFunction *found = NULL;
  BluGuess guess = {.word = name ? name : "predict"};
  int entries = 0;
  for (int64_t i = 0; i < program->functions; i++) {
    const BluFunction *f = &program->function[i];
    if (!blu_function_is_entry(f)) continue;
    entries++;
    blu_guess_add(&guess, f->name);
    if (!strcmp(f->name, guess.word) || (!name && !found)) found = f;
  }
  if (!entries) return blu_error_set(err, "this program has no entry to run"), NULL;
  if (found && (!name || !strcmp(found->name, name)) && (name || entries == 1 || !strcmp(found->name, "predict")))
    return found;
  if (name) blu_error_set(err, "this program has no entry '%s'%s", name, blu_guess_hint(&guess));
  else blu_error_set(err, "this program has several entries: --entry NAME says which (`info` lists them)");
  return NULL;
}

/* --- inputs --- */

static bool find_slots(BluError *err, Predict *p) {
  bool batched = true;
  for (int64_t i = 0; i < p->entry->slots; i++) {
    const BluSlot *slot = &p->entry->slot[i];
    bool in = slot->role == BLU_ROLE_INPUT;
    if (!in && slot->role != BLU_ROLE_OUTPUT) continue;
    if ((in ? p->inputs : p->outputs) == BLU_CLI_FILES)
      return blu_error_set(err, "entry %s has more than %d inputs or outputs", p->entry->name, BLU_CLI_FILES);
    if (in) p->input[p->inputs++].slot = slot;
    else p->output[p->outputs++].slot = slot;
    int64_t leading = slot->rank ? slot->dim[0] : 0;
    if (!p->batch) p->batch = leading;
    batched = batched && leading > 0 && leading == p->batch;
  }
  if (!batched || !p->inputs) p->batch = 0;
  return true;
}

/* Reads a file by what it is: npy and IDX by their first bytes, else CSV by its name. */
static bool read_array(BluError *err, Input *in, const char *path, int64_t seconds) {
  if (!blu_bytes_open(err, &in->bytes, path, seconds)) return false;
  const uint8_t *b = in->bytes.data;
  int64_t size = in->bytes.size;
  if (size >= 6 && !memcmp(b, "\x93NUMPY", 6)) return blu_npy_parse(err, in->bytes.path, b, size, &in->array);
  if (size >= 4 && !b[0] && !b[1] && b[2] == 8) return blu_idx_parse(err, in->bytes.path, b, size, &in->array);
  if (!blu_text_ends(path, ".csv") && !blu_text_ends(path, ".csv.gz"))
    return blu_error_set(err, "%s: neither an npy nor an IDX file, and not called .csv", path);
  if (!blu_csv_parse(err, in->bytes.path, b, size, &in->csv)) return false;
  in->array = (BluArray){.path = in->bytes.path, .value = in->csv.value, .raw = BLU_RAW_F64, .rank = 2,
                         .dim = {in->csv.rows, in->csv.columns}, .stride = in->csv.columns,
                         .first_line = in->csv.first_line};
  return true;
}

/* The array as rows of the slot: a single example, or an input that is no batch, becomes one row. */
static bool shape_rows(BluError *err, const Predict *p, Input *in) {
  BluArray *a = &in->array;
  const BluSlot *slot = in->slot;
  char here[200], there[200];
  blu_array_type(a, here);
  int64_t values = 1, want = blu_slot_count(slot) / (p->batch ? p->batch : 1);
  for (int32_t i = 0; i < a->rank; i++) values *= a->dim[i];
  bool whole = !p->batch || (a->rank == slot->rank - 1 && values == want);
  if (whole) {
    a->rank = 2;
    a->dim[0] = 1;
    a->dim[1] = a->stride = values;
  }
  bool fits = whole ? values == want : blu_array_fits(a, slot);
  bool real = blu_raw_real(a->raw);
  bool whole_type = slot->dtype != BLU_DTYPE_F32 && slot->dtype != BLU_DTYPE_F64 && !blu_half_is(slot->dtype);
  if (!fits || (real && whole_type && !a->first_line))
    return blu_error_set(err, "%s: its %s can't be given to '%s: %s'", a->path, here, slot->name,
                         blu_slot_type(slot, there));
  if (a->dim[0] < 1) return blu_error_set(err, "%s: the file has no examples", a->path);
  BluSlot flat = *slot; /* checks values only */
  return blu_array_check(err, a, &flat);
}

/* A word that names neither an input nor a file: what was meant? False: none of these, and the file is missed. */
static bool refuse_word(BluError *err, const Predict *p, const char *word, const char *equals) {
  if (!access(word, F_OK)) return false;
  if (!strcmp(word, p->entry->name)) return blu_error_set(err, "'%s' is an entry: --entry %s runs it, and its inputs are files", word, word), true;
  if (!equals || memchr(word, '/', (size_t)(equals - word)) || memchr(word, '.', (size_t)(equals - word))) return false;
  char *name = blu_text_print("%.*s", (int)(equals - word), word);
  BluGuess guess = {.word = name};
  for (int i = 0; i < p->inputs; i++) blu_guess_add(&guess, p->input[i].slot->name);
  blu_error_set(err, "'%s': entry %s has no input '%s'%s", word, p->entry->name, name, blu_guess_hint(&guess));
  free(name);
  return true;
}

static bool open_input(BluError *err, Predict *p, const char *word, int64_t seconds) {
  const char *equals = strchr(word, '='), *path = word;
  Input *in = NULL;
  for (int i = 0; equals && i < p->inputs; i++) {
    size_t length = strlen(p->input[i].slot->name);
    if (length == (size_t)(equals - word) && !memcmp(p->input[i].slot->name, word, length)) in = &p->input[i];
  }
  if (in) path = equals + 1;
  else if (refuse_word(err, p, word, equals)) return false;
  for (int i = 0; !in && i < p->inputs; i++)
    if (!p->input[i].array.path) in = &p->input[i];
  if (!in || in->array.path)
    return blu_error_set(err, "'%s': entry %s takes %d inputs, each once", word, p->entry->name, p->inputs);
  if (!read_array(err, in, path, seconds) || !shape_rows(err, p, in)) return false;
  if (p->rows && p->rows != in->array.dim[0])
    return blu_error_set(err, "%s has %" PRId64 " rows, but the input before it has %" PRId64, path, in->array.dim[0],
                         p->rows);
  p->rows = in->array.dim[0];
  return true;
}

static bool open_inputs(BluError *err, Predict *p, const BluOptions *options) {
  for (int64_t i = 0; i < options->files; i++)
    if (!open_input(err, p, options->file[i], options->timeout)) return false;
  for (int i = 0; i < p->inputs; i++)
    if (!p->input[i].array.path) {
      char type[200];
      return blu_error_set(err, "entry %s needs a file for its input '%s: %s'", p->entry->name, p->input[i].slot->name,
                           blu_slot_type(p->input[i].slot, type));
    }
  if (!p->inputs) p->rows = 1;
  return true;
}

/* --- outputs --- */

/* FILE of `--output`; with several outputs, each has its name before the suffix. */
static char *output_path(const Predict *p, const Output *out, const char *wish) {
  if (p->outputs == 1) return blu_text_path("", wish);
  const char *dot = strrchr(wish, '.');
  return blu_text_print("%.*s.%s%s", (int)(dot - wish), wish, out->slot->name, dot);
}

static bool open_output(BluError *err, const Predict *p, Output *out, const char *wish) {
  if (!wish) {
    out->csv = stdout;
    return true;
  }
  out->path = output_path(p, out, wish);
  if (!blu_file_create(err, out->path, &out->fd)) return false;
  if (blu_text_ends(wish, ".csv")) {
    out->csv = fdopen(out->fd, "w");
    return out->csv || blu_error_set(err, "cannot write %s: %s", out->path, strerror(errno));
  }
  return blu_npy_header(err, out->fd, out->path, out->slot, p->batch ? p->rows : out->slot->dim[0]);
}

static bool open_outputs(BluError *err, Predict *p, const char *wish) {
  if (wish && !blu_text_ends(wish, ".npy") && !blu_text_ends(wish, ".csv"))
    return blu_error_set(err, "--output %s: its name must end in .npy or .csv", wish);
  for (int i = 0; i < p->outputs; i++)
    if (!open_output(err, p, &p->output[i], wish)) return false;
  return true;
}

static void print_value(FILE *file, const char *place, int32_t dtype) {
  union { float f; double d; int32_t i; int64_t l; uint8_t b; uint16_t h; } v = {.l = 0};
  memcpy(&v, place, (size_t)blu_dtype_bytes(dtype));
  switch (dtype) {
    case BLU_DTYPE_F32: fprintf(file, "%.9g", (double)v.f); break;
    case BLU_DTYPE_F64: fprintf(file, "%.17g", v.d); break;
    case BLU_DTYPE_BF16:
    case BLU_DTYPE_F16: fprintf(file, "%.9g", blu_half_number(dtype, v.h)); break;
    case BLU_DTYPE_I32: fprintf(file, "%" PRId32, v.i); break;
    case BLU_DTYPE_I64: fprintf(file, "%" PRId64, v.l); break;
    default: fprintf(file, "%d", v.b); break;
  }
}

/* The first `rows` rows of an output; all of it as one row if the entry has no batch. */
static bool write_output(BluError *err, const Predict *p, Output *out, const BluArena *arena, int64_t rows) {
  const BluSlot *slot = out->slot;
  int64_t row = p->batch ? blu_slot_count(slot) / p->batch : blu_slot_count(slot), bytes = blu_dtype_bytes(slot->dtype);
  if (p->outputs > 1 && out->csv == stdout) printf("%s:\n", slot->name);
  for (int64_t at = 0, part; at < rows * row * bytes; at += part) {
    const char *from = blu_device_look(err, arena, slot->offset + at, (part = rows * row * bytes - at, &part));
    if (!from || (!out->csv && !blu_npy_write(err, out->fd, out->path, from, part / bytes, slot->dtype))) return false;
    for (int64_t i = 0; out->csv && i < part; i += bytes) { /* parts end with a value */
      print_value(out->csv, from + i, slot->dtype);
      fputc((at + i) / bytes % row + 1 < row ? ',' : '\n', out->csv);
    }
  }
  return true;
}

static bool close_outputs(BluError *err, Predict *p, bool good) {
  for (int i = 0; i < p->outputs; i++) {
    Output *out = &p->output[i];
    if (!out->path) continue;
    if (good && out->csv && fflush(out->csv)) good = blu_error_set(err, "cannot write %s: %s", out->path, strerror(errno));
    if (good && fsync(out->fd) && errno != EINVAL && errno != EROFS)
      good = blu_error_set(err, "cannot sync %s: %s", out->path, strerror(errno));
    if (out->csv) fclose(out->csv);
    else if (out->fd >= 0) close(out->fd);
    if (!good) unlink(out->path);
    free(out->path);
  }
  return good;
}

/* --- running --- */

static bool run_rows(BluError *err, Predict *p, BluExec *exec, int64_t step) {
  int64_t batch = p->batch ? p->batch : 1, *index = blu_new(batch, sizeof *index);
  bool good = true;
  for (int64_t first = 0; good && first < p->rows; first += batch) {
    int64_t rows = p->rows - first < batch ? p->rows - first : batch;
    for (int64_t i = 0; i < rows; i++) index[i] = first + i;
    for (int i = 0; good && i < p->inputs; i++) {
      const BluSlot *slot = p->input[i].slot;
      char *place = exec->arena.base + slot->offset; /* a device's mirror has INPUT */
      int64_t bytes = blu_slot_count(slot) * blu_dtype_bytes(slot->dtype);
      memset(place, 0, (size_t)bytes);
      good = blu_array_fetch(&p->input[i].array, slot, place, index, rows) ||
             blu_error_set(err, "%s: the file was changed while this program read it", p->input[i].array.path);
      good = good && blu_device_put(err, &exec->arena, slot->offset, place, bytes);
    }
    if (!good) break;
    blu_exec_scalars(exec, step, rows);
    good = blu_exec_all(err, exec, p->entry);
    for (int i = 0; good && i < p->outputs; i++) good = write_output(err, p, &p->output[i], &exec->arena, rows);
  }
  free(index);
  return good;
}

static bool predict(BluError *err, Predict *p, BluExec *exec, const BluProgram *program, const BluOptions *options,
                    double *run) {
  if (!find_slots(err, p) || !open_inputs(err, p, options)) return false;
  char *path = NULL, *text = NULL;
  if (!blu_cli_checkpoint(err, program, options, &path)) return false;
  BluError warning;
  int64_t held = 0, step = 0;
  char word[64] = "0";
  for (int i = 0; i < p->inputs; i++)
    held += p->input[i].bytes.map ? 0 : p->input[i].bytes.size + p->input[i].csv.rows * p->input[i].csv.columns * 8;
  bool good = blu_exec_open(err, exec, &p->program, run, options, blu_host_memory(held)) &&
              blu_checkpoint_load(err, program, &exec->arena, path, false, &text, &warning) &&
              blu_train_state_values(err, program, options, text, run);
  if (good && warning.text[0]) fprintf(stderr, "warning: %s\n", warning.text);
  if (good && text && blu_text_value(text, "step", word, sizeof word)) blu_text_int(word, &step);
  if (good) good = close_outputs(err, p, open_outputs(err, p, options->output) && run_rows(err, p, exec, step));
  free(text);
  free(path);
  return good;
}

bool blu_predict_run(BluError *err, const BluProgram *program, const BluOptions *options, double *run) {
  Predict p = {.entry = find_entry(err, program, options->entry)};
  BluExec exec = {0};
  if (!p.entry) return false;
  p.program = blu_program_for(program, p.entry);
  for (int i = 0; i < BLU_CLI_FILES; i++) p.output[i].fd = -1;
  bool good = predict(err, &p, &exec, program, options, run);
  blu_exec_close(&exec);
  for (int i = 0; i < p.inputs; i++) {
    blu_bytes_close(&p.input[i].bytes);
    blu_csv_free(&p.input[i].csv);
  }
  return good;
}
