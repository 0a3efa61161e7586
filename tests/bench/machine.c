/* machine.c - what the machine can do, for the benchmarks to compare with:
 *   machine peak THREADS      fused multiply-adds on registers: GFLOP/s of all threads together
 *   machine triad THREADS     a[i] = b[i] + s c[i] over arrays beyond the caches: GB/s, the lines that are read to be written counted too
 *   machine run FILE COMMAND  runs a command and adds its wall seconds and its peak resident MB to FILE
 *   machine npy FILE TYPE LIMIT N..   an array of numbers below LIMIT, or within it, of type f4, i4 or u1
 * The best of several tries is printed: what disturbs can only make it less. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 256, TRIES = 12, CHAINS = 12 };
static const long ROUNDS = 4000000, ELEMENTS = 1L << 24; /* per thread */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
  pthread_barrier_t *line;
  void (*work)(float *);
  float *memory;
  int cpu;
  double start, end;
} Worker;

static void *work(void *arg) {
  Worker *w = arg;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(w->cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  pthread_barrier_wait(w->line);
  w->start = now();
  w->work(w->memory);
  w->end = now();
  return NULL;
}

/* Seconds from the first start to the last end, the best of all tries. */
static double fastest(int threads, void (*f)(float *), long elements) {
  double best = 1e300;
  float *memory[MOST_THREADS] = {0};
  size_t bytes = (size_t)elements * sizeof(float);
  for (int t = 0; t < threads && bytes; t++) {
    memory[t] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory[t] == MAP_FAILED) perror("machine"), exit(1);
    madvise(memory[t], bytes, MADV_HUGEPAGE);
    memset(memory[t], 1, bytes);
  }
  for (int i = 0; i < TRIES; i++) {
    pthread_barrier_t line;
    pthread_t id[MOST_THREADS];
    Worker w[MOST_THREADS];
    double first = 1e300, last = 0;
    pthread_barrier_init(&line, NULL, (unsigned)threads);
    for (int t = 0; t < threads; t++) {
      w[t] = (Worker){.line = &line, .work = f, .memory = memory[t], .cpu = t};
      if (pthread_create(&id[t], NULL, work, &w[t])) fprintf(stderr, "machine: no thread\n"), exit(1);
    }
    for (int t = 0; t < threads; t++) {
      pthread_join(id[t], NULL);
      if (w[t].start < first) first = w[t].start;
      if (w[t].end > last) last = w[t].end;
    }
    if (last - first < best) best = last - first;
  }
  return best;
}

/* Twelve chains hide the latency; the empty statement keeps their values in registers, and computed. */
#define MULTIPLY_ADDS(name, type, isa, set, fma, where)                                            \
  __attribute__((target(isa))) static void name(float *unused) {                                   \
    type x = set(0.999f), y = set(1e-6f), a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x;  \
    type p = x, q = x, r = x, s = x;                                                               \
    (void)unused;                                                                                  \
    for (long i = 0; i < ROUNDS; i++) {                                                            \
      a = fma(a, x, y), b = fma(b, x, y), c = fma(c, x, y), d = fma(d, x, y);                      \
      e = fma(e, x, y), f = fma(f, x, y), g = fma(g, x, y), h = fma(h, x, y);                      \
      p = fma(p, x, y), q = fma(q, x, y), r = fma(r, x, y), s = fma(s, x, y);                      \
      __asm__ volatile("" : where(a), where(b), where(c), where(d), where(e), where(f), where(g), where(h), where(p), where(q), where(r), where(s)); \
    }                                                                                              \
  }
MULTIPLY_ADDS(multiply_adds_256, __m256, "avx2,fma", _mm256_set1_ps, _mm256_fmadd_ps, "+x")
MULTIPLY_ADDS(multiply_adds_512, __m512, "avx512f", _mm512_set1_ps, _mm512_fmadd_ps, "+v")

static void triad(float *m) {
  float *restrict a = m, *b = m + ELEMENTS, *c = m + 2 * ELEMENTS;
  for (long i = 0; i < ELEMENTS; i++) a[i] = b[i] + 0.5f * c[i];
}

static int run(const char *file, char **command) {
  double start = now();
  pid_t child = fork();
  if (!child) {
    execvp(command[0], command);
    perror(command[0]);
    _exit(127);
  }
  int status;
  struct rusage use;
  if (child < 0 || wait4(child, &status, 0, &use) < 0) return perror("machine"), 1;
  FILE *f = fopen(file, "a");
  if (!f || fprintf(f, "%.4f %.1f\n", now() - start, (double)use.ru_maxrss / 1024) < 0 || fclose(f)) return perror(file), 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int npy(const char *file, const char *type, double limit, int rank, char **dim) {
  long count = 1;
  char shape[200] = "", header[256];
  uint64_t state = 1;
  for (int i = 0; i < rank; i++) {
    count *= atol(dim[i]);
    snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s,", dim[i]);
  }
  int n = snprintf(header, sizeof header, "{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", *type == 'u' ? "|" : "<", type, shape);
  FILE *f = fopen(file, "wb");
  if (!f) return perror(file), 1;
  int padded = (10 + n + 1 + 63) / 64 * 64 - 10;
  fprintf(f, "\x93NUMPY\x01%c%c%c%-*s\n", 0, padded & 255, padded >> 8, padded - 1, header);
  for (long i = 0; i < count; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double u = (double)(state >> 40) * 0x1p-24;
    float real = (float)(limit * (2 * u - 1));
    int32_t whole = (int32_t)(limit * u);
    if (!strcmp(type, "f4")) fwrite(&real, sizeof real, 1, f);
    else fwrite(&whole, *type == 'u' ? 1 : sizeof whole, 1, f);
  }
  return fclose(f) ? perror(file), 1 : 0;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  int threads = argc > 2 ? atoi(argv[2]) : 0;
  bool timed = argc == 3 && threads >= 1 && threads <= MOST_THREADS;
  if (!strcmp(what, "run") && argc > 3) return run(argv[2], argv + 3);
  if (!strcmp(what, "npy") && argc > 5) return npy(argv[2], argv[3], atof(argv[4]), argc - 5, argv + 5);
  if (!strcmp(what, "peak") && timed) {
    bool wide = __builtin_cpu_supports("avx512f");
    if (!wide && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) return fprintf(stderr, "machine: no multiply-adds\n"), 1;
    double seconds = fastest(threads, wide ? multiply_adds_512 : multiply_adds_256, 0);
    return printf("%.1f\n", 2.0 * CHAINS * (wide ? 16 : 8) * (double)ROUNDS * threads / seconds / 1e9), 0;
  }
  if (!strcmp(what, "triad") && timed)
    return printf("%.1f\n", 4.0 * sizeof(float) * (double)ELEMENTS * threads / fastest(threads, triad, 3 * ELEMENTS) / 1e9), 0;
  return fprintf(stderr, "usage: machine peak|triad THREADS | run FILE COMMAND.. | npy FILE f4|i4|u1 LIMIT N..\n"), 2;
}
