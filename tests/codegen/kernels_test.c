/* kernels_test.c - every kernel against the contract bit for bit, and against the references within each op's tolerance. */
#include <stdio.h>
#include "cases.h"

int main(void) {
  Setting set;
  harness_start(&set);
  BluCpu native;
  blu_cpu_parse("native", &native);
  for (int level = 2; level <= native.level; level++) {
    char name[16];
    snprintf(name, sizeof name, "v%d", level);
    blu_cpu_parse(name, &set.cpu);
    int before = harness_programs;
    cases_check(set);
    printf("x86-64-%s: %d programs\n", name, harness_programs - before);
  }
  mlirContextDestroy(set.ctx);
  printf("%d programs, %d failures\n", harness_programs, harness_failures);
  return harness_failures || !harness_programs;
}
