/* elab_call.c - calls: arguments to parameters, bodies of functions, instances of modules, optimizers with arguments,
 * casts. */
#include <string.h>
#include "elab_internal.h"

enum { MAX_ARGS = 64, MAX_CALLS = 200 };

void blu_elab_mark_called(BluElab *E, const void *what) {
  if (blu_elab_was_called(E, what)) return;
  E->called = blu_arena_grow(E->arena, E->called, E->ncalled, sizeof *E->called);
  E->called[E->ncalled++] = what;
}

bool blu_elab_was_called(const BluElab *E, const void *what) {
  for (int i = 0; i < E->ncalled; i++)
    if (E->called[i] == what) return true;
  return false;
}

static BluParam *param_named(const BluParam *p, const char *name) {
  for (; p; p = p->next)
    if (!strcmp(p->name.text, name)) return (BluParam *)p;
  return NULL;
}

static bool unknown_argument(BluElab *E, const BluParam *params, const BluOperand *a, const char *label, BluSpan decl) {
  BluNearest near = {.wanted = a->name.text};
  for (const BluParam *p = params; p; p = p->next) blu_nearest_try(&near, p->name.text);
  BluDiag *d = blu_elab_error(E, BLU_E_UNKNOWN_ARGUMENT, a->name.span, "%s has no parameter `%s`", label, a->name.text);
  blu_diag_note(d, decl, "declared here");
  if (near.best) blu_diag_help(d, "did you mean `%s`?", near.best);
  return false;
}

/* Binds the arguments in s: by place, by name, then defaults, which see the parameters before them. */
static bool bind_args(BluElab *E, BluScope *s, const BluParam *params, BluRest *rest, BluOperand *args, int n,
                      const char *label, BluSpan decl, BluSpan at) {
  const BluOperand *given[MAX_ARGS] = {0};
  const BluParam *next = params;
  int count = 0;
  bool good = true;
  for (const BluParam *p = params; p; p = p->next) count++;
  if (count > MAX_ARGS || n > MAX_ARGS) {
    blu_elab_error(E, BLU_E_ARGUMENTS, at, "more than %d arguments", MAX_ARGS);
    return false;
  }
  for (int i = 0, place = 0; i < n; i++) {
    const BluParam *p = args[i].name.text ? param_named(params, args[i].name.text) : next;
    if (!p && args[i].name.text) {
      good = unknown_argument(E, params, &args[i], label, decl);
      continue;
    }
    if (!p) {
      BluDiag *d = blu_elab_error(E, BLU_E_ARGUMENTS, args[i].span, "%s takes %d argument%s", label, count,
                                  count == 1 ? "" : "s");
      blu_diag_note(d, decl, "declared here");
      return false;
    }
    int k = place;
    if (args[i].name.text) {
      k = 0;
      for (const BluParam *q = params; q != p; q = q->next) k++;
    } else {
      next = next->next;
      place++;
    }
    if (given[k]) {
      blu_elab_error(E, BLU_E_ARGUMENTS, args[i].name.text ? args[i].name.span : args[i].span, "`%s` is given twice",
                     p->name.text);
      good = false;
    }
    given[k] = &args[i];
  }
  int k = 0;
  for (const BluParam *p = params; p; p = p->next, k++) {
    BluOperand a;
    if (given[k]) {
      a = *given[k];
    } else if (p->init) {
      a = (BluOperand){.val = blu_elab_expr(E, s, p->init), .span = p->init->span};
    } else {
      if (good) {
        BluDiag *d = blu_elab_error(E, BLU_E_ARGUMENTS, at, "%s misses its argument `%s`", label, p->name.text);
        blu_diag_note(d, p->name.span, "declared here");
      }
      a = (BluOperand){.val = blu_val_unknown, .span = at};
      good = false;
    }
    BluVal v = blu_elab_fit(E, s, p, rest, &a);
    if (v.kind == VAL_NONE) {
      blu_elab_error(E, BLU_E_NO_VALUE, a.span, "this has no value");
      v = blu_val_unknown;
    }
    good &= v.kind != VAL_UNKNOWN;
    blu_scope_define(E, s, p->name.text, v, p->name.span);
  }
  return good;
}

/* A function that gets functions may stand in a call of itself: each(f, xs) where f calls each(g, ys). */
static bool gets_functions(const BluOperand *args, int n) {
  for (int i = 0; i < n; i++)
    if ((args[i].val.kind >= VAL_FN && args[i].val.kind <= VAL_OPTIMIZER) || args[i].val.kind == VAL_INSTANCE) return true;
  return false;
}

/* Opens a call of `what` in `env`, unless it is open already, or it is one call too many. */
static bool enter(BluElab *E, const char *label, BluSpan call, const void *what, const BluScope *env, bool again) {
  int n = 0;
  for (const BluFrame *g = E->frames; g; g = g->up, n++) {
    if (again || g->what != what || g->env != env) continue;
    blu_elab_error(E, BLU_E_RECURSION, call, "%s calls itself", label);
    return false;
  }
  if (n >= MAX_CALLS) {
    blu_elab_error(E, BLU_E_RECURSION, call, "more than %d calls inside each other", MAX_CALLS);
    return false;
  }
  BluFrame *f = blu_arena_alloc(E->arena, sizeof *f);
  *f = (BluFrame){label, call, what, env, E->frames};
  E->frames = f;
  return true;
}

static void leave(BluElab *E) { E->frames = E->frames->up; }

BluVal blu_elab_call_fn(BluElab *E, const BluClosure *c, BluOperand *args, int n, BluSpan at) {
  const BluFn *fn = c->fn;
  BluScope *s = blu_scope_make(E, c->env);
  BluRest rest = {0};
  blu_elab_mark_called(E, fn);
  if (!bind_args(E, s, fn->sig.params, &rest, args, n, c->label, fn->sig.span, at)) return blu_val_unknown;
  if (!enter(E, c->label, at, fn, c->env, gets_functions(args, n))) return blu_val_unknown;
  BluVal v = blu_elab_block(E, s, fn->body);
  BluSpan result = fn->body->result ? fn->body->result->span : fn->body->span;
  if (v.kind == VAL_NONE && fn->sig.nresults) {
    BluSpan end = {result.src, fn->body->span.end_line, fn->body->span.end_col - 1, fn->body->span.end_line,
                   fn->body->span.end_col};
    BluDiag *d = blu_elab_error(E, BLU_E_NO_VALUE, end, "the body ends without a value");
    blu_diag_help(d, "the last expression of a block, without `;`, is its value");
    v = blu_val_unknown;
  }
  v = blu_elab_fit_result(E, s, &fn->sig, &rest, v, result);
  leave(E);
  return v;
}

/* ---- modules ---- */

static void add_slot(BluElab *E, BluInstance *it, const BluMember *m, const BluName *name) {
  BluSlot *p = blu_arena_alloc(E->arena, sizeof *p);
  BluSlotRole role = m->kind == BLU_MEMBER_PARAM ? SLOT_PARAM : m->kind == BLU_MEMBER_STATE ? SLOT_STATE : SLOT_CACHE;
  *p = (BluSlot){.role = role, .name = name->text, .span = name->span, .init = m->value, .env = it->scope,
                 .owner = it->decl->name.text, .made = it->made, .instance = it,
                 .frozen = m->label.text != NULL};
  BluVal v = {.kind = VAL_SLOT, .u.slot = p};
  if (!m->type) {
    BluDiag *d = blu_elab_error(E, BLU_E_MODULE, name->span, "the state `%s` of a module needs a type", name->text);
    blu_diag_help(d, "write `state %s: f32[...] = ...;`: only states of optimizers have the shape of their parameter",
                  name->text);
    v = blu_val_unknown;
  } else if (!blu_elab_slot_type(E, it->scope, m->type, p)) {
    v = blu_val_unknown;
  } else if (role == SLOT_PARAM && !blu_elem_is_float(p->type.elem)) {
    blu_elab_error(E, BLU_E_MODULE, m->type->span, "parameters are trained, so their elements are float, not %s",
                   blu_elem_name(p->type.elem));
    v = blu_val_unknown;
  } else if (role == SLOT_PARAM && blu_elem_is_half(p->type.elem) && !p->frozen) {
    BluDiag *d = blu_elab_error(E, BLU_E_MODULE, m->type->span, "a parameter of %s elements would not change by small steps: it can be frozen alone",
                                blu_elem_name(p->type.elem));
    blu_diag_help(d, "declare it `float`: it is kept in f32 then, and rounded to the train block's `precision` where it is used");
    v = blu_val_unknown;
  } else if (E->build) {
    blu_elab_error(E, BLU_E_NO_FUNCTION, E->frames->call,
                   "an instance with a `%s` can't be made inside of a function", blu_member_word(m->kind));
    v = blu_val_unknown;
  } else {
    it->slots = blu_arena_grow(E->arena, it->slots, it->nslots, sizeof *it->slots);
    it->slots[it->nslots++] = p;
  }
  blu_scope_define(E, it->scope, name->text, v, name->span)->kind = role == SLOT_PARAM ? BIND_LET : BIND_STATE;
}

static void add_fn(BluElab *E, BluInstance *it, const BluMember *m) {
  const BluFn *fn = m->fn;
  const char *module = it->decl->name.text;
  if (!fn->name.text) {
    if (it->call) {
      BluDiag *d = blu_elab_error(E, BLU_E_MODULE, m->span, "the module has two unnamed functions");
      blu_diag_note(d, it->call->span, "the first one");
    }
    it->call = fn;
    return;
  }
  BluClosure *c = blu_arena_alloc(E->arena, sizeof *c);
  *c = (BluClosure){fn, it->scope, blu_arena_print(E->arena, "`%s.%s`", module, fn->name.text)};
  blu_scope_define(E, it->scope, fn->name.text, (BluVal){.kind = VAL_FN, .u.fn = c}, fn->name.span);
}

static BluVal instantiate(BluElab *E, const BluDeclRef *ref, BluOperand *args, int n, BluSpan at) {
  const BluDecl *decl = ref->decl;
  BluInstance *it = blu_arena_alloc(E->arena, sizeof *it);
  *it = (BluInstance){.decl = decl, .scope = blu_scope_make(E, ref->env), .made = blu_elab_user_span(E, at)};
  it->scope->instance = it;
  BluRest rest = {0};
  const char *label = blu_arena_print(E->arena, "`%s`", decl->name.text);
  blu_elab_mark_called(E, decl);
  if (!bind_args(E, it->scope, decl->params, &rest, args, n, label, decl->name.span, at)) return blu_val_unknown;
  if (!enter(E, label, at, decl, ref->env, false)) return blu_val_unknown;
  for (const BluMember *m = decl->members; m; m = m->next) /* functions first: lets may name them */
    if (m->kind == BLU_MEMBER_FN) add_fn(E, it, m);
  for (const BluMember *m = decl->members; m; m = m->next) {
    if (m->kind == BLU_MEMBER_LET) {
      blu_elab_bind_pattern(E, it->scope, &m->pattern, blu_elab_expr(E, it->scope, m->value), BIND_LET);
    } else if (m->kind != BLU_MEMBER_FN && m->kind != BLU_MEMBER_ERROR) {
      for (const BluName *name = m->pattern.names; name; name = name->next) add_slot(E, it, m, name);
    }
  }
  leave(E);
  return (BluVal){.kind = VAL_INSTANCE, .u.instance = it};
}

static BluVal make_update(BluElab *E, const BluDeclRef *ref, BluOperand *args, int n, BluSpan at) {
  BluUpdate *u = blu_arena_alloc(E->arena, sizeof *u);
  *u = (BluUpdate){ref->decl, blu_scope_make(E, ref->env), at};
  BluRest rest = {0};
  const char *label = blu_arena_print(E->arena, "`%s`", ref->decl->name.text);
  blu_elab_mark_called(E, ref->decl);
  if (!bind_args(E, u->scope, ref->decl->params, &rest, args, n, label, ref->decl->name.span, at))
    return blu_val_unknown;
  return (BluVal){.kind = VAL_UPDATE, .u.update = u};
}

/* ---- casts ---- */

static BluVal cast(BluElab *E, BluElem to, const BluOperand *args, int n, BluSpan at) {
  if (n != 1 || args[0].name.text) {
    blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s(x)` takes one value", to == BLU_ELEMS ? "float" : blu_elem_name(to));
    return blu_val_unknown;
  }
  if (to == BLU_ELEMS) to = blu_elab_float(E);
  const BluVal *v = &args[0].val;
  double x;
  if (v->kind == VAL_HOST && to == BLU_F64) return *v;
  if (v->kind == VAL_HOST) {
    BluType t = blu_type_make(to, 0, NULL);
    MlirValue m;
    return blu_elab_spread(E, &args[0], &t, &m) ? blu_val_tensor(E, m, &t) : blu_val_unknown;
  }
  if (blu_elem_is_float(to) && blu_val_number(v, &x)) return blu_val_real(x);
  if (!blu_elem_is_float(to) && to != BLU_BOOL) {
    if (v->kind == VAL_INT) return *v;
    if (v->kind == VAL_REAL && v->u.real > -9.2e18 && v->u.real < 9.2e18) return blu_val_int((int64_t)v->u.real);
  }
  if (v->kind == VAL_BOOL)
    return to == BLU_BOOL ? *v : blu_elem_is_float(to) ? blu_val_real(v->u.b) : blu_val_int(v->u.b);
  BluAttrs as = blu_attr_set_type((BluAttrs){0}, "to", to);
  const BluOp *op = blu_op_find("cast");
  BluType t;
  if (v->kind != VAL_UNKNOWN && !blu_val_type(v, &t)) {
    blu_elab_error(E, BLU_E_KIND, args[0].span, "`%s(x)` converts tensors and numbers, not %s", blu_elem_name(to),
                   blu_val_describe(E, v));
    return blu_val_unknown;
  }
  return blu_elab_apply(E, op, args, 1, &as, at);
}

BluVal blu_elab_call(BluElab *E, BluVal callee, BluOperand *args, int n, BluSpan callee_at, BluSpan at) {
  switch (callee.kind) {
    case VAL_UNKNOWN: return blu_val_unknown;
    case VAL_FN: return blu_elab_call_fn(E, callee.u.fn, args, n, at);
    case VAL_OP: return blu_elab_call_op(E, callee.u.op, args, n, at);
    case VAL_BUILTIN: return callee.u.builtin->call(E, callee.u.builtin, args, n, at);
    case VAL_CAST: return cast(E, callee.u.elem, args, n, at);
    case VAL_INIT: return blu_builtin_fill(E, callee.u.init, args, n, at);
    case VAL_MODULE: return instantiate(E, callee.u.decl, args, n, at);
    case VAL_OPTIMIZER: return make_update(E, callee.u.decl, args, n, at);
    case VAL_INSTANCE: {
      const BluInstance *it = callee.u.instance;
      if (!it->call) {
        BluDiag *d = blu_elab_error(E, BLU_E_NOT_CALLABLE, callee_at,
                                    "`%s` has no unnamed `fn`, so its instances can't be called", it->decl->name.text);
        blu_diag_note(d, it->decl->name.span, "declared here");
        return blu_val_unknown;
      }
      BluClosure c = {it->call, it->scope, blu_arena_print(E->arena, "`%s`", it->decl->name.text)};
      return blu_elab_call_fn(E, &c, args, n, at);
    }
    default:
      blu_elab_error(E, BLU_E_NOT_CALLABLE, callee_at, "%s can't be called", blu_val_describe(E, &callee));
      return blu_val_unknown;
  }
}
