/* columns.c - reductions over an axis that is not the last: columns side by side in vectors, a chain down each column, restarted
 * every CHAIN elements (dialects/ops_reduce.c has the order). */
#include "codegen/kernel.h"

enum { CHAIN = 256, PIECE = 4 * BLU_LANES }; /* rows; columns */

typedef struct { int64_t outer, n, inner; } Shape; /* the operand as [outer, n, inner], reduced over n */

static Shape shape_of(const Kernel *k) {
  BluSig s;
  blu_sig_of(k->info.main, &s);
  const BluAttr *a = blu_attr(&s.attrs, "axis");
  int64_t axis = a->i[0] < 0 ? a->i[0] + s.in[0].rank : a->i[0];
  Shape x = {1, s.in[0].dim[axis], 1};
  for (int d = 0; d < axis; d++) x.outer *= s.in[0].dim[d];
  for (int d = (int)axis + 1; d < s.in[0].rank; d++) x.inner *= s.in[0].dim[d];
  return x;
}

static int64_t chunks(const Shape *x) { return (x->inner + PIECE - 1) / PIECE; }

static int64_t pieces(const Kernel *k) {
  Shape x = shape_of(k);
  int64_t n = x.outer * chunks(&x);
  return n > 0 ? n : 1;
}

static LLVMValueRef mul(Emit *e, LLVMValueRef a, int64_t b) { return LLVMBuildMul(e->b, a, blu_emit_i64(e, b), ""); }
static LLVMValueRef add(Emit *e, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(e->b, a, b, ""); }
static LLVMValueRef smaller(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, a, b, ""), a, b, "");
}

static int values_of(const State *s, LLVMValueRef *out) {
  for (int i = 0; i < s->n; i++) out[i] = s->v[i].u.v;
  return s->n;
}
static void set_values(State *s, const LLVMValueRef *in) {
  for (int i = 0; i < s->n; i++) s->v[i].u.v = in[i];
}

/* Columns [column, column + count) of part o: down the chain blocks, and the result stored. */
static void down(Kernel *k, const Shape *x, LLVMValueRef o, LLVMValueRef column, int count) {
  Emit *e = &k->e;
  MlirOperation op = k->info.main;
  BluElem t = blu_value_type(mlirOperationGetOperand(op, 0)).elem;
  k->count = count;
  State total = blu_reduce_identity(k, op);
  LLVMValueRef v[2], first[2];
  for (int i = 0; i < total.n; i++) total.v[i].u.v = blu_emit_splat(e, total.v[i].u.v);
  int n = values_of(&total, first);
  Loop blocks, chain;
  blu_loop_begin(e, &blocks, k->fn, blu_emit_i64(e, 0), blu_emit_i64(e, x->n), CHAIN, n, first);
  LLVMValueRef end = smaller(e, add(e, blocks.i, blu_emit_i64(e, CHAIN)), blu_emit_i64(e, x->n));
  blu_loop_begin(e, &chain, k->fn, blocks.i, end, 1, n, first);
  State partial = total;
  set_values(&partial, chain.phi);
  LLVMValueRef index = add(e, mul(e, add(e, mul(e, o, x->n), chain.i), x->inner), column);
  BluEmitVal element = {.elem = t, .u.v = blu_emit_load(e, t, k->place[0], index, count)};
  partial = blu_reduce_step(k, op, partial, element, chain.i, false);
  values_of(&partial, v);
  blu_loop_end(e, &chain, v);
  set_values(&partial, chain.phi);
  set_values(&total, blocks.phi);
  total = blu_reduce_combine(k, op, total, partial);
  values_of(&total, v);
  blu_loop_end(e, &blocks, v);
  set_values(&total, blocks.phi);
  BluEmitVal r = blu_reduce_result(op, total);
  blu_emit_store(e, r.elem, r.u.v, k->place[k->nin], add(e, mul(e, o, x->inner), column), count);
}

static void body(Kernel *k) {
  Shape x = shape_of(k);
  Emit *e = &k->e;
  int tail = (int)(x.inner % BLU_LANES);
  blu_kernel_enter(k, LEVEL_POINT, BLU_LANES);
  Loop piece, vec;
  blu_loop_begin(e, &piece, k->fn, k->first, k->last, 1, 0, NULL);
  LLVMValueRef o = LLVMBuildUDiv(e->b, piece.i, blu_emit_i64(e, chunks(&x)), "");
  LLVMValueRef from = mul(e, LLVMBuildURem(e->b, piece.i, blu_emit_i64(e, chunks(&x)), ""), PIECE);
  LLVMValueRef to = add(e, from, blu_emit_i64(e, PIECE)), full = blu_emit_i64(e, x.inner - tail);
  blu_loop_begin(e, &vec, k->fn, from, smaller(e, to, full), BLU_LANES, 0, NULL);
  down(k, &x, o, vec.i, BLU_LANES);
  blu_loop_end(e, &vec, NULL);
  if (tail) {
    LLVMBasicBlockRef rest = LLVMAppendBasicBlockInContext(e->ctx, k->fn, "tail"), after = LLVMAppendBasicBlockInContext(e->ctx, k->fn, "after");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGE, to, blu_emit_i64(e, x.inner), ""), rest, after);
    LLVMPositionBuilderAtEnd(e->b, rest);
    down(k, &x, o, full, tail);
    LLVMBuildBr(e->b, after);
    LLVMPositionBuilderAtEnd(e->b, after);
  }
  blu_loop_end(e, &piece, NULL);
  LLVMBuildRetVoid(e->b);
}

const KernelKind blu_kernel_columns = {.pieces = pieces, .body = body};
