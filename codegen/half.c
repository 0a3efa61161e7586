/* half.c - see half.h. */
#include "codegen/half.h"
#include <math.h>
#include <string.h>
#include "dialects/format.h"

static LLVMTypeRef like(Emit *e, LLVMValueRef v, LLVMTypeRef t) { /* as many t as v has lanes */
  LLVMTypeRef from = LLVMTypeOf(v);
  (void)e;
  return LLVMGetTypeKind(from) == LLVMVectorTypeKind ? LLVMVectorType(t, LLVMGetVectorSize(from)) : t;
}
static LLVMTypeRef i16(Emit *e, LLVMValueRef v) { return like(e, v, LLVMInt16TypeInContext(e->ctx)); }
static LLVMTypeRef i32(Emit *e, LLVMValueRef v) { return like(e, v, LLVMInt32TypeInContext(e->ctx)); }
static LLVMTypeRef f32(Emit *e, LLVMValueRef v) { return like(e, v, LLVMFloatTypeInContext(e->ctx)); }
static LLVMTypeRef f16(Emit *e, LLVMValueRef v) { return like(e, v, LLVMHalfTypeInContext(e->ctx)); }

/* A 32-bit constant with the lanes of v. */
static LLVMValueRef word(Emit *e, LLVMValueRef v, uint32_t x) {
  LLVMValueRef c = LLVMConstInt(LLVMInt32TypeInContext(e->ctx), x, 0), all[BLU_LANES];
  if (LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMVectorTypeKind) return c;
  unsigned n = LLVMGetVectorSize(LLVMTypeOf(v));
  for (unsigned i = 0; i < n; i++) all[i] = c;
  return LLVMConstVector(all, n);
}
static LLVMValueRef number(Emit *e, LLVMValueRef v, float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return LLVMConstBitCast(word(e, v, bits), f32(e, v));
}

/* f16 below its normal numbers counts units of 2^-24: 1/2 has just that unit, so that the count is what stands in the bits of 1/2 + x. */
static const float UNITS = 0.5f;
enum { UNITS_BITS = 0x3f000000 };

LLVMValueRef blu_emit_from_half(Emit *e, BluElem t, LLVMValueRef bits) {
  LLVMBuilderRef B = e->b;
  if (t == BLU_F16 && e->f16c) return LLVMBuildFPExt(B, LLVMBuildBitCast(B, bits, f16(e, bits), ""), f32(e, bits), "");
  LLVMValueRef x = LLVMBuildZExt(B, bits, i32(e, bits), "");
  if (t == BLU_BF16) return LLVMBuildBitCast(B, LLVMBuildShl(B, x, word(e, bits, 16), ""), f32(e, bits), "");
  LLVMValueRef size = LLVMBuildAnd(B, x, word(e, x, 0x7fff), ""), sign = LLVMBuildShl(B, LLVMBuildAnd(B, x, word(e, x, 0x8000), ""), word(e, x, 16), "");
  LLVMValueRef moved = LLVMBuildShl(B, size, word(e, x, 13), ""), normal = LLVMBuildAdd(B, moved, word(e, x, 112u << 23), "");
  LLVMValueRef special = LLVMBuildOr(B, moved, word(e, x, 0x7f800000), "");
  LLVMValueRef count = LLVMBuildBitCast(B, LLVMBuildOr(B, size, word(e, x, UNITS_BITS), ""), f32(e, x), "");
  LLVMValueRef small = LLVMBuildBitCast(B, LLVMBuildFSub(B, count, number(e, x, UNITS), ""), i32(e, x), "");
  LLVMValueRef r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntULT, size, word(e, x, 0x0400), ""), small, normal, "");
  r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntUGE, size, word(e, x, 0x7c00), ""), special, r, "");
  return LLVMBuildBitCast(B, LLVMBuildOr(B, r, sign, ""), f32(e, x), "");
}

LLVMValueRef blu_emit_to_half(Emit *e, BluElem t, LLVMValueRef v) {
  LLVMBuilderRef B = e->b;
  if (t == BLU_F16 && e->f16c) return LLVMBuildBitCast(B, LLVMBuildFPTrunc(B, v, f16(e, v), ""), i16(e, v), "");
  LLVMValueRef x = LLVMBuildBitCast(B, v, i32(e, v), "");
  if (t == BLU_BF16) return LLVMBuildTrunc(B, LLVMBuildLShr(B, x, word(e, x, 16), ""), i16(e, x), "");
  LLVMValueRef size = LLVMBuildAnd(B, x, word(e, x, 0x7fffffff), ""), sign = LLVMBuildLShr(B, LLVMBuildXor(B, x, size, ""), word(e, x, 16), "");
  LLVMValueRef moved = LLVMBuildLShr(B, size, word(e, x, 13), ""), normal = LLVMBuildSub(B, moved, word(e, x, 112u << 10), "");
  LLVMValueRef special = LLVMBuildOr(B, LLVMBuildAnd(B, moved, word(e, x, 0x3ff), ""), word(e, x, 0x7c00), "");
  LLVMValueRef count = LLVMBuildFAdd(B, LLVMBuildBitCast(B, size, f32(e, x), ""), number(e, x, UNITS), "");
  LLVMValueRef small = LLVMBuildSub(B, LLVMBuildBitCast(B, count, i32(e, x), ""), word(e, x, UNITS_BITS), "");
  LLVMValueRef r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntULT, size, word(e, x, 113u << 23), ""), small, normal, "");
  r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntUGE, size, word(e, x, 0x7f800000), ""), special, r, "");
  return LLVMBuildTrunc(B, LLVMBuildOr(B, r, sign, ""), i16(e, x), "");
}

LLVMValueRef blu_emit_round_half(Emit *e, BluElem t, LLVMValueRef x) {
  if (t == BLU_F16 && e->f16c) return LLVMBuildFPExt(e->b, LLVMBuildFPTrunc(e->b, x, f16(e, x), ""), f32(e, x), "");
  BluFormat f = blu_format_of(t);
  return blu_emit_round_to(&e->base, &f, (BluEmitVal){.elem = BLU_F32, .u.v = x}).u.v;
}

uint16_t blu_half_bits(BluElem t, double v) {
  BluFormat f = blu_format_of(t);
  uint16_t sign = signbit(v) ? 0x8000 : 0, infinity = (uint16_t)(((1 << f.exponent) - 1) << f.mantissa);
  if (isnan(v)) return sign | infinity | (uint16_t)(1 << (f.mantissa - 1));
  if (isinf(v)) return sign | infinity;
  double least = blu_format_min_normal(&f), unit = ldexp(least, -f.mantissa);
  if (fabs(v) < least) return sign | (uint16_t)(fabs(v) / unit);
  int exponent = ilogb(v) - ilogb(least);
  return (uint16_t)(sign | ((exponent << f.mantissa) + (int)(ldexp(fabs(v), f.mantissa - ilogb(v)))));
}
