/* kernel.h - one kernel function while it is being emitted, and the evaluation of its values at a point of its space. */
#ifndef BLU_CODEGEN_KERNEL_H
#define BLU_CODEGEN_KERNEL_H
#include "codegen/codegen.h"
#include "codegen/emit.h"
#include "dialects/map.h"
#include "passes/kernel.h"

typedef struct { MlirValue value; BluViewKind kind; BluEmitVal result; } Known;
enum { BLU_QUERIES = 96, BLU_KEYS = 64 }; /* of a tile of attention: part of the bit contract (codegen/attention.c) */

typedef struct { Known *known; int n, cap; } Memo; /* what has been evaluated at one level */

/* Code is placed at three levels: once per call (scalars), once per row, once per vector of columns. Each has its builder and
 * its memo; a level's code may use what the levels outside of it have made. */
typedef enum { LEVEL_CALL, LEVEL_ROW, LEVEL_POINT, LEVELS } Level;

typedef struct {
  Emit e;
  const BluCpu *cpu;
  MlirOperation func;
  BluKernelInfo info;
  LLVMValueRef fn, arena, offsets, scratch, first, last; /* the parameters of BluKernel */
  int nin, nout;
  MlirBlock block;
  LLVMValueRef *place;      /* address of each operand, then of each result */
  LLVMBuilderRef builder[LEVELS];
  Memo memo[LEVELS];
  BluMap stage;             /* op -> its stage + 1 (codegen/rows.c) */
  LLVMValueRef row, column; /* i64: the point */
  int count;                /* lanes of the point that exist */
  bool ahead;               /* loads at the point ask for the next row too */
} Kernel;

/* How a kind of kernel becomes code: pieces that can run independently, a body for pieces [first, last), private memory. */
typedef struct {
  int64_t (*pieces)(const Kernel *k);
  void (*body)(Kernel *k);
  int64_t (*scratch)(const Kernel *k);
} KernelKind;
extern const KernelKind blu_kernel_rows, blu_kernel_columns, blu_kernel_matmul, blu_kernel_move, blu_kernel_loop, blu_kernel_attention;
bool blu_loop_has_code(const char *op);   /* a move whose elements depend on one another */

/* The value v under a view of the current point: a vector at LEVEL_POINT, else a scalar. Emits it at most once per level. */
BluEmitVal blu_kernel_eval(Kernel *k, MlirValue v, BluViewKind kind, const BluType *from);
void blu_kernel_define(Kernel *k, Level level, MlirValue v, BluViewKind kind, BluEmitVal value);
void blu_kernel_forget(Kernel *k, Level level);   /* the point or row has moved */
/* How operand i of the kernel's main op lies in memory, and where: as its type says, or as a half type that is widened on the way.
 * blu_emit_load(.. , the result, place, ..) gives a number of the operand's type in either case. */
BluElem blu_kernel_source(const Kernel *k, int i, LLVMValueRef *place);
/* Makes `level` the place where code goes now. */
void blu_kernel_enter(Kernel *k, Level level, int lanes);
LLVMValueRef blu_kernel_linear(Kernel *k);        /* row * C + column */
MlirValue blu_kernel_result(const Kernel *k, int i);

/* ---- what all code for kernels of rows asks (codegen/rows.c) ---- */

typedef struct { MlirOperation op; int stage; } Reduction; /* stage: of its operand */
int blu_rows_stage(Kernel *k, MlirValue v);       /* values of later stages depend on reductions of earlier ones */
int blu_rows_reductions(Kernel *k, Reduction **list); /* how many; the caller frees the list */
BluView blu_rows_result_view(const Kernel *k, MlirValue v);
bool blu_rows_are_flat(const Kernel *k);          /* the space is walked as one row: rows don't matter to any value */

/* Reductions: a state of one or two values per lane (value; index for argmax), combined lane by lane. */
typedef struct { int n; BluEmitVal v[2]; } State;
State blu_reduce_identity(Kernel *k, MlirOperation op);
State blu_reduce_step(Kernel *k, MlirOperation op, State s, BluEmitVal x, LLVMValueRef index /* i64 of the first lane, or scalar */,
                      bool index_is_lanewise);
/* Lane l and l + n/2, then the rest the same way: the scalar state of a vector of n, and its result. */
State blu_reduce_to_one(Kernel *k, MlirOperation op, State s);
BluEmitVal blu_reduce_lanes(Kernel *k, MlirOperation op, State s);
BluEmitVal blu_reduce_result(MlirOperation op, State s);
State blu_reduce_combine(Kernel *k, MlirOperation op, State a, State b);

/* The number of elements of a kernel whose code serves any number of them: launches say it behind their last offset, and kernels of equal
 * blu_kernel_key(.., false) can share one function. 0: the code is for the kernel's own shapes. */
int64_t blu_kernel_any_size(MlirOperation func);
/* Pieces of a launch of such a kernel. */
int64_t blu_kernel_any_size_pieces(int64_t elements);

/* Emits the function of a kernel into e's module; *pieces and *scratch as BluLaunch and BluProgram want them. */
LLVMValueRef blu_kernel_emit(LLVMContextRef ctx, LLVMModuleRef module, MlirOperation func, const BluCpu *cpu, int64_t *pieces, int64_t *scratch);
#endif
