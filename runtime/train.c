/* train.c - the training loop: data in, a step, its checks, log, evaluation, checkpoint.
 *
 * All state of a run is in the parameters, the optimizer's state and the few numbers that train_state.c writes; the data
 * order is a function of seed and step. So a run resumed from a checkpoint is the run that was never stopped. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "train_internal.h"

volatile sig_atomic_t blu_train_signal, blu_train_save;

enum {
  MOST_SKIPPED = 100,  /* steps in a row, before a run that skips gives up */
  GROWTH_STEPS = 2000  /* without an overflow, before the loss is scaled by twice as much: as in PyTorch's GradScaler */
};
static const double LEAST_SCALE = 1, MOST_SCALE = 0x1p32;

/* --- checkpoints --- */

static bool save(BluError *err, BluTrainer *t) {
  int64_t metrics_bytes;
  if (!blu_data_unchanged(err, &t->data) || !blu_data_unchanged(err, &t->test) || !blu_train_equal(err, t)) return false;
  if (t->rank) return true;
  if (!blu_log_sync(err, &t->log, &metrics_bytes)) return false;
  char *text = blu_train_state_print(t, metrics_bytes);
  bool good = blu_checkpoint_save(err, t->program, &t->exec.arena, t->out, t->step, text);
  free(text);
  if (good && t->watch.best_step == t->step) good = blu_checkpoint_link(err, t->out, t->step);
  if (good) blu_checkpoint_prune(t->out, t->plan.keep, t->watch.best_step);
  return good;
}

/* Says where one can go on from; ends a message. */
static void add_last_checkpoint(BluError *err, const BluTrainer *t) {
  int64_t latest = blu_checkpoint_latest(t->out);
  char *path = blu_checkpoint_path(t->out, latest);
  if (latest >= 0) blu_error_add(err, "the last checkpoint is %s", path);
  else blu_error_add(err, "there is no checkpoint yet");
  free(path);
}

/* --- steps --- */

int64_t blu_train_rows(const BluTrainer *t, int64_t step, int64_t *index) {
  int64_t most = t->micro * t->accumulate, first = step % t->per_epoch * t->batch + t->rank * most;
  int64_t rows = t->count - first < 0 ? 0 : t->count - first < most ? t->count - first : most;
  BluShuffle shuffle = blu_shuffle_make(t->data.count, t->exec.seed, step / t->per_epoch);
  for (int64_t i = 0; i < rows; i++) {
    int64_t at = t->shard + (first + i) * t->shards; /* in the order that all parts share */
    index[i] = t->data.shuffle ? blu_shuffle_at(&shuffle, at) : at;
  }
  return rows;
}

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* What follows example `done` of this step, `rows` long, is read ahead. */
static void read_ahead(BluTrainer *t, int64_t done, int64_t rows) {
  if (!t->ahead) return;
  if (done < rows) blu_ahead_give(t->ahead, t->index + done, least_of(rows - done, t->micro));
  else blu_ahead_give(t->ahead, t->next, least_of(blu_train_rows(t, t->step + 1, t->next), t->micro));
}

/* A step of micro-batches starts. */
static bool clear_sums(BluError *err, BluTrainer *t) {
  for (int64_t i = 0; i < t->train->slots; i++) {
    const BluSlot *slot = &t->train->slot[i];
    if (slot->role == BLU_ROLE_GRADIENT && !blu_device_clear(err, &t->exec.arena, slot->offset, slot->bytes)) return false;
  }
  return blu_train_keep_state(err, t, false);
}

/* While a device computes, the batch that follows example `done` of this step, `rows` long, is sent to it. */
static bool stage_next(BluError *err, BluTrainer *t, int64_t done, int64_t rows) {
  if (!t->exec.arena.driver) return true;
  bool here = done < rows;
  int64_t step = here ? t->step : t->step + 1;
  if (step >= t->total) return true;
  int64_t part = least_of(here ? rows - done : blu_train_rows(t, step, t->next), t->micro);
  if (!blu_evaluate_fetch(err, &t->exec, t->train, &t->data, here ? t->index + done : t->next, part)) return false;
  t->staged = step;
  t->staged_first = here ? done : 0;
  return true;
}

/* The micro-batch that begins with example `first` of the step, which has `rows`. */
static bool compute_batch(BluError *err, BluTrainer *t, int64_t first, int64_t rows) {
  int64_t part = least_of(rows - first, t->micro);
  bool staged = t->staged == t->step && t->staged_first == first;
  if (!staged && !blu_evaluate_fetch(err, &t->exec, t->train, &t->data, t->index + first, part)) return false;
  t->staged = -1;
  read_ahead(t, first + part, rows);
  t->exec.micro = t->rank * t->accumulate + first / t->micro;
  blu_exec_scalars(&t->exec, t->step - t->skipped, part);
  if (!blu_exec_run(err, &t->exec, t->train, 0, t->update ? t->train->launches : t->train->commit) ||
      !stage_next(err, t, first + part, rows) || !blu_device_wait(err, &t->exec.arena))
    return false;
  blu_meter_add(t->now, &t->exec, t->train);
  return true;
}

bool blu_train_compute(BluError *err, BluTrainer *t) {
  int64_t rows = blu_train_rows(t, t->step, t->index);
  blu_meter_clear(t->now, t->meters);
  if (t->update && !clear_sums(err, t)) return false;
  for (int64_t first = 0; first < rows; first += t->micro)
    if (!compute_batch(err, t, first, rows)) return false;
  t->exec.micro = 0;
  if (!t->update) return true;
  if (!blu_train_exchange(err, t)) return false;
  const BluMeter *loss = blu_meter_find(t->now, t->meters, "loss");
  t->exec.total = loss ? loss->weight : 0;
  blu_exec_scalars(&t->exec, t->step - t->skipped, 0);
  if (!blu_exec_run(err, &t->exec, t->update, 0, t->update->commit) || !blu_device_wait(err, &t->exec.arena)) return false;
  blu_meter_add(t->now + t->batch_meters, &t->exec, t->update);
  return true;
}

/* The step is not finite: ends the run, or leaves the step out. */
static bool skip_step(BluError *err, BluTrainer *t, BluError *why) {
  t->step++;
  if (!blu_train_keep_state(err, t, true)) return false;
  if (t->rank) err->text[0] = 0; /* every rank sees the same: rank 0 says it */
  if (!t->plan.nan_skip) {
    if (t->rank) return false;
    *err = *why;
    blu_error_add(err, " parameters are left as they were before this step; ");
    add_last_checkpoint(err, t);
    return false;
  }
  t->skipped++;
  if (++t->in_a_row >= MOST_SKIPPED) {
    if (t->rank) return false;
    blu_error_set(err, "%d steps in a row were not finite; the last: %s ", MOST_SKIPPED, why->text);
    add_last_checkpoint(err, t);
    return false;
  }
  const char *what = strchr(why->text, ':');
  blu_error_add(why, " the step is left out");
  return blu_log_event(err, &t->log, t->step, "skipped", what ? what + 2 : why->text);
}

/* The loss is finite and its gradients are not: they were too large for f16 times the scale. Half of it is tried in the steps to come, and
 * this one is left out. */
static bool scale_down(BluError *err, BluTrainer *t, BluError *why) {
  char text[200];
  if (t->exec.scale / 2 < LEAST_SCALE) {
    blu_error_add(why, " with a loss scale of %g, which can't be halved any more;", t->exec.scale);
    return skip_step(err, t, why);
  }
  t->exec.scale /= 2;
  t->without_overflow = 0;
  t->step++;
  t->skipped++;
  if (!blu_train_keep_state(err, t, true)) return false;
  snprintf(text, sizeof text, "gradients overflow at a loss scale of %g: the step is left out, and the scale is %g from now on", 2 * t->exec.scale,
           t->exec.scale);
  return blu_log_event(err, &t->log, t->step, "overflow", text);
}

static void scale_up(BluTrainer *t) {
  if (!t->scaled || ++t->without_overflow < GROWTH_STEPS) return;
  t->without_overflow = 0;
  if (t->exec.scale <= MOST_SCALE / 2) t->exec.scale *= 2;
}

static bool run_step(BluError *err, BluTrainer *t) {
  BluError why;
  if (!blu_train_compute(err, t)) return false;
  if (!blu_train_finite(&why, t)) return t->scaled && blu_train_finite_loss(t) ? scale_down(err, t, &why) : skip_step(err, t, &why);
  blu_meter_join(t->window, t->now, t->meters);
  blu_meter_join(t->epoch, t->now, t->meters);
  const BluFunction *change = t->update ? t->update : t->train;
  if (!blu_exec_run(err, &t->exec, change, change->commit, change->launches)) return false;
  t->step++;
  t->in_a_row = 0;
  scale_up(t);
  return blu_train_spike(err, t);
}

/* --- evaluation --- */

/* Evaluates and logs, if there is a test split. *best: no test loss was lower before. */
static bool test_model(BluError *err, BluTrainer *t, bool *best) {
  *best = false;
  if (!t->test.count) return true;
  int64_t results;
  double start = blu_log_now();
  BluMeter *result = blu_meter_new(t->eval, &results);
  t->staged = -1;
  bool good = blu_evaluate(err, &t->exec, t->eval, &t->test, t->step - t->skipped, t->index, t->others, result, results);
  t->log.evaluating += blu_log_now() - start;
  good = good && blu_log_test(err, &t->log, t->step, t->epoch, t->meters, result, results);
  if (good) *best = blu_train_improves(t, result, results);
  free(result);
  return good;
}

/* --- the loop --- */

static bool due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

/* Why the run ends before its last step; NULL: it doesn't. */
static const char *reason_to_stop(BluTrainer *t) {
  blu_train_look(t);
  if (t->signal) return "signal";
  if (t->late) return "time";
  if (t->plan.patience && t->watch.stale >= t->plan.patience) return "patience";
  return NULL;
}

/* What is due after a step: report, evaluation, checkpoint. */
static bool after_step(BluError *err, BluTrainer *t) {
  bool epoch_ends = t->step % t->per_epoch == 0, best = false;
  blu_log_progress(&t->log, t->step, t->window, t->meters);
  if (due(t->step, t->plan.log_every) || epoch_ends) {
    if (!blu_log_train(err, &t->log, t->step, t->window, t->meters)) return false;
    blu_meter_clear(t->window, t->meters);
  }
  if (due(t->step, t->plan.eval_every) && !test_model(err, t, &best)) return false;
  if (epoch_ends) blu_meter_clear(t->epoch, t->meters);
  blu_train_look(t);
  bool asked = t->save;
  t->save = false;
  if ((best || asked || due(t->step, t->plan.save_every)) && !save(err, t)) return false;
  if (asked) blu_log_say(&t->log, "SIGUSR1: checkpoint of step %" PRId64 " saved", t->step);
  return true;
}

static bool say_stopped(BluTrainer *t, const char *reason, const char *path) {
  BluLog *log = &t->log;
  if (!strcmp(reason, "signal")) {
    log->quiet = false;
    blu_log_say(log, "stopped by signal %d after step %" PRId64 "; checkpoint: %s; give --resume to go on",
                t->signal, t->step, path);
  } else if (!strcmp(reason, "time")) {
    blu_log_say(log, "stopped after %g minutes at step %" PRId64 "; checkpoint: %s; give --resume to go on",
                t->options->minutes, t->step, path);
  } else {
    blu_log_say(log, "stopped at step %" PRId64 ": %" PRId64 " evaluations without a test loss below %.6g, that of step "
                "%" PRId64 "; checkpoint: %s", t->step, t->watch.stale, t->watch.best_loss, t->watch.best_step, path);
  }
  return true;
}

static bool finish(BluError *err, BluTrainer *t, const char *reason) {
  if (!save(err, t) || !blu_train_meet(err, t)) return false; /* no rank is done before the checkpoint is there */
  char *path = blu_checkpoint_path(t->out, t->step);
  bool good = true, best, tested = due(t->step, t->plan.eval_every) || !t->plan.eval_every;
  /* This test line comes after the checkpoint, so that a resumed run, which goes on from there, drops it. */
  if (reason) good = say_stopped(t, reason, path);
  else if ((good = tested || test_model(err, t, &best)))
    blu_log_say(&t->log, "done: step %" PRId64 ", checkpoint: %s", t->step, path);
  if (good && t->skipped) blu_log_say(&t->log, "%" PRId64 " steps were left out for a NaN or infinity", t->skipped);
  free(path);
  return good;
}

bool blu_train_loop(BluError *err, BluTrainer *t) {
  const char *reason = NULL;
  if (!blu_train_meet(err, t)) return false;
  while (t->step < t->total && !(reason = reason_to_stop(t)))
    if (!run_step(err, t) || !after_step(err, t)) return false;
  return finish(err, t, reason);
}
