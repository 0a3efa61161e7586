/* idx.c - the IDX files of MNIST and its relatives, plain or gzipped: for each split one file of images (unsigned
 * bytes, rank 2 or more) and one of labels (unsigned bytes, rank 1).
 *
 * A DATA slot of rank 1 is filled from the labels, any other from the images. Both files are held in memory whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "../data_internal.h"

typedef struct {
  char *path;
  uint8_t *bytes;       /* the file, inflated */
  int64_t size;         /* of it */
  const uint8_t *value; /* behind the header, row-major */
  int32_t rank;
  int64_t dim[BLU_ABI_RANK]; /* dim[0]: examples */
} IdxFile;

typedef struct {
  IdxFile images, labels;
} Idx;

static void close_file(IdxFile *file) {
  free(file->path);
  free(file->bytes);
  *file = (IdxFile){0};
}

/* Makes room for `capacity` bytes in all. */
static bool grow(BluError *err, IdxFile *file, int64_t capacity) {
  uint8_t *bytes = realloc(file->bytes, (size_t)capacity);
  if (!bytes) return blu_error_set(err, "%s: no memory for %lld bytes", file->path, (long long)capacity);
  file->bytes = bytes;
  return true;
}

static bool read_plain(BluError *err, IdxFile *file, int fd, int64_t size) {
  if (!grow(err, file, size + 1) || !blu_file_read(err, fd, file->path, file->bytes, size, 0)) return false;
  file->size = size;
  return true;
}

static bool inflate_stream(BluError *err, IdxFile *file, int fd, int64_t size, z_stream *stream) {
  enum { CHUNK = 64 << 10 };
  uint8_t chunk[CHUNK];
  int64_t capacity = 0, next = 0; /* of the output; place in the file */
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (file->size == capacity) {
      capacity = capacity ? 2 * capacity : 4 * size + CHUNK;
      if (!grow(err, file, capacity)) return false;
    }
    if (!stream->avail_in) {
      int64_t bytes = size - next < CHUNK ? size - next : CHUNK;
      if (!bytes)
        return blu_error_set(err, "%s: the file is truncated: its gzip stream goes on after %lld bytes", file->path,
                             (long long)size);
      if (!blu_file_read(err, fd, file->path, chunk, bytes, next)) return false;
      next += bytes;
      stream->next_in = chunk;
      stream->avail_in = (uInt)bytes;
    }
    int64_t room = capacity - file->size < 1 << 30 ? capacity - file->size : 1 << 30;
    stream->next_out = file->bytes + file->size;
    stream->avail_out = (uInt)room;
    status = inflate(stream, Z_NO_FLUSH);
    file->size += room - stream->avail_out;
    if (status != Z_OK && status != Z_STREAM_END)
      return blu_error_set(err, "%s: the gzip file is damaged: %s", file->path,
                           stream->msg ? stream->msg : "unexpected data");
  }
  int64_t left = size - next + stream->avail_in;
  if (left) return blu_error_set(err, "%s: %lld bytes follow the end of the gzip stream", file->path, (long long)left);
  return grow(err, file, file->size + 1);
}

static bool read_gzip(BluError *err, IdxFile *file, int fd, int64_t size) {
  z_stream stream = {0};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) return blu_error_set(err, "%s: no memory for zlib", file->path);
  bool good = inflate_stream(err, file, fd, size, &stream);
  inflateEnd(&stream);
  return good;
}

/* Checks the header of a file in memory: 0, 0, 8 for unsigned bytes, the rank, each dimension as a big-endian u32. */
static bool parse(BluError *err, IdxFile *file, bool labels) {
  const char *what = labels ? "labels" : "images", *magic = labels ? "0x00000801" : "0x00000803";
  const uint8_t *b = file->bytes;
  if (file->size < 4)
    return blu_error_set(err, "%s: not an IDX file: it has only %lld bytes", file->path, (long long)file->size);
  int rank = b[3];
  if (b[0] || b[1] || b[2] != 8 || (labels ? rank != 1 : rank < 2 || rank > BLU_ABI_RANK))
    return blu_error_set(err, "%s: not an IDX file of %s: it should start with %s, but starts with 0x%02x%02x%02x%02x",
                         file->path, what, magic, b[0], b[1], b[2], b[3]);
  int64_t header = 4 + 4 * rank, expected = header;
  if (file->size >= header) {
    int64_t values = 1;
    for (int i = 0; i < rank; i++) {
      const uint8_t *d = b + 4 + 4 * i;
      file->dim[i] = (int64_t)d[0] << 24 | d[1] << 16 | d[2] << 8 | d[3];
      if (__builtin_mul_overflow(values, file->dim[i], &values))
        return blu_error_set(err, "%s: the header promises more than 2^63 values", file->path);
    }
    if (__builtin_add_overflow(values, header, &expected)) expected = INT64_MAX;
  }
  if (file->size != expected)
    return blu_error_set(err, "%s: %s: its header promises %lld bytes, but it has %lld", file->path,
                         file->size < expected ? "the file is truncated" : "the file has trailing bytes",
                         (long long)expected, (long long)file->size);
  if (!file->dim[0]) return blu_error_set(err, "%s: the file has no examples", file->path);
  file->rank = rank;
  file->value = b + header;
  return true;
}

static bool read_file(BluError *err, IdxFile *file, bool labels) {
  int fd = open(file->path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || fstat(fd, &info)) {
    blu_error_set(err, "%s: %s", file->path, strerror(errno));
    if (fd >= 0) close(fd);
    return false;
  }
  uint8_t start[2] = {0};
  bool gzip = pread(fd, start, 2, 0) == 2 && start[0] == 0x1f && start[1] == 0x8b;
  bool good = (gzip ? read_gzip : read_plain)(err, file, fd, info.st_size) && parse(err, file, labels);
  close(fd);
  return good;
}

/* Path of an existing file, by its name or that with .gz; or of the plain one, which then doesn't exist. */
static char *find_file(const BluDataSpec *spec, const char *name, bool *there) {
  char with_gz[1024];
  snprintf(with_gz, sizeof with_gz, "%s.gz", name);
  char *path = blu_text_path(spec->dir, name), *packed = blu_text_path(spec->dir, with_gz);
  bool plain_there = !access(path, F_OK), packed_there = !access(packed, F_OK);
  *there = plain_there || packed_there;
  bool use_packed = !plain_there && packed_there;
  free(use_packed ? path : packed);
  return use_packed ? packed : path;
}

static void idx_close(void *state) {
  Idx *idx = state;
  close_file(&idx->images);
  close_file(&idx->labels);
  free(idx);
}

static bool open_split(BluError *err, const BluDataSpec *spec, Idx *idx, bool *absent) {
  static const struct {
    const char *key, *name;
  } files[2][2] = {
      [BLU_SPLIT_TRAIN] = {{"train_images", "train-images-idx3-ubyte"}, {"train_labels", "train-labels-idx1-ubyte"}},
      [BLU_SPLIT_TEST] = {{"test_images", "t10k-images-idx3-ubyte"}, {"test_labels", "t10k-labels-idx1-ubyte"}},
  };
  IdxFile *file[2] = {&idx->images, &idx->labels};
  bool there[2], named = false;
  for (int i = 0; i < 2; i++) {
    char name[1000];
    bool given = blu_text_value(spec->args, files[spec->split][i].key, name, sizeof name);
    named |= given;
    file[i]->path = find_file(spec, given ? name : files[spec->split][i].name, &there[i]);
  }
  *absent = !there[0] && !there[1] && spec->optional && !named;
  if (*absent) return true;
  for (int i = 0; i < 2; i++) {
    if (!there[i])
      return blu_error_set(err, "%s: no such file (nor with .gz); --data DIR names the folder of the data",
                           file[i]->path);
    if (!read_file(err, file[i], i == 1)) return false;
  }
  if (idx->images.dim[0] != idx->labels.dim[0])
    return blu_error_set(err, "%s has %lld images, but %s has %lld labels", idx->images.path,
                         (long long)idx->images.dim[0], idx->labels.path, (long long)idx->labels.dim[0]);
  return true;
}

static bool check_keys(BluError *err, const char *args) {
  static const char *const keys[] = {"dir", "train_images", "train_labels", "test_images", "test_labels"};
  for (const char *line = args; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(line, "=\n"), line);
    BluGuess guess = {.word = key};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) blu_guess_add(&guess, keys[i]);
    if (strcmp(guess.best, key))
      return blu_error_set(err, "data source idx has no argument '%s'%s", key, blu_guess_hint(&guess));
  }
  return true;
}

static bool idx_open(BluError *err, const BluDataSpec *spec, void **state) {
  *state = NULL;
  if (!check_keys(err, spec->args)) return false;
  Idx *idx = blu_new(1, sizeof *idx);
  bool absent = false, good = open_split(err, spec, idx, &absent);
  if (good && !absent) *state = idx;
  else idx_close(idx);
  return good;
}

static int64_t idx_count(const void *state) { return ((const Idx *)state)->images.dim[0]; }

static int64_t idx_bytes(const void *state) {
  const Idx *idx = state;
  return idx->images.size + idx->labels.size;
}

static const IdxFile *file_of(const void *state, const BluSlot *slot) {
  const Idx *idx = state;
  return slot->rank == 1 ? &idx->labels : &idx->images;
}

/* Values of one example. */
static int64_t row_values(const IdxFile *file) {
  int64_t values = 1;
  for (int32_t i = 1; i < file->rank; i++) values *= file->dim[i];
  return values;
}

/* An example fits a slot that has its dimensions, or a single one of their product. */
static bool fits(const IdxFile *file, const BluSlot *slot) {
  if (slot->rank == 2 && file->rank != 2) return slot->dim[1] == row_values(file);
  if (slot->rank != file->rank) return false;
  for (int32_t i = 1; i < slot->rank; i++)
    if (slot->dim[i] != file->dim[i]) return false;
  return true;
}

static bool idx_check(BluError *err, const void *state, const BluSlot *slot) {
  const IdxFile *file = file_of(state, slot);
  char type[200];
  bool known_type = slot->dtype == BLU_DTYPE_U8 || slot->dtype == BLU_DTYPE_I32 || slot->dtype == BLU_DTYPE_I64 ||
                    slot->dtype == BLU_DTYPE_F32;
  if (slot->rank < 1 || slot->dim[0] < 1 || !known_type)
    return blu_error_set(err, "data source idx cannot fill '%s: %s': it gives batches of u8, i32, i64 or f32",
                         slot->name, blu_slot_type(slot, type));
  if (!fits(file, slot)) {
    char size[200] = "";
    for (int32_t i = 1; i < file->rank; i++)
      snprintf(size + strlen(size), sizeof size - strlen(size), "%s%lld", i > 1 ? "x" : "", (long long)file->dim[i]);
    return blu_error_set(err, "%s: an image is %s here, but the program's '%s' is %s", file->path, size, slot->name,
                         blu_slot_type(slot, type));
  }
  int64_t values = file->dim[0] * row_values(file);
  for (int64_t i = 0; slot->bound > 0 && i < values; i++)
    if (file->value[i] >= slot->bound)
      return blu_error_set(err, "%s: the value at index %lld is %d, but '%s' must be less than %lld", file->path,
                           (long long)i, file->value[i], slot->name, (long long)slot->bound);
  return true;
}

static void idx_fetch(const void *state, const BluSlot *slot, char *place, const int64_t *index, int64_t rows) {
  const IdxFile *file = file_of(state, slot);
  int64_t values = row_values(file);
  for (int64_t i = 0; i < rows; i++) {
    const uint8_t *from = file->value + index[i] * values;
#define CONVERT(type)                                       \
  do {                                                      \
    type *restrict to = (type *)(void *)place + i * values; \
    for (int64_t j = 0; j < values; j++) to[j] = from[j];   \
  } while (0)
    switch (slot->dtype) {
      case BLU_DTYPE_F32: CONVERT(float); break;
      case BLU_DTYPE_I32: CONVERT(int32_t); break;
      case BLU_DTYPE_I64: CONVERT(int64_t); break;
      default: memcpy(place + i * values, from, (size_t)values); break;
    }
#undef CONVERT
  }
}

const BluDataSource blu_data_idx = {
    .name = "idx",
    .open = idx_open,
    .count = idx_count,
    .bytes = idx_bytes,
    .check = idx_check,
    .fetch = idx_fetch,
    .close = idx_close,
};
