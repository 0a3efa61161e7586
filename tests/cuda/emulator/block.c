/* block.c - runs a kernel: blocks one after another in random order, the threads of a block as fibers that go on in turn, each until the next
 * barrier or shuffle. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulator.h"

/* Stacks aren't a power of two apart, so that their ends don't meet in one set of a cache. */
enum { MOST_THREADS = 1024, STACK = (128 << 10) + 192, WARP = 32 };

typedef enum { READY, AT_BARRIER, AT_SHUFFLE, ENDED } State;

typedef struct {
  void *stack;   /* where it goes on */
  State state;
  int32_t site, kind, mask, value, lane, clamp; /* of what it waits for */
} Thread;

static struct {
  Thread thread[MOST_THREADS];
  char *stacks;
  void *scheduler;
  const EmuLaunch *launch; /* NULL: no kernel runs */
  unsigned threads, thread_at[3], at[3]; /* indices of the thread that runs, and of its block */
  EmuActor actor;
  int32_t site;
  char *shared;
  unsigned shared_room;
} run;

/* Saves the registers that calls keep, and goes on where another fiber did so. */
void blu_emu_switch(void **from, void *to);
__asm__(".text\n.globl blu_emu_switch\n.hidden blu_emu_switch\n.type blu_emu_switch, @function\nblu_emu_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");

static void set_current(unsigned i) {
  const unsigned *b = run.launch->block;
  run.actor.thread = i;
  run.thread_at[0] = i;
  if (i < b[0]) run.thread_at[1] = run.thread_at[2] = 0;
  else run.thread_at[0] = i % b[0], run.thread_at[1] = i / b[0] % b[1], run.thread_at[2] = i / b[0] / b[1];
}

/* Numbers of launches that come round again must not meet those of before. */
static void next_launch(void) {
  if (++run.actor.launch < EMU_LAUNCHES) return;
  blu_emu_forget();
  run.actor.launch = 1;
}

static void pause_as(State state, int32_t site) {
  Thread *t = &run.thread[run.actor.thread];
  if (state != ENDED && !run.launch->function->meets) blu_emu_fault("a barrier or shuffle in a function that says it has none");
  t->state = state;
  t->site = site;
  blu_emu_switch(&t->stack, run.scheduler);
}

/* A random order of 0 .. n-1: every stride-th, with a stride that has no factor with n. */
typedef struct { uint64_t start, stride, n; } Order;

static uint64_t common_factor(uint64_t a, uint64_t b) { return b ? common_factor(b, a % b) : a; }

static Order order_of(uint64_t n) {
  Order o = {0, 1, n};
  if (!blu_emu_seed()) return o;
  o.start = blu_emu_random() % n;
  for (o.stride = 1 + blu_emu_random() % n; common_factor(o.stride, n) != 1;) o.stride = o.stride % n + 1;
  return o;
}
static uint64_t order_at(const Order *o, uint64_t i) { return (o->start + i * o->stride) % o->n; }

/* Which stack the thread has that runs: threads that never wait take turns on the first. */
static unsigned own_stack(void) { return run.launch->function->meets ? run.actor.thread : 0; }

static void thread_main(void) {
  run.launch->function->call(run.launch->args);
  pause_as(ENDED, 0);
}

static void threads_main(void) { /* all of a block, which never wait for one another */
  Order order = order_of(run.threads);
  for (unsigned i = 0; i < run.threads; i++) {
    set_current((unsigned)order_at(&order, i));
    run.launch->function->call(run.launch->args);
  }
  set_current(0);
  pause_as(ENDED, 0);
}

static void start_thread(unsigned i, void (*body)(void)) {
  void **top = (void **)(void *)(run.stacks + (size_t)(i + 1) * STACK);
  *--top = NULL;                                  /* keeps the stack aligned as a call does */
  *--top = (void *)(uintptr_t)body;
  for (int k = 0; k < 6; k++) *--top = NULL;
  run.thread[i] = (Thread){.stack = top, .state = READY};
}

/* --- what twins call --- */

int32_t blu_emu_thread(int32_t axis) { return (int32_t)run.thread_at[axis]; }
int32_t blu_emu_block(int32_t axis) { return (int32_t)run.at[axis]; }
int32_t blu_emu_threads(int32_t axis) { return (int32_t)run.launch->block[axis]; }
int32_t blu_emu_blocks(int32_t axis) { return (int32_t)run.launch->grid[axis]; }
char *blu_emu_shared(void) { return run.shared; }

void blu_emu_barrier(int32_t site) {
  run.site = site;
  pause_as(AT_BARRIER, site);
}

int32_t blu_emu_shuffle(int32_t kind, int32_t mask, int32_t value, int32_t lane, int32_t clamp, int32_t site) {
  Thread *t = &run.thread[run.actor.thread];
  run.site = site;
  t->kind = kind, t->mask = mask, t->value = value, t->lane = lane, t->clamp = clamp;
  pause_as(AT_SHUFFLE, site);
  return t->value;
}

static bool is_own_stack(const void *place) {
  return (uintptr_t)place - (uintptr_t)(run.stacks + (size_t)own_stack() * STACK) < STACK;
}

void blu_emu_access(const void *place, int64_t bytes, int32_t write, int32_t space, int32_t site) {
  run.site = site;
  if (is_own_stack(place)) return;
  bool shared = run.shared && (const char *)place >= run.shared && (const char *)place < run.shared + run.shared_room;
  if (!space && shared) blu_emu_fault("it takes shared memory for global");
  if (space) blu_emu_check_shared(place, bytes, write != 0, &run.actor);
  else blu_emu_check(place, bytes, write != 0, &run.actor);
}

bool blu_emu_where(char *text, size_t size) {
  if (!run.launch) return false;
  snprintf(text, size, "function %s, block (%u, %u, %u), thread (%d, %d, %d), site %d", run.launch->function->name, run.at[0], run.at[1], run.at[2],
           blu_emu_thread(0), blu_emu_thread(1), blu_emu_thread(2), run.site);
  return true;
}

/* --- the scheduler --- */

static void run_ready(void) {
  Order order = order_of(run.threads);
  for (unsigned i = 0; i < run.threads; i++) {
    unsigned at = (unsigned)order_at(&order, i);
    Thread *t = &run.thread[at];
    if (t->state != READY) continue;
    set_current(at);
    blu_emu_switch(&run.scheduler, t->stack);
  }
}

/* Where a thread gets its value from, by the definition of shfl.sync in the PTX ISA. */
static unsigned source_of(const Thread *t, unsigned lane) {
  unsigned b = (unsigned)t->lane & 31, c = (unsigned)t->clamp & 31, segments = (unsigned)t->clamp >> 8 & 31;
  unsigned least = lane & segments, most = least | (c & ~segments);
  int from = t->kind == 1 ? (int)lane - (int)b : t->kind == 2 ? (int)(lane + b) : t->kind == 3 ? (int)(lane ^ b) : (int)(least | (b & ~segments));
  bool there = t->kind == 1 ? from >= (int)most : from <= (int)most;
  return there ? (unsigned)from : lane;
}

static _Noreturn void fault_at(unsigned thread, const char *what, unsigned other) {
  set_current(thread);
  run.site = run.thread[thread].site;
  const Thread *t = &run.thread[other];
  static const char *const states[] = {"goes on", "is at the barrier", "is at the shuffle", "has ended"};
  if (t->state == ENDED || t->state == READY) blu_emu_fault("%s: thread %u %s", what, other, states[t->state]);
  blu_emu_fault("%s: thread %u %s of site %d", what, other, states[t->state], t->site);
}

/* Lets the threads of a warp go on whose shuffle is complete; true if there were any. */
static bool shuffle_warp(unsigned first) {
  bool any = false;
  for (unsigned i = first; i < first + WARP && i < run.threads; i++) {
    Thread *t = &run.thread[i];
    if (t->state != AT_SHUFFLE) continue;
    uint32_t mask = (uint32_t)t->mask;
    int32_t value[WARP];
    if (!(mask >> (i - first) & 1)) fault_at(i, "a shuffle whose mask leaves out its own lane", i);
    bool complete = true;
    for (unsigned l = 0; l < WARP; l++) {
      if (!(mask >> l & 1)) continue;
      if (first + l >= run.threads) fault_at(i, "a shuffle whose mask names a lane that the block doesn't have", i);
      const Thread *other = &run.thread[first + l];
      complete = complete && other->state == AT_SHUFFLE && other->site == t->site && other->mask == t->mask;
    }
    if (!complete) continue;
    for (unsigned l = 0; l < WARP; l++) {
      if (!(mask >> l & 1)) continue;
      unsigned from = source_of(&run.thread[first + l], l);
      if (!(mask >> from & 1)) fault_at(first + l, "a shuffle from a lane outside of its mask", first + l);
      value[l] = run.thread[first + from].value;
    }
    for (unsigned l = 0; l < WARP; l++)
      if (mask >> l & 1) run.thread[first + l].value = value[l], run.thread[first + l].state = READY;
    any = true;
  }
  return any;
}

/* All wait or have ended: lets those go on that may; false: all have ended. */
static bool release(void) {
  bool any = false;
  for (unsigned w = 0; w < run.threads; w += WARP) any |= shuffle_warp(w);
  if (any) return true;
  unsigned waiting = 0, ended = 0, barrier = 0;
  for (unsigned i = 0; i < run.threads; i++) {
    Thread *t = &run.thread[i];
    if (t->state == ENDED) ended++;
    if (t->state != AT_SHUFFLE) continue;
    unsigned first = i / WARP * WARP, l = 0;
    for (; l < WARP; l++) {
      const Thread *other = &run.thread[first + l];
      if (((uint32_t)t->mask >> l & 1) && (other->state != AT_SHUFFLE || other->site != t->site || other->mask != t->mask)) break;
    }
    fault_at(i, "a shuffle that not all of its lanes come to", first + l);
  }
  if (ended == run.threads) return false;
  while (run.thread[waiting].state != AT_BARRIER) waiting++;
  for (; barrier < run.threads; barrier++)
    if (run.thread[barrier].state != AT_BARRIER || run.thread[barrier].site != run.thread[waiting].site)
      fault_at(waiting, "a barrier that not all threads come to", barrier);
  for (unsigned i = 0; i < run.threads; i++) run.thread[i].state = READY;
  if (++run.actor.epoch == EMU_EPOCHS) run.actor.epoch = 0, next_launch(); /* misses races between blocks, and makes up none */
  return true;
}

static void run_block(uint64_t block) {
  const EmuLaunch *l = run.launch;
  run.actor.block = (uint32_t)block;
  run.actor.epoch = 0;
  run.at[0] = (unsigned)(block % l->grid[0]), run.at[1] = (unsigned)(block / l->grid[0] % l->grid[1]), run.at[2] = (unsigned)(block / l->grid[0] / l->grid[1]);
  blu_emu_shared_open(run.shared, l->shared_bytes);
  if (!l->function->meets) {
    start_thread(0, threads_main);
    blu_emu_switch(&run.scheduler, run.thread[0].stack);
    return;
  }
  for (unsigned i = 0; i < run.threads; i++) start_thread(i, thread_main);
  do run_ready();
  while (release());
}

void blu_emu_run(const EmuLaunch *launch) {
  if (!run.stacks) {
    run.stacks = mmap(NULL, (size_t)MOST_THREADS * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (run.stacks == MAP_FAILED) blu_emu_fault("out of memory");
  }
  if (launch->shared_bytes > run.shared_room) {
    free(run.shared);
    run.shared = malloc(launch->shared_bytes);
    run.shared_room = launch->shared_bytes;
    if (!run.shared) blu_emu_fault("out of memory");
  }
  run.launch = launch;
  next_launch();
  run.actor.code = (const void *)(uintptr_t)launch->function->call;
  run.threads = launch->block[0] * launch->block[1] * launch->block[2];
  uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  Order order = order_of(blocks);
  for (uint64_t i = 0; i < blocks; i++) run_block(order_at(&order, i));
  run.launch = NULL;
}
