/* verify_test.c - `bluc verify` can fail: with a wrong gradient or a wrong pass planted (the linker's --wrap puts it in the place of the right
 * one), it names that gradient or that pass, in the round and at the function where it is wrong, and nothing else. Without, all holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/blu.h"
#include "frontend/frontend.h"
#include "passes/passes.h"

static const char *const passes[] = {"bounds", "differentiate", "step", "simplify", "expand", "simplify", "fuse", "plan"};
enum { PASSES = sizeof passes / sizeof *passes };

/* ---- faults ---- */

/* A wrong gradient rule of `op`, or, if `pass` is not 0, a fault that the pass of this number (from 1) leaves in @func. */
typedef struct { const char *name, *op; void (*vjp)(BluVjp *v); int pass; const char *func, *must_say, *must_hold; } Fault;

static void tanh_without_factor(BluVjp *v) { v->dx[0] = v->ct; }
static void relu_everywhere(BluVjp *v) { v->dx[0] = v->ct; }
static void broadcast_doubled(BluVjp *v) { /* a bias, and the loss's weight: of its sum, twice as much */
  int64_t axis = 0;
  MlirValue sum = blu_reduce(v->b, "sum", v->ct, 1, &axis, false);
  v->dx[0] = blu_reshape_to(v->b, blu_build2(v->b, "add", sum, sum), &v->sig.in[0]);
}

static const Fault faults[] = {
  {"a gradient without its factor", "tanh", tanh_without_factor, 0, NULL, "FAILED  gradient of first.weight ", "held    gradient of second.weight "},
  {"a gradient where there is none", "relu", relu_everywhere, 0, NULL, "FAILED  gradient of second.bias ", "held    gradient of third.weight "},
  {"a doubled gradient", "broadcast", broadcast_doubled, 0, NULL, "FAILED  gradient of third.bias ", "held    gradient of third.weight "},
  {"a wrong step", NULL, NULL, 3, "train", "FAILED  pass 3, step: @train: param ", "held    pass 4, simplify: "},
  {"a wrong simplification", NULL, NULL, 4, "train", "FAILED  pass 4, simplify: @train: param ", "held    pass 5, expand: "},
  {"a wrong expansion", NULL, NULL, 5, "predict", "FAILED  pass 5, expand: @predict: output ", "held    pass 6, simplify: "},
  {"a wrong simplification of primitives", NULL, NULL, 6, "eval", "FAILED  pass 6, simplify: @eval: sum loss: ", "held    pass 5, expand: "},
  {"a wrong kernel", NULL, NULL, 7, "", "FAILED  pass 7, fuse: @", "held    pass 8, plan: "},
};
static const Fault *planted;
static int pass_now; /* passes run so far in this round */

/* Swaps the operands of the last difference in a function; func "" is any kernel that has one. */
static bool swap_difference(MlirModule m, const char *func) {
  MlirOperation last = {0};
  for (MlirOperation f = mlirBlockGetFirstOperation(mlirModuleGetBody(m)); !mlirOperationIsNull(f); f = mlirOperationGetNextInBlock(f)) {
    bool kernel = !mlirAttributeIsNull(mlirOperationGetAttributeByName(f, mlirStringRefCreateFromCString("blu.kernel")));
    if (*func ? !mlirOperationEqual(f, blu_func_find(m, func)) : !kernel) continue;
    for (MlirOperation o = mlirBlockGetFirstOperation(blu_func_block(f)); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o))
      if (blu_is(o, "sub")) last = o;
  }
  if (mlirOperationIsNull(last)) return false;
  MlirValue a = mlirOperationGetOperand(last, 0), b = mlirOperationGetOperand(last, 1);
  mlirOperationSetOperand(last, 0, b);
  mlirOperationSetOperand(last, 1, a);
  return true;
}

static bool not_planted;
static bool after_pass(bool good, MlirModule m) {
  pass_now = pass_now % PASSES + 1;
  if (planted && planted->pass == pass_now && !swap_difference(m, planted->func)) not_planted = true;
  return good;
}

#define WRAP(pass)                         \
  bool __real_blu_pass_##pass(MlirModule m); \
  bool __wrap_blu_pass_##pass(MlirModule m); \
  bool __wrap_blu_pass_##pass(MlirModule m) { return after_pass(__real_blu_pass_##pass(m), m); }
WRAP(bounds)
WRAP(differentiate)
WRAP(step)
WRAP(simplify)
WRAP(expand)
WRAP(fuse)
WRAP(plan)

const BluOp *__real_blu_op_of(MlirOperation op);
const BluOp *__wrap_blu_op_of(MlirOperation op);
const BluOp *__wrap_blu_op_of(MlirOperation op) {
  static BluOp row;
  static BluRule rule;
  const BluOp *real = __real_blu_op_of(op);
  if (!planted || !planted->op || !real || strcmp(real->name, planted->op)) return real;
  rule = *real->rule;
  rule.vjp = planted->vjp;
  row = *real;
  row.rule = &rule;
  return &row;
}

/* ---- the test ---- */

static int failures;
static void fail(const char *what, const char *name, const char *text) {
  printf("FAIL %s: %s\n%s", name, what, text);
  failures++;
}

/* Lines that report a failure and don't begin with `expected`. */
static int others(const char *text, const char *expected) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, "FAILED")); at++) n += strncmp(at, expected, strlen(expected)) != 0;
  return n;
}

static void test_fault(MlirModule m, const Fault *f) {
  char *text = NULL, kind[32] = "";
  size_t size;
  FILE *out = open_memstream(&text, &size);
  planted = f, pass_now = 0, not_planted = false;
  BluVerifyOptions o = {.seed = 1, .rounds = 2, .npasses = PASSES, .passes = passes, .out = out};
  bool held = blu_verify_model(m, &o);
  fclose(out);
  planted = NULL;
  const char *name = f ? f->name : "nothing planted";
  if (f) snprintf(kind, sizeof kind, f->pass ? "FAILED  pass %d," : "FAILED  gradient", f->pass);
  if (held != !f) fail(held ? "not noticed" : "something fails", name, text);
  else if (f && not_planted) fail("there was no place for it", name, "");
  else if (f && !strstr(text, f->must_say)) fail("not named", name, text);
  else if (f && !strstr(text, f->must_hold)) fail("what is right doesn't hold", name, text);
  else if (f && others(text, kind)) fail("something else is blamed", name, text);
  else if (!strstr(text, "round 2 of 2") && (!f || !f->pass)) fail("only one round", name, text);
  free(text);
}

int main(int argc, char **argv) {
  if (argc != 2) return fputs("usage: verify_test MODEL.blu\n", stderr), 2;
  MlirContext ctx = mlirContextCreateWithThreading(false);
  blu_context_load(ctx);
  BluFrontendOptions front = {.path = argv[1]};
  BluDiags *ds = blu_diags_make();
  MlirModule m = blu_frontend_build(ctx, &front, ds);
  blu_diags_print(ds, stderr);
  blu_diags_free(ds);
  if (mlirModuleIsNull(m)) return 1;
  test_fault(m, NULL);
  int n = sizeof faults / sizeof *faults;
  for (int i = 0; i < n; i++) test_fault(m, &faults[i]);
  mlirModuleDestroy(m);
  mlirContextDestroy(ctx);
  printf("%d faults planted, %d failures\n", n, failures);
  return failures != 0;
}
