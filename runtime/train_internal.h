/* train_internal.h - a training run: opened by train_open.c, run by train.c, written down by train_state.c, watched by
 * train_watch.c, shared with other processes by train_ranks.c. Tests of the checkpoint are in evaluate.c. */
#ifndef BLU_TRAIN_INTERNAL_H
#define BLU_TRAIN_INTERNAL_H
#include "data_internal.h"
#include "ranks_internal.h"

/* What a run is told besides run values. Resumed runs keep it unless options say otherwise. */
typedef struct {
  int64_t eval_every, save_every, log_every, patience, keep; /* steps; evaluations, 0: without end; checkpoints */
  int64_t nan_skip;                                          /* 0 or 1 */
} BluTrainPlan;

/* Test loss and loss of the steps, as far as decisions depend on them. */
typedef struct {
  double best_loss;
  int64_t best_step, stale;     /* step of the lowest test loss, -1: none yet; evaluations since then */
  double mean, variance;        /* of the loss of recent steps, exponentially weighted */
  int64_t seen, last_spike;     /* steps that went into them; last step that was reported, -1000: none */
} BluTrainWatch;

typedef struct {
  const BluProgram *program;
  const BluOptions *options;
  double *run;                   /* borrowed */
  const BluFunction *train, *update, *eval; /* update: what ends a step of micro-batches; NULL: a step is one batch */
  BluData data, test;            /* test.count == 0: there is no test split */
  BluAhead *ahead;
  BluExec exec;
  BluLog log;
  BluProfile *profile;           /* NULL: none */
  char *out;                     /* folder of checkpoints and metrics */
  int lock;                      /* of the folder, -1: none */
  int64_t *index, *next;         /* [largest batch] this rank's examples of this step, of the one after */
  int64_t step, total;           /* steps done; steps of the whole run */
  int64_t skipped, in_a_row;     /* of the steps done: left out for a NaN or an overflow; for a NaN since the last good one */
  bool scaled;                   /* gradients are of the loss times exec.scale */
  int64_t without_overflow;      /* steps since the scale changed */
  int64_t batch, per_epoch;      /* examples of a step, of all ranks; steps of an epoch */
  int64_t shard, shards, count;  /* which part of the training examples, of how many; its examples */
  int64_t micro, accumulate;     /* examples of a micro-batch, micro-batches that a rank has in a step: where update == NULL, batch and 1 */
  int64_t rank, ranks;           /* this process, of how many */
  BluCollective *others;         /* NULL: there is one process */
  BluPart *sum, *state;          /* sums of the gradients, the model's own states: what ranks exchange in a step */
  int64_t sums, states;
  BluMeter *given, *gathered;    /* [batch_meters + 1], and that of each rank */
  double exchanging;             /* seconds spent on exchanges, and how many */
  int64_t exchanges;
  int signal;                    /* that a rank was asked to stop by, 0: none */
  bool save, late;               /* a rank was asked for a checkpoint; --max-minutes are over */
  int64_t staged, staged_first;  /* of which step, from which of its examples on, the device has a batch already; -1: none */
  BluTrainPlan plan;
  BluTrainWatch watch;
  BluMeter *now, *window, *epoch; /* of this step, since the last line of the log, since the start of the epoch */
  int64_t meters, batch_meters;  /* all; those of `train`, which come first */
  double started;                /* blu_log_now() */
} BluTrainer;

/* --- train.c --- */

/* This rank's examples of a step in `index`; gives their number, which may be 0 in an epoch's last step. */
int64_t blu_train_rows(const BluTrainer *t, int64_t step, int64_t *index);
/* Computes a step up to where it would change a parameter; its loss and norms are in `now`. */
bool blu_train_compute(BluError *err, BluTrainer *t);
bool blu_train_loop(BluError *err, BluTrainer *t);

/* --- train_state.c --- */

char *blu_train_state_print(const BluTrainer *t, int64_t metrics_bytes); /* new string: the text of a checkpoint */
/* Takes step, settings and meters from the text of a checkpoint. */
bool blu_train_state_read(BluError *err, BluTrainer *t, const char *text, int64_t *metrics_bytes);
/* Run values as saved in `text` (NULL: nothing), then what --set says. */
bool blu_train_state_values(BluError *err, const BluProgram *program, const BluOptions *options, const char *text,
                            double *run);

/* --- train_watch.c --- */

/* Copies the model's own state to the room behind the arena, or back, if micro-batches change it. */
bool blu_train_keep_state(BluError *err, BluTrainer *t, bool back);
/* True if the loss and all gradients of the step just computed are finite; else says in `err` what is not. */
bool blu_train_finite(BluError *err, BluTrainer *t);
/* Is the loss of the step just computed finite? */
bool blu_train_finite_loss(const BluTrainer *t);
/* Reports a loss far above those before it. */
bool blu_train_spike(BluError *err, BluTrainer *t);
/* Takes note of a test loss; true if it is the lowest so far. */
bool blu_train_improves(BluTrainer *t, const BluMeter *test, int64_t tests);

/* --- train_ranks.c --- */

/* Meets the other ranks, if there are any, and sets what the options leave open. */
bool blu_train_join(BluError *err, BluTrainer *t, BluRanks *ranks, BluOptions *options);
/* Bytes that this rank may take. */
bool blu_train_memory(BluError *err, BluTrainer *t, int64_t held, int64_t *limit);
bool blu_train_share_text(BluError *err, BluTrainer *t, char **text); /* *text becomes that of rank 0, which may be NULL; the caller frees it */
bool blu_train_share_model(BluError *err, BluTrainer *t);             /* parameters and states become those of rank 0 */
/* Error: the ranks have other data or settings; the first difference is named. */
bool blu_train_agree(BluError *err, BluTrainer *t);
/* Error: parameters or states are not the same on all ranks. */
bool blu_train_equal(BluError *err, BluTrainer *t);
bool blu_train_sum(BluError *err, BluTrainer *t, double *number); /* over the ranks */
/* signal, save and late: with one process. With more, blu_train_meet and blu_train_exchange set them. */
void blu_train_look(BluTrainer *t);
bool blu_train_meet(BluError *err, BluTrainer *t);
/* After the micro-batches: meters and gradients become sums over all ranks, the model's own states those of rank 0. */
bool blu_train_exchange(BluError *err, BluTrainer *t);
void blu_train_leave(BluTrainer *t, BluError *why); /* why: see BluCollective.close */

/* --- evaluate.c --- */

/* Examples as the function's DATA, for its next run. */
bool blu_evaluate_fetch(BluError *err, BluExec *exec, const BluFunction *function, const BluData *data, const int64_t *index,
                        int64_t rows);

/* Runs `eval` over all of `data`, in order, and adds it up in `meter`. `index` has room for a batch. `others`: ranks that share the work,
 * with the same bits as one process; NULL: none. */
bool blu_evaluate(BluError *err, BluExec *exec, const BluFunction *eval, const BluData *data, int64_t step, int64_t *index,
                  BluCollective *others, BluMeter *meter, int64_t meters);
bool blu_evaluate_function(BluError *err, const BluProgram *program, const char *name, const BluFunction **function);

#endif
