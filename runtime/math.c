/* math.c - exp, log, pow, sin, cos and tanh in double, for the host scalars of compiled code.
 *
 * Only IEEE additions, multiplications and divisions in a fixed order (compiled without contraction to FMA): the bits
 * depend on no C library and no processor. Errors are below 1 ulp; exp, log and pow are right but for near ties.
 * Intermediate results are double-doubles, unevaluated sums hi + lo with |lo| <= ulp(hi) / 2: Dekker, "A floating-point
 * technique for extending the available precision", 1971. A call takes about a microsecond; a step makes few. */
#include <stdint.h>
#include <string.h>

#include "abi.h"

typedef struct {
  double hi, lo;
} Pair;

static const double infinity = __builtin_inf();
static const double not_a_number = __builtin_nan("");

/* a + b exactly; |a| >= |b| or a == 0. */
static Pair sum_ordered(double a, double b) {
  double s = a + b;
  return (Pair){s, b - (s - a)};
}

/* a + b exactly. */
static Pair sum(double a, double b) {
  double s = a + b, t = s - a;
  return (Pair){s, (a - (s - t)) + (b - t)};
}

/* a * b exactly, for |a|, |b| < 2^996 and a product far from underflow. */
static Pair product(double a, double b) {
  const double split = 134217729; /* 2^27 + 1: cuts 53 bits into 26 and 26 */
  double ta = split * a, ah = ta - (ta - a), al = a - ah;
  double tb = split * b, bh = tb - (tb - b), bl = b - bh;
  double p = a * b;
  return (Pair){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

static Pair pair_add(Pair a, Pair b) {
  Pair s = sum(a.hi, b.hi), t = sum(a.lo, b.lo);
  s = sum_ordered(s.hi, s.lo + t.hi);
  return sum_ordered(s.hi, s.lo + t.lo);
}

static Pair pair_mul(Pair a, Pair b) {
  Pair p = product(a.hi, b.hi);
  return sum_ordered(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static Pair pair_div(Pair a, Pair b) {
  double q = a.hi / b.hi;
  Pair p = pair_mul(b, (Pair){q, 0});
  double rest = ((a.hi - p.hi) - p.lo) + a.lo;
  return sum_ordered(q, rest / b.hi);
}

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static double of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static double magnitude(double x) { return of_bits(bits_of(x) & INT64_MAX); }
static double with_sign_of(double x, double sign) {
  return of_bits((bits_of(x) & INT64_MAX) | (bits_of(sign) & (uint64_t)1 << 63));
}

/* x * 2^k for x in [0.5, 2] and |k| <= 1100, rounded once. */
static double scale(double x, int k) {
  if (k > 1000) x *= 0x1p1000, k -= 1000;
  if (k < -1000) x *= 0x1p-960, k += 960; /* exact: the product below rounds */
  return x * of_bits((uint64_t)(1023 + k) << 52);
}

/* The integer nearest to x, |x| < 2^51. */
static double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

static const Pair ln2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

/* exp(x) = 2^*k * (1 + result) for |x.hi| < 2000. The result is in [-0.3, 0.42], right to about 2^-58 of 1 and, for
 * small x, to 2^-54 of itself. Taylor's series after reduction by multiples of log 2. */
static Pair exp_reduced(Pair x, int *k) {
  double n = nearest(x.hi * 0x1.71547652b82fep0); /* 1 / log 2 */
  *k = (int)n;
  Pair r = pair_add(x, pair_mul((Pair){-n, 0}, ln2));
  double tail = 0;
  for (int i = 14; i >= 4; i--) tail = (tail + 1) * (r.hi / i); /* r/4 + r^2/(4*5) + ... */
  Pair square = pair_mul(r, r);
  Pair cube = pair_mul(square, r);
  Pair e = pair_add((Pair){square.hi / 2, square.lo / 2}, pair_div(cube, (Pair){6, 0}));
  e = pair_add(e, (Pair){cube.hi / 6 * tail, 0});
  return pair_add(r, e);
}

static double exp_pair(Pair x) {
  if (x.hi > 710) return infinity;
  if (x.hi < -746) return 0;
  int k;
  Pair e = exp_reduced(x, &k);
  return scale(pair_add((Pair){1, 0}, e).hi, k);
}

/* log(x) for finite x > 0, right to about 2^-95 of itself: k * log 2 + 2 * atanh((m - 1) / (m + 1)), x = 2^k * m. */
static Pair log_pair(double x) {
  int k = 0;
  if (x < 0x1p-1022) x *= 0x1p54, k = -54;
  k += (int)(bits_of(x) >> 52) - 1023;
  double m = of_bits((bits_of(x) & 0xfffffffffffffu) | (uint64_t)1023 << 52); /* [1, 2) */
  if (m > 0x1.6a09e667f3bcdp0) m /= 2, k++;                                   /* [sqrt(1/2), sqrt(2)] */
  Pair s = pair_div((Pair){m - 1, 0}, sum(m, 1));
  Pair square = pair_mul(s, s), series = {0, 0};
  for (int i = 37; i >= 1; i -= 2) /* |s| < 0.1716: s^38 < 2^-96 */
    series = pair_add(pair_mul(series, square), pair_div((Pair){2, 0}, (Pair){i, 0}));
  return pair_add(pair_mul((Pair){k, 0}, ln2), pair_mul(series, s));
}

double blu_rt_exp(double x) { return x != x ? x : exp_pair((Pair){x, 0}); }

double blu_rt_log(double x) {
  if (x != x || x == infinity) return x;
  if (x == 0) return -infinity;
  if (x < 0) return not_a_number;
  return log_pair(x).hi;
}

/* As C's Annex F says for every special case. An exact result that is a double comes out exactly. */
double blu_rt_pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return not_a_number;
  double base = magnitude(x), size = magnitude(y);
  int integer = size >= 0x1p53 || (double)(int64_t)y == y;
  int odd = integer && size < 0x1p53 && ((int64_t)y & 1);
  double sign = odd ? with_sign_of(1, x) : 1;
  if (base == 0 || base == infinity || size > 0x1p65) { /* 2^65 * |log x| > 746 for every x but 1 */
    if (base == 1) return 1;
    return sign * ((base > 1) == (y > 0) ? infinity : 0);
  }
  if (x < 0 && !integer) return not_a_number;
  if (size < 0x1p-70) return 1;
  return sign * exp_pair(pair_mul(log_pair(base), (Pair){y, 0}));
}

/* x = quadrant * pi/2 + result, |result| <= pi/4 and a little, right to 2^-60 of itself for |x| < 2^30. Pi/2 in three
 * parts holds 159 bits. */
static Pair reduce_near(double x, int *quadrant) {
  double n = nearest(x * 0x1.45f306dc9c883p-1); /* 2 / pi */
  Pair a = product(n, 0x1.921fb54442d18p0), b = product(n, 0x1.1a62633145c07p-54);
  Pair r = sum(x, -a.hi);
  r = pair_add(r, (Pair){-a.lo, 0});
  r = pair_add(r, (Pair){-b.hi, -b.lo});
  r = pair_add(r, (Pair){n * 0x1.f1976b7ed8fbcp-110, 0});
  *quadrant = (int)((int64_t)n & 3);
  return r;
}

/* The same for |x| >= 2^30: Payne and Hanek, "Radian reduction for trigonometric functions", 1983. With x = m * 2^e, bits
 * of 2/pi before the e - 2nd give multiples of 4, which are whole turns; of the 192 bits from there on, the first two of
 * their product with m are the quadrant. No double is nearer to a multiple of pi/2 than 2^-61, so 100 bits are left. */
static const uint64_t two_over_pi[] = { /* behind the binary point */
  0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
  0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
  0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
  0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
};
typedef unsigned __int128 Wide;

/* 64 bits of 2/pi from bit `at` on; there are zeros before bit 0. */
static uint64_t bits_from(int at) {
  int word = (at + 64) / 64 - 1, shift = (at + 64) % 64;
  uint64_t high = word < 0 ? 0 : two_over_pi[word], low = two_over_pi[word + 1];
  return shift ? high << shift | low >> (64 - shift) : high;
}

static Pair reduce_far(double x, int *quadrant) {
  uint64_t m = (bits_of(x) & 0xfffffffffffffu) | (uint64_t)1 << 52;
  int e = (int)(bits_of(x) >> 52 & 2047) - 1075; /* -22 to 971 */
  Wide low = (Wide)m * bits_from(e - 2 + 128), middle = (Wide)m * bits_from(e - 2 + 64) + (uint64_t)(low >> 64);
  uint64_t part[3] = {m * bits_from(e - 2) + (uint64_t)(middle >> 64), (uint64_t)middle, (uint64_t)low};
  int turns = (int)(part[0] >> 62), negative = part[0] >> 61 & 1; /* the fraction is rounded to the nearest quadrant */
  part[0] = part[0] << 2 | part[1] >> 62, part[1] = part[1] << 2 | part[2] >> 62, part[2] <<= 2;
  if (negative) {
    turns++;
    for (int i = 0; i < 3; i++) part[i] = ~part[i];
  }
  Pair r = {0, 0};
  double unit = 0x1p-32;
  for (int i = 0; i < 6; i++, unit *= 0x1p-32) r = pair_add(r, (Pair){(double)(uint32_t)(part[i / 2] >> (i % 2 ? 0 : 32)) * unit, 0});
  r = pair_mul(r, (Pair){0x1.921fb54442d18p0, 0x1.1a62633145c07p-54}); /* pi / 2 */
  int minus = negative != (x < 0);
  *quadrant = x < 0 ? -turns : turns;
  return minus ? (Pair){-r.hi, -r.lo} : r;
}

/* Taylor's series on |r| <= pi/4. */
static double sin_reduced(Pair r) {
  double z = r.hi * r.hi, t = 0;
  for (int i = 18; i >= 2; i -= 2) t = (1 - t) * (z / (i * (i + 1)));
  return r.hi + (r.lo * (1 - z / 2) - r.hi * t);
}

static double cos_reduced(Pair r) {
  Pair z = product(r.hi, r.hi);
  double t = 0;
  for (int i = 17; i >= 3; i -= 2) t = (1 - t) * (z.hi / (i * (i + 1)));
  Pair c = pair_add((Pair){1, 0}, (Pair){-z.hi / 2, -z.lo / 2});
  return c.hi + (c.lo + (z.hi / 2 * t - r.hi * r.lo));
}

/* sin(x + quarters * pi/2) */
static double sine(double x, int quarters) {
  if (!(magnitude(x) < infinity)) return not_a_number;
  int quadrant;
  Pair r = magnitude(x) < 0x1p30 ? reduce_near(x, &quadrant) : reduce_far(x, &quadrant);
  quadrant += quarters;
  double value = quadrant & 1 ? cos_reduced(r) : sin_reduced(r);
  return quadrant & 2 ? -value : value;
}

double blu_rt_sin(double x) { return magnitude(x) < 0x1p-27 ? x : sine(x, 0); }
double blu_rt_cos(double x) { return sine(x, 1); }

/* (e^2x - 1) / (e^2x + 1) */
double blu_rt_tanh(double x) {
  double size = magnitude(x);
  if (x != x || size < 0x1p-28) return x;
  if (size > 20) return with_sign_of(1, x);
  int k;
  Pair e = exp_reduced((Pair){2 * size, 0}, &k);
  double power = (double)((int64_t)1 << k);
  e = (Pair){e.hi * power, e.lo * power};
  return with_sign_of(pair_div(pair_add(sum(power, -1), e), pair_add(sum(power, 1), e)).hi, x);
}
