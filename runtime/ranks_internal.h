/* ranks_internal.h - several processes that train one model, called ranks 0 to N - 1: who they are (ranks.c), how they are started here
 * (ranks_local.c), how they meet (tcp_meet.c) and talk (tcp.c, tcp_chain.c). What a training says is in train_ranks.c. */
#ifndef BLU_RANKS_INTERNAL_H
#define BLU_RANKS_INTERNAL_H
#include <sys/types.h>

#include "runtime_internal.h"

enum { BLU_RANKS_MOST = 1024 };

/* --- ranks.c: who is who ------------------------------------------------------------------------------------------ */

typedef struct BluRanks {
  int64_t rank, ranks; /* ranks == 1: one process, and the rest is unused */
  char host[256];      /* where rank 0 listens */
  int64_t port;
  bool here;           /* nobody has started the others: this process does */
  int listener;        /* of rank 0, if it is open already; else -1 */
  pid_t *child;        /* [ranks] processes that this one has started, 0: none, or its end is known; NULL: it has started none */
} BluRanks;

/* From the options, else the variables of a launcher: torchrun, Open MPI, PMI, SLURM; else one process. Error: a set of either that lacks
 * something, which is named, or holds what is no number. */
bool blu_ranks_find(BluError *err, const BluOptions *options, BluRanks *ranks);

/* --- ranks_local.c: processes of this machine --------------------------------------------------------------------- */

/* Forks ranks 1 to N - 1, in which it returns too, each with its own ranks->rank. Called before any thread is started. */
bool blu_ranks_start(BluError *err, BluRanks *ranks);
bool blu_ranks_ended(const BluRanks *ranks, int64_t rank); /* it was started by this one, and is no more */
/* Adds to `err` how a process that this one has started ended, if it did: ": killed by signal 9". */
void blu_ranks_explain(BluError *err, BluRanks *ranks, int64_t rank);
/* Waits for the processes that this one has started; ends those that remain for some seconds. 1 if one failed that `code`, the exit code of
 * this process, knows nothing of; else `code`. */
int blu_ranks_wait(BluRanks *ranks, int code);

/* --- what ranks do together --------------------------------------------------------------------------------------- */

/* Memory to be summed or shared; tensors are given as they are, and small ones travel together. */
typedef struct {
  char *place;
  int64_t bytes;
  int32_t dtype;
} BluPart;

/* Every rank calls the same operations in the same order with the same sizes. After an error the group is of no use any more: close it.
 * An error whose text is empty was said by another rank of this machine. Another transport is another struct that begins with this one. */
typedef struct BluCollective BluCollective;
struct BluCollective {
  int64_t rank, ranks;
  int64_t near;    /* ranks of this machine that may use the same processors as this one, itself included */
  int64_t beside;  /* ranks of this machine, itself included */
  /* all[r * bytes ..] = what rank r gave; small things, and the barrier. */
  bool (*gather)(BluError *err, BluCollective *c, const void *mine, int64_t bytes, void *all);
  /* Each element of f32 and f64 parts becomes the sum over the ranks, ((r0 + r1) + r2) ..: the same bits on every rank. */
  bool (*sum)(BluError *err, BluCollective *c, const BluPart *part, int64_t parts);
  /* The parts become those of rank 0. */
  bool (*share)(BluError *err, BluCollective *c, const BluPart *part, int64_t parts);
  /* Ends and frees it. `why` NULL: nobody leaves before all have come here, for others may still receive. Else the error that ended this rank,
   * which the others are told; it becomes empty if another rank says it. */
  void (*close)(BluCollective *c, BluError *why);
};

enum { BLU_TCP_BLOCK = 256 << 10 }; /* bytes that a rank needs to sum */

/* Meets the other ranks. `hash`: of the program, the same on all. `seconds`: how long to wait for a rank, now and later. `ranks` is kept. */
BluCollective *blu_tcp_open(BluError *err, BluRanks *ranks, uint64_t hash, int64_t seconds);

#endif
