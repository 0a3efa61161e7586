/* strided.c - parts of tensors: see kernel.h. */
#include "passes/kernel.h"
#include "passes_internal.h"

static void contiguous(const BluType *t, int64_t *stride) {
  int64_t n = 1;
  for (int d = t->rank - 1; d >= 0; n *= t->dim[d--]) stride[d] = n;
}

/* The dimensions that have more than one element: which they are. */
static int many(const BluType *t, int *which) {
  int n = 0;
  for (int d = 0; d < t->rank; d++)
    if (t->dim[d] != 1) which[n++] = d;
  return n;
}

/* The strides of the same elements under other dimensions; false: there are none. Dimensions are matched in groups with equal products, and those of
 * `from` in a group must lie as one dimension would. */
static bool reshaped(const BluType *from, const int64_t *stride, const BluType *to, int64_t *result) {
  int f[BLU_MAX_RANK], t[BLU_MAX_RANK], nf = many(from, f), nt = many(to, t), i = 0, j = 0;
  if (!blu_type_count(from)) return false;
  for (int d = 0; d < to->rank; d++) result[d] = 0;
  while (i < nf && j < nt) {
    int i0 = i, j0 = j;
    int64_t n = from->dim[f[i++]], m = to->dim[t[j++]];
    while (n != m) {
      if (n < m) n *= from->dim[f[i++]];
      else m *= to->dim[t[j++]];
    }
    for (int k = i0; k + 1 < i; k++)
      if (stride[f[k]] != from->dim[f[k + 1]] * stride[f[k + 1]]) return false;
    int64_t step = stride[f[i - 1]];
    for (int k = j - 1; k >= j0; step *= to->dim[t[k--]]) result[t[k]] = step;
  }
  return true;
}

bool blu_is_strided(MlirOperation op) {
  return blu_is(op, "transpose") || blu_is(op, "reshape") || blu_is(op, "slice") || blu_is_widening(op);
}

bool blu_strided_part(MlirValue v, MlirValue whole, BluStrided *s) {
  BluType t = blu_value_type(v);
  MlirOperation d = blu_def(v);
  if (mlirValueIsNull(whole) ? mlirOperationIsNull(d) : mlirValueEqual(v, whole)) {
    s->whole = v, s->offset = 0;
    contiguous(&t, s->stride);
    return true;
  }
  BluStrided from;
  if (mlirOperationIsNull(d) || !blu_is_strided(d) || !blu_strided_part(mlirOperationGetOperand(d, 0), whole, &from)) return false;
  BluSig sig;
  blu_sig_of(d, &sig);
  *s = from;
  if (blu_is(d, "reshape")) return reshaped(&sig.in[0], from.stride, &sig.out, s->stride);
  const BluAttr *perm = blu_attr(&sig.attrs, "perm"), *start = blu_attr(&sig.attrs, "start"), *step = blu_attr(&sig.attrs, "step");
  for (int i = 0; i < t.rank; i++) {
    if (blu_is(d, "transpose")) s->stride[i] = from.stride[perm->i[i]];
    if (blu_is(d, "slice")) s->offset += start->i[i] * from.stride[i], s->stride[i] *= step ? step->i[i] : 1;
  }
  return true;
}

/* As blu_strided_place, where `at` is a part of `whole` that lies as s says. */
static bool find(MlirValue v, MlirValue at, BluStrided *s) {
  if (mlirValueEqual(v, at)) return true;
  MlirOperation d = blu_def(at);
  if (mlirOperationIsNull(d)) return false;
  BluSig sig;
  blu_sig_of(d, &sig);
  BluStrided from = *s;
  if (blu_is(d, "reshape")) {
    if (!reshaped(&sig.out, s->stride, &sig.in[0], from.stride)) return false;
  } else if (blu_is(d, "transpose")) {
    const BluAttr *perm = blu_attr(&sig.attrs, "perm");
    for (int i = 0; i < sig.out.rank; i++) from.stride[perm->i[i]] = s->stride[i];
  } else if (blu_is(d, "concat")) {
    int64_t axis = blu_attr_int(&sig.attrs, "axis", 0);
    if (axis < 0) axis += sig.out.rank;
    for (int i = 0; i < sig.nin; i++) {
      BluStrided part = from;
      if (find(v, mlirOperationGetOperand(d, i), &part)) return *s = part, true;
      from.offset += sig.in[i].dim[axis] * s->stride[axis];
    }
    return false;
  } else {
    return false;
  }
  return find(v, mlirOperationGetOperand(d, 0), &from) && (*s = from, true);
}

bool blu_strided_place(MlirValue v, MlirValue whole, BluStrided *s) {
  BluType t = blu_value_type(whole);
  *s = (BluStrided){.whole = whole};
  contiguous(&t, s->stride);
  return find(v, whole, s);
}
