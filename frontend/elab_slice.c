/* elab_slice.c - parts of tensors: x[a:b, .., i], split(x, 4, axis = -1), concat(x, y, axis = 0). */
#include <string.h>
#include "elab_internal.h"

/* ---- x[...] ---- */

/* An integer that counts from the end if it is negative, in [0, most]. */
static bool whole(BluElab *E, BluScope *s, const BluExpr *e, int64_t n, int64_t most, const char *what, int64_t *out) {
  BluVal v = blu_elab_expr(E, s, e);
  BluType t;
  if (v.kind == VAL_UNKNOWN) return false;
  if (v.kind != VAL_INT) {
    BluDiag *d = blu_elab_error(E, BLU_E_INDEX, e->span, "%s is an integer known when compiled, not %s", what,
                                blu_val_describe(E, &v));
    if (blu_val_type(&v, &t)) blu_diag_help(d, "`x[ids]`, with nothing beside it, takes rows by their numbers");
    return false;
  }
  *out = v.u.i < 0 ? v.u.i + n : v.u.i;
  if (*out >= 0 && *out <= most) return true;
  blu_elab_error(E, BLU_E_INDEX, e->span, "%lld is no %s of a dimension of %lld", (long long)v.u.i,
                 most == n ? "end of a part" : "index", (long long)n);
  return false;
}

static BluVal apply_slice(BluElab *E, const BluOperand *x, const BluType *t, const int64_t *start, const int64_t *stop,
                          BluSpan at) {
  bool all = true;
  for (int i = 0; i < t->rank; i++) all &= start[i] == 0 && stop[i] == t->dim[i];
  if (all) return x->val;
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "start", t->rank, start);
  as = blu_attr_set_ints(as, "stop", t->rank, stop);
  return blu_elab_apply(E, blu_op_find("slice"), x, 1, &as, at);
}

/* x without the dimensions marked in `drop`, all of which are 1; the others keep their names. */
static BluVal drop_dims(BluElab *E, BluVal x, const bool *drop, BluSpan at) {
  BluType have, t = {0};
  if (!blu_val_type(&x, &have)) return x;
  t.elem = have.elem;
  for (int i = 0; i < have.rank; i++) {
    if (drop[i]) continue;
    t.dim[t.rank] = have.dim[i], t.name[t.rank] = have.name[i], t.unit[t.rank++] = have.unit[i];
  }
  if (t.rank == have.rank) return x;
  BluOperand in = {.val = x, .span = at};
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", t.rank, t.dim);
  BluVal v = blu_elab_apply(E, blu_op_find("reshape"), &in, 1, &as, at);
  return v.kind == VAL_TENSOR ? blu_val_tensor(E, v.u.tensor->value, &t) : v;
}

BluVal blu_elab_part(BluElab *E, BluScope *s, const BluExpr *e, const BluOperand *x, const BluType *t) {
  int64_t start[BLU_MAX_RANK], stop[BLU_MAX_RANK];
  bool drop[BLU_MAX_RANK] = {0};
  int subs = 0, rests = 0, i = 0;
  for (const BluSub *sub = e->u.index.subs; sub; sub = sub->next) *(sub->kind == BLU_SUB_REST ? &rests : &subs) += 1;
  const BluSub *first = e->u.index.subs;
  if (subs == 1 && !rests && first->kind == BLU_SUB_AT && blu_op_find("gather")) {
    BluOperand in[2] = {*x, {.val = blu_elab_expr(E, s, first->from), .span = first->span}};
    BluType ids;
    if (blu_val_type(&in[1].val, &ids)) return blu_elab_apply(E, blu_op_find("gather"), in, 2, &(BluAttrs){0}, e->span);
  }
  if (rests > 1 || subs > t->rank) {
    BluDiag *d = blu_elab_error(E, BLU_E_INDEX, e->span,
                                rests > 1 ? "`..` stands once, for the dimensions that nothing else names"
                                          : "%d subscripts for %d dimensions",
                                subs, t->rank);
    blu_diag_label(d, x->span, "%s", blu_type_text(E, t));
    return blu_val_unknown;
  }
  if (!blu_op_find("slice")) return blu_elab_unsupported(E, e->span, "a part of a tensor");
  for (int k = 0; k < t->rank; k++) start[k] = 0, stop[k] = t->dim[k];
  for (const BluSub *sub = first; sub; sub = sub->next) {
    if (sub->kind == BLU_SUB_REST) {
      i += t->rank - subs;
      continue;
    }
    bool at = sub->kind == BLU_SUB_AT;
    int64_t n = t->dim[i];
    if (sub->from && !whole(E, s, sub->from, n, at ? n - 1 : n, at ? "an index" : "an end of a part", &start[i]))
      return blu_val_unknown;
    if (at) stop[i] = start[i] + 1, drop[i] = true;
    else if (sub->to && !whole(E, s, sub->to, n, n, "an end of a part", &stop[i])) return blu_val_unknown;
    if (stop[i] <= start[i]) {
      blu_elab_error(E, BLU_E_INDEX, sub->span, "the part from %lld to %lld is empty", (long long)start[i],
                     (long long)stop[i]);
      return blu_val_unknown;
    }
    i++;
  }
  return drop_dims(E, apply_slice(E, x, t, start, stop, e->span), drop, e->span);
}

/* ---- split and concat ---- */

/* The argument `axis`, which counts from the end if it is negative; -1 (reported) if it makes no sense. */
static int axis_of(BluElab *E, const BluOperand *arg, int rank) {
  if (arg->val.kind == VAL_INT && arg->val.u.i >= -rank && arg->val.u.i < rank)
    return (int)(arg->val.u.i < 0 ? arg->val.u.i + rank : arg->val.u.i);
  if (arg->val.kind != VAL_UNKNOWN)
    blu_elab_error(E, BLU_E_OP, arg->span, "`axis` is an integer from %d to %d here, not %s", -rank, rank - 1,
                   blu_val_describe(E, &arg->val));
  return -1;
}

BluVal blu_elab_split(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  BluType t;
  BluOperand last = {.val = blu_val_int(-1), .span = at};
  bool named = n == 3 && args[2].name.text && !strcmp(args[2].name.text, "axis");
  if (n < 2 || n > 3 || args[0].name.text || args[1].name.text || (n == 3 && !named)) {
    blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s(x, parts, axis = -1)` takes a tensor and a number of parts", self->name);
    return blu_val_unknown;
  }
  if (args[0].val.kind == VAL_UNKNOWN || args[1].val.kind == VAL_UNKNOWN) return blu_val_unknown;
  if (!blu_val_type(&args[0].val, &t)) {
    blu_elab_error(E, BLU_E_KIND, args[0].span, "`%s` needs a tensor here, not %s", self->name,
                   blu_val_describe(E, &args[0].val));
    return blu_val_unknown;
  }
  int axis = axis_of(E, n == 3 ? &args[2] : &last, t.rank);
  if (axis < 0) return blu_val_unknown;
  int64_t parts = args[1].val.kind == VAL_INT ? args[1].val.u.i : 0;
  if (parts < 1 || t.dim[axis] % parts) {
    BluDiag *d = blu_elab_error(E, BLU_E_OP, args[1].span, "dimension %d of %lld can't be split into %s equal parts", axis,
                                (long long)t.dim[axis],
                                parts ? blu_arena_print(E->arena, "%lld", (long long)parts)
                                      : blu_val_describe(E, &args[1].val));
    blu_diag_label(d, args[0].span, "%s", blu_type_text(E, &t));
    return blu_val_unknown;
  }
  enum { MOST = 4096 };
  if (parts > MOST) {
    blu_elab_error(E, BLU_E_OP, args[1].span, "more than %d parts", MOST);
    return blu_val_unknown;
  }
  BluVal out = blu_val_list(E, VAL_LIST, (int)parts);
  int64_t start[BLU_MAX_RANK] = {0}, stop[BLU_MAX_RANK], step = t.dim[axis] / parts;
  memcpy(stop, t.dim, sizeof stop);
  for (int i = 0; i < parts; i++) {
    start[axis] = i * step, stop[axis] = (i + 1) * step;
    out.u.list->item[i] = apply_slice(E, &args[0], &t, start, stop, at);
  }
  return out;
}

BluVal blu_elab_concat(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  BluOperand one[1];
  BluType t;
  int count = 0, axis = -1, listed = n && args[0].val.kind == VAL_LIST && !args[0].name.text;
  const BluOperand *axis_arg = NULL;
  for (int i = 0; i < n; i++) {
    if (args[i].val.kind == VAL_UNKNOWN) return blu_val_unknown;
    if (!args[i].name.text) count++;
    else if (!strcmp(args[i].name.text, "axis")) axis_arg = &args[i];
    else count = -n;
  }
  int total = listed ? args[0].val.u.list->n : count;
  if (!axis_arg || count < 1 || (listed && count != 1) || total < 1) {
    blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s(x, y, axis = 0)` takes tensors, or a list of them, and an axis", self->name);
    return blu_val_unknown;
  }
  BluOperand joined = {.val = blu_val_none};
  for (int i = 0, k = 0; k < total; i++) {
    if (!listed && args[i].name.text) continue;
    one[0] = listed ? (BluOperand){.val = args[0].val.u.list->item[k], .span = args[0].span} : args[i];
    k++;
    if (!blu_val_type(&one[0].val, &t)) {
      if (one[0].val.kind != VAL_UNKNOWN)
        blu_elab_error(E, BLU_E_KIND, one[0].span, "`%s` needs tensors, not %s", self->name,
                       blu_val_describe(E, &one[0].val));
      return blu_val_unknown;
    }
    if (k == 1) {
      joined = one[0];
      axis = axis_of(E, axis_arg, t.rank);
      if (axis < 0) return blu_val_unknown;
      continue;
    }
    BluAttrs as = blu_attr_set_int((BluAttrs){0}, "axis", axis);
    joined.val = blu_elab_apply(E, blu_op_find("concat"), (BluOperand[]){joined, one[0]}, 2, &as, at);
    if (joined.val.kind == VAL_UNKNOWN) return joined.val;
  }
  return joined.val;
}
