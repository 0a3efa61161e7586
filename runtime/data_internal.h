/* data_internal.h - where training data comes from.
 *
 * A source is one file in data/ and one line in the table of data.c. It opens one split, says how many examples that
 * has, checks once that they fit the DATA slots of a function, and then copies examples by index into these slots. */
#ifndef BLU_DATA_INTERNAL_H
#define BLU_DATA_INTERNAL_H
#include <sys/stat.h>

#include "runtime_internal.h"

/* --- load.c: all bytes of a file ---------------------------------------------------------------------------------- */

typedef struct {
  char *path;
  const uint8_t *data;
  int64_t size;
  void *map;        /* of mmap; NULL: in memory */
  uint8_t *heap;    /* NULL: mapped */
  struct stat file; /* of a mapped file, when it was opened */
} BluBytes;

/* Inflates gzip. Waits at most `seconds` for each piece of a pipe. */
bool blu_bytes_open(BluError *err, BluBytes *bytes, const char *path, int64_t seconds);
bool blu_bytes_inflate(BluError *err, const char *path, const uint8_t *from, int64_t size, uint8_t **to,
                       int64_t *to_size);
/* False if a mapped file was written to since it was opened. */
bool blu_bytes_unchanged(BluError *err, const BluBytes *bytes);
void blu_bytes_close(BluBytes *bytes);

/* --- array.c: examples of any type -------------------------------------------------------------------------------- */

typedef enum {
  BLU_RAW_U8, BLU_RAW_I8, BLU_RAW_BOOL, BLU_RAW_U16, BLU_RAW_I16, BLU_RAW_U32, BLU_RAW_I32, BLU_RAW_I64, BLU_RAW_F32,
  BLU_RAW_F64, BLU_RAW_F16, BLU_RAW_BF16
} BluRaw;

int64_t blu_raw_bytes(BluRaw raw);
BluRaw blu_raw_of(int32_t dtype); /* of a file that holds a slot's values as they are */
bool blu_raw_real(BluRaw raw); /* has fractions */
const char *blu_raw_name(BluRaw raw);
/* Converts values for a slot of `dtype` and `bound` (see BluSlot). Gives the index of the first value that the slot
 * can't take, or -1; with to == NULL it only looks. `from` needs no alignment. */
int64_t blu_raw_convert(const void *from, BluRaw raw, int64_t count, void *to, int32_t dtype, int64_t bound);
void blu_raw_print(const void *from, BluRaw raw, char text[static 40]);

/* Rows of values, row-major; dim[0] counts the rows. It borrows everything. */
typedef struct {
  const char *path;  /* for messages */
  const void *value;
  BluRaw raw;
  int32_t rank;
  int64_t dim[BLU_ABI_RANK];
  int64_t stride;     /* values from one row to the next */
  int64_t first_line; /* of a text file: line of row 0; else 0 */
} BluArray;

int64_t blu_array_row(const BluArray *array); /* values of a row */
const char *blu_array_type(const BluArray *array, char text[static 200]);
/* True if a row has the slot's dimensions after the first, or one of the two is flat and their product agrees. */
bool blu_array_fits(const BluArray *array, const BluSlot *slot);
/* Every value against the slot's type and bound. */
bool blu_array_check(BluError *err, const BluArray *array, const BluSlot *slot);
/* Copies rows by index; false if a value doesn't fit the slot (its row is zeroed): the file was changed meanwhile. */
bool blu_array_fetch(const BluArray *array, const BluSlot *slot, char *place, const int64_t *index, int64_t rows);

/* --- readers of single files, in data/: of bytes in memory, so that they can be fuzzed ------------------------------ */

bool blu_idx_parse(BluError *err, const char *path, const uint8_t *bytes, int64_t size, BluArray *array);
bool blu_npy_parse(BluError *err, const char *path, const uint8_t *bytes, int64_t size, BluArray *array);
/* Writes the header of an array of this slot's type, with `rows` as its leading dimension. */
bool blu_npy_header(BluError *err, int fd, const char *path, const BluSlot *slot, int64_t rows);
/* The values. NumPy has no bf16: header and values are those of f32 then. */
bool blu_npy_write(BluError *err, int fd, const char *path, const char *from, int64_t count, int32_t dtype);

/* A table of numbers, with or without a line of names. */
typedef struct {
  int64_t rows, columns;
  double *value; /* [rows][columns] */
  char **name;   /* [columns]; NULL: the file has none */
  int64_t first_line;
} BluCsv;

bool blu_csv_parse(BluError *err, const char *path, const uint8_t *bytes, int64_t size, BluCsv *csv);
void blu_csv_free(BluCsv *csv);

typedef struct {
  const uint8_t *token; /* `count` tokens of `raw`: u8, u16 or u32 */
  BluRaw raw;
  int64_t count;
} BluShard;

/* A shard of llm.c (its header says which type), or of bare tokens of `raw_bits` bits where that isn't 0. */
bool blu_shard_parse(BluError *err, const char *path, const uint8_t *bytes, int64_t size, int64_t raw_bits,
                     BluShard *shard);

/* --- sources ------------------------------------------------------------------------------------------------------ */

typedef enum { BLU_SPLIT_TRAIN, BLU_SPLIT_TEST } BluSplit;

typedef struct {
  const char *dir;  /* folder of the files */
  const char *args; /* BluProgram.data_args */
  BluSplit split;
  bool optional;    /* a split without files is not an error */
  int64_t seconds;  /* how long to wait for a pipe */
  const BluFunction *function; /* whose DATA slots are to be filled */
} BluDataSpec;

typedef struct {
  const char *name;
  const char *keys; /* arguments of its own, each between spaces; "SLOT" and "test_SLOT" stand for names of slots */
  /* *state is NULL where an optional split has no files. */
  bool (*open)(BluError *err, const BluDataSpec *spec, void **state);
  int64_t (*count)(const void *state); /* examples */
  /* Memory that the data takes: its own, and that of mapped files, which the system takes back when it needs it. */
  void (*bytes)(const void *state, int64_t *own, int64_t *mapped);
  /* Shapes and types against the slot, and every value against slot->bound; a clear error names file and slot. */
  bool (*check)(BluError *err, const void *state, const BluSlot *slot);
  /* Copies the examples index[0, rows) into rows of a slot that was checked; `place` is the first of them. Called by
   * several threads at once, each for rows of its own. False: a value is not what was checked. */
  bool (*fetch)(const void *state, const BluSlot *slot, char *place, const int64_t *index, int64_t rows);
  /* Reads a byte of each page that the examples lie on; NULL: all is in memory. Gives anything. */
  int64_t (*touch)(const void *state, const int64_t *index, int64_t rows);
  /* False if a file was written to since it was opened. */
  bool (*unchanged)(BluError *err, const void *state);
  void (*close)(void *state);
} BluDataSource;

extern const BluDataSource blu_data_idx, blu_data_npy, blu_data_csv, blu_data_text, blu_data_tokens;

/* --- data/files.c: what the sources of arrays share ----------------------------------------------------------------- */

typedef struct BluFiles BluFiles;

/* Files that arrays come from, and the array for each slot by name; both are kept until blu_files_close. */
BluFiles *blu_files_new(void);
BluBytes *blu_files_open(BluError *err, BluFiles *files, const char *path, int64_t seconds);
void blu_files_hold(BluFiles *files, void *memory, int64_t bytes); /* freed with it */
/* The array that fills the slot of this name. Error: it has another number of rows than those before. */
bool blu_files_add(BluError *err, BluFiles *files, const char *slot, const BluArray *array);
/* The members of BluDataSource, for a state that is a BluFiles. */
int64_t blu_files_count(const void *state);
void blu_files_bytes(const void *state, int64_t *own, int64_t *mapped);
bool blu_files_check(BluError *err, const void *state, const BluSlot *slot);
bool blu_files_fetch(const void *state, const BluSlot *slot, char *place, const int64_t *index, int64_t rows);
int64_t blu_files_touch(const void *state, const int64_t *index, int64_t rows);
bool blu_files_unchanged(BluError *err, const void *state);
void blu_files_close(void *state);

/* Path of the existing file `name` in the folder, as it is or with ".gz"; NULL, with an error, if there is none. */
char *blu_files_find(BluError *err, const char *dir, const char *name);

/* --- data.c: one split of the program's data ------------------------------------------------------------------------ */

typedef struct {
  const BluDataSource *source; /* NULL: not open, or the split has no files */
  void *state;
  bool borrowed;               /* the state belongs to the training split */
  bool shuffle, drop_last;     /* as the program's arguments say */
  int64_t first, count;        /* examples [first, first + count) of the source */
  int64_t bytes, mapped;       /* memory */
} BluData;

typedef struct {
  const char *dir;      /* NULL: the argument `dir` of the program, else the current folder */
  int64_t seconds;      /* to wait for a pipe */
  bool optional;        /* a split without files is no error; it then has count 0 */
  const BluData *train; /* NULL, or the open training split, which a test split may share */
} BluDataWish;

/* Opens a split of the program's data and checks it against the DATA slots of `function`. */
bool blu_data_open(BluError *err, BluData *data, const BluProgram *program, const BluFunction *function,
                   BluSplit split, const BluDataWish *wish);
/* Fills the DATA slots of the function, in the arena of the pool, with index[0, rows), and the rest of the batch with
 * zeros. The DATA slots share their leading dimension. Error: a file was changed, so that a value doesn't fit. */
bool blu_data_fetch(BluError *err, const BluData *data, const BluFunction *function, BluPool *pool,
                    const int64_t *index, int64_t rows);
/* The DATA slot of which one of the examples index[0, rows) holds a NaN or infinity, the number of the first that does, and the value; NULL: none. */
const BluSlot *blu_data_not_finite(const BluData *data, const BluFunction *function, const int64_t *index, int64_t rows, int64_t *example,
                                   double *value);
bool blu_data_unchanged(BluError *err, const BluData *data);
void blu_data_close(BluData *data);

/* --- ahead.c: a thread that reads the next examples while a step runs ------------------------------------------------ */

#define BLU_AHEAD_STACK (64 << 10) /* bytes of stack of the thread */

typedef struct BluAhead BluAhead;

/* NULL where the source has nothing to read, or the thread can't be started: it is only ever a gain of time. */
BluAhead *blu_ahead_open(const BluData *data, int64_t batch);
/* Hands over the next examples; those of before are forgotten. NULL is fine. */
void blu_ahead_give(BluAhead *ahead, const int64_t *index, int64_t rows);
void blu_ahead_close(BluAhead *ahead);

#endif
