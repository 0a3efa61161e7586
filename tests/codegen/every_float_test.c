/* every_float_test.c - compiled vector code of the functions of one argument, for every f32 there is (or every N-th: --step N), against the
 * references in double, whose error is a billionth of an f32's unit. Zeros must have the right sign, NaN must give NaN. Each function is
 * one process, so that processors share the work. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"

enum { BLOCK = 1 << 16 };

/* Largest errors in units in the last place; the header of dialects/ops_math.c states them. */
static const struct { const char *op; double limit; } functions[] = {
  {"exp", 1.5}, {"expm1", 2.5}, {"log", 1.5}, {"log1p", 3}, {"tanh", 2}, {"sigmoid", 3}, {"erf", 2}, {"sin", 2}, {"cos", 2}, {"sqrt", 0.5},
  {"rsqrt", 1.5}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static const uint32_t special[] = {
  0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
  0x7fc00000, 0xffc00000, 0x7f800001, 0x3f800000, 0xbf800000, 0x33800000, 0xb3800000};
enum { SPECIALS = sizeof special / sizeof *special };

/* Distance in units in the last place of the right result. Infinity counts as the number that would follow the largest. */
static double error_of(float got, double right) {
  int exponent;
  double y = isinf(got) ? copysign(0x1p128, got) : got, r = fabs(right) > 0x1p128 ? copysign(0x1p128, right) : right;
  if (isnan(right) || isnan(got)) return isnan(right) && isnan(got) ? 0 : INFINITY;
  if (right == 0 && got == 0) return !signbit(right) == !signbit(got) ? 0 : INFINITY;
  frexp(fmax(fabs(r), 0x1p-126), &exponent);
  return fabs(y - r) / ldexp(1, exponent - 24);
}

/* Exit status: 0 within the limit, 1 not. */
static int check(int which, uint64_t step) {
  Setting set;
  char text[256];
  void *in, *out;
  const char *name = functions[which].op;
  static double wide[BLOCK], right[BLOCK];
  harness_start(&set);
  blu_cpu_parse("v3", &set.cpu);
  snprintf(text, sizeof text, "func.func @f(%%a: tensor<%dxf32>) -> tensor<%dxf32> {\n%%r = blu.%s %%a : tensor<%dxf32>\nreturn %%r : tensor<%dxf32>\n}",
           BLOCK, BLOCK, name, BLOCK, BLOCK);
  HarnessCode *code = harness_open(&set, text, &in, &out);
  if (!code) return 1;
  BluType t = blu_type_make(BLU_F64, 1, (int64_t[]){BLOCK});
  BluSig sig = {.nin = 1, .in = {t}, .out = t};
  double worst = 0;
  float at = 0, *x = in, *y = out;
  uint64_t tried = 0;
  for (uint64_t first = 0; first < (uint64_t)1 << 32; first += BLOCK * step) {
    for (uint64_t i = 0; i < BLOCK; i++) {
      uint32_t bits = (uint32_t)(first + i * step); /* beyond the last, those at the start again */
      if (!first && i < SPECIALS) bits = special[i]; /* zeros, ends of ranges, infinities, NaN: in every sample */
      memcpy(&x[i], &bits, sizeof bits);
      wide[i] = x[i];
    }
    harness_run(code);
    blu_op_find(name)->rule->ref(&(BluRefCall){.sig = &sig, .in = {wide}, .out = right});
    for (int i = 0; i < BLOCK; i++, tried++) {
      double error = error_of(y[i], right[i]);
      if (!(error <= worst)) worst = error, at = (float)wide[i];
    }
  }
  bool good = worst <= functions[which].limit;
  printf("%s%-8s %.3f units at %.9g, at most %g, of %llu numbers\n", good ? "" : "FAILED ", name, worst, (double)at, functions[which].limit,
         (unsigned long long)tried);
  harness_close(code);
  mlirContextDestroy(set.ctx);
  fflush(stdout);
  return !good;
}

static int usage(FILE *out, int status) {
  fputs("usage: every_float_test [--step N]\n\nEvery N-th f32, by its bits (default 1: all of them, which takes minutes a function).\n", out);
  return status;
}

int main(int argc, char **argv) {
  uint64_t step = 1;
  if (argc == 2 && !strcmp(argv[1], "--help")) return usage(stdout, 0);
  if (argc == 3 && !strcmp(argv[1], "--step")) step = strtoull(argv[2], NULL, 10);
  else if (argc != 1) return usage(stderr, 2);
  if (!step) return usage(stderr, 2);
  long processors = sysconf(_SC_NPROCESSORS_ONLN), running = 0;
  int failures = 0, status;
  for (int i = 0; i < FUNCTIONS || running; ) {
    if (i < FUNCTIONS && running < processors) {
      fflush(stdout);
      pid_t child = fork();
      if (child < 0) return perror("every_float_test: fork"), 1;
      if (!child) _exit(check(i, step));
      i++, running++;
      continue;
    }
    if (wait(&status) > 0) running--, failures += status != 0;
  }
  printf("%d functions, %d failures\n", FUNCTIONS, failures);
  return failures != 0;
}
