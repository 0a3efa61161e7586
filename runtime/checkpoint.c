/* checkpoint.c - a checkpoint is a folder OUT/step-N/ with
 *   model.safetensors   the parameters, under their own names
 *   state.safetensors   the states of optimizer and model
 *   trainer.txt         "key=value" lines: hash and model of the program, and what train.c adds
 *
 * It appears under its name only when all of it is on the disk: written as step-N.tmp/, synced, renamed, parent synced.
 * A folder that is going away loses its name first. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime_internal.h"

/* N of "step-N" (then *temporary = false) or "step-N.tmp"; -1 for any other name. */
static int64_t step_of(const char *name, bool *temporary) {
  if (strncmp(name, "step-", 5) || name[5] < '0' || name[5] > '9') return -1;
  char *end;
  int64_t step = strtoll(name + 5, &end, 10);
  *temporary = !strcmp(end, ".tmp");
  return *temporary || !*end ? step : -1;
}

/* Highest N below `below` of the complete checkpoints. */
static int64_t highest_below(const char *out, int64_t below) {
  DIR *folder = opendir(out);
  int64_t highest = -1;
  if (!folder) return -1;
  for (struct dirent *entry; (entry = readdir(folder));) {
    bool temporary = true;
    int64_t step = step_of(entry->d_name, &temporary);
    if (!temporary && step > highest && step < below) highest = step;
  }
  closedir(folder);
  return highest;
}

int64_t blu_checkpoint_latest(const char *out) { return highest_below(out, INT64_MAX); }

char *blu_checkpoint_path(const char *out, int64_t step) {
  char name[40];
  snprintf(name, sizeof name, "step-%" PRId64, step);
  return blu_text_path(out, name);
}

static char *temporary_path(const char *out, int64_t step) {
  char name[40];
  snprintf(name, sizeof name, "step-%" PRId64 ".tmp", step);
  return blu_text_path(out, name);
}

void blu_checkpoint_clean(const char *out) {
  DIR *folder = opendir(out);
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    bool temporary = false;
    if (step_of(entry->d_name, &temporary) < 0 || !temporary) continue;
    char *path = blu_text_path(out, entry->d_name);
    blu_file_remove_folder(path);
    free(path);
  }
  closedir(folder);
}

static void prune(const char *out) {
  int64_t step = INT64_MAX;
  for (int kept = 0; (step = highest_below(out, step)) >= 0; kept++) {
    if (kept < BLU_CHECKPOINT_KEEP) continue;
    char *path = blu_checkpoint_path(out, step), *temporary = temporary_path(out, step);
    if (!rename(path, temporary)) blu_file_remove_folder(temporary);
    free(path);
    free(temporary);
  }
}

static bool write_text(BluError *err, const char *path, const BluProgram *program, const char *text) {
  char head[400];
  snprintf(head, sizeof head, "format=1\nmodel=%.200s\nhash=%016" PRIx64 "\n", program->model, program->hash);
  int fd;
  if (!blu_file_create(err, path, &fd)) return false;
  if (blu_file_write(err, fd, path, head, (int64_t)strlen(head)) &&
      blu_file_write(err, fd, path, text, (int64_t)strlen(text)))
    return blu_file_close(err, fd, path);
  close(fd);
  return false;
}

static bool write_folder(BluError *err, const BluProgram *program, const char *arena, const char *folder,
                         const char *text) {
  char *model = blu_text_path(folder, "model.safetensors"), *state = blu_text_path(folder, "state.safetensors");
  char *trainer = blu_text_path(folder, "trainer.txt");
  bool good = blu_file_folder(err, folder) &&
              blu_safetensors_write(err, model, program, BLU_ROLE_PARAM, arena) &&
              blu_safetensors_write(err, state, program, BLU_ROLE_STATE, arena) &&
              write_text(err, trainer, program, text) && blu_file_sync(err, folder);
  free(model);
  free(state);
  free(trainer);
  return good;
}

bool blu_checkpoint_save(BluError *err, const BluProgram *program, const char *arena, const char *out, int64_t step,
                         const char *text) {
  char *path = blu_checkpoint_path(out, step), *temporary = temporary_path(out, step);
  bool good = !access(path, F_OK);
  if (!good) {
    blu_file_remove_folder(temporary);
    good = write_folder(err, program, arena, temporary, text);
    if (good && rename(temporary, path))
      good = blu_error_set(err, "cannot rename %s to %s: %s", temporary, path, strerror(errno));
    if (good) good = blu_file_sync(err, out);
    if (good) prune(out);
    else blu_file_remove_folder(temporary);
  }
  free(path);
  free(temporary);
  return good;
}

/* Adds a line to `err` for each tensor of `role` that differs between program and file; at most a few are named. */
static int64_t count_differences(BluError *err, const BluProgram *program, int32_t role, const BluSafetensors *file) {
  enum { NAMED = 8 };
  char here[200], there[200];
  int64_t differences = 0, matched = 0;
  for (int64_t i = 0; i < program->tensors; i++) {
    const BluSlot *want = &program->tensor[i], *got;
    if (want->role != role) continue;
    got = blu_safetensors_find(file, want->name);
    matched += got != NULL;
    bool same = got && !strcmp(blu_slot_type(want, here), blu_slot_type(got, there));
    if (same || differences++ >= NAMED) continue;
    if (got) blu_error_add(err, "\n  %s: %s in the program, %s in the checkpoint", want->name, here, there);
    else blu_error_add(err, "\n  %s: missing in the checkpoint", want->name);
  }
  for (int64_t i = 0; matched < file->tensors && i < file->tensors; i++) {
    bool known = false;
    for (int64_t j = 0; j < program->tensors && !known; j++)
      known = program->tensor[j].role == role && !strcmp(program->tensor[j].name, file->tensor[i].name);
    if (!known && differences++ < NAMED)
      blu_error_add(err, "\n  %s: %s in the checkpoint, missing in the program", file->tensor[i].name,
                    blu_slot_type(&file->tensor[i], there));
  }
  if (differences > NAMED) blu_error_add(err, "\n  and %" PRId64 " more", differences - NAMED);
  return differences;
}

static bool read_tensors(BluError *err, const BluProgram *program, int32_t role, char *arena, const char *path) {
  BluSafetensors file;
  int fd;
  if (!blu_safetensors_open(err, &file, path, &fd)) return false;
  blu_error_set(err, "%s does not fit this program:", path);
  bool good = !count_differences(err, program, role, &file);
  for (int64_t i = 0; good && i < program->tensors; i++) {
    const BluSlot *to = &program->tensor[i], *from;
    if (to->role != role) continue;
    from = blu_safetensors_find(&file, to->name);
    good = blu_file_read(err, fd, path, arena + to->offset, from->bytes, file.data_start + from->offset);
  }
  close(fd);
  blu_safetensors_close(&file);
  return good;
}

static bool read_text(BluError *err, const BluProgram *program, const char *path, char **text, BluError *warning) {
  char format[8], hash[32], expected[32];
  *text = blu_file_text(err, path);
  if (!*text) return false;
  snprintf(expected, sizeof expected, "%016" PRIx64, program->hash);
  if (!blu_text_value(*text, "format", format, sizeof format) || strcmp(format, "1") ||
      !blu_text_value(*text, "hash", hash, sizeof hash)) {
    free(*text);
    *text = NULL;
    return blu_error_set(err, "%s: not the text of a checkpoint that this program knows", path);
  }
  if (strcmp(hash, expected))
    blu_error_set(warning, "the checkpoint was made by another program (hash %s, this is %s): it fits, but equal bits "
                  "are not promised", hash, expected);
  return true;
}

bool blu_checkpoint_load(BluError *err, const BluProgram *program, char *arena, const char *folder, bool states,
                         char **text, BluError *warning) {
  char *model = blu_text_path(folder, "model.safetensors"), *state = blu_text_path(folder, "state.safetensors");
  char *trainer = blu_text_path(folder, "trainer.txt");
  warning->text[0] = 0;
  *text = NULL;
  bool good = read_tensors(err, program, BLU_ROLE_PARAM, arena, model) &&
              (!states || read_tensors(err, program, BLU_ROLE_STATE, arena, state)) &&
              ((!states && access(trainer, F_OK)) || read_text(err, program, trainer, text, warning));
  free(model);
  free(state);
  free(trainer);
  return good;
}
