/* interp.c - runs functions through the ops' reference rules in double: the oracle of every later stage. */
#include <stdlib.h>
#include <string.h>
#include "dialects_internal.h"
#include "dialects/map.h"
#include "mlir-c/BuiltinAttributes.h"
#include "dialects/memory.h"

static double *result_of(const BluMap *values, MlirValue v) { return blu_map_get(values, v.ptr); }

static bool run_call(MlirModule m, MlirOperation op, BluMap *values, BluWhy *why) {
  MlirAttribute callee = mlirOperationGetAttributeByName(op, mlirStringRefCreateFromCString("callee"));
  MlirOperation f = mlirAttributeIsNull(callee) ? (MlirOperation){0} : blu_func_find(m, mlirFlatSymbolRefAttrGetValue(callee).data);
  if (mlirOperationIsNull(f)) return blu_refuse(why, "callee", -1, "a call of a function that is not there");
  intptr_t nin = mlirOperationGetNumOperands(op), nout = mlirOperationGetNumResults(op);
  const double **args = blu_alloc_zeroed((size_t)nin + 1, sizeof *args);
  double **results = blu_alloc_zeroed((size_t)nout + 1, sizeof *results);
  for (intptr_t i = 0; i < nin; i++) args[i] = result_of(values, mlirOperationGetOperand(op, i));
  bool good = blu_interp_run(m, f, args, results, why);
  for (intptr_t i = 0; good && i < nout; i++) blu_map_set(values, mlirOperationGetResult(op, i).ptr, results[i]);
  free(args);
  free(results);
  return good;
}

static bool run_op(MlirOperation m, const BluOp *op, BluMap *values, BluWhy *why) {
  BluSig sig;
  blu_sig_of(m, &sig);
  if (!op->rule->ref) return blu_refuse(why, "ref", -1, "blu.%s has no reference", op->name);
  BluRefCall c = {.sig = &sig, .out = blu_alloc_zeroed((size_t)blu_type_count(&sig.out) + 1, sizeof(double))};
  for (int i = 0; i < sig.nin; i++) c.in[i] = result_of(values, mlirOperationGetOperand(m, i));
  op->rule->ref(&c);
  blu_map_set(values, mlirOperationGetResult(m, 0).ptr, c.out);
  return true;
}

bool blu_interp_run(MlirModule m, MlirOperation func, const double *const *args, double **results, BluWhy *why) {
  BluMap values = {0}; /* value -> doubles; arguments are borrowed, everything else is owned */
  MlirBlock block = blu_func_block(func);
  for (intptr_t i = 0, n = mlirBlockGetNumArguments(block); i < n; i++)
    blu_map_set(&values, mlirBlockGetArgument(block, i).ptr, (void *)args[i]);
  MlirOperation end = mlirBlockGetTerminator(block);
  bool good = true;
  for (MlirOperation o = mlirBlockGetFirstOperation(block); good && !mlirOperationEqual(o, end); o = mlirOperationGetNextInBlock(o)) {
    const BluOp *op = blu_op_of(o);
    if (!op) good = run_call(m, o, &values, why);
    else if (op->nout) good = run_op(o, op, &values, why);
  }
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(end); good && i < n; i++) { /* copies: a value may be returned twice */
    BluType t = blu_value_type(mlirOperationGetOperand(end, i));
    size_t bytes = (size_t)blu_type_count(&t) * sizeof(double);
    results[i] = blu_alloc(bytes + 1);
    memcpy(results[i], result_of(&values, mlirOperationGetOperand(end, i)), bytes);
  }
  for (MlirOperation o = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o))
    for (intptr_t i = 0, n = mlirOperationGetNumResults(o); i < n; i++) free(result_of(&values, mlirOperationGetResult(o, i)));
  blu_map_free(&values);
  return good;
}
