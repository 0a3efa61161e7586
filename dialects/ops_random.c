/* ops_random.c - random numbers as a function of key, stream and index alone: Philox4x32-10 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011), word 0 of the block with counter (index, stream) and the key. */
#include <math.h>
#include "dialects_internal.h"

enum { ROUNDS = 10 };
static const uint32_t M0 = 0xD2511F53, M1 = 0xCD9E8D57, W0 = 0x9E3779B9, W1 = 0xBB67AE85;

uint32_t blu_philox(uint64_t key, uint64_t stream, uint64_t index) {
  uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int r = 0; r < ROUNDS; r++, k0 += W0, k1 += W1) {
    uint64_t p0 = (uint64_t)M0 * c[0], p1 = (uint64_t)M1 * c[2];
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[0] = n0, c[1] = (uint32_t)p1, c[2] = n2, c[3] = (uint32_t)p0;
  }
  return c[0];
}

static bool infer_random(BluSig *s, BluWhy *why) {
  if (s->in[0].elem != BLU_I64 || s->in[0].rank) return blu_refuse(why, "key", 0, "the key is an i64 scalar");
  const BluAttr *a = blu_attr(&s->attrs, "shape");
  s->out = blu_type_make(BLU_F32, a->n, a->i);
  return true;
}

static double uniform(const BluRefCall *c, int64_t stream, int64_t i) {
  return (double)(blu_philox((uint64_t)(int64_t)c->in[0][0], (uint64_t)stream, (uint64_t)i) >> 8) * 0x1p-24;
}

static void ref_uniform(BluRefCall *c) {
  int64_t stream = blu_attr_int(&c->sig->attrs, "stream", 0);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = uniform(c, stream, i);
}

static BluEmitVal lower_uniform(BluEmit *e, const BluAttrs *at, const BluEmitVal *in, int nin) {
  (void)nin;
  uint64_t stream = (uint64_t)blu_attr_int(at, "stream", 0);
#define CAST(to, x) e->prim(e, BLU_PRIM_CAST, to, x, x, x)
#define BITS(v) e->bits(e, BLU_I32, v)
#define OP(p, a, b) blu_emit2(e, BLU_PRIM_##p, a, b)
  BluEmitVal index = e->index(e), high = e->bits(e, BLU_I64, 32), mask = e->bits(e, BLU_I64, 0xffffffff);
  /* i64 to i32 saturates as a cast: keep the low half below 2^31 by splitting off its top bit */
#define LOW(x) OP(OR, CAST(BLU_I32, OP(AND, x, e->bits(e, BLU_I64, 0x7fffffff))), \
                  OP(SHL, CAST(BLU_I32, OP(AND, OP(SHR, x, e->bits(e, BLU_I64, 31)), e->bits(e, BLU_I64, 1))), BITS(31)))
  (void)mask;
  BluEmitVal index_high = OP(SHR, index, high), key_high = OP(SHR, in[0], high);
  BluEmitVal c0 = LOW(index), c1 = LOW(index_high), c2 = BITS((uint32_t)stream), c3 = BITS((uint32_t)(stream >> 32));
  BluEmitVal k0 = LOW(in[0]), k1 = LOW(key_high);
  for (int r = 0; r < ROUNDS; r++) {
    BluEmitVal h0 = OP(MULHI, BITS(M0), c0), l0 = OP(IMUL, BITS(M0), c0), h1 = OP(MULHI, BITS(M1), c2), l1 = OP(IMUL, BITS(M1), c2);
    c0 = OP(XOR, OP(XOR, h1, c1), k0), c1 = l1, c2 = OP(XOR, OP(XOR, h0, c3), k1), c3 = l0;
    k0 = OP(IADD, k0, BITS(W0)), k1 = OP(IADD, k1, BITS(W1));
  }
  BluEmitVal top = CAST(BLU_F32, OP(SHR, c0, BITS(8))); /* 24 bits: exact in f32 */
  return OP(FMUL, top, e->constant(e, BLU_F32, 0x1p-24));
}

const BluRule blu_rule_uniform = {.kind = BLU_KIND_ELEMENT, .infer = infer_random, .ref = ref_uniform, .lower = lower_uniform,
  .nodiff = true, .cases = (const BluOpCase[]){{0}}, .tolerance = 0};

/* ---- normal: sqrt(-2 log(1 - u)) cos(2 pi v), u and v from two streams ---- */

static const int64_t SECOND = 0x4e6f726d616c0000; /* offset of v's stream: "Normal" */
static int64_t second_stream(const BluSig *s) { return (int64_t)((uint64_t)blu_attr_int(&s->attrs, "stream", 0) ^ (uint64_t)SECOND); }

static void ref_normal(BluRefCall *c) {
  int64_t stream = blu_attr_int(&c->sig->attrs, "stream", 0);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++)
    c->out[i] = sqrt(-2 * log(1 - uniform(c, stream, i))) * cos((double)6.283185307179586f * uniform(c, second_stream(c->sig), i));
}

static MlirValue expand_normal(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  MlirValue u = blu_build(b, "uniform", &s->attrs, 1, in);
  BluAttrs as = blu_attr_set_int(s->attrs, "stream", second_stream(s));
  MlirValue v = blu_build(b, "uniform", &as, 1, in);
  MlirValue l = blu_build1(b, "log", blu_build2(b, "sub", blu_constant_like(b, u, 1), u));
  MlirValue radius = blu_build1(b, "sqrt", blu_build2(b, "mul", blu_constant_like(b, u, -2), l));
  return blu_build2(b, "mul", radius, blu_build1(b, "cos", blu_build2(b, "mul", blu_constant_like(b, u, 6.283185307179586), v)));
}

const BluRule blu_rule_normal = {.kind = BLU_KIND_COMPOSITE, .infer = infer_random, .ref = ref_normal, .expand = expand_normal,
  .nodiff = true, .cases = (const BluOpCase[]){{0}}, .tolerance = 2e-6 /* up to 5.8 deviations: radius and cosine, 2 ulp each */};
