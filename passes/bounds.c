/* bounds.c - labels of a cross-entropy over C classes lie in [0, C), ids of a gather in [0, rows): noted as blu.bound at the data
 * argument that they come from, so that the trainer can check a data set once, before the first step, and name the row; and at inputs of
 * entries, which `predict` checks, and from which `sample` knows how many positions there are. */
#include <stdlib.h>
#include <string.h>
#include "passes_internal.h"

/* The argument that v is a cast or reshape of; null: v is something else. */
static MlirValue source(MlirValue v) {
  for (MlirOperation d = blu_def(v); !mlirOperationIsNull(d); d = blu_def(v)) {
    if (!blu_is(d, "cast") && !blu_is(d, "reshape")) return (MlirValue){0};
    v = mlirOperationGetOperand(d, 0);
  }
  return v;
}

/* Is argument `from` compared by != with a number outside of [0, bound), as in `per label != -100`? Then that number is allowed in the
 * data, and no bound is noted: rows that have it are left out of the loss. */
static bool has_ignored(MlirOperation *ops, int n, MlirValue from, int64_t bound) {
  for (int i = 0; i < n; i++) {
    double c;
    if (!blu_is(ops[i], "ne") || !blu_constant_value(mlirOperationGetOperand(ops[i], 1), &c)) continue;
    MlirValue of = source(mlirOperationGetOperand(ops[i], 0));
    if (!mlirValueIsNull(of) && mlirValueEqual(of, from) && (c < 0 || c >= (double)bound)) return true;
  }
  return false;
}

bool blu_pass_bounds(MlirModule m) {
  int nf, n;
  MlirOperation *funcs = blu_module_funcs(m, &nf);
  for (int k = 0; k < nf; k++) {
    MlirOperation *ops = blu_block_ops(blu_func_block(funcs[k]), &n);
    for (int i = 0; i < n; i++) {
      if (!blu_is(ops[i], "cross_entropy") && !blu_is(ops[i], "gather")) continue;
      BluType table = blu_value_type(mlirOperationGetOperand(ops[i], 0));
      MlirValue from = source(mlirOperationGetOperand(ops[i], 1));
      if (mlirValueIsNull(from)) continue;
      int arg = (int)mlirBlockArgumentGetArgNumber(from);
      BluPort p = blu_func_arg(funcs[k], arg);
      int64_t bound = table.dim[blu_is(ops[i], "gather") ? 0 : table.rank - 1];
      if ((strcmp(p.role, "data") && strcmp(p.role, "input")) || (p.bound && p.bound <= bound) || has_ignored(ops, n, from, bound)) continue;
      p.bound = bound;
      blu_func_set_arg(funcs[k], arg, &p);
    }
    free(ops);
  }
  free(funcs);
  return true;
}
