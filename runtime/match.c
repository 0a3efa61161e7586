/* match.c - the tensors of files against those that a program wants. Names of Hugging Face's checkpoints carry a prefix or not, depending
 * on which of a model's classes saved them; published ones hold a few tensors that are no parameters. */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "transfer_internal.h"

static const char *without_prefix(const char *name) {
  static const char *const prefixes[] = {"transformer.", "model."};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) return name + strlen(prefixes[i]);
  return name;
}

bool blu_weights_same_name(const char *a, const char *b) { return !strcmp(without_prefix(a), without_prefix(b)); }

static bool is_named(const BluWeight *weight, const char *name) { return !strcmp(without_prefix(weight->slot.name), name); }

/* The tensor of this name; else the first of the name but for the prefix; else NULL. */
static const BluWeight *find(const BluWeights *w, const char *name) {
  const BluWeight *near = NULL;
  for (int64_t i = 0; i < w->weights; i++) {
    if (!strcmp(w->weight[i].slot.name, name)) return &w->weight[i];
    if (!near && is_named(&w->weight[i], without_prefix(name))) near = &w->weight[i];
  }
  return near;
}

static bool is_single(int32_t dtype) { return dtype == BLU_DTYPE_F32 || dtype == BLU_DTYPE_BF16 || dtype == BLU_DTYPE_F16; }

static bool fits(const BluSlot *a, const BluSlot *b) {
  bool types = a->dtype == b->dtype || (is_single(a->dtype) && is_single(b->dtype));
  return types && a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}

/* GPT-2's causal mask [1, 1, n, n], and the number that stood for what it hides. */
static bool is_mask(const BluSlot *slot) {
  bool square = slot->rank == 4 && slot->dim[0] == 1 && slot->dim[1] == 1 && slot->dim[2] == slot->dim[3];
  return (square && blu_text_ends(slot->name, ".attn.bias")) || (!slot->rank && blu_text_ends(slot->name, ".attn.masked_bias"));
}

/* What the files hold beyond the program: counts of what is left out. */
typedef struct {
  int64_t masks, ignored, tied, unexpected;
} Beyond;

/* The embedding, which a model without a head of its own takes for one; NULL: none. */
static const BluWeight *embedding_of(const BluWeights *w) {
  for (int64_t i = 0; i < w->weights; i++)
    if (is_named(&w->weight[i], "wte.weight") || is_named(&w->weight[i], "embed_tokens.weight")) return &w->weight[i];
  return NULL;
}

/* A tensor that no parameter is read from. */
static bool judge(BluError *err, const BluWeights *w, const BluWeight *weight, const char *ignore, Beyond *beyond, FILE *faults) {
  char type[200];
  bool head = is_named(weight, "lm_head.weight"), equal = false;
  const BluWeight *embedding = head ? embedding_of(w) : NULL;
  if (embedding && !blu_weights_equal(err, w, weight, embedding, &equal)) return false;
  if (ignore && !fnmatch(ignore, weight->slot.name, 0)) beyond->ignored++;
  else if (is_mask(&weight->slot)) beyond->masks++;
  else if (equal) beyond->tied++;
  else {
    beyond->unexpected++;
    fprintf(faults, "  %s: %s in the checkpoint, missing in the program", weight->slot.name, blu_slot_type(&weight->slot, type));
    fprintf(faults, embedding ? ", and not equal to %s\n" : "\n", embedding ? embedding->slot.name : "");
  }
  return true;
}

static bool is_used(const BluProgram *program, const BluWeight *const *from, const BluWeight *weight) {
  for (int64_t i = 0; i < program->tensors; i++)
    if (from[i] == weight) return true;
  return false;
}

static void note(FILE *notes, int64_t count, const char *what) {
  if (count) fprintf(notes, "left out: %" PRId64 " %s\n", count, what);
}

/* Does PEFT's adapter leave the layer of this A or B alone? */
static bool is_spared(const BluProgram *program, const BluWeight *const *from, const char *name) {
  size_t path = (size_t)(strrchr(name, '.') - name);
  for (int64_t i = 0; i < program->tensors; i++) {
    const char *other = program->tensor[i].name;
    if (from[i] && blu_adapter_is(other) && !strncmp(name, other, path) && (size_t)(strrchr(other, '.') - other) == path) return false;
  }
  return true;
}

bool blu_weights_match(BluError *err, const BluProgram *program, const BluWeights *w, const char *ignore, const BluWeight **from,
                       FILE *notes, FILE *faults) {
  char here[200], there[200];
  int64_t missing = 0, other = 0, fresh = 0;
  bool adapters = false;
  for (int64_t i = 0; i < program->tensors; i++) {
    const BluSlot *slot = &program->tensor[i];
    from[i] = blu_slot_picked(slot, BLU_PICK_MODEL) ? find(w, slot->name) : NULL;
    adapters |= from[i] && blu_adapter_is(slot->name);
  }
  for (int64_t i = 0; i < program->tensors; i++) {
    const BluSlot *slot = &program->tensor[i];
    if (!blu_slot_picked(slot, BLU_PICK_MODEL)) continue;
    bool of_adapter = !from[i] && blu_adapter_is(slot->name);
    if (of_adapter && w->adapter && blu_text_ends(slot->name, ".lora_scale")) continue; /* the configuration says it */
    if (of_adapter && (!adapters || (w->adapter && is_spared(program, from, slot->name)))) fresh++;
    else if (!from[i]) missing++, fprintf(faults, "  %s: %s in the program, missing in the checkpoint\n", slot->name, blu_slot_type(slot, here));
    else if (!fits(slot, &from[i]->slot))
      other++, fprintf(faults, "  %s: %s in the program, %s in the checkpoint\n", slot->name, blu_slot_type(slot, here),
                       blu_slot_type(&from[i]->slot, there));
  }
  Beyond beyond = {0};
  for (int64_t i = 0; i < w->weights; i++)
    if (!is_used(program, from, &w->weight[i]) && !judge(err, w, &w->weight[i], ignore, &beyond, faults)) return false;
  if (missing || other || beyond.unexpected)
    return blu_error_set(err, "%s does not fit this program: %" PRId64 " tensors are missing, %" PRId64 " of another shape or type, %" PRId64
                         " unexpected", w->path, missing, other, beyond.unexpected);
  note(notes, beyond.masks, "attention masks");
  note(notes, beyond.tied, "lm_head, equal to the embedding that stands in its place");
  note(notes, beyond.ignored, "tensors that match --ignore");
  if (fresh) fprintf(notes, "not in the checkpoint: %" PRId64 " tensors of adapters, which have their first values\n", fresh);
  return true;
}
