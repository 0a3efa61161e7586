/* verify.c - `bluc verify`: the interpreter runs every function of a model before and after every pass, on the same random numbers. What
 * `differentiate` adds is compared with differences of the loss (verify_gradient.c), what `step` makes with the functions that it joins;
 * every other pass must keep all results. So a difference names the pass that made it. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "dialects/memory.h"
#include "verify_internal.h"

/* Of doubles that were added in another order: of the largest element of a tensor, and never less than 1e-13. */
static const double TOLERANCE = 1e-9, LEAST = 1e-4;

void blu_report(Report *r, bool held, const char *format, ...) {
  va_list ap;
  r->checks++;
  r->failed += !held;
  fputs(held ? "  held    " : "  FAILED  ", r->out);
  va_start(ap, format);
  vfprintf(r->out, format, ap);
  va_end(ap);
  fputc('\n', r->out);
  fflush(r->out); /* it is the progress too */
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static MlirModule copy_of(MlirModule m) { return mlirModuleFromOperation(mlirOperationClone(mlirModuleGetOperation(m))); }

/* ---- comparing ---- */

/* The largest difference of two tensors, in units of the larger of their largest element and LEAST; NaN if only one has a NaN, or they
 * have different infinities, at *where. */
static double difference(const Number *a, const Number *b, int64_t *where) {
  double scale = LEAST, worst = 0;
  int64_t n = blu_type_count(&a->type);
  for (int64_t i = 0; i < n; i++)
    if (isfinite(a->v[i])) scale = fmax(scale, fabs(a->v[i]));
  for (int64_t i = 0; i < n; i++) {
    if (a->v[i] == b->v[i] || (isnan(a->v[i]) && isnan(b->v[i]))) continue;
    double error = isinf(a->v[i]) || isinf(b->v[i]) ? NAN : fabs(a->v[i] - b->v[i]) / scale;
    if (!(error <= worst)) worst = error, *where = i;
    if (isnan(worst)) break;
  }
  return worst;
}

typedef struct { int results, wrong; double worst; } Agreement;

/* ---- the steps of a pass list ---- */

typedef struct { MlirModule m; const char *pass; int index; Report *r; const Numbers *point; } Stage; /* index: from 1 */

static bool stage_refuse(const Stage *s, MlirOperation f, const BluWhy *why) {
  blu_report(s->r, false, "pass %d, %s: @%s can't be run: %s", s->index, s->pass, blu_func_name(f), why->text);
  return false;
}

static bool is_kernel(MlirOperation f) { return *blu_get_string(f, "blu.kernel"); }

/* All functions but kernels and bodies, which their callers run. */
static bool run_all(const Stage *s, Numbers *results) {
  int n;
  bool good = true;
  BluWhy why;
  MlirOperation *funcs = blu_module_funcs(s->m, &n);
  for (int i = 0; i < n && good; i++) {
    if (is_kernel(funcs[i]) || blu_is_body(funcs[i])) continue;
    if (!blu_point_run(s->m, funcs[i], NULL, s->point, results, NULL, &why)) good = stage_refuse(s, funcs[i], &why);
  }
  free(funcs);
  return good;
}

static void compare(const Stage *s, const Number *x, const Number *got, Agreement *a) {
  int64_t at = 0;
  a->results++;
  if (!got || !blu_type_same(&x->type, &got->type)) {
    a->wrong++;
    blu_report(s->r, false, "pass %d, %s: @%s has no result %s %s any more", s->index, s->pass, x->func, x->role, x->name);
    return;
  }
  double error = difference(x, got, &at);
  if (!(error <= a->worst)) a->worst = error;
  if (error <= TOLERANCE) return;
  a->wrong++;
  blu_report(s->r, false, "pass %d, %s: @%s: %s %s: element %lld is %.17g, expected %.17g", s->index, s->pass, x->func, x->role, x->name,
             (long long)at, got->v[at], x->v[at]);
}

/* Results are paired by function, role and name; several of one name in their order. */
static void agree(const Stage *s, const Numbers *before, const Numbers *after) {
  Agreement a = {0};
  bool *taken = blu_alloc_zeroed((size_t)after->n + 1, sizeof *taken);
  for (int i = 0; i < before->n; i++) {
    const Number *x = &before->at[i];
    int k = 0;
    while (k < after->n && (taken[k] || strcmp(x->name, after->at[k].name) || strcmp(x->role, after->at[k].role) || strcmp(x->func, after->at[k].func))) k++;
    taken[k] = true;
    compare(s, x, k < after->n ? &after->at[k] : NULL, &a);
  }
  free(taken);
  if (!a.wrong) blu_report(s->r, true, "pass %d, %s: %d results, largest difference %.1e", s->index, s->pass, a.results, a.worst);
}

static void take_others(Numbers *from, Numbers *to) { /* results of functions that `step` leaves alone */
  for (int i = 0; i < from->n; i++) {
    Number *x = &from->at[i];
    if (!strcmp(x->func, "train") || !strcmp(x->func, "update") || !strcmp(x->func, "clip")) continue;
    blu_numbers_add(to, x->func, &(BluPort){.role = x->role, .name = x->name, .type = x->type}, x->v);
    x->v = NULL;
  }
}

/* One pass over s->m; `results` are those before it, and become those after it. */
static bool run_pass(Stage *s, MlirModule plain, uint64_t seed, Numbers *results) {
  MlirOperation train = blu_func_find(s->m, "train"), update = blu_func_find(s->m, "update");
  bool joins = !strcmp(s->pass, "step") && !mlirOperationIsNull(train) && !mlirOperationIsNull(update), good = true;
  Numbers expected = {0}, after = {0};
  if (joins) {
    BluWhy why;
    good = blu_verify_expect_step(s->m, s->point, results, &expected, &why);
    if (!good) blu_report(s->r, false, "pass %d, %s: what it joins can't be run: %s", s->index, s->pass, why.text);
    take_others(results, &expected);
    blu_numbers_free(results);
    *results = expected;
  }
  if (!blu_pass_find(s->pass)->run(s->m)) return false; /* reported at the user's line */
  if (!mlirOperationVerify(mlirModuleGetOperation(s->m))) {
    blu_report(s->r, false, "pass %d, %s: left an invalid module", s->index, s->pass);
    return false;
  }
  good = good && run_all(s, &after);
  if (good) agree(s, results, &after);
  blu_numbers_free(results);
  *results = after;
  if (good && !strcmp(s->pass, "differentiate") && !mlirOperationIsNull(train)) blu_verify_gradient(plain, s->m, s->point, seed, s->r);
  return good;
}

/* ---- rounds ---- */

/* Says what is judged and what it will cost: every pass is followed by a run of everything, and each parameter by about 8 of the loss. */
static void announce(const BluVerifyOptions *o, const Stage *s, double all) {
  int tensors = 0;
  long long elements = 0;
  for (int i = 0; i < s->point->n; i++)
    if (!strcmp(s->point->at[i].role, "param")) tensors++, elements += blu_type_count(&s->point->at[i].type);
  double seconds = 2 * o->npasses * all, start = now();
  MlirOperation train = blu_func_find(s->m, "train");
  Numbers results = {0};
  BluWhy why;
  if (!mlirOperationIsNull(train) && blu_point_run(s->m, train, NULL, s->point, &results, NULL, &why)) seconds += 8 * (tensors + 1) * (now() - start);
  blu_numbers_free(&results);
  fprintf(o->out, "%lld parameters in %d tensors; this will take about %.2g s\n", elements, tensors, o->rounds * seconds);
  fflush(o->out);
}

static bool verify_round(MlirModule m, const BluVerifyOptions *o, int round, Report *r) {
  uint64_t seed = o->seed + (uint64_t)round;
  Numbers point = {0}, results = {0};
  BluWhy why;
  Stage s = {.m = copy_of(m), .pass = "front end", .r = r, .point = &point};
  bool good = blu_point_draw(m, seed, round % 2 == 0, 3 * round, &point, &why);
  if (!good) blu_report(r, false, "initial values: %s", why.text);
  double start = now();
  good = good && run_all(&s, &results);
  if (good && !round) announce(o, &s, now() - start);
  if (good) fprintf(o->out, "round %d of %d, seed %llu\n", round + 1, o->rounds, (unsigned long long)seed);
  for (int i = 0; i < o->npasses && good; i++) {
    s.pass = o->passes[i], s.index = i + 1;
    good = run_pass(&s, m, seed, &results);
  }
  blu_numbers_free(&point), blu_numbers_free(&results);
  mlirModuleDestroy(s.m);
  return good;
}

bool blu_verify_model(MlirModule m, const BluVerifyOptions *o) {
  Report r = {.out = o->out};
  bool good = true;
  double start = now();
  for (int i = 0; i < o->rounds && good; i++) good = verify_round(m, o, i, &r);
  if (!good && !r.failed) return false;
  fprintf(o->out, "%d checks, %d failed; %d directions crossed a kink and were redrawn; %.2f s\n", r.checks, r.failed, r.redrawn, now() - start);
  return good && !r.failed;
}
