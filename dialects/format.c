/* format.c - see format.h. */
#include "dialects/format.h"
#include <math.h>
#include "dialects_internal.h"
#include "mlir-c/BuiltinAttributes.h"

BluFormat blu_format_of(BluElem e) {
  static const BluFormat f32 = {8, 23, true, false}, bf16 = {8, 7, true, false}, f16 = {5, 10, true, false};
  return e == BLU_BF16 ? bf16 : e == BLU_F16 ? f16 : f32;
}

static int bias_of(const BluFormat *f) { return (1 << (f->exponent - 1)) - 1; }
double blu_format_max(const BluFormat *f) { return ldexp(2 - ldexp(1, -f->mantissa), bias_of(f)); }
double blu_format_min_normal(const BluFormat *f) { return ldexp(1, 1 - bias_of(f)); }

/* In units of the last place that x has in the format: rint rounds to nearest, ties to even, and scaling by powers of two is exact
 * (the smallest unit, 2^-149, is far inside of what a double holds). */
double blu_format_round(const BluFormat *f, double x) {
  if (!isfinite(x) || x == 0) return x;
  int least = 1 - bias_of(f), exponent = ilogb(x) > least ? ilogb(x) : least;
  double r = ldexp(rint(ldexp(x, f->mantissa - exponent)), exponent - f->mantissa), max = blu_format_max(f);
  if (fabs(r) > max) r = f->saturate ? copysign(max, x) : copysign(INFINITY, x);
  return !f->denormals && fabs(r) < blu_format_min_normal(f) ? copysign(0, x) : r;
}

double blu_elem_round(BluElem e, double v) {
  BluFormat f = blu_format_of(e);
  return e == BLU_F32 ? (double)(float)v : e == BLU_BF16 || e == BLU_F16 ? blu_format_round(&f, v) : v;
}

static MlirStringRef attribute(void) { return mlirStringRefCreateFromCString("blu.format"); }

bool blu_module_format(MlirModule m, BluFormat *f) {
  MlirAttribute a = mlirModuleIsNull(m) ? mlirAttributeGetNull() : mlirOperationGetAttributeByName(mlirModuleGetOperation(m), attribute());
  if (mlirAttributeIsNull(a) || !mlirAttributeIsADenseI64Array(a) || mlirDenseArrayGetNumElements(a) != 4) return false;
  *f = (BluFormat){(int)mlirDenseI64ArrayGetElement(a, 0), (int)mlirDenseI64ArrayGetElement(a, 1), mlirDenseI64ArrayGetElement(a, 2) != 0,
                   mlirDenseI64ArrayGetElement(a, 3) != 0};
  return true;
}

void blu_module_set_format(MlirModule m, const BluFormat *f) {
  mlirOperationSetAttributeByName(mlirModuleGetOperation(m), attribute(),
                                  mlirDenseI64ArrayGet(mlirModuleGetContext(m), 4, (int64_t[]){f->exponent, f->mantissa, f->denormals, f->saturate}));
}

MlirValue blu_round_to(BluBuilder *b, MlirValue x, const BluFormat *f) {
  BluAttrs as = blu_attr_set_int(blu_attr_set_int((BluAttrs){0}, "exponent", f->exponent), "mantissa", f->mantissa);
  if (!f->denormals) as = blu_attr_set_bool(as, "denormals", false);
  if (f->saturate) as = blu_attr_set_bool(as, "saturate", true);
  return blu_build(b, "round_to", &as, 1, &x);
}

/* ---- in f32 ---- */

#define P(p) BLU_PRIM_##p

static BluEmitVal as(BluEmit *e, BluElem t, BluEmitVal x) { return e->prim(e, P(BITCAST), t, x, x, x); }
static BluEmitVal word(BluEmit *e, uint32_t v) { return e->bits(e, BLU_I32, v); }
static BluEmitVal select(BluEmit *e, BluEmitVal c, BluEmitVal x, BluEmitVal y) { return e->prim(e, P(SELECT), x.elem, c, x, y); }

/* The bits of a positive number are ordered as the numbers are, so that adding to them carries into the exponent: half of a last place
 * less one, plus the last bit that stays, then the rest is cut. */
static BluEmitVal rounded_bits(BluEmit *e, BluEmitVal bits, int cut) {
  BluEmitVal odd = blu_emit2(e, P(AND), blu_emit2(e, P(SHR), bits, word(e, (uint32_t)cut)), word(e, 1));
  BluEmitVal up = blu_emit2(e, P(IADD), bits, blu_emit2(e, P(IADD), odd, word(e, (1u << (cut - 1)) - 1)));
  return blu_emit2(e, P(AND), up, word(e, ~((1u << cut) - 1)));
}

/* Below the format's normal numbers the unit is fixed: adding and subtracting a number with that unit rounds to it. With the exponent
 * of f32 the bits round such numbers as they round others. */
BluEmitVal blu_emit_round_to(BluEmit *e, const BluFormat *f, BluEmitVal x) {
  if (f->exponent == 8 && f->mantissa == 23 && f->denormals && !f->saturate) return x;
  BluEmitVal bits = as(e, BLU_I32, x), size = blu_emit2(e, P(AND), bits, word(e, 0x7fffffff)), sign = blu_emit2(e, P(XOR), bits, size);
  BluEmitVal r = f->mantissa < 23 ? rounded_bits(e, size, 23 - f->mantissa) : size;
  double least = blu_format_min_normal(f), max = blu_format_max(f);
  if (f->exponent < 8) {
    BluEmitVal whole = as(e, BLU_F32, size), unit = e->constant(e, BLU_F32, ldexp(least, 23 - f->mantissa));
    BluEmitVal small = blu_emit2(e, P(LT), whole, e->constant(e, BLU_F32, least));
    r = select(e, small, as(e, BLU_I32, blu_emit2(e, P(FSUB), blu_emit2(e, P(FADD), whole, unit), unit)), r);
  }
  if (!f->denormals) {
    BluEmitVal gone = blu_emit2(e, P(LT), as(e, BLU_F32, r), e->constant(e, BLU_F32, least));
    r = select(e, gone, word(e, 0), r);
  }
  if (f->exponent < 8 || f->saturate) { /* else what is too large has become the bits of infinity already */
    BluEmitVal over = blu_emit2(e, P(GT), as(e, BLU_F32, r), e->constant(e, BLU_F32, max)), top = word(e, 0x7f800000);
    if (f->saturate) {
      over = blu_emit2(e, P(AND), over, blu_emit2(e, P(LT), size, top));
      top = as(e, BLU_I32, e->constant(e, BLU_F32, max));
    }
    r = select(e, over, top, r);
  }
  BluEmitVal nan = blu_emit2(e, P(GT), size, word(e, 0x7f800000)); /* its bits would carry; and the part that is cut may be all it has */
  r = select(e, nan, blu_emit2(e, P(OR), size, word(e, 0x00400000)), r);
  return as(e, BLU_F32, blu_emit2(e, P(OR), r, sign));
}
