/* table.c - the passes by name, in the order in which the compiler runs them (codegen/driver.c). */
#include <string.h>
#include "passes/passes.h"

const BluPass blu_passes[] = {
  {"bounds", "find the range that a loss demands of labels, and note it at the data", blu_pass_bounds},
  {"differentiate", "append the gradient of the loss to the train function", blu_pass_differentiate},
  {"step", "join gradient, clipping and optimizer to one train step", blu_pass_step},
  {"simplify", "exact identities, common subexpressions, dead code", blu_pass_simplify},
  {"expand", "write composites as primitives", blu_pass_expand},
  {"formats", "make numbers of a simulated format f32 that is rounded", blu_pass_formats},
  {"fuse", "group ops to kernels", blu_pass_fuse},
  {"plan", "give every value its place in the arena", blu_pass_plan},
  {NULL, NULL, NULL},
};

const BluPass *blu_pass_find(const char *name) {
  for (const BluPass *p = blu_passes; p->name; p++)
    if (!strcmp(p->name, name)) return p;
  return NULL;
}
