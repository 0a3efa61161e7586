/* data.c - the table of data sources, and one open split of a program's data. */
#include <limits.h>
#include <string.h>

#include "data_internal.h"

static const BluDataSource *const sources[] = {&blu_data_idx};

bool blu_data_open(BluError *err, BluData *data, const BluProgram *program, const BluFunction *function,
                   const char *dir, BluSplit split, bool optional) {
  *data = (BluData){0};
  const BluDataSource *source = NULL;
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
    if (!strcmp(sources[i]->name, program->data)) source = sources[i];
  if (!source) return blu_error_set(err, "this runtime has no data source '%s'", program->data);
  if (blu_function_batch(function) < 1)
    return blu_error_set(err, "the function %s of this program takes no data", function->name);
  char default_dir[PATH_MAX] = ".";
  blu_text_value(program->data_args, "dir", default_dir, sizeof default_dir);
  BluDataSpec spec = {.dir = dir ? dir : default_dir, .args = program->data_args, .split = split, .optional = optional};
  void *state;
  if (!source->open(err, &spec, &state)) return false;
  if (!state) return true;
  *data = (BluData){.source = source, .state = state, .count = source->count(state), .bytes = source->bytes(state)};
  for (int64_t i = 0; i < function->slots; i++) {
    const BluSlot *slot = &function->slot[i];
    if (slot->role != BLU_ROLE_DATA || source->check(err, state, slot)) continue;
    blu_data_close(data);
    return false;
  }
  return true;
}

/* What one fetch needs; travels through the pool in the place of a launch's offsets. */
typedef struct {
  const BluData *data;
  const BluFunction *function;
  const int64_t *index;
  int64_t rows;
} Fetch;

/* A kernel whose pieces are the rows of the batch. */
static void fetch_rows(char *arena, const int64_t *offset, char *scratch, int64_t first, int64_t last) {
  const Fetch *fetch = (const Fetch *)(const void *)offset;
  int64_t real = last < fetch->rows ? last : first > fetch->rows ? first : fetch->rows;
  (void)scratch;
  for (int64_t i = 0; i < fetch->function->slots; i++) {
    const BluSlot *slot = &fetch->function->slot[i];
    if (slot->role != BLU_ROLE_DATA) continue;
    int64_t row_bytes = blu_slot_count(slot) / slot->dim[0] * blu_dtype_bytes(slot->dtype);
    char *place = arena + slot->offset;
    fetch->data->source->fetch(fetch->data->state, slot, place + first * row_bytes, fetch->index + first, real - first);
    memset(place + real * row_bytes, 0, (size_t)((last - real) * row_bytes));
  }
}

void blu_data_fetch(const BluData *data, const BluFunction *function, BluPool *pool, const int64_t *index,
                    int64_t rows) {
  Fetch fetch = {.data = data, .function = function, .index = index, .rows = rows};
  BluLaunch launch = {.kernel = fetch_rows, .offset = (const int64_t *)(const void *)&fetch,
                      .pieces = blu_function_batch(function)};
  blu_pool_run(pool, &launch, 1);
}

void blu_data_close(BluData *data) {
  if (data->source) data->source->close(data->state);
  *data = (BluData){0};
}
