/* values.h - numbers for the arguments of functions that the interpreter runs: drawn, given on a command line, read from a file, and
 * printed. Internal to passes/. Every element type is held as double. */
#ifndef BLU_PASSES_VALUES_H
#define BLU_PASSES_VALUES_H
#include <stdio.h>
#include "dialects/blu.h"

uint64_t blu_values_mix(uint64_t seed, const char *text);      /* another seed for each text */
uint64_t blu_values_random(uint64_t *state);
double blu_values_normal(uint64_t *state);                     /* mean 0, deviation 1 */

/* Fills out[] with numbers that argument `arg` of f may have: integers that name rows or classes of a tensor are within its bounds,
 * state is positive, a `run` value is its default, `rows` is the whole batch, the seed is `seed`. The same seed gives the same numbers. */
void blu_values_draw(MlirOperation f, int arg, uint64_t seed, double *out);

/* "1, 2.5, -3" (one number: for all elements) or FILE.npy, whose shape must be that of t. false: why says what is wrong. */
bool blu_values_parse(const char *text, const BluType *t, double *out, BluWhy *why);
bool blu_values_read_npy(const char *path, const BluType *t, double *out, BluWhy *why);

/* "f32[2, 3] = 1, 2, .." on one line; what is behind the first few is left out, unless `full`. */
void blu_values_print(FILE *to, const BluType *t, const double *values, bool full);

/* Says what is wrong; returns false. */
bool blu_values_refuse(BluWhy *why, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
