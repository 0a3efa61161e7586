/* emit.c - see emit.h. No fast-math flag is ever set: every operation rounds to its type, in the order written. */
#include "codegen/emit.h"
#include "codegen/half.h"
#include "dialects/format.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

LLVMTypeRef blu_emit_elem(const Emit *e, BluElem t) {
  switch (t) {
  case BLU_F32: return LLVMFloatTypeInContext(e->ctx);
  case BLU_F64: return LLVMDoubleTypeInContext(e->ctx);
  case BLU_BF16: case BLU_F16: return e->raw ? LLVMInt16TypeInContext(e->ctx) : LLVMFloatTypeInContext(e->ctx);
  case BLU_I32: return LLVMInt32TypeInContext(e->ctx);
  case BLU_I64: return LLVMInt64TypeInContext(e->ctx);
  case BLU_U8: return LLVMInt8TypeInContext(e->ctx);
  default: return LLVMInt1TypeInContext(e->ctx);
  }
}

LLVMTypeRef blu_emit_stored(const Emit *e, BluElem t) {
  return blu_elem_is_half(t) ? LLVMInt16TypeInContext(e->ctx) : blu_emit_elem(e, t == BLU_BOOL ? BLU_U8 : t);
}

static LLVMTypeRef widened(LLVMTypeRef t, int lanes) { return lanes > 1 ? LLVMVectorType(t, (unsigned)lanes) : t; }
LLVMTypeRef blu_emit_type(const Emit *e, BluElem t) { return widened(blu_emit_elem(e, t), e->lanes); }
LLVMValueRef blu_emit_i64(const Emit *e, int64_t v) { return LLVMConstInt(LLVMInt64TypeInContext(e->ctx), (uint64_t)v, 1); }

static bool is_vector(LLVMValueRef v) { return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind; }
static int lanes_of(LLVMValueRef v) { return is_vector(v) ? (int)LLVMGetVectorSize(LLVMTypeOf(v)) : 1; }

static LLVMValueRef shuffle(Emit *e, LLVMValueRef a, LLVMValueRef b, int n, const int *lane) {
  LLVMValueRef mask[2 * BLU_LANES];
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx);
  for (int i = 0; i < n; i++) mask[i] = lane[i] < 0 ? LLVMGetUndef(i32) : LLVMConstInt(i32, (unsigned)lane[i], 0);
  return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(mask, (unsigned)n), "");
}

LLVMValueRef blu_emit_splat(Emit *e, LLVMValueRef scalar) {
  if (e->lanes == 1 || is_vector(scalar)) return scalar;
  if (LLVMIsConstant(scalar)) {
    LLVMValueRef all[BLU_LANES];
    for (int i = 0; i < e->lanes; i++) all[i] = scalar;
    return LLVMConstVector(all, (unsigned)e->lanes);
  }
  LLVMValueRef undef = LLVMGetUndef(widened(LLVMTypeOf(scalar), e->lanes));
  LLVMValueRef first = LLVMBuildInsertElement(e->b, undef, scalar, blu_emit_i64(e, 0), "");
  return shuffle(e, first, undef, e->lanes, (int[2 * BLU_LANES]){0});
}

LLVMValueRef blu_emit_intrinsic(Emit *e, const char *name, LLVMTypeRef overload, int n, LLVMValueRef *args) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  assert(id);
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(e->module, id, &overload, overload != NULL);
  return LLVMBuildCall2(e->b, LLVMIntrinsicGetType(e->ctx, id, &overload, overload != NULL), f, args, (unsigned)n, "");
}

static LLVMValueRef divide(Emit *e, LLVMOpcode how, LLVMValueRef x, int64_t by) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx), i64 = LLVMInt64TypeInContext(e->ctx);
  if (!e->narrow) return LLVMBuildBinOp(e->b, how, x, blu_emit_i64(e, by), "");
  x = LLVMBuildBinOp(e->b, how, LLVMBuildTrunc(e->b, x, i32, ""), LLVMConstInt(i32, (uint64_t)by, 0), "");
  return LLVMBuildZExt(e->b, x, i64, "");
}
LLVMValueRef blu_emit_quotient(Emit *e, LLVMValueRef x, int64_t by) { return by == 1 ? x : divide(e, LLVMUDiv, x, by); }
LLVMValueRef blu_emit_remainder(Emit *e, LLVMValueRef x, int64_t by) { return divide(e, LLVMURem, x, by); }

LLVMValueRef blu_emit_slice(Emit *e, LLVMValueRef v, int from, int n) {
  if (n == 1) return LLVMBuildExtractElement(e->b, v, blu_emit_i64(e, from), "");
  int lane[BLU_LANES];
  for (int i = 0; i < n; i++) lane[i] = from + i;
  return shuffle(e, v, LLVMGetUndef(LLVMTypeOf(v)), n, lane);
}

LLVMValueRef blu_emit_blend(Emit *e, LLVMValueRef a, LLVMValueRef b, int count) {
  int n = lanes_of(a), lane[BLU_LANES];
  for (int i = 0; i < n; i++) lane[i] = i < count ? i : n + i;
  return shuffle(e, a, b, n, lane);
}

/* ---- memory ---- */

static LLVMValueRef address(Emit *e, BluElem t, LLVMValueRef base, LLVMValueRef index, int plus) {
  if (plus) index = LLVMBuildAdd(e->b, index, blu_emit_i64(e, plus), "");
  return LLVMBuildGEP2(e->b, blu_emit_stored(e, t), base, &index, 1, "");
}

static unsigned alignment(const Emit *e, BluElem t, int lanes) {
  int element = blu_elem_bytes(t), vector = element * lanes;
  if (lanes != e->lanes || !e->align) return (unsigned)element;
  return (unsigned)(vector < e->align ? vector : e->align);
}

/* `count` lanes are read as vectors of 8, 4, 2 and 1, so that nothing behind the tensor is touched. */
LLVMValueRef blu_emit_load(Emit *e, BluElem t, LLVMValueRef base, LLVMValueRef index, int count) {
  LLVMTypeRef stored = blu_emit_stored(e, t);
  LLVMValueRef v = NULL;
  if (count == e->lanes) {
    v = LLVMBuildLoad2(e->b, widened(stored, count), address(e, t, base, index, 0), "");
    LLVMSetAlignment(v, alignment(e, t, count));
  } else {
    v = LLVMConstNull(widened(stored, e->lanes));
    for (int at = 0, n = e->lanes / 2; n >= 1; n /= 2) {
      if (!(count & n)) continue;
      LLVMValueRef part = LLVMBuildLoad2(e->b, widened(stored, n), address(e, t, base, index, at), "");
      LLVMSetAlignment(part, (unsigned)blu_elem_bytes(t));
      if (n == 1) v = LLVMBuildInsertElement(e->b, v, part, blu_emit_i64(e, at), "");
      else {
        int wide[BLU_LANES], lane[BLU_LANES];
        for (int i = 0; i < e->lanes; i++) {
          wide[i] = i < n ? i : -1;
          lane[i] = i >= at && i < at + n ? e->lanes + i - at : i;
        }
        v = shuffle(e, v, shuffle(e, part, LLVMGetUndef(LLVMTypeOf(part)), e->lanes, wide), e->lanes, lane);
      }
      at += n;
    }
  }
  if (blu_elem_is_half(t) && !e->raw) return blu_emit_from_half(e, t, v);
  return t == BLU_BOOL ? LLVMBuildICmp(e->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "") : v;
}

void blu_emit_store(Emit *e, BluElem t, LLVMValueRef value, LLVMValueRef base, LLVMValueRef index, int count) {
  value = blu_emit_splat(e, value);
  if (t == BLU_BOOL) value = LLVMBuildZExt(e->b, value, widened(blu_emit_stored(e, t), e->lanes), "");
  if (blu_elem_is_half(t) && !e->raw) value = blu_emit_to_half(e, t, value);
  for (int at = 0, n = e->lanes; n >= 1; n /= 2) {
    if (!(count & n)) continue;
    LLVMValueRef part = n == e->lanes ? value : blu_emit_slice(e, value, at, n);
    LLVMSetAlignment(LLVMBuildStore(e->b, part, address(e, t, base, index, at)), alignment(e, t, n));
    at += n;
  }
}

void blu_emit_prefetch(Emit *e, LLVMValueRef at, int cache) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx);
  LLVMValueRef read = LLVMConstInt(i32, 0, 0), locality = LLVMConstInt(i32, (unsigned)(4 - cache), 0), data = LLVMConstInt(i32, 1, 0);
  blu_emit_intrinsic(e, "llvm.prefetch", LLVMPointerTypeInContext(e->ctx, 0), 4, (LLVMValueRef[]){at, read, locality, data});
}

/* ---- loops ---- */

void blu_loop_begin(Emit *e, Loop *l, LLVMValueRef fn, LLVMValueRef from, LLVMValueRef to, int64_t step, int nphi, const LLVMValueRef *init) {
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
  *l = (Loop){LLVMAppendBasicBlockInContext(e->ctx, fn, ""), LLVMAppendBasicBlockInContext(e->ctx, fn, ""),
              LLVMAppendBasicBlockInContext(e->ctx, fn, ""), NULL, to, blu_emit_i64(e, step), {0}, nphi};
  assert(nphi <= (int)(sizeof l->phi / sizeof *l->phi));
  LLVMBuildBr(e->b, l->head);
  LLVMPositionBuilderAtEnd(e->b, l->head);
  l->i = LLVMBuildPhi(e->b, LLVMInt64TypeInContext(e->ctx), "");
  LLVMAddIncoming(l->i, &from, &before, 1);
  for (int k = 0; k < nphi; k++) {
    l->phi[k] = LLVMBuildPhi(e->b, LLVMTypeOf(init[k]), "");
    LLVMValueRef first = init[k];
    LLVMAddIncoming(l->phi[k], &first, &before, 1);
  }
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, l->i, to, ""), l->body, l->exit);
  LLVMPositionBuilderAtEnd(e->b, l->body);
}

void blu_loop_end(Emit *e, Loop *l, const LLVMValueRef *next) {
  LLVMBasicBlockRef last = LLVMGetInsertBlock(e->b);
  LLVMValueRef i = LLVMBuildAdd(e->b, l->i, l->step, "");
  LLVMBuildBr(e->b, l->head);
  LLVMAddIncoming(l->i, &i, &last, 1);
  for (int k = 0; k < l->nphi; k++) {
    LLVMValueRef v = next[k];
    LLVMAddIncoming(l->phi[k], &v, &last, 1);
  }
  LLVMPositionBuilderAtEnd(e->b, l->exit);
}

/* ---- BluEmit ---- */

static BluEmitVal val(BluElem t, LLVMValueRef v) { return (BluEmitVal){.elem = t, .u.v = v}; }

static BluEmitVal constant(BluEmit *base, BluElem t, double value) {
  Emit *e = (Emit *)base;
  value = blu_elem_round(t, value);
  if (blu_elem_is_half(t) && e->raw) return val(t, blu_emit_splat(e, LLVMConstInt(blu_emit_elem(e, t), blu_half_bits(t, value), 0)));
  return val(t, blu_emit_splat(e, LLVMConstReal(blu_emit_elem(e, t), value)));
}

static BluEmitVal bits(BluEmit *base, BluElem t, uint64_t pattern) {
  Emit *e = (Emit *)base;
  unsigned width = LLVMGetIntTypeWidth(blu_emit_elem(e, t));
  if (width < 64) pattern &= ((uint64_t)1 << width) - 1;
  return val(t, blu_emit_splat(e, LLVMConstInt(blu_emit_elem(e, t), pattern, 0)));
}

static BluEmitVal index_of_point(BluEmit *base) {
  Emit *e = (Emit *)base;
  if (e->lanes == 1) return val(BLU_I64, e->linear);
  LLVMValueRef lane[BLU_LANES];
  for (int i = 0; i < e->lanes; i++) lane[i] = blu_emit_i64(e, i);
  return val(BLU_I64, LLVMBuildAdd(e->b, blu_emit_splat(e, e->linear), LLVMConstVector(lane, (unsigned)e->lanes), ""));
}

static bool is_unsigned(BluElem t) { return t == BLU_U8 || t == BLU_BOOL; }

static LLVMValueRef compare(Emit *e, BluPrim p, BluElem t, LLVMValueRef a, LLVMValueRef b) {
  static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT, LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  static const LLVMIntPredicate sign[] = {LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
  static const LLVMIntPredicate unsign[] = {LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
  int k = p - BLU_PRIM_EQ;
  if (blu_elem_is_float(t)) return LLVMBuildFCmp(e->b, real[k], a, b, "");
  return LLVMBuildICmp(e->b, is_unsigned(t) ? unsign[k] : sign[k], a, b, "");
}

static LLVMValueRef clamp(Emit *e, LLVMValueRef v, int64_t lo, int64_t hi) {
  LLVMTypeRef scalar = is_vector(v) ? LLVMGetElementType(LLVMTypeOf(v)) : LLVMTypeOf(v);
  LLVMValueRef low = blu_emit_splat(e, LLVMConstInt(scalar, (uint64_t)lo, 1)), high = blu_emit_splat(e, LLVMConstInt(scalar, (uint64_t)hi, 1));
  v = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, v, low, ""), low, v, "");
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, v, high, ""), high, v, "");
}

static LLVMValueRef cast(Emit *e, BluElem from, BluElem to, LLVMValueRef v);

/* Towards zero; what is out of range becomes the nearest there is, NaN 0. LLVM has intrinsics for this, whose code takes vectors apart: only
 * i64 goes that way. A number is brought into range first; 2^31 - 1, which f32 doesn't have, afterwards. */
static LLVMValueRef to_integer(Emit *e, BluElem from, BluElem to, LLVMValueRef v) {
  LLVMTypeRef t = blu_emit_type(e, to), real = blu_emit_elem(e, from);
  if (to == BLU_I64) {
    const char *name = "llvm.fptosi.sat";
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef types[2] = {t, LLVMTypeOf(v)};
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(e->module, id, types, 2);
    return LLVMBuildCall2(e->b, LLVMIntrinsicGetType(e->ctx, id, types, 2), f, &v, 1, "");
  }
  bool is_byte = is_unsigned(to);
  double top = is_byte ? 255 : from == BLU_F32 ? 2147483520 : INT32_MAX;
  LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v)), high = blu_emit_splat(e, LLVMConstReal(real, top));
  LLVMValueRef low = is_byte ? zero : blu_emit_splat(e, LLVMConstReal(real, INT32_MIN));
  LLVMValueRef x = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealUNO, v, v, ""), zero, v, "");
  x = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealOLT, x, low, ""), low, x, "");
  LLVMValueRef above = LLVMBuildFCmp(e->b, LLVMRealOGT, x, high, "");
  x = LLVMBuildFPToSI(e->b, LLVMBuildSelect(e->b, above, high, x, ""), blu_emit_type(e, BLU_I32), "");
  if (is_byte) return LLVMBuildTrunc(e->b, x, t, "");
  return LLVMBuildSelect(e->b, above, blu_emit_splat(e, LLVMConstInt(blu_emit_elem(e, to), INT32_MAX, 0)), x, "");
}

/* v as an f32 that rounds to a half type as v itself does: exact, or one of the two neighbours, the odd one (Boldo and Melquiond, "Emulation of
 * a FMA and correctly rounded sums", 2008). Wide integers are cut to 53 bits in the same way before they become doubles. */
static LLVMValueRef nearest_odd(Emit *e, BluElem from, LLVMValueRef v) {
  LLVMTypeRef i32 = blu_emit_type(e, BLU_I32), f32 = blu_emit_type(e, BLU_F32), f64 = blu_emit_type(e, BLU_F64);
  if (from == BLU_U8 || from == BLU_BOOL) return cast(e, from, BLU_F32, v);
  if (from == BLU_I64) {
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v)), rest = LLVMBuildAnd(e->b, v, blu_emit_splat(e, blu_emit_i64(e, 2047)), "");
    LLVMValueRef whole = LLVMBuildSub(e->b, v, rest, ""), inexact = LLVMBuildICmp(e->b, LLVMIntNE, rest, zero, "");
    LLVMValueRef odd = LLVMBuildSelect(e->b, inexact, LLVMBuildOr(e->b, whole, blu_emit_splat(e, blu_emit_i64(e, 2048)), ""), whole, "");
    LLVMValueRef size = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, v, zero, ""), LLVMBuildNeg(e->b, v, ""), v, "");
    LLVMValueRef wide = LLVMBuildICmp(e->b, LLVMIntUGE, size, blu_emit_splat(e, blu_emit_i64(e, (int64_t)1 << 53)), "");
    v = LLVMBuildSelect(e->b, wide, odd, v, "");
  }
  LLVMValueRef x = from == BLU_F64 ? v : LLVMBuildSIToFP(e->b, v, f64, ""), y = LLVMBuildFPTrunc(e->b, x, f32, "");
  LLVMValueRef back = LLVMBuildFPExt(e->b, y, f64, ""), bits = LLVMBuildBitCast(e->b, y, i32, "");
  LLVMValueRef one = blu_emit_splat(e, LLVMConstInt(LLVMInt32TypeInContext(e->ctx), 1, 0));
  LLVMValueRef above = LLVMBuildFCmp(e->b, LLVMRealOGT, blu_emit_intrinsic(e, "llvm.fabs", f64, 1, &back), blu_emit_intrinsic(e, "llvm.fabs", f64, 1, &x), "");
  LLVMValueRef below = LLVMBuildSelect(e->b, above, LLVMBuildSub(e->b, bits, one, ""), bits, "");
  LLVMValueRef inexact = LLVMBuildFCmp(e->b, LLVMRealONE, back, x, "");
  return LLVMBuildBitCast(e->b, LLVMBuildSelect(e->b, inexact, LLVMBuildOr(e->b, below, one, ""), bits, ""), f32, "");
}

static LLVMValueRef cast(Emit *e, BluElem from, BluElem to, LLVMValueRef v) {
  LLVMTypeRef t = blu_emit_type(e, to);
  if (from == to) return v;
  if (blu_elem_is_half(from)) return cast(e, BLU_F32, to, v);
  if (blu_elem_is_half(to)) return blu_emit_round_half(e, to, from == BLU_F32 ? v : nearest_odd(e, from, v));
  if (blu_elem_is_float(from) && blu_elem_is_float(to)) return to == BLU_F64 ? LLVMBuildFPExt(e->b, v, t, "") : LLVMBuildFPTrunc(e->b, v, t, "");
  if (blu_elem_is_float(to)) return is_unsigned(from) ? LLVMBuildUIToFP(e->b, v, t, "") : LLVMBuildSIToFP(e->b, v, t, "");
  if (blu_elem_is_float(from)) return to_integer(e, from, to, v);
  if (blu_elem_bytes(to) > blu_elem_bytes(from) || from == BLU_BOOL)
    return is_unsigned(from) ? LLVMBuildZExt(e->b, v, t, "") : LLVMBuildSExt(e->b, v, t, "");
  v = to == BLU_U8 ? clamp(e, v, 0, 255) : clamp(e, v, INT32_MIN, INT32_MAX);
  return LLVMBuildTrunc(e->b, v, t, "");
}

/* A function of the runtime on doubles, lane by lane. */
static LLVMValueRef call64(Emit *e, const char *name, int n, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef f64 = LLVMDoubleTypeInContext(e->ctx), args[2] = {f64, f64}, type = LLVMFunctionType(f64, args, (unsigned)n, 0);
  LLVMValueRef f = LLVMGetNamedFunction(e->module, name);
  if (!f) f = LLVMAddFunction(e->module, name, type);
  if (!is_vector(a)) return LLVMBuildCall2(e->b, type, f, (LLVMValueRef[]){a, b}, (unsigned)n, "");
  LLVMValueRef out = LLVMGetUndef(LLVMTypeOf(a));
  for (int i = 0; i < lanes_of(a); i++) {
    LLVMValueRef at = blu_emit_i64(e, i), x[2] = {LLVMBuildExtractElement(e->b, a, at, ""), NULL};
    if (n == 2) x[1] = LLVMBuildExtractElement(e->b, b, at, "");
    out = LLVMBuildInsertElement(e->b, out, LLVMBuildCall2(e->b, type, f, x, (unsigned)n, ""), at, "");
  }
  return out;
}

/* ---- sines of large arguments: rare, so a branch around calls of the runtime. It stands in a function, which the first pass of
 * codegen/target.c inlines: code is placed at several levels while it is emitted, and none of them may be cut in two. ---- */

static void mark(Emit *e, LLVMValueRef f, const char *attribute) {
  unsigned kind = LLVMGetEnumAttributeKindForName(attribute, strlen(attribute));
  LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->ctx, kind, 0));
}

/* T name(T x, T y) with an empty block where e's builder now stands; *old is where it stood. */
static LLVMValueRef begin_function(Emit *e, const char *name, LLVMTypeRef type, LLVMBuilderRef *old) {
  LLVMValueRef f = LLVMAddFunction(e->module, name, type);
  LLVMSetLinkage(f, LLVMInternalLinkage);
  *old = e->b;
  e->b = LLVMCreateBuilderInContext(e->ctx);
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, f, ""));
  return f;
}

static void end_function(Emit *e, LLVMValueRef result, LLVMBuilderRef old) {
  LLVMBuildRet(e->b, result);
  LLVMDisposeBuilder(e->b);
  e->b = old;
}

static LLVMValueRef is_far(Emit *e, LLVMValueRef x) {
  LLVMValueRef size = blu_emit_intrinsic(e, "llvm.fabs", LLVMTypeOf(x), 1, &x);
  return LLVMBuildFCmp(e->b, LLVMRealOGT, size, blu_emit_splat(e, LLVMConstReal(LLVMFloatTypeInContext(e->ctx), 0x1p20)), "");
}

/* The calls: the sine of each x in double, y where x is not far. */
static LLVMValueRef far_calls(Emit *e, const char *sine, const char *name, LLVMTypeRef type) {
  LLVMBuilderRef old;
  LLVMValueRef f = begin_function(e, name, type, &old), x = LLVMGetParam(f, 0), y = LLVMGetParam(f, 1);
  LLVMTypeRef narrow = blu_emit_type(e, BLU_F32), wide = blu_emit_type(e, BLU_F64);
  LLVMValueRef z = LLVMBuildFPTrunc(e->b, call64(e, sine, 1, LLVMBuildFPExt(e->b, x, wide, ""), NULL), narrow, "");
  mark(e, f, "noinline"), mark(e, f, "cold");
  end_function(e, LLVMBuildSelect(e->b, is_far(e, x), z, y, ""), old);
  return f;
}

/* y, or what far_calls gives if any x is far. */
static LLVMValueRef far_sine(Emit *e, const char *sine, LLVMValueRef x, LLVMValueRef y) {
  char name[64], calls[64];
  snprintf(name, sizeof name, "%s.far.%d", sine, e->lanes);
  snprintf(calls, sizeof calls, "%s.calls.%d", sine, e->lanes);
  LLVMTypeRef t = blu_emit_type(e, BLU_F32), type = LLVMFunctionType(t, (LLVMTypeRef[]){t, t}, 2, 0);
  LLVMValueRef f = LLVMGetNamedFunction(e->module, name);
  if (!f) {
    LLVMValueRef slow = far_calls(e, sine, calls, type), argument[2], value[2];
    LLVMBuilderRef old;
    f = begin_function(e, name, type, &old);
    for (int i = 0; i < 2; i++) argument[i] = LLVMGetParam(f, (unsigned)i);
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(e->b), LLVMAppendBasicBlockInContext(e->ctx, f, "")};
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(e->ctx, f, "");
    LLVMValueRef far = is_far(e, argument[0]);
    LLVMTypeRef bits = LLVMIntTypeInContext(e->ctx, (unsigned)e->lanes);
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildBitCast(e->b, far, bits, ""), LLVMConstNull(bits), ""), from[1], done);
    LLVMPositionBuilderAtEnd(e->b, from[1]);
    value[0] = argument[1], value[1] = LLVMBuildCall2(e->b, type, slow, argument, 2, "");
    LLVMBuildBr(e->b, done);
    LLVMPositionBuilderAtEnd(e->b, done);
    LLVMValueRef result = LLVMBuildPhi(e->b, t, "");
    LLVMAddIncoming(result, value, from, 2);
    mark(e, f, "alwaysinline");
    end_function(e, result, old);
  }
  return LLVMBuildCall2(e->b, type, f, (LLVMValueRef[]){x, y}, 2, "");
}

static LLVMValueRef high_product(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef narrow = LLVMTypeOf(a), wide = blu_emit_type(e, BLU_I64);
  LLVMValueRef p = LLVMBuildMul(e->b, LLVMBuildZExt(e->b, a, wide, ""), LLVMBuildZExt(e->b, b, wide, ""), "");
  return LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, p, blu_emit_splat(e, blu_emit_i64(e, 32)), ""), narrow, "");
}

static LLVMValueRef unary(Emit *e, const char *name, LLVMValueRef a) { return blu_emit_intrinsic(e, name, LLVMTypeOf(a), 1, &a); }

/* v with the lanes of `other`: scalars choose between vectors, and between a vector and a number; sums of vectors begin with a number. */
static LLVMValueRef as_wide_as(Emit *e, LLVMValueRef v, LLVMValueRef other) {
  int lanes = e->lanes;
  e->lanes = lanes_of(other) > 1 ? lanes_of(other) : lanes;
  v = blu_emit_splat(e, v);
  e->lanes = lanes;
  return v;
}

static BluEmitVal prim(BluEmit *base, BluPrim p, BluElem t, BluEmitVal va, BluEmitVal vb, BluEmitVal vc) {
  Emit *e = (Emit *)base;
  LLVMBuilderRef B = e->b;
  LLVMValueRef a = blu_emit_splat(e, va.u.v), b = blu_emit_splat(e, vb.u.v), c = blu_emit_splat(e, vc.u.v);
  switch (p) {
  case BLU_PRIM_FADD: return val(t, LLVMBuildFAdd(B, as_wide_as(e, a, b), as_wide_as(e, b, a), ""));
  case BLU_PRIM_FSUB: return val(t, LLVMBuildFSub(B, a, b, ""));
  case BLU_PRIM_FMUL: return val(t, LLVMBuildFMul(B, a, b, ""));
  case BLU_PRIM_FDIV: return val(t, LLVMBuildFDiv(B, a, b, ""));
  case BLU_PRIM_FMA:
    if (!e->fma) return val(t, LLVMBuildFAdd(B, LLVMBuildFMul(B, a, b, ""), c, ""));
    return val(t, blu_emit_intrinsic(e, "llvm.fma", LLVMTypeOf(a), 3, (LLVMValueRef[]){a, b, c}));
  case BLU_PRIM_FNEG: return val(t, LLVMBuildFNeg(B, a, ""));
  case BLU_PRIM_FABS: return val(t, unary(e, "llvm.fabs", a));
  case BLU_PRIM_FSQRT: return val(t, unary(e, "llvm.sqrt", a));
  case BLU_PRIM_FFLOOR: return val(t, unary(e, "llvm.floor", a));
  case BLU_PRIM_FROUND: return val(t, unary(e, "llvm.roundeven", a));
  case BLU_PRIM_EQ: case BLU_PRIM_NE: case BLU_PRIM_LT: case BLU_PRIM_LE: case BLU_PRIM_GT: case BLU_PRIM_GE:
    return val(BLU_BOOL, compare(e, p, va.elem, a, b));
  case BLU_PRIM_SELECT: return val(t, LLVMBuildSelect(B, a, as_wide_as(e, b, c), as_wide_as(e, c, b), ""));
  case BLU_PRIM_AND: return val(t, LLVMBuildAnd(B, a, b, ""));
  case BLU_PRIM_OR: return val(t, LLVMBuildOr(B, a, b, ""));
  case BLU_PRIM_XOR: return val(t, LLVMBuildXor(B, a, b, ""));
  case BLU_PRIM_IADD: return val(t, LLVMBuildAdd(B, a, b, ""));
  case BLU_PRIM_ISUB: return val(t, LLVMBuildSub(B, a, b, ""));
  case BLU_PRIM_IMUL: return val(t, LLVMBuildMul(B, a, b, ""));
  case BLU_PRIM_SHL: return val(t, LLVMBuildShl(B, a, b, ""));
  case BLU_PRIM_SHR: return val(t, LLVMBuildLShr(B, a, b, ""));
  case BLU_PRIM_MULHI: return val(t, high_product(e, a, b));
  case BLU_PRIM_CAST: return val(t, cast(e, va.elem, t, a));
  case BLU_PRIM_BITCAST: return val(t, LLVMBuildBitCast(B, a, blu_emit_type(e, t), ""));
  case BLU_PRIM_EXP64: return val(t, call64(e, "blu_rt_exp", 1, a, b));
  case BLU_PRIM_LOG64: return val(t, call64(e, "blu_rt_log", 1, a, b));
  case BLU_PRIM_POW64: return val(t, call64(e, "blu_rt_pow", 2, a, b));
  case BLU_PRIM_SIN64: return val(t, call64(e, "blu_rt_sin", 1, a, b));
  case BLU_PRIM_COS64: return val(t, call64(e, "blu_rt_cos", 1, a, b));
  case BLU_PRIM_TANH64: return val(t, call64(e, "blu_rt_tanh", 1, a, b));
  case BLU_PRIM_SIN_FAR: return val(t, far_sine(e, "blu_rt_sin", a, b));
  case BLU_PRIM_COS_FAR: return val(t, far_sine(e, "blu_rt_cos", a, b));
  }
  return va;
}

void blu_emit_init(Emit *e, LLVMContextRef ctx, LLVMModuleRef module, int level) {
  *e = (Emit){.base = {prim, constant, bits, index_of_point}, .ctx = ctx, .module = module, .lanes = BLU_LANES, .fma = level >= 3, .f16c = level >= 3,
              .b = LLVMCreateBuilderInContext(ctx)};
}
