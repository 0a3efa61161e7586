/* gradients_test.c - every gradient rule of the op table against central differences of the ops' references, in double: along
 * random directions, and element by element of the whole Jacobian. The checks are themselves tested: wrong rules stand in for
 * the right ones (the linker's --wrap=blu_op_of), and each check must catch each of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "opcase.h"

/* Differences are good to about 1e-9 here; rules are wrong by far more. */
static const double TOLERANCE = 1e-7;

/* ---- wrong rules ---- */

#define MUL(x, y) blu_build2(v->b, "mul", x, y)
#define BROKEN(name) static void name(BluVjp *v)
/* sign */
BROKEN(exp_negated) { v->dx[0] = blu_build1(v->b, "neg", MUL(v->ct, v->out)); }
BROKEN(sub_negated) { v->dx[0] = v->dx[1] = v->ct; }
BROKEN(cos_negated) { v->dx[0] = MUL(v->ct, blu_build1(v->b, "sin", v->in[0])); }
/* a missing factor */
BROKEN(tanh_without_factor) { v->dx[0] = v->ct; }
BROKEN(mul_without_factor) { v->dx[0] = v->ct, v->dx[1] = MUL(v->ct, v->in[0]); }
BROKEN(mean_without_count) {
  BluType t = v->sig.in[0];
  BluType kept = t;
  BluAttrs as = blu_attrs_of(v->op);
  for (int i = 0; i < blu_attr(&as, "axis")->n; i++) kept.dim[blu_attr(&as, "axis")->i[i]] = 1;
  v->dx[0] = blu_broadcast_to(v->b, blu_reshape_to(v->b, v->ct, &kept), &t);
}
/* a missing un-broadcast: one of the copies in the place of their sum */
BROKEN(broadcast_without_sum) {
  const BluType *from = &v->sig.in[0], *to = &v->sig.out;
  int64_t axes[BLU_MAX_RANK];
  int n = 0, shift = to->rank - from->rank;
  for (int i = 0; i < to->rank; i++)
    if (i < shift || from->dim[i - shift] != to->dim[i]) axes[n++] = i;
  v->dx[0] = blu_reshape_to(v->b, blu_reduce(v->b, "max", v->ct, n, axes, false), from);
}
BROKEN(bias_without_sum) {
  v->dx[2] = blu_reduce(v->b, "min", v->ct, 1, (int64_t[]){0}, false);
}
/* transposed */
BROKEN(matmul_transposed) {
  BluAttrs as = blu_attr_set_bool((BluAttrs){0}, "tb", true), swap = blu_attr_set_ints((BluAttrs){0}, "perm", 2, (int64_t[]){1,
      0});
  MlirValue p = blu_build(v->b, "matmul", &as, 2, (MlirValue[]){v->ct, v->in[1]});
  v->dx[0] = blu_build(v->b, "transpose", &swap, 1, &p);
}
BROKEN(transpose_transposed) { /* by perm itself and not by its inverse */
  BluAttrs as = blu_attrs_of(v->op);
  v->dx[0] = blu_build(v->b, "transpose", &as, 1, &v->ct);
}
/* NaN */
BROKEN(add_with_nan) { v->dx[0] = MUL(v->ct, blu_constant_like(v->b, v->ct, NAN)), v->dx[1] = v->ct; }
BROKEN(where_with_nan) { /* 0 times what is not taken, which here is log of a number below 0 */
  MlirValue on = blu_cast_to(v->b, v->in[0], v->sig.out.elem);
  v->dx[1] = MUL(MUL(v->ct, on), blu_build1(v->b, "log", blu_build2(v->b, "sub", on, blu_constant_like(v->b, on, 0.5))));
  v->dx[2] = v->ct;
}

static const struct { const char *kind, *op; void (*vjp)(BluVjp *v); BluOpCase on; } broken[] = {
  {"sign", "exp", exp_negated, {"%a: tensor<3xf64>", "%r = blu.exp %a : tensor<3xf64>", -1, 1, 0}},
  {"sign", "sub", sub_negated, {"%a: tensor<3xf64>, %b: tensor<3xf64>", "%r = blu.sub %a, %b : tensor<3xf64>", -1, 1, 0}},
  {"sign", "cos", cos_negated, {"%a: tensor<3xf64>", "%r = blu.cos %a : tensor<3xf64>", 1, 2, 0}},
  {"missing factor", "tanh", tanh_without_factor, {"%a: tensor<3xf64>", "%r = blu.tanh %a : tensor<3xf64>", 0.5, 1, 0}},
  {"missing factor", "mul", mul_without_factor, {"%a: tensor<3xf64>, %b: tensor<3xf64>", "%r = blu.mul %a, %b : tensor<3xf64>",
      -1, 1, 0}},
  {"missing factor", "mean", mean_without_count,
   {"%a: tensor<2x3xf64>", "%r = blu.mean %a {axis = array<i64: 1>} : (tensor<2x3xf64>) -> tensor<2xf64>", -1, 1, 0}},
  {"missing un-broadcast", "broadcast", broadcast_without_sum,
   {"%a: tensor<3x1xf64>", "%r = blu.broadcast %a {shape = array<i64: 2, 3, 4>} : (tensor<3x1xf64>) -> tensor<2x3x4xf64>", -1, 1,
       0}},
  {"missing un-broadcast", "layer_norm", bias_without_sum,
   {"%x: tensor<3x2xf64>, %w: tensor<2xf64>, %b: tensor<2xf64>",
    "%r = blu.layer_norm %x, %w, %b : (tensor<3x2xf64>, tensor<2xf64>, tensor<2xf64>) -> tensor<3x2xf64>", -1, 1, 0}},
  {"transposed", "matmul", matmul_transposed,
   {"%a: tensor<3x3xf64>, %b: tensor<3x3xf64>", "%r = blu.matmul %a, %b : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>",
       -1, 1, 0}},
  {"transposed", "transpose", transpose_transposed,
   {"%a: tensor<2x2x2xf64>", "%r = blu.transpose %a {perm = array<i64: 2, 0, 1>} : (tensor<2x2x2xf64>) -> tensor<2x2x2xf64>", -1,
       1, 0}},
  {"NaN", "add", add_with_nan, {"%a: tensor<3xf64>, %b: tensor<3xf64>", "%r = blu.add %a, %b : tensor<3xf64>", -1, 1, 0}},
  {"NaN", "where", where_with_nan,
   {"%a: tensor<8xf64>, %b: tensor<8xf64>", "%m = blu.lt %a, %b : (tensor<8xf64>, tensor<8xf64>) -> tensor<8xi1>\n"
    "%r = blu.where %m, %a, %b : (tensor<8xi1>, tensor<8xf64>, tensor<8xf64>) -> tensor<8xf64>", -1, 1, 0}},
};
static int planted = -1; /* the row of `broken` that stands in for the right rule */

const BluOp *__real_blu_op_of(MlirOperation op);
const BluOp *__wrap_blu_op_of(MlirOperation op);
const BluOp *__wrap_blu_op_of(MlirOperation op) {
  static BluOp row;
  static BluRule rule;
  const BluOp *real = __real_blu_op_of(op);
  if (planted < 0 || !real || strcmp(real->name, broken[planted].op)) return real;
  rule = *real->rule;
  rule.vjp = broken[planted].vjp;
  row = *real;
  row.rule = &rule;
  return &row;
}

/* ---- the walk: second use, ties, values that lead nowhere, chains through views, an operand used twice ---- */

static const BluOpCase walk[] = {
  {"%a: tensor<5xf64>", "%s = blu.softmax %a : (tensor<5xf64>) -> tensor<5xf64>\n"
                        "%r = blu.batch_norm_infer %s, %s, %a, %s, %s : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, "
                            "tensor<5xf64>, "
                        "tensor<5xf64>) -> tensor<5xf64>", -2, 2, 0}, /* one value as several operands of a composite */
  {"%a: tensor<3xf64>", "%s = blu.mul %a, %a : tensor<3xf64>\n%t = blu.exp %a : tensor<3xf64>\n%u = blu.add %s, %t : "
      "tensor<3xf64>\n"
                        "%r = blu.mul %u, %a : tensor<3xf64>", -1, 1, 0},
  {"%a: tensor<3xf64>, %b: tensor<3xf64>", "%s = blu.exp %b : tensor<3xf64>\n%r = blu.mul %a, %a : tensor<3xf64>", -1, 1, 0},
  {"%a: tensor<2x3xf64>", "%s = blu.reshape %a {shape = array<i64: 6>} : (tensor<2x3xf64>) -> tensor<6xf64>\n"
                          "%t = blu.sum %s {axis = array<i64: 0>, keep = true} : (tensor<6xf64>) -> tensor<1xf64>\n"
                          "%u = blu.broadcast %t {shape = array<i64: 2, 1>} : (tensor<1xf64>) -> tensor<2x1xf64>\n"
                          "%v = blu.broadcast %u {shape = array<i64: 2, 3>} : (tensor<2x1xf64>) -> tensor<2x3xf64>\n"
                          "%r = blu.mul %v, %a : tensor<2x3xf64>", -1, 1, 0},
  {"%a: tensor<4xf64>", "%f = blu.floor %a : tensor<4xf64>\n%r = blu.mul %f, %a : tensor<4xf64>", 0.1, 0.9, 0},
  {"%a: tensor<4xf64>", "%f = blu.sign %a : tensor<4xf64>\n%r = blu.mul %f, %a : tensor<4xf64>", 0.1, 0.9, 0},
  /* one parameter in two places: tied weights */
  {"%w: tensor<3x3xf64>", "%h = blu.matmul %w, %w : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>\n"
                          "%r = blu.matmul %h, %w {tb = true} : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>", -1, 1, 0},
  {"%a: tensor<3xf64>", "%r = blu.sub %a, %a : tensor<3xf64>", -1, 1, 0},
  {"%a: tensor<3xf64>", "%r = blu.div %a, %a : tensor<3xf64>", 1, 2, 0},
  {"%a: tensor<3xf64>", "%r = blu.pow %a, %a : tensor<3xf64>", 1, 2, 0},
  {"%a: tensor<3xf64>, %b: tensor<3xf64>", "%m = blu.lt %a, %b : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>\n"
   "%r = blu.where %m, %a, %a : (tensor<3xi1>, tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>", -1, 1, 0},
  {"%x: tensor<3x4xf64>, %w: tensor<4xf64>",
   "%r = blu.layer_norm %x, %w, %w : (tensor<3x4xf64>, tensor<4xf64>, tensor<4xf64>) -> tensor<3x4xf64>", -1, 1, 0},
  /* labels that are no class: log sum exp alone */
  {"%a: tensor<9x3xf64>, %b: tensor<9xi32>", "%r = blu.cross_entropy %a, %b : (tensor<9x3xf64>, tensor<9xi32>) -> tensor<9xf64>", -2, 2, 6},
  /* size 1 and empty dimensions */
  {"%a: tensor<1x1xf64>", "%r = blu.matmul %a, %a {tb = true} : (tensor<1x1xf64>, tensor<1x1xf64>) -> tensor<1x1xf64>", -1, 1, 0},
  {"%a: tensor<0x3xf64>", "%s = blu.exp %a : tensor<0x3xf64>\n%r = blu.sum %s {axis = array<i64: 0>} : (tensor<0x3xf64>) -> "
      "tensor<3xf64>", -1, 1, 0},
  {"%a: tensor<1x3xf64>", "%s = blu.softmax %a {axis = 0} : (tensor<1x3xf64>) -> tensor<1x3xf64>\n%r = blu.mul %s, %a : "
      "tensor<1x3xf64>", -1, 1, 0},
  {0}};

static int cases, failed;

static void check(MlirContext ctx, const char *name, const BluOpCase *from) {
  OpCase c;
  cases++;
  bool good = opcase_build(ctx, from, &c);
  double along = good ? opcase_direction_error(&c, from) : NAN, whole = good ? opcase_jacobian_error(&c, from) : NAN;
  if (!(along <= TOLERANCE && whole <= TOLERANCE)) {
    failed++;
    printf("FAILED %s: errors %.3g along directions and %.3g in the Jacobian of\n%s\n", name, along, whole, from->body);
  }
  opcase_free(&c);
}

/* The op's cases in f32, which the interpreter doesn't round to, in a program for a device, along random directions. */
static void check_on_device(MlirContext ctx, const BluOp *op) {
  for (const BluOpCase *from = blu_op_cases(op); from->body; from++) {
    char args[1024], body[1024];
    snprintf(args, sizeof args, "%s", from->args), snprintf(body, sizeof body, "%s", from->body);
    for (int i = 0; i < 2; i++)
      for (char *at = i ? body : args; (at = strstr(at, "f64"));) memcpy(at, "f32", 3);
    BluOpCase one = {args, body, from->lo, from->hi, from->ihi};
    OpCase c;
    cases++;
    double error = opcase_build_for(ctx, "cuda", &one, &c) ? opcase_direction_error(&c, &one) : NAN;
    if (!(error <= TOLERANCE)) failed++, printf("FAILED %s: error %.3g along directions, on a device, of\n%s\n", op->name, error, body);
    opcase_free(&c);
  }
}

/* How many of the two checks let a wrong rule pass. */
static int missed(MlirContext ctx, const BluOpCase *from) {
  OpCase c;
  if (!opcase_build(ctx, from, &c)) return 2;
  int n = (opcase_direction_error(&c, from) <= TOLERANCE) + (opcase_jacobian_error(&c, from) <= TOLERANCE);
  opcase_free(&c);
  return n;
}

int main(void) {
  MlirContext ctx = mlirContextCreateWithThreading(false);
  blu_context_load(ctx);
  int ungraded = 0, n = sizeof broken / sizeof *broken, caught = 0;
  for (int i = 0; i < blu_nops; i++) {
    const BluOp *op = &blu_ops[i];
    const BluRule *rule = op->rule;
    const BluOpCase *from = blu_op_cases(op);
    bool no_case = rule->vjp && !from->body;
    if (!rule->vjp && !rule->nodiff) failed++, printf("FAILED %s: has neither a gradient nor a reason for none\n", op->name);
    if (no_case) failed++, printf("FAILED %s: has a gradient and no test case\n", op->name);
    if (op->nout && !rule->ref) failed++, printf("FAILED %s: has no reference\n", op->name);
    if (rule->kind == BLU_KIND_ELEMENT && !rule->lower) failed++, printf("FAILED %s: has no lowering\n", op->name);
    if (rule->kind == BLU_KIND_COMPOSITE && !rule->expand) failed++, printf("FAILED %s: has no expansion\n", op->name);
    if (rule->uncoded && rule->cases->body) failed++, printf("FAILED %s: is coded and is not\n", op->name);
    if (!rule->vjp) ungraded++;
    for (; from->body; from++) check(ctx, op->name, from);
    if (strstr(op->name, "attention") || !strcmp(op->name, "conv2d")) check_on_device(ctx, op); /* whose gradients are other ops there */
  }
  for (const BluOpCase *from = walk; from->body; from++) check(ctx, "walk", from);
  for (planted = 0; planted < n; planted++) {
    int passed = missed(ctx, &broken[planted].on);
    caught += !passed;
    if (passed) failed++, printf("FAILED: a wrong rule of %s (%s) was not caught by %d of 2 checks\n", broken[planted].op,
        broken[planted].kind, passed);
  }
  planted = -1;
  for (int i = 0; i < n; i++) /* and the right rules pass on the same cases */
    if (missed(ctx, &broken[i].on) != 2) failed++, printf("FAILED: the right rule of %s does not pass\n", broken[i].op);
  mlirContextDestroy(ctx);
  printf("%d cases of %d ops, %d ops without gradient, %d of %d wrong rules caught, %d failures\n", cases, blu_nops, ungraded,
      caught, n, failed);
  return failed != 0;
}
