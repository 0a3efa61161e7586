/* matmul.c - the products that no library computes here: of f64, and empty ones. Tiles of 16 x 16 elements, one to a thread,
 * through shared memory; an element is a chain of multiply-adds over ascending k. */
#include <stdlib.h>
#include "codegen/cuda/cuda.h"
#include "dialects/memory.h"

enum { TILE = 16 };

typedef struct {
  BluMatrices of;
  BluElem t;
  LLVMValueRef batch, row, column, y, x; /* the tile's first row and column; this thread in it */
} Tile;

/* Element (line, depth) of an operand, as stored [line, depth] or, if swapped, [depth, line], to its cell; 0 beyond the ends. */
static void fetch(Cuda *c, const Tile *t, int operand, LLVMValueRef line, int64_t lines, LLVMValueRef depth, bool swapped, LLVMValueRef cell) {
  Emit *e = &c->k.e;
  MlirValue v = mlirOperationGetOperand(c->k.info.main, operand);
  LLVMValueRef exists = LLVMBuildAnd(e->b, blu_cuda_less(c, line, blu_cuda_number(c, lines)), blu_cuda_less(c, depth, blu_cuda_number(c, t->of.k)), "");
  LLVMValueRef zero = LLVMConstNull(blu_emit_type(e, t->t));
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), after = blu_cuda_if(c, exists);
  LLVMValueRef at = swapped ? blu_cuda_add(c, blu_cuda_mul(c, depth, lines), line) : blu_cuda_add(c, blu_cuda_mul(c, line, t->of.k), depth);
  at = blu_cuda_add(c, at, blu_cuda_mul(c, t->batch, operand ? t->of.step_b : t->of.step_a));
  LLVMValueRef x = blu_emit_load(e, t->t, c->k.place[mlirBlockArgumentGetArgNumber(v)], at, 1);
  LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
  blu_cuda_end_if(c, after);
  LLVMValueRef value = LLVMBuildPhi(e->b, LLVMTypeOf(x), "");
  LLVMAddIncoming(value, &zero, &before, 1), LLVMAddIncoming(value, &x, &end, 1);
  blu_cuda_shared_store(c, cell, (BluEmitVal){.elem = t->t, .u.v = value});
}

/* The sum of this thread's element. */
static LLVMValueRef chain(Cuda *c, const Tile *t) {
  Emit *e = &c->k.e;
  LLVMValueRef zero = LLVMConstNull(blu_emit_type(e, t->t)), tile = blu_cuda_number(c, TILE * TILE);
  LLVMValueRef a_cell = blu_cuda_add(c, blu_cuda_mul(c, t->y, TILE), t->x), b_cell = blu_cuda_add(c, tile, a_cell);
  Loop l;
  blu_loop_begin(e, &l, c->k.fn, blu_cuda_number(c, 0), blu_cuda_number(c, t->of.k), TILE, 1, &zero);
  fetch(c, t, 0, blu_cuda_add(c, t->row, t->y), t->of.m, blu_cuda_add(c, l.i, t->x), t->of.ta, a_cell);
  fetch(c, t, 1, blu_cuda_add(c, t->column, t->x), t->of.n, blu_cuda_add(c, l.i, t->y), !t->of.tb, b_cell);
  blu_cuda_barrier(c);
  BluEmitVal sum = {.elem = t->t, .u.v = l.phi[0]};
  for (int i = 0; i < TILE; i++) {
    BluEmitVal a = blu_cuda_shared_load(c, blu_cuda_add(c, blu_cuda_mul(c, t->y, TILE), blu_cuda_number(c, i)), t->t);
    BluEmitVal b = blu_cuda_shared_load(c, blu_cuda_add(c, t->x, blu_cuda_number(c, TILE * TILE + i * TILE)), t->t);
    sum = e->base.prim(&e->base, BLU_PRIM_FMA, t->t, a, b, sum);
  }
  blu_cuda_barrier(c);
  LLVMValueRef next = sum.u.v;
  blu_loop_end(e, &l, &next);
  return l.phi[0];
}

void blu_cuda_matmul(Cuda *c) {
  Kernel *k = &c->k;
  Emit *e = &k->e;
  Tile t = {.of = blu_matrices_of(k->info.main), .t = blu_value_type(mlirOperationGetOperand(k->info.main, 0)).elem};
  int64_t down = blu_cuda_divide_up(t.of.m, TILE), across = blu_cuda_divide_up(t.of.n, TILE);
  c->threads = TILE * TILE;
  c->blocks = t.of.batch * down * across;
  c->shared_bytes = 2 * TILE * TILE * CUDA_CELL;
  if (!c->blocks) return;
  e->narrow = c->blocks < INT32_MAX && t.of.batch * t.of.m * t.of.n < INT32_MAX;
  t.y = blu_emit_quotient(e, c->thread, TILE), t.x = blu_emit_remainder(e, c->thread, TILE);
  t.column = blu_cuda_mul(c, across == 1 ? blu_cuda_number(c, 0) : blu_emit_remainder(e, c->block, across), TILE);
  LLVMValueRef rest = blu_emit_quotient(e, c->block, across);
  t.row = blu_cuda_mul(c, down == 1 ? blu_cuda_number(c, 0) : blu_emit_remainder(e, rest, down), TILE);
  t.batch = blu_emit_quotient(e, rest, down);
  BluEmitVal sum = {.elem = t.t, .u.v = chain(c, &t)};
  LLVMValueRef row = blu_cuda_add(c, t.row, t.y);
  k->column = blu_cuda_add(c, t.column, t.x);
  LLVMValueRef exists = LLVMBuildAnd(e->b, blu_cuda_less(c, row, blu_cuda_number(c, t.of.m)), blu_cuda_less(c, k->column, blu_cuda_number(c, t.of.n)), "");
  k->row = blu_cuda_add(c, blu_cuda_mul(c, t.batch, t.of.m), row);
  k->count = 1;
  LLVMBasicBlockRef after = blu_cuda_if(c, exists);
  blu_cuda_split(c);
  blu_kernel_enter(k, LEVEL_POINT, 1);
  blu_kernel_define(k, LEVEL_POINT, mlirOperationGetResult(k->info.main, 0), BLU_VIEW_FULL, sum);
  BluEmitVal *value = blu_alloc((size_t)(k->nout + 1) * sizeof *value);
  for (int i = 0; i < k->nout; i++) {
    BluType type = blu_value_type(blu_kernel_result(k, i));
    value[i] = blu_kernel_eval(k, blu_kernel_result(k, i), BLU_VIEW_FULL, &type);
  }
  LLVMValueRef index = blu_kernel_linear(k);
  for (int i = 0; i < k->nout; i++) blu_emit_store(e, value[i].elem, value[i].u.v, k->place[k->nin + i], index, 1);
  free(value);
  blu_cuda_end_if(c, after);
}
