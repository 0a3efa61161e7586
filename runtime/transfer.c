/* transfer.c - parameters (and states of the model itself) out of a checkpoint into one file, and from such a file into a
 * checkpoint of step 0.
 *
 * A .safetensors file holds all of them. To .npy files goes one for each parameter: NAME is put before the suffix of
 * --output. Nothing appears under its name before it is whole. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train_internal.h"

static bool write_npy(BluError *err, const char *path, const BluSlot *slot, const BluArena *arena) {
  int fd;
  if (!blu_file_create(err, path, &fd)) return false;
  if (blu_npy_header(err, fd, path, slot, slot->dim[0]) &&
      blu_npy_write(err, fd, path, arena->base + slot->offset, blu_slot_count(slot), slot->dtype))
    return blu_file_close(err, fd, path);
  close(fd);
  return false;
}

/* Writes one file under another name first; slot == NULL: all as safetensors, parameters as dtype. */
static bool write_whole(BluError *err, const BluProgram *program, const BluArena *arena, const char *path,
                        const BluSlot *slot, int32_t dtype) {
  char *temporary = blu_text_print("%s.tmp", path);
  bool good = slot ? write_npy(err, temporary, slot, arena)
                   : blu_safetensors_write(err, temporary, program, BLU_PICK_MODEL, dtype, arena);
  if (good && rename(temporary, path)) good = blu_error_set(err, "cannot rename %s to %s: %s", temporary, path, strerror(errno));
  if (!good) unlink(temporary);
  free(temporary);
  return good;
}

static bool write_each(BluError *err, const BluProgram *program, const BluArena *arena, const char *output) {
  bool good = true;
  for (int64_t i = 0; good && i < program->tensors; i++) {
    const BluSlot *slot = &program->tensor[i];
    if (!blu_slot_picked(slot, BLU_PICK_MODEL)) continue;
    char *path = blu_text_print("%.*s.%s.npy", (int)(strlen(output) - 4), output, slot->name);
    good = write_whole(err, program, arena, path, slot, BLU_DTYPE_AS_IT_IS);
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

bool blu_transfer_export(BluError *err, const BluProgram *program, const BluOptions *options) {
  char *default_output = blu_text_print("%s.safetensors", program->model), *text = NULL;
  const char *output = options->output ? options->output : default_output;
  bool npy = blu_text_ends(output, ".npy"), good = npy || blu_text_ends(output, ".safetensors");
  if (!good) blu_error_set(err, "--output %s: its name must end in .safetensors or .npy", output);
  int32_t dtype = BLU_DTYPE_AS_IT_IS;
  if (good && options->dtype) good = parse_dtype(err, options->dtype, &dtype);
  if (good && options->dtype && npy) good = blu_error_set(err, "--dtype is for .safetensors files");
  char *path = NULL;
  good = good && blu_cli_checkpoint(err, program, options, &path);
  BluError warning;
  BluArena arena = {0}; /* the host's also where the program is for a device: nothing is computed */
  good = good && blu_arena_open(err, &arena, program, 0, blu_host_memory(0)) &&
         blu_checkpoint_load(err, program, &arena, path, false, &text, &warning) &&
         (npy ? write_each(err, program, &arena, output) : write_whole(err, program, &arena, output, NULL, dtype));
  if (good && warning.text[0]) fprintf(stderr, "warning: %s\n", warning.text);
  if (good) printf("wrote the parameters of %s to %s\n", path ? path : "this program", output);
  blu_arena_close(&arena);
  free(text);
  free(path);
  free(default_output);
  return good;
}

/* First values of everything, then the file's parameters. */
static bool fill_model(BluError *err, BluExec *exec, const BluProgram *program, const char *path, const char *ignore) {
  const BluFunction *init = blu_program_function(program, "init");
  blu_exec_scalars(exec, 0, 0);
  return (!init || blu_exec_all(err, exec, init)) && blu_checkpoint_read(err, program, BLU_PICK_MODEL, ignore, true, &exec->arena, path);
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
  if (!options->files) return blu_error_set(err, "import needs a file: import FILE.safetensors");
  char *out = blu_cli_out(program, options), *text = NULL;
  BluExec exec = {0};
  int lock = -1;
  bool good = blu_exec_open(err, &exec, program, run, options, blu_host_memory(0));
  exec.seed = options->seed >= 0 ? options->seed : 1;
  good = good && fill_model(err, &exec, program, options->file[0], options->ignore) && blu_file_folder(err, out) &&
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
