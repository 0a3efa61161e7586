/* idx.c - the IDX files of MNIST and its relatives, plain or gzipped: for each split one file of images (unsigned
 * bytes, rank 2 or more) and one of labels (unsigned bytes, rank 1).
 *
 * A DATA slot of rank 1 is filled from the labels, any other from the images. */
#include <stdlib.h>
#include <string.h>

#include "../data_internal.h"

/* The header: 0, 0, 8 for unsigned bytes, the rank, each dimension as a big-endian u32. */
bool blu_idx_parse(BluError *err, const char *path, const uint8_t *b, int64_t size, BluArray *array) {
  *array = (BluArray){.path = path, .raw = BLU_RAW_U8};
  if (size < 4) return blu_error_set(err, "%s: not an IDX file: it has only %lld bytes", path, (long long)size);
  int rank = b[3];
  if (b[0] || b[1] || b[2] != 8 || rank < 1 || rank > BLU_ABI_RANK)
    return blu_error_set(err, "%s: not an IDX file of bytes: it should start with 0x000008 and a rank up to %d, but "
                         "starts with 0x%02x%02x%02x%02x", path, BLU_ABI_RANK, b[0], b[1], b[2], b[3]);
  int64_t header = 4 + 4 * rank, expected = header, values = 1;
  if (size >= header) {
    for (int i = 0; i < rank; i++) {
      const uint8_t *d = b + 4 + 4 * i;
      array->dim[i] = (int64_t)d[0] << 24 | d[1] << 16 | d[2] << 8 | d[3];
      if (__builtin_mul_overflow(values, array->dim[i], &values))
        return blu_error_set(err, "%s: the header promises more than 2^63 values", path);
    }
    if (__builtin_add_overflow(values, header, &expected)) expected = INT64_MAX;
  }
  if (size != expected)
    return blu_error_set(err, "%s: %s: its header promises %lld bytes, but it has %lld", path,
                         size < expected ? "the file is truncated" : "the file has trailing bytes",
                         (long long)expected, (long long)size);
  if (!values) return blu_error_set(err, "%s: the file has no examples", path);
  array->rank = rank;
  array->value = b + header;
  array->stride = blu_array_row(array);
  return true;
}

static bool add_file(BluError *err, BluFiles *files, const BluDataSpec *spec, const char *path, bool labels) {
  const BluBytes *bytes = blu_files_open(err, files, path, spec->seconds);
  BluArray array;
  if (!bytes) return false;
  const uint8_t *b = bytes->data;
  if (bytes->size >= 4 && (b[0] || b[1] || b[2] != 8 || labels != (b[3] == 1)))
    return blu_error_set(err, "%s: not an IDX file of %s: it should start with 0x0000080%c, but starts with "
                         "0x%02x%02x%02x%02x", path, labels ? "labels" : "images", labels ? '1' : '3', b[0], b[1], b[2],
                         b[3]);
  if (!blu_idx_parse(err, bytes->path, bytes->data, bytes->size, &array)) return false;
  for (int64_t i = 0; i < spec->function->slots; i++) {
    const BluSlot *slot = &spec->function->slot[i];
    if (slot->role == BLU_ROLE_DATA && (slot->rank == 1) == labels &&
        !blu_files_add(err, files, slot->name, &array))
      return false;
  }
  return true;
}

static bool open_split(BluError *err, const BluDataSpec *spec, BluFiles *files, bool *absent) {
  static const struct {
    const char *key, *name;
  } names[2][2] = {
      [BLU_SPLIT_TRAIN] = {{"train_images", "train-images-idx3-ubyte"}, {"train_labels", "train-labels-idx1-ubyte"}},
      [BLU_SPLIT_TEST] = {{"test_images", "t10k-images-idx3-ubyte"}, {"test_labels", "t10k-labels-idx1-ubyte"}},
  };
  char *path[2];
  bool named = false, good = true;
  for (int i = 1; i >= 0; i--) {
    char name[1000];
    bool given = blu_text_value(spec->args, names[spec->split][i].key, name, sizeof name);
    named |= given;
    path[i] = blu_files_find(err, spec->dir, given ? name : names[spec->split][i].name);
  }
  *absent = !path[0] && !path[1] && spec->optional && !named;
  if (!*absent) {
    good = path[0] && path[1];
    for (int i = 0; good && i < 2; i++) good = add_file(err, files, spec, path[i], i == 1);
  }
  free(path[0]);
  free(path[1]);
  return good;
}

static bool idx_open(BluError *err, const BluDataSpec *spec, void **state) {
  BluFiles *files = blu_files_new();
  bool absent = false, good = open_split(err, spec, files, &absent);
  *state = good && !absent ? files : NULL;
  if (!*state) blu_files_close(files);
  return good;
}

const BluDataSource blu_data_idx = {
    .name = "idx",
    .keys = " train_images train_labels test_images test_labels ",
    .open = idx_open,
    .count = blu_files_count,
    .bytes = blu_files_bytes,
    .check = blu_files_check,
    .fetch = blu_files_fetch,
    .touch = blu_files_touch,
    .unchanged = blu_files_unchanged,
    .close = blu_files_close,
};
