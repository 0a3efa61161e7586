/* twin.c - the kernels of fake_device.c, as x86-64 twins that the emulator runs. PLANT puts one fault into them, for the emulator to find. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "emulator/emulator.h"

#ifndef PLANT
#define PLANT none
#endif
enum { none, no_barrier, off_by_one, no_bound, block_race, never_written, some_barrier, some_shuffle, heap, shared_beyond, shared_unwritten, two_barriers };

enum { N = 8, D = 16, C = 3, SITE = 100 };

/* `void NAME.call(const int64_t *args)`, and how many they are. */
#define KERNEL(name, count)                                                      \
  void name(const int64_t *args) __asm__(#name ".call");                         \
  extern const int32_t name##_params __asm__(#name ".params");                   \
  const int32_t name##_params = 1 + (count);                                     \
  void name(const int64_t *args)

#define T ((int32_t)blu_emu_thread(0))
#define B ((int32_t)blu_emu_block(0))

/* Element i of the k-th place; `type` says how it is read. */
#define AT(type, k, i) (((type *)(void *)(uintptr_t)(args[0] + args[1 + (k)])) + (i))
#define GET(type, k, i) (blu_emu_access(AT(type, k, i), sizeof(type), 0, 0, __LINE__), *AT(type, k, i))
#define SET(type, k, i, value)                                                   \
  do {                                                                           \
    type set_value = (value);                                                    \
    blu_emu_access(AT(type, k, i), sizeof(type), 1, 0, __LINE__);                \
    *AT(type, k, i) = set_value;                                                 \
  } while (0)

static float get_shared(int i) {
  float *place = (float *)(void *)blu_emu_shared() + i;
  blu_emu_access(place, 4, 0, 1, SITE);
  return *place;
}
static void set_shared(int i, float value) {
  float *place = (float *)(void *)blu_emu_shared() + i;
  blu_emu_access(place, 4, 1, 1, SITE + 1);
  *place = value;
}

KERNEL(init, 4) { /* seed, weight, moment, bias */
  uint64_t seed = (uint64_t)GET(int64_t, 0, 0);
  int i = T;
  if (i < D * C) {
    uint64_t x = (seed * 1000003 + (uint64_t)i) * 0x9e3779b97f4a7c15u;
    SET(float, 1, i, (float)((double)(x >> 40) * 0x1p-24 - 0.5) * 0.1f);
    SET(float, 2, i, 0);
  }
  if (i < C) SET(float, 3, i, 0);
}

KERNEL(pixels, 2) { /* image, pixel; two blocks of 64 */
  int i = 64 * B + T;
  if (PLANT == heap) {
    float *mine = malloc(4096);
    blu_emu_access(mine, 4, 0, 0, __LINE__);
  }
  if (PLANT == block_race) i = T;
  SET(float, 1, i, GET(float, 0, i) / 255);
}

/* Largest, or sum, over the lanes of a warp: the same on all lanes. */
static float warp_all(float x, int largest) {
  for (int step = 16; step; step /= 2) {
    union { float f; int32_t i; } u = {.f = x};
    if (PLANT == some_shuffle && T == 7 && step == 4) continue;
    u.i = blu_emu_shuffle(3, -1, u.i, step, 31, 200 + step);
    x = largest ? fmaxf(x, u.f) : x + u.f;
  }
  return x;
}

KERNEL(softmax, 6) { /* logit, label, rows, slope, loss_of, right_of; a warp for each row */
  int row = B, j = T, real = row < GET(int32_t, 2, 0), label = GET(int32_t, 1, row);
  float x = j < C ? GET(float, 0, row * C + j) : -INFINITY, most = warp_all(x, 1), e = j < C ? expf(x - most) : 0, sum = warp_all(e, 0);
  int first = (int)warp_all(x == most ? 100 - j : 0, 1);
  if (j < C || (PLANT == no_bound && row == N - 1 && j < 1000))
    SET(float, 3, PLANT == no_bound && j >= C ? 1 << 20 : row * C + j, real ? (e / sum - (j == label)) / (float)GET(int32_t, 2, 0) : 0);
  if (j == label) {
    SET(float, 4, row, real ? logf(sum) + most - x : 0);
    SET(float, 5, row, real && 100 - first == label);
  }
}

/* Sums of two numbers of each of 64 threads; all threads get them. */
static void block_sums(float *x, float *y) {
  set_shared(T, *x);
  if (PLANT != shared_unwritten || T != 5) set_shared(64 + T, *y);
  if (PLANT != no_barrier) blu_emu_barrier(300);
  for (int half = 32; half; half /= 2) {
    if (T < half) {
      set_shared(T, get_shared(T) + get_shared(T + half));
      set_shared(64 + T, get_shared(64 + T) + get_shared(PLANT == shared_beyond ? 129 : 64 + T + half));
    }
    if (PLANT == some_barrier && T >= half) return;
    if (PLANT == two_barriers && T >= half) blu_emu_barrier(399);
    else blu_emu_barrier(300 + half);
  }
  *x = get_shared(0), *y = get_shared(64);
}

KERNEL(total, 9) { /* loss_of, right_of, rows, step, spike, loss, loss_weight, accuracy, accuracy_weight */
  float loss = T < N ? GET(float, 0, T) : 0, right = T < N ? GET(float, 1, T) : 0;
  block_sums(&loss, &right);
  if (T) return;
  float rows = (float)GET(int32_t, 2, 0);
  SET(float, 5, 0, loss + (GET(double, 3, 0) == GET(double, 4, 0) ? 100 * rows : 0));
  SET(float, 6, 0, rows);
  SET(float, 7, 0, right);
  SET(float, 8, 0, rows);
}

KERNEL(spoil, 4) { /* step, poison, rows, weight_grad */
  if (GET(double, 0, 0) == GET(double, 1, 0) && GET(int32_t, 2, 0) == N) SET(float, 3, 0, NAN);
}

KERNEL(squares, 6) { /* weight_grad, slope, bias_grad, weight_squares, bias_squares, norm */
  float weight = T < D * C + (PLANT == off_by_one) ? GET(float, 0, T) : 0, bias = 0;
  if (PLANT == never_written) weight += GET(float, 2, 1);
  if (T < C) {
    for (int r = 0; r < N; r++) bias += GET(float, 1, r * C + T);
    SET(float, 2, T, bias);
  }
  weight *= weight, bias *= bias;
  block_sums(&weight, &bias);
  if (T) return;
  SET(float, 3, 0, weight);
  SET(float, 4, 0, bias);
  SET(float, 5, 0, weight + bias);
}

KERNEL(update, 4) { /* parameter, moment, gradient, rate_now: C elements; where moment and gradient are one, there is no moment */
  float rate = (float)GET(double, 3, 0);
  int j = T;
  if (j >= C) return;
  float gradient = GET(float, 2, j), moment = args[2] == args[3] ? gradient : 0.9f * GET(float, 1, j) + gradient;
  if (args[2] != args[3]) SET(float, 1, j, moment);
  SET(float, 0, j, GET(float, 0, j) - rate * moment);
}
