/* unit.h - the smallest test harness: a failed check prints where and what, and the test goes on; main returns
 * unit_verdict(). Numbers are compared as !(error <= tolerance), so that NaN fails. */
#ifndef BLU_TESTS_UNIT_H
#define BLU_TESTS_UNIT_H
#include <stdio.h>

static int unit_checks, unit_failures;

#define CHECK(condition, ...)                                         \
  do {                                                                \
    unit_checks++;                                                    \
    if (!(condition)) {                                               \
      unit_failures++;                                                \
      printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);          \
      printf(__VA_ARGS__);                                            \
      printf("\n");                                                   \
    }                                                                 \
  } while (0)

static inline int unit_verdict(void) {
  printf("%d checks, %d failures\n", unit_checks, unit_failures);
  return unit_failures || !unit_checks;
}
#endif
