/* train.c - the training loop: data in, a step, its checks, log, evaluation, checkpoint.
 *
 * All state of a run is in the parameters, the optimizer's state and the few numbers that state_text() writes; the data
 * order is a function of seed and step. So a run resumed from a checkpoint is the run that was never stopped. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data_internal.h"

volatile sig_atomic_t blu_train_signal;

#define DEFAULT_SEED 1

typedef struct {
  const BluProgram *program;
  const BluOptions *options;
  double *run;                   /* borrowed */
  const BluFunction *train, *eval;
  BluData data, test;            /* test.count == 0: there is no test split */
  BluExec exec;
  BluLog log;
  char *out;                     /* folder of checkpoints and metrics */
  int64_t *index;                /* [largest batch] examples of the current batch */
  int64_t step, total;           /* steps done; steps of the whole run */
  int64_t batch, per_epoch;      /* examples of a step, steps of an epoch */
  int64_t every;                 /* steps between two lines of the log */
  BluMeter *window, *epoch;      /* since the last line of the log, since the start of the epoch */
  int64_t meters;
} Trainer;

static char *out_folder(const BluProgram *program, const BluOptions *options) {
  char name[300];
  snprintf(name, sizeof name, "%.200s.run", program->model);
  return blu_text_path("", options->out ? options->out : name);
}

static int threads_of(const BluOptions *options) {
  return options->threads > 0 ? (int)options->threads : blu_host_cpus();
}

/* --- what a checkpoint holds besides tensors --- */

static void print_meters(FILE *file, const char *prefix, const BluMeter *meter, int64_t meters) {
  for (int64_t i = 0; i < meters; i++)
    fprintf(file, "%s.%s=%.17g %.17g\n", prefix, meter[i].name, meter[i].sum, meter[i].weight);
}

static char *state_text(const Trainer *t) {
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  if (!file) abort();
  fprintf(file, "step=%" PRId64 "\nepoch=%" PRId64 "\nposition=%" PRId64 "\n", t->step, t->step / t->per_epoch,
          t->step % t->per_epoch);
  fprintf(file, "examples=%" PRId64 "\nbatch=%" PRId64 "\nseed=%" PRId64 "\nmetrics_bytes=%" PRId64 "\n", t->data.count,
          t->batch, t->exec.seed, blu_log_sync(&t->log));
  for (int64_t i = 0; i < t->program->scalars; i++)
    if (t->program->scalar[i].role == BLU_ROLE_RUN)
      fprintf(file, "run.%s=%.17g\n", t->program->scalar[i].name, t->run[i]);
  print_meters(file, "window", t->window, t->meters);
  print_meters(file, "epoch", t->epoch, t->meters);
  fclose(file);
  return text;
}

static bool read_int(BluError *err, const char *text, const char *key, int64_t *value) {
  char word[64];
  return (blu_text_value(text, key, word, sizeof word) && blu_text_int(word, value)) ||
         blu_error_set(err, "the checkpoint's trainer.txt has no number '%s'", key);
}

static void read_meters(const char *text, const char *prefix, BluMeter *meter, int64_t meters) {
  for (int64_t i = 0; i < meters; i++) {
    char key[200], word[100];
    snprintf(key, sizeof key, "%s.%s", prefix, meter[i].name);
    if (blu_text_value(text, key, word, sizeof word)) sscanf(word, "%lf %lf", &meter[i].sum, &meter[i].weight);
  }
}

/* Run values as saved, then what --set says. */
static bool read_run_values(BluError *err, const BluProgram *program, const BluOptions *options, const char *text,
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

static bool read_state(BluError *err, Trainer *t, const char *text, int64_t *metrics_bytes) {
  int64_t examples, batch, seed;
  if (!read_int(err, text, "step", &t->step) || !read_int(err, text, "examples", &examples) ||
      !read_int(err, text, "batch", &batch) || !read_int(err, text, "seed", &seed) ||
      !read_int(err, text, "metrics_bytes", metrics_bytes) ||
      !read_run_values(err, t->program, t->options, text, t->run))
    return false;
  if (examples != t->data.count || batch != t->batch)
    return blu_error_set(err, "the checkpoint was made with %" PRId64 " training examples in batches of %" PRId64
                         ", here are %" PRId64 " in batches of %" PRId64, examples, batch, t->data.count, t->batch);
  if (t->options->seed >= 0 && t->options->seed != seed)
    return blu_error_set(err, "the checkpoint was made with --seed %" PRId64 ": leave --seed out to resume", seed);
  t->exec.seed = seed;
  read_meters(text, "window", t->window, t->meters);
  read_meters(text, "epoch", t->epoch, t->meters);
  return true;
}

static bool save(BluError *err, Trainer *t) {
  char *text = state_text(t);
  bool good = blu_checkpoint_save(err, t->program, t->exec.arena.base, t->out, t->step, text);
  free(text);
  return good;
}

/* --- steps and epochs --- */

static bool setting(BluError *err, Trainer *t, const char *name, double fallback, double *value) {
  const BluFunction *settings = blu_program_function(t->program, "settings");
  const BluSlot *slot = settings ? blu_function_slot(settings, BLU_ROLE_OUTPUT, name) : NULL;
  *value = fallback;
  if (slot) {
    blu_exec_run(&t->exec, settings, 0, settings->launches);
    *value = blu_exec_scalar(&t->exec, slot);
  }
  return (*value >= 0 && *value < 0x1p53) ||
         blu_error_set(err, "the program's setting '%s' is %g, which is not a number of steps or epochs", name, *value);
}

/* Total number of steps: by the options, else by the program. */
static bool plan_steps(BluError *err, Trainer *t) {
  double stop, epochs;
  blu_exec_scalars(&t->exec, t->step, t->batch);
  if (!setting(err, t, "stop", 0, &stop) || !setting(err, t, "epochs", 1, &epochs)) return false;
  const BluOptions *o = t->options;
  if (o->steps >= 0) stop = (double)o->steps;
  if (o->epochs >= 0) epochs = (double)o->epochs;
  double by_epochs = ceil(epochs * (double)t->per_epoch);
  bool by_steps = o->steps >= 0 || (stop > 0 && o->epochs < 0);
  double total = by_steps ? stop : by_epochs;
  if (o->steps >= 0 && o->epochs >= 0 && by_epochs < total) total = by_epochs;
  if (total >= 0x1p53) return blu_error_set(err, "%g steps are too many", total);
  t->total = (int64_t)total;
  return true;
}

/* Fills the train function's data for the current step; gives the number of real rows. */
static int64_t fetch_batch(Trainer *t) {
  int64_t first = t->step % t->per_epoch * t->batch;
  int64_t rows = t->data.count - first < t->batch ? t->data.count - first : t->batch;
  BluShuffle shuffle = blu_shuffle_make(t->data.count, t->exec.seed, t->step / t->per_epoch);
  for (int64_t i = 0; i < rows; i++) t->index[i] = blu_shuffle_at(&shuffle, first + i);
  blu_data_fetch(&t->data, t->train, t->exec.pool, t->index, rows);
  return rows;
}

/* True if the loss and all gradients of the step just computed are finite; else names what is not. */
static bool check_finite(BluError *err, const Trainer *t) {
  const BluFunction *f = t->train;
  blu_error_set(err, "step %" PRId64 ":", t->step + 1);
  bool good = true;
  for (int64_t i = 0; i < f->slots && good; i++) {
    const BluSlot *slot = &f->slot[i];
    bool loss = (slot->role == BLU_ROLE_SUM || slot->role == BLU_ROLE_WEIGHT) && !strcmp(slot->name, "loss");
    double value = loss ? blu_exec_scalar(&t->exec, slot) : 0;
    if (isfinite(value)) continue;
    good = false;
    blu_error_add(err, " the loss is %g;", value);
  }
  for (int64_t i = 0; i < f->slots; i++) {
    const BluSlot *slot = &f->slot[i];
    if (slot->role != BLU_ROLE_SQUARES && slot->role != BLU_ROLE_NORM) continue;
    double value = blu_exec_scalar(&t->exec, slot);
    if (isfinite(value)) continue;
    good = false;
    if (slot->role == BLU_ROLE_SQUARES)
      blu_error_add(err, " the gradient of '%s' is not finite (its sum of squares is %g);", slot->name, value);
    else blu_error_add(err, " the norm of the gradients is %g;", value);
    break;
  }
  if (good) return true;
  int64_t latest = blu_checkpoint_latest(t->out);
  char *path = blu_checkpoint_path(t->out, latest);
  blu_error_add(err, " parameters are left as they were before this step; ");
  if (latest >= 0) blu_error_add(err, "the last checkpoint is %s", path);
  else blu_error_add(err, "there is no checkpoint yet");
  free(path);
  return false;
}

static bool run_step(BluError *err, Trainer *t) {
  int64_t rows = fetch_batch(t);
  blu_exec_scalars(&t->exec, t->step, rows);
  blu_exec_run(&t->exec, t->train, 0, t->train->commit);
  if (!check_finite(err, t)) return false;
  blu_meter_add(t->window, &t->exec, t->train);
  blu_meter_add(t->epoch, &t->exec, t->train);
  blu_exec_run(&t->exec, t->train, t->train->commit, t->train->launches);
  t->step++;
  return true;
}

/* Runs `eval` over all of `data`, in order, and adds it up in `meter`. `index` has room for a batch. */
static void evaluate(BluExec *exec, const BluFunction *eval, const BluData *data, int64_t step, int64_t *index,
                     BluMeter *meter) {
  int64_t batch = blu_function_batch(eval);
  for (int64_t first = 0; first < data->count; first += batch) {
    int64_t rows = data->count - first < batch ? data->count - first : batch;
    for (int64_t i = 0; i < rows; i++) index[i] = first + i;
    blu_data_fetch(data, eval, exec->pool, index, rows);
    blu_exec_scalars(exec, step, rows);
    blu_exec_run(exec, eval, 0, eval->launches);
    blu_meter_add(meter, exec, eval);
  }
}

/* Evaluates and logs, if there is a test split. */
static bool test_model(BluError *err, Trainer *t) {
  if (!t->test.count) return true;
  int64_t results;
  BluMeter *result = blu_meter_new(t->eval, &results);
  evaluate(&t->exec, t->eval, &t->test, t->step, t->index, result);
  bool good = blu_log_test(err, &t->log, t->step, t->epoch, t->meters, result, results);
  free(result);
  return good;
}

static bool train_loop(BluError *err, Trainer *t) {
  while (t->step < t->total && !blu_train_signal) {
    if (!run_step(err, t)) return false;
    bool epoch_ends = t->step % t->per_epoch == 0;
    blu_log_progress(&t->log, t->step, t->window, t->meters);
    if (t->step % t->every == 0 || epoch_ends) {
      if (!blu_log_train(err, &t->log, t->step, t->window, t->meters)) return false;
      blu_meter_clear(t->window, t->meters);
    }
    if (!epoch_ends) continue;
    if (!test_model(err, t)) return false;
    blu_meter_clear(t->epoch, t->meters);
    if (!save(err, t)) return false;
  }
  if (!save(err, t)) return false;
  char *path = blu_checkpoint_path(t->out, t->step);
  if (blu_train_signal) {
    t->log.quiet = false;
    blu_log_say(&t->log, "stopped by signal %d after step %" PRId64 "; checkpoint: %s; give --resume to go on",
                (int)blu_train_signal, t->step, path);
    free(path);
    return true;
  }
  /* Mid-epoch the test line comes after the checkpoint, so that a resumed run, which goes on from there, drops it. */
  bool good = t->step % t->per_epoch == 0 || test_model(err, t);
  if (good) blu_log_say(&t->log, "done: step %" PRId64 ", checkpoint: %s", t->step, path);
  free(path);
  return good;
}

/* --- start --- */

static bool open_data(BluError *err, Trainer *t) {
  if (!blu_data_open(err, &t->data, t->program, t->train, t->options->data, BLU_SPLIT_TRAIN, false)) return false;
  if (t->eval && !blu_data_open(err, &t->test, t->program, t->eval, t->options->data, BLU_SPLIT_TEST, true))
    return false;
  int64_t eval_batch = t->eval ? blu_function_batch(t->eval) : 0;
  t->batch = blu_function_batch(t->train);
  t->index = blu_new(t->batch > eval_batch ? t->batch : eval_batch, sizeof *t->index);
  t->per_epoch = (t->data.count + t->batch - 1) / t->batch;
  t->every = t->per_epoch / 10 < 1 ? 1 : t->per_epoch / 10 > 100 ? 100 : t->per_epoch / 10;
  t->window = blu_meter_new(t->train, &t->meters);
  t->epoch = blu_meter_new(t->train, &t->meters);
  return true;
}

/* Initial values, or those of the latest checkpoint; and how much of metrics.jsonl to keep. */
static bool start_model(BluError *err, Trainer *t, int64_t latest, int64_t *metrics_bytes) {
  *metrics_bytes = 0;
  if (!t->options->resume) {
    const BluFunction *init = blu_program_function(t->program, "init");
    blu_exec_scalars(&t->exec, 0, t->batch);
    if (init) blu_exec_run(&t->exec, init, 0, init->launches);
    return true;
  }
  char *path = blu_checkpoint_path(t->out, latest), *text = NULL;
  BluError warning;
  bool good = blu_checkpoint_load(err, t->program, t->exec.arena.base, path, true, &text, &warning) &&
              read_state(err, t, text, metrics_bytes);
  if (good && warning.text[0]) fprintf(stderr, "warning: %s\n", warning.text);
  free(text);
  free(path);
  return good;
}

static bool train(BluError *err, Trainer *t) {
  if (!open_data(err, t) || !blu_file_folder(err, t->out)) return false;
  int64_t latest = blu_checkpoint_latest(t->out), metrics_bytes;
  if (latest >= 0 && !t->options->resume)
    return blu_error_set(err, "%s holds a checkpoint of step %" PRId64 ": give --resume to go on from it, or another "
                         "--out", t->out, latest);
  if (latest < 0 && t->options->resume) return blu_error_set(err, "%s holds no checkpoint to resume from", t->out);
  if (!blu_exec_open(err, &t->exec, t->program, t->run, threads_of(t->options), t->data.bytes + t->test.bytes))
    return false;
  t->exec.seed = t->options->seed >= 0 ? t->options->seed : DEFAULT_SEED;
  if (!start_model(err, t, latest, &metrics_bytes) || !plan_steps(err, t)) return false;
  if (t->step >= t->total) {
    if (!t->options->quiet) printf("nothing to do: %" PRId64 " of %" PRId64 " steps are done\n", t->step, t->total);
    return true;
  }
  if (!blu_log_open(err, &t->log, t->out, metrics_bytes, t->options->quiet)) return false;
  blu_checkpoint_clean(t->out);
  t->log.total = t->total;
  t->log.per_epoch = t->per_epoch;
  t->log.batch = t->batch;
  t->log.first_step = t->step;
  return train_loop(err, t);
}

static bool require_function(BluError *err, const BluProgram *program, const char *name, const BluFunction **function) {
  *function = blu_program_function(program, name);
  return (program->data[0] && *function) || blu_error_set(err, "this program has no train block: it cannot %s", name);
}

bool blu_train_run(BluError *err, const BluProgram *program, const BluOptions *options, double *run) {
  Trainer t = {.program = program, .options = options, .run = run, .eval = blu_program_function(program, "eval")};
  if (!require_function(err, program, "train", &t.train)) return false;
  t.out = out_folder(program, options);
  bool good = train(err, &t);
  if (t.log.terminal && !good) printf("\n");
  blu_log_close(&t.log);
  blu_exec_close(&t.exec);
  blu_data_close(&t.data);
  blu_data_close(&t.test);
  free(t.window);
  free(t.epoch);
  free(t.index);
  free(t.out);
  return good;
}

/* The checkpoint that the options name, or the latest of the output folder; NULL with an error if there is none. */
static char *find_checkpoint(BluError *err, const BluProgram *program, const BluOptions *options) {
  if (options->checkpoint) return blu_text_path("", options->checkpoint);
  char *out = out_folder(program, options);
  int64_t latest = blu_checkpoint_latest(out);
  char *path = latest < 0 ? NULL : blu_checkpoint_path(out, latest);
  if (!path) blu_error_set(err, "%s holds no checkpoint; --checkpoint DIR or --out DIR names another place", out);
  free(out);
  return path;
}

bool blu_train_eval(BluError *err, const BluProgram *program, const BluOptions *options, double *run) {
  const BluFunction *eval;
  if (!require_function(err, program, "eval", &eval)) return false;
  char *path = find_checkpoint(err, program, options), *text = NULL;
  if (!path) return false;
  BluData data = {0};
  BluExec exec = {0};
  BluError warning;
  bool good = blu_data_open(err, &data, program, eval, options->data, BLU_SPLIT_TEST, false) &&
              blu_exec_open(err, &exec, program, run, threads_of(options), data.bytes) &&
              blu_checkpoint_load(err, program, exec.arena.base, path, false, &text, &warning) &&
              read_run_values(err, program, options, text, run);
  if (good) {
    char word[64] = "0";
    int64_t results, step = 0;
    if (warning.text[0]) fprintf(stderr, "warning: %s\n", warning.text);
    if (text && blu_text_value(text, "step", word, sizeof word)) blu_text_int(word, &step);
    BluMeter *result = blu_meter_new(eval, &results);
    int64_t *index = blu_new(blu_function_batch(eval), sizeof *index);
    evaluate(&exec, eval, &data, step, index, result);
    printf("%s: test", path);
    for (int64_t i = 0; i < results; i++) printf("  %s %.6f", result[i].name, blu_meter_mean(&result[i]));
    printf("  (%" PRId64 " examples)\n", data.count);
    free(index);
    free(result);
  }
  free(text);
  free(path);
  blu_exec_close(&exec);
  blu_data_close(&data);
  return good;
}
