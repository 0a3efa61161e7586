/* product.c - matrix products by cublasLt: which it computes, and how.
 *
 * Ours are row-major, cublasLt's are column-major: to it our matrices are their transposes, and c = op(a) op(b) is
 * transpose(c) = transpose(op(b)) transpose(op(a)). So b is its first operand and a its second, both as they lie in memory, and a bias for each
 * column of c is one for each row of its result; sums of the columns of our b are its BGRADA, of our a its BGRADB. Such a sum is asked for if
 * the run allows it, and given up, product by product, where the library has no way to compute it: then a function of the program makes it.
 * How to compute a product is the first choice of its heuristic, which depends on shapes, alignment, workspace, chip and version alone; ways
 * whose sums depend on the order in which blocks end are excluded. */
#include <stdlib.h>
#include <string.h>

#include "cuda_internal.h"

enum { ARENA_ALIGNMENT = 256 }; /* of all memory that the driver gives */

static bool good(BluError *err, int code, const BluProduct *p, const char *what) {
  return !code || blu_error_set(err, "cublasLt can't %s the product of [%lld, %lld] and [%lld, %lld], batch %lld: status %d", what, (long long)p->m,
                                (long long)p->k, (long long)p->k, (long long)p->n, (long long)p->batch, code);
}

/* --- which there are --- */

static int64_t find(const BluCudaDevice *d, const BluProduct *product) {
  int64_t low = 0, high = d->products;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (d->product[middle].product < product) low = middle + 1;
    else high = middle;
  }
  return low;
}

static int32_t alignment_of(int64_t bytes, int32_t most) {
  while (bytes % most) most /= 2;
  return most;
}

static bool note(BluError *err, void *user, const BluLaunch *launch, const int64_t *offset) {
  BluCudaDevice *d = user;
  (void)err;
  const BluProduct *product = launch->device ? launch->device->product : NULL;
  if (!product) return true;
  int64_t at = find(d, product);
  if (at == d->products || d->product[at].product != product) {
    d->product = blu_need(realloc(d->product, (size_t)(d->products + 1) * sizeof *d->product));
    memmove(&d->product[at + 1], &d->product[at], (size_t)(d->products - at) * sizeof *d->product);
    d->product[at] = (BluCudaProduct){.product = product, .alignment = ARENA_ALIGNMENT};
    d->products++;
  }
  const int64_t bytes[] = {offset[product->place_a], offset[product->place_b], offset[product->place_c], 4 * product->step_a, 4 * product->step_b,
                           4 * product->step_c, product->place_bias < 0 ? 0 : offset[product->place_bias]};
  for (int i = 0; i < 7; i++) d->product[at].alignment = alignment_of(bytes[i], d->product[at].alignment);
  return true;
}

/* --- what they are --- */

/* A matrix of a batch, as it lies in memory: `rows` x `columns` row-major. */
static int open_matrix(const BluCudaLtApi *lt, void **matrix, int64_t rows, int64_t columns, int64_t batch, int64_t step) {
  int32_t count = (int32_t)batch;
  int code = lt->matrix_open(matrix, LT_F32, (uint64_t)columns, (uint64_t)rows, columns);
  if (!code) code = lt->matrix_set(*matrix, LT_BATCH, &count, sizeof count);
  return code ? code : lt->matrix_set(*matrix, LT_BATCH_STEP, &step, sizeof step);
}

static bool is_sum(const BluProduct *p) { return p->epilogue == BLU_EPILOGUE_SUM_A || p->epilogue == BLU_EPILOGUE_SUM_B; }

static int describe(const BluCudaDevice *d, BluCudaProduct *to) {
  const BluCudaLtApi *lt = &d->lt;
  const BluProduct *p = to->product;
  const void *bias = (const void *)(uintptr_t)(d->arena + (to->alignment < ARENA_ALIGNMENT ? (uint64_t)to->alignment : 0)); /* aligned as the worst is */
  int32_t transpose = LT_T;
  static const uint32_t names[] = {LT_EPILOGUE_DEFAULT, LT_EPILOGUE_BIAS, LT_EPILOGUE_BGRADB, LT_EPILOGUE_BGRADA};
  uint32_t epilogue = to->apart ? LT_EPILOGUE_DEFAULT : names[p->epilogue];
  int code = lt->product_open(&to->wanted, p->tf32 ? LT_COMPUTE_TF32 : LT_COMPUTE_F32, LT_F32);
  if (!code && p->tb) code = lt->product_set(to->wanted, LT_TRANSPOSE_A, &transpose, sizeof transpose);
  if (!code && p->ta) code = lt->product_set(to->wanted, LT_TRANSPOSE_B, &transpose, sizeof transpose);
  if (!code) code = lt->product_set(to->wanted, LT_EPILOGUE, &epilogue, sizeof epilogue);
  if (!code && epilogue != LT_EPILOGUE_DEFAULT) code = lt->product_set(to->wanted, LT_BIAS, &bias, sizeof bias);
  if (!code) code = open_matrix(lt, &to->a, p->ta ? p->k : p->m, p->ta ? p->m : p->k, p->batch, p->step_a);
  if (!code) code = open_matrix(lt, &to->b, p->tb ? p->n : p->k, p->tb ? p->k : p->n, p->batch, p->step_b);
  return code ? code : open_matrix(lt, &to->c, p->m, p->n, p->batch, p->step_c);
}

static int choose(BluCudaDevice *d, BluCudaProduct *to) {
  const BluCudaLtApi *lt = &d->lt;
  void *wish = NULL;
  uint64_t workspace = (uint64_t)d->workspace_bytes;
  uint32_t reductions = LT_REDUCTIONS_APART, alignment = (uint32_t)to->alignment;
  int choices = 0, code = lt->wish_open(&wish);
  if (!code) code = lt->wish_set(wish, LT_WISH_WORKSPACE, &workspace, sizeof workspace);
  if (!code) code = lt->wish_set(wish, LT_WISH_REDUCTIONS, &reductions, sizeof reductions);
  for (int i = 0; !code && i < 4; i++) code = lt->wish_set(wish, LT_WISH_ALIGNMENT_A + i, &alignment, sizeof alignment);
  if (!code) code = lt->choose(d->handle, to->wanted, to->b, to->a, to->c, to->c, wish, 1, &to->choice, &choices);
  if (wish) lt->wish_close(wish);
  return code ? code : choices ? to->choice.state : -1;
}

static int choose_without_sum(BluCudaDevice *d, BluCudaProduct *to) {
  uint32_t epilogue = LT_EPILOGUE_DEFAULT;
  int code = d->lt.product_set(to->wanted, LT_EPILOGUE, &epilogue, sizeof epilogue);
  to->apart = true;
  return code ? code : choose(d, to);
}

bool blu_cuda_products_find(BluError *err, BluCudaDevice *d) {
  for (int64_t i = 0; i < d->program->functions; i++) {
    const BluFunction *f = &d->program->function[i];
    if (!blu_cuda_walk(err, f->launch, f->launches, d->offset, note, d)) return false;
  }
  if (!d->products) return true;
  d->workspace_bytes = BLU_CUDA_WORKSPACE;
  return blu_cuda_open_lt(err, &d->lt);
}

bool blu_cuda_products_choose(BluError *err, BluCudaDevice *d) {
  int code = d->products ? d->lt.open(&d->handle) : 0;
  if (code) return blu_error_set(err, "cublasLt can't start on this device: status %d", code);
  for (int64_t i = 0; i < d->products; i++) {
    BluCudaProduct *to = &d->product[i];
    if (to->product->batch > INT32_MAX) return good(err, -1, to->product, "take");
    to->apart = is_sum(to->product) && (!d->epilogues || to->product->tf32); /* it isn't said what TF32 does to such a sum */
    if (!good(err, describe(d, to), to->product, "describe")) return false;
    code = choose(d, to);
    if (code && is_sum(to->product) && !to->apart) code = choose_without_sum(d, to);
    if (!good(err, code, to->product, "find a way to compute")) return false;
  }
  return true;
}

void blu_cuda_products_close(BluCudaDevice *d) {
  for (int64_t i = 0; i < d->products; i++) {
    BluCudaProduct *p = &d->product[i];
    if (p->wanted) d->lt.product_close(p->wanted);
    if (p->a) d->lt.matrix_close(p->a);
    if (p->b) d->lt.matrix_close(p->b);
    if (p->c) d->lt.matrix_close(p->c);
  }
  if (d->handle) d->lt.close(d->handle);
  free(d->product);
}

bool blu_cuda_sums(const BluCudaDevice *d, const BluProduct *product) { return is_sum(product) && !d->product[find(d, product)].apart; }

int64_t blu_cuda_epilogues(const BluCudaDevice *d) {
  int64_t n = 0;
  for (int64_t i = 0; i < d->products; i++) n += is_sum(d->product[i].product) && !d->product[i].apart;
  return n;
}

uint64_t blu_cuda_products_hash(const BluCudaDevice *d) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < d->products; i++) {
    const LtAlgorithm *algorithm = &d->product[i].choice.algorithm;
    hash = hash * 0x100000001b3u + blu_cuda_sums(d, d->product[i].product) + blu_file_hash(algorithm, sizeof *algorithm);
  }
  return hash;
}

/* --- computing --- */

static void *address(const BluCudaDevice *d, int64_t offset) { return (void *)(uintptr_t)(d->arena + (uint64_t)offset); }

bool blu_cuda_multiply(BluError *err, BluCudaDevice *d, const BluProduct *product, const int64_t *offset) {
  static const float one = 1, zero = 0;
  BluCudaProduct *p = &d->product[find(d, product)];
  int code = 0;
  if (product->epilogue != BLU_EPILOGUE_NONE && !p->apart) {
    void *bias = address(d, offset[product->place_bias]);
    code = d->lt.product_set(p->wanted, LT_BIAS, &bias, sizeof bias);
  }
  void *c = address(d, offset[product->place_c]);
  if (!code)
    code = d->lt.multiply(d->handle, p->wanted, &one, address(d, offset[product->place_b]), p->b, address(d, offset[product->place_a]), p->a, &zero, c,
                          p->c, c, p->c, &p->choice.algorithm, (void *)(uintptr_t)d->workspace, (size_t)d->workspace_bytes, d->stream);
  return good(err, code, product, "compute");
}
