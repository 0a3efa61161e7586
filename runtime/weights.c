/* weights.c - opens and reads tensors that others wrote; see transfer_internal.h. What the files say is checked when they are opened. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transfer_internal.h"

enum { BLOCK = 4096 }; /* elements, or bytes, that are read at once */

static BluWeightFile *add_file(BluWeights *w, char *path) {
  w->file = blu_need(realloc(w->file, (size_t)(w->files + 1) * sizeof *w->file));
  w->file[w->files] = (BluWeightFile){.path = path, .fd = -1};
  return &w->file[w->files++];
}

bool blu_weights_add(BluError *err, BluWeights *w, char *path) {
  BluWeightFile *file = add_file(w, path);
  if (!blu_safetensors_open(err, &file->table, path, &file->fd)) return file->fd = -1, false;
  int64_t tensors = file->table.tensors;
  w->weight = blu_need(realloc(w->weight, (size_t)(w->weights + tensors + 1) * sizeof *w->weight));
  for (int64_t i = 0; i < tensors; i++) {
    BluWeight *weight = &w->weight[w->weights++];
    *weight = (BluWeight){.slot = file->table.tensor[i], .file = w->files - 1};
    weight->slot.offset += file->table.data_start;
  }
  return true;
}

/* Opens the file that an index names, once. */
static bool open_part(BluError *err, BluWeights *w, const char *index, const char *folder, const char *name, int64_t *which) {
  if (!*name || strchr(name, '/')) return blu_error_set(err, "%s: '%s' is not the name of a file beside it", index, name);
  char *path = blu_text_path(folder, name);
  for (*which = 0; *which < w->files; ++*which)
    if (!strcmp(w->file[*which].path, path)) return free(path), true;
  return blu_weights_add(err, w, path);
}

static bool is_placed(const BluSafetensorsIndex *index, const int64_t *file, const BluWeight *weight) {
  for (int64_t i = 0; i < index->places; i++)
    if (weight->file == file[i] && !strcmp(weight->slot.name, index->place[i].name)) return true;
  return false;
}

/* Every tensor of the index lies where it says, and no other lies in these files. */
static bool open_placed(BluError *err, BluWeights *w, const char *path, const BluSafetensorsIndex *index, int64_t *file) {
  char *folder = blu_text_print("%s", path), *slash = strrchr(folder, '/');
  bool good = true;
  if (slash) slash[1] = 0;
  else folder[0] = 0;
  for (int64_t i = 0; good && i < index->places; i++) {
    const BluPlacement *p = &index->place[i];
    good = open_part(err, w, path, folder, p->file, &file[i]);
    if (good && !blu_safetensors_find(&w->file[file[i]].table, p->name))
      good = blu_error_set(err, "%s: tensor '%s' is not in %s", path, p->name, w->file[file[i]].path);
  }
  for (int64_t i = 0; good && i < w->weights; i++)
    if (!is_placed(index, file, &w->weight[i]))
      good = blu_error_set(err, "%s: %s holds the tensor '%s', which is not placed there", path, w->file[w->weight[i].file].path,
                           w->weight[i].slot.name);
  free(folder);
  return good;
}

static bool open_index(BluError *err, BluWeights *w, const char *path) {
  BluSafetensorsIndex index;
  char *text = blu_file_text(err, path);
  bool good = text && blu_safetensors_index(err, &index, path, text, (int64_t)strlen(text));
  free(text);
  if (!good) return false;
  int64_t *file = blu_new(index.places + 1, sizeof *file);
  good = open_placed(err, w, path, &index, file);
  free(file);
  blu_safetensors_index_close(&index);
  return good;
}

static bool open_llmc(BluError *err, BluWeights *w, const char *path) {
  BluWeightFile *file = add_file(w, blu_text_print("%s", path));
  char header[BLU_LLMC_HEADER];
  struct stat info;
  file->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (file->fd < 0 || fstat(file->fd, &info)) return blu_error_set(err, "cannot open %s: %s", path, strerror(errno));
  if (info.st_size < BLU_LLMC_HEADER) return blu_error_set(err, "%s: not a checkpoint of llm.c: shorter than its header of %d bytes", path, BLU_LLMC_HEADER);
  return blu_file_read(err, file->fd, path, header, BLU_LLMC_HEADER, 0) && blu_llmc_parse(err, w, path, header, info.st_size);
}

static bool open_folder(BluError *err, BluWeights *w, const char *folder) {
  char *whole = blu_text_path(folder, "model.safetensors"), *index = blu_text_path(folder, "model.safetensors.index.json");
  bool is_whole = !access(whole, F_OK), is_index = !access(index, F_OK), good;
  if (is_whole) good = blu_weights_add(err, w, blu_text_print("%s", whole));
  else if (is_index) good = open_index(err, w, index);
  else good = blu_error_set(err, "%s holds neither model.safetensors nor model.safetensors.index.json", folder);
  free(whole);
  free(index);
  return good;
}

bool blu_weights_open(BluError *err, BluWeights *w, const char *path) {
  struct stat info;
  bool folder = !stat(path, &info) && S_ISDIR(info.st_mode);
  *w = (BluWeights){.path = path};
  bool good = folder                               ? open_folder(err, w, path)
              : blu_text_ends(path, ".index.json") ? open_index(err, w, path)
              : blu_text_ends(path, ".bin")        ? open_llmc(err, w, path)
                                                   : blu_weights_add(err, w, blu_text_print("%s", path));
  if (!good) blu_weights_close(w);
  return good;
}

void blu_weights_close(BluWeights *w) {
  for (int64_t i = 0; i < w->files; i++) {
    if (w->file[i].fd >= 0) close(w->file[i].fd);
    blu_safetensors_close(&w->file[i].table);
    free(w->file[i].path);
  }
  free(w->file);
  free(w->weight);
  free(w->names);
  *w = (BluWeights){0};
}

/* Reads `count` values from `offset` of the file on. */
static bool read_values(BluError *err, const BluWeightFile *file, int32_t from, int64_t offset, int64_t count, char *to, int32_t dtype) {
  double some[BLOCK]; /* room for any type */
  int64_t wide = blu_dtype_bytes(from);
  if (from == dtype) return blu_file_read(err, file->fd, file->path, to, count * wide, offset);
  for (int64_t i = 0, n; i < count; i += n) {
    n = count - i < BLOCK ? count - i : BLOCK;
    if (!blu_file_read(err, file->fd, file->path, some, n * wide, offset + i * wide)) return false;
    blu_raw_convert(some, blu_raw_of(from), n, to + i * blu_dtype_bytes(dtype), dtype, 0);
  }
  return true;
}

/* A row of the file is a column of the tensor. */
static bool read_transposed(BluError *err, const BluWeightFile *file, const BluSlot *slot, char *to, int32_t dtype) {
  int64_t rows = slot->dim[1], columns = slot->dim[0], wide = blu_dtype_bytes(dtype);
  char *row = blu_new(columns, (size_t)wide);
  bool good = true;
  for (int64_t i = 0; good && i < rows; i++) {
    good = read_values(err, file, slot->dtype, slot->offset + i * columns * blu_dtype_bytes(slot->dtype), columns, row, dtype);
    for (int64_t j = 0; good && j < columns; j++) memcpy(to + (j * rows + i) * wide, row + j * wide, (size_t)wide);
  }
  free(row);
  return good;
}

static bool read_tensor(BluError *err, const BluWeights *w, const BluWeight *weight, char *to, int32_t dtype) {
  const BluWeightFile *file = &w->file[weight->file];
  const BluSlot *slot = &weight->slot;
  if (weight->transposed) return read_transposed(err, file, slot, to, dtype);
  return read_values(err, file, slot->dtype, slot->offset, blu_slot_count(slot), to, dtype);
}

bool blu_weights_put(BluError *err, const BluArena *arena, int64_t offset, const char *values, int64_t bytes) {
  bool good = true;
  if (!arena->driver) return memcpy(arena->base + offset, values, (size_t)bytes), true;
  for (int64_t at = 0, part; good && at < bytes; at += part) { /* piece by piece through the place that a device gives */
    part = bytes - at;
    char *place = blu_device_place(arena, offset + at, &part);
    memcpy(place, values + at, (size_t)part);
    good = blu_device_put(err, arena, offset + at, place, part);
  }
  return good;
}

bool blu_weights_read(BluError *err, const BluWeights *w, const BluWeight *weight, const BluArena *arena, int64_t offset, int32_t dtype) {
  int64_t bytes = blu_slot_count(&weight->slot) * blu_dtype_bytes(dtype);
  if (!arena->driver) return read_tensor(err, w, weight, arena->base + offset, dtype);
  char *values = blu_new(bytes, 1);
  bool good = read_tensor(err, w, weight, values, dtype) && blu_weights_put(err, arena, offset, values, bytes);
  free(values);
  return good;
}

bool blu_weights_equal(BluError *err, const BluWeights *w, const BluWeight *a, const BluWeight *b, bool *equal) {
  char x[BLOCK], y[BLOCK], type[200], other[200];
  const BluWeightFile *f = &w->file[a->file], *g = &w->file[b->file];
  *equal = !strcmp(blu_slot_type(&a->slot, type), blu_slot_type(&b->slot, other));
  for (int64_t i = 0, n; *equal && i < a->slot.bytes; i += n) {
    n = a->slot.bytes - i < BLOCK ? a->slot.bytes - i : BLOCK;
    if (!blu_file_read(err, f->fd, f->path, x, n, a->slot.offset + i) || !blu_file_read(err, g->fd, g->path, y, n, b->slot.offset + i)) return false;
    *equal = !memcmp(x, y, (size_t)n);
  }
  return true;
}
