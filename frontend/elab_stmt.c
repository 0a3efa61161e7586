/* elab_stmt.c - blocks, bindings, loops. */
#include <string.h>
#include "elab_internal.h"

static void bind(BluElab *E, BluScope *s, const BluName *name, BluVal v, BluBindKind kind) {
  if (!strcmp(name->text, "_")) return;
  blu_scope_define(E, s, name->text, v, name->span)->kind = kind;
}

/* The parts of v to as many names, or tuples of names. */
static void bind_parts(BluElab *E, BluScope *s, const BluName *names, int count, BluSpan span, BluVal v, BluBindKind kind) {
  bool list = v.kind == VAL_TUPLE || v.kind == VAL_LIST;
  if (v.kind != VAL_UNKNOWN && (!list || v.u.list->n != count)) {
    blu_elab_error(E, BLU_E_PATTERN, span, "%d names for %s", count,
                   list ? blu_arena_print(E->arena, "%s of %d", blu_val_describe(E, &v), v.u.list->n)
                        : blu_val_describe(E, &v));
    list = false;
  }
  int i = 0;
  for (const BluName *n = names; n; n = n->next, i++) {
    BluVal part = list ? v.u.list->item[i] : blu_val_unknown;
    if (n->parts) bind_parts(E, s, n->parts, n->nparts, n->span, part, kind);
    else bind(E, s, n, part, kind);
  }
}

void blu_elab_bind_pattern(BluElab *E, BluScope *s, const BluPattern *p, BluVal v, BluBindKind kind) {
  if (v.kind == VAL_NONE) {
    blu_elab_error(E, BLU_E_NO_VALUE, p->span, "there is no value to give to this name");
    v = blu_val_unknown;
  }
  if (p->tuple) bind_parts(E, s, p->names, p->n, p->span, v, kind);
  else bind(E, s, p->names, v, kind);
}

bool blu_elab_range(BluElab *E, BluScope *s, const BluRange *r, BluList *out) {
  BluVal from = blu_elab_expr(E, s, r->from);
  if (!r->to) {
    if (from.kind == VAL_UNKNOWN) return false;
    if (from.kind == VAL_LIST) return *out = *from.u.list, true;
    BluDiag *d = blu_elab_error(E, BLU_E_KIND, r->span, "a loop runs over a list or a range, not over %s",
                                blu_val_describe(E, &from));
    if (from.kind == VAL_INT) blu_diag_help(d, "`0..n` is the range from 0 to n - 1");
    return false;
  }
  BluVal to = blu_elab_expr(E, s, r->to);
  if (from.kind == VAL_UNKNOWN || to.kind == VAL_UNKNOWN) return false;
  enum { MAX_RANGE = 1000000 };
  if (from.kind != VAL_INT || to.kind != VAL_INT) {
    const BluVal *wrong = from.kind != VAL_INT ? &from : &to;
    blu_elab_error(E, BLU_E_KIND, r->span, "the ends of a range are integers known when compiled, not %s",
                   blu_val_describe(E, wrong));
    return false;
  }
  int64_t n;
  if (__builtin_sub_overflow(to.u.i, from.u.i, &n) || n > MAX_RANGE) {
    blu_elab_error(E, BLU_E_RECURSION, r->span, "a loop of more than %d iterations", MAX_RANGE);
    return false;
  }
  *out = *blu_val_list(E, VAL_LIST, n < 0 ? 0 : (int)n).u.list;
  for (int i = 0; i < out->n; i++) out->item[i] = blu_val_int(from.u.i + i);
  return true;
}

/* The variable or state that `name = ...` or `name := ...` means. check.c has reported what is not one. */
static BluBinding *target(BluScope *s, const BluName *name, BluBindKind kind) {
  BluBinding *b = blu_scope_find(s, name->text);
  return b && b->kind == kind ? b : NULL;
}

/* What `:=` may not do here: states change in the training step, caches in entries. */
static bool may_commit(BluElab *E, const BluSlot *slot, const BluName *name) {
  BluBuildKind kind = E->build->kind;
  if (E->build->outer) {
    blu_elab_error(E, BLU_E_COMMIT, name->span, "`%s` can't change in the body of a `scan`: it changes once in a step", name->text);
    return false;
  }
  if (slot->role == SLOT_CACHE && kind != BUILD_ENTRY) {
    BluDiag *d = blu_elab_error(E, BLU_E_COMMIT, name->span, "the cache `%s` changes in entries, and this is %s",
                                name->text, kind == BUILD_TRAIN ? "the training step" : "evaluation");
    blu_diag_note(d, slot->span, "declared here");
    return false;
  }
  if (slot->role == SLOT_STATE && kind != BUILD_UPDATE && !E->build->training) {
    BluDiag *d = blu_elab_error(E, BLU_E_COMMIT, name->span, "the state `%s` changes in training, and this is %s",
                                name->text, kind == BUILD_ENTRY ? "an entry"
                                            : kind == BUILD_EVAL ? "evaluation" : "a metric");
    blu_diag_note(d, slot->span, "declared here");
    blu_diag_help(d, "put it under `if training { ... }`");
    return false;
  }
  return true;
}

/* A state keeps its shape: the new value must be one of the same type, or a number to fill it with. */
static void commit(BluElab *E, BluScope *s, const BluStmt *st) {
  BluBinding *b = target(s, st->pattern.names, BIND_STATE);
  BluOperand v = {.val = blu_elab_expr(E, s, st->value), .span = st->value->span};
  BluType want, have;
  MlirValue m;
  if (!b || v.val.kind == VAL_UNKNOWN || b->val.kind != VAL_SLOT) return;
  BluSlot *slot = b->val.u.slot;
  want = slot->type;
  if (slot->computes && E->build && E->build->kind != BUILD_UPDATE) want.elem = slot->used;
  if (v.val.kind == VAL_NONE) {
    blu_elab_error(E, BLU_E_NO_VALUE, v.span, "this has no value");
    return;
  }
  if (blu_val_type(&v.val, &have) && !blu_type_same(&want, &have)) {
    blu_elab_error(E, BLU_E_RESULT_TYPE, v.span, "`%s` is %s and can't become %s", st->pattern.names->text,
                   blu_type_text(E, &want), blu_type_text(E, &have));
    return;
  }
  if (E->build && !may_commit(E, slot, st->pattern.names)) return;
  if (blu_elab_spread(E, &v, &want, &m)) blu_build_change(E, slot, blu_cast_to(&E->build->b, m, slot->type.elem));
}

static void assign(BluElab *E, BluScope *s, const BluStmt *st) {
  BluBinding *b = target(s, st->pattern.names, BIND_VAR);
  if (!b && E->train) {
    blu_elab_setting(E, s, st);
    return;
  }
  BluVal v = blu_elab_expr(E, s, st->value);
  if (v.kind == VAL_NONE) {
    blu_elab_error(E, BLU_E_NO_VALUE, st->value->span, "this has no value");
    v = blu_val_unknown;
  }
  if (b) b->val = v;
}

static void loop(BluElab *E, BluScope *s, const BluStmt *st) {
  BluList over;
  if (!blu_elab_range(E, s, &st->range, &over)) return;
  for (int i = 0; i < over.n && !E->stopped; i++) {
    BluScope *inner = blu_scope_make(E, s);
    blu_elab_bind_pattern(E, inner, &st->pattern, over.item[i], BIND_LET);
    BluVal v = blu_elab_block(E, inner, st->body);
    if (v.kind == VAL_NONE || v.kind == VAL_UNKNOWN) continue;
    BluSpan at = st->body->result ? st->body->result->span : st->body->span;
    blu_elab_error(E, BLU_E_NO_VALUE, at, "nothing uses the value of a loop's body");
    return;
  }
}

void blu_elab_stmts(BluElab *E, BluScope *s, const BluStmt *st, BluVal *last_if) {
  *last_if = blu_val_none;
  for (; st && !E->stopped; st = st->next) {
    BluVal v = blu_val_none;
    switch (st->kind) {
      case BLU_STMT_ERROR: break;
      case BLU_STMT_LET: blu_elab_bind_pattern(E, s, &st->pattern, blu_elab_expr(E, s, st->value), BIND_LET); break;
      case BLU_STMT_VAR: blu_elab_bind_pattern(E, s, &st->pattern, blu_elab_expr(E, s, st->value), BIND_VAR); break;
      case BLU_STMT_SET: assign(E, s, st); break;
      case BLU_STMT_COMMIT: commit(E, s, st); break;
      case BLU_STMT_LABELLED: blu_elab_setting(E, s, st); break;
      case BLU_STMT_FOR: loop(E, s, st); break;
      case BLU_STMT_IF:
        v = blu_elab_if(E, s, st->value);
        if (st->next && v.kind != VAL_NONE && v.kind != VAL_UNKNOWN)
          blu_elab_error(E, BLU_E_NO_VALUE, st->span, "nothing uses the value of this `if`");
        break;
    }
    *last_if = v;
  }
}

/* The value is the last expression, or else that of an `if` at the end. */
BluVal blu_elab_block(BluElab *E, BluScope *outer, const BluBlock *b) {
  BluScope *s = blu_scope_make(E, outer);
  BluVal last_if;
  blu_elab_stmts(E, s, b->stmts, &last_if);
  if (E->stopped) return blu_val_unknown;
  if (!b->result) return last_if;
  if (last_if.kind != VAL_NONE && last_if.kind != VAL_UNKNOWN)
    blu_elab_error(E, BLU_E_NO_VALUE, b->span, "nothing uses the value of the `if` before the last expression");
  return blu_elab_expr(E, s, b->result);
}
