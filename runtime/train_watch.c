/* train_watch.c - what a run looks out for: steps that are not finite, losses that jump, the best test loss. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train_internal.h"

bool blu_train_finite_loss(const BluTrainer *t) {
  const BluMeter *loss = blu_meter_find(t->now, t->meters, "loss");
  return !loss || (isfinite(loss->sum) && isfinite(loss->weight));
}

/* A NaN has a sign, which says nothing. */
static double unsigned_nan(double x) { return isnan(x) ? (double)NAN : x; }

/* Broken examples are the first thing to look for. */
static void name_data(BluError *err, BluTrainer *t) {
  int64_t rows = blu_train_rows(t, t->step, t->index), example;
  double value;
  const BluSlot *slot = blu_data_not_finite(&t->data, t->train, t->index, rows, &example, &value);
  if (slot) blu_error_add(err, " the data '%s' holds %g in its example %" PRId64 " (from 0);", slot->name, unsigned_nan(value), example);
}

bool blu_train_finite(BluError *err, BluTrainer *t) {
  const BluFunction *f = t->update ? t->update : t->train;
  const BluMeter *loss = blu_meter_find(t->now, t->meters, "loss");
  blu_error_set(err, "step %" PRId64 ":", t->step + 1);
  bool good = blu_train_finite_loss(t);
  if (!good) blu_error_add(err, " the loss is %g;", unsigned_nan(isfinite(loss->sum) ? loss->weight : loss->sum));
  for (int64_t i = 0; i < f->slots; i++) {
    const BluSlot *slot = &f->slot[i];
    if (slot->role != BLU_ROLE_SQUARES && slot->role != BLU_ROLE_NORM) continue;
    double value = blu_exec_scalar(&t->exec, slot);
    if (isfinite(value)) continue;
    good = false;
    if (slot->role == BLU_ROLE_SQUARES)
      blu_error_add(err, " the gradient of '%s' is not finite (its sum of squares is %g);", slot->name, unsigned_nan(value));
    else blu_error_add(err, " the norm of the gradients is %g;", unsigned_nan(value));
    break;
  }
  if (!good) name_data(err, t);
  return good;
}

bool blu_train_keep_state(BluError *err, BluTrainer *t, bool back) {
  int64_t copy = t->program->arena_bytes;
  for (int64_t i = 0; t->update && i < t->program->tensors; i++) {
    const BluSlot *slot = &t->program->tensor[i];
    if (!blu_slot_picked(slot, BLU_PICK_MODEL_STATES)) continue;
    if (!blu_device_copy(err, &t->exec.arena, back ? slot->offset : copy, back ? copy : slot->offset, slot->bytes)) return false;
    copy += slot->bytes;
  }
  return true;
}

bool blu_train_spike(BluError *err, BluTrainer *t) {
  enum { LEAST = 30, APART = 100 }; /* steps seen before judging; between two reports */
  static const double share = 0.02, far = 6;
  BluTrainWatch *w = &t->watch;
  const BluMeter *now = blu_meter_find(t->now, t->meters, "loss"), *norm = blu_meter_find(t->now, t->meters, "grad_norm");
  if (!now || now->weight == 0) return true;
  double loss = blu_meter_mean(now), above = loss - w->mean, deviation = sqrt(w->variance);
  bool spike = w->seen >= LEAST && deviation > 0 && above > far * deviation && t->step - w->last_spike >= APART;
  bool good = true;
  if (spike) {
    char text[300];
    snprintf(text, sizeof text, "the loss is %.6g, %.1f standard deviations above the mean %.6g of recent steps; the "
             "norm of the gradients is %.6g", loss, above / deviation, w->mean, norm ? blu_meter_mean(norm) : 0);
    w->last_spike = t->step;
    good = blu_log_event(err, &t->log, t->step, "loss_spike", text);
  }
  double part = w->seen ? share : 1;
  w->mean += part * above;
  if (w->seen) w->variance = (1 - share) * (w->variance + share * above * above);
  w->seen++;
  return good;
}

bool blu_train_improves(BluTrainer *t, const BluMeter *test, int64_t tests) {
  for (int64_t i = 0; i < tests; i++) {
    if (strcmp(test[i].name, "loss")) continue;
    double loss = blu_meter_mean(&test[i]);
    if (isfinite(loss) && (t->watch.best_step < 0 || loss < t->watch.best_loss)) {
      t->watch.best_loss = loss;
      t->watch.best_step = t->step;
      t->watch.stale = 0;
      return true;
    }
  }
  t->watch.stale++;
  return false;
}
