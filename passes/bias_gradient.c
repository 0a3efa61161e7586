/* bias_gradient.c - gradients of biases beside those of their weights. The gradient of a weight is a product that sums
 * over all rows of dY, transpose(X) dY or transpose(dY) X, and that of the bias is the sum of these rows. What `expand` makes of it is a sum over one
 * axis at a time, in front of the product. Here it becomes one sum over the product's own operand, right behind the product, so that `fuse`
 * finds it there (blu_product_sum). */
#include <stdlib.h>
#include "dialects/memory.h"
#include "passes/kernel.h"
#include "passes_internal.h"

enum { MOST_AXES = BLU_MAX_RANK };

typedef struct {
  MlirOperation *op; /* null: it is gone */
  int n, *segment;   /* guards and other ops with effects before each op */
  BluMap number;     /* op -> its place + 1 */
} Ops;

static int number_of(const Ops *o, MlirOperation op) { return (int)(intptr_t)blu_map_get(&o->number, op.ptr) - 1; }

static bool is_one_use(MlirValue v) {
  MlirOpOperand u = mlirValueGetFirstUse(v);
  return !mlirOpOperandIsNull(u) && mlirOpOperandIsNull(mlirOpOperandGetNextUse(u));
}

/* A sum of v over its last axis but one, which keeps no axis of length 1; null: there is none. */
static MlirOperation sum_of_rows(MlirValue v) {
  for (MlirOpOperand u = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
    MlirOperation op = mlirOpOperandGetOwner(u);
    BluSig s;
    if (!blu_is(op, "sum")) continue;
    blu_sig_of(op, &s);
    const BluAttr *axis = blu_attr(&s.attrs, "axis");
    if (axis && axis->n == 1 && axis->i[0] == s.in[0].rank - 2 && s.out.rank == s.in[0].rank - 1) return op;
  }
  return (MlirOperation){0};
}

/* What v, [rows, columns], is a reshape of with the same columns: v itself if of nothing. */
static MlirValue before_reshape(MlirValue v) {
  MlirOperation d = blu_def(v);
  BluType t = blu_value_type(v);
  if (mlirOperationIsNull(d) || !blu_is(d, "reshape")) return v;
  BluType x = blu_value_type(mlirOperationGetOperand(d, 0));
  return x.rank >= 2 && x.dim[x.rank - 1] == t.dim[1] ? mlirOperationGetOperand(d, 0) : v;
}

/* The sums, one after another, that make of v the vector of its columns' sums; 0: there are none. Nobody else reads what is between. */
static int chain_of(MlirValue v, MlirOperation *chain) {
  int n = 0;
  for (int rank = blu_value_type(v).rank; rank > 1; rank--) {
    chain[n] = sum_of_rows(v);
    if (mlirOperationIsNull(chain[n]) || (n && !is_one_use(v))) return 0;
    v = mlirOperationGetResult(chain[n++], 0);
  }
  return n;
}

/* Does nobody need the sum before the product `at`, and nothing with effects lie between the two? */
static bool may_move(const Ops *o, MlirOperation sum, int at) {
  if (o->segment[number_of(o, sum)] != o->segment[at]) return false;
  for (MlirOpOperand u = mlirValueGetFirstUse(mlirOperationGetResult(sum, 0)); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u))
    if (number_of(o, mlirOpOperandGetOwner(u)) <= at) return false;
  return true;
}

static void remove_op(Ops *o, MlirOperation op) {
  o->op[number_of(o, op)] = (MlirOperation){0};
  mlirOperationDestroy(op);
}

/* Puts the sum of the columns of operand i of the product at `at`, if the program needs it, behind the product. */
static bool gather(Ops *o, int at, int i) {
  MlirOperation chain[MOST_AXES];
  MlirValue v = mlirOperationGetOperand(o->op[at], i);
  int n = chain_of(v, chain);
  if (!n) n = chain_of(before_reshape(v), chain);
  if (!n || !may_move(o, chain[n - 1], at)) return false;
  BluBuilder b = blu_builder_before(mlirOperationGetNextInBlock(o->op[at]));
  b.loc = mlirOperationGetLocation(chain[n - 1]);
  MlirValue sum = blu_reduce(&b, "sum", v, 1, (int64_t[]){0}, false);
  mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(chain[n - 1], 0), sum);
  for (int k = n - 1; k >= 0; k--) {
    if (!mlirOpOperandIsNull(mlirValueGetFirstUse(mlirOperationGetResult(chain[k], 0)))) break; /* others read it, too */
    remove_op(o, chain[k]);
  }
  return true;
}

void blu_gather_bias_gradients(MlirOperation func, bool device) {
  Ops o = {0};
  o.op = blu_block_ops(blu_func_block(func), &o.n);
  o.segment = blu_alloc((size_t)(o.n + 1) * sizeof *o.segment);
  for (int i = 0, segment = 0; i < o.n; i++) {
    const BluOp *op = blu_op_of(o.op[i]);
    o.segment[i] = segment;
    segment += !op || !op->pure;
    blu_map_set(&o.number, o.op[i].ptr, (void *)(intptr_t)(i + 1));
  }
  for (int i = 0; i < o.n; i++) {
    if (mlirOperationIsNull(o.op[i]) || !blu_is(o.op[i], "matmul") || (device && !blu_product_in_library(o.op[i]))) continue;
    BluMatrices x = blu_matrices_of(o.op[i]);
    if (!x.m || !x.n) continue; /* nothing is computed there, so no sum beside it */
    bool flat = blu_value_type(mlirOperationGetOperand(o.op[i], 0)).rank == 2 && blu_value_type(mlirOperationGetOperand(o.op[i], 1)).rank == 2;
    if (!flat) continue;
    if (!x.tb && gather(&o, i, 1)) continue;
    if (x.ta && device) gather(&o, i, 0); /* a processor's product packs b alone in panels */
  }
  blu_map_free(&o.number);
  free(o.op), free(o.segment);
}
