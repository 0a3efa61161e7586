/* table.c - the op table, made from the TableGen records, and look-ups in it. */
#include <string.h>
#include "dialects/blu.h"

#include "optable.inc"

const BluOp *blu_op_find(const char *name) {
  for (int i = 0; i < blu_nops; i++)
    if (!strcmp(blu_ops[i].name, name)) return &blu_ops[i];
  return NULL;
}

const BluOp *blu_op_of(MlirOperation op) {
  MlirStringRef s = mlirIdentifierStr(mlirOperationGetName(op));
  if (s.length < 5 || memcmp(s.data, "blu.", 4)) return NULL;
  for (int i = 0; i < blu_nops; i++)
    if (strlen(blu_ops[i].name) == s.length - 4 && !memcmp(blu_ops[i].name, s.data + 4, s.length - 4)) return &blu_ops[i];
  return NULL;
}

const BluOpCase *blu_op_cases(const BluOp *op) { return op->rule->uncoded ? op->rule->uncoded : op->rule->cases; }
