/* formats.c - numbers of a simulated format (the module's `blu.format`) are f32 from here on: where a cast made one of them, `round_to` rounds,
 * and a cast of one is the number itself. `expand` has left nothing that computes with such numbers, but what moves and chooses them. */
#include <stdlib.h>
#include "dialects/format.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "passes_internal.h"

/* The same tensor of f32, if v is one of simulated numbers. */
static void settle_type(MlirContext ctx, MlirValue v) {
  BluType t = blu_value_type(v);
  if (t.elem != BLU_SIM) return;
  t.elem = BLU_F32;
  mlirValueSetType(v, blu_type_to_mlir(ctx, &t));
}

/* What stands in the place of o, after its operands have become f32; null: o itself. */
static MlirValue settled(BluBuilder *b, MlirOperation o, const BluFormat *f) {
  BluSig s;
  blu_sig_of(o, &s);
  if (blu_is(o, "constant") && s.out.elem == BLU_SIM) {
    BluType t = s.out;
    t.elem = BLU_F32;
    return blu_constant(b, &t, blu_format_round(f, blu_attr(&s.attrs, "value")->real));
  }
  BluElem to = (BluElem)blu_attr_int(&s.attrs, blu_is(o, "cast") ? "to" : "elem", BLU_F32);
  if (blu_is(o, "cast") && to == BLU_SIM) return blu_round_to(b, blu_cast_to(b, mlirOperationGetOperand(o, 0), BLU_F32), f);
  if (blu_is(o, "cast") && to == BLU_F32 && s.in[0].elem == BLU_F32) return mlirOperationGetOperand(o, 0);
  return (MlirValue){0};
}

/* What a move puts where no element is. */
static void round_fill(MlirOperation o, const BluFormat *f) {
  MlirStringRef name = mlirStringRefCreateFromCString("value");
  MlirAttribute a = mlirOperationGetAttributeByName(o, name);
  if (mlirAttributeIsNull(a) || blu_is(o, "constant") || blu_value_type(mlirOperationGetResult(o, 0)).elem != BLU_SIM) return;
  double v = blu_format_round(f, mlirFloatAttrGetValueDouble(a));
  mlirOperationSetAttributeByName(o, name, mlirFloatAttrDoubleGet(mlirOperationGetContext(o), mlirF64TypeGet(mlirOperationGetContext(o)), v));
}

static void settle_function(MlirModule m, MlirOperation func, const BluFormat *f) {
  MlirContext ctx = mlirModuleGetContext(m);
  MlirBlock block = blu_func_block(func);
  int n;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) settle_type(ctx, mlirBlockGetArgument(block, i));
  MlirOperation *ops = blu_block_ops(block, &n);
  for (int i = 0; i < n; i++) {
    BluBuilder b = blu_builder_before(ops[i]);
    round_fill(ops[i], f);
    MlirValue by = blu_op_of(ops[i]) && mlirOperationGetNumResults(ops[i]) ? settled(&b, ops[i], f) : (MlirValue){0};
    for (intptr_t k = 0; k < mlirOperationGetNumResults(ops[i]); k++) settle_type(ctx, mlirOperationGetResult(ops[i], k));
    if (!mlirValueIsNull(by)) blu_replace(ops[i], by);
  }
  free(ops);
  blu_func_retype(func);
}

bool blu_pass_formats(MlirModule m) {
  BluFormat f;
  int n;
  if (!blu_module_format(m, &f)) return true;
  MlirOperation *funcs = blu_module_funcs(m, &n);
  for (int i = 0; i < n; i++) settle_function(m, funcs[i], &f);
  free(funcs);
  return true;
}
