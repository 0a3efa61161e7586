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
    if (mlirStringRefEqual(mlirIdentifierStr(mlirOperationGetName(ops[i])), ref("func.func"))) ops[k++] = ops[i];
  *n = k;
  return ops;
}

void blu_remove_dead(MlirBlock block) {
  int n;
  MlirOperation *ops = list(block, &n);
  for (int i = n - 1; i >= 0; i--) {
    const BluOp *op = blu_op_of(ops[i]);
    if (op && op->pure && mlirOpOperandIsNull(mlirValueGetFirstUse(mlirOperationGetResult(ops[i], 0)))) mlirOperationDestroy(ops[i]);
  }
  free(ops);
}

void blu_replace(MlirOperation op, MlirValue by) {
  mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, 0), by);
  mlirOperationDestroy(op);
}

bool blu_accumulates(MlirModule m) {
  return !mlirAttributeIsNull(mlirOperationGetAttributeByName(mlirModuleGetOperation(m), ref("blu.accumulate")));
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
