/* ops_norm.c - deviations and norms: variance, std, norm; layer_norm, rms_norm, batch_norm. Deviations are taken from a centre
 * that is exact for constant data (compose.c), in two passes. std and norm have the gradient 0 where they are 0. */
#include <math.h>
#include <stdlib.h>
#include "dialects/memory.h"
#include "dialects_internal.h"

static MlirValue mul(BluBuilder *b, MlirValue x, MlirValue y) { return blu_build2(b, "mul", x, y); }

typedef struct { int n; int64_t axis[BLU_MAX_RANK]; } Axes;

static Axes reduced_axes(const BluSig *s) {
  Axes a = {0};
  uint32_t set = blu_axes(s);
  for (int i = 0; i < s->in[0].rank; i++)
    if (set >> i & 1) a.axis[a.n++] = i;
  return a;
}

/* ---- variance and std ---- */

static int64_t correction(const BluSig *s) { return blu_attr_int(&s->attrs, "correction", 0); }

static bool infer_variance(BluSig *s, BluWhy *why) {
  int64_t n = blu_reduced_count(s), less = correction(s);
  if (less < 0 || n - less < 1)
    return blu_refuse(why, "enough-elements", 0, "%lld elements with a correction of %lld: nothing to divide by", (long long)n,
        (long long)less);
  return blu_op_find("mean")->rule->infer(s, why);
}

/* Means of x over the dimensions that are 1 in t, mended by a second pass as blu_centre does; the caller frees them. */
static double *means(const double *x, const BluType *of, const BluType *t, double count) {
  int64_t n = blu_type_count(of), m = blu_type_count(t);
  double *mean = blu_alloc_zeroed((size_t)m, sizeof *mean), *rest = blu_alloc_zeroed((size_t)m, sizeof *rest);
  for (int64_t i = 0; i < n; i++) mean[blu_index_in(t, of, i)] += x[i] / count;
  for (int64_t i = 0; i < n; i++) rest[blu_index_in(t, of, i)] += (x[i] - mean[blu_index_in(t, of, i)]) / count;
  for (int64_t i = 0; i < m; i++) mean[i] += rest[i];
  free(rest);
  return mean;
}

static void ref_variance(BluRefCall *c) {
  BluType t = blu_kept_type(c->sig);
  int64_t n = blu_type_count(&c->sig->in[0]), m = blu_type_count(&t);
  double count = (double)blu_reduced_count(c->sig), *mean = means(c->in[0], &c->sig->in[0], &t, count);
  for (int64_t i = 0; i < m; i++) c->out[i] = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = blu_index_in(&t, &c->sig->in[0], i);
    c->out[at] += (c->in[0][i] - mean[at]) * (c->in[0][i] - mean[at]) / (count - (double)correction(c->sig));
  }
  free(mean);
}

static void ref_std(BluRefCall *c) {
  ref_variance(c);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = sqrt(c->out[i]);
}

static MlirValue expand_variance(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  Axes a = reduced_axes(s);
  MlirValue d = blu_centre(b, in[0], a.n, a.axis), sum = blu_reduce(b, "sum", mul(b, d, d), a.n, a.axis, false);
  MlirValue y = blu_build2(b, "div", sum, blu_constant_like(b, sum, (double)(blu_reduced_count(s) - correction(s))));
  return blu_reshape_to(b, y, &s->out);
}

static MlirValue expand_std(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  return blu_build1(b, "sqrt", blu_build(b, "variance", &s->attrs, 1, in));
}

/* A value of the result's shape, repeated to the operand's. */
static MlirValue spread(BluVjp *v, MlirValue y) {
  BluType t = blu_kept_type(&v->sig);
  return blu_broadcast_to(v->b, blu_reshape_to(v->b, y, &t), &v->sig.in[0]);
}

static void vjp_variance(BluVjp *v) { /* 2 (x - mean) / (n - correction) */
  Axes a = reduced_axes(&v->sig);
  MlirValue d = blu_centre(v->b, v->in[0], a.n, a.axis);
  v->dx[0] = mul(v->b, spread(v, blu_scaled(v->b, v->ct, 2.0 / (double)(blu_reduced_count(&v->sig) - correction(&v->sig)))), d);
}

/* ct / y, and 0 where y is 0 */
static MlirValue over_result(BluVjp *v, MlirValue ct) {
  MlirValue zero = blu_constant_like(v->b, v->out, 0), none = blu_build2(v->b, "eq", v->out, zero);
  MlirValue safe = blu_where(v->b, none, blu_constant_like(v->b, v->out, 1), v->out);
  return blu_where(v->b, none, zero, blu_build2(v->b, "div", ct, safe));
}

static void vjp_std(BluVjp *v) { /* (x - mean) / ((n - correction) y) */
  Axes a = reduced_axes(&v->sig);
  MlirValue d = blu_centre(v->b, v->in[0], a.n, a.axis);
  MlirValue share = blu_scaled(v->b, over_result(v, v->ct), 1.0 / (double)(blu_reduced_count(&v->sig) - correction(&v->sig)));
  v->dx[0] = blu_strong_mul(v->b, spread(v, share), d);
}

#define CASES(op)                                                                                                              \
  (const BluOpCase[]) {                                                                                                        \
    {"%a: tensor<3x4xf64>", "%r = blu." op " %a {axis = array<i64: 1>} : (tensor<3x4xf64>) -> tensor<3xf64>", -2, 2, 0},        \
    {"%a: tensor<2x3x4xf64>", "%r = blu." op " %a {axis = array<i64: 0, 2>, keep = true} : (tensor<2x3x4xf64>) -> tensor<1x3x1xf64>", -2, 2, 0}, \
    {"%a: tensor<2x3xf64>", "%r = blu." op " %a : (tensor<2x3xf64>) -> tensor<f64>", 1, 2, 0}, MORE {0}                         \
  }
#define MORE {"%a: tensor<3x5xf64>", "%r = blu.variance %a {axis = array<i64: 0>, correction = 1} : (tensor<3x5xf64>) -> tensor<5xf64>", -2, 2, 0},
const BluRule blu_rule_variance = {.kind = BLU_KIND_COMPOSITE, .labels = "enough-elements float axis-in-range axis-once",
    .infer = infer_variance,
  .vjp = vjp_variance, .ref = ref_variance, .expand = expand_variance, .cases = CASES("variance"),
      .tolerance = 4e-6 /* as a sum */};
#undef MORE
#define MORE {"%a: tensor<3x5xf64>", "%r = blu.std %a {axis = array<i64: 0>, correction = 1} : (tensor<3x5xf64>) -> tensor<5xf64>", -2, 2, 0},
const BluRule blu_rule_std = {.kind = BLU_KIND_COMPOSITE, .labels = "enough-elements float axis-in-range axis-once",
    .infer = infer_variance,
  .vjp = vjp_std, .ref = ref_std, .expand = expand_std, .cases = CASES("std"), .tolerance = 4e-6};
#undef MORE

/* ---- norm ---- */

static bool infer_norm(BluSig *s, BluWhy *why) { return blu_op_find("mean")->rule->infer(s, why); }

static void ref_norm(BluRefCall *c) {
  BluType t = blu_kept_type(c->sig);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = 0;
  for (int64_t i = 0, n = blu_type_count(&c->sig->in[0]); i < n; i++) {
    double *to = &c->out[blu_index_in(&t, &c->sig->in[0], i)];
    *to = isnan(*to) || isnan(c->in[0][i]) ? NAN : hypot(*to, c->in[0][i]); /* hypot of NaN and infinity is infinity */
  }
}

/* Scaled by the greatest magnitude, so that no square over- or underflows. */
static MlirValue expand_norm(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  Axes a = reduced_axes(s);
  if (!blu_reduced_count(s)) return blu_constant(b, &s->out, 0);
  MlirValue most = blu_reduce(b, "max", blu_build1(b, "abs", in[0]), a.n, a.axis, true);
  MlirValue zero = blu_constant_like(b, most, 0), one = blu_constant_like(b, most, 1);
  MlirValue plain = blu_build2(b, "or", blu_build2(b, "eq", most, zero), blu_build2(b, "eq", most, blu_constant_like(b, most,
      INFINITY)));
  MlirValue scale = blu_where(b, plain, one, most), x = blu_build2(b, "div", in[0], blu_broadcast_to(b, scale, &s->in[0]));
  MlirValue y = mul(b, scale, blu_build1(b, "sqrt", blu_reduce(b, "sum", mul(b, x, x), a.n, a.axis, true)));
  return blu_reshape_to(b, y, &s->out);
}

static void vjp_norm(BluVjp *v) { /* x / y */
  MlirValue y = spread(v, v->out), zero = blu_constant_like(v->b, y, 0), none = blu_build2(v->b, "eq", y, zero);
  MlirValue unit = blu_build2(v->b, "div", v->in[0], blu_where(v->b, none, blu_constant_like(v->b, y, 1), y));
  v->dx[0] = blu_strong_mul(v->b, spread(v, v->ct), blu_where(v->b, none, zero, unit));
}

#define MORE {"%a: tensor<4xf64>", "%n = blu.norm %a : (tensor<4xf64>) -> tensor<f64>\n%r = blu.mul %n, %n : tensor<f64>", -2, 2, 0},
const BluRule blu_rule_norm = {.kind = BLU_KIND_COMPOSITE, .labels = "float axis-in-range axis-once", .infer = infer_norm,
    .vjp = vjp_norm,
  .ref = ref_norm, .expand = expand_norm, .cases = CASES("norm"), .tolerance = 4e-6};
#undef MORE

/* ---- layer_norm, batch_norm, rms_norm: scaled and shifted deviations ---- */

static double eps_of(const BluSig *s) { return blu_attr_real(&s->attrs, "eps", 1e-5); }

/* Operands after x have one element for each of x's last dimension. */
static bool infer_normed(BluSig *s, BluWhy *why) {
  const BluType *x = &s->in[0];
  char a[200], c[200];
  if (!blu_require_float(s, why, 0)) return false;
  if (!x->rank) return blu_refuse(why, "rank", 0, "a scalar has no dimension to normalise");
  for (int i = 1; i < s->nin; i++)
    if (s->in[i].elem != x->elem || s->in[i].rank != 1 || s->in[i].dim[0] != x->dim[x->rank - 1])
      return blu_refuse(why, "per-column", i, "%s does not fit the last dimension of %s", blu_type_print(&s->in[i], a, sizeof a),
                        blu_type_print(x, c, sizeof c));
  if (!(eps_of(s) >= 0)) return blu_refuse(why, "eps", -1, "eps is negative or not a number");
  s->out = *x;
  return true;
}

/* The last axis alone (layer_norm), or all others (batch_norm, and the sums that gradients of weight and bias are). */
static Axes last_axis(const BluType *x) { return (Axes){1, {x->rank - 1}}; }
static Axes other_axes(const BluType *x) {
  Axes a = {.n = x->rank - 1};
  for (int i = 0; i < a.n; i++) a.axis[i] = i;
  return a;
}

static void ref_normalise(BluRefCall *c, Axes over, bool centred) {
  const BluType *x = &c->sig->in[0];
  BluType t = *x;
  double count = 1;
  for (int i = 0; i < over.n; i++) count *= (double)t.dim[over.axis[i]], t.dim[over.axis[i]] = 1;
  int64_t n = blu_type_count(x), m = blu_type_count(&t), columns = x->dim[x->rank - 1];
  double *square = blu_alloc_zeroed((size_t)m, sizeof *square);
  double *mean = centred ? means(c->in[0], x, &t, count) : blu_alloc_zeroed((size_t)m, sizeof *mean);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = blu_index_in(&t, x, i);
    square[at] += (c->in[0][i] - mean[at]) * (c->in[0][i] - mean[at]) / count;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t at = blu_index_in(&t, x, i);
    double y = (c->in[0][i] - mean[at]) / sqrt(square[at] + blu_rounded(x->elem, eps_of(c->sig)));
    c->out[i] = y * c->in[1][i % columns] + (c->sig->nin > 2 ? c->in[2][i % columns] : 0);
  }
  free(mean);
  free(square);
}
static void ref_layer_norm(BluRefCall *c) { ref_normalise(c, last_axis(&c->sig->in[0]), true); }
static void ref_batch_norm(BluRefCall *c) { ref_normalise(c, other_axes(&c->sig->in[0]), true); }
static void ref_rms_norm(BluRefCall *c) { ref_normalise(c, last_axis(&c->sig->in[0]), false); }

/* d / sqrt(mean(d^2) + eps), and the reciprocal root repeated to d's shape. */
static MlirValue unit(BluBuilder *b, MlirValue d, const BluSig *s, Axes over, MlirValue *root) {
  MlirValue m = blu_reduce(b, "mean", mul(b, d, d), over.n, over.axis, true);
  *root = blu_broadcast_to(b, blu_build1(b, "rsqrt", blu_build2(b, "add", m, blu_constant_like(b, m, eps_of(s)))), &s->in[0]);
  return mul(b, d, *root);
}

static MlirValue expand_normed(BluBuilder *b, const BluSig *s, const MlirValue *in, Axes over, bool centred) {
  MlirValue root, y = unit(b, centred ? blu_centre(b, in[0], over.n, over.axis) : in[0], s, over, &root);
  y = mul(b, y, blu_broadcast_to(b, in[1], &s->in[0]));
  return s->nin > 2 ? blu_build2(b, "add", y, blu_broadcast_to(b, in[2], &s->in[0])) : y;
}
static MlirValue expand_layer_norm(BluBuilder *b, const BluSig *s, const MlirValue *in) { return expand_normed(b, s, in,
    last_axis(&s->in[0]), true); }
static MlirValue expand_batch_norm(BluBuilder *b, const BluSig *s, const MlirValue *in) { return expand_normed(b, s, in,
    other_axes(&s->in[0]), true); }
static MlirValue expand_rms_norm(BluBuilder *b, const BluSig *s, const MlirValue *in) { return expand_normed(b, s, in,
    last_axis(&s->in[0]), false); }

/* With g = ct weight and u the unit deviations: root (g - mean(g) - u mean(g u)); without a centre there is no mean(g). */
static void vjp_normed(BluVjp *v, Axes over, bool centred) {
  BluBuilder *b = v->b;
  Axes rows = other_axes(&v->sig.in[0]);
  MlirValue root, u = unit(b, centred ? blu_centre(b, v->in[0], over.n, over.axis) : v->in[0], &v->sig, over, &root);
  if (v->need[0]) {
    MlirValue g = mul(b, v->ct, blu_broadcast_to(b, v->in[1], &v->sig.in[0]));
    MlirValue along = mul(b, u, blu_over(b, "mean", mul(b, g, u), over.n, over.axis));
    MlirValue free_part = centred ? blu_build2(b, "sub", g, blu_over(b, "mean", g, over.n, over.axis)) : g;
    v->dx[0] = mul(b, root, blu_build2(b, "sub", free_part, along));
  }
  MlirValue ctu = mul(b, v->ct, u);
  if (v->need[1]) v->dx[1] = rows.n ? blu_reduce(b, "sum", ctu, rows.n, rows.axis, false) : ctu;
  if (v->sig.nin > 2 && v->need[2]) v->dx[2] = rows.n ? blu_reduce(b, "sum", v->ct, rows.n, rows.axis, false) : v->ct;
}
static void vjp_layer_norm(BluVjp *v) { vjp_normed(v, last_axis(&v->sig.in[0]), true); }
static void vjp_batch_norm(BluVjp *v) { vjp_normed(v, other_axes(&v->sig.in[0]), true); }
static void vjp_rms_norm(BluVjp *v) { vjp_normed(v, last_axis(&v->sig.in[0]), false); }

#define XWB(op, x, n)                                                                                                \
  {"%x: tensor<" x "xf64>, %w: tensor<" n "xf64>, %b: tensor<" n "xf64>",                                             \
   "%r = blu." op " %x, %w, %b {eps = 1.0e-3} : (tensor<" x "xf64>, tensor<" n "xf64>, tensor<" n "xf64>) -> tensor<" x "xf64>", -2, 2, 0}
#define XW(x, n)                                                                                                     \
  {"%x: tensor<" x "xf64>, %w: tensor<" n "xf64>",                                                                    \
   "%r = blu.rms_norm %x, %w : (tensor<" x "xf64>, tensor<" n "xf64>) -> tensor<" x "xf64>", -2, 2, 0}
/* Two sums, a root, a product and a sum, of values up to 4. */
#define NORMED_TOLERANCE 2e-5
const BluRule blu_rule_layer_norm = {.kind = BLU_KIND_COMPOSITE, .labels = "float rank per-column eps", .infer = infer_normed,
    .vjp = vjp_layer_norm,
  .ref = ref_layer_norm, .expand = expand_layer_norm, .tolerance = NORMED_TOLERANCE,
  .cases = (const BluOpCase[]){XWB("layer_norm", "3x5", "5"), XWB("layer_norm", "2x3x4", "4"), XWB("layer_norm", "6", "6"), {0}}};
const BluRule blu_rule_rms_norm = {.kind = BLU_KIND_COMPOSITE, .labels = "float rank per-column eps", .infer = infer_normed,
    .vjp = vjp_rms_norm,
  .ref = ref_rms_norm, .expand = expand_rms_norm, .tolerance = NORMED_TOLERANCE, .cases = (const BluOpCase[]){XW("3x5", "5"),
      XW("2x3x4", "4"), {0}}};
const BluRule blu_rule_batch_norm = {.kind = BLU_KIND_COMPOSITE, .labels = "float rank per-column eps", .infer = infer_normed,
    .vjp = vjp_batch_norm,
  .ref = ref_batch_norm, .expand = expand_batch_norm, .tolerance = NORMED_TOLERANCE,
  .cases = (const BluOpCase[]){XWB("batch_norm", "6x5", "5"), XWB("batch_norm", "2x3x2x4", "4"), {0}}};

/* ---- batch_norm_infer: with statistics that are given ---- */

enum { X, WEIGHT, BIAS, MEAN, VARIANCE };

static void ref_batch_norm_infer(BluRefCall *c) {
  const BluType *x = &c->sig->in[0];
  int64_t columns = x->dim[x->rank - 1];
  for (int64_t i = 0, n = blu_type_count(x); i < n; i++) {
    int64_t k = i % columns;
    c->out[i] = (c->in[X][i] - c->in[MEAN][k]) / sqrt(c->in[VARIANCE][k] + blu_rounded(x->elem,
        eps_of(c->sig))) * c->in[WEIGHT][k] + c->in[BIAS][k];
  }
}

static MlirValue expand_batch_norm_infer(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  const BluType *x = &s->in[0];
  MlirValue root = blu_build1(b, "rsqrt", blu_build2(b, "add", in[VARIANCE], blu_constant_like(b, in[VARIANCE], eps_of(s))));
  MlirValue d = blu_build2(b, "sub", in[X], blu_broadcast_to(b, in[MEAN], x));
  MlirValue y = mul(b, d, blu_broadcast_to(b, mul(b, root, in[WEIGHT]), x));
  return blu_build2(b, "add", y, blu_broadcast_to(b, in[BIAS], x));
}

const BluRule blu_rule_batch_norm_infer = {.kind = BLU_KIND_COMPOSITE, .labels = "float rank per-column eps",
    .infer = infer_normed,
  .vjp = blu_vjp_by_expansion, .ref = ref_batch_norm_infer, .expand = expand_batch_norm_infer, .tolerance = NORMED_TOLERANCE,
  .cases = (const BluOpCase[]){
    {"%x: tensor<2x3x4xf64>, %w: tensor<4xf64>, %b: tensor<4xf64>, %m: tensor<4xf64>, %v: tensor<4xf64>",
     "%r = blu.batch_norm_infer %x, %w, %b, %m, %v : (tensor<2x3x4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<4xf64>, "
         "tensor<4xf64>) -> tensor<2x3x4xf64>", 0.5, 2, 0},
    {0}}};
