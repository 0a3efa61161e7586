/* compose.c - building blocks of composites and of gradients. */
#include <stdlib.h>
#include "dialects_internal.h"
#include "dialects/map.h"
#include "dialects/memory.h"

MlirValue blu_where(BluBuilder *b, MlirValue c, MlirValue x, MlirValue y) {
  return blu_build(b, "where", NULL, 3, (MlirValue[]){c, x, y});
}

MlirValue blu_over(BluBuilder *b, const char *f, MlirValue x, int naxes, const int64_t *axes) {
  BluType t = blu_value_type(x);
  return blu_broadcast_to(b, blu_reduce(b, f, x, naxes, axes, true), &t);
}

MlirValue blu_scaled(BluBuilder *b, MlirValue x, double factor) {
  return blu_build2(b, "mul", x, blu_constant_like(b, x, factor));
}

MlirValue blu_iota(BluBuilder *b, const BluType *t, int64_t axis) {
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", t->rank, t->dim);
  as = blu_attr_set_int(as, "axis", axis);
  as = blu_attr_set_type(as, "elem", t->elem);
  return blu_build(b, "iota", &as, 0, NULL);
}

MlirValue blu_transposed(BluBuilder *b, MlirValue x, const int64_t *perm) {
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "perm", blu_value_type(x).rank, perm);
  return blu_build(b, "transpose", &as, 1, &x);
}

MlirValue blu_product(BluBuilder *b, MlirValue x, bool tx, MlirValue y, bool ty) {
  BluAttrs as = {0};
  if (tx) as = blu_attr_set_bool(as, "ta", true);
  if (ty) as = blu_attr_set_bool(as, "tb", true);
  return blu_build(b, "matmul", &as, 2, (MlirValue[]){x, y});
}

/* The mean of many equal numbers is off by roundings of the sum. What it is off by is x - mean, exactly, for such numbers; so
 * one more mean of that mends the centre to the last bit, and a constant has deviations of exactly 0. */
MlirValue blu_centre(BluBuilder *b, MlirValue x, int naxes, const int64_t *axes) {
  BluType t = blu_value_type(x);
  MlirValue rough = blu_reduce(b, "mean", x, naxes, axes, true);
  MlirValue rest = blu_reduce(b, "mean", blu_build2(b, "sub", x, blu_broadcast_to(b, rough, &t)), naxes, axes, true);
  return blu_build2(b, "sub", x, blu_broadcast_to(b, blu_build2(b, "add", rough, rest), &t));
}

/* ---- half types: inside of what consists of several ops, all is f32 ---- */

static bool has_half(const BluSig *s) {
  bool half = blu_elem_is_half(s->out.elem);
  for (int i = 0; i < s->nin; i++) half |= blu_elem_is_half(s->in[i].elem);
  return half;
}

static void widen(BluBuilder *b, BluSig *s, MlirValue *in) {
  for (int i = 0; i < s->nin; i++) {
    s->in[i].elem = blu_elem_compute(s->in[i].elem);
    if (blu_elem_is_float(s->in[i].elem)) in[i] = blu_cast_to(b, in[i], s->in[i].elem);
  }
  s->out.elem = blu_elem_compute(s->out.elem);
}

/* x as e; what was widened from e alone is taken as it was. */
static MlirValue narrowed(BluBuilder *b, MlirValue x, BluElem e) {
  MlirOperation d = blu_def(x);
  if (blu_is(d, "cast") && blu_value_type(mlirOperationGetOperand(d, 0)).elem == e && blu_elem_is_half(e)) return mlirOperationGetOperand(d, 0);
  return blu_cast_to(b, x, e);
}

MlirValue blu_expand_op(BluBuilder *b, MlirOperation o) {
  const BluRule *rule = blu_op_of(o)->rule;
  BluSig s;
  MlirValue in[BLU_MAX_IN];
  blu_sig_of(o, &s);
  BluElem out = s.out.elem;
  for (int i = 0; i < s.nin; i++) in[i] = mlirOperationGetOperand(o, i);
  if (!rule->narrow && has_half(&s)) widen(b, &s, in);
  return blu_cast_to(b, rule->expand(b, &s, in), out);
}

/* The gradient is one op on the cotangent, or none, which rounds to its type anyway. */
static bool is_one_op(MlirOperation o) { return blu_is(o, "add") || blu_is(o, "sub") || blu_is(o, "mul") || blu_is(o, "cast"); }

void blu_vjp_run(BluVjp *v) {
  const BluRule *rule = blu_op_of(v->op)->rule;
  bool several = rule->kind == BLU_KIND_ELEMENT ? !is_one_op(v->op) : rule->kind == BLU_KIND_COMPOSITE && !rule->narrow;
  if (!several || !has_half(&v->sig)) {
    rule->vjp(v);
    return;
  }
  BluVjp wide = *v;
  MlirValue in[BLU_MAX_IN];
  for (int i = 0; i < v->sig.nin; i++) in[i] = v->in[i];
  widen(v->b, &wide.sig, in);
  wide.in = in;
  wide.out = blu_cast_to(v->b, v->out, wide.sig.out.elem);
  wide.ct = blu_cast_to(v->b, v->ct, wide.sig.out.elem);
  rule->vjp(&wide);
  for (int i = 0; i < v->sig.nin; i++)
    if (!mlirValueIsNull(wide.dx[i])) v->dx[i] = narrowed(v->b, wide.dx[i], v->sig.in[i].elem);
}

/* ---- gradients by expansion ---- */

typedef struct { BluBuilder *b; BluMap active, ct; } Walk;

static void pull_back(Walk *w, MlirOperation o) {
  MlirValue out = mlirOperationGetResult(o, 0), in[BLU_MAX_IN];
  void *ct = blu_map_get(&w->ct, out.ptr);
  if (!ct || !blu_map_get(&w->active, out.ptr)) return;
  BluVjp v = {.b = w->b, .op = o, .in = in, .out = out, .ct = {ct}};
  blu_sig_of(o, &v.sig);
  for (int i = 0; i < v.sig.nin; i++) {
    in[i] = mlirOperationGetOperand(o, i);
    v.need[i] = blu_map_get(&w->active, in[i].ptr) != NULL;
  }
  blu_vjp_run(&v);
  for (int i = 0; i < v.sig.nin; i++) {
    if (!v.need[i] || mlirValueIsNull(v.dx[i])) continue;
    void *before = blu_map_get(&w->ct, in[i].ptr);
    MlirValue sum = before ? blu_build2(w->b, "add", (MlirValue){before}, v.dx[i]) : v.dx[i];
    blu_map_set(&w->ct, in[i].ptr, (void *)sum.ptr);
  }
}

static void mark(Walk *w, MlirOperation o) {
  const BluOp *op = blu_op_of(o);
  MlirValue out = mlirOperationGetResult(o, 0);
  if (op->rule->nodiff || !blu_elem_is_float(blu_value_type(out).elem)) return;
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(o); i < n; i++)
    if (blu_map_get(&w->active, mlirOperationGetOperand(o, i).ptr)) blu_map_set(&w->active, out.ptr, (void *)out.ptr);
}

/* The op that stands last before the place where b inserts; null: none. */
static MlirOperation last_before(const BluBuilder *b) {
  MlirOperation last = {0};
  for (MlirOperation o = mlirBlockGetFirstOperation(b->block); !mlirOperationIsNull(o) && !mlirOperationEqual(o, b->before);
       o = mlirOperationGetNextInBlock(o))
    last = o;
  return last;
}

void blu_vjp_by_expansion(BluVjp *v) {
  Walk w = {.b = v->b};
  MlirOperation mark_op = last_before(v->b);
  MlirValue out = blu_op_of(v->op)->rule->expand(v->b, &v->sig, v->in);
  for (int i = 0; i < v->sig.nin; i++)
    if (v->need[i]) blu_map_set(&w.active, v->in[i].ptr, (void *)v->in[i].ptr);
  int n = 0, cap = 64;
  MlirOperation *ops = blu_alloc((size_t)cap * sizeof *ops);
  MlirOperation o = mlirOperationIsNull(mark_op) ? mlirBlockGetFirstOperation(v->b->block) : mlirOperationGetNextInBlock(mark_op);
  for (; !mlirOperationIsNull(o) && !mlirOperationEqual(o, v->b->before); o = mlirOperationGetNextInBlock(o)) {
    if (n == cap) ops = blu_realloc(ops, (size_t)(cap *= 2) * sizeof *ops);
    ops[n++] = o;
    mark(&w, o);
  }
  blu_map_set(&w.ct, out.ptr, (void *)v->ct.ptr);
  for (int i = n - 1; i >= 0; i--) pull_back(&w, ops[i]);
  for (int i = 0; i < v->sig.nin; i++) { /* a value that is several operands has one cotangent for all of them: given once */
    v->dx[i] = (MlirValue){blu_map_get(&w.ct, v->in[i].ptr)};
    blu_map_set(&w.ct, v->in[i].ptr, NULL);
  }
  free(ops);
  blu_map_free(&w.active);
  blu_map_free(&w.ct);
}
