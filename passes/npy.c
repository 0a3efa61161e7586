/* npy.c - reads arrays from files of NumPy's format (versions 1 to 3, little-endian, row-major). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/memory.h"
#include "values.h"

enum { MOST_HEADER = 1 << 16 };

static const struct { const char *descr; BluElem elem; } kinds[] = {
  {"<f4", BLU_F32}, {"<f8", BLU_F64}, {"<i4", BLU_I32}, {"<i8", BLU_I64}, {"|u1", BLU_U8}, {"|b1", BLU_BOOL}};

static double element(const unsigned char *at, BluElem e) {
  union { float f; double d; int32_t i; int64_t l; } x;
  memcpy(&x, at, (size_t)blu_elem_bytes(e));
  return e == BLU_F32 ? x.f : e == BLU_F64 ? x.d : e == BLU_I32 ? x.i : e == BLU_I64 ? (double)x.l : at[0];
}

/* The text behind 'key': of the header's dictionary; NULL: none. */
static const char *value_of(const char *header, const char *key) {
  const char *at = strstr(header, key);
  if (!at) return NULL;
  for (at += strlen(key); *at == ' ' || *at == ':'; at++) {}
  return at;
}

/* "(2, 3)" or "(4,)" or "()" */
static bool shape_is(const char *at, const BluType *t) {
  if (!at || *at++ != '(') return false;
  int n = 0;
  for (; *at && *at != ')'; n++) {
    char *end;
    long long size = strtoll(at, &end, 10);
    if (end == at || n >= t->rank || size != t->dim[n]) return false;
    for (at = end; *at == ',' || *at == ' '; at++) {}
  }
  return *at == ')' && n == t->rank;
}

/* Reads the header, up to the first element. */
static bool read_header(FILE *f, char *header) {
  unsigned char head[12];
  if (fread(head, 1, 8, f) != 8 || memcmp(head, "\x93NUMPY", 6) || head[6] < 1 || head[6] > 3) return false;
  size_t wide = head[6] == 1 ? 2 : 4, size = 0;
  if (fread(head, 1, wide, f) != wide) return false;
  for (size_t i = wide; i-- > 0;) size = size << 8 | head[i];
  if (size >= MOST_HEADER || fread(header, 1, size, f) != size) return false;
  header[size] = 0;
  return true;
}

static bool read_elements(FILE *f, const char *path, const char *header, const BluType *t, double *out, BluWhy *why) {
  size_t k = 0, kn = sizeof kinds / sizeof *kinds;
  const char *descr = value_of(header, "'descr'"), *order = value_of(header, "'fortran_order'");
  while (descr && k < kn && strncmp(descr + 1, kinds[k].descr, 3)) k++;
  if (!descr || k == kn) return blu_values_refuse(why, "%s: an element type other than f4, f8, i4, i8, u1 and b1", path);
  if (!order || strncmp(order, "False", 5)) return blu_values_refuse(why, "%s: elements are not in row-major order", path);
  char shape[200];
  if (!shape_is(value_of(header, "'shape'"), t))
    return blu_values_refuse(why, "%s: another shape than %s", path, blu_type_print(t, shape, sizeof shape));
  int64_t n = blu_type_count(t);
  size_t wide = (size_t)blu_elem_bytes(kinds[k].elem);
  unsigned char at[8];
  for (int64_t i = 0; i < n; i++) {
    if (fread(at, 1, wide, f) != wide) return blu_values_refuse(why, "%s: the file ends before the array does", path);
    out[i] = element(at, kinds[k].elem);
    if (!blu_elem_is_float(t->elem) && out[i] != floor(out[i])) return blu_values_refuse(why, "%s: %.17g is no whole number", path, out[i]);
  }
  return true;
}

bool blu_values_read_npy(const char *path, const BluType *t, double *out, BluWhy *why) {
  FILE *f = fopen(path, "rb");
  if (!f) return blu_values_refuse(why, "%s: %s", path, strerror(errno));
  char *header = blu_alloc(MOST_HEADER);
  bool good = read_header(f, header) ? read_elements(f, path, header, t, out, why) : blu_values_refuse(why, "%s: not an .npy file", path);
  free(header);
  fclose(f);
  return good;
}
