/* math.c - the functions of runtime/math.c as device code: the same steps in the same order, so the same bits, which a test holds; see there
 * for sources and errors. What is a branch there is mostly a choice here. An exact product is one of a multiply-add. */
#include <math.h>
#include <string.h>
#include "codegen/cuda/cuda.h"

typedef LLVMValueRef V;
typedef struct { LLVMContextRef ctx; LLVMModuleRef module; LLVMBuilderRef b; LLVMValueRef fn; } Math;
typedef struct { V hi, lo; } Pair;

enum { CONSTANT_SPACE = 4 };

static LLVMTypeRef f64(Math *m) { return LLVMDoubleTypeInContext(m->ctx); }
static LLVMTypeRef integer(Math *m, unsigned bits) { return LLVMIntTypeInContext(m->ctx, bits); }
static V num(Math *m, double v) { return LLVMConstReal(f64(m), v); }
static V i64(Math *m, uint64_t v) { return LLVMConstInt(integer(m, 64), v, 0); }
static V add(Math *m, V a, V b) { return LLVMBuildFAdd(m->b, a, b, ""); }
static V sub(Math *m, V a, V b) { return LLVMBuildFSub(m->b, a, b, ""); }
static V mul(Math *m, V a, V b) { return LLVMBuildFMul(m->b, a, b, ""); }
static V divide(Math *m, V a, V b) { return LLVMBuildFDiv(m->b, a, b, ""); }
static V neg(Math *m, V a) { return LLVMBuildFNeg(m->b, a, ""); }
static V iadd(Math *m, V a, V b) { return LLVMBuildAdd(m->b, a, b, ""); }
static V both(Math *m, V a, V b) { return LLVMBuildAnd(m->b, a, b, ""); }
static V either(Math *m, V a, V b) { return LLVMBuildOr(m->b, a, b, ""); }
static V left(Math *m, V a, uint64_t by) { return LLVMBuildShl(m->b, a, LLVMConstInt(LLVMTypeOf(a), by, 0), ""); }
static V right(Math *m, V a, uint64_t by) { return LLVMBuildLShr(m->b, a, LLVMConstInt(LLVMTypeOf(a), by, 0), ""); }
static V is(Math *m, LLVMRealPredicate p, V a, double b) { return LLVMBuildFCmp(m->b, p, a, num(m, b), ""); }
static V iis(Math *m, LLVMIntPredicate p, V a, uint64_t b) { return LLVMBuildICmp(m->b, p, a, LLVMConstInt(LLVMTypeOf(a), b, 1), ""); }
static V pick(Math *m, V c, V a, V b) { return LLVMBuildSelect(m->b, c, a, b, ""); }
static V bits_of(Math *m, V x) { return LLVMBuildBitCast(m->b, x, integer(m, 64), ""); }
static V of_bits(Math *m, V x) { return LLVMBuildBitCast(m->b, x, f64(m), ""); }
static V to_int(Math *m, V x) { return LLVMBuildFPToSI(m->b, x, integer(m, 64), ""); }
static V wide(Math *m, V x) { return LLVMBuildZExt(m->b, x, integer(m, 128), ""); }
static V narrow(Math *m, V x) { return LLVMBuildTrunc(m->b, x, integer(m, 64), ""); }

static V intrinsic(Math *m, const char *name, int n, V *args) {
  Emit e = {.ctx = m->ctx, .module = m->module, .b = m->b};
  return blu_emit_intrinsic(&e, name, f64(m), n, args);
}
static V magnitude(Math *m, V x) { return intrinsic(m, "llvm.fabs", 1, &x); }
static V with_sign_of(Math *m, V x, V sign) { return intrinsic(m, "llvm.copysign", 2, (V[]){x, sign}); }

/* ---- double-doubles ---- */

static Pair pair(Math *m, V hi) { return (Pair){hi, num(m, 0)}; }

static Pair sum_ordered(Math *m, V a, V b) {
  V s = add(m, a, b);
  return (Pair){s, sub(m, b, sub(m, s, a))};
}
static Pair sum(Math *m, V a, V b) {
  V s = add(m, a, b), t = sub(m, s, a);
  return (Pair){s, add(m, sub(m, a, sub(m, s, t)), sub(m, b, t))};
}
static Pair product(Math *m, V a, V b) {
  V p = mul(m, a, b);
  return (Pair){p, intrinsic(m, "llvm.fma", 3, (V[]){a, b, neg(m, p)})};
}
static Pair pair_add(Math *m, Pair a, Pair b) {
  Pair s = sum(m, a.hi, b.hi), t = sum(m, a.lo, b.lo);
  s = sum_ordered(m, s.hi, add(m, s.lo, t.hi));
  return sum_ordered(m, s.hi, add(m, s.lo, t.lo));
}
static Pair pair_mul(Math *m, Pair a, Pair b) {
  Pair p = product(m, a.hi, b.hi);
  return sum_ordered(m, p.hi, add(m, p.lo, add(m, mul(m, a.hi, b.lo), mul(m, a.lo, b.hi))));
}
static Pair pair_div(Math *m, Pair a, Pair b) {
  V q = divide(m, a.hi, b.hi);
  Pair p = pair_mul(m, b, pair(m, q));
  V rest = add(m, sub(m, sub(m, a.hi, p.hi), p.lo), a.lo);
  return sum_ordered(m, q, divide(m, rest, b.hi));
}

static V scale(Math *m, V x, V k) {
  V up = iis(m, LLVMIntSGT, k, 1000), down = iis(m, LLVMIntSLT, k, (uint64_t)-1000);
  x = pick(m, up, mul(m, x, num(m, 0x1p1000)), pick(m, down, mul(m, x, num(m, 0x1p-960)), x));
  k = iadd(m, k, pick(m, up, i64(m, (uint64_t)-1000), pick(m, down, i64(m, 960), i64(m, 0))));
  return mul(m, x, of_bits(m, left(m, iadd(m, k, i64(m, 1023)), 52)));
}

static V nearest(Math *m, V x) { return sub(m, add(m, x, num(m, 0x1.8p52)), num(m, 0x1.8p52)); }
static Pair ln2(Math *m) { return (Pair){num(m, 0x1.62e42fefa39efp-1), num(m, 0x1.abc9e3b39803fp-56)}; }
static Pair half_pi(Math *m) { return (Pair){num(m, 0x1.921fb54442d18p0), num(m, 0x1.1a62633145c07p-54)}; }

/* ---- exp, log, pow, tanh ---- */

static Pair exp_reduced(Math *m, Pair x, V *k) {
  V n = nearest(m, mul(m, x.hi, num(m, 0x1.71547652b82fep0)));
  *k = to_int(m, n);
  Pair r = pair_add(m, x, pair_mul(m, pair(m, neg(m, n)), ln2(m)));
  V tail = num(m, 0);
  for (int i = 14; i >= 4; i--) tail = mul(m, add(m, tail, num(m, 1)), divide(m, r.hi, num(m, i)));
  Pair square = pair_mul(m, r, r), cube = pair_mul(m, square, r);
  Pair e = pair_add(m, (Pair){divide(m, square.hi, num(m, 2)), divide(m, square.lo, num(m, 2))}, pair_div(m, cube, pair(m, num(m, 6))));
  e = pair_add(m, e, pair(m, mul(m, divide(m, cube.hi, num(m, 6)), tail)));
  return pair_add(m, r, e);
}

static V exp_pair(Math *m, Pair x) {
  V high = is(m, LLVMRealOGT, x.hi, 710), low = is(m, LLVMRealOLT, x.hi, -746), outside = either(m, high, low), k;
  Pair in = {pick(m, outside, num(m, 0), x.hi), pick(m, outside, num(m, 0), x.lo)};
  Pair e = exp_reduced(m, in, &k);
  V y = scale(m, pair_add(m, pair(m, num(m, 1)), e).hi, k);
  return pick(m, high, num(m, INFINITY), pick(m, low, num(m, 0), y));
}

static Pair log_pair(Math *m, V x) {
  V tiny = is(m, LLVMRealOLT, x, 0x1p-1022);
  x = pick(m, tiny, mul(m, x, num(m, 0x1p54)), x);
  V k = iadd(m, pick(m, tiny, i64(m, (uint64_t)-54), i64(m, 0)), iadd(m, right(m, bits_of(m, x), 52), i64(m, (uint64_t)-1023)));
  V f = of_bits(m, either(m, both(m, bits_of(m, x), i64(m, 0xfffffffffffffu)), i64(m, (uint64_t)1023 << 52)));
  V large = is(m, LLVMRealOGT, f, 0x1.6a09e667f3bcdp0);
  f = pick(m, large, divide(m, f, num(m, 2)), f);
  k = iadd(m, k, LLVMBuildZExt(m->b, large, integer(m, 64), ""));
  Pair s = pair_div(m, pair(m, sub(m, f, num(m, 1))), sum(m, f, num(m, 1)));
  Pair square = pair_mul(m, s, s), series = pair(m, num(m, 0));
  for (int i = 37; i >= 1; i -= 2) series = pair_add(m, pair_mul(m, series, square), pair_div(m, pair(m, num(m, 2)), pair(m, num(m, i))));
  return pair_add(m, pair_mul(m, pair(m, LLVMBuildSIToFP(m->b, k, f64(m), "")), ln2(m)), pair_mul(m, series, s));
}

static V make_exp(Math *m) {
  V x = LLVMGetParam(m->fn, 0);
  return pick(m, is(m, LLVMRealUNO, x, 0), x, exp_pair(m, pair(m, x)));
}

static V make_log(Math *m) {
  V x = LLVMGetParam(m->fn, 0), y = log_pair(m, x).hi;
  y = pick(m, is(m, LLVMRealOLT, x, 0), num(m, NAN), pick(m, is(m, LLVMRealOEQ, x, 0), num(m, -INFINITY), y));
  return pick(m, either(m, is(m, LLVMRealUNO, x, 0), is(m, LLVMRealOEQ, x, INFINITY)), x, y);
}

static V make_pow(Math *m) {
  V x = LLVMGetParam(m->fn, 0), y = LLVMGetParam(m->fn, 1), base = magnitude(m, x), size = magnitude(m, y), one = num(m, 1);
  V huge = is(m, LLVMRealOGE, size, 0x1p53), y_int = to_int(m, pick(m, is(m, LLVMRealOLT, size, 0x1p53), y, num(m, 0)));
  V same = LLVMBuildFCmp(m->b, LLVMRealOEQ, LLVMBuildSIToFP(m->b, y_int, f64(m), ""), y, ""), whole = either(m, huge, same);
  V odd = both(m, both(m, whole, LLVMBuildNot(m->b, huge, "")), iis(m, LLVMIntNE, both(m, y_int, i64(m, 1)), 0));
  V sign = pick(m, odd, with_sign_of(m, one, x), one);
  V result = mul(m, sign, exp_pair(m, pair_mul(m, log_pair(m, base), pair(m, y))));
  result = pick(m, is(m, LLVMRealOLT, size, 0x1p-70), one, result);
  result = pick(m, both(m, is(m, LLVMRealOLT, x, 0), LLVMBuildNot(m->b, whole, "")), num(m, NAN), result);
  V extreme = either(m, either(m, is(m, LLVMRealOEQ, base, 0), is(m, LLVMRealOEQ, base, INFINITY)), is(m, LLVMRealOGT, size, 0x1p65));
  V grows = LLVMBuildICmp(m->b, LLVMIntEQ, is(m, LLVMRealOGT, base, 1), is(m, LLVMRealOGT, y, 0), "");
  V limit = mul(m, sign, pick(m, grows, num(m, INFINITY), num(m, 0)));
  result = pick(m, extreme, pick(m, is(m, LLVMRealOEQ, base, 1), one, limit), result);
  result = pick(m, either(m, is(m, LLVMRealUNO, x, 0), is(m, LLVMRealUNO, y, 0)), num(m, NAN), result);
  return pick(m, either(m, is(m, LLVMRealOEQ, y, 0), is(m, LLVMRealOEQ, x, 1)), one, result);
}

static V make_tanh(Math *m) {
  V x = LLVMGetParam(m->fn, 0), size = magnitude(m, x), k, far = is(m, LLVMRealOGT, size, 20), one = num(m, 1);
  V in = pick(m, is(m, LLVMRealOLE, size, 20), size, num(m, 0));
  Pair e = exp_reduced(m, pair(m, mul(m, num(m, 2), in)), &k);
  V power = LLVMBuildSIToFP(m->b, LLVMBuildShl(m->b, i64(m, 1), both(m, k, i64(m, 63)), ""), f64(m), "");
  e = (Pair){mul(m, e.hi, power), mul(m, e.lo, power)};
  Pair q = pair_div(m, pair_add(m, sum(m, power, num(m, -1)), e), pair_add(m, sum(m, power, one), e));
  V y = with_sign_of(m, pick(m, far, one, q.hi), x);
  return pick(m, either(m, is(m, LLVMRealUNO, x, 0), is(m, LLVMRealOLT, size, 0x1p-28)), x, y);
}

/* ---- sin, cos ---- */

static Pair reduce_near(Math *m, V x, V *quadrant) {
  V n = nearest(m, mul(m, x, num(m, 0x1.45f306dc9c883p-1)));
  Pair a = product(m, n, half_pi(m).hi), b = product(m, n, half_pi(m).lo), r = sum(m, x, neg(m, a.hi));
  r = pair_add(m, r, pair(m, neg(m, a.lo)));
  r = pair_add(m, r, (Pair){neg(m, b.hi), neg(m, b.lo)});
  r = pair_add(m, r, pair(m, mul(m, n, num(m, 0x1.f1976b7ed8fbcp-110))));
  *quadrant = both(m, to_int(m, n), i64(m, 3));
  return r;
}

/* 2/pi behind the binary point, after a word of zeros. */
static V two_over_pi(Math *m) {
  static const uint64_t words[] = {
    0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
    0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  enum { WORDS = sizeof words / sizeof *words };
  V g = LLVMGetNamedGlobal(m->module, "blu_two_over_pi"), word[WORDS];
  if (g) return g;
  for (int i = 0; i < WORDS; i++) word[i] = i64(m, words[i]);
  V all = LLVMConstArray2(integer(m, 64), word, WORDS);
  g = LLVMAddGlobalInAddressSpace(m->module, LLVMTypeOf(all), "blu_two_over_pi", CONSTANT_SPACE);
  LLVMSetInitializer(g, all);
  LLVMSetGlobalConstant(g, 1);
  LLVMSetLinkage(g, LLVMInternalLinkage);
  return g;
}

/* 64 bits of 2/pi from bit `at` on, -64 <= at. */
static V bits_from(Math *m, V at) {
  V from = iadd(m, at, i64(m, 64)), word = right(m, from, 6), shift = both(m, from, i64(m, 63)), g = two_over_pi(m), next = iadd(m, word, i64(m, 1));
  V high = LLVMBuildLoad2(m->b, integer(m, 64), LLVMBuildGEP2(m->b, integer(m, 64), g, &word, 1, ""), "");
  V low = LLVMBuildLoad2(m->b, integer(m, 64), LLVMBuildGEP2(m->b, integer(m, 64), g, &next, 1, ""), "");
  V joined = LLVMBuildOr(m->b, left(m, wide(m, high), 64), wide(m, low), "");
  return narrow(m, right(m, LLVMBuildShl(m->b, joined, wide(m, shift), ""), 64));
}

static Pair reduce_far(Math *m, V x, V *quadrant) {
  V bits = bits_of(m, x), f = either(m, both(m, bits, i64(m, 0xfffffffffffffu)), i64(m, (uint64_t)1 << 52));
  V e = iadd(m, both(m, right(m, bits, 52), i64(m, 2047)), i64(m, (uint64_t)-1075 - 2));
  V low = LLVMBuildMul(m->b, wide(m, f), wide(m, bits_from(m, iadd(m, e, i64(m, 128)))), "");
  V middle = iadd(m, LLVMBuildMul(m->b, wide(m, f), wide(m, bits_from(m, iadd(m, e, i64(m, 64)))), ""), right(m, low, 64));
  V part[3] = {iadd(m, LLVMBuildMul(m->b, f, bits_from(m, e), ""), narrow(m, right(m, middle, 64))), narrow(m, middle), narrow(m, low)};
  V turns = right(m, part[0], 62), negative = iis(m, LLVMIntNE, both(m, right(m, part[0], 61), i64(m, 1)), 0);
  part[0] = either(m, left(m, part[0], 2), right(m, part[1], 62)), part[1] = either(m, left(m, part[1], 2), right(m, part[2], 62));
  part[2] = left(m, part[2], 2);
  turns = iadd(m, turns, LLVMBuildZExt(m->b, negative, integer(m, 64), ""));
  for (int i = 0; i < 3; i++) part[i] = pick(m, negative, LLVMBuildNot(m->b, part[i], ""), part[i]);
  Pair r = pair(m, num(m, 0));
  double unit = 0x1p-32;
  for (int i = 0; i < 6; i++, unit *= 0x1p-32) {
    V half = both(m, i % 2 ? part[i / 2] : right(m, part[i / 2], 32), i64(m, 0xffffffffu));
    r = pair_add(m, r, pair(m, mul(m, LLVMBuildUIToFP(m->b, half, f64(m), ""), num(m, unit))));
  }
  r = pair_mul(m, r, half_pi(m));
  V below = is(m, LLVMRealOLT, x, 0), minus = LLVMBuildXor(m->b, negative, below, "");
  *quadrant = pick(m, below, LLVMBuildNeg(m->b, turns, ""), turns);
  return (Pair){pick(m, minus, neg(m, r.hi), r.hi), pick(m, minus, neg(m, r.lo), r.lo)};
}

static V sin_reduced(Math *m, Pair r) {
  V z = mul(m, r.hi, r.hi), t = num(m, 0), one = num(m, 1);
  for (int i = 18; i >= 2; i -= 2) t = mul(m, sub(m, one, t), divide(m, z, num(m, i * (i + 1))));
  V inner = sub(m, mul(m, r.lo, sub(m, one, divide(m, z, num(m, 2)))), mul(m, r.hi, t));
  return add(m, r.hi, inner);
}

static V cos_reduced(Math *m, Pair r) {
  Pair z = product(m, r.hi, r.hi);
  V t = num(m, 0), one = num(m, 1), half = divide(m, z.hi, num(m, 2));
  for (int i = 17; i >= 3; i -= 2) t = mul(m, sub(m, one, t), divide(m, z.hi, num(m, i * (i + 1))));
  Pair c = pair_add(m, pair(m, one), (Pair){divide(m, neg(m, z.hi), num(m, 2)), divide(m, neg(m, z.lo), num(m, 2))});
  return add(m, c.hi, add(m, c.lo, sub(m, mul(m, half, t), mul(m, r.hi, r.lo))));
}

/* sin(x + quarters pi / 2) */
static V sine(Math *m, V x, uint64_t quarters) {
  V finite = is(m, LLVMRealOLT, magnitude(m, x), INFINITY), near = is(m, LLVMRealOLT, magnitude(m, x), 0x1p30);
  LLVMBasicBlockRef block[3];
  for (int i = 0; i < 3; i++) block[i] = LLVMAppendBasicBlockInContext(m->ctx, m->fn, "");
  LLVMBuildCondBr(m->b, near, block[0], block[1]);
  Pair r[2];
  V quadrant[2], phi[3];
  for (int i = 0; i < 2; i++) {
    LLVMPositionBuilderAtEnd(m->b, block[i]);
    r[i] = i ? reduce_far(m, pick(m, finite, x, num(m, 0x1p30)), &quadrant[i]) : reduce_near(m, x, &quadrant[i]);
    LLVMBuildBr(m->b, block[2]);
  }
  LLVMPositionBuilderAtEnd(m->b, block[2]);
  for (int k = 0; k < 3; k++) phi[k] = LLVMBuildPhi(m->b, k == 2 ? integer(m, 64) : f64(m), "");
  for (int i = 0; i < 2; i++) {
    LLVMAddIncoming(phi[0], &r[i].hi, &block[i], 1), LLVMAddIncoming(phi[1], &r[i].lo, &block[i], 1);
    LLVMAddIncoming(phi[2], &quadrant[i], &block[i], 1);
  }
  Pair rest = {phi[0], phi[1]};
  V q = iadd(m, phi[2], i64(m, quarters)), odd = iis(m, LLVMIntNE, both(m, q, i64(m, 1)), 0), minus = iis(m, LLVMIntNE, both(m, q, i64(m, 2)), 0);
  V y = pick(m, odd, cos_reduced(m, rest), sin_reduced(m, rest));
  return pick(m, finite, pick(m, minus, neg(m, y), y), num(m, NAN));
}

static V make_sin(Math *m) {
  V x = LLVMGetParam(m->fn, 0), tiny = is(m, LLVMRealOLT, magnitude(m, x), 0x1p-27), y = sine(m, x, 0);
  return pick(m, tiny, x, y);
}
static V make_cos(Math *m) { return sine(m, LLVMGetParam(m->fn, 0), 1); }

void blu_cuda_math(LLVMModuleRef module) {
  static const struct { const char *name; V (*make)(Math *m); } functions[] = {{"blu_rt_exp", make_exp}, {"blu_rt_log", make_log}, {"blu_rt_pow", make_pow},
    {"blu_rt_sin", make_sin}, {"blu_rt_cos", make_cos}, {"blu_rt_tanh", make_tanh}};
  LLVMContextRef ctx = LLVMGetModuleContext(module);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    Math m = {.ctx = ctx, .module = module, .fn = LLVMGetNamedFunction(module, functions[i].name)};
    if (!m.fn || !LLVMIsDeclaration(m.fn)) continue;
    m.b = LLVMCreateBuilderInContext(ctx);
    LLVMPositionBuilderAtEnd(m.b, LLVMAppendBasicBlockInContext(ctx, m.fn, ""));
    LLVMBuildRet(m.b, functions[i].make(&m));
    LLVMDisposeBuilder(m.b);
    LLVMSetLinkage(m.fn, LLVMInternalLinkage);
    static const char attribute[] = "noinline";
    LLVMAddAttributeAtIndex(m.fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(ctx, LLVMGetEnumAttributeKindForName(attribute, strlen(attribute)), 0));
  }
}
