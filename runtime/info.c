/* info.c - what a trainer says about itself: tables of the program, and every byte of memory that a run takes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data_internal.h"
#include "ranks_internal.h"

static void print_tensors(const BluProgram *program, int32_t role, const char *title) {
  int64_t tensors = 0, elements = 0, bytes = 0;
  char type[200];
  for (int64_t i = 0; i < program->tensors; i++) {
    const BluSlot *t = &program->tensor[i];
    if (t->role != role) continue;
    tensors++;
    elements += blu_slot_count(t);
    bytes += blu_slot_count(t) * blu_dtype_bytes(t->dtype);
  }
  printf("%-11s %" PRId64 " tensors, %" PRId64 " elements, %" PRId64 " bytes\n", title, tensors, elements, bytes);
  for (int64_t i = 0; i < program->tensors; i++) {
    const BluSlot *t = &program->tensor[i];
    if (t->role != role) continue;
    printf("  %-30s %-20s %12" PRId64, t->name, blu_slot_type(t, type), blu_slot_count(t) * blu_dtype_bytes(t->dtype));
    if (t->starts && t->starts[0]) printf("  %s", t->starts);
    if (t->group && t->group[0]) printf("; %s", t->group);
    putchar('\n');
  }
}

/* Of a program that leaves parameters as they are: those that it changes. */
static void print_trained(const BluProgram *program) {
  int64_t tensors = 0, elements = 0, bytes = 0, others = 0;
  for (int64_t i = 0; i < program->tensors; i++) {
    const BluSlot *t = &program->tensor[i];
    if (t->role != BLU_ROLE_PARAM || !t->group || !t->group[0]) continue;
    bool trained = strncmp(t->group, "frozen", strlen("frozen")) && strcmp(t->group, "not trained");
    tensors += trained;
    elements += trained ? blu_slot_count(t) : 0;
    bytes += trained ? blu_slot_count(t) * blu_dtype_bytes(t->dtype) : 0;
    others += !trained;
  }
  if (others) printf("%-11s %" PRId64 " tensors, %" PRId64 " elements, %" PRId64 " bytes\n", "trained", tensors, elements, bytes);
}

/* "(image: u8[1,28,28]) -> (result: f32[1,10])" */
static void print_signature(const BluFunction *f) {
  static const int32_t roles[] = {BLU_ROLE_INPUT, BLU_ROLE_OUTPUT};
  for (int part = 0; part < 2; part++) {
    printf("%s(", part ? " -> " : "  ");
    char type[200];
    int printed = 0;
    for (int64_t i = 0; i < f->slots; i++)
      if (f->slot[i].role == roles[part])
        printf("%s%s: %s", printed++ ? ", " : "", f->slot[i].name, blu_slot_type(&f->slot[i], type));
    printf(")");
  }
}

static void print_functions(const BluProgram *program) {
  printf("functions\n");
  for (int64_t i = 0; i < program->functions; i++) {
    const BluFunction *f = &program->function[i];
    printf("  %-30s %" PRId64 " launches, %" PRId64 " flops in matrix products, %" PRId64 " bytes read and written", f->name,
           f->launches, f->flops, f->bytes);
    if (blu_function_is_entry(f)) print_signature(f);
    printf("\n");
  }
  if (blu_program_function(program, "update"))
    printf("  a step is a `train` for each micro-batch (--accumulate), then an `update`\n");
}

/* Adds what the split takes to `total`. */
static void print_data(const BluProgram *program, const BluOptions *options, const char *function_name, BluSplit split,
                       BluData *data, const BluData *train, int64_t *total) {
  const char *title = split == BLU_SPLIT_TRAIN ? "data set, training" : "data set, test";
  BluError err;
  const BluFunction *function = blu_program_function(program, function_name);
  if (!program->data[0] || !function) return;
  BluDataWish wish = {.dir = options->data, .seconds = options->timeout, .optional = true, .train = train};
  if (!blu_data_open(&err, data, program, function, split, &wish)) {
    printf("  %-30s not readable here: %s\n", title, err.text);
    return;
  }
  int64_t bytes = data->bytes + data->mapped;
  *total += bytes;
  if (!data->count) printf("  %-30s %12d (no files)\n", title, 0);
  else
    printf("  %-30s %12" PRId64 " for %" PRId64 " examples%s\n", title, bytes, data->count,
           data->borrowed ? ", held out of the training files" : data->mapped ? ", mapped: as far as used" : "");
}

/* What is kept, by what it is; each tensor begins at a multiple of 64. */
static void print_kept(const BluProgram *program) {
  const BluFunction *train = blu_program_function(program, "train");
  int64_t params = 0, states = 0, sums = 0;
  for (int64_t i = 0; i < program->tensors; i++)
    *(program->tensor[i].role == BLU_ROLE_PARAM ? &params : &states) += program->tensor[i].bytes;
  for (int64_t i = 0; train && i < train->slots; i++)
    if (train->slot[i].role == BLU_ROLE_GRADIENT) sums += train->slot[i].bytes;
  printf("    kept: parameters %" PRId64 ", state %" PRId64, params, states);
  if (sums) printf(", sums of gradients %" PRId64, sums);
  printf(", caches, numbers of the run and alignment %" PRId64 "\n", program->kept_bytes - params - states - sums);
}

/* Of a program whose micro-batches change a state of the model: what it was before the step. */
static int64_t bytes_to_undo(const BluProgram *program) {
  int64_t bytes = 0;
  for (int64_t i = 0; blu_program_function(program, "update") && i < program->tensors; i++)
    if (blu_slot_picked(&program->tensor[i], BLU_PICK_MODEL_STATES)) bytes += program->tensor[i].bytes;
  return bytes;
}

static void print_memory(const BluProgram *program, const BluOptions *options) {
  int threads = blu_cli_threads(options);
  int64_t scratch = blu_arena_scratch(program), total = program->arena_bytes + threads * scratch;
  printf("memory      in bytes, with %d thread%s\n", threads, threads == 1 ? "" : "s");
  printf("  %-30s %12" PRId64 " = %" PRId64 " kept + %" PRId64 " overlaid by the functions\n", "arena",
         program->arena_bytes, program->kept_bytes, program->arena_bytes - program->kept_bytes);
  print_kept(program);
  printf("  %-30s %12" PRId64 " = %d x %" PRId64 "\n", "scratch", threads * scratch, threads, scratch);
  printf("  %-30s %12d = %d x %d, as far as used\n", "stacks of workers", (threads - 1) * BLU_POOL_STACK, threads - 1,
         BLU_POOL_STACK);
  int64_t undo = bytes_to_undo(program);
  if (undo) printf("  %-30s %12" PRId64 "\n", "copy of the model's state", undo);
  total += undo;
  if (blu_program_function(program, "update"))
    printf("  %-30s %12d, with --ranks: not counted here\n", "exchanges with other ranks", BLU_TCP_BLOCK);
  BluData train = {0}, test = {0};
  print_data(program, options, "train", BLU_SPLIT_TRAIN, &train, NULL, &total);
  print_data(program, options, "eval", BLU_SPLIT_TEST, &test, train.count ? &train : NULL, &total);
  const BluFunction *step = blu_program_function(program, "train");
  if (train.mapped) printf("  %-30s %12d, as far as used\n", "stack of the reader ahead", BLU_AHEAD_STACK);
  if (step)
    printf("  %-30s %12" PRId64 "%s\n", "numbers of a step's examples", 16 * blu_function_batch(step),
           blu_program_function(program, "update") ? " x --accumulate, of each rank" : "");
  blu_data_close(&test);
  blu_data_close(&train);
  printf("  %-30s %12" PRId64 " without stacks, the program itself (under 1 MB) and small tables\n", "in all", total);
}

void blu_info_print(const BluProgram *program, const BluOptions *options) {
  printf("model       %s, compiled from %s\n", program->model, program->source_name);
  printf("compiler    %s\n", program->compiler);
  printf("cpu         %s (x86-64-v%d)\n", program->target, program->cpu + 1);
  printf("hash        %016" PRIx64 "\n", program->hash);
  printf("data        %s\n", program->data[0] ? program->data : "none: this program has no train block");
  for (const char *line = program->data_args; *line; line += strcspn(line, "\n"), line += *line == '\n')
    printf("  %.*s\n", (int)strcspn(line, "\n"), line);
  if (program->embedded)
    printf("embedded    %" PRId64 " bytes: a new training, eval, predict and export start with these parameters\n", program->embedded_bytes);
  if (program->tokenizer) printf("tokenizer   %" PRId64 " bytes: sample takes it\n", program->tokenizer_bytes);
  print_tensors(program, BLU_ROLE_PARAM, "parameters");
  print_trained(program);
  print_tensors(program, BLU_ROLE_STATE, "state");
  printf("run values\n");
  for (int64_t i = 0; i < program->scalars; i++)
    if (program->scalar[i].role == BLU_ROLE_RUN)
      printf("  %-30s %g\n", program->scalar[i].name, program->scalar[i].value);
  print_functions(program);
  print_memory(program, options);
}
