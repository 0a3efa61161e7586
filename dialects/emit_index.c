/* emit_index.c - arithmetic on i64 indices for `move`: what is computed here is one element's place, in scalars. */
#include <math.h>
#include "dialects_internal.h"

#define P(p) BLU_PRIM_##p

BluEmitVal blu_emit_int(BluEmit *e, int64_t v) { return e->bits(e, BLU_I64, (uint64_t)v); }

BluEmitVal blu_emit_affine(BluEmit *e, BluEmitVal x, int64_t factor, int64_t offset) {
  if (factor != 1) x = blu_emit2(e, P(IMUL), x, blu_emit_int(e, factor));
  return offset ? blu_emit2(e, P(IADD), x, blu_emit_int(e, offset)) : x;
}

BluEmitVal blu_emit_linear(BluEmit *e, const BluType *t, const BluEmitVal *at) {
  BluEmitVal i = blu_emit_int(e, 0);
  for (int d = 0; d < t->rank; d++) i = blu_emit2(e, P(IADD), d ? blu_emit_affine(e, i, t->dim[d], 0) : i, at[d]);
  return i;
}

BluEmitVal blu_emit_within(BluEmit *e, BluEmitVal x, int64_t size) {
  return blu_emit2(e, P(AND), blu_emit2(e, P(GE), x, blu_emit_int(e, 0)), blu_emit2(e, P(LT), x, blu_emit_int(e, size)));
}

BluEmitVal blu_emit_clamp(BluEmit *e, BluEmitVal x, int64_t size) {
  BluEmitVal zero = blu_emit_int(e, 0), last = blu_emit_int(e, size - 1);
  x = blu_emit3(e, P(SELECT), blu_emit2(e, P(LT), x, zero), zero, x);
  return blu_emit3(e, P(SELECT), blu_emit2(e, P(GT), x, last), last, x);
}

/* In double: exact below 2^52. */
BluEmitVal blu_emit_floor_div(BluEmit *e, BluEmitVal x, int64_t by) {
  if (by == 1) return x;
  BluEmitVal q = blu_emit2(e, P(FDIV), e->prim(e, P(CAST), BLU_F64, x, x, x), e->constant(e, BLU_F64, (double)by));
  q = blu_emit1(e, P(FFLOOR), q);
  return e->prim(e, P(CAST), BLU_I64, q, q, q);
}

BluEmitVal blu_emit_value(BluEmit *e, BluElem t, double v) {
  return blu_elem_is_float(t) ? e->constant(e, t, v) : e->bits(e, t, (uint64_t)(int64_t)v);
}

BluEmitVal blu_emit_no_element(BluEmit *e, BluElem t) { return blu_emit_value(e, t, blu_elem_is_float(t) ? NAN : 0); }

int blu_run_add(BluRun *run, int n, int64_t from, int64_t to, unsigned operands) {
  if (from < to) run[n++] = (BluRun){from, to, operands};
  return n;
}

int64_t blu_row_length(const BluType *t) { return t->rank ? t->dim[t->rank - 1] : 1; }
