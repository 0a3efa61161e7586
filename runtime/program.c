/* program.c - looking things up in the constant tables of a BluProgram. */
#include <stdlib.h>
#include <string.h>

#include "runtime_internal.h"

static const struct {
  const char *name;
  int64_t bytes;
} dtypes[] = {
    [BLU_DTYPE_F32] = {"f32", 4}, [BLU_DTYPE_F64] = {"f64", 8}, [BLU_DTYPE_I32] = {"i32", 4},
    [BLU_DTYPE_I64] = {"i64", 8}, [BLU_DTYPE_U8] = {"u8", 1},   [BLU_DTYPE_BOOL] = {"bool", 1},
    [BLU_DTYPE_BF16] = {"bf16", 2}, [BLU_DTYPE_F16] = {"f16", 2},
};

const char *blu_dtype_name(int32_t dtype) { return dtypes[dtype].name; }
int64_t blu_dtype_bytes(int32_t dtype) { return dtypes[dtype].bytes; }

int64_t blu_slot_count(const BluSlot *slot) {
  int64_t count = 1;
  for (int32_t i = 0; i < slot->rank; i++) count *= slot->dim[i];
  return count;
}

const char *blu_slot_type(const BluSlot *slot, char text[static 200]) {
  int used = snprintf(text, 200, "%s[", blu_dtype_name(slot->dtype));
  for (int32_t i = 0; i < slot->rank; i++)
    used += snprintf(text + used, (size_t)(200 - used), "%s%lld", i ? "," : "", (long long)slot->dim[i]);
  snprintf(text + used, (size_t)(200 - used), "]");
  return text;
}

const BluFunction *blu_program_function(const BluProgram *program, const char *name) {
  for (int64_t i = 0; i < program->functions; i++)
    if (!strcmp(program->function[i].name, name)) return &program->function[i];
  return NULL;
}

const BluSlot *blu_function_slot(const BluFunction *function, int32_t role, const char *name) {
  for (int64_t i = 0; i < function->slots; i++) {
    const BluSlot *slot = &function->slot[i];
    if (slot->role == role && (!name || !strcmp(slot->name, name))) return slot;
  }
  return NULL;
}

bool blu_function_is_entry(const BluFunction *function) {
  static const char *const own[] = {"init", "train", "update", "eval", "settings"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (!strcmp(function->name, own[i])) return false;
  return true;
}

BluProgram blu_program_for(const BluProgram *program, const BluFunction *function) {
  BluProgram part = *program;
  part.arena_bytes = program->kept_bytes + (function ? function->own_bytes : 0);
  return part;
}

int64_t blu_function_batch(const BluFunction *function) {
  const BluSlot *slot = blu_function_slot(function, BLU_ROLE_DATA, NULL);
  return slot && slot->rank ? slot->dim[0] : 0;
}

double *blu_program_defaults(const BluProgram *program) {
  double *run = blu_new(program->scalars, sizeof *run);
  for (int64_t i = 0; i < program->scalars; i++) run[i] = program->scalar[i].value;
  return run;
}

void blu_rt_poison(char *arena, const int64_t *offset, char *scratch, int64_t first, int64_t last) {
  (void)scratch, (void)first, (void)last;
  for (int64_t i = 0; i < offset[0]; i++) memset(arena + offset[1 + 2 * i], 0xff, (size_t)offset[2 + 2 * i]);
}

bool blu_program_set(BluError *err, const BluProgram *program, double *run, const char *assignment) {
  const char *equals = strchr(assignment, '=');
  if (!equals) return blu_error_set(err, "'%s' is not of the form name=value", assignment);
  char *name = blu_new(equals - assignment + 1, 1);
  memcpy(name, assignment, (size_t)(equals - assignment));
  BluGuess guess = {.word = name};
  bool known = false, good = false;
  for (int64_t i = 0; i < program->scalars && !known; i++) {
    const BluSlot *slot = &program->scalar[i];
    if (slot->role != BLU_ROLE_RUN) continue;
    blu_guess_add(&guess, slot->name);
    known = !strcmp(name, slot->name);
    double value;
    if (known && (good = blu_text_double(equals + 1, &value))) run[i] = value;
  }
  if (!known) blu_error_set(err, "this program has no run value '%s'%s", name, blu_guess_hint(&guess));
  else if (!good) blu_error_set(err, "the value '%s' of '%s' is not a finite number", equals + 1, name);
  free(name);
  return good;
}
