/* exec.c - a program in memory: its scalars, its functions, and the means of what they return. */
#include <stdlib.h>
#include <string.h>

#include "runtime_internal.h"

/* From the seed of one micro-batch to that of the next; keys of random numbers are seed + (step + 1) * 2654435761, and no two are equal in
 * 2^40 steps of a million micro-batches. */
#define MICRO_BATCH 0x9e3779b97f4a7c15u

bool blu_exec_open(BluError *err, BluExec *exec, const BluProgram *program, const double *run, const BluOptions *options,
                   int64_t limit) {
  int threads = blu_cli_threads(options);
  BluDeviceWish wish = {.number = options->device, .epilogues = options->epilogues};
  *exec = (BluExec){.program = program, .run = run, .scale = 1};
  if (!blu_arena_open(err, &exec->arena, program, threads, limit)) return false;
  exec->pool = blu_pool_open(err, &exec->arena, threads);
  if (exec->pool && blu_device_open(err, &exec->arena, program, &wish)) return true;
  blu_exec_close(exec);
  return false;
}

void blu_exec_close(BluExec *exec) {
  blu_pool_close(exec->pool);
  exec->pool = NULL;
  blu_device_close(&exec->arena);
  blu_arena_close(&exec->arena);
}

void blu_exec_scalars(BluExec *exec, int64_t step, int64_t rows) {
  const BluProgram *program = exec->program;
  double steps = (double)step;
  int64_t seed = (int64_t)((uint64_t)exec->seed + MICRO_BATCH * (uint64_t)exec->micro);
  int32_t row_count = (int32_t)rows;
  for (int64_t i = 0; i < program->scalars; i++) {
    const BluSlot *slot = &program->scalar[i];
    const void *value = slot->role == BLU_ROLE_RUN     ? (const void *)&exec->run[i]
                        : slot->role == BLU_ROLE_STEP  ? (const void *)&steps
                        : slot->role == BLU_ROLE_SEED  ? (const void *)&seed
                        : slot->role == BLU_ROLE_TOTAL ? (const void *)&exec->total
                        : slot->role == BLU_ROLE_SCALE ? (const void *)&exec->scale
                                                       : (const void *)&row_count;
    memcpy(exec->arena.base + slot->offset, value, (size_t)blu_dtype_bytes(slot->dtype));
  }
}

bool blu_exec_run(BluError *err, BluExec *exec, const BluFunction *function, int64_t first, int64_t last) {
  BluProfile *profile = exec->profile;
  while (profile && profile->function != function) profile = profile->other;
  return blu_device_run(err, &exec->arena, exec->pool, profile, function, first, last);
}

bool blu_exec_all(BluError *err, BluExec *exec, const BluFunction *function) {
  return blu_exec_run(err, exec, function, 0, function->launches) && blu_device_wait(err, &exec->arena);
}

double blu_exec_scalar(const BluExec *exec, const BluSlot *slot) {
  const char *place = blu_device_result(&exec->arena, slot);
  if (slot->dtype == BLU_DTYPE_F64) {
    double value;
    memcpy(&value, place, sizeof value);
    return value;
  }
  float value;
  memcpy(&value, place, sizeof value);
  return value;
}

static bool is_metered(const BluSlot *slot) {
  return slot->role == BLU_ROLE_SUM || slot->role == BLU_ROLE_NORM || slot->role == BLU_ROLE_OUTPUT;
}

BluMeter *blu_meter_new(const BluFunction *function, int64_t *meters) {
  BluMeter *meter = blu_new(function->slots, sizeof *meter);
  *meters = 0;
  for (int64_t i = 0; i < function->slots; i++) {
    const BluSlot *slot = &function->slot[i];
    if (is_metered(slot))
      meter[(*meters)++] = (BluMeter){.name = slot->role == BLU_ROLE_NORM ? "grad_norm" : slot->name,
                                      .last = slot->role == BLU_ROLE_OUTPUT};
  }
  return meter;
}

void blu_meter_add(BluMeter *meter, const BluExec *exec, const BluFunction *function) {
  int64_t next = 0;
  for (int64_t i = 0; i < function->slots; i++) {
    const BluSlot *slot = &function->slot[i];
    if (!is_metered(slot)) continue;
    const BluSlot *weight = slot->role == BLU_ROLE_SUM ? blu_function_slot(function, BLU_ROLE_WEIGHT, slot->name) : NULL;
    BluMeter *m = &meter[next++];
    if (m->last) m->sum = m->weight = 0;
    m->sum += blu_exec_scalar(exec, slot);
    m->weight += weight ? blu_exec_scalar(exec, weight) : 1;
  }
}

void blu_meter_clear(BluMeter *meter, int64_t meters) {
  for (int64_t i = 0; i < meters; i++) meter[i].sum = meter[i].weight = 0;
}

void blu_meter_join(BluMeter *meter, const BluMeter *more, int64_t meters) {
  for (int64_t i = 0; i < meters; i++) {
    if (meter[i].last) meter[i].sum = meter[i].weight = 0;
    meter[i].sum += more[i].sum;
    meter[i].weight += more[i].weight;
  }
}

BluMeter *blu_meter_find(BluMeter *meter, int64_t meters, const char *name) {
  for (int64_t i = 0; i < meters; i++)
    if (!strcmp(meter[i].name, name)) return &meter[i];
  return NULL;
}

double blu_meter_mean(const BluMeter *meter) { return meter->weight == 0 ? 0 : meter->sum / meter->weight; }
