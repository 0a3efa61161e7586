/* move_test.c - the `move` rules, which say where each element of a result comes from, against the references: for every case of
 * the op table and for every element type, empty operands, sizes of 1, and ids that name nothing. Every load must be inside. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "opcase.h"

static int programs, failures;

/* ---- a BluEmit that computes: numbers as doubles, indices as i64 ---- */

typedef BluEmitVal V;
static bool is_float(BluElem e) { return blu_elem_is_float(e); }
static V real(BluElem e, double x) { return (V){.elem = e, .u.d = e == BLU_F32 ? (float)x : x}; }
static V whole(BluElem e, int64_t i) { return (V){.elem = e, .u.i = e == BLU_BOOL ? i & 1 : e == BLU_U8 ? i & 255 : e == BLU_I32
    ? (int32_t)i : i}; }
static V constant(BluEmit *e, BluElem t, double x) { return (void)e, real(t, x); }
static V bits(BluEmit *e, BluElem t, uint64_t x) { return (void)e, whole(t, (int64_t)x); }
static V no_index(BluEmit *e) { return (void)e, whole(BLU_I64, -1); }

static V prim(BluEmit *e, BluPrim p, BluElem t, V a, V b, V c) {
  (void)e;
  switch (p) {
  case BLU_PRIM_FADD: return real(t, a.u.d + b.u.d);
  case BLU_PRIM_FDIV: return real(t, a.u.d / b.u.d);
  case BLU_PRIM_FFLOOR: return real(t, floor(a.u.d));
  case BLU_PRIM_EQ: return whole(BLU_BOOL, a.u.i == b.u.i);
  case BLU_PRIM_LT: return whole(BLU_BOOL, a.u.i < b.u.i);
  case BLU_PRIM_GT: return whole(BLU_BOOL, a.u.i > b.u.i);
  case BLU_PRIM_GE: return whole(BLU_BOOL, a.u.i >= b.u.i);
  case BLU_PRIM_AND: return whole(t, a.u.i & b.u.i);
  case BLU_PRIM_IADD: return whole(t, a.u.i + b.u.i);
  case BLU_PRIM_IMUL: return whole(t, a.u.i * b.u.i);
  case BLU_PRIM_SELECT: return a.u.i ? b : c;
  case BLU_PRIM_CAST:
    if (is_float(t)) return real(t, is_float(a.elem) ? a.u.d : (double)a.u.i);
    return whole(t, is_float(a.elem) ? (int64_t)a.u.d : a.u.i);
  default: failures++, printf("FAILED: move asks for operation %d, which is not index arithmetic\n", (int)p); return a;
  }
}

typedef struct { const BluSig *sig; double *const *in; const char *name; bool bad; } Loads;

static V load(void *user, int operand, V index) {
  Loads *l = user;
  BluElem e = l->sig->in[operand].elem;
  if (index.elem != BLU_I64 || index.u.i < 0 || index.u.i >= blu_type_count(&l->sig->in[operand])) {
    if (!l->bad) failures++, printf("FAILED %s: reads element %lld of operand %d\n", l->name, (long long)index.u.i, operand);
    l->bad = true;
    return is_float(e) ? real(e, NAN) : whole(e, 0);
  }
  double x = l->in[operand][index.u.i];
  return is_float(e) ? real(e, x) : whole(e, (int64_t)x);
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* The op with operands of random numbers in [lo, hi]; ids of IDS lie around [0, ids). */
static void check(const BluOp *op, const BluSig *s, double lo, double hi, int ids) {
  BluEmit emit = {prim, constant, bits, no_index};
  double *in[BLU_MAX_IN], *right = calloc((size_t)blu_type_count(&s->out) + 1, sizeof *right);
  BluRefCall call = {.sig = s, .out = right};
  programs++;
  for (int i = 0; i < s->nin; i++) {
    int64_t n = blu_type_count(&s->in[i]);
    bool is_ids = ids && i == 1;
    call.in[i] = in[i] = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t k = 0; k < n; k++) {
      double x = is_ids ? opcase_uniform(s->in[i].elem == BLU_U8 ? 0 : -2, ids + 2) : opcase_uniform(lo, hi);
      in[i][k] = is_float(s->in[i].elem) ? (float)x : s->in[i].elem == BLU_BOOL ? x > 0 : floor(fabs(is_ids ? 0 : x)) + (is_ids
          ? floor(x) : 0);
    }
  }
  op->rule->ref(&call);
  Loads l = {s, in, op->name, false};
  for (int64_t i = 0, n = blu_type_count(&s->out); i < n && !l.bad; i++) {
    V at[BLU_MAX_RANK];
    int64_t rest = i;
    for (int d = s->out.rank - 1; d >= 0; rest /= s->out.dim[d--]) at[d] = whole(BLU_I64, rest % s->out.dim[d]);
    V v = op->rule->move(&emit, s, at, load, &l);
    double got = is_float(v.elem) ? v.u.d : (double)v.u.i;
    bool near = op->rule->tolerance > 0 && fabs(got - right[i]) <= op->rule->tolerance * fmax(1, fabs(hi)); /* a sum of such */
    if (v.elem == s->out.elem && (same(got, right[i]) || near)) continue;
    failures++;
    l.bad = true;
    printf("FAILED %s: element %lld is %g of type %s, not %g of %s\n", op->name, (long long)i, got, blu_elem_name(v.elem),
        right[i], blu_elem_name(s->out.elem));
  }
  for (int i = 0; i < s->nin; i++) free(in[i]);
  free(right);
}

/* ---- the table's cases ---- */

static void table_cases(MlirContext ctx) {
  for (int i = 0; i < blu_nops; i++) {
    const BluOp *op = &blu_ops[i];
    if (!op->rule->move) continue;
    for (const BluOpCase *from = blu_op_cases(op); from->body; from++) {
      OpCase c;
      if (!opcase_build(ctx, from, &c)) { failures++; continue; }
      MlirBlock block = blu_func_block(c.func);
      for (MlirOperation o = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
        const BluOp *of = blu_op_of(o); /* the case's op, and the moves of its gradient */
        BluSig s;
        if (!of || !of->rule->move) continue;
        blu_sig_of(o, &s);
        check(of, &s, from->lo, from->hi, from->ihi);
      }
      opcase_free(&c);
    }
  }
}

/* ---- element types, empty operands and sizes of 1 ---- */

static BluType type(BluElem e, int rank, int64_t a, int64_t b) { return blu_type_make(e, rank, (int64_t[]){a, b}); }
static BluAttrs ints2(BluAttrs as, const char *name, int64_t a, int64_t b) { return blu_attr_set_ints(as, name, 2, (int64_t[]){a,
    b}); }

static void use(const char *name, int nin, BluType a, BluType b, BluAttrs attrs, int ids) {
  const BluOp *op = blu_op_find(name);
  BluSig s = {.nin = nin, .in = {a, b}, .attrs = attrs};
  BluWhy why = {0};
  if (!blu_infer(op, &s, &why)) {
    failures++;
    printf("FAILED %s: [%s] %s\n", name, why.label, why.text);
    return;
  }
  check(op, &s, -9, 9, ids);
}

static void every_type(void) {
  for (int k = 0; k < BLU_ELEMS; k++) {
    BluElem e = (BluElem)k;
    for (int64_t n = 0; n <= 3; n += n ? 2 : 1) { /* 0, 1, 3 */
      BluType x = type(e, 2, n, 3), none = {0};
      use("transpose", 1, x, none, ints2((BluAttrs){0}, "perm", 1, 0), 0);
      use("slice", 1, x, none, ints2(ints2((BluAttrs){0}, "start", 0, 1), "stop", n, 3), 0);
      use("update_slice", 2, type(e, 2, 4, 3), x, ints2((BluAttrs){0}, "start", 1, 0), 0);
      use("update_slice", 2, type(e, 2, 4, 3), type(e, 2, n, 0), ints2((BluAttrs){0}, "start", 1, 3), 0);
      use("concat", 2, x, type(e, 2, 2, 3), blu_attr_set_int((BluAttrs){0}, "axis", 0), 0);
      use("concat", 2, type(e, 2, 2, 3), x, blu_attr_set_int((BluAttrs){0}, "axis", 0), 0);
      use("concat", 2, x, type(e, 2, n, 1), blu_attr_set_int((BluAttrs){0}, "axis", 1), 0);
      BluAttrs pad = ints2(ints2(ints2((BluAttrs){0}, "low", 1, 0), "high", 0, 2), "inner", 2, 1);
      use("pad", 1, x, none, blu_attr_set_real(pad, "value", 1), 0);
      for (int i = 0; i < 3; i++) {
        static const BluElem ids[] = {BLU_I32, BLU_I64, BLU_U8};
        use("gather", 2, x, type(ids[i], 2, 5, 4), (BluAttrs){0}, (int)n);
        use("gather", 2, x, type(ids[i], 0, 0, 0), (BluAttrs){0}, (int)n);
        use("take_along", 2, type(e, 2, 3, n), type(ids[i], 2, 3, 6), (BluAttrs){0}, (int)n);
      }
    }
  }
  for (int k = 0; k < 200; k++) { /* windows of every kind over images of every size */
    int64_t h = (int64_t)opcase_uniform(1, 8), w = (int64_t)opcase_uniform(1, 8), kh = (int64_t)opcase_uniform(1, 4),
        kw = (int64_t)opcase_uniform(1, 4);
    BluAttrs as = ints2((BluAttrs){0}, "stride", (int64_t)opcase_uniform(1, 4), (int64_t)opcase_uniform(1, 4));
    as = ints2(as, "pad", (int64_t)opcase_uniform(0, 3), (int64_t)opcase_uniform(0, 3));
    as = ints2(as, "dilation", (int64_t)opcase_uniform(1, 3), (int64_t)opcase_uniform(1, 3));
    BluAttrs with_kernel = blu_attr_set_real(ints2(as, "kernel", kh, kw), "value", -2), with_size = ints2(as, "size", h, w);
    BluSig s = {.nin = 1, .in = {blu_type_make(BLU_F32, 4, (int64_t[]){2, h, w, 3})}, .attrs = with_kernel}, back = {.nin = 1,
        .attrs = with_size};
    BluWhy why;
    if (!blu_infer(blu_op_find("patches"), &s, &why)) continue; /* the window doesn't fit */
    check(blu_op_find("patches"), &s, -9, 9, 0);
    back.in[0] = s.out;
    if (!blu_infer(blu_op_find("unpatch"), &back, &why)) failures++, printf("FAILED unpatch of patches: %s\n", why.text);
    else check(blu_op_find("unpatch"), &back, -9, 9, 0);
  }
}

int main(void) {
  MlirContext ctx = mlirContextCreateWithThreading(false);
  blu_context_load(ctx);
  table_cases(ctx);
  every_type();
  mlirContextDestroy(ctx);
  printf("%d uses of ops that move elements, %d failures\n", programs, failures);
  return failures || !programs;
}
