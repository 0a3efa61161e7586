/* math_test.c - the runtime's own functions against glibc's in long double: errors in units of the last place. */
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "abi.h"
#include "unit.h"

static uint64_t random_state = 88172645463325252u;

static double uniform(double low, double high) { /* xorshift64 */
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return low + (high - low) * ((double)(random_state >> 11) * 0x1p-53);
}

/* |got - want| in units of the last place of `want` as a double. */
static double ulps(double got, long double want) {
  double rounded = (double)want;
  if (got == rounded || (isnan(got) && isnan(rounded))) return isnan(got) ? 0 : (double)(fabsl(got - want) > 0) / 2;
  double unit = nextafter(fabs(rounded), INFINITY) - fabs(rounded);
  return (double)(fabsl((long double)got - want) / unit);
}

typedef struct {
  const char *name;
  double (*got)(double);
  long double (*want)(long double);
  double low, high;
} Range;

static const Range ranges[] = {
    {"exp", blu_rt_exp, expl, -1, 1},          {"exp", blu_rt_exp, expl, -745, 709.7},
    {"exp", blu_rt_exp, expl, -1e-5, 1e-5},    {"log", blu_rt_log, logl, 0, 4},
    {"log", blu_rt_log, logl, 0.999, 1.001},   {"log", blu_rt_log, logl, 0, 1e300},
    {"log", blu_rt_log, logl, 0, 1e-310},      {"sin", blu_rt_sin, sinl, -4, 4},
    {"sin", blu_rt_sin, sinl, -1e9, 1e9},      {"sin", blu_rt_sin, sinl, -1e-3, 1e-3},
    {"cos", blu_rt_cos, cosl, -4, 4},          {"cos", blu_rt_cos, cosl, -1e9, 1e9},
    {"tanh", blu_rt_tanh, tanhl, -1e-3, 1e-3}, {"tanh", blu_rt_tanh, tanhl, -1, 1},
    {"tanh", blu_rt_tanh, tanhl, -25, 25},
};

static void check_ranges(void) {
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    const Range *r = &ranges[i];
    double worst = 0, where = 0;
    for (int j = 0; j < 40000; j++) {
      double x = uniform(r->low, r->high), error = ulps(r->got(x), r->want(x));
      if (!(error <= worst)) worst = error, where = x;
    }
    CHECK(worst < 1, "%s: %.3f ulp at %a", r->name, worst, where);
  }
  /* The doubles nearest to multiples of pi/2, where a reduction with too few bits shows. */
  for (int64_t n = 1; n < 600000000; n = n * 9 / 8 + 1) {
    double x = (double)(n * 1.57079632679489661923132169163975144L);
    CHECK(ulps(blu_rt_sin(x), sinl(x)) < 1, "sin(%a) = %a", x, blu_rt_sin(x));
    CHECK(ulps(blu_rt_cos(x), cosl(x)) < 1, "cos(%a) = %a", x, blu_rt_cos(x));
  }
}

static void check_sine(double x) {
  CHECK(ulps(blu_rt_sin(x), sinl(x)) < 1, "sin(%a) = %a", x, blu_rt_sin(x));
  CHECK(ulps(blu_rt_cos(x), cosl(x)) < 1, "cos(%a) = %a", x, blu_rt_cos(x));
}

/* Every magnitude of a double, the border where another reduction takes over, and the doubles and floats that are nearest to a multiple
 * of pi/2 (known from the continued fractions of 2^e / pi). */
static void check_far_sines(void) {
  for (int j = 0; j < 60000; j++) check_sine(exp2(uniform(20, 1024)) * (j & 1 ? 1 : -1));
  for (int j = 0; j < 20000; j++) check_sine(exp2(uniform(29.9, 30.1)));
  for (double x = 0x1p29; x < 0x1p1000; x *= 2) check_sine(x), check_sine(-nextafter(x, 0)), check_sine(x * 1.5);
  check_sine(ldexp(6381956970095103, 797));
  check_sine(ldexp(16367173, 72));
  check_sine(DBL_MAX);
}

static void check_pow(void) {
  for (int j = 0; j < 100000; j++) {
    double x = exp2(uniform(-20, 20)), y = uniform(-40, 40);
    CHECK(ulps(blu_rt_pow(x, y), powl(x, y)) < 1, "pow(%a, %a)", x, y);
    x = uniform(0.9, 1.1), y = uniform(-4000, 4000);
    CHECK(ulps(blu_rt_pow(x, y), powl(x, y)) < 1, "pow(%a, %a)", x, y);
  }
  for (int step = 1; step < 100000; step += 7) {
    CHECK(ulps(blu_rt_pow(0.9, step), powl(0.9, step)) < 1, "pow(0.9, %d)", step);
    CHECK(ulps(blu_rt_pow(0.999, step), powl(0.999, step)) < 1, "pow(0.999, %d)", step);
  }
  for (int base = -12; base <= 12; base++) { /* exact where a double holds the power */
    double power = 1;
    for (int n = 0; fabs(power) < 0x1p53; n++, power *= base) {
      CHECK(blu_rt_pow(base, n) == power, "pow(%d, %d) = %.17g", base, n, blu_rt_pow(base, n));
      if (n > 60) break;
    }
  }
  static const double special[] = {0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 2.5, -2.5, 1e300, -1e300, 0x1p53, 0x1p70,
                                   -0x1p53 - 2, 5e-324, INFINITY, -INFINITY, NAN};
  enum { SPECIALS = sizeof special / sizeof *special };
  for (int i = 0; i < SPECIALS; i++)
    for (int j = 0; j < SPECIALS; j++) {
      double got = blu_rt_pow(special[i], special[j]), want = pow(special[i], special[j]);
      CHECK((isnan(got) && isnan(want)) || (got == want && signbit(got) == signbit(want)) || ulps(got, want) < 1,
            "pow(%g, %g) = %g, not %g", special[i], special[j], got, want);
    }
}

static void check_special(void) {
  static const struct {
    const char *name;
    double (*f)(double);
    double x, want;
  } cases[] = {
      {"exp", blu_rt_exp, 0, 1},          {"exp", blu_rt_exp, INFINITY, INFINITY}, {"exp", blu_rt_exp, -INFINITY, 0},
      {"exp", blu_rt_exp, 710, INFINITY}, {"exp", blu_rt_exp, -750, 0},            {"exp", blu_rt_exp, NAN, NAN},
      {"log", blu_rt_log, 1, 0},          {"log", blu_rt_log, 0, -INFINITY},       {"log", blu_rt_log, -1, NAN},
      {"log", blu_rt_log, NAN, NAN},      {"log", blu_rt_log, INFINITY, INFINITY}, {"sin", blu_rt_sin, 0, 0},
      {"sin", blu_rt_sin, -0.0, -0.0},    {"sin", blu_rt_sin, INFINITY, NAN},      {"sin", blu_rt_sin, NAN, NAN},
      {"cos", blu_rt_cos, 0, 1},          {"cos", blu_rt_cos, INFINITY, NAN},      {"cos", blu_rt_cos, NAN, NAN},
      {"tanh", blu_rt_tanh, -0.0, -0.0},  {"tanh", blu_rt_tanh, INFINITY, 1},      {"tanh", blu_rt_tanh, -1e300, -1},
      {"tanh", blu_rt_tanh, NAN, NAN},    {"tanh", blu_rt_tanh, 5e-324, 5e-324},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double got = cases[i].f(cases[i].x), want = cases[i].want;
    CHECK((isnan(got) && isnan(want)) || (got == want && signbit(got) == signbit(want)), "%s(%g) = %g, not %g",
          cases[i].name, cases[i].x, got, want);
  }
}

int main(void) {
  check_ranges();
  check_far_sines();
  check_pow();
  check_special();
  return unit_verdict();
}
