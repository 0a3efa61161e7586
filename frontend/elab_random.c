/* elab_random.c - random tensors in the training step: dropout, bernoulli, uniform(lo, hi)(dims), normal(mean, std)(dims).
 * The key is seed + (step + 1) * KEY_STEP; a stream belongs to the path of the instance that calls and to the number of
 * the call within it. So a value depends on nothing else: not on threads, nor on what else the program computes. */
#include <string.h>
#include "elab_internal.h"

/* Odd, and small enough for the product to be exact in a double for the first 2^21 steps: the interpreter has no more. */
#define KEY_STEP 2654435761.0
#define KEY_ITERATION 2246822519.0 /* of a scan; it and the other are coprime, so no two pairs of step and iteration meet */

static BluInstance *instance_of(const BluElab *E) {
  for (const BluScope *s = E->frames ? E->frames->env : NULL; s; s = s->parent)
    if (s->instance) return s->instance;
  return NULL;
}

static bool may_be_random(BluElab *E, BluSpan at) {
  if (E->build && E->build->training) return true;
  BluDiag *d = blu_elab_error(E, E->build ? BLU_E_RANDOM : BLU_E_NO_FUNCTION, at,
                              E->build ? "random numbers are drawn in training, and this is %s"
                                       : "tensors are computed in functions, entries and the `train` block alone%s",
                              !E->build                      ? ""
                              : E->build->kind == BUILD_ENTRY  ? "an entry"
                              : E->build->kind == BUILD_UPDATE ? "an optimizer"
                              : E->build->kind == BUILD_TRAIN  ? "a metric"
                                                               : "evaluation");
  if (E->build) blu_diag_help(d, "put it under `if training { ... }`");
  return false;
}

/* In the body of a scan each iteration has a key of its own. */
static MlirValue key(BluElab *E) {
  BluBuild *f = E->build;
  BluBuilder *b = &f->b;
  if (f->key_made) return f->key;
  BluType t = blu_type_make(BLU_I64, 0, NULL);
  f->key_made = true;
  if (f->outer) {
    E->build = f->outer;
    MlirValue around = key(E);
    E->build = f;
    MlirValue next = blu_build2(b, "add", blu_build_iteration(E), blu_constant(b, &t, 1));
    return f->key = blu_build2(b, "add", around, blu_build2(b, "mul", next, blu_constant(b, &t, KEY_ITERATION)));
  }
  MlirValue seed = blu_build_slot(E, E->seed), step = blu_build_slot(E, E->step);
  step = blu_build2(b, "add", blu_cast_to(b, step, BLU_I64), blu_constant(b, &t, 1));
  return f->key = blu_build2(b, "add", seed, blu_build2(b, "mul", step, blu_constant(b, &t, KEY_STEP)));
}

static int64_t next_stream(BluElab *E) {
  BluInstance *it = instance_of(E);
  int n;
  BluBuild *f = blu_build_root(E); /* bodies of scans go on counting */
  if (it) {
    if (it->random_build != f->id) it->random_build = f->id, it->randoms = 0;
    n = it->randoms++;
  } else {
    n = f->randoms++;
  }
  return blu_elab_stream(blu_arena_print(E->arena, "%s#%d", it && it->path ? it->path : "", n));
}

BluVal blu_elab_random(BluElab *E, const BluInit *init, const BluType *t, BluSpan at) {
  if (!may_be_random(E, at)) return blu_val_unknown;
  blu_build_at(E, at);
  MlirValue k = key(E);
  return blu_val_tensor(E, blu_init_emit(E, init, t, k, next_stream(E)), t);
}

static bool probability(BluElab *E, const BluBuiltin *self, const BluOperand *v, double *p) {
  if (v->val.kind == VAL_UNKNOWN) return false;
  if (blu_val_number(&v->val, p) && *p >= 0 && *p < 1) return true;
  blu_elab_error(E, BLU_E_KIND, v->span, "`%s` needs a probability from 0 to less than 1 here, not %s", self->name,
                 blu_val_describe(E, &v->val));
  return false;
}

BluVal blu_elab_dropout(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  double p;
  if (n != 2 || args[0].name.text || (args[1].name.text && strcmp(args[1].name.text, "p"))) {
    blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s(x, p)` takes a tensor and a probability", self->name);
    return blu_val_unknown;
  }
  BluSig s = {.nin = 2};
  MlirValue in[2];
  if (!probability(E, self, &args[1], &p) || !blu_elab_tensor(E, &args[0], &in[0], &s.in[0])) return blu_val_unknown;
  if (!may_be_random(E, at)) return blu_val_unknown;
  blu_build_at(E, at);
  in[1] = key(E);
  s.in[1] = blu_type_make(BLU_I64, 0, NULL);
  s.attrs = blu_attr_set_real(blu_attr_set_int((BluAttrs){0}, "stream", next_stream(E)), "p", p);
  BluWhy why = {.operand = -1};
  const BluOp *op = blu_op_find("dropout");
  if (!blu_infer(op, &s, &why)) {
    blu_elab_error(E, BLU_E_OP, args[0].span, "`dropout`: %s [%s]", why.text, why.label);
    return blu_val_unknown;
  }
  return blu_val_tensor(E, blu_build(&E->build->b, "dropout", &s.attrs, 2, in), &s.out);
}

BluVal blu_elab_bernoulli(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  double p;
  BluType t = {.elem = BLU_BOOL};
  if (n < 2 || args[0].name.text) {
    blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s(p, dims...)` takes a probability and dimensions", self->name);
    return blu_val_unknown;
  }
  if (!probability(E, self, &args[0], &p) || !blu_elab_dims(E, self->name, args + 1, n - 1, &t) || !may_be_random(E, at))
    return blu_val_unknown;
  blu_build_at(E, at);
  MlirValue k = key(E);
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", t.rank, t.dim);
  as = blu_attr_set_real(blu_attr_set_int(as, "stream", next_stream(E)), "p", p);
  return blu_val_tensor(E, blu_build(&E->build->b, "bernoulli", &as, 1, &k), &t);
}
