/* plan_dead.c - which bytes a launch is the last to need, read off a planned function anew: a check of the plan, not a part of it. Bytes that the
 * launch writes a result over live on. */
#include <stdlib.h>
#include "dialects/memory.h"
#include "passes_internal.h"

typedef struct { BluDead *item; int n; } List;

static int64_t place(MlirOperation op, const char *list, int i) {
  return mlirDenseI64ArrayGetElement(mlirOperationGetAttributeByName(op, mlirStringRefCreateFromCString(list)), i);
}

static void add(List *l, int64_t at, int64_t bytes) {
  if (!bytes) return;
  l->item = blu_realloc(l->item, (size_t)(l->n + 1) * sizeof *l->item);
  l->item[l->n++] = (BluDead){at, bytes};
}

static void add_value(List *l, MlirValue v, int64_t at) {
  BluType t = blu_value_type(v);
  add(l, at, blu_type_count(&t) * blu_elem_bytes(t.elem));
}

/* Does the launch write a result at this place? */
static bool is_written(MlirOperation launch, int64_t at) {
  BluScan s = {0};
  int nin = (int)mlirOperationGetNumOperands(launch), nout = (int)mlirOperationGetNumResults(launch);
  for (int k = blu_scan_of(launch, &s) ? s.carries : 0; k < nout; k++)
    if (place(launch, "blu.places", nin + k) == at) return true;
  return false;
}

bool blu_plan_in_place(MlirOperation launch, int result) {
  int nin = (int)mlirOperationGetNumOperands(launch);
  int64_t at = place(launch, "blu.places", nin + result);
  for (int i = 0; i < nin; i++)
    if (blu_is_call(launch) && place(launch, "blu.places", i) == at) return true;
  return false;
}

int blu_plan_dead(MlirOperation func, int which, BluDead **dead) {
  MlirBlock block = blu_func_block(func);
  BluLaunches all = blu_launches_of(func);
  MlirOperation *op = all.op;
  int64_t kept = blu_is_body(func) ? 0 : blu_get_int(mlirModuleGetOperation(blu_module_of(func)), "blu.kept", 0);
  List l = {0};
  for (int i = 0; i < blu_func_nargs(func); i++) {
    int64_t at = place(func, "blu.args", i);
    MlirValue v = mlirBlockGetArgument(block, i);
    if (at >= kept && blu_last_reader(&all, v) == which && !is_written(op[which], at)) add_value(&l, v, at);
  }
  for (int i = 0; i <= which; i++) {
    BluScan s = {0};
    bool loop = blu_scan_of(op[i], &s);
    int nin = (int)mlirOperationGetNumOperands(op[i]), nout = (int)mlirOperationGetNumResults(op[i]);
    for (int k = loop ? s.carries : 0; k < nout; k++) {
      MlirValue v = mlirOperationGetResult(op[i], k);
      int64_t at = place(op[i], "blu.places", nin + k);
      int last = blu_last_reader(&all, v);
      if (at >= kept && (last < i ? i : last) == which && (i == which || !is_written(op[which], at))) add_value(&l, v, at);
    }
    int64_t frame = loop ? place(op[i], "blu.places", nin + nout) : -1;
    if (i == which && frame >= kept) add(&l, frame, blu_get_int(blu_scan_body(op[i]), "blu.bytes", 0));
  }
  blu_launches_free(&all);
  *dead = l.item;
  return l.n;
}
