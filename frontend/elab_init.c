/* elab_init.c - paths of parameters (fc1.weight, h.0.attn.weight) and @init, which makes their initial values. */
#include <math.h>
#include <string.h>
#include "elab_internal.h"

/* ---- paths ---- */

static const char *under(BluElab *E, const char *prefix, const char *name) {
  return *prefix ? blu_arena_print(E->arena, "%s.%s", prefix, name) : name;
}

/* Gives the instances that a value holds, and that nothing before it held, their paths: an instance that is shared has
 * its first one. */
static void name_value(BluElab *E, const BluVal *v, const char *prefix) {
  if (v->kind == VAL_LIST || v->kind == VAL_TUPLE) {
    for (int i = 0; i < v->u.list->n; i++)
      name_value(E, &v->u.list->item[i], under(E, prefix, blu_arena_print(E->arena, "%d", i)));
    return;
  }
  if (v->kind == VAL_NAMESPACE) {
    const BluNames *t = &v->u.space->names;
    for (int i = 0; i < t->n; i++) {
      const BluBinding *b = t->entry[i].item;
      if (b->val.kind != VAL_NAMESPACE) name_value(E, &b->val, under(E, prefix, t->entry[i].name));
    }
    return;
  }
  if (v->kind != VAL_INSTANCE || v->u.instance->path) return;
  BluInstance *it = v->u.instance;
  it->path = prefix;
  E->instances = blu_arena_grow(E->arena, E->instances, E->ninstances, sizeof *E->instances);
  E->instances[E->ninstances++] = it;
  for (int i = 0; i < it->nslots; i++) {
    BluSlot *p = it->slots[i];
    BluSlots *all = p->role == SLOT_PARAM ? &E->params : p->role == SLOT_STATE ? &E->states : &E->caches;
    p->order = all->n;
    p->name = under(E, prefix, p->name);
    blu_slots_add(E, all, p);
  }
  const BluNames *t = &it->scope->names;
  for (int i = 0; i < t->n; i++)
    name_value(E, &((const BluBinding *)t->entry[i].item)->val, under(E, prefix, t->entry[i].name));
}

static void prefix(BluElab *E, BluInstance *it, const char *name) {
  it->path = *it->path ? under(E, name, it->path) : name;
  for (int i = 0; i < it->nslots; i++) it->slots[i]->name = under(E, name, it->slots[i]->name);
}

/* A program with one top-level binding that holds parameters, the usual `let model = ...`, leaves its name out. */
void blu_elab_name_slots(BluElab *E, BluScope *file) {
  const BluNames *t = &file->names;
  int *first = blu_arena_alloc(E->arena, ((size_t)t->n + 1) * sizeof *first), holders = 0;
  for (int i = 0; i < t->n; i++) {
    first[i] = E->ninstances;
    name_value(E, &((const BluBinding *)t->entry[i].item)->val, "");
    int slots = 0;
    for (int k = first[i]; k < E->ninstances; k++) slots += E->instances[k]->nslots;
    holders += slots > 0;
  }
  first[t->n] = E->ninstances;
  if (holders < 2) return;
  for (int i = 0; i < t->n; i++)
    for (int k = first[i]; k < first[i + 1]; k++) prefix(E, E->instances[k], t->entry[i].name);
}

/* ---- initial values ---- */

/* FNV-1a of the path, without the sign bit: each parameter has its own stream of random numbers, whatever else there
 * is. */
int64_t blu_elab_stream(const char *path) {
  uint64_t h = 14695981039346656037u;
  for (; *path; path++) h = (h ^ (unsigned char)*path) * 1099511628211u;
  return (int64_t)(h & INT64_MAX);
}

/* x times the polynomial with these coefficients, highest first. */
static MlirValue polynomial(BluBuilder *b, MlirValue w, const double *c, int n) {
  MlirValue p = blu_constant_like(b, w, c[0]);
  for (int i = 1; i < n; i++) p = blu_build2(b, "add", blu_build2(b, "mul", p, w), blu_constant_like(b, w, c[i]));
  return p;
}

/* Inverse of the error function in single precision: Giles, "Approximating the erfinv function" (2011). */
static MlirValue inverse_erf(BluBuilder *b, MlirValue x) {
  static const double central[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                   -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
  static const double tail[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  enum { TERMS = sizeof central / sizeof *central };
  MlirValue one = blu_constant_like(b, x, 1);
  MlirValue w = blu_build2(b, "mul", blu_build2(b, "sub", one, x), blu_build2(b, "add", one, x));
  w = blu_build1(b, "neg", blu_build1(b, "log", w));
  MlirValue near = polynomial(b, blu_build2(b, "sub", w, blu_constant_like(b, w, 2.5)), central, TERMS);
  MlirValue root = blu_build2(b, "sub", blu_build1(b, "sqrt", w), blu_constant_like(b, w, 3));
  MlirValue far = polynomial(b, root, tail, TERMS);
  MlirValue small = blu_build2(b, "lt", w, blu_constant_like(b, w, 5));
  return blu_build2(b, "mul", x, blu_build(b, "where", NULL, 3, (MlirValue[]){small, near, far}));
}

/* u, uniform in [0, 1), as a standard normal number between lo and hi. */
static MlirValue truncated(BluBuilder *b, MlirValue u, double lo, double hi) {
  double from = erf(lo / sqrt(2)), to = erf(hi / sqrt(2));
  MlirValue x = blu_build2(b, "mul", u, blu_constant_like(b, u, to - from));
  x = blu_build2(b, "add", x, blu_constant_like(b, x, from));
  x = blu_build2(b, "mul", inverse_erf(b, x), blu_constant_like(b, x, sqrt(2)));
  x = blu_build2(b, "maximum", x, blu_constant_like(b, x, lo));
  return blu_build2(b, "minimum", x, blu_constant_like(b, x, hi));
}

MlirValue blu_init_emit(BluElab *E, const BluInit *init, const BluType *t, MlirValue key, int64_t stream) {
  BluBuilder *b = &E->build->b;
  if (init->kind == INIT_FILL) return blu_constant(b, t, init->a);
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", t->rank, t->dim);
  as = blu_attr_set_int(as, "stream", stream);
  MlirValue x = blu_build(b, init->kind == INIT_NORMAL ? "normal" : "uniform", &as, 1, &key);
  if (init->kind == INIT_TRUNCATED) x = truncated(b, x, init->lo, init->hi);
  double scale = init->kind == INIT_UNIFORM ? init->b - init->a : init->b, shift = init->a;
  if (scale != 1) x = blu_build2(b, "mul", x, blu_constant_like(b, x, scale));
  if (shift != 0) x = blu_build2(b, "add", x, blu_constant_like(b, x, shift));
  return blu_cast_to(b, x, t->elem);
}

/* What `info` shows: an initialiser with its numbers worked out. */
static const char *init_text(BluElab *E, const BluInit *init) {
  switch (init->kind) {
    case INIT_FILL:
      return init->a == 0 ? "zeros" : init->a == 1 ? "ones" : blu_arena_print(E->arena, "%.6g", init->a);
    case INIT_UNIFORM: return blu_arena_print(E->arena, "uniform(%.6g, %.6g)", init->a, init->b);
    case INIT_NORMAL: return blu_arena_print(E->arena, "normal(%.6g, %.6g)", init->a, init->b);
    case INIT_TRUNCATED:
      return blu_arena_print(E->arena, "truncated_normal(%.6g, %.6g, %g, %g)", init->a, init->b, init->lo, init->hi);
  }
  return "";
}

static bool initial_value(BluElab *E, BluSlot *p, MlirValue *out) {
  BluFrame f = {
      .label = p->owner ? blu_arena_print(E->arena, "`%s`", p->owner) : "the optimizer", .call = p->made, .what = p};
  if (p->made.src) E->frames = &f;
  BluOperand v = {.val = blu_elab_expr(E, p->env, p->init), .span = p->init->span};
  BluType t;
  bool good = false;
  double x;
  p->starts = v.val.kind == VAL_INIT ? init_text(E, v.val.u.init) : blu_val_number(&v.val, &x) ? blu_arena_print(E->arena, "%.6g", x) : "computed";
  blu_build_at(E, p->init->span);
  if (v.val.kind == VAL_INIT) {
    const BluInit *init = v.val.u.init;
    MlirValue seed = init->kind == INIT_FILL ? (MlirValue){0} : blu_build_slot(E, E->seed);
    *out = blu_init_emit(E, init, &p->type, seed, blu_elab_stream(p->name));
    good = true;
  } else if (blu_val_type(&v.val, &t) && !blu_type_same(&t, &p->type)) {
    BluDiag *d =
        blu_elab_error(E, BLU_E_INITIALISER, v.span, "the initial value of `%s` is %s, but it is declared as %s",
                       p->name, blu_type_text(E, &t), blu_type_text(E, &p->type));
    blu_diag_note(d, p->span, "declared here");
  } else if (v.val.kind >= VAL_INT && v.val.kind != VAL_HOST && v.val.kind != VAL_TENSOR && v.val.kind > VAL_BOOL) {
    BluDiag *d = blu_elab_error(E, BLU_E_INITIALISER, v.span, "%s is no initial value", blu_val_describe(E, &v.val));
    blu_diag_help(d, "use `zeros`, `ones`, a number, `uniform(lo, hi)`, `normal(mean, std)` or a function of `init`");
  } else {
    good = v.val.kind != VAL_NONE && blu_elab_spread(E, &v, &p->type, out);
  }
  E->frames = NULL;
  return good;
}

void blu_elab_init(BluElab *E, const BluSlots *optimizer_states) {
  const BluSlots *all[] = {&E->params, &E->states, optimizer_states};
  BluOutput *out = NULL;
  BluSpan first = {0};
  BluBuild f;
  int n = 0;
  blu_build_start(E, &f, BUILD_OTHER);
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    for (int i = 0; i < all[k]->n; i++) {
      BluSlot *p = all[k]->slot[i];
      if (!n) first = p->span;
      out = blu_arena_grow(E->arena, out, n, sizeof *out);
      out[n] = (BluOutput){.role = p->role == SLOT_PARAM ? "param" : "state", .name = p->name};
      initial_value(E, p, &out[n++].value);
    }
  if (n) {
    blu_build_finish(E, &f, "init", first, n, out);
    return;
  }
  mlirBlockDestroy(f.b.block);
  E->build = NULL;
}
