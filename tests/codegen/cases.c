/* cases.c - programs for every kind of kernel, with shapes around the widths that code is cut by: see cases.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "cases.h"


/* f64 in a case of the op table becomes f32. */
static void narrow(char *s) {
  for (char *p = s; (p = strstr(p, "f64"));) memcpy(p, "f32", 3);
}

/* The op table's own cases, compiled. */
static void table_cases(Setting set) {
  for (int i = 0; i < blu_nops; i++) {
    const BluRule *rule = blu_ops[i].rule;
    for (const BluOpCase *c = blu_op_cases(&blu_ops[i]); c->body; c++) {
      char args[1024], body[2048], type[64];
      snprintf(args, sizeof args, "%s", c->args);
      snprintf(body, sizeof body, "%s", c->body);
      narrow(args), narrow(body);
      if (!strcmp(blu_ops[i].name, "cast")) continue; /* its own cases below */
      if (set.elem && !strstr(c->args, "f64")) continue; /* makes f32, whatever it gets */
      const char *last = strrchr(body, ':'), *arrow = last ? strstr(last, "-> ") : NULL;
      snprintf(type, sizeof type, "%s", arrow ? arrow + 3 : last + 2);
      set.lo = c->lo, set.hi = c->hi, set.ihi = c->ihi;
      set.tolerance = fmax(rule->tolerance, 1.2e-7);
      if (set.elem && !strcmp(blu_ops[i].name, "cross_entropy")) { /* whose result is f32 all the same */
        memcpy(strstr(strstr(body, "->"), "f32"), "F32", 3), memcpy(strstr(type, "f32"), "F32", 3);
      }
      harness_check(&set, "func.func @f(%s) -> %s {\n%s\nreturn %%r : %s\n}", args, type, body, type);
    }
  }
}

static const int sizes[] = {1, 2, 7, 15, 16, 17, 31, 33, 48, 100, 257};
enum { NSIZES = sizeof sizes / sizeof *sizes };
static int any_size(void) { return sizes[harness_random() % NSIZES]; }

static void elementwise(Setting set) {
  set.lo = -4, set.hi = 4, set.ihi = 100;
  for (int i = 0; i < blu_nops; i++) {
    const BluOp *op = &blu_ops[i];
    bool compares = op->rule->infer == blu_op_find("eq")->rule->infer;
    if (op->rule->kind != BLU_KIND_ELEMENT || op->nattr || op->nin > 2 || !op->rule->cases[0].body || compares) continue;
    for (int special = 0; special < 2; special++) {
      Setting s = set;
      s.special = special;
      s.lo = op->rule->cases[0].lo, s.hi = op->rule->cases[0].hi;
      s.tolerance = special ? INFINITY : op->rule->tolerance; /* the contract has the bits; references overflow elsewhere than f32 */
      int n = any_size(), r = 1 + (int)(harness_random() % 5);
      if (op->nin == 1) harness_check(&s, "func.func @f(%%a: tensor<%dx%dxf32>) -> tensor<%dx%dxf32> {\n%%r = blu.%s %%a : tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}", r, n, r, n, op->name, r, n, r, n);
      else harness_check(&s, "func.func @f(%%a: tensor<%dx%dxf32>, %%b: tensor<%dx%dxf32>) -> tensor<%dx%dxf32> {\n%%r = blu.%s %%a, %%b : tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}", r, n, r, n, r, n, op->name, r, n, r, n);
    }
  }
}

static void casts(Setting set) {
  static const char *const elem[] = {"f32", "f64", "i32", "i64", "ui8", "bf16", "f16", "i1"};
  for (int round = 0; round < 2; round++)
   for (int from = 0; from < 8; from++)
    for (int to = 0; to < 8; to++) {
      Setting s = set;
      s.lo = -300, s.hi = 300, s.ihi = from == 7 ? 2 : from == 4 ? 256 : round ? 1 << 30 : 256, s.tolerance = 1e-7;
      s.special = round;
      int n = any_size();
      harness_check(&s, "func.func @f(%%a: tensor<%dx%s>) -> tensor<%dx%s> {\n%%r = blu.cast %%a {to = %s} : (tensor<%dx%s>) -> tensor<%dx%s>\nreturn %%r : tensor<%dx%s>\n}",
            n, elem[from], n, elem[to], elem[to], n, elem[from], n, elem[to], n, elem[to]);
    }
}

static void reductions(Setting set) {
  static const char *const ops[] = {"sum", "max", "min", "mean"};
  set.lo = -1, set.hi = 1, set.tolerance = 1e-5; /* chains of up to 600: partial sums of order 10, rounded 600 times */
  for (int i = 0; i < 40; i++) {
    int d[3] = {1 + (int)(harness_random() % 4), any_size(), any_size()}, axis = i % 3;
    bool keep = harness_random() & 1;
    if (i % 8 == 7) d[axis] = 600; /* more than one chain */
    char out[64] = "";
    for (int k = 0; k < 3; k++)
      if (k != axis || keep) snprintf(out + strlen(out), sizeof out - strlen(out), "%dx", k == axis ? 1 : d[k]);
    harness_check(&set, "func.func @f(%%a: tensor<%dx%dx%dxf32>) -> tensor<%sf32> {\n%%r = blu.%s %%a {axis = array<i64: %d>, keep = %s} : (tensor<%dx%dx%dxf32>) -> tensor<%sf32>\nreturn %%r : tensor<%sf32>\n}",
          d[0], d[1], d[2], out, ops[i % 4], axis, keep ? "true" : "false", d[0], d[1], d[2], out, out);
  }
  for (int i = 0; i < 12; i++) {
    int r = any_size(), n = any_size(), axis = i % 2;
    Setting s = set;
    s.special = i % 3 == 0;
    harness_check(&s, "func.func @f(%%a: tensor<%dx%dxf32>) -> tensor<%dxi32> {\n%%r = blu.argmax %%a {axis = %d} : (tensor<%dx%dxf32>) -> tensor<%dxi32>\nreturn %%r : tensor<%dxi32>\n}",
          r, n, axis ? r : n, axis, r, n, axis ? r : n, axis ? r : n);
  }
}

static void products(Setting set) {
  /* 600 products of order 1: partial sums of order 10, rounded 600 times, against results of order 1 */
  set.lo = -1, set.hi = 1, set.tolerance = 2e-5;
  for (int i = 0; i < 48; i++) {
    int m = any_size(), n = any_size(), k = i % 6 == 5 ? 600 : any_size(), ta = i & 1, tb = i >> 1 & 1;
    int am = ta ? k : m, ak = ta ? m : k, bk = tb ? n : k, bn = tb ? k : n;
    if (i % 3) /* with bias and relu in the store */
      harness_check(&set, "func.func @f(%%a: tensor<%dx%dxf32>, %%b: tensor<%dx%dxf32>, %%c: tensor<%dxf32>) -> tensor<%dx%dxf32> {\n"
            "%%p = blu.matmul %%a, %%b {ta = %s, tb = %s} : (tensor<%dx%dxf32>, tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\n"
            "%%q = blu.broadcast %%c {shape = array<i64: %d, %d>} : (tensor<%dxf32>) -> tensor<%dx%dxf32>\n"
            "%%s = blu.add %%p, %%q : tensor<%dx%dxf32>\n%%r = blu.relu %%s : tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}",
            am, ak, bk, bn, n, m, n, ta ? "true" : "false", tb ? "true" : "false", am, ak, bk, bn, m, n, m, n, n, m, n, m, n, m, n, m, n);
    else /* a batch */
      harness_check(&set, "func.func @f(%%a: tensor<3x%dx%dxf32>, %%b: tensor<3x%dx%dxf32>) -> tensor<3x%dx%dxf32> {\n"
            "%%r = blu.matmul %%a, %%b {ta = %s, tb = %s} : (tensor<3x%dx%dxf32>, tensor<3x%dx%dxf32>) -> tensor<3x%dx%dxf32>\nreturn %%r : tensor<3x%dx%dxf32>\n}",
            am, ak, bk, bn, m, n, ta ? "true" : "false", tb ? "true" : "false", am, ak, bk, bn, m, n, m, n);
  }
  /* several chunks of rows, groups of panels and blocks; operands that are packed, or asked for ahead; rows a page apart; f64 */
  static const struct { int m, n, k; bool ta, tb; const char *type; } large[] = {
    {300, 70, 300, true, false, "f32"}, {601, 20, 270, true, true, "f32"}, {40, 530, 1024, false, false, "f32"},
    {30, 520, 1025, false, true, "f32"}, {300, 40, 300, true, false, "f64"}, {50, 70, 300, false, true, "f64"}, {64, 96, 512, false, false, "f32"},
    {48, 145, 514, true, true, "f32"}, {1030, 40, 260, false, false, "f32"}, {9, 1300, 258, false, true, "f32"}};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
    int m = large[i].m, n = large[i].n, k = large[i].k, am = large[i].ta ? k : m, ak = large[i].ta ? m : k, bk = large[i].tb ? n : k,
        bn = large[i].tb ? k : n;
    const char *t = large[i].type;
    set.tolerance = strcmp(t, "f64") ? 4e-5 : 1e-13; /* 1024 terms of order 1 */
    harness_check(&set, "func.func @f(%%a: tensor<%dx%dx%s>, %%b: tensor<%dx%dx%s>, %%c: tensor<%dx%dx%s>) -> tensor<%dx%dx%s> {\n"
          "%%p = blu.matmul %%a, %%b {ta = %s, tb = %s} : (tensor<%dx%dx%s>, tensor<%dx%dx%s>) -> tensor<%dx%dx%s>\n"
          "%%r = blu.add %%p, %%c : tensor<%dx%dx%s>\nreturn %%r : tensor<%dx%dx%s>\n}",
          am, ak, t, bk, bn, t, m, n, t, m, n, t, large[i].ta ? "true" : "false", large[i].tb ? "true" : "false", am, ak, t, bk, bn, t, m, n, t,
          m, n, t, m, n, t);
    harness_check(&set, "func.func @f(%%a: tensor<%dx%dx%s>, %%b: tensor<%dx%dx%s>) -> tensor<%dx%dx%s> {\n" /* nothing but the product is stored */
          "%%p = blu.matmul %%a, %%b {ta = %s, tb = %s} : (tensor<%dx%dx%s>, tensor<%dx%dx%s>) -> tensor<%dx%dx%s>\n"
          "return %%p : tensor<%dx%dx%s>\n}",
          am, ak, t, bk, bn, t, m, n, t, large[i].ta ? "true" : "false", large[i].tb ? "true" : "false", am, ak, t, bk, bn, t, m, n, t, m, n, t);
  }
  /* the gradient of a bias beside that of its weight: sums of b's columns, with several chunks of rows, blocks and panels, and some left over */
  static const struct { int m, n, k; bool ta; const char *type; } summed[] = {
    {20, 70, 300, true, "f32"}, {600, 24, 512, true, "f32"}, {7, 1, 5, true, "f32"}, {40, 515, 64, false, "f32"}, {30, 33, 700, true, "f64"},
    {0, 9, 4, true, "f32"}, {6, 9, 0, true, "f32"}};
  for (size_t i = 0; i < sizeof summed / sizeof *summed; i++) {
    int m = summed[i].m, n = summed[i].n, k = summed[i].k, am = summed[i].ta ? k : m, ak = summed[i].ta ? m : k;
    const char *t = summed[i].type;
    set.tolerance = strcmp(t, "f64") ? 4e-5 : 1e-13;
    harness_check(&set, "func.func @f(%%a: tensor<%dx%dx%s>, %%b: tensor<%dx%dx%s>) -> (tensor<%dx%dx%s>, tensor<%dx%s>) {\n"
          "%%p = blu.matmul %%a, %%b {ta = %s} : (tensor<%dx%dx%s>, tensor<%dx%dx%s>) -> tensor<%dx%dx%s>\n"
          "%%s = blu.sum %%b {axis = array<i64: 0>} : (tensor<%dx%dx%s>) -> tensor<%dx%s>\nreturn %%p, %%s : tensor<%dx%dx%s>, tensor<%dx%s>\n}",
          am, ak, t, k, n, t, m, n, t, n, t, summed[i].ta ? "true" : "false", am, ak, t, k, n, t, m, n, t, k, n, t, n, t, m, n, t, n, t);
  }
  set.tolerance = 2e-5;
  harness_check(&set, "func.func @f(%%a: tensor<300x20xf32>) -> tensor<300x300xf32> {\n%%r = blu.matmul %%a, %%a {tb = true} : (tensor<300x20xf32>, tensor<300x20xf32>) -> tensor<300x300xf32>\nreturn %%r : tensor<300x300xf32>\n}");
}

/* Products c = a b^T as their transposes, whatever they cost: rows fewer than a tile's, columns that fill no vector, one block along k and several, a short
 * last one, a chunk that ends with part of a tile, several groups; what follows the product reads a row, a column, a whole operand that the result may take
 * the place of, or is nothing. */
static void swapped_products(Setting set) {
  static const struct { int batch, m, n, k; const char *type; } shape[] = {
    {1, 1, 2, 1, "f32"}, {1, 1, 40, 7, "f32"}, {1, 3, 17, 30, "f32"}, {1, 16, 48, 256, "f32"}, {1, 25, 49, 257, "f32"}, {1, 48, 131, 100, "f32"},
    {1, 17, 600, 70, "f32"}, {1, 7, 515, 514, "f32"}, {1, 40, 272, 520, "f32"}, {1, 50, 69, 1024, "f32"}, {1, 18, 701, 258, "f32"}, {3, 5, 23, 40, "f32"},
    {2, 33, 50, 300, "f32"}, {1, 9, 21, 33, "f64"}, {1, 20, 67, 300, "f64"}};
  set.cpu.swaps = true;
  set.lo = -1, set.hi = 1;
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
    int m = shape[i].m, n = shape[i].n;
    const char *t = shape[i].type;
    char a[64], b[64], c[64], product[256];
    set.tolerance = strcmp(t, "f64") ? 4e-5 : 1e-13; /* 1024 terms of order 1 */
    snprintf(a, sizeof a, "tensor<%dx%dx%dx%s>", shape[i].batch, m, shape[i].k, t);
    snprintf(b, sizeof b, "tensor<%dx%dx%dx%s>", shape[i].batch, n, shape[i].k, t);
    snprintf(c, sizeof c, "tensor<%dx%dx%dx%s>", shape[i].batch, m, n, t);
    snprintf(product, sizeof product, "%%p = blu.matmul %%a, %%b {ta = false, tb = true} : (%s, %s) -> %s\n", a, b, c);
    harness_check(&set, "func.func @f(%%a: %s, %%b: %s) -> %s {\n%sreturn %%p : %s\n}", a, b, c, product, c);
    harness_check(&set, "func.func @f(%%a: %s, %%b: %s, %%x: tensor<%dx%s>, %%y: tensor<%dx%dx1x%s>) -> (%s, %s) {\n%s"
          "%%v = blu.broadcast %%x {shape = array<i64: %d, %d, %d>} : (tensor<%dx%s>) -> %s\n"
          "%%w = blu.broadcast %%y {shape = array<i64: %d, %d, %d>} : (tensor<%dx%dx1x%s>) -> %s\n"
          "%%q = blu.add %%p, %%v : %s\n%%r = blu.mul %%q, %%w : %s\n%%s = blu.relu %%q : %s\nreturn %%r, %%s : %s, %s\n}",
          a, b, n, t, shape[i].batch, m, t, c, c, product, shape[i].batch, m, n, n, t, c, shape[i].batch, m, n, shape[i].batch, m, t, c, c, c, c, c, c);
    harness_check(&set, "func.func @f(%%a: %s, %%b: %s, %%d: %s, %%e: %s) -> %s {\n"
          "%%x = blu.matmul %%d, %%e {ta = false, tb = true} : (%s, %s) -> %s\n%s"
          "%%r = blu.maximum %%x, %%p : %s\nreturn %%r : %s\n}", a, b, a, b, c, a, b, c, product, c, c);
  }
  Setting one_matrix = set; /* of a batch: its rows are the rows of one product */
  one_matrix.tolerance = 2e-5;
  harness_check(&one_matrix, "func.func @f(%%a: tensor<3x5x40xf32>, %%b: tensor<37x40xf32>) -> tensor<3x5x37xf32> {\n"
        "%%r = blu.matmul %%a, %%b {ta = false, tb = true} : (tensor<3x5x40xf32>, tensor<37x40xf32>) -> tensor<3x5x37xf32>\n"
        "return %%r : tensor<3x5x37xf32>\n}");
}

/* Chains with several stages, broadcasts of every kind, and values that are used again. */
static void fused(Setting set) {
  set.lo = -2, set.hi = 2, set.tolerance = 3e-5; /* variance and division: errors of several ops */
  for (int i = 0; i < 10; i++) {
    int r = any_size(), n = any_size();
    harness_check(&set, "func.func @f(%%x: tensor<%dx%dxf32>, %%g: tensor<%dxf32>, %%k: tensor<f32>) -> (tensor<%dx%dxf32>, tensor<%dx1xf32>, tensor<%dxf32>) {\n"
          "%%m = blu.mean %%x {axis = array<i64: 1>, keep = true} : (tensor<%dx%dxf32>) -> tensor<%dx1xf32>\n"
          "%%mb = blu.broadcast %%m {shape = array<i64: %d, %d>} : (tensor<%dx1xf32>) -> tensor<%dx%dxf32>\n"
          "%%d = blu.sub %%x, %%mb : tensor<%dx%dxf32>\n%%s = blu.mul %%d, %%d : tensor<%dx%dxf32>\n"
          "%%v = blu.mean %%s {axis = array<i64: 1>, keep = true} : (tensor<%dx%dxf32>) -> tensor<%dx1xf32>\n"
          "%%e = blu.constant {value = 1.0, elem = f32, shape = array<i64: %d, 1>} : () -> tensor<%dx1xf32>\n"
          "%%ve = blu.add %%v, %%e : tensor<%dx1xf32>\n%%rs = blu.rsqrt %%ve : tensor<%dx1xf32>\n"
          "%%rb = blu.broadcast %%rs {shape = array<i64: %d, %d>} : (tensor<%dx1xf32>) -> tensor<%dx%dxf32>\n"
          "%%y = blu.mul %%d, %%rb : tensor<%dx%dxf32>\n"
          "%%gb = blu.broadcast %%g {shape = array<i64: %d, %d>} : (tensor<%dxf32>) -> tensor<%dx%dxf32>\n%%z = blu.mul %%y, %%gb : tensor<%dx%dxf32>\n"
          "%%kb = blu.broadcast %%k {shape = array<i64: %d, %d>} : (tensor<f32>) -> tensor<%dx%dxf32>\n%%o = blu.add %%z, %%kb : tensor<%dx%dxf32>\n"
          "%%c = blu.sum %%o {axis = array<i64: 0>} : (tensor<%dx%dxf32>) -> tensor<%dxf32>\n"
          "return %%o, %%rs, %%c : tensor<%dx%dxf32>, tensor<%dx1xf32>, tensor<%dxf32>\n}",
          r, n, n, r, n, r, n, r, n, r, r, n, r, r, n, r, n, r, n, r, n, r, r, r, r, r, r, n, r, r, n,
          r, n, r, n, n, r, n, r, n, r, n, r, n, r, n, r, n, n, r, n, r, n);
    int b = 1 + (int)(harness_random() % 3), t = any_size(), c = any_size();
    harness_check(&set, "func.func @f(%%x: tensor<%dx%dx%dxf32>, %%p: tensor<%dx%dxf32>, %%q: tensor<%dx1x%dxf32>) -> tensor<%dx%dx%dxf32> {\n"
          "%%pb = blu.broadcast %%p {shape = array<i64: %d, %d, %d>} : (tensor<%dx%dxf32>) -> tensor<%dx%dx%dxf32>\n"
          "%%qb = blu.broadcast %%q {shape = array<i64: %d, %d, %d>} : (tensor<%dx1x%dxf32>) -> tensor<%dx%dx%dxf32>\n"
          "%%s = blu.add %%x, %%pb : tensor<%dx%dx%dxf32>\n%%u = blu.mul %%s, %%qb : tensor<%dx%dx%dxf32>\n%%r = blu.softmax %%u : (tensor<%dx%dx%dxf32>) -> tensor<%dx%dx%dxf32>\n"
          "return %%r : tensor<%dx%dx%dxf32>\n}",
          b, t, c, t, c, b, c, b, t, c, b, t, c, t, c, b, t, c, b, t, c, b, c, b, t, c, b, t, c, b, t, c, b, t, c, b, t, c, b, t, c);
  }
}

/* Elements at other places, with rows around the width of a vector and on both sides of each seam. */
static void moves(Setting set) {
  set.lo = -2, set.hi = 2, set.tolerance = 0;
  for (int i = 0; i < 12; i++) {
    int r = 1 + (int)(harness_random() % 5), n = any_size(), m = any_size(), low = any_size(), high = any_size();
    set.ihi = r + 1; /* the table has r rows: one id in r + 1 names none */
    harness_check(&set, "func.func @f(%%a: tensor<%dx3x%dxf32>) -> tensor<3x%dx%dxf32> {\n%%r = blu.transpose %%a {perm = array<i64: 1, 0, 2>} : (tensor<%dx3x%dxf32>) -> tensor<3x%dx%dxf32>\nreturn %%r : tensor<3x%dx%dxf32>\n}",
          r, n, r, n, r, n, r, n, r, n);
    harness_check(&set, "func.func @f(%%a: tensor<%dx%dxf32>) -> tensor<%dx%dxf32> {\n%%r = blu.slice %%a {start = array<i64: 1, %d>, stop = array<i64: %d, %d>} : (tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}",
          r + 1, low + n + high, r, n, low, r + 1, low + n, r + 1, low + n + high, r, n, r, n);
    harness_check(&set, "func.func @f(%%a: tensor<%dx%dxf32>) -> tensor<%dx%dxf32> {\n%%r = blu.pad %%a {low = array<i64: 1, %d>, high = array<i64: 0, %d>, value = 0.5} : (tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}",
          r, n, r + 1, low + n + high, low, high, r, n, r + 1, low + n + high, r + 1, low + n + high);
    harness_check(&set, "func.func @f(%%a: tensor<%dx%dxf32>, %%b: tensor<%dx%dxf32>) -> (tensor<%dx%dxf32>, tensor<%dx%dxf32>) {\n%%r = blu.concat %%a, %%b {axis = 1} : (tensor<%dx%dxf32>, tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\n"
          "%%s = blu.concat %%b, %%b {axis = 0} : (tensor<%dx%dxf32>, tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\nreturn %%r, %%s : tensor<%dx%dxf32>, tensor<%dx%dxf32>\n}",
          r, n, r, m, r, n + m, 2 * r, m, r, n, r, m, r, n + m, r, m, r, m, 2 * r, m, r, n + m, 2 * r, m);
    harness_check(&set, "func.func @f(%%a: tensor<%dx%dxf32>, %%b: tensor<1x%dxf32>) -> tensor<%dx%dxf32> {\n%%r = blu.update_slice %%a, %%b {start = array<i64: %d, %d>} : (tensor<%dx%dxf32>, tensor<1x%dxf32>) -> tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}",
          r, low + n + high, n, r, low + n + high, r - 1, low, r, low + n + high, n, r, low + n + high, r, low + n + high);
    harness_check(&set, "func.func @f(%%a: tensor<%dx%dxi32>, %%b: tensor<7xi32>) -> tensor<7x%dxi32> {\n%%r = blu.gather %%a, %%b : (tensor<%dx%dxi32>, tensor<7xi32>) -> tensor<7x%dxi32>\nreturn %%r : tensor<7x%dxi32>\n}",
          r, n, n, r, n, n, n);
  }
}

/* Attention and its gradients: tiles that end early, groups of heads, masks of all kinds, depths that are no whole vectors. parts: queries, keys, values and
 * the cotangent are parts of what products left, and the results go where products want them. */
typedef struct { int b, g, r, t, s, d, dv; bool causal; const char *mask; } AttentionCase;

static void attention_case(Setting set, const AttentionCase *c, bool parts, const char *elem) {
  char text[8192], q[64], k[64], v[64], out[64], row[64], mask[96] = "", attrs[64], typed[96] = "";
  size_t n = 0;
  int h = c->g * c->r, wide = h * c->d + c->g * (c->d + c->dv);
  snprintf(q, sizeof q, "tensor<%dx%dx%dx%d%s>", c->b, h, c->t, c->d, elem), snprintf(k, sizeof k, "tensor<%dx%dx%dx%d%s>", c->b, c->g, c->s, c->d, elem);
  snprintf(v, sizeof v, "tensor<%dx%dx%dx%d%s>", c->b, c->g, c->s, c->dv, elem), snprintf(out, sizeof out, "tensor<%dx%dx%dx%d%s>", c->b, h, c->t, c->dv, elem);
  snprintf(row, sizeof row, "tensor<%dx%dx%d%s>", c->b, h, c->t, elem);
  if (c->mask) snprintf(mask, sizeof mask, ", %%m: tensor<%s>", c->mask), snprintf(typed, sizeof typed, ", tensor<%s>", c->mask);
  const char *m = c->mask ? ", %m" : "", *masked = c->mask ? "masked_" : "";
  snprintf(attrs, sizeof attrs, "causal = %s, scale = 0.4", c->causal ? "true" : "false");
#define SAY(...) n += (size_t)snprintf(text + n, sizeof text - n, __VA_ARGS__)
  if (parts) {
    int at = 0;
    SAY("func.func @f(%%x: tensor<%dx%dx%d%s>, %%y: tensor<%dx%dx%d%s>%s) -> (tensor<%dx%dx%dx%d%s>, tensor<%dx%dx%d%s>) {\n", c->b, c->t, wide, elem, c->b, c->t,
        h * c->dv, elem, mask, c->b, c->t, h, c->dv, elem, c->b, c->t, wide, elem);
    for (int i = 0; i < 3; i++) {
      int heads = i ? c->g : h, depth = i == 2 ? c->dv : c->d, end = at + heads * depth;
      SAY("%%s%d = blu.slice %%x {start = array<i64: 0, 0, %d>, stop = array<i64: %d, %d, %d>} : (tensor<%dx%dx%d%s>) -> tensor<%dx%dx%d%s>\n", i, at, c->b, c->t, end,
          c->b, c->t, wide, elem, c->b, c->t, end - at, elem);
      SAY("%%r%d = blu.reshape %%s%d {shape = array<i64: %d, %d, %d, %d>} : (tensor<%dx%dx%d%s>) -> tensor<%dx%dx%dx%d%s>\n", i, i, c->b, c->t, heads, depth, c->b, c->t,
          end - at, elem, c->b, c->t, heads, depth, elem);
      SAY("%%%c = blu.transpose %%r%d {perm = array<i64: 0, 2, 1, 3>} : (tensor<%dx%dx%dx%d%s>) -> %s\n", "qkv"[i], i, c->b, c->t, heads, depth, elem, i == 0 ? q : i == 1 ? k : v);
      at = end;
    }
    SAY("%%y4 = blu.reshape %%y {shape = array<i64: %d, %d, %d, %d>} : (tensor<%dx%dx%d%s>) -> tensor<%dx%dx%dx%d%s>\n", c->b, c->t, h, c->dv, c->b, c->t, h * c->dv, elem,
        c->b, c->t, h, c->dv, elem);
    SAY("%%c = blu.transpose %%y4 {perm = array<i64: 0, 2, 1, 3>} : (tensor<%dx%dx%dx%d%s>) -> %s\n", c->b, c->t, h, c->dv, elem, out);
  } else {
    SAY("func.func @f(%%q: %s, %%k: %s, %%v: %s, %%c: %s%s) -> (%s, %s, %s, %s, %s) {\n", q, k, v, out, mask, out, row, q, k, v);
  }
  SAY("%%o = blu.%sattention %%q, %%k, %%v%s {%s} : (%s, %s, %s%s) -> %s\n", masked, m, attrs, q, k, v, typed, out);
  if (parts) SAY("%%ot = blu.transpose %%o {perm = array<i64: 0, 2, 1, 3>} : (%s) -> tensor<%dx%dx%dx%d%s>\n", out, c->b, c->t, h, c->dv, elem);
  SAY("%%l = blu.%sattention_lse %%q, %%k%s {%s} : (%s, %s%s) -> %s\n", masked, m, attrs, q, k, typed, row);
  SAY("%%p = blu.mul %%c, %%o : %s\n%%e = blu.sum %%p {axis = array<i64: 3>} : (%s) -> %s\n", out, out, row);
  for (int i = 0; i < 3; i++)
    SAY("%%d%d = blu.%sattention_grad %%q, %%k, %%v, %%l, %%e, %%c%s {%s, of = %d} : (%s, %s, %s, %s, %s, %s%s) -> %s\n", i, masked, m, attrs, i, q, k, v, row, row, out, typed,
        i == 0 ? q : i == 1 ? k : v);
  if (!parts) {
    SAY("return %%o, %%l, %%d0, %%d1, %%d2 : %s, %s, %s, %s, %s\n}", out, row, q, k, v);
    harness_check(&set, "%s", text);
    return;
  }
  for (int i = 2; i >= 0; i--) {
    int heads = i ? c->g : h, depth = i == 2 ? c->dv : c->d;
    SAY("%%t%d = blu.transpose %%d%d {perm = array<i64: 0, 2, 1, 3>} : (%s) -> tensor<%dx%dx%dx%d%s>\n", i, i, i == 0 ? q : i == 1 ? k : v, c->b, c->t, heads, depth, elem);
    SAY("%%w%d = blu.reshape %%t%d {shape = array<i64: %d, %d, %d>} : (tensor<%dx%dx%dx%d%s>) -> tensor<%dx%dx%d%s>\n", i, i, c->b, c->t, heads * depth, c->b, c->t, heads,
        depth, elem, c->b, c->t, heads * depth, elem);
  }
  SAY("%%kv = blu.concat %%w1, %%w2 {axis = 2} : (tensor<%dx%dx%d%s>, tensor<%dx%dx%d%s>) -> tensor<%dx%dx%d%s>\n", c->b, c->t, c->g * c->d, elem, c->b, c->t, c->g * c->dv, elem,
      c->b, c->t, c->g * (c->d + c->dv), elem);
  SAY("%%all = blu.concat %%w0, %%kv {axis = 2} : (tensor<%dx%dx%d%s>, tensor<%dx%dx%d%s>) -> tensor<%dx%dx%d%s>\n", c->b, c->t, h * c->d, elem, c->b, c->t, c->g * (c->d + c->dv),
      elem, c->b, c->t, wide, elem);
  SAY("return %%ot, %%all : tensor<%dx%dx%dx%d%s>, tensor<%dx%dx%d%s>\n}", c->b, c->t, h, c->dv, elem, c->b, c->t, wide, elem);
  harness_check(&set, "%s", text);
#undef SAY
}

static void attentions(Setting set) {
  static const AttentionCase cases[] = {
    {2, 2, 1, 70, 70, 8, 8, true, NULL}, {1, 2, 2, 100, 131, 17, 5, true, NULL}, {1, 1, 3, 33, 65, 16, 33, false, NULL}, {1, 1, 1, 193, 130, 3, 2, true, NULL},
    {2, 1, 2, 7, 20, 5, 6, false, "7x20xi1"}, {1, 2, 1, 97, 64, 4, 20, true, "1x2x1x64xi1"}, {2, 2, 2, 3, 48, 33, 1, true, "2x1x3x1xi1"},
    {1, 2, 2, 1, 77, 24, 24, true, NULL}, {1, 1, 2, 13, 80, 16, 16, false, "1x2x13x80xi1"}, {0, 2, 1, 4, 4, 4, 4, true, NULL},
    {1, 2, 1, 0, 5, 4, 4, true, NULL}};
  set.lo = -1.5, set.hi = 1.5, set.ihi = 2, set.tolerance = 1e-4; /* sums of some hundred terms of order 1, through exp */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    AttentionCase same = cases[i];
    attention_case(set, &same, false, "xf32");
    if (same.mask || !same.t) continue; /* whose shape is said; there must be keys */
    same.s = same.t; /* all parts of one tensor */
    attention_case(set, &same, true, "xf32");
  }
  set.tolerance = 1e-12;
  attention_case(set, &(AttentionCase){1, 2, 2, 20, 35, 9, 4, true, NULL}, false, "xf64");
  attention_case(set, &(AttentionCase){1, 2, 2, 20, 20, 9, 4, true, NULL}, true, "xf64");
}

static void random_numbers(Setting set) {
  set.ihi = 1 << 30, set.tolerance = 2e-6;
  harness_check(&set, "func.func @f(%%k: tensor<i64>) -> (tensor<37x29xf32>, tensor<1000xf32>) {\n%%r = blu.uniform %%k {stream = 123456789012345, shape = array<i64: 37, 29>} : (tensor<i64>) -> tensor<37x29xf32>\n"
        "%%n = blu.normal %%k {stream = 7, shape = array<i64: 1000>} : (tensor<i64>) -> tensor<1000xf32>\nreturn %%r, %%n : tensor<37x29xf32>, tensor<1000xf32>\n}");
}

/* What has been tested with f32 once more with half types in its place. */
static void half_types(Setting set) {
  static const struct { const char *name; double rounding; } half[] = {{"bf16", 0x1p-7}, {"f16", 0x1p-10}};
  for (size_t i = 0; i < sizeof half / sizeof *half; i++) {
    set.elem = half[i].name;
    moves(set);
    set.rounding = half[i].rounding;
    table_cases(set);
    elementwise(set);
    reductions(set);
    set.rounding *= 2; /* the product, and its sum with another number */
    products(set);
    swapped_products(set);
    set.rounding *= 4; /* chains of ten ops, each rounded */
    fused(set);
  }
}

/* Arguments within and beyond what is reduced in line, in one vector and in several; scalars of a row, and of the whole call. */
static void far_sines(Setting set) {
  static const double ends[] = {0x1p20, 2e6, 1e9, 3e38};
  set.tolerance = 2.4e-7;
  for (int i = 0; i < 12; i++) {
    int r = 1 + i % 4, n = any_size();
    const char *f = i & 1 ? "sin" : "cos";
    set.lo = -ends[i % 4], set.hi = ends[i % 4];
    set.special = i % 3 == 2;
    harness_check(&set, "func.func @f(%%a: tensor<%dx%dxf32>, %%b: tensor<%dx1xf32>, %%c: tensor<f32>) -> tensor<%dx%dxf32> {\n"
          "%%x = blu.%s %%a : tensor<%dx%dxf32>\n%%y = blu.%s %%b : tensor<%dx1xf32>\n%%z = blu.%s %%c : tensor<f32>\n"
          "%%yb = blu.broadcast %%y {shape = array<i64: %d, %d>} : (tensor<%dx1xf32>) -> tensor<%dx%dxf32>\n"
          "%%zb = blu.broadcast %%z {shape = array<i64: %d, %d>} : (tensor<f32>) -> tensor<%dx%dxf32>\n"
          "%%s = blu.maximum %%x, %%yb : tensor<%dx%dxf32>\n%%r = blu.maximum %%s, %%zb : tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}",
          r, n, r, r, n, f, r, n, f, r, f, r, n, r, r, n, r, n, r, n, r, n, r, n, r, n);
  }
}

void cases_check(Setting set) {
  Setting ordered = set; /* sums on a device have an order of their own; what has no sums has the same bits everywhere */
  ordered.bits = true;
  table_cases(set);
  elementwise(ordered);
  casts(ordered);
  reductions(set);
  products(set);
  if (!set.device) swapped_products(set);
  fused(set);
  moves(ordered);
  attentions(set);
  random_numbers(set);
  far_sines(ordered);
  if (!set.device) half_types(set);
}
