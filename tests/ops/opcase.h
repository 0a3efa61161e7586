/* opcase.h - a case of the op table as a function with its gradient, run by the interpreter in double. */
#ifndef BLU_TESTS_OPS_OPCASE_H
#define BLU_TESTS_OPS_OPCASE_H
#include "passes/passes.h"

enum { OP_MAX_ARGS = BLU_MAX_IN };

/* f(args, ct) -> (result, gradients of <ct, result> with respect to the float arguments). */
typedef struct {
  MlirModule module;
  MlirOperation func;
  int nargs, nfloat, float_arg[OP_MAX_ARGS];
  BluType type[OP_MAX_ARGS], out;
} OpCase;

double opcase_uniform(double lo, double hi);   /* one sequence for the whole program: tests are repeatable */

/* false: said why; the module may exist even so. */
bool opcase_build(MlirContext ctx, const BluOpCase *from, OpCase *c);
/* The same for a program with the attribute blu.target, where gradients may be made of other ops. */
bool opcase_build_for(MlirContext ctx, const char *target, const BluOpCase *from, OpCase *c);
void opcase_free(OpCase *c);
/* Arguments within the case's ranges, and a random cotangent behind them; the caller frees each. */
void opcase_args(const OpCase *c, const BluOpCase *from, double **args);
/* results[0] the value, then the gradients; the caller frees each. false: the interpreter refused, and said why. */
bool opcase_run(const OpCase *c, double *const *args, double **results);

/* The largest errors, relative to max(1, |right|), NaN if anything is NaN: along random directions of all arguments at once,
 * and of each element of the whole Jacobian, by one run of the gradient per element of the result. */
double opcase_direction_error(const OpCase *c, const BluOpCase *from);
double opcase_jacobian_error(const OpCase *c, const BluOpCase *from);
#endif
