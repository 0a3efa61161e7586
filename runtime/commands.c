/* commands.c - the commands of a trainer and the checks before any compiled code runs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data_internal.h"
#include "ranks_internal.h"

static int fail(const BluError *err, int code) {
  fflush(stdout);
  if (err->text[0]) fprintf(stderr, "error: %s\n", err->text); /* empty: another rank says it */
  return code;
}

/* --- commands that run compiled code --- */

/* False, with what is missing named, if the processor can't run the compiled code. */
static bool check_processor(BluError *err, const BluProgram *program) {
  char missing[200];
  BluCpuid id = blu_host_cpuid();
  blu_host_missing(&id, program->cpu, missing);
  return !missing[0] || blu_error_set(err, "this program was compiled with --cpu %s, and this processor lacks: %s",
                                      program->target, missing);
}

/* A mapped file that became shorter: there is nothing to read, and no way back into the code that wanted it. */
static void end_on_bus_error(int number) {
  static const char message[] = "error: a data file became shorter while this program read it\n";
  (void)number;
  if (write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(BLU_EXIT_FAILED);
  _exit(BLU_EXIT_FAILED);
}

static int run_with_values(const BluProgram *program, const BluOptions *options,
                           bool (*run)(BluError *, const BluProgram *, const BluOptions *, double *)) {
  BluError err;
  if (!check_processor(&err, program)) return fail(&err, BLU_EXIT_FAILED);
  struct sigaction bus = {.sa_handler = end_on_bus_error};
  sigaction(SIGBUS, &bus, NULL);
  double *values = blu_program_defaults(program);
  int code = BLU_EXIT_OK;
  for (int64_t i = 0; i < options->sets && !code; i++)
    if (!blu_program_set(&err, program, values, options->set[i])) code = fail(&err, BLU_EXIT_USAGE);
  if (!code && !run(&err, program, options, values)) code = fail(&err, BLU_EXIT_FAILED);
  free(values);
  return code;
}

static void note_signal(int number) {
  if (number == SIGUSR1) blu_train_save = 1;
  else blu_train_signal = number;
}

static int command_train(const BluProgram *program, const BluOptions *options) {
  /* The first signal ends training in order, a second one at once. A file that grows over its limit, or a reader of the
   * output that leaves, is an error of one write and not the end of the process. */
  struct sigaction stop = {.sa_handler = note_signal, .sa_flags = SA_RESETHAND | SA_RESTART};
  struct sigaction save = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  sigaction(SIGINT, &stop, NULL);
  sigaction(SIGTERM, &stop, NULL);
  sigaction(SIGUSR1, &save, NULL);
  sigaction(SIGXFSZ, &ignore, NULL);
  sigaction(SIGPIPE, &ignore, NULL);
  BluError err;
  BluRanks ranks;
  BluOptions mine = *options;
  mine.group = &ranks;
  if (!blu_ranks_find(&err, options, &ranks)) return fail(&err, BLU_EXIT_USAGE);
  int code = ranks.here && !blu_ranks_start(&err, &ranks) ? fail(&err, BLU_EXIT_FAILED) : run_with_values(program, &mine, blu_train_run);
  if (code == BLU_EXIT_OK && blu_train_signal) code = 128 + (int)blu_train_signal;
  return blu_ranks_wait(&ranks, code);
}

static int command_eval(const BluProgram *program, const BluOptions *options) {
  return run_with_values(program, options, blu_evaluate_run);
}

static int command_predict(const BluProgram *program, const BluOptions *options) {
  return run_with_values(program, options, blu_predict_run);
}

static int command_sample(const BluProgram *program, const BluOptions *options) {
  BluError err;
  if (program->sample) return run_with_values(program, options, program->sample);
  blu_error_set(&err, "this program has no entry to sample from: `entry " BLU_DECODE "(token: i32[1], at: i32) -> float[1, V]`");
  return fail(&err, BLU_EXIT_FAILED);
}

static int command_import(const BluProgram *program, const BluOptions *options) {
  return run_with_values(program, options, blu_transfer_import);
}

/* --- commands that only read --- */

static int command_export(const BluProgram *program, const BluOptions *options) {
  BluError err;
  return blu_transfer_export(&err, program, options) ? BLU_EXIT_OK : fail(&err, BLU_EXIT_FAILED);
}

static int command_plot(const BluProgram *program, const BluOptions *options) {
  BluError err;
  return blu_plot_run(&err, program, options) ? BLU_EXIT_OK : fail(&err, BLU_EXIT_FAILED);
}

static int print_plan(const BluProgram *program) {
  BluError err;
  uint8_t *text;
  int64_t size;
  if (!blu_bytes_inflate(&err, "the plan", (const uint8_t *)program->plan, program->plan_bytes, &text, &size)) return fail(&err, BLU_EXIT_FAILED);
  fwrite(text, 1, (size_t)size, stdout);
  free(text);
  return BLU_EXIT_OK;
}

static int command_info(const BluProgram *program, const BluOptions *options) {
  if (options->plan) return print_plan(program);
  blu_info_print(program, options);
  return BLU_EXIT_OK;
}

static int command_source(const BluProgram *program, const BluOptions *options) {
  (void)options;
  fputs(program->source, stdout);
  return BLU_EXIT_OK;
}

static int command_licenses(const BluProgram *program, const BluOptions *options) {
  (void)options;
  blu_licenses_print(stdout, program->sample);
  return BLU_EXIT_OK;
}

/* --- the table --- */

static const BluCommand commands[] = {
    {"train", "train the model; saves a checkpoint after every epoch and when stopped by SIGINT or SIGTERM",
     " --data --out --epochs --steps --accumulate --ranks --rank --master --rank-timeout"
     " --max-minutes --patience --shard --seed --threads --device --epilogues --set --eval-every --save-every"
     " --log-every --keep --nan --timeout --resume --dry-run --profile --tensorboard --quiet ",
     "./trainer train --data mnist --out run1 --epochs 5 --set lr=0.01", command_train, 0, NULL},
    {"eval", "evaluate a checkpoint on the test data", " --data --checkpoint --out --threads --device --set --timeout ",
     "./trainer eval --data mnist --checkpoint run1/best", command_eval, 0, NULL},
    {"predict", "run an entry of the program on files of inputs",
     " --checkpoint --out --entry --output --threads --device --set --timeout ",
     "./trainer predict image=digits.npy --checkpoint run1/best --output classes.csv", command_predict, BLU_CLI_FILES,
     "[NAME=]FILE  .npy, .csv or IDX file (also with .gz) for each input of the entry, by name or in order"},
    {"sample", "go on with a text, by the entry `" BLU_DECODE "` of a language model",
     " --checkpoint --out --tokenizer --prompt --tokens --temperature --top-k --top-p --min-p --stop --logits --seed --threads --set --timeout --quiet ",
     "./trainer sample --prompt 'In the beginning' --tokens 100 --temperature 0.8 --top-k 40", command_sample, 0, NULL},
    {"info", "what this program is: parameters, functions, memory", " --data --threads --device --timeout --plan ",
     "./trainer info --threads 2", command_info, 0, NULL},
    {"export", "write the parameters of a checkpoint to one file", " --checkpoint --out --output --format --dtype --heads --merge ",
     "./trainer export --checkpoint run1/best --output model.safetensors", command_export, 0, NULL},
    {"import", "make a checkpoint of step 0 from a file of parameters, to train or predict from",
     " --out --adapter --ignore --seed --threads --device --set ", "./trainer import model.safetensors --out run2", command_import, 1,
     "PATH  FILE.safetensors, FILE.index.json, a folder with such files, or llm.c's FILE.bin"},
    {"plot", "draw a metric of one or more runs over their steps", " --out --metric --svg ",
     "./trainer plot run1 run2 --metric accuracy --svg accuracy.svg", command_plot, BLU_CLI_FILES,
     "DIR...  folders of runs (default: --out)"},
    {"source", "print the Blu program that this was compiled from", " ", "./trainer source > model.blu",
     command_source, 0, NULL},
    {"licenses", "print the licenses of the code inside this program", " ", "./trainer licenses", command_licenses, 0,
     NULL},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char exit_codes[] =
    "\nexit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by SIGINT, 143 by SIGTERM (with a checkpoint)\n";

static void print_overview(FILE *file, const BluProgram *program) {
  fprintf(file, "%s: a trainer made by %s\n\ncommands:\n", program->model, program->compiler);
  for (int i = 0; i < COMMANDS; i++)
    if (commands[i].run != command_sample || program->sample) fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].summary);
  fprintf(file, "  %-10s print this help, or that of a command\n  %-10s say what it is and which compiler made it\n\nexample:\n  ./trainer train --help\n%s", "help",
          "--version", exit_codes);
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
  if (!strcmp(word[0], "--version") && words == 1) return printf("%s, a trainer made by %s\n", program->model, program->compiler), BLU_EXIT_OK;
  const BluCommand *command = find_command(&err, word[help]);
  if (!command) return fail(&err, BLU_EXIT_USAGE);
  if (help) return print_help(program, command);
  if (!blu_cli_parse(&err, command, words - 1, word + 1, &options)) return fail(&err, BLU_EXIT_USAGE);
  if ((options.device >= 0 || options.epilogues) && !program->images && !options.help) {
    blu_error_set(&err, "option %s: this program was compiled for the processor alone", options.device >= 0 ? "--device" : "--epilogues");
    return fail(&err, BLU_EXIT_USAGE);
  }
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
