/* ops_activate.c - gelu, gelu_tanh and silu: composites, for gradients that reuse what the forward has computed and stay finite
 * wherever their limit is. */
#include <math.h>
#include "dialects_internal.h"

static const double ROOT_HALF = 0.70710678118654752440, ROOT_2_PI = 0.79788456080286535588, CUBIC = 0.044715;

static bool infer_activation(BluSig *s, BluWhy *why) { return blu_require_float(s, why, 0) && blu_infer_same(s, why); }

#define EACH(expression)                                                        \
  BluElem e = c->sig->out.elem;                                                 \
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) {           \
    const double x = c->in[0][i];                                               \
    (void)e;                                                                    \
    c->out[i] = (expression);                                                   \
  }
static void ref_gelu(BluRefCall *c) { EACH(x * 0.5 * (1 + erf(x * blu_rounded(e, ROOT_HALF)))) }
/* 1 + tanh(u) = 2 / (1 + exp(-2 u)), which keeps its digits where tanh is nearly -1. */
static void ref_gelu_tanh(BluRefCall *c) { EACH(x / (1 + exp(-2 * blu_rounded(e, ROOT_2_PI) * x * (1 + blu_rounded(e, CUBIC) * x * x)))) }
static void ref_silu(BluRefCall *c) { EACH(x / (1 + exp(-x))) }

static MlirValue mul(BluBuilder *b, MlirValue x, MlirValue y) { return blu_build2(b, "mul", x, y); }
static MlirValue plus(BluBuilder *b, MlirValue x, double c) { return blu_build2(b, "add", x, blu_constant_like(b, x, c)); }

/* Phi(x), the normal distribution: (1 + erf(x / sqrt 2)) / 2 */
static MlirValue phi(BluBuilder *b, MlirValue x) { return blu_scaled(b, plus(b, blu_build1(b, "erf", blu_scaled(b, x,
    ROOT_HALF)), 1), 0.5); }

static MlirValue expand_gelu(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  (void)s;
  return mul(b, in[0], phi(b, in[0]));
}

static void vjp_gelu(BluVjp *v) { /* Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi) */
  BluBuilder *b = v->b;
  MlirValue x = v->in[0], bell = blu_build1(b, "exp", blu_scaled(b, mul(b, x, x), -0.5));
  v->dx[0] = blu_strong_mul(b, v->ct, blu_build2(b, "add", phi(b, x), mul(b, x, blu_scaled(b, bell, 0.5 * ROOT_2_PI))));
}

/* (1 + tanh u) / 2 = 1 / (1 + e^-2u) with u = sqrt(2 / pi) (x + 0.044715 x^3): one exp, and exact where 1 + tanh u would cancel. */
static MlirValue tanh_part(BluBuilder *b, MlirValue x, MlirValue *square) {
  *square = mul(b, x, x);
  return blu_build1(b, "sigmoid", mul(b, blu_scaled(b, x, 2 * ROOT_2_PI), plus(b, blu_scaled(b, *square, CUBIC), 1)));
}

static MlirValue expand_gelu_tanh(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  (void)s;
  MlirValue square;
  return mul(b, in[0], tanh_part(b, in[0], &square));
}

/* s + x s (1 - s) 2 u'; where s (1 - s) is 0 its factor may have overflowed and is left out. */
static void vjp_gelu_tanh(BluVjp *v) {
  BluBuilder *b = v->b;
  MlirValue x = v->in[0], square, s = tanh_part(b, x, &square), zero = blu_constant_like(b, x, 0);
  MlirValue flat = mul(b, s, blu_build2(b, "sub", blu_constant_like(b, x, 1), s));
  MlirValue slope = mul(b, blu_scaled(b, x, 2 * ROOT_2_PI), plus(b, blu_scaled(b, square, 3 * CUBIC), 1));
  MlirValue bend = blu_where(b, blu_build2(b, "eq", flat, zero), zero, mul(b, flat, slope));
  v->dx[0] = blu_strong_mul(b, v->ct, blu_build2(b, "add", s, bend));
}

static MlirValue expand_silu(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  (void)s;
  return mul(b, in[0], blu_build1(b, "sigmoid", in[0]));
}

static void vjp_silu(BluVjp *v) { /* s (1 + x (1 - s)) */
  BluBuilder *b = v->b;
  MlirValue x = v->in[0], s = blu_build1(b, "sigmoid", x), rest = blu_build2(b, "sub", blu_constant_like(b, x, 1), s);
  v->dx[0] = blu_strong_mul(b, v->ct, mul(b, s, plus(b, mul(b, x, rest), 1)));
}

#define RULE(op, tol)                                                                                                 \
  const BluRule blu_rule_##op = {.kind = BLU_KIND_COMPOSITE, .labels = "float", .infer = infer_activation, .vjp = vjp_##op, \
    .ref = ref_##op, .expand = expand_##op, .tolerance = tol,                                                         \
    .cases = (const BluOpCase[]){{"%a: tensor<3x5xf64>", "%r = blu." #op " %a : tensor<3x5xf64>", -4, 4, 0}, {0}}};
/* Two or three roundings around one polynomial, of values up to 4. */
RULE(gelu, 1e-6)
RULE(gelu_tanh, 1e-6)
RULE(silu, 1e-6)
