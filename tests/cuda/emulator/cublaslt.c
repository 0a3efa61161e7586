/* cublaslt.c - a fake of cublasLt: the same descriptors, checked, and products in f32 by plain loops, k ascending, of operands
 * that are rounded first if TF32 is asked for. BGRADA and BGRADB are sums over k in double of what lies in A and B. Its one algorithm is a hash of
 * what it was chosen for, so that one is not used for another product. BLU_EMULATOR_EPILOGUES: 1 (default) it has these sums; 0 asked for them it
 * says that it doesn't support them, 2 that there are 0 algorithms. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* they are NVIDIA's, whose headers need not be here */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

enum { GOOD = 0, INVALID = 7, NOT_SUPPORTED = 15, F32 = 0, COMPUTE_F32 = 68, COMPUTE_TF32 = 77, BIAS = 4, BGRADA = 256, BGRADB = 512 };

typedef struct { int32_t compute, scale, transpose_a, transpose_b; uint32_t epilogue; const void *bias; } Product;
typedef struct { int32_t type, batch; uint64_t rows, columns; int64_t leading, step; } Matrix;
typedef struct { uint64_t workspace; uint32_t reductions, alignment[4]; } Wish;
typedef struct { uint64_t data[8]; } Algorithm;
typedef struct { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; } Choice;

size_t cublasLtGetVersion(void) { return 130000; }
int cublasLtCreate(void **handle) { return *handle = calloc(1, 8), GOOD; }
int cublasLtDestroy(void *handle) { return free(handle), GOOD; }

int cublasLtMatmulDescCreate(void **product, int compute, int scale) {
  if ((compute != COMPUTE_F32 && compute != COMPUTE_TF32) || scale != F32) return NOT_SUPPORTED;
  Product *p = calloc(1, sizeof *p);
  *p = (Product){.compute = compute, .scale = scale, .epilogue = 1};
  return *product = p, GOOD;
}
int cublasLtMatmulDescDestroy(void *product) { return free(product), GOOD; }

/* Takes an attribute whose size must be right. */
static int take(void *to, size_t size, const void *value, size_t bytes) { return bytes == size ? (memcpy(to, value, size), GOOD) : INVALID; }

int cublasLtMatmulDescSetAttribute(void *product, int attribute, const void *value, size_t bytes) {
  Product *p = product;
  switch (attribute) {
    case 3: return take(&p->transpose_a, sizeof p->transpose_a, value, bytes);
    case 4: return take(&p->transpose_b, sizeof p->transpose_b, value, bytes);
    case 7: return take(&p->epilogue, sizeof p->epilogue, value, bytes);
    case 8: return take(&p->bias, sizeof p->bias, value, bytes);
    default: return INVALID;
  }
}

int cublasLtMatrixLayoutCreate(void **matrix, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  if (type != F32 || !rows || !columns || leading < (int64_t)rows) return INVALID;
  Matrix *m = calloc(1, sizeof *m);
  *m = (Matrix){.type = type, .batch = 1, .rows = rows, .columns = columns, .leading = leading};
  return *matrix = m, GOOD;
}
int cublasLtMatrixLayoutDestroy(void *matrix) { return free(matrix), GOOD; }

int cublasLtMatrixLayoutSetAttribute(void *matrix, int attribute, const void *value, size_t bytes) {
  Matrix *m = matrix;
  if (attribute == 5) return take(&m->batch, sizeof m->batch, value, bytes);
  return attribute == 6 ? take(&m->step, sizeof m->step, value, bytes) : INVALID;
}

int cublasLtMatmulPreferenceCreate(void **wish) {
  Wish *w = calloc(1, sizeof *w);
  *w = (Wish){.reductions = 7, .alignment = {256, 256, 256, 256}};
  return *wish = w, GOOD;
}
int cublasLtMatmulPreferenceDestroy(void *wish) { return free(wish), GOOD; }

int cublasLtMatmulPreferenceSetAttribute(void *wish, int attribute, const void *value, size_t bytes) {
  Wish *w = wish;
  if (attribute == 1) return take(&w->workspace, sizeof w->workspace, value, bytes);
  if (attribute == 3) return take(&w->reductions, sizeof w->reductions, value, bytes);
  return attribute >= 5 && attribute <= 8 ? take(&w->alignment[attribute - 5], sizeof w->alignment[0], value, bytes) : INVALID;
}

/* --- checks --- */

/* d[m, n] = op(a)[m, k] op(b)[k, n], column-major. */
typedef struct { uint64_t m, n, k; } Sizes;

static int sizes_of(const Product *p, const Matrix *a, const Matrix *b, const Matrix *c, const Matrix *d, Sizes *s) {
  *s = (Sizes){d->rows, d->columns, p->transpose_a ? a->rows : a->columns};
  bool fits = (p->transpose_a ? a->columns : a->rows) == s->m && (p->transpose_b ? b->rows : b->columns) == s->n &&
              (p->transpose_b ? b->columns : b->rows) == s->k && c->rows == s->m && c->columns == s->n && a->batch == d->batch && b->batch == d->batch &&
              c->batch == d->batch && d->batch > 0;
  bool apart = d->batch == 1 || d->step >= (int64_t)((s->n - 1) * (uint64_t)d->leading + s->m);
  bool sums = p->epilogue == BGRADA || p->epilogue == BGRADB;
  return fits && apart && (p->epilogue == 1 || p->epilogue == BIAS || (sums && d->batch == 1)) ? GOOD : INVALID;
}

static bool sums_of(const Product *p) { return p->epilogue == BGRADA || p->epilogue == BGRADB; }
static bool aligned(const void *place, uint64_t alignment) { return (uintptr_t)place % alignment == 0; }
/* The length of a bias, or of sums: one number a row of D, but for those of B one a column. */
static uint64_t bias_length(const Product *p, const Sizes *s) { return p->epilogue == BGRADB ? s->n : s->m; }

/* Of the address, which the heuristic looks at, up to 16 bytes. */
static uint64_t alignment_of(const void *place) { return place ? (uintptr_t)place % 16 ? (uintptr_t)place & -(uintptr_t)place : 16 : 16; }

static uint64_t mix(uint64_t h, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
  return h;
}

static Algorithm algorithm_for(const Product *p, const Matrix *a, const Matrix *b, const Matrix *c, const Matrix *d, uint32_t alignment, uint64_t workspace,
                               uint64_t bias) {
  uint64_t h = 0xcbf29ce484222325u;
  Product same = *p;
  same.bias = NULL;
  h = mix(mix(h, &same, sizeof same), a, sizeof *a);
  h = mix(mix(mix(h, b, sizeof *b), c, sizeof *c), d, sizeof *d);
  return (Algorithm){{h, alignment, workspace, bias}};
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *product, void *a, void *b, void *c, void *d, void *wish, int most, Choice *choice, int *choices) {
  const Wish *w = wish;
  Sizes s;
  uint32_t least = 256;
  if (!handle || most < 1) return INVALID;
  int code = sizes_of(product, a, b, c, d, &s);
  if (code) return code;
  int64_t has = sums_of(product) ? blu_emu_setting("EPILOGUES", 1) : 1;
  *choices = 0;
  if (has != 1) return has ? GOOD : NOT_SUPPORTED;
  if (((Product *)product)->epilogue != 1 && !((Product *)product)->bias) return INVALID; /* whose alignment is to be looked at */
  for (int i = 0; i < 4; i++)
    if (w->alignment[i] < least) least = w->alignment[i];
  uint64_t bias = alignment_of(((Product *)product)->bias);
  *choice = (Choice){.algorithm = algorithm_for(product, a, b, c, d, least, w->workspace, bias), .workspace = w->workspace ? 1024 : 0};
  *choices = 1;
  return GOOD;
}

/* --- products --- */

typedef struct {
  Product product;
  Matrix a, b, d;
  Sizes s;
  const float *from_a, *from_b;
  float *to;
  float alpha;
} Work;

static void touch(const char *who, const void *place, const Matrix *m, bool write) {
  bool whole = m->leading == (int64_t)m->rows; /* columns lie one behind the other */
  for (int64_t i = 0; i < m->batch; i++)
    if (whole) blu_emu_library_access(who, (const float *)place + i * m->step, (int64_t)(m->rows * m->columns) * 4, write);
  for (int64_t i = 0; i < m->batch && !whole; i++)
    for (uint64_t c = 0; c < m->columns; c++)
      blu_emu_library_access(who, (const float *)place + i * m->step + (int64_t)c * m->leading, (int64_t)m->rows * 4, write);
}

/* To 10 bits of mantissa, the nearest number, ties away from zero. */
static float as_tf32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7f800000) == 0x7f800000) return x; /* infinite, or NaN */
  bits = (bits + 0x1000) & ~(uint32_t)0x1fff;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static float at(const float *from, const Matrix *m, int transpose, uint64_t row, uint64_t column) {
  return transpose ? from[(int64_t)row * m->leading + (int64_t)column] : from[(int64_t)column * m->leading + (int64_t)row];
}

/* op(a) as m rows of a column for each k: where a is transposed, `room` gets it so. */
static const float *columns_of(const Work *w, const float *a, float *room, int64_t *leading) {
  *leading = w->product.transpose_a ? (int64_t)w->s.m : w->a.leading;
  if (!w->product.transpose_a) return a;
  for (uint64_t i = 0; i < w->s.m; i++)
    for (uint64_t k = 0; k < w->s.k; k++) room[k * w->s.m + i] = a[(int64_t)i * w->a.leading + (int64_t)k];
  return room;
}

static void multiply_one(const Work *w, const float *a, const float *b, float *d, float *restrict row, float *room) {
  const float *bias = w->product.epilogue == BIAS ? w->product.bias : NULL;
  bool tf32 = w->product.compute == COMPUTE_TF32;
  int64_t leading;
  a = columns_of(w, a, room, &leading);
  for (uint64_t j = 0; j < w->s.n; j++) {
    memset(row, 0, w->s.m * sizeof *row);
    for (uint64_t k = 0; k < w->s.k; k++) {
      float factor = at(b, &w->b, w->product.transpose_b, k, j);
      const float *restrict column = a + (int64_t)k * leading;
      for (uint64_t i = 0; !tf32 && i < w->s.m; i++) row[i] += column[i] * factor;
      for (uint64_t i = 0; tf32 && i < w->s.m; i++) row[i] += as_tf32(column[i]) * as_tf32(factor);
    }
    for (uint64_t i = 0; i < w->s.m; i++) d[(int64_t)j * w->d.leading + (int64_t)i] = w->alpha * row[i] + (bias ? bias[i] : 0);
  }
}

/* Of the matrix that is summed over k, element (k, i), i counting what is left. */
static void sum_one(const Work *w, float *to) {
  bool of_a = w->product.epilogue == BGRADA;
  for (uint64_t i = 0; i < bias_length(&w->product, &w->s); i++) {
    double sum = 0;
    for (uint64_t k = 0; k < w->s.k; k++)
      sum += of_a ? at(w->from_a, &w->a, w->product.transpose_a, i, k) : at(w->from_b, &w->b, w->product.transpose_b, k, i);
    to[i] = (float)sum;
  }
}

static void multiply(const void *data) {
  const Work *w = data;
  touch("cublasLt reads", w->from_a, &w->a, false);
  touch("cublasLt reads", w->from_b, &w->b, false);
  if (w->product.epilogue != 1)
    blu_emu_library_access(sums_of(&w->product) ? "cublasLt writes a bias," : "cublasLt reads a bias,", w->product.bias,
                           (int64_t)bias_length(&w->product, &w->s) * 4, sums_of(&w->product));
  if (sums_of(&w->product)) sum_one(w, (float *)(uintptr_t)w->product.bias);
  touch("cublasLt writes", w->to, &w->d, true);
  float *row = malloc(w->s.m * sizeof *row), *room = w->product.transpose_a ? malloc(w->s.m * w->s.k * sizeof *room) : NULL;
  for (int64_t i = 0; i < w->d.batch; i++)
    multiply_one(w, w->from_a + i * w->a.step, w->from_b + i * w->b.step, w->to + i * w->d.step, row, room);
  free(row), free(room);
}

int cublasLtMatmul(void *handle, void *product, const void *alpha, const void *a, void *matrix_a, const void *b, void *matrix_b, const void *beta,
                   const void *c, void *matrix_c, void *d, void *matrix_d, const Algorithm *algorithm, void *workspace, size_t workspace_bytes, void *stream) {
  Work w = {.product = *(Product *)product, .a = *(Matrix *)matrix_a, .b = *(Matrix *)matrix_b, .d = *(Matrix *)matrix_d, .from_a = a, .from_b = b, .to = d,
            .alpha = *(const float *)alpha};
  if (!handle || *(const float *)beta != 0 || c != d || sizes_of(product, matrix_a, matrix_b, matrix_c, matrix_d, &w.s)) return INVALID;
  Algorithm expected = algorithm_for(product, matrix_a, matrix_b, matrix_c, matrix_d, (uint32_t)algorithm->data[1], algorithm->data[2], algorithm->data[3]);
  if (memcmp(&expected, algorithm, sizeof expected)) blu_emu_fault("cublasLt gets an algorithm that was chosen for another product");
  if (workspace_bytes < algorithm->data[2] || (workspace_bytes && !workspace)) blu_emu_fault("cublasLt gets less workspace than was promised");
  if (!aligned(a, algorithm->data[1]) || !aligned(b, algorithm->data[1]) || !aligned(d, algorithm->data[1]))
    blu_emu_fault("cublasLt gets a matrix that isn't aligned as was promised");
  if (w.product.epilogue != 1 && !aligned(w.product.bias, algorithm->data[3])) blu_emu_fault("cublasLt gets a bias that isn't aligned as that which was shown");
  return blu_emu_enqueue(stream, multiply, &w, sizeof w);
}
