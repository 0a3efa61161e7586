/* train_state.c - what a checkpoint holds besides tensors: "key=value" lines, and how a resumed run takes them up. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "train_internal.h"

/* The plan by the names of its options. */
static const struct {
  const char *key;
  size_t plan, option; /* places in BluTrainPlan and BluOptions */
} plan_keys[] = {
#define KEY(name) {#name, offsetof(BluTrainPlan, name), offsetof(BluOptions, name)}
    KEY(eval_every), KEY(save_every), KEY(log_every), KEY(patience), KEY(keep),
#undef KEY
};
enum { PLAN_KEYS = sizeof plan_keys / sizeof *plan_keys };

static int64_t *plan_value(BluTrainPlan *plan, int i) { return (int64_t *)(void *)((char *)plan + plan_keys[i].plan); }

static void print_meters(FILE *file, const char *prefix, const BluMeter *meter, int64_t meters) {
  for (int64_t i = 0; i < meters; i++)
    fprintf(file, "%s.%s=%.17g %.17g\n", prefix, meter[i].name, meter[i].sum, meter[i].weight);
}

char *blu_train_state_print(const BluTrainer *t, int64_t metrics_bytes) {
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  blu_need(file);
  BluTrainPlan plan = t->plan;
  const BluTrainWatch *w = &t->watch;
  fprintf(file, "step=%" PRId64 "\nskipped=%" PRId64 "\nepoch=%" PRId64 "\nposition=%" PRId64 "\n", t->step, t->skipped,
          t->step / t->per_epoch, t->step % t->per_epoch);
  fprintf(file, "examples=%" PRId64 "\nbatch=%" PRId64 "\nseed=%" PRId64 "\nmetrics_bytes=%" PRId64 "\n", t->data.count,
          t->batch, t->exec.seed, metrics_bytes);
  if (t->shards > 1) fprintf(file, "shard=%" PRId64 "/%" PRId64 "\n", t->shard, t->shards);
  if (t->update) fprintf(file, "accumulate=%" PRId64 "\n", t->accumulate);
  if (t->scaled) fprintf(file, "loss_scale=%.17g %" PRId64 "\n", t->exec.scale, t->without_overflow);
  if (t->ranks > 1) fprintf(file, "ranks=%" PRId64 "\n", t->ranks);
  for (int i = 0; i < PLAN_KEYS; i++) fprintf(file, "%s=%" PRId64 "\n", plan_keys[i].key, *plan_value(&plan, i));
  fprintf(file, "nan=%s\n", plan.nan_skip ? "skip" : "stop");
  fprintf(file, "best=%" PRId64 " %.17g %" PRId64 "\n", w->best_step, w->best_loss, w->stale);
  fprintf(file, "loss=%.17g %.17g %" PRId64 " %" PRId64 "\n", w->mean, w->variance, w->seen, w->last_spike);
  for (int64_t i = 0; i < t->program->scalars; i++)
    if (t->program->scalar[i].role == BLU_ROLE_RUN)
      fprintf(file, "run.%s=%.17g\n", t->program->scalar[i].name, t->run[i]);
  blu_device_print_settings(file, &t->exec.arena);
  print_meters(file, "window", t->window, t->meters);
  print_meters(file, "epoch", t->epoch, t->meters);
  fclose(file);
  return text;
}

static bool read_int(BluError *err, const char *text, const char *key, int64_t least, int64_t *value) {
  char word[64];
  return (blu_text_value(text, key, word, sizeof word) && blu_text_int(word, value) && *value >= least) ||
         blu_error_set(err, "the checkpoint's trainer.txt has no number '%s'", key);
}

static void read_meters(const char *text, const char *prefix, BluMeter *meter, int64_t meters) {
  for (int64_t i = 0; i < meters; i++) {
    char key[200], word[100];
    snprintf(key, sizeof key, "%s.%s", prefix, meter[i].name);
    if (blu_text_value(text, key, word, sizeof word)) sscanf(word, "%lf %lf", &meter[i].sum, &meter[i].weight);
  }
}

bool blu_train_state_values(BluError *err, const BluProgram *program, const BluOptions *options, const char *text,
                            double *run) {
  for (int64_t i = 0; text && i < program->scalars; i++) {
    char key[200], word[64];
    if (program->scalar[i].role != BLU_ROLE_RUN) continue;
    snprintf(key, sizeof key, "run.%s", program->scalar[i].name);
    if (blu_text_value(text, key, word, sizeof word)) blu_text_double(word, &run[i]);
  }
  for (int64_t i = 0; i < options->sets; i++)
    if (!blu_program_set(err, program, run, options->set[i])) return false;
  return true;
}

static void note_change(BluError *changes, const char *name, double before, double after) {
  if (before != after) blu_error_add(changes, "%s %s %g -> %g", changes->text[0] ? "," : "", name, before, after);
}

/* Takes run values and plan as saved, then what the options say; what differs is listed. */
static bool read_settings(BluError *err, BluTrainer *t, const char *text, BluError *changes) {
  double *saved = blu_program_defaults(t->program);
  BluOptions none = {.sets = 0};
  bool good = blu_train_state_values(err, t->program, &none, text, saved) &&
              blu_train_state_values(err, t->program, t->options, text, t->run);
  for (int64_t i = 0; good && i < t->program->scalars; i++)
    if (t->program->scalar[i].role == BLU_ROLE_RUN) note_change(changes, t->program->scalar[i].name, saved[i], t->run[i]);
  free(saved);
  for (int i = 0; i < PLAN_KEYS; i++) {
    int64_t before, given;
    memcpy(&given, (const char *)t->options + plan_keys[i].option, sizeof given);
    if (!read_int(changes + 1, text, plan_keys[i].key, 0, &before)) continue;
    if (given < 0) *plan_value(&t->plan, i) = before;
    note_change(changes, plan_keys[i].key, (double)before, (double)*plan_value(&t->plan, i));
  }
  char word[64] = "stop";
  blu_text_value(text, "nan", word, sizeof word);
  if (!t->options->nan) t->plan.nan_skip = !strcmp(word, "skip");
  else if (strcmp(word, t->options->nan))
    blu_error_add(changes, "%s nan %s -> %s", changes->text[0] ? "," : "", word, t->options->nan);
  return good;
}

bool blu_train_state_read(BluError *err, BluTrainer *t, const char *text, int64_t *metrics_bytes) {
  int64_t examples, batch, seed;
  char word[100];
  BluError changes[2] = {{""}, {""}}; /* the second takes what is of no interest */
  if (!read_int(err, text, "step", 0, &t->step) || !read_int(err, text, "seed", 0, &seed)) return false;
  if (t->options->seed >= 0 && t->options->seed != seed)
    return blu_error_set(err, "the checkpoint was made with --seed %" PRId64 ": leave --seed out to resume", seed);
  t->exec.seed = seed;
  if (blu_text_value(text, "imported", word, sizeof word))
    return blu_train_state_values(err, t->program, t->options, text, t->run);
  if (!read_int(err, text, "examples", 1, &examples) || !read_int(err, text, "batch", 1, &batch) ||
      !read_int(err, text, "metrics_bytes", 0, metrics_bytes) || !read_settings(err, t, text, changes))
    return false;
  if (examples != t->data.count || batch != t->batch)
    return blu_error_set(err, "the checkpoint was made with %" PRId64 " training examples in batches of %" PRId64
                         ", here are %" PRId64 " in batches of %" PRId64, examples, batch, t->data.count, t->batch);
  if (!read_int(changes + 1, text, "skipped", 0, &t->skipped)) t->skipped = 0;
  BluTrainWatch *w = &t->watch;
  if (blu_text_value(text, "best", word, sizeof word))
    sscanf(word, "%" SCNd64 " %lf %" SCNd64, &w->best_step, &w->best_loss, &w->stale);
  if (blu_text_value(text, "loss", word, sizeof word))
    sscanf(word, "%lf %lf %" SCNd64 " %" SCNd64, &w->mean, &w->variance, &w->seen, &w->last_spike);
  if (t->scaled && blu_text_value(text, "loss_scale", word, sizeof word)) sscanf(word, "%lf %" SCNd64, &t->exec.scale, &t->without_overflow);
  read_meters(text, "window", t->window, t->meters);
  read_meters(text, "epoch", t->epoch, t->meters);
  BluError device;
  blu_device_compare_settings(&device, &t->exec.arena, text);
  if (device.text[0]) fprintf(stderr, "warning: %s\n", device.text);
  if (changes->text[0] && !t->options->quiet)
    printf("changed since step %" PRId64 ":%s\n", t->step, changes->text);
  return true;
}
