/* move.c - transposes that no product absorbed: one element at a time, in the order of the result. */
#include "codegen/kernel.h"

enum { PIECE = 8192 }; /* elements */

static int64_t pieces(const Kernel *k) {
  int64_t n = (blu_type_count(&k->info.space) + PIECE - 1) / PIECE;
  return n > 0 ? n : 1;
}

static void body(Kernel *k) {
  Emit *e = &k->e;
  BluSig s;
  blu_sig_of(k->info.main, &s);
  const BluAttr *perm = blu_attr(&s.attrs, "perm");
  int64_t stride[BLU_MAX_RANK], count = blu_type_count(&s.out), step = 1;
  for (int d = s.in[0].rank - 1; d >= 0; step *= s.in[0].dim[d--]) stride[d] = step;
  blu_kernel_enter(k, LEVEL_POINT, 1);
  LLVMValueRef per = blu_emit_i64(e, PIECE), end = LLVMBuildMul(e->b, k->last, per, ""), all = blu_emit_i64(e, count);
  end = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, end, all, ""), end, all, "");
  Loop l;
  blu_loop_begin(e, &l, k->fn, LLVMBuildMul(e->b, k->first, per, ""), end, 1, 0, NULL);
  LLVMValueRef rest = l.i, at = blu_emit_i64(e, 0);
  for (int d = s.out.rank - 1; d >= 0; d--) {
    LLVMValueRef size = blu_emit_i64(e, s.out.dim[d]), c = d ? LLVMBuildURem(e->b, rest, size, "") : rest;
    if (d) rest = LLVMBuildUDiv(e->b, rest, size, "");
    at = LLVMBuildAdd(e->b, at, LLVMBuildMul(e->b, c, blu_emit_i64(e, stride[perm->i[d]]), ""), "");
  }
  LLVMValueRef v = blu_emit_load(e, s.out.elem, k->place[0], at, 1);
  blu_emit_store(e, s.out.elem, v, k->place[k->nin], l.i, 1);
  blu_loop_end(e, &l, NULL);
  LLVMBuildRetVoid(e->b);
}

const KernelKind blu_kernel_move = {.pieces = pieces, .body = body};
