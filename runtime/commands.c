/* commands.c - the commands of a trainer and the checks before any compiled code runs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "data_internal.h"

static int fail(const BluError *err, int code) {
  fflush(stdout);
  fprintf(stderr, "error: %s\n", err->text);
  return code;
}

/* --- train, eval --- */

/* False, with what is missing named, if the processor can't run the compiled code. */
static bool check_processor(BluError *err, const BluProgram *program) {
  char missing[200];
  BluCpuid id = blu_host_cpuid();
  blu_host_missing(&id, program->cpu, missing);
  return !missing[0] || blu_error_set(err, "this program was compiled with --cpu %s, and this processor lacks: %s",
                                      program->target, missing);
}

static int run_with_values(const BluProgram *program, const BluOptions *options,
                           bool (*run)(BluError *, const BluProgram *, const BluOptions *, double *)) {
  BluError err;
  if (!check_processor(&err, program)) return fail(&err, BLU_EXIT_FAILED);
  double *values = blu_program_defaults(program);
  int code = BLU_EXIT_OK;
  for (int64_t i = 0; i < options->sets && !code; i++)
    if (!blu_program_set(&err, program, values, options->set[i])) code = fail(&err, BLU_EXIT_USAGE);
  if (!code && !run(&err, program, options, values)) code = fail(&err, BLU_EXIT_FAILED);
  free(values);
  return code;
}

static void note_signal(int number) { blu_train_signal = number; }

static int command_train(const BluProgram *program, const BluOptions *options) {
  /* The first signal ends training in order, a second one at once. A file that grows over its limit, or a reader of the
   * output that leaves, is an error of one write and not the end of the process. */
  struct sigaction stop = {.sa_handler = note_signal, .sa_flags = SA_RESETHAND | SA_RESTART};
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  sigaction(SIGINT, &stop, NULL);
  sigaction(SIGTERM, &stop, NULL);
  sigaction(SIGXFSZ, &ignore, NULL);
  sigaction(SIGPIPE, &ignore, NULL);
  int code = run_with_values(program, options, blu_train_run);
  return code == BLU_EXIT_OK && blu_train_signal ? 128 + (int)blu_train_signal : code;
}

static int command_eval(const BluProgram *program, const BluOptions *options) {
  return run_with_values(program, options, blu_train_eval);
}

/* --- info, source --- */

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
    if (t->role == role)
      printf("  %-30s %-20s %12" PRId64 "\n", t->name, blu_slot_type(t, type),
             blu_slot_count(t) * blu_dtype_bytes(t->dtype));
  }
}

static void print_data_bytes(const BluProgram *program, const BluOptions *options, const char *function_name,
                             BluSplit split, const char *title) {
  BluError err;
  BluData data;
  const BluFunction *function = blu_program_function(program, function_name);
  if (!program->data[0] || !function) return;
  if (!blu_data_open(&err, &data, program, function, options->data, split, true))
    printf("  %-30s not readable here: %s\n", title, err.text);
  else if (!data.count) printf("  %-30s %12d (no files)\n", title, 0);
  else printf("  %-30s %12" PRId64 "\n", title, data.bytes);
  blu_data_close(&data);
}

static void print_memory(const BluProgram *program, const BluOptions *options) {
  int threads = options->threads > 0 ? (int)options->threads : blu_host_cpus();
  int64_t scratch = blu_arena_scratch(program);
  printf("memory      in bytes, with %d thread%s\n", threads, threads == 1 ? "" : "s");
  printf("  %-30s %12" PRId64 " = %" PRId64 " kept + %" PRId64 " overlaid by the functions\n", "arena",
         program->arena_bytes, program->kept_bytes, program->arena_bytes - program->kept_bytes);
  printf("  %-30s %12" PRId64 " = %d x %" PRId64 "\n", "scratch", threads * scratch, threads, scratch);
  printf("  %-30s %12d = %d x %d, as far as used\n", "stacks of workers", (threads - 1) * BLU_POOL_STACK, threads - 1,
         BLU_POOL_STACK);
  print_data_bytes(program, options, "train", BLU_SPLIT_TRAIN, "data set, training");
  print_data_bytes(program, options, "eval", BLU_SPLIT_TEST, "data set, test");
}

static int command_info(const BluProgram *program, const BluOptions *options) {
  if (options->plan) {
    fputs(program->plan, stdout);
    return BLU_EXIT_OK;
  }
  printf("model       %s, compiled from %s\n", program->model, program->source_name);
  printf("compiler    %s\n", program->compiler);
  printf("cpu         %s (x86-64-v%d)\n", program->target, program->cpu + 1);
  printf("hash        %016" PRIx64 "\n", program->hash);
  printf("data        %s\n", program->data[0] ? program->data : "none: this program has no train block");
  print_tensors(program, BLU_ROLE_PARAM, "parameters");
  print_tensors(program, BLU_ROLE_STATE, "state");
  printf("run values\n");
  for (int64_t i = 0; i < program->scalars; i++)
    if (program->scalar[i].role == BLU_ROLE_RUN)
      printf("  %-30s %g\n", program->scalar[i].name, program->scalar[i].value);
  printf("functions\n");
  for (int64_t i = 0; i < program->functions; i++) {
    const BluFunction *f = &program->function[i];
    printf("  %-30s %" PRId64 " launches, %" PRId64 " flops in matrix products\n", f->name, f->launches, f->flops);
  }
  print_memory(program, options);
  return BLU_EXIT_OK;
}

static int command_source(const BluProgram *program, const BluOptions *options) {
  (void)options;
  fputs(program->source, stdout);
  return BLU_EXIT_OK;
}

/* --- the table --- */

static const BluCommand commands[] = {
    {"train", "train the model; saves a checkpoint after every epoch and when stopped by SIGINT or SIGTERM",
     " --data --out --epochs --steps --seed --threads --set --resume --quiet ",
     "./trainer train --data mnist --out run1 --epochs 5 --set lr=0.01", command_train},
    {"eval", "evaluate a checkpoint on the test data", " --data --checkpoint --out --threads --set ",
     "./trainer eval --data mnist --checkpoint run1/step-4690", command_eval},
    {"info", "what this program is: parameters, functions, memory", " --data --threads --plan ",
     "./trainer info --threads 2", command_info},
    {"source", "print the Blu program that this was compiled from", " ", "./trainer source > model.blu",
     command_source},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char exit_codes[] =
    "\nexit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by SIGINT, 143 by SIGTERM (with a checkpoint)\n";

static void print_overview(FILE *file, const BluProgram *program) {
  fprintf(file, "%s: a trainer made by %s\n\ncommands:\n", program->model, program->compiler);
  for (int i = 0; i < COMMANDS; i++) fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].summary);
  fprintf(file, "  %-10s print this help, or that of a command\n\nexample:\n  ./trainer train --help\n%s", "help",
          exit_codes);
}

static const BluCommand *find_command(BluError *err, const char *name) {
  BluGuess guess = {.word = name};
  blu_guess_add(&guess, "help");
  for (int i = 0; i < COMMANDS; i++) {
    if (!strcmp(commands[i].name, name)) return &commands[i];
    blu_guess_add(&guess, commands[i].name);
  }
  blu_error_set(err, "unknown command '%s'%s", name, blu_guess_hint(&guess));
  return NULL;
}

static int print_help(const BluProgram *program, const BluCommand *command) {
  if (!command) {
    print_overview(stdout, program);
  } else {
    blu_cli_help(stdout, command);
    fputs(exit_codes, stdout);
  }
  return BLU_EXIT_OK;
}

static int dispatch(const BluProgram *program, int words, char **word) {
  BluError err;
  BluOptions options;
  if (!words) {
    print_overview(stderr, program);
    return BLU_EXIT_USAGE;
  }
  bool help = !strcmp(word[0], "help") || !strcmp(word[0], "--help") || !strcmp(word[0], "-h");
  if (help && words == 1) return print_help(program, NULL);
  const BluCommand *command = find_command(&err, word[help]);
  if (!command) return fail(&err, BLU_EXIT_USAGE);
  if (help) return print_help(program, command);
  if (!blu_cli_parse(&err, command, words - 1, word + 1, &options)) return fail(&err, BLU_EXIT_USAGE);
  return options.help ? print_help(program, command) : command->run(program, &options);
}

int blu_commands_main(const BluProgram *program, int arguments, char **argument) {
  BluError err;
  if (program->abi != BLU_ABI) {
    blu_error_set(&err, "the compiled program speaks version %u of the runtime's interface, the runtime version %d",
                  program->abi, BLU_ABI);
    return fail(&err, BLU_EXIT_FAILED);
  }
  int code = dispatch(program, arguments - 1, argument + 1);
  bool written = !fflush(stdout) && !ferror(stdout);
  if (written || code) return code;
  blu_error_set(&err, "cannot write to standard output");
  return fail(&err, BLU_EXIT_FAILED);
}
