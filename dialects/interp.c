/* interp.c - runs functions through the ops' reference rules in double: the oracle of every later stage.
 *
 * Nothing is rounded to f32 but constants, and what the ops that passes/simplify.c folds make of constants alone, so that folding changes
 * no result here. Half types are rounded to, op by op, unless a run asks for exact arithmetic. What remains: a composite of constants alone
 * is not rounded, and the ops that it expands to may be. */
#include <stdlib.h>
#include <string.h>
#include "dialects/format.h"
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

static bool run_func(MlirModule m, MlirOperation func, BluHeld *held, int depth, const Tensor *args, Tensor *results, BluWhy *why);

static bool run_call(MlirModule m, MlirOperation op, BluHeld *held, int depth, BluMap *values, BluWhy *why) {
  MlirAttribute callee = mlirOperationGetAttributeByName(op, mlirStringRefCreateFromCString("callee"));
  MlirOperation f = mlirAttributeIsNull(callee) ? (MlirOperation){0} : blu_func_find(m, mlirFlatSymbolRefAttrGetValue(callee).data);
  if (mlirOperationIsNull(f)) return blu_refuse(why, "callee", -1, "a call of a function that is not there");
  intptr_t nin = mlirOperationGetNumOperands(op), nout = mlirOperationGetNumResults(op);
  Tensor *args = blu_alloc_zeroed((size_t)nin + 1, sizeof *args), *results = blu_alloc_zeroed((size_t)nout + 1, sizeof *results);
  for (intptr_t i = 0; i < nin; i++) {
    args[i] = *tensor_of(values, mlirOperationGetOperand(op, i));
    args[i].owned = false; /* borrowed */
  }
  bool good = run_func(m, f, held, depth + 1, args, results, why);
  for (intptr_t i = 0; good && i < nout; i++) bind(values, mlirOperationGetResult(op, i), results[i]);
  free(args);
  free(results);
  return good;
}

/* Arguments of one run of a scan's body: the carries as they are now, slice t of each sequence, the rest whole. All are borrowed. */
static void scan_arguments(MlirOperation op, const BluScan *s, const BluMap *values, int64_t t, double *const *result, Tensor *args) {
  for (int i = 0; i < s->carries + s->sequences + s->fixed; i++) {
    BluType type = blu_value_type(mlirOperationGetOperand(op, i)), slice = blu_scan_slice(&type);
    const Tensor *whole = tensor_of(values, mlirOperationGetOperand(op, i));
    if (i < s->carries) args[i] = (Tensor){.data = result[i]};
    else if (i < s->carries + s->sequences) args[i] = (Tensor){.data = whole->data + t * blu_type_count(&slice)};
    else args[i] = (Tensor){.data = whole->data, .constant = whole->constant};
  }
}

static bool run_scan(MlirModule m, MlirOperation op, BluHeld *held, int depth, BluMap *values, BluWhy *why) {
  BluScan s;
  blu_scan_of(op, &s);
  MlirOperation body = blu_func_find(m, s.body);
  if (mlirOperationIsNull(body)) return blu_refuse(why, "scan-body", -1, "a scan over a function that is not there");
  int nin = s.carries + s.sequences + s.fixed, nout = s.carries + s.stacked;
  Tensor *args = blu_alloc_zeroed((size_t)nin + 1, sizeof *args), *made = blu_alloc_zeroed((size_t)nout + 1, sizeof *made);
  double **result = blu_alloc_zeroed((size_t)nout + 1, sizeof *result);
  size_t *bytes = blu_alloc_zeroed((size_t)nout + 1, sizeof *bytes); /* of what one run makes */
  for (int i = 0; i < nout; i++) {
    BluType t = blu_func_result(body, i).type;
    bytes[i] = (size_t)blu_type_count(&t) * sizeof(double);
    result[i] = blu_alloc_zeroed(bytes[i] * (i < s.carries ? 1 : (size_t)s.steps) + 1, 1);
    if (i < s.carries) memcpy(result[i], tensor_of(values, mlirOperationGetOperand(op, i))->data, bytes[i]);
  }
  bool good = true;
  for (int64_t k = 0; good && k < s.steps; k++) {
    int64_t t = s.reverse ? s.steps - 1 - k : k;
    scan_arguments(op, &s, values, t, result, args);
    good = run_func(m, body, held, depth + 1, args, made, why);
    for (int i = 0; good && i < nout; i++) {
      memcpy((char *)result[i] + (i < s.carries ? 0 : (size_t)t * bytes[i]), made[i].data, bytes[i]);
      free(made[i].data);
    }
  }
  for (int i = 0; good && i < nout; i++) bind(values, mlirOperationGetResult(op, i), (Tensor){.data = result[i], .owned = true});
  for (int i = 0; !good && i < nout; i++) free(result[i]);
  free(args), free(made), free(result), free(bytes);
  return good;
}

/* Is what this op makes of constants a constant for the compiler? */
static bool folds(const BluOp *op) {
  static const char *const names[] = {"constant", "add", "sub", "mul", "div", "sqrt", "neg", "broadcast", "reshape", "cast"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(op->name, names[i])) return true;
  return false;
}

/* What stop_gradient gives: recorded, or as it was recorded. */
static void hold(BluHeld *held, double *out, int64_t n) {
  size_t bytes = (size_t)n * sizeof *out;
  if (held->replay) {
    if (held->next < held->n) memcpy(out, held->v[held->next++], bytes);
    return;
  }
  held->v = blu_realloc(held->v, (size_t)(held->n + 1) * sizeof *held->v);
  held->v[held->n] = blu_alloc(bytes + 1);
  memcpy(held->v[held->n++], out, bytes);
}

void blu_held_free(BluHeld *held) {
  for (int i = 0; i < held->n; i++) free(held->v[i]);
  free(held->v);
  *held = (BluHeld){0};
}

static bool run_op(MlirOperation m, const BluOp *op, BluHeld *held, BluMap *values, BluWhy *why) {
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
  if (held && blu_is(m, "stop_gradient")) hold(held, c.out, n);
  bool rounds = !held && blu_elem_is_half(sig.out.elem);
  BluFormat simulated;
  if (rounds && sig.out.elem == BLU_SIM && blu_module_format(blu_module_of(m), &simulated))
    for (int64_t i = 0; i < n; i++) c.out[i] = blu_format_round(&simulated, c.out[i]);
  if (held && blu_is(m, "round_to")) memcpy(c.out, c.in[0], (size_t)n * sizeof *c.out);
  for (int64_t i = 0; (constant || rounds) && i < n; i++) c.out[i] = blu_elem_round(sig.out.elem, c.out[i]);
  bind(values, mlirOperationGetResult(m, 0), (Tensor){.data = c.out, .constant = constant, .owned = true});
  return true;
}

static bool run_func(MlirModule m, MlirOperation func, BluHeld *held, int depth, const Tensor *args, Tensor *results, BluWhy *why) {
  BluMap values = {0};
  MlirBlock block = blu_func_block(func);
  if (mlirBlockIsNull(block)) return blu_refuse(why, "callee", -1, "a call of a function without a body");
  if (depth > MOST_CALLS) return blu_refuse(why, "callee", -1, "calls are nested more than %d deep", MOST_CALLS);
  for (intptr_t i = 0, n = mlirBlockGetNumArguments(block); i < n; i++) bind(&values, mlirBlockGetArgument(block, i), args[i]);
  MlirOperation end = mlirBlockGetTerminator(block);
  bool good = true;
  for (MlirOperation o = mlirBlockGetFirstOperation(block); good && !mlirOperationEqual(o, end); o = mlirOperationGetNextInBlock(o)) {
    const BluOp *op = blu_op_of(o);
    if (blu_is(o, "scan")) good = run_scan(m, o, held, depth, &values, why);
    else if (!op) good = run_call(m, o, held, depth, &values, why);
    else if (op->nout) good = run_op(o, op, held, &values, why);
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

/* held: nothing of the half types is rounded. */
static bool run(MlirModule m, MlirOperation func, BluHeld *held, const double *const *args, double **results, BluWhy *why) {
  int nargs = blu_func_nargs(func), nresults = blu_func_nresults(func);
  Tensor *in = blu_alloc_zeroed((size_t)nargs + 1, sizeof *in), *out = blu_alloc_zeroed((size_t)nresults + 1, sizeof *out);
  for (int i = 0; i < nargs; i++) in[i].data = (double *)(uintptr_t)args[i]; /* never written */
  bool good = run_func(m, func, held, 0, in, out, why);
  for (int i = 0; i < nresults; i++) results[i] = out[i].data;
  free(in), free(out);
  return good;
}

bool blu_interp_run(MlirModule m, MlirOperation func, const double *const *args, double **results, BluWhy *why) {
  return run(m, func, NULL, args, results, why);
}

bool blu_interp_run_held(MlirModule m, MlirOperation func, const double *const *args, double **results, BluHeld *held, BluWhy *why) {
  BluHeld nothing = {0};
  BluHeld *used = held ? held : &nothing;
  used->next = 0;
  bool good = run(m, func, used, args, results, why);
  blu_held_free(&nothing);
  return good;
}
