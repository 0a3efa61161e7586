/* cases.h - programs for every kind of kernel. */
#ifndef BLU_TESTS_CASES_H
#define BLU_TESTS_CASES_H
#include "harness.h"

/* Checks all of them with what `set` says of the target; results are counted (harness.h). */
void cases_check(Setting set);
#endif
