/* elab_expr.c - expressions. */
#include <string.h>
#include "elab_internal.h"

/* Nesting of evaluation, through calls, keeps the C stack below a few megabytes; expressions in all, to a second. */
enum { MAX_DEPTH = 1000, MAX_STEPS = 2000000 };

/* What a binding holds. A state's value is the one that it has here: a later `:=` must not change it. */
static BluVal value_of(BluElab *E, const BluBinding *b, BluSpan at) {
  if (b->val.kind != VAL_SLOT || !E->build) return b->val;
  BluSlot *slot = b->val.u.slot;
  if (b->kind != BIND_STATE && slot->role != SLOT_STATE && slot->role != SLOT_CACHE) return b->val;
  if (slot->role == SLOT_CACHE && E->build->kind != BUILD_ENTRY) {
    BluDiag *d = blu_elab_error(E, BLU_E_COMMIT, at, "`%s` is a cache, which entries alone have", slot->name);
    blu_diag_note(d, slot->span, "declared here");
    return blu_val_unknown;
  }
  MlirValue v = blu_build_slot(E, slot);
  bool new = slot->changed == blu_build_root(E)->id && slot->role == SLOT_STATE && E->build->kind == BUILD_TRAIN;
  if (new && blu_elem_is_float(slot->type.elem)) v = blu_build1(&E->build->b, "stop_gradient", v); /* a state has no gradient */
  BluType t = slot->type;
  if (slot->computes && E->build->kind != BUILD_UPDATE) t.elem = slot->used;
  return blu_val_tensor(E, blu_cast_to(&E->build->b, v, t.elem), &t);
}

static BluVal eval_name(BluElab *E, BluScope *s, const BluExpr *e) {
  const char *name = e->u.name;
  BluBinding *b = blu_scope_find(s, name);
  if (!b && e->span.src->library && blu_builtin_planned(name)) {
    BluDiag *d = blu_diags_add(E->diags, BLU_E_UNSUPPORTED, blu_elab_user_span(E, e->span),
                               "this needs `%s`, which is not supported by this version", name);
    blu_diag_note(d, e->span, "it is used here in the library");
    return blu_val_unknown;
  }
  if (!b) { /* check.c has reported unknown names; this one is a name that nothing gave a value */
    if (!blu_diags_errors(E->diags)) blu_elab_error(E, BLU_E_UNKNOWN_NAME, e->span, "`%s` is not defined here", name);
    return blu_val_unknown;
  }
  if (!b->ready) {
    BluDiag *d = blu_elab_error(E, BLU_E_TOO_EARLY, e->span, "`%s` is used before it is computed", name);
    blu_diag_note(d, b->span, "defined here");
    return blu_val_unknown;
  }
  if (b->val.kind == VAL_BOOL && !strcmp(name, "training") && s != E->builtins &&
      blu_scope_find_here(E->builtins, name) == b)
    return blu_val_bool(E->build && E->build->training);
  return value_of(E, b, e->span);
}

/* A value that something is done with: not a block that ends in nothing. */
static BluOperand eval_operand(BluElab *E, BluScope *s, const BluExpr *e) {
  BluOperand o = {.val = blu_elab_expr(E, s, e), .span = e->span, .expr = e};
  if (o.val.kind == VAL_NONE) {
    blu_elab_error(E, BLU_E_NO_VALUE, e->span, "this has no value");
    o.val = blu_val_unknown;
  }
  return o;
}

static BluVal eval_operator(BluElab *E, BluScope *s, const BluExpr *e) {
  static const char *const op_name[] = {
      [BLU_OP_NEG] = "neg",       [BLU_OP_NOT] = "not", [BLU_OP_ADD] = "add", [BLU_OP_SUB] = "sub",
      [BLU_OP_MUL] = "mul",       [BLU_OP_DIV] = "div", [BLU_OP_MOD] = NULL,  [BLU_OP_POW] = "pow",
      [BLU_OP_MATMUL] = "matmul", [BLU_OP_EQ] = "eq",   [BLU_OP_NE] = "ne",   [BLU_OP_LT] = "lt",
      [BLU_OP_LE] = "le",         [BLU_OP_GT] = "gt",   [BLU_OP_GE] = "ge",   [BLU_OP_AND] = "and",
      [BLU_OP_OR] = "or"};
  BluOperand in[2] = {eval_operand(E, s, e->u.op.left)};
  int n = 1;
  if (e->u.op.right) in[n++] = eval_operand(E, s, e->u.op.right);
  if (e->u.op.op == BLU_OP_MOD) return blu_fold_mod(E, in, e->u.op.at);
  return blu_elab_apply(E, blu_op_find(op_name[e->u.op.op]), in, n, &(BluAttrs){0}, e->u.op.at);
}

static BluVal eval_call(BluElab *E, BluScope *s, const BluExpr *e) {
  BluOperand callee = eval_operand(E, s, e->u.call.callee);
  int n = 0, i = 0;
  for (const BluArg *a = e->u.call.args; a; a = a->next) n++;
  BluOperand *args = blu_arena_alloc(E->arena, ((size_t)n + 1) * sizeof *args);
  for (const BluArg *a = e->u.call.args; a; a = a->next, i++) {
    args[i] = eval_operand(E, s, a->value);
    args[i].name = a->name;
  }
  return blu_elab_call(E, callee.val, args, n, callee.span, e->span);
}

static BluVal unknown_member(BluElab *E, const BluName *name, const char *of, const BluNames *names, BluSpan decl) {
  BluNearest near = {.wanted = name->text};
  blu_nearest_try_all(&near, names);
  BluDiag *d = blu_elab_error(E, BLU_E_UNKNOWN_MEMBER, name->span, "%s has no member `%s`", of, name->text);
  if (decl.src) blu_diag_note(d, decl, "declared here");
  if (near.best) blu_diag_help(d, "did you mean `%s`?", near.best);
  return blu_val_unknown;
}

static BluVal eval_member(BluElab *E, BluScope *s, const BluExpr *e) {
  BluOperand of = eval_operand(E, s, e->u.member.of);
  const BluName *name = &e->u.member.name;
  BluScope *in = of.val.kind == VAL_NAMESPACE  ? of.val.u.space
                 : of.val.kind == VAL_INSTANCE ? of.val.u.instance->scope
                                               : NULL;
  if (of.val.kind == VAL_UNKNOWN) return blu_val_unknown;
  if (!in) {
    BluDiag *d = blu_elab_error(E, BLU_E_UNKNOWN_MEMBER, name->span, "%s has no members", blu_val_describe(E, &of.val));
    const char *f = !strcmp(name->text, "T") ? "transpose" : name->text;
    if (blu_scope_find_here(E->builtins, f)) blu_diag_help(d, "operations are functions: `%s(%s)`", f, blu_elab_written(E, &of, true));
    return blu_val_unknown;
  }
  BluBinding *b = blu_scope_find_here(in, name->text);
  if (b && b->ready) return value_of(E, b, name->span);
  if (b) {
    blu_elab_error(E, BLU_E_TOO_EARLY, name->span, "`%s` is used before it is computed", name->text);
    return blu_val_unknown;
  }
  BluSpan decl = of.val.kind == VAL_INSTANCE ? of.val.u.instance->decl->name.span : (BluSpan){0};
  const char *label = e->u.member.of->kind == BLU_EXPR_NAME ? blu_arena_print(E->arena, "`%s`", e->u.member.of->u.name)
                                                            : blu_val_describe(E, &of.val);
  return unknown_member(E, name, label, &in->names, decl);
}

/* An index into a list of n, or an end of a range of it. */
static bool list_index(BluElab *E, BluScope *s, const BluExpr *e, int n, bool end, int64_t *out) {
  BluOperand at = eval_operand(E, s, e);
  if (at.val.kind == VAL_UNKNOWN) return false;
  if (at.val.kind == VAL_INT && at.val.u.i >= -n && at.val.u.i < n + end)
    return *out = at.val.u.i < 0 ? at.val.u.i + n : at.val.u.i, true;
  blu_elab_error(E, BLU_E_INDEX, at.span, "%s is no %s of a list of %d", blu_val_describe(E, &at.val),
                 end ? "end of a range" : "index", n);
  return false;
}

static BluVal eval_index(BluElab *E, BluScope *s, const BluExpr *e) {
  BluOperand of = eval_operand(E, s, e->u.index.of);
  BluType t;
  if (of.val.kind == VAL_UNKNOWN) return blu_val_unknown;
  if (blu_val_type(&of.val, &t)) return blu_elab_part(E, s, e, &of, &t);
  if (of.val.kind != VAL_LIST && of.val.kind != VAL_TUPLE) {
    blu_elab_error(E, BLU_E_KIND, of.span, "%s can't be indexed", blu_val_describe(E, &of.val));
    return blu_val_unknown;
  }
  const BluSub *sub = e->u.index.subs;
  const BluList *list = of.val.u.list;
  if (sub->next || sub->kind == BLU_SUB_REST) {
    blu_elab_error(E, BLU_E_INDEX, e->span, "a list has one dimension: `l[i]` or `l[a:b]`");
    return blu_val_unknown;
  }
  int64_t from = 0, to = list->n;
  bool range = sub->kind == BLU_SUB_RANGE;
  if (sub->from && !list_index(E, s, sub->from, list->n, range, &from)) return blu_val_unknown;
  if (!range) return list->item[from];
  if (sub->to && !list_index(E, s, sub->to, list->n, true, &to)) return blu_val_unknown;
  BluVal part = blu_val_list(E, VAL_LIST, to > from ? (int)(to - from) : 0);
  for (int i = 0; i < part.u.list->n; i++) part.u.list->item[i] = list->item[from + i];
  return part;
}

static BluVal eval_list(BluElab *E, BluScope *s, const BluExpr *e) {
  BluVal v = blu_val_list(E, e->kind == BLU_EXPR_LIST ? VAL_LIST : VAL_TUPLE, e->u.list.n);
  int i = 0;
  for (const BluExpr *x = e->u.list.first; x; x = x->next) v.u.list->item[i++] = eval_operand(E, s, x).val;
  return v;
}

static BluVal eval_comprehension(BluElab *E, BluScope *s, const BluExpr *e) {
  BluList over;
  if (!blu_elab_range(E, s, &e->u.comp.range, &over)) return blu_val_unknown;
  BluVal v = blu_val_list(E, VAL_LIST, over.n);
  for (int i = 0; i < over.n && !E->stopped; i++) {
    BluScope *inner = blu_scope_make(E, s);
    blu_elab_bind_pattern(E, inner, &e->u.comp.pattern, over.item[i], BIND_LET);
    v.u.list->item[i] = eval_operand(E, inner, e->u.comp.body).val;
  }
  return v;
}

BluVal blu_elab_if(BluElab *E, BluScope *s, const BluExpr *e) {
  BluOperand c = eval_operand(E, s, e->u.cond.cond);
  if (c.val.kind == VAL_UNKNOWN) return blu_val_unknown;
  if (c.val.kind != VAL_BOOL) {
    BluType t;
    bool late = c.val.kind == VAL_HOST || blu_val_type(&c.val, &t);
    BluDiag *d = blu_elab_error(E, late ? BLU_E_CONDITION : BLU_E_KIND, c.span,
                                late ? "the condition of `if` must be known when compiled, and this is %s"
                                     : "the condition of `if` is true or false, not %s", blu_val_describe(E, &c.val));
    if (late) blu_diag_help(d, "`where(c, a, b)` chooses between values");
    return blu_val_unknown;
  }
  if (c.val.u.b) return blu_elab_block(E, s, e->u.cond.then);
  if (e->u.cond.other) return blu_elab_block(E, s, e->u.cond.other);
  return e->u.cond.other_if ? blu_elab_if(E, s, e->u.cond.other_if) : blu_val_none;
}

static BluVal eval(BluElab *E, BluScope *s, const BluExpr *e) {
  switch (e->kind) {
    case BLU_EXPR_ERROR: return blu_val_unknown;
    case BLU_EXPR_NAME: return eval_name(E, s, e);
    case BLU_EXPR_INT: return blu_val_int(e->u.i);
    case BLU_EXPR_REAL: return blu_val_real(e->u.real);
    case BLU_EXPR_STRING: return (BluVal){.kind = VAL_STRING, .u.s = e->u.name};
    case BLU_EXPR_UNARY:
    case BLU_EXPR_BINARY: return eval_operator(E, s, e);
    case BLU_EXPR_CALL: return eval_call(E, s, e);
    case BLU_EXPR_MEMBER: return eval_member(E, s, e);
    case BLU_EXPR_INDEX: return eval_index(E, s, e);
    case BLU_EXPR_LIST:
    case BLU_EXPR_TUPLE: return eval_list(E, s, e);
    case BLU_EXPR_COMPREHENSION: return eval_comprehension(E, s, e);
    case BLU_EXPR_IF: return blu_elab_if(E, s, e);
  }
  return blu_val_unknown;
}

BluVal blu_elab_expr(BluElab *E, BluScope *s, const BluExpr *e) {
  if (E->stopped) return blu_val_unknown;
  if (E->depth >= MAX_DEPTH || ++E->steps > MAX_STEPS) {
    E->stopped = true;
    blu_elab_error(E, BLU_E_RECURSION, e->span,
                   E->depth >= MAX_DEPTH ? "calls and expressions are nested too deeply"
                                         : "the program is too large once loops and calls are expanded");
    return blu_val_unknown;
  }
  E->depth++;
  BluVal v = eval(E, s, e);
  E->depth--;
  return v;
}
