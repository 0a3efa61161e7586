/* library_test.c - what the standard library means, run by the interpreter of the blu dialect: against formulas of the papers
 * and PyTorch's documentation, and decoding one token at a time against attention over the whole sequence. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "program.h"

static const double OPEN = -1e300; /* an input that the function may ignore */

static double number(Program p, const char *func, const char *role, const char *name) {
  double x = OPEN;
  run(p, func, 0, NULL, role, name, 1, &x);
  return x;
}

static void test_optimizers(Program p) {
  double adam = 1, lion = 1, rms = 1, g = 0.5, step = 0, m = 0.2, v = 0.3, out;
  double muon[6] = {1, 2, 3, 4, 5, 6}, mg[6] = {1, 0, 2, -1, 3, 1}, mm[6] = {0}, next[6];
  Input in[] = {{"param", "net.adam", &adam},   {"grad", "net.adam", &g},     {"state", "net.adam:m", &m},
                {"state", "net.adam:v", &v},    {"param", "net.lion", &lion}, {"grad", "net.lion", &g},
                {"state", "net.lion:m", &m},    {"param", "net.rms", &rms},   {"grad", "net.rms", &g},
                {"state", "net.rms:v", &v},     {"state", "net.rms:m", &m},   {"param", "net.muon", muon},
                {"grad", "net.muon", mg},       {"state", "net.muon:m", mm},  {"step", "step", &step}};
  enum { N = sizeof in / sizeof *in };
  double d = g + 0.5, m1 = 0.9 * m + 0.1 * d, v1 = 0.999 * v + 0.001 * d * d;
  run(p, "update", N, in, "param", "net.adam", 1, &out);
  expect("Adam", out, 1 - 0.1 * (m1 / 0.1 / (sqrt(v1 / 0.001) + 1e-8)), 1e-9);
  run(p, "update", N, in, "param", "net.lion", 1, &out);
  expect("Lion", out, 1 - 0.1 * (1 + 0.5 * 1), 1e-6);
  run(p, "update", N, in, "state", "net.lion:m", 1, &out);
  expect("Lion's momentum", out, 0.99 * m + 0.01 * g, 1e-6);
  double rv = 0.99 * v + 0.01 * g * g, rm = 0.9 * m + g / (sqrt(rv) + 1e-8);
  run(p, "update", N, in, "param", "net.rms", 1, &out);
  expect("RMSProp", out, 1 - 0.1 * rm, 1e-6);
  run(p, "update", N, in, "param", "net.muon", 6, next);
  double rows[2][2] = {{0}};
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++)
      for (int k = 0; k < 3; k++) rows[i][j] += (muon[3 * i + k] - next[3 * i + k]) * (muon[3 * j + k] - next[3 * j + k]) / 0.01;
  expect("Muon's rows have length 1", rows[0][0], 1, 0.55); /* singular values lie between about 0.68 and 1.2 */
  expect("Muon's rows have length 1", rows[1][1], 1, 0.55);
  expect("Muon's rows are orthogonal", rows[0][1], 0, 0.4);
}

static void two(Program p, const char *entry, const double *x, const double *y, double first, double second) {
  double out[2];
  Input in[] = {{"input", "x", x}, {"input", "y", y}};
  run(p, entry, 2, in, "output", entry, 2, out);
  expect(entry, out[0], first, 1e-7);
  expect(entry, out[1], second, 1e-7);
}

static void test_losses(Program p) {
  double logits[] = {1, 2, 3, 5, 5, 5}, labels[] = {2, -100}, out;
  two(p, "smooth", logits, labels, 0.50760596, 0);
  two(p, "huber", (double[]){1, 5}, (double[]){0.5, 2}, 0.125, 2.5);
  two(p, "mse", (double[]){1, 5}, (double[]){0.5, 2}, 0.75, 12);
  two(p, "bce", (double[]){2, -1000}, (double[]){1, 1}, 0.12692801, 1000);
  double even[] = {0, 0}, odd[] = {0, log(3)};
  Input in[] = {{"input", "x", even}, {"input", "y", odd}};
  run(p, "kl", 2, in, "output", "kl", 1, &out);
  expect("kl", out, 0.14384104, 1e-7);
}

static void test_schedules(Program p) {
  static const struct { const char *entry; double step, want; } cases[] = {
    {"cycle", 0, 0.04}, {"cycle", 29, 1}, {"cycle", 99, 4e-6}, {"cycle", 64, (1 + 4e-6) / 2}, {"cycle", 500, 4e-6},
    {"steps", 0, 1},    {"steps", 9, 1},  {"steps", 10, 0.1},  {"steps", 25, 0.01}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double x;
    run(p, cases[i].entry, 1, &(Input){"run", "s", &cases[i].step}, "output", cases[i].entry, 1, &x);
    expect(cases[i].entry, x, cases[i].want, 1e-9);
  }
}

enum { D = 4, T = 3, TRUNC = 5000 };

static void test_batch_norm(Program p) {
  double x[12], w[3] = {1, 2, 3}, b[3] = {0, 1, 0}, mean[3] = {0.5, 0, 0}, var[3] = {1, 4, 1}, rows = 4, out[12], s[3], one = 1;
  double six[6] = {1, 1, 1, 1, 1, 1};
  static double many[TRUNC], attn[64];
  for (int i = 0; i < 12; i++) x[i] = i * i % 7;
  Input in[] = {{"data", "x", x}, {"input", "x", x}, {"param", "net.bn.weight", w}, {"param", "net.bn.bias", b},
                {"state", "net.bn.running_mean", mean}, {"state", "net.bn.running_var", var}, {"rows", "rows", &rows},
                {"param", "net.adam", &one}, {"param", "net.lion", &one}, {"param", "net.rms", &one}, {"param", "net.muon", six},
                {"param", "net.trunc", many}, {"param", "attn.c_attn.weight", attn}, {"param", "attn.c_attn.bias", attn},
                {"param", "attn.c_proj.weight", attn}, {"param", "attn.c_proj.bias", attn}};
  enum { N = sizeof in / sizeof *in };
  double m = 0, v = 0;
  for (int r = 0; r < 4; r++) m += x[3 * r] / 4;
  for (int r = 0; r < 4; r++) v += (x[3 * r] - m) * (x[3 * r] - m) / 3;
  run(p, "train", N, in, "state", "net.bn.running_mean", 3, s);
  expect("running mean", s[0], 0.9 * 0.5 + 0.1 * m, 1e-6);
  run(p, "train", N, in, "state", "net.bn.running_var", 3, s);
  expect("running variance", s[0], 0.9 * 1 + 0.1 * v, 1e-6);
  run(p, "batch", N, in, "output", "batch", 12, out);
  expect("batch norm by running statistics", out[4], x[4] / sqrt(4 + 1e-5) * 2 + 1, 1e-9);
}

static void test_attention(Program p) {
  double w[D * 3 * D], b[3 * D], pw[D * D], pb[D], x[T * D], want[T * D], got[D];
  double keys[T * D] = {0}, values[T * D] = {0};
  for (int i = 0; i < D * 3 * D; i++) w[i] = sin(3 * i + 1);
  for (int i = 0; i < 3 * D; i++) b[i] = cos(i);
  for (int i = 0; i < D * D; i++) pw[i] = sin(7 * i);
  for (int i = 0; i < D; i++) pb[i] = i;
  for (int i = 0; i < T * D; i++) x[i] = cos(5 * i + 2);
  Input in[] = {{"input", "x", x}, {"param", "attn.c_attn.weight", w}, {"param", "attn.c_attn.bias", b},
                {"param", "attn.c_proj.weight", pw}, {"param", "attn.c_proj.bias", pb}, {"cache", "attn.keys", keys},
                {"cache", "attn.values", values}, {"input", "at", NULL}};
  run(p, "full", 5, in, "output", "full", T * D, want);
  for (int t = 0; t < T; t++) {
    double at = t, next[2][T * D];
    in[0].value = x + t * D, in[7].value = &at;
    run(p, "decode", 8, in, "output", "decode", D, got);
    run(p, "decode", 8, in, "cache", "attn.keys", T * D, next[0]);
    run(p, "decode", 8, in, "cache", "attn.values", T * D, next[1]);
    memcpy(keys, next[0], sizeof keys), memcpy(values, next[1], sizeof values);
    for (int i = 0; i < D; i++) expect("decoding", got[i], want[t * D + i], 1e-9);
  }
}

static void test_grouped_attention(Program p) {
  enum { W = 8, GROUPED = T * 4 }; /* two groups of two numbers */
  double q[W * W], k[4 * W], v[4 * W], o[W * W], x[T * W], want[T * W], got[W], keys[GROUPED] = {0}, values[GROUPED] = {0};
  for (int i = 0; i < W * W; i++) q[i] = sin(3 * i + 1), o[i] = cos(7 * i);
  for (int i = 0; i < 4 * W; i++) k[i] = cos(5 * i + 2), v[i] = sin(11 * i);
  for (int i = 0; i < T * W; i++) x[i] = cos(13 * i + 2);
  Input in[] = {{"input", "x", x}, {"param", "q_proj.weight", q}, {"param", "k_proj.weight", k}, {"param", "v_proj.weight", v},
                {"param", "o_proj.weight", o}, {"cache", "keys", keys}, {"cache", "values", values}, {"input", "at", NULL}};
  run(p, "full", 5, in, "output", "full", T * W, want);
  for (int t = 0; t < T; t++) {
    double at = t, next[2][GROUPED];
    in[0].value = x + t * W, in[7].value = &at;
    run(p, "decode", 8, in, "output", "decode", W, got);
    run(p, "decode", 8, in, "cache", "keys", GROUPED, next[0]);
    run(p, "decode", 8, in, "cache", "values", GROUPED, next[1]);
    memcpy(keys, next[0], sizeof keys), memcpy(values, next[1], sizeof values);
    for (int i = 0; i < W; i++) expect("decoding with groups", got[i], want[t * W + i], 1e-9);
  }
}

static void test_trunc_normal(Program p) {
  static double w[TRUNC];
  double seed = 3, mean = 0, squares = 0;
  run(p, "init", 1, &(Input){"seed", "seed", &seed}, "param", "net.trunc", TRUNC, w);
  for (int i = 0; i < TRUNC; i++) {
    if (!(fabs(w[i] - 1) <= 1 + 1e-6)) printf("FAIL a weight of %g is more than 2 deviations from 1\n", w[i]), failures++;
    mean += w[i] / TRUNC, squares += (w[i] - 1) * (w[i] - 1) / TRUNC;
  }
  expect("mean of trunc_normal", mean, 1, 0.04);                      /* 6 deviations */
  expect("its variance", squares / 0.25, 0.7737413, 0.06);            /* of a normal distribution cut at 2 */
}

int main(int argc, char **argv) {
  char path[4096];
  snprintf(path, sizeof path, "%s/values/library.blu", argc > 1 ? argv[1] : ".");
  Program p = compile(path);
  expect("stop", number(p, "settings", "output", "stop"), 1, 0);
  test_optimizers(p);
  test_losses(p);
  test_schedules(p);
  test_batch_norm(p);
  test_attention(p);
  test_trunc_normal(p);
  drop(p);
  snprintf(path, sizeof path, "%s/values/grouped.blu", argc > 1 ? argv[1] : ".");
  p = compile(path);
  test_grouped_attention(p);
  drop(p);
  printf("%d failures\n", failures);
  return failures != 0;
}
