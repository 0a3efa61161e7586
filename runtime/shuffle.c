/* shuffle.c - the order of the examples in an epoch: a permutation of [0, count) that depends on seed and epoch alone.
 *
 * It is computed, not stored: a Feistel network permutes [0, 4^half) >= count, and values outside [0, count) are
 * permuted again until they fall inside (cycle walking), which is a permutation of [0, count). */
#include "runtime_internal.h"

/* The finaliser of splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

enum { ROUNDS = sizeof((BluShuffle){0}).key / sizeof(uint64_t) };

BluShuffle blu_shuffle_make(int64_t count, int64_t seed, int64_t epoch) {
  const uint64_t gamma = 0x9e3779b97f4a7c15u;
  BluShuffle shuffle = {.count = (uint64_t)count, .half = 1};
  while (shuffle.half < 32 && (uint64_t)1 << 2 * shuffle.half < shuffle.count) shuffle.half++;
  shuffle.mask = ((uint64_t)1 << shuffle.half) - 1;
  uint64_t state = mix((uint64_t)seed + gamma) + (uint64_t)epoch;
  for (int i = 0; i < ROUNDS; i++) shuffle.key[i] = mix(mix(state) + gamma * (uint64_t)(i + 1));
  return shuffle;
}

int64_t blu_shuffle_at(const BluShuffle *shuffle, int64_t index) {
  uint64_t x = (uint64_t)index;
  do {
    uint64_t left = x >> shuffle->half, right = x & shuffle->mask;
    for (int i = 0; i < ROUNDS; i++) {
      uint64_t next = left ^ (mix(right + shuffle->key[i]) & shuffle->mask);
      left = right;
      right = next;
    }
    x = left << shuffle->half | right;
  } while (x >= shuffle->count);
  return (int64_t)x;
}
