/* cuda.h - kernels for CUDA devices, shared between the files of codegen/cuda/. A kernel function is one device function, made by the same
 * evaluation (codegen/kernel.h) and the same rules of ops as the CPU's code; what differs is who works on which point of the space.
 * Everything is in a fixed order: no atomics, and reductions are trees of shuffles and of shared memory. */
#ifndef BLU_CODEGEN_CUDA_H
#define BLU_CODEGEN_CUDA_H
#include "codegen/kernel.h"

/* Address spaces of NVPTX: what LLVM calls them. */
enum { CUDA_GLOBAL = 1, CUDA_SHARED = 3, CUDA_WARP = 32, CUDA_BLOCK = 256 /* threads, where nothing asks for another number */, CUDA_VECTOR = 4,
       CUDA_VECTOR_BYTES = 16, CUDA_CELL = 8 /* bytes of shared memory for one value */ };

typedef struct {
  Kernel k;             /* first: what codegen/kernel.h takes */
  bool aligned;         /* places are multiples of CUDA_VECTOR_BYTES in every launch */
  LLVMValueRef shared;  /* the block's shared memory */
  LLVMValueRef thread, block; /* i64: indices */
  int64_t blocks;       /* of a launch; 1 dimension */
  int threads;          /* of a block */
  int64_t shared_bytes;
  bool holds_much;      /* of values in registers: the assembler isn't to spill some so that more blocks fit beside one another */
} Cuda;

/* The kinds of kernels: each sets blocks, threads and shared_bytes, and emits the body where k.builder[LEVEL_ROW] stands. */
void blu_cuda_rows(Cuda *c);
void blu_cuda_columns(Cuda *c);
void blu_cuda_move(Cuda *c);
void blu_cuda_loop(Cuda *c);
void blu_cuda_matmul(Cuda *c);
void blu_cuda_attention(Cuda *c);

/* The function of a kernel in the module, under the name that blu_cuda_name gives it. `aligned`: see Cuda. */
typedef struct { int64_t blocks, shared_bytes; int threads; } CudaShape;
LLVMValueRef blu_cuda_kernel_emit(LLVMModuleRef module, MlirOperation func, bool aligned, CudaShape *shape);
/* A kernel's name as PTX allows it: other characters than letters, digits and _ become $. */
void blu_cuda_name(MlirOperation func, char *to, size_t size);

/* Index arithmetic on i64. */
LLVMValueRef blu_cuda_number(Cuda *c, int64_t v);
LLVMValueRef blu_cuda_add(Cuda *c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef blu_cuda_mul(Cuda *c, LLVMValueRef a, int64_t by);
LLVMValueRef blu_cuda_less(Cuda *c, LLVMValueRef a, LLVMValueRef b);
int64_t blu_cuda_divide_up(int64_t a, int64_t b);
int blu_cuda_power(int64_t n, int most);          /* the least power of 2 that isn't below n, or `most` */
/* block * threads + thread; from then on the kernel's indices count to `total`. */
LLVMValueRef blu_cuda_point(Cuda *c, int64_t total);

/* What is emitted between the two runs where `condition` holds; the row's and the point's code go on together. */
LLVMBasicBlockRef blu_cuda_if(Cuda *c, LLVMValueRef condition);
void blu_cuda_end_if(Cuda *c, LLVMBasicBlockRef after);
/* The code behind is the row's in a block that dominates what follows, and the point's begins a block of its own. */
void blu_cuda_split(Cuda *c);

void blu_cuda_barrier(Cuda *c);
/* One value per index in shared memory: all threads of a block see what was stored before a barrier. */
void blu_cuda_shared_store(Cuda *c, LLVMValueRef index, BluEmitVal v);
BluEmitVal blu_cuda_shared_load(Cuda *c, LLVMValueRef index, BluElem t);
/* v of the thread whose index differs by the bits of `apart`, < width; width, a power of 2, threads take part together. */
BluEmitVal blu_cuda_exchange(Cuda *c, BluEmitVal v, int apart, int width);

/* How the states of all `width` threads of a group become one, which each gets: a power of 2, of a warp, or of all the block's threads; then
 * `cell` is the first of width / 32 * (values) cells of shared memory that nothing else uses. */
typedef State CudaJoin(Cuda *c, void *user, State a, State b);
State blu_cuda_join(Cuda *c, CudaJoin *join, void *user, State s, int width, int64_t *cell);

/* Functions of double that ops call (blu_rt_sin ..): every one that the module declares is defined. */
void blu_cuda_math(LLVMModuleRef module);
#endif
