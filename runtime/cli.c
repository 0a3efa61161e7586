/* cli.c - the options of a trainer: one table, a parser and the help made from it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime_internal.h"

typedef enum { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER, OPTION_SET } OptionKind;

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
    {"--epochs", "N", "train for N epochs", OPTION_NUMBER, PLACE(epochs), 0},
    {"--steps", "N", "train until N steps are done", OPTION_NUMBER, PLACE(steps), 0},
    {"--seed", "N", "seed of initial values, data order and random ops (default 1)", OPTION_NUMBER, PLACE(seed), 0},
    {"--threads", "N", "threads (default: the CPUs granted); results don't depend on it", OPTION_NUMBER,
     PLACE(threads), 1},
    {"--set", "NAME=VALUE", "set a run value of the program; may be given several times", OPTION_SET, PLACE(set), 0},
    {"--resume", NULL, "go on from the latest checkpoint of --out", OPTION_FLAG, PLACE(resume), 0},
    {"--quiet", NULL, "print errors only", OPTION_FLAG, PLACE(quiet), 0},
    {"--plan", NULL, "print the plan: buffers and launches", OPTION_FLAG, PLACE(plan), 0},
    {"--help", NULL, "print this help", OPTION_FLAG, PLACE(help), 0},
#undef PLACE
};
enum { OPTIONS = sizeof option_table / sizeof *option_table, MOST_THREADS = 1024 };

static bool has_option(const BluCommand *command, const char *name) {
  char padded[32];
  snprintf(padded, sizeof padded, " %s ", name);
  return !strcmp(name, "--help") || strstr(command->options, padded);
}

static bool store(BluError *err, BluOptions *options, int which, const char *value) {
  char *place = (char *)options + option_table[which].place;
  const char *name = option_table[which].name;
  switch (option_table[which].kind) {
    case OPTION_FLAG: *(bool *)place = true; return true;
    case OPTION_TEXT:
      *(const char **)(void *)place = value;
      return *value || blu_error_set(err, "option %s has an empty value", name);
    case OPTION_SET:
      if (options->sets == BLU_CLI_SETS) return blu_error_set(err, "more than %d options --set", BLU_CLI_SETS);
      options->set[options->sets++] = value;
      return true;
    case OPTION_NUMBER: break;
  }
  int64_t *number = (int64_t *)(void *)place, least = option_table[which].least;
  if (!blu_text_int(value, number) || *number < least)
    return blu_error_set(err, "option %s needs a whole number from %" PRId64 ", not '%s'", name, least, value);
  if (!strcmp(name, "--threads") && *number > MOST_THREADS)
    return blu_error_set(err, "option --threads is at most %d", MOST_THREADS);
  return true;
}

bool blu_cli_parse(BluError *err, const BluCommand *command, int words, char **word, BluOptions *options) {
  *options = (BluOptions){.epochs = -1, .steps = -1, .seed = -1, .threads = -1};
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
    if (which < 0)
      return blu_error_set(err, "%s: unknown %s '%s'%s", command->name, name[0] == '-' ? "option" : "argument", word[i],
                           blu_guess_hint(&guess));
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
  fprintf(file, "%s: %s\n\noptions:\n", command->name, command->summary);
  for (int i = 0; i < OPTIONS; i++) {
    if (!has_option(command, option_table[i].name)) continue;
    char left[40];
    snprintf(left, sizeof left, "%s %s", option_table[i].name, option_table[i].value ? option_table[i].value : "");
    fprintf(file, "  %-20s %s\n", left, option_table[i].help);
  }
  fprintf(file, "\nexample:\n  %s\n", command->example);
}
