/* ops_math.c - exp, log and friends as elementwise code: f32 by polynomials of our own evaluation, f64 by the runtime.
 * Coefficients: minimax fits published with the Cephes library (exp, log, tanh, sin, cos), public domain; expm1 and erf:
 * interpolation at Chebyshev nodes in 60 digits, for this file. Errors in f32, in units in the last place (tests/ops):
 * below 1.5, but expm1, log1p and sigmoid below 2.5. */
#include "dialects_internal.h"

#define P(p) BLU_PRIM_##p

BluEmitVal blu_emit1(BluEmit *e, BluPrim p, BluEmitVal a) { return e->prim(e, p, a.elem, a, a, a); }
BluEmitVal blu_emit2(BluEmit *e, BluPrim p, BluEmitVal a, BluEmitVal b) {
  return e->prim(e, p, p >= P(EQ) && p <= P(GE) ? BLU_BOOL : a.elem, a, b, b);
}
BluEmitVal blu_emit3(BluEmit *e, BluPrim p, BluEmitVal a, BluEmitVal b, BluEmitVal c) {
  return e->prim(e, p, b.elem, a, b, c);
}
BluEmitVal blu_emit_real(BluEmit *e, BluEmitVal like, double v) {
  return blu_elem_is_float(like.elem) ? e->constant(e, like.elem, v) : e->bits(e, like.elem, (uint64_t)(int64_t)v);
}

static BluEmitVal real(BluEmit *e, double v) { return e->constant(e, BLU_F32, v); }
static BluEmitVal bits(BluEmit *e, uint32_t v) { return e->bits(e, BLU_I32, v); }
static BluEmitVal add(BluEmit *e, BluEmitVal a, BluEmitVal b) { return blu_emit2(e, P(FADD), a, b); }
static BluEmitVal sub(BluEmit *e, BluEmitVal a, BluEmitVal b) { return blu_emit2(e, P(FSUB), a, b); }
static BluEmitVal mul(BluEmit *e, BluEmitVal a, BluEmitVal b) { return blu_emit2(e, P(FMUL), a, b); }
static BluEmitVal divide(BluEmit *e, BluEmitVal a, BluEmitVal b) { return blu_emit2(e, P(FDIV), a, b); }
static BluEmitVal fma3(BluEmit *e, BluEmitVal a, BluEmitVal b, BluEmitVal c) { return blu_emit3(e, P(FMA), a, b, c); }
static BluEmitVal select(BluEmit *e, BluEmitVal c, BluEmitVal a, BluEmitVal b) { return blu_emit3(e, P(SELECT), c, a, b); }
static BluEmitVal lt(BluEmit *e, BluEmitVal a, BluEmitVal b) { return blu_emit2(e, P(LT), a, b); }
static BluEmitVal cast(BluEmit *e, BluElem to, BluEmitVal a) { return e->prim(e, P(CAST), to, a, a, a); }
static BluEmitVal as(BluEmit *e, BluElem to, BluEmitVal a) { return e->prim(e, P(BITCAST), to, a, a, a); }
static BluEmitVal call64(BluEmit *e, BluPrim p, BluEmitVal x) { return e->prim(e, p, BLU_F64, x, x, x); }

/* f32 y with the sign bit of x set where x has it: for y of x's sign, or not negative. -0 gives -0. */
static BluEmitVal signed_as(BluEmit *e, BluEmitVal y, BluEmitVal x) {
  BluEmitVal sign = blu_emit2(e, P(AND), as(e, BLU_I32, x), bits(e, 0x80000000));
  return as(e, BLU_F32, blu_emit2(e, P(OR), as(e, BLU_I32, y), sign));
}

/* c[0] x^(n-1) + ... + c[n-1] by Horner's scheme */
static BluEmitVal polynomial(BluEmit *e, BluEmitVal x, int n, const double *c) {
  BluEmitVal p = blu_emit_real(e, x, c[0]);
  for (int i = 1; i < n; i++) p = fma3(e, p, x, blu_emit_real(e, x, c[i]));
  return p;
}

/* 2^n for whole n in [-126, 127] */
static BluEmitVal power_of_two(BluEmit *e, BluEmitVal n) {
  return as(e, BLU_F32, blu_emit2(e, P(SHL), blu_emit2(e, P(IADD), n, bits(e, 127)), bits(e, 23)));
}

/* A whole number of at most 2^22 in f32 as i32: added to 1.5 * 2^23 it is the low part of the sum's bits. */
static BluEmitVal small_integer(BluEmit *e, BluEmitVal n) {
  return blu_emit2(e, P(ISUB), as(e, BLU_I32, add(e, n, real(e, 12582912))), bits(e, 0x4b400000));
}

/* e^x is the result times 2^n, n in [-151, 129] for x in [-104, 89]. */
static BluEmitVal exp_parts(BluEmit *e, BluEmitVal x, BluEmitVal *n) {
  static const double c[] = {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
      5.0000001201e-1};
  BluEmitVal whole = blu_emit1(e, P(FROUND), mul(e, x, real(e, 1.44269504088896341)));
  BluEmitVal r = fma3(e, whole, real(e, -0.693359375), x);
  r = fma3(e, whole, real(e, 2.12194440e-4), r);
  *n = small_integer(e, whole);
  return fma3(e, polynomial(e, r, 6, c), mul(e, r, r), add(e, r, real(e, 1)));
}

BluEmitVal blu_emit_exp(BluEmit *e, BluEmitVal x) {
  if (x.elem == BLU_F64) return call64(e, P(EXP64), x);
  /* outside of [-104, 89] the result is 0 or infinity; NaN passes both comparisons. The 0 is selected: made by underflow, as for all
   * that a mask leaves out, it would cost hundreds of cycles. */
  BluEmitVal none = lt(e, x, real(e, -104)), k;
  x = select(e, lt(e, real(e, 89), x), real(e, 89), x);
  x = select(e, none, real(e, 0), x);
  BluEmitVal y = exp_parts(e, x, &k);
  /* 2^n in two factors, so that results below the normal range round once */
  BluEmitVal half = blu_emit2(e, P(ISUB), blu_emit2(e, P(SHR), blu_emit2(e, P(IADD), k, bits(e, 256)), bits(e, 1)), bits(e, 128));
  y = mul(e, mul(e, y, power_of_two(e, half)), power_of_two(e, blu_emit2(e, P(ISUB), k, half)));
  return select(e, none, real(e, 0), y);
}

BluEmitVal blu_emit_log(BluEmit *e, BluEmitVal x) {
  if (x.elem == BLU_F64) return call64(e, P(LOG64), x);
  static const double c[] = {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                             -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1};
  BluEmitVal one = real(e, 1), zero = real(e, 0), infinity = as(e, BLU_F32, bits(e, 0x7f800000));
  BluEmitVal tiny = lt(e, x, real(e, 1.17549435e-38));
  BluEmitVal scaled = select(e, tiny, mul(e, x, real(e, 8388608)), x);
  BluEmitVal b = as(e, BLU_I32, scaled);
  BluEmitVal exponent = blu_emit2(e, P(ISUB), blu_emit2(e, P(AND), blu_emit2(e, P(SHR), b, bits(e, 23)), bits(e, 255)),
                                  select(e, tiny, bits(e, 126 + 23), bits(e, 126)));
  BluEmitVal m = as(e, BLU_F32, blu_emit2(e, P(OR), blu_emit2(e, P(AND), b, bits(e, 0x007fffff)), bits(e, 0x3f000000)));
  BluEmitVal low = lt(e, m, real(e, 0.707106781186547524)); /* m in [0.5, 1) becomes [0.707, 1.414) */
  BluEmitVal n = cast(e, BLU_F32, exponent);
  n = select(e, low, sub(e, n, one), n);
  m = sub(e, select(e, low, add(e, m, m), m), one);
  BluEmitVal z = mul(e, m, m);
  BluEmitVal y = mul(e, mul(e, polynomial(e, m, 9, c), m), z);
  y = fma3(e, n, real(e, -2.12194440e-4), y);
  y = fma3(e, z, real(e, -0.5), y);
  y = fma3(e, n, real(e, 0.693359375), add(e, m, y));
  y = select(e, lt(e, x, infinity), y, x);                                  /* infinity and NaN stay */
  y = select(e, blu_emit2(e, P(EQ), x, zero), as(e, BLU_F32, bits(e, 0xff800000)), y);
  return select(e, lt(e, x, zero), as(e, BLU_F32, bits(e, 0x7fc00000)), y);
}

/* Reduced by multiples of pi/2 in double, whose products are exact up to |x| = 2^20; beyond it by the runtime, slowly. */
BluEmitVal blu_emit_sincos(BluEmit *e, BluEmitVal x, bool cosine) {
  if (x.elem == BLU_F64) return call64(e, cosine ? P(COS64) : P(SIN64), x);
  static const double s[] = {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1};
  static const double c[] = {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2};
  BluEmitVal wide = cast(e, BLU_F64, x);
  BluEmitVal n = blu_emit1(e, P(FROUND), mul(e, wide, e->constant(e, BLU_F64, 0.63661977236758134308)));
  BluEmitVal rest = sub(e, wide, mul(e, n, e->constant(e, BLU_F64, 0x1.921fb544p0)));
  BluEmitVal r = cast(e, BLU_F32, sub(e, rest, mul(e, n, e->constant(e, BLU_F64, 0x1.0b4611a626331p-34))));
  BluEmitVal quadrant = cast(e, BLU_I32, n);
  if (cosine) quadrant = blu_emit2(e, P(IADD), quadrant, bits(e, 1));
  BluEmitVal z = mul(e, r, r);
  BluEmitVal sine = fma3(e, mul(e, polynomial(e, z, 3, s), z), r, r);
  BluEmitVal cosr = fma3(e, mul(e, polynomial(e, z, 3, c), z), z, fma3(e, z, real(e, -0.5), real(e, 1)));
  BluEmitVal odd = blu_emit2(e, P(NE), blu_emit2(e, P(AND), quadrant, bits(e, 1)), bits(e, 0));
  BluEmitVal sign = blu_emit2(e, P(SHL), blu_emit2(e, P(AND), quadrant, bits(e, 2)), bits(e, 30));
  BluEmitVal y = as(e, BLU_F32, blu_emit2(e, P(XOR), as(e, BLU_I32, select(e, odd, cosr, sine)), sign));
  if (!cosine) y = select(e, blu_emit2(e, P(EQ), x, real(e, 0)), x, y); /* -0 */
  return e->prim(e, cosine ? P(COS_FAR) : P(SIN_FAR), BLU_F32, x, y, y);
}

BluEmitVal blu_emit_tanh(BluEmit *e, BluEmitVal x) {
  if (x.elem == BLU_F64) return call64(e, P(TANH64), x);
  static const double c[] = {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1};
  BluEmitVal size = blu_emit1(e, P(FABS), x), z = mul(e, x, x);
  BluEmitVal small = fma3(e, mul(e, polynomial(e, z, 5, c), z), size, size);
  /* 1 - 2 / (e^2|x| + 1), which is 1 from |x| = 9.1 on; NaN passes the comparison */
  BluEmitVal n, twice = add(e, size, size);
  twice = select(e, lt(e, real(e, 20), twice), real(e, 20), twice);
  BluEmitVal power = exp_parts(e, twice, &n);
  power = mul(e, power, power_of_two(e, n));
  BluEmitVal large = sub(e, real(e, 1), divide(e, real(e, 2), add(e, power, real(e, 1))));
  return signed_as(e, select(e, lt(e, size, real(e, 0.625)), small, large), x);
}

/* From e^-|x|, which can't overflow, so that small results keep their relative precision. */
BluEmitVal blu_emit_sigmoid(BluEmit *e, BluEmitVal x) {
  BluEmitVal one = blu_emit_real(e, x, 1), t = blu_emit_exp(e, blu_emit1(e, P(FNEG), blu_emit1(e, P(FABS), x)));
  BluEmitVal top = select(e, lt(e, x, blu_emit_real(e, x, 0)), t, one);
  return divide(e, top, add(e, one, t));
}

/* f32 through the f64 function: right to one rounding. */
BluEmitVal blu_emit_pow(BluEmit *e, BluEmitVal x, BluEmitVal y) {
  if (x.elem != BLU_F64) return cast(e, x.elem, blu_emit_pow(e, cast(e, BLU_F64, x), cast(e, BLU_F64, y)));
  return e->prim(e, P(POW64), BLU_F64, x, y, y);
}

/* Near 0 by a polynomial in f32; in f64 as 2 t / (1 - t) with t = tanh(x / 2), which keeps the relative precision of tanh. */
BluEmitVal blu_emit_expm1(BluEmit *e, BluEmitVal x) {
  static const double c[] = {2.7803893154e-6,  2.5073031866e-5, 1.9840513701e-4, 1.3888056279e-3,
                             8.3333340747e-3, 4.1666674831e-2, 1.6666666666e-1, 4.9999999987e-1};
  BluEmitVal one = blu_emit_real(e, x, 1), size = blu_emit1(e, P(FABS), x), near;
  if (x.elem == BLU_F64) {
    BluEmitVal t = blu_emit_tanh(e, mul(e, x, blu_emit_real(e, x, 0.5)));
    near = divide(e, add(e, t, t), sub(e, one, t));
  } else near = signed_as(e, fma3(e, mul(e, x, x), polynomial(e, x, 8, c), x), x);
  return select(e, lt(e, size, blu_emit_real(e, x, 0.7)), near, sub(e, blu_emit_exp(e, x), one));
}

/* log(u) x / (u - 1) with u = 1 + x rounded: the rounding of u cancels (Goldberg, "What every computer scientist should know
 * about floating-point arithmetic", theorem 4). */
BluEmitVal blu_emit_log1p(BluEmit *e, BluEmitVal x) {
  BluEmitVal one = blu_emit_real(e, x, 1), u = add(e, one, x), l = blu_emit_log(e, u);
  BluEmitVal y = mul(e, l, divide(e, x, sub(e, u, one)));
  y = select(e, blu_emit2(e, P(EQ), u, one), x, y);
  return select(e, blu_emit2(e, P(EQ), u, x), l, y); /* 1 is lost beside x, so that x / (u - 1) is 1, or infinity by itself */
}

/* x + x q(x^2) up to `knee`; above it 1 - erfc, with erfc(t) = exp(h(u) - t^2), u = (t - centre) / half in [-1, 1]. */
static BluEmitVal erf_by(BluEmit *e, BluEmitVal x, double knee, int nq, const double *q, double centre, double half, int nh,
    const double *h) {
#define REAL(v) blu_emit_real(e, x, v)
  BluEmitVal t = blu_emit1(e, P(FABS), x), top = REAL(centre + half), s = mul(e, x, x);
  BluEmitVal small = fma3(e, polynomial(e, s, nq, q), x, x);
  t = select(e, lt(e, top, t), top, t); /* beyond it the result is 1 */
  BluEmitVal u = mul(e, sub(e, t, REAL(centre)), REAL(1 / half));
  BluEmitVal large = sub(e, REAL(1), blu_emit_exp(e, fma3(e, blu_emit1(e, P(FNEG), t), t, polynomial(e, u, nh, h))));
  large = select(e, lt(e, x, REAL(0)), blu_emit1(e, P(FNEG), large), large);
  return select(e, lt(e, blu_emit1(e, P(FABS), x), REAL(knee)), small, large);
#undef REAL
}

BluEmitVal blu_emit_erf(BluEmit *e, BluEmitVal x) {
  static const double q32[] = {8.2994308349e-5, -8.1262489099e-4, 5.1996138726e-3, -2.6858844089e-2, 1.1283685926e-1,
      -3.761263315e-1, 1.2837916658e-1};
  static const double h32[] = {-4.2368441301e-6, 6.7847602677e-5, -0.0003485660441, 0.0013008616851, -0.0044115212855,
      0.014188404908,
    -0.044474954984, 0.14363246338, -0.56428919578, -1.5568152812};
  static const double q64[] = {-4.23094582429533782e-12, 8.70904512905310669e-11, -1.21645600572834501e-9, 1.4792401209404813e-8,
    -1.63646421581676153e-7, 1.64620454414684189e-6, -0.0000149256475675193321, 0.000120553329028887354, -0.00085483270219348296,
    0.00522397762542329831, -0.0268661706451298408, 0.112837916709551202, -0.376126389031837524, 0.128379167095512574};
  static const double h64[] = {2.71607785348856996e-10, -2.7424976881039508e-10, -2.08395982775216038e-9, 3.96067293040713505e-9,
    -1.55918851262804911e-10, -1.91301533262355899e-10, -9.36605329208409545e-9, 5.34719699405629533e-9,
    3.699476754365499e-8, -1.3765341555962513e-7, 3.75969656976395742e-7, -9.11322669282873528e-7, 1.92240148666469694e-6,
    -3.4228492850310245e-6, 4.56428462520102574e-6, -1.47731449432601681e-6, -0.000018474094989634839,
    0.0000909008590264980664, -0.000307819631817422755, 0.00089357659189817005, -0.00237399727291876389,
    0.00595370447564092697, -0.0143845483307824669, 0.0341284110797745816, -0.0816509097177967117, 0.207793407861060849,
    -0.665248970912977259, -1.86243740214817375};
  if (x.elem == BLU_F64) return erf_by(e, x, 1, 14, q64, 3.5, 2.5, sizeof h64 / sizeof *h64, h64);
  return erf_by(e, x, 0.92, 7, q32, 2.5, 1.6, sizeof h32 / sizeof *h32, h32);
}
