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

/* Operands of one run of a scan's body: the carries as they are now, slice t of each sequence, the rest whole. */
static void scan_arguments(MlirOperation op, const BluScan *s, const BluMap *values, int64_t t, double *const *carry, const double **args) {
  for (int i = 0; i < s->carries + s->sequences + s->fixed; i++) {
    BluType type = blu_value_type(mlirOperationGetOperand(op, i)), slice = blu_scan_slice(&type);
    const double *whole = result_of(values, mlirOperationGetOperand(op, i));
    bool sequence = i >= s->carries && i < s->carries + s->sequences;
    args[i] = i < s->carries ? carry[i] : sequence ? whole + t * blu_type_count(&slice) : whole;
  }
}

static bool run_scan(MlirModule m, MlirOperation op, BluMap *values, BluWhy *why) {
  BluScan s;
  blu_scan_of(op, &s);
  MlirOperation body = blu_func_find(m, s.body);
  if (mlirOperationIsNull(body)) return blu_refuse(why, "body", -1, "a scan over a function that is not there");
  int nin = s.carries + s.sequences + s.fixed, nout = s.carries + s.stacked;
  const double **args = blu_alloc_zeroed((size_t)nin + 1, sizeof *args);
  double **made = blu_alloc_zeroed((size_t)nout + 1, sizeof *made), **result = blu_alloc_zeroed((size_t)nout + 1, sizeof *result);
  for (int i = 0; i < nout; i++) {
    MlirValue v = mlirOperationGetResult(op, i);
    BluType t = blu_value_type(v);
    size_t bytes = (size_t)blu_type_count(&t) * sizeof(double);
    result[i] = blu_alloc_zeroed(bytes + 1, 1);
    if (i < s.carries) memcpy(result[i], result_of(values, mlirOperationGetOperand(op, i)), bytes);
    blu_map_set(values, v.ptr, result[i]);
  }
  bool good = true;
  for (int64_t k = 0; good && k < s.steps; k++) {
    int64_t t = s.reverse ? s.steps - 1 - k : k;
    scan_arguments(op, &s, values, t, result, args);
    good = blu_interp_run(m, body, args, made, why);
    for (int i = 0; good && i < nout; i++) {
      BluType type = blu_func_result(body, i).type;
      size_t n = (size_t)blu_type_count(&type);
      memcpy(result[i] + (i < s.carries ? 0 : (size_t)t * n), made[i], n * sizeof(double));
      free(made[i]);
    }
  }
  free(args), free(made), free(result);
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
    if (blu_is(o, "scan")) good = run_scan(m, o, &values, why);
    else if (!op) good = run_call(m, o, &values, why);
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
