/* host.c - what the machine grants this process: memory, CPUs, and the instructions of its processor. */
#include <cpuid.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "runtime_internal.h"

/* The words of a small file of /proc or /sys as text; false if it can't be read. */
static bool read_text(const char *path, char *text, size_t size) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  size_t length = fread(text, 1, size - 1, file);
  fclose(file);
  text[length] = 0;
  return true;
}

static bool read_number(const char *folder, const char *file, int64_t *number) {
  char path[4400], text[64];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  return read_text(path, text, sizeof text) && sscanf(text, "%" SCNd64, number) == 1;
}

/* A number of memory.stat; 0 if it isn't there. */
static int64_t read_stat(const char *folder, const char *key) {
  char path[4400], text[8192], line[64];
  int64_t number = 0;
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  snprintf(line, sizeof line, "%s ", key);
  if (!read_text(path, text, sizeof text)) return 0;
  for (const char *at = text; (at = strstr(at, line)); at++)
    if (at == text || at[-1] == '\n') sscanf(at + strlen(line), "%" SCNd64, &number);
  return number;
}

/* What a group's limit leaves: less what its processes have, pages of files apart, which are given back when needed. Where it doesn't
 * say what they have, less `held`. */
static int64_t memory_left(const char *folder, int64_t held) {
  static const struct { const char *limit, *used, *file[2]; } versions[] = {
      {"memory.max", "memory.current", {"inactive_file", "active_file"}},
      {"memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}},
  };
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    int64_t limit, used;
    if (!read_number(folder, versions[i].limit, &limit)) continue;
    if (read_number(folder, versions[i].used, &used))
      for (int k = 0; k < 2; k++) used -= read_stat(folder, versions[i].file[k]);
    else used = held;
    if (used < 0) used = 0;
    int64_t left = limit > used ? limit - used : 0;
    if (left < least) least = left;
  }
  return least;
}

static int64_t cpu_quota(const char *folder, int64_t held) {
  (void)held;
  char path[4400], text[64];
  int64_t quota = -1, period = 0;
  snprintf(path, sizeof path, "%s/cpu.max", folder);
  if (read_text(path, text, sizeof text)) { /* version 2: "max 100000" or "150000 100000" */
    if (sscanf(text, "%" SCNd64 " %" SCNd64, &quota, &period) != 2) quota = -1;
  } else {
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (read_text(path, text, sizeof text)) quota = strtoll(text, NULL, 10);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (read_text(path, text, sizeof text)) period = strtoll(text, NULL, 10);
  }
  if (quota <= 0 || period <= 0) return INT64_MAX;
  return quota < period ? 1 : quota / period; /* rounded down: a throttled thread holds up all others */
}

/* The least `limit` over this process's control group and its parents, below the mount point `root`. Inside a container
 * the path may name folders of the outside, which then don't exist; the root itself is always asked. */
static int64_t least_of_groups(const char *root, const char *controller, int64_t (*limit)(const char *folder, int64_t held), int64_t held) {
  char text[4096], folder[4300];
  int64_t least = limit(root, held);
  if (!read_text("/proc/self/cgroup", text, sizeof text)) return least;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    char *name = strchr(line, ':'), *path = name ? strchr(name + 1, ':') : NULL;
    if (!path) continue;
    *path++ = 0; /* now `name` is ":controllers", and only ":" for version 2 */
    if (controller ? !strstr(name, controller) : name[1] != 0) continue;
    snprintf(folder, sizeof folder, "%s%s", root, path);
    for (size_t floor = strlen(root); strlen(folder) > floor; *strrchr(folder, '/') = 0) {
      int64_t value = limit(folder, held);
      if (value < least) least = value;
    }
  }
  return least;
}

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t blu_host_memory(int64_t held) {
  int64_t limit = least_of(least_of_groups("/sys/fs/cgroup", NULL, memory_left, held),
                           least_of_groups("/sys/fs/cgroup/memory", "memory", memory_left, held));
  char text[4096];
  const char *line = read_text("/proc/meminfo", text, sizeof text) ? strstr(text, "MemAvailable:") : NULL;
  return line ? least_of(limit, 1024 * strtoll(line + strlen("MemAvailable:"), NULL, 10)) : limit;
}

int blu_host_cpus(void) {
  cpu_set_t mask;
  int64_t cpus = sched_getaffinity(0, sizeof mask, &mask) ? 1 : CPU_COUNT(&mask);
  cpus = least_of(cpus, least_of_groups("/sys/fs/cgroup", NULL, cpu_quota, 0));
  cpus = least_of(cpus, least_of_groups("/sys/fs/cgroup/cpu", "cpu", cpu_quota, 0));
  return cpus < 1 ? 1 : (int)cpus;
}

BluCpuid blu_host_cpuid(void) {
  BluCpuid id = {0};
  uint32_t a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d)) id.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) id.leaf7_ebx = b;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) id.ext1_ecx = c;
  if (id.leaf1_ecx & bit_OSXSAVE) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    id.xcr0 = (uint64_t)high << 32 | low;
  }
  return id;
}

void blu_host_missing(const BluCpuid *id, int32_t cpu, char text[static 200]) {
  /* The levels of the x86-64 psABI; the lowest is what every such processor has. `saved` are the parts of the register
   * file that the operating system has to save: 2 + 4 for AVX, and the three of AVX-512 (32 + 64 + 128). */
  static const struct {
    int32_t level;
    const char *name;
    size_t word;
    uint32_t bit;
    uint64_t saved;
  } feature[] = {
#define WORD(w) offsetof(BluCpuid, w)
      {BLU_CPU_V2, "cx16", WORD(leaf1_ecx), bit_CMPXCHG16B, 0},
      {BLU_CPU_V2, "lahf", WORD(ext1_ecx), bit_LAHF_LM, 0},
      {BLU_CPU_V2, "popcnt", WORD(leaf1_ecx), bit_POPCNT, 0},
      {BLU_CPU_V2, "sse3", WORD(leaf1_ecx), bit_SSE3, 0},
      {BLU_CPU_V2, "ssse3", WORD(leaf1_ecx), bit_SSSE3, 0},
      {BLU_CPU_V2, "sse4.1", WORD(leaf1_ecx), bit_SSE4_1, 0},
      {BLU_CPU_V2, "sse4.2", WORD(leaf1_ecx), bit_SSE4_2, 0},
      {BLU_CPU_V3, "avx", WORD(leaf1_ecx), bit_AVX, 6},
      {BLU_CPU_V3, "avx2", WORD(leaf7_ebx), bit_AVX2, 6},
      {BLU_CPU_V3, "bmi1", WORD(leaf7_ebx), bit_BMI, 0},
      {BLU_CPU_V3, "bmi2", WORD(leaf7_ebx), bit_BMI2, 0},
      {BLU_CPU_V3, "f16c", WORD(leaf1_ecx), bit_F16C, 6},
      {BLU_CPU_V3, "fma", WORD(leaf1_ecx), bit_FMA, 6},
      {BLU_CPU_V3, "lzcnt", WORD(ext1_ecx), bit_ABM, 0},
      {BLU_CPU_V3, "movbe", WORD(leaf1_ecx), bit_MOVBE, 0},
      {BLU_CPU_V4, "avx512f", WORD(leaf7_ebx), bit_AVX512F, 0xe6},
      {BLU_CPU_V4, "avx512bw", WORD(leaf7_ebx), bit_AVX512BW, 0xe6},
      {BLU_CPU_V4, "avx512cd", WORD(leaf7_ebx), bit_AVX512CD, 0xe6},
      {BLU_CPU_V4, "avx512dq", WORD(leaf7_ebx), bit_AVX512DQ, 0xe6},
      {BLU_CPU_V4, "avx512vl", WORD(leaf7_ebx), bit_AVX512VL, 0xe6},
#undef WORD
  };
  text[0] = 0;
  for (size_t i = 0; i < sizeof feature / sizeof *feature; i++) {
    uint32_t word;
    memcpy(&word, (const char *)id + feature[i].word, sizeof word);
    bool there = (word & feature[i].bit) && (id->xcr0 & feature[i].saved) == feature[i].saved;
    if (feature[i].level > cpu || there) continue;
    size_t used = strlen(text);
    snprintf(text + used, 200 - used, "%s%s", used ? " " : "", feature[i].name);
  }
}
