/* pool.c - the threads of a run, and the loop over launches.
 *
 * Thread 0 is the caller and leads: for each launch of more than one piece it raises `ticket`, runs its own share and
 * waits until `pending` has come down to 0. Who waits spins for about a launch, then offers its CPU to others (a thread
 * that was preempted must get one), then sleeps on a futex. Which pieces a thread gets depends on the numbers of pieces
 * and threads alone; results don't even depend on these. */
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

enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 }; /* of linux/futex.h, which musl doesn't bring */

typedef struct {
  BluPool *pool;
  pthread_t thread;
  int index;
} Worker;

struct BluPool {
  char *arena, *scratch;
  int64_t scratch_stride;
  int threads, started;        /* all of them; workers that run */
  bool crowded;                /* threads outnumber CPUs: no pure spinning */
  const BluLaunch *launch;     /* of the current ticket; NULL: the workers end */
  int64_t *offset;             /* of the current launch, inside of loops */
  BluWatch *ran;               /* see blu_pool_watch */
  void *user;
  Worker *worker;              /* [threads - 1] */
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

static void run_share(const BluPool *pool, const BluLaunch *launch, int thread) {
  int64_t first = thread * launch->pieces / pool->threads, last = (thread + 1) * launch->pieces / pool->threads;
  if (first < last)
    launch->kernel(pool->arena, launch->offset, pool->scratch + thread * pool->scratch_stride, first, last);
}

static void publish(BluPool *pool, const BluLaunch *launch) {
  pool->launch = launch;
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
    run_share(pool, pool->launch, worker->index);
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
  pool->offset = blu_new(arena->loop_offsets, sizeof *pool->offset);
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

static void run_kernel(BluPool *pool, const BluLaunch *launch) {
  if (launch->pieces == 1 || pool->threads == 1) {
    launch->kernel(pool->arena, launch->offset, pool->scratch, 0, launch->pieces);
    return;
  }
  publish(pool, launch);
  run_share(pool, launch, 0);
  for (uint32_t left; (left = atomic_load(&pool->pending));)
    wait_change(&pool->pending, left, &pool->pending_sleepers, pool->crowded);
}

/* at[0 .. depth): the steps of the loops around. */
static void run_launches(BluPool *pool, const BluLaunch *launch, int64_t launches, int64_t *at, int depth) {
  for (int64_t i = 0; i < launches; i++) {
    const BluLoop *loop = launch[i].loop;
    for (int64_t k = 0; loop && k < loop->steps; k++) {
      at[depth] = loop->reverse ? loop->steps - 1 - k : k;
      run_launches(pool, loop->launch, loop->launches, at, depth + 1);
    }
    if (loop) continue;
    BluLaunch now = launch[i];
    for (int64_t p = 0; depth && p < now.offsets; p++) {
      pool->offset[p] = now.offset[p];
      for (int d = 0; d < depth; d++) pool->offset[p] += now.stride[p * depth + d] * at[d];
    }
    if (depth) now.offset = pool->offset;
    run_kernel(pool, &now);
    if (pool->ran) pool->ran(pool->user, &launch[i]);
  }
}

void blu_pool_run(BluPool *pool, const BluLaunch *launch, int64_t launches) {
  int64_t at[BLU_ABI_LOOPS];
  set_float_mode();
  run_launches(pool, launch, launches, at, 0);
}

void blu_pool_watch(BluPool *pool, BluWatch *ran, void *user) { pool->ran = ran, pool->user = user; }

void blu_pool_close(BluPool *pool) {
  if (!pool) return;
  publish(pool, NULL);
  for (int i = 0; i < pool->started; i++) pthread_join(pool->worker[i].thread, NULL);
  free(pool->worker);
  free(pool->offset);
  free(pool);
}
