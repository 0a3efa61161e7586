/* util.c - small helpers over mlir-c that more than one pass needs. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "mlir-c/Diagnostics.h"
#include "passes_internal.h"
#include "dialects/memory.h"

static MlirStringRef ref(const char *s) { return mlirStringRefCreateFromCString(s); }

bool blu_error(MlirLocation loc, const char *format, ...) {
  char text[512];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  mlirEmitError(loc, text);
  return false;
}

static MlirOperation *list(MlirBlock block, int *n) {
  int cap = 64;
  MlirOperation *ops = blu_alloc((size_t)cap * sizeof *ops);
  *n = 0;
  for (MlirOperation o = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    if (*n == cap) ops = blu_realloc(ops, (size_t)(cap *= 2) * sizeof *ops);
    ops[(*n)++] = o;
  }
  return ops;
}

MlirOperation *blu_block_ops(MlirBlock block, int *n) { return list(block, n); }

MlirOperation *blu_module_funcs(MlirModule m, int *n) {
  int all, k = 0;
  MlirOperation *ops = list(mlirModuleGetBody(m), &all);
  for (int i = 0; i < all; i++)
    if (mlirStringRefEqual(mlirIdentifierStr(mlirOperationGetName(ops[i])), ref("func.func")) && !mlirBlockIsNull(blu_func_block(ops[i])))
      ops[k++] = ops[i];
  *n = k;
  return ops;
}

static bool is_dead(MlirOperation o) {
  const BluOp *op = blu_op_of(o);
  if (!(op && op->pure) && !blu_is(o, "scan")) return false;
  for (intptr_t i = 0, n = mlirOperationGetNumResults(o); i < n; i++)
    if (!mlirOpOperandIsNull(mlirValueGetFirstUse(mlirOperationGetResult(o, i)))) return false;
  return true;
}

void blu_remove_dead(MlirBlock block) {
  int n;
  MlirOperation *ops = list(block, &n);
  for (int i = n - 1; i >= 0; i--)
    if (is_dead(ops[i])) mlirOperationDestroy(ops[i]);
  free(ops);
}

void blu_replace(MlirOperation op, MlirValue by) {
  mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, 0), by);
  mlirOperationDestroy(op);
}

bool blu_accumulates(MlirModule m) {
  return !mlirAttributeIsNull(mlirOperationGetAttributeByName(mlirModuleGetOperation(m), ref("blu.accumulate")));
}

bool blu_scales_loss(MlirModule m) {
  return !mlirAttributeIsNull(mlirOperationGetAttributeByName(mlirModuleGetOperation(m), ref("blu.loss_scale")));
}

bool blu_is_call(MlirOperation op) { return mlirStringRefEqual(mlirIdentifierStr(mlirOperationGetName(op)), ref("func.call")); }
bool blu_is_launch(MlirOperation op) { return blu_is_call(op) || blu_is(op, "scan"); }
bool blu_is_kernel(MlirOperation func) { return *blu_get_string(func, "blu.kernel") != 0; }

MlirValue blu_same_bytes(MlirOpOperand u) {
  MlirOperation user = mlirOpOperandGetOwner(u);
  intptr_t i = (intptr_t)mlirOpOperandGetOperandNumber(u);
  BluScan s;
  bool same = blu_is(user, "reshape") || (blu_scan_of(user, &s) && i < s.carries);
  return same ? mlirOperationGetResult(user, i) : (MlirValue){0};
}

BluLaunches blu_launches_of(MlirOperation func) {
  BluLaunches l = {0};
  int n;
  l.op = list(blu_func_block(func), &n);
  for (int i = 0; i < n; i++)
    if (blu_is_launch(l.op[i])) {
      l.op[l.n++] = l.op[i];
      blu_map_set(&l.number, l.op[l.n - 1].ptr, (void *)(intptr_t)l.n);
    }
  return l;
}

void blu_launches_free(BluLaunches *l) {
  free(l->op);
  blu_map_free(&l->number);
}

int blu_last_reader(const BluLaunches *l, MlirValue v) {
  int last = -1;
  for (MlirOpOperand u = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
    MlirOperation user = mlirOpOperandGetOwner(u);
    if (blu_is(user, "guard")) continue;
    MlirValue same = blu_same_bytes(u);
    int at = (int)(intptr_t)blu_map_get(&l->number, user.ptr) - 1, later = mlirValueIsNull(same) ? -1 : blu_last_reader(l, same);
    if (at < 0 && mlirValueIsNull(same)) at = l->n;
    if (later > at) at = later;
    if (at > last) last = at;
  }
  return last;
}

MlirValue blu_root(MlirValue v) {
  for (MlirOperation d = blu_def(v); !mlirOperationIsNull(d); d = blu_def(v)) {
    BluScan s;
    intptr_t i = mlirOpResultGetResultNumber(v);
    if (!blu_is(d, "reshape") && !(blu_scan_of(d, &s) && i < s.carries)) break;
    v = mlirOperationGetOperand(d, i);
  }
  return v;
}

const char *blu_func_name(MlirOperation f) { return blu_get_string(f, "sym_name"); }

void blu_set_int(MlirOperation op, const char *name, int64_t v) {
  mlirOperationSetAttributeByName(op, ref(name), mlirIntegerAttrGet(mlirIntegerTypeGet(mlirOperationGetContext(op), 64), v));
}

int64_t blu_get_int(MlirOperation op, const char *name, int64_t absent) {
  MlirAttribute a = mlirOperationGetAttributeByName(op, ref(name));
  return mlirAttributeIsNull(a) || !mlirAttributeIsAInteger(a) ? absent : mlirIntegerAttrGetValueInt(a);
}

void blu_set_ints(MlirOperation op, const char *name, int n, const int64_t *v) {
  mlirOperationSetAttributeByName(op, ref(name), mlirDenseI64ArrayGet(mlirOperationGetContext(op), n, v));
}

void blu_set_string(MlirOperation op, const char *name, const char *v) {
  mlirOperationSetAttributeByName(op, ref(name), mlirStringAttrGet(mlirOperationGetContext(op), ref(v)));
}

const char *blu_get_string(MlirOperation op, const char *name) {
  MlirAttribute a = mlirOperationGetAttributeByName(op, ref(name));
  if (mlirAttributeIsNull(a) || !mlirAttributeIsAString(a)) return "";
  MlirStringRef s = mlirStringAttrGetValue(a);
  return s.length ? s.data : "";
}
