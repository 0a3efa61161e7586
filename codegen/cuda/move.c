/* move.c - elements at other places: a thread asks the op's rule where its element of the result comes from. Neighbouring threads write
 * neighbouring elements; what they read is as near as the op has it. */
#include "codegen/cuda/cuda.h"

static BluEmitVal load_element(void *user, int operand, BluEmitVal index) {
  Cuda *c = user;
  MlirValue v = mlirOperationGetOperand(c->k.info.main, operand);
  BluElem t = blu_value_type(v).elem;
  return (BluEmitVal){.elem = t, .u.v = blu_emit_load(&c->k.e, t, c->k.place[mlirBlockArgumentGetArgNumber(v)], index.u.v, 1)};
}

void blu_cuda_move(Cuda *c) {
  Kernel *k = &c->k;
  Emit *e = &k->e;
  BluSig s;
  blu_sig_of(k->info.main, &s);
  int64_t total = blu_type_count(&s.out);
  c->blocks = blu_cuda_divide_up(total, c->threads);
  if (!total) return; /* rules may count on an element to ask for */
  BluEmitVal at[BLU_MAX_RANK];
  LLVMValueRef index = blu_cuda_point(c, total), rest = index;
  LLVMBasicBlockRef after = blu_cuda_if(c, blu_cuda_less(c, index, blu_cuda_number(c, total)));
  for (int d = s.out.rank - 1; d >= 0; d--) {
    at[d] = (BluEmitVal){.elem = BLU_I64, .u.v = d ? blu_emit_remainder(e, rest, s.out.dim[d]) : rest};
    if (d) rest = blu_emit_quotient(e, rest, s.out.dim[d]);
  }
  BluEmitVal v = blu_op_of(k->info.main)->rule->move(&e->base, &s, at, load_element, c);
  blu_emit_store(e, s.out.elem, v.u.v, k->place[k->nin], index, 1);
  blu_cuda_end_if(c, after);
}
