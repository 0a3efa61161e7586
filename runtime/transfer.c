/* transfer.c - parameters (and states of the model itself) out of a checkpoint into one file, and from files of others into a
 * checkpoint of step 0.
 *
 * A .safetensors file holds all of them, and so does llm.c's .bin. To .npy files goes one for each parameter: NAME is put before the suffix
 * of --output. Nothing appears under its name before it is whole. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transfer_internal.h"

static bool write_npy(BluError *err, const char *path, const BluSlot *slot, const BluArena *arena) {
  int fd;
  if (!blu_file_create(err, path, &fd)) return false;
  if (blu_npy_header(err, fd, path, slot, slot->dim[0]) &&
      blu_npy_write(err, fd, path, arena->base + slot->offset, blu_slot_count(slot), slot->dtype))
    return blu_file_close(err, fd, path);
  close(fd);
  return false;
}

typedef enum { FORMAT_SAFETENSORS, FORMAT_NPY, FORMAT_LLMC, FORMAT_PEFT } Format;

/* What is exported, and how. */
typedef struct {
  const BluProgram *program;
  const BluArena *arena;
  Format format;
  BluPick pick;
  int32_t dtype;
  int64_t heads; /* 0: not given */
} Export;

/* Writes one file under another name first; `slot`: the one that goes to an .npy file. */
static bool write_whole(BluError *err, const Export *e, const char *path, const BluSlot *slot) {
  char *temporary = blu_text_print("%s.tmp", path);
  bool good = e->format == FORMAT_NPY    ? write_npy(err, temporary, slot, e->arena)
              : e->format == FORMAT_LLMC ? blu_llmc_write(err, temporary, e->program, e->arena, e->dtype, e->heads)
                                         : blu_safetensors_write(err, temporary, e->program, e->pick, e->dtype, e->arena);
  if (good && rename(temporary, path)) good = blu_error_set(err, "cannot rename %s to %s: %s", temporary, path, strerror(errno));
  if (!good) unlink(temporary);
  free(temporary);
  return good;
}

static bool write_each(BluError *err, const Export *e, const char *output) {
  bool good = true;
  for (int64_t i = 0; good && i < e->program->tensors; i++) {
    const BluSlot *slot = &e->program->tensor[i];
    if (!blu_slot_picked(slot, e->pick)) continue;
    char *path = blu_text_print("%.*s.%s.npy", (int)(strlen(output) - 4), output, slot->name);
    good = write_whole(err, e, path, slot);
    free(path);
  }
  return good;
}

static bool parse_dtype(BluError *err, const char *name, int32_t *dtype) {
  static const int32_t allowed[] = {BLU_DTYPE_F32, BLU_DTYPE_BF16, BLU_DTYPE_F16};
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
    if (!strcmp(name, blu_dtype_name(allowed[i]))) return *dtype = allowed[i], true;
  return blu_error_set(err, "--dtype %s: parameters can be exported as f32, bf16 or f16", name);
}

static bool needs_adapters(BluError *err, const BluProgram *program, const char *option) {
  return program->adapters || blu_error_set(err, "%s: this program has no adapters (nn.LoRALinear and its likes)", option);
}

/* The format by --format, else by the name of the output. */
static bool parse_format(BluError *err, const BluOptions *options, const char *output, Export *e) {
  static const struct {
    const char *name, *ending;
  } formats[] = {[FORMAT_SAFETENSORS] = {"safetensors", ".safetensors"}, [FORMAT_NPY] = {"npy", ".npy"}, [FORMAT_LLMC] = {"llmc", ".bin"},
                 [FORMAT_PEFT] = {"peft", ""}};
  enum { FORMATS = sizeof formats / sizeof *formats };
  int found = -1;
  for (int i = 0; i < FORMATS; i++)
    if (options->format ? !strcmp(options->format, formats[i].name) : i < FORMAT_LLMC && blu_text_ends(output, formats[i].ending)) found = i;
  if (found < 0 && options->format) return blu_error_set(err, "--format %s: it is safetensors, npy, llmc or peft", options->format);
  if (found < 0) return blu_error_set(err, "--output %s: its name must end in .safetensors or .npy", output);
  if (!blu_text_ends(output, formats[found].ending))
    return blu_error_set(err, "--output %s: for --format %s its name must end in %s", output, formats[found].name, formats[found].ending);
  e->format = (Format)found;
  e->dtype = found == FORMAT_LLMC ? BLU_DTYPE_F32 : BLU_DTYPE_AS_IT_IS;
  e->heads = options->heads > 0 ? options->heads : 0;
  if (options->dtype && !parse_dtype(err, options->dtype, &e->dtype)) return false;
  if (options->dtype && found == FORMAT_NPY) return blu_error_set(err, "--dtype is for .safetensors files and llm.c's");
  if (found == FORMAT_LLMC && e->dtype == BLU_DTYPE_F16) return blu_error_set(err, "--dtype f16: llm.c's files hold f32 or bf16");
  if (options->merge && !needs_adapters(err, e->program, "--merge")) return false;
  if (found == FORMAT_PEFT && !needs_adapters(err, e->program, "--format peft")) return false;
  if (found == FORMAT_LLMC && e->program->adapters && !options->merge)
    return blu_error_set(err, "--format llmc has no place for adapters: --merge adds them to the weights");
  if (found == FORMAT_PEFT && options->merge) return blu_error_set(err, "--format peft is for adapters, and --merge leaves none");
  return options->heads < 0 || found == FORMAT_LLMC || blu_error_set(err, "--heads is for --format llmc");
}

/* Loads the checkpoint that the options name, and merges adapters. In *from where it was, NULL: in the program. */
static bool load_model(BluError *err, const BluProgram *program, const BluOptions *options, BluArena *arena, char **from, int64_t *merged) {
  char *text = NULL;
  BluError warning;
  BluProgram kept = blu_program_for(program, NULL); /* the host's memory, also where the program is for a device: nothing is computed */
  bool good = blu_cli_checkpoint(err, program, options, from) && blu_arena_open(err, arena, &kept, 0, blu_host_memory(0)) &&
              blu_checkpoint_load(err, program, arena, *from, false, &text, &warning) &&
              (!options->merge || program->adapters->merge(err, program, arena, merged));
  if (good && warning.text[0]) fprintf(stderr, "warning: %s\n", warning.text);
  free(text);
  return good;
}

bool blu_transfer_export(BluError *err, const BluProgram *program, const BluOptions *options) {
  bool llmc = options->format && !strcmp(options->format, "llmc"), npy = options->format && !strcmp(options->format, "npy");
  bool peft = options->format && !strcmp(options->format, "peft");
  char *default_output = blu_text_print("%s.%s", program->model, llmc ? "bin" : npy ? "npy" : peft ? "adapter" : "safetensors"), *from = NULL;
  const char *output = options->output ? options->output : default_output;
  BluArena arena = {0};
  Export e = {.program = program, .arena = &arena, .pick = options->merge ? BLU_PICK_BASE : BLU_PICK_MODEL};
  int64_t merged = 0;
  bool good = parse_format(err, options, output, &e) && load_model(err, program, options, &arena, &from, &merged) &&
              (e.format == FORMAT_PEFT  ? program->adapters->write(err, program, &arena, e.dtype, output)
               : e.format == FORMAT_NPY ? write_each(err, &e, output)
                                        : write_whole(err, &e, output, NULL));
  if (good) printf("wrote the %s of %s to %s\n", e.format == FORMAT_PEFT ? "adapters" : "parameters", from ? from : "this program", output);
  if (good && merged) printf("merged %" PRId64 " adapters into their weights\n", merged);
  blu_arena_close(&arena);
  free(from);
  free(default_output);
  return good;
}

static bool read_all(BluError *err, const BluProgram *program, const BluWeights *weights, const BluWeight *const *from, const BluArena *arena) {
  bool good = true;
  for (int64_t i = 0; good && i < program->tensors; i++)
    if (from[i]) good = blu_weights_read(err, weights, from[i], arena, program->tensor[i].offset, program->tensor[i].dtype);
  return good;
}

/* First values of everything, then what the files hold. */
static bool fill_model(BluError *err, BluExec *exec, const BluProgram *program, const BluOptions *options) {
  const char *path = options->file[0];
  const BluFunction *init = blu_program_function(program, "init");
  BluWeights weights;
  if (!blu_weights_open(err, &weights, path)) return false;
  const BluWeight **from = blu_new(program->tensors + 1, sizeof *from);
  int64_t heads = blu_llmc_heads(program);
  bool good = !options->adapter || needs_adapters(err, program, "--adapter");
  if (good && options->adapter) good = program->adapters->open(err, &weights, program, options->adapter);
  good = good && blu_weights_match(err, program, &weights, options->ignore, from, stdout, stderr);
  if (good && weights.heads && heads && weights.heads != heads)
    good = blu_error_set(err, "%s does not fit this program: its attention has %" PRId64 " heads, the program's %" PRId64, path, weights.heads, heads);
  blu_exec_scalars(exec, 0, 0);
  good = good && (!init || blu_exec_all(err, exec, init));
  good = good && read_all(err, program, &weights, from, &exec->arena);
  if (good && options->adapter) good = program->adapters->put_scales(err, program, &weights, from, &exec->arena);
  free(from);
  blu_weights_close(&weights);
  return good;
}

static char *import_text(const BluProgram *program, int64_t seed, const double *run) {
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  blu_need(file);
  fprintf(file, "step=0\nseed=%" PRId64 "\nimported=1\n", seed);
  for (int64_t i = 0; i < program->scalars; i++)
    if (program->scalar[i].role == BLU_ROLE_RUN) fprintf(file, "run.%s=%.17g\n", program->scalar[i].name, run[i]);
  fclose(file);
  return text;
}

bool blu_transfer_import(BluError *err, const BluProgram *program, const BluOptions *options, double *run) {
  if (!options->files) return blu_error_set(err, "import needs a file or folder: import FILE.safetensors");
  char *out = blu_cli_out(program, options), *text = NULL;
  BluExec exec = {0};
  BluProgram part = blu_program_for(program, blu_program_function(program, "init"));
  int lock = -1;
  bool good = blu_exec_open(err, &exec, &part, run, options, blu_host_memory(0));
  exec.seed = options->seed >= 0 ? options->seed : 1;
  good = good && fill_model(err, &exec, program, options) && blu_file_folder(err, out) &&
         (lock = blu_file_lock(err, out)) >= 0;
  int64_t latest = good ? blu_checkpoint_latest(out) : -1;
  if (latest >= 0)
    good = blu_error_set(err, "%s holds a checkpoint of step %" PRId64 ": give another --out", out, latest);
  if (good) {
    text = import_text(program, exec.seed, run);
    good = blu_checkpoint_save(err, program, &exec.arena, out, 0, text);
  }
  if (good) printf("made %s/step-0 from %s; train --out %s --resume goes on from there\n", out, options->file[0], out);
  blu_file_unlock(lock, out);
  blu_exec_close(&exec);
  free(text);
  free(out);
  return good;
}
