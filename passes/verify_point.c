/* verify_point.c - numbers for all arguments of a model's functions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/memory.h"
#include "verify_internal.h"

/* Weights move by a part of their size, at least by LEAST: layers that begin as zeros would hide wrong gradients of what is before them. */
static const double PART = 0.1, LEAST = 0.02;

Number *blu_numbers_find(const Numbers *ns, const char *func, const char *role, const char *name) {
  for (int i = 0; i < ns->n; i++)
    if (!strcmp(ns->at[i].role, role) && !strcmp(ns->at[i].name, name) && !strcmp(ns->at[i].func, func)) return &ns->at[i];
  return NULL;
}

void blu_numbers_add(Numbers *ns, const char *func, const BluPort *p, double *v) {
  if (ns->n == ns->cap) ns->at = blu_realloc(ns->at, (size_t)(ns->cap = ns->cap ? 2 * ns->cap : 64) * sizeof *ns->at);
  ns->at[ns->n++] = (Number){func, p->role, p->name, p->type, v};
}

void blu_numbers_free(Numbers *ns) {
  for (int i = 0; i < ns->n; i++) free(ns->at[i].v);
  free(ns->at);
  *ns = (Numbers){0};
}

const char *blu_numbers_owner(const char *func, const char *role) { return strcmp(role, "input") ? "" : func; }

bool blu_point_run(MlirModule m, MlirOperation f, const Numbers *first, const Numbers *point, Numbers *results, BluHeld *held, BluWhy *why) {
  int nargs = blu_func_nargs(f), nresults = blu_func_nresults(f);
  const char *name = blu_func_name(f);
  const double **args = blu_alloc_zeroed((size_t)nargs + 1, sizeof *args);
  double **out = blu_alloc_zeroed((size_t)nresults + 1, sizeof *out);
  bool good = true;
  for (int i = 0; i < nargs && good; i++) {
    BluPort p = blu_func_arg(f, i);
    const char *owner = blu_numbers_owner(name, p.role);
    Number *x = first ? blu_numbers_find(first, owner, p.role, p.name) : NULL;
    if (!x) x = blu_numbers_find(point, owner, p.role, p.name);
    if (!x || !blu_type_same(&x->type, &p.type)) good = blu_values_refuse(why, "@%s has a new argument: %s %s", name, p.role, p.name);
    else args[i] = x->v;
  }
  good = good && blu_interp_run_held(m, f, args, out, held, why);
  for (int i = 0; i < nresults; i++) {
    BluPort p = blu_func_result(f, i);
    if (good) blu_numbers_add(results, name, &p, out[i]);
  }
  free(args), free(out);
  return good;
}

/* Initial values: parameters move both ways, states upwards alone, since some are variances. */
static void move(const Number *initial, uint64_t seed, double *out) {
  int64_t n = blu_type_count(&initial->type);
  double squares = 0;
  for (int64_t i = 0; i < n; i++) squares += initial->v[i] * initial->v[i];
  double by = fmax(n ? PART * sqrt(squares / (double)n) : 0, LEAST);
  bool param = !strcmp(initial->role, "param"), real = blu_elem_is_float(initial->type.elem);
  for (int64_t i = 0; i < n; i++) {
    double z = blu_values_normal(&seed);
    out[i] = initial->v[i] + (!real ? 0 : by * (param ? z : fabs(z)));
  }
}

double blu_point_scale(const Numbers *point) {
  const Number *x = blu_numbers_find(point, "", "scale", "loss_scale");
  return x ? x->v[0] : 1;
}

/* What `differentiate` is going to ask for: no power of two, so that a factor too many shows. */
static void add_scale(MlirModule m, Numbers *point) {
  if (!blu_scales_loss(m)) return;
  double *v = blu_alloc(sizeof *v);
  *v = 5;
  blu_numbers_add(point, "", &(BluPort){.role = "scale", .name = "loss_scale", .type = {.elem = BLU_F64}}, v);
}

/* A step of several micro-batches has sums of gradients and of weights: arguments of what `step` is going to make. */
static void add_sums(MlirModule m, Numbers *point) {
  if (!blu_accumulates(m)) return;
  for (int i = 0, n = point->n; i < n; i++) {
    const Number g = point->at[i];
    if (strcmp(g.role, "grad")) continue;
    int64_t count = blu_type_count(&g.type);
    double *v = blu_alloc(((size_t)count + 1) * sizeof *v);
    for (int64_t k = 0; k < count; k++) v[k] = 5 * g.v[k];
    blu_numbers_add(point, "", &(BluPort){.role = "gradient", .name = g.name, .type = g.type}, v);
  }
  double *total = blu_alloc(sizeof *total);
  *total = 7;
  blu_numbers_add(point, "", &(BluPort){.role = "total", .name = "total", .type = {.elem = BLU_F64}}, total);
}

bool blu_point_draw(MlirModule m, uint64_t seed, bool whole_batch, double step, Numbers *point, BluWhy *why) {
  Numbers initial = {0};
  MlirOperation init = blu_func_find(m, "init");
  int nf;
  MlirOperation *funcs = blu_module_funcs(m, &nf);
  bool good = true;
  for (int k = -1; k < nf && good; k++) { /* @init first, for what it is run with */
    MlirOperation f = k < 0 ? init : funcs[k];
    if (mlirOperationIsNull(f) || blu_is_body(f) || (k >= 0 && mlirOperationEqual(f, init))) continue;
    for (int i = 0; i < blu_func_nargs(f); i++) {
      BluPort p = blu_func_arg(f, i);
      const char *owner = blu_numbers_owner(blu_func_name(f), p.role);
      if (blu_numbers_find(point, owner, p.role, p.name)) continue;
      char key[512];
      snprintf(key, sizeof key, "%s %s %s", owner, p.role, p.name);
      double *v = blu_alloc(((size_t)blu_type_count(&p.type) + 1) * sizeof *v);
      Number *x = blu_numbers_find(&initial, "init", p.role, p.name);
      if (x && blu_type_same(&x->type, &p.type)) move(x, blu_values_mix(seed, key), v);
      else blu_values_draw(f, i, blu_values_mix(seed, key), v);
      if (!strcmp(p.role, "step")) v[0] = step;
      if (!strcmp(p.role, "rows") && !whole_batch && v[0] > 1) v[0] -= 1;
      blu_numbers_add(point, owner, &p, v);
    }
    if (k < 0) good = blu_point_run(m, init, NULL, point, &initial, NULL, why);
  }
  if (good) add_sums(m, point), add_scale(m, point);
  free(funcs);
  blu_numbers_free(&initial);
  return good;
}
