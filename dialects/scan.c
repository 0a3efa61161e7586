/* scan.c - blu.scan: what it is made of, how it is built, and its verifier. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects_internal.h"
#include "dialects/memory.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

static MlirStringRef ref(const char *s) { return mlirStringRefCreateFromCString(s); }

static int64_t int_attr(MlirOperation op, const char *name) {
  MlirAttribute a = mlirOperationGetAttributeByName(op, ref(name));
  return mlirAttributeIsNull(a) || !mlirAttributeIsAInteger(a) ? -1 : mlirIntegerAttrGetValueInt(a);
}

bool blu_scan_of(MlirOperation op, BluScan *s) {
  if (!blu_is(op, "scan")) return false;
  MlirAttribute body = mlirOperationGetAttributeByName(op, ref("body")), reverse = mlirOperationGetAttributeByName(op, ref("reverse"));
  int nin = (int)mlirOperationGetNumOperands(op), nout = (int)mlirOperationGetNumResults(op);
  *s = (BluScan){.carries = (int)int_attr(op, "carries"), .sequences = (int)int_attr(op, "sequences"), .steps = int_attr(op, "steps"),
                 .reverse = !mlirAttributeIsNull(reverse) && mlirBoolAttrGetValue(reverse), .body = ""};
  s->fixed = nin - s->carries - s->sequences;
  s->stacked = nout - s->carries;
  if (!mlirAttributeIsNull(body)) s->body = mlirFlatSymbolRefAttrGetValue(body).data;
  return true;
}

BluType blu_scan_slice(const BluType *t) {
  BluType s = {.elem = t->elem, .rank = t->rank ? t->rank - 1 : 0};
  for (int i = 0; i < s.rank; i++) s.dim[i] = t->dim[i + 1], s.name[i] = t->name[i + 1], s.unit[i] = t->unit[i + 1];
  return s;
}

BluType blu_scan_stack(const BluType *t, int64_t steps) {
  BluType s = {.elem = t->elem, .rank = t->rank + 1, .dim = {steps}};
  for (int i = 0; i < t->rank; i++) s.dim[i + 1] = t->dim[i], s.name[i + 1] = t->name[i], s.unit[i + 1] = t->unit[i];
  return s;
}

bool blu_is_body(MlirOperation func) {
  MlirAttribute a = mlirOperationGetAttributeByName(func, ref("sym_visibility"));
  return !mlirAttributeIsNull(a) && mlirStringRefEqual(mlirStringAttrGetValue(a), ref("private")) &&
         mlirAttributeIsNull(mlirOperationGetAttributeByName(func, ref("blu.kernel")));
}

void blu_set_body(MlirOperation func) {
  mlirOperationSetAttributeByName(func, ref("sym_visibility"), mlirStringAttrGet(mlirOperationGetContext(func), ref("private")));
  mlirOperationRemoveAttributeByName(func, ref("arg_attrs"));
  mlirOperationRemoveAttributeByName(func, ref("res_attrs"));
}

MlirModule blu_module_of(MlirOperation op) { /* the nearest one: while a file is read, another stands around it */
  while (!mlirOperationIsNull(op) && !mlirStringRefEqual(mlirIdentifierStr(mlirOperationGetName(op)), ref("builtin.module")))
    op = mlirOperationGetParentOperation(op);
  return mlirOperationIsNull(op) ? (MlirModule){0} : mlirModuleFromOperation(op);
}

static MlirOperation find(MlirOperation scan, const char *name) {
  MlirModule m = blu_module_of(scan);
  return mlirModuleIsNull(m) ? (MlirOperation){0} : blu_func_find(m, name);
}

MlirOperation blu_scan_body(MlirOperation scan) {
  BluScan s;
  return blu_scan_of(scan, &s) ? find(scan, s.body) : (MlirOperation){0};
}

MlirOperation blu_scan_build(BluBuilder *b, const BluScan *s, MlirOperation body, int n, const MlirValue *in) {
  MlirOperationState st = mlirOperationStateGet(ref("blu.scan"), b->loc);
  MlirType i64 = mlirIntegerTypeGet(b->ctx, 64);
  const char *name = mlirStringAttrGetValue(mlirOperationGetAttributeByName(body, ref("sym_name"))).data;
  const struct { const char *name; MlirAttribute value; } attrs[] = {
    {"body", mlirFlatSymbolRefAttrGet(b->ctx, ref(name))}, {"steps", mlirIntegerAttrGet(i64, s->steps)},
    {"carries", mlirIntegerAttrGet(i64, s->carries)}, {"sequences", mlirIntegerAttrGet(i64, s->sequences)},
    {"reverse", mlirBoolAttrGet(b->ctx, true)}};
  for (int i = 0; i < (s->reverse ? 5 : 4); i++) {
    MlirNamedAttribute a = mlirNamedAttributeGet(mlirIdentifierGet(b->ctx, ref(attrs[i].name)), attrs[i].value);
    mlirOperationStateAddAttributes(&st, 1, &a);
  }
  mlirOperationStateAddOperands(&st, n, in);
  int nout = blu_func_nresults(body);
  MlirType *types = blu_alloc((size_t)(nout + 1) * sizeof *types);
  for (int i = 0; i < nout; i++) {
    BluType t = blu_func_result(body, i).type, out = i < s->carries ? t : blu_scan_stack(&t, s->steps);
    types[i] = blu_type_to_mlir(b->ctx, &out);
  }
  mlirOperationStateAddResults(&st, nout, types);
  free(types);
  MlirOperation op = mlirOperationCreate(&st);
  if (mlirOperationIsNull(b->before)) mlirBlockAppendOwnedOperation(b->block, op);
  else mlirBlockInsertOwnedOperationBefore(b->block, b->before, op);
  return op;
}

/* ---- the verifier ---- */

static bool refuse(char *why, size_t size, const char *label, const char *text, int i) {
  snprintf(why, size, "[%s] ", label);
  snprintf(why + strlen(why), size - strlen(why), text, i);
  return false;
}

static bool type_of(MlirValue v, BluType *t) { return blu_type_from_mlir(mlirValueGetType(v), t); }

bool blu_scan_verify(MlirOperation op, char *why, size_t size) {
  BluScan s;
  BluType t;
  blu_scan_of(op, &s);
  if (s.steps < 1 || s.carries < 0 || s.sequences < 0 || s.fixed < 0 || s.stacked < 0)
    return refuse(why, size, "scan-counts", "steps, carries and sequences don't fit the operands and results", 0);
  MlirOperation body = find(op, s.body);
  if (mlirOperationIsNull(body) || !blu_is_body(body))
    return refuse(why, size, "scan-body", "the body is a private function of the module", 0);
  if (blu_func_nargs(body) != s.carries + s.sequences + s.fixed || blu_func_nresults(body) != s.carries + s.stacked)
    return refuse(why, size, "scan-counts", "the body has other numbers of arguments or results", 0);
  for (int i = 0; i < s.carries + s.sequences + s.fixed; i++) {
    BluType want = blu_func_arg(body, i).type;
    bool sequence = i >= s.carries && i < s.carries + s.sequences;
    if (!type_of(mlirOperationGetOperand(op, i), &t)) return refuse(why, size, "scan-types", "operand %d is no tensor", i);
    if (sequence && (!t.rank || t.dim[0] != s.steps)) return refuse(why, size, "scan-steps", "operand %d has no slice for each step", i);
    if (sequence) t = blu_scan_slice(&t);
    if (!blu_type_same(&t, &want)) return refuse(why, size, "scan-types", "operand %d doesn't fit the body's argument", i);
  }
  for (int i = 0; i < s.carries + s.stacked; i++) {
    BluType want = blu_func_result(body, i).type;
    if (i < s.carries && (!type_of(mlirOperationGetOperand(op, i), &t) || !blu_type_same(&t, &want)))
      return refuse(why, size, "scan-carry", "carry %d changes its type", i);
    if (i >= s.carries && want.rank == BLU_MAX_RANK) return refuse(why, size, "rank", "result %d would have too many dimensions", i);
    if (i >= s.carries) want = blu_scan_stack(&want, s.steps);
    if (!type_of(mlirOperationGetResult(op, i), &t) || !blu_type_same(&t, &want))
      return refuse(why, size, "result-type", "result %d doesn't fit the body's", i);
  }
  return true;
}
