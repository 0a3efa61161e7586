/* ops_effect.c - ops that compute nothing: guard, the border between computing and changing parameters; stop_gradient. */
#include <string.h>
#include "dialects_internal.h"

static bool infer_guard(BluSig *s, BluWhy *why) {
  (void)s, (void)why;
  return true;
}

const BluRule blu_rule_guard = {.kind = BLU_KIND_EFFECT, .infer = infer_guard, .nodiff = true, .cases = (const BluOpCase[]){{0}}};

static void ref_stop_gradient(BluRefCall *c) { memcpy(c->out, c->in[0], (size_t)blu_type_count(&c->sig->out) * sizeof *c->out); }

static MlirValue expand_stop_gradient(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  (void)b, (void)s;
  return in[0];
}

const BluRule blu_rule_stop_gradient = {.kind = BLU_KIND_COMPOSITE, .narrow = true, .infer = blu_infer_same, .ref = ref_stop_gradient,
  .expand = expand_stop_gradient, .nodiff = true,
  .cases = (const BluOpCase[]){ /* integers: differences of floats would see a slope */
    {"%a: tensor<3x5xi32>", "%r = blu.stop_gradient %a : tensor<3x5xi32>", 0, 0, 9}, {0}}};
