/* merge.c - low-rank adapters (Hu et al. 2021) into the weights that they adapt: weight + scale * first @ second, in the weight's layout.
 * nn's LoRA modules keep A and B in the layout of their layer: of a weight [out, in], B [out, r] @ A [r, in]; of one [in, out],
 * A [in, r] @ B [r, out]. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "transfer_internal.h"

static const BluSlot *part(const BluProgram *program, const char *path, int length, const char *name) {
  char *full = blu_text_print("%.*s.%s", length, path, name);
  const BluSlot *found = NULL;
  for (int64_t i = 0; i < program->tensors; i++)
    if (program->tensor[i].role == BLU_ROLE_PARAM && !strcmp(program->tensor[i].name, full)) found = &program->tensor[i];
  free(full);
  return found;
}

/* Does first @ second have the shape of the weight? */
static bool makes(const BluSlot *first, const BluSlot *second, const BluSlot *weight) {
  return first->dim[0] == weight->dim[0] && first->dim[1] == second->dim[0] && second->dim[1] == weight->dim[1];
}

/* The values of a slot in double; the caller frees them. */
static double *values_of(const BluArena *arena, const BluSlot *slot) {
  int64_t count = blu_slot_count(slot);
  double *value = blu_new(count + 1, sizeof *value);
  blu_raw_convert(arena->base + slot->offset, blu_raw_of(slot->dtype), count, value, BLU_DTYPE_F64, 0);
  return value;
}

static void add_product(const BluArena *arena, const BluSlot *weight, const BluSlot *first, const BluSlot *second, double scale) {
  int64_t rows = weight->dim[0], columns = weight->dim[1], rank = first->dim[1], wide = blu_dtype_bytes(weight->dtype);
  double *a = values_of(arena, first), *b = values_of(arena, second), *row = blu_new(columns, sizeof *row);
  double *old = blu_new(columns, sizeof *old);
  for (int64_t i = 0; i < rows; i++) {
    char *place = arena->base + weight->offset + i * columns * wide;
    memset(row, 0, (size_t)columns * sizeof *row);
    for (int64_t k = 0; k < rank; k++)
      for (int64_t j = 0; j < columns; j++) row[j] += a[i * rank + k] * b[k * columns + j];
    blu_raw_convert(place, blu_raw_of(weight->dtype), columns, old, BLU_DTYPE_F64, 0);
    for (int64_t j = 0; j < columns; j++) row[j] = old[j] + scale * row[j];
    blu_raw_convert(row, BLU_RAW_F64, columns, place, weight->dtype, 0);
  }
  free(old);
  free(a);
  free(b);
  free(row);
}

bool blu_adapter_starts(const BluSlot *slot) { return slot->role == BLU_ROLE_PARAM && blu_text_ends(slot->name, BLU_ADAPTER_FIRST); }

bool blu_adapter_find(BluError *err, const BluProgram *program, const BluSlot *a, BluAdapter *adapter) {
  int length = (int)(strlen(a->name) - strlen(BLU_ADAPTER_FIRST));
  const BluSlot *b = part(program, a->name, length, "lora_B"), *scale = part(program, a->name, length, "lora_scale");
  const BluSlot *weight = part(program, a->name, length, "weight");
  bool whole = b && scale && weight && a->rank == 2 && b->rank == 2 && weight->rank == 2 && blu_slot_count(scale) == 1;
  bool out_in = whole && makes(b, a, weight), in_out = whole && makes(a, b, weight);
  if (!out_in && !in_out)
    return blu_error_set(err, "%.*s: lora_A, lora_B, lora_scale and weight don't make an adapter", length, a->name);
  if (out_in && in_out) return blu_error_set(err, "%.*s: a rank as large as the weight leaves open how its adapter lies", length, a->name);
  *adapter = (BluAdapter){.a = a, .b = b, .scale = scale, .weight = weight, .in_out = in_out};
  return true;
}

/* The adapter whose A is `a`. */
static bool merge_one(BluError *err, const BluProgram *program, const BluArena *arena, const BluSlot *a) {
  BluAdapter d;
  if (!blu_adapter_find(err, program, a, &d)) return false;
  double *factor = values_of(arena, d.scale);
  add_product(arena, d.weight, d.in_out ? d.a : d.b, d.in_out ? d.b : d.a, *factor);
  free(factor);
  return true;
}

bool blu_adapter_merge(BluError *err, const BluProgram *program, const BluArena *arena, int64_t *merged) {
  *merged = 0;
  for (int64_t i = 0; i < program->tensors; i++) {
    const BluSlot *slot = &program->tensor[i];
    if (!blu_adapter_starts(slot)) continue;
    if (!merge_one(err, program, arena, slot)) return false;
    ++*merged;
  }
  return true;
}
