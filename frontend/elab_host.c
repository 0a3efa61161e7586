/* elab_host.c - host scalars: expressions over `run` values and `step`, computed in f64 once per run of a function.
 * They are kept as trees, so that modules and optimizers can hold them, and become ops where a function uses them. */
#include <string.h>
#include "elab_internal.h"

struct BluHost {
  enum { HOST_SLOT, HOST_CONST, HOST_OP } kind;
  bool is_bool;
  BluSlot *slot;
  double value;
  const BluOp *op;
  int n;
  BluHost *in[BLU_MAX_IN];
  BluSpan at;
  int build;         /* function that `emitted` belongs to */
  MlirValue emitted;
};

static BluHost *host_make(BluElab *E, BluHost h) {
  BluHost *p = blu_arena_alloc(E->arena, sizeof *p);
  *p = h;
  return p;
}

BluVal blu_host_slot(BluElab *E, BluSlot *slot) {
  BluHost h = {.kind = HOST_SLOT, .slot = slot, .at = slot->span};
  return (BluVal){.kind = VAL_HOST, .u.host = host_make(E, h)};
}

bool blu_host_is_bool(const BluHost *h) { return h->is_bool; }

bool blu_host_uses_step(const BluHost *h) {
  if (h->kind == HOST_SLOT) return h->slot->role == SLOT_STEP;
  for (int i = 0; i < h->n; i++)
    if (blu_host_uses_step(h->in[i])) return true;
  return false;
}

/* A number, condition or host value as a host expression; NULL for anything else. */
static BluHost *host_of(BluElab *E, const BluOperand *v) {
  double x;
  if (v->val.kind == VAL_HOST) return v->val.u.host;
  if (v->val.kind == VAL_BOOL)
    return host_make(E, (BluHost){.kind = HOST_CONST, .is_bool = true, .value = v->val.u.b, .at = v->span});
  if (blu_val_number(&v->val, &x)) return host_make(E, (BluHost){.kind = HOST_CONST, .value = x, .at = v->span});
  return NULL;
}

static BluType scalar_type(const BluHost *h) { return blu_type_make(h->is_bool ? BLU_BOOL : BLU_F64, 0, NULL); }

BluVal blu_host_apply(BluElab *E, const BluOp *op, const BluOperand *in, int n, BluSpan at) {
  BluHost h = {.kind = HOST_OP, .op = op, .n = n, .at = at};
  BluSig s = {.nin = n};
  for (int i = 0; i < n; i++) {
    h.in[i] = host_of(E, &in[i]);
    if (!h.in[i]) {
      blu_elab_error(E, BLU_E_KIND, in[i].span, "`%s` of numbers of the run needs a number here, not %s",
                     blu_op_text(op), blu_val_describe(E, &in[i].val));
      return blu_val_unknown;
    }
    s.in[i] = scalar_type(h.in[i]);
  }
  BluWhy why = {.operand = -1};
  if (!blu_infer(op, &s, &why)) {
    BluSpan blame = why.operand >= 0 && why.operand < n ? in[why.operand].span : at;
    blu_elab_error(E, BLU_E_OP, blame, "`%s`: %s [%s]", blu_op_text(op), why.text, why.label);
    return blu_val_unknown;
  }
  h.is_bool = s.out.elem == BLU_BOOL;
  return (BluVal){.kind = VAL_HOST, .u.host = host_make(E, h)};
}

static MlirValue emit(BluElab *E, BluHost *h) {
  if (h->build == E->build->id) return h->emitted;
  MlirValue v, in[BLU_MAX_IN];
  BluType t = scalar_type(h);
  if (h->kind == HOST_SLOT) {
    v = blu_build_slot(E, h->slot);
  } else {
    for (int i = 0; i < h->n; i++) in[i] = emit(E, h->in[i]);
    blu_build_at(E, h->at);
    v = h->kind == HOST_CONST ? blu_constant(&E->build->b, &t, h->value)
                              : blu_build(&E->build->b, h->op->name, NULL, h->n, in);
  }
  h->build = E->build->id;
  return h->emitted = v;
}

/* Once per function: it stands before the scans whose bodies use it. */
MlirValue blu_host_emit(BluElab *E, BluHost *h) {
  BluBuild *here = E->build;
  E->build = blu_build_root(E);
  MlirValue v = emit(E, h);
  E->build = here;
  return v;
}

bool blu_host_scalar(BluElab *E, const BluOperand *v, MlirValue *out) {
  if (v->val.kind == VAL_UNKNOWN) return false;
  BluHost *h = host_of(E, v);
  if (!h || h->is_bool) {
    BluDiag *d =
        blu_elab_error(E, BLU_E_KIND, v->span, "a number is needed here, not %s", blu_val_describe(E, &v->val));
    blu_diag_help(d, "settings are made from numbers, `run` values and `step`");
    return false;
  }
  *out = blu_host_emit(E, h);
  return true;
}
