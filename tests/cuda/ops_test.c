/* ops_test.c - every op's kernel for CUDA, played on this machine: against the references in double, and bit for bit against the contract where
 * no sum has an order of its own. Sizes lie around those of warps, vectors and blocks. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "cases.h"
#include "passes/passes.h"
#include "player.h"

static const int sizes[] = {1, 2, 31, 32, 33, 100, 127, 128, 1000, 1024};
enum { NSIZES = sizeof sizes / sizeof *sizes };
static int any_size(void) { return sizes[harness_random() % NSIZES]; }

/* Rows of every kind of group: parts of warps, warps, blocks, blocks that loop; few rows and many. */
static void rows(Setting set) {
  static const struct { int r, n; } shapes[] = {{1, 1}, {3, 2}, {1000, 3}, {70, 31}, {33, 32}, {5, 33}, {300, 127}, {9, 768}, {3, 1000}, {2, 1028},
    {4, 1500}, {2, 4096}, {3, 5003}, {1, 10000}, {2, 40000}, {1, 12001}};
  set.lo = -2, set.hi = 2, set.tolerance = 3e-5; /* sums of up to 40000 terms, and a division by one of them */
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    int r = shapes[i].r, n = shapes[i].n;
    harness_check(&set, "func.func @f(%%x: tensor<%dx%dxf32>) -> tensor<%dx%dxf32> {\n%%r = blu.softmax %%x : (tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}",
          r, n, r, n, r, n, r, n, r, n);
    harness_check(&set, "func.func @f(%%x: tensor<%dx%dxf32>) -> (tensor<%dxi32>, tensor<%dxf32>) {\n%%i = blu.argmax %%x {axis = 1} : (tensor<%dx%dxf32>) -> tensor<%dxi32>\n"
          "%%m = blu.min %%x {axis = array<i64: 1>} : (tensor<%dx%dxf32>) -> tensor<%dxf32>\nreturn %%i, %%m : tensor<%dxi32>, tensor<%dxf32>\n}",
          r, n, r, r, r, n, r, r, n, r, r, r);
    harness_check(&set, "func.func @f(%%x: tensor<%dx%dxf32>, %%b: tensor<%dxf32>) -> tensor<%dx%dxf32> {\n%%y = blu.broadcast %%b {shape = array<i64: %d, %d>} : (tensor<%dxf32>) -> tensor<%dx%dxf32>\n"
          "%%r = blu.add %%x, %%y : tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}", r, n, n, r, n, r, n, n, r, n, r, n, r, n);
  }
  static const char *const types[] = {"f64", "i32", "i64"};
  for (int i = 0; i < 9; i++) {
    const char *t = types[i % 3];
    int r = any_size() % 40 + 1, n = any_size();
    set.ihi = 1000, set.tolerance = i % 3 ? 0 : 1e-12;
    harness_check(&set, "func.func @f(%%x: tensor<%dx%dx%s>) -> (tensor<%dx%s>, tensor<%dx%s>) {\n%%s = blu.sum %%x {axis = array<i64: 1>} : (tensor<%dx%dx%s>) -> tensor<%dx%s>\n"
          "%%m = blu.max %%x {axis = array<i64: 1>} : (tensor<%dx%dx%s>) -> tensor<%dx%s>\nreturn %%s, %%m : tensor<%dx%s>, tensor<%dx%s>\n}",
          r, n, t, r, t, r, t, r, n, t, r, t, r, n, t, r, t, r, t, r, t);
  }
}

static void columns(Setting set) {
  static const struct { int a, n, c; } shapes[] = {{1, 1, 1}, {1, 1000, 3}, {2, 33, 5}, {1, 4096, 10}, {3, 127, 32}, {1, 64, 768}, {40, 8, 33},
    {1, 5000, 100}, {7, 3, 1000}};
  set.lo = -1, set.hi = 1, set.tolerance = 2e-5; /* 5000 terms of order 1 */
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    int a = shapes[i].a, n = shapes[i].n, c = shapes[i].c;
    for (int k = 0; k < 2; k++)
      harness_check(&set, "func.func @f(%%x: tensor<%dx%dx%dxf32>) -> tensor<%dx%dxf32> {\n%%r = blu.%s %%x {axis = array<i64: 1>} : (tensor<%dx%dx%dxf32>) -> tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}",
            a, n, c, a, c, k ? "max" : "sum", a, n, c, a, c, a, c);
    harness_check(&set, "func.func @f(%%x: tensor<%dx%dx%dxf32>) -> tensor<%dx%dxi32> {\n%%r = blu.argmax %%x {axis = 1} : (tensor<%dx%dx%dxf32>) -> tensor<%dx%dxi32>\nreturn %%r : tensor<%dx%dxi32>\n}",
          a, n, c, a, c, a, n, c, a, c, a, c);
  }
}

static void loops(Setting set) {
  set.lo = -1, set.hi = 1;
  for (int i = 0; i < 12; i++) {
    int r = 1 + any_size() % 50, n = any_size(), ids = any_size(), k = 1 + (int)(harness_random() % (unsigned)(n < 9 ? n : 9));
    Setting s = set;
    s.bits = true, s.tolerance = 2e-5; /* the order of the op's own definition */
    s.ihi = r + 2; /* some ids name no row */
    harness_check(&s, "func.func @f(%%x: tensor<%dx%dxf32>, %%i: tensor<%dxi32>, %%u: tensor<%dx%dxf32>) -> tensor<%dx%dxf32> {\n"
          "%%r = blu.scatter_add %%x, %%i, %%u : (tensor<%dx%dxf32>, tensor<%dxi32>, tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}",
          r, n, ids, ids, n, r, n, r, n, ids, ids, n, r, n, r, n);
    harness_check(&s, "func.func @f(%%x: tensor<%dx%dxf32>) -> tensor<%dx%dxf32> {\n%%r = blu.cumsum %%x {axis = %d, reverse = %s} : (tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}",
          r, n, r, n, i % 2, i % 4 > 1 ? "true" : "false", r, n, r, n, r, n);
    s.special = i % 3 == 0;
    harness_check(&s, "func.func @f(%%x: tensor<%dx%dxf32>) -> tensor<%dx%dxi32> {\n%%r = blu.top_k %%x {k = %d} : (tensor<%dx%dxf32>) -> tensor<%dx%dxi32>\nreturn %%r : tensor<%dx%dxi32>\n}",
          r, n, r, k, k, r, n, r, k, r, k);
  }
  set.bits = true, set.tolerance = 0;
  harness_check(&set, "func.func @f(%%x: tensor<2x9000xf32>) -> tensor<2x5xi32> {\n%%r = blu.top_k %%x {k = 5} : (tensor<2x9000xf32>) -> tensor<2x5xi32>\nreturn %%r : tensor<2x5xi32>\n}");
}

/* Products of our own, with elementwise ops on their elements; a bias that a library adds, and one that it can't. */
static void products(Setting set) {
  static const char *const types[] = {"f64", "f32"};
  set.lo = -1, set.hi = 1;
  for (int i = 0; i < 18; i++) {
    int m = 1 + any_size() % 50, n = 1 + any_size() % 50, k = any_size() % 200, ta = i & 1, tb = i >> 1 & 1;
    int am = ta ? k : m, ak = ta ? m : k, bk = tb ? n : k, bn = tb ? k : n;
    const char *t = types[i % 2];
    set.tolerance = i % 2 ? 2e-5 : 1e-13;
    harness_check(&set, "func.func @f(%%a: tensor<2x%dx%dx%s>, %%b: tensor<2x%dx%dx%s>, %%c: tensor<%dx%s>) -> tensor<2x%dx%dx%s> {\n"
          "%%p = blu.matmul %%a, %%b {ta = %s, tb = %s} : (tensor<2x%dx%dx%s>, tensor<2x%dx%dx%s>) -> tensor<2x%dx%dx%s>\n"
          "%%q = blu.broadcast %%c {shape = array<i64: 2, %d, %d>} : (tensor<%dx%s>) -> tensor<2x%dx%dx%s>\n%%r = blu.add %%p, %%q : tensor<2x%dx%dx%s>\nreturn %%r : tensor<2x%dx%dx%s>\n}",
          am, ak, t, bk, bn, t, n, t, m, n, t, ta ? "true" : "false", tb ? "true" : "false", am, ak, t, bk, bn, t, m, n, t, m, n, n, t, m, n, t,
          m, n, t, m, n, t);
  }
  set.tolerance = 2e-5;
  harness_check(&set, "func.func @f(%%a: tensor<3x4x5xf32>, %%b: tensor<5x6xf32>, %%c: tensor<6xf32>) -> (tensor<3x4x6xf32>, tensor<3x4x6xf32>) {\n"
        "%%p = blu.matmul %%a, %%b : (tensor<3x4x5xf32>, tensor<5x6xf32>) -> tensor<3x4x6xf32>\n"
        "%%q = blu.broadcast %%c {shape = array<i64: 3, 4, 6>} : (tensor<6xf32>) -> tensor<3x4x6xf32>\n%%s = blu.add %%q, %%p : tensor<3x4x6xf32>\n%%r = blu.relu %%s : tensor<3x4x6xf32>\n"
        "return %%s, %%r : tensor<3x4x6xf32>, tensor<3x4x6xf32>\n}");
  harness_check(&set, "func.func @f(%%a: tensor<4x0xf32>, %%b: tensor<0x6xf32>) -> tensor<4x6xf32> {\n"
        "%%p = blu.matmul %%a, %%b : (tensor<4x0xf32>, tensor<0x6xf32>) -> tensor<4x6xf32>\n%%r = blu.exp %%p : tensor<4x6xf32>\nreturn %%r : tensor<4x6xf32>\n}");
}

/* The functions in double, against the runtime's: the same bits. */
static void doubles(Setting set) {
  static const struct { const char *f; double lo, hi; } functions[] = {{"exp", -750, 715}, {"log", 0, 10}, {"log", 0, 1e300}, {"sin", -100, 100},
    {"cos", -1e15, 1e15}, {"sin", -1e300, 1e300}, {"tanh", -25, 25}, {"exp", -1, 1}, {"cos", -4, 4}};
  set.bits = true, set.tolerance = 1e-14;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    set.lo = functions[i].lo, set.hi = functions[i].hi, set.special = i % 2;
    harness_check(&set, "func.func @f(%%x: tensor<500xf64>) -> tensor<500xf64> {\n%%r = blu.%s %%x : tensor<500xf64>\nreturn %%r : tensor<500xf64>\n}", functions[i].f);
  }
  for (int i = 0; i < 4; i++) {
    set.lo = i % 2 ? 0 : -20, set.hi = 20, set.special = i > 1;
    harness_check(&set, "func.func @f(%%x: tensor<700xf64>, %%y: tensor<700xf64>) -> tensor<700xf64> {\n%%r = blu.pow %%x, %%y : tensor<700xf64>\nreturn %%r : tensor<700xf64>\n}");
  }
}

/* Slices that lie anywhere, in loops. */
static void scans(Setting set) {
  set.lo = -1, set.hi = 1, set.tolerance = 1e-5;
  static const int widths[] = {1, 3, 4, 33};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    int n = widths[i];
    harness_check(&set, "func.func private @body(%%c: tensor<%dxf32>, %%x: tensor<%dxf32>, %%k: tensor<f64>) -> (tensor<%dxf32>, tensor<%dxf32>) {\n"
          "%%a = blu.add %%c, %%x : tensor<%dxf32>\n%%t = blu.tanh %%a : tensor<%dxf32>\n%%q = blu.exp %%k : tensor<f64>\n%%w = blu.cast %%q {to = f32} : (tensor<f64>) -> tensor<f32>\n"
          "%%v = blu.broadcast %%w {shape = array<i64: %d>} : (tensor<f32>) -> tensor<%dxf32>\n%%y = blu.mul %%t, %%v : tensor<%dxf32>\nreturn %%t, %%y : tensor<%dxf32>, tensor<%dxf32>\n}\n"
          "func.func @f(%%c: tensor<%dxf32>, %%x: tensor<9x%dxf32>, %%k: tensor<9xf64>) -> (tensor<%dxf32>, tensor<9x%dxf32>) {\n"
          "%%r:2 = blu.scan @body(%%c, %%x, %%k) {carries = 1 : i64, sequences = 2 : i64, steps = 9 : i64} : (tensor<%dxf32>, tensor<9x%dxf32>, tensor<9xf64>) -> (tensor<%dxf32>, tensor<9x%dxf32>)\n"
          "return %%r#0, %%r#1 : tensor<%dxf32>, tensor<9x%dxf32>\n}",
          n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n);
  }
}

/* What an attention case is: the family's ops on [b, g r, t, d] queries and [b, g, s, d] keys. mask: its dimensions of b, heads, t and s that are
 * not 1, by bits; -1: none. */
typedef struct { int b, g, r, t, s, d, dv, mask; bool causal; double scale; } Heads;

static void print_type(char *to, size_t size, const char *elem, int n, const int *dim) {
  size_t at = (size_t)snprintf(to, size, "tensor<");
  for (int i = 0; i < n; i++) at += (size_t)snprintf(to + at, size - at, "%dx", dim[i]);
  snprintf(to + at, size - at, "%s>", elem);
}

static void attention_of(const Setting *set, const Heads *h) {
  char q[64], k[64], v[64], row[64], ct[64], mask[64] = "", attrs[80], of[100];
  int heads = h->g * h->r, dims[4] = {h->mask & 8 ? h->b : 1, h->mask & 4 ? heads : 1, h->mask & 2 ? h->t : 1, h->mask & 1 ? h->s : 1};
  bool masked = h->mask >= 0;
  const char *m = masked ? ", %m" : "", *name = masked ? "masked_" : "", *comma = masked ? ", " : "", *arg = masked ? ", %m: " : "";
  print_type(q, sizeof q, "f32", 4, (int[]){h->b, heads, h->t, h->d}), print_type(k, sizeof k, "f32", 4, (int[]){h->b, h->g, h->s, h->d});
  print_type(v, sizeof v, "f32", 4, (int[]){h->b, h->g, h->s, h->dv}), print_type(row, sizeof row, "f32", 3, (int[]){h->b, heads, h->t});
  print_type(ct, sizeof ct, "f32", 4, (int[]){h->b, heads, h->t, h->dv});
  if (masked) print_type(mask, sizeof mask, "i1", 4, dims);
  snprintf(attrs, sizeof attrs, "causal = %s, scale = %.9e", h->causal ? "true" : "false", h->scale);
  harness_check(set, "func.func @f(%%q: %s, %%k: %s, %%v: %s%s%s) -> (%s, %s) {\n%%r = blu.%sattention %%q, %%k, %%v%s {%s} : (%s, %s, %s%s%s) -> %s\n"
        "%%l = blu.%sattention_lse %%q, %%k%s {%s} : (%s, %s%s%s) -> %s\nreturn %%r, %%l : %s, %s\n}", q, k, v, arg, mask, ct, row, name, m, attrs, q, k, v,
        comma, mask, ct, name, m, attrs, q, k, comma, mask, row, ct, row);
  if (h->s % 2) /* logarithms alone, as a gradient in a loop wants them */
    harness_check(set, "func.func @f(%%q: %s, %%k: %s%s%s) -> %s {\n%%l = blu.%sattention_lse %%q, %%k%s {%s} : (%s, %s%s%s) -> %s\nreturn %%l : %s\n}", q, k, arg, mask, row,
          name, m, attrs, q, k, comma, mask, row, row);
  for (int part = 0; part < 3; part++) { /* q; k and v by one kernel; v alone */
    char call[2][700];
    const char *result[] = {q, k, v};
    for (int i = 0; i < (part == 1 ? 2 : 1); i++) {
      snprintf(of, sizeof of, "of = %d, %s", part + i, attrs);
      snprintf(call[i], sizeof call[i], "%%r%d = blu.%sattention_grad %%q, %%k, %%v, %%l, %%d, %%c%s {%s} : (%s, %s, %s, %s, %s, %s%s%s) -> %s\n", i, name, m, of, q, k, v, row,
               row, ct, comma, mask, result[part + i]);
    }
    harness_check(set, "func.func @f(%%q: %s, %%k: %s, %%v: %s, %%l: %s, %%d: %s, %%c: %s%s%s) -> (%s%s%s) {\n%s%sreturn %%r0%s : %s%s%s\n}", q, k, v, row, row, ct, arg, mask,
          result[part], part == 1 ? ", " : "", part == 1 ? v : "", call[0], part == 1 ? call[1] : "", part == 1 ? ", %r1" : "", result[part],
          part == 1 ? ", " : "", part == 1 ? v : "");
  }
}

/* Attention whole: tiles that are full and that aren't, one and several, rows that see nothing, groups of heads, every kind of mask, widths that
 * are no multiple of a vector, and the greatest one. */
static void attention(Setting set) {
  static const Heads cases[] = {
    {1, 1, 1, 1, 1, 1, 1, -1, false, 1}, {2, 3, 1, 33, 40, 8, 8, -1, false, 0.5}, {1, 2, 1, 70, 70, 64, 64, -1, true, 0.125},
    {2, 2, 3, 17, 17, 5, 7, -1, true, 0.4}, {1, 2, 2, 20, 50, 16, 4, 15, true, 0.25}, {1, 1, 2, 50, 20, 12, 33, -1, true, 0.3},
    {2, 1, 2, 9, 34, 4, 3, 9, false, 0.5}, {2, 2, 1, 35, 10, 6, 8, 3, false, 0.4}, {1, 1, 1, 40, 36, 128, 128, -1, true, 0.088},
    {2, 2, 2, 5, 33, 3, 2, 4, false, 1}, {1, 1, 1, 34, 33, 65, 100, 2, true, 0.1}, {40, 7, 1, 33, 35, 4, 4, -1, true, 0.5},
    {1, 4, 70, 3, 3, 4, 4, 12, false, 0.5}};
  set.lo = -1, set.hi = 1, set.ihi = 2;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    set.tolerance = 4e-6 * (cases[i].r > 4 ? 4 : 1) * (cases[i].d > 60 ? 3 : 1); /* as the ops' own; sums of 210 rows, of 128 products */
    attention_of(&set, &cases[i]);
  }
  set.lo = -12, set.hi = 12, set.tolerance = 2e-4; /* scores of some hundreds, rounded to 2^-16: weights of 0 and 1 */
  harness_check(&set, "func.func @f(%%q: tensor<1x1x33x4xf32>, %%k: tensor<1x1x40x4xf32>, %%v: tensor<1x1x40x4xf32>) -> tensor<1x1x33x4xf32> {\n"
        "%%r = blu.attention %%q, %%k, %%v {causal = true, scale = 1.0} : (tensor<1x1x33x4xf32>, tensor<1x1x40x4xf32>, tensor<1x1x40x4xf32>) -> tensor<1x1x33x4xf32>\n"
        "return %%r : tensor<1x1x33x4xf32>\n}");
  /* what isn't computed whole: of f64, and wide heads */
  set.lo = -1, set.hi = 1, set.tolerance = 1e-12;
  harness_check(&set, "func.func @f(%%q: tensor<1x2x5x4xf64>) -> tensor<1x2x5x4xf64> {\n%%r = blu.attention %%q, %%q, %%q {causal = true} : "
        "(tensor<1x2x5x4xf64>, tensor<1x2x5x4xf64>, tensor<1x2x5x4xf64>) -> tensor<1x2x5x4xf64>\nreturn %%r : tensor<1x2x5x4xf64>\n}");
  set.tolerance = 1e-5;
  harness_check(&set, "func.func @f(%%q: tensor<1x2x5x130xf32>) -> tensor<1x2x5x130xf32> {\n%%r = blu.attention %%q, %%q, %%q : "
        "(tensor<1x2x5x130xf32>, tensor<1x2x5x130xf32>, tensor<1x2x5x130xf32>) -> tensor<1x2x5x130xf32>\nreturn %%r : tensor<1x2x5x130xf32>\n}");
}

/* @f of text, which returns one op's result, and the gradients of its first `wanted` arguments for a random cotangent. */
static void with_gradients(const Setting *set, const char *text, int wanted) {
  MlirModule m = mlirModuleCreateParse(set->ctx, mlirStringRefCreateFromCString(text));
  blu_module_set_target(m, "cuda");
  MlirOperation f = blu_func_find(m, "f"), end = mlirBlockGetTerminator(blu_func_block(f));
  MlirValue results[4] = {mlirOperationGetOperand(end, 0)}, wrt[3];
  for (int i = 0; i < wanted; i++) wrt[i] = mlirBlockGetArgument(blu_func_block(f), i);
  MlirValue ct = mlirBlockAddArgument(blu_func_block(f), mlirValueGetType(results[0]), mlirLocationUnknownGet(set->ctx));
  BluBuilder b = blu_builder_before(end);
  if (!blu_gradient(&b, 1, results, &ct, wanted, wrt, results + 1)) harness_failures++, printf("FAILED: no gradient of\n%s\n", text);
  mlirOperationDestroy(end);
  blu_func_return(f, mlirLocationUnknownGet(set->ctx), wanted + 1, results, NULL);
  harness_check_module(set, m, text);
}

/* What differs for a device from the gradient rule on: attention, and two steps of a convolution that takes as many images at a time as fill it. */
static void gradients(Setting set) {
  set.lo = -1, set.hi = 1, set.ihi = 2, set.tolerance = 1e-5; /* products of products: sums of 40 terms of a sum of 40 */
  with_gradients(&set, "func.func @f(%q: tensor<1x4x37x8xf32>, %k: tensor<1x2x40x8xf32>, %v: tensor<1x2x40x6xf32>, %m: tensor<37x40xi1>) -> tensor<1x4x37x6xf32> {\n"
        "%r = blu.masked_attention %q, %k, %v, %m {causal = true} : (tensor<1x4x37x8xf32>, tensor<1x2x40x8xf32>, tensor<1x2x40x6xf32>, tensor<37x40xi1>) -> tensor<1x4x37x6xf32>\n"
        "return %r : tensor<1x4x37x6xf32>\n}", 3);
  set.tolerance = 1e-3; /* a weight's gradient: 130,000 terms of order 1 */
  with_gradients(&set, "func.func @f(%x: tensor<66x65x32x1xf32>, %w: tensor<65x1x2x1xf32>) -> tensor<66x64x32x65xf32> {\n"
        "%r = blu.conv2d %x, %w {by_image = true} : (tensor<66x65x32x1xf32>, tensor<65x1x2x1xf32>) -> tensor<66x64x32x65xf32>\n"
        "return %r : tensor<66x64x32x65xf32>\n}", 2);
}

int main(int argc, char **argv) {
  Setting set;
  harness_start(&set);
  blu_cpu_parse("native", &set.cpu);
  set.device = &player;
  static const struct { const char *name; void (*check)(Setting); } parts[] = {{"cases", cases_check}, {"rows", rows}, {"columns", columns}, {"loops", loops},
    {"products", products}, {"doubles", doubles}, {"scans", scans},
    {"attention", attention}, {"gradients", gradients}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (argc > 1 && strcmp(argv[1], parts[i].name)) continue;
    int before = harness_programs;
    parts[i].check(set);
    printf("%s: %d programs\n", parts[i].name, harness_programs - before);
    fflush(stdout);
  }
  mlirContextDestroy(set.ctx);
  printf("%d programs, %d failures; %d left out: in bf16 or f16, which CUDA has no code for yet\n", harness_programs, harness_failures, harness_left_out);
  return harness_failures || !harness_programs;
}
