/* elab_type.c - types of the language against values: dimension variables, `..`, arguments and results of calls. */
#include <string.h>
#include "elab_internal.h"

bool blu_elab_elem(BluElab *E, const BluName *name, BluElem *e) {
  if (!strcmp(name->text, "float")) return *e = BLU_F32, true;
  if (blu_elem_parse(name->text, e)) return true;
  if (!strcmp(name->text, "bf16") || !strcmp(name->text, "f16"))
    return blu_elab_unsupported(E, name->span, blu_arena_print(E->arena, "the type `%s`", name->text)), false;
  BluNearest near = {.wanted = name->text};
  blu_nearest_try(&near, "float");
  for (int i = 0; i < BLU_ELEMS; i++) blu_nearest_try(&near, blu_elem_name((BluElem)i));
  BluDiag *d = blu_elab_error(E, BLU_E_UNKNOWN_TYPE, name->span, "there is no element type `%s`", name->text);
  if (near.best) blu_diag_help(d, "did you mean `%s`?", near.best);
  return false;
}

/* Size of a dimension written as an expression; its name if it is one. */
static bool dim_value(BluElab *E, BluScope *s, const BluDim *dim, int64_t *size, const char **name, bool *unit) {
  BluVal v = blu_elab_expr(E, s, dim->expr);
  if (v.kind == VAL_UNKNOWN) return false;
  if (v.kind != VAL_INT || v.u.i < 1) {
    blu_elab_error(E, BLU_E_DIMENSION, dim->span, "a dimension is a positive integer, not %s", blu_val_describe(E, &v));
    return false;
  }
  *size = v.u.i;
  *name = dim->expr->kind == BLU_EXPR_NAME ? dim->expr->u.name : NULL;
  *unit = dim->expr->kind == BLU_EXPR_INT && v.u.i == 1;
  return true;
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

static bool hole(BluElab *E, const BluDim *dim) {
  blu_elab_unsupported(E, dim->span, "`_` as a dimension (`bluc --holes`)");
  return false;
}

static bool too_many(BluElab *E, BluSpan at) {
  blu_elab_error(E, BLU_E_DIMENSION, at, "a tensor has at most %d dimensions", BLU_MAX_RANK);
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

static bool type_of(BluElab *E, BluScope *s, const BluTypeExpr *t, const BluRest *rest, bool result, BluType *out) {
  *out = (BluType){0};
  if (!blu_elab_elem(E, &t->elem, &out->elem)) return false;
  for (const BluDim *d = t->dims; d; d = d->next) {
    if (d->kind == BLU_DIM_HOLE) return hole(E, d);
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
      if (!dim_value(E, s, d, &out->dim[k], &out->name[k], &out->unit[k])) return false;
      if (result) as_caller_knows(E, s, d, &out->name[k], &out->unit[k]);
    }
  }
  return true;
}

bool blu_elab_type(BluElab *E, BluScope *s, const BluTypeExpr *t, BluType *out) {
  return type_of(E, s, t, NULL, false, out);
}

static void mismatch(BluElab *E, const BluParam *p, const BluOperand *arg, const BluType *have, const char *reason,
                     BluSpan at) {
  BluDiag *d = blu_elab_error(E, BLU_E_ARGUMENT_TYPE, arg->span, "`%s` can't be %s: %s", p->name.text,
                              blu_type_text(E, have), reason);
  blu_diag_note(d, at, "by this signature");
}

/* Matches one dimension of a parameter's type: binds a new dimension variable, or compares. */
static bool match_dim(BluElab *E, BluScope *s, const BluParam *p, const BluDim *dim, const BluOperand *arg,
                      BluType *have, const BluType *given, int i) {
  if (dim->kind == BLU_DIM_HOLE) return hole(E, dim);
  if (dim->expr->kind == BLU_EXPR_NAME && !dim_binding(E, s, dim)) {
    BluBinding *b = blu_scope_define(E, s, dim->expr->u.name, blu_val_int(have->dim[i]), dim->span);
    b->dim = true;
    b->dim_name = have->name[i];
    b->dim_unit = have->unit[i];
    have->name[i] = dim->expr->u.name;
    have->unit[i] = false;
    return true;
  }
  int64_t size;
  if (!dim_value(E, s, dim, &size, &have->name[i], &have->unit[i])) return false;
  if (size == given->dim[i]) return true;
  mismatch(E, p, arg, given,
           have->name[i]
               ? blu_arena_print(E->arena, "dimension %d should be %s = %lld", i, have->name[i], (long long)size)
               : blu_arena_print(E->arena, "dimension %d should be %lld", i, (long long)size),
           dim->span);
  return false;
}

static bool match_rest(BluElab *E, const BluParam *p, const BluOperand *arg, BluRest *rest, const BluType *given,
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
  if (!same) mismatch(E, p, arg, given, "`..` stands for the same dimensions everywhere in a signature", at);
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
    mismatch(E, p, arg, &given, blu_arena_print(E->arena, "its elements should be %s", blu_elem_name(elem)),
             p->type->elem.span);
    return blu_val_unknown;
  }
  int fixed = 0, rests = 0;
  for (const BluDim *d = p->type->dims; d; d = d->next) *(d->kind == BLU_DIM_REST ? &rests : &fixed) += 1;
  if (rests > 1) {
    blu_elab_error(E, BLU_E_DIMENSION, p->type->span, "a type has at most one `..`");
    return blu_val_unknown;
  }
  if (rests ? given.rank < fixed : given.rank != fixed) {
    mismatch(E, p, arg, &given,
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
      if (!match_rest(E, p, arg, rest, &given, i, n, d->span)) return blu_val_unknown;
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
  if (v.kind == VAL_UNKNOWN || !type_of(E, s, r->type, rest->bound ? rest : NULL, true, &want)) return blu_val_unknown;
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
