/* npy.c - NumPy's .npy files, plain or gzipped: one array each, little-endian, in C order.
 *
 * The data source takes the array of each DATA slot from the file NAME.npy (test_NAME.npy for the test split), or from
 * the file that the arguments NAME and test_NAME say. The reader takes the header's literal of three entries and no
 * more: 'descr', 'fortran_order', 'shape', in any order. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../data_internal.h"

static const struct {
  char descr[4];
  BluRaw raw;
} descrs[] = {
    {"|u1", BLU_RAW_U8},  {"|i1", BLU_RAW_I8},  {"|b1", BLU_RAW_BOOL}, {"<u2", BLU_RAW_U16}, {"<i2", BLU_RAW_I16},
    {"<u4", BLU_RAW_U32}, {"<i4", BLU_RAW_I32}, {"<i8", BLU_RAW_I64},  {"<f4", BLU_RAW_F32}, {"<f8", BLU_RAW_F64},
    {"<f2", BLU_RAW_F16},
};
enum { DESCRS = sizeof descrs / sizeof *descrs };

typedef struct {
  BluError *err;
  const char *path, *at, *end;
} Reader;

static bool refuse(const Reader *r, const char *what) {
  return blu_error_set(r->err, "%s: not a valid npy file: %s", r->path, what);
}

static bool take(Reader *r, char c) {
  while (r->at < r->end && *r->at == ' ') r->at++;
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static bool take_word(Reader *r, const char *word) {
  int64_t length = (int64_t)strlen(word);
  while (r->at < r->end && *r->at == ' ') r->at++;
  if (r->end - r->at < length || memcmp(r->at, word, (size_t)length)) return false;
  r->at += length;
  return true;
}

/* A string in single or double quotes, cut to size - 1 bytes. */
static bool read_string(Reader *r, char *text, size_t size) {
  char quote = take(r, '\'') ? '\'' : take(r, '"') ? '"' : 0;
  const char *end = quote ? memchr(r->at, quote, (size_t)(r->end - r->at)) : NULL;
  if (!end) return refuse(r, "a string is missing in its header");
  snprintf(text, size, "%.*s", (int)(end - r->at), r->at);
  r->at = end + 1;
  return true;
}

static bool read_descr(Reader *r, BluArray *array) {
  char descr[40];
  if (take(r, '[')) return refuse(r, "arrays of records are not supported");
  if (!read_string(r, descr, sizeof descr)) return false;
  for (int i = 0; i < DESCRS; i++) {
    array->raw = descrs[i].raw;
    if (!strcmp(descr, descrs[i].descr)) return true;
  }
  char what[200];
  const char *why = strchr(descr, 'O')   ? ": objects are not numbers"
                    : descr[0] == '>'    ? ": it is big-endian"
                    : strchr(descr, 'c') ? ": it is complex"
                                         : "";
  snprintf(what, sizeof what, "its type '%s' is not supported%s", descr, why);
  return refuse(r, what);
}

static bool read_shape(Reader *r, BluArray *array) {
  array->rank = 0;
  if (!take(r, '(')) return refuse(r, "its shape is not a tuple");
  while (!take(r, ')')) {
    if (array->rank == BLU_ABI_RANK) return refuse(r, "its shape has too many dimensions");
    int64_t *dim = &array->dim[array->rank++];
    while (r->at < r->end && *r->at == ' ') r->at++;
    const char *start = r->at;
    for (*dim = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
      if (__builtin_mul_overflow(*dim, 10, dim) || __builtin_add_overflow(*dim, *r->at - '0', dim))
        return refuse(r, "a dimension is too large");
    if (r->at == start) return refuse(r, "a dimension is not a whole number from 0");
    if (take(r, ',')) continue;
    if (array->rank == 1) return refuse(r, "its shape is not a tuple");
    return take(r, ')') || refuse(r, "its shape is not a tuple");
  }
  return true;
}

static bool read_dict(Reader *r, BluArray *array) {
  enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
  int seen = 0;
  if (!take(r, '{')) return refuse(r, "its header is not a dictionary");
  while (!take(r, '}')) {
    char key[20];
    if (!read_string(r, key, sizeof key)) return false;
    if (!take(r, ':')) return refuse(r, "its header is not a dictionary");
    int field = !strcmp(key, "descr") ? DESCR : !strcmp(key, "fortran_order") ? ORDER : !strcmp(key, "shape") ? SHAPE : 0;
    if (!field || seen & field) return refuse(r, field ? "an entry is given twice" : "its header has an unknown entry");
    seen |= field;
    if (field == DESCR && !read_descr(r, array)) return false;
    if (field == SHAPE && !read_shape(r, array)) return false;
    if (field == ORDER && take_word(r, "True"))
      return refuse(r, "it is in Fortran order; save it with numpy.ascontiguousarray");
    if (field == ORDER && !take_word(r, "False")) return refuse(r, "fortran_order is neither True nor False");
    if (take(r, ',')) continue;
    if (!take(r, '}')) return refuse(r, "its header is not a dictionary");
    break;
  }
  if (seen != (DESCR | ORDER | SHAPE)) return refuse(r, "descr, fortran_order or shape is missing");
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n')) r->at++;
  return r->at == r->end || refuse(r, "something follows the dictionary of its header");
}

bool blu_npy_parse(BluError *err, const char *path, const uint8_t *bytes, int64_t size, BluArray *array) {
  *array = (BluArray){.path = path};
  if (size < 12 || memcmp(bytes, "\x93NUMPY", 6)) return blu_error_set(err, "%s: not an npy file", path);
  int version = bytes[6];
  if (version < 1 || version > 3 || bytes[7])
    return blu_error_set(err, "%s: npy files of version %d.%d are not supported", path, version, bytes[7]);
  int64_t start = version == 1 ? 10 : 12, length = bytes[8] | bytes[9] << 8;
  if (version > 1) length |= bytes[10] << 16 | (int64_t)bytes[11] << 24;
  if (length > size - start) return blu_error_set(err, "%s: not a valid npy file: its header ends after the file", path);
  const char *text = (const char *)bytes + start;
  Reader reader = {.err = err, .path = path, .at = text, .end = text + length};
  if (!read_dict(&reader, array)) return false;
  int64_t expected = blu_raw_bytes(array->raw), have = size - start - length;
  for (int32_t i = 0; i < array->rank; i++)
    if (__builtin_mul_overflow(expected, array->dim[i], &expected)) return refuse(&reader, "its shape overflows");
  if (have != expected)
    return blu_error_set(err, "%s: %s: its header promises %" PRId64 " bytes of values, but it has %" PRId64, path,
                         have < expected ? "the file is truncated" : "the file has trailing bytes", expected, have);
  array->value = text + length;
  array->stride = blu_array_row(array);
  return true;
}

bool blu_npy_header(BluError *err, int fd, const char *path, const BluSlot *slot, int64_t rows) {
  static const char *const of_dtype[] = {
      [BLU_DTYPE_F32] = "<f4", [BLU_DTYPE_F64] = "<f8", [BLU_DTYPE_I32] = "<i4",
      [BLU_DTYPE_I64] = "<i8", [BLU_DTYPE_U8] = "|u1",  [BLU_DTYPE_BOOL] = "|b1",
      [BLU_DTYPE_BF16] = "<f4", [BLU_DTYPE_F16] = "<f2",
  };
  char head[512] = "\x93NUMPY\x01", shape[240] = "";
  for (int32_t i = 0; i < slot->rank; i++)
    snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%" PRId64 "%s", i ? " " : "",
             i ? slot->dim[i] : rows, i < slot->rank - 1 || slot->rank == 1 ? "," : "");
  int used = snprintf(head + 10, sizeof head - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                      of_dtype[slot->dtype], shape);
  int64_t length = (10 + used + 1 + 63) / 64 * 64 - 10;
  memset(head + 10 + used, ' ', (size_t)(length - used));
  head[10 + length - 1] = '\n';
  head[8] = (char)(length & 255);
  head[9] = (char)(length >> 8);
  return blu_file_write(err, fd, path, head, 10 + length);
}

bool blu_npy_write(BluError *err, int fd, const char *path, const char *from, int64_t count, int32_t dtype) {
  enum { BLOCK = 4096 };
  float wide[BLOCK];
  if (dtype != BLU_DTYPE_BF16) return blu_file_write(err, fd, path, from, count * blu_dtype_bytes(dtype));
  for (int64_t i = 0; i < count; i += BLOCK) {
    int64_t some = count - i < BLOCK ? count - i : BLOCK;
    blu_raw_convert(from + 2 * i, BLU_RAW_BF16, some, wide, BLU_DTYPE_F32, 0);
    if (!blu_file_write(err, fd, path, wide, some * (int64_t)sizeof *wide)) return false;
  }
  return true;
}

/* --- the source --- */

/* The file of one slot; *absent if it has a default name and doesn't exist. */
static bool add_slot(BluError *err, BluFiles *files, const BluDataSpec *spec, const char *slot, bool *absent) {
  char key[100], name[1000];
  snprintf(key, sizeof key, "%s%.80s", spec->split == BLU_SPLIT_TEST ? "test_" : "", slot);
  bool given = blu_text_value(spec->args, key, name, sizeof name);
  if (!given) snprintf(name, sizeof name, "%s.npy", key);
  char *path = blu_files_find(err, spec->dir, name);
  *absent = !path && !given;
  if (!path) return false;
  const BluBytes *bytes = blu_files_open(err, files, path, spec->seconds);
  free(path);
  BluArray array;
  if (!bytes || !blu_npy_parse(err, bytes->path, bytes->data, bytes->size, &array)) return false;
  if (!array.rank || !array.dim[0]) return blu_error_set(err, "%s: the file has no examples", bytes->path);
  return blu_files_add(err, files, slot, &array);
}

static bool npy_open(BluError *err, const BluDataSpec *spec, void **state) {
  BluFiles *files = blu_files_new();
  bool good = true, absent = false;
  int found = 0;
  for (int64_t i = 0; good && i < spec->function->slots; i++) {
    if (spec->function->slot[i].role != BLU_ROLE_DATA) continue;
    good = add_slot(err, files, spec, spec->function->slot[i].name, &absent);
    found += good;
  }
  if (good) *state = files;
  else blu_files_close(files), *state = NULL;
  return good || (absent && !found && spec->optional);
}

const BluDataSource blu_data_npy = {
    .name = "npy",
    .keys = " SLOT test_SLOT ",
    .open = npy_open,
    .count = blu_files_count,
    .bytes = blu_files_bytes,
    .check = blu_files_check,
    .fetch = blu_files_fetch,
    .touch = blu_files_touch,
    .unchanged = blu_files_unchanged,
    .close = blu_files_close,
};
