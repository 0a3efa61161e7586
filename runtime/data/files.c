/* files.c - what the sources of arrays (idx, npy, csv) share: files that are open, and an array for each slot. */
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

#include "../data_internal.h"
#include "../half.h"

enum { MOST = 32, PAGE = 4096 };

struct BluFiles {
  BluBytes file[MOST];
  BluArray array[MOST];
  char slot[MOST][80]; /* of each array */
  void *memory[MOST];
  int files, arrays, memories;
  int64_t memory_bytes;
};

BluFiles *blu_files_new(void) { return blu_new(1, sizeof(BluFiles)); }

BluBytes *blu_files_open(BluError *err, BluFiles *files, const char *path, int64_t seconds) {
  if (files->files == MOST) return blu_error_set(err, "more than %d data files", MOST), NULL;
  BluBytes *bytes = &files->file[files->files];
  if (!blu_bytes_open(err, bytes, path, seconds)) return NULL;
  files->files++;
  return bytes;
}

void blu_files_hold(BluFiles *files, void *memory, int64_t bytes) {
  if (files->memories == MOST) abort(); /* there is at most one for each file */
  files->memory[files->memories++] = memory;
  files->memory_bytes += bytes;
}

bool blu_files_add(BluError *err, BluFiles *files, const char *slot, const BluArray *array) {
  if (files->arrays == MOST) return blu_error_set(err, "more than %d arrays of data", MOST);
  const BluArray *first = &files->array[0];
  if (files->arrays && first->dim[0] != array->dim[0])
    return blu_error_set(err, "%s has %lld examples, but %s has %lld", first->path, (long long)first->dim[0],
                         array->path, (long long)array->dim[0]);
  snprintf(files->slot[files->arrays], sizeof *files->slot, "%s", slot);
  files->array[files->arrays++] = *array;
  return true;
}

int64_t blu_files_count(const void *state) { return ((const BluFiles *)state)->array[0].dim[0]; }

void blu_files_bytes(const void *state, int64_t *own, int64_t *mapped) {
  const BluFiles *files = state;
  *own = files->memory_bytes;
  *mapped = 0;
  for (int i = 0; i < files->files; i++) *(files->file[i].map ? mapped : own) += files->file[i].size;
}

static const BluArray *array_of(const BluFiles *files, const BluSlot *slot) {
  for (int i = 0; i < files->arrays; i++)
    if (!strcmp(files->slot[i], slot->name)) return &files->array[i];
  return NULL;
}

bool blu_files_check(BluError *err, const void *state, const BluSlot *slot) {
  const BluArray *array = array_of(state, slot);
  char type[200], row[200];
  if (!array) return blu_error_set(err, "the data source has no array for '%s'", slot->name);
  if (slot->rank < 1 || slot->dim[0] < 1)
    return blu_error_set(err, "'%s: %s' has no batch: its leading dimension is that of the examples", slot->name,
                         blu_slot_type(slot, type));
  bool real = blu_raw_real(array->raw);
  bool whole = slot->dtype != BLU_DTYPE_F32 && slot->dtype != BLU_DTYPE_F64 && !blu_half_is(slot->dtype);
  if (real && whole && !array->first_line)
    return blu_error_set(err, "%s: its values are %s, but '%s' is %s: save it as integers", array->path,
                         blu_raw_name(array->raw), slot->name, blu_slot_type(slot, type));
  if (!blu_array_fits(array, slot)) {
    row[0] = 0;
    for (int32_t i = 1; i < array->rank; i++)
      snprintf(row + strlen(row), sizeof row - strlen(row), "%s%lld", i > 1 ? "x" : "", (long long)array->dim[i]);
    return blu_error_set(err, "%s: an example is %s here, but the program's '%s' is %s", array->path,
                         row[0] ? row : "one value", slot->name, blu_slot_type(slot, type));
  }
  return blu_array_check(err, array, slot);
}

bool blu_files_fetch(const void *state, const BluSlot *slot, char *place, const int64_t *index, int64_t rows) {
  return blu_array_fetch(array_of(state, slot), slot, place, index, rows);
}

int64_t blu_files_touch(const void *state, const int64_t *index, int64_t rows) {
  const BluFiles *files = state;
  int64_t sum = 0;
  for (int i = 0; i < files->arrays; i++) {
    const BluArray *array = &files->array[i];
    int64_t bytes = array->stride * blu_raw_bytes(array->raw);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t at = 0; at < bytes; at += PAGE)
        sum += ((const volatile uint8_t *)array->value)[index[r] * bytes + at];
  }
  return sum;
}

bool blu_files_unchanged(BluError *err, const void *state) {
  const BluFiles *files = state;
  for (int i = 0; i < files->files; i++)
    if (!blu_bytes_unchanged(err, &files->file[i])) return false;
  return true;
}

void blu_files_close(void *state) {
  BluFiles *files = state;
  for (int i = 0; i < files->files; i++) blu_bytes_close(&files->file[i]);
  for (int i = 0; i < files->memories; i++) free(files->memory[i]);
  free(files);
}

char *blu_files_find(BluError *err, const char *dir, const char *name) {
  char packed[1040];
  snprintf(packed, sizeof packed, "%s.gz", name);
  const char *const names[] = {name, packed};
  for (int i = 0; i < 2; i++) {
    char *path = blu_text_path(dir, names[i]);
    if (!access(path, F_OK)) return path;
    free(path);
  }
  char *path = blu_text_path(dir, name);
  blu_error_set(err, "%s: no such file (nor with .gz); --data DIR names the folder of the data", path);
  free(path);
  return NULL;
}
