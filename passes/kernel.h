/* kernel.h - how values are addressed inside of a kernel: shared by the pass that forms kernels and by the code generators,
 * so that what the one admits the others can emit.
 *
 * A kernel walks a space of R rows and C columns: the space's type S = [.., C], all leading dimensions together are the rows.
 * Every value inside has an index space of its own, reached from (row, column) through a view. */
#ifndef BLU_PASSES_KERNEL_H
#define BLU_PASSES_KERNEL_H
#include "dialects/blu.h"

typedef enum {
  BLU_VIEW_FULL,   /* index = row * C + column: one element per point */
  BLU_VIEW_ROW,    /* index = row: one element per row */
  BLU_VIEW_SCALAR, /* index = 0 */
  BLU_VIEW_MAPPED  /* the value, of type `from`, is broadcast to S */
} BluViewKind;

typedef struct { BluViewKind kind; BluType from; } BluView;

typedef enum { BLU_KERNEL_ROWS, BLU_KERNEL_COLUMNS, BLU_KERNEL_MATMUL, BLU_KERNEL_MOVE, BLU_KERNEL_ATTENTION } BluKernelKind;
extern const char *const blu_kernel_kind_names[];

/* Values that the reductions of one kernel may keep in registers: one each, two for an argmax. */
enum { BLU_KERNEL_STATES = 8 };
int blu_reduction_states(MlirOperation op);    /* 0: not a reduction */

int64_t blu_space_columns(const BluType *s);   /* C; 1 for rank 0 */
int64_t blu_space_rows(const BluType *s);
/* How an operand of an op that is evaluated at `at`, and whose result is v's user, is reached through the index op `op`
 * (cast, reshape, broadcast). false: it can't be in this space. */
bool blu_view_through(MlirOperation op, const BluType *s, BluView at, BluView *operand);
/* The view under which an elementwise result or a reduction's operand of type t stands in S; false: it doesn't fit. */
bool blu_view_of_type(const BluType *t, const BluType *s, BluView *v);
/* Ops that a kernel evaluates where they are used and that are never stored for their own sake. */
bool blu_is_free(MlirOperation op);
/* A cast from a half type to f32: a kernel whose main op reads memory itself reads the half type through it. */
bool blu_is_widening(MlirOperation op);

/* ---- parts of tensors, in another order: what a kernel whose main op takes strides reads and writes without a copy (passes/strided.c) ---- */

/* Element (i, j, ..) of a value is element `offset` + i * stride[0] + j * stride[1] .. of `whole`. Dimensions of one element have any stride. */
typedef struct { MlirValue whole; int64_t offset, stride[BLU_MAX_RANK]; } BluStrided;

/* Ops through which a value can be a part of another: transpose, reshape, slice, a cast that widens. */
bool blu_is_strided(MlirOperation op);
/* v as a part of `whole`, or, if that is null, of the argument of the function that it is made of. false: it is none. */
bool blu_strided_part(MlirValue v, MlirValue whole, BluStrided *s);
/* Where v lies in `whole`, which is v itself, or made of it, and perhaps of others, by transpose, reshape and concat. false: it isn't there. */
bool blu_strided_place(MlirValue v, MlirValue whole, BluStrided *s);

/* ---- kernels ---- */

/* A kernel function: its kind, its space, and, for kinds other than rows, the op that makes it so. */
typedef struct { BluKernelKind kind; BluType space; MlirOperation main; } BluKernelInfo;
bool blu_kernel_info(MlirOperation func, BluKernelInfo *k); /* false: not a kernel */
/* Is it a walk over elements, all alike whatever the shape? Every value in it is one element or has the space's number of them. */
bool blu_kernel_is_flat(MlirOperation func, const BluKernelInfo *k);

/* What a kernel does, without its name: types and attributes, which a context has once each, and the numbers of operands. Without
 * `sizes`, for flat kernels, all that doesn't depend on the number of elements. blu_kernel_key_free frees it. */
typedef struct { const void **word; size_t n, cap; } BluKernelKey;
BluKernelKey blu_kernel_key(MlirOperation func, bool sizes);
bool blu_kernel_key_same(const BluKernelKey *a, const BluKernelKey *b);
void blu_kernel_key_free(BluKernelKey *k);

/* ---- what stands beside a product or an attention ---- */

/* op is the sum of the columns of an operand of the product, over what the product sums over: the gradient of a bias beside that of its weight, which
 * one kernel makes; of a device's library either operand's, else b's alone. Which operand; -1: it is something else. */
int blu_product_sum(MlirOperation op, MlirOperation matmul);
/* Ops of attention that one kernel computes: the result and the logarithms of its sums, or the gradients (on a device those of keys and values). */
bool blu_attention_shares(MlirOperation a, MlirOperation b);

/* ---- programs for a device ---- */

/* A matrix product in row-major matrices: c[m, n] = op(a) op(b) for each of `batch`; a batch times one matrix is more rows. step: elements
 * from one matrix of the batch to the next. */
typedef struct { int64_t batch, m, n, k, step_a, step_b, step_c; bool ta, tb; } BluMatrices;
BluMatrices blu_matrices_of(MlirOperation matmul);
/* Does a library compute this product on a device? Others get code of ours. */
bool blu_product_in_library(MlirOperation matmul);
/* op is `product + bias`, which such a library does in one go: the bias, one number a column; null: it is something else. */
MlirValue blu_product_bias(MlirOperation op, MlirOperation matmul);
/* A kernel of numbers of the step, which the host computes (blu.host). */
bool blu_kernel_is_host(MlirOperation func);
#endif
