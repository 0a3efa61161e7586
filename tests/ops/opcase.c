/* opcase.c - see opcase.h. */
#include "opcase.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Error of a central difference with step 1e-5: about 1e-10 from the third derivative and 1e-11 from rounding, for values of
 * order 1. */
static const double STEP = 1e-5;
enum { DIRECTIONS = 4 };

static uint64_t seed = 12345;
double opcase_uniform(double lo, double hi) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return lo + (hi - lo) * (double)(seed >> 11) * 0x1p-53;
}

static bool fail(const char *what, const BluOpCase *from) {
  printf("%s:\n%s\n", what, from->body);
  return false;
}

bool opcase_build(MlirContext ctx, const BluOpCase *from, OpCase *c) { return opcase_build_for(ctx, NULL, from, c); }

bool opcase_build_for(MlirContext ctx, const char *target, const BluOpCase *from, OpCase *c) {
  char text[4096];
  snprintf(text, sizeof text, "func.func @f(%s) {\n%s\nreturn\n}", from->args, from->body);
  *c = (OpCase){.module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text))};
  if (mlirModuleIsNull(c->module)) return fail("does not parse", from);
  if (target) blu_module_set_target(c->module, target);
  c->func = blu_func_find(c->module, "f");
  MlirBlock block = blu_func_block(c->func);
  MlirOperation end = mlirBlockGetTerminator(block), last = mlirBlockGetFirstOperation(block);
  while (!mlirOperationEqual(mlirOperationGetNextInBlock(last), end)) last = mlirOperationGetNextInBlock(last);
  MlirValue result = mlirOperationGetResult(last, 0), wrt[OP_MAX_ARGS], grads[OP_MAX_ARGS], results[OP_MAX_ARGS + 1];
  c->out = blu_value_type(result);
  c->nargs = blu_func_nargs(c->func);
  for (int i = 0; i < c->nargs; i++) {
    c->type[i] = blu_value_type(mlirBlockGetArgument(block, i));
    if (!blu_elem_is_float(c->type[i].elem)) continue;
    c->float_arg[c->nfloat] = i;
    wrt[c->nfloat++] = mlirBlockGetArgument(block, i);
  }
  MlirValue ct = mlirBlockAddArgument(block, mlirValueGetType(result), mlirLocationUnknownGet(ctx));
  BluBuilder b = blu_builder_before(end);
  if (!blu_gradient(&b, 1, &result, &ct, c->nfloat, wrt, grads)) return fail("has no gradient", from);
  results[0] = result;
  for (int i = 0; i < c->nfloat; i++) {
    BluType t;
    if (mlirValueIsNull(grads[i])) grads[i] = blu_constant_like(&b, wrt[i], 0);
    t = blu_value_type(grads[i]);
    if (!blu_type_same(&t, &c->type[c->float_arg[i]])) return fail("a gradient has another type than its operand", from);
    results[i + 1] = grads[i];
  }
  mlirOperationDestroy(end);
  blu_func_return(c->func, mlirLocationUnknownGet(ctx), c->nfloat + 1, results, NULL);
  return mlirOperationVerify(mlirModuleGetOperation(c->module)) || fail("the gradient is not valid IR", from);
}

void opcase_free(OpCase *c) {
  if (!mlirModuleIsNull(c->module)) mlirModuleDestroy(c->module);
}

/* Each case has random numbers of its own: a new case doesn't change what the others are tested with. */
void opcase_args(const OpCase *c, const BluOpCase *from, double **args) {
  seed = 12345;
  for (const char *t = from->body; *t; t++) seed = (seed ^ (unsigned char)*t) * 0x100000001b3u;
  for (int i = 0; i <= c->nargs; i++) {
    const BluType *t = i < c->nargs ? &c->type[i] : &c->out;
    int64_t n = blu_type_count(t);
    args[i] = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t k = 0; k < n; k++)
      args[i][k] = i == c->nargs ? opcase_uniform(-1, 1) : blu_elem_is_float(t->elem) ? opcase_uniform(from->lo, from->hi)
                                                                                      : floor(opcase_uniform(0, from->ihi));
  }
}

bool opcase_run(const OpCase *c, double *const *args, double **results) {
  BluWhy why = {0};
  bool good = blu_interp_run_held(c->module, c->func, (const double *const *)args, results, NULL, &why); /* exact, since slopes are compared */
  if (!good) printf("interpreter: %s\n", why.text);
  return good;
}

static void release(const OpCase *c, double **args, double **results) {
  for (int i = 0; args && i <= c->nargs; i++) free(args[i]);
  for (int i = 0; results && i <= c->nfloat; i++) free(results[i]);
}

static int64_t count_of(const OpCase *c, int f) { return blu_type_count(&c->type[c->float_arg[f]]); }
static void keep_worst(double *worst, double got, double right) {
  double error = fabs(got - right) / fmax(1, fabs(right));
  if (!isnan(*worst) && !(error <= *worst)) *worst = error;
}

/* f(args moved by h along `direction`): the result alone, which the caller frees. */
static double *moved(const OpCase *c, double *const *args, double *const *direction, double h) {
  double *at[OP_MAX_ARGS + 1], *results[OP_MAX_ARGS + 1] = {0};
  for (int i = 0; i <= c->nargs; i++) at[i] = args[i];
  for (int f = 0; f < c->nfloat; f++) {
    int64_t n = count_of(c, f);
    double *x = at[c->float_arg[f]] = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t k = 0; k < n; k++) x[k] = args[c->float_arg[f]][k] + h * direction[f][k];
  }
  opcase_run(c, at, results);
  for (int f = 0; f < c->nfloat; f++) free(at[c->float_arg[f]]), free(results[f + 1]);
  return results[0];
}

double opcase_direction_error(const OpCase *c, const BluOpCase *from) {
  double *args[OP_MAX_ARGS + 1], *results[OP_MAX_ARGS + 1] = {0}, *direction[OP_MAX_ARGS], worst = 0;
  opcase_args(c, from, args);
  if (!opcase_run(c, args, results)) return NAN;
  for (int d = 0; d < DIRECTIONS; d++) {
    double along = 0, difference = 0;
    for (int f = 0; f < c->nfloat; f++) {
      direction[f] = malloc((size_t)(count_of(c, f) + 1) * sizeof(double));
      for (int64_t k = 0; k < count_of(c, f); k++) {
        direction[f][k] = opcase_uniform(-1, 1);
        along += results[f + 1][k] * direction[f][k];
      }
    }
    double *up = moved(c, args, direction, STEP), *down = moved(c, args, direction, -STEP);
    for (int64_t i = 0; i < blu_type_count(&c->out); i++) difference += args[c->nargs][i] * (up[i] - down[i]) / (2 * STEP);
    keep_worst(&worst, along, difference);
    free(up), free(down);
    for (int f = 0; f < c->nfloat; f++) free(direction[f]);
  }
  release(c, args, results);
  return worst;
}

double opcase_jacobian_error(const OpCase *c, const BluOpCase *from) {
  double *args[OP_MAX_ARGS + 1], *direction[OP_MAX_ARGS], worst = 0;
  opcase_args(c, from, args);
  int64_t nout = blu_type_count(&c->out), nin = 0;
  for (int f = 0; f < c->nfloat; f++) {
    nin += count_of(c, f);
    direction[f] = calloc((size_t)count_of(c, f) + 1, sizeof(double));
  }
  double *jacobian = malloc((size_t)(nin * nout + 1) * sizeof(double)), *column = jacobian;
  for (int f = 0; f < c->nfloat; f++) /* columns by differences */
    for (int64_t k = 0; k < count_of(c, f); k++, column += nout) {
      direction[f][k] = 1;
      double *up = moved(c, args, direction, STEP), *down = moved(c, args, direction, -STEP);
      for (int64_t i = 0; i < nout; i++) column[i] = (up[i] - down[i]) / (2 * STEP);
      free(up), free(down);
      direction[f][k] = 0;
    }
  for (int64_t i = 0; i < nout; i++) { /* rows by the gradient; not of 1, which rules that aren't linear may leave as it is */
    const double unit = -1.5;
    double *results[OP_MAX_ARGS + 1] = {0};
    for (int64_t k = 0; k < nout; k++) args[c->nargs][k] = k == i ? unit : 0;
    if (!opcase_run(c, args, results)) worst = NAN;
    int64_t at = 0;
    for (int f = 0; f < c->nfloat; f++)
      for (int64_t k = 0; k < count_of(c, f); k++, at++) keep_worst(&worst, results[f + 1][k] / unit, jacobian[at * nout + i]);
    release(c, NULL, results);
  }
  for (int f = 0; f < c->nfloat; f++) free(direction[f]);
  free(jacobian);
  release(c, args, NULL);
  return worst;
}
