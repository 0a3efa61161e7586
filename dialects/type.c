/* type.c - tensor types and op attributes as plain C values, and their way to MLIR and back. */
#include <stdio.h>
#include <string.h>
#include "dialects_internal.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"

static const struct { const char *name; int bytes; bool is_float; } elems[BLU_ELEMS] = {
  [BLU_F32] = {"f32", 4, true}, [BLU_F64] = {"f64", 8, true}, [BLU_BF16] = {"bf16", 2, true}, [BLU_F16] = {"f16", 2, true},
  [BLU_SIM] = {"float", 4, true}, [BLU_I32] = {"i32", 4, false},
  [BLU_I64] = {"i64", 8, false}, [BLU_U8] = {"u8", 1, false}, [BLU_BOOL] = {"bool", 1, false}};

const char *blu_elem_name(BluElem e) { return elems[e].name; }
bool blu_elem_is_float(BluElem e) { return elems[e].is_float; }
bool blu_elem_is_half(BluElem e) { return e == BLU_BF16 || e == BLU_F16 || e == BLU_SIM; }
BluElem blu_elem_compute(BluElem e) { return blu_elem_is_half(e) ? BLU_F32 : e; }
int blu_elem_bytes(BluElem e) { return elems[e].bytes; }

bool blu_elem_parse(const char *name, BluElem *e) {
  for (int i = 0; i < BLU_ELEMS; i++)
    if (i != BLU_SIM && !strcmp(elems[i].name, name)) return *e = (BluElem)i, true;
  return false;
}

BluType blu_type_make(BluElem e, int rank, const int64_t *dim) {
  BluType t = {.elem = e, .rank = rank};
  if (rank) memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
  return t;
}

int64_t blu_type_count(const BluType *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dim[i];
  return n;
}

bool blu_type_same(const BluType *a, const BluType *b) {
  if (a->elem != b->elem || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

char *blu_type_print(const BluType *t, char *buf, size_t size) {
  size_t n = (size_t)snprintf(buf, size, "%s", elems[t->elem].name);
  for (int i = 0; i < t->rank && n < size; i++) {
    const char *before = i ? ", " : "[";
    n += (size_t)(t->name[i] ? snprintf(buf + n, size - n, "%s%s = %lld", before, t->name[i], (long long)t->dim[i])
                             : snprintf(buf + n, size - n, "%s%lld", before, (long long)t->dim[i]));
  }
  if (t->rank && n < size) snprintf(buf + n, size - n, "]");
  return buf;
}

static MlirType elem_to_mlir(MlirContext ctx, BluElem e) {
  switch (e) {
  case BLU_F32: return mlirF32TypeGet(ctx);
  case BLU_F64: return mlirF64TypeGet(ctx);
  case BLU_BF16: return mlirBF16TypeGet(ctx);
  case BLU_F16: return mlirF16TypeGet(ctx);
  case BLU_SIM: return mlirTF32TypeGet(ctx);
  case BLU_I32: return mlirIntegerTypeGet(ctx, 32);
  case BLU_I64: return mlirIntegerTypeGet(ctx, 64);
  case BLU_U8: return mlirIntegerTypeUnsignedGet(ctx, 8);
  default: return mlirIntegerTypeGet(ctx, 1);
  }
}

static bool elem_from_mlir(MlirType t, BluElem *e) {
  if (mlirTypeIsAF32(t)) return *e = BLU_F32, true;
  if (mlirTypeIsAF64(t)) return *e = BLU_F64, true;
  if (mlirTypeIsABF16(t)) return *e = BLU_BF16, true;
  if (mlirTypeIsAF16(t)) return *e = BLU_F16, true;
  if (mlirTypeIsATF32(t)) return *e = BLU_SIM, true;
  if (!mlirTypeIsAInteger(t)) return false;
  unsigned width = mlirIntegerTypeGetWidth(t);
  if (mlirIntegerTypeIsUnsigned(t)) return *e = BLU_U8, width == 8;
  *e = width == 32 ? BLU_I32 : width == 64 ? BLU_I64 : BLU_BOOL;
  return mlirIntegerTypeIsSignless(t) && (width == 1 || width == 32 || width == 64);
}

MlirType blu_type_to_mlir(MlirContext ctx, const BluType *t) {
  return mlirRankedTensorTypeGet(t->rank, t->dim, elem_to_mlir(ctx, t->elem), mlirAttributeGetNull());
}

bool blu_type_from_mlir(MlirType type, BluType *out) {
  BluType t = {0};
  MlirType elem;
  t.rank = blu_shim_tensor(type, BLU_MAX_RANK, t.dim, &elem);
  if (t.rank < 0 || !elem_from_mlir(elem, &t.elem)) return false;
  return *out = t, true;
}

BluType blu_value_type(MlirValue v) {
  BluType t = {0};
  blu_type_from_mlir(mlirValueGetType(v), &t);
  return t;
}

/* ---- attributes ---- */

const BluAttr *blu_attr(const BluAttrs *as, const char *name) {
  for (int i = 0; i < as->n; i++)
    if (!strcmp(as->a[i].name, name)) return &as->a[i];
  return NULL;
}

int64_t blu_attr_int(const BluAttrs *as, const char *name, int64_t absent) {
  const BluAttr *a = blu_attr(as, name);
  return a ? a->i[0] : absent;
}

double blu_attr_real(const BluAttrs *as, const char *name, double absent) {
  const BluAttr *a = blu_attr(as, name);
  return a ? a->real : absent;
}

static BluAttrs attr_set(BluAttrs as, BluAttr a) {
  for (int i = 0; i < as.n; i++)
    if (!strcmp(as.a[i].name, a.name)) return as.a[i] = a, as;
  if (as.n < BLU_MAX_ATTRS) as.a[as.n++] = a;
  return as;
}

BluAttrs blu_attr_set_int(BluAttrs as, const char *name, int64_t v) {
  return attr_set(as, (BluAttr){.name = name, .kind = BLU_ATTR_INT, .i = {v}});
}
BluAttrs blu_attr_set_ints(BluAttrs as, const char *name, int n, const int64_t *v) {
  BluAttr a = {.name = name, .kind = BLU_ATTR_INTS, .n = n};
  if (n) memcpy(a.i, v, (size_t)n * sizeof *v);
  return attr_set(as, a);
}
BluAttrs blu_attr_set_real(BluAttrs as, const char *name, double v) {
  return attr_set(as, (BluAttr){.name = name, .kind = BLU_ATTR_REAL, .real = v});
}
BluAttrs blu_attr_set_bool(BluAttrs as, const char *name, bool v) {
  return attr_set(as, (BluAttr){.name = name, .kind = BLU_ATTR_BOOL, .i = {v}});
}
BluAttrs blu_attr_set_type(BluAttrs as, const char *name, BluElem v) {
  return attr_set(as, (BluAttr){.name = name, .kind = BLU_ATTR_TYPE, .i = {v}});
}

MlirAttribute blu_attr_to_mlir(MlirContext ctx, const BluAttr *a) {
  switch (a->kind) {
  case BLU_ATTR_INT: return mlirIntegerAttrGet(mlirIntegerTypeGet(ctx, 64), a->i[0]);
  case BLU_ATTR_INTS: return mlirDenseI64ArrayGet(ctx, a->n, a->i);
  case BLU_ATTR_REAL: return mlirFloatAttrDoubleGet(ctx, mlirF64TypeGet(ctx), a->real);
  case BLU_ATTR_BOOL: return mlirBoolAttrGet(ctx, a->i[0] != 0);
  case BLU_ATTR_TYPE: return mlirTypeAttrGet(elem_to_mlir(ctx, (BluElem)a->i[0]));
  default: return mlirStringAttrGet(ctx, mlirStringRefCreateFromCString(a->str));
  }
}

bool blu_attr_from_mlir(const BluAttrInfo *info, MlirAttribute m, BluAttr *a) {
  *a = (BluAttr){.name = info->name, .kind = info->kind};
  BluElem e;
  switch (info->kind) {
  case BLU_ATTR_INT:
    if (!mlirAttributeIsAInteger(m)) return false;
    return a->i[0] = mlirIntegerAttrGetValueInt(m), true;
  case BLU_ATTR_INTS:
    if (!mlirAttributeIsADenseI64Array(m) || mlirDenseArrayGetNumElements(m) > BLU_MAX_RANK) return false;
    a->n = (int)mlirDenseArrayGetNumElements(m);
    for (int i = 0; i < a->n; i++) a->i[i] = mlirDenseI64ArrayGetElement(m, i);
    return true;
  case BLU_ATTR_REAL:
    if (!mlirAttributeIsAFloat(m)) return false;
    return a->real = mlirFloatAttrGetValueDouble(m), true;
  case BLU_ATTR_BOOL:
    if (!mlirAttributeIsABool(m)) return false;
    return a->i[0] = mlirBoolAttrGetValue(m), true;
  case BLU_ATTR_TYPE:
    if (!mlirAttributeIsAType(m) || !elem_from_mlir(mlirTypeAttrGetValue(m), &e)) return false;
    return a->i[0] = e, true;
  case BLU_ATTR_STRING:
    if (!mlirAttributeIsAString(m)) return false;
    return a->str = mlirStringAttrGetValue(m).data, true;
  }
  return false;
}
