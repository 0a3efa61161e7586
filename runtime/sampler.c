/* sampler.c - from logits to a token. All of it is computed in double by the runtime's own exp, so that a seed means the same text everywhere
 * that the logits are the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime_internal.h"

typedef struct { double logit; int64_t id; } Ranked;

static int by_logit(const void *a, const void *b) { /* the greatest first, of equals the lowest id */
  const Ranked *x = a, *y = b;
  if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* How many of the ranked are left by top_k, then by top_p. */
static int64_t leave(const BluSampling *s, const Ranked *ranked, int64_t count) {
  if (s->top_k > 0 && s->top_k < count) {
    int64_t k = s->top_k;
    while (k < count && ranked[k].logit == ranked[s->top_k - 1].logit) k++;
    count = k;
  }
  if (!(s->top_p < 1)) return count;
  double sum = 0, seen = 0;
  for (int64_t i = count - 1; i >= 0; i--) sum += blu_rt_exp((ranked[i].logit - ranked[0].logit) / s->temperature);
  while (count > 1) { /* the least probable go first, while what went is at most 1 - p */
    seen += blu_rt_exp((ranked[count - 1].logit - ranked[0].logit) / s->temperature);
    if (seen / sum > 1 - s->top_p) break;
    count--;
  }
  return count;
}

bool blu_sampling_weights(const BluSampling *s, const double *logit, int64_t count, double *weight) {
  int64_t best = -1;
  for (int64_t i = 0; i < count; i++) {
    if (isnan(logit[i]) || logit[i] == INFINITY) return false;
    if (logit[i] > (best < 0 ? -INFINITY : logit[best])) best = i;
  }
  if (best < 0) return false;
  memset(weight, 0, (size_t)count * sizeof *weight);
  if (!(s->temperature > 0)) return weight[best] = 1, true;
  double greatest = logit[best];
  if (s->top_k > 0 || s->top_p < 1) {
    Ranked *ranked = blu_new(count, sizeof *ranked);
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++)
      if (logit[i] > -INFINITY) ranked[n++] = (Ranked){logit[i], i};
    qsort(ranked, (size_t)n, sizeof *ranked, by_logit);
    n = leave(s, ranked, n);
    for (int64_t i = 0; i < n; i++) weight[ranked[i].id] = blu_rt_exp((ranked[i].logit - greatest) / s->temperature);
    free(ranked);
  } else {
    for (int64_t i = 0; i < count; i++)
      if (logit[i] > -INFINITY) weight[i] = blu_rt_exp((logit[i] - greatest) / s->temperature);
  }
  for (int64_t i = 0; i < count; i++) /* the greatest has weight 1 */
    if (weight[i] < s->min_p) weight[i] = 0;
  return true;
}

int64_t blu_sampling_draw(const double *weight, int64_t count, double u) {
  double sum = 0, seen = 0;
  int64_t last = 0;
  for (int64_t i = 0; i < count; i++) sum += weight[i];
  for (int64_t i = 0; i < count; i++) {
    if (!(weight[i] > 0)) continue;
    seen += weight[last = i];
    if (seen > u * sum) break;
  }
  return last;
}

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014; number n of the sequence of a seed that is mixed
 * itself, so that neighbouring seeds share nothing. */
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

double blu_sampling_uniform(int64_t seed, int64_t number) {
  const uint64_t gamma = 0x9e3779b97f4a7c15u;
  uint64_t start = mix((uint64_t)seed + gamma);
  return (double)(mix(start + gamma * (uint64_t)(number + 1)) >> 11) * 0x1p-53;
}
