/* evaluate.c - the means of loss and metrics over the test split, while training and for `eval`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "train_internal.h"

enum { ROUND = 32 }; /* batches of a rank between two exchanges, at most */

/* A batch, whose first example has this number, into a cleared meter. */
static bool evaluate_batch(BluError *err, BluExec *exec, const BluFunction *eval, const BluData *data, int64_t first, int64_t *index,
                           int64_t step, BluMeter *meter) {
  int64_t batch = blu_function_batch(eval), rows = data->count - first < batch ? data->count - first : batch;
  for (int64_t i = 0; i < rows; i++) index[i] = data->first + first + i;
  if (!blu_data_fetch(err, data, eval, exec->pool, index, rows)) return false;
  blu_exec_scalars(exec, step, rows);
  blu_exec_run(exec, eval, 0, eval->launches);
  blu_meter_add(meter, exec, eval);
  return true;
}

bool blu_evaluate(BluError *err, BluExec *exec, const BluFunction *eval, const BluData *data, int64_t step, int64_t *index,
                  BluCollective *others, BluMeter *meter, int64_t meters) {
  int64_t batch = blu_function_batch(eval), batches = (data->count + batch - 1) / batch, ranks = others ? others->ranks : 1;
  /* [rank][batch of the round][meters], in the order of batches: adding them up is what one process does */
  BluMeter *own = blu_new(ROUND * meters, sizeof *own), *all = others ? blu_new(ranks * ROUND * meters, sizeof *all) : own;
  bool good = true;
  for (int64_t done = 0, round; good && done < batches; done += round * ranks) {
    round = (batches - done + ranks - 1) / ranks < ROUND ? (batches - done + ranks - 1) / ranks : ROUND;
    int64_t first = done + (others ? others->rank * round : 0);
    memset(own, 0, (size_t)(round * meters) * sizeof *own);
    for (int64_t i = 0; good && i < round && first + i < batches; i++)
      good = evaluate_batch(err, exec, eval, data, (first + i) * batch, index, step, own + i * meters);
    if (good && others) good = others->gather(err, others, own, round * meters * (int64_t)sizeof *own, all);
    for (int64_t i = 0; good && i < round * ranks && done + i < batches; i++) blu_meter_join(meter, all + i * meters, meters);
  }
  if (others) free(all);
  free(own);
  return good;
}

bool blu_evaluate_function(BluError *err, const BluProgram *program, const char *name, const BluFunction **function) {
  *function = blu_program_function(program, name);
  return (program->data[0] && *function) || blu_error_set(err, "this program has no train block: it cannot %s", name);
}

bool blu_evaluate_run(BluError *err, const BluProgram *program, const BluOptions *options, double *run) {
  const BluFunction *eval;
  if (!blu_evaluate_function(err, program, "eval", &eval)) return false;
  BluProgram part = blu_program_for(program, eval);
  char *path = NULL, *text = NULL;
  if (!blu_cli_checkpoint(err, program, options, &path)) return false;
  BluData data = {0};
  BluExec exec = {0};
  BluError warning;
  BluDataWish wish = {.dir = options->data, .seconds = options->timeout};
  bool good = blu_data_open(err, &data, program, eval, BLU_SPLIT_TEST, &wish) &&
              blu_exec_open(err, &exec, &part, run, blu_cli_threads(options), blu_host_memory(data.bytes)) &&
              blu_checkpoint_load(err, program, exec.arena.base, path, false, &text, &warning) &&
              blu_train_state_values(err, program, options, text, run);
  if (good) {
    char word[64] = "0";
    int64_t results, step = 0;
    if (warning.text[0]) fprintf(stderr, "warning: %s\n", warning.text);
    if (text && blu_text_value(text, "step", word, sizeof word)) blu_text_int(word, &step);
    BluMeter *result = blu_meter_new(eval, &results);
    int64_t *index = blu_new(blu_function_batch(eval), sizeof *index);
    good = blu_evaluate(err, &exec, eval, &data, step, index, NULL, result, results);
    if (good) {
      printf("%s: test", path ? path : "embedded parameters");
      for (int64_t i = 0; i < results; i++) printf("  %s %.6f", result[i].name, blu_meter_mean(&result[i]));
      printf("  (%" PRId64 " examples)\n", data.count);
    }
    free(index);
    free(result);
  }
  free(text);
  free(path);
  blu_exec_close(&exec);
  blu_data_close(&data);
  return good;
}
