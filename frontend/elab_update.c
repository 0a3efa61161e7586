/* elab_update.c - @update: the rule of an optimizer, written for one parameter, once for each parameter that is trained.
 * Which optimizer that is, groups of paths decide: `optimizer "h.*.attn.*" = ...;`. */
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

/* Binds the optimizer's states for the parameter p in s, and adds them to the list. In their types the rule's name for the parameter is
 * known, for its shape. */
static void bind_states(BluElab *E, BluScope *s, const BluUpdate *u, const BluFn *rule, BluSlot *p, BluSlots *states) {
  const BluName *p_name = &rule->sig.params->name;
  BluScope *types = blu_scope_make(E, u->scope);
  blu_scope_define(E, types, p_name->text, (BluVal){.kind = VAL_SLOT, .u.slot = p}, p_name->span);
  for (const BluMember *m = u->decl->members; m; m = m->next) {
    if (m->kind != BLU_MEMBER_STATE) continue;
    for (const BluName *name = m->pattern.names; name; name = name->next) {
      BluSlot *slot = blu_arena_alloc(E->arena, sizeof *slot);
      *slot = (BluSlot){.role = SLOT_STATE,
                        .order = states->n,
                        .name = blu_arena_print(E->arena, "%s:%s", p->name, name->text),
                        .type = p->type,
                        .span = name->span,
                        .init = m->value,
                        .env = u->scope,
                        .made = u->call};
      BluVal v = {.kind = VAL_SLOT, .u.slot = slot};
      if (m->type && !blu_elab_type(E, types, m->type, &slot->type)) v = blu_val_unknown; /* here, `float` is what parameters are kept in */
      blu_scope_define(E, s, name->text, v, name->span)->kind = BIND_STATE;
      blu_slots_add(E, states, slot);
    }
  }
}

typedef struct { BluOutput *item; int n; } Outputs;

static void add(BluElab *E, Outputs *o, const char *role, BluSlot *slot) {
  o->item = blu_arena_grow(E->arena, o->item, o->n, sizeof *o->item);
  o->item[o->n++] = (BluOutput){blu_build_slot(E, slot), role, slot->name};
}

/* The rule for one parameter. */
static void update_one(BluElab *E, const BluUpdate *u, const BluFn *rule, BluSlot *p, BluVal t, BluSlots *states,
                       Outputs *params, Outputs *kept) {
  const BluParam *p_name = rule->sig.params, *g_name = p_name->next, *t_name = g_name->next;
  BluSlot *g = blu_arena_alloc(E->arena, sizeof *g);
  *g = (BluSlot){.role = SLOT_GRAD, .order = p->order, .name = p->name, .type = p->type, .span = p->span};
  BluFrame frame = {.label = blu_arena_print(E->arena, "`%s` for the parameter `%s`", u->decl->name.text, p->name),
                    .call = u->call};
  BluScope *outer = blu_scope_make(E, u->scope), *s = blu_scope_make(E, outer);
  int first = states->n;
  E->frames = &frame;
  bind_states(E, outer, u, rule, p, states);
  blu_scope_define(E, s, p_name->name.text, (BluVal){.kind = VAL_SLOT, .u.slot = p}, p_name->name.span)->kind =
      BIND_STATE;
  blu_scope_define(E, s, g_name->name.text, (BluVal){.kind = VAL_SLOT, .u.slot = g}, g_name->name.span);
  blu_scope_define(E, s, t_name->name.text, t, t_name->name.span);
  BluVal v = blu_elab_block(E, s, rule->body);
  if (v.kind != VAL_NONE && v.kind != VAL_UNKNOWN)
    blu_elab_error(E, BLU_E_OPTIMIZER, rule->body->span,
                   "the rule of an optimizer changes names with `:=` and has no value");
  add(E, params, "param", p);
  int used = first; /* a state that the rule neither reads nor changes, as it may under an `if`, doesn't exist */
  for (int k = first; k < states->n; k++)
    if (states->slot[k]->build || states->slot[k]->changed) states->slot[used++] = states->slot[k];
  states->n = used;
  for (int k = first; k < used; k++) {
    states->slot[k]->order = k;
    add(E, kept, "state", states->slot[k]);
  }
  E->frames = NULL;
}

/* ---- groups ---- */

/* `*` stands for any text, `?` for one character. Linear space, quadratic time. */
static bool matches(const char *glob, const char *path) {
  const char *star = NULL, *retry = NULL;
  while (*path) {
    if (*glob == '*') star = glob++, retry = path;
    else if (*glob == '?' || *glob == *path) glob++, path++;
    else if (star) glob = star + 1, path = ++retry;
    else return false;
  }
  while (*glob == '*') glob++;
  return !*glob;
}

/* The group of a parameter; NULL (reported) if there is none. */
static BluGroup *group_of(BluElab *E, BluGroup *groups, int n, const BluSlot *p, BluSpan at) {
  BluGroup *found = NULL, *rest = NULL;
  for (int i = 0; i < n; i++) {
    if (!groups[i].glob) {
      rest = &groups[i];
    } else if (matches(groups[i].glob, p->name)) {
      if (found) {
        BluDiag *d = blu_elab_error(E, BLU_E_GROUP, groups[i].span, "the parameter `%s` is in two groups", p->name);
        blu_diag_note(d, found->span, "the first one");
        return NULL;
      }
      found = &groups[i];
    }
  }
  if (!found && !rest) {
    BluDiag *d = blu_elab_error(E, BLU_E_GROUP, at, "no `optimizer` is for the parameter `%s`", p->name);
    blu_diag_note(d, p->made, "which is made here");
    blu_diag_help(d, "`optimizer = ...;` is for all parameters that no group names");
  }
  return found ? found : rest;
}

/* A glob that matches no path, with the path that may have been meant. */
static void unused_group(BluElab *E, const BluGroup *g) {
  BluNearest near = {.wanted = g->glob};
  for (int i = 0; i < E->params.n; i++) blu_nearest_try(&near, E->params.slot[i]->name);
  BluDiag *d = blu_elab_error(E, BLU_E_GROUP, g->span, "no parameter's path matches \"%s\"", g->glob);
  if (near.best) blu_diag_help(d, "did you mean \"%s\"?", near.best);
  else if (E->params.n) blu_diag_help(d, "paths are such as `%s`", E->params.slot[0]->name);
}

BluOperand blu_elab_learning_rate(const BluGroup *groups, int n) {
  const BluGroup *of = NULL;
  for (int i = 0; i < n; i++)
    if (groups[i].update && (!of || (of->glob && !groups[i].glob))) of = &groups[i];
  BluBinding *b = of ? blu_scope_find_here(of->update->scope, "lr") : NULL;
  double x;
  bool number = b && (blu_val_number(&b->val, &x) || (b->val.kind == VAL_HOST && !blu_host_is_bool(b->val.u.host)));
  return number ? (BluOperand){.val = b->val, .span = of->update->call} : (BluOperand){.val = blu_val_none};
}

/* What `info` shows of the optimizer of a parameter. */
static const char *group_text(BluElab *E, const BluGroup *g) {
  const char *name = g->update ? g->update->decl->name.text : "frozen";
  return g->glob ? blu_arena_print(E->arena, "%s of \"%s\"", name, g->glob) : name;
}

void blu_elab_update(BluElab *E, BluGroup *groups, int n, BluSpan at, BluSlots *states) {
  const BluFn **rule = blu_arena_alloc(E->arena, (size_t)n * sizeof *rule);
  bool good = true;
  for (int i = 0; i < n; i++) {
    if (!groups[i].update) continue;
    rule[i] = find_rule(E, groups[i].update->decl);
    good &= rule[i] != NULL;
    if (rule[i]) blu_elab_mark_called(E, rule[i]);
  }
  if (!good) return;
  BluBuild f;
  blu_build_start(E, &f, BUILD_UPDATE);
  Outputs params = {0}, kept = {0};
  BluOperand next_step[2] = {{.val = blu_host_slot(E, E->step), .span = at}, {.val = blu_val_int(1), .span = at}};
  BluVal t = blu_host_apply(E, blu_op_find("add"), next_step, 2, at);
  for (int i = 0; i < E->params.n; i++) {
    BluSlot *p = E->params.slot[i];
    for (int k = 0; k < n; k++) groups[k].used |= groups[k].glob && matches(groups[k].glob, p->name);
    BluGroup *g = p->frozen ? NULL : group_of(E, groups, n, p, at);
    p->group = g ? group_text(E, g) : "frozen";
    if (!g || !g->update) continue;
    if (!p->trained) {
      p->group = "not trained";
      BluDiag *d = blu_diags_add(E->diags, BLU_W_NOT_TRAINED, p->made, "the loss does not depend on the parameter `%s`",
                                 p->name);
      blu_diag_note(d, p->span, "declared here");
      continue;
    }
    update_one(E, g->update, rule[g - groups], p, t, states, &params, &kept);
    if (E->stopped) break;
  }
  for (int i = 0; i < n; i++)
    if (groups[i].glob && !groups[i].used) unused_group(E, &groups[i]);
  for (int i = 0; i < kept.n; i++) {
    params.item = blu_arena_grow(E->arena, params.item, params.n, sizeof *params.item);
    params.item[params.n++] = kept.item[i];
  }
  blu_build_finish(E, &f, "update", at, params.n, params.item);
}
