/* columns.c - reductions over an axis that is not the last: columns side by side in vectors, a chain down each column, restarted
 * every CHAIN elements (dialects/ops_reduce.c has the order). */
#include "codegen/kernel.h"

enum {
  CHAIN = 256, MOST_VECTORS = 8, FEWEST_PIECES = 8,
  AHEAD = 12 /* rows that are asked for ahead, where the operand comes from memory: its rows are too far apart for the processor to guess */
};

/* The operand as [outer, n, inner], reduced over n; a piece has `width` columns, which go down side by side: memory is read in runs. */
typedef struct { int64_t outer, n, inner, width; bool far; } Shape;

static Shape shape_of(const Kernel *k) {
  BluSig s;
  blu_sig_of(k->info.main, &s);
  const BluAttr *a = blu_attr(&s.attrs, "axis");
  int64_t axis = a->i[0] < 0 ? a->i[0] + s.in[0].rank : a->i[0];
  Shape x = {.outer = 1, .n = s.in[0].dim[axis], .inner = 1};
  for (int d = 0; d < axis; d++) x.outer *= s.in[0].dim[d];
  for (int d = (int)axis + 1; d < s.in[0].rank; d++) x.inner *= s.in[0].dim[d];
  int64_t vectors = x.inner * x.outer / (FEWEST_PIECES * BLU_LANES);
  if (blu_is(k->info.main, "argmax") || vectors < 1) vectors = 1; /* two registers a vector */
  x.width = (vectors < MOST_VECTORS ? vectors : MOST_VECTORS) * BLU_LANES;
  x.far = x.outer * x.n * x.inner * blu_elem_bytes(s.in[0].elem) > k->cpu->cache[1];
  return x;
}

static int64_t chunks(const Shape *x) { return (x->inner + x->width - 1) / x->width; }

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

static int values_of(const State *s, int vectors, LLVMValueRef *out) {
  int n = 0;
  for (int g = 0; g < vectors; g++)
    for (int i = 0; i < s[g].n; i++) out[n++] = s[g].v[i].u.v;
  return n;
}
static void set_values(State *s, int vectors, const LLVMValueRef *in) {
  for (int g = 0, n = 0; g < vectors; g++)
    for (int i = 0; i < s[g].n; i++) s[g].v[i].u.v = in[n++];
}

/* Some vectors of columns from `column` on of part o, or one of `count` columns: down the chain blocks, and the results stored. */
static void down(Kernel *k, const Shape *x, LLVMValueRef o, LLVMValueRef column, int vectors, int count) {
  Emit *e = &k->e;
  MlirOperation op = k->info.main;
  BluElem t = blu_value_type(mlirOperationGetOperand(op, 0)).elem;
  LLVMValueRef place;
  BluElem stored = blu_kernel_source(k, 0, &place);
  k->count = count;
  State total[MOST_VECTORS] = {{0}}, partial[MOST_VECTORS] = {{0}};
  LLVMValueRef v[2 * MOST_VECTORS], first[2 * MOST_VECTORS];
  for (int g = 0; g < vectors; g++) {
    total[g] = blu_reduce_identity(k, op);
    for (int i = 0; i < total[g].n; i++) total[g].v[i].u.v = blu_emit_splat(e, total[g].v[i].u.v);
    partial[g] = total[g];
  }
  int n = values_of(total, vectors, first);
  Loop blocks, chain;
  blu_loop_begin(e, &blocks, k->fn, blu_emit_i64(e, 0), blu_emit_i64(e, x->n), CHAIN, n, first);
  LLVMValueRef end = smaller(e, add(e, blocks.i, blu_emit_i64(e, CHAIN)), blu_emit_i64(e, x->n));
  blu_loop_begin(e, &chain, k->fn, blocks.i, end, 1, n, first);
  set_values(partial, vectors, chain.phi);
  LLVMValueRef index = add(e, mul(e, add(e, mul(e, o, x->n), chain.i), x->inner), column);
  for (int g = 0; g < vectors; g++) {
    LLVMValueRef at = add(e, index, blu_emit_i64(e, (int64_t)g * BLU_LANES));
    if (x->far && count == BLU_LANES) {
      LLVMValueRef below = add(e, at, blu_emit_i64(e, AHEAD * x->inner));
      blu_emit_prefetch(e, LLVMBuildGEP2(e->b, blu_emit_stored(e, stored), place, &below, 1, ""), 1);
    }
    BluEmitVal element = {.elem = t, .u.v = blu_emit_load(e, stored, place, at, count)};
    partial[g] = blu_reduce_step(k, op, partial[g], element, chain.i, false);
  }
  values_of(partial, vectors, v);
  blu_loop_end(e, &chain, v);
  set_values(partial, vectors, chain.phi);
  set_values(total, vectors, blocks.phi);
  for (int g = 0; g < vectors; g++) total[g] = blu_reduce_combine(k, op, total[g], partial[g]);
  values_of(total, vectors, v);
  blu_loop_end(e, &blocks, v);
  set_values(total, vectors, blocks.phi);
  index = add(e, mul(e, o, x->inner), column);
  for (int g = 0; g < vectors; g++) {
    BluEmitVal r = blu_reduce_result(op, total[g]);
    blu_emit_store(e, r.elem, r.u.v, k->place[k->nin], add(e, index, blu_emit_i64(e, (int64_t)g * BLU_LANES)), count);
  }
}

static void body(Kernel *k) {
  Shape x = shape_of(k);
  Emit *e = &k->e;
  int tail = (int)(x.inner % BLU_LANES);
  blu_kernel_enter(k, LEVEL_POINT, BLU_LANES);
  Loop piece, vec;
  blu_loop_begin(e, &piece, k->fn, k->first, k->last, 1, 0, NULL);
  LLVMValueRef o = LLVMBuildUDiv(e->b, piece.i, blu_emit_i64(e, chunks(&x)), "");
  LLVMValueRef from = mul(e, LLVMBuildURem(e->b, piece.i, blu_emit_i64(e, chunks(&x)), ""), x.width);
  LLVMValueRef to = add(e, from, blu_emit_i64(e, x.width)), full = blu_emit_i64(e, x.inner - tail);
  int64_t wide = x.inner / x.width * x.width; /* columns of whole pieces */
  if (wide > 0) {
    blu_loop_begin(e, &vec, k->fn, from, smaller(e, to, blu_emit_i64(e, wide)), x.width, 0, NULL);
    down(k, &x, o, vec.i, (int)(x.width / BLU_LANES), BLU_LANES);
    blu_loop_end(e, &vec, NULL);
  }
  if (wide < x.inner - tail) { /* the last piece: one vector at a time */
    LLVMValueRef start = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, from, blu_emit_i64(e, wide), ""), full, from, "");
    blu_loop_begin(e, &vec, k->fn, start, smaller(e, to, full), BLU_LANES, 0, NULL);
    down(k, &x, o, vec.i, 1, BLU_LANES);
    blu_loop_end(e, &vec, NULL);
  }
  if (tail) {
    LLVMBasicBlockRef rest = LLVMAppendBasicBlockInContext(e->ctx, k->fn, "tail"), after = LLVMAppendBasicBlockInContext(e->ctx, k->fn, "after");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSGE, to, blu_emit_i64(e, x.inner), ""), rest, after);
    LLVMPositionBuilderAtEnd(e->b, rest);
    down(k, &x, o, full, 1, tail);
    LLVMBuildBr(e->b, after);
    LLVMPositionBuilderAtEnd(e->b, after);
  }
  blu_loop_end(e, &piece, NULL);
  LLVMBuildRetVoid(e->b);
}

const KernelKind blu_kernel_columns = {.pieces = pieces, .body = body};
