/* passes_internal.h - what passes share. */
#ifndef BLU_PASSES_INTERNAL_H
#define BLU_PASSES_INTERNAL_H
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "dialects/map.h"
#include "passes/passes.h"

/* Reports an error at a location of the user's file; returns false. */
bool blu_error(MlirLocation loc, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The ops of a block in order; the caller frees the array. */
MlirOperation *blu_block_ops(MlirBlock block, int *n);
/* The functions of a module that have a body, in order; the caller frees the array. */
MlirOperation *blu_module_funcs(MlirModule m, int *n);
/* Removes pure ops whose results nobody uses. */
void blu_remove_dead(MlirBlock block);
/* Drops what nobody needs of a scan; true if it changed (the op may be another one then). */
bool blu_simplify_scan(MlirOperation scan);
/* Removes the bodies of scans that are gone. */
void blu_remove_orphans(MlirModule m);
/* Every scan of f, and in their bodies, hands out what its gradient reads: the carries before each step, products. */
void blu_save_scans(MlirOperation f);
/* The cotangents of a scan's operands from those of its results; ct, dx: null is zero. need: which operands lead to something that
 * is differentiated. false: an op in the body has no gradient; reported. */
bool blu_scan_vjp(BluBuilder *b, MlirOperation scan, const MlirValue *ct, const bool *need, MlirValue *dx);
/* Gradients of biases become sums beside the products that make the gradients of their weights, where these read the same tensor, and one kernel
 * can make both. */
void blu_gather_bias_gradients(MlirOperation func, bool device);
void blu_replace(MlirOperation op, MlirValue by); /* all uses of op's result; op goes away */
bool blu_is_call(MlirOperation op);               /* func.call */
bool blu_is_launch(MlirOperation op);             /* what takes time in a function of kernels: a call or a scan */
bool blu_is_kernel(MlirOperation func);
/* The result that is the same bytes as the operand at u: of a reshape, or the last value of a scan's carry; null: none. */
MlirValue blu_same_bytes(MlirOpOperand u);
/* The launches of a function in order, and each one's number + 1; blu_launches_free frees them. */
typedef struct { MlirOperation *op; int n; BluMap number; } BluLaunches;
BluLaunches blu_launches_of(MlirOperation func);
void blu_launches_free(BluLaunches *l);
/* The last launch that reads v, under whatever name; n: it is returned; -1: nobody. */
int blu_last_reader(const BluLaunches *l, MlirValue v);
/* The value that v is another name of: through reshapes, and from last values of carries to first ones. */
MlirValue blu_root(MlirValue v);
const char *blu_func_name(MlirOperation f);       /* borrowed from the context */
bool blu_accumulates(MlirModule m);               /* is a step of several micro-batches? Then @train adds up gradients, and @update takes them */
/* Is the loss multiplied by a number that the runtime chooses, before its gradient is taken? @train has an argument `scale` then. */
bool blu_scales_loss(MlirModule m);
/* Finds the ops of func that kernels of attention do for themselves as they read: op -> itself. What such a kernel reads for its operand v then; do
 * all parts of op's result come from attention, so that their kernel can store them there; the op that makes operand i of such an op, behind
 * reshapes, or null if that has more users. */
void blu_absorb(MlirOperation func, BluMap *absorbed);
MlirValue blu_absorbed_root(const BluMap *absorbed, MlirValue v);
bool blu_absorbs_result(MlirOperation op);
MlirOperation blu_absorbed_source(MlirOperation op, int i);
void blu_set_int(MlirOperation op, const char *name, int64_t v);
int64_t blu_get_int(MlirOperation op, const char *name, int64_t absent);
void blu_set_ints(MlirOperation op, const char *name, int n, const int64_t *v);
void blu_set_string(MlirOperation op, const char *name, const char *v);
const char *blu_get_string(MlirOperation op, const char *name); /* "" if absent */
#endif
