/* verify_step.c - what `step` must make of @train, @clip and @update: their results when they are run one by one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/memory.h"
#include "verify_internal.h"

static void put(Numbers *to, const char *func, const char *role, const char *name, const BluType *t, double *v) {
  blu_numbers_add(to, func, &(BluPort){.role = role, .name = name, .type = *t}, v);
}

static void put_scalar(Numbers *to, const char *func, const char *role, const char *name, double x) {
  double *v = blu_alloc(sizeof *v);
  *v = x;
  put(to, func, role, name, &(BluType){.elem = BLU_F32}, v);
}

/* a * x + b * y, element by element; y NULL: a * x */
static double *combined(const BluType *t, double a, const double *x, double b, const double *y) {
  int64_t n = blu_type_count(t);
  double *v = blu_alloc(((size_t)n + 1) * sizeof *v);
  for (int64_t i = 0; i < n; i++) v[i] = a * x[i] + (y ? b * y[i] : 0);
  return v;
}

static bool is_updated(MlirOperation update, const char *param) {
  for (int i = 0; i < blu_func_nresults(update); i++) {
    BluPort p = blu_func_result(update, i);
    if (!strcmp(p.role, "param") && !strcmp(p.name, param)) return true;
  }
  return false;
}

/* min(1, limit / norm) */
static bool clip_factor(MlirModule m, const Numbers *point, double norm, double *factor, BluWhy *why) {
  MlirOperation clip = blu_func_find(m, "clip");
  Numbers limit = {0};
  *factor = 1;
  if (mlirOperationIsNull(clip)) return true;
  bool good = blu_point_run(m, clip, NULL, point, &limit, NULL, why);
  double most = good ? limit.at[0].v[0] : 0;
  if (!blu_func_nargs(clip)) most = (float)most; /* a constant, which the step casts and so rounds */
  if (good && norm > most) *factor = most / norm;
  blu_numbers_free(&limit);
  return good;
}

bool blu_verify_expect_step(MlirModule m, const Numbers *point, const Numbers *graded, Numbers *expected, BluWhy *why) {
  MlirOperation update = blu_func_find(m, "update");
  bool sums = blu_accumulates(m);
  const char *last = sums ? "update" : "train"; /* the function that ends the step */
  Numbers grads = {0}, updated = {0};
  double squares = 0, factor, scale = blu_point_scale(point);
  for (int i = 0; i < graded->n; i++) {
    const Number *g = &graded->at[i];
    if (strcmp(g->func, "train")) continue;
    if (strcmp(g->role, "grad")) {
      put(expected, "train", g->role, g->name, &g->type, combined(&g->type, 1, g->v, 0, NULL));
    } else if (is_updated(update, g->name)) {
      double *v, own = 0;
      if (sums) { /* of the micro-batches so far, to which @train adds; @update divides them by their weight */
        const Number *sum = blu_numbers_find(point, "", "gradient", g->name), *total = blu_numbers_find(point, "", "total", "total");
        put(expected, "train", "gradient", g->name, &g->type, combined(&g->type, 1, sum->v, 1, g->v));
        v = combined(&g->type, 1 / (total->v[0] * scale), sum->v, 0, NULL);
      } else v = combined(&g->type, 1 / scale, g->v, 0, NULL);
      for (int64_t k = 0, n = blu_type_count(&g->type); k < n; k++) own += v[k] * v[k];
      put_scalar(expected, last, "squares", g->name, own);
      put(&grads, "", "grad", g->name, &g->type, v);
      squares += own;
    }
  }
  if (grads.n) put_scalar(expected, last, "norm", "norm", sqrt(squares));
  if (blu_scales_loss(m)) {
    double *v = blu_alloc(sizeof *v);
    *v = scale;
    put(expected, last, "output", "loss_scale", &(BluType){.elem = BLU_F64}, v);
  }
  bool good = clip_factor(m, point, sqrt(squares), &factor, why);
  for (int i = 0; i < grads.n; i++)
    for (int64_t k = 0, n = blu_type_count(&grads.at[i].type); k < n; k++) grads.at[i].v[k] *= factor;
  good = good && blu_point_run(m, update, &grads, point, &updated, NULL, why);
  for (int i = 0; i < updated.n; i++) put(expected, last, updated.at[i].role, updated.at[i].name, &updated.at[i].type, updated.at[i].v);
  free(updated.at); /* its tensors moved */
  blu_numbers_free(&grads);
  return good;
}
