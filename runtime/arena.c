/* arena.c - all memory of compiled code in one mapping: the arena, then the scratch of each thread.
 *
 * It is resident from the start: every page is touched once here, so that a step never waits for the kernel and a
 * machine that is too small is found before training, not during it. What only mirrors a device's arena is touched where it is used. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime_internal.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

static int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

int64_t blu_arena_scratch(const BluProgram *program) {
  /* An odd number of lines between two scratches keeps them off the same cache sets. */
  return program->scratch_bytes ? round_up(program->scratch_bytes, PAGE) + PAGE + BLU_ABI_ALIGN : 0;
}

bool blu_arena_open(BluError *err, BluArena *arena, const BluProgram *program, int threads, int64_t limit) {
  int64_t stride = blu_arena_scratch(program);
  int64_t front = round_up(program->arena_bytes + blu_program_undo_bytes(program), PAGE), bytes = front + stride * threads;
  int64_t mirror = program->images ? front : 0; /* takes memory only where it is used */
  *arena = (BluArena){0};
  if (bytes - mirror > limit)
    return blu_error_set(err, "this program needs %lld bytes of memory (%lld for its arena, %lld for the scratch of %d "
                         "threads), but only %lld are available here", (long long)(bytes - mirror),
                         (long long)(mirror ? 0 : program->arena_bytes), (long long)(stride * threads), threads, (long long)limit);
  size_t map_bytes = (size_t)bytes + HUGE_PAGE;
  char *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (mirror ? MAP_NORESERVE : 0), -1, 0);
  if (map == MAP_FAILED)
    return blu_error_set(err, "cannot reserve %lld bytes of memory: %s", (long long)bytes, strerror(errno));
  char *base = (char *)round_up((int64_t)(intptr_t)map, HUGE_PAGE);
  if (!mirror) madvise(base, (size_t)bytes, MADV_HUGEPAGE); /* a wish; kernels without huge pages refuse it harmlessly */
  for (int64_t i = mirror; i < bytes; i += PAGE) ((volatile char *)base)[i] = 0;
  *arena = (BluArena){.base = base, .scratch = base + front, .scratch_stride = stride, .map = map,
                      .map_bytes = map_bytes, .loop_offsets = program->loop_offsets,
                      .frame_offset = program->frame_offset};
  return true;
}

void blu_arena_close(BluArena *arena) {
  if (arena->map) munmap(arena->map, arena->map_bytes);
  *arena = (BluArena){0};
}
