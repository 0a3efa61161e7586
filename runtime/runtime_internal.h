/* runtime_internal.h - what the parts of the runtime offer each other; abi.h is the contract with compiled code.
 *
 * A trainer is: read the command line (cli), open the data (data), reserve memory (arena), start threads (pool), run
 * compiled functions (exec), train (train) with its log (log) and checkpoints (checkpoint, safetensors).
 * Functions that can fail return false after they have filled `err`; nothing here exits, and nothing keeps state of its
 * own but the two signal flags of train.c. */
#ifndef BLU_RUNTIME_INTERNAL_H
#define BLU_RUNTIME_INTERNAL_H
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "abi.h"
#include "device.h"
#include "safetensors.h"

/* --- text.c: small text; errors are in safetensors.h ---------------------------------------------------------------- */

/* The nearest of the candidates added so far to what a user typed: `BluGuess g = {.word = typed}`. */
typedef struct {
  const char *word, *best;
  int distance; /* edit distance of `best`; meaningless while best is NULL */
  char hint[96];
} BluGuess;

void blu_guess_add(BluGuess *guess, const char *candidate);
/* ", did you mean 'best'?", or "" if nothing is near. The text lives in `guess`. */
const char *blu_guess_hint(BluGuess *guess);

/* Value of `key` in "key=value\n" lines, cut to size - 1 bytes; false if there is no such key. */
bool blu_text_value(const char *lines, const char *key, char *value, size_t size);
/* Parses all of `text` as a finite number or an integer. */
bool blu_text_double(const char *text, double *value);
bool blu_text_int(const char *text, int64_t *value);
/* `dir/name` in a new string; the caller frees it. Out of memory aborts, here and in blu_new. */
char *blu_text_path(const char *dir, const char *name);
bool blu_text_ends(const char *text, const char *ending); /* and there is something before the ending */
/* printf into a new string; the caller frees it. */
char *blu_text_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* calloc for small tables that a trainer can't do without; never NULL. */
void *blu_need(void *memory); /* memory itself; NULL, out of memory, aborts: the one place */
void *blu_new(int64_t count, size_t size);

/* --- program.c: looking things up in a BluProgram ----------------------------------------------------------------- */

const char *blu_dtype_name(int32_t dtype);  /* "f32" */
int64_t blu_dtype_bytes(int32_t dtype);
int64_t blu_slot_count(const BluSlot *slot); /* number of elements */
/* "f32[10,784]" in `text`, which is returned. */
const char *blu_slot_type(const BluSlot *slot, char text[static 200]);
const BluFunction *blu_program_function(const BluProgram *program, const char *name); /* NULL if there is none */
/* The first slot of `role`, and of `name` unless that is NULL; NULL if there is none. */
const BluSlot *blu_function_slot(const BluFunction *function, int32_t role, const char *name);
bool blu_function_is_entry(const BluFunction *function); /* an `entry` of the program, not one of the train block's */
/* The program with an arena that is as large as one function needs, which may be far less than training does; NULL: as what is kept. */
BluProgram blu_program_for(const BluProgram *program, const BluFunction *function);
/* Room behind the arena: for a copy of the model's own state, if micro-batches change it. */
int64_t blu_program_undo_bytes(const BluProgram *program);
/* Size of the batch: leading dimension of the function's DATA slots; 0 if it has none. */
int64_t blu_function_batch(const BluFunction *function);
/* `run` values are kept in an array with one double per scalar of the program; other scalars leave theirs unused. */
double *blu_program_defaults(const BluProgram *program); /* new array; the caller frees it */
/* Takes "name=value" into `run`. Error: unknown name, not a finite number. */
bool blu_program_set(BluError *err, const BluProgram *program, double *run, const char *assignment);

/* --- host.c: the machine ------------------------------------------------------------------------------------------ */

/* Bytes that this process may still take: the least of MemAvailable and of what the memory limits of its control groups
 * leave; a group that doesn't say how much is taken has given `held`, what this process has. INT64_MAX if the machine doesn't say. */
int64_t blu_host_memory(int64_t held);
/* CPUs of the affinity mask, limited by the CPU quotas of the control groups; at least 1. */
int blu_host_cpus(void);

typedef struct {
  uint32_t leaf1_ecx, leaf7_ebx, ext1_ecx; /* of cpuid */
  uint64_t xcr0;                           /* what the operating system saves; 0 without OSXSAVE */
} BluCpuid;

BluCpuid blu_host_cpuid(void);
/* Names of the features that level `cpu` (BLU_CPU_...) needs and `id` lacks, in `text`; "" if none. */
void blu_host_missing(const BluCpuid *id, int32_t cpu, char text[static 200]);

/* --- arena.c: memory (what an arena is: device.h) ------------------------------------------------------------------ */

/* Bytes of scratch that each thread costs. */
int64_t blu_arena_scratch(const BluProgram *program);
/* Error: more than `limit` bytes are needed (both numbers named), or mmap fails. */
bool blu_arena_open(BluError *err, BluArena *arena, const BluProgram *program, int threads, int64_t limit);
void blu_arena_close(BluArena *arena);

/* --- pool.c: threads ---------------------------------------------------------------------------------------------- */

#define BLU_POOL_STACK (512 << 10) /* bytes of stack of a worker */

/* Starts threads - 1 workers; the caller of blu_pool_run is thread 0. NULL with an error if the system refuses. */
BluPool *blu_pool_open(BluError *err, const BluArena *arena, int threads);
/* Runs the launches in order, each after all pieces of the one before. Thread t of T gets the pieces
 * [t * P / T, (t + 1) * P / T) of P. One caller at a time. */
void blu_pool_run(BluPool *pool, const BluLaunch *launch, int64_t launches);
void blu_pool_close(BluPool *pool); /* NULL is fine */
/* Calls `ran` after every kernel, with its launch as it stands in the program's tables. NULL: no more. */
typedef void BluWatch(void *user, const BluLaunch *launch);
void blu_pool_watch(BluPool *pool, BluWatch *ran, void *user);

/* --- profile.c: time by kernel ------------------------------------------------------------------------------------ */

/* One row for each kernel that runs in the function, in loops too. */
typedef struct {
  const BluLaunch *launch;
  double seconds;              /* summed over the runs */
  int64_t launches;
} BluProfileRow;

struct BluProfile {
  const BluFunction *function; /* whose launches are timed */
  BluProfileRow *row;
  int64_t rows, next, runs;    /* next: where the next launch is looked for first */
  double before;
  struct BluProfile *other;    /* of another function that a step runs; NULL: none */
};

BluProfile *blu_profile_new(const BluFunction *function); /* blu_profile_free frees it */
/* Adds the time of one launch, as it stands in the program's tables. */
void blu_profile_add(BluProfile *profile, const BluLaunch *launch, double seconds);
/* Runs the launches [first, last) of the profile's function, each timed. */
void blu_profile_run(BluProfile *profile, BluPool *pool, int64_t first, int64_t last);
/* Time per kernel and line of the .blu file, the longest first; `what` is what one run is called. */
void blu_profile_print(FILE *file, const BluProfile *profile, const BluProgram *program, const char *what);
void blu_profile_free(BluProfile *profile);
/* FLOP/s that all threads of the pool together reach with multiply-adds on registers, in vectors of the program's
 * level: measured for a few milliseconds, about 20 where others use the processors. */
double blu_profile_peak(BluPool *pool, int threads, int32_t cpu);

typedef struct BluOptions BluOptions; /* cli.c */

/* --- exec.c: running compiled functions --------------------------------------------------------------------------- */

typedef struct {
  const BluProgram *program;
  const double *run;  /* borrowed; see blu_program_defaults */
  int64_t seed;
  int64_t micro;      /* micro-batch of the step, from 0: random numbers differ between them */
  double total;       /* value of TOTAL */
  double scale;       /* value of SCALE */
  BluArena arena;
  BluPool *pool;
  BluProfile *profile; /* NULL: none; borrowed; others follow by `other` */
} BluExec;

/* Takes threads and device from the options. `limit`: bytes that it may take, see blu_host_memory. Error: memory, threads or device refused. */
bool blu_exec_open(BluError *err, BluExec *exec, const BluProgram *program, const double *run, const BluOptions *options,
                   int64_t limit);
void blu_exec_close(BluExec *exec);
/* Sets RUN, SEED, STEP, ROWS and TOTAL for the next run. */
void blu_exec_scalars(BluExec *exec, int64_t step, int64_t rows);
/* Runs the launches [first, last) of the function; see blu_device_run. */
bool blu_exec_run(BluError *err, BluExec *exec, const BluFunction *function, int64_t first, int64_t last);
/* Runs all of it, and waits. */
bool blu_exec_all(BluError *err, BluExec *exec, const BluFunction *function);
/* Value of a scalar f32 or f64 slot, once its run has been waited for. */
double blu_exec_scalar(const BluExec *exec, const BluSlot *slot);

/* Means of the loss and the metrics over many batches: one entry for each SUM slot of a function, in its order, one
 * for its NORM, called grad_norm, and one for each OUTPUT, which keeps the last value instead of a mean. */
typedef struct {
  const char *name;
  double sum, weight;
  bool last;
} BluMeter;

BluMeter *blu_meter_new(const BluFunction *function, int64_t *meters); /* the caller frees it */
void blu_meter_add(BluMeter *meter, const BluExec *exec, const BluFunction *function);
void blu_meter_clear(BluMeter *meter, int64_t meters);
void blu_meter_join(BluMeter *meter, const BluMeter *more, int64_t meters); /* adds what `more` has */
BluMeter *blu_meter_find(BluMeter *meter, int64_t meters, const char *name); /* NULL: none has it */
double blu_meter_mean(const BluMeter *meter); /* 0 where the weight is 0 */

/* --- shuffle.c: a permutation that is computed, not stored -------------------------------------------------------- */

typedef struct {
  uint64_t count, key[6], mask;
  int half; /* bits of each half of the Feistel network */
} BluShuffle;

BluShuffle blu_shuffle_make(int64_t count, int64_t seed, int64_t epoch); /* count >= 1 */
int64_t blu_shuffle_at(const BluShuffle *shuffle, int64_t index);        /* 0 <= index < count */

/* --- file.c: files that survive a crash --------------------------------------------------------------------------- */

bool blu_file_write(BluError *err, int fd, const char *path, const void *data, int64_t bytes);
bool blu_file_read(BluError *err, int fd, const char *path, void *data, int64_t bytes, int64_t offset);
bool blu_file_sync(BluError *err, const char *path);        /* a file or a folder */
bool blu_file_create(BluError *err, const char *path, int *fd); /* new or emptied, for writing */
bool blu_file_close(BluError *err, int fd, const char *path);   /* syncs first */
uint64_t blu_file_hash(const void *data, int64_t bytes);    /* any single changed byte changes it */
bool blu_file_check(BluError *err, const char *path, uint64_t *check); /* hash of a file */
char *blu_file_text(BluError *err, const char *path);       /* all of a small text file; the caller frees it; or NULL */
bool blu_file_folder(BluError *err, const char *path);      /* makes it and its parents; fine if it exists */
void blu_file_remove_folder(const char *path);              /* with the files in it, as far as possible */
/* Makes the folder this process's own: OUT/lock holds who it is, until blu_file_unlock. -1, with an error that says who
 * has it, if another has. */
int blu_file_lock(BluError *err, const char *out);
void blu_file_unlock(int lock, const char *out);

/* --- checkpoint.c: OUT/step-N/ ------------------------------------------------------------------------------------ */

/* Highest N of the complete checkpoints in `out`, -1 if there is none. */
int64_t blu_checkpoint_latest(const char *out);
/* "out/step-N" in a new string; the caller frees it. */
char *blu_checkpoint_path(const char *out, int64_t step);
/* Removes what interrupted saves left behind. */
void blu_checkpoint_clean(const char *out);
/* Saves parameters, states and `text` ("key=value\n" lines) as step N; all or nothing, durable on return. Nothing to do
 * if step N is there. */
bool blu_checkpoint_save(BluError *err, const BluProgram *program, const BluArena *arena, const char *out, int64_t step,
                         const char *text);
/* Removes all but the last `keep` checkpoints and that of step `best` (-1: none). */
void blu_checkpoint_prune(const char *out, int64_t keep, int64_t best);
/* Points the link OUT/best to step N, if that is there; else removes the link. */
bool blu_checkpoint_link(BluError *err, const char *out, int64_t step);
/* Fills the parameters and the states of the model from a checkpoint folder (NULL: those embedded in the program), and those of the
 * optimizer if `all`. `*text`
 * is the text saved with it, which the caller frees; unless `all` it may be missing, then NULL. `warning` is "" or says
 * that another program made it. */
bool blu_checkpoint_load(BluError *err, const BluProgram *program, const BluArena *arena, const char *folder, bool all,
                         char **text, BluError *warning);
/* Fills the parameters and the states of the model with those embedded in the program, which must have them. */
bool blu_checkpoint_embedded(BluError *err, const BluProgram *program, const BluArena *arena);
/* Fills the picked tensors from one safetensors file. Error: another table, with its differences; only of the states of
 * the model may a file hold more than is asked for. */
bool blu_checkpoint_read(BluError *err, const BluProgram *program, BluPick pick, const BluArena *arena, const char *path);

/* --- events.c: TensorBoard's event files -------------------------------------------------------------------------- */

typedef struct BluEvents BluEvents;

BluEvents *blu_events_open(BluError *err, const char *out); /* a new file in the folder; NULL with an error */
void blu_events_add(BluEvents *events, const char *tag, int64_t step, double value);
bool blu_events_flush(BluError *err, BluEvents *events);
void blu_events_close(BluEvents *events); /* NULL is fine */

/* --- log.c: what a run says --------------------------------------------------------------------------------------- */

typedef struct {
  bool terminal, quiet;
  int64_t total, per_epoch, batch; /* steps in all, steps of an epoch, samples of a step */
  int64_t tokens;       /* of a sample; 0: rates count samples */
  double flops, peak;   /* of a step; per second, of the machine: 0 if the program has no products */
  int64_t ranks;        /* processes that train together */
  FILE *metrics;        /* OUT/metrics.jsonl; NULL: none, and nothing is said: another rank does */
  char *metrics_path;
  BluEvents *events;    /* NULL: none */
  double start, drawn, evaluating; /* seconds: start of the run, last redraw, spent on evaluation */
  int64_t first_step;   /* where this process began */
} BluLog;

/* Opens OUT/metrics.jsonl and cuts it to `keep` bytes; with `events`, also a file for TensorBoard. */
bool blu_log_open(BluError *err, BluLog *log, const char *out, int64_t keep, bool quiet, bool events);
void blu_log_close(BluLog *log);
bool blu_log_sync(BluError *err, const BluLog *log, int64_t *bytes); /* length of metrics.jsonl, which is on the disk then */
/* Seconds of a clock that only goes forward. */
double blu_log_now(void);
/* Redraws the progress line of a terminal, at most ten times a second. */
void blu_log_progress(BluLog *log, int64_t step, const BluMeter *meter, int64_t meters);
/* One line of text (in a pipe) and one of metrics.jsonl about the training steps up to `step`. */
bool blu_log_train(BluError *err, BluLog *log, int64_t step, const BluMeter *meter, int64_t meters);
/* The same after an evaluation; `train` is the mean over the epoch. */
bool blu_log_test(BluError *err, BluLog *log, int64_t step, const BluMeter *train, int64_t trains, const BluMeter *test,
                  int64_t tests);
/* Something that happened in a step: a line of text and one of metrics.jsonl with "split":"event". */
bool blu_log_event(BluError *err, BluLog *log, int64_t step, const char *event, const char *text);
/* A line of text that stands above the progress line. */
void blu_log_say(BluLog *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- cli.c: the command line -------------------------------------------------------------------------------------- */

#define BLU_CLI_SETS 64
#define BLU_CLI_FILES 16
#define BLU_CLI_STOPS 16

struct BluOptions {
  const char *data, *out, *checkpoint;   /* NULL: not given, here and below */
  const char *nan, *entry, *output, *svg, *metric, *shard, *ignore, *adapter, *dtype, *format, *tokenizer, *prompt, *logits;
  const char *master;                    /* "HOST:PORT" of rank 0 */
  int64_t ranks, rank;                   /* -1: not given, here and below */
  int64_t epochs, steps, accumulate, seed, threads, device, heads;
  int64_t eval_every, save_every, log_every, keep, patience, timeout, rank_timeout, tokens, top_k;
  double minutes, temperature, top_p, min_p;
  const char *set[BLU_CLI_SETS];
  int64_t sets;
  const char *stop[BLU_CLI_STOPS];       /* texts that end a sample */
  int64_t stops;
  const char *file[BLU_CLI_FILES];       /* arguments that are no options */
  int64_t files;
  bool resume, quiet, plan, help, dry_run, profile, tensorboard, merge, epilogues;
  struct BluRanks *group;                /* of `train`: the processes that it is one of, see ranks_internal.h; borrowed */
};

typedef struct {
  const char *name, *summary, *options; /* `options`: names that it takes, each between spaces: " --data --out " */
  const char *example;
  int (*run)(const BluProgram *program, const BluOptions *options); /* gives the exit code */
  int64_t files;    /* how many arguments that are no options it takes, at most */
  const char *file; /* what they are, for its help */
} BluCommand;

/* Fills `options` from the words after the command. Error: unknown option (with the nearest), bad or missing value. */
bool blu_cli_parse(BluError *err, const BluCommand *command, int words, char **word, BluOptions *options);
void blu_cli_help(FILE *file, const BluCommand *command);
int blu_cli_threads(const BluOptions *options);                                  /* as given, else the CPUs granted */
char *blu_cli_out(const BluProgram *program, const BluOptions *options);         /* new string */
/* "R/N" with 0 <= R < N; false: the text is another. */
bool blu_cli_shard(const char *text, int64_t *part, int64_t *parts);
/* In *path the checkpoint that the options name, else the latest of the output folder, else NULL if parameters are embedded in the
 * program; an error without. */
bool blu_cli_checkpoint(BluError *err, const BluProgram *program, const BluOptions *options, char **path);

/* --- sampler.c: which token follows ------------------------------------------------------------------------------- */

/* As in Hugging Face's transformers, and in this order: logits are divided by the temperature; top_k leaves those that are not less than the
 * k-th greatest; top_p the fewest of the most probable whose probabilities sum to p at least; min_p those whose probability is at least
 * min_p times the greatest. Of equals, top_p leaves the lower ids first. One is always left. */
typedef struct {
  double temperature; /* 0: the greatest, of equals the lowest id */
  int64_t top_k;      /* 0: all */
  double top_p;       /* 1: all */
  double min_p;       /* 0: all */
} BluSampling;

/* Fills weight[count] with what draws are proportional to: 0 for those left out. A logit of -infinity is left out. False: one is NaN or
 * infinite, or none is left. */
bool blu_sampling_weights(const BluSampling *sampling, const double *logit, int64_t count, double *weight);
/* The first id whose share, and those of the ids below it, exceed u, in [0, 1). */
int64_t blu_sampling_draw(const double *weight, int64_t count, double u);
/* A number in [0, 1) that depends on seed and number alone. */
double blu_sampling_uniform(int64_t seed, int64_t number);

/* --- train_open.c, evaluate.c, predict.c, transfer.c, info.c, plot.c, licenses.c: the commands (sample.c: abi.h) ------------ */

/* What signals asked for: the number of the one that stops the run, or 0; a checkpoint; set by main's handler, or by a signal to another rank. */
extern volatile sig_atomic_t blu_train_signal, blu_train_save;

/* Each takes `run` values that the options have set. */
/* Trains. True at the end of the run, or when blu_train_signal made it stop with a checkpoint. */
bool blu_train_run(BluError *err, const BluProgram *program, const BluOptions *options, double *run);
/* Evaluates a checkpoint on the test split and prints the metrics. */
bool blu_evaluate_run(BluError *err, const BluProgram *program, const BluOptions *options, double *run);
/* Runs an entry on files and writes its results. */
bool blu_predict_run(BluError *err, const BluProgram *program, const BluOptions *options, double *run);
/* Writes the parameters of a checkpoint to a file, or reads those of a file or folder into a checkpoint of step 0. */
bool blu_transfer_export(BluError *err, const BluProgram *program, const BluOptions *options);
bool blu_transfer_import(BluError *err, const BluProgram *program, const BluOptions *options, double *run);

void blu_info_print(const BluProgram *program, const BluOptions *options);
bool blu_plot_run(BluError *err, const BluProgram *program, const BluOptions *options);
void blu_licenses_print(FILE *file, bool sampling); /* with the licenses of what `sample` takes */
extern const char blu_license_libc[]; /* with its heading; "" where no C library is inside */

/* --- commands.c --------------------------------------------------------------------------------------------------- */

/* Exit codes of a trainer, besides 128 + the number of a signal. */
enum { BLU_EXIT_OK = 0, BLU_EXIT_FAILED = 1, BLU_EXIT_USAGE = 2 };

/* What main does: checks that the program can run here, then runs the command named by the arguments. */
int blu_commands_main(const BluProgram *program, int arguments, char **argument);

#endif
