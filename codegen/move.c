/* move.c - elements at other places: transpose, slice, concat, pad, gather, windows. The op's rule says where an element comes
 * from; the result is made in its own order, one element at a time, the coordinates of a row once per row. */
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

static BluEmitVal load_element(void *user, int operand, BluEmitVal index) {
  Kernel *k = user;
  MlirValue v = mlirOperationGetOperand(k->info.main, operand);
  BluElem t = blu_value_type(v).elem;
  LLVMValueRef base = k->place[mlirBlockArgumentGetArgNumber(v)];
  return (BluEmitVal){.elem = t, .u.v = blu_emit_load(&k->e, t, base, index.u.v, 1)};
}

static LLVMValueRef smaller(Emit *e, LLVMValueRef a, int64_t limit) {
  LLVMValueRef b = blu_emit_i64(e, limit);
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, a, b, ""), a, b, "");
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
  Loop row, column;
  LLVMValueRef from = LLVMBuildMul(e->b, k->first, blu_emit_i64(e, per), ""), to = LLVMBuildMul(e->b, k->last, blu_emit_i64(e, per), "");
  blu_loop_begin(e, &row, k->fn, from, smaller(e, to, blu_space_rows(&k->info.space)), 1, 0, NULL);
  LLVMValueRef rest = row.i;
  for (int d = s.out.rank - 2; d >= 0; d--) {
    LLVMValueRef size = blu_emit_i64(e, s.out.dim[d]);
    at[d] = (BluEmitVal){.elem = BLU_I64, .u.v = d ? LLVMBuildURem(e->b, rest, size, "") : rest};
    if (d) rest = LLVMBuildUDiv(e->b, rest, size, "");
  }
  blu_loop_begin(e, &column, k->fn, blu_emit_i64(e, 0), blu_emit_i64(e, columns), 1, 0, NULL);
  if (s.out.rank) at[s.out.rank - 1] = (BluEmitVal){.elem = BLU_I64, .u.v = column.i};
  BluEmitVal v = blu_op_of(k->info.main)->rule->move(&e->base, &s, at, load_element, k);
  LLVMValueRef index = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, row.i, blu_emit_i64(e, columns), ""), column.i, "");
  blu_emit_store(e, s.out.elem, v.u.v, k->place[k->nin], index, 1);
  blu_loop_end(e, &column, NULL);
  blu_loop_end(e, &row, NULL);
  LLVMBuildRetVoid(e->b);
}

const KernelKind blu_kernel_move = {.pieces = pieces, .body = body};
