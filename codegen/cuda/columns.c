/* columns.c - reductions over an axis that is not the last. A block has some neighbouring columns and, for each, several threads that go down
 * it in steps; their states are joined in shared memory, halves onto halves. */
#include "codegen/cuda/cuda.h"

enum {
  WIDTH = 32,             /* columns of a block, at least LEAST_WIDTH */
  LEAST_WIDTH = 8,        /* 32 bytes of f32: what memory gives at once */
  MOST_THREADS = 1024,
  ENOUGH_THREADS = 1 << 17, /* that fill a device */
  LEAST_CHAIN = 4         /* elements of a thread before another shares its column */
};

/* The operand as [outer, n, inner], reduced over n. */
typedef struct { int64_t outer, n, inner; int width, deep; } Shape;

static Shape shape_of(Cuda *c) {
  BluSig s;
  blu_sig_of(c->k.info.main, &s);
  const BluAttr *a = blu_attr(&s.attrs, "axis");
  int64_t axis = a->i[0] < 0 ? a->i[0] + s.in[0].rank : a->i[0];
  Shape x = {.outer = 1, .n = s.in[0].dim[axis], .inner = 1};
  for (int d = 0; d < axis; d++) x.outer *= s.in[0].dim[d];
  for (int d = (int)axis + 1; d < s.in[0].rank; d++) x.inner *= s.in[0].dim[d];
  x.deep = 1;
  while (x.deep < MOST_THREADS / LEAST_WIDTH && x.n / (2 * x.deep) >= LEAST_CHAIN && x.outer * x.inner * x.deep < ENOUGH_THREADS) x.deep *= 2;
  x.width = WIDTH * x.deep > MOST_THREADS ? MOST_THREADS / x.deep : WIDTH;
  while (x.width > LEAST_WIDTH && x.width / 2 >= x.inner && x.width * x.deep > CUDA_WARP) x.width /= 2;
  return x;
}

/* The state of a chain of every deep-th element from `first` on. */
static State chain(Cuda *c, const Shape *x, LLVMValueRef outer, LLVMValueRef first, LLVMValueRef column) {
  Kernel *k = &c->k;
  Emit *e = &k->e;
  MlirOperation op = k->info.main;
  MlirValue from = mlirOperationGetOperand(op, 0);
  BluElem t = blu_value_type(from).elem;
  State s = blu_reduce_identity(k, op);
  LLVMValueRef v[2] = {s.v[0].u.v, s.n > 1 ? s.v[1].u.v : NULL};
  Loop l;
  blu_loop_begin(e, &l, k->fn, first, blu_cuda_number(c, x->n), x->deep, s.n, v);
  for (int i = 0; i < s.n; i++) s.v[i].u.v = l.phi[i];
  LLVMValueRef index = blu_cuda_add(c, blu_cuda_mul(c, blu_cuda_add(c, blu_cuda_mul(c, outer, x->n), l.i), x->inner), column);
  BluEmitVal element = {.elem = t, .u.v = blu_emit_load(e, t, k->place[mlirBlockArgumentGetArgNumber(from)], index, 1)};
  s = blu_reduce_step(k, op, s, element, l.i, false);
  for (int i = 0; i < s.n; i++) v[i] = s.v[i].u.v;
  blu_loop_end(e, &l, v);
  for (int i = 0; i < s.n; i++) s.v[i].u.v = l.phi[i];
  return s;
}

/* States of the block's chains, [deep][width] each, to those of its columns: the upper half onto the lower one. */
static void joined(Cuda *c, const Shape *x, State s, LLVMValueRef depth) {
  Kernel *k = &c->k;
  int64_t all = (int64_t)x->deep * x->width;
  c->shared_bytes = all * s.n * CUDA_CELL;
  for (int i = 0; i < s.n; i++) blu_cuda_shared_store(c, blu_cuda_add(c, c->thread, blu_cuda_number(c, i * all)), s.v[i]);
  for (int half = x->deep / 2; half >= 1; half /= 2) {
    blu_cuda_barrier(c);
    LLVMBasicBlockRef after = blu_cuda_if(c, blu_cuda_less(c, depth, blu_cuda_number(c, half)));
    State a = s, b = s;
    for (int i = 0; i < s.n; i++) {
      LLVMValueRef at = blu_cuda_add(c, c->thread, blu_cuda_number(c, i * all));
      a.v[i] = blu_cuda_shared_load(c, at, s.v[i].elem);
      b.v[i] = blu_cuda_shared_load(c, blu_cuda_add(c, at, blu_cuda_number(c, (int64_t)half * x->width)), s.v[i].elem);
    }
    a = blu_reduce_combine(k, k->info.main, a, b);
    for (int i = 0; i < s.n; i++) blu_cuda_shared_store(c, blu_cuda_add(c, c->thread, blu_cuda_number(c, i * all)), a.v[i]);
    blu_cuda_end_if(c, after);
  }
}

void blu_cuda_columns(Cuda *c) {
  Kernel *k = &c->k;
  Emit *e = &k->e;
  Shape x = shape_of(c);
  int64_t across = blu_cuda_divide_up(x.inner, x.width), total = x.outer * x.inner;
  c->threads = x.width * x.deep;
  c->blocks = x.outer * across;
  if (!total) return;
  e->narrow = total * (x.n > 0 ? x.n : 1) < INT32_MAX && c->blocks < INT32_MAX;
  LLVMValueRef depth = blu_emit_quotient(e, c->thread, x.width), zero = blu_cuda_number(c, 0);
  LLVMValueRef outer = blu_emit_quotient(e, c->block, across), part = across == 1 ? zero : blu_emit_remainder(e, c->block, across);
  LLVMValueRef column = blu_cuda_add(c, blu_cuda_mul(c, part, x.width), blu_emit_remainder(e, c->thread, x.width));
  LLVMValueRef exists = blu_cuda_less(c, column, blu_cuda_number(c, x.inner));
  /* a column that doesn't exist has no elements: all threads meet at the barriers */
  State s = chain(c, &x, outer, LLVMBuildSelect(e->b, exists, depth, blu_cuda_number(c, x.n), ""), column);
  if (x.deep > 1) {
    joined(c, &x, s, depth);
    exists = LLVMBuildAnd(e->b, exists, LLVMBuildICmp(e->b, LLVMIntEQ, depth, zero, ""), "");
  }
  LLVMBasicBlockRef after = blu_cuda_if(c, exists);
  int64_t all = (int64_t)x.deep * x.width;
  for (int i = 0; i < s.n && x.deep > 1; i++)
    s.v[i] = blu_cuda_shared_load(c, blu_cuda_add(c, c->thread, blu_cuda_number(c, i * all)), s.v[i].elem); /* its own store */
  BluEmitVal r = blu_reduce_result(k->info.main, s);
  blu_emit_store(e, r.elem, r.u.v, k->place[k->nin], blu_cuda_add(c, blu_cuda_mul(c, outer, x.inner), column), 1);
  blu_cuda_end_if(c, after);
}
