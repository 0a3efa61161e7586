/* half_test.c - bf16 and f16: what their bits mean, by the definition of the formats, and that every conversion there is gives the nearest
 * number: of the compiler (dialects/format.c), of the runtime (runtime/half.c) and of compiled code at every level. All numbers of the
 * types are tried, and between two neighbours the middle and what lies beside it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/format.h"
#include "harness.h"
#include "runtime/half.h"

enum { NUMBERS = 1 << 16 };
static int failures, checks;

static void fail(const char *what, const char *type, double x, double got, double want) {
  if (failures++ < 20) printf("FAIL %s of %s: %a gives %a, not %a\n", what, type, x, got, want);
}

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)); }

/* IEEE 754: sign, exponent, mantissa. */
static double meaning(int exponent_bits, int mantissa_bits, unsigned bits) {
  int exponent = (int)(bits >> mantissa_bits) & ((1 << exponent_bits) - 1), bias = (1 << (exponent_bits - 1)) - 1;
  double mantissa = bits & ((1u << mantissa_bits) - 1), sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? NAN : sign * INFINITY;
  if (!exponent) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * ldexp(1 + ldexp(mantissa, -mantissa_bits), exponent - bias);
}

typedef struct { const char *name; BluElem elem; int32_t dtype; int exponent, mantissa; } Half;
static const Half halves[] = {{"bf16", BLU_BF16, BLU_DTYPE_BF16, 8, 7}, {"f16", BLU_F16, BLU_DTYPE_F16, 5, 10}};

static void check(const Half *h, double x, double want) {
  double by_compiler = blu_elem_round(h->elem, x), by_runtime = blu_half_number(h->dtype, blu_half_nearest(h->dtype, x));
  checks++;
  if (!same(by_compiler, want)) fail("the compiler's rounding", h->name, x, by_compiler, want);
  if (!same(by_runtime, want)) fail("the runtime's rounding", h->name, x, by_runtime, want);
}

/* Bits of two neighbours differ by 1: the even one wins a tie. Behind the greatest number comes what would be the next one: infinity. */
static void definitions(const Half *h) {
  for (unsigned bits = 0; bits < NUMBERS; bits++) {
    double x = meaning(h->exponent, h->mantissa, bits), here = blu_half_number(h->dtype, (uint16_t)bits);
    checks++;
    if (!same(x, here)) fail("the runtime's meaning", h->name, bits, here, x);
    check(h, x, x);
    if (!isfinite(x)) continue;
    double next = meaning(h->exponent, h->mantissa, bits + 1), step = isinf(next) ? x - meaning(h->exponent, h->mantissa, bits - 1) : next - x;
    double middle = x + step / 2;
    check(h, middle, bits & 1 ? next : x);
    check(h, nextafter(middle, x), x);
    check(h, nextafter(middle, 2 * x + step), next);
  }
  check(h, 1e300, INFINITY), check(h, -1e300, -INFINITY), check(h, 1e-300, 0), check(h, -1e-300, -0.0);
}

/* ---- compiled code ---- */

static const Half *now;

static void all_bits(int arg, void *tensor, int64_t n) {
  (void)arg;
  for (int64_t i = 0; i < n; i++) ((uint16_t *)tensor)[i] = (uint16_t)i;
}

/* Each number, the middle to the next, and the f32 on both sides of each; the rest any bits. */
static void all_ties(int arg, void *tensor, int64_t n) {
  float *to = tensor;
  (void)arg;
  for (int64_t i = 0; i < n; i++) {
    unsigned bits = (unsigned)(i / 6) & (NUMBERS - 1), any = (unsigned)harness_random();
    double x = meaning(now->exponent, now->mantissa, bits), next = meaning(now->exponent, now->mantissa, bits + 1);
    float at = (float)(i % 6 < 3 ? x : isinf(next) ? x * (1 + ldexp(1, -now->mantissa - 2)) : (x + next) / 2);
    to[i] = i % 3 == 0 ? at : nextafterf(at, i % 3 == 1 ? INFINITY : -INFINITY);
    if (i >= 6 * NUMBERS) memcpy(&to[i], &any, sizeof any);
  }
}

static void all_ties_wide(int arg, void *tensor, int64_t n) {
  float *narrow = malloc((size_t)n * sizeof *narrow);
  double *to = tensor;
  all_ties(arg, narrow, n);
  for (int64_t i = 0; i < n; i++) to[i] = i % 2 ? nextafter(narrow[i], 0) : nextafter(narrow[i], INFINITY);
  free(narrow);
}

static void compiled(Setting set) {
  enum { TIES = 8 * NUMBERS };
  for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
    now = &halves[i];
    set.tolerance = 0;
    set.elem = NULL;
    const char *t = now->name;
    set.fill = all_bits;
    harness_check(&set, "func.func @f(%%a: tensor<65536x%s>) -> (tensor<65536xf32>, tensor<65536xf64>, tensor<65536x%s>) {\n"
          "%%r = blu.cast %%a {to = f32} : (tensor<65536x%s>) -> tensor<65536xf32>\n%%w = blu.cast %%a {to = f64} : (tensor<65536x%s>) -> tensor<65536xf64>\n"
          "%%n = blu.neg %%a : tensor<65536x%s>\nreturn %%r, %%w, %%n : tensor<65536xf32>, tensor<65536xf64>, tensor<65536x%s>\n}", t, t, t, t, t, t);
    set.fill = all_ties;
    harness_check(&set, "func.func @f(%%a: tensor<%dxf32>) -> tensor<%dx%s> {\n%%r = blu.cast %%a {to = %s} : (tensor<%dxf32>) -> tensor<%dx%s>\n"
          "return %%r : tensor<%dx%s>\n}", TIES, TIES, t, t, TIES, TIES, t, TIES, t);
    set.fill = all_ties_wide;
    harness_check(&set, "func.func @f(%%a: tensor<%dxf64>) -> tensor<%dx%s> {\n%%r = blu.cast %%a {to = %s} : (tensor<%dxf64>) -> tensor<%dx%s>\n"
          "return %%r : tensor<%dx%s>\n}", TIES, TIES, t, t, TIES, TIES, t, TIES, t);
  }
}

/* ---- formats of other widths ---- */

static const Half others[] = {{"1/4/3", BLU_F32, 0, 4, 3}, {"1/5/2", BLU_F32, 0, 5, 2}, {"1/6/9", BLU_F32, 0, 6, 9}, {"1/8/7", BLU_F32, 0, 8, 7}};

static void check_format(const Half *h, double x, double want) {
  BluFormat f = {h->exponent, h->mantissa, true, false};
  double got = blu_format_round(&f, x);
  checks++;
  if (!same(got, want)) fail("rounding to the format", h->name, x, got, want);
}

static void other_widths(const Half *h) {
  for (unsigned bits = 0; bits < 1u << (1 + h->exponent + h->mantissa); bits++) {
    double x = meaning(h->exponent, h->mantissa, bits), next = meaning(h->exponent, h->mantissa, bits + 1);
    check_format(h, x, x);
    if (!isfinite(x)) continue;
    double step = isinf(next) ? x - meaning(h->exponent, h->mantissa, bits - 1) : next - x, middle = x + step / 2;
    check_format(h, middle, bits & 1 ? next : x);
    check_format(h, nextafter(middle, x), x);
    check_format(h, nextafter(middle, 2 * x + step), next);
  }
}

static void compiled_formats(Setting set) {
  set.tolerance = 0;
  set.fill = all_ties;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    for (int options = 0; options < 4; options++) {
      now = &others[i];
      harness_check(&set, "func.func @f(%%a: tensor<400000xf32>) -> tensor<400000xf32> {\n"
            "%%r = blu.round_to %%a {exponent = %d, mantissa = %d, denormals = %s, saturate = %s} : (tensor<400000xf32>) -> tensor<400000xf32>\n"
            "return %%r : tensor<400000xf32>\n}", now->exponent, now->mantissa, options & 1 ? "false" : "true", options & 2 ? "true" : "false");
    }
}

/* ---- sums ---- */

static void ones(int arg, void *tensor, int64_t n) {
  (void)arg;
  for (int64_t i = 0; i < n; i++) ((uint16_t *)tensor)[i] = now->elem == BLU_BF16 ? 0x3f80 : 0x3c00;
}

/* Sums of more ones than the types can count: the reference is 20000 and 1, and nothing else is near enough. Over one axis and over two. */
static void long_sums(Setting set) {
  set.fill = ones;
  set.tolerance = 0;
  now = &halves[1];
  harness_check(&set, "func.func @f(%%a: tensor<20000xf16>) -> tensor<f16> {\n%%r = blu.sum %%a : (tensor<20000xf16>) -> tensor<f16>\nreturn %%r : tensor<f16>\n}");
  harness_check(&set, "func.func @f(%%a: tensor<200x100xf16>) -> tensor<f16> {\n%%r = blu.sum %%a : (tensor<200x100xf16>) -> tensor<f16>\nreturn %%r : tensor<f16>\n}");
  harness_check(&set, "func.func @f(%%a: tensor<70000x2xf16>) -> tensor<2xf16> {\n%%r = blu.mean %%a {axis = array<i64: 0>} : (tensor<70000x2xf16>) -> tensor<2xf16>\n"
        "return %%r : tensor<2xf16>\n}");
  now = &halves[0];
  harness_check(&set, "func.func @f(%%a: tensor<70000xbf16>) -> tensor<bf16> {\n%%r = blu.mean %%a : (tensor<70000xbf16>) -> tensor<bf16>\nreturn %%r : tensor<bf16>\n}");
  harness_check(&set, "func.func @f(%%a: tensor<20000xbf16>, %%i: tensor<20000xi32>) -> tensor<1xbf16> {\n"
        "%%z = blu.constant {value = 0.0, elem = bf16, shape = array<i64: 1>} : () -> tensor<1xbf16>\n%%k = blu.constant {value = 0.0, elem = i32, shape = array<i64: 20000>} : () -> tensor<20000xi32>\n"
        "%%r = blu.scatter_add %%z, %%k, %%a : (tensor<1xbf16>, tensor<20000xi32>, tensor<20000xbf16>) -> tensor<1xbf16>\nreturn %%r : tensor<1xbf16>\n}");
}

int main(void) {
  Setting set;
  harness_start(&set);
  for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) definitions(&halves[i]);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) other_widths(&others[i]);
  BluCpu native;
  blu_cpu_parse("native", &native);
  for (int level = 2; level <= native.level; level++) {
    char name[16];
    snprintf(name, sizeof name, "v%d", level);
    blu_cpu_parse(name, &set.cpu);
    compiled(set);
    compiled_formats(set);
    long_sums(set);
  }
  mlirContextDestroy(set.ctx);
  printf("%d roundings, %d programs, %d failures\n", checks, harness_programs, failures + harness_failures);
  return failures || harness_failures || !harness_programs || !checks;
}
