/* table.c - the op table, made from the TableGen records, and look-ups in it. */
#include <string.h>
#include "dialects/blu.h"

#include "optable.inc"

/* Asked for each op in each pass: most rows differ in the first letter. MLIR's names end with NUL. */
const BluOp *blu_op_find(const char *name) {
  for (int i = 0; i < blu_nops; i++)
    if (blu_ops[i].name[0] == name[0] && !strcmp(blu_ops[i].name, name)) return &blu_ops[i];
  return NULL;
}

const BluOp *blu_op_of(MlirOperation op) {
  MlirStringRef s = mlirIdentifierStr(mlirOperationGetName(op));
  return s.length < 5 || memcmp(s.data, "blu.", 4) ? NULL : blu_op_find(s.data + 4);
}

const BluOpCase *blu_op_cases(const BluOp *op) { return op->rule->uncoded ? op->rule->uncoded : op->rule->cases; }
