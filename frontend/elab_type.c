/* elab_type.c - types of the language against values: dimension variables, `..`, arguments and results of calls. */
#include <string.h>
#include "elab_internal.h"

BluElem blu_elab_kept(const BluElab *E) { return blu_elem_compute(E->compute); }
BluElem blu_elab_float(const BluElab *E) { return E->build && E->build->kind == BUILD_UPDATE ? blu_elab_kept(E) : E->compute; }
bool blu_elab_is_float(const BluTypeExpr *t) { return !strcmp(t->elem.text, "float"); }

/* check.c has reported what is none. */
bool blu_elab_elem(const BluElab *E, const BluName *name, BluElem *e) {
  if (!strcmp(name->text, "float")) return *e = blu_elab_float(E), true;
  if (blu_elem_parse(name->text, e)) return true;
  return false;
}

/* The scope's own dimension variable or other name for a dimension that is a lone name; NULL: it is new. Operations and
 * other built-in names don't count, so that `e` or `log` may name a dimension. */
static BluBinding *dim_binding(BluElab *E, BluScope *s, const BluDim *dim) {
  for (; s && s != E->builtins; s = s->parent) {
    BluBinding *b = blu_scope_find_here(s, dim->expr->u.name);
    if (b) return b;
  }
  return NULL;
}

/* Size of a dimension written as an expression; its name if it is one. */
static bool dim_value(BluElab *E, BluScope *s, const BluDim *dim, int64_t *size, const char **name, bool *unit) {
  BluVal v = blu_elab_expr(E, s, dim->expr);
  if (v.kind == VAL_UNKNOWN) return false;
  if (v.kind != VAL_INT || v.u.i < 1) {
    BluDiag *d = blu_elab_error(E, BLU_E_DIMENSION, dim->span, "a dimension is a positive integer, not %s", blu_val_describe(E, &v));
    const BluBinding *b = dim->expr->kind == BLU_EXPR_NAME ? dim_binding(E, s, dim) : NULL;
    if (!b || v.kind == VAL_INT || v.kind == VAL_REAL) return false;
    blu_diag_note(d, b->span, "`%s` is this, so that it is no dimension variable", dim->expr->u.name);
    return false;
  }
  *size = v.u.i;
  *name = dim->expr->kind == BLU_EXPR_NAME ? dim->expr->u.name : NULL;
  *unit = dim->expr->kind == BLU_EXPR_INT && v.u.i == 1;
  return true;
}

/* `_` stands for a size that is known here; --holes asks for it. */
static void fill_hole(BluElab *E, const BluDim *dim, int64_t size, const char *name) {
  if (!E->options->holes) return;
  if (name) blu_diags_add(E->diags, BLU_N_HOLE, dim->span, "`_` is %s = %lld", name, (long long)size);
  else blu_diags_add(E->diags, BLU_N_HOLE, dim->span, "`_` is %lld", (long long)size);
}

static bool no_hole(BluElab *E, const BluDim *dim) {
  BluDiag *d = blu_elab_error(E, BLU_E_DIMENSION, dim->span, "nothing says how large `_` is here");
  blu_diag_help(d, "`_` may stand in parameters and results of functions, where a call gives it a size");
  return false;
}

static bool too_many(BluElab *E, BluSpan at) {
  blu_elab_error(E, BLU_E_DIMENSION, at, "a tensor has at most %d dimensions", BLU_MAX_RANK);
  return false;
}

/* Ops refuse to make larger tensors; this asks one of them about what comes from outside. */
bool blu_elab_bounded(BluElab *E, const BluType *t, BluSpan at) {
  BluWhy why = {.operand = -1};
  BluSig s = {.attrs = blu_attr_set_ints((BluAttrs){0}, "shape", t->rank, t->dim)};
  s.attrs = blu_attr_set_type(blu_attr_set_real(s.attrs, "value", 0), "elem", t->elem);
  if (blu_infer(blu_op_find("constant"), &s, &why)) return true;
  blu_elab_error(E, BLU_E_DIMENSION, at, "%s", why.text);
  return false;
}

/* The name and unit of a dimension as a function's caller knows them: those of its argument for a dimension variable;
 * names of the function's own surroundings mean nothing there, unless they stand at the top of a file. */
static void as_caller_knows(BluElab *E, BluScope *s, const BluDim *dim, const char **name, bool *unit) {
  const BluBinding *b = *name ? dim_binding(E, s, dim) : NULL;
  if (!b) return;
  if (b->dim) {
    *name = b->dim_name;
    *unit = b->dim_unit;
    return;
  }
  while (s->parent && s->parent != E->builtins) s = s->parent;
  if (blu_scope_find_here(s, *name) != b) *name = NULL;
}

/* `have`: the type of the value, which fills holes; NULL where there is none. */
static bool type_of(BluElab *E, BluScope *s, const BluTypeExpr *t, const BluRest *rest, const BluType *have,
                    bool result, BluType *out) {
  *out = (BluType){0};
  if (!blu_elab_elem(E, &t->elem, &out->elem)) return false;
  for (const BluDim *d = t->dims; d; d = d->next) {
    if (d->kind == BLU_DIM_HOLE && (!have || out->rank >= have->rank)) return no_hole(E, d);
    if (d->kind == BLU_DIM_REST && !rest) {
      blu_elab_error(E, BLU_E_DIMENSION, d->span, "`..` stands for dimensions of an argument; here all must be known");
      return false;
    }
    int n = d->kind == BLU_DIM_REST ? rest->n : 1;
    if (out->rank + n > BLU_MAX_RANK) return too_many(E, t->span);
    for (int i = 0; i < n; i++, out->rank++) {
      int k = out->rank;
      if (d->kind == BLU_DIM_REST) {
        out->dim[k] = rest->dim[i], out->name[k] = rest->name[i], out->unit[k] = rest->unit[i];
        continue;
      }
      if (d->kind == BLU_DIM_HOLE) {
        out->dim[k] = have->dim[k], out->name[k] = have->name[k], out->unit[k] = have->unit[k];
        fill_hole(E, d, out->dim[k], out->name[k]);
        continue;
      }
      if (!dim_value(E, s, d, &out->dim[k], &out->name[k], &out->unit[k])) return false;
      if (result) as_caller_knows(E, s, d, &out->name[k], &out->unit[k]);
    }
  }
  return blu_elab_bounded(E, out, t->span);
}

bool blu_elab_type(BluElab *E, BluScope *s, const BluTypeExpr *t, BluType *out) {
  return type_of(E, s, t, NULL, NULL, false, out);
}

bool blu_elab_slot_type(BluElab *E, BluScope *s, const BluTypeExpr *t, BluSlot *slot) {
  if (!blu_elab_type(E, s, t, &slot->type)) return false;
  slot->computes = blu_elab_is_float(t);
  slot->used = slot->type.elem;
  if (slot->computes) slot->type.elem = blu_elab_kept(E);
  return true;
}

/* A parameter's type with the sizes that are known: "f32[.., I = 784]". */
static const char *wanted(BluElab *E, BluScope *s, const BluTypeExpr *t) {
  BluElem e;
  const char *text = blu_elab_elem(E, &t->elem, &e) ? blu_elem_name(e) : t->elem.text;
  for (const BluDim *d = t->dims; d; d = d->next) {
    const char *dim = d->kind == BLU_DIM_REST ? ".." : "_";
    if (d->kind == BLU_DIM_EXPR) {
      const BluBinding *b = d->expr->kind == BLU_EXPR_NAME ? dim_binding(E, s, d) : NULL;
      BluVal v = d->expr->kind == BLU_EXPR_NAME && !b ? blu_val_none : blu_elab_expr(E, s, d->expr);
      const char *name = d->expr->kind == BLU_EXPR_NAME ? d->expr->u.name : NULL;
      if (v.kind != VAL_INT) dim = name ? name : "?";
      else if (name) dim = blu_arena_print(E->arena, "%s = %lld", name, (long long)v.u.i);
      else dim = blu_arena_print(E->arena, "%lld", (long long)v.u.i);
    }
    text = blu_arena_print(E->arena, "%s%s%s", text, d == t->dims ? "[" : ", ", dim);
  }
  return t->dims ? blu_arena_print(E->arena, "%s]", text) : text;
}

/* If joining the last dimensions of the argument would make it fit, how to write that. */
static void suggest_joining(BluElab *E, BluScope *s, BluDiag *d, const BluParam *p, const BluOperand *arg, const BluType *have) {
  const BluDim *last = p->type->dims;
  int fixed = 0;
  bool rest = false;
  for (const BluDim *k = last; k; k = k->next) {
    last = k, rest |= k->kind == BLU_DIM_REST;
    fixed += k->kind != BLU_DIM_REST;
  }
  if (!last || last->kind != BLU_DIM_EXPR || (last->expr->kind == BLU_EXPR_NAME && !dim_binding(E, s, last))) return;
  BluVal v = blu_elab_expr(E, s, last->expr);
  int64_t n = 1;
  int from = have->rank;
  while (from > 0 && v.kind == VAL_INT && n < v.u.i) n *= have->dim[--from];
  if (v.kind != VAL_INT || n != v.u.i || from >= have->rank - 1 || (!rest && from + 1 != fixed)) return;
  const char *text = "";
  for (int i = 0; i < from; i++)
    text = have->name[i] ? blu_arena_print(E->arena, "%s%s, ", text, have->name[i])
                         : blu_arena_print(E->arena, "%s%lld, ", text, (long long)have->dim[i]);
  blu_diag_help(d, "join its last %d dimensions: `reshape(%s, %s%lld)`", have->rank - from, blu_elab_written(E, arg, true), text,
                (long long)n);
}

static BluDiag *mismatch(BluElab *E, BluScope *s, const BluParam *p, const BluOperand *arg, const BluType *have,
                         const char *reason, BluSpan at) {
  BluDiag *d = blu_elab_error(E, BLU_E_ARGUMENT_TYPE, arg->span, "`%s` should be %s, but is %s: %s", p->name.text,
                              wanted(E, s, p->type), blu_type_text(E, have), reason);
  blu_diag_note(d, at, "by this signature");
  suggest_joining(E, s, d, p, arg, have);
  return d;
}

/* Where the size of a dimension comes from: the argument that bound it, or the call that made the instance. */
static void note_origin(BluElab *E, BluScope *s, BluDiag *d, const BluDim *dim, int64_t size) {
  const BluBinding *b = dim->expr->kind == BLU_EXPR_NAME ? dim_binding(E, s, dim) : NULL;
  if (!b) return;
  if (b->dim) {
    blu_diag_note(d, b->from, "`%s` = %lld comes from this argument", dim->expr->u.name, (long long)size);
    return;
  }
  while (s && blu_scope_find_here(s, dim->expr->u.name) != b) s = s->parent;
  if (s && s->instance)
    blu_diag_note(d, s->instance->made, "`%s` = %lld was given here", dim->expr->u.name, (long long)size);
}

/* Matches one dimension of a parameter's type: binds a new dimension variable, or compares. */
static bool match_dim(BluElab *E, BluScope *s, const BluParam *p, const BluDim *dim, const BluOperand *arg,
                      BluType *have, const BluType *given, int i) {
  if (dim->kind == BLU_DIM_HOLE) return fill_hole(E, dim, have->dim[i], have->name[i]), true;
  if (dim->expr->kind == BLU_EXPR_NAME && !dim_binding(E, s, dim)) {
    BluBinding *b = blu_scope_define(E, s, dim->expr->u.name, blu_val_int(have->dim[i]), dim->span);
    b->dim = true;
    b->dim_name = have->name[i];
    b->dim_unit = have->unit[i];
    b->from = arg->span;
    have->name[i] = dim->expr->u.name;
    have->unit[i] = false;
    return true;
  }
  int64_t size;
  if (!dim_value(E, s, dim, &size, &have->name[i], &have->unit[i])) return false;
  if (size == given->dim[i]) return true;
  BluDiag *d = mismatch(E, s, p, arg, given,
                        blu_arena_print(E->arena, "dimension %d is %lld, not %lld", i, (long long)given->dim[i],
                                        (long long)size),
                        dim->span);
  note_origin(E, s, d, dim, size);
  return false;
}

static bool match_rest(BluElab *E, BluScope *s, const BluParam *p, const BluOperand *arg, BluRest *rest, const BluType *given,
                       int from, int n, BluSpan at) {
  if (!rest->bound) {
    *rest = (BluRest){.bound = true, .n = n};
    for (int i = 0; i < n; i++) {
      rest->dim[i] = given->dim[from + i];
      rest->name[i] = given->name[from + i];
      rest->unit[i] = given->unit[from + i];
    }
    return true;
  }
  bool same = rest->n == n;
  for (int i = 0; same && i < n; i++) same = rest->dim[i] == given->dim[from + i];
  if (!same) mismatch(E, s, p, arg, given, "`..` stands for the same dimensions everywhere in a signature", at);
  return same;
}

BluVal blu_elab_fit(BluElab *E, BluScope *s, const BluParam *p, BluRest *rest, const BluOperand *arg) {
  if (!p->type || arg->val.kind == VAL_UNKNOWN) return arg->val;
  BluElem elem;
  BluType given;
  if (!blu_elab_elem(E, &p->type->elem, &elem)) return blu_val_unknown;
  if (!blu_val_type(&arg->val, &given)) {
    BluValKind k = arg->val.kind;
    bool scalar = k == VAL_HOST || (k >= VAL_INT && k <= VAL_BOOL);
    if (scalar && !p->type->ndims) {
      MlirValue v;
      BluType t = blu_type_make(elem, 0, NULL);
      return blu_elab_spread(E, arg, &t, &v) ? blu_val_tensor(E, v, &t) : blu_val_unknown;
    }
    BluDiag *d = blu_elab_error(E, BLU_E_ARGUMENT_TYPE, arg->span, "`%s` should be a tensor, not %s", p->name.text,
                                blu_val_describe(E, &arg->val));
    blu_diag_note(d, p->type->span, "by this signature");
    return blu_val_unknown;
  }
  if (given.elem != elem) {
    BluDiag *d = mismatch(E, s, p, arg, &given, blu_arena_print(E->arena, "its elements should be %s", blu_elem_name(elem)),
                          p->type->elem.span);
    blu_diag_help(d, "convert it: `%s(%s)`", p->type->elem.text, blu_elab_written(E, arg, true));
    return blu_val_unknown;
  }
  int fixed = 0, rests = 0;
  for (const BluDim *d = p->type->dims; d; d = d->next) *(d->kind == BLU_DIM_REST ? &rests : &fixed) += 1;
  if (rests > 1) {
    blu_elab_error(E, BLU_E_DIMENSION, p->type->span, "a type has at most one `..`");
    return blu_val_unknown;
  }
  if (rests ? given.rank < fixed : given.rank != fixed) {
    mismatch(E, s, p, arg, &given,
             blu_arena_print(E->arena, "it should have %s%d dimension%s, not %d", rests ? "at least " : "", fixed,
                             fixed == 1 ? "" : "s", given.rank),
             p->type->span);
    return blu_val_unknown;
  }
  BluType seen = given;
  int i = 0;
  for (const BluDim *d = p->type->dims; d; d = d->next) {
    if (d->kind == BLU_DIM_REST) {
      int n = given.rank - fixed;
      if (!match_rest(E, s, p, arg, rest, &given, i, n, d->span)) return blu_val_unknown;
      i += n;
    } else if (!match_dim(E, s, p, d, arg, &seen, &given, i++)) {
      return blu_val_unknown;
    }
  }
  if (!E->build) return arg->val;
  MlirValue v;
  return blu_elab_tensor(E, arg, &v, &given) ? blu_val_tensor(E, v, &seen) : blu_val_unknown;
}

static BluVal fit_one(BluElab *E, BluScope *s, const BluResult *r, const BluRest *rest, BluVal v, BluSpan at) {
  BluType want, have;
  bool tensor = blu_val_type(&v, &have);
  if (v.kind == VAL_UNKNOWN ||
      !type_of(E, s, r->type, rest->bound ? rest : NULL, tensor ? &have : NULL, true, &want))
    return blu_val_unknown;
  BluOperand o = {.val = v, .span = at};
  MlirValue m;
  if (!blu_val_type(&v, &have)) {
    bool scalar = v.kind == VAL_HOST || (v.kind >= VAL_INT && v.kind <= VAL_BOOL);
    if (scalar && want.rank == 0 && E->build)
      return blu_elab_spread(E, &o, &want, &m) ? blu_val_tensor(E, m, &want) : blu_val_unknown;
    BluDiag *d = blu_elab_error(E, BLU_E_RESULT_TYPE, at, "the result should be %s, but is %s", blu_type_text(E, &want),
                                blu_val_describe(E, &v));
    blu_diag_note(d, r->type->span, "by this signature");
    return blu_val_unknown;
  }
  if (!blu_type_same(&want, &have)) {
    BluDiag *d = blu_elab_error(E, BLU_E_RESULT_TYPE, at, "the result should be %s, but is %s", blu_type_text(E, &want),
                                blu_type_text(E, &have));
    blu_diag_note(d, r->type->span, "by this signature");
    BluType cast = have;
    cast.elem = want.elem;
    if (blu_type_same(&want, &cast)) blu_diag_help(d, "convert it: `%s(...)`", r->type->elem.text);
    return blu_val_unknown;
  }
  return blu_elab_tensor(E, &o, &m, &have) ? blu_val_tensor(E, m, &want) : blu_val_unknown;
}

BluVal blu_elab_fit_result(BluElab *E, BluScope *s, const BluSignature *sig, const BluRest *rest, BluVal v,
                           BluSpan at) {
  if (!sig->nresults || v.kind == VAL_UNKNOWN) return v;
  if (!sig->tuple) return fit_one(E, s, sig->results, rest, v, at);
  if (v.kind != VAL_TUPLE || v.u.list->n != sig->nresults) {
    BluDiag *d = blu_elab_error(
        E, BLU_E_RESULT_TYPE, at, "the result should be a tuple of %d values, but is %s", sig->nresults,
        v.kind == VAL_TUPLE ? blu_arena_print(E->arena, "one of %d", v.u.list->n) : blu_val_describe(E, &v));
    blu_diag_note(d, sig->span, "by this signature");
    return blu_val_unknown;
  }
  BluVal out = blu_val_list(E, VAL_TUPLE, sig->nresults);
  int i = 0;
  for (const BluResult *r = sig->results; r; r = r->next, i++)
    out.u.list->item[i] = fit_one(E, s, r, rest, v.u.list->item[i], at);
  return out;
}
