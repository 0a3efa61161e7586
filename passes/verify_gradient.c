/* verify_gradient.c - the gradient of a whole model against central differences of its loss, along random directions: of each parameter
 * alone, then of all together.
 *
 * With L+ and L- at a distance h, D(h) = (L+ - L-) / 2h has an error of order h^2, and B(h) = (L+ + L- - 2 L) / h, the bend, is of order h.
 * A kink (of relu, max, abs..) within the distance leaves D(h) - D(h/2) or 2 B(h/2) - B(h) that are of the order of the kink: where both
 * vanish the loss is smooth there, and (4 D(h/2) - D(h)) / 3 is compared. Else h shrinks, and after the last one the direction is redrawn,
 * then the point. That nothing smooth is found is a failure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/memory.h"
#include "verify_internal.h"

static const double STEPS[] = {1e-4, 1e-5, 1e-6, 1e-7}; /* of the size of the weights */
static const double SMOOTH = 1e-7, TOLERANCE = 1e-6;    /* of the gradient's length along a direction */
enum { NSTEPS = sizeof STEPS / sizeof *STEPS, POINTS = 4, DIRECTIONS = 3 };

/* A point with what is known there. */
typedef struct { const Numbers *base; Numbers own, results; BluHeld held; double loss; bool ready; } Point;

typedef struct {
  MlirModule plain, graded;
  MlirOperation train, with_gradient;
  uint64_t seed;
  Report *r;
  Point point[POINTS];
  int last_step; /* index of the step that was small enough the last time: the next direction begins one above it */
} Check;

/* What the gradients are of: the mean, or the sum if a step adds up those of several micro-batches. */
static bool loss_of(const Check *c, const Numbers *base, const Numbers *results, double *loss) {
  const Number *sum = blu_numbers_find(results, "train", "sum", "loss"), *weight = blu_numbers_find(results, "train", "weight", "loss");
  if (!sum || !weight || !(weight->v[0] > 0)) return false;
  *loss = blu_point_scale(base) * (blu_accumulates(c->plain) ? sum->v[0] : sum->v[0] / weight->v[0]);
  return isfinite(*loss);
}

/* Point k with its loss and gradients; point 0 is the caller's. false: there is no finite loss. */
static bool prepare(Check *c, int k) {
  Point *p = &c->point[k];
  BluWhy why;
  if (p->ready) return true;
  if (!p->base) {
    if (!blu_point_draw(c->plain, blu_values_mix(c->seed, "point") + (uint64_t)k, true, k, &p->own, &why)) return false;
    p->base = &p->own;
  }
  Numbers plain = {0};
  bool good = blu_point_run(c->plain, c->train, NULL, p->base, &plain, &p->held, &why);
  p->held.replay = true;
  blu_numbers_free(&plain);
  return p->ready = good && blu_point_run(c->graded, c->with_gradient, NULL, p->base, &p->results, NULL, &why) && loss_of(c, p->base, &p->results, &p->loss);
}

/* ---- directions ---- */

static bool moves(const Number *x, const char *param) { return !strcmp(x->role, "param") && (!param || !strcmp(x->name, param)); }

/* A direction of the parameters: as large as they are. */
static void draw_direction(const Point *p, const char *param, uint64_t seed, Numbers *direction) {
  for (int i = 0; i < p->base->n; i++) {
    const Number *x = &p->base->at[i];
    int64_t n = blu_type_count(&x->type);
    if (!moves(x, param) || !blu_elem_is_float(x->type.elem)) continue;
    double squares = 0, *d = blu_alloc(((size_t)n + 1) * sizeof *d);
    for (int64_t k = 0; k < n; k++) squares += x->v[k] * x->v[k];
    double size = n ? fmax(0.01, sqrt(squares / (double)n)) : 0;
    for (int64_t k = 0; k < n; k++) d[k] = size * blu_values_normal(&seed);
    blu_numbers_add(direction, x->func, &(BluPort){.role = x->role, .name = x->name, .type = x->type}, d);
  }
}

/* By the gradient: the slope along the direction, and the slope that random directions of this size have. */
static bool slope_by_rules(const Point *p, const Numbers *direction, double *slope, double *usual) {
  double squares = 0;
  *slope = 0;
  for (int i = 0; i < direction->n; i++) {
    const Number *d = &direction->at[i], *g = blu_numbers_find(&p->results, "train", "grad", d->name);
    if (!g) return false;
    for (int64_t k = 0, n = blu_type_count(&d->type); k < n; k++) {
      *slope += g->v[k] * d->v[k];
      squares += g->v[k] * g->v[k] * d->v[k] * d->v[k];
    }
  }
  *usual = sqrt(squares);
  return true;
}

static bool loss_at(const Check *c, const Point *p, const Numbers *direction, double h, double *loss) {
  Numbers moved = {0}, results = {0};
  BluHeld held = p->held; /* what is meant to have no gradient stays as it is at the point */
  BluWhy why;
  for (int i = 0; i < direction->n; i++) {
    const Number *d = &direction->at[i], *x = blu_numbers_find(p->base, d->func, d->role, d->name);
    int64_t n = blu_type_count(&d->type);
    double *v = blu_alloc(((size_t)n + 1) * sizeof *v);
    for (int64_t k = 0; k < n; k++) v[k] = x->v[k] + h * d->v[k];
    blu_numbers_add(&moved, d->func, &(BluPort){.role = d->role, .name = d->name, .type = d->type}, v);
  }
  bool good = blu_point_run(c->plain, c->train, &moved, p->base, &results, &held, &why) && loss_of(c, p->base, &results, loss);
  blu_numbers_free(&moved), blu_numbers_free(&results);
  return good;
}

typedef struct { double slope, bend; } Difference;

static bool difference(const Check *c, const Point *p, const Numbers *direction, double h, Difference *d) {
  double up, down;
  if (!loss_at(c, p, direction, h, &up) || !loss_at(c, p, direction, -h, &down)) return false;
  *d = (Difference){(up - down) / (2 * h), (up + down - 2 * p->loss) / h};
  return true;
}

typedef struct { double rules, differences, error, h; } Outcome; /* error: in units of what is tolerated */

/* Compares along one direction; false: it crosses a kink, whatever the step. */
static bool compare(Check *c, const Point *p, const Numbers *direction, Outcome *o) {
  double usual;
  if (!slope_by_rules(p, direction, &o->rules, &usual)) return false;
  for (int s = c->last_step ? c->last_step - 1 : 0; s < NSTEPS; s++) {
    double h = STEPS[s], noise = 8e-15 * fmax(1, fabs(p->loss)) / h; /* of a loss that is right to some units in the last place */
    Difference d, half;
    if (!difference(c, p, direction, h, &d) || !difference(c, p, direction, h / 2, &half)) continue;
    double scale = fmax(fmax(usual, fabs(o->rules)), fabs(half.slope));
    if (!(fabs(d.slope - half.slope) <= SMOOTH * scale + noise && fabs(2 * half.bend - d.bend) <= SMOOTH * scale + 4 * noise)) continue;
    o->differences = (4 * half.slope - d.slope) / 3;
    o->error = fabs(o->differences - o->rules) / (TOLERANCE * scale + 2 * noise);
    o->h = h;
    c->last_step = s;
    return true;
  }
  c->last_step = NSTEPS - 1;
  return false;
}

/* ---- checks ---- */

static void check(Check *c, const char *param) {
  const char *what = param ? param : "all parameters";
  Outcome o;
  for (int k = 0; k < POINTS; k++) {
    if (!prepare(c, k)) continue;
    for (int d = 0; d < DIRECTIONS; d++) {
      Numbers direction = {0};
      draw_direction(&c->point[k], param, blu_values_mix(c->seed, what) + (uint64_t)(k * DIRECTIONS + d), &direction);
      bool clear = compare(c, &c->point[k], &direction, &o);
      blu_numbers_free(&direction);
      if (clear) {
        blu_report(c->r, o.error <= 1, "gradient of %-24s by rules %16.9g, by differences %16.9g, step %.0e", what, o.rules, o.differences, o.h);
        return;
      }
      c->r->redrawn++;
    }
  }
  blu_report(c->r, false, "gradient of %s: a finite loss without kinks was not found at %d points in %d directions each", what, POINTS, DIRECTIONS);
}

void blu_verify_gradient(MlirModule plain, MlirModule graded, const Numbers *point, uint64_t seed, Report *r) {
  Check c = {.plain = plain, .graded = graded, .train = blu_func_find(plain, "train"), .with_gradient = blu_func_find(graded, "train"),
             .seed = seed, .r = r};
  c.point[0].base = point;
  for (int i = 0; i < blu_func_nargs(c.train); i++) {
    BluPort p = blu_func_arg(c.train, i);
    if (!strcmp(p.role, "param") && blu_type_count(&p.type)) check(&c, p.name);
  }
  check(&c, NULL);
  for (int k = 0; k < POINTS; k++) blu_numbers_free(&c.point[k].own), blu_numbers_free(&c.point[k].results), blu_held_free(&c.point[k].held);
}
