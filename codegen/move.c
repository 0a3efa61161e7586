/* move.c - elements at other places: transpose, slice, concat, pad, gather, windows. The op's rule says where an element comes
 * from; the result is made in its own order, the coordinates of a row once per row, and columns that come from neighbouring places
 * (BluRun) a vector at a time. */
#include "codegen/kernel.h"

enum { PIECE = 8192 }; /* elements */

static int64_t rows_per_piece(const Kernel *k) {
  int64_t c = blu_space_columns(&k->info.space);
  return c >= PIECE ? 1 : c ? PIECE / c : 1;
}

static int64_t pieces(const Kernel *k) {
  int64_t per = rows_per_piece(k), n = (blu_space_rows(&k->info.space) + per - 1) / per;
  return n > 0 ? n : 1;
}

typedef struct { Kernel *k; unsigned wide; int count; } Reader; /* operands that are read as vectors, of `count` elements that exist */

static BluEmitVal load_element(void *user, int operand, BluEmitVal index) {
  Reader *r = user;
  Kernel *k = r->k;
  MlirValue v = mlirOperationGetOperand(k->info.main, operand);
  BluElem t = blu_value_type(v).elem;
  LLVMValueRef base;
  BluElem stored = blu_kernel_source(k, operand, &base);
  bool wide = r->wide >> operand & 1;
  k->e.lanes = wide ? BLU_LANES : 1;
  LLVMValueRef x = blu_emit_load(&k->e, stored, base, index.u.v, wide ? r->count : 1);
  k->e.lanes = 1; /* indices and conditions are scalars */
  return (BluEmitVal){.elem = t, .u.v = x};
}

static LLVMValueRef smaller(Emit *e, LLVMValueRef a, int64_t limit) {
  LLVMValueRef b = blu_emit_i64(e, limit);
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, a, b, ""), a, b, "");
}

/* Columns from `column` on of a row whose coordinates are at[]: as many as the reader counts. */
static void move_columns(Reader *r, const BluSig *s, BluEmitVal *at, LLVMValueRef row, LLVMValueRef column) {
  Kernel *k = r->k;
  Emit *e = &k->e;
  if (s->out.rank) at[s->out.rank - 1] = (BluEmitVal){.elem = BLU_I64, .u.v = column};
  BluEmitVal v = blu_op_of(k->info.main)->rule->move(&e->base, s, at, load_element, r);
  LLVMValueRef index = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, row, blu_emit_i64(e, blu_space_columns(&k->info.space)), ""), column, "");
  e->lanes = r->count > 1 ? BLU_LANES : 1;
  blu_emit_store(e, s->out.elem, v.u.v, k->place[k->nin], index, r->count);
  e->lanes = 1;
}

static void move_run(Kernel *k, const BluSig *s, BluEmitVal *at, LLVMValueRef row, const BluRun *run, int step) {
  Emit *e = &k->e;
  int64_t rest = (run->to - run->from) % step;
  Reader r = {k, run->operands, step};
  if (run->to - run->from >= step) {
    Loop l;
    blu_loop_begin(e, &l, k->fn, blu_emit_i64(e, run->from), blu_emit_i64(e, run->to - rest), step, 0, NULL);
    move_columns(&r, s, at, row, l.i);
    blu_loop_end(e, &l, NULL);
  }
  r.count = (int)rest;
  if (r.count == 1) r.wide = 0;
  if (r.count) move_columns(&r, s, at, row, blu_emit_i64(e, run->to - rest));
}

static void body(Kernel *k) {
  Emit *e = &k->e;
  BluSig s;
  blu_sig_of(k->info.main, &s);
  BluEmitVal at[BLU_MAX_RANK];
  int64_t per = rows_per_piece(k), columns = blu_space_columns(&k->info.space);
  blu_kernel_enter(k, LEVEL_POINT, 1);
  if (!blu_type_count(&s.out)) { /* rules may count on an element to ask for */
    LLVMBuildRetVoid(e->b);
    return;
  }
  const BluRule *rule = blu_op_of(k->info.main)->rule;
  e->raw = rule->exact && blu_elem_is_half(s.out.elem);
  BluRun run[BLU_MAX_RUNS], whole = {0, columns, 0};
  int runs = rule->runs ? rule->runs(&s, run) : 0;
  Loop row;
  LLVMValueRef from = LLVMBuildMul(e->b, k->first, blu_emit_i64(e, per), ""), to = LLVMBuildMul(e->b, k->last, blu_emit_i64(e, per), "");
  blu_loop_begin(e, &row, k->fn, from, smaller(e, to, blu_space_rows(&k->info.space)), 1, 0, NULL);
  LLVMValueRef rest = row.i;
  for (int d = s.out.rank - 2; d >= 0; d--) {
    LLVMValueRef size = blu_emit_i64(e, s.out.dim[d]);
    at[d] = (BluEmitVal){.elem = BLU_I64, .u.v = d ? LLVMBuildURem(e->b, rest, size, "") : rest};
    if (d) rest = LLVMBuildUDiv(e->b, rest, size, "");
  }
  for (int i = 0; i < runs; i++) move_run(k, &s, at, row.i, &run[i], BLU_LANES);
  if (!runs) move_run(k, &s, at, row.i, &whole, 1);
  blu_loop_end(e, &row, NULL);
  e->raw = false;
  LLVMBuildRetVoid(e->b);
}

const KernelKind blu_kernel_move = {.pieces = pieces, .body = body};
