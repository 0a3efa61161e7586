/* elab_update.c - @update: the optimizer's rule, written for one parameter, once for each parameter that is trained. */
#include <string.h>
#include "elab_internal.h"

enum { RULE_ARGUMENTS = 3 };

/* The rule `fn (p, g, t)`; NULL (reported) if the optimizer is not of that form. */
static const BluFn *find_rule(BluElab *E, const BluDecl *d) {
  const BluFn *rule = NULL;
  bool good = true;
  for (const BluMember *m = d->members; m; m = m->next) {
    if (m->kind == BLU_MEMBER_STATE || m->kind == BLU_MEMBER_ERROR) continue;
    if (m->kind == BLU_MEMBER_FN && !m->fn->name.text && !rule) {
      rule = m->fn;
      continue;
    }
    blu_elab_error(E, BLU_E_OPTIMIZER, m->span, "an optimizer has states and one unnamed `fn`, and this is neither");
    good = false;
  }
  if (!rule) {
    if (good)
      blu_elab_error(E, BLU_E_OPTIMIZER, d->name.span, "the optimizer `%s` has no `fn (p, g, t)`", d->name.text);
    return NULL;
  }
  bool plain = rule->sig.nparams == RULE_ARGUMENTS && !rule->sig.nresults;
  for (const BluParam *p = rule->sig.params; p; p = p->next) plain &= !p->type && !p->init;
  if (plain) return good ? rule : NULL;
  blu_elab_error(E, BLU_E_OPTIMIZER, rule->sig.span,
                 "the rule of an optimizer is `fn (p, g, t)`: parameter, gradient, number of the step");
  return NULL;
}

/* Binds the optimizer's states for the parameter p in s, and adds them to the list. */
static void bind_states(BluElab *E, BluScope *s, const BluUpdate *u, const BluSlot *p, BluSlot ***states, int *n) {
  for (const BluMember *m = u->decl->members; m; m = m->next) {
    if (m->kind != BLU_MEMBER_STATE) continue;
    for (const BluName *name = m->pattern.names; name; name = name->next) {
      BluSlot *slot = blu_arena_alloc(E->arena, sizeof *slot);
      *slot = (BluSlot){.role = SLOT_STATE,
                        .order = *n,
                        .name = blu_arena_print(E->arena, "%s:%s", p->name, name->text),
                        .type = p->type,
                        .span = name->span,
                        .init = m->value,
                        .env = u->scope,
                        .made = u->call};
      BluVal v = {.kind = VAL_SLOT, .u.slot = slot};
      if (m->type && !blu_elab_type(E, s, m->type, &slot->type)) v = blu_val_unknown;
      blu_scope_define(E, s, name->text, v, name->span)->kind = BIND_STATE;
      *states = blu_arena_grow(E->arena, *states, *n, sizeof **states);
      (*states)[(*n)++] = slot;
    }
  }
}

/* The value that a name holds at the end of the rule. */
static MlirValue final_value(BluElab *E, BluScope *s, const char *name) {
  BluBinding *b = blu_scope_find_here(s, name);
  BluOperand v = {.val = b->val, .span = b->span};
  MlirValue out = {0};
  BluType t;
  blu_elab_tensor(E, &v, &out, &t);
  return out;
}

void blu_elab_update(BluElab *E, const BluUpdate *u, BluSlot ***states, int *nstates) {
  const BluFn *rule = find_rule(E, u->decl);
  if (!rule) return;
  blu_elab_mark_called(E, rule);
  const BluParam *p_name = rule->sig.params, *g_name = p_name->next, *t_name = g_name->next;
  BluBuild f;
  blu_build_start(E, &f, false);
  BluOutput *params = blu_arena_alloc(E->arena, ((size_t)E->nparams + 1) * sizeof *params), *kept = NULL;
  int n = 0, nkept = 0;
  BluOperand next_step[2] = {{.val = blu_host_slot(E, E->step), .span = t_name->name.span},
                             {.val = blu_val_int(1), .span = t_name->name.span}};
  BluVal t = blu_host_apply(E, blu_op_find("add"), next_step, 2, t_name->name.span);
  for (int i = 0; i < E->nparams; i++) {
    BluSlot *p = E->params[i], *g = blu_arena_alloc(E->arena, sizeof *g);
    if (!p->trained) {
      BluDiag *d = blu_diags_add(E->diags, BLU_W_NOT_TRAINED, p->made, "the loss does not depend on the parameter `%s`",
                                 p->name);
      blu_diag_note(d, p->span, "declared here");
      continue;
    }
    *g = (BluSlot){.role = SLOT_GRAD, .order = i, .name = p->name, .type = p->type, .span = p->span};
    BluFrame frame = {.label = blu_arena_print(E->arena, "`%s` for the parameter `%s`", u->decl->name.text, p->name),
                      .call = u->call};
    BluScope *outer = blu_scope_make(E, u->scope), *s = blu_scope_make(E, outer);
    int first = *nstates;
    E->frames = &frame;
    bind_states(E, outer, u, p, states, nstates);
    blu_scope_define(E, s, p_name->name.text, (BluVal){.kind = VAL_SLOT, .u.slot = p}, p_name->name.span)->kind =
        BIND_STATE;
    blu_scope_define(E, s, g_name->name.text, (BluVal){.kind = VAL_SLOT, .u.slot = g}, g_name->name.span);
    blu_scope_define(E, s, t_name->name.text, t, t_name->name.span);
    BluVal v = blu_elab_block(E, s, rule->body);
    if (v.kind != VAL_NONE && v.kind != VAL_UNKNOWN)
      blu_elab_error(E, BLU_E_OPTIMIZER, rule->body->span,
                     "the rule of an optimizer changes names with `:=` and has no value");
    params[n++] = (BluOutput){final_value(E, s, p_name->name.text), "param", p->name};
    for (int k = first; k < *nstates; k++) {
      const char *path = (*states)[k]->name;
      kept = blu_arena_grow(E->arena, kept, nkept, sizeof *kept);
      kept[nkept++] = (BluOutput){final_value(E, outer, strrchr(path, ':') + 1), "state", path};
    }
    E->frames = NULL;
  }
  BluOutput *out = blu_arena_alloc(E->arena, ((size_t)(n + nkept) + 1) * sizeof *out);
  if (n) memcpy(out, params, (size_t)n * sizeof *out);
  if (nkept) memcpy(out + n, kept, (size_t)nkept * sizeof *out);
  blu_build_finish(E, &f, "update", u->call, n + nkept, out);
}
