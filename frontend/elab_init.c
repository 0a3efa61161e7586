/* elab_init.c - paths of parameters (fc1.weight, h.0.attn.weight) and @init, which makes their initial values. */
#include <string.h>
#include "elab_internal.h"

/* ---- paths ---- */

static const char *under(BluElab *E, const char *prefix, const char *name) {
  return *prefix ? blu_arena_print(E->arena, "%s.%s", prefix, name) : name;
}

/* Names the parameters that a value holds and nothing before it held: an instance that is shared has its first path. */
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
  if (v->kind != VAL_INSTANCE || v->u.instance->named) return;
  BluInstance *it = v->u.instance;
  it->named = true;
  for (int i = 0; i < it->nparams; i++) {
    BluSlot *p = it->params[i];
    p->order = E->nparams;
    p->name = under(E, prefix, p->name);
    E->params = blu_arena_grow(E->arena, E->params, E->nparams, sizeof *E->params);
    E->params[E->nparams++] = p;
  }
  const BluNames *t = &it->scope->names;
  for (int i = 0; i < t->n; i++)
    name_value(E, &((const BluBinding *)t->entry[i].item)->val, under(E, prefix, t->entry[i].name));
}

/* A program with one top-level binding that holds parameters, the usual `let model = ...`, leaves its name out. */
void blu_elab_name_params(BluElab *E, BluScope *file) {
  const BluNames *t = &file->names;
  int *first = blu_arena_alloc(E->arena, ((size_t)t->n + 1) * sizeof *first), holders = 0;
  for (int i = 0; i < t->n; i++) {
    first[i] = E->nparams;
    name_value(E, &((const BluBinding *)t->entry[i].item)->val, "");
    holders += E->nparams > first[i];
  }
  first[t->n] = E->nparams;
  if (holders < 2) return;
  for (int i = 0; i < t->n; i++)
    for (int k = first[i]; k < first[i + 1]; k++) E->params[k]->name = under(E, t->entry[i].name, E->params[k]->name);
}

/* ---- initial values ---- */

/* FNV-1a of the path, without the sign bit: each parameter has its own stream of random numbers, whatever else there
 * is. */
static int64_t stream_of(const char *path) {
  uint64_t h = 14695981039346656037u;
  for (; *path; path++) h = (h ^ (unsigned char)*path) * 1099511628211u;
  return (int64_t)(h & INT64_MAX);
}

static MlirValue emit_init(BluElab *E, const BluSlot *p, const BluInit *init) {
  BluBuilder *b = &E->build->b;
  if (init->kind == INIT_FILL) return blu_constant(b, &p->type, init->a);
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", p->type.rank, p->type.dim);
  as = blu_attr_set_int(as, "stream", stream_of(p->name));
  MlirValue seed = blu_build_slot(E, E->seed);
  MlirValue x = blu_build(b, init->kind == INIT_UNIFORM ? "uniform" : "normal", &as, 1, &seed);
  double scale = init->kind == INIT_UNIFORM ? init->b - init->a : init->b, shift = init->a;
  if (scale != 1) x = blu_build2(b, "mul", x, blu_constant_like(b, x, scale));
  if (shift != 0) x = blu_build2(b, "add", x, blu_constant_like(b, x, shift));
  return blu_cast_to(b, x, p->type.elem);
}

static bool initial_value(BluElab *E, const BluSlot *p, MlirValue *out) {
  BluFrame f = {
      .label = p->owner ? blu_arena_print(E->arena, "`%s`", p->owner) : "the optimizer", .call = p->made, .what = p};
  if (p->made.src) E->frames = &f;
  BluOperand v = {.val = blu_elab_expr(E, p->env, p->init), .span = p->init->span};
  BluType t;
  bool good = false;
  blu_build_at(E, p->init->span);
  if (v.val.kind == VAL_INIT) {
    *out = emit_init(E, p, v.val.u.init);
    good = true;
  } else if (blu_val_type(&v.val, &t) && !blu_type_same(&t, &p->type)) {
    BluDiag *d =
        blu_elab_error(E, BLU_E_INITIALISER, v.span, "the initial value of `%s` is %s, but the parameter is %s",
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

void blu_elab_init(BluElab *E, BluSlot *const *states, int nstates) {
  if (!E->nparams && !nstates) return;
  BluBuild f;
  blu_build_start(E, &f, false);
  int n = E->nparams + nstates;
  BluOutput *out = blu_arena_alloc(E->arena, (size_t)n * sizeof *out);
  for (int i = 0; i < n; i++) {
    bool param = i < E->nparams;
    const BluSlot *p = param ? E->params[i] : states[i - E->nparams];
    out[i] = (BluOutput){.role = param ? "param" : "state", .name = p->name};
    initial_value(E, p, &out[i].value);
  }
  blu_build_finish(E, &f, "init", n ? (E->nparams ? E->params[0]->span : states[0]->span) : (BluSpan){0}, n, out);
}
