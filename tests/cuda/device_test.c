/* device_test.c - the device that tests play sees what it is there to see: one good kernel, and the same with one fault each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device.h"
#include "retarget.h"

enum { THREADS = 96, BLOCKS = 3, WARPS = THREADS / 32, ARENA = 4096, RESULT = 2048 };
enum { NONE, NO_BARRIER, BEYOND_ARENA, BEYOND_SHARED, ODD_PLACE, SAME_RESULT, ALL_READ_RESULT, SOME_BARRIER, SOME_SHUFFLE, EARLY_END, FAULTS };
static const char *const names[] = {"none", "no barrier", "beyond the arena", "beyond shared memory", "an odd place", "two blocks at one result",
                                    "a result that others read", "a barrier that some miss", "a shuffle that some miss", "an early end"};
static int plant;

static int32_t *cell(int i) { return (int32_t *)(void *)blu_emu_shared() + i; }

/* Sums of each block's numbers, to one number a block. */
static void sums(const int64_t *args) {
  int thread = blu_emu_thread(0), block = blu_emu_block(0), warp = thread / 32;
  char *arena = (char *)(intptr_t)args[0];
  int32_t *from = (int32_t *)(void *)(arena + args[1]) + block * THREADS + thread, *to = (int32_t *)(void *)(arena + args[2]) + block;
  if (plant == BEYOND_ARENA && thread == 5 && block == 2) from = (int32_t *)(void *)(arena + ARENA);
  if (plant == ODD_PLACE && thread == 5) from = (int32_t *)(void *)(arena + 2);
  if (plant == SAME_RESULT && block == 2) to--;
  blu_emu_access(from, 4, 0, 0, 1);
  int32_t sum = plant == BEYOND_ARENA || plant == ODD_PLACE ? 0 : *from;
  if (plant == EARLY_END && thread == 40) return;
  for (int apart = 16; apart; apart /= 2) {
    if (plant == SOME_SHUFFLE && thread == 7 && apart == 4) continue;
    sum += blu_emu_shuffle(3, -1, sum, apart, 31, 2);
  }
  int32_t *own = cell(plant == BEYOND_SHARED && warp == 2 ? WARPS : warp);
  if (thread % 32 == 0) {
    blu_emu_access(own, 4, 1, 1, 3);
    if (own != cell(WARPS)) *own = sum;
  }
  if (plant != NO_BARRIER && (plant != SOME_BARRIER || thread != 9)) blu_emu_barrier(4);
  sum = 0;
  for (int w = 0; w < WARPS; w++) {
    blu_emu_access(cell(w), 4, 0, 1, 5);
    sum += *cell(w);
  }
  if (plant == ALL_READ_RESULT) blu_emu_access(to, 4, 0, 0, 6);
  if (thread) return;
  blu_emu_access(to, 4, 1, 0, 7);
  *to = sum;
}

int main(void) {
  const BluDeviceLaunch launch = {.function = "sums", .grid = {BLOCKS, 1, 1}, .block = {THREADS, 1, 1}, .shared_bytes = 4 * WARPS};
  char *arena = aligned_alloc(64, ARENA + 64);
  int failures = 0;
  for (plant = NONE; plant < FAULTS; plant++) {
    int64_t args[] = {(int64_t)(intptr_t)arena, 0, RESULT};
    memset(arena, 0, ARENA);
    for (int i = 0; i < BLOCKS * THREADS; i++) ((int32_t *)(void *)arena)[i] = i;
    bool good = device_run(&launch, sums, true, args, ARENA), right = true;
    for (int b = 0; b < BLOCKS; b++) right &= ((int32_t *)(void *)(arena + RESULT))[b] == THREADS * b * THREADS + THREADS * (THREADS - 1) / 2;
    if (plant == NONE ? good && right : !good) continue;
    printf("FAILED: %s: %s, %s\n", names[plant], good ? "nothing seen" : "a fault seen", right ? "sums are right" : "sums are wrong");
    failures++;
  }
  free(arena);
  printf("%d faults planted, %d failures\n", FAULTS - 1, failures);
  return failures != 0;
}
