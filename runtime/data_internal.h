/* data_internal.h - where training data comes from.
 *
 * A source is one file in data/ and one line in the table of data.c. It opens one split, says how many examples that
 * has, checks once that they fit the DATA slots of a function, and then copies examples by index into these slots. */
#ifndef BLU_DATA_INTERNAL_H
#define BLU_DATA_INTERNAL_H
#include "runtime_internal.h"

typedef enum { BLU_SPLIT_TRAIN, BLU_SPLIT_TEST } BluSplit;

typedef struct {
  const char *dir;  /* folder of the files */
  const char *args; /* BluProgram.data_args */
  BluSplit split;
  bool optional;    /* a split without files is not an error */
} BluDataSpec;

typedef struct {
  const char *name;
  /* *state is NULL where an optional split has no files. */
  bool (*open)(BluError *err, const BluDataSpec *spec, void **state);
  int64_t (*count)(const void *state); /* examples */
  int64_t (*bytes)(const void *state); /* memory that the data takes */
  /* Shapes and types against the slot, and every value against slot->bound; a clear error names file and slot. */
  bool (*check)(BluError *err, const void *state, const BluSlot *slot);
  /* Copies the examples index[0, rows) into rows of a slot that was checked; `place` is the first of them. Called by
   * several threads at once, each for rows of its own. */
  void (*fetch)(const void *state, const BluSlot *slot, char *place, const int64_t *index, int64_t rows);
  void (*close)(void *state);
} BluDataSource;

extern const BluDataSource blu_data_idx;

/* One split of the program's data, open. */
typedef struct {
  const BluDataSource *source; /* NULL: not open, or the split has no files */
  void *state;
  int64_t count, bytes;
} BluData;

/* Opens a split of the program's data in `dir` (NULL: the argument `dir` of the program, else the current folder) and
 * checks it against the DATA slots of `function`. */
bool blu_data_open(BluError *err, BluData *data, const BluProgram *program, const BluFunction *function,
                   const char *dir, BluSplit split, bool optional);
/* Fills the DATA slots of the function, in the arena of the pool, with index[0, rows), and the rest of the batch with
 * zeros. The DATA slots share their leading dimension. */
void blu_data_fetch(const BluData *data, const BluFunction *function, BluPool *pool, const int64_t *index,
                    int64_t rows);
void blu_data_close(BluData *data);

#endif
