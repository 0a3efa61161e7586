/* ops_soft.c - softmax, log-softmax, logsumexp and cross-entropy: composites, so that gradient and code can use the stable
 * forms. */
#include <math.h>
#include <stdlib.h>
#include "dialects/memory.h"
#include "dialects_internal.h"

static bool infer_soft(BluSig *s, BluWhy *why) {
  if (!blu_require_float(s, why, 0)) return false;
  if (!s->in[0].rank) return blu_refuse(why, "rank", 0, "softmax needs at least one axis");
  int64_t axis = blu_axis(s, "axis", -1);
  if (!s->in[0].dim[axis]) return blu_refuse(why, "not-empty", 0, "axis %lld is empty", (long long)axis);
  s->out = s->in[0];
  return true;
}

/* Calls row(x, out, n, stride) for each line along the axis. */
static void ref_lines(BluRefCall *c, void (*line)(const double *, double *, int64_t, int64_t)) {
  const BluType *t = &c->sig->in[0];
  int64_t axis = blu_axis(c->sig, "axis", -1), n = t->dim[axis], inner = 1;
  for (int i = (int)axis + 1; i < t->rank; i++) inner *= t->dim[i];
  for (int64_t o = 0, lines = blu_type_count(t) / n; o < lines; o++) {
    int64_t at = o / inner * n * inner + o % inner;
    line(c->in[0] + at, c->out + at, n, inner);
  }
}

static double log_sum_exp(const double *x, int64_t n, int64_t stride) {
  double m = -INFINITY, s = 0;
  for (int64_t i = 0; i < n; i++) m = x[i * stride] > m || isnan(x[i * stride]) ? x[i * stride] : m;
  for (int64_t i = 0; i < n; i++) s += exp(x[i * stride] - m);
  return m + log(s);
}
static void line_log_softmax(const double *x, double *y, int64_t n, int64_t stride) {
  double l = log_sum_exp(x, n, stride);
  for (int64_t i = 0; i < n; i++) y[i * stride] = x[i * stride] - l;
}
static void line_softmax(const double *x, double *y, int64_t n, int64_t stride) {
  double l = log_sum_exp(x, n, stride);
  for (int64_t i = 0; i < n; i++) y[i * stride] = exp(x[i * stride] - l);
}
static void ref_softmax(BluRefCall *c) { ref_lines(c, line_softmax); }
static void ref_log_softmax(BluRefCall *c) { ref_lines(c, line_log_softmax); }

/* f(x) over the axis, repeated to x's shape */
static MlirValue over(BluBuilder *b, const char *f, MlirValue x, int64_t axis) {
  BluType t = blu_value_type(x);
  return blu_broadcast_to(b, blu_reduce(b, f, x, 1, &axis, true), &t);
}

static void vjp_softmax(BluVjp *v) { /* y (ct - sum(ct y)) */
  MlirValue s = over(v->b, "sum", blu_build2(v->b, "mul", v->ct, v->out), blu_axis(&v->sig, "axis", -1));
  v->dx[0] = blu_build2(v->b, "mul", v->out, blu_build2(v->b, "sub", v->ct, s));
}

static void vjp_log_softmax(BluVjp *v) { /* ct - softmax(x) sum(ct) */
  MlirValue s = over(v->b, "sum", v->ct, blu_axis(&v->sig, "axis", -1));
  v->dx[0] = blu_build2(v->b, "sub", v->ct, blu_build2(v->b, "mul", blu_build1(v->b, "exp", v->out), s));
}

static MlirValue expand_softmax(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  int64_t axis = blu_axis(s, "axis", -1);
  MlirValue e = blu_build1(b, "exp", blu_build2(b, "sub", in[0], over(b, "max", in[0], axis)));
  return blu_build2(b, "div", e, over(b, "sum", e, axis));
}

static MlirValue expand_log_softmax(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  int64_t axis = blu_axis(s, "axis", -1);
  MlirValue d = blu_build2(b, "sub", in[0], over(b, "max", in[0], axis));
  MlirValue sum = blu_reduce(b, "sum", blu_build1(b, "exp", d), 1, &axis, true);
  return blu_build2(b, "sub", d, blu_broadcast_to(b, blu_build1(b, "log", sum), &s->in[0]));
}

#define CASES(op)                                                                                                    \
  (const BluOpCase[]) {                                                                                              \
    {"%a: tensor<3x5xf64>", "%r = blu." op " %a : (tensor<3x5xf64>) -> tensor<3x5xf64>", -3, 3, 0},                  \
    {"%a: tensor<2x4x3xf64>", "%r = blu." op " %a {axis = 1} : (tensor<2x4x3xf64>) -> tensor<2x4x3xf64>", -3, 3, 0}, {0} \
  }
const BluRule blu_rule_softmax = {.kind = BLU_KIND_COMPOSITE, .labels = "float rank not-empty axis-in-range",
    .infer = infer_soft, .vjp = vjp_softmax, .ref = ref_softmax,
  .expand = expand_softmax, .cases = CASES("softmax"), .tolerance = 1e-6 /* exp, sum and division, 2 ulp each */};
const BluRule blu_rule_log_softmax = {.kind = BLU_KIND_COMPOSITE, .labels = "float rank not-empty axis-in-range",
    .infer = infer_soft, .vjp = vjp_log_softmax, .ref = ref_log_softmax,
  .expand = expand_log_softmax, .cases = CASES("log_softmax"), .tolerance = 1e-6};

/* ---- logsumexp ---- */

static bool infer_logsumexp(BluSig *s, BluWhy *why) { return blu_require_float(s, why, 0) && blu_op_find("max")->rule->infer(s,
    why); }

static void ref_logsumexp(BluRefCall *c) { /* m + log(sum(e^(x - m))), the sum kept in out */
  BluType t = blu_kept_type(c->sig);
  int64_t n = blu_type_count(&c->sig->in[0]), lines = blu_type_count(&c->sig->out);
  double *sum = blu_alloc_zeroed((size_t)lines, sizeof *sum);
  blu_op_find("max")->rule->ref(c);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = blu_index_in(&t, &c->sig->in[0], i);
    sum[at] += exp(c->in[0][i] - (isinf(c->out[at]) ? 0 : c->out[at]));
  }
  for (int64_t i = 0; i < lines; i++) c->out[i] = (isinf(c->out[i]) ? 0 : c->out[i]) + log(sum[i]);
  free(sum);
}

/* 0 in the place of the infinities */
static MlirValue finite_or_0(BluBuilder *b, MlirValue x) {
  MlirValue infinite = blu_build2(b, "eq", blu_build1(b, "abs", x), blu_constant_like(b, x, INFINITY));
  return blu_where(b, infinite, blu_constant_like(b, x, 0), x);
}

/* e^(x - m) with m the greatest, and its sum, kept. */
static MlirValue exponentials(BluBuilder *b, const BluSig *s, MlirValue x, MlirValue *m, MlirValue *sum) {
  BluAttrs keep = blu_attr_set_bool(s->attrs, "keep", true);
  *m = finite_or_0(b, blu_build(b, "max", &keep, 1, &x));
  MlirValue e = blu_build1(b, "exp", blu_build2(b, "sub", x, blu_broadcast_to(b, *m, &s->in[0])));
  *sum = blu_build(b, "sum", &keep, 1, &e);
  return e;
}

static MlirValue expand_logsumexp(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  MlirValue m, sum;
  exponentials(b, s, in[0], &m, &sum);
  return blu_reshape_to(b, blu_build2(b, "add", m, blu_build1(b, "log", sum)), &s->out);
}

/* e^(x - m) / sum, which keeps its precision where y is large; 0 where every x is -infinity and so is the sum's every part. */
static void vjp_logsumexp(BluVjp *v) {
  BluType t = blu_kept_type(&v->sig);
  MlirValue m, sum, e = exponentials(v->b, &v->sig, v->in[0], &m, &sum);
  MlirValue none = blu_build2(v->b, "eq", sum, blu_constant_like(v->b, sum, 0));
  sum = blu_where(v->b, none, blu_constant_like(v->b, sum, 1), sum);
  MlirValue share = blu_build2(v->b, "div", e, blu_broadcast_to(v->b, sum, &v->sig.in[0]));
  v->dx[0] = blu_strong_mul(v->b, blu_broadcast_to(v->b, blu_reshape_to(v->b, v->ct, &t), &v->sig.in[0]), share);
}

const BluRule blu_rule_logsumexp = {.kind = BLU_KIND_COMPOSITE, .labels = "float not-empty axis-in-range axis-once",
    .infer = infer_logsumexp,
  .vjp = vjp_logsumexp, .ref = ref_logsumexp, .expand = expand_logsumexp, .tolerance = 1e-6,
  .cases = (const BluOpCase[]){
    {"%a: tensor<3x5xf64>", "%r = blu.logsumexp %a {axis = array<i64: 1>} : (tensor<3x5xf64>) -> tensor<3xf64>", -3, 3, 0},
    {"%a: tensor<2x3x4xf64>", "%r = blu.logsumexp %a {axis = array<i64: 0, 2>, keep = true} : (tensor<2x3x4xf64>) -> "
        "tensor<1x3x1xf64>", -3, 3, 0},
    {"%a: tensor<2x3xf64>", "%r = blu.logsumexp %a : (tensor<2x3xf64>) -> tensor<f64>", -3, 3, 0}, {0}}};

/* ---- cross-entropy ---- */

static bool infer_cross_entropy(BluSig *s, BluWhy *why) {
  const BluType *x = &s->in[0], *y = &s->in[1];
  char a[200], b[200];
  if (!blu_require_float(s, why, 0)) return false;
  if (blu_elem_is_float(y->elem) || y->elem == BLU_BOOL)
    return blu_refuse(why, "integer-labels", 1, "labels must be integers, found %s", blu_type_print(y, b, sizeof b));
  bool fits = x->rank >= 1 && y->rank == x->rank - 1;
  for (int i = 0; fits && i < y->rank; i++) fits = x->dim[i] == y->dim[i];
  if (!fits)
    return blu_refuse(why, "label-per-row", 1, "logits %s need one label per row, found labels %s", blu_type_print(x, a,
        sizeof a),
                      blu_type_print(y, b, sizeof b));
  if (!x->dim[x->rank - 1]) return blu_refuse(why, "not-empty", 0, "there are no classes");
  s->out = *x;
  s->out.elem = blu_elem_compute(x->elem); /* losses are not rounded to half */
  s->out.rank--;
  return true;
}

/* A label that is no class has the loss of a class that is not there: log sum exp alone. `per` leaves such rows out. */
static void ref_cross_entropy(BluRefCall *c) {
  int64_t n = c->sig->in[0].dim[c->sig->in[0].rank - 1];
  for (int64_t i = 0, rows = blu_type_count(&c->sig->out); i < rows; i++) {
    const double *x = c->in[0] + i * n, label = c->in[1][i];
    c->out[i] = log_sum_exp(x, n, 1) - (label >= 0 && label < (double)n ? x[(int64_t)label] : 0);
  }
}

static BluElem label_elem(MlirValue labels) { return blu_value_type(labels).elem == BLU_I64 ? BLU_I64 : BLU_I32; }

/* A bool of the logits' shape: true at the label of each row. */
static MlirValue at_label(BluBuilder *b, const BluType *logits, MlirValue labels) {
  BluElem e = label_elem(labels);
  BluType column = *logits, all = *logits;
  column.dim[column.rank - 1] = 1;
  all.elem = e;
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", all.rank, all.dim);
  as = blu_attr_set_int(as, "axis", all.rank - 1);
  as = blu_attr_set_type(as, "elem", e);
  MlirValue classes = blu_build(b, "iota", &as, 0, NULL);
  return blu_build2(b, "eq", classes, blu_broadcast_to(b, blu_reshape_to(b, blu_cast_to(b, labels, e), &column), &all));
}

/* A bool per row: is its label a class? */
static MlirValue is_class(BluBuilder *b, MlirValue labels, int64_t classes) {
  labels = blu_cast_to(b, labels, label_elem(labels));
  MlirValue last = blu_constant_like(b, labels, (double)(classes - 1)), low = blu_build2(b, "ge", labels, blu_constant_like(b, labels, 0));
  return blu_build2(b, "and", low, blu_build2(b, "le", labels, last));
}

/* With d = x - max(x), log sum exp(d) is too small by max(x): what is taken from it is d at the label, and -max(x) where there is none. */
static MlirValue expand_cross_entropy(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  int64_t axis = s->in[0].rank - 1;
  MlirValue most = blu_reduce(b, "max", in[0], 1, &axis, true);
  MlirValue d = blu_build2(b, "sub", in[0], blu_broadcast_to(b, most, &s->in[0])), zero = blu_constant_like(b, d, 0);
  MlirValue sum = blu_reduce(b, "sum", blu_build1(b, "exp", d), 1, &axis, false);
  MlirValue hit = blu_build(b, "where", NULL, 3, (MlirValue[]){at_label(b, &s->in[0], in[1]), d, zero});
  MlirValue there = blu_reduce(b, "sum", hit, 1, &axis, false), none = blu_reshape_to(b, blu_build1(b, "neg", most), &s->out);
  return blu_build2(b, "sub", blu_build1(b, "log", sum), blu_where(b, is_class(b, in[1], s->in[0].dim[axis]), there, none));
}

static void vjp_cross_entropy(BluVjp *v) { /* ct (softmax(x) - [k = label]) */
  if (!v->need[0]) return;
  BluType column = v->sig.in[0];
  column.dim[column.rank - 1] = 1;
  MlirValue p = blu_build1(v->b, "softmax", v->in[0]);
  MlirValue less = blu_build2(v->b, "sub", p, blu_constant_like(v->b, p, 1));
  MlirValue g = blu_build(v->b, "where", NULL, 3, (MlirValue[]){at_label(v->b, &v->sig.in[0], v->in[1]), less, p});
  v->dx[0] = blu_strong_mul(v->b, blu_broadcast_to(v->b, blu_reshape_to(v->b, v->ct, &column), &v->sig.in[0]), g);
}

const BluRule blu_rule_cross_entropy = {.kind = BLU_KIND_COMPOSITE, .labels = "float integer-labels label-per-row not-empty",
    .infer = infer_cross_entropy, .vjp = vjp_cross_entropy,
  .ref = ref_cross_entropy, .expand = expand_cross_entropy, .tolerance = 1e-6,
  .cases = (const BluOpCase[]){
    {"%a: tensor<4x5xf64>, %b: tensor<4xi32>", "%r = blu.cross_entropy %a, %b : (tensor<4x5xf64>, tensor<4xi32>) -> "
        "tensor<4xf64>", -3, 3, 5},
    {"%a: tensor<2x3x5xf64>, %b: tensor<2x3xui8>",
     "%r = blu.cross_entropy %a, %b : (tensor<2x3x5xf64>, tensor<2x3xui8>) -> tensor<2x3xf64>", -3, 3, 5},
    {0}}};
