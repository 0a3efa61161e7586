/* device.c - see device.h. */
#define _GNU_SOURCE
#include "device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include "retarget.h"

enum { WARP = 32, MOST_THREADS = 1024, STACK = 64 << 10, MANY = -1 };

typedef struct {
  ucontext_t context;
  char *stack;
  bool done;
  int barriers, exchanges; /* how many it has come to */
  int32_t value[2];        /* of the last exchange and of the one before */
} Fiber;

typedef struct { int32_t writer, reader; int epoch; } Shadow; /* threads + 1, 0: none, MANY: several; epoch: of shared memory, barriers so far */

static struct {
  Fiber fiber[MOST_THREADS];
  ucontext_t scheduler;
  const BluDeviceLaunch *launch;
  DeviceCall *call;
  const int64_t *args;
  int threads, thread, block, arrived, epoch; /* arrived: threads at the barrier */
  char *arena, *shared;
  int64_t arena_bytes;
  Shadow *global, *local;  /* of each byte of the arena, and of shared memory */
  bool failed, progress;
} device;

static void fail(const char *what, int64_t at, int site) {
  if (!device.failed) printf("device: %s: byte %lld, block %d, thread %d, instruction %d\n", what, (long long)at, device.block, device.thread, site);
  device.failed = true;
}

/* ---- what twins call ---- */

int32_t blu_emu_thread(int32_t axis) { return axis ? 0 : device.thread; }
int32_t blu_emu_block(int32_t axis) { return axis ? 0 : device.block; }
int32_t blu_emu_threads(int32_t axis) { return axis ? 1 : device.threads; }
int32_t blu_emu_blocks(int32_t axis) { return device.launch->grid[axis]; }
char *blu_emu_shared(void) { return device.shared; }

static void wait_turn(void) { swapcontext(&device.fiber[device.thread].context, &device.scheduler); }

void blu_emu_barrier(int32_t site) {
  int own = ++device.fiber[device.thread].barriers;
  if (++device.arrived == device.threads * own) device.epoch++;
  device.progress = true;
  for (int i = 0; i < device.threads; i++)
    if (device.fiber[i].done) fail("a thread has ended before a barrier", i, site);
  while (device.epoch < own && !device.failed) wait_turn();
}

int32_t blu_emu_shuffle(int32_t kind, int32_t mask, int32_t value, int32_t lane, int32_t clamp, int32_t site) {
  Fiber *f = &device.fiber[device.thread];
  int first = device.thread / WARP * WARP, own = device.thread % WARP, count = ++f->exchanges, source = kind == 3 ? own ^ lane : lane;
  if (kind != 3 || clamp != WARP - 1) fail("a kind of shuffle that nothing uses", kind, site);
  if (!(mask >> own & 1)) fail("a shuffle without its own thread", own, site);
  if (!(mask >> source & 1)) fail("a shuffle with a thread that takes no part", source, site);
  f->value[count & 1] = value;
  device.progress = true;
  for (bool all = false; !all && !device.failed;) {
    all = true;
    for (int i = 0; i < WARP; i++) all &= !(mask >> i & 1) || (first + i < device.threads && device.fiber[first + i].exchanges >= count);
    if (!all) wait_turn();
  }
  return device.fiber[first + source].value[count & 1];
}

/* Two threads at one byte, one of them writing: between barriers for shared memory, at any time for the arena. */
static bool collides(Shadow *s, bool write, int32_t id) {
  bool bad = (s->writer && s->writer != id) || (write && s->reader && s->reader != id);
  if (write) s->writer = id;
  else s->reader = s->reader && s->reader != id ? MANY : id;
  return bad;
}

void blu_emu_access(const void *place, int64_t bytes, int32_t write, int32_t space, int32_t site) {
  char *base = space ? device.shared : device.arena;
  int64_t size = space ? device.launch->shared_bytes : device.arena_bytes, at = (const char *)place - base;
  if (at < 0 || at + bytes > size) {
    fail(space ? "an access outside of shared memory" : "an access outside of the arena", at, site);
    return;
  }
  if (at % bytes && bytes & (bytes - 1)) fail("an access of an odd size", at, site);
  if ((uintptr_t)place % (uintptr_t)(bytes > 16 ? 16 : bytes)) fail("an access that is not aligned", at, site);
  for (int64_t i = at; i < at + bytes; i++) {
    Shadow *s = space ? &device.local[i] : &device.global[i];
    if (space && s->epoch != device.epoch) *s = (Shadow){.epoch = device.epoch};
    if (collides(s, write, (int32_t)(device.block * device.threads + device.thread + 1))) fail(space ? "a race in shared memory" : "a race", i, site);
  }
}

/* ---- running ---- */

static void enter(void) {
  device.call(device.args);
  device.fiber[device.thread].done = true;
  device.progress = true;
  for (;;) wait_turn();
}

static void start(Fiber *f) {
  if (!f->stack) f->stack = malloc(STACK);
  f->done = false, f->barriers = f->exchanges = 0;
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack, f->context.uc_stack.ss_size = STACK;
  f->context.uc_link = NULL;
  makecontext(&f->context, enter, 0);
}

static void run_fibers(void) {
  for (int i = 0; i < device.threads; i++) start(&device.fiber[i]);
  for (int left = device.threads; left && !device.failed;) {
    left = 0, device.progress = false;
    for (int i = 0; i < device.threads; i++) { /* from the last thread on: no order is promised */
      device.thread = device.threads - 1 - i;
      Fiber *f = &device.fiber[device.thread];
      if (f->done) continue;
      swapcontext(&device.scheduler, &f->context);
      left += !f->done;
    }
    if (left && !device.progress) fail("threads wait for ever", left, 0);
  }
}

bool device_run(const BluDeviceLaunch *launch, DeviceCall *call, bool meets, const int64_t *args, int64_t arena_bytes) {
  device.launch = launch, device.call = call, device.args = args, device.arena_bytes = arena_bytes;
  device.arena = (char *)(intptr_t)args[0];
  device.threads = launch->block[0];
  device.failed = device.threads > MOST_THREADS || launch->grid[1] != 1 || launch->block[1] != 1;
  device.shared = aligned_alloc(16, (size_t)launch->shared_bytes + 16 - (size_t)launch->shared_bytes % 16);
  device.global = calloc((size_t)arena_bytes + 1, sizeof *device.global);
  for (device.block = 0; device.block < launch->grid[0] && !device.failed; device.block++) {
    memset(device.shared, 0xff, (size_t)launch->shared_bytes);
    device.local = calloc((size_t)launch->shared_bytes + 1, sizeof *device.local);
    device.arrived = device.epoch = 0;
    if (meets) run_fibers();
    else
      for (device.thread = 0; device.thread < device.threads; device.thread++) call(args);
    free(device.local);
  }
  free(device.global), free(device.shared);
  return !device.failed;
}

void device_product(const BluProduct *p, char *arena, const int64_t *offset) {
  const float *a = (const float *)(arena + offset[p->place_a]), *b = (const float *)(arena + offset[p->place_b]);
  const float *bias = p->epilogue == BLU_EPILOGUE_BIAS ? (const float *)(arena + offset[p->place_bias]) : NULL;
  float *c = (float *)(arena + offset[p->place_c]);
  for (int64_t z = 0; z < p->batch; z++, a += p->step_a, b += p->step_b, c += p->step_c)
    for (int64_t i = 0; i < p->m; i++)
      for (int64_t j = 0; j < p->n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < p->k; l++) sum += (double)a[p->ta ? l * p->m + i : i * p->k + l] * b[p->tb ? j * p->k + l : l * p->n + j];
        c[i * p->n + j] = (float)(sum + (bias ? bias[j] : 0));
      }
}
