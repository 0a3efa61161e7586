/* train_open.c - a training run from its options: data, memory, threads, first values or those of a checkpoint, and what
 * there is to do. Nothing is written to the output folder before all of that is good. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train_internal.h"

enum { MOST_BATCHES = 1000000, DEFAULT_SEED = 1, DEFAULT_KEEP = 2, NO_SPIKE = -1000 };

static int64_t given(int64_t option, int64_t fallback) { return option >= 0 ? option : fallback; }

static bool open_data(BluError *err, BluTrainer *t) {
  const BluOptions *o = t->options;
  BluDataWish wish = {.dir = o->data, .seconds = o->timeout};
  if (!blu_data_open(err, &t->data, t->program, t->train, BLU_SPLIT_TRAIN, &wish)) return false;
  wish.optional = true;
  wish.train = &t->data;
  if (t->eval && !blu_data_open(err, &t->test, t->program, t->eval, BLU_SPLIT_TEST, &wish)) return false;
  return true;
}

/* Meters of a step: those of a batch, and those of `update`. */
static BluMeter *new_meters(BluTrainer *t) {
  BluMeter *meter = blu_meter_new(t->train, &t->batch_meters), *more;
  t->meters = t->batch_meters;
  if (!t->update) return meter;
  int64_t extra;
  more = blu_meter_new(t->update, &extra);
  BluMeter *all = blu_new(t->batch_meters + extra, sizeof *all);
  memcpy(all, meter, (size_t)t->batch_meters * sizeof *all);
  memcpy(all + t->batch_meters, more, (size_t)extra * sizeof *all);
  t->meters += extra;
  free(meter);
  free(more);
  return all;
}

static void plan_defaults(BluTrainer *t) {
  const BluOptions *o = t->options;
  int64_t tenth = t->per_epoch / 10 < 1 ? 1 : t->per_epoch / 10 > 100 ? 100 : t->per_epoch / 10;
  t->plan = (BluTrainPlan){
      .eval_every = given(o->eval_every, t->per_epoch),
      .save_every = given(o->save_every, t->per_epoch),
      .log_every = given(o->log_every, tenth),
      .patience = given(o->patience, 0),
      .keep = given(o->keep, DEFAULT_KEEP),
      .nan_skip = o->nan && !strcmp(o->nan, "skip"),
  };
  t->watch = (BluTrainWatch){.best_step = -1, .last_spike = NO_SPIKE};
}

static bool setting(BluError *err, BluTrainer *t, const char *name, double fallback, double *value) {
  const BluFunction *settings = blu_program_function(t->program, "settings");
  const BluSlot *slot = settings ? blu_function_slot(settings, BLU_ROLE_OUTPUT, name) : NULL;
  *value = fallback;
  if (slot) {
    if (!blu_exec_all(err, &t->exec, settings)) return false;
    *value = blu_exec_scalar(&t->exec, slot);
  }
  return (*value >= 0 && *value < 0x1p53) ||
         blu_error_set(err, "the program's setting '%s' is %g, which is not a number of steps or epochs", name, *value);
}

/* Micro-batches of a rank, so that a resumed run has steps as before, whatever the number of its ranks. */
static bool resume_accumulation(BluError *err, BluTrainer *t, int64_t saved, const char *text) {
  int64_t option = t->options->accumulate, ranks = 1;
  char word[64];
  if (blu_text_value(text, "ranks", word, sizeof word) && (!blu_text_int(word, &ranks) || ranks < 1 || ranks > BLU_RANKS_MOST)) ranks = 1;
  if (saved * ranks % t->ranks)
    return blu_error_set(err, "the checkpoint's steps have %" PRId64 " micro-batches, which %" PRId64 " ranks can't share equally", saved * ranks, t->ranks);
  t->accumulate = saved * ranks / t->ranks;
  if (option >= 0 && option != t->accumulate)
    return blu_error_set(err, "the checkpoint was made with --accumulate %" PRId64 ": leave --accumulate out to resume", saved);
  if (ranks != t->ranks && !t->rank)
    fprintf(stderr, "warning: the checkpoint was made by %" PRId64 " rank%s, and here %s %" PRId64 ": steps have the same examples, but equal bits are not promised\n",
            ranks, ranks > 1 ? "s" : "", t->ranks > 1 ? "are" : "is", t->ranks);
  return true;
}

/* How many micro-batches a rank has in a step: as saved in `text`; in a new run by the option, else by the program. */
static bool plan_accumulation(BluError *err, BluTrainer *t, const char *text) {
  int64_t option = t->options->accumulate, saved;
  double value;
  char word[64];
  t->accumulate = 1;
  if (!t->update) return true;
  if (text && blu_text_value(text, "accumulate", word, sizeof word) && blu_text_int(word, &saved) && saved >= 1 && saved <= MOST_BATCHES)
    return resume_accumulation(err, t, saved, text);
  blu_exec_scalars(&t->exec, 0, 0);
  if (!setting(err, t, "accumulate", 1, &value)) return false;
  t->accumulate = option >= 0 ? option : (int64_t)value;
  return option >= 0 || (value >= 1 && value <= MOST_BATCHES && value == floor(value)) ||
         blu_error_set(err, "the program's setting 'accumulate' is %g, which is no whole number from 1 to %d", value,
                       MOST_BATCHES);
}

/* Which part of the examples: as the checkpoint says, else by the option, else all. */
static bool plan_shard(BluError *err, BluTrainer *t, const char *text) {
  char saved[64] = "0/1", word[64];
  const char *option = t->options->shard;
  if (text && blu_text_value(text, "imported", word, sizeof word)) text = NULL; /* parameters, but no run */
  if (text && !blu_text_value(text, "shard", saved, sizeof saved)) snprintf(saved, sizeof saved, "0/1");
  if (text && option && strcmp(saved, option))
    return blu_error_set(err, "the checkpoint was made with --shard %s: leave --shard out to resume", saved);
  if (!blu_cli_shard(text || !option ? saved : option, &t->shard, &t->shards))
    return blu_error_set(err, "the checkpoint's trainer.txt has a shard '%s'", saved);
  t->count = (t->data.count - t->shard + t->shards - 1) / t->shards;
  return t->count > 0 ||
         blu_error_set(err, "%" PRId64 " training examples are too few for %" PRId64 " shards", t->data.count, t->shards);
}

/* What the loss is multiplied by at first; a checkpoint has the scale that was reached. */
static bool plan_scale(BluError *err, BluTrainer *t) {
  enum { START = 65536 };
  for (int64_t i = 0; i < t->program->scalars; i++) t->scaled |= t->program->scalar[i].role == BLU_ROLE_SCALE;
  if (!t->scaled) return true;
  blu_exec_scalars(&t->exec, 0, 0);
  if (!setting(err, t, "loss_scale", START, &t->exec.scale)) return false;
  return (t->exec.scale >= 1 && t->exec.scale <= 0x1p32) ||
         blu_error_set(err, "the program's setting 'loss_scale' is %g, which is not from 1 to 2^32", t->exec.scale);
}

/* Batches, steps of an epoch, and the tables that depend on them. */
static bool plan_batch(BluError *err, BluTrainer *t, const char *text) {
  int64_t eval_batch = t->eval ? blu_function_batch(t->eval) : 0;
  if (!plan_accumulation(err, t, text) || !plan_shard(err, t, text) || !plan_scale(err, t)) return false;
  t->micro = blu_function_batch(t->train);
  int64_t own = t->micro * t->accumulate;
  t->batch = own * t->ranks;
  if (t->data.drop_last && t->count < t->batch)
    return blu_error_set(err, "%" PRId64 " training examples are less than a batch of %" PRId64 ", and drop_last = 1", t->count, t->batch);
  t->index = blu_new(own > eval_batch ? own : eval_batch, sizeof *t->index);
  t->next = blu_new(own, sizeof *t->next);
  t->per_epoch = t->data.drop_last ? t->count / t->batch : (t->count + t->batch - 1) / t->batch;
  t->now = new_meters(t);
  t->window = new_meters(t);
  t->epoch = new_meters(t);
  return true;
}

/* Total number of steps: by the options, else by the program. */
static bool plan_steps(BluError *err, BluTrainer *t) {
  double stop, epochs;
  blu_exec_scalars(&t->exec, t->step - t->skipped, t->batch);
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

/* Initial values and the plan of a new run. */
static bool start_new(BluError *err, BluTrainer *t) {
  const BluFunction *init = blu_program_function(t->program, "init");
  if (!plan_batch(err, t, NULL)) return false;
  plan_defaults(t);
  blu_exec_scalars(&t->exec, 0, t->micro);
  return (!init || blu_exec_all(err, &t->exec, init)) &&
         (!t->program->embedded || blu_checkpoint_embedded(err, t->program, &t->exec.arena));
}

/* The plan of a checkpoint with this text. */
static bool start_again(BluError *err, BluTrainer *t, const char *text, int64_t *metrics_bytes) {
  if (!blu_train_state_values(err, t->program, t->options, text, t->run) || !plan_batch(err, t, text)) return false;
  plan_defaults(t);
  return blu_train_state_read(err, t, text, metrics_bytes);
}

/* Values and plan of a new run, or those of the latest checkpoint, which rank 0 reads; and how much of metrics.jsonl to keep. */
static bool start_model(BluError *err, BluTrainer *t, int64_t latest, int64_t *metrics_bytes) {
  char *path = blu_checkpoint_path(t->out, latest), *text = NULL;
  BluError warning = {""};
  *metrics_bytes = 0;
  bool good = latest < 0 || blu_checkpoint_load(err, t->program, &t->exec.arena, path, true, &text, &warning);
  good = good && blu_train_share_text(err, t, &text) && (text ? start_again(err, t, text, metrics_bytes) : start_new(err, t)) &&
         blu_train_share_model(err, t);
  if (good && warning.text[0]) fprintf(stderr, "warning: %s\n", warning.text);
  free(text);
  free(path);
  return good;
}

static bool describe_log(BluError *err, BluTrainer *t) {
  const BluSlot *first = blu_function_slot(t->train, BLU_ROLE_DATA, NULL);
  bool tokens = !strcmp(t->program->data, "text") || !strcmp(t->program->data, "tokens");
  BluLog *log = &t->log;
  log->total = t->total;
  log->per_epoch = t->per_epoch;
  log->batch = t->batch;
  log->tokens = tokens && first && first->rank == 2 ? first->dim[1] : 0;
  log->flops = (double)t->ranks * ((double)t->train->flops * (double)t->accumulate + (t->update ? (double)t->update->flops : 0));
  log->first_step = t->step;
  log->ranks = t->ranks;
  if (log->flops > 0 && (t->ranks > 1 || !t->options->quiet)) { /* of several ranks only rank 0 knows whether it is asked to be quiet */
    int64_t threads = blu_cli_threads(t->options), cpus = blu_host_cpus(), near = t->others ? t->others->near : 1;
    log->peak = blu_profile_peak(t->exec.pool, (int)threads, t->program->cpu);
    if (threads <= cpus && near * threads > cpus) log->peak *= (double)cpus / (double)(near * threads); /* ranks that take turns */
  }
  return blu_train_sum(err, t, &log->peak);
}

/* --dry-run: the first step is computed, and nothing is changed. */
static bool dry_run(BluError *err, BluTrainer *t) {
  BluError why;
  double seconds = 0;
  for (int i = 0; i < 2; i++) { /* the first one warms up */
    double start = blu_log_now();
    if (!blu_train_compute(err, t)) return false;
    seconds = blu_log_now() - start;
  }
  if (t->rank) return true;
  if (!blu_train_finite(&why, t)) printf("%s\n", why.text);
  blu_meter_join(t->window, t->now, t->meters);
  printf("data        ");
  if (t->shards > 1) printf("%" PRId64 " of ", t->count);
  printf("%" PRId64 " training examples in batches of %" PRId64 ", %" PRId64 " test examples\n", t->data.count,
         t->batch, t->test.count);
  printf("run         %" PRId64 " steps from step %" PRId64 " on; %" PRId64 " an epoch; to %s\n", t->total, t->step + 1,
         t->per_epoch, t->out);
  if (t->ranks > 1) printf("ranks       %" PRId64 ", %" PRId64 " examples of a batch each\n", t->ranks, t->batch / t->ranks);
  printf("memory      %" PRId64 " bytes for arena and scratch, %" PRId64 " for data\n",
         t->program->arena_bytes + blu_cli_threads(t->options) * blu_arena_scratch(t->program),
         t->data.bytes + t->data.mapped + t->test.bytes + t->test.mapped);
  printf("step        %.3f ms without the update;", 1e3 * seconds);
  for (int64_t i = 0; i < t->meters; i++) printf(" %s %.6g", t->window[i].name, blu_meter_mean(&t->window[i]));
  printf("\nnothing was written\n");
  return true;
}

static bool open_folder(BluError *err, BluTrainer *t, int64_t *latest) {
  if (!t->options->dry_run) {
    if (!blu_file_folder(err, t->out)) return false;
    t->lock = blu_file_lock(err, t->out);
    if (t->lock < 0) return false;
  }
  *latest = blu_checkpoint_latest(t->out);
  if (*latest >= 0 && !t->options->resume)
    return blu_error_set(err, "%s holds a checkpoint of step %" PRId64 ": give --resume to go on from it, or another "
                         "--out", t->out, *latest);
  return *latest >= 0 || !t->options->resume || blu_error_set(err, "%s holds no checkpoint to resume from", t->out);
}

/* Ends what an interrupted save has begun: what is half written goes, and what it would have removed. */
static bool tidy(BluError *err, BluTrainer *t) {
  blu_checkpoint_clean(t->out);
  if (!blu_checkpoint_link(err, t->out, t->watch.best_step)) return false;
  if (t->options->resume) blu_checkpoint_prune(t->out, t->plan.keep, t->watch.best_step);
  return true;
}

static bool train(BluError *err, BluTrainer *t) {
  int64_t latest = -1, metrics_bytes, limit, batches = t->options->accumulate;
  if (!t->update && batches >= 0)
    return blu_error_set(err, "--accumulate %" PRId64 ": this program was compiled without: write `accumulate = %" PRId64 ";` into its "
                         "train block", batches, batches);
  if (!open_data(err, t) || (!t->rank && !open_folder(err, t, &latest))) return false;
  if (!blu_train_memory(err, t, t->data.bytes + t->test.bytes, &limit) ||
      !blu_exec_open(err, &t->exec, t->program, t->run, t->options, limit))
    return false;
  t->exec.seed = given(t->options->seed, DEFAULT_SEED);
  if (!start_model(err, t, latest, &metrics_bytes) || !plan_steps(err, t) || !blu_train_agree(err, t)) return false;
  if (!t->options->dry_run && !t->rank && !tidy(err, t)) return false;
  if (t->step >= t->total) {
    if (!t->options->quiet) printf("nothing to do: %" PRId64 " of %" PRId64 " steps are done\n", t->step, t->total);
    return true;
  }
  if (t->options->dry_run) return dry_run(err, t);
  if (!t->rank && !blu_log_open(err, &t->log, t->out, metrics_bytes, t->options->quiet, t->options->tensorboard)) return false;
  if (t->options->profile) t->exec.profile = t->profile = blu_profile_new(t->train);
  if (t->profile && t->update) t->profile->other = blu_profile_new(t->update);
  t->ahead = blu_ahead_open(&t->data, t->micro);
  bool good = describe_log(err, t) && blu_train_loop(err, t), profiled = good && t->profile && !t->rank;
  if (profiled) blu_profile_print(stdout, t->profile, t->program, t->update ? "micro-batches" : "steps");
  if (profiled && t->update) blu_profile_print(stdout, t->profile->other, t->program, "updates");
  if (profiled && t->exchanges)
    printf("exchanges of %" PRId64 " steps with other ranks: %.3f ms each\n", t->exchanges, 1e3 * t->exchanging / (double)t->exchanges);
  return good;
}

bool blu_train_run(BluError *err, const BluProgram *program, const BluOptions *options, double *run) {
  BluOptions mine = *options;
  BluTrainer t = {.program = program, .options = &mine, .run = run, .eval = blu_program_function(program, "eval"),
                  .update = blu_program_function(program, "update"), .lock = -1, .staged = -1, .started = blu_log_now()};
  if (!blu_evaluate_function(err, program, "train", &t.train)) return false;
  t.out = blu_cli_out(program, options);
  bool good = blu_train_join(err, &t, options->group, &mine) && train(err, &t);
  if (t.log.terminal && !good) printf("\n");
  blu_train_leave(&t, good ? NULL : err);
  blu_ahead_close(t.ahead);
  blu_log_close(&t.log);
  blu_exec_close(&t.exec);
  blu_data_close(&t.test);
  blu_data_close(&t.data);
  blu_profile_free(t.profile);
  blu_file_unlock(t.lock, t.out);
  free(t.now);
  free(t.window);
  free(t.epoch);
  free(t.index);
  free(t.next);
  free(t.out);
  return good;
}
