/* elab_func.c - functions of the module. A function is built in a block of its own, which takes an argument for each
 * slot when it is first used; at the end the ops move into a func.func with its arguments in docs/ir.md's order. */
#include <stdlib.h>
#include <string.h>
#include "elab_internal.h"
#include "mlir-c/BuiltinAttributes.h"

static const char *const role_name[] = {
  [SLOT_DATA] = "data", [SLOT_INPUT] = "input", [SLOT_ROWS] = "rows", [SLOT_PARAM] = "param", [SLOT_GRAD] = "grad",
  [SLOT_STATE] = "state", [SLOT_RUN] = "run", [SLOT_STEP] = "step", [SLOT_SEED] = "seed"};

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

void blu_build_start(BluElab *E, BluBuild *f, bool training) {
  *f = (BluBuild){.id = ++E->builds, .training = training};
  f->b = (BluBuilder){.ctx = E->ctx, .loc = mlirLocationUnknownGet(E->ctx), .block = mlirBlockCreate(0, NULL, NULL)};
  E->build = f;
}

MlirValue blu_build_slot(BluElab *E, BluSlot *slot) {
  BluBuild *f = E->build;
  if (slot->build == f->id) return slot->value;
  slot->build = f->id;
  slot->value = mlirBlockAddArgument(f->b.block, blu_type_to_mlir(E->ctx, &slot->type), place(E, slot->span));
  slot->trained |= f->training;
  f->used = blu_arena_grow(E->arena, f->used, f->nused, sizeof *f->used);
  f->used[f->nused++] = slot;
  return slot->value;
}

static int compare_slots(const void *pa, const void *pb) {
  const BluSlot *a = *(BluSlot *const *)pa, *b = *(BluSlot *const *)pb;
  if (a->role != b->role) return a->role < b->role ? -1 : 1;
  return a->order < b->order ? -1 : a->order > b->order;
}

MlirOperation blu_build_finish(BluElab *E, BluBuild *f, const char *name, BluSpan at, int n, const BluOutput *outputs) {
  MlirBlock scratch = f->b.block, block;
  E->build = NULL;
  if (blu_diags_errors(E->diags)) {
    mlirBlockDestroy(scratch);
    return (MlirOperation){0};
  }
  if (f->nused) qsort(f->used, (size_t)f->nused, sizeof *f->used, compare_slots);
  BluPort *args = blu_arena_alloc(E->arena, ((size_t)f->nused + 1) * sizeof *args);
  for (int i = 0; i < f->nused; i++) {
    const BluSlot *s = f->used[i];
    args[i] = (BluPort){.type = s->type, .role = role_name[s->role], .name = s->name, .value = s->initial,
                        .has_value = s->role == SLOT_RUN, .loc = place(E, s->span)};
  }
  MlirLocation loc = place(E, at);
  MlirOperation func = blu_func_make(E->module, loc, name, f->nused, args, &block);
  MlirValue *values = blu_arena_alloc(E->arena, ((size_t)n + 1) * sizeof *values);
  BluPort *ports = blu_arena_alloc(E->arena, ((size_t)n + 1) * sizeof *ports);
  for (int i = 0; i < n; i++) {
    values[i] = outputs[i].value;
    ports[i] = (BluPort){.type = blu_value_type(values[i]), .role = outputs[i].role, .name = outputs[i].name};
  }
  for (int i = 0; i < f->nused; i++) {
    MlirValue to = mlirBlockGetArgument(block, i);
    mlirValueReplaceAllUsesOfWith(f->used[i]->value, to);
    for (int k = 0; k < n; k++)
      if (mlirValueEqual(values[k], f->used[i]->value)) values[k] = to;
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

typedef struct { const void **item; int n; } Set;

static bool holds(const Set *s, const void *p) {
  for (int i = 0; i < s->n; i++)
    if (s->item[i] == p) return true;
  return false;
}

static void put(BluElab *E, Set *s, const void *p) {
  if (holds(s, p)) return;
  s->item = blu_arena_grow(E->arena, s->item, s->n, sizeof *s->item);
  s->item[s->n++] = p;
}

const BluSlot *blu_build_param_of(BluElab *E, MlirValue v) {
  Set values = {0};
  MlirOperation *op = NULL;
  int n = 0;
  put(E, &values, v.ptr);
  for (MlirOperation o = mlirBlockGetFirstOperation(E->build->b.block); !mlirOperationIsNull(o);
       o = mlirOperationGetNextInBlock(o)) {
    op = blu_arena_grow(E->arena, op, n, sizeof *op);
    op[n++] = o;
  }
  while (n--) {
    if (!mlirOperationGetNumResults(op[n]) || !holds(&values, mlirOperationGetResult(op[n], 0).ptr)) continue;
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op[n]); i++)
      put(E, &values, mlirOperationGetOperand(op[n], i).ptr);
  }
  for (int i = 0; i < E->build->nused; i++)
    if (E->build->used[i]->role == SLOT_PARAM && holds(&values, E->build->used[i]->value.ptr)) return E->build->used[i];
  return NULL;
}

/* ---- entries ---- */

/* Functions of the module that are no entries. */
static const char *const taken[] = {"init", "train", "eval", "update", "clip", "settings"};

void blu_elab_entry(BluElab *E, BluScope *file, const BluDecl *d) {
  const BluFn *fn = d->fn;
  BluBuild f;
  BluScope *s = blu_scope_make(E, file);
  blu_build_start(E, &f, false);
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
    } else if (!blu_elab_type(E, s, p->type, &slot->type)) {
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
  BluOutput *out = blu_arena_alloc(E->arena, ((size_t)all.n + 1) * sizeof *out);
  const BluResult *r = fn->sig.results;
  for (int i = 0; i < all.n; i++) {
    BluOperand o = {.val = all.item[i], .span = at};
    BluType t;
    bool named = r && r->name.text;
    const char *name = named        ? r->name.text
                       : all.n == 1 ? d->name.text
                                    : blu_arena_print(E->arena, "%s.%d", d->name.text, i);
    out[i] = (BluOutput){.role = "output", .name = name};
    blu_elab_tensor(E, &o, &out[i].value, &t);
    if (r) r = r->next;
  }
  MlirOperation func = blu_build_finish(E, &f, d->name.text, d->name.span, all.n, out);
  if (!mlirOperationIsNull(func))
    mlirOperationSetAttributeByName(func, mlirStringRefCreateFromCString("blu.entry"), mlirUnitAttrGet(E->ctx));
}
