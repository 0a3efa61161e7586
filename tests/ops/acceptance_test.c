/* acceptance_test.c - right values of ops and gradients (acceptance_rows.h), in three ways: by the references in double, the
 * same after simplification, and in f32 by the order of operations that compiled code follows (tests/codegen/contract.c). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "contract.h"
#include "opcase.h"

typedef struct {
  const char *name, *args, *body;
  const double *in[OP_MAX_ARGS], *ct, *out, *grad[OP_MAX_ARGS]; /* grad: by float argument; NULL: not judged */
} Row;
#include "acceptance_rows.h"

static int checks, failures;

static bool expect(bool good, const char *what, const char *name, const char *how) {
  checks++;
  if (good) return true;
  failures++;
  printf("FAILED %s, %s: %s\n", name, how, what);
  return false;
}

/* 1e-5 relative; 0, infinity and NaN are exact. */
static bool same(double got, double right, double near) {
  if (isnan(right)) return isnan(got);
  if (right == 0) return fabs(got) <= near;
  if (isinf(right)) return got == right;
  return fabs(got - right) <= 1e-5 * fabs(right);
}

static void compare(const char *name, const char *how, const char *what, const double *got, const double *right, int64_t n,
    double near) {
  checks++;
  for (int64_t i = 0; right && i < n; i++) {
    if (same(got[i], right[i], near)) continue;
    failures++;
    printf("FAILED %s, %s: %s [%lld] is %.9g, not %.9g\n", name, how, what, (long long)i, got[i], right[i]);
    return;
  }
}

/* ---- running ---- */

/* Value and gradients by the contract in f32, as doubles. */
static void run_f32(OpCase *c, double *const *args, double **results) {
  void *in[OP_MAX_ARGS + 1], *out[OP_MAX_ARGS + 1];
  blu_pass_expand(c->module);
  blu_pass_simplify(c->module);
  for (int i = 0; i <= c->nargs; i++) {
    BluType t = i < c->nargs ? c->type[i] : c->out;
    int64_t n = blu_type_count(&t);
    in[i] = malloc((size_t)n * 8 + 8);
    for (int64_t k = 0; k < n; k++) contract_set(in[i], t.elem, k, args[i][k]);
  }
  contract_run(c->func, in, out);
  for (int i = 0; i <= c->nfloat; i++) {
    BluType t = i ? c->type[c->float_arg[i - 1]] : c->out;
    results[i] = malloc((size_t)(blu_type_count(&t) + 1) * sizeof(double));
    for (int64_t k = 0; k < blu_type_count(&t); k++) results[i][k] = contract_get(out[i], t.elem, k);
    free(out[i]);
  }
  for (int i = 0; i <= c->nargs; i++) free(in[i]);
}

typedef void Judge(const OpCase *c, const char *name, const char *how, double **results, const void *user);

/* Runs f and its gradients in the three ways and shows each to the judge. `in` by argument; NULL ct: ones. */
static void each_way(MlirContext ctx, const char *name, const BluOpCase *from, const double *const *in, const double *ct,
    Judge *judge, const void *user) {
  static const char *const ways[] = {"by reference", "simplified", "in f32"};
  for (int way = 0; way < 3; way++) {
    OpCase c;
    double *args[OP_MAX_ARGS + 1], *results[OP_MAX_ARGS + 1] = {0};
    if (!opcase_build(ctx, from, &c)) { expect(false, "does not build", name, ways[way]); return; }
    bool coded = !strstr(from->body, "blu.prod"); /* the contract has no products over axes */
    for (int i = 0; i <= c.nargs; i++) {
      int64_t n = blu_type_count(i < c.nargs ? &c.type[i] : &c.out);
      args[i] = malloc((size_t)(n + 1) * sizeof(double));
      for (int64_t k = 0; k < n; k++) args[i][k] = i < c.nargs ? in[i][k] : ct ? ct[k] : 1;
    }
    if (way == 1) blu_pass_simplify(c.module);
    if (way < 2) opcase_run(&c, args, results);
    else if (coded) run_f32(&c, args, results);
    if (way < 2 || coded) judge(&c, name, ways[way], results, user);
    for (int i = 0; i <= c.nargs; i++) free(args[i]);
    for (int i = 0; i <= c.nfloat; i++) free(results[i]);
    opcase_free(&c);
  }
}

static void judge_row(const OpCase *c, const char *name, const char *how, double **results, const void *user) {
  const Row *row = user;
  double near = row == &tied_weights ? 1e-7 : 0; /* its 0 is a sum of two gradients that cancel */
  compare(name, how, "the value", results[0], row->out, blu_type_count(&c->out), near);
  for (int i = 0; i < c->nfloat; i++)
    compare(name, how, "the gradient", results[i + 1], row->grad[i], blu_type_count(&c->type[c->float_arg[i]]), near);
}

/* ---- values that stand in relation to one another ---- */

static bool all_finite(const double *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

/* Attention over [1, 1, 4, 2]: row 1 sees nothing, so it is 0 with gradient 0; the other rows are as without a mask. */
static void judge_masked(const OpCase *c, const char *name, const char *how, double **results, const void *user) {
  const double *const *plain = user; /* value and q's gradient without a mask */
  (void)c;
  for (int i = 0; i < 8; i++) {
    bool row1 = i / 2 == 1;
    expect(row1 ? results[0][i] == 0 : same(results[0][i], plain[0][i], 0), "a row of the value is wrong", name, how);
    expect(row1 ? results[1][i] == 0 : same(results[1][i], plain[1][i], 0), "a row of q's gradient is wrong", name, how);
  }
  for (int i = 0; i < 4; i++) expect(all_finite(results[i], 8), "not finite", name, how);
}

static void judge_all_zero(const OpCase *c, const char *name, const char *how, double **results, const void *user) {
  (void)user;
  for (int i = 0; i <= c->nfloat; i++)
    for (int64_t k = 0, n = blu_type_count(i ? &c->type[c->float_arg[i - 1]] : &c->out); k < n; k++)
      if (!expect(results[i][k] == 0, "not 0", name, how)) return;
}

static void judge_keep(const OpCase *c, const char *name, const char *how, double **results, const void *user) {
  double **kept = (double **)user; /* copies of value and gradients, from the run by reference */
  if (strcmp(how, "by reference")) return;
  for (int i = 0; i <= c->nfloat; i++) {
    int64_t n = blu_type_count(i ? &c->type[c->float_arg[i - 1]] : &c->out);
    kept[i] = malloc((size_t)(n + 1) * sizeof(double));
    memcpy(kept[i], results[i], (size_t)n * sizeof(double));
  }
  (void)name;
}

static void test_attention(MlirContext ctx) {
  static const double q[8] = {0.1, -0.4, 0.7, 0.2, -0.9, 0.5, 0.3, 0.3}, k[8] = {0.6, 0.1, -0.2, 0.8, 0.4, -0.7, 0.9, 0.2};
  static const double v[8] = {1, -1, 0.5, 2, -0.3, 0.8, 0.2, -0.6}, ct[8] = {0.3, -0.2, 0.9, 0.4, -0.5, 0.6, 0.1, 0.8};
  static const double row1[16] = {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}, none[16] = {0};
  static const BluOpCase plain = {"%q: tensor<1x1x4x2xf32>, %k: tensor<1x1x4x2xf32>, %v: tensor<1x1x4x2xf32>",
    "%r = blu.attention %q, %k, %v : (tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x1x4x2xf32>", 0,
        0, 0};
  static const BluOpCase masked = {"%q: tensor<1x1x4x2xf32>, %k: tensor<1x1x4x2xf32>, %v: tensor<1x1x4x2xf32>, %m: "
      "tensor<4x4xi1>",
    "%r = blu.masked_attention %q, %k, %v, %m : (tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>, tensor<4x4xi1>) "
        "-> tensor<1x1x4x2xf32>", 0, 0, 0};
  static const BluOpCase causal = {"%q: tensor<1x1x4x2xf32>, %k: tensor<1x1x2x2xf32>, %v: tensor<1x1x2x2xf32>",
    "%a = blu.attention %q, %k, %v {causal = true} : (tensor<1x1x4x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) -> "
        "tensor<1x1x4x2xf32>\n"
    "%r = blu.slice %a {start = array<i64: 0, 0, 0, 0>, stop = array<i64: 1, 1, 2, 2>} : (tensor<1x1x4x2xf32>) -> "
        "tensor<1x1x2x2xf32>", 0, 0, 0};
  double *kept[OP_MAX_ARGS + 1] = {0};
  each_way(ctx, "attention", &plain, (const double *const[]){q, k, v}, ct, judge_keep, kept);
  each_way(ctx, "attention with a row that sees nothing", &masked, (const double *const[]){q, k, v, row1}, ct, judge_masked,
      kept);
  each_way(ctx, "attention that sees nothing", &masked, (const double *const[]){q, k, v, none}, ct, judge_all_zero, NULL);
  each_way(ctx, "causal attention with fewer keys than queries", &causal, (const double *const[]){q, k, v}, ct, judge_all_zero,
      NULL);
  for (int i = 0; i <= 3; i++) free(kept[i]);
  /* groups of heads: the same as each key head repeated for its query heads */
  static const BluOpCase grouped = {"%q: tensor<1x2x2x2xf32>, %k: tensor<1x1x4x2xf32>, %v: tensor<1x1x4x2xf32>",
    "%g = blu.attention %q, %k, %v : (tensor<1x2x2x2xf32>, tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>) -> tensor<1x2x2x2xf32>\n"
    "%kk = blu.broadcast %k {shape = array<i64: 1, 2, 4, 2>} : (tensor<1x1x4x2xf32>) -> tensor<1x2x4x2xf32>\n"
    "%vv = blu.broadcast %v {shape = array<i64: 1, 2, 4, 2>} : (tensor<1x1x4x2xf32>) -> tensor<1x2x4x2xf32>\n"
    "%p = blu.attention %q, %kk, %vv : (tensor<1x2x2x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>) -> tensor<1x2x2x2xf32>\n"
    "%d = blu.sub %g, %p : tensor<1x2x2x2xf32>\n%z = blu.abs %d : tensor<1x2x2x2xf32>\n"
    "%e = blu.constant {value = 1.0e-6, elem = f32, shape = array<i64: 1, 2, 2, 2>} : () -> tensor<1x2x2x2xf32>\n"
    "%m = blu.gt %z, %e : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xi1>\n"
    "%r = blu.cast %m {to = f32} : (tensor<1x2x2x2xi1>) -> tensor<1x2x2x2xf32>", 0, 0, 0};
  each_way(ctx, "attention in groups", &grouped, (const double *const[]){q, k, v}, ct, judge_all_zero, NULL);
}

static void judge_dropout(const OpCase *c, const char *name, const char *how, double **results, const void *user) {
  int64_t n = blu_type_count(&c->out), kept = 0;
  (void)user;
  for (int64_t i = 0; i < n; i++) {
    if (!expect(results[0][i] == 0 || results[0][i] == 2, "neither dropped nor doubled", name, how)) return;
    if (!expect(results[1][i] == results[0][i], "the gradient is not the forward's mask", name, how)) return;
    kept += results[0][i] != 0;
  }
  expect(kept > n / 2 - n / 16 && kept < n / 2 + n / 16, "half is not half", name, how);
}

static void judge_ones(const OpCase *c, const char *name, const char *how, double **results, const void *user) {
  double right = *(const double *)user;
  for (int64_t i = 0; i < blu_type_count(&c->out); i++)
    if (!expect(results[0][i] == right, "another value", name, how)) return;
}

static void test_random(MlirContext ctx) {
  static double ones[2048];
  for (int i = 0; i < 2048; i++) ones[i] = 1;
  static const BluOpCase half = {"%x: tensor<2048xf32>, %k: tensor<i64>",
      "%r = blu.dropout %x, %k {stream = 7, p = 0.5} : (tensor<2048xf32>, tensor<i64>) -> tensor<2048xf32>", 0, 0, 0};
  static const BluOpCase never = {"%k: tensor<i64>", "%r = blu.bernoulli %k {stream = 7, shape = array<i64: 999>, p = 0.0} : "
      "(tensor<i64>) -> tensor<999xi1>", 0, 0, 0};
  static const BluOpCase always = {"%k: tensor<i64>", "%r = blu.bernoulli %k {stream = 7, shape = array<i64: 999>, p = 1.0} : "
      "(tensor<i64>) -> tensor<999xi1>", 0, 0, 0};
  each_way(ctx, "dropout on ones", &half, (const double *const[]){ones, V(123456789)}, NULL, judge_dropout, NULL);
  each_way(ctx, "bernoulli of 0", &never, (const double *const[]){V(5)}, NULL, judge_ones, V(0));
  each_way(ctx, "bernoulli of 1", &always, (const double *const[]){V(5)}, NULL, judge_ones, V(1));
}

/* Long axes: constants that are exactly 0 after layer norm, and sums past 2^24 that f32 counts one by one would miss. */
static void test_long(MlirContext ctx) {
  static const double constants[] = {1234.0, 1234.1f, 0.1f, -7.7e9f, 1e-30f, 3.0e37f};
  enum { N = 1000, LONG = 17000000 };
  static double x[N], one[N], zero[N];
  for (size_t k = 0; k < sizeof constants / sizeof *constants; k++) {
    for (int i = 0; i < N; i++) x[i] = constants[k], one[i] = 1, zero[i] = 0;
    static const BluOpCase norm = {"%x: tensor<1000xf32>, %w: tensor<1000xf32>, %b: tensor<1000xf32>",
      "%r = blu.layer_norm %x, %w, %b : (tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>", 0, 0, 0};
    static const BluOpCase short_norm = {"%x: tensor<256xf32>, %w: tensor<256xf32>, %b: tensor<256xf32>",
      "%r = blu.layer_norm %x, %w, %b : (tensor<256xf32>, tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>", 0, 0, 0};
    if (constants[k] < 1e37) each_way(ctx, "layer norm of 1000 equal numbers", &norm, (const double *const[]){x, one, zero},
        NULL, judge_ones, V(0));
    if (constants[k] < 1e35) each_way(ctx, "layer norm of 256 equal numbers", &short_norm, (const double *const[]){x, one, zero},
        NULL, judge_ones, V(0));
  }
  static const BluOpCase sum = {"%x: tensor<17000000xf32>", "%r = blu.sum %x : (tensor<17000000xf32>) -> tensor<f32>", 0, 0, 0};
  static const BluOpCase mean = {"%x: tensor<70000xf32>", "%r = blu.mean %x : (tensor<70000xf32>) -> tensor<f32>", 0, 0, 0};
  double *ones = malloc(LONG * sizeof *ones);
  for (int i = 0; i < LONG; i++) ones[i] = 1;
  each_way(ctx, "sum of 17,000,000 ones", &sum, (const double *const[]){ones}, NULL, judge_ones, V(LONG));
  each_way(ctx, "mean of 70,000 ones", &mean, (const double *const[]){ones}, NULL, judge_ones, V(1));
  free(ones);
}

/* A loss whose every weight is 0 is 0 with gradient 0: through the pass that makes the train step's gradient. */
static void test_no_weight(MlirContext ctx) {
  static const char *const text =
    "func.func @train(%x: tensor<2x2xf32> {blu.role = \"param\", blu.name = \"x\"}, %y: tensor<2xi32> {blu.role = \"data\", "
        "blu.name = \"y\"})\n"
    " -> (tensor<f32> {blu.role = \"sum\", blu.name = \"loss\"}, tensor<f32> {blu.role = \"weight\", blu.name = \"loss\"}) {\n"
    "%i = blu.constant {value = -100.0, elem = i32, shape = array<i64: 2>} : () -> tensor<2xi32>\n"
    "%z = blu.constant {value = 0.0, elem = f32, shape = array<i64: 2>} : () -> tensor<2xf32>\n"
    "%w = blu.ne %y, %i : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>\n"
    "%e = blu.cross_entropy %x, %y : (tensor<2x2xf32>, tensor<2xi32>) -> tensor<2xf32>\n"
    "%k = blu.where %w, %e, %z : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>\n"
    "%s = blu.sum %k : (tensor<2xf32>) -> tensor<f32>\n%f = blu.cast %w {to = f32} : (tensor<2xi1>) -> tensor<2xf32>\n"
    "%n = blu.sum %f : (tensor<2xf32>) -> tensor<f32>\nreturn %s, %n : tensor<f32>, tensor<f32>\n}";
  MlirModule m = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  double *results[3] = {0};
  BluWhy why = {0};
  bool good = !mlirModuleIsNull(m) && blu_pass_differentiate(m) &&
              blu_interp_run(m, blu_func_find(m, "train"), (const double *const[]){V(3, -2, INFINITY, 0), V(-100, -100)},
                  results, &why);
  expect(good, "does not run", "every label ignored", why.text);
  for (int i = 0; good && i < 3; i++)
    for (int k = 0; k < (i == 2 ? 4 : 1); k++) expect(results[i][k] == 0, "not 0", "every label ignored", i == 2 ? "gradient"
        : "loss or weight");
  for (int i = 0; i < 3; i++) free(results[i]);
  if (!mlirModuleIsNull(m)) mlirModuleDestroy(m);
}

/* Sizes past 2^31 are counted in 64 bits; sizes past every memory are refused and don't wrap. */
static void test_sizes(void) {
  BluWhy why = {0};
  BluSig big = {.nin = 1, .in = {blu_type_make(BLU_F32, 2, (int64_t[]){65536, 1})}};
  big.attrs = blu_attr_set_ints(big.attrs, "shape", 2, (int64_t[]){65536, 65536});
  expect(blu_infer(blu_op_find("broadcast"), &big, &why) && blu_type_count(&big.out) == (int64_t)1 << 32, why.text,
      "2^32 elements", "infer");
  int64_t at = blu_type_count(&big.out) - 1;
  BluSig flat = {.nin = 1, .in = {big.out}};
  flat.attrs = blu_attr_set_ints(flat.attrs, "shape", 1, (int64_t[]){at + 1});
  expect(blu_infer(blu_op_find("reshape"), &flat, &why) && flat.out.dim[0] == (int64_t)1 << 32, why.text,
      "2^32 elements in a row", "infer");
  BluSig product = {.nin = 2, .in = {blu_type_make(BLU_F32, 2, (int64_t[]){(int64_t)1 << 40, 1}), blu_type_make(BLU_F32, 2,
      (int64_t[]){1, (int64_t)1 << 40})}};
  expect(!blu_infer(blu_op_find("matmul"), &product, &why) && !strcmp(why.label, "size-bounded"), why.text, "2^80 elements",
      "infer");
}

int main(void) {
  MlirContext ctx = mlirContextCreateWithThreading(false);
  blu_context_load(ctx);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    BluOpCase from = {rows[i].args, rows[i].body, 0, 0, 0};
    each_way(ctx, rows[i].name, &from, rows[i].in, rows[i].ct, judge_row, &rows[i]);
  }
  BluOpCase tied = {tied_weights.args, tied_weights.body, 0, 0, 0};
  each_way(ctx, tied_weights.name, &tied, tied_weights.in, tied_weights.ct, judge_row, &tied_weights);
  test_attention(ctx);
  test_random(ctx);
  test_long(ctx);
  test_no_weight(ctx);
  test_sizes();
  mlirContextDestroy(ctx);
  printf("%zu rows, %d checks, %d failures\n", sizeof rows / sizeof *rows, checks, failures);
  return failures != 0;
}
