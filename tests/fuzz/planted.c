/* planted.c - faults for the random programs to find. Linked in front of the compiler's own functions (--wrap); BLU_PLANT in the environment
 * names the one that is wrong: a pass, or code generation, that swaps the operands of an op, or a gradient without its factor. */
#include <stdlib.h>
#include <string.h>
#include "codegen/codegen.h"
#include "passes/passes.h"

static bool planted(const char *what) {
  const char *plant = getenv("BLU_PLANT");
  return plant && !strcmp(plant, what);
}

/* The op is one that no composite expands to. */
static void swap_operands(MlirModule m, const char *op) {
  for (MlirOperation f = mlirBlockGetFirstOperation(mlirModuleGetBody(m)); !mlirOperationIsNull(f); f = mlirOperationGetNextInBlock(f))
    for (MlirOperation o = mlirBlockGetFirstOperation(blu_func_block(f)); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
      if (!blu_is(o, op)) continue;
      MlirValue a = mlirOperationGetOperand(o, 0), b = mlirOperationGetOperand(o, 1);
      mlirOperationSetOperand(o, 0, b);
      mlirOperationSetOperand(o, 1, a);
    }
}

#define WRONG_PASS(pass, op)                             \
  bool __real_blu_pass_##pass(MlirModule m);             \
  bool __wrap_blu_pass_##pass(MlirModule m);             \
  bool __wrap_blu_pass_##pass(MlirModule m) {            \
    bool good = __real_blu_pass_##pass(m);               \
    if (planted(#pass)) swap_operands(m, op);            \
    return good;                                         \
  }
WRONG_PASS(simplify, "pow")
WRONG_PASS(expand, "pow")
WRONG_PASS(fuse, "pow")

bool __real_blu_program_emit(LLVMModuleRef lm, MlirModule m, const BluProgramInfo *info);
bool __wrap_blu_program_emit(LLVMModuleRef lm, MlirModule m, const BluProgramInfo *info);
bool __wrap_blu_program_emit(LLVMModuleRef lm, MlirModule m, const BluProgramInfo *info) {
  if (planted("code")) swap_operands(m, "pow");
  return __real_blu_program_emit(lm, m, info);
}

static void tanh_without_factor(BluVjp *v) { v->dx[0] = v->ct; }

const BluOp *__real_blu_op_of(MlirOperation op);
const BluOp *__wrap_blu_op_of(MlirOperation op);
const BluOp *__wrap_blu_op_of(MlirOperation op) {
  static BluOp row;
  static BluRule rule;
  const BluOp *real = __real_blu_op_of(op);
  if (!real || strcmp(real->name, "tanh") || !planted("gradient")) return real;
  rule = *real->rule;
  rule.vjp = tanh_without_factor;
  row = *real;
  row.rule = &rule;
  return &row;
}
