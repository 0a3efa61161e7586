/* elab_op.c - ops over tensors: literals take the type they meet, shapes broadcast by the language's rule, and what
 * blu_infer refuses is reported at the operand to blame. */
#include <string.h>
#include "elab_internal.h"

enum { WHERE_CONDITION = 0 };

bool blu_elab_tensor(BluElab *E, const BluOperand *v, MlirValue *out, BluType *t) {
  if (v->val.kind == VAL_UNKNOWN) return false;
  if (!blu_val_type(&v->val, t)) {
    blu_elab_error(E, BLU_E_KIND, v->span, "a tensor is needed here, not %s", blu_val_describe(E, &v->val));
    return false;
  }
  if (!E->build) {
    blu_elab_error(E, BLU_E_NO_FUNCTION, v->span,
                   "tensors are computed in functions, entries and the `train` block alone");
    return false;
  }
  *out = v->val.kind == VAL_TENSOR ? v->val.u.tensor->value : blu_cast_to(&E->build->b, blu_build_slot(E, v->val.u.slot), t->elem);
  return true;
}

/* ---- literals and host scalars that meet a tensor ---- */

static bool literal_fits(BluElab *E, const BluOperand *v, BluElem e, double *x) {
  static const struct { int64_t lo, hi; } range[BLU_ELEMS] = {
    [BLU_I32] = {INT32_MIN, INT32_MAX}, [BLU_I64] = {INT64_MIN, INT64_MAX}, [BLU_U8] = {0, UINT8_MAX}};
  if (v->val.kind == VAL_BOOL && e == BLU_BOOL) return *x = v->val.u.b, true;
  if (blu_elem_is_float(e) && blu_val_number(&v->val, x)) return true;
  if (e != BLU_BOOL && v->val.kind == VAL_INT && v->val.u.i >= range[e].lo && v->val.u.i <= range[e].hi)
    return *x = (double)v->val.u.i, true;
  BluDiag *d =
      blu_elab_error(E, BLU_E_LITERAL, v->span, "%s is no value of type %s, the type of the tensor that it meets",
                     blu_val_describe(E, &v->val), blu_elem_name(e));
  if (v->val.kind == VAL_REAL) blu_diag_help(d, "convert the tensor: `f32(x)`");
  return false;
}

bool blu_elab_spread(BluElab *E, const BluOperand *v, const BluType *t, MlirValue *out) {
  BluType have;
  double x;
  if (!E->build) {
    blu_elab_error(E, BLU_E_NO_FUNCTION, v->span,
                   "tensors are computed in functions, entries and the `train` block alone");
    return false;
  }
  BluBuilder *b = &E->build->b;
  if (v->val.kind == VAL_HOST) {
    bool is_bool = blu_host_is_bool(v->val.u.host);
    if (is_bool != (t->elem == BLU_BOOL) || (!is_bool && !blu_elem_is_float(t->elem))) {
      blu_elab_error(E, BLU_E_ELEMENTS, v->span, "%s does not go together with %s", blu_val_describe(E, &v->val),
                     blu_type_text(E, t));
      return false;
    }
    MlirValue s = blu_host_emit(E, v->val.u.host);
    blu_build_at(E, v->span);
    *out = blu_broadcast_to(b, blu_cast_to(b, s, t->elem), t);
    return true;
  }
  if (v->val.kind >= VAL_INT && v->val.kind <= VAL_BOOL) {
    if (!literal_fits(E, v, t->elem, &x)) return false;
    blu_build_at(E, v->span);
    *out = blu_constant(b, t, x);
    return true;
  }
  if (!blu_elab_tensor(E, v, out, &have)) return false;
  blu_build_at(E, v->span);
  *out = blu_broadcast_to(b, *out, t);
  return true;
}

/* ---- broadcasting ---- */

static const char *dim_text(BluElab *E, const BluType *t, int i) {
  return t->name[i] ? blu_arena_print(E->arena, "%s = %lld", t->name[i], (long long)t->dim[i])
                    : blu_arena_print(E->arena, "%lld", (long long)t->dim[i]);
}

const char *blu_elab_written(BluElab *E, const BluOperand *v, bool argument) {
  static const char *const something = "...";
  size_t n;
  if (v->span.line != v->span.end_line || !v->span.src || v->span.src->library) return something;
  const char *line = blu_source_line(v->span.src, v->span.line, &n);
  for (const char *c = line; c < line + n; c++)
    if ((unsigned char)*c >= 0x80) return something; /* columns are not bytes */
  int from = v->span.col - 1, to = v->span.end_col - 1;
  enum { SHORT = 24 };
  if (to - from > SHORT || to > (int)n) return something;
  for (int i = from; i < to && !argument; i++)
    if (strchr(" +-*/@^", line[i])) return something;
  return blu_arena_copy(E->arena, line + from, (size_t)(to - from));
}

/* `reshape(x, B, 1)` for the dimensions of t, with a 1 put at `one` (or that one left out, if it is there). */
static const char *reshaped(BluElab *E, const BluOperand *v, const BluType *t, int one, bool drop) {
  const char *text = blu_arena_print(E->arena, "reshape(%s", blu_elab_written(E, v, true));
  for (int i = 0; i <= t->rank; i++) {
    if (i == one && !drop) text = blu_arena_print(E->arena, "%s, 1", text);
    if (i == t->rank || (i == one && drop)) continue;
    text = t->name[i] ? blu_arena_print(E->arena, "%s, %s", text, t->name[i])
                      : blu_arena_print(E->arena, "%s, %lld", text, (long long)t->dim[i]);
  }
  return blu_arena_print(E->arena, "%s)", text);
}

/* The two mistakes that are nearly always the cause: a column against a row, and the leading dimensions alone. */
static bool suggest(BluElab *E, BluDiag *d, const BluType *a, const BluType *b, const BluOperand *x, const BluOperand *y) {
  bool left = a->rank < b->rank;
  const BluType *low = left ? a : b, *high = left ? b : a;
  const BluOperand *l = left ? x : y, *h = left ? y : x;
  if (low->rank + 1 != high->rank || !low->rank) return false;
  bool leading = true;
  for (int i = 0; i < low->rank; i++) leading &= low->dim[i] == high->dim[i];
  if (!leading) return false;
  if (high->dim[high->rank - 1] == 1)
    blu_diag_help(d, "without the last dimension of 1 they have one shape: `%s`", reshaped(E, h, high, high->rank - 1, true));
  else
    blu_diag_help(d, "a last dimension of 1 lets it stretch: `%s`", reshaped(E, l, low, low->rank, false));
  return true;
}

static void no_broadcast(BluElab *E, const BluType *a, const BluType *b, int i, int k, const BluOperand *x,
                         const BluOperand *y, BluSpan at, const char *reason) {
  BluDiag *d = blu_elab_error(E, BLU_E_BROADCAST, at,
                              "%s and %s do not go together: dimension %d of the left is %s, dimension %d of "
                              "the right is %s",
                              blu_type_text(E, a), blu_type_text(E, b), i, dim_text(E, a, i), k, dim_text(E, b, k));
  blu_diag_label(d, x->span, "%s", blu_type_text(E, a));
  blu_diag_label(d, y->span, "%s", blu_type_text(E, b));
  if (!suggest(E, d, a, b, x, y) && reason) blu_diag_help(d, "%s", reason);
}

/* `broadcast(x, B, N)` for the shape of a, its unit dimensions stretched to b's: what takes all pairs says so. */
static const char *repeated(BluElab *E, const BluOperand *v, const BluType *a, const BluType *b) {
  const char *text = blu_arena_print(E->arena, "broadcast(%s", blu_elab_written(E, v, true));
  for (int i = 0; i < a->rank; i++) {
    const BluType *t = a->unit[i] && a->dim[i] == 1 ? b : a;
    text = t->name[i] ? blu_arena_print(E->arena, "%s, %s", text, t->name[i])
                      : blu_arena_print(E->arena, "%s, %lld", text, (long long)t->dim[i]);
  }
  return blu_arena_print(E->arena, "%s)", text);
}

static bool join_equal_rank(BluElab *E, BluType *a, const BluType *b, const BluOperand *x, const BluOperand *y,
                            BluSpan at) {
  int stretched_a = -1, stretched_b = -1;
  BluType out = *a;
  for (int i = 0; i < a->rank; i++) {
    if (a->dim[i] == b->dim[i]) {
      if (!out.name[i]) out.name[i] = b->name[i];
      out.unit[i] = a->unit[i] && b->unit[i];
      continue;
    }
    bool stretch_a = a->unit[i] && a->dim[i] == 1, stretch_b = b->unit[i] && b->dim[i] == 1;
    if (!stretch_a && !stretch_b) {
      bool one = a->dim[i] == 1 || b->dim[i] == 1;
      no_broadcast(E, a, b, i, i, x, y, at,
                   one ? "a dimension stretches only if it was written `1` or made by `keep = true`" : NULL);
      return false;
    }
    if (stretch_a) stretched_a = i;
    else stretched_b = i;
    if (stretched_a >= 0 && stretched_b >= 0) {
      BluDiag *d = blu_elab_error(E, BLU_E_BROADCAST, at,
                                  "%s and %s do not go together: dimension %d of the left and dimension %d "
                                  "of the right would both stretch",
                                  blu_type_text(E, a), blu_type_text(E, b), stretched_a, stretched_b);
      blu_diag_label(d, x->span, "%s", blu_type_text(E, a));
      blu_diag_label(d, y->span, "%s", blu_type_text(E, b));
      blu_diag_help(d, "if every combination is meant, repeat one of them: `%s`", repeated(E, x, a, b));
      return false;
    }
    if (stretch_a) out.dim[i] = b->dim[i], out.name[i] = b->name[i], out.unit[i] = b->unit[i];
  }
  *a = out;
  return true;
}

/* a becomes the shape that both have together. */
static bool join(BluElab *E, BluType *a, const BluType *b, const BluOperand *x, const BluOperand *y, BluSpan at) {
  if (a->rank == b->rank) return join_equal_rank(E, a, b, x, y, at);
  const BluType *low = a->rank < b->rank ? a : b, *high = low == a ? b : a;
  int shift = high->rank - low->rank;
  for (int i = low->rank - 1; i >= 0; i--) {
    if (low->dim[i] == high->dim[i + shift]) continue;
    int ia = low == a ? i : i + shift, ib = low == a ? i + shift : i;
    no_broadcast(E, a, b, ia, ib, x, y, at, "the shape of lower rank must equal the end of the other one");
    return false;
  }
  BluType out = *high;
  for (int i = 0; i < low->rank; i++) {
    if (!out.name[i + shift]) out.name[i + shift] = low->name[i];
    out.unit[i + shift] = out.unit[i + shift] && low->unit[i];
  }
  out.elem = a->elem;
  *a = out;
  return true;
}

/* ---- elementwise ops of several operands ---- */

static bool is_logical(const BluOp *op) {
  return !strcmp(op->name, "and") || !strcmp(op->name, "or") || !strcmp(op->name, "not");
}

/* The element type that literals among the operands take. */
static BluElem common_elem(const BluElab *E, const BluOp *op, const BluOperand *in, int n) {
  int from = !strcmp(op->name, "where") ? 1 : 0;
  BluType t;
  if (is_logical(op)) return BLU_BOOL;
  for (int i = from; i < n; i++)
    if (blu_val_type(&in[i].val, &t)) return t.elem;
  for (int i = from; i < n; i++) {
    if (in[i].val.kind == VAL_REAL || in[i].val.kind == VAL_HOST) return blu_elab_float(E);
    if (in[i].val.kind == VAL_BOOL) return BLU_BOOL;
  }
  return BLU_I32;
}

static bool refuse(BluElab *E, const BluOp *op, const BluWhy *why, const BluOperand *in, int n, BluSpan at) {
  bool one = why->operand >= 0 && why->operand < n, written_between = n == 2 && strcmp(blu_op_text(op), op->name);
  BluSpan blame = one && !written_between ? in[why->operand].span : at;
  BluDiag *d = blu_elab_error(E, BLU_E_OP, blame, "`%s`: %s [%s]", blu_op_text(op), why->text, why->label);
  BluType t, u;
  for (int i = 0; i < n; i++)
    if (blu_val_type(&in[i].val, &t) && n > 1) blu_diag_label(d, in[i].span, "%s", blu_type_text(E, &t));
  if (strcmp(op->name, "matmul") || !blu_val_type(&in[0].val, &t) || !blu_val_type(&in[1].val, &u)) return false;
  if (t.rank < 2 || u.rank < 2) return false;
  if (t.dim[t.rank - 1] == u.dim[u.rank - 1])
    blu_diag_help(d, "did you mean `%s @ transpose(%s)`?", blu_elab_written(E, &in[0], false), blu_elab_written(E, &in[1], true));
  else if (t.dim[t.rank - 2] == u.dim[u.rank - 2])
    blu_diag_help(d, "did you mean `transpose(%s) @ %s`?", blu_elab_written(E, &in[0], true), blu_elab_written(E, &in[1], false));
  return false;
}

static BluVal emit(BluElab *E, const BluOp *op, const BluOperand *in, const MlirValue *value, BluSig *s, BluSpan at) {
  BluWhy why = {.operand = -1};
  if (!blu_infer(op, s, &why)) return refuse(E, op, &why, in, s->nin, at), blu_val_unknown;
  blu_build_at(E, at);
  MlirValue v = blu_build(&E->build->b, op->name, &s->attrs, s->nin, value);
  return blu_val_tensor(E, v, &s->out);
}

static BluVal apply_elementwise(BluElab *E, const BluOp *op, const BluOperand *in, int n, BluSig *s, BluSpan at) {
  BluElem elem = common_elem(E, op, in, n);
  bool where = !strcmp(op->name, "where");
  BluType shape = {0}, t;
  int first = -1;
  for (int i = 0; i < n; i++) {
    if (!blu_val_type(&in[i].val, &t)) continue;
    bool condition = where && i == WHERE_CONDITION;
    if (!condition && t.elem != elem) {
      int other = 0;
      for (BluType u; other < i && (!blu_val_type(&in[other].val, &u) || (where && other == WHERE_CONDITION));
           other++) {}
      BluDiag *d = blu_elab_error(E, BLU_E_ELEMENTS, at, "`%s` of %s and %s elements", blu_op_text(op),
                                  blu_elem_name(elem), blu_elem_name(t.elem));
      if (other < i) blu_diag_label(d, in[other].span, "%s", blu_val_describe(E, &in[other].val));
      blu_diag_label(d, in[i].span, "%s", blu_type_text(E, &t));
      bool left = blu_elem_is_float(t.elem) && !blu_elem_is_float(elem) && other < i;
      blu_diag_help(d, "convert one of them, for example with `%s(%s)`", blu_elem_name(left ? t.elem : elem),
                    blu_elab_written(E, left ? &in[other] : &in[i], true));
      return blu_val_unknown;
    }
    if (first < 0) shape = t, first = i;
    else if (!join(E, &shape, &t, &in[first], &in[i], at)) return blu_val_unknown;
  }
  MlirValue value[BLU_MAX_IN];
  for (int i = 0; i < n; i++) {
    shape.elem = where && i == WHERE_CONDITION ? BLU_BOOL : elem;
    if (blu_val_type(&in[i].val, &t) && where && i == WHERE_CONDITION) shape.elem = t.elem; /* infer judges it */
    s->in[i] = shape;
    if (!blu_elab_spread(E, &in[i], &shape, &value[i])) return blu_val_unknown;
  }
  return emit(E, op, in, value, s, at);
}

BluVal blu_elab_apply(BluElab *E, const BluOp *op, const BluOperand *in, int n, const BluAttrs *attrs, BluSpan at) {
  bool elementwise = op->rule->kind == BLU_KIND_ELEMENT, host = false, tensor = false;
  for (int i = 0; i < n; i++) {
    BluType t;
    BluValKind k = in[i].val.kind;
    if (k == VAL_UNKNOWN) return blu_val_unknown;
    bool is_tensor = blu_val_type(&in[i].val, &t), scalar = k == VAL_HOST || (k >= VAL_INT && k <= VAL_BOOL);
    host |= k == VAL_HOST;
    tensor |= is_tensor;
    if (is_tensor || (elementwise && (scalar || k == VAL_STRING))) continue;
    BluDiag *d = blu_elab_error(E, BLU_E_KIND, in[i].span, "`%s` needs a tensor here, not %s", blu_op_text(op),
                                blu_val_describe(E, &in[i].val));
    if (k == VAL_INSTANCE || k == VAL_FN) blu_diag_help(d, "was a call `f(x)` meant?");
    return blu_val_unknown;
  }
  if (op->nin >= 0 && n != op->nin) {
    blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s` takes %d operand%s, not %d", blu_op_text(op), op->nin,
                   op->nin == 1 ? "" : "s", n);
    return blu_val_unknown;
  }
  if (n > 0 && !attrs->n && blu_fold_known(in, n)) return blu_fold(E, op, in, n, at);
  if (elementwise && host && !tensor) return blu_host_apply(E, op, in, n, at);
  BluSig s = {.nin = n, .attrs = *attrs};
  if (elementwise && n > 0) return apply_elementwise(E, op, in, n, &s, at);
  MlirValue value[BLU_MAX_IN];
  for (int i = 0; i < n; i++)
    if (!blu_elab_tensor(E, &in[i], &value[i], &s.in[i])) return blu_val_unknown;
  return emit(E, op, in, value, &s, at);
}

/* ---- calls by name ---- */

bool blu_elab_attr(BluElab *E, const BluAttrInfo *info, const BluOperand *v, BluAttr *out) {
  static const char *const wants[] = {
    [BLU_ATTR_INT] = "an integer", [BLU_ATTR_INTS] = "an integer or a list of integers", [BLU_ATTR_REAL] = "a number",
    [BLU_ATTR_BOOL] = "true or false", [BLU_ATTR_TYPE] = "a type", [BLU_ATTR_STRING] = "a string"};
  const BluVal *x = &v->val;
  *out = (BluAttr){.name = info->name, .kind = info->kind};
  if (x->kind == VAL_UNKNOWN) return false;
  switch (info->kind) {
    case BLU_ATTR_INT:
      if (x->kind == VAL_INT) return out->i[0] = x->u.i, true;
      break;
    case BLU_ATTR_INTS:
      if (x->kind == VAL_INT) return out->n = 1, out->i[0] = x->u.i, true;
      if (x->kind != VAL_LIST || x->u.list->n > BLU_MAX_RANK) break;
      out->n = x->u.list->n;
      for (int i = 0; i < out->n; i++) {
        if (x->u.list->item[i].kind != VAL_INT) goto wrong;
        out->i[i] = x->u.list->item[i].u.i;
      }
      return true;
    case BLU_ATTR_REAL:
      if (blu_val_number(x, &out->real)) return true;
      break;
    case BLU_ATTR_BOOL:
      if (x->kind == VAL_BOOL) return out->i[0] = x->u.b, true;
      break;
    case BLU_ATTR_TYPE:
      if (x->kind == VAL_CAST) return out->i[0] = x->u.elem == BLU_ELEMS ? blu_elab_float(E) : x->u.elem, true;
      break;
    case BLU_ATTR_STRING:
      if (x->kind == VAL_STRING) return out->str = x->u.s, true;
      break;
  }
wrong:
  blu_elab_error(E, BLU_E_KIND, v->span, "`%s` is %s, not %s", info->name, wants[info->kind], blu_val_describe(E, x));
  return false;
}

/* Finds an argument's place among the operands or attributes of the op; false (reported) if it has none. */
static bool place_argument(BluElab *E, const BluOp *op, const BluOperand *arg, BluOperand *in, bool *given,
                           BluAttrs *attrs) {
  for (int k = 0; k < op->nin; k++) {
    if (strcmp(op->in[k], arg->name.text)) continue;
    if (given[k]) break;
    given[k] = true;
    in[k] = *arg;
    return true;
  }
  for (int k = 0; k < op->nattr; k++) {
    BluAttr a;
    if (strcmp(op->attr[k].name, arg->name.text)) continue;
    if (blu_attr(attrs, arg->name.text)) break;
    if (!blu_elab_attr(E, &op->attr[k], arg, &a)) return false;
    attrs->a[attrs->n++] = a;
    return true;
  }
  BluNearest near = {.wanted = arg->name.text};
  bool known = false;
  for (int k = 0; k < op->nin; k++) blu_nearest_try(&near, op->in[k]), known |= !strcmp(op->in[k], arg->name.text);
  for (int k = 0; k < op->nattr; k++)
    blu_nearest_try(&near, op->attr[k].name), known |= !strcmp(op->attr[k].name, arg->name.text);
  if (known) {
    blu_elab_error(E, BLU_E_ARGUMENTS, arg->name.span, "`%s` is given twice to `%s`", arg->name.text, blu_op_text(op));
    return false;
  }
  BluDiag *d = blu_elab_error(E, BLU_E_UNKNOWN_ARGUMENT, arg->name.span, "`%s` has no argument `%s`", blu_op_text(op),
                              arg->name.text);
  const char *list = "";
  for (int k = 0; k < op->nattr; k++)
    list = blu_arena_print(E->arena, "%s%s`%s`", list, k == 0 ? "" : k == op->nattr - 1 ? " and " : ", ", op->attr[k].name);
  if (near.best) blu_diag_help(d, "did you mean `%s`?", near.best);
  else if (op->nattr) blu_diag_help(d, "what it takes by name: %s", list);
  return false;
}

BluVal blu_elab_call_op(BluElab *E, const BluOp *op, BluOperand *args, int n, BluSpan at) {
  BluOperand in[BLU_MAX_IN] = {0};
  bool given[BLU_MAX_IN] = {0}, good = true;
  BluAttrs attrs = {0};
  int placed = 0;
  for (int i = 0; i < n; i++) {
    if (args[i].name.text) {
      good &= place_argument(E, op, &args[i], in, given, &attrs);
    } else if (placed < op->nin) {
      given[placed] = true;
      in[placed++] = args[i];
    } else {
      BluDiag *d = blu_elab_error(E, BLU_E_ARGUMENTS, args[i].span, "`%s` takes %d operand%s by place", blu_op_text(op),
                                  op->nin, op->nin == 1 ? "" : "s");
      if (op->nattr) blu_diag_help(d, "further arguments are given by name: `%s = ...`", op->attr[0].name);
      return blu_val_unknown;
    }
  }
  if (!good) return blu_val_unknown;
  for (int k = 0; k < op->nin; k++) {
    if (given[k]) continue;
    blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s` misses its operand `%s`", blu_op_text(op), op->in[k]);
    return blu_val_unknown;
  }
  return blu_elab_apply(E, op, in, op->nin, &attrs, at);
}
