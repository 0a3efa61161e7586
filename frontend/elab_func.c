/* elab_func.c - functions of the module. A function is built in a block of its own, which takes an argument for each
 * slot when it is first used; at the end the ops move into a func.func with its arguments in docs/ir.md's order. */
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"
#include "elab_internal.h"
#include "mlir-c/BuiltinAttributes.h"

static const char *const role_name[] = {
  [SLOT_DATA] = "data", [SLOT_INPUT] = "input", [SLOT_ROWS] = "rows", [SLOT_PARAM] = "param", [SLOT_GRAD] = "grad",
  [SLOT_STATE] = "state", [SLOT_CACHE] = "cache", [SLOT_RUN] = "run", [SLOT_STEP] = "step", [SLOT_SEED] = "seed"};

static MlirLocation place(BluElab *E, BluSpan at) {
  if (!at.src || !at.line) return mlirLocationUnknownGet(E->ctx);
  return mlirLocationFileLineColGet(E->ctx, mlirStringRefCreateFromCString(at.src->path), (unsigned)at.line,
                                    (unsigned)at.col);
}

/* In the library: the place there, called from the user's place. */
MlirLocation blu_build_loc(BluElab *E, BluSpan at) {
  MlirLocation here = place(E, at);
  if (!at.src || !at.src->library) return here;
  for (const BluFrame *f = E->frames; f; f = f->up)
    if (f->call.src && !f->call.src->library) return mlirLocationCallSiteGet(here, place(E, f->call));
  return here;
}

void blu_build_at(BluElab *E, BluSpan at) { E->build->b.loc = blu_build_loc(E, at); }

static int compare_slots(const void *pa, const void *pb) {
  const BluSlot *a = *(BluSlot *const *)pa, *b = *(BluSlot *const *)pb;
  if (a->role != b->role) return a->role < b->role ? -1 : 1;
  return a->order < b->order ? -1 : a->order > b->order;
}

void blu_slots_add(BluElab *E, BluSlots *s, BluSlot *slot) {
  s->slot = blu_arena_grow(E->arena, s->slot, s->n, sizeof *s->slot);
  s->slot[s->n++] = slot;
}

void blu_build_start(BluElab *E, BluBuild *f, BluBuildKind kind) {
  *f = (BluBuild){.id = ++E->builds, .kind = kind, .training = kind == BUILD_TRAIN};
  f->b = (BluBuilder){.ctx = E->ctx, .loc = mlirLocationUnknownGet(E->ctx), .block = mlirBlockCreate(0, NULL, NULL)};
  E->build = f;
}

BluBuild *blu_build_root(const BluElab *E) {
  BluBuild *f = E->build;
  while (f && f->outer) f = f->outer;
  return f;
}

MlirValue blu_build_slot(BluElab *E, BluSlot *slot) {
  BluBuild *f = blu_build_root(E);
  if (slot->changed == f->id) return slot->now;
  if (slot->build == f->id) return slot->value;
  if (slot->instance && !slot->instance->path) {
    BluDiag *d = blu_elab_error(E, BLU_E_NO_FUNCTION, slot->made, "no `let` holds this instance, so its `%s` has no path",
                                slot->name);
    blu_diag_help(d, "give the instance itself a name by a top-level `let`");
  }
  if (slot->role == SLOT_CACHE && f->kind != BUILD_ENTRY)
    blu_elab_error(E, BLU_E_COMMIT, slot->span, "`%s` is a cache, which entries alone have", slot->name);
  slot->build = f->id;
  slot->value = mlirBlockAddArgument(f->b.block, blu_type_to_mlir(E->ctx, &slot->type), place(E, slot->span));
  blu_slots_add(E, &f->used, slot);
  return slot->value;
}

void blu_build_change(BluElab *E, BluSlot *slot, MlirValue v) {
  if (slot->changed != E->build->id) blu_slots_add(E, &E->build->changed, slot);
  slot->changed = E->build->id;
  slot->now = v;
}

void blu_build_add_changed(BluElab *E, BluSlotRole role, BluOutput **out, int *n) {
  BluSlots *c = &E->build->changed;
  if (c->n) qsort(c->slot, (size_t)c->n, sizeof *c->slot, compare_slots);
  for (int i = 0; i < c->n; i++) {
    if (c->slot[i]->role != role) continue;
    *out = blu_arena_grow(E->arena, *out, *n, sizeof **out);
    (*out)[(*n)++] = (BluOutput){c->slot[i]->now, role_name[role], c->slot[i]->name};
  }
}

MlirOperation blu_build_finish(BluElab *E, BluBuild *f, const char *name, BluSpan at, int n, const BluOutput *outputs) {
  MlirBlock scratch = f->b.block, block;
  E->build = NULL;
  if (blu_diags_errors(E->diags)) {
    mlirBlockDestroy(scratch);
    return (MlirOperation){0};
  }
  BluSlots *used = &f->used;
  if (used->n) qsort(used->slot, (size_t)used->n, sizeof *used->slot, compare_slots);
  BluPort *args = blu_arena_alloc(E->arena, ((size_t)used->n + 1) * sizeof *args);
  for (int i = 0; i < used->n; i++) {
    const BluSlot *s = used->slot[i];
    args[i] = (BluPort){.type = s->type, .role = role_name[s->role], .name = s->name, .value = s->initial,
                        .has_value = s->role == SLOT_RUN, .loc = place(E, s->span)};
  }
  MlirLocation loc = place(E, at);
  MlirOperation func = blu_func_make(E->module, loc, name, used->n, args, &block);
  MlirValue *values = blu_arena_alloc(E->arena, ((size_t)n + 1) * sizeof *values);
  BluPort *ports = blu_arena_alloc(E->arena, ((size_t)n + 1) * sizeof *ports);
  for (int i = 0; i < n; i++) {
    values[i] = outputs[i].value;
    ports[i] = (BluPort){.type = blu_value_type(values[i]), .role = outputs[i].role, .name = outputs[i].name};
  }
  for (int i = 0; i < used->n; i++) {
    MlirValue to = mlirBlockGetArgument(block, i);
    mlirValueReplaceAllUsesOfWith(used->slot[i]->value, to);
    for (int k = 0; k < n; k++)
      if (mlirValueEqual(values[k], used->slot[i]->value)) values[k] = to;
  }
  for (MlirOperation op; op = mlirBlockGetFirstOperation(scratch), !mlirOperationIsNull(op);) {
    mlirOperationRemoveFromParent(op);
    mlirBlockAppendOwnedOperation(block, op);
  }
  blu_func_return(func, loc, n, values, ports);
  mlirBlockDestroy(scratch);
  return func;
}

/* ---- what a value depends on ---- */

BluSlots blu_build_slots_of(BluElab *E, MlirValue v, bool smoothly) {
  BluSlots found = {0};
  BluMap values = {0};
  MlirOperation *op = NULL;
  int n = 0;
  blu_map_set(&values, v.ptr, (void *)v.ptr);
  for (MlirOperation o = mlirBlockGetFirstOperation(E->build->b.block); !mlirOperationIsNull(o);
       o = mlirOperationGetNextInBlock(o)) {
    op = blu_arena_grow(E->arena, op, n, sizeof *op);
    op[n++] = o;
  }
  while (n--) {
    bool leads = false; /* a scan has several results */
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op[n]); i++) leads |= blu_map_get(&values, mlirOperationGetResult(op[n], i).ptr) != NULL;
    const BluOp *known = blu_op_of(op[n]);
    if (!leads || (smoothly && known && known->rule->nodiff)) continue;
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op[n]); i++) {
      void *operand = (void *)mlirOperationGetOperand(op[n], i).ptr;
      blu_map_set(&values, operand, operand);
    }
  }
  const BluSlots *used = &E->build->used;
  for (int i = 0; i < used->n; i++)
    if (blu_map_get(&values, used->slot[i]->value.ptr)) blu_slots_add(E, &found, used->slot[i]);
  blu_map_free(&values);
  return found;
}

/* ---- entries ---- */

/* Functions of the module that are no entries. */
static const char *const taken[] = {"init", "train", "eval", "update", "clip", "settings"};

void blu_elab_entry(BluElab *E, BluScope *file, const BluDecl *d) {
  const BluFn *fn = d->fn;
  BluBuild f;
  BluScope *s = blu_scope_make(E, file);
  blu_build_start(E, &f, BUILD_ENTRY);
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (!strcmp(d->name.text, taken[i]))
      blu_elab_error(E, BLU_E_PLACE, d->name.span,
                     "an entry can't be called `%s`: the trainer has a function of this name", taken[i]);
  int order = 0;
  for (const BluParam *p = fn->sig.params; p; p = p->next) {
    BluSlot *slot = blu_arena_alloc(E->arena, sizeof *slot);
    *slot = (BluSlot){.role = SLOT_INPUT, .order = order++, .name = p->name.text, .span = p->name.span};
    BluVal v = {.kind = VAL_SLOT, .u.slot = slot};
    if (!p->type || p->init) {
      blu_elab_error(E, BLU_E_ARGUMENTS, p->name.span, "an argument of an entry has a type and no default");
      v = blu_val_unknown;
    } else if (!blu_elab_slot_type(E, s, p->type, slot)) {
      v = blu_val_unknown;
    }
    blu_scope_define(E, s, p->name.text, v, p->name.span);
  }
  BluRest rest = {0};
  BluSpan at = fn->body->result ? fn->body->result->span : fn->body->span;
  BluVal v = blu_elab_block(E, s, fn->body);
  if (v.kind == VAL_NONE) {
    blu_elab_error(E, BLU_E_NO_VALUE, d->name.span, "the entry `%s` computes nothing: its body ends without a value",
                   d->name.text);
    v = blu_val_unknown;
  }
  v = blu_elab_fit_result(E, s, &fn->sig, &rest, v, at);
  BluList one = {&v, 1}, all = v.kind == VAL_TUPLE ? *v.u.list : one;
  BluOutput *out = NULL;
  int nout = 0;
  const BluResult *r = fn->sig.results;
  for (int i = 0; i < all.n; i++) {
    BluOperand o = {.val = all.item[i], .span = at};
    BluType t;
    bool named = r && r->name.text;
    const char *name = named        ? r->name.text
                       : all.n == 1 ? d->name.text
                                    : blu_arena_print(E->arena, "%s.%d", d->name.text, i);
    out = blu_arena_grow(E->arena, out, nout, sizeof *out);
    out[nout] = (BluOutput){.role = "output", .name = name};
    bool good = blu_elab_tensor(E, &o, &out[nout].value, &t);
    if (good && r && blu_elab_is_float(r->type)) out[nout].value = blu_cast_to(&f.b, out[nout].value, blu_elab_kept(E));
    nout++;
    if (r) r = r->next;
  }
  blu_build_add_changed(E, SLOT_CACHE, &out, &nout);
  MlirOperation func = blu_build_finish(E, &f, d->name.text, d->name.span, nout, out);
  if (!mlirOperationIsNull(func))
    mlirOperationSetAttributeByName(func, mlirStringRefCreateFromCString("blu.entry"), mlirUnitAttrGet(E->ctx));
}
