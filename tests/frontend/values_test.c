/* values_test.c - what programs mean: functions of compiled modules, run by the interpreter of the blu dialect (in
 * double). Right values are those of hand computation or of the papers' formulas, never of our own output. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "program.h"

/* ---- AdamW and the schedule ---- */

typedef struct { double w, b, wm, wv, bm, bv; } Adam;

static void adam_step(Program p, Adam *a, double g, double lr, double decay, double step) {
  Input in[] = {{"param", "w", &a->w},    {"param", "b", &a->b},    {"grad", "w", &g},        {"grad", "b", &g},
                {"state", "w:m", &a->wm}, {"state", "w:v", &a->wv}, {"state", "b:m", &a->bm}, {"state", "b:v", &a->bv},
                {"run", "lr", &lr},       {"run", "decay", &decay}, {"step", "step", &step}};
  enum { N = sizeof in / sizeof *in };
  Adam next;
  run(p, "update", N, in, "param", "w", 1, &next.w);
  run(p, "update", N, in, "param", "b", 1, &next.b);
  run(p, "update", N, in, "state", "w:m", 1, &next.wm);
  run(p, "update", N, in, "state", "w:v", 1, &next.wv);
  run(p, "update", N, in, "state", "b:m", 1, &next.bm);
  run(p, "update", N, in, "state", "b:v", 1, &next.bv);
  *a = next;
}

static void test_adamw(Program p) {
  static const double gradient[] = {0.1, -0.2, 0.3}, want[] = {0.89900001, 0.93471136, 0.89945254};
  Adam a = {.w = 1, .b = 1};
  for (int t = 0; t < 3; t++) {
    adam_step(p, &a, gradient[t], 0.1, 0.01, t);
    expect("AdamW", a.w, want[t], 1e-7);
  }
  Adam still = {.w = 1, .b = 1};
  adam_step(p, &still, 0, 0.1, 0.1, 0);
  expect("decay of a matrix", still.w, 0.99, 1e-12);
  if (still.b != 1) printf("FAIL decay of a bias: %.17g\n", still.b), failures++;
}

static void test_schedules(Program adamw, Program sgd) {
  static const double want[] = {5, 10, 10, 9.6194, 8.5355, 6.9134, 5, 3.0866, 1.4645, 0.3806};
  double x;
  for (int i = 0; i < 10; i++) {
    double step = i;
    run(adamw, "clip", 1, &(Input){"step", "step", &step}, "output", "clip_norm", 1, &x);
    expect("warmup_cosine", x, want[i], 5e-5 / fmax(1, want[i])); /* four decimals are known */
  }
  for (int i = 0; i < 6; i++) {
    double step = i, part = fmin(i / 4.0, 1);
    run(sgd, "clip", 1, &(Input){"step", "step", &step}, "output", "clip_norm", 1, &x);
    expect("linear and cosine", x, 1 - part + 0.5 + 0.25 * (1 + cos(acos(-1) * part)), 1e-12);
  }
  run(adamw, "settings", 0, NULL, "output", "epochs", 1, &x);
  expect("epochs", x, 3, 0);
  run(adamw, "settings", 0, NULL, "output", "stop", 1, &x);
  expect("stop", x, 10, 0);
  run(sgd, "settings", 0, NULL, "output", "epochs", 1, &x);
  expect("no epochs", x, 0, 0);
}

/* ---- half precision ---- */

/* Adam moves by lr in each step while the gradient stays what it is: 100 steps of 6e-4 from 1. The next bf16 below 1 is 1 - 2^-8, so that
 * kept in bf16 the parameter would never leave 1. */
static void test_master(Program p) {
  double w = 1, m = 0, v = 0, g = 0.3, x[] = {1, -2}, rows = 2, sum;
  for (int t = 0; t < 100; t++) {
    double step = t, next[3] = {0};
    Input in[] = {{"param", "w", &w}, {"grad", "w", &g}, {"state", "w:m", &m}, {"state", "w:v", &v}, {"step", "step", &step}};
    run(p, "update", 5, in, "param", "w", 1, &next[0]);
    run(p, "update", 5, in, "state", "w:m", 1, &next[1]);
    run(p, "update", 5, in, "state", "w:v", 1, &next[2]);
    w = next[0], m = next[1], v = next[2];
  }
  expect("f32 behind bf16, after 100 steps", w, 0.94, 1e-6);
  Input in[] = {{"data", "x", x}, {"rows", "rows", &rows}, {"param", "w", &w}};
  run(p, "eval", 3, in, "sum", "loss", 1, &sum);
  expect("the model sees its nearest bf16", sum, -0.94140625, 0); /* 241 / 256 */
}

/* ---- SGD, sums, initial values ---- */

enum { WEIGHTS = 50 * 100, BIASES = 50 };

static void test_sgd(Program p) {
  static double w[WEIGHTS], m[WEIGHTS], b[BIASES], out[WEIGHTS];
  for (int i = 0; i < WEIGHTS; i++) w[i] = i % 7 - 3, m[i] = i % 5 - 2;
  for (int i = 0; i < BIASES; i++) b[i] = i;
  Input in[] = {{"param", "weight", w}, {"param", "bias", b},     {"grad", "weight", m},
                {"grad", "bias", b},    {"state", "weight:m", m}, {"state", "bias:m", b}};
  run(p, "update", 6, in, "param", "weight", WEIGHTS, out);
  for (int i = 0; i < WEIGHTS; i += 97) {
    double d = m[i] + 0.5 * w[i], v = 0.9 * m[i] + d;
    expect("SGD", out[i], w[i] - 0.1 * (d + 0.9 * v), 1e-6);
  }
  run(p, "update", 6, in, "state", "weight:m", WEIGHTS, out);
  expect("momentum", out[5], 0.9 * m[5] + m[5] + 0.5 * w[5], 1e-6);
}

static void test_sums(Program p) {
  static double w[WEIGHTS], b[BIASES];
  double x[] = {1, 2, 3, -4, 5, 6, NAN, 8}, keep[] = {1, 0, 1, 1}, share[] = {0.5, 2, 0, 7}, rows = 3, s;
  Input in[] = {{"data", "x", x},        {"data", "keep", keep}, {"data", "share", share},
                {"rows", "rows", &rows}, {"param", "weight", w}, {"param", "bias", b}};
  static const struct { const char *name; double sum, weight; } want[] = {
    {"loss", 3 - 1 + 11, 3}, {"kept", 3 + 11, 2}, {"shared", 0.5 * 3 + 2 * -1, 2.5}, {"positive", 5, 6}};
  for (int f = 0; f < 2; f++)
    for (int i = 0; i < 4; i++) {
      run(p, f ? "eval" : "train", 6, in, "sum", want[i].name, 1, &s);
      expect(want[i].name, s, want[i].sum, 1e-12);
      run(p, f ? "eval" : "train", 6, in, "weight", want[i].name, 1, &s);
      expect("its weight", s, want[i].weight, 1e-12);
    }
  rows = 0;
  run(p, "train", 6, in, "sum", "loss", 1, &s);
  expect("loss of no rows", s, 0, 0);
}

static void test_init(Program p) {
  static double w[WEIGHTS], again[WEIGHTS], b[BIASES];
  double seed = 1, mean = 0, squares = 0;
  Input in = {"seed", "seed", &seed};
  run(p, "init", 1, &in, "param", "weight", WEIGHTS, w);
  run(p, "init", 1, &in, "param", "bias", BIASES, b);
  for (int i = 0; i < WEIGHTS; i++) {
    if (!(fabs(w[i]) <= 0.1)) printf("FAIL weight %d = %g is outside of 1 / sqrt(100)\n", i, w[i]), failures++;
    mean += w[i] / WEIGHTS;
    squares += w[i] * w[i] / WEIGHTS;
  }
  expect("mean of initial weights", mean, 0, 0.005); /* 6 deviations: 0.1 / sqrt(3 * 5000) each */
  expect("their variance", squares * 300, 1, 0.1);
  if (w[0] == b[0]) printf("FAIL weight and bias have the same random numbers\n"), failures++;
  seed = 2;
  run(p, "init", 1, &in, "param", "weight", WEIGHTS, again);
  if (w[0] == again[0]) printf("FAIL another seed gives the same weights\n"), failures++;
}

int main(int argc, char **argv) {
  char path[3][4096];
  const char *dir = argc > 1 ? argv[1] : ".";
  snprintf(path[0], sizeof path[0], "%s/values/adamw.blu", dir);
  snprintf(path[1], sizeof path[1], "%s/values/sgd.blu", dir);
  snprintf(path[2], sizeof path[2], "%s/values/master.blu", dir);
  Program adamw = compile(path[0]), sgd = compile(path[1]), master = compile(path[2]);
  test_adamw(adamw);
  test_schedules(adamw, sgd);
  test_master(master);
  test_sgd(sgd);
  test_sums(sgd);
  test_init(sgd);
  drop(adamw);
  drop(sgd);
  drop(master);
  printf("%d failures\n", failures);
  return failures != 0;
}
