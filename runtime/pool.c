/* pool.c - the threads of a run, and the loop over launches.
 *
 * Thread 0 is the caller and leads: for each launch of more than one piece it raises `ticket`, runs its own share and
 * waits until `pending` has come down to 0. Who waits spins for about a launch, then offers its CPU to others (a thread
 * that was preempted must get one), then sleeps on a futex. The pieces of a launch are dealt evenly, the same to the same thread each
 * time, so that its caches know them. A thread takes its own in a few lots, then what others that are late have left: no
 * result depends on who computes a piece. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime_internal.h"

#define SPIN_SECONDS 20e-6   /* of pure spinning: about a launch */
#define YIELD_SECONDS 500e-6 /* of offering the CPU to others, before sleeping: about a step */

enum {
  LEAST = 8,   /* a lot is three quarters of what is left of a thread's pieces, or this part of all of them: three lots. Each is a call, in which
                * products pack an operand anew; the last ones are small, for whoever is done waits for them */
  VICTIMS = 8  /* threads that one that is done looks at: each look may be a miss of the caches */
};

enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 }; /* of linux/futex.h, which musl doesn't bring */

typedef struct {
  BluPool *pool;
  pthread_t thread;
  int index;
} Worker;

typedef struct { _Alignas(64) _Atomic int64_t next; } Share; /* first piece of a thread's that nobody has taken */

struct BluPool {
  char *arena, *scratch;
  int64_t scratch_stride;
  int threads, started;        /* all of them; workers that run */
  bool crowded;                /* threads outnumber CPUs: no pure spinning */
  const BluLaunch *launch;     /* of the current ticket; NULL: the workers end */
  int64_t *offset;             /* [threads][loop_offsets]: of the current launches, inside of loops */
  int64_t loop_offsets, frame_offset;
  const int64_t *at;           /* of the current ticket, a parallel loop: steps of the loops around, */
  int depth;                   /* and how many */
  BluWatch *ran;               /* see blu_pool_watch */
  void *user;
  Worker *worker;              /* [threads - 1] */
  Share *share;                /* [threads], of the current launch */
  _Alignas(64) _Atomic uint32_t ticket;
  _Atomic uint32_t ticket_sleepers;
  _Alignas(64) _Atomic uint32_t pending; /* workers that have not finished the current ticket */
  _Atomic uint32_t pending_sleepers;
};

static void futex(_Atomic uint32_t *word, int operation, uint32_t value) {
  syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

/* Returns once *word differs from `old`, or now and then before. Whoever changes the word must then call wake_sleepers:
 * all accesses are sequentially consistent, so either it sees the sleeper or the sleeper sees the new value. */
static void wait_change(_Atomic uint32_t *word, uint32_t old, _Atomic uint32_t *sleepers, bool crowded) {
  double start = 0;
  for (int i = 1;; i++) {
    if (atomic_load_explicit(word, memory_order_acquire) != old) return;
    __builtin_ia32_pause();
    if (i % 32) continue;
    double now = blu_log_now();
    if (!start) start = now;
    if (now - start > YIELD_SECONDS) break;
    if (crowded || now - start > SPIN_SECONDS) sched_yield();
  }
  atomic_fetch_add(sleepers, 1);
  futex(word, FUTEX_WAIT_PRIVATE, old);
  atomic_fetch_sub(sleepers, 1);
}

static void wake_sleepers(_Atomic uint32_t *word, _Atomic uint32_t *sleepers) {
  if (atomic_load(sleepers)) futex(word, FUTEX_WAKE_PRIVATE, INT32_MAX);
}

/* Rounding to nearest, no exceptions, denormals kept: the same on every thread. */
static void set_float_mode(void) { __builtin_ia32_ldmxcsr(0x1f80); }

/* The launch's offsets at these steps of the loops around, in the thread's own array. */
static const int64_t *offsets_at(const BluPool *pool, int thread, const BluLaunch *launch, const int64_t *at, int depth) {
  int64_t *offset = pool->offset + thread * pool->loop_offsets;
  for (int64_t p = 0; p < launch->offsets; p++) {
    offset[p] = launch->offset[p];
    for (int d = 0; d < depth; d++) offset[p] += launch->stride[p * depth + d] * at[d];
  }
  return offset;
}

static int64_t step_of(const BluLoop *loop, int64_t k) { return loop->reverse ? loop->steps - 1 - k : k; }

/* All of the launches in this thread. */
static void run_alone(const BluPool *pool, int thread, const BluLaunch *launch, int64_t launches, int64_t *at, int depth) {
  for (int64_t i = 0; i < launches; i++) {
    const BluLoop *loop = launch[i].loop;
    for (int64_t k = 0; loop && k < loop->steps; k++) {
      at[depth] = step_of(loop, k);
      run_alone(pool, thread, loop->launch, loop->launches, at, depth + 1);
    }
    if (!loop)
      launch[i].kernel(pool->arena, offsets_at(pool, thread, &launch[i], at, depth), pool->scratch + thread * pool->scratch_stride, 0, launch[i].pieces);
  }
}

/* Steps [first, last) of a parallel loop. */
static void run_steps(const BluPool *pool, const BluLoop *loop, int thread, int64_t first, int64_t last) {
  int64_t at[2 * BLU_ABI_LOOPS];
  for (int d = 0; d < pool->depth; d++) at[d] = pool->at[d];
  at[pool->depth + 1] = pool->scratch + thread * pool->scratch_stride + pool->frame_offset - pool->arena;
  for (int64_t k = first; k < last; k++) {
    at[pool->depth] = step_of(loop, k);
    run_alone(pool, thread, loop->launch, loop->launches, at, pool->depth + 2);
  }
}

static int64_t first_of(const BluPool *pool, const BluLaunch *launch, int thread) { return thread * launch->pieces / pool->threads; }

/* Takes a lot [*first, *last) of the pieces dealt to thread `owner`; false: all are taken. */
static bool take(const BluPool *pool, const BluLaunch *launch, int owner, int64_t *first, int64_t *last) {
  int64_t end = first_of(pool, launch, owner + 1), least = (end - first_of(pool, launch, owner)) / LEAST, n;
  _Atomic int64_t *next = &pool->share[owner].next;
  *first = atomic_load_explicit(next, memory_order_relaxed);
  do {
    n = (end - *first) * 3 / 4;
    if (n < least) n = least;
    if (n < 1) n = 1;
    *last = *first + n < end ? *first + n : end;
    if (*first >= end) return false;
  } while (!atomic_compare_exchange_weak_explicit(next, first, *last, memory_order_relaxed, memory_order_relaxed));
  return true;
}

static void run_shares(const BluPool *pool, const BluLaunch *launch, int thread) {
  int64_t first, last;
  for (int i = 0; i < pool->threads && i <= VICTIMS; i++)
    while (take(pool, launch, (thread + i) % pool->threads, &first, &last)) {
      if (launch->loop) run_steps(pool, launch->loop, thread, first, last);
      else launch->kernel(pool->arena, launch->offset, pool->scratch + thread * pool->scratch_stride, first, last);
    }
}

static void publish(BluPool *pool, const BluLaunch *launch) {
  pool->launch = launch;
  for (int t = 0; launch && t < pool->threads; t++)
    atomic_store_explicit(&pool->share[t].next, first_of(pool, launch, t), memory_order_relaxed); /* the ticket publishes them */
  atomic_store(&pool->pending, (uint32_t)pool->started);
  atomic_fetch_add(&pool->ticket, 1);
  wake_sleepers(&pool->ticket, &pool->ticket_sleepers);
}

static void *work(void *argument) {
  const Worker *worker = argument;
  BluPool *pool = worker->pool;
  set_float_mode();
  for (uint32_t ticket = 0;; ticket++) {
    while (atomic_load(&pool->ticket) == ticket)
      wait_change(&pool->ticket, ticket, &pool->ticket_sleepers, pool->crowded);
    if (!pool->launch) return NULL;
    run_shares(pool, pool->launch, worker->index);
    if (atomic_fetch_sub(&pool->pending, 1) == 1) wake_sleepers(&pool->pending, &pool->pending_sleepers);
  }
}

BluPool *blu_pool_open(BluError *err, const BluArena *arena, int threads) {
  BluPool *pool = NULL;
  pool = blu_need(posix_memalign((void **)&pool, _Alignof(BluPool), sizeof *pool) ? NULL : pool);
  memset(pool, 0, sizeof *pool);
  pool->arena = arena->base;
  pool->scratch = arena->scratch;
  pool->scratch_stride = arena->scratch_stride;
  pool->threads = threads;
  pool->crowded = threads > blu_host_cpus();
  pool->worker = blu_new(threads, sizeof *pool->worker);
  pool->share = blu_need(posix_memalign((void **)&pool->share, _Alignof(Share), (size_t)threads * sizeof *pool->share) ? NULL : pool->share);
  pool->loop_offsets = arena->loop_offsets, pool->frame_offset = arena->frame_offset;
  pool->offset = blu_new(arena->loop_offsets * threads, sizeof *pool->offset);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, BLU_POOL_STACK);
  int refused = 0;
  while (pool->started < threads - 1 && !refused) {
    Worker *worker = &pool->worker[pool->started];
    *worker = (Worker){.pool = pool, .index = pool->started + 1};
    refused = pthread_create(&worker->thread, &attributes, work, worker);
    pool->started += !refused;
  }
  pthread_attr_destroy(&attributes);
  if (!refused) return pool;
  blu_error_set(err, "cannot start thread %d of %d: %s", pool->started + 2, threads, strerror(refused));
  blu_pool_close(pool);
  return NULL;
}

/* One launch that threads share: a kernel, or a parallel loop whose pieces are its steps. */
static void run_shared(BluPool *pool, const BluLaunch *launch) {
  if (launch->pieces == 1 || pool->threads == 1) {
    if (launch->loop) run_steps(pool, launch->loop, 0, 0, launch->pieces);
    else launch->kernel(pool->arena, launch->offset, pool->scratch, 0, launch->pieces);
    return;
  }
  publish(pool, launch);
  run_shares(pool, launch, 0);
  for (uint32_t left; (left = atomic_load(&pool->pending));)
    wait_change(&pool->pending, left, &pool->pending_sleepers, pool->crowded);
}

/* at[0 .. depth): the steps of the loops around. */
static void run_launches(BluPool *pool, const BluLaunch *launch, int64_t launches, int64_t *at, int depth) {
  for (int64_t i = 0; i < launches; i++) {
    const BluLoop *loop = launch[i].loop;
    BluLaunch now = launch[i];
    for (int64_t k = 0; loop && !loop->parallel && k < loop->steps; k++) {
      at[depth] = step_of(loop, k);
      run_launches(pool, loop->launch, loop->launches, at, depth + 1);
    }
    if (loop && !loop->parallel) continue;
    if (loop) now.pieces = loop->steps, pool->at = at, pool->depth = depth;
    else if (depth) now.offset = offsets_at(pool, 0, &launch[i], at, depth);
    run_shared(pool, &now);
    if (pool->ran) pool->ran(pool->user, &launch[i]);
  }
}

void blu_pool_run(BluPool *pool, const BluLaunch *launch, int64_t launches) {
  int64_t at[2 * BLU_ABI_LOOPS];
  set_float_mode();
  run_launches(pool, launch, launches, at, 0);
}

void blu_pool_watch(BluPool *pool, BluWatch *ran, void *user) { pool->ran = ran, pool->user = user; }

void blu_pool_close(BluPool *pool) {
  if (!pool) return;
  publish(pool, NULL);
  for (int i = 0; i < pool->started; i++) pthread_join(pool->worker[i].thread, NULL);
  free(pool->worker);
  free(pool->share);
  free(pool->offset);
  free(pool);
}
