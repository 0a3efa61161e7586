/* passes_internal.h - what passes share. */
#ifndef BLU_PASSES_INTERNAL_H
#define BLU_PASSES_INTERNAL_H
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "passes/passes.h"

/* Reports an error at a location of the user's file; returns false. */
bool blu_error(MlirLocation loc, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The ops of a block in order; the caller frees the array. */
MlirOperation *blu_block_ops(MlirBlock block, int *n);
/* The functions of a module in order; the caller frees the array. */
MlirOperation *blu_module_funcs(MlirModule m, int *n);
/* Removes pure ops whose results nobody uses. */
void blu_remove_dead(MlirBlock block);
void blu_replace(MlirOperation op, MlirValue by); /* all uses of op's result; op goes away */
const char *blu_func_name(MlirOperation f);       /* borrowed from the context */
bool blu_accumulates(MlirModule m);               /* is a step of several micro-batches? Then @train adds up gradients, and @update takes them */
void blu_set_int(MlirOperation op, const char *name, int64_t v);
int64_t blu_get_int(MlirOperation op, const char *name, int64_t absent);
void blu_set_ints(MlirOperation op, const char *name, int n, const int64_t *v);
void blu_set_string(MlirOperation op, const char *name, const char *v);
const char *blu_get_string(MlirOperation op, const char *name); /* "" if absent */
#endif
