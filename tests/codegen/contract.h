/* contract.h - runs IR in the arithmetic that compiled code must have, one element at a time: each op rounds to its type, sums go in
 * the order of the bit contract (dialects/ops_reduce.c, dialects/BluOps.td). Compiled kernels must equal it bit for bit. */
#ifndef BLU_TESTS_CONTRACT_H
#define BLU_TESTS_CONTRACT_H
#include "dialects/blu.h"

/* Runs a function of expanded IR (no composites, reductions over one axis). args[i] and results[i] hold tensors as they lie in
 * memory (f32, f64, i32, i64, u8, bool as a byte); results[i] is malloc'ed, the caller frees it. */
void contract_run(MlirOperation func, void *const *args, void **results);
/* As another machine might compute it that keeps to the contract but for the order of additions: each term of a sum of n terms is moved at random
 * by up to 8 n roundings, more than it needs, so that a result is seen to move which is rounded afterwards. `noise` gives numbers between -1
 * and 1. What this leaves as it was has the same bits on such a machine. */
void contract_run_noisy(MlirOperation func, void *const *args, double (*noise)(void), void **results);
double contract_get(const void *tensor, BluElem e, int64_t i);
void contract_set(void *tensor, BluElem e, int64_t i, double v);
#endif
