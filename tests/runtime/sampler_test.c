/* sampler_test.c - which tokens are left by temperature, top-k, top-p and min-p, against values computed by hand from their definitions; and
 * that draws follow the weights. */
#include <math.h>
#include <stdlib.h>

#include "runtime_internal.h"
#include "unit.h"

enum { MOST = 6 };

/* Weights relative to the greatest. In double, exp to 1e-15 and a few roundings: 1e-14 is far above, and far below what a mistake gives. */
static void weighs(const char *what, BluSampling sampling, int64_t count, const double *logit, const double *wanted) {
  double weight[MOST];
  CHECK(blu_sampling_weights(&sampling, logit, count, weight), "%s", what);
  for (int64_t i = 0; i < count; i++) {
    CHECK(!wanted[i] == !weight[i], "%s: weight %lld is %.17g, not %.17g", what, (long long)i, weight[i], wanted[i]);
    CHECK(fabs(weight[i] - wanted[i]) <= 1e-14, "%s: weight %lld is %.17g, not %.17g", what, (long long)i, weight[i], wanted[i]);
  }
}

#define WEIGHS(what, sampling, logit, ...) \
  weighs(what, (BluSampling)sampling, sizeof logit / sizeof *logit, logit, (const double[]){__VA_ARGS__})
#define S(temperature, top_k, top_p, min_p) {temperature, top_k, top_p, min_p}

static void check_weights(void) {
  /* probabilities 0.15, 0.5, 0.1, 0.25; the greatest is 0.5 */
  const double p[] = {log(0.15), log(0.5), log(0.1), log(0.25)};
  WEIGHS("as they are", S(1, 0, 1, 0), p, 0.3, 1, 0.2, 0.5);
  WEIGHS("temperature 0.5", S(0.5, 0, 1, 0), p, 0.09, 1, 0.04, 0.25);
  WEIGHS("temperature 2", S(2, 0, 1, 0), p, 0.5477225575051661, 1, 0.4472135954999579, 0.7071067811865476);
  WEIGHS("temperature 0", S(0, 0, 1, 0), p, 0, 1, 0, 0);
  WEIGHS("temperature 0 and all else", S(0, 3, 0.5, 0.1), p, 0, 1, 0, 0);
  WEIGHS("top_k 1", S(1, 1, 1, 0), p, 0, 1, 0, 0);
  WEIGHS("top_k 3", S(1, 3, 1, 0), p, 0.3, 1, 0, 0.5);
  WEIGHS("top_k 4", S(1, 4, 1, 0), p, 0.3, 1, 0.2, 0.5);
  WEIGHS("top_k 100", S(1, 100, 1, 0), p, 0.3, 1, 0.2, 0.5);
  /* sums of the least probable: 0.1, 0.25, 0.5, 1; left out while they are at most 1 - p */
  WEIGHS("top_p 0.95", S(1, 0, 0.95, 0), p, 0.3, 1, 0.2, 0.5);
  WEIGHS("top_p 0.88", S(1, 0, 0.88, 0), p, 0.3, 1, 0, 0.5);
  WEIGHS("top_p 0.76", S(1, 0, 0.76, 0), p, 0.3, 1, 0, 0.5);
  WEIGHS("top_p 0.74", S(1, 0, 0.74, 0), p, 0, 1, 0, 0.5);
  WEIGHS("top_p 0.51", S(1, 0, 0.51, 0), p, 0, 1, 0, 0.5);
  WEIGHS("top_p 0.49", S(1, 0, 0.49, 0), p, 0, 1, 0, 0);
  WEIGHS("top_p 0", S(1, 0, 0, 0), p, 0, 1, 0, 0);
  WEIGHS("min_p 0.1", S(1, 0, 1, 0.1), p, 0.3, 1, 0.2, 0.5);
  WEIGHS("min_p 0.25", S(1, 0, 1, 0.25), p, 0.3, 1, 0, 0.5);
  WEIGHS("min_p 0.4", S(1, 0, 1, 0.4), p, 0, 1, 0, 0.5);
  WEIGHS("min_p 1", S(1, 0, 1, 1), p, 0, 1, 0, 0);
  /* top_k 3 leaves 0.15, 0.5, 0.25 of 0.9: sums of the least probable 0.167, 0.444, 1 */
  WEIGHS("top_k 3, top_p 0.6", S(1, 3, 0.6, 0), p, 0, 1, 0, 0.5);
  WEIGHS("top_k 3, top_p 0.5", S(1, 3, 0.5, 0), p, 0, 1, 0, 0);
  /* the temperature comes first: 0.09, 1, 0.04, 0.25 of 1.38; sums 0.029, 0.094, 0.275, 1 */
  WEIGHS("temperature 0.5, top_p 0.92", S(0.5, 0, 0.92, 0), p, 0.09, 1, 0, 0.25);
  WEIGHS("temperature 0.5, top_p 0.9", S(0.5, 0, 0.9, 0), p, 0, 1, 0, 0.25);
  WEIGHS("temperature 0.5, min_p 0.2", S(0.5, 0, 1, 0.2), p, 0, 1, 0, 0.25);
  /* equals: top_k leaves all that equal the k-th; top_p the lower ids first; temperature 0 the lowest */
  const double same[] = {1, 2, 2, 2};
  WEIGHS("top_k 1 of equals", S(1, 1, 1, 0), same, 0, 1, 1, 1);
  WEIGHS("temperature 0 of equals", S(0, 0, 1, 0), same, 0, 1, 0, 0);
  const double four[] = {7, 7, 7, 7};
  WEIGHS("top_p 0.6 of equals", S(1, 0, 0.6, 0), four, 1, 1, 1, 0);
  /* what is impossible stays so, far apart is far apart */
  const double none[] = {-INFINITY, 0, -INFINITY, 0};
  WEIGHS("impossible ones", S(1, 0, 1, 0), none, 0, 1, 0, 1);
  WEIGHS("impossible ones, top_k 3", S(1, 3, 0.999, 0), none, 0, 1, 0, 1);
  const double far[] = {-1000, 1000, 999};
  WEIGHS("far apart", S(1, 0, 1, 0), far, 0, 1, 0.36787944117144233);
  WEIGHS("a tiny temperature", S(1e-300, 0, 1, 0), far, 0, 1, 0);
}

static void check_refusals(void) {
  BluSampling plain = {.temperature = 1, .top_p = 1}, greedy = {.temperature = 0, .top_p = 1};
  const double bad[][2] = {{NAN, 0}, {0, NAN}, {INFINITY, 0}, {-INFINITY, -INFINITY}};
  double weight[2];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK(!blu_sampling_weights(&plain, bad[i], 2, weight) && !blu_sampling_weights(&greedy, bad[i], 2, weight), "case %d is accepted", (int)i);
}

static void check_draws(void) {
  const double weight[] = {1, 0, 3, 0};
  CHECK(blu_sampling_draw(weight, 4, 0) == 0 && blu_sampling_draw(weight, 4, 0.2499) == 0 && blu_sampling_draw(weight, 4, 0.25) == 2 &&
            blu_sampling_draw(weight, 4, 0.9999999999999999) == 2, "draws");
  enum { DRAWS = 100000 };
  const double parts[] = {0.5, 0.125, 0, 0.375};
  for (int64_t seed = 0; seed < 5; seed++) {
    int64_t seen[4] = {0};
    for (int64_t i = 0; i < DRAWS; i++) {
      double u = blu_sampling_uniform(seed, i);
      CHECK(u >= 0 && u < 1 && u == blu_sampling_uniform(seed, i), "number %lld of seed %lld is %g", (long long)i, (long long)seed, u);
      seen[blu_sampling_draw(parts, 4, u)]++;
    }
    for (int i = 0; i < 4; i++) { /* five standard deviations: wrong once in a million */
      double off = fabs((double)seen[i] - DRAWS * parts[i]), most = 5 * sqrt(DRAWS * parts[i] * (1 - parts[i]));
      CHECK(off <= most, "seed %lld: id %d was drawn %lld times", (long long)seed, i, (long long)seen[i]);
    }
  }
  CHECK(blu_sampling_uniform(1, 0) != blu_sampling_uniform(2, 0) && blu_sampling_uniform(1, 1) != blu_sampling_uniform(2, 0), "seeds share numbers");
}

int main(void) {
  check_weights();
  check_refusals();
  check_draws();
  return unit_verdict();
}
