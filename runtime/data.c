/* data.c - the table of data sources, and one open split of a program's data.
 *
 * Arguments that every source has: `dir`; `holdout = N` keeps the last N examples of the training data as the test
 * split; `shuffle = 0` keeps the order of the files; `drop_last = 1` leaves out an epoch's last, partial batch. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "data_internal.h"
#include "half.h"

static const BluDataSource *const sources[] = {&blu_data_idx, &blu_data_npy, &blu_data_csv, &blu_data_text,
                                               &blu_data_tokens};
enum { SOURCES = sizeof sources / sizeof *sources };

static const BluDataSource *find_source(BluError *err, const char *name) {
  BluGuess guess = {.word = name};
  for (int i = 0; i < SOURCES; i++) {
    if (!strcmp(sources[i]->name, name)) return sources[i];
    blu_guess_add(&guess, sources[i]->name);
  }
  blu_error_set(err, "there is no data source '%s'%s", name, blu_guess_hint(&guess));
  return NULL;
}

/* Offers the words of `keys` as names of arguments. */
static bool match_keys(BluGuess *guess, const char *keys, const BluFunction *function, char room[][80], int *used) {
  char list[400];
  snprintf(list, sizeof list, "%s", keys);
  for (char *save, *word = strtok_r(list, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    bool slots = strstr(word, "SLOT") != NULL;
    for (int64_t i = 0; i < (slots ? function->slots : 1) && *used < 64; i++) {
      if (slots && function->slot[i].role != BLU_ROLE_DATA) continue;
      char *name = room[(*used)++];
      if (slots) snprintf(name, 80, "%.*s%.60s", (int)(strstr(word, "SLOT") - word), word, function->slot[i].name);
      else snprintf(name, 80, "%.60s", word);
      blu_guess_add(guess, name);
      if (!strcmp(name, guess->word)) return true;
    }
  }
  return false;
}

static bool check_keys(BluError *err, const BluDataSource *source, const BluFunction *function, const char *args) {
  for (const char *line = args; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    char key[64], room[64][80];
    int used = 0;
    snprintf(key, sizeof key, "%.*s", (int)strcspn(line, "=\n"), line);
    BluGuess guess = {.word = key};
    if (!match_keys(&guess, source->keys, function, room, &used) &&
        !match_keys(&guess, " dir holdout shuffle drop_last ", function, room, &used))
      return blu_error_set(err, "data source %s has no argument '%s'%s", source->name, key, blu_guess_hint(&guess));
  }
  return true;
}

static bool read_number(BluError *err, const char *args, const char *key, int64_t fallback, int64_t *value) {
  char word[64];
  *value = fallback;
  if (!blu_text_value(args, key, word, sizeof word)) return true;
  return (blu_text_int(word, value) && *value >= 0) ||
         blu_error_set(err, "the argument '%s' of the data source is a whole number from 0, not '%s'", key, word);
}

bool blu_data_known(BluError *err, const char *source) { return find_source(err, source) != NULL; }

static bool check_slots(BluError *err, const BluData *data, const BluFunction *function) {
  for (int64_t i = 0; i < function->slots; i++)
    if (function->slot[i].role == BLU_ROLE_DATA && !data->source->check(err, data->state, &function->slot[i]))
      return false;
  return true;
}

/* Which of the source's examples belong to the split. */
static bool cut_split(BluError *err, BluData *data, BluSplit split, int64_t holdout) {
  if (holdout >= data->count)
    return blu_error_set(err, "the data has %" PRId64 " examples: holdout = %" PRId64 " leaves none to train on",
                         data->count, holdout);
  if (split == BLU_SPLIT_TEST) data->first = data->count - holdout;
  data->count = split == BLU_SPLIT_TEST ? holdout : data->count - holdout;
  return true;
}

static bool open_split(BluError *err, BluData *data, const BluProgram *program, const BluFunction *function,
                       BluSplit split, const BluDataWish *wish) {
  int64_t holdout, shuffle, drop_last;
  char default_dir[PATH_MAX] = ".";
  const char *args = program->data_args;
  blu_text_value(args, "dir", default_dir, sizeof default_dir);
  if (!check_keys(err, data->source, function, args) || !read_number(err, args, "holdout", 0, &holdout) ||
      !read_number(err, args, "shuffle", 1, &shuffle) || !read_number(err, args, "drop_last", 0, &drop_last))
    return false;
  data->shuffle = shuffle != 0;
  data->drop_last = drop_last != 0;
  bool held = holdout > 0 && split == BLU_SPLIT_TEST;
  if (held && wish->train) {
    *data = *wish->train;
    data->borrowed = true;
    data->bytes = data->mapped = 0;
    data->first = data->count;
    data->count = holdout;
    return check_slots(err, data, function);
  }
  BluDataSpec spec = {.dir = wish->dir ? wish->dir : default_dir, .args = args, .optional = wish->optional,
                      .split = held ? BLU_SPLIT_TRAIN : split, .seconds = wish->seconds, .function = function};
  if (!data->source->open(err, &spec, &data->state)) return false;
  if (!data->state) return true;
  data->count = data->source->count(data->state);
  data->source->bytes(data->state, &data->bytes, &data->mapped);
  return check_slots(err, data, function) && (!holdout || (split == BLU_SPLIT_TEST && !held) ||
                                              cut_split(err, data, split, holdout));
}

bool blu_data_open(BluError *err, BluData *data, const BluProgram *program, const BluFunction *function,
                   BluSplit split, const BluDataWish *wish) {
  *data = (BluData){.source = find_source(err, program->data)};
  if (!data->source) return false;
  if (blu_function_batch(function) < 1)
    return blu_error_set(err, "the function %s of this program takes no data", function->name);
  if (open_split(err, data, program, function, split, wish)) {
    if (!data->state) *data = (BluData){0};
    return true;
  }
  blu_data_close(data);
  return false;
}

/* What one fetch needs; travels through the pool in the place of a launch's offsets. */
typedef struct {
  const BluData *data;
  const BluFunction *function;
  const int64_t *index;
  int64_t rows;
  _Atomic(const char *) bad; /* name of a slot whose values don't fit */
} Fetch;

/* A kernel whose pieces are the rows of the batch. */
static void fetch_rows(char *arena, const int64_t *offset, char *scratch, int64_t first, int64_t last) {
  Fetch *fetch = (Fetch *)(void *)(uintptr_t)offset;
  int64_t real = last < fetch->rows ? last : first > fetch->rows ? first : fetch->rows;
  (void)scratch;
  for (int64_t i = 0; i < fetch->function->slots; i++) {
    const BluSlot *slot = &fetch->function->slot[i];
    if (slot->role != BLU_ROLE_DATA) continue;
    int64_t row_bytes = blu_slot_count(slot) / slot->dim[0] * blu_dtype_bytes(slot->dtype);
    char *place = arena + slot->offset;
    if (!fetch->data->source->fetch(fetch->data->state, slot, place + first * row_bytes, fetch->index + first,
                                    real - first))
      atomic_store(&fetch->bad, slot->name);
    memset(place + real * row_bytes, 0, (size_t)((last - real) * row_bytes));
  }
}

bool blu_data_fetch(BluError *err, const BluData *data, const BluFunction *function, BluPool *pool,
                    const int64_t *index, int64_t rows) {
  Fetch fetch = {.data = data, .function = function, .index = index, .rows = rows};
  BluLaunch launch = {.kernel = fetch_rows, .offset = (const int64_t *)(const void *)&fetch,
                      .pieces = blu_function_batch(function)};
  blu_pool_run(pool, &launch, 1);
  const char *bad = atomic_load(&fetch.bad);
  if (!bad) return true;
  blu_error_set(err, "a value for '%s' is not what it was at the start", bad);
  BluError why;
  if (!blu_data_unchanged(&why, data)) *err = why;
  return false;
}

const BluSlot *blu_data_not_finite(const BluData *data, const BluFunction *function, const int64_t *index, int64_t rows, int64_t *example,
                                   double *value) {
  const BluSlot *found = NULL;
  for (int64_t i = 0; !found && i < function->slots; i++) {
    const BluSlot *slot = &function->slot[i];
    bool real = slot->dtype == BLU_DTYPE_F32 || slot->dtype == BLU_DTYPE_F64 || blu_half_is(slot->dtype);
    if (slot->role != BLU_ROLE_DATA || !real) continue;
    int64_t count = blu_slot_count(slot) / slot->dim[0], bytes = blu_dtype_bytes(slot->dtype);
    char *row = blu_new(count, (size_t)bytes);
    for (int64_t k = 0; !found && k < rows; k++) {
      if (!data->source->fetch(data->state, slot, row, index + k, 1)) continue;
      for (int64_t n = 0; !found && n < count; n++) {
        union { float f; double d; uint16_t h; } v;
        memcpy(&v, row + n * bytes, (size_t)bytes);
        *value = slot->dtype == BLU_DTYPE_F32 ? (double)v.f : slot->dtype == BLU_DTYPE_F64 ? v.d : blu_half_number(slot->dtype, v.h);
        if (isfinite(*value)) continue;
        found = slot;
        *example = index[k];
      }
    }
    free(row);
  }
  return found;
}

bool blu_data_unchanged(BluError *err, const BluData *data) {
  return !data->source || data->source->unchanged(err, data->state);
}

void blu_data_close(BluData *data) {
  if (data->state && !data->borrowed) data->source->close(data->state);
  *data = (BluData){0};
}
