/* ops_attention.c - attention: causal or not, with a mask or not, with groups of heads that share keys and values. A composite
 * over products and one softmax; the heads of a group are more rows of one product, so keys are never repeated. */
#include <math.h>
#include <string.h>
#include "dialects_internal.h"

enum { Q, K, V, MASK };
typedef BluAttention Shape;

BluAttention blu_attention_of(const BluSig *s) {
  const BluType *q = &s->in[Q], *k = &s->in[K];
  bool masked = s->in[s->nin - 1].elem == BLU_BOOL, scores = s->nin == V + masked; /* the mask comes last; there may be no values */
  Shape a = {q->dim[0], k->dim[1], k->dim[1] ? q->dim[1] / k->dim[1] : 0, q->dim[2], k->dim[2], q->dim[3], scores ? 0 : s->in[V].dim[3],
             blu_attr_int(&s->attrs, "causal", 0), 0, masked ? s->nin - 1 : -1};
  a.scale = blu_attr_real(&s->attrs, "scale", 1 / sqrt((double)a.d));
  return a;
}

bool blu_attention_mask_fits(const BluSig *s, BluWhy *why) {
  int at = s->nin - 1;
  const BluType *q = &s->in[Q], *k = &s->in[K], *m = &s->in[at];
  char x[200];
  int64_t full[4] = {q->dim[0], q->dim[1], q->dim[2], k->dim[2]};
  bool fits = m->rank <= 4;
  if (m->elem != BLU_BOOL) return blu_refuse(why, "bool", at, "the mask is %s, not bool", blu_elem_name(m->elem));
  for (int i = 0; fits && i < m->rank; i++) fits = m->dim[i] == 1 || m->dim[i] == full[i + 4 - m->rank];
  return fits || blu_refuse(why, "mask-fits", at, "the mask %s does not broadcast to [%lld, %lld, %lld, %lld]", blu_type_print(m, x, sizeof x),
                            (long long)full[0], (long long)full[1], (long long)full[2], (long long)full[3]);
}

static bool infer_attention(BluSig *s, BluWhy *why) {
  const BluType *q = &s->in[Q], *k = &s->in[K], *v = &s->in[V];
  char x[200], y[200];
  if (!blu_require_float(s, why, Q)) return false;
  for (int i = 0; i < 3; i++) {
    if (s->in[i].rank != 4) return blu_refuse(why, "rank", i, "expected [batch, heads, length, depth], found %s",
        blu_type_print(&s->in[i], x, sizeof x));
    if (s->in[i].elem != q->elem)
      return blu_refuse(why, "same-type", i, "operands have different element types: %s and %s", blu_elem_name(q->elem),
          blu_elem_name(s->in[i].elem));
    if (s->in[i].dim[0] != q->dim[0])
      return blu_refuse(why, "same-batch", i, "batches differ: %s and %s", blu_type_print(q, x, sizeof x),
          blu_type_print(&s->in[i], y, sizeof y));
  }
  if (k->dim[1] != v->dim[1] || k->dim[2] != v->dim[2])
    return blu_refuse(why, "value-per-key", V, "keys and values differ in heads or length: %s and %s", blu_type_print(k, x,
        sizeof x),
                      blu_type_print(v, y, sizeof y));
  if (!k->dim[1] || q->dim[1] % k->dim[1])
    return blu_refuse(why, "heads-divide", K, "%lld query heads can't share %lld key heads evenly", (long long)q->dim[1],
        (long long)k->dim[1]);
  if (q->dim[3] != k->dim[3] || !q->dim[3])
    return blu_refuse(why, "same-inner", K, "depths of queries and keys differ: %s and %s", blu_type_print(q, x, sizeof x),
        blu_type_print(k, y, sizeof y));
  if (!k->dim[2]) return blu_refuse(why, "not-empty", K, "there are no keys");
  if (s->nin > MASK && !blu_attention_mask_fits(s, why)) return false;
  s->out = *q;
  s->out.dim[3] = v->dim[3], s->out.name[3] = v->name[3], s->out.unit[3] = v->unit[3];
  return true;
}

/* ---- meaning ---- */

bool blu_attention_sees(const BluRefCall *c, const Shape *a, int64_t batch, int64_t head, int64_t i, int64_t j) {
  BluType full = blu_type_make(BLU_BOOL, 4, (int64_t[]){a->b, a->g * a->r, a->t, a->s});
  if (a->causal && j > i + a->s - a->t) return false;
  int64_t at = ((batch * a->g * a->r + head) * a->t + i) * a->s + j;
  return a->mask < 0 || c->in[a->mask][blu_index_in(&c->sig->in[a->mask], &full, at)] != 0;
}

/* A key that is not seen has the weight 0, which its value is multiplied by: NaN stays NaN. */
static void ref_attention(BluRefCall *c) {
  Shape a = blu_attention_of(c->sig);
  bool masked = a.causal || a.mask >= 0;
  for (int64_t row = 0, n = a.b * a.g * a.r * a.t; row < n; row++) {
    int64_t i = row % a.t, head = row / a.t % (a.g * a.r), batch = row / a.t / (a.g * a.r),
        keys = (batch * a.g + head / a.r) * a.s;
    const double *q = c->in[Q] + row * a.d;
    double most = -INFINITY, sum = 0, *out = c->out + row * a.dv;
    for (int64_t e = 0; e < a.dv; e++) out[e] = 0;
    for (int pass = 0; pass < 2; pass++) /* the greatest score, then the weights */
      for (int64_t j = 0; j < a.s; j++) {
        double dot = 0, p = 0;
        bool seen = blu_attention_sees(c, &a, batch, head, i, j);
        for (int64_t e = 0; e < a.d && seen; e++) dot += q[e] * c->in[K][(keys + j) * a.d + e];
        dot *= blu_rounded(c->sig->out.elem, a.scale);
        if (!pass) { most = seen && (dot > most || isnan(dot)) ? dot : most; continue; }
        if (seen) p = exp(dot - (masked && most == -INFINITY ? 0 : most)); /* a row of scores that are all -infinity: 0, and NaN without a mask */
        sum += p;
        for (int64_t e = 0; e < a.dv; e++) out[e] += p * c->in[V][(keys + j) * a.dv + e];
      }
    for (int64_t e = 0; e < a.dv && sum != 0; e++) out[e] /= sum;
  }
}

/* ---- expansion ---- */

static BluType type5(BluElem e, const Shape *a) { return blu_type_make(e, 5, (int64_t[]){a->b, a->g, a->r, a->t, a->s}); }
static BluType rows(BluElem e, const Shape *a, int64_t depth) { return blu_type_make(e, 4, (int64_t[]){a->b, a->g, a->r * a->t,
    depth}); }

MlirValue blu_attention_visible(BluBuilder *b, const BluSig *s, const Shape *a, const MlirValue *in) {
  BluType full = type5(BLU_BOOL, a);
  MlirValue seen = {0};
  if (a->mask >= 0) {
    BluType m = s->in[a->mask], split = {.elem = BLU_BOOL, .rank = 5};
    int64_t four[4] = {1, 1, 1, 1};
    for (int i = 0; i < m.rank; i++) four[i + 4 - m.rank] = m.dim[i];
    bool heads = four[1] != 1;
    int64_t dims[5] = {four[0], heads ? a->g : 1, heads ? a->r : 1, four[2], four[3]};
    memcpy(split.dim, dims, sizeof dims);
    seen = blu_broadcast_to(b, blu_reshape_to(b, in[a->mask], &split), &full);
  }
  if (!a->causal) return seen;
  BluType square = blu_type_make(BLU_I64, 2, (int64_t[]){a->t, a->s});
  MlirValue key = blu_iota(b, &square, 1), query = blu_iota(b, &square, 0);
  MlirValue last = blu_build2(b, "add", query, blu_constant(b, &square, (double)(a->s - a->t)));
  MlirValue past = blu_broadcast_to(b, blu_build2(b, "le", key, last), &full);
  return mlirValueIsNull(seen) ? past : blu_build2(b, "and", seen, past);
}

MlirValue blu_attention_scores(BluBuilder *b, const BluSig *s, const Shape *a, const MlirValue *in) {
  BluElem e = s->in[Q].elem;
  BluType flat = rows(e, a, a->d), full = type5(e, a);
  return blu_reshape_to(b, blu_scaled(b, blu_product(b, blu_reshape_to(b, in[Q], &flat), false, in[K], true), a->scale), &full);
}

/* The weights, [b, g, r t, s]: rows that see nothing are 0. */
static MlirValue weights(BluBuilder *b, const BluSig *s, const Shape *a, const MlirValue *in, MlirValue seen) {
  BluElem e = s->in[Q].elem;
  BluType full = type5(e, a), back = rows(e, a, a->s);
  int64_t last = 4;
  MlirValue score = blu_attention_scores(b, s, a, in);
  if (mlirValueIsNull(seen)) {
    BluAttrs as = blu_attr_set_int((BluAttrs){0}, "axis", last);
    return blu_reshape_to(b, blu_build(b, "softmax", &as, 1, &score), &back);
  }
  score = blu_where(b, seen, score, blu_constant(b, &full, -INFINITY));
  MlirValue most = blu_reduce(b, "max", score, 1, &last, true), zero = blu_constant_like(b, most, 0);
  most = blu_where(b, blu_build2(b, "eq", most, blu_constant_like(b, most, -INFINITY)), zero, most);
  MlirValue p = blu_build1(b, "exp", blu_build2(b, "sub", score, blu_broadcast_to(b, most, &full)));
  MlirValue sum = blu_reduce(b, "sum", p, 1, &last, true);
  sum = blu_where(b, blu_build2(b, "eq", sum, zero), blu_constant_like(b, sum, 1), sum);
  return blu_reshape_to(b, blu_build2(b, "div", p, blu_broadcast_to(b, sum, &full)), &back);
}

/* Attention of the heads that share keys, all at once. */
static MlirValue attend(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  Shape a = blu_attention_of(s);
  BluType out = s->in[Q];
  out.dim[3] = a.dv;
  MlirValue p = weights(b, s, &a, in, blu_attention_visible(b, s, &a, in));
  return blu_reshape_to(b, blu_product(b, p, false, in[V], false), &out);
}

/* With p the weights: dv = p^T ct, dp = ct v^T, ds = p (dp - sum(dp p)), dq = scale ds k, dk = scale ds^T q. */
static void attend_back(BluBuilder *b, const BluSig *s, const MlirValue *in, MlirValue out_ct, const bool *need, MlirValue *dx) {
  Shape a = blu_attention_of(s);
  BluElem e = s->in[Q].elem;
  BluType flat = rows(e, &a, a.dv), queries = rows(e, &a, a.d);
  MlirValue p = weights(b, s, &a, in, blu_attention_visible(b, s, &a, in)), ct = blu_reshape_to(b, out_ct, &flat);
  if (need[V]) dx[V] = blu_product(b, p, true, ct, false);
  if (!need[Q] && !need[K]) return;
  int64_t last = 3;
  MlirValue dp = blu_product(b, ct, false, in[V], true), along = blu_over(b, "sum", blu_build2(b, "mul", dp, p), 1, &last);
  MlirValue ds = blu_scaled(b, blu_build2(b, "mul", p, blu_build2(b, "sub", dp, along)), a.scale);
  if (need[Q]) dx[Q] = blu_reshape_to(b, blu_product(b, ds, false, in[K], false), &s->in[Q]);
  if (need[K]) dx[K] = blu_product(b, ds, true, blu_reshape_to(b, in[Q], &queries), false);
}

static MlirValue expand_attention(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  if (blu_attention_stays(b, s)) /* the pass expands none that stays whole: this one was of a simulated format */
    return blu_build(b, s->nin > MASK ? "masked_attention" : "attention", &s->attrs, s->nin, in);
  return attend(b, s, in);
}

static void vjp_attention(BluVjp *v) {
  if (blu_attention_stays(v->b, &v->sig)) blu_attention_vjp_whole(v);
  else attend_back(v->b, &v->sig, v->in, v->ct, v->need, v->dx);
}

#define QKV(q, k, v, attrs, out)                                                                                  \
  {"%q: tensor<" q "xf64>, %k: tensor<" k "xf64>, %v: tensor<" v "xf64>",                                          \
   "%r = blu.attention %q, %k, %v " attrs ": (tensor<" q "xf64>, tensor<" k "xf64>, tensor<" v "xf64>) -> tensor<" out "xf64>", -1, 1, 0}
#define QKVM(q, k, m, attrs)                                                                                      \
  {"%q: tensor<" q "xf64>, %k: tensor<" k "xf64>, %v: tensor<" k "xf64>, %m: tensor<" m "xi1>",                    \
   "%r = blu.masked_attention %q, %k, %v, %m " attrs ": (tensor<" q "xf64>, tensor<" k "xf64>, tensor<" k "xf64>, tensor<" m "xi1>) -> tensor<" q "xf64>", -1, 1, 2}
#define LABELS "float rank same-type same-batch value-per-key heads-divide same-inner not-empty"

/* Two products of short rows and a softmax. */
const BluRule blu_rule_attention = {.kind = BLU_KIND_COMPOSITE, .labels = LABELS, .infer = infer_attention, .vjp = vjp_attention,
  .ref = ref_attention, .expand = expand_attention, .tolerance = 4e-6,
  .cases = (const BluOpCase[]){
    QKV("1x2x3x2", "1x2x3x2", "1x2x3x2", "", "1x2x3x2"), QKV("2x2x3x2", "2x2x3x2", "2x2x3x2", "{causal = true} ", "2x2x3x2"),
    QKV("1x4x2x3", "1x2x5x3", "1x2x5x2", "{causal = true, scale = 0.7} ", "1x4x2x2"),
    QKV("1x1x4x2", "1x1x2x2", "1x1x2x2", "{causal = true} ", "1x1x4x2") /* the first two queries see no key */,
    QKV("1x1x130x1", "1x1x131x1", "1x1x131x1", "{causal = true} ", "1x1x130x1") /* tiles of queries and of keys */,
    QKV("2x8x3x2", "2x4x5x2", "2x4x5x1", "", "2x8x3x1"), {0}}};
const BluRule blu_rule_masked_attention = {.kind = BLU_KIND_COMPOSITE, .labels = LABELS " bool mask-fits",
    .infer = infer_attention,
  .vjp = vjp_attention, .ref = ref_attention, .expand = expand_attention, .tolerance = 4e-6,
  .cases = (const BluOpCase[]){
    QKVM("2x2x3x2", "2x2x4x2", "3x4", ""), QKVM("2x4x3x2", "2x2x3x2", "2x1x1x3", "{causal = true} "), QKVM("1x4x3x2", "1x2x3x2",
        "4x3x3", ""),
    QKVM("2x4x2x2", "2x1x3x2", "2x4x2x3", ""), QKVM("2x4x3x2", "2x2x5x2", "3x5", ""),
    QKVM("2x4x3x2", "2x2x5x2", "2x1x1x5", ""), QKVM("2x4x3x2", "2x2x5x2", "1x4x3x5", "{causal = true} "), {0}}};
