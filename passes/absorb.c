/* absorb.c - what a processor's kernels of attention do for themselves, so that it is no kernel of its own: heads are read where a product left
 * them, and stored as the next product wants them; the sums of cotangents times results are made of the two. fuse.c leaves these ops to
 * whoever needs them. */
#include <stdlib.h>
#include "passes/kernel.h"
#include "passes_internal.h"

enum { Q, K, V, LSE, DELTA, CT };

static MlirValue operand(MlirOperation op, int i) { return mlirOperationGetOperand(op, i); }
static bool is_absorbed(const BluMap *absorbed, MlirOperation op) { return !mlirOperationIsNull(op) && blu_map_get(absorbed, op.ptr); }
static void absorb(BluMap *absorbed, MlirOperation op, bool is) { blu_map_set(absorbed, op.ptr, is ? (void *)op.ptr : NULL); }

/* Operands that are rows of numbers, of which a kernel knows the strides. */
static bool is_rows(MlirOperation attention, int i) {
  BluSig s;
  blu_sig_of(attention, &s);
  int rows = s.nin - (blu_attention_of(&s).mask >= 0);
  return (i < rows && i <= V) || (i < rows && i == CT);
}

/* sum(ct * x) over the last dimension, which only gradients of attention with this ct read, as delta: its product; else null. */
static MlirOperation product_of_delta(MlirOperation sum) {
  MlirOperation none = {0};
  MlirOperation mul = blu_is(sum, "sum") ? blu_def(operand(sum, 0)) : none;
  if (mlirOperationIsNull(mul) || !blu_is(mul, "mul")) return none;
  BluSig s;
  blu_sig_of(sum, &s);
  const BluAttr *axis = blu_attr(&s.attrs, "axis");
  MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(mul, 0)), u;
  if (s.in[0].rank != 4 || s.out.rank != 3 || !axis || axis->n != 1 || (axis->i[0] != 3 && axis->i[0] != -1)) return none;
  if (!mlirOpOperandIsNull(mlirOpOperandGetNextUse(use))) return none;
  for (u = mlirValueGetFirstUse(mlirOperationGetResult(sum, 0)); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
    MlirOperation user = mlirOpOperandGetOwner(u);
    bool grad = blu_attention_is_whole(user) && mlirOpOperandGetOperandNumber(u) == DELTA && mlirOperationGetNumOperands(user) > CT;
    if (!grad || !mlirValueEqual(operand(user, CT), operand(mul, 0))) return none;
  }
  return mul;
}

/* An attention's result that is stored transposed is read there: x becomes that tensor, transposed back. */
static void read_transposed(MlirOperation mul) {
  MlirValue x = operand(mul, 1);
  MlirOperation d = blu_def(x), turned = {0};
  if (mlirOperationIsNull(d) || !blu_attention_is_whole(d)) return;
  for (MlirOpOperand u = mlirValueGetFirstUse(x); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
    MlirOperation user = mlirOpOperandGetOwner(u);
    if (blu_is(user, "transpose") && mlirOperationIsBeforeInBlock(user, mul)) turned = user;
  }
  if (mlirOperationIsNull(turned)) return;
  BluSig s;
  blu_sig_of(turned, &s);
  const BluAttr *perm = blu_attr(&s.attrs, "perm");
  int64_t back[BLU_MAX_RANK];
  for (int i = 0; i < s.out.rank; i++) back[perm->i[i]] = i;
  BluBuilder b = blu_builder_before(mul);
  MlirValue from = mlirOperationGetResult(turned, 0);
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "perm", s.out.rank, back);
  mlirOperationSetOperand(mul, 1, blu_build(&b, "transpose", &as, 1, &from));
}

/* Do only such kernels read v, as rows of numbers? */
static bool is_only_rows(const BluMap *absorbed, MlirValue v) {
  for (MlirOpOperand u = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
    MlirOperation user = mlirOpOperandGetOwner(u);
    bool is_delta = blu_is(user, "mul") && is_absorbed(absorbed, user);
    if (is_delta || (blu_attention_is_whole(user) && is_rows(user, (int)mlirOpOperandGetOperandNumber(u)))) continue;
    if (!blu_is_strided(user) || !is_only_rows(absorbed, mlirOperationGetResult(user, 0))) return false;
  }
  return true;
}

MlirValue blu_absorbed_root(const BluMap *absorbed, MlirValue v) {
  MlirValue root = v;
  for (MlirOperation d = blu_def(v); !mlirOperationIsNull(d) && blu_is_strided(d); d = blu_def(operand(d, 0))) {
    if (is_absorbed(absorbed, d)) root = operand(d, 0);
    else if (!blu_is_free(d)) break;
  }
  return root;
}

/* Rows whose numbers don't lie side by side are moved, as everywhere else. true: nothing had to change. */
static bool check_rows(BluMap *absorbed, MlirValue v) {
  MlirValue root = blu_absorbed_root(absorbed, v);
  BluType t = blu_value_type(v);
  BluStrided s;
  if (mlirValueEqual(root, v) || (blu_strided_part(v, root, &s) && (t.dim[t.rank - 1] == 1 || s.stride[t.rank - 1] == 1))) return true;
  for (MlirValue part = v; !mlirValueEqual(part, root); part = operand(blu_def(part), 0)) absorb(absorbed, blu_def(part), false);
  return false;
}

void blu_absorb(MlirOperation func, BluMap *absorbed) {
  int n;
  MlirBlock block = blu_func_block(func);
  MlirOperation *ops = blu_block_ops(block, &n);
  for (int i = 0; i < n; i++) {
    MlirOperation mul = product_of_delta(ops[i]);
    if (mlirOperationIsNull(mul)) continue;
    read_transposed(mul);
    absorb(absorbed, mul, true), absorb(absorbed, ops[i], true);
  }
  free(ops);
  ops = blu_block_ops(block, &n);
  for (int i = 0; i < n; i++)
    if (blu_is_strided(ops[i]) && !blu_is_free(ops[i]) && is_only_rows(absorbed, mlirOperationGetResult(ops[i], 0))) absorb(absorbed, ops[i], true);
  for (bool settled = false; !settled;) {
    settled = true;
    for (int i = 0; i < n; i++) {
      bool attention = blu_attention_is_whole(ops[i]), delta = blu_is(ops[i], "mul") && is_absorbed(absorbed, ops[i]);
      for (int k = 0; k < (int)mlirOperationGetNumOperands(ops[i]) && (attention || delta); k++)
        if (delta || is_rows(ops[i], k)) settled &= check_rows(absorbed, operand(ops[i], k));
    }
  }
  free(ops);
}

MlirOperation blu_absorbed_source(MlirOperation op, int i) {
  MlirOperation d = {0};
  for (MlirValue v = operand(op, i); ; v = operand(d, 0)) {
    d = blu_def(v);
    if (mlirOperationIsNull(d) || !mlirOpOperandIsNull(mlirOpOperandGetNextUse(mlirValueGetFirstUse(v)))) return (MlirOperation){0};
    if (!blu_is(d, "reshape")) return d;
  }
}

/* Are all parts of op's result results of attention, whose rows lie in `whole` as rows of numbers? */
static bool holds_rows(MlirOperation op, MlirValue whole) {
  if (!blu_is(op, "transpose") && !blu_is(op, "concat")) return false;
  for (int i = 0; i < (int)mlirOperationGetNumOperands(op); i++) {
    MlirOperation from = blu_absorbed_source(op, i);
    if (mlirOperationIsNull(from)) return false;
    if (!blu_attention_is_whole(from)) {
      if (!holds_rows(from, whole)) return false;
      continue;
    }
    MlirValue v = mlirOperationGetResult(from, 0);
    BluType t = blu_value_type(v);
    BluStrided s;
    if (t.rank != 4 || !blu_strided_place(v, whole, &s) || (t.dim[3] != 1 && s.stride[3] != 1)) return false;
  }
  return true;
}

bool blu_absorbs_result(MlirOperation op) { return holds_rows(op, mlirOperationGetResult(op, 0)); }
