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

static bool infer_bits(BluSig *s, BluWhy *why) {
  if (!infer_random(s, why)) return false;
  s->out.elem = BLU_I32;
  return true;
}

static bool is_scalar_i64(const BluType *t) { return t->elem == BLU_I64 && !t->rank; }

static bool infer_uniform_at(BluSig *s, BluWhy *why) {
  for (int i = 1; i < 3; i++)
    if (!is_scalar_i64(&s->in[i])) return blu_refuse(why, "stream", i, "the halves of a stream are i64 scalars");
  return infer_random(s, why);
}

static bool infer_bits_at(BluSig *s, BluWhy *why) {
  if (!infer_uniform_at(s, why)) return false;
  s->out.elem = BLU_I32;
  return true;
}

static uint32_t word(const BluRefCall *c, int64_t stream, int64_t i, int key) {
  return blu_philox((uint64_t)(int64_t)c->in[key][0], (uint64_t)stream, (uint64_t)i);
}

static double uniform(const BluRefCall *c, int64_t stream, int64_t i) {
  return (double)(word(c, stream, i, 0) >> 8) * 0x1p-24;
}

static void ref_uniform(BluRefCall *c) {
  int64_t stream = blu_attr_int(&c->sig->attrs, "stream", 0);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = uniform(c, stream, i);
}

static void ref_random_bits(BluRefCall *c) {
  int64_t stream = blu_attr_int(&c->sig->attrs, "stream", 0);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = (double)(word(c, stream, i, 0) >> 1);
}

static int64_t stream_at(const BluRefCall *c) { return (int64_t)((uint64_t)(int64_t)c->in[2][0] << 32 | (uint32_t)(int64_t)c->in[1][0]); }

static void ref_uniform_at(BluRefCall *c) {
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = uniform(c, stream_at(c), i);
}

static void ref_bits_at(BluRefCall *c) {
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = (double)(word(c, stream_at(c), i, 0) >> 1);
}

/* in: the key, and the halves of the stream if they are operands. */
static BluEmitVal emit_word(BluEmit *e, const BluAttrs *at, const BluEmitVal *in, int nin) {
  uint64_t stream = (uint64_t)blu_attr_int(at, "stream", 0);
#define CAST(to, x) e->prim(e, BLU_PRIM_CAST, to, x, x, x)
#define BITS(v) e->bits(e, BLU_I32, v)
#define OP(p, a, b) blu_emit2(e, BLU_PRIM_##p, a, b)
  BluEmitVal index = e->index(e), high = e->bits(e, BLU_I64, 32);
  /* i64 to i32 saturates as a cast: keep the low half below 2^31 by splitting off its top bit */
#define LOW(x) OP(OR, CAST(BLU_I32, OP(AND, x, e->bits(e, BLU_I64, 0x7fffffff))), \
                  OP(SHL, CAST(BLU_I32, OP(AND, OP(SHR, x, e->bits(e, BLU_I64, 31)), e->bits(e, BLU_I64, 1))), BITS(31)))
  BluEmitVal index_high = OP(SHR, index, high), key_high = OP(SHR, in[0], high);
  BluEmitVal c0 = LOW(index), c1 = LOW(index_high);
  BluEmitVal c2 = nin > 1 ? LOW(in[1]) : BITS((uint32_t)stream), c3 = nin > 1 ? LOW(in[2]) : BITS((uint32_t)(stream >> 32));
  BluEmitVal k0 = LOW(in[0]), k1 = LOW(key_high);
  for (int r = 0; r < ROUNDS; r++) {
    BluEmitVal h0 = OP(MULHI, BITS(M0), c0), l0 = OP(IMUL, BITS(M0), c0), h1 = OP(MULHI, BITS(M1), c2), l1 = OP(IMUL, BITS(M1),
        c2);
    c0 = OP(XOR, OP(XOR, h1, c1), k0), c1 = l1, c2 = OP(XOR, OP(XOR, h0, c3), k1), c3 = l0;
    k0 = OP(IADD, k0, BITS(W0)), k1 = OP(IADD, k1, BITS(W1));
  }
  return c0;
}

static BluEmitVal lower_uniform(BluEmit *e, const BluAttrs *at, const BluEmitVal *in, int nin) {
  BluEmitVal top = OP(SHR, emit_word(e, at, in, nin), BITS(8)); /* 24 bits: exact in f32 */
  return OP(FMUL, CAST(BLU_F32, top), e->constant(e, BLU_F32, 0x1p-24));
}

static BluEmitVal lower_random_bits(BluEmit *e, const BluAttrs *at, const BluEmitVal *in, int nin) {
  return OP(SHR, emit_word(e, at, in, nin), BITS(1));
}

/* The same with the stream as operands. Kernels are equal then that differ in their streams alone: those of all layers are one. */
static MlirValue with_stream(BluBuilder *b, const BluSig *s, const char *op, MlirValue key) {
  uint64_t stream = (uint64_t)blu_attr_int(&s->attrs, "stream", 0);
  const BluAttr *shape = blu_attr(&s->attrs, "shape");
  BluType scalar = blu_type_make(BLU_I64, 0, NULL);
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", shape->n, shape->i);
  MlirValue low = blu_constant(b, &scalar, (double)(uint32_t)stream), high = blu_constant(b, &scalar, (double)(uint32_t)(stream >> 32));
  return blu_build(b, op, &as, 3, (MlirValue[]){key, low, high});
}
static MlirValue expand_uniform(BluBuilder *b, const BluSig *s, const MlirValue *in) { return with_stream(b, s, "uniform_at", in[0]); }
static MlirValue expand_random_bits(BluBuilder *b, const BluSig *s, const MlirValue *in) { return with_stream(b, s, "random_bits_at", in[0]); }

const BluRule blu_rule_random_bits = {.kind = BLU_KIND_ELEMENT, .labels = "key size-positive size-bounded", .infer = infer_bits,
    .ref = ref_random_bits,
  .lower = lower_random_bits, .expand = expand_random_bits, .nodiff = true, .cases = (const BluOpCase[]){
    {"%k: tensor<i64>", "%r = blu.random_bits %k {stream = 5, shape = array<i64: 3, 40>} : (tensor<i64>) -> tensor<3x40xi32>", 0,
        0, 1 << 30}, {0}}, .tolerance = 0};

const BluRule blu_rule_uniform = {.kind = BLU_KIND_ELEMENT, .labels = "key size-positive size-bounded", .infer = infer_random,
    .ref = ref_uniform, .lower = lower_uniform, .expand = expand_uniform,
  .nodiff = true, .cases = (const BluOpCase[]){
    {"%k: tensor<i64>", "%r = blu.uniform %k {stream = 5, shape = array<i64: 3, 40>} : (tensor<i64>) -> tensor<3x40xf32>", 0, 0,
        1 << 30}, {0}}, .tolerance = 0};

#define AT(op, out)                                                                                                             \
  {"%k: tensor<i64>, %l: tensor<i64>, %h: tensor<i64>",                                                                         \
   "%r = blu." op " %k, %l, %h {shape = array<i64: 3, 40>} : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<3x40x" out ">", 0, 0, 1 << 30}
const BluRule blu_rule_uniform_at = {.kind = BLU_KIND_ELEMENT, .labels = "key stream size-positive size-bounded", .infer = infer_uniform_at,
  .ref = ref_uniform_at, .lower = lower_uniform, .nodiff = true, .cases = (const BluOpCase[]){AT("uniform_at", "f32"), {0}}, .tolerance = 0};
const BluRule blu_rule_random_bits_at = {.kind = BLU_KIND_ELEMENT, .labels = "key stream size-positive size-bounded", .infer = infer_bits_at,
  .ref = ref_bits_at, .lower = lower_random_bits, .nodiff = true, .cases = (const BluOpCase[]){AT("random_bits_at", "i32"), {0}}, .tolerance = 0};

/* ---- normal: sqrt(-2 log(1 - u)) cos(2 pi v), u and v from two streams ---- */

static const int64_t SECOND = 0x4e6f726d616c0000; /* offset of v's stream: "Normal" */
static int64_t second_stream(const BluSig *s) { return (int64_t)((uint64_t)blu_attr_int(&s->attrs, "stream",
    0) ^ (uint64_t)SECOND); }

static void ref_normal(BluRefCall *c) {
  int64_t stream = blu_attr_int(&c->sig->attrs, "stream", 0);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++)
    c->out[i] = sqrt(-2 * log(1 - uniform(c, stream, i))) * cos((double)6.283185307179586f * uniform(c, second_stream(c->sig),
        i));
}

static MlirValue expand_normal(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  MlirValue u = blu_build(b, "uniform", &s->attrs, 1, in);
  BluAttrs as = blu_attr_set_int(s->attrs, "stream", second_stream(s));
  MlirValue v = blu_build(b, "uniform", &as, 1, in);
  MlirValue l = blu_build1(b, "log", blu_build2(b, "sub", blu_constant_like(b, u, 1), u));
  MlirValue radius = blu_build1(b, "sqrt", blu_build2(b, "mul", blu_constant_like(b, u, -2), l));
  return blu_build2(b, "mul", radius, blu_build1(b, "cos", blu_build2(b, "mul", blu_constant_like(b, u, 6.283185307179586), v)));
}

const BluRule blu_rule_normal = {.kind = BLU_KIND_COMPOSITE, .labels = "key size-positive size-bounded", .infer = infer_random,
    .ref = ref_normal, .expand = expand_normal,
  .nodiff = true, .cases = (const BluOpCase[]){
    {"%k: tensor<i64>", "%r = blu.normal %k {stream = 5, shape = array<i64: 3, 40>} : (tensor<i64>) -> tensor<3x40xf32>", 0, 0,
        1 << 30}, {0}}, .tolerance = 2e-6 /* up to 5.8 deviations: radius and cosine, 2 ulp each */};

/* ---- bernoulli and dropout: 31 random bits against an integer threshold, so that no rounding decides ---- */

static double p_of(const BluSig *s) { return blu_attr_real(&s->attrs, "p", 0); }
static int64_t threshold(double p) { return (int64_t)rint(p * 0x1p31); } /* in [0, 2^31] */

/* true with probability p: bits < threshold, written as bits <= threshold - 1, which is an i32 always */
static MlirValue drawn(BluBuilder *b, const BluSig *s, const BluType *shape, MlirValue key) {
  BluAttrs as = blu_attr_set_int((BluAttrs){0}, "stream", blu_attr_int(&s->attrs, "stream", 0));
  as = blu_attr_set_ints(as, "shape", shape->rank, shape->dim);
  MlirValue bits = blu_build(b, "random_bits", &as, 1, &key);
  return blu_build2(b, "le", bits, blu_constant_like(b, bits, (double)(threshold(p_of(s)) - 1)));
}

static bool infer_bernoulli(BluSig *s, BluWhy *why) {
  if (!infer_random(s, why)) return false;
  if (!(p_of(s) >= 0 && p_of(s) <= 1)) return blu_refuse(why, "probability", -1, "p = %g is not in [0, 1]", p_of(s));
  s->out.elem = BLU_BOOL;
  return true;
}

static void ref_bernoulli(BluRefCall *c) {
  int64_t stream = blu_attr_int(&c->sig->attrs, "stream", 0), below = threshold(p_of(c->sig));
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = word(c, stream, i, 0) >> 1 < below;
}

static MlirValue expand_bernoulli(BluBuilder *b, const BluSig *s, const MlirValue *in) { return drawn(b, s, &s->out, in[0]); }

const BluRule blu_rule_bernoulli = {.kind = BLU_KIND_COMPOSITE, .labels = "key probability size-positive size-bounded",
    .infer = infer_bernoulli,
  .ref = ref_bernoulli, .expand = expand_bernoulli, .nodiff = true, .cases = (const BluOpCase[]){
    {"%k: tensor<i64>", "%r = blu.bernoulli %k {stream = 5, shape = array<i64: 3, 40>, p = 0.3} : (tensor<i64>) -> "
        "tensor<3x40xi1>", 0, 0, 1 << 30}, {0}}, .tolerance = 0};

static bool infer_dropout(BluSig *s, BluWhy *why) {
  if (!blu_require_float(s, why, 0)) return false;
  if (s->in[1].elem != BLU_I64 || s->in[1].rank) return blu_refuse(why, "key", 1, "the key is an i64 scalar");
  if (!(p_of(s) >= 0 && p_of(s) < 1)) return blu_refuse(why, "probability", -1, "p = %g is not in [0, 1)", p_of(s));
  s->out = s->in[0];
  return true;
}

static void ref_dropout(BluRefCall *c) {
  double factor = blu_rounded(c->sig->out.elem, 1 / (1 - p_of(c->sig)));
  int64_t stream = blu_attr_int(&c->sig->attrs, "stream", 0), below = threshold(p_of(c->sig));
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++)
    c->out[i] = word(c, stream, i, 1) >> 1 < below ? 0 : c->in[0][i] * factor;
}

static MlirValue kept_part(BluBuilder *b, const BluSig *s, MlirValue x, MlirValue key) {
  return blu_where(b, drawn(b, s, &s->in[0], key), blu_constant_like(b, x, 0), blu_scaled(b, x, 1 / (1 - p_of(s))));
}
static MlirValue expand_dropout(BluBuilder *b, const BluSig *s, const MlirValue *in) { return kept_part(b, s, in[0], in[1]); }
static void vjp_dropout(BluVjp *v) { v->dx[0] = kept_part(v->b, &v->sig, v->ct, v->in[1]); } /* the same bits, drawn again */

const BluRule blu_rule_dropout = {.kind = BLU_KIND_COMPOSITE, .labels = "float key probability", .infer = infer_dropout,
    .vjp = vjp_dropout,
  .ref = ref_dropout, .expand = expand_dropout, .tolerance = 2.4e-7 /* the factor and the product, rounded once each */,
  .cases = (const BluOpCase[]){
    {"%x: tensor<5x7xf64>, %k: tensor<i64>", "%r = blu.dropout %x, %k {stream = 3, p = 0.3} : (tensor<5x7xf64>, tensor<i64>) -> "
        "tensor<5x7xf64>",
     -2, 2, 1 << 30},
    {"%x: tensor<4xf64>, %k: tensor<i64>", "%r = blu.dropout %x, %k {stream = 9, p = 0.0} : (tensor<4xf64>, tensor<i64>) -> "
        "tensor<4xf64>",
     -2, 2, 1 << 30},
    {0}}};
