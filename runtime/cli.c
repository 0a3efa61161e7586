/* cli.c - the options of a trainer: one table, a parser and the help made from it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ranks_internal.h"

typedef enum { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER, OPTION_REAL, OPTION_SHARE, OPTION_SET, OPTION_STOP } OptionKind;

static const struct {
  const char *name, *value, *help;
  OptionKind kind;
  size_t place;  /* in BluOptions */
  int64_t least; /* of a number */
} option_table[] = {
#define PLACE(field) offsetof(BluOptions, field)
    {"--data", "DIR", "folder of the data files (default: the program's, else the current one)", OPTION_TEXT,
     PLACE(data), 0},
    {"--out", "DIR", "folder of checkpoints and metrics.jsonl (default: MODEL.run)", OPTION_TEXT, PLACE(out), 0},
    {"--checkpoint", "DIR", "checkpoint to read (default: the latest of --out)", OPTION_TEXT, PLACE(checkpoint), 0},
    {"--entry", "NAME", "entry to run (default: the only one, else `predict`)", OPTION_TEXT, PLACE(entry), 0},
    {"--output", "FILE", "file to write: .npy or .csv of results, .safetensors, .npy or .bin of parameters", OPTION_TEXT, PLACE(output), 0},
    {"--dtype", "TYPE", "write parameters as f32, bf16 or f16 (default: as they are)", OPTION_TEXT, PLACE(dtype), 0},
    {"--format", "NAME", "safetensors, npy, llmc (llm.c's .bin) or peft (a folder with adapters alone) (default: by the name of --output)", OPTION_TEXT,
     PLACE(format), 0},
    {"--heads", "N", "heads of attention, for --format llmc where the program has no caches that tell", OPTION_NUMBER, PLACE(heads), 1},
    {"--merge", NULL, "add adapters to the weights that they adapt, and write these alone", OPTION_FLAG, PLACE(merge), 0},
    {"--adapter", "DIR", "also read adapters from PEFT's files in this folder: adapter_model.safetensors, adapter_config.json", OPTION_TEXT, PLACE(adapter), 0},
    {"--ignore", "PATTERN", "leave out the tensors of the file that match (*, ?) and that the program lacks", OPTION_TEXT, PLACE(ignore), 0},
    {"--tokenizer", "FILE", "what tokens stand for: a tokenizer.json, or vocab.bpe beside encoder.json (default: the embedded one, else bytes)",
     OPTION_TEXT, PLACE(tokenizer), 0},
    {"--prompt", "TEXT", "text to go on with (default: the start of a text)", OPTION_TEXT, PLACE(prompt), 0},
    {"--tokens", "N", "tokens to sample, at most (default 200)", OPTION_NUMBER, PLACE(tokens), 0},
    {"--temperature", "X", "what logits are divided by (default 1); 0: always the most probable token", OPTION_REAL, PLACE(temperature), 0},
    {"--top-k", "N", "from the N most probable tokens only (default 0: all)", OPTION_NUMBER, PLACE(top_k), 0},
    {"--top-p", "X", "from the most probable tokens that together have probability X (default 1: all)", OPTION_SHARE, PLACE(top_p), 0},
    {"--min-p", "X", "from tokens at least X times as probable as the first (default 0: all)", OPTION_SHARE, PLACE(min_p), 0},
    {"--logits", "FILE", "also write the logits behind each token, prompt included, to an .npy file", OPTION_TEXT, PLACE(logits), 0},
    {"--stop", "TEXT", "end before this text; may be given several times", OPTION_STOP, PLACE(stop), 0},
    {"--epochs", "N", "train for N epochs", OPTION_NUMBER, PLACE(epochs), 0},
    {"--steps", "N", "train until N steps are done", OPTION_NUMBER, PLACE(steps), 0},
    {"--accumulate", "N", "micro-batches per step and rank, if the program sets `accumulate` (default: as it says)", OPTION_NUMBER,
     PLACE(accumulate), 1},
    {"--ranks", "N", "train with N processes: of this machine, or see --rank", OPTION_NUMBER, PLACE(ranks), 1},
    {"--rank", "R", "be rank R of --ranks N, from 0, and meet the others at --master (default: as torchrun, mpirun or srun says)",
     OPTION_NUMBER, PLACE(rank), 0},
    {"--master", "HOST:PORT", "where rank 0 listens (default: as the launcher says)", OPTION_TEXT, PLACE(master), 0},
    {"--rank-timeout", "N", "seconds to wait for another rank before giving up (default 300)", OPTION_NUMBER, PLACE(rank_timeout), 1},
    {"--max-minutes", "X", "stop with a checkpoint after X minutes", OPTION_REAL, PLACE(minutes), 0},
    {"--patience", "N", "stop after N evaluations without a lower test loss", OPTION_NUMBER, PLACE(patience), 1},
    {"--shard", "R/N", "train on part R of N, from 0: each N-th example of an epoch's order", OPTION_TEXT, PLACE(shard), 0},
    {"--seed", "N", "seed of initial values, data order, random ops and samples (default 1)", OPTION_NUMBER, PLACE(seed), 0},
    {"--threads", "N", "threads (default: the CPUs granted); results don't depend on it", OPTION_NUMBER,
     PLACE(threads), 1},
    {"--device", "N", "which GPU, from 0 (default 0), if the program was compiled for one", OPTION_NUMBER, PLACE(device), 0},
    {"--epilogues", NULL, "let cublasLt sum gradients of biases beside products, if the program was compiled for a GPU", OPTION_FLAG, PLACE(epilogues), 0},
    {"--set", "NAME=VALUE", "set a run value of the program; may be given several times", OPTION_SET, PLACE(set), 0},
    {"--eval-every", "N", "evaluate every N steps (default: every epoch; 0: never)", OPTION_NUMBER, PLACE(eval_every), 0},
    {"--save-every", "N", "save every N steps (default: every epoch; 0: only at the end)", OPTION_NUMBER,
     PLACE(save_every), 0},
    {"--log-every", "N", "report every N steps (default: ten times an epoch, at most 100)", OPTION_NUMBER,
     PLACE(log_every), 1},
    {"--keep", "N", "checkpoints to keep, besides the best (default 2)", OPTION_NUMBER, PLACE(keep), 1},
    {"--nan", "stop|skip", "what to do about a step with a NaN or infinity (default: stop)", OPTION_TEXT, PLACE(nan), 0},
    {"--timeout", "N", "seconds to wait for a pipe to give data (default 30)", OPTION_NUMBER, PLACE(timeout), 1},
    {"--resume", NULL, "go on from the latest checkpoint of --out", OPTION_FLAG, PLACE(resume), 0},
    {"--dry-run", NULL, "check data, memory and settings, compute one step, write nothing", OPTION_FLAG,
     PLACE(dry_run), 0},
    {"--profile", NULL, "report the time of each kernel at the end", OPTION_FLAG, PLACE(profile), 0},
    {"--tensorboard", NULL, "also write an event file for TensorBoard to --out", OPTION_FLAG, PLACE(tensorboard), 0},
    {"--quiet", NULL, "print errors only", OPTION_FLAG, PLACE(quiet), 0},
    {"--plan", NULL, "print the plan: buffers and launches", OPTION_FLAG, PLACE(plan), 0},
    {"--metric", "NAME", "what to plot (default: loss)", OPTION_TEXT, PLACE(metric), 0},
    {"--svg", "FILE", "draw to an SVG file instead of the terminal", OPTION_TEXT, PLACE(svg), 0},
    {"--help", NULL, "print this help", OPTION_FLAG, PLACE(help), 0},
#undef PLACE
};
enum { OPTIONS = sizeof option_table / sizeof *option_table, MOST_THREADS = 1024, LONGEST_WAIT = 86400, MOST_BATCHES = 1000000, MOST_SHARDS = 1000000 };

bool blu_cli_shard(const char *text, int64_t *part, int64_t *parts) {
  const char *slash = strchr(text, '/');
  char first[24] = "";
  if (!slash || slash - text >= (int)sizeof first) return false;
  memcpy(first, text, (size_t)(slash - text));
  return blu_text_int(first, part) && blu_text_int(slash + 1, parts) && *part >= 0 && *part < *parts && *parts <= MOST_SHARDS;
}

static bool has_option(const BluCommand *command, const char *name) {
  char padded[32];
  snprintf(padded, sizeof padded, " %s ", name);
  return !strcmp(name, "--help") || strstr(command->options, padded);
}

static bool store_number(BluError *err, int64_t *number, int which, const char *value) {
  const char *name = option_table[which].name;
  int64_t least = option_table[which].least;
  if (!blu_text_int(value, number) || *number < least)
    return blu_error_set(err, "option %s needs a whole number from %" PRId64 ", not '%s'", name, least, value);
  int64_t most = INT64_MAX;
  if (!strcmp(name, "--threads")) most = MOST_THREADS;
  else if (!strcmp(name, "--timeout") || !strcmp(name, "--rank-timeout")) most = LONGEST_WAIT;
  else if (!strcmp(name, "--ranks")) most = BLU_RANKS_MOST;
  else if (!strcmp(name, "--accumulate")) most = MOST_BATCHES;
  return *number <= most || blu_error_set(err, "option %s is at most %" PRId64, name, most);
}

static bool store(BluError *err, BluOptions *options, int which, const char *value) {
  char *place = (char *)options + option_table[which].place;
  const char *name = option_table[which].name;
  switch (option_table[which].kind) {
    case OPTION_FLAG: *(bool *)place = true; return true;
    case OPTION_TEXT: *(const char **)(void *)place = value; break;
    case OPTION_SET:
      if (options->sets == BLU_CLI_SETS) return blu_error_set(err, "more than %d options --set", BLU_CLI_SETS);
      options->set[options->sets++] = value;
      return true;
    case OPTION_STOP:
      if (!*value) return blu_error_set(err, "option --stop needs a text that isn't empty");
      if (options->stops == BLU_CLI_STOPS) return blu_error_set(err, "more than %d options --stop", BLU_CLI_STOPS);
      options->stop[options->stops++] = value;
      return true;
    case OPTION_SHARE:
      return (blu_text_double(value, (double *)(void *)place) && *(double *)(void *)place >= 0 && *(double *)(void *)place <= 1) ||
             blu_error_set(err, "option %s needs a number from 0 to 1, not '%s'", name, value);
    case OPTION_REAL:
      return (blu_text_double(value, (double *)(void *)place) && *(double *)(void *)place >= 0) ||
             blu_error_set(err, "option %s needs a number from 0, not '%s'", name, value);
    case OPTION_NUMBER: return store_number(err, (int64_t *)(void *)place, which, value);
  }
  int64_t part, parts;
  if (!strcmp(name, "--shard"))
    return blu_cli_shard(value, &part, &parts) ||
           blu_error_set(err, "option --shard is part/parts, such as 0/4 to 3/4, not '%s'", value);
  return strcmp(name, "--nan") || !strcmp(value, "stop") || !strcmp(value, "skip") ||
         blu_error_set(err, "option --nan is stop or skip, not '%s'", value);
}

static bool store_file(BluError *err, const BluCommand *command, BluOptions *options, const char *word) {
  if (!command->files) return blu_error_set(err, "%s: unknown argument '%s'", command->name, word);
  if (options->files == command->files)
    return blu_error_set(err, "%s: '%s' is one argument too many", command->name, word);
  options->file[options->files++] = word;
  return true;
}

bool blu_cli_parse(BluError *err, const BluCommand *command, int words, char **word, BluOptions *options) {
  *options = (BluOptions){.epochs = -1, .steps = -1, .accumulate = -1, .seed = -1, .threads = -1, .device = -1, .eval_every = -1,
                          .save_every = -1, .log_every = -1, .keep = -1, .patience = -1, .timeout = 30, .minutes = -1,
                          .ranks = -1, .rank = -1, .rank_timeout = 300, .heads = -1, .tokens = -1, .top_k = -1, .temperature = -1, .top_p = -1, .min_p = -1};
  for (int i = 0; i < words; i++) {
    char name[64];
    const char *equals = strncmp(word[i], "--", 2) ? NULL : strchr(word[i], '=');
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - word[i]) : 63, word[i]);
    if (!strcmp(name, "-h")) strcpy(name, "--help");
    BluGuess guess = {.word = name};
    int which = -1;
    for (int j = 0; j < OPTIONS; j++) {
      if (!has_option(command, option_table[j].name)) continue;
      blu_guess_add(&guess, option_table[j].name);
      if (!strcmp(name, option_table[j].name)) which = j;
    }
    if (which < 0 && name[0] == '-')
      return blu_error_set(err, "%s: unknown option '%s'%s", command->name, word[i], blu_guess_hint(&guess));
    if (which < 0) {
      if (!store_file(err, command, options, word[i])) return false;
      continue;
    }
    bool takes_value = option_table[which].kind != OPTION_FLAG;
    if (equals && !takes_value) return blu_error_set(err, "%s: option %s takes no value", command->name, name);
    const char *value = equals ? equals + 1 : takes_value && i + 1 < words ? word[++i] : NULL;
    if (takes_value && !value)
      return blu_error_set(err, "%s: option %s needs a value: %s", command->name, name, option_table[which].value);
    if (!store(err, options, which, value)) return false;
  }
  return true;
}

void blu_cli_help(FILE *file, const BluCommand *command) {
  fprintf(file, "%s: %s\n\n", command->name, command->summary);
  if (command->file) fprintf(file, "arguments:\n  %s\n\n", command->file);
  fputs("options:\n", file);
  for (int i = 0; i < OPTIONS; i++) {
    if (!has_option(command, option_table[i].name)) continue;
    char left[40];
    snprintf(left, sizeof left, "%s %s", option_table[i].name, option_table[i].value ? option_table[i].value : "");
    fprintf(file, "  %-20s %s\n", left, option_table[i].help);
  }
  fprintf(file, "\nexample:\n  %s\n", command->example);
}

int blu_cli_threads(const BluOptions *options) {
  return options->threads > 0 ? (int)options->threads : blu_host_cpus();
}

char *blu_cli_out(const BluProgram *program, const BluOptions *options) {
  return options->out ? blu_text_path("", options->out) : blu_text_print("%s.run", program->model);
}

bool blu_cli_checkpoint(BluError *err, const BluProgram *program, const BluOptions *options, char **path) {
  if (options->checkpoint) return (*path = blu_text_path("", options->checkpoint));
  char *out = blu_cli_out(program, options);
  int64_t latest = blu_checkpoint_latest(out);
  *path = latest < 0 ? NULL : blu_checkpoint_path(out, latest);
  bool good = *path || program->embedded || !program->tensors ||
              blu_error_set(err, "%s holds no checkpoint; --checkpoint DIR or --out DIR names another place", out);
  free(out);
  return good;
}
