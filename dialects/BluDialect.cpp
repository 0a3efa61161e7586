// BluDialect.cpp - all the C++ that the dialect needs: generated classes, and one trait whose verifier asks the C rule.
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "dialects_internal.h"

namespace blu {
template <typename Concrete> struct Checked : mlir::OpTrait::TraitBase<Concrete, Checked> {
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) {
    char why[512];
    if (blu_verify(wrap(op), why, sizeof why)) return mlir::success();
    return op->emitOpError(why);
  }
};
} // namespace blu

#include "BluDialect.h.inc"
#define GET_OP_CLASSES
#include "BluOps.h.inc"
#include "BluDialect.cpp.inc"
#define GET_OP_CLASSES
#include "BluOps.cpp.inc"

void blu::BluDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "BluOps.cpp.inc"
      >();
}

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Blu, blu, blu::BluDialect)

// What the C API lacks.

// Rank and dimensions of a tensor whose shape is static and has at most `most` of them, else -1. The C API's five calls for it, each with a look-up of an
// interface, were a sixth of the time of all passes.
extern "C" int blu_shim_tensor(MlirType t, int most, int64_t *dim, MlirType *elem) {
  auto tensor = mlir::dyn_cast_or_null<mlir::RankedTensorType>(unwrap(t));
  if (!tensor || tensor.getRank() > most || !tensor.hasStaticShape()) return -1;
  for (int64_t d : tensor.getShape()) *dim++ = d;
  *elem = wrap(tensor.getElementType());
  return (int)tensor.getRank();
}
