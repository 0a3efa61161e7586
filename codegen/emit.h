/* emit.h - elementwise code as LLVM IR: the BluEmit of dialects/blu.h over vectors of `lanes` elements, or scalars. */
#ifndef BLU_CODEGEN_EMIT_H
#define BLU_CODEGEN_EMIT_H
#include <llvm-c/Core.h>
#include "dialects/blu.h"

/* The width of all vector code, in elements, on every processor: LLVM splits it into what the machine has. The order of
 * additions in reductions is defined by it (dialects/ops_reduce.c). */
enum { BLU_LANES = 16 };

typedef struct {
  BluEmit base;          /* first: `lower` gets a pointer to it */
  LLVMContextRef ctx;
  LLVMModuleRef module;
  LLVMBuilderRef b;      /* where code goes now */
  int lanes;             /* 1: scalars */
  bool fma;              /* the processor has it; else a product and a sum, each rounded */
  bool f16c;             /* it converts between f16 and f32 */
  bool raw;              /* numbers of the half types are moved as they are: bits in 16-bit registers. Else they are f32 in registers */
  LLVMValueRef linear;   /* i64: index of the point, for base.index; of the first lane */
  int align;             /* bytes: whole vectors lie at multiples of this or of their size; 0: at multiples of an element's */
  bool narrow;           /* indices are below 2^31: divided in 32 bits */
} Emit;

void blu_emit_init(Emit *e, LLVMContextRef ctx, LLVMModuleRef module, int level /* of x86-64 */);
LLVMTypeRef blu_emit_elem(const Emit *e, BluElem t);    /* in registers: bool is i1, a half type f32 */
LLVMTypeRef blu_emit_stored(const Emit *e, BluElem t);  /* in memory: bool is i8, a half type i16 */
LLVMTypeRef blu_emit_type(const Emit *e, BluElem t);    /* e->lanes of them */
LLVMValueRef blu_emit_i64(const Emit *e, int64_t v);
LLVMValueRef blu_emit_splat(Emit *e, LLVMValueRef scalar);
/* x / by and x mod by of an i64 that isn't negative, by a constant. */
LLVMValueRef blu_emit_quotient(Emit *e, LLVMValueRef x, int64_t by);
LLVMValueRef blu_emit_remainder(Emit *e, LLVMValueRef x, int64_t by);
/* overload NULL: the intrinsic has one type */
LLVMValueRef blu_emit_intrinsic(Emit *e, const char *name, LLVMTypeRef overload, int n, LLVMValueRef *args);
/* Element `index` of the tensor of type t at `base` and, with lanes, the following ones; count <= lanes of them exist. */
LLVMValueRef blu_emit_load(Emit *e, BluElem t, LLVMValueRef base, LLVMValueRef index, int count);
/* A number of a half type must have been rounded to it: it is stored as its bits. */
void blu_emit_store(Emit *e, BluElem t, LLVMValueRef value, LLVMValueRef base, LLVMValueRef index, int count);
/* Asks for the line at this address, into the first or second cache; any address will do. */
void blu_emit_prefetch(Emit *e, LLVMValueRef at, int cache);
/* Lanes [from, from + n) of a vector; n == 1 gives a scalar. */
LLVMValueRef blu_emit_slice(Emit *e, LLVMValueRef v, int from, int n);
/* The first `count` lanes of a, the others of b. */
LLVMValueRef blu_emit_blend(Emit *e, LLVMValueRef a, LLVMValueRef b, int count);

/* for (i = from; i < to; i += step): begins the loop and leaves e->b in its body; `phi` values live across iterations. */
enum { BLU_LOOP_VALUES = 96 };
typedef struct { LLVMBasicBlockRef head, body, exit; LLVMValueRef i, to, step; LLVMValueRef phi[BLU_LOOP_VALUES]; int nphi; } Loop;
void blu_loop_begin(Emit *e, Loop *l, LLVMValueRef fn, LLVMValueRef from, LLVMValueRef to, int64_t step, int nphi, const LLVMValueRef *init);
/* Closes it with the phis' next values; afterwards l->phi are their final values and e->b stands behind the loop. */
void blu_loop_end(Emit *e, Loop *l, const LLVMValueRef *next);
#endif
