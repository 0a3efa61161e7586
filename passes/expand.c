/* expand.c - composites become primitives, and a reduction over several axes a chain over one each, the last axis first:
 * the order of additions that the bit contract fixes (dialects/ops_reduce.c). Arithmetic on half types becomes arithmetic in f32
 * between casts: what they are from here on is how values are stored, and a cast is where one is rounded. */
#include <stdlib.h>
#include "passes_internal.h"

static bool is_multi_axis(MlirOperation o) {
  const BluOp *op = blu_op_of(o);
  BluSig s;
  if (!op || op->rule->kind != BLU_KIND_REDUCE || blu_is(o, "argmax")) return false;
  blu_sig_of(o, &s);
  const BluAttr *a = blu_attr(&s.attrs, "axis");
  return (a ? a->n : s.in[0].rank) != 1;
}

static MlirValue one_axis_at_a_time(BluBuilder *b, MlirOperation o) {
  BluSig s;
  blu_sig_of(o, &s);
  const BluAttr *a = blu_attr(&s.attrs, "axis");
  MlirValue x = mlirOperationGetOperand(o, 0);
  for (int64_t axis = s.in[0].rank - 1; axis >= 0; axis--) {
    bool reduced = !a;
    for (int i = 0; a && i < a->n; i++) reduced |= a->i[i] == axis;
    if (reduced) x = blu_reduce(b, blu_op_of(o)->name, x, 1, &axis, false);
  }
  /* a sum starts at +0, also over no axis at all */
  if (mlirValueEqual(x, mlirOperationGetOperand(o, 0)) && blu_is(o, "sum")) x = blu_build2(b, "add", x, blu_constant_like(b, x, 0));
  return blu_reshape_to(b, x, &s.out);
}

/* Does o compute with elements of a half type, rather than compare, choose or move them? */
static bool is_half_arithmetic(MlirOperation o) {
  const BluOp *op = blu_op_of(o);
  if (!op || op->rule->exact || op->rule->kind == BLU_KIND_INDEX || op->rule->kind == BLU_KIND_VIEW || op->rule->kind == BLU_KIND_EFFECT) return false;
  bool half = false;
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(o); i < n; i++) half |= blu_elem_is_half(blu_value_type(mlirOperationGetOperand(o, i)).elem);
  return half;
}

static MlirValue in_f32(BluBuilder *b, MlirOperation o) {
  BluSig s;
  MlirValue in[BLU_MAX_IN];
  blu_sig_of(o, &s);
  for (int i = 0; i < s.nin; i++) {
    in[i] = mlirOperationGetOperand(o, i);
    if (blu_elem_is_half(s.in[i].elem)) in[i] = blu_cast_to(b, in[i], BLU_F32);
  }
  return blu_cast_to(b, blu_build(b, blu_op_of(o)->name, &s.attrs, s.nin, in), s.out.elem);
}

static void expand_function(MlirOperation f) {
  int n;
  for (bool changed = true; changed;) { /* an expansion may hold composites */
    MlirOperation *ops = blu_block_ops(blu_func_block(f), &n);
    changed = false;
    for (int i = 0; i < n; i++) {
      const BluOp *op = blu_op_of(ops[i]);
      bool composite = op && op->rule->expand && !blu_attention_is_whole(ops[i]);
      bool half = is_half_arithmetic(ops[i]);
      if (!composite && !half && !is_multi_axis(ops[i])) continue;
      BluBuilder b = blu_builder_before(ops[i]);
      blu_replace(ops[i], composite ? blu_expand_op(&b, ops[i]) : half ? in_f32(&b, ops[i]) : one_axis_at_a_time(&b, ops[i]));
      changed = true;
    }
    free(ops);
  }
}

bool blu_pass_expand(MlirModule m) {
  int n, done = 0;
  do { /* an expansion may append functions: bodies of scans */
    MlirOperation *funcs = blu_module_funcs(m, &n);
    for (; done < n; done++) expand_function(funcs[done]);
    MlirOperation *now = blu_module_funcs(m, &n);
    free(funcs), free(now);
  } while (done < n);
  return true;
}
