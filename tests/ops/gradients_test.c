/* gradients_test.c - every gradient rule of the op table against central differences of the ops' references, in double, with
 * random cotangents. The harness is itself tested: gradients made wrong on purpose must be caught. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mlir-c/BuiltinTypes.h"
#include "passes/passes.h"

enum { MAX_ARGS = 6 };
typedef enum { RIGHT, NEGATED, HALVED, MISSING, WITH_NAN, PLANTS } Plant;
static const char *const plant_names[] = {"right", "negated", "halved", "missing", "NaN"};

/* Error of a central difference with step 1e-5: about 1e-10 from the third derivative and 1e-11 from rounding, for values of
 * order 1; rules are wrong by far more than this. */
static const double STEP = 1e-5, TOLERANCE = 1e-7;

static uint64_t seed = 12345;
static double uniform(double lo, double hi) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return lo + (hi - lo) * (double)(seed >> 11) * 0x1p-53;
}

/* A function f(args, ct) -> (result, gradients of <ct, result> with respect to the float arguments). */
typedef struct {
  MlirModule module;
  MlirOperation func;
  int nargs, nfloat, float_arg[MAX_ARGS];
  BluType type[MAX_ARGS], out;
} Case;

static MlirValue planted(BluBuilder *b, MlirValue g, Plant plant) {
  switch (plant) {
  case NEGATED: return blu_build1(b, "neg", g);
  case HALVED: return blu_build2(b, "mul", g, blu_constant_like(b, g, 0.5));
  case MISSING: return blu_constant_like(b, g, 0);
  case WITH_NAN: return blu_build2(b, "mul", g, blu_constant_like(b, g, NAN));
  default: return g;
  }
}

static bool build(MlirContext ctx, const BluOpCase *from, Plant plant, Case *c) {
  char text[4096];
  snprintf(text, sizeof text, "func.func @f(%s) {\n%s\nreturn\n}", from->args, from->body);
  *c = (Case){.module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text))};
  if (mlirModuleIsNull(c->module)) return false;
  c->func = blu_func_find(c->module, "f");
  MlirBlock block = blu_func_block(c->func);
  MlirOperation end = mlirBlockGetTerminator(block), last = mlirBlockGetFirstOperation(block);
  while (!mlirOperationEqual(mlirOperationGetNextInBlock(last), end)) last = mlirOperationGetNextInBlock(last);
  MlirValue result = mlirOperationGetResult(last, 0), wrt[MAX_ARGS], grads[MAX_ARGS], results[MAX_ARGS + 1];
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
  if (!blu_gradient(&b, 1, &result, &ct, c->nfloat, wrt, grads)) return false;
  results[0] = result;
  for (int i = 0; i < c->nfloat; i++)
    results[i + 1] = mlirValueIsNull(grads[i]) ? blu_constant_like(&b, wrt[i], 0) : planted(&b, grads[i], plant);
  mlirOperationDestroy(end);
  blu_func_return(c->func, mlirLocationUnknownGet(ctx), c->nfloat + 1, results, NULL);
  return mlirOperationVerify(mlirModuleGetOperation(c->module));
}

/* <ct, f(args)>, and all results if asked for (the caller frees them). */
static double run(const Case *c, double *const *args, double **results) {
  double *own[MAX_ARGS + 1] = {0}, **to = results ? results : own, sum = 0;
  BluWhy why = {0};
  if (!blu_interp_run(c->module, c->func, (const double *const *)args, to, &why)) {
    printf("interpreter: %s\n", why.text);
    return NAN;
  }
  for (int64_t i = 0; i < blu_type_count(&c->out); i++) sum += args[c->nargs][i] * to[0][i];
  for (int i = 0; !results && i <= c->nfloat; i++) free(own[i]);
  return sum;
}

/* The largest error of an element of a gradient, relative to max(1, |difference|). NaN if any is NaN. */
static double worst_error(const Case *c, const BluOpCase *from) {
  double *args[MAX_ARGS + 1], *results[MAX_ARGS + 1] = {0}, worst = 0;
  for (int i = 0; i <= c->nargs; i++) {
    const BluType *t = i < c->nargs ? &c->type[i] : &c->out;
    int64_t n = blu_type_count(t);
    args[i] = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t k = 0; k < n; k++)
      args[i][k] = i == c->nargs ? uniform(-1, 1) : blu_elem_is_float(t->elem) ? uniform(from->lo, from->hi) : floor(uniform(0, from->ihi));
  }
  run(c, args, results);
  for (int f = 0; f < c->nfloat; f++) {
    double *x = args[c->float_arg[f]];
    for (int64_t k = 0, n = blu_type_count(&c->type[c->float_arg[f]]); k < n; k++) {
      double at = x[k];
      x[k] = at + STEP;
      double up = run(c, args, NULL);
      x[k] = at - STEP;
      double down = run(c, args, NULL);
      x[k] = at;
      double difference = (up - down) / (2 * STEP), error = fabs(results[f + 1][k] - difference) / fmax(1, fabs(difference));
      if (!(error <= worst)) worst = error;
    }
  }
  for (int i = 0; i <= c->nargs; i++) free(args[i]);
  for (int i = 0; i <= c->nfloat; i++) free(results[i]);
  return worst;
}

/* true: no gradient of the op's case is off by more than the tolerance. */
static bool passes(MlirContext ctx, const char *name, const BluOpCase *from, Plant plant, double *error) {
  Case c;
  bool good = build(ctx, from, plant, &c);
  if (!good) printf("%s: the case does not build: %s\n", name, from->body);
  if (good) *error = worst_error(&c, from);
  if (good) good = *error <= TOLERANCE;
  if (!mlirModuleIsNull(c.module)) mlirModuleDestroy(c.module);
  return good;
}

/* Cases that are about the walk, not about one op: second use, a value that leads nowhere, a chain through views. */
static const BluOpCase walk[] = {
  {"%a: tensor<3xf64>", "%s = blu.mul %a, %a : tensor<3xf64>\n%t = blu.exp %a : tensor<3xf64>\n%u = blu.add %s, %t : tensor<3xf64>\n"
                        "%r = blu.mul %u, %a : tensor<3xf64>", -1, 1, 0},
  {"%a: tensor<3xf64>, %b: tensor<3xf64>", "%s = blu.exp %b : tensor<3xf64>\n%r = blu.mul %a, %a : tensor<3xf64>", -1, 1, 0},
  {"%a: tensor<2x3xf64>", "%s = blu.reshape %a {shape = array<i64: 6>} : (tensor<2x3xf64>) -> tensor<6xf64>\n"
                          "%t = blu.sum %s {axis = array<i64: 0>, keep = true} : (tensor<6xf64>) -> tensor<1xf64>\n"
                          "%u = blu.broadcast %t {shape = array<i64: 2, 1>} : (tensor<1xf64>) -> tensor<2x1xf64>\n"
                          "%v = blu.broadcast %u {shape = array<i64: 2, 3>} : (tensor<2x1xf64>) -> tensor<2x3xf64>\n"
                          "%r = blu.mul %v, %a : tensor<2x3xf64>", -1, 1, 0},
  {"%a: tensor<4xf64>", "%f = blu.floor %a : tensor<4xf64>\n%r = blu.mul %f, %a : tensor<4xf64>", 0.1, 0.9, 0},
  {0}};

int main(void) {
  MlirContext ctx = mlirContextCreateWithThreading(false);
  blu_context_load(ctx);
  int cases = 0, failed = 0, ungraded = 0;
  for (int i = 0; i < blu_nops; i++) {
    const BluOp *op = &blu_ops[i];
    const BluRule *rule = op->rule;
    if (!rule->vjp && !rule->nodiff) failed++, printf("FAILED %s: has neither a gradient nor a reason for none\n", op->name);
    if (rule->vjp && !rule->cases[0].body) failed++, printf("FAILED %s: has a gradient and no test case\n", op->name);
    if (op->nout && !rule->ref) failed++, printf("FAILED %s: has no reference\n", op->name);
    if (rule->kind == BLU_KIND_ELEMENT && !rule->lower) failed++, printf("FAILED %s: has no lowering\n", op->name);
    if (!rule->vjp) ungraded++;
    for (const BluOpCase *c = rule->cases; c->body; c++, cases++) {
      double error = NAN;
      if (passes(ctx, op->name, c, RIGHT, &error)) continue;
      failed++;
      printf("FAILED %s: error %.3g in\n%s\n", op->name, error, c->body);
    }
  }
  for (const BluOpCase *c = walk; c->body; c++, cases++) {
    double error = NAN;
    if (passes(ctx, "walk", c, RIGHT, &error)) continue;
    failed++;
    printf("FAILED walk: error %.3g in\n%s\n", error, c->body);
  }
  /* the harness: each kind of wrong gradient, in one op of each kind */
  static const char *const victims[] = {"exp", "mul", "broadcast", "sum", "matmul", "cross_entropy", "transpose", "where"};
  int caught = 0, planted_n = 0;
  for (size_t v = 0; v < sizeof victims / sizeof *victims; v++)
    for (int plant = NEGATED; plant < PLANTS; plant++, planted_n++) {
      double error = NAN;
      const BluOpCase *c = blu_op_find(victims[v])->rule->cases;
      if (!passes(ctx, victims[v], c, (Plant)plant, &error)) caught++;
      else failed++, printf("FAILED: a %s gradient of %s was not caught\n", plant_names[plant], victims[v]);
    }
  mlirContextDestroy(ctx);
  printf("%d cases of %d ops, %d ops without gradient, %d of %d planted faults caught, %d failures\n", cases, blu_nops, ungraded, caught,
         planted_n, failed);
  return failed != 0;
}
