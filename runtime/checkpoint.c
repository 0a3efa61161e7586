/* checkpoint.c - a checkpoint is a folder OUT/step-N/ with
 *   model.safetensors   the parameters, under their own names
 *   state.safetensors   the states of optimizer and model
 *   trainer.txt         "key=value" lines: hash and model of the program, what train_state.c adds, a check of each file
 *
 * It appears under its name only when all of it is on the disk: written as step-N.tmp/, synced, renamed, parent synced.
 * A folder that is going away loses its name first. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

void blu_checkpoint_prune(const char *out, int64_t keep, int64_t best) {
  int64_t step = INT64_MAX;
  for (int64_t kept = 0; (step = highest_below(out, step)) >= 0; kept++) {
    if (kept < keep || step == best) continue;
    char *path = blu_checkpoint_path(out, step), *temporary = temporary_path(out, step);
    if (!rename(path, temporary)) blu_file_remove_folder(temporary);
    free(path);
    free(temporary);
  }
}

bool blu_checkpoint_link(BluError *err, const char *out, int64_t step) {
  char *path = blu_checkpoint_path(out, step), *link = blu_text_path(out, "best"), *fresh = blu_text_path(out, "best.tmp");
  struct stat info;
  bool good = true, ours = !lstat(link, &info) && S_ISLNK(info.st_mode), foreign = !ours && !access(link, F_OK);
  if (step < 0 || access(path, F_OK)) {
    if (ours) unlink(link);
  } else if (!foreign) {
    unlink(fresh);
    /* Some file systems have no links; the checkpoint is kept all the same. */
    if (symlink(strrchr(path, '/') + 1, fresh)) good = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
    else good = !rename(fresh, link);
    if (!good) blu_error_set(err, "cannot make the link %s: %s", link, strerror(errno));
  }
  free(path);
  free(link);
  free(fresh);
  return good;
}

/* Checks of the two other files, as lines. */
static bool print_checks(BluError *err, char *lines, size_t size, const char *model, const char *state) {
  uint64_t model_check, state_check;
  if (!blu_file_check(err, model, &model_check) || !blu_file_check(err, state, &state_check)) return false;
  snprintf(lines, size, "check.model=%016" PRIx64 "\ncheck.state=%016" PRIx64 "\n", model_check, state_check);
  return true;
}

static bool write_text(BluError *err, const char *path, const BluProgram *program, const char *text, const char *checks) {
  char *lines = blu_text_print("format=1\nmodel=%s\nhash=%016" PRIx64 "\n%s%s", program->model, program->hash, text, checks);
  char *all = blu_text_print("%scheck=%016" PRIx64 "\n", lines, blu_file_hash(lines, (int64_t)strlen(lines)));
  int fd;
  bool good = blu_file_create(err, path, &fd);
  if (good) {
    good = blu_file_write(err, fd, path, all, (int64_t)strlen(all));
    if (good) good = blu_file_close(err, fd, path);
    else close(fd);
  }
  free(lines);
  free(all);
  return good;
}

static bool write_folder(BluError *err, const BluProgram *program, const BluArena *arena, const char *folder,
                         const char *text) {
  char *model = blu_text_path(folder, "model.safetensors"), *state = blu_text_path(folder, "state.safetensors");
  char *trainer = blu_text_path(folder, "trainer.txt"), checks[100];
  bool good = blu_file_folder(err, folder) &&
              blu_safetensors_write(err, model, program, BLU_PICK_PARAMS, BLU_DTYPE_AS_IT_IS, arena) &&
              blu_safetensors_write(err, state, program, BLU_PICK_STATES, BLU_DTYPE_AS_IT_IS, arena) &&
              print_checks(err, checks, sizeof checks, model, state) &&
              write_text(err, trainer, program, text, checks) && blu_file_sync(err, folder);
  free(model);
  free(state);
  free(trainer);
  return good;
}

bool blu_checkpoint_save(BluError *err, const BluProgram *program, const BluArena *arena, const char *out, int64_t step,
                         const char *text) {
  char *path = blu_checkpoint_path(out, step), *temporary = temporary_path(out, step);
  bool good = !access(path, F_OK);
  if (!good) {
    blu_file_remove_folder(temporary);
    good = write_folder(err, program, arena, temporary, text);
    if (good && rename(temporary, path))
      good = blu_error_set(err, "cannot rename %s to %s: %s", temporary, path, strerror(errno));
    if (good) good = blu_file_sync(err, out);
    if (!good) blu_file_remove_folder(temporary);
  }
  free(path);
  free(temporary);
  return good;
}

bool blu_checkpoint_read(BluError *err, const BluProgram *program, BluPick pick, const BluArena *arena, const char *path) {
  BluSafetensors file;
  int fd;
  if (!blu_safetensors_open(err, &file, path, &fd)) return false;
  blu_error_set(err, "%s does not fit this program:", path);
  bool good = !blu_safetensors_differences(err, program, pick, &file, "the checkpoint");
  for (int64_t i = 0; good && i < program->tensors; i++) {
    const BluSlot *to = &program->tensor[i], *from;
    if (!blu_slot_picked(to, pick)) continue;
    from = blu_safetensors_find(&file, to->name);
    for (int64_t at = 0, part; good && at < to->bytes; at += part) {
      part = to->bytes - at;
      char *place = blu_device_place(arena, to->offset + at, &part);
      good = blu_file_read(err, fd, path, place, part, file.data_start + from->offset + at) && blu_device_put(err, arena, to->offset + at, place, part);
    }
  }
  close(fd);
  blu_safetensors_close(&file);
  return good;
}

/* Lets go of the pages that lie within [from, from + bytes): nobody has written to them. */
static void release(const char *from, int64_t bytes) {
  const uintptr_t page = 4096, first = ((uintptr_t)from + page - 1) / page * page, end = ((uintptr_t)from + (uintptr_t)bytes) / page * page;
  if (end > first) madvise((void *)first, end - first, MADV_DONTNEED);
}

/* Copies, and lets go of what was copied on the way: both are never in memory as a whole. */
static bool take(BluError *err, const BluArena *arena, int64_t offset, const char *from, int64_t bytes) {
  enum { PART = 1 << 20 };
  for (int64_t at = 0, part; at < bytes; at += part) {
    part = bytes - at < PART ? bytes - at : PART;
    char *place = blu_device_place(arena, offset + at, &part);
    memcpy(place, from + at, (size_t)part);
    if (!blu_device_put(err, arena, offset + at, place, part)) return false;
    release(from, at + part); /* from the start: looking at a page has brought its neighbours back */
  }
  return true;
}

bool blu_checkpoint_embedded(BluError *err, const BluProgram *program, const BluArena *arena) {
  static const char path[] = "the embedded parameters";
  BluSafetensors file;
  uint64_t header = 0;
  for (int i = 7; i >= 0; i--) header = header << 8 | (uint8_t)program->embedded[i];
  if (!blu_safetensors_parse(err, &file, path, program->embedded + 8, (int64_t)header, program->embedded_bytes - 8 - (int64_t)header))
    return false;
  bool good = true;
  for (int64_t i = 0; good && i < program->tensors; i++) {
    const BluSlot *to = &program->tensor[i], *from = blu_safetensors_find(&file, to->name);
    if (!blu_slot_picked(to, BLU_PICK_MODEL)) continue;
    good = take(err, arena, to->offset, program->embedded + file.data_start + from->offset, to->bytes);
  }
  blu_safetensors_close(&file);
  return good;
}

/* The text ends with a check of itself. */
static bool is_whole(const char *text) {
  char word[32], expected[32];
  const char *last = text;
  for (const char *at = text; (at = strstr(at, "\ncheck=")); at++) last = at + 1;
  snprintf(expected, sizeof expected, "%016" PRIx64, blu_file_hash(text, last - text));
  return last != text && blu_text_value(last, "check", word, sizeof word) && !strcmp(word, expected) &&
         strlen(last) == strlen("check=") + 16 + 1;
}

static bool read_text(BluError *err, const BluProgram *program, const char *path, char **text, BluError *warning) {
  char format[8], hash[32], expected[32];
  *text = blu_file_text(err, path);
  if (!*text) return false;
  snprintf(expected, sizeof expected, "%016" PRIx64, program->hash);
  bool known = blu_text_value(*text, "format", format, sizeof format) && !strcmp(format, "1") &&
               blu_text_value(*text, "hash", hash, sizeof hash);
  if (!known) blu_error_set(err, "%s: not the text of a checkpoint that this program knows", path);
  else if (!(known = is_whole(*text))) blu_error_set(err, "%s: damaged, or changed after it was saved", path);
  if (!known) {
    free(*text);
    *text = NULL;
    return false;
  }
  if (strcmp(hash, expected))
    blu_error_set(warning, "the checkpoint was made by another program (hash %s, this is %s): it fits, but equal bits "
                  "are not promised", hash, expected);
  return true;
}

/* The file against its check in the text. */
static bool is_unchanged(BluError *err, const char *text, const char *key, const char *path) {
  char word[32] = "", expected[32];
  uint64_t check;
  if (!blu_file_check(err, path, &check)) return false;
  snprintf(expected, sizeof expected, "%016" PRIx64, check);
  blu_text_value(text, key, word, sizeof word);
  return !strcmp(word, expected) ||
         blu_error_set(err, "%s: damaged, or changed after it was saved (`import` takes files from elsewhere)", path);
}

bool blu_checkpoint_load(BluError *err, const BluProgram *program, const BluArena *arena, const char *folder, bool all,
                         char **text, BluError *warning) {
  warning->text[0] = 0;
  *text = NULL;
  if (!folder) return !program->embedded || blu_checkpoint_embedded(err, program, arena); /* nothing to load: no tensors */
  char *model = blu_text_path(folder, "model.safetensors"), *state = blu_text_path(folder, "state.safetensors");
  char *trainer = blu_text_path(folder, "trainer.txt");
  bool states = all;
  for (int64_t i = 0; i < program->tensors; i++) states |= blu_slot_picked(&program->tensor[i], BLU_PICK_MODEL_STATES);
  BluPick pick = all ? BLU_PICK_STATES : BLU_PICK_MODEL_STATES;
  bool good = blu_checkpoint_read(err, program, BLU_PICK_PARAMS, arena, model) &&
              (!states || blu_checkpoint_read(err, program, pick, arena, state)) &&
              ((!all && access(trainer, F_OK)) || read_text(err, program, trainer, text, warning)) &&
              (!*text || is_unchanged(err, *text, "check.model", model)) &&
              (!states || !*text || is_unchanged(err, *text, "check.state", state));
  if (!good) free(*text), *text = NULL;
  free(model);
  free(state);
  free(trainer);
  return good;
}
