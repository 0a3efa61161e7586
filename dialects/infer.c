/* infer.c - judging the use of an op: what holds for all ops, and what the rules share. The same code serves the front end
 * (types with names) and MLIR's verifier. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "dialects/format.h"
#include "dialects_internal.h"

bool blu_refuse(BluWhy *why, const char *label, int operand, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  why->label = label;
  why->operand = operand;
  vsnprintf(why->text, sizeof why->text, format, ap);
  va_end(ap);
  return false;
}

static const BluAttrInfo *attr_info(const BluOp *op, const char *name) {
  for (int i = 0; i < op->nattr; i++)
    if (!strcmp(op->attr[i].name, name)) return &op->attr[i];
  return NULL;
}

/* Axes count from the end when negative; from here on they don't. */
static bool wrap_axes(BluSig *s, BluWhy *why) {
  for (int i = 0; i < s->attrs.n; i++) {
    BluAttr *a = &s->attrs.a[i];
    if (strcmp(a->name, "axis") || !s->nin) continue;
    int rank = s->in[0].rank, n = a->kind == BLU_ATTR_INTS ? a->n : 1;
    for (int k = 0; k < n; k++) {
      if (a->i[k] < -rank || a->i[k] >= rank)
        return blu_refuse(why, "axis-in-range", 0, "axis %lld is outside of a tensor of rank %d", (long long)a->i[k], rank);
      if (a->i[k] < 0) a->i[k] += rank;
      for (int j = 0; j < k; j++)
        if (a->i[j] == a->i[k]) return blu_refuse(why, "axis-once", 0, "axis %lld is named twice", (long long)a->i[k]);
    }
  }
  return true;
}

static bool is_bounded(int n, const int64_t *dim, BluWhy *why) {
  __int128 count = 1;
  for (int i = 0; i < n; i++) {
    count *= dim[i];
    if (count > ((__int128)1 << 48)) return blu_refuse(why, "size-bounded", -1, "a tensor of more than 2^48 elements");
  }
  return true;
}

static bool shape_attr_fits(const BluSig *s, BluWhy *why) {
  const BluAttr *a = blu_attr(&s->attrs, "shape");
  for (int i = 0; a && i < a->n; i++)
    if (a->i[i] < 0) return blu_refuse(why, "size-positive", -1, "dimension %d has the size %lld", i, (long long)a->i[i]);
  return !a || is_bounded(a->n, a->i, why);
}

bool blu_infer(const BluOp *op, BluSig *s, BluWhy *why) {
  if (op->nin >= 0 && s->nin != op->nin)
    return blu_refuse(why, "operand-count", -1, "%s takes %d operand%s, not %d", op->name, op->nin, op->nin == 1 ? "" : "s",
        s->nin);
  for (int i = 0; i < s->attrs.n; i++) {
    const BluAttrInfo *info = attr_info(op, s->attrs.a[i].name);
    if (!info) return blu_refuse(why, "attribute-known", -1, "%s has no attribute %s", op->name, s->attrs.a[i].name);
    if (info->kind != s->attrs.a[i].kind)
      return blu_refuse(why, "attribute-kind", -1, "%s: attribute %s is of another kind", op->name, info->name);
  }
  for (int i = 0; i < op->nattr; i++)
    if (!op->attr[i].optional && !blu_attr(&s->attrs, op->attr[i].name))
      return blu_refuse(why, "attribute-given", -1, "%s needs the attribute %s", op->name, op->attr[i].name);
  if (!wrap_axes(s, why) || !shape_attr_fits(s, why)) return false;
  return op->rule->infer(s, why) && is_bounded(s->out.rank, s->out.dim, why);
}

/* ---- for the rules ---- */

bool blu_require_float(const BluSig *s, BluWhy *why, int operand) {
  if (blu_elem_is_float(s->in[operand].elem)) return true;
  return blu_refuse(why, "float", operand, "expected floating-point elements, found %s", blu_elem_name(s->in[operand].elem));
}

bool blu_require_integer(const BluSig *s, BluWhy *why, int operand) {
  BluElem e = s->in[operand].elem;
  if (e == BLU_I32 || e == BLU_I64 || e == BLU_U8) return true;
  return blu_refuse(why, "integer", operand, "expected integers, found %s", blu_elem_name(e));
}

/* Same element type and sizes; where only one of two operands knows the name of a dimension, the result takes it. */
bool blu_infer_same(BluSig *s, BluWhy *why) {
  s->out = s->in[0];
  char a[200], b[200];
  for (int k = 1; k < s->nin; k++) {
    if (s->in[k].elem != s->in[0].elem)
      return blu_refuse(why, "same-type", k, "operands have different element types: %s and %s",
                        blu_type_print(&s->in[0], a, sizeof a), blu_type_print(&s->in[k], b, sizeof b));
    if (!blu_type_same(&s->in[k], &s->in[0]))
      return blu_refuse(why, "same-shape", k, "operands have different shapes: %s and %s",
                        blu_type_print(&s->in[0], a, sizeof a), blu_type_print(&s->in[k], b, sizeof b));
    for (int i = 0; i < s->out.rank; i++) {
      if (!s->out.name[i]) s->out.name[i] = s->in[k].name[i];
      s->out.unit[i] &= s->in[k].unit[i];
    }
  }
  return true;
}

int64_t blu_axis(const BluSig *s, const char *name, int64_t absent) {
  int64_t a = blu_attr_int(&s->attrs, name, absent);
  return a < 0 ? a + s->in[0].rank : a;
}

uint32_t blu_axes(const BluSig *s) {
  const BluAttr *a = blu_attr(&s->attrs, "axis");
  if (!a) return (1u << s->in[0].rank) - 1;
  uint32_t set = 0;
  for (int i = 0; i < a->n; i++) set |= 1u << (a->i[i] < 0 ? a->i[i] + s->in[0].rank : a->i[i]);
  return set;
}

int64_t blu_index_in(const BluType *t, const BluType *space, int64_t i) {
  int64_t at = 0, stride = 1;
  for (int d = t->rank - 1, e = space->rank - 1; e >= 0; d--, e--) {
    int64_t c = i % space->dim[e];
    i /= space->dim[e];
    if (d < 0) break;
    if (t->dim[d] != 1) at += c * stride;
    stride *= t->dim[d];
  }
  return at;
}

double blu_rounded(BluElem e, double v) { return blu_elem_round(blu_elem_compute(e), v); }

void blu_coordinates(const BluType *t, int64_t i, int64_t *at) {
  for (int d = t->rank - 1; d >= 0; i /= t->dim[d--]) at[d] = i % t->dim[d];
}

int64_t blu_linear(const BluType *t, const int64_t *at) {
  int64_t i = 0;
  for (int d = 0; d < t->rank; d++) i = i * t->dim[d] + at[d];
  return i;
}

/* ---- the verifier ---- */

bool blu_verify(MlirOperation m, char *why_text, size_t size) {
  const BluOp *op = blu_op_of(m);
  BluSig s = {0};
  BluWhy why = {0};
  if (blu_is(m, "scan")) return blu_scan_verify(m, why_text, size);
  if (!op) return snprintf(why_text, size, "is not in the op table"), false;
  intptr_t nin = mlirOperationGetNumOperands(m);
  if (op->nin < 0) return true; /* any operands, no result: nothing to infer */
  if (nin > BLU_MAX_IN) return snprintf(why_text, size, "has too many operands"), false;
  s.nin = (int)nin;
  for (int i = 0; i < s.nin; i++)
    if (!blu_type_from_mlir(mlirValueGetType(mlirOperationGetOperand(m, i)), &s.in[i]))
      return snprintf(why_text, size, "operand %d is not a tensor of a known element type, fixed shape and rank <= %d", i,
          BLU_MAX_RANK), false;
  for (int i = 0; i < op->nattr; i++) {
    MlirAttribute a = mlirOperationGetAttributeByName(m, mlirStringRefCreateFromCString(op->attr[i].name));
    if (mlirAttributeIsNull(a)) continue;
    if (!blu_attr_from_mlir(&op->attr[i], a, &s.attrs.a[s.attrs.n++]))
      return snprintf(why_text, size, "attribute %s is of a kind that the op doesn't take", op->attr[i].name), false;
  }
  if (!blu_infer(op, &s, &why)) return snprintf(why_text, size, "[%s] %s", why.label, why.text), false;
  BluType out;
  if (!blu_type_from_mlir(mlirValueGetType(mlirOperationGetResult(m, 0)), &out) || !blu_type_same(&out, &s.out)) {
    char expected[200];
    return snprintf(why_text, size, "[result-type] result should be %s", blu_type_print(&s.out, expected, sizeof expected)),
        false;
  }
  return true;
}
