/* profile.c - where the time of a step goes, and how fast the processor's multiply-adds are. */
#include <immintrin.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime_internal.h"

/* Rows for the kernels of these launches and of the loops among them. */
static void add_rows(BluProfile *profile, const BluLaunch *launch, int64_t launches) {
  for (int64_t i = 0; i < launches; i++) {
    if (launch[i].loop && !launch[i].loop->parallel) {
      add_rows(profile, launch[i].loop->launch, launch[i].loop->launches);
    } else {
      if (profile->row) profile->row[profile->rows].launch = &launch[i];
      profile->rows++;
    }
  }
}

BluProfile *blu_profile_new(const BluFunction *function) {
  BluProfile *profile = blu_new(1, sizeof *profile);
  profile->function = function;
  add_rows(profile, function->launch, function->launches);
  profile->row = blu_new(profile->rows, sizeof *profile->row);
  profile->rows = 0;
  add_rows(profile, function->launch, function->launches);
  return profile;
}

void blu_profile_add(BluProfile *profile, const BluLaunch *launch, double seconds) {
  int64_t i = profile->next;
  for (int64_t n = 0; n < profile->rows && profile->row[i].launch != launch; n++) i = (i + 1) % profile->rows;
  profile->row[i].seconds += seconds;
  profile->row[i].launches++;
  profile->next = (i + 1) % profile->rows;
}

static void ran(void *user, const BluLaunch *launch) {
  BluProfile *profile = user;
  double now = blu_log_now();
  blu_profile_add(profile, launch, now - profile->before);
  profile->before = now;
}

void blu_profile_run(BluProfile *profile, BluPool *pool, int64_t first, int64_t last) {
  profile->before = blu_log_now();
  blu_pool_watch(pool, ran, profile);
  blu_pool_run(pool, &profile->function->launch[first], last - first);
  blu_pool_watch(pool, NULL, NULL);
  profile->runs += !first;
}

/* Launches of one kernel from one line. */
typedef struct {
  const char *name;
  int64_t line, launches;
  double seconds;
} Row;

static int by_time(const void *a, const void *b) {
  double x = ((const Row *)a)->seconds, y = ((const Row *)b)->seconds;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* The text of a line of the source, without the spaces before it. */
static int line_of(const char *source, int64_t line, const char **text) {
  for (; line > 1; line--) source += strcspn(source, "\n"), source += *source == '\n';
  *text = line ? source + strspn(source, " \t") : "";
  size_t length = strcspn(*text, "\n");
  return (int)(length < 60 ? length : 60);
}

void blu_profile_print(FILE *file, const BluProfile *profile, const BluProgram *program, const char *what) {
  Row *row = blu_new(profile->rows, sizeof *row);
  int64_t rows = 0, runs = profile->runs > 0 ? profile->runs : 1;
  double total = 0, steps = (double)runs;
  for (int64_t i = 0; i < profile->rows; i++) {
    const BluProfileRow *from = &profile->row[i];
    int64_t r = 0;
    while (r < rows && (strcmp(row[r].name, from->launch->name) || row[r].line != from->launch->line)) r++;
    if (r == rows) row[rows++] = (Row){.name = from->launch->name, .line = from->launch->line};
    row[r].launches += from->launches / runs;
    row[r].seconds += from->seconds;
    total += from->seconds;
  }
  qsort(row, (size_t)rows, sizeof *row, by_time);
  fprintf(file, "profile of %" PRId64 " %s: %.3f ms each in kernels\n   share  ms each  launches  kernel\n", profile->runs,
          what, 1e3 * total / steps);
  for (int64_t r = 0; r < rows; r++) {
    const char *text;
    int length = line_of(program->source, row[r].line, &text);
    fprintf(file, "  %5.1f%% %8.3f %9" PRId64 "  %s", total > 0 ? 100 * row[r].seconds / total : 0,
            1e3 * row[r].seconds / steps, row[r].launches, row[r].name);
    if (row[r].line) fprintf(file, "  %s:%" PRId64 ": %.*s", program->source_name, row[r].line, length, text);
    fputc('\n', file);
  }
  free(row);
}

void blu_profile_free(BluProfile *profile) {
  if (!profile) return;
  blu_profile_free(profile->other);
  free(profile->row);
  free(profile);
}

#define PEAK_SECONDS 0.02 /* tries end; eight take 2 ms where nothing else runs */

/* --- peak: twelve independent chains of multiply-adds hide their latency --- */

#define CHAINS(type, set, fma, text)                                                        \
  __attribute__((target(text))) static double chains_##fma(int64_t rounds) {                \
    type a[12], x = set(0.999f), y = set(0.001f);                                           \
    for (int i = 0; i < 12; i++) a[i] = set((float)i);                                      \
    for (int64_t r = 0; r < rounds; r++) {                                                  \
      _Pragma("GCC unroll 12") for (int i = 0; i < 12; i++) a[i] = fma(a[i], x, y);         \
    }                                                                                       \
    float out[16], sum = 0;                                                                 \
    for (int i = 0; i < 12; i++) memcpy(out, &a[i], sizeof a[i]), sum += out[0];            \
    return sum;                                                                             \
  }

static inline __m128 multiply_add(__m128 a, __m128 x, __m128 y) { return _mm_add_ps(_mm_mul_ps(a, x), y); }

CHAINS(__m128, _mm_set1_ps, multiply_add, "sse2")
CHAINS(__m256, _mm256_set1_ps, _mm256_fmadd_ps, "avx2,fma")
CHAINS(__m512, _mm512_set1_ps, _mm512_fmadd_ps, "avx512f,avx2,fma")

typedef struct {
  int32_t cpu;
  int64_t rounds;
  double *seconds; /* of each thread, the best so far */
  volatile double sink;
} Peak;

/* Of the thread's own time: what others take from the processor doesn't count. */
static double thread_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void run_chains(char *arena, const int64_t *offset, char *scratch, int64_t first, int64_t last) {
  Peak *peak = (Peak *)(void *)(uintptr_t)offset;
  (void)arena, (void)scratch;
  for (int64_t i = first; i < last; i++) {
    double start = thread_seconds();
    double sum = peak->cpu >= BLU_CPU_V4   ? chains__mm512_fmadd_ps(peak->rounds)
                 : peak->cpu >= BLU_CPU_V3 ? chains__mm256_fmadd_ps(peak->rounds)
                                           : chains_multiply_add(peak->rounds);
    double seconds = thread_seconds() - start;
    if (!peak->seconds[i] || seconds < peak->seconds[i]) peak->seconds[i] = seconds;
    peak->sink = sum;
  }
}

double blu_profile_peak(BluPool *pool, int threads, int32_t cpu) {
  Peak peak = {.cpu = cpu, .rounds = 100000, .seconds = blu_new(threads, sizeof *peak.seconds)};
  BluLaunch launch = {.kernel = run_chains, .offset = (const int64_t *)(const void *)&peak, .pieces = threads};
  double began = blu_log_now(), rate = 0, flops = 2.0 * 12 * (cpu >= BLU_CPU_V4 ? 16 : cpu >= BLU_CPU_V3 ? 8 : 4);
  for (int i = 0; i < 8 && (!i || blu_log_now() - began < PEAK_SECONDS); i++) blu_pool_run(pool, &launch, 1);
  for (int i = 0; i < threads; i++)
    if (peak.seconds[i] > 0) rate += flops * (double)peak.rounds / peak.seconds[i];
  free(peak.seconds);
  int cpus = blu_host_cpus();
  return threads > cpus ? rate * cpus / threads : rate; /* threads that take turns */
}
