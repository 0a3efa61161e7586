/* train_ranks.c - what the ranks of a training tell each other. With one process (others == NULL) these functions do what is left of them.
 *
 * A step's micro-batches are numbered through all ranks: rank r has those from r * accumulate on, and the examples that belong to them. All
 * sums are made in the order of ranks, so that every rank has the same bits; what follows from sums (norms, what to do about a NaN, which
 * checkpoint is best) each rank finds by itself. What only rank 0 knows (files of the run, the clock) it shares. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "train_internal.h"

/* An error that every rank finds: rank 0 says it. */
static bool agreed(BluError *err, const BluTrainer *t) {
  if (t->rank) err->text[0] = 0;
  return false;
}

/* --- joining --- */

/* The tensors of one kind as parts; none is empty. */
static BluPart *parts_of(const BluTrainer *t, const BluSlot *slot, int64_t slots, bool (*picked)(const BluSlot *), int64_t *parts) {
  BluPart *part = blu_new(slots, sizeof *part);
  *parts = 0;
  for (int64_t i = 0; i < slots; i++) {
    if (!slot[i].bytes || !picked(&slot[i])) continue;
    part[(*parts)++] = (BluPart){.place = t->exec.arena.base + slot[i].offset, .bytes = slot[i].bytes, .dtype = slot[i].dtype};
  }
  return part;
}

static bool is_sum(const BluSlot *slot) { return slot->role == BLU_ROLE_GRADIENT; }
static bool is_model_state(const BluSlot *slot) { return blu_slot_picked(slot, BLU_PICK_MODEL_STATES); }
static bool is_any(const BluSlot *slot) { return slot != NULL; }

bool blu_train_join(BluError *err, BluTrainer *t, BluRanks *ranks, BluOptions *options) {
  t->ranks = ranks->ranks;
  t->rank = ranks->rank;
  if (t->ranks == 1) return true;
  if (t->program->images) return blu_error_set(err, "several ranks are for programs compiled for the processor: this one trains on a GPU");
  t->others = blu_tcp_open(err, ranks, t->program->hash, options->rank_timeout);
  if (!t->others) return false;
  if (t->rank) options->quiet = true;
  if (options->threads < 0) {
    options->threads = blu_host_cpus() / t->others->near;
    if (options->threads < 1) options->threads = 1;
  }
  return t->update ||
         blu_error_set(err, "%" PRId64 " ranks add up gradients, and this program was compiled without: write `accumulate = 1;` into its train block",
                       t->ranks);
}

bool blu_train_memory(BluError *err, BluTrainer *t, int64_t held, int64_t *limit) {
  *limit = blu_host_memory(held);
  if (!t->others) return true;
  /* All have looked before one takes anything; then each takes its share. */
  int64_t *all = blu_new(t->ranks, sizeof *all);
  bool good = t->others->gather(err, t->others, limit, sizeof *limit, all);
  free(all);
  *limit /= t->others->beside;
  return good;
}

bool blu_train_share_text(BluError *err, BluTrainer *t, char **text) {
  if (!t->others) return true;
  int64_t bytes = *text ? (int64_t)strlen(*text) + 1 : 0, *all = blu_new(t->ranks, sizeof *all);
  bool good = t->others->gather(err, t->others, &bytes, sizeof bytes, all);
  if (good && all[0]) {
    if (t->rank) *text = blu_new(all[0], 1);
    BluPart part = {.place = *text, .bytes = all[0], .dtype = BLU_DTYPE_U8};
    good = t->others->share(err, t->others, &part, 1);
  }
  free(all);
  return good;
}

bool blu_train_share_model(BluError *err, BluTrainer *t) {
  if (!t->others) return true;
  int64_t parts, extra = t->batch_meters + 1; /* the last one carries wishes */
  t->sum = parts_of(t, t->train->slot, t->train->slots, is_sum, &t->sums);
  t->state = parts_of(t, t->program->tensor, t->program->tensors, is_model_state, &t->states);
  t->given = blu_new(extra, sizeof *t->given);
  t->gathered = blu_new(t->ranks * extra, sizeof *t->gathered);
  BluPart *part = parts_of(t, t->program->tensor, t->program->tensors, is_any, &parts);
  bool good = t->others->share(err, t->others, part, parts);
  free(part);
  return good;
}

void blu_train_leave(BluTrainer *t, BluError *why) {
  if (t->others) t->others->close(t->others, why);
  t->others = NULL;
  free(t->sum);
  free(t->state);
  free(t->given);
  free(t->gathered);
}

/* --- are we the same? --- */

enum { SAMPLE = 1024, FACTS = 4000 };

/* A hash of up to SAMPLE examples, evenly spread over the split. */
static bool hash_examples(BluError *err, BluTrainer *t, const BluData *data, const BluFunction *function, uint64_t *hash) {
  int64_t batch = function ? blu_function_batch(function) : 0, wanted = data->count < SAMPLE ? data->count : SAMPLE;
  *hash = 0;
  for (int64_t first = 0; first < wanted; first += batch) {
    int64_t rows = wanted - first < batch ? wanted - first : batch;
    int64_t *index = blu_new(rows, sizeof *index);
    for (int64_t i = 0; i < rows; i++) index[i] = data->first + (int64_t)((double)data->count / (double)wanted * (double)(first + i));
    bool good = blu_data_fetch(err, data, function, t->exec.pool, index, rows);
    free(index);
    if (!good) return false;
    for (int64_t i = 0; i < function->slots; i++)
      if (function->slot[i].role == BLU_ROLE_DATA)
        *hash = *hash * 0x9e3779b97f4a7c15u + blu_file_hash(t->exec.arena.base + function->slot[i].offset, function->slot[i].bytes);
  }
  return true;
}

/* What must be the same on all ranks, as lines. */
static char *print_facts(const BluTrainer *t, uint64_t train, uint64_t test) {
  char *text = NULL, *state;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  blu_need(file);
  fprintf(file, "number of training examples=%" PRId64 "\nnumber of test examples=%" PRId64 "\n", t->data.count, t->test.count);
  fprintf(file, "training data (hash)=%016" PRIx64 "\ntest data (hash)=%016" PRIx64 "\nnumber of steps=%" PRId64 "\n", train, test, t->total);
  fprintf(file, "dry run=%d\nwhole batch=%" PRId64 "\n", t->options->dry_run, t->batch);
  state = blu_train_state_print(t, 0);
  fputs(state, file);
  free(state);
  fclose(file);
  return text;
}

/* Names the first line that differs. */
static void name_difference(BluError *err, int64_t rank, const char *ours, const char *theirs) {
  for (const char *line = ours; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    char key[200], other[200] = "nothing";
    int length = (int)strcspn(line, "=\n");
    snprintf(key, sizeof key, "%.*s", length, line);
    blu_text_value(theirs, key, other, sizeof other);
    int value = (int)strcspn(line + length, "\n") - 1;
    if (value < 0 || ((int)strlen(other) == value && !strncmp(line + length + 1, other, (size_t)value))) continue;
    blu_error_set(err, "rank %" PRId64 " differs from rank 0: %s is %s there, and %.*s here", rank, key, other, value, line + length + 1);
    return;
  }
  blu_error_set(err, "the settings of rank %" PRId64 " differ from those of rank 0", rank);
}

bool blu_train_agree(BluError *err, BluTrainer *t) {
  typedef struct { uint64_t hash; char text[FACTS]; } Facts;
  if (!t->others) return true;
  Facts *facts = blu_new(1, sizeof *facts), *all = blu_new(t->ranks, sizeof *all);
  uint64_t train, test;
  bool good = hash_examples(err, t, &t->data, t->train, &train) && hash_examples(err, t, &t->test, t->eval, &test);
  if (good) {
    char *text = print_facts(t, train, test);
    facts->hash = blu_file_hash(text, (int64_t)strlen(text));
    snprintf(facts->text, sizeof facts->text, "%s", text);
    free(text);
    good = t->others->gather(err, t->others, facts, sizeof *facts, all);
  }
  for (int64_t r = 1; good && r < t->ranks; r++) {
    if (all[r].hash == all[0].hash) continue;
    name_difference(err, r, all[0].text, all[r].text);
    good = agreed(err, t);
  }
  free(facts);
  free(all);
  return good;
}

bool blu_train_equal(BluError *err, BluTrainer *t) {
  if (!t->others) return true;
  uint64_t hash = 0, *all = blu_new(t->ranks, sizeof *all);
  for (int64_t i = 0; i < t->program->tensors; i++)
    hash = hash * 0x9e3779b97f4a7c15u + blu_file_hash(t->exec.arena.base + t->program->tensor[i].offset, t->program->tensor[i].bytes);
  bool good = t->others->gather(err, t->others, &hash, sizeof hash, all);
  for (int64_t r = 1; good && r < t->ranks; r++) {
    if (all[r] == all[0]) continue;
    blu_error_set(err, "step %" PRId64 ": rank %" PRId64 " has other parameters or states than rank 0: nothing is saved; check that machine", t->step, r);
    good = agreed(err, t);
  }
  free(all);
  return good;
}

/* --- in each step --- */

void blu_train_look(BluTrainer *t) {
  if (t->others) return;
  t->signal = blu_train_signal;
  t->late = t->options->minutes >= 0 && blu_log_now() - t->started >= 60 * t->options->minutes;
  t->save |= blu_train_save;
  blu_train_save = 0;
}

/* Gathers `meters` of the step, and what signals and the clock of rank 0 ask for. */
static bool gather_meters(BluError *err, BluTrainer *t, int64_t meters) {
  int64_t each = meters + 1;
  for (int64_t i = 0; i < meters; i++) t->given[i] = t->now[i];
  bool late = !t->rank && t->options->minutes >= 0 && blu_log_now() - t->started >= 60 * t->options->minutes;
  t->given[meters] = (BluMeter){.sum = blu_train_signal, .weight = blu_train_save, .last = late};
  blu_train_save = 0;
  if (!t->others->gather(err, t->others, t->given, each * (int64_t)sizeof *t->given, t->gathered)) return false;
  for (int64_t i = 0; i < meters; i++) {
    if (!t->now[i].last) t->now[i].sum = t->now[i].weight = 0;
    for (int64_t r = 0; r < t->ranks && !t->now[i].last; r++)
      t->now[i].sum += t->gathered[r * each + i].sum, t->now[i].weight += t->gathered[r * each + i].weight;
    if (t->now[i].last) t->now[i].sum = t->gathered[i].sum, t->now[i].weight = t->gathered[i].weight; /* rank 0 has a micro-batch in every step */
  }
  for (int64_t r = 0; r < t->ranks; r++) {
    const BluMeter *wish = &t->gathered[r * each + meters];
    if (!t->signal) t->signal = (int)wish->sum;
    t->save |= wish->weight != 0;
    t->late |= wish->last;
  }
  if (t->signal) blu_train_signal = t->signal;
  return true;
}

bool blu_train_sum(BluError *err, BluTrainer *t, double *number) {
  if (!t->others) return true;
  double *all = blu_new(t->ranks, sizeof *all);
  bool good = t->others->gather(err, t->others, number, sizeof *number, all);
  *number = 0;
  for (int64_t r = 0; r < t->ranks; r++) *number += all[r];
  free(all);
  return good;
}

bool blu_train_meet(BluError *err, BluTrainer *t) { return !t->others || gather_meters(err, t, 0); }

bool blu_train_exchange(BluError *err, BluTrainer *t) {
  if (!t->others) return true;
  double start = blu_log_now();
  bool good = gather_meters(err, t, t->batch_meters) && t->others->sum(err, t->others, t->sum, t->sums) &&
              (!t->states || t->others->share(err, t->others, t->state, t->states));
  t->exchanging += blu_log_now() - start;
  t->exchanges++;
  return good;
}
