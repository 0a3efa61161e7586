/* interp.c - runs functions through the ops' reference rules in double: the oracle of every later stage.
 *
 * Nothing is rounded to f32 but constants, and what the ops that passes/simplify.c folds make of constants alone, so that folding changes
 * no result here. What remains: a composite of constants alone is not rounded, and the ops that it expands to may be. */
#include <stdlib.h>
#include <string.h>
#include "dialects_internal.h"
#include "dialects/map.h"
#include "mlir-c/BuiltinAttributes.h"
#include "dialects/memory.h"

enum { MOST_CALLS = 64 }; /* within one another; a function that calls itself ends there */

/* A tensor while its uses last. */
typedef struct { double *data; bool constant, owned; int64_t uses; } Tensor;

static Tensor *tensor_of(const BluMap *values, MlirValue v) { return blu_map_get(values, v.ptr); }

static void drop(Tensor *t) {
  if (t->owned) free(t->data);
  free(t);
}

/* Binds v; a tensor that nobody reads goes at once. */
static void bind(BluMap *values, MlirValue v, Tensor from) {
  Tensor *t = blu_alloc(sizeof *t);
  *t = from;
  t->uses = 0;
  for (MlirOpOperand u = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) t->uses++;
  if (t->uses) blu_map_set(values, v.ptr, t);
  else drop(t);
}

static void release_operands(BluMap *values, MlirOperation o) {
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(o); i < n; i++) {
    MlirValue v = mlirOperationGetOperand(o, i);
    Tensor *t = tensor_of(values, v);
    if (!t || --t->uses > 0) continue;
    drop(t);
    blu_map_set(values, v.ptr, NULL);
  }
}

static bool run_func(MlirModule m, MlirOperation func, int depth, const Tensor *args, Tensor *results, BluWhy *why);

static bool run_call(MlirModule m, MlirOperation op, int depth, BluMap *values, BluWhy *why) {
  MlirAttribute callee = mlirOperationGetAttributeByName(op, mlirStringRefCreateFromCString("callee"));
  MlirOperation f = mlirAttributeIsNull(callee) ? (MlirOperation){0} : blu_func_find(m, mlirFlatSymbolRefAttrGetValue(callee).data);
  if (mlirOperationIsNull(f)) return blu_refuse(why, "callee", -1, "a call of a function that is not there");
  intptr_t nin = mlirOperationGetNumOperands(op), nout = mlirOperationGetNumResults(op);
  Tensor *args = blu_alloc_zeroed((size_t)nin + 1, sizeof *args), *results = blu_alloc_zeroed((size_t)nout + 1, sizeof *results);
  for (intptr_t i = 0; i < nin; i++) {
    args[i] = *tensor_of(values, mlirOperationGetOperand(op, i));
    args[i].owned = false; /* borrowed */
  }
  bool good = run_func(m, f, depth + 1, args, results, why);
  for (intptr_t i = 0; good && i < nout; i++) bind(values, mlirOperationGetResult(op, i), results[i]);
  free(args);
  free(results);
  return good;
}

/* Is what this op makes of constants a constant for the compiler? */
static bool folds(const BluOp *op) {
  static const char *const names[] = {"constant", "add", "sub", "mul", "div", "sqrt", "neg", "broadcast", "reshape", "cast"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(op->name, names[i])) return true;
  return false;
}

static bool run_op(MlirOperation m, const BluOp *op, BluMap *values, BluWhy *why) {
  BluSig sig;
  blu_sig_of(m, &sig);
  if (!op->rule->ref) return blu_refuse(why, "ref", -1, "blu.%s has no reference", op->name);
  int64_t n = blu_type_count(&sig.out);
  BluRefCall c = {.sig = &sig, .out = blu_alloc_zeroed((size_t)n + 1, sizeof(double))};
  bool constant = folds(op);
  for (int i = 0; i < sig.nin; i++) {
    const Tensor *t = tensor_of(values, mlirOperationGetOperand(m, i));
    c.in[i] = t->data;
    constant &= t->constant;
  }
  op->rule->ref(&c);
  for (int64_t i = 0; constant && i < n; i++) c.out[i] = blu_rounded(sig.out.elem, c.out[i]);
  bind(values, mlirOperationGetResult(m, 0), (Tensor){.data = c.out, .constant = constant, .owned = true});
  return true;
}

static bool run_func(MlirModule m, MlirOperation func, int depth, const Tensor *args, Tensor *results, BluWhy *why) {
  BluMap values = {0};
  MlirBlock block = blu_func_block(func);
  if (mlirBlockIsNull(block)) return blu_refuse(why, "callee", -1, "a call of a function without a body");
  if (depth > MOST_CALLS) return blu_refuse(why, "callee", -1, "calls are nested more than %d deep", MOST_CALLS);
  for (intptr_t i = 0, n = mlirBlockGetNumArguments(block); i < n; i++) bind(&values, mlirBlockGetArgument(block, i), args[i]);
  MlirOperation end = mlirBlockGetTerminator(block);
  bool good = true;
  for (MlirOperation o = mlirBlockGetFirstOperation(block); good && !mlirOperationEqual(o, end); o = mlirOperationGetNextInBlock(o)) {
    const BluOp *op = blu_op_of(o);
    if (!op) good = run_call(m, o, depth, &values, why);
    else if (op->nout) good = run_op(o, op, &values, why);
    if (good) release_operands(&values, o);
  }
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(end); good && i < n; i++) { /* copies: a value may be returned twice */
    BluType t = blu_value_type(mlirOperationGetOperand(end, i));
    const Tensor *from = tensor_of(&values, mlirOperationGetOperand(end, i));
    size_t bytes = (size_t)blu_type_count(&t) * sizeof(double);
    results[i] = (Tensor){.data = blu_alloc(bytes + 1), .constant = from->constant, .owned = true};
    memcpy(results[i].data, from->data, bytes);
  }
  for (size_t i = 0; i < values.size; i++)
    if (values.slot[i].value) drop(values.slot[i].value);
  blu_map_free(&values);
  return good;
}

bool blu_interp_run(MlirModule m, MlirOperation func, const double *const *args, double **results, BluWhy *why) {
  int nargs = blu_func_nargs(func), nresults = blu_func_nresults(func);
  Tensor *in = blu_alloc_zeroed((size_t)nargs + 1, sizeof *in), *out = blu_alloc_zeroed((size_t)nresults + 1, sizeof *out);
  for (int i = 0; i < nargs; i++) in[i].data = (double *)(uintptr_t)args[i]; /* never written */
  bool good = run_func(m, func, 0, in, out, why);
  for (int i = 0; i < nresults; i++) results[i] = out[i].data;
  free(in), free(out);
  return good;
}
