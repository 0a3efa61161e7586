/* accuracy_test.c - the polynomials of elementwise ops against the C library in double, which errs by up to 2 units itself:
 * errors in units in the last place of the result, over ranges and near the places where precision is lost. In the order of
 * operations of compiled code (contract.c). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "contract.h"
#include "opcase.h"

enum { POINTS = 20000 };
static int failures;

static double rounding(BluElem e, double right) { /* one unit in the last place; of the least normal number below it */
  int exponent;
  frexp(fmax(fabs(right), e == BLU_F32 ? 0x1p-126 : 0x1p-1022), &exponent);
  return ldexp(1, exponent - (e == BLU_F32 ? 24 : 53));
}

/* Points in [lo, hi], evenly spread, or by magnitude down to 1e-30 of the ends. */
static void check(MlirContext ctx, const char *name, BluElem e, double lo, double hi, bool by_size, double limit) {
  const BluOp *op = blu_op_find(name);
  char text[256];
  const char *t = e == BLU_F32 ? "f32" : "f64";
  snprintf(text, sizeof text, "func.func @f(%%a: tensor<%dx%s>) -> tensor<%dx%s> {\n%%r = blu.%s %%a : tensor<%dx%s>\nreturn "
      "%%r : tensor<%dx%s>\n}",
           POINTS, t, POINTS, t, name, POINTS, t, POINTS, t);
  MlirModule m = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  void *x = malloc(POINTS * 8), *y;
  double *wide = malloc(POINTS * sizeof *wide), *right = malloc(POINTS * sizeof *right), worst = 0, at = 0;
  for (int i = 0; i < POINTS; i++) {
    double v = opcase_uniform(lo, hi);
    if (by_size) v *= exp(-70 * opcase_uniform(0, 1));
    contract_set(x, e, i, v);
    wide[i] = contract_get(x, e, i);
  }
  BluSig s = {.nin = 1, .in = {blu_type_make(BLU_F64, 1, (int64_t[]){POINTS})}, .out = blu_type_make(BLU_F64, 1,
      (int64_t[]){POINTS})};
  op->rule->ref(&(BluRefCall){.sig = &s, .in = {wide}, .out = right});
  contract_run(blu_func_find(m, "f"), &x, &y);
  for (int i = 0; i < POINTS; i++) {
    double got = contract_get(y, e, i), error = fabs(got - right[i]) / rounding(e, right[i]);
    if (got == right[i] || (isnan(got) && isnan(right[i]))) continue;
    if (!(error <= worst)) worst = error, at = wide[i];
  }
  bool good = worst <= limit;
  failures += !good;
  printf("%s%-8s %s [%g, %g]%s: %.2f units, at most %.3g\n", good ? "" : "FAILED ", name, t, lo, hi, by_size ? " by size" : "",
      worst, limit);
  if (!good) printf("  at %.17g\n", at);
  free(x), free(y), free(wide), free(right);
  mlirModuleDestroy(m);
}

int main(void) {
  MlirContext ctx = mlirContextCreateWithThreading(false);
  blu_context_load(ctx);
  static const struct { const char *op; double lo, hi, f32, f64; } ranges[] = {
    {"exp", -80, 80, 1.5, 1}, {"log", 1e-3, 30, 1.5, 1}, {"expm1", -20, 20, 2.5, 4}, {"expm1", -1, 1, 2.5, 4}, {"log1p", -0.99,
        3, 3, 3}, {"log1p", -0.4, 0.4, 3, 3},
    {"erf", -5, 5, 2, 3}, {"erf", -1, 1, 2, 3}, {"tanh", -9, 9, 2, 3}, {"tanh", -1, 1, 2, 3}, {"sigmoid", -30, 30, 3, 3}, {"sin",
        -100, 100, 2, 1}, {"cos", -100, 100, 2, 1},
    {"sqrt", 0, 9, 0.5, 0.5}, {"rsqrt", 0.1, 9, 1.5, 1.5}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    bool odd = ranges[i].lo < 0 && strcmp(ranges[i].op, "exp") && strcmp(ranges[i].op, "cos") && strcmp(ranges[i].op, "sigmoid");
    check(ctx, ranges[i].op, BLU_F32, ranges[i].lo, ranges[i].hi, false, ranges[i].f32);
    check(ctx, ranges[i].op, BLU_F64, ranges[i].lo, ranges[i].hi, false, ranges[i].f64);
    if (!strcmp(ranges[i].op, "sin") || !strcmp(ranges[i].op, "cos")) /* whatever the argument */
      for (double top = 1e8; top < 1e39; top *= 1e10) {
        check(ctx, ranges[i].op, BLU_F32, -top, top, false, ranges[i].f32);
        check(ctx, ranges[i].op, BLU_F32, 0, top * 3, true, ranges[i].f32);
      }
    if (!odd) continue; /* f(0) = 0: relative precision all the way down */
    check(ctx, ranges[i].op, BLU_F32, ranges[i].lo, ranges[i].hi, true, ranges[i].f32);
    check(ctx, ranges[i].op, BLU_F64, ranges[i].lo, ranges[i].hi, true, ranges[i].f64);
  }
  mlirContextDestroy(ctx);
  printf("%d failures\n", failures);
  return failures != 0;
}
