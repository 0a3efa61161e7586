/* passes.h - what turns blu IR into better blu IR. One pass is one file, one row of the table, one FileCheck test of the same
 * name. A pass gets a valid module and leaves a valid one; a user's mistake is reported at its location in the .blu file
 * through MLIR's diagnostics, and the pass returns false. */
#ifndef BLU_PASSES_PASSES_H
#define BLU_PASSES_PASSES_H
#include <stdio.h>
#include "dialects/blu.h"

typedef struct {
  const char *name, *summary;
  bool (*run)(MlirModule m);
} BluPass;

extern const BluPass blu_passes[]; /* in the order of the compiler, ended by a row without name */
const BluPass *blu_pass_find(const char *name);

bool blu_pass_bounds(MlirModule m);
bool blu_pass_differentiate(MlirModule m);
bool blu_pass_step(MlirModule m);
bool blu_pass_simplify(MlirModule m);
bool blu_pass_expand(MlirModule m);
bool blu_pass_formats(MlirModule m);
bool blu_pass_fuse(MlirModule m);
bool blu_pass_plan(MlirModule m);

/* Reverse mode over one block. Emits, at b, the gradient of sum_i <cts[i], roots[i]> with respect to wrt[j] into grads[j];
 * a null grads[j] says that nothing leads there. Roots and wrt are values of b's block, made before b. false: an op on the
 * way has no gradient; reported at its location. */
bool blu_gradient(BluBuilder *b, int nroots, const MlirValue *roots, const MlirValue *cts, int nwrt, const MlirValue *wrt,
                  MlirValue *grads);

/* Offsets in a body's blu.places, blu.args and blu.results: from the start of the frame, the last of its scan's blu.places; or this
 * minus k, the k-th of the scan's blu.places (operands, then results), at the step's slice if the scan slices or stacks it. */
enum { BLU_PLACE_OUTSIDE = -2 };
/* The frame of a scan whose steps threads share: it is no part of the arena. */
enum { BLU_PLACE_OF_THREAD = -1 };

/* What nobody reads any more after one launch of a planned function: places as in blu.places. For debugging: filled with NaN, it must make
 * no difference. The caller frees *dead; returns how many. */
typedef struct { int64_t place, bytes; } BluDead;
int blu_plan_dead(MlirOperation func, int launch, BluDead **dead);
/* Does this result of a planned launch lie where one of its operands does? */
bool blu_plan_in_place(MlirOperation launch, int result);

/* Writes the memory plan of a planned module as text: a table of places and lifetimes. The caller frees it. */
char *blu_plan_print(MlirModule m);

/* Runs function `func` of the module through the interpreter and prints its results. Inputs are "ARG=VALUE,VALUE.." or "ARG=FILE.npy",
 * ARG a name or a number from 0; other arguments are drawn at random, within what their roles and types allow. false: why says what is
 * wrong. */
typedef struct { const char *func; int ninputs; const char *const *inputs; uint64_t seed; bool full; } BluRunOptions;
bool blu_run(MlirModule m, const BluRunOptions *o, FILE *out, BluWhy *why);

/* Judges a model as the front end made it: its gradients by differences of the loss, and every pass of the list by what the functions
 * give before and after it; on random numbers, in several rounds. Prints a line per check and a summary. false: one failed, or a pass
 * refused the program, which it has reported. The module stays as it is. */
typedef struct { uint64_t seed; int rounds, npasses; const char *const *passes; FILE *out; } BluVerifyOptions;
bool blu_verify_model(MlirModule m, const BluVerifyOptions *o);
#endif
