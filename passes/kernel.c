/* kernel.c - see kernel.h. */
#include "passes/kernel.h"
#include <stdio.h>
#include <string.h>
#include "passes_internal.h"

const char *const blu_kernel_kind_names[] = {
  [BLU_KERNEL_ROWS] = "rows", [BLU_KERNEL_COLUMNS] = "columns", [BLU_KERNEL_MATMUL] = "matmul", [BLU_KERNEL_MOVE] = "move",
  [BLU_KERNEL_ATTENTION] = "attention"};

int blu_reduction_states(MlirOperation op) {
  const BluOp *o = blu_op_of(op);
  return !o || o->rule->kind != BLU_KIND_REDUCE ? 0 : blu_is(op, "argmax") ? 2 : 1;
}

int64_t blu_space_columns(const BluType *s) { return s->rank ? s->dim[s->rank - 1] : 1; }

int64_t blu_space_rows(const BluType *s) {
  int64_t n = 1;
  for (int i = 0; i + 1 < s->rank; i++) n *= s->dim[i];
  return n;
}

static bool same_dims(const BluType *a, const BluType *b) {
  return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}

/* t is S without its last dimension, or with 1 in its place */
static bool is_row_shape(const BluType *t, const BluType *s) {
  if (!s->rank || (t->rank != s->rank - 1 && t->rank != s->rank)) return false;
  return !memcmp(t->dim, s->dim, (size_t)(s->rank - 1) * sizeof *t->dim) && (t->rank < s->rank || t->dim[t->rank - 1] == 1);
}

bool blu_view_of_type(const BluType *t, const BluType *s, BluView *v) {
  v->from = *t;
  if (same_dims(t, s)) return v->kind = BLU_VIEW_FULL, true;
  if (is_row_shape(t, s)) return v->kind = BLU_VIEW_ROW, true;
  return false;
}

bool blu_view_through(MlirOperation op, const BluType *s, BluView at, BluView *operand) {
  BluSig sig;
  blu_sig_of(op, &sig);
  *operand = at;
  if (!blu_is(op, "broadcast")) return true; /* cast, reshape: the same linear index */
  operand->from = sig.in[0];
  if (blu_type_count(&sig.in[0]) == 1) return operand->kind = BLU_VIEW_SCALAR, true;
  if (at.kind == BLU_VIEW_ROW && is_row_shape(&sig.out, s)) { /* rows of x repeated over rows of S: only if nothing repeats */
    return blu_type_count(&sig.in[0]) == blu_type_count(&sig.out);
  }
  if (at.kind != BLU_VIEW_FULL || !same_dims(&sig.out, s)) return false;
  BluType x = sig.in[0], aligned = {.rank = s->rank};
  for (int i = 0; i < s->rank; i++) aligned.dim[i] = i < s->rank - x.rank ? 1 : x.dim[i - (s->rank - x.rank)];
  if (same_dims(&aligned, s)) operand->kind = BLU_VIEW_FULL;
  else if (is_row_shape(&aligned, s)) operand->kind = BLU_VIEW_ROW;
  else operand->kind = BLU_VIEW_MAPPED;
  return true;
}

bool blu_is_widening(MlirOperation op) {
  return blu_is(op, "cast") && blu_value_type(mlirOperationGetResult(op, 0)).elem == BLU_F32 &&
         blu_elem_is_half(blu_value_type(mlirOperationGetOperand(op, 0)).elem);
}

/* Rounding to a half type is work, and what stands behind it is to be stored in half the bytes. */
static bool is_rounding(MlirOperation op) { return blu_is(op, "cast") && blu_elem_is_half(blu_value_type(mlirOperationGetResult(op, 0)).elem); }

bool blu_is_free(MlirOperation op) {
  const BluOp *o = blu_op_of(op);
  return o && (o->rule->kind == BLU_KIND_INDEX || o->rule->kind == BLU_KIND_VIEW || (blu_is(op, "cast") && !is_rounding(op)));
}

bool blu_kernel_info(MlirOperation func, BluKernelInfo *k) {
  const char *kind = blu_get_string(func, "blu.kernel");
  *k = (BluKernelInfo){0};
  for (int i = 0; i <= BLU_KERNEL_ATTENTION; i++)
    if (!strcmp(kind, blu_kernel_kind_names[i])) k->kind = (BluKernelKind)i;
  if (!*kind) return false;
  MlirAttribute space = mlirOperationGetAttributeByName(func, mlirStringRefCreateFromCString("blu.space"));
  k->space.rank = (int)mlirDenseArrayGetNumElements(space);
  for (int i = 0; i < k->space.rank; i++) k->space.dim[i] = mlirDenseI64ArrayGetElement(space, i);
  int n;
  MlirBlock block = blu_func_block(func);
  for (MlirOperation o = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    const BluOp *op = blu_op_of(o);
    if (!op) continue;
    n = op->rule->kind;
    if ((k->kind == BLU_KERNEL_MATMUL && n == BLU_KIND_MATMUL) || (k->kind == BLU_KERNEL_COLUMNS && n == BLU_KIND_REDUCE) ||
        (k->kind == BLU_KERNEL_MOVE && n == BLU_KIND_MOVE) || (k->kind == BLU_KERNEL_ATTENTION && blu_attention_is_whole(o)))
      k->main = o;
  }
  return true;
}

bool blu_kernel_is_flat(MlirOperation func, const BluKernelInfo *k) {
  MlirBlock block = blu_func_block(func);
  if (k->kind != BLU_KERNEL_ROWS || !k->space.rank) return false;
  for (MlirOperation o = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    const BluOp *op = blu_op_of(o);
    if (!op) continue;
    if (op->rule->kind == BLU_KIND_REDUCE || blu_is(o, "iota")) return false;
    if (!blu_is(o, "broadcast")) continue;
    BluType x = blu_value_type(mlirOperationGetOperand(o, 0)), y = blu_value_type(mlirOperationGetResult(o, 0));
    if (blu_type_count(&x) != 1 && blu_type_count(&x) != blu_type_count(&y)) return false;
  }
  MlirOperation end = mlirBlockGetTerminator(block);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++) {
    BluType t = blu_value_type(mlirOperationGetOperand(end, i));
    BluView v;
    if (!blu_view_of_type(&t, &k->space, &v) || v.kind != BLU_VIEW_FULL) return false;
  }
  return true;
}

/* ---- attention ---- */

static bool has_part(MlirOperation op, const char *part, int64_t of) { /* masked or not; of: of a gradient, 0 else */
  char masked[64];
  BluSig s;
  snprintf(masked, sizeof masked, "masked_%s", part);
  if (!blu_is(op, part) && !blu_is(op, masked)) return false;
  blu_sig_of(op, &s);
  return blu_attr_int(&s.attrs, "of", 0) == of;
}

static bool same_attention(MlirOperation a, MlirOperation b) {
  BluSig s, t;
  blu_sig_of(a, &s), blu_sig_of(b, &t);
  BluAttention x = blu_attention_of(&s), y = blu_attention_of(&t);
  return x.causal == y.causal && x.scale == y.scale && (x.mask < 0) == (y.mask < 0) &&
         (x.mask < 0 || mlirValueEqual(mlirOperationGetOperand(a, x.mask), mlirOperationGetOperand(b, y.mask)));
}

static int64_t gradient_of(MlirOperation op) { /* -1: of nothing */
  BluSig s;
  blu_sig_of(op, &s);
  return blu_attr_int(&s.attrs, "of", -1);
}

bool blu_attention_shares(MlirOperation a, MlirOperation b) {
  enum { Q, K, V, OPERANDS = 6 };
  int64_t x = gradient_of(a), y = gradient_of(b);
  bool forward = has_part(a, "attention", 0) && has_part(b, "attention_lse", 0);
  bool back = x >= 0 && y >= 0 && x != y && has_part(a, "attention_grad", x) && has_part(b, "attention_grad", y);
  if (back && blu_targets_device(blu_module_of(a))) back = x != Q && y != Q; /* its gradient of queries is a kernel of its own */
  if (!forward && !back) return false;
  for (int i = 0; i < (back ? OPERANDS : V); i++)
    if (!mlirValueEqual(mlirOperationGetOperand(a, i), mlirOperationGetOperand(b, i))) return false;
  return same_attention(a, b);
}

/* ---- programs for a device ---- */

BluMatrices blu_matrices_of(MlirOperation matmul) {
  BluSig s;
  blu_sig_of(matmul, &s);
  const BluType *a = &s.in[0], *b = &s.in[1];
  BluMatrices x = {.batch = 1, .ta = blu_attr_int(&s.attrs, "ta", 0), .tb = blu_attr_int(&s.attrs, "tb", 0)};
  x.m = a->dim[a->rank - (x.ta ? 1 : 2)];
  x.k = a->dim[a->rank - (x.ta ? 2 : 1)];
  x.n = b->dim[b->rank - (x.tb ? 2 : 1)];
  for (int i = 0; i < a->rank - 2; i++) x.batch *= a->dim[i];
  bool shared = b->rank == 2;
  if (shared && !x.ta) x.m *= x.batch, x.batch = 1;
  x.step_a = x.m * x.k, x.step_b = shared ? 0 : x.k * x.n, x.step_c = x.m * x.n;
  return x;
}

bool blu_product_in_library(MlirOperation matmul) {
  BluMatrices x = blu_matrices_of(matmul);
  int64_t most = INT32_MAX; /* what the library takes for a dimension */
  BluElem t = blu_value_type(mlirOperationGetOperand(matmul, 0)).elem;
  return t == BLU_F32 && x.batch > 0 && x.m > 0 && x.n > 0 && x.k > 0 && x.batch <= most && x.m <= most && x.n <= most && x.k <= most;
}

MlirValue blu_product_bias(MlirOperation op, MlirOperation matmul) {
  MlirValue none = {0}, product = mlirOperationGetResult(matmul, 0);
  if (!blu_is(op, "add")) return none;
  for (int i = 0; i < 2; i++) {
    MlirOperation d = blu_def(mlirOperationGetOperand(op, 1 - i));
    if (!mlirValueEqual(mlirOperationGetOperand(op, i), product) || mlirOperationIsNull(d) || !blu_is(d, "broadcast")) continue;
    MlirValue x = mlirOperationGetOperand(d, 0);
    BluType t = blu_value_type(x), out = blu_value_type(product);
    int64_t n = out.dim[out.rank - 1];
    if (t.elem == BLU_F32 && t.rank && t.dim[t.rank - 1] == n && blu_type_count(&t) == n) return x;
  }
  return none;
}

int blu_product_sum(MlirOperation op, MlirOperation matmul) {
  BluSig s;
  BluMatrices x = blu_matrices_of(matmul);
  if (!blu_is(op, "sum")) return -1;
  blu_sig_of(op, &s);
  const BluAttr *axis = blu_attr(&s.attrs, "axis");
  if (s.in[0].rank != 2 || s.out.rank != 1 || !axis || axis->i[0] != 0 || x.batch != 1 || !x.m || !x.n) return -1;
  for (int i = 0; i < 2; i++)
    if ((i ? !x.tb : x.ta) && mlirValueEqual(mlirOperationGetOperand(op, 0), mlirOperationGetOperand(matmul, i))) return i;
  return -1;
}

bool blu_kernel_is_host(MlirOperation func) { return blu_get_int(func, "blu.host", 0) != 0; }
