/* product.h - a matrix product as blocks: the choice of tile and blocks, and the packing of its operands. What a tile computes, and the loops
 * around it, are in codegen/matmul.c. */
#ifndef BLU_CODEGEN_PRODUCT_H
#define BLU_CODEGEN_PRODUCT_H
#include "codegen/kernel.h"

enum { BLU_CHAIN = 256 }; /* terms of a chain of multiply-adds: part of the bit contract (dialects/BluOps.td) */

typedef struct {
  int64_t batch, m, n, k;
  bool ta, tb, shared_b;
  BluElem elem, a, b;                   /* of sums and panels; of the operands in memory: a half type is widened where it is packed */
  int mr, lanes, nv, nr;                /* tile: rows, elements of a vector, vectors of columns, columns */
  int64_t panels, chunk, chunks, group; /* panels per matrix; rows per piece; chunks per matrix; most panels of a group */
  bool packs_a, far_a, far_b;           /* far: larger than half of the second cache, so that it is asked for ahead */
  bool swapped; /* tiles are of the transposed result: a and b, m and n above are the other operand's */
  int strip;    /* if so: rows of a that go through the elementwise ops at a time, a multiple of MR and of BLU_LANES */
} Product;

/* The product of a kernel, cut for the processor of k->cpu. c = a b^T is computed as the transpose of b a^T, `swapped`, where that is expected to be
 * faster: then b is read where it lies, and the smaller a is packed. */
Product blu_product_of(const Kernel *k);
int64_t blu_product_block(const Product *p);       /* terms of the longest block along k */
int64_t blu_product_tile_stride(const Product *p); /* elements from one packed tile of a to the next */

/* Part of a matrix: its element (row, column) is at [row * across + column * along]; one of the two strides is 1. */
typedef struct { LLVMValueRef at; int64_t across, along; BluElem elem; } Matrix;

/* Code for columns [from, to) along k of a panel: panel[kk * NR + r] = b(r, kk). `valid` of its NR columns exist. `from` is a multiple of
 * blu_product_step; what lies `ahead` (i64, in elements; NULL: no matter) is asked for. */
void blu_product_pack_b(Kernel *k, const Product *p, Matrix b, LLVMValueRef panel, LLVMValueRef from, LLVMValueRef to, LLVMValueRef ahead, int valid);
int blu_product_step(const Product *p);
/* Code that turns rows: to[c * stride + r] = from[r * wide + c], for r below `rows` (i64) and c below `wide`, which are multiples of 8. */
void blu_product_turn(Kernel *k, BluElem elem, LLVMValueRef from, int64_t wide, LLVMValueRef rows, LLVMValueRef to, int64_t stride);
/* Code for rows [from, to) of a, `depth` of k, as tiles of [depth][MR]. The last tile starts earlier, so that it is whole. */
void blu_product_pack_a(Kernel *k, const Product *p, Matrix a, LLVMValueRef chunk, LLVMValueRef from, LLVMValueRef to, LLVMValueRef depth);
/* Row in its matrix of the tile that is to hold row i of those before `to`; the packed tile of which row `row` of the chunk is the first. */
LLVMValueRef blu_product_tile_start(Kernel *k, const Product *p, LLVMValueRef i, LLVMValueRef to);
LLVMValueRef blu_product_packed_tile(Kernel *k, const Product *p, LLVMValueRef chunk, LLVMValueRef row);

/* ---- i64 arithmetic and addresses, for both files ---- */

static inline LLVMValueRef i64(Kernel *k, int64_t v) { return blu_emit_i64(&k->e, v); }
static inline LLVMValueRef add(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(k->e.b, a, b, ""); }
static inline LLVMValueRef sub(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSub(k->e.b, a, b, ""); }
static inline LLVMValueRef mul(Kernel *k, LLVMValueRef a, int64_t b) { return LLVMBuildMul(k->e.b, a, i64(k, b), ""); }
static inline LLVMValueRef quotient(Kernel *k, LLVMValueRef a, int64_t b) { return LLVMBuildUDiv(k->e.b, a, i64(k, b), ""); }
static inline LLVMValueRef remainder_of(Kernel *k, LLVMValueRef a, int64_t b) { return LLVMBuildURem(k->e.b, a, i64(k, b), ""); }
static inline LLVMValueRef less(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildICmp(k->e.b, LLVMIntSLT, a, b, ""); }
static inline LLVMValueRef equal(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildICmp(k->e.b, LLVMIntEQ, a, b, ""); }
static inline LLVMValueRef either(Kernel *k, LLVMValueRef which, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSelect(k->e.b, which, a, b, ""); }
static inline LLVMValueRef least(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return either(k, less(k, a, b), a, b); }
static inline LLVMValueRef most(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return either(k, less(k, a, b), b, a); }
static inline LLVMValueRef pointer(Kernel *k, const Product *p, LLVMValueRef base, LLVMValueRef index) {
  return LLVMBuildGEP2(k->e.b, blu_emit_elem(&k->e, p->elem), base, &index, 1, "");
}
static inline LLVMValueRef within(Kernel *k, const Matrix *m, LLVMValueRef index) {
  return LLVMBuildGEP2(k->e.b, blu_emit_stored(&k->e, m->elem), m->at, &index, 1, "");
}
#endif
