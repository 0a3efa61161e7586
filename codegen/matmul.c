/* matmul.c - matrix products with the elementwise ops of the kernel applied before the result is stored.
 *
 * A piece is a panel of NR columns of one matrix of the batch, and a chunk of its rows. The panel of b is packed to [K][NR] in
 * the thread's scratch memory (transposed on the way, if b is), once for consecutive pieces of the same panel; a is read as it
 * stands, MR rows at a time. A tile of MR x NR elements runs through blocks of CHAIN multiply-adds whose sums are added in
 * order: the order that dialects/BluOps.td defines. The last tile of the rows starts earlier, so that it is whole: the rows that
 * it shares with the one before are computed twice and stored once. */
#include <stdlib.h>
#include <string.h>
#include "codegen/kernel.h"
#include "dialects/memory.h"

enum { CHAIN = 256, UNROLL = 4, MOST_ROWS = 240, FEWEST_PIECES = 8 };

typedef struct {
  int64_t batch, m, n, k;
  bool ta, tb, shared_b;
  BluElem elem;
  int mr, nv, nr;        /* tile: rows, vectors of columns, columns */
  int64_t panels, chunk, chunks; /* panels per matrix; rows per piece; pieces per panel */
} Product;

static int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

static Product product_of(const Kernel *k) {
  BluSig s;
  blu_sig_of(k->info.main, &s);
  const BluType *a = &s.in[0], *b = &s.in[1];
  Product p = {.batch = 1, .ta = blu_attr_int(&s.attrs, "ta", 0), .tb = blu_attr_int(&s.attrs, "tb", 0), .elem = a->elem};
  p.m = a->dim[a->rank - (p.ta ? 1 : 2)];
  p.k = a->dim[a->rank - (p.ta ? 2 : 1)];
  p.n = b->dim[b->rank - (p.tb ? 2 : 1)];
  for (int i = 0; i < a->rank - 2; i++) p.batch *= a->dim[i];
  p.shared_b = b->rank == 2;
  if (p.shared_b && !p.ta) p.m *= p.batch, p.batch = 1; /* a batch times one matrix is more rows */
  /* Registers: at level 3, 16 of 8 floats (6 x 2 for the tile); at level 4, 32 of 16 (12 x 2); at level 2, 16 of 4 (2 x 4). */
  int most = k->level >= 4 ? 12 : k->level == 3 ? 6 : 2;
  p.nv = k->level >= 4 && p.n > BLU_LANES ? 2 : 1;
  p.nr = p.nv * BLU_LANES;
  p.mr = most;
  for (int mr = most; mr >= (2 * most + 2) / 3; mr--) /* as few rows twice as possible */
    if (round_up(p.m, mr) < round_up(p.m, p.mr)) p.mr = mr;
  if (p.mr > p.m) p.mr = p.m > 0 ? (int)p.m : 1;
  p.panels = round_up(p.n, p.nr) / p.nr;
  int64_t parts = p.panels * p.batch, wanted = parts ? (FEWEST_PIECES + parts - 1) / parts : 1;
  p.chunk = round_up((p.m + wanted - 1) / wanted, p.mr);
  if (p.chunk > MOST_ROWS) p.chunk = round_up(MOST_ROWS, p.mr);
  if (p.chunk < p.mr) p.chunk = p.mr;
  p.chunks = (p.m + p.chunk - 1) / p.chunk;
  return p;
}

static int64_t pieces(const Kernel *k) {
  Product p = product_of(k);
  int64_t n = p.batch * p.panels * p.chunks;
  return n > 0 ? n : 1;
}

static int64_t scratch(const Kernel *k) {
  Product p = product_of(k);
  return (p.k * p.nr + p.mr * p.nr) * blu_elem_bytes(p.elem);
}

static LLVMValueRef i64(Kernel *k, int64_t v) { return blu_emit_i64(&k->e, v); }
static LLVMValueRef mul(Kernel *k, LLVMValueRef a, int64_t b) { return LLVMBuildMul(k->e.b, a, i64(k, b), ""); }
static LLVMValueRef add(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(k->e.b, a, b, ""); }
static LLVMValueRef smaller(Kernel *k, LLVMValueRef a, int64_t b) {
  return LLVMBuildSelect(k->e.b, LLVMBuildICmp(k->e.b, LLVMIntSLT, a, i64(k, b), ""), a, i64(k, b), "");
}
static LLVMValueRef pointer(Kernel *k, const Product *p, LLVMValueRef base, LLVMValueRef index) {
  return LLVMBuildGEP2(k->e.b, blu_emit_elem(&k->e, p->elem), base, &index, 1, "");
}

static LLVMValueRef operand_place(Kernel *k, int i) { /* one argument may be both operands */
  return k->place[mlirBlockArgumentGetArgNumber(mlirOperationGetOperand(k->info.main, i))];
}

/* ---- packing: panel[kk][c] = b[kk][column + c] ---- */

enum { BLOCK = 8 };

/* Eight rows of eight become columns, in three steps that are one instruction per row on 256-bit registers: pairs of elements,
 * pairs of pairs, halves. */
static void transpose_block(Kernel *k, LLVMValueRef *r) {
  static const int step[3][2][BLOCK] = {{{0, 8, 1, 9, 4, 12, 5, 13}, {2, 10, 3, 11, 6, 14, 7, 15}},
                                        {{0, 1, 8, 9, 4, 5, 12, 13}, {2, 3, 10, 11, 6, 7, 14, 15}},
                                        {{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}};
  LLVMTypeRef i32 = LLVMInt32TypeInContext(k->e.ctx);
  for (int s = 0, apart = 1; s < 3; s++, apart *= 2) {
    LLVMValueRef next[BLOCK], mask[2];
    for (int half = 0; half < 2; half++) {
      LLVMValueRef lane[BLOCK];
      for (int j = 0; j < BLOCK; j++) lane[j] = LLVMConstInt(i32, (unsigned)step[s][half][j], 0);
      mask[half] = LLVMConstVector(lane, BLOCK);
    }
    for (int i = 0; i < BLOCK; i++) { /* rows i and i + apart give the new rows i and i + apart */
      int low = i & ~apart;
      next[i] = LLVMBuildShuffleVector(k->e.b, r[low], r[low + apart], mask[(i & apart) != 0], "");
    }
    memcpy(r, next, sizeof next);
  }
  for (int i = 1; i < BLOCK; i += 4) { /* the steps leave columns 1 and 2, 5 and 6 exchanged */
    LLVMValueRef column = r[i];
    r[i] = r[i + 1];
    r[i + 1] = column;
  }
}

/* b as [n][k]: blocks of 8 x 8, then the rest of k one by one. Columns that don't exist repeat the last one. */
static void pack_transposed(Kernel *k, const Product *p, LLVMValueRef b, LLVMValueRef panel, int valid) {
  Emit *e = &k->e;
  int64_t whole = p->k / BLOCK * BLOCK;
  Loop l;
  e->lanes = BLOCK;
  blu_loop_begin(e, &l, k->fn, i64(k, 0), i64(k, whole), BLOCK, 0, NULL);
  for (int g = 0; g < p->nr; g += BLOCK) {
    LLVMValueRef r[BLOCK];
    for (int c = 0; c < BLOCK; c++) {
      int column = g + c < valid ? g + c : valid - 1;
      r[c] = blu_emit_load(e, p->elem, b, add(k, l.i, i64(k, column * p->k)), BLOCK);
    }
    transpose_block(k, r);
    for (int c = 0; c < BLOCK; c++)
      blu_emit_store(e, p->elem, r[c], panel, add(k, mul(k, l.i, p->nr), i64(k, (int64_t)c * p->nr + g)), BLOCK);
  }
  blu_loop_end(e, &l, NULL);
  e->lanes = BLU_LANES;
  if (whole == p->k) return;
  e->lanes = 1;
  blu_loop_begin(e, &l, k->fn, i64(k, whole), i64(k, p->k), 1, 0, NULL);
  for (int c = 0; c < p->nr; c++) {
    int column = c < valid ? c : valid - 1;
    LLVMValueRef v = blu_emit_load(e, p->elem, b, add(k, l.i, i64(k, column * p->k)), 1);
    blu_emit_store(e, p->elem, v, panel, add(k, mul(k, l.i, p->nr), i64(k, c)), 1);
  }
  blu_loop_end(e, &l, NULL);
  e->lanes = BLU_LANES;
}

static void pack(Kernel *k, const Product *p, LLVMValueRef b, LLVMValueRef panel, int valid) {
  if (p->tb) {
    pack_transposed(k, p, b, panel, valid);
    return;
  }
  Emit *e = &k->e;
  Loop l;
  blu_loop_begin(e, &l, k->fn, i64(k, 0), i64(k, p->k), 1, 0, NULL);
  for (int g = 0; g < p->nv; g++) {
    int count = valid - g * BLU_LANES > BLU_LANES ? BLU_LANES : valid - g * BLU_LANES;
    LLVMValueRef v = count > 0 ? blu_emit_load(e, p->elem, b, add(k, mul(k, l.i, p->n), i64(k, g * BLU_LANES)), count)
                               : LLVMConstNull(blu_emit_type(e, p->elem));
    blu_emit_store(e, p->elem, v, panel, add(k, mul(k, l.i, p->nr), i64(k, g * BLU_LANES)), BLU_LANES);
  }
  blu_loop_end(e, &l, NULL);
}

/* ---- the tile ---- */

/* acc += a[rows][kk] * panel[kk] for one kk */
static void multiply_add(Kernel *k, const Product *p, LLVMValueRef a, LLVMValueRef panel, LLVMValueRef kk, LLVMValueRef *acc) {
  Emit *e = &k->e;
  LLVMValueRef b[2];
  for (int g = 0; g < p->nv; g++) b[g] = blu_emit_load(e, p->elem, panel, add(k, mul(k, kk, p->nr), i64(k, g * BLU_LANES)), BLU_LANES);
  for (int r = 0; r < p->mr; r++) {
    LLVMValueRef at = p->ta ? add(k, mul(k, kk, p->m), i64(k, r)) : add(k, kk, i64(k, r * p->k));
    e->lanes = 1;
    BluEmitVal x = {.elem = p->elem, .u.v = blu_emit_load(e, p->elem, a, at, 1)};
    e->lanes = BLU_LANES;
    for (int g = 0; g < p->nv; g++) {
      LLVMValueRef *c = &acc[r * p->nv + g];
      *c = e->base.prim(&e->base, BLU_PRIM_FMA, p->elem, x, (BluEmitVal){.elem = p->elem, .u.v = b[g]}, (BluEmitVal){.elem = p->elem, .u.v = *c}).u.v;
    }
  }
}

/* The product of MR rows of a and the panel, into tile[MR][NR]. */
static void tile_product(Kernel *k, const Product *p, LLVMValueRef a, LLVMValueRef panel, LLVMValueRef tile) {
  Emit *e = &k->e;
  int n = p->mr * p->nv;
  LLVMValueRef acc[32], zero = LLVMConstNull(blu_emit_type(e, p->elem));
  for (int i = 0; i < n; i++) acc[i] = zero;
  Loop blocks, l;
  blu_loop_begin(e, &blocks, k->fn, i64(k, 0), i64(k, p->k), CHAIN, 0, NULL);
  LLVMValueRef end = smaller(k, add(k, blocks.i, i64(k, CHAIN)), p->k), whole = smaller(k, end, p->k / UNROLL * UNROLL);
  blu_loop_begin(e, &l, k->fn, blocks.i, whole, UNROLL, n, acc);
  memcpy(acc, l.phi, sizeof acc);
  for (int u = 0; u < UNROLL; u++) multiply_add(k, p, a, panel, add(k, l.i, i64(k, u)), acc);
  blu_loop_end(e, &l, acc);
  memcpy(acc, l.phi, sizeof acc);
  if (p->k % UNROLL) {
    LLVMValueRef from = l.i;
    blu_loop_begin(e, &l, k->fn, from, end, 1, n, acc);
    memcpy(acc, l.phi, sizeof acc);
    multiply_add(k, p, a, panel, l.i, acc);
    blu_loop_end(e, &l, acc);
    memcpy(acc, l.phi, sizeof acc);
  }
  LLVMValueRef first = LLVMBuildICmp(e->b, LLVMIntEQ, blocks.i, i64(k, 0), "");
  for (int i = 0; i < n; i++) {
    LLVMValueRef at = i64(k, (int64_t)i * BLU_LANES), before = blu_emit_load(e, p->elem, tile, at, BLU_LANES);
    before = LLVMBuildSelect(e->b, first, zero, before, "");
    blu_emit_store(e, p->elem, LLVMBuildFAdd(e->b, before, acc[i], ""), tile, at, BLU_LANES);
  }
  blu_loop_end(e, &blocks, NULL);
}

/* Rows [row, row + rows) of the tile go through the kernel's elementwise ops and are stored. */
static void store_tile(Kernel *k, const Product *p, LLVMValueRef tile, LLVMValueRef batch, LLVMValueRef start, LLVMValueRef skip,
                       LLVMValueRef column, int valid) {
  Emit *e = &k->e;
  MlirValue product = mlirOperationGetResult(k->info.main, 0);
  Loop l;
  blu_loop_begin(e, &l, k->fn, skip, i64(k, p->mr), 1, 0, NULL);
  LLVMBasicBlockRef columns = LLVMAppendBasicBlockInContext(e->ctx, k->fn, "columns");
  LLVMBuilderRef point = e->b, row = k->builder[LEVEL_ROW];
  k->row = add(k, add(k, mul(k, batch, p->m), start), l.i);
  LLVMPositionBuilderBefore(row, LLVMBuildBr(point, columns));
  LLVMPositionBuilderAtEnd(point, columns);
  blu_kernel_forget(k, LEVEL_ROW);
  for (int g = 0; g * BLU_LANES < valid; g++) {
    blu_kernel_forget(k, LEVEL_POINT);
    blu_kernel_enter(k, LEVEL_POINT, BLU_LANES);
    k->count = valid - g * BLU_LANES > BLU_LANES ? BLU_LANES : valid - g * BLU_LANES;
    k->column = add(k, column, i64(k, g * BLU_LANES));
    LLVMValueRef v = blu_emit_load(e, p->elem, tile, add(k, mul(k, l.i, p->nr), i64(k, g * BLU_LANES)), BLU_LANES);
    blu_kernel_define(k, LEVEL_POINT, product, BLU_VIEW_FULL, (BluEmitVal){.elem = p->elem, .u.v = v});
    BluEmitVal *value = blu_alloc((size_t)k->nout * sizeof *value);
    for (int i = 0; i < k->nout; i++) value[i] = blu_kernel_eval(k, blu_kernel_result(k, i), BLU_VIEW_FULL, &k->info.space);
    LLVMValueRef index = blu_kernel_linear(k);
    for (int i = 0; i < k->nout; i++) blu_emit_store(e, value[i].elem, value[i].u.v, k->place[k->nin + i], index, k->count);
    free(value);
  }
  blu_loop_end(e, &l, NULL);
}

/* One piece, in a panel of which `valid` columns exist. */
static void piece(Kernel *k, const Product *p, LLVMValueRef number, LLVMValueRef packed, int valid) {
  Emit *e = &k->e;
  LLVMValueRef which = LLVMBuildUDiv(e->b, number, i64(k, p->chunks), ""); /* panel of the whole batch */
  LLVMValueRef batch = LLVMBuildUDiv(e->b, which, i64(k, p->panels), "");
  LLVMValueRef column = mul(k, LLVMBuildURem(e->b, which, i64(k, p->panels), ""), p->nr);
  LLVMValueRef panel = k->scratch, tile = pointer(k, p, k->scratch, i64(k, p->k * p->nr));

  LLVMBasicBlockRef packing = LLVMAppendBasicBlockInContext(e->ctx, k->fn, "pack"), ready = LLVMAppendBasicBlockInContext(e->ctx, k->fn, "ready");
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, which, packed, ""), ready, packing);
  LLVMPositionBuilderAtEnd(e->b, packing);
  LLVMValueRef b = operand_place(k, 1);
  if (!p->shared_b) b = pointer(k, p, b, mul(k, batch, p->k * p->n));
  pack(k, p, pointer(k, p, b, p->tb ? mul(k, column, p->k) : column), panel, valid);
  LLVMBuildBr(e->b, ready);
  LLVMPositionBuilderAtEnd(e->b, ready);

  LLVMValueRef a = pointer(k, p, operand_place(k, 0), mul(k, batch, p->m * p->k));
  LLVMValueRef from = mul(k, LLVMBuildURem(e->b, number, i64(k, p->chunks), ""), p->chunk);
  Loop tiles;
  blu_loop_begin(e, &tiles, k->fn, from, smaller(k, add(k, from, i64(k, p->chunk)), p->m), p->mr, 0, NULL);
  LLVMValueRef start = smaller(k, tiles.i, p->m - p->mr), skip = LLVMBuildSub(e->b, tiles.i, start, "");
  tile_product(k, p, pointer(k, p, a, p->ta ? start : mul(k, start, p->k)), panel, tile);
  store_tile(k, p, tile, batch, start, skip, column, valid);
  blu_loop_end(e, &tiles, NULL);
}

static void body(Kernel *k) {
  Product p = product_of(k);
  Emit *e = &k->e;
  LLVMPositionBuilderAtEnd(k->builder[LEVEL_POINT], LLVMGetInsertBlock(k->builder[LEVEL_ROW]));
  blu_kernel_enter(k, LEVEL_POINT, BLU_LANES);
  Loop l;
  LLVMValueRef none = i64(k, -1), next;
  if (!p.m || !p.n) {
    LLVMBuildRetVoid(e->b);
    return;
  }
  blu_loop_begin(e, &l, k->fn, k->first, k->last, 1, 1, &none);
  int rest = (int)(p.n % p.nr);
  next = LLVMBuildUDiv(e->b, l.i, i64(k, p.chunks), "");
  if (!rest) piece(k, &p, l.i, l.phi[0], p.nr);
  else if (p.panels == 1) piece(k, &p, l.i, l.phi[0], rest);
  else {
    LLVMBasicBlockRef whole = LLVMAppendBasicBlockInContext(e->ctx, k->fn, "whole"), last = LLVMAppendBasicBlockInContext(e->ctx, k->fn, "last"),
                      after = LLVMAppendBasicBlockInContext(e->ctx, k->fn, "after");
    LLVMValueRef panel = LLVMBuildURem(e->b, next, i64(k, p.panels), "");
    LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, panel, i64(k, p.panels - 1), ""), last, whole);
    for (int i = 0; i < 2; i++) {
      LLVMPositionBuilderAtEnd(e->b, i ? last : whole);
      piece(k, &p, l.i, l.phi[0], i ? rest : p.nr);
      LLVMBuildBr(e->b, after);
    }
    LLVMPositionBuilderAtEnd(e->b, after);
  }
  blu_loop_end(e, &l, &next);
  LLVMBuildRetVoid(e->b);
}

const KernelKind blu_kernel_matmul = {.pieces = pieces, .body = body, .scratch = scratch};
