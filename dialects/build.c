/* build.c - building ops: types are inferred by the rules, so that a builder call is a name and operands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects_internal.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

BluAttrs blu_attrs_of(MlirOperation m) {
  BluAttrs as = {0};
  const BluOp *op = blu_op_of(m);
  for (int i = 0; op && i < op->nattr; i++) {
    MlirAttribute a = mlirOperationGetAttributeByName(m, mlirStringRefCreateFromCString(op->attr[i].name));
    if (!mlirAttributeIsNull(a) && blu_attr_from_mlir(&op->attr[i], a, &as.a[as.n])) as.n++;
  }
  return as;
}

void blu_sig_of(MlirOperation m, BluSig *s) {
  *s = (BluSig){.attrs = blu_attrs_of(m)};
  intptr_t n = mlirOperationGetNumOperands(m);
  s->nin = (int)(n < BLU_MAX_IN ? n : BLU_MAX_IN);
  for (int i = 0; i < s->nin; i++) s->in[i] = blu_value_type(mlirOperationGetOperand(m, i));
  if (mlirOperationGetNumResults(m)) s->out = blu_value_type(mlirOperationGetResult(m, 0));
}

static void internal_error(const char *name, const BluSig *s, const BluWhy *why) {
  char t[200];
  fprintf(stderr, "blu: internal error: cannot build blu.%s: [%s] %s\n", name, why->label, why->text);
  for (int i = 0; i < s->nin; i++) fprintf(stderr, "  operand %d: %s\n", i, blu_type_print(&s->in[i], t, sizeof t));
  abort();
}

MlirValue blu_build(BluBuilder *b, const char *name, const BluAttrs *attrs, int n, const MlirValue *in) {
  const BluOp *op = blu_op_find(name);
  BluSig s = {.nin = n};
  BluWhy why = {.label = "op-known", .text = "no such op"};
  if (attrs) s.attrs = *attrs;
  if (!op) internal_error(name, &(BluSig){0}, &why);
  for (int i = 0; i < n && op->nin >= 0; i++) s.in[i < BLU_MAX_IN ? i : 0] = blu_value_type(in[i]);
  if (op->nin >= 0 && !blu_infer(op, &s, &why)) internal_error(name, &s, &why);

  char full[64];
  snprintf(full, sizeof full, "blu.%s", name);
  MlirOperationState st = mlirOperationStateGet(mlirStringRefCreateFromCString(full), b->loc);
  mlirOperationStateAddOperands(&st, n, in);
  MlirNamedAttribute named[BLU_MAX_ATTRS];
  for (int i = 0; i < s.attrs.n; i++)
    named[i] = mlirNamedAttributeGet(mlirIdentifierGet(b->ctx, mlirStringRefCreateFromCString(s.attrs.a[i].name)),
                                     blu_attr_to_mlir(b->ctx, &s.attrs.a[i]));
  mlirOperationStateAddAttributes(&st, s.attrs.n, named);
  MlirType out = op->nout ? blu_type_to_mlir(b->ctx, &s.out) : (MlirType){0};
  if (op->nout) mlirOperationStateAddResults(&st, 1, &out);
  MlirOperation m = mlirOperationCreate(&st);
  if (mlirOperationIsNull(m)) internal_error(name, &s, &(BluWhy){.label = "create", .text = "MLIR refused it"});
  if (mlirOperationIsNull(b->before)) mlirBlockAppendOwnedOperation(b->block, m);
  else mlirBlockInsertOwnedOperationBefore(b->block, b->before, m);
  return op->nout ? mlirOperationGetResult(m, 0) : (MlirValue){0};
}

MlirValue blu_build1(BluBuilder *b, const char *name, MlirValue x) { return blu_build(b, name, NULL, 1, &x); }

MlirValue blu_build2(BluBuilder *b, const char *name, MlirValue x, MlirValue y) {
  return blu_build(b, name, NULL, 2, (MlirValue[]){x, y});
}

MlirValue blu_constant(BluBuilder *b, const BluType *t, double value) {
  BluAttrs as = blu_attr_set_real((BluAttrs){0}, "value", value);
  as = blu_attr_set_type(as, "elem", t->elem);
  as = blu_attr_set_ints(as, "shape", t->rank, t->dim);
  return blu_build(b, "constant", &as, 0, NULL);
}

MlirValue blu_constant_like(BluBuilder *b, MlirValue like, double value) {
  BluType t = blu_value_type(like);
  return blu_constant(b, &t, value);
}

static bool same_shape(const BluType *a, const BluType *b) {
  return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}

static MlirValue to_shape(BluBuilder *b, const char *name, MlirValue x, const BluType *t) {
  BluType from = blu_value_type(x);
  if (same_shape(&from, t)) return x;
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", t->rank, t->dim);
  return blu_build(b, name, &as, 1, &x);
}

MlirValue blu_broadcast_to(BluBuilder *b, MlirValue x, const BluType *t) { return to_shape(b, "broadcast", x, t); }
MlirValue blu_reshape_to(BluBuilder *b, MlirValue x, const BluType *t) { return to_shape(b, "reshape", x, t); }

MlirValue blu_cast_to(BluBuilder *b, MlirValue x, BluElem e) {
  if (blu_value_type(x).elem == e) return x;
  BluAttrs as = blu_attr_set_type((BluAttrs){0}, "to", e);
  return blu_build(b, "cast", &as, 1, &x);
}

MlirValue blu_reduce(BluBuilder *b, const char *name, MlirValue x, int naxes, const int64_t *axes, bool keep) {
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "axis", naxes, axes);
  if (keep) as = blu_attr_set_bool(as, "keep", true);
  return blu_build(b, name, &as, 1, &x);
}

/* y is replaced by 0 where ct is 0, so that 0 * infinity never happens. */
MlirValue blu_strong_mul(BluBuilder *b, MlirValue ct, MlirValue factor) {
  MlirValue zero = blu_constant_like(b, ct, 0);
  MlirValue used = blu_build2(b, "ne", ct, zero);
  return blu_build2(b, "mul", ct, blu_build(b, "where", NULL, 3, (MlirValue[]){used, factor, zero}));
}
