/* contract.c - see contract.h. Elementwise ops run the very rules that the compiler emits, through a BluEmit that computes. */
#include "contract.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/format.h"
#include "dialects/map.h"
#include "runtime/abi.h"

enum { LANES = 16, CHAIN = 256, QUERIES = 96, KEYS = 64 };

static int64_t index_of_point;

/* ---- a BluEmit that computes ---- */

typedef BluEmitVal V;
static V f32(float x) { return (V){.elem = BLU_F32, .u.f = x}; }
static V f64(double x) { return (V){.elem = BLU_F64, .u.d = x}; }
static V integer(BluElem e, int64_t x) {
  if (e == BLU_I32) x = (int32_t)x;
  if (e == BLU_U8) x = (uint8_t)x;
  if (e == BLU_BOOL) x = x & 1;
  return (V){.elem = e, .u.i = x};
}
static bool is_float(V v) { return blu_elem_is_float(v.elem); }
static double as_double(V v) { return v.elem == BLU_F64 ? v.u.d : is_float(v) ? v.u.f : (double)v.u.i; }

/* A number of a half type is held as the f32 of its value. */
static V half(BluElem t, double v) { return (V){.elem = t, .u.f = (float)blu_elem_round(t, v)}; }
static V constant(BluEmit *e, BluElem t, double v) { return (void)e, t == BLU_F32 ? f32((float)v) : t == BLU_F64 ? f64(v) : half(t, v); }
static V bits(BluEmit *e, BluElem t, uint64_t pattern) { return (void)e, integer(t, (int64_t)pattern); }
static V point(BluEmit *e) { return (void)e, integer(BLU_I64, index_of_point); }

static bool holds(BluPrim p, V a, V b) {
  double x = as_double(a), y = as_double(b);
  if (!is_float(a)) {
    int64_t i = a.u.i, j = b.u.i;
    return p == BLU_PRIM_EQ ? i == j : p == BLU_PRIM_NE ? i != j : p == BLU_PRIM_LT ? i < j : p == BLU_PRIM_LE ? i <= j : p == BLU_PRIM_GT ? i > j : i >= j;
  }
  return p == BLU_PRIM_EQ ? x == y : p == BLU_PRIM_NE ? x != y : p == BLU_PRIM_LT ? x < y : p == BLU_PRIM_LE ? x <= y : p == BLU_PRIM_GT ? x > y : x >= y;
}

static V convert(BluElem to, V a) {
  if (to == BLU_F64) return f64(as_double(a));
  bool wide = a.elem == BLU_I64 && (a.u.i > (int64_t)1 << 53 || a.u.i < -((int64_t)1 << 53));
  if (blu_elem_is_half(to) && wide) /* cut to 53 bits, the last one odd if not exact */
    a.u.i = (a.u.i & 2047) ? (a.u.i & ~(int64_t)2047) | 2048 : a.u.i;
  if (blu_elem_is_half(to)) return half(to, as_double(a));
  if (to == BLU_F32) return f32(is_float(a) ? (float)as_double(a) : (float)a.u.i);
  double lo = to == BLU_I32 ? INT32_MIN : to == BLU_I64 ? (double)INT64_MIN : 0, hi = to == BLU_I32 ? INT32_MAX : to == BLU_U8 ? 255 : 0x1p63;
  if (!is_float(a)) {
    int64_t i = a.u.i;
    return integer(to, to == BLU_I64 ? i : i < (int64_t)lo ? (int64_t)lo : i > (int64_t)hi ? (int64_t)hi : i);
  }
  double x = as_double(a);
  if (isnan(x)) return integer(to, 0);
  if (x <= lo) return integer(to, (int64_t)lo);
  if (x >= hi) return integer(to, to == BLU_I64 ? INT64_MAX : (int64_t)hi);
  return integer(to, (int64_t)x);
}

static V reinterpret(BluElem to, V a) {
  V v = {.elem = to};
  int32_t narrow;
  if (to == BLU_I32) return memcpy(&narrow, &a.u.f, 4), integer(BLU_I32, narrow);
  if (to == BLU_F32) return narrow = (int32_t)a.u.i, memcpy(&v.u.f, &narrow, 4), v;
  memcpy(&v.u, &a.u, 8);
  return v;
}

static V as_elem(BluElem t, V v) { return v.elem = t, v; } /* for half types: of ops that give one of their operands */
#define REAL(f32_expression, f64_expression) (t == BLU_F64 ? f64(f64_expression) : as_elem(t, f32(f32_expression)))
#define ARITH(op) REAL(a.u.f op b.u.f, a.u.d op b.u.d)

static V prim(BluEmit *e, BluPrim p, BluElem t, V a, V b, V c) {
  (void)e;
  switch (p) {
  case BLU_PRIM_FADD: return ARITH(+);
  case BLU_PRIM_FSUB: return ARITH(-);
  case BLU_PRIM_FMUL: return ARITH(*);
  case BLU_PRIM_FDIV: return ARITH(/);
  case BLU_PRIM_FMA: return REAL(fmaf(a.u.f, b.u.f, c.u.f), fma(a.u.d, b.u.d, c.u.d));
  case BLU_PRIM_FNEG: return REAL(-a.u.f, -a.u.d);
  case BLU_PRIM_FABS: return REAL(fabsf(a.u.f), fabs(a.u.d));
  case BLU_PRIM_FSQRT: return REAL(sqrtf(a.u.f), sqrt(a.u.d));
  case BLU_PRIM_FFLOOR: return REAL(floorf(a.u.f), floor(a.u.d));
  case BLU_PRIM_FROUND: return REAL(rintf(a.u.f), rint(a.u.d));
  case BLU_PRIM_EQ: case BLU_PRIM_NE: case BLU_PRIM_LT: case BLU_PRIM_LE: case BLU_PRIM_GT: case BLU_PRIM_GE: return integer(BLU_BOOL, holds(p, a, b));
  case BLU_PRIM_SELECT: return a.u.i ? b : c;
  case BLU_PRIM_AND: return integer(t, a.u.i & b.u.i);
  case BLU_PRIM_OR: return integer(t, a.u.i | b.u.i);
  case BLU_PRIM_XOR: return integer(t, a.u.i ^ b.u.i);
  case BLU_PRIM_IADD: return integer(t, (int64_t)((uint64_t)a.u.i + (uint64_t)b.u.i));
  case BLU_PRIM_ISUB: return integer(t, (int64_t)((uint64_t)a.u.i - (uint64_t)b.u.i));
  case BLU_PRIM_IMUL: return integer(t, (int64_t)((uint64_t)a.u.i * (uint64_t)b.u.i));
  case BLU_PRIM_SHL: return integer(t, (int64_t)((uint64_t)a.u.i << b.u.i));
  case BLU_PRIM_SHR: return integer(t, (int64_t)((t == BLU_I32 ? (uint64_t)(uint32_t)a.u.i : (uint64_t)a.u.i) >> b.u.i));
  case BLU_PRIM_MULHI: return integer(t, (int64_t)((uint64_t)(uint32_t)a.u.i * (uint32_t)b.u.i >> 32));
  case BLU_PRIM_CAST: return convert(t, a);
  case BLU_PRIM_BITCAST: return reinterpret(t, a);
  case BLU_PRIM_EXP64: return f64(blu_rt_exp(a.u.d));
  case BLU_PRIM_LOG64: return f64(blu_rt_log(a.u.d));
  case BLU_PRIM_POW64: return f64(blu_rt_pow(a.u.d, b.u.d));
  case BLU_PRIM_SIN64: return f64(blu_rt_sin(a.u.d));
  case BLU_PRIM_COS64: return f64(blu_rt_cos(a.u.d));
  case BLU_PRIM_TANH64: return f64(blu_rt_tanh(a.u.d));
  case BLU_PRIM_SIN_FAR: return fabsf(a.u.f) > 0x1p20f ? f32((float)blu_rt_sin(a.u.f)) : b;
  case BLU_PRIM_COS_FAR: return fabsf(a.u.f) > 0x1p20f ? f32((float)blu_rt_cos(a.u.f)) : b;
  }
  return a;
}

static BluEmit computer = {prim, constant, bits, point};

/* ---- tensors ---- */

static int mantissa_of(BluElem e) { return e == BLU_BF16 ? 7 : 10; }
static int bias_of(BluElem e) { return e == BLU_BF16 ? 127 : 15; }

static V half_of_bits(BluElem e, uint16_t bits) {
  int m = mantissa_of(e), exponent = (bits & 0x7fff) >> m, rest = bits & ((1 << m) - 1), most = 0x7fff >> m;
  double v = exponent == most ? (rest ? NAN : INFINITY) : exponent ? ldexp((1 << m) + rest, exponent - bias_of(e) - m) : ldexp(rest, 1 - bias_of(e) - m);
  return (V){.elem = e, .u.f = (float)(bits & 0x8000 ? -v : v)};
}

static uint16_t bits_of_half(V v) {
  int m = mantissa_of(v.elem), exponent;
  uint16_t sign = signbit(v.u.f) ? 0x8000 : 0, most = (uint16_t)(0x7fff >> m << m);
  if (isnan(v.u.f)) return sign | most | 1;
  if (isinf(v.u.f)) return sign | most;
  if (v.u.f == 0) return sign;
  double size = frexp(fabs((double)v.u.f), &exponent); /* [1/2, 1) 2^exponent */
  exponent += bias_of(v.elem) - 1;
  if (exponent <= 0) return sign | (uint16_t)ldexp(fabs((double)v.u.f), m + bias_of(v.elem) - 1);
  return sign | (uint16_t)((exponent << m) + (int)ldexp(2 * size - 1, m));
}

static V load(const void *x, BluElem e, int64_t i) {
  switch (e) {
  case BLU_F32: return f32(((const float *)x)[i]);
  case BLU_F64: return f64(((const double *)x)[i]);
  case BLU_BF16: case BLU_F16: return half_of_bits(e, ((const uint16_t *)x)[i]);
  case BLU_I32: return integer(e, ((const int32_t *)x)[i]);
  case BLU_I64: return integer(e, ((const int64_t *)x)[i]);
  default: return integer(e, ((const uint8_t *)x)[i]);
  }
}

static void store(void *x, int64_t i, V v) {
  switch (v.elem) {
  case BLU_F32: ((float *)x)[i] = v.u.f; break;
  case BLU_F64: ((double *)x)[i] = v.u.d; break;
  case BLU_BF16: case BLU_F16: ((uint16_t *)x)[i] = bits_of_half(v); break;
  case BLU_I32: ((int32_t *)x)[i] = (int32_t)v.u.i; break;
  case BLU_I64: ((int64_t *)x)[i] = v.u.i; break;
  default: ((uint8_t *)x)[i] = (uint8_t)v.u.i; break;
  }
}

double contract_get(const void *x, BluElem e, int64_t i) { return as_double(load(x, e, i)); }
void contract_set(void *x, BluElem e, int64_t i, double v) { store(x, i, blu_elem_is_float(e) ? constant(NULL, e, v) : integer(e, (int64_t)v)); }

/* ---- ops ---- */

static V combine(const BluSig *s, MlirOperation op, V a, V b) {
  BluElem t = s->in[0].elem;
  if (blu_is(op, "prod")) return prim(NULL, blu_elem_is_float(t) ? BLU_PRIM_FMUL : BLU_PRIM_IMUL, t, a, b, b);
  if (blu_is(op, "sum")) return prim(NULL, blu_elem_is_float(t) ? BLU_PRIM_FADD : BLU_PRIM_IADD, t, a, b, b);
  return blu_op_find(blu_is(op, "max") ? "maximum" : "minimum")->rule->lower(&computer, &(BluAttrs){0}, (V[]){a, b}, 2);
}

static V identity(const BluSig *s, MlirOperation op) {
  BluElem t = s->in[0].elem;
  double v = blu_is(op, "max") ? -INFINITY : blu_is(op, "min") ? INFINITY : blu_is(op, "prod");
  return blu_elem_is_float(t) ? constant(NULL, t, v) : convert(t, f64(v));
}

/* n elements, `stride` apart, at x: lanes and a tree along the last axis, a chain along another. */
static V reduce_line(const BluSig *s, MlirOperation op, const void *x, int64_t first, int64_t n, int64_t stride, bool last_axis) {
  BluElem t = s->in[0].elem;
  if (!last_axis) {
    V total = identity(s, op);
    for (int64_t b = 0; b < n; b += CHAIN) {
      V part = identity(s, op);
      for (int64_t k = b; k < n && k < b + CHAIN; k++) part = combine(s, op, part, load(x, t, first + k * stride));
      total = combine(s, op, total, part);
    }
    return total;
  }
  V lane[LANES];
  if (n == 1) return combine(s, op, identity(s, op), load(x, t, first));
  for (int l = 0; l < LANES; l++) lane[l] = identity(s, op);
  for (int64_t k = 0; k < n; k++) lane[k % LANES] = combine(s, op, lane[k % LANES], load(x, t, first + k));
  for (int half = LANES / 2; half; half /= 2)
    for (int l = 0; l < half; l++) lane[l] = combine(s, op, lane[l], lane[l + half]);
  return lane[0];
}

static void reduce(MlirOperation op, const BluSig *s, const void *x, void *out) {
  const BluAttr *a = blu_attr(&s->attrs, "axis");
  int rank = s->in[0].rank, axis = a ? (int)a->i[0] : rank - 1;
  if (axis < 0) axis += rank;
  int64_t n = s->in[0].dim[axis], inner = 1;
  for (int d = axis + 1; d < rank; d++) inner *= s->in[0].dim[d];
  for (int64_t i = 0, count = blu_type_count(&s->out); i < count; i++)
    store(out, i, reduce_line(s, op, x, i / inner * n * inner + i % inner, n, inner, axis == rank - 1));
}

static void multiply(const BluSig *s, const void *x, const void *y, void *out) {
  const BluType *a = &s->in[0], *b = &s->in[1];
  bool ta = blu_attr_int(&s->attrs, "ta", 0), tb = blu_attr_int(&s->attrs, "tb", 0);
  int64_t m = a->dim[a->rank - (ta ? 1 : 2)], k = a->dim[a->rank - (ta ? 2 : 1)], n = b->dim[b->rank - (tb ? 2 : 1)];
  for (int64_t at = 0, count = blu_type_count(&s->out); at < count; at++) {
    int64_t batch = at / (m * n), i = at / n % m, j = at % n, b0 = b->rank == 2 ? 0 : batch * k * n;
    V total = constant(NULL, a->elem, 0);
    for (int64_t block = 0; block < k; block += CHAIN) {
      V sum = constant(NULL, a->elem, 0);
      for (int64_t q = block; q < k && q < block + CHAIN; q++)
        sum = prim(NULL, BLU_PRIM_FMA, a->elem, load(x, a->elem, batch * m * k + (ta ? q * m + i : i * k + q)),
                   load(y, a->elem, b0 + (tb ? j * k + q : q * n + j)), sum);
      total = prim(NULL, BLU_PRIM_FADD, a->elem, total, sum, sum);
    }
    store(out, at, total);
  }
}

static void elementwise(const BluOp *op, const BluSig *s, void *const *in, void *out) {
  for (int64_t i = 0, n = blu_type_count(&s->out); i < n; i++) {
    V v[BLU_MAX_IN];
    for (int k = 0; k < s->nin; k++) v[k] = load(in[k], s->in[k].elem, s->in[k].rank == 0 ? 0 : i);
    index_of_point = i;
    store(out, i, op->rule->lower(&computer, &s->attrs, v, s->nin));
  }
}

static V plus(V a, V b) { return prim(NULL, blu_elem_is_float(a.elem) ? BLU_PRIM_FADD : BLU_PRIM_IADD, a.elem, a, b, b); }

static void running_sum(const BluSig *s, const void *x, void *out) {
  const BluType *t = &s->in[0];
  int64_t axis = blu_attr_int(&s->attrs, "axis", -1), inner = 1, count = blu_type_count(t);
  bool reverse = blu_attr_int(&s->attrs, "reverse", 0);
  if (axis < 0) axis += t->rank;
  for (int d = (int)axis + 1; d < t->rank; d++) inner *= t->dim[d];
  for (int64_t i = 0; i < count; i++) {
    int64_t at = reverse ? count - 1 - i : i, k = at / inner % t->dim[axis];
    bool first = k == (reverse ? t->dim[axis] - 1 : 0);
    V before = first ? convert(t->elem, f64(0)) : load(out, t->elem, reverse ? at + inner : at - inner);
    store(out, at, plus(load(x, t->elem, at), before));
  }
}

static void add_rows(const BluSig *s, void *const *in, void *out) {
  BluElem t = s->in[0].elem;
  int64_t n = s->in[0].dim[0], count = blu_type_count(&s->in[0]), row = n ? count / n : 1;
  memcpy(out, in[0], (size_t)(count * blu_elem_bytes(t)));
  for (int64_t i = 0; i < blu_type_count(&s->in[2]); i++) {
    double id = contract_get(in[1], s->in[1].elem, i / row);
    int64_t to = (int64_t)id * row + i % row;
    if (id >= 0 && id < (double)n) store(out, to, plus(load(out, t, to), load(in[2], t, i)));
  }
}

typedef struct { const BluSig *sig; void *const *in; } Sources;
static V read_source(void *user, int operand, V index) {
  const Sources *from = user;
  return load(from->in[operand], from->sig->in[operand].elem, index.u.i);
}

static void moved(const BluOp *op, const BluSig *s, void *const *in, void *out) {
  Sources from = {s, in};
  for (int64_t i = 0, n = blu_type_count(&s->out); i < n; i++) {
    V at[BLU_MAX_RANK];
    int64_t rest = i;
    for (int d = s->out.rank - 1; d >= 0; rest /= s->out.dim[d--]) at[d] = integer(BLU_I64, rest % s->out.dim[d]);
    store(out, i, op->rule->move(&computer, s, at, read_source, &from));
  }
}

/* Ops that only move or count: their reference in double is exact. */
static void by_reference(const BluOp *op, const BluSig *s, void *const *in, void *out) {
  double *x[BLU_MAX_IN] = {0}, *y = calloc((size_t)blu_type_count(&s->out) + 1, sizeof *y);
  BluRefCall c = {.sig = s, .out = y};
  for (int k = 0; k < s->nin; k++) {
    int64_t n = blu_type_count(&s->in[k]);
    c.in[k] = x[k] = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t i = 0; i < n; i++) x[k][i] = contract_get(in[k], s->in[k].elem, i);
  }
  op->rule->ref(&c);
  for (int64_t i = 0, n = blu_type_count(&s->out); i < n; i++) contract_set(out, s->out.elem, i, y[i]);
  for (int k = 0; k < s->nin; k++) free(x[k]);
  free(y);
}

/* ---- attention: codegen/attention.c says in which order ---- */

typedef struct { BluAttention a; BluElem t; const BluType *mask_type; void *const *in; int64_t batch, head, group; } Heads; /* the place: one head */

static V arith(BluPrim p, V a, V b) { return prim(NULL, p, a.elem, a, b, b); }
static V fma3(V a, V b, V c) { return prim(NULL, BLU_PRIM_FMA, a.elem, a, b, c); }
static V function_of(const char *op, V x) { return blu_op_find(op)->rule->lower(&computer, &(BluAttrs){0}, &x, 1); }
static V query_at(const Heads *h, int operand, int64_t depth, int64_t i, int64_t e) {
  return load(h->in[operand], h->t, ((h->batch * h->a.g * h->a.r + h->head) * h->a.t + i) * depth + e);
}
static V key_at(const Heads *h, int operand, int64_t depth, int64_t j, int64_t e) {
  return load(h->in[operand], h->t, ((h->batch * h->a.g + h->group) * h->a.s + j) * depth + e);
}

static bool is_seen(const Heads *h, int64_t i, int64_t j) {
  const BluAttention *a = &h->a;
  if (a->causal && j > i + a->s - a->t) return false;
  if (a->mask < 0) return true;
  int64_t at[4] = {h->batch, h->head, i, j}, index = 0;
  for (int d = 0; d < h->mask_type->rank; d++) index = index * h->mask_type->dim[d] + (h->mask_type->dim[d] == 1 ? 0 : at[d + 4 - h->mask_type->rank]);
  return contract_get(h->in[a->mask], BLU_BOOL, index) != 0;
}

static V score(const Heads *h, int64_t i, int64_t j) {
  V x = constant(NULL, h->t, 0);
  for (int64_t e = 0; e < h->a.d; e++) x = fma3(query_at(h, 0, h->a.d, i, e), key_at(h, 1, h->a.d, j, e), x);
  return arith(BLU_PRIM_FMUL, x, constant(NULL, h->t, h->a.scale));
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* One query's row of the result, or the logarithm of its sum. */
static void attend_query(const Heads *h, int64_t i, bool logarithm, void *out) {
  const BluAttention *a = &h->a;
  bool masked = a->causal || a->mask >= 0;
  V zero = constant(NULL, h->t, 0), none = constant(NULL, h->t, -INFINITY), top = none, sums[LANES], *value = malloc((size_t)(a->dv + 1) * sizeof *value);
  for (int l = 0; l < LANES; l++) sums[l] = zero;
  for (int64_t e = 0; e < a->dv; e++) value[e] = zero;
  for (int64_t j0 = 0; j0 < a->s; j0 += KEYS) {
    V x[KEYS], before = top;
    int64_t n = least(KEYS, a->s - j0);
    for (int64_t j = 0; j < n; j++) {
      x[j] = is_seen(h, i, j0 + j) ? score(h, i, j0 + j) : none;
      if (holds(BLU_PRIM_GT, x[j], top)) top = x[j];
    }
    V from = holds(BLU_PRIM_EQ, top, none) ? zero : top, shrink = function_of("exp", arith(BLU_PRIM_FSUB, before, from));
    for (int l = 0; l < LANES; l++) sums[l] = arith(BLU_PRIM_FMUL, sums[l], shrink);
    for (int64_t j = 0; j < n; j++) {
      x[j] = function_of("exp", arith(BLU_PRIM_FSUB, x[j], from));
      sums[j % LANES] = plus(sums[j % LANES], x[j]);
    }
    for (int64_t e = 0; e < a->dv; e++) {
      V part = zero;
      for (int64_t j = 0; j < n; j++) part = fma3(x[j], key_at(h, 2, a->dv, j0 + j, e), part);
      value[e] = fma3(value[e], shrink, part);
    }
  }
  for (int n = LANES / 2; n >= 1; n /= 2)
    for (int l = 0; l < n; l++) sums[l] = plus(sums[l], sums[l + n]);
  bool empty = holds(BLU_PRIM_EQ, sums[0], zero);
  V by = masked && empty ? constant(NULL, h->t, 1) : sums[0];
  int64_t row = (h->batch * a->g * a->r + h->head) * a->t + i;
  if (logarithm) store(out, row, empty ? constant(NULL, h->t, masked ? 0 : NAN) : plus(top, function_of("log", sums[0])));
  for (int64_t e = 0; e < a->dv && !logarithm; e++) store(out, row * a->dv + e, arith(BLU_PRIM_FDIV, value[e], by));
  free(value);
}

/* The weight of a key, or the cotangent of its score. */
static V weight_or_slope(const Heads *h, int64_t i, int64_t j, bool is_slope) {
  V zero = constant(NULL, h->t, 0), scale = constant(NULL, h->t, h->a.scale), dp = zero;
  V w = is_seen(h, i, j) ? function_of("exp", arith(BLU_PRIM_FSUB, score(h, i, j), query_at(h, 3, 1, i, 0))) : zero;
  if (!is_slope) return w;
  for (int64_t e = 0; e < h->a.dv; e++) dp = fma3(query_at(h, 5, h->a.dv, i, e), key_at(h, 2, h->a.dv, j, e), dp);
  return arith(BLU_PRIM_FMUL, arith(BLU_PRIM_FMUL, w, arith(BLU_PRIM_FSUB, dp, query_at(h, 4, 1, i, 0))), scale);
}

/* What one head adds to its gradient of queries (0), keys (1) or values (2), out: chains over the other side's tiles. */
static void attend_back(const Heads *h, int of, void *out) {
  const BluAttention *a = &h->a;
  int64_t n = of ? a->s : a->t, others = of ? a->t : a->s, tile = of ? QUERIES : KEYS, depth = of == 2 ? a->dv : a->d;
  V *slope = malloc((size_t)(others + 1) * sizeof *slope);
  for (int64_t x = 0; x < n; x++) {
    for (int64_t y = 0; y < others; y++) slope[y] = weight_or_slope(h, of ? y : x, of ? x : y, of != 2);
    for (int64_t e = 0; e < depth; e++) {
      int64_t at = of ? ((h->batch * a->g + h->group) * n + x) * depth + e : ((h->batch * a->g * a->r + h->head) * n + x) * depth + e;
      for (int64_t y0 = 0; y0 < others; y0 += tile) {
        V part = constant(NULL, h->t, 0);
        for (int64_t y = y0; y < others && y < y0 + tile; y++)
          part = fma3(slope[y], of == 0 ? key_at(h, 1, depth, y, e) : query_at(h, of == 1 ? 0 : 5, depth, y, e), part);
        store(out, at, plus(load(out, h->t, at), part));
      }
    }
  }
  free(slope);
}

static void attention(const BluSig *s, void *const *in, void *out) {
  Heads h = {.a = blu_attention_of(s), .t = s->out.elem, .in = in};
  int of = (int)blu_attr_int(&s->attrs, "of", -1);
  if (h.a.mask >= 0) h.mask_type = &s->in[h.a.mask];
  memset(out, 0, (size_t)(blu_type_count(&s->out) * blu_elem_bytes(s->out.elem)));
  for (h.batch = 0; h.batch < h.a.b; h.batch++)
    for (h.head = 0; h.head < h.a.g * h.a.r; h.head++) {
      h.group = h.head / h.a.r;
      if (of >= 0) attend_back(&h, of, out);
      for (int64_t i = 0; i < h.a.t && of < 0; i++) attend_query(&h, i, s->out.rank == 3, out);
    }
}

/* ---- sums in another order ---- */

static bool is_sum(MlirOperation o, const BluOp *op) {
  static const char *const exact[] = {"argmax", "max", "min"};
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
    if (blu_is(o, exact[i])) return false;
  return op->rule->kind == BLU_KIND_REDUCE || op->rule->kind == BLU_KIND_MATMUL || blu_attention_is_whole(o);
}

/* How many terms each element of the result is a sum of. */
static int64_t terms_of(MlirOperation o, const BluOp *op, const BluSig *s) {
  const BluType *a = &s->in[0];
  if (op->rule->kind == BLU_KIND_MATMUL) return a->dim[a->rank - (blu_attr_int(&s->attrs, "ta", 0) ? 2 : 1)];
  const BluType *keys = &s->in[1];
  if (blu_attention_is_whole(o)) return keys->dim[keys->rank - 2] + keys->dim[keys->rank - 1];
  int64_t out = blu_type_count(&s->out);
  return out ? blu_type_count(a) / out : 0;
}

/* Moves the terms of the sum: its operands become copies, which the caller frees. */
static void move_terms(int64_t terms, const BluSig *s, double (*noise)(void), void **in) {
  for (int k = 0; k < s->nin; k++) {
    BluElem t = s->in[k].elem;
    int64_t n = blu_type_count(&s->in[k]);
    double by = !blu_elem_is_float(t) ? 0 : (double)terms * (t == BLU_F64 ? 0x1p-50 : 0x1p-21);
    void *copy = malloc((size_t)(n * blu_elem_bytes(t)) + 8);
    for (int64_t i = 0; i < n; i++) {
      double x = contract_get(in[k], t, i);
      contract_set(copy, t, i, by ? x * (1 + by * noise()) : x);
    }
    in[k] = copy;
  }
}

static size_t bytes_of(const BluType *t) { return (size_t)(blu_type_count(t) * blu_elem_bytes(t->elem)); }

static void run(MlirOperation func, void *const *args, double (*noise)(void), void **results);

static void loop(MlirOperation o, double (*noise)(void), BluMap *values) {
  BluScan s;
  blu_scan_of(o, &s);
  MlirOperation body = blu_scan_body(o);
  int nin = s.carries + s.sequences + s.fixed, nout = s.carries + s.stacked;
  void **result = calloc((size_t)nout + 1, sizeof *result), **args = calloc((size_t)nin + 1, sizeof *args), **made = calloc((size_t)nout + 1, sizeof *made);
  size_t *size = calloc((size_t)nout + 1, sizeof *size);
  for (int i = 0; i < nout; i++) {
    BluType t = blu_func_result(body, i).type;
    size[i] = bytes_of(&t);
    result[i] = malloc(size[i] * (size_t)(i < s.carries ? 1 : s.steps) + 8);
    if (i < s.carries) memcpy(result[i], blu_map_get(values, mlirOperationGetOperand(o, i).ptr), size[i]);
  }
  for (int64_t k = 0; k < s.steps; k++) {
    int64_t t = s.reverse ? s.steps - 1 - k : k;
    for (int i = 0; i < nin; i++) {
      BluType slice = blu_func_arg(body, i).type;
      char *whole = blu_map_get(values, mlirOperationGetOperand(o, i).ptr);
      args[i] = i < s.carries ? result[i] : i < s.carries + s.sequences ? whole + (size_t)t * bytes_of(&slice) : whole;
    }
    run(body, args, noise, made);
    for (int i = 0; i < nout; i++) {
      memcpy((char *)result[i] + (i < s.carries ? 0 : (size_t)t * size[i]), made[i], size[i]);
      free(made[i]);
    }
  }
  for (int i = 0; i < nout; i++) blu_map_set(values, mlirOperationGetResult(o, i).ptr, result[i]);
  free(result), free(args), free(made), free(size);
}

static void run(MlirOperation func, void *const *args, double (*noise)(void), void **results) {
  BluMap values = {0};
  MlirBlock block = blu_func_block(func);
  MlirOperation end = mlirBlockGetTerminator(block), o;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) blu_map_set(&values, mlirBlockGetArgument(block, i).ptr, args[i]);
  for (o = mlirBlockGetFirstOperation(block); !mlirOperationEqual(o, end); o = mlirOperationGetNextInBlock(o)) {
    const BluOp *op = blu_op_of(o);
    BluSig s;
    void *in[BLU_MAX_IN];
    if (blu_is(o, "scan")) {
      loop(o, noise, &values);
      continue;
    }
    blu_sig_of(o, &s);
    for (int k = 0; k < s.nin; k++) in[k] = blu_map_get(&values, mlirOperationGetOperand(o, k).ptr);
    void *out = malloc((size_t)(blu_type_count(&s.out) * blu_elem_bytes(s.out.elem)) + 8);
    bool moves = noise && is_sum(o, op);
    if (moves) move_terms(terms_of(o, op, &s), &s, noise, in);
    if (op->rule->kind == BLU_KIND_REDUCE && !blu_is(o, "argmax")) reduce(o, &s, in[0], out);
    else if (op->rule->kind == BLU_KIND_MATMUL) multiply(&s, in[0], in[1], out);
    else if (blu_attention_is_whole(o)) attention(&s, in, out);
    else if (blu_is(o, "cumsum")) running_sum(&s, in[0], out);
    else if (blu_is(o, "scatter_add")) add_rows(&s, in, out);
    else if (op->rule->move) moved(op, &s, in, out);
    else if (op->rule->kind == BLU_KIND_ELEMENT) elementwise(op, &s, in, out);
    else by_reference(op, &s, in, out);
    for (int k = 0; k < s.nin && moves; k++) free(in[k]);
    blu_map_set(&values, mlirOperationGetResult(o, 0).ptr, out);
  }
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++) {
    BluType t = blu_value_type(mlirOperationGetOperand(end, i));
    size_t size = (size_t)(blu_type_count(&t) * blu_elem_bytes(t.elem));
    results[i] = malloc(size + 8);
    memcpy(results[i], blu_map_get(&values, mlirOperationGetOperand(end, i).ptr), size);
  }
  for (o = mlirBlockGetFirstOperation(block); !mlirOperationEqual(o, end); o = mlirOperationGetNextInBlock(o))
    for (intptr_t i = 0; i < mlirOperationGetNumResults(o); i++) free(blu_map_get(&values, mlirOperationGetResult(o, i).ptr));
  blu_map_free(&values);
}

void contract_run(MlirOperation func, void *const *args, void **results) { run(func, args, NULL, results); }
void contract_run_noisy(MlirOperation func, void *const *args, double (*noise)(void), void **results) { run(func, args, noise, results); }
