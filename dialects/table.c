/* table.c - the op table, made from the TableGen records, and look-ups in it. */
#include <string.h>
#include "dialects/blu.h"

#include "optable.inc"

/* Asked for each op in each pass. MLIR's names end with NUL. */
const BluOp *blu_op_find(const char *name) {
  for (int low = 0, high = blu_nops; low < high;) {
    int middle = (low + high) / 2;
    const BluOp *op = &blu_ops[blu_ops_by_name[middle]];
    int order = strcmp(name, op->name);
    if (!order) return op;
    if (order < 0) high = middle;
    else low = middle + 1;
  }
  return NULL;
}

const BluOp *blu_op_of(MlirOperation op) {
  MlirStringRef s = mlirIdentifierStr(mlirOperationGetName(op));
  return s.length < 5 || memcmp(s.data, "blu.", 4) ? NULL : blu_op_find(s.data + 4);
}

const BluOpCase *blu_op_cases(const BluOp *op) { return op->rule->uncoded ? op->rule->uncoded : op->rule->cases; }
