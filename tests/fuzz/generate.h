/* generate.h - random well-typed programs, made from the op table: a function @f of one block. */
#ifndef BLU_TESTS_FUZZ_GENERATE_H
#define BLU_TESTS_FUZZ_GENERATE_H
#include "dialects/blu.h"

enum { MAX_VALUES = 48, MAX_ARGS = 32 };

/* Which program: that of a seed, with floats of one type, returning some of its last values, or only value `which`. Each value may be
 * edited: an op is dropped, and in the place of its result stands a new argument or another value of its type that was there before. */
enum { KEPT = -2, BY_ARGUMENT = -1 }; /* of an edit; 0 and above: by this value */
typedef struct { uint64_t seed; BluElem real; int which; signed char edit[MAX_VALUES]; } Recipe;

typedef struct {
  MlirModule module;
  MlirOperation func;
  MlirBlock block;
  int first, nvalues;          /* values [0, first) are the arguments that the seed gave */
  MlirValue value[MAX_VALUES]; /* null: gone with an edit */
} Program;

Recipe recipe_of(uint64_t seed, BluElem real);
/* The program up to its return, which is for program_return or for the caller. */
Program program_make(MlirContext ctx, const Recipe *r);
/* Ends it: returns the values of the recipe. Of an edited program, and if `trim`, ops and arguments that nothing needs go. */
void program_return(Program *p, const Recipe *r, bool trim);
/* Adds 1 to count[i] for each op blu_ops[i] that the results depend on. */
void program_count(const Program *p, int *count);
#endif
