/* verify_internal.h - shared by the files of `bluc verify`: a model's numbers by name, and one line of the report per check. */
#ifndef BLU_PASSES_VERIFY_INTERNAL_H
#define BLU_PASSES_VERIFY_INTERNAL_H
#include "passes_internal.h"
#include "values.h"

/* Tensors by function, role and name; strings are borrowed from the context. An argument belongs to no function (func ""), since all take
 * the same parameters, but an entry's inputs to that entry. */
typedef struct { const char *func, *role, *name; BluType type; double *v; } Number;
typedef struct { Number *at; int n, cap; } Numbers;

Number *blu_numbers_find(const Numbers *ns, const char *func, const char *role, const char *name); /* NULL: none */
void blu_numbers_add(Numbers *ns, const char *func, const BluPort *p, double *v);                  /* owns v from here on */
void blu_numbers_free(Numbers *ns);
const char *blu_numbers_owner(const char *func, const char *role); /* the func that an argument is filed under */

double blu_point_scale(const Numbers *point); /* what the loss is multiplied by before its gradient is taken; 1 if by nothing */
/* A point: initial values of the model from its @init, moved a little so that nothing is zero by accident; the rest drawn. */
bool blu_point_draw(MlirModule m, uint64_t seed, bool whole_batch, double step, Numbers *point, BluWhy *why);
/* Runs f; arguments come from `first` (NULL: none), then from `point`. Its results join `results`. held: see blu_interp_run_held. */
bool blu_point_run(MlirModule m, MlirOperation f, const Numbers *first, const Numbers *point, Numbers *results, BluHeld *held, BluWhy *why);

typedef struct { FILE *out; int checks, failed, redrawn; } Report;
void blu_report(Report *r, bool held, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What the functions of m must give after `step`, which has not run yet, by the results of the differentiated @train among `graded`. Functions
 * that it leaves alone are left out. */
bool blu_verify_expect_step(MlirModule m, const Numbers *point, const Numbers *graded, Numbers *expected, BluWhy *why);

/* Gradients of the train function of `graded` (after `differentiate`) against differences of the loss in `plain`. */
void blu_verify_gradient(MlirModule plain, MlirModule graded, const Numbers *point, uint64_t seed, Report *r);
#endif
