/* ops_attention_whole.c - what attention is made of where a kernel computes it whole, tile by tile, so that the scores of all queries and keys are
 * never in memory: its result, the logarithm of each query's sum (lse), and gradients that compute the weights again from that. Elsewhere these ops
 * are composites like any other. */
#include <math.h>
#include <stdint.h>
#include "dialects_internal.h"

/* Operands: q, k, [mask] of attention_lse; q, k, v, lse, delta, ct, [mask] of attention_grad. */
enum { Q, K, V, LSE, DELTA, CT, GRAD_MASK };
typedef BluAttention Shape;

/* ---- where ---- */

/* Numbers of a query, a key or a value that a device's kernel keeps of a tile: codegen/cuda/attention.c has room for so many. */
enum { MOST_DEPTH = 128 };

static bool fits_device(const BluSig *s, bool scores) {
  Shape a = blu_attention_of(s);
  int64_t most = INT32_MAX / 256; /* heads, queries and keys: so many blocks can be launched */
  bool narrow = a.d <= MOST_DEPTH && a.dv <= MOST_DEPTH, few = a.t < most && a.s < most && a.b * a.g * a.r < most;
  return s->in[Q].elem == BLU_F32 && (a.dv || scores) && narrow && few && a.b * a.g * a.r * (a.t + a.s) < INT32_MAX;
}

static bool stays(MlirModule m, const BluSig *s) {
  Shape a = blu_attention_of(s);
  bool scores = s->nin - (a.mask >= 0) == V; /* no values: the logarithm of sums */
  if (mlirModuleIsNull(m) || (s->in[Q].elem != BLU_F32 && s->in[Q].elem != BLU_F64) || (!a.dv && !scores)) return false;
  return !blu_targets_device(m) || fits_device(s, scores);
}

bool blu_attention_stays(const BluBuilder *b, const BluSig *s) { return stays(blu_module_of(mlirBlockGetParentOperation(b->block)), s); }

bool blu_attention_is_whole(MlirOperation op) {
  static const char *const names[] = {"attention", "masked_attention", "attention_lse", "masked_attention_lse", "attention_grad", "masked_attention_grad"};
  BluSig s;
  bool is = false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) is |= blu_is(op, names[i]);
  if (!is) return false;
  blu_sig_of(op, &s);
  return stays(blu_module_of(op), &s);
}

/* ---- types ---- */

static bool infer_lse(BluSig *s, BluWhy *why) {
  const BluType *q = &s->in[Q], *k = &s->in[K];
  if (!blu_require_float(s, why, Q)) return false;
  bool fit = q->rank == 4 && k->rank == 4 && q->elem == k->elem && q->dim[0] == k->dim[0] && k->dim[1] && q->dim[1] % k->dim[1] == 0 &&
             q->dim[3] == k->dim[3] && q->dim[3] && k->dim[2];
  if (!fit) return blu_refuse(why, "attention-operands", K, "these are no queries and keys of an attention");
  if (s->nin > V && !blu_attention_mask_fits(s, why)) return false;
  s->out = blu_type_make(q->elem, 3, q->dim);
  return true;
}

static bool infer_grad(BluSig *s, BluWhy *why) {
  const BluType *q = &s->in[Q], *k = &s->in[K], *v = &s->in[V];
  int64_t of = blu_attr_int(&s->attrs, "of", -1);
  BluSig scores = *s;
  scores.nin = V;
  if (!infer_lse(&scores, why)) return false;
  if (of < 0 || of > 2) return blu_refuse(why, "attention-operands", -1, "`of` is %lld: there are q (0), k (1) and v (2)", (long long)of);
  BluType values = *k, ct = *q;
  values.dim[3] = v->rank == 4 ? v->dim[3] : 0, ct.dim[3] = values.dim[3];
  const BluType *wanted[] = {[V] = &values, [LSE] = &scores.out, [DELTA] = &scores.out, [CT] = &ct};
  for (int i = V; i <= CT; i++)
    if (!blu_type_same(&s->in[i], wanted[i])) return blu_refuse(why, "attention-operands", i, "this is no attention's");
  if (s->nin > GRAD_MASK && !blu_attention_mask_fits(s, why)) return false;
  s->out = s->in[of];
  return true;
}

/* ---- meaning ---- */

static double score_of(const BluRefCall *c, const Shape *a, int64_t row, int64_t key) {
  double dot = 0;
  for (int64_t e = 0; e < a->d; e++) dot += c->in[Q][row * a->d + e] * c->in[K][key * a->d + e];
  return dot * blu_rounded(c->sig->in[Q].elem, a->scale);
}

static void ref_lse(BluRefCall *c) {
  Shape a = blu_attention_of(c->sig);
  bool masked = a.causal || a.mask >= 0;
  for (int64_t row = 0, heads = a.g * a.r; row < a.b * heads * a.t; row++) {
    int64_t i = row % a.t, head = row / a.t % heads, batch = row / a.t / heads, keys = (batch * a.g + head / a.r) * a.s;
    double most = -INFINITY, sum = 0;
    for (int pass = 0; pass < 2; pass++)
      for (int64_t j = 0; j < a.s; j++) {
        if (!blu_attention_sees(c, &a, batch, head, i, j)) continue;
        double x = score_of(c, &a, row, keys + j);
        if (pass) sum += exp(x - (masked && most == -INFINITY ? 0 : most));
        else if (x > most || isnan(x)) most = x;
      }
    c->out[row] = masked && sum == 0 ? 0 : most + log(sum);
  }
}

static void ref_grad(BluRefCall *c) {
  Shape a = blu_attention_of(c->sig);
  int64_t of = blu_attr_int(&c->sig->attrs, "of", 0), heads = a.g * a.r, width = of == V ? a.dv : a.d;
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = 0;
  for (int64_t row = 0; row < a.b * heads * a.t; row++) {
    int64_t head = row / a.t % heads, batch = row / a.t / heads, keys = (batch * a.g + head / a.r) * a.s;
    const double *ct = c->in[CT] + row * a.dv;
    for (int64_t j = 0; j < a.s; j++) {
      const double *v = c->in[V] + (keys + j) * a.dv;
      double p = blu_attention_sees(c, &a, batch, head, row % a.t, j) ? exp(score_of(c, &a, row, keys + j) - c->in[LSE][row]) : 0, dp = 0;
      for (int64_t e = 0; e < a.dv; e++) dp += ct[e] * v[e];
      double by = of == V ? p : p * (dp - c->in[DELTA][row]) * blu_rounded(c->sig->in[Q].elem, a.scale);
      double *out = c->out + (of == Q ? row : keys + j) * width;
      const double *with = of == Q ? c->in[K] + (keys + j) * width : of == K ? c->in[Q] + row * width : ct;
      for (int64_t e = 0; e < width; e++) out[e] += by * with[e];
    }
  }
}

/* ---- expansion ---- */

static BluType heads5(BluElem e, const Shape *a, int64_t last) { return blu_type_make(e, 5, (int64_t[]){a->b, a->g, a->r, a->t, last}); }
static BluType heads4(BluElem e, const Shape *a, int64_t last) { return blu_type_make(e, 4, (int64_t[]){a->b, a->g, a->r * a->t, last}); }

static MlirValue expand_lse(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  Shape a = blu_attention_of(s);
  BluElem e = s->in[Q].elem;
  BluType full = heads5(e, &a, a.s);
  int64_t last = 4;
  MlirValue score = blu_attention_scores(b, s, &a, in), seen = blu_attention_visible(b, s, &a, in), most, sum;
  if (!mlirValueIsNull(seen)) score = blu_where(b, seen, score, blu_constant(b, &full, -INFINITY));
  most = blu_reduce(b, "max", score, 1, &last, true);
  MlirValue from = most, zero = blu_constant_like(b, most, 0);
  if (!mlirValueIsNull(seen)) from = blu_where(b, blu_build2(b, "eq", most, blu_constant_like(b, most, -INFINITY)), zero, most);
  sum = blu_reduce(b, "sum", blu_build1(b, "exp", blu_build2(b, "sub", score, blu_broadcast_to(b, from, &full))), 1, &last, true);
  MlirValue lse = blu_build2(b, "add", from, blu_build1(b, "log", sum));
  if (!mlirValueIsNull(seen)) lse = blu_where(b, blu_build2(b, "eq", sum, zero), zero, lse);
  return blu_reshape_to(b, lse, &s->out);
}

static MlirValue expand_grad(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  Shape a = blu_attention_of(s);
  BluElem e = s->in[Q].elem;
  int64_t of = blu_attr_int(&s->attrs, "of", 0);
  BluType full = heads5(e, &a, a.s), row = heads5(e, &a, 1), back = heads4(e, &a, a.s), cts = heads4(e, &a, a.dv), queries = heads4(e, &a, a.d);
  MlirValue score = blu_attention_scores(b, s, &a, in), seen = blu_attention_visible(b, s, &a, in), ct = blu_reshape_to(b, in[CT], &cts);
  MlirValue lse = blu_broadcast_to(b, blu_reshape_to(b, in[LSE], &row), &full), delta = blu_broadcast_to(b, blu_reshape_to(b, in[DELTA], &row), &full);
  MlirValue p = blu_build1(b, "exp", blu_build2(b, "sub", score, lse));
  if (!mlirValueIsNull(seen)) p = blu_where(b, seen, p, blu_constant(b, &full, 0));
  if (of == V) return blu_product(b, blu_reshape_to(b, p, &back), true, ct, false);
  MlirValue dp = blu_reshape_to(b, blu_product(b, ct, false, in[V], true), &full);
  MlirValue ds = blu_reshape_to(b, blu_scaled(b, blu_build2(b, "mul", p, blu_build2(b, "sub", dp, delta)), a.scale), &back);
  if (of == K) return blu_product(b, ds, true, blu_reshape_to(b, in[Q], &queries), false);
  return blu_reshape_to(b, blu_product(b, ds, false, in[K], false), &s->out);
}

/* ---- the gradient of attention ---- */

void blu_attention_vjp_whole(BluVjp *v) {
  const BluAttr *causal = blu_attr(&v->sig.attrs, "causal"), *scale = blu_attr(&v->sig.attrs, "scale");
  BluAttrs as = {0};
  bool masked = v->sig.nin > LSE;
  int64_t last = 3;
  if (causal) as = blu_attr_set_bool(as, "causal", causal->i[0]);
  if (scale) as = blu_attr_set_real(as, "scale", scale->real);
  MlirValue mask = masked ? v->in[V + 1] : (MlirValue){0};
  MlirValue lse = blu_build(v->b, masked ? "masked_attention_lse" : "attention_lse", &as, V + masked, (MlirValue[]){v->in[Q], v->in[K], mask});
  MlirValue delta = blu_reduce(v->b, "sum", blu_build2(v->b, "mul", v->ct, v->out), 1, &last, false);
  for (int i = 0; i < 3; i++) {
    BluAttrs of = blu_attr_set_int(as, "of", i);
    if (!v->need[i]) continue;
    v->dx[i] = blu_build(v->b, masked ? "masked_attention_grad" : "attention_grad", &of, GRAD_MASK + masked,
                         (MlirValue[]){v->in[Q], v->in[K], v->in[V], lse, delta, v->ct, mask});
  }
}

/* ---- rules ---- */

#define LSE_CASE(name, q, k, more, types, attrs, out)                                                                                     \
  {"%q: tensor<" q "xf64>, %k: tensor<" k "xf64>" more, "%r = blu." name attrs ": (tensor<" q "xf64>, tensor<" k "xf64>" types            \
   ") -> tensor<" out "xf64>", -1, 1, 2}
#define GRAD_CASE(name, q, k, v, rows, ct, more, types, attrs, out)                                                                       \
  {"%q: tensor<" q "xf64>, %k: tensor<" k "xf64>, %v: tensor<" v "xf64>, %l: tensor<" rows "xf64>, %d: tensor<" rows "xf64>, %c: tensor<" \
   ct "xf64>" more, "%r = blu." name attrs ": (tensor<" q "xf64>, tensor<" k "xf64>, tensor<" v "xf64>, tensor<" rows "xf64>, tensor<"    \
   rows "xf64>, tensor<" ct "xf64>" types ") -> tensor<" out "xf64>", -1, 1, 2}
#define GRAD(of, attrs, q, k, v, rows, ct, out) GRAD_CASE("attention_grad", q, k, v, rows, ct, "", "", " %q, %k, %v, %l, %d, %c {" attrs "of = " #of "} ", out)
#define MASKED(of, attrs, q, k, rows, m, out)                                                                                             \
  GRAD_CASE("masked_attention_grad", q, k, k, rows, q, ", %m: tensor<" m "xi1>", ", tensor<" m "xi1>",                                    \
            " %q, %k, %v, %l, %d, %c, %m {" attrs "of = " #of "} ", out)
#define LABELS "float attention-operands"
#define RULE(name, what, vjp_labels, ...)                                                                                                 \
  const BluRule blu_rule_##name = {.kind = BLU_KIND_COMPOSITE, .labels = LABELS vjp_labels, .infer = infer_##what, .vjp = blu_vjp_by_expansion, \
    .ref = ref_##what, .expand = expand_##what, .tolerance = 4e-6 /* as attention */, .cases = (const BluOpCase[]){__VA_ARGS__, {0}}};

RULE(attention_lse, lse, "", LSE_CASE("attention_lse", "1x2x3x2", "1x2x4x2", "", "", " %q, %k ", "1x2x3"),
     LSE_CASE("attention_lse", "1x4x5x3", "1x2x3x3", "", "", " %q, %k {causal = true, scale = 0.7} ", "1x4x5"))
RULE(masked_attention_lse, lse, " bool mask-fits",
     LSE_CASE("masked_attention_lse", "2x2x3x2", "2x1x4x2", ", %m: tensor<2x1x3x4xi1>", ", tensor<2x1x3x4xi1>", " %q, %k, %m ", "2x2x3"),
     LSE_CASE("masked_attention_lse", "1x2x3x2", "1x2x3x2", ", %m: tensor<3xi1>", ", tensor<3xi1>", " %q, %k, %m {causal = true} ", "1x2x3"))
RULE(attention_grad, grad, "", GRAD(0, "", "1x2x3x2", "1x2x4x2", "1x2x4x2", "1x2x3", "1x2x3x2", "1x2x3x2"),
     GRAD(1, "causal = true, ", "1x4x3x3", "1x2x5x3", "1x2x5x2", "1x4x3", "1x4x3x2", "1x2x5x3"),
     GRAD(2, "causal = true, scale = 0.7, ", "1x4x3x3", "1x2x2x3", "1x2x2x1", "1x4x3", "1x4x3x1", "1x2x2x1"))
RULE(masked_attention_grad, grad, " bool mask-fits", MASKED(0, "", "2x2x3x2", "2x1x4x2", "2x2x3", "2x1x1x4", "2x2x3x2"),
     MASKED(1, "causal = true, ", "1x2x3x2", "1x2x3x2", "1x2x3", "2x3x3", "1x2x3x2"), MASKED(2, "", "1x2x3x2", "1x1x4x2", "1x2x3", "3x4", "1x1x4x2"))
