/* reduce.c - the reductions as states that are combined: sum, prod, max, min (one value) and argmax (value and index). */
#include <math.h>
#include <string.h>
#include "codegen/kernel.h"

static BluEmitVal prim(Kernel *k, BluPrim p, BluElem t, BluEmitVal a, BluEmitVal b, BluEmitVal c) {
  return k->e.base.prim(&k->e.base, p, t, a, b, c);
}

static BluElem elem_of(MlirOperation op) { return blu_value_type(mlirOperationGetOperand(op, 0)).elem; }

static BluEmitVal least(Kernel *k, BluElem t, int sign) { /* sign < 0: -infinity or the smallest integer */
  BluEmit *e = &k->e.base;
  if (blu_elem_is_float(t)) return e->constant(e, t, sign * INFINITY);
  if (t == BLU_I64) return e->bits(e, t, sign < 0 ? (uint64_t)INT64_MIN : (uint64_t)INT64_MAX);
  if (t == BLU_U8) return e->bits(e, t, sign < 0 ? 0 : 255);
  return e->bits(e, t, sign < 0 ? (uint64_t)INT32_MIN : (uint64_t)INT32_MAX);
}

State blu_reduce_identity(Kernel *k, MlirOperation op) {
  BluElem t = elem_of(op);
  BluEmit *e = &k->e.base;
  if (blu_is(op, "max")) return (State){1, {least(k, t, -1)}};
  if (blu_is(op, "min")) return (State){1, {least(k, t, 1)}};
  if (blu_is(op, "argmax")) return (State){2, {least(k, t, -1), e->bits(e, BLU_I32, INT32_MAX)}};
  int first = blu_is(op, "prod");
  return (State){1, {blu_elem_is_float(t) ? e->constant(e, t, first) : e->bits(e, t, (uint64_t)first)}};
}

/* The greater by value (NaN above all), then by lower index. */
static State first_greatest(Kernel *k, State a, State b) {
  BluEmitVal bx = b.v[0], ax = a.v[0];
  BluEmitVal greater = prim(k, BLU_PRIM_GT, BLU_BOOL, bx, ax, ax), equal = prim(k, BLU_PRIM_EQ, BLU_BOOL, bx, ax, ax);
  if (blu_elem_is_float(ax.elem)) {
    BluEmitVal a_nan = prim(k, BLU_PRIM_NE, BLU_BOOL, ax, ax, ax), b_nan = prim(k, BLU_PRIM_NE, BLU_BOOL, bx, bx, bx);
    BluEmitVal one = k->e.base.bits(&k->e.base, BLU_BOOL, 1);
    greater = prim(k, BLU_PRIM_OR, BLU_BOOL, greater, prim(k, BLU_PRIM_AND, BLU_BOOL, b_nan, prim(k, BLU_PRIM_XOR, BLU_BOOL, a_nan, one, one), one), one);
    equal = prim(k, BLU_PRIM_OR, BLU_BOOL, equal, prim(k, BLU_PRIM_AND, BLU_BOOL, a_nan, b_nan, b_nan), equal);
  }
  BluEmitVal earlier = prim(k, BLU_PRIM_LT, BLU_BOOL, b.v[1], a.v[1], a.v[1]);
  BluEmitVal take = prim(k, BLU_PRIM_OR, BLU_BOOL, greater, prim(k, BLU_PRIM_AND, BLU_BOOL, equal, earlier, earlier), greater);
  return (State){2, {prim(k, BLU_PRIM_SELECT, ax.elem, take, bx, ax), prim(k, BLU_PRIM_SELECT, BLU_I32, take, b.v[1], a.v[1])}};
}

State blu_reduce_combine(Kernel *k, MlirOperation op, State a, State b) {
  if (blu_is(op, "argmax")) return first_greatest(k, a, b);
  BluElem t = elem_of(op);
  if (blu_is(op, "sum")) return (State){1, {prim(k, blu_elem_is_float(t) ? BLU_PRIM_FADD : BLU_PRIM_IADD, t, a.v[0], b.v[0], b.v[0])}};
  if (blu_is(op, "prod")) return (State){1, {prim(k, blu_elem_is_float(t) ? BLU_PRIM_FMUL : BLU_PRIM_IMUL, t, a.v[0], b.v[0], b.v[0])}};
  /* max and min are elementwise ops too: one definition */
  const BluOp *pairwise = blu_op_find(blu_is(op, "max") ? "maximum" : "minimum");
  return (State){1, {pairwise->rule->lower(&k->e.base, &(BluAttrs){0}, (BluEmitVal[]){a.v[0], b.v[0]}, 2)}};
}

State blu_reduce_step(Kernel *k, MlirOperation op, State s, BluEmitVal x, LLVMValueRef index, bool index_is_lanewise) {
  x.u.v = blu_emit_splat(&k->e, x.u.v);
  State one = {1, {x}};
  if (blu_is(op, "argmax")) {
    BluEmitVal i = {.elem = BLU_I64, .u.v = index};
    k->e.linear = index;
    if (index_is_lanewise) i = k->e.base.index(&k->e.base);
    one = (State){2, {x, prim(k, BLU_PRIM_CAST, BLU_I32, i, i, i)}};
  }
  State next = blu_reduce_combine(k, op, s, one);
  for (int i = 0; i < next.n && k->e.lanes > 1 && k->count < k->e.lanes && index_is_lanewise; i++) /* lanes that don't exist keep their state */
    next.v[i].u.v = blu_emit_blend(&k->e, next.v[i].u.v, s.v[i].u.v, k->count);
  return next;
}

BluEmitVal blu_reduce_result(MlirOperation op, State s) { return s.v[blu_is(op, "argmax") ? 1 : 0]; }

State blu_reduce_to_one(Kernel *k, MlirOperation op, State s) {
  int lanes = k->e.lanes;
  for (int half = lanes / 2; half >= 1; half /= 2) {
    State low = s, high = s;
    for (int i = 0; i < s.n; i++) {
      low.v[i].u.v = blu_emit_slice(&k->e, s.v[i].u.v, 0, half);
      high.v[i].u.v = blu_emit_slice(&k->e, s.v[i].u.v, half, half);
    }
    k->e.lanes = half;
    s = blu_reduce_combine(k, op, low, high);
  }
  k->e.lanes = lanes;
  return s;
}

BluEmitVal blu_reduce_lanes(Kernel *k, MlirOperation op, State s) { return blu_reduce_result(op, blu_reduce_to_one(k, op, s)); }
