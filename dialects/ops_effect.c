/* ops_effect.c - guard: the border between computing and changing parameters. */
#include "dialects_internal.h"

static bool infer_guard(BluSig *s, BluWhy *why) {
  (void)s, (void)why;
  return true;
}

const BluRule blu_rule_guard = {.kind = BLU_KIND_EFFECT, .infer = infer_guard, .nodiff = true, .cases = (const BluOpCase[]){{0}}};
