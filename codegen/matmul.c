/* matmul.c - matrix products with the elementwise ops of the kernel applied before the result is stored.
 *
 * A piece is a panel of NR columns of one matrix of the batch, and a chunk of its rows. Consecutive pieces of one chunk are worked on as
 * a group: for each block of CHAIN along k, the chunk's rows of a are packed once (tiles of [CHAIN][MR]), then each panel of b
 * ([CHAIN][NR], which stays in the first cache while the chunk's tiles pass by it). A tile of MR x NR elements gains one chain of
 * multiply-adds per block; the sums are added in order: the order that dialects/BluOps.td defines, whatever the grouping. The last tile
 * of the rows starts earlier, so that it is whole: the rows that it shares with the one before are computed twice and stored once. */
#include <stdlib.h>
#include <string.h>
#include "codegen/kernel.h"
#include "dialects/memory.h"

enum {
  CHAIN = 256,
  MOST_ROWS = 288,         /* a chunk's block of a lies in the second cache */
  SUMS_BYTES = 1 << 19,    /* of a group, which lie in the second cache from block to block */
  FEWEST_PIECES = 8,
  FEWEST_TO_PACK_A = 4,    /* panels: with fewer, packing costs more than it saves; if a is transposed, half of that */
  AHEAD = 8,               /* rows of a transposed a that are asked for while one is packed */
  FAR_APART = 1 << 16,     /* elements of a: with fewer, they lie in the second cache in any order */
  PAGE = 4096,             /* bytes: rows that are multiples of this apart meet in the same lines of the first cache */
  LINE = 64,               /* bytes of a line of the caches */
  PREFETCH_BYTES = 1 << 21,  /* a larger b comes from memory: the next panel is asked for while this one is used */
  MANY_OPS = 8,
  FAR_RESULT_BYTES = 1 << 18 /* a larger result isn't in the second cache when it is stored, since other tensors were there */
};

typedef struct {
  int64_t batch, m, n, k;
  bool ta, tb, shared_b, packs_a;
  BluElem elem, a, b;                   /* of sums and of packed panels; of the operands in memory */
  int mr, nv, nr;                       /* tile: rows, vectors of columns, columns */
  int64_t panels, chunk, chunks, group; /* panels per matrix; rows per piece; chunks per matrix; most panels of a group */
} Product;

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

static Product product_of(const Kernel *k) {
  BluSig s;
  blu_sig_of(k->info.main, &s);
  const BluType *a = &s.in[0], *b = &s.in[1];
  Product p = {.batch = 1, .ta = blu_attr_int(&s.attrs, "ta", 0), .tb = blu_attr_int(&s.attrs, "tb", 0), .elem = a->elem};
  LLVMValueRef unused;
  p.a = blu_kernel_source(k, 0, &unused), p.b = blu_kernel_source(k, 1, &unused);
  p.m = a->dim[a->rank - (p.ta ? 1 : 2)];
  p.k = a->dim[a->rank - (p.ta ? 2 : 1)];
  p.n = b->dim[b->rank - (p.tb ? 2 : 1)];
  for (int i = 0; i < a->rank - 2; i++) p.batch *= a->dim[i];
  p.shared_b = b->rank == 2;
  if (p.shared_b && !p.ta) p.m *= p.batch, p.batch = 1; /* a batch times one matrix is more rows */
  /* Registers: at level 3, 16 of 8 floats (6 x 2 for the tile); at level 4, 32 of 16 (12 x 2); at level 2, 16 of 4 (2 x 4). */
  int most = k->level >= 4 ? 12 : k->level == 3 ? 6 : 2;
  bool wide = blu_elem_bytes(p.elem) > 4; /* twice the registers for as many elements */
  p.nv = k->level >= 4 && p.n > BLU_LANES && !wide ? 2 : 1;
  if (wide && k->level < 4) most /= 2;
  p.nr = p.nv * BLU_LANES;
  p.mr = most;
  for (int mr = most; mr >= (2 * most + 2) / 3; mr--) /* as few rows twice as possible */
    if (round_up(p.m, mr) < round_up(p.m, p.mr)) p.mr = mr;
  if (p.mr > p.m) p.mr = p.m > 0 ? (int)p.m : 1;
  p.panels = divide_up(p.n, p.nr);
  int64_t parts = p.panels * p.batch, wanted = parts ? divide_up(FEWEST_PIECES, parts) : 1;
  if (wanted < divide_up(p.m, MOST_ROWS)) wanted = divide_up(p.m, MOST_ROWS);
  p.chunk = round_up(divide_up(p.m, wanted), p.mr);
  if (p.chunk < p.mr) p.chunk = p.mr;
  p.chunks = divide_up(p.m, p.chunk);
  int64_t fitting = SUMS_BYTES / (p.chunk * p.nr * blu_elem_bytes(p.elem)); /* panels of a group; one block keeps no sums */
  if (fitting < 1) fitting = 1;
  p.group = p.k <= CHAIN || !p.panels ? p.panels : divide_up(p.panels, divide_up(p.panels, fitting));
  if (p.a != p.elem) p.packs_a = true; /* widened once */
  else if (p.ta) p.packs_a = 2 * p.panels >= FEWEST_TO_PACK_A && p.m * p.k >= FAR_APART;
  else p.packs_a = p.panels >= FEWEST_TO_PACK_A && p.k * blu_elem_bytes(p.elem) % PAGE == 0;
  return p;
}

static int64_t pieces(const Kernel *k) {
  Product p = product_of(k);
  int64_t n = p.batch * p.panels * p.chunks;
  return n > 0 ? n : 1;
}

/* Scratch memory, in elements: the panel of b, the sums of the group (of one tile, if one block is all), the chunk of a. */
static int64_t block_of(const Product *p) { return p->k < CHAIN ? p->k : CHAIN; }
static int64_t sums_at(const Product *p) { return round_up(block_of(p) * p->nr, BLU_LANES); }
static int64_t chunk_at(const Product *p) { return sums_at(p) + (p->k > CHAIN ? p->chunk * p->group : p->mr) * p->nr; }

/* From one packed tile of a to the next: not a multiple of a page, for lines of all tiles are written in turn. */
static int64_t tile_stride(const Product *p) { return p->mr * block_of(p) + BLU_LANES; }

static int64_t scratch(const Kernel *k) {
  Product p = product_of(k);
  return (chunk_at(&p) + (p.packs_a ? p.chunk / p.mr * tile_stride(&p) : 0)) * blu_elem_bytes(p.elem);
}

static LLVMValueRef i64(Kernel *k, int64_t v) { return blu_emit_i64(&k->e, v); }
static LLVMValueRef mul(Kernel *k, LLVMValueRef a, int64_t b) { return LLVMBuildMul(k->e.b, a, i64(k, b), ""); }
static LLVMValueRef add(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(k->e.b, a, b, ""); }
static LLVMValueRef sub(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSub(k->e.b, a, b, ""); }
static LLVMValueRef quotient(Kernel *k, LLVMValueRef a, int64_t b) { return LLVMBuildUDiv(k->e.b, a, i64(k, b), ""); }
static LLVMValueRef remainder_of(Kernel *k, LLVMValueRef a, int64_t b) { return LLVMBuildURem(k->e.b, a, i64(k, b), ""); }
static LLVMValueRef least(Kernel *k, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(k->e.b, LLVMBuildICmp(k->e.b, LLVMIntSLT, a, b, ""), a, b, "");
}
static LLVMValueRef equal(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildICmp(k->e.b, LLVMIntEQ, a, b, ""); }
static LLVMValueRef either(Kernel *k, LLVMValueRef which, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSelect(k->e.b, which, a, b, ""); }
static LLVMValueRef pointer(Kernel *k, const Product *p, LLVMValueRef base, LLVMValueRef index) {
  return LLVMBuildGEP2(k->e.b, blu_emit_elem(&k->e, p->elem), base, &index, 1, "");
}
static LLVMBasicBlockRef new_block(Kernel *k, const char *name) { return LLVMAppendBasicBlockInContext(k->e.ctx, k->fn, name); }

/* What is emitted between the two runs if `condition` holds. */
static LLVMBasicBlockRef begin_if(Kernel *k, LLVMValueRef condition, const char *name) {
  LLVMBasicBlockRef then = new_block(k, name), after = new_block(k, "after");
  LLVMBuildCondBr(k->e.b, condition, then, after);
  LLVMPositionBuilderAtEnd(k->e.b, then);
  return after;
}
static void end_if(Kernel *k, LLVMBasicBlockRef after) {
  LLVMBuildBr(k->e.b, after);
  LLVMPositionBuilderAtEnd(k->e.b, after);
}

static LLVMValueRef operand_place(Kernel *k, int i) {
  LLVMValueRef place;
  blu_kernel_source(k, i, &place);
  return place;
}

/* Part of a matrix: its element (row, column) is at [row * across + column * along]; one of the two strides is 1. */
typedef struct { LLVMValueRef at; int64_t across, along; BluElem elem; } Matrix;

static LLVMValueRef within(Kernel *k, const Matrix *m, LLVMValueRef index) {
  return LLVMBuildGEP2(k->e.b, blu_emit_stored(&k->e, m->elem), m->at, &index, 1, "");
}

/* ---- packing: rows r of the matrix become columns, to[kk * width + r] = from(r, kk), kk < `depth` ---- */

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

/* Where rows lie along kk: blocks of 8 x 8, then the rest one by one. Rows from `valid` on repeat the last one. */
static void pack_transposed(Kernel *k, const Product *p, Matrix from, LLVMValueRef to, LLVMValueRef depth, int width, int valid) {
  Emit *e = &k->e;
  LLVMValueRef whole = LLVMBuildAnd(e->b, depth, i64(k, -BLOCK), "");
  Loop l;
  e->lanes = BLOCK;
  blu_loop_begin(e, &l, k->fn, i64(k, 0), whole, BLOCK, 0, NULL);
  for (int g = 0; g < width; g += BLOCK) {
    int first = g + BLOCK > width && width >= BLOCK ? width - BLOCK : g, count = width < BLOCK ? width : BLOCK;
    LLVMValueRef r[BLOCK];
    for (int c = 0; c < BLOCK; c++) {
      int row = first + c < valid ? first + c : valid - 1;
      r[c] = blu_emit_load(e, from.elem, from.at, add(k, l.i, i64(k, row * from.across)), BLOCK);
    }
    transpose_block(k, r);
    for (int c = 0; c < BLOCK; c++)
      blu_emit_store(e, p->elem, r[c], to, add(k, mul(k, l.i, width), i64(k, (int64_t)c * width + first)), count);
  }
  blu_loop_end(e, &l, NULL);
  e->lanes = 1;
  if (p->k % BLOCK) {
    blu_loop_begin(e, &l, k->fn, whole, depth, 1, 0, NULL);
    for (int c = 0; c < width; c++) {
      int row = c < valid ? c : valid - 1;
      LLVMValueRef v = blu_emit_load(e, from.elem, from.at, add(k, l.i, i64(k, row * from.across)), 1);
      blu_emit_store(e, p->elem, v, to, add(k, mul(k, l.i, width), i64(k, c)), 1);
    }
    blu_loop_end(e, &l, NULL);
  }
  e->lanes = BLU_LANES;
}

/* Where they lie across kk: copies of `width` elements, of which `valid` exist. */
static void copy_rows(Kernel *k, const Product *p, BluElem elem, LLVMValueRef from, LLVMValueRef to, int width, int valid) {
  Emit *e = &k->e;
  for (int g = 0; g < width; g += BLU_LANES) {
    int count = valid - g > BLU_LANES ? BLU_LANES : valid - g, room = width - g > BLU_LANES ? BLU_LANES : width - g;
    LLVMValueRef v = count > 0 ? blu_emit_load(e, elem, from, i64(k, g), count) : LLVMConstNull(blu_emit_type(e, p->elem));
    blu_emit_store(e, p->elem, v, to, i64(k, g), room);
  }
}

/* The panel: columns of b, `depth` of k. */
static void pack_b(Kernel *k, const Product *p, Matrix b, LLVMValueRef panel, LLVMValueRef depth, int valid) {
  if (p->tb) {
    pack_transposed(k, p, b, panel, depth, p->nr, valid);
    return;
  }
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, i64(k, 0), depth, 1, 0, NULL);
  copy_rows(k, p, b.elem, within(k, &b, mul(k, l.i, b.along)), pointer(k, p, panel, mul(k, l.i, p->nr)), p->nr, valid);
  blu_loop_end(&k->e, &l, NULL);
}

/* Row in its matrix of the tile that is to hold row i. */
static LLVMValueRef tile_start(Kernel *k, const Product *p, LLVMValueRef i) { return least(k, i, i64(k, p->m - p->mr)); }

/* The packed tile of which row `row` of the chunk is the first. */
static LLVMValueRef packed_tile(Kernel *k, const Product *p, LLVMValueRef chunk, LLVMValueRef row) {
  return pointer(k, p, chunk, mul(k, quotient(k, row, p->mr), tile_stride(p)));
}

/* Rows [from, to) of a, `depth` of k, as tiles of [depth][MR]. Where rows lie across k, memory is read in its order: all tiles of one
 * kk, then the next. */
static void pack_a(Kernel *k, const Product *p, Matrix a, LLVMValueRef chunk, LLVMValueRef from, LLVMValueRef to, LLVMValueRef depth) {
  Loop tiles, l;
  if (p->ta) blu_loop_begin(&k->e, &l, k->fn, i64(k, 0), depth, 1, 0, NULL);
  blu_loop_begin(&k->e, &tiles, k->fn, from, to, p->mr, 0, NULL);
  LLVMValueRef start = tile_start(k, p, tiles.i), at = packed_tile(k, p, chunk, sub(k, tiles.i, from));
  Matrix rows = {within(k, &a, mul(k, start, a.across)), a.across, a.along, a.elem};
  if (p->ta) {
    LLVMValueRef row = within(k, &rows, mul(k, l.i, a.along));
    Matrix below = {row, 0, 0, a.elem};
    blu_emit_prefetch(&k->e, within(k, &below, i64(k, AHEAD * a.along)), 1);
    copy_rows(k, p, a.elem, row, pointer(k, p, at, mul(k, l.i, p->mr)), p->mr, p->mr);
  }
  else pack_transposed(k, p, rows, at, depth, p->mr, p->mr);
  blu_loop_end(&k->e, &tiles, NULL);
  if (p->ta) blu_loop_end(&k->e, &l, NULL);
}

/* ---- what comes next ---- */

/* Asks for what the tile's rows of a tensor at `place` hold. */
static void prefetch_tile(Kernel *k, const Product *p, LLVMValueRef place, BluElem t, LLVMValueRef row, LLVMValueRef column) {
  for (int r = 0; r < p->mr; r++)
    for (int c = 0; c < p->nr; c += LINE / blu_elem_bytes(t)) {
      LLVMValueRef index = add(k, mul(k, add(k, row, i64(k, r)), p->n), add(k, column, i64(k, c)));
      blu_emit_prefetch(&k->e, LLVMBuildGEP2(k->e.b, blu_emit_stored(&k->e, t), place, &index, 1, ""), 1);
    }
}

/* Asks for the lines that the tile will be stored to, and for those that its elementwise ops read: a dozen at once that come from
 * memory would stop the processor. */
static void prefetch_results(Kernel *k, const Product *p, LLVMValueRef row, LLVMValueRef column) {
  int64_t count = p->batch * p->m * p->n;
  for (int i = 0; i < k->nin; i++) {
    BluType t = blu_value_type(mlirBlockGetArgument(k->block, i));
    bool product = false;
    for (int j = 0; j < 2; j++) product |= operand_place(k, j) == k->place[i];
    if (!product && blu_type_count(&t) == count) prefetch_tile(k, p, k->place[i], t.elem, row, column);
  }
  int ops = 0; /* with many, stores are far enough apart */
  for (MlirOperation o = mlirBlockGetFirstOperation(k->block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o))
    ops += blu_op_of(o) && blu_op_of(o)->rule->kind == BLU_KIND_ELEMENT;
  if (ops > MANY_OPS) return;
  for (int i = 0; i < k->nout; i++) prefetch_tile(k, p, k->place[k->nin + i], blu_value_type(blu_kernel_result(k, i)).elem, row, column);
}

/* Asks for the rows of a behind those of this tile: they are new in the first panel of a group. */
static void prefetch_rows(Kernel *k, const Product *p, Matrix rows, LLVMValueRef depth) {
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, i64(k, 0), depth, LINE / blu_elem_bytes(p->elem), 0, NULL);
  for (int r = 0; r < p->mr; r++) blu_emit_prefetch(&k->e, within(k, &rows, add(k, l.i, i64(k, (r + p->mr) * rows.across))), 2);
  blu_loop_end(&k->e, &l, NULL);
}

/* Asks for part `number` of `parts` of a block of b, the panel of next.at, so that packing finds it in the second cache. */
static void prefetch_panel(Kernel *k, const Product *p, Matrix next, LLVMValueRef number, int64_t parts) {
  Emit *e = &k->e;
  int64_t per_line = LINE / blu_elem_bytes(p->b), lines = p->tb ? p->nr * divide_up(block_of(p), per_line) : block_of(p);
  int64_t share = divide_up(lines, parts), along = divide_up(block_of(p), per_line);
  Loop l;
  LLVMValueRef from = mul(k, number, share);
  blu_loop_begin(e, &l, k->fn, from, least(k, add(k, from, i64(k, share)), i64(k, lines)), 1, 0, NULL);
  for (int64_t c = 0; c < (p->tb ? 1 : p->nr); c += per_line) {
    LLVMValueRef index = p->tb ? add(k, mul(k, quotient(k, l.i, along), next.across), mul(k, remainder_of(k, l.i, along), per_line))
                               : add(k, mul(k, l.i, next.along), i64(k, c));
    blu_emit_prefetch(e, within(k, &next, index), 2);
  }
  blu_loop_end(e, &l, NULL);
}

/* ---- the tile ---- */

/* acc += a(row, kk) * panel[kk] for one kk */
static void multiply_add(Kernel *k, const Product *p, Matrix a, LLVMValueRef panel, LLVMValueRef kk, LLVMValueRef *acc) {
  Emit *e = &k->e;
  LLVMValueRef b[2];
  for (int g = 0; g < p->nv; g++) b[g] = blu_emit_load(e, p->elem, panel, add(k, mul(k, kk, p->nr), i64(k, g * BLU_LANES)), BLU_LANES);
  for (int r = 0; r < p->mr; r++) {
    e->lanes = 1;
    LLVMValueRef at = add(k, mul(k, kk, a.along), i64(k, r * a.across));
    BluEmitVal x = {.elem = p->elem, .u.v = blu_emit_load(e, a.elem, a.at, at, 1)};
    e->lanes = BLU_LANES;
    for (int g = 0; g < p->nv; g++) {
      LLVMValueRef *c = &acc[r * p->nv + g];
      *c = e->base.prim(&e->base, BLU_PRIM_FMA, p->elem, x, (BluEmitVal){.elem = p->elem, .u.v = b[g]}, (BluEmitVal){.elem = p->elem, .u.v = *c}).u.v;
    }
  }
}

/* One chain of MR rows of a and the panel, added to sums[MR][NR]; `first`: there are no sums yet. */
static void add_chain(Kernel *k, const Product *p, Matrix a, LLVMValueRef panel, LLVMValueRef depth, LLVMValueRef first, LLVMValueRef sums) {
  Emit *e = &k->e;
  int n = p->mr * p->nv;
  LLVMValueRef acc[32], zero = LLVMConstNull(blu_emit_type(e, p->elem));
  for (int i = 0; i < n; i++) acc[i] = zero;
  Loop l;
  blu_loop_begin(e, &l, k->fn, i64(k, 0), depth, 1, n, acc);
  memcpy(acc, l.phi, sizeof acc);
  multiply_add(k, p, a, panel, l.i, acc);
  blu_loop_end(e, &l, acc);
  for (int i = 0; i < n; i++) {
    LLVMValueRef at = i64(k, (int64_t)i * BLU_LANES), before = zero;
    if (p->k > CHAIN) before = either(k, first, zero, blu_emit_load(e, p->elem, sums, at, BLU_LANES));
    blu_emit_store(e, p->elem, LLVMBuildFAdd(e->b, before, l.phi[i], ""), sums, at, BLU_LANES);
  }
}

/* Rows [skip, MR) of the tile, the first of which is `row` of the space, go through the kernel's elementwise ops and are stored. */
static void store_tile(Kernel *k, const Product *p, LLVMValueRef tile, LLVMValueRef row, LLVMValueRef skip, LLVMValueRef column, int valid) {
  Emit *e = &k->e;
  MlirValue product = mlirOperationGetResult(k->info.main, 0);
  Loop l;
  blu_loop_begin(e, &l, k->fn, skip, i64(k, p->mr), 1, 0, NULL);
  LLVMBasicBlockRef columns = new_block(k, "columns");
  LLVMBuilderRef point = e->b, rows = k->builder[LEVEL_ROW];
  k->row = add(k, row, l.i);
  LLVMPositionBuilderBefore(rows, LLVMBuildBr(point, columns));
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

/* ---- loops ---- */

typedef struct {
  LLVMValueRef batch, panel, panels; /* of a group: its matrix, first panel, end of its panels */
  LLVMValueRef from, to;             /* rows of its chunk */
  LLVMValueRef kk, depth;            /* of a block: its place along k, its length */
} Place;

static Matrix part_of_a(Kernel *k, const Product *p, const Place *g) {
  Matrix a = {operand_place(k, 0), p->ta ? 1 : p->k, p->ta ? p->m : 1, p->a};
  a.at = within(k, &a, add(k, mul(k, g->batch, p->m * p->k), mul(k, g->kk, a.along)));
  return a;
}

static Matrix part_of_b(Kernel *k, const Product *p, const Place *g, LLVMValueRef panel, LLVMValueRef kk) {
  Matrix b = {operand_place(k, 1), p->tb ? p->k : 1, p->tb ? 1 : p->n, p->b};
  LLVMValueRef index = add(k, mul(k, kk, b.along), mul(k, panel, p->nr * b.across));
  if (!p->shared_b) index = add(k, index, mul(k, g->batch, p->k * p->n));
  b.at = within(k, &b, index);
  return b;
}

/* Emits `whole` for every panel but a last one with fewer columns, and that. */
typedef struct { LLVMBasicBlockRef last, after; int rest; } Fork;
static int fork_begin(Kernel *k, const Product *p, LLVMValueRef panel, Fork *f) {
  *f = (Fork){.rest = (int)(p->n % p->nr)};
  if (!f->rest) return p->nr;
  if (p->panels == 1) return f->rest;
  LLVMBasicBlockRef whole = new_block(k, "whole");
  f->last = new_block(k, "last"), f->after = new_block(k, "after");
  LLVMBuildCondBr(k->e.b, equal(k, panel, i64(k, p->panels - 1)), f->last, whole);
  LLVMPositionBuilderAtEnd(k->e.b, whole);
  return p->nr;
}
static bool fork_next(Kernel *k, Fork *f) { /* false: nothing left to emit */
  if (!f->after) return false;
  LLVMBuildBr(k->e.b, f->after);
  LLVMPositionBuilderAtEnd(k->e.b, f->last ? f->last : f->after);
  bool more = f->last != NULL;
  if (!more) f->after = NULL;
  f->last = NULL;
  return more;
}

/* The tiles of one panel and one block. */
static void all_tiles(Kernel *k, const Product *p, const Place *g, Matrix a, LLVMValueRef panel, Matrix next) {
  LLVMValueRef b = k->scratch, sums = pointer(k, p, k->scratch, i64(k, sums_at(p))), chunk = pointer(k, p, k->scratch, i64(k, chunk_at(p)));
  LLVMValueRef first = equal(k, g->kk, i64(k, 0)), last = LLVMBuildICmp(k->e.b, LLVMIntSGE, add(k, g->kk, g->depth), i64(k, p->k), "");
  Loop tiles;
  if (p->k > CHAIN) sums = pointer(k, p, sums, mul(k, sub(k, panel, g->panel), p->chunk * p->nr));
  blu_loop_begin(&k->e, &tiles, k->fn, g->from, g->to, p->mr, 0, NULL);
  LLVMValueRef at = sub(k, tiles.i, g->from), start = tile_start(k, p, tiles.i);
  LLVMValueRef row = add(k, mul(k, g->batch, p->m), start), skip = sub(k, tiles.i, start), column = mul(k, panel, p->nr);
  if (p->batch * p->m * p->n * blu_elem_bytes(p->elem) > FAR_RESULT_BYTES) {
    LLVMBasicBlockRef after = begin_if(k, last, "ask");
    prefetch_results(k, p, row, column);
    end_if(k, after);
  }
  if (next.at) prefetch_panel(k, p, next, quotient(k, at, p->mr), divide_up(p->chunk, p->mr));
  Matrix rows = {within(k, &a, mul(k, start, a.across)), a.across, a.along, a.elem};
  if (!p->packs_a && !p->ta && p->batch * p->m * p->k * blu_elem_bytes(p->elem) > PREFETCH_BYTES) {
    LLVMBasicBlockRef after = begin_if(k, equal(k, panel, g->panel), "rows");
    prefetch_rows(k, p, rows, g->depth);
    end_if(k, after);
  }
  if (p->packs_a) rows = (Matrix){packed_tile(k, p, chunk, at), 1, p->mr, p->elem};
  LLVMValueRef tile = p->k > CHAIN ? pointer(k, p, sums, mul(k, at, p->nr)) : sums;
  add_chain(k, p, rows, b, g->depth, first, tile);
  LLVMBasicBlockRef stored = p->k > CHAIN ? begin_if(k, last, "store") : NULL;
  Fork f;
  int valid = fork_begin(k, p, panel, &f);
  do store_tile(k, p, tile, row, skip, column, valid), valid = f.rest;
  while (fork_next(k, &f));
  if (stored) end_if(k, stored);
  blu_loop_end(&k->e, &tiles, NULL);
}

/* One block of all panels of a group. */
static void all_panels(Kernel *k, const Product *p, const Place *g) {
  Matrix a = part_of_a(k, p, g), next = {0};
  if (p->packs_a) pack_a(k, p, a, pointer(k, p, k->scratch, i64(k, chunk_at(p))), g->from, g->to, g->depth);
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, g->panel, g->panels, 1, 0, NULL);
  Fork f;
  int valid = fork_begin(k, p, l.i, &f);
  do pack_b(k, p, part_of_b(k, p, g, l.i, g->kk), k->scratch, g->depth, valid), valid = f.rest;
  while (fork_next(k, &f));
  if (p->k * p->n * blu_elem_bytes(p->elem) > PREFETCH_BYTES) { /* the panel after this one, else the next block, else the next group */
    LLVMValueRef after = add(k, l.i, i64(k, 1)), end = add(k, g->kk, g->depth), more = LLVMBuildICmp(k->e.b, LLVMIntSLT, after, g->panels, "");
    LLVMValueRef deeper = LLVMBuildICmp(k->e.b, LLVMIntSLT, end, i64(k, p->k), "");
    next = part_of_b(k, p, g, either(k, more, after, either(k, deeper, g->panel, after)),
                     either(k, more, g->kk, either(k, deeper, end, i64(k, 0))));
  }
  all_tiles(k, p, g, a, l.i, next);
  blu_loop_end(&k->e, &l, NULL);
}

static void body(Kernel *k) {
  Product p = product_of(k);
  Emit *e = &k->e;
  LLVMPositionBuilderAtEnd(k->builder[LEVEL_POINT], LLVMGetInsertBlock(k->builder[LEVEL_ROW]));
  blu_kernel_enter(k, LEVEL_POINT, BLU_LANES);
  if (!p.m || !p.n) {
    LLVMBuildRetVoid(e->b);
    return;
  }
  Loop groups, blocks;
  blu_loop_begin(e, &groups, k->fn, k->first, k->last, 1, 0, NULL);
  LLVMValueRef which = quotient(k, groups.i, p.panels), count; /* chunk of the whole batch */
  Place g = {.batch = quotient(k, which, p.chunks), .panel = remainder_of(k, groups.i, p.panels)};
  g.from = mul(k, remainder_of(k, which, p.chunks), p.chunk);
  g.to = least(k, add(k, g.from, i64(k, p.chunk)), i64(k, p.m));
  count = least(k, least(k, sub(k, k->last, groups.i), i64(k, p.group)), sub(k, i64(k, p.panels), g.panel));
  g.panels = add(k, g.panel, count);
  groups.step = count;
  blu_loop_begin(e, &blocks, k->fn, i64(k, 0), i64(k, p.k > 0 ? p.k : 1), CHAIN, 0, NULL); /* a product over nothing is 0, and stored */
  g.kk = blocks.i;
  g.depth = least(k, sub(k, i64(k, p.k), blocks.i), i64(k, CHAIN));
  all_panels(k, &p, &g);
  blu_loop_end(e, &blocks, NULL);
  blu_loop_end(e, &groups, NULL);
  LLVMBuildRetVoid(e->b);
}

const KernelKind blu_kernel_matmul = {.pieces = pieces, .body = body, .scratch = scratch};
