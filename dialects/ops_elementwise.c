/* ops_elementwise.c - result element i from the operands' elements i. Operands have one shape and one element type: the
 * front end inserts broadcasts and casts, and the gradient of a broadcast is the broadcast's own business. */
#include <math.h>
#include "dialects/format.h"
#include "dialects_internal.h"

enum { A, B, C }; /* operands */

/* ---- infer ---- */

static bool infer_float(BluSig *s, BluWhy *why) { return blu_require_float(s, why, A) && blu_infer_same(s, why); }

static bool infer_number(BluSig *s, BluWhy *why) {
  if (s->in[A].elem == BLU_BOOL) return blu_refuse(why, "number", A, "expected numbers, found bool");
  if (s->in[A].elem == BLU_U8) return blu_refuse(why, "number", A, "u8 is for data and has no arithmetic: cast it first");
  return blu_infer_same(s, why);
}

static bool infer_logical(BluSig *s, BluWhy *why) {
  for (int i = 0; i < s->nin; i++)
    if (s->in[i].elem != BLU_BOOL) return blu_refuse(why, "bool", i, "expected bool, found %s", blu_elem_name(s->in[i].elem));
  return blu_infer_same(s, why);
}

static bool infer_compare(BluSig *s, BluWhy *why) {
  if (!blu_infer_same(s, why)) return false;
  s->out.elem = BLU_BOOL;
  return true;
}

static bool infer_where(BluSig *s, BluWhy *why) {
  if (s->in[A].elem != BLU_BOOL) return blu_refuse(why, "bool", A, "the condition is %s, not bool", blu_elem_name(s->in[A].elem));
  BluSig branches = {.nin = 2, .in = {s->in[B], s->in[C]}};
  if (!blu_infer_same(&branches, why)) return why->operand = C, false;
  s->out = branches.out;
  BluSig shapes = {.nin = 2, .in = {branches.out, s->in[A]}};
  shapes.in[1].elem = branches.out.elem;
  if (!blu_infer_same(&shapes, why)) return why->operand = A, false;
  return true;
}

static bool infer_cast(BluSig *s, BluWhy *why) {
  (void)why;
  s->out = s->in[A];
  s->out.elem = (BluElem)blu_attr_int(&s->attrs, "to", BLU_F32);
  return true;
}

/* ---- meaning ---- */

#define EACH(expression)                                    \
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) { \
    const double a = c->in[A][i], b = c->sig->nin > 1 ? c->in[B][i] : 0; \
    (void)a, (void)b;                                       \
    c->out[i] = (expression);                               \
  }
#define REF(name, expression) static void ref_##name(BluRefCall *c) { EACH(expression) }
REF(neg, -a)
REF(abs, fabs(a))
REF(floor, floor(a))
REF(exp, exp(a))
REF(log, log(a))
REF(sqrt, sqrt(a))
REF(rsqrt, 1 / sqrt(a))
REF(sin, sin(a))
REF(cos, cos(a))
REF(tanh, tanh(a))
REF(sigmoid, 1 / (1 + exp(-a)))
REF(sign, a > 0 ? 1 : a < 0 ? -1 : a)
REF(expm1, expm1(a))
REF(log1p, log1p(a))
REF(erf, erf(a))
REF(relu, a <= 0 ? 0 : a)
REF(not, a == 0)
REF(add, a + b)
REF(sub, a - b)
REF(mul, a * b)
REF(pow, pow(a, b))
REF(maximum, isnan(a) || isnan(b) ? NAN : a > b ? a : b)
REF(minimum, isnan(a) || isnan(b) ? NAN : a < b ? a : b)
REF(and, a != 0 && b != 0)
REF(or, a != 0 || b != 0)
REF(eq, a == b)
REF(ne, a != b)
REF(lt, a < b)
REF(le, a <= b)
REF(gt, a > b)
REF(ge, a >= b)

static void ref_div(BluRefCall *c) {
  if (blu_elem_is_float(c->sig->out.elem)) EACH(a / b)
  else EACH(b == 0 ? 0 : trunc(a / b))
}

static void ref_where(BluRefCall *c) {
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = c->in[A][i] != 0 ? c->in[B][i] : c->in[C][i];
}

static double saturate(double x, double lo, double hi) { return isnan(x) ? 0 : x < lo ? lo : x > hi ? hi : trunc(x); }

static void ref_cast(BluRefCall *c) {
  switch (c->sig->out.elem) {
  case BLU_I32: EACH(saturate(a, -2147483648.0, 2147483647.0)) break;
  case BLU_I64: EACH(saturate(a, -9223372036854775808.0, 9223372036854775807.0)) break;
  case BLU_U8: EACH(saturate(a, 0, 255)) break;
  case BLU_BOOL: EACH(a != 0) break;
  default: EACH(a) break;
  }
}

/* ---- gradients ---- */

/* ---- round_to ---- */

static BluFormat format_of(const BluAttrs *as) {
  return (BluFormat){(int)blu_attr_int(as, "exponent", 8), (int)blu_attr_int(as, "mantissa", 23), blu_attr_int(as, "denormals", 1) != 0,
                     blu_attr_int(as, "saturate", 0) != 0};
}

static bool infer_round_to(BluSig *s, BluWhy *why) {
  int64_t e = blu_attr_int(&s->attrs, "exponent", 0), m = blu_attr_int(&s->attrs, "mantissa", 0);
  if (s->in[A].elem != BLU_F32) return blu_refuse(why, "f32", A, "expected f32 elements, found %s", blu_elem_name(s->in[A].elem));
  if (e < 2 || e > 8) return blu_refuse(why, "format", -1, "a format has 2 to 8 exponent bits, not %lld", (long long)e);
  if (m < 1 || m > 23) return blu_refuse(why, "format", -1, "a format has 1 to 23 mantissa bits, not %lld", (long long)m);
  s->out = s->in[A];
  return true;
}

static void ref_round_to(BluRefCall *c) {
  BluFormat f = format_of(&c->sig->attrs);
  EACH(blu_format_round(&f, a))
}

#define X(i) (v->in[i])
#define OP1(name, x) blu_build1(v->b, name, x)
#define OP2(name, x, y) blu_build2(v->b, name, x, y)
#define NUM(value) blu_constant_like(v->b, v->ct, value)
#define WHERE(c, x, y) blu_build(v->b, "where", NULL, 3, (MlirValue[]){c, x, y})
#define STRONG(factor) blu_strong_mul(v->b, v->ct, factor)
#define VJP(name) static void vjp_##name(BluVjp *v)

VJP(neg) { v->dx[A] = OP1("neg", v->ct); }
VJP(abs) { /* 0 at 0 */
  MlirValue zero = NUM(0), negative = WHERE(OP2("lt", X(A), zero), OP1("neg", v->ct), zero);
  v->dx[A] = WHERE(OP2("gt", X(A), zero), v->ct, negative);
}
VJP(exp) { v->dx[A] = STRONG(v->out); }
VJP(log) { v->dx[A] = STRONG(OP2("div", NUM(1), X(A))); }
VJP(sqrt) { v->dx[A] = STRONG(OP2("div", NUM(0.5), v->out)); }
VJP(rsqrt) { v->dx[A] = STRONG(OP2("mul", NUM(-0.5), OP2("div", v->out, X(A)))); }
VJP(expm1) { v->dx[A] = STRONG(OP2("add", v->out, NUM(1))); }
VJP(log1p) { v->dx[A] = STRONG(OP2("div", NUM(1), OP2("add", NUM(1), X(A)))); }
VJP(erf) { /* 2 / sqrt(pi) e^-x^2 */
  MlirValue slope = OP2("mul", NUM(1.1283791670955126), OP1("exp", OP1("neg", OP2("mul", X(A), X(A)))));
  v->dx[A] = OP2("mul", v->ct, slope);
}
VJP(sin) { v->dx[A] = STRONG(OP1("cos", X(A))); }
VJP(cos) { v->dx[A] = STRONG(OP1("neg", OP1("sin", X(A)))); }
VJP(tanh) { v->dx[A] = OP2("mul", v->ct, OP2("sub", NUM(1), OP2("mul", v->out, v->out))); }
VJP(sigmoid) { v->dx[A] = OP2("mul", v->ct, OP2("mul", v->out, OP2("sub", NUM(1), v->out))); }
VJP(relu) { MlirValue zero = NUM(0); v->dx[A] = WHERE(OP2("le", X(A), zero), zero, v->ct); }
VJP(add) { v->dx[A] = v->dx[B] = v->ct; }
VJP(sub) {
  v->dx[A] = v->ct;
  if (v->need[B]) v->dx[B] = OP1("neg", v->ct);
}
VJP(mul) {
  if (v->need[A]) v->dx[A] = OP2("mul", v->ct, X(B));
  if (v->need[B]) v->dx[B] = OP2("mul", v->ct, X(A));
}
VJP(div) {
  if (v->need[A]) v->dx[A] = STRONG(OP2("div", NUM(1), X(B)));
  if (v->need[B]) v->dx[B] = STRONG(OP1("neg", OP2("div", v->out, X(B))));
}
VJP(pow) {
  MlirValue zero = NUM(0);
  if (v->need[A]) { /* b a^(b-1); 0 where b is 0 */
    MlirValue slope = OP2("mul", X(B), OP2("pow", X(A), OP2("sub", X(B), NUM(1))));
    v->dx[A] = STRONG(WHERE(OP2("eq", X(B), zero), zero, slope));
  }
  if (v->need[B]) { /* a^b log a; 0 where a is 0 and the power too */
    MlirValue slope = OP2("mul", v->out, OP1("log", X(A)));
    v->dx[B] = STRONG(WHERE(OP2("eq", v->out, zero), zero, slope));
  }
}
static void vjp_extremum(BluVjp *v, const char *beats) { /* a tie gives half to each */
  MlirValue half = OP2("mul", v->ct, NUM(0.5)), zero = NUM(0), tie = OP2("eq", X(A), X(B));
  MlirValue a_wins = OP2(beats, X(A), X(B));
  if (v->need[A]) v->dx[A] = WHERE(tie, half, WHERE(a_wins, v->ct, zero));
  if (v->need[B]) v->dx[B] = WHERE(tie, half, WHERE(a_wins, zero, v->ct));
}
VJP(maximum) { vjp_extremum(v, "gt"); }
VJP(minimum) { vjp_extremum(v, "lt"); }
VJP(where) {
  MlirValue zero = NUM(0);
  if (v->need[B]) v->dx[B] = WHERE(X(A), v->ct, zero);
  if (v->need[C]) v->dx[C] = WHERE(X(A), zero, v->ct);
}
VJP(round_to) {
  BluFormat f = format_of(&v->sig.attrs);
  v->dx[A] = WHERE(OP2("gt", OP1("abs", X(A)), NUM(blu_format_max(&f))), NUM(0), v->ct);
}
VJP(cast) {
  if (blu_elem_is_float(v->sig.in[A].elem)) v->dx[A] = blu_cast_to(v->b, v->ct, v->sig.in[A].elem);
}

/* ---- lowering ---- */

#define LOWER(name) static BluEmitVal lower_##name(BluEmit *e, const BluAttrs *at, const BluEmitVal *x, int n)
#define UNUSED (void)at, (void)n
#define F(p) BLU_PRIM_##p
#define IS_FLOAT(x) blu_elem_is_float((x).elem)

LOWER(neg) {
  UNUSED;
  return IS_FLOAT(x[A]) ? blu_emit1(e, F(FNEG), x[A]) : blu_emit2(e, F(ISUB), e->bits(e, x[A].elem, 0), x[A]);
}
LOWER(abs) {
  if (IS_FLOAT(x[A])) return blu_emit1(e, F(FABS), x[A]);
  return blu_emit3(e, F(SELECT), blu_emit2(e, F(LT), x[A], e->bits(e, x[A].elem, 0)), lower_neg(e, at, x, n), x[A]);
}
LOWER(floor) { UNUSED; return blu_emit1(e, F(FFLOOR), x[A]); }
LOWER(exp) { UNUSED; return blu_emit_exp(e, x[A]); }
LOWER(log) { UNUSED; return blu_emit_log(e, x[A]); }
LOWER(sqrt) { UNUSED; return blu_emit1(e, F(FSQRT), x[A]); }
LOWER(rsqrt) { UNUSED; return blu_emit2(e, F(FDIV), blu_emit_real(e, x[A], 1), blu_emit1(e, F(FSQRT), x[A])); }
LOWER(sin) { UNUSED; return blu_emit_sincos(e, x[A], false); }
LOWER(cos) { UNUSED; return blu_emit_sincos(e, x[A], true); }
LOWER(tanh) { UNUSED; return blu_emit_tanh(e, x[A]); }
LOWER(sigmoid) { UNUSED; return blu_emit_sigmoid(e, x[A]); }
LOWER(expm1) { UNUSED; return blu_emit_expm1(e, x[A]); }
LOWER(log1p) { UNUSED; return blu_emit_log1p(e, x[A]); }
LOWER(erf) { UNUSED; return blu_emit_erf(e, x[A]); }
LOWER(sign) { /* zeros and NaN are their own sign */
  UNUSED;
  BluEmitVal zero = blu_emit_real(e, x[A], 0), below = blu_emit2(e, F(LT), x[A], zero), above = blu_emit2(e, F(GT), x[A], zero);
  return blu_emit3(e, F(SELECT), above, blu_emit_real(e, x[A], 1), blu_emit3(e, F(SELECT), below, blu_emit_real(e, x[A], -1),
      x[A]));
}
LOWER(relu) {
  UNUSED;
  BluEmitVal zero = blu_emit_real(e, x[A], 0);
  return blu_emit3(e, F(SELECT), blu_emit2(e, F(LE), x[A], zero), zero, x[A]);
}
LOWER(not) { UNUSED; return blu_emit2(e, F(XOR), x[A], e->bits(e, BLU_BOOL, 1)); }
LOWER(add) { UNUSED; return blu_emit2(e, IS_FLOAT(x[A]) ? F(FADD) : F(IADD), x[A], x[B]); }
LOWER(sub) { UNUSED; return blu_emit2(e, IS_FLOAT(x[A]) ? F(FSUB) : F(ISUB), x[A], x[B]); }
LOWER(mul) { UNUSED; return blu_emit2(e, IS_FLOAT(x[A]) ? F(FMUL) : F(IMUL), x[A], x[B]); }
LOWER(div) {
  UNUSED;
  if (IS_FLOAT(x[A])) return blu_emit2(e, F(FDIV), x[A], x[B]);
  /* integers: in double, exact for 32 bits (infer admits no i64); x / 0 is 0 */
  BluEmitVal a = e->prim(e, F(CAST), BLU_F64, x[A], x[A], x[A]), b = e->prim(e, F(CAST), BLU_F64, x[B], x[B], x[B]);
  BluEmitVal q = blu_emit2(e, F(FDIV), a, b), zero = e->constant(e, BLU_F64, 0);
  q = blu_emit3(e, F(SELECT), blu_emit2(e, F(EQ), b, zero), zero, q);
  return e->prim(e, F(CAST), x[A].elem, q, q, q);
}
LOWER(pow) { UNUSED; return blu_emit_pow(e, x[A], x[B]); }
static BluEmitVal extremum(BluEmit *e, BluPrim beats, BluEmitVal a, BluEmitVal b) { /* a, unless b beats it or is NaN */
  BluEmitVal take_b = blu_emit2(e, F(OR), blu_emit2(e, beats, b, a), blu_emit2(e, F(NE), b, b));
  BluEmitVal a_is_nan = blu_emit2(e, F(NE), a, a);
  return blu_emit3(e, F(SELECT), a_is_nan, a, blu_emit3(e, F(SELECT), take_b, b, a));
}
LOWER(maximum) { UNUSED; return extremum(e, F(GT), x[A], x[B]); }
LOWER(minimum) { UNUSED; return extremum(e, F(LT), x[A], x[B]); }
LOWER(and) { UNUSED; return blu_emit2(e, F(AND), x[A], x[B]); }
LOWER(or) { UNUSED; return blu_emit2(e, F(OR), x[A], x[B]); }
LOWER(eq) { UNUSED; return blu_emit2(e, F(EQ), x[A], x[B]); }
LOWER(ne) { UNUSED; return blu_emit2(e, F(NE), x[A], x[B]); }
LOWER(lt) { UNUSED; return blu_emit2(e, F(LT), x[A], x[B]); }
LOWER(le) { UNUSED; return blu_emit2(e, F(LE), x[A], x[B]); }
LOWER(gt) { UNUSED; return blu_emit2(e, F(GT), x[A], x[B]); }
LOWER(ge) { UNUSED; return blu_emit2(e, F(GE), x[A], x[B]); }
LOWER(where) { UNUSED; return blu_emit3(e, F(SELECT), x[A], x[B], x[C]); }
LOWER(cast) {
  (void)n;
  BluElem to = (BluElem)blu_attr_int(at, "to", BLU_F32);
  if (to == BLU_BOOL) return blu_emit2(e, F(NE), x[A], IS_FLOAT(x[A]) ? e->constant(e, x[A].elem, 0) : e->bits(e, x[A].elem, 0));
  return x[A].elem == to ? x[A] : e->prim(e, F(CAST), to, x[A], x[A], x[A]);
}

LOWER(round_to) {
  (void)n;
  BluFormat f = format_of(at);
  return blu_emit_round_to(e, &f, x[A]);
}

static bool infer_div(BluSig *s, BluWhy *why) {
  if (s->in[A].elem == BLU_I64) return blu_refuse(why, "div-exact", A, "i64 has no division");
  return infer_number(s, why);
}

/* ---- the rules ---- */

#define T1 "%a: tensor<3x5xf64>"
#define T2 "%a: tensor<3x5xf64>, %b: tensor<3x5xf64>"
#define CASE1(op, from, to) \
  (const BluOpCase[]) { {T1, "%r = blu." op " %a : tensor<3x5xf64>", from, to, 0}, {0} }
#define CASE2(op, from, to)                                                          \
  (const BluOpCase[]) {                                                              \
    {T2, "%r = blu." op " %a, %b : tensor<3x5xf64>", from, to, 0},                   \
    {"%a: tensor<4xf64>", "%r = blu." op " %a, %a : tensor<4xf64>", from, to, 0}, {0} \
  }
#define COMPARE(op)                                                                                                     \
  (const BluOpCase[]) {                                                                                                 \
    {T2, "%m = blu." op " %a, %b : (tensor<3x5xf64>, tensor<3x5xf64>) -> tensor<3x5xi1>\n"                              \
         "%r = blu.where %m, %a, %b : (tensor<3x5xi1>, tensor<3x5xf64>, tensor<3x5xf64>) -> tensor<3x5xf64>", -2, 2, 0}, \
    {0}                                                                                                                 \
  }

/* Tolerances, relative to max(1, |ref|): a few units of 2^-24 for one rounding; the polynomials are within 2 ulp. */
#define ONE_ROUNDING 1.2e-7
#define POLYNOMIAL 4e-7
#define LABELS_infer_float "float same-type same-shape"
#define LABELS_infer_number "number same-type same-shape"
#define LABELS_infer_logical "bool same-shape"
#define LABELS_infer_compare "same-type same-shape"
#define LABELS_infer_where "bool same-type same-shape"
#define LABELS_infer_cast ""
#define LABELS_infer_round_to "f32 format"
#define LABELS_infer_div "div-exact number same-type same-shape"
#define FIELDS(op, check, gradient, flat) \
  .kind = BLU_KIND_ELEMENT, .infer = check, .labels = LABELS_##check, .vjp = gradient, .ref = ref_##op, .lower = lower_##op, .nodiff = flat
#define RULE(op, check, gradient, flat, tests, tol) \
  const BluRule blu_rule_##op = {FIELDS(op, check, gradient, flat), .cases = tests, .tolerance = tol};
#define EXACT(op, check, gradient, flat, tests, tol) \
  const BluRule blu_rule_##op = {FIELDS(op, check, gradient, flat), .cases = tests, .tolerance = tol, .exact = true};
#define NONE ((const BluOpCase[]){{0}})

EXACT(neg, infer_number, vjp_neg, false, CASE1("neg", -2, 2), ONE_ROUNDING)
EXACT(abs, infer_number, vjp_abs, false, CASE1("abs", -2, 2), ONE_ROUNDING)
EXACT(floor, infer_float, NULL, true, CASE1("floor", -4, 4), ONE_ROUNDING)
RULE(exp, infer_float, vjp_exp, false, CASE1("exp", -5, 5), POLYNOMIAL)
RULE(log, infer_float, vjp_log, false, CASE1("log", 0.1, 9), POLYNOMIAL)
RULE(sqrt, infer_float, vjp_sqrt, false, CASE1("sqrt", 0.1, 9), ONE_ROUNDING)
RULE(rsqrt, infer_float, vjp_rsqrt, false, CASE1("rsqrt", 0.1, 9), 2 * ONE_ROUNDING)
RULE(sin, infer_float, vjp_sin, false, CASE1("sin", -9, 9), POLYNOMIAL)
RULE(cos, infer_float, vjp_cos, false, CASE1("cos", -9, 9), POLYNOMIAL)
RULE(tanh, infer_float, vjp_tanh, false, CASE1("tanh", -3, 3), POLYNOMIAL)
RULE(sigmoid, infer_float, vjp_sigmoid, false, CASE1("sigmoid", -5, 5), POLYNOMIAL)
EXACT(relu, infer_number, vjp_relu, false, CASE1("relu", -2, 2), ONE_ROUNDING)
EXACT(sign, infer_number, NULL, true, CASE1("sign", -2, 2), ONE_ROUNDING)
RULE(expm1, infer_float, vjp_expm1, false, CASE1("expm1", -3, 3), POLYNOMIAL)
RULE(log1p, infer_float, vjp_log1p, false, CASE1("log1p", -0.9, 9), POLYNOMIAL)
RULE(erf, infer_float, vjp_erf, false, CASE1("erf", -3, 3), POLYNOMIAL)
EXACT(not, infer_logical, NULL, true, NONE, 0)
RULE(add, infer_number, vjp_add, false, CASE2("add", -2, 2), ONE_ROUNDING)
RULE(sub, infer_number, vjp_sub, false, CASE2("sub", -2, 2), ONE_ROUNDING)
RULE(mul, infer_number, vjp_mul, false, CASE2("mul", -2, 2), ONE_ROUNDING)
RULE(div, infer_div, vjp_div, false, CASE2("div", 0.2, 3), ONE_ROUNDING)
RULE(pow, infer_float, vjp_pow, false, CASE2("pow", 0.2, 3), ONE_ROUNDING)
EXACT(maximum, infer_number, vjp_maximum, false, CASE2("maximum", -2, 2), ONE_ROUNDING)
EXACT(minimum, infer_number, vjp_minimum, false, CASE2("minimum", -2, 2), ONE_ROUNDING)
EXACT(and, infer_logical, NULL, true, NONE, 0)
EXACT(or, infer_logical, NULL, true, NONE, 0)
EXACT(eq, infer_compare, NULL, true, COMPARE("eq"), 0)
EXACT(ne, infer_compare, NULL, true, COMPARE("ne"), 0)
EXACT(lt, infer_compare, NULL, true, COMPARE("lt"), 0)
EXACT(le, infer_compare, NULL, true, COMPARE("le"), 0)
EXACT(gt, infer_compare, NULL, true, COMPARE("gt"), 0)
EXACT(ge, infer_compare, NULL, true, COMPARE("ge"), 0)
EXACT(where, infer_where, vjp_where, false, COMPARE("lt"), 0)
#define ROUND(widths) {"%a: tensor<3x5xf32>", "%r = blu.round_to %a {" widths "} : (tensor<3x5xf32>) -> tensor<3x5xf32>", -2, 2, 0}
EXACT(round_to, infer_round_to, vjp_round_to, false,
      ((const BluOpCase[]){ROUND("exponent = 6, mantissa = 9"), ROUND("exponent = 5, mantissa = 2, denormals = false, saturate = true"), {0}}), 0)
EXACT(cast, infer_cast, vjp_cast, false,
     ((const BluOpCase[]){{"%a: tensor<3x5xf32>", "%r = blu.cast %a {to = f64} : (tensor<3x5xf32>) -> tensor<3x5xf64>", -2, 2,
         0}, {0}}),
     ONE_ROUNDING)
