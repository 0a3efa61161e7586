/* ops_reduce.c - sum, mean, max, min over axes, and argmax.
 * Order of additions (docs/rationale.md, bit contract): over the last axis 16 lanes, element i to lane i mod 16, lanes added
 * as a tree (l and l + 8, then 4, 2, 1); over another axis a chain over ascending index, restarted every 256, the partial
 * sums added in order. Over several axes: one after another, the last axis first. */
#include <math.h>
#include <stdlib.h>
#include "dialects_internal.h"

static bool infer_reduce(BluSig *s, BluWhy *why) {
  const BluType *x = &s->in[0];
  uint32_t axes = blu_axes(s);
  bool keep = blu_attr_int(&s->attrs, "keep", 0) != 0;
  if (x->elem == BLU_BOOL || x->elem == BLU_U8)
    return blu_refuse(why, "number", 0, "%s has no sum of its own: cast it first", blu_elem_name(x->elem));
  s->out = (BluType){.elem = x->elem};
  for (int i = 0; i < x->rank; i++) {
    int o = s->out.rank;
    bool reduced = axes >> i & 1;
    if (reduced && !keep) continue;
    s->out.dim[o] = reduced ? 1 : x->dim[i];
    s->out.name[o] = reduced ? NULL : x->name[i];
    s->out.unit[o] = reduced || x->unit[i];
    s->out.rank++;
  }
  return true;
}

static bool infer_mean(BluSig *s, BluWhy *why) { return blu_require_float(s, why, 0) && infer_reduce(s, why); }

static bool infer_extremum(BluSig *s, BluWhy *why) {
  uint32_t axes = blu_axes(s);
  for (int i = 0; i < s->in[0].rank; i++)
    if (axes >> i & 1 && s->in[0].dim[i] == 0) return blu_refuse(why, "not-empty", 0, "axis %d is empty: there is no extremum",
        i);
  return infer_reduce(s, why);
}

/* The operand's shape with 1 in the place of reduced axes: how the result lines up with the operand. */
BluType blu_kept_type(const BluSig *s) {
  BluType t = blu_type_make(s->in[0].elem, s->in[0].rank, s->in[0].dim);
  uint32_t axes = blu_axes(s);
  for (int i = 0; i < t.rank; i++)
    if (axes >> i & 1) t.dim[i] = 1;
  return t;
}

int64_t blu_reduced_count(const BluSig *s) {
  int64_t n = 1;
  for (int i = 0; i < s->in[0].rank; i++)
    if (blu_axes(s) >> i & 1) n *= s->in[0].dim[i];
  return n;
}

static void ref_fold(BluRefCall *c, double first, double (*f)(double, double)) {
  BluType t = blu_kept_type(c->sig);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = first;
  for (int64_t i = 0, n = blu_type_count(&c->sig->in[0]); i < n; i++) {
    double *to = &c->out[blu_index_in(&t, &c->sig->in[0], i)];
    *to = f(*to, c->in[0][i]);
  }
}

static double times(double a, double b) { return a * b; }
static double plus(double a, double b) { return a + b; }
static double greater(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }
static double lesser(double a, double b) { return isnan(a) || isnan(b) ? NAN : a < b ? a : b; }
static void ref_sum(BluRefCall *c) { ref_fold(c, 0, plus); }
static void ref_max(BluRefCall *c) { ref_fold(c, -INFINITY, greater); }
static void ref_min(BluRefCall *c) { ref_fold(c, INFINITY, lesser); }
static void ref_prod(BluRefCall *c) { ref_fold(c, 1, times); }
static void ref_mean(BluRefCall *c) {
  ref_sum(c);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] /= (double)blu_reduced_count(c->sig);
}

/* A value of the result's shape (or its cotangent) repeated to the operand's shape. */
static MlirValue spread(BluBuilder *b, const BluSig *s, MlirValue y) {
  BluType t = blu_kept_type(s);
  return blu_broadcast_to(b, blu_reshape_to(b, y, &t), &s->in[0]);
}

static void vjp_sum(BluVjp *v) { v->dx[0] = spread(v->b, &v->sig, v->ct); }

static void vjp_mean(BluVjp *v) {
  MlirValue n = blu_constant_like(v->b, v->ct, (double)blu_reduced_count(&v->sig));
  v->dx[0] = spread(v->b, &v->sig, blu_build2(v->b, "div", v->ct, n));
}

/* Equal extrema share the cotangent in equal parts. */
static void vjp_extremum(BluVjp *v) {
  MlirValue hit = blu_build2(v->b, "eq", v->in[0], spread(v->b, &v->sig, v->out));
  BluAttrs as = blu_attrs_of(v->op);
  MlirValue ones = blu_cast_to(v->b, hit, v->sig.in[0].elem);
  MlirValue share = blu_build2(v->b, "div", v->ct, blu_build(v->b, "sum", &as, 1, &ones));
  MlirValue zero = blu_constant(v->b, &v->sig.in[0], 0);
  v->dx[0] = blu_build(v->b, "where", NULL, 3, (MlirValue[]){hit, spread(v->b, &v->sig, share), zero});
}

/* The product of the other factors: y / x where no factor is 0; where one is, the product of the rest goes to it alone. */
static void vjp_prod(BluVjp *v) {
  BluBuilder *b = v->b;
  BluAttrs as = blu_attrs_of(v->op);
  MlirValue x = v->in[0], zero = blu_constant_like(b, x, 0), one = blu_constant_like(b, x, 1), is_zero = blu_build2(b, "eq", x,
      zero);
  MlirValue hit = blu_cast_to(b, is_zero, v->sig.in[0].elem), safe = blu_where(b, is_zero, one, x);
  MlirValue zeros = spread(b, &v->sig, blu_build(b, "sum", &as, 1, &hit)), rest = spread(b, &v->sig, blu_build(b, "prod", &as, 1,
      &safe));
  MlirValue at_zero = blu_where(b, blu_build2(b, "eq", zeros, one), rest, zero);
  MlirValue elsewhere = blu_where(b, blu_build2(b, "eq", zeros, zero), blu_build2(b, "div", rest, safe), zero);
  v->dx[0] = blu_strong_mul(b, spread(b, &v->sig, v->ct), blu_where(b, is_zero, at_zero, elsewhere));
}

static MlirValue expand_mean(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  MlirValue sum = blu_build(b, "sum", &s->attrs, 1, in);
  return blu_build2(b, "div", sum, blu_constant_like(b, sum, (double)blu_reduced_count(s)));
}

#define CASES(op)                                                                                                            \
  (const BluOpCase[]) {                                                                                                      \
    {"%a: tensor<3x4xf64>", "%r = blu." op " %a {axis = array<i64: 0>} : (tensor<3x4xf64>) -> tensor<4xf64>", -2, 2, 0},      \
    {"%a: tensor<2x3x4xf64>", "%r = blu." op " %a {axis = array<i64: 2>, keep = true} : (tensor<2x3x4xf64>) -> tensor<2x3x1xf64>", -2, 2, 0}, \
    {"%a: tensor<2x3x4xf64>", "%r = blu." op " %a {axis = array<i64: 2, 0>} : (tensor<2x3x4xf64>) -> tensor<3xf64>", -2, 2, 0}, \
    {"%a: tensor<2x3xf64>", "%r = blu." op " %a : (tensor<2x3xf64>) -> tensor<f64>", -2, 2, 0}, {0}                           \
  }

/* A lane sums count/16 values: the error grows with the count; the tests' sizes stay below 4096. */
#define SUM_TOLERANCE 4e-6
#define REDUCE_LABELS "number axis-in-range axis-once"

const BluRule blu_rule_sum = {.kind = BLU_KIND_REDUCE, .labels = REDUCE_LABELS, .infer = infer_reduce, .vjp = vjp_sum,
    .ref = ref_sum,
  .cases = CASES("sum"), .tolerance = SUM_TOLERANCE};
const BluRule blu_rule_mean = {.kind = BLU_KIND_COMPOSITE, .labels = "float axis-in-range axis-once", .infer = infer_mean,
    .vjp = vjp_mean, .ref = ref_mean, .expand = expand_mean,
  .cases = CASES("mean"), .tolerance = SUM_TOLERANCE};
const BluRule blu_rule_prod = {.kind = BLU_KIND_REDUCE, .labels = REDUCE_LABELS, .infer = infer_reduce, .vjp = vjp_prod,
    .ref = ref_prod,
  .cases = CASES("prod"), .tolerance = SUM_TOLERANCE};
const BluRule blu_rule_max = {.kind = BLU_KIND_REDUCE, .exact = true, .labels = "not-empty " REDUCE_LABELS, .infer = infer_extremum,
    .vjp = vjp_extremum, .ref = ref_max,
  .cases = CASES("max"), .tolerance = 1.2e-7 /* inputs rounded once */};
const BluRule blu_rule_min = {.kind = BLU_KIND_REDUCE, .exact = true, .labels = "not-empty " REDUCE_LABELS, .infer = infer_extremum,
    .vjp = vjp_extremum, .ref = ref_min,
  .cases = CASES("min"), .tolerance = 1.2e-7};

/* ---- argmax ---- */

static bool infer_argmax(BluSig *s, BluWhy *why) {
  const BluType *x = &s->in[0];
  if (x->rank == 0) return blu_refuse(why, "rank", 0, "argmax needs at least one axis");
  int64_t axis = blu_axis(s, "axis", -1);
  if (x->elem == BLU_BOOL) return blu_refuse(why, "number", 0, "expected numbers, found bool");
  if (x->dim[axis] == 0) return blu_refuse(why, "not-empty", 0, "axis %lld is empty: there is no maximum", (long long)axis);
  if (x->dim[axis] > INT32_MAX) return blu_refuse(why, "index-i32", 0, "axis %lld has more than 2^31 - 1 elements",
      (long long)axis);
  s->out = (BluType){.elem = BLU_I32};
  for (int i = 0; i < x->rank; i++) {
    if (i == axis) continue;
    s->out.dim[s->out.rank] = x->dim[i];
    s->out.name[s->out.rank] = x->name[i];
    s->out.unit[s->out.rank++] = x->unit[i];
  }
  return true;
}

static void ref_argmax(BluRefCall *c) {
  const BluType *x = &c->sig->in[0];
  int64_t axis = blu_axis(c->sig, "axis", -1), n = x->dim[axis], inner = 1;
  for (int i = (int)axis + 1; i < x->rank; i++) inner *= x->dim[i];
  for (int64_t o = 0, count = blu_type_count(&c->sig->out); o < count; o++) {
    const double *p = c->in[0] + o / inner * n * inner + o % inner;
    int64_t best = 0;
    for (int64_t k = 1; k < n && !isnan(p[best * inner]); k++)
      if (p[k * inner] > p[best * inner] || isnan(p[k * inner])) best = k;
    c->out[o] = (double)best;
  }
}

const BluRule blu_rule_argmax = {.kind = BLU_KIND_REDUCE, .exact = true, .labels = "rank number not-empty index-i32 axis-in-range",
    .infer = infer_argmax, .ref = ref_argmax, .nodiff = true,
  .cases = (const BluOpCase[]){
    {"%a: tensor<4x7xf64>", "%r = blu.argmax %a {axis = 0} : (tensor<4x7xf64>) -> tensor<7xi32>", -2, 2, 0}, {0}}};

/* ---- cumsum ---- */

static bool infer_cumsum(BluSig *s, BluWhy *why) {
  if (!s->in[0].rank) return blu_refuse(why, "rank", 0, "cumsum needs at least one axis");
  if (s->in[0].elem == BLU_BOOL || s->in[0].elem == BLU_U8)
    return blu_refuse(why, "number", 0, "%s has no sum of its own: cast it first", blu_elem_name(s->in[0].elem));
  s->out = s->in[0];
  return true;
}

static void ref_cumsum(BluRefCall *c) {
  const BluType *t = &c->sig->in[0];
  int64_t axis = blu_axis(c->sig, "axis", -1), n = t->dim[axis], inner = 1;
  bool reverse = blu_attr_int(&c->sig->attrs, "reverse", 0) != 0;
  for (int i = (int)axis + 1; i < t->rank; i++) inner *= t->dim[i];
  for (int64_t i = 0, count = blu_type_count(t); i < count; i++) {
    int64_t at = reverse ? count - 1 - i : i, k = at / inner % n, before = reverse ? at + inner : at - inner;
    c->out[at] = c->in[0][at] + (k == (reverse ? n - 1 : 0) ? 0 : c->out[before]);
  }
}

static void vjp_cumsum(BluVjp *v) { /* running sums from the other end */
  BluAttrs as = blu_attr_set_bool(v->sig.attrs, "reverse", !blu_attr_int(&v->sig.attrs, "reverse", 0));
  v->dx[0] = blu_build(v->b, "cumsum", &as, 1, &v->ct);
}

const BluRule blu_rule_cumsum = {.kind = BLU_KIND_MOVE, .labels = "rank number axis-in-range", .infer = infer_cumsum,
    .vjp = vjp_cumsum,
  .ref = ref_cumsum, .tolerance = SUM_TOLERANCE, .cases = (const BluOpCase[]){
    {"%a: tensor<2x3x4xf64>", "%r = blu.cumsum %a {axis = 1} : (tensor<2x3x4xf64>) -> tensor<2x3x4xf64>", -1, 1, 0},
    {"%a: tensor<3x4xf64>", "%r = blu.cumsum %a {reverse = true} : (tensor<3x4xf64>) -> tensor<3x4xf64>", -1, 1, 0}, {0}}};
