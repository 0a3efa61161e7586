/* pack.c - code that packs the operands of a matrix product: rows r of a part of a matrix become columns, to[kk * width + r] = from(r, kk). */
#include <string.h>
#include "codegen/product.h"

enum {
  BLOCK = 8,
  TILES = 4,   /* of a transposed a that are packed side by side, so that a line is read at once */
  AHEAD = 8,   /* rows of a transposed a that are asked for while one is packed */
  LINE = 64    /* bytes of a line of the caches */
};

static LLVMValueRef shuffled(Kernel *k, LLVMValueRef a, LLVMValueRef b, const int *lanes) {
  LLVMValueRef lane[BLOCK];
  LLVMTypeRef i32 = LLVMInt32TypeInContext(k->e.ctx);
  for (int j = 0; j < BLOCK; j++) lane[j] = LLVMConstInt(i32, (unsigned)lanes[j], 0);
  return LLVMBuildShuffleVector(k->e.b, a, b, LLVMConstVector(lane, BLOCK), "");
}

/* Eight rows of eight become columns, in three steps that are one instruction per row on 256-bit registers: pairs of elements,
 * pairs of pairs, halves. */
static void transpose_block(Kernel *k, LLVMValueRef *r) {
  static const int step[3][2][BLOCK] = {{{0, 8, 1, 9, 4, 12, 5, 13}, {2, 10, 3, 11, 6, 14, 7, 15}},
                                        {{0, 1, 8, 9, 4, 5, 12, 13}, {2, 3, 10, 11, 6, 7, 14, 15}},
                                        {{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}};
  for (int s = 0, apart = 1; s < 3; s++, apart *= 2) {
    LLVMValueRef next[BLOCK];
    for (int i = 0; i < BLOCK; i++) { /* rows i and i + apart give the new rows i and i + apart */
      int low = i & ~apart;
      next[i] = shuffled(k, r[low], r[low + apart], step[s][(i & apart) != 0]);
    }
    memcpy(r, next, sizeof next);
  }
  for (int i = 1; i < BLOCK; i += 4) { /* the steps leave columns 1 and 2, 5 and 6 exchanged */
    LLVMValueRef column = r[i];
    r[i] = r[i + 1];
    r[i + 1] = column;
  }
}

void blu_product_turn(Kernel *k, BluElem elem, LLVMValueRef from, int64_t wide, LLVMValueRef rows, LLVMValueRef to, int64_t stride) {
  Emit *e = &k->e;
  Loop row, column;
  blu_loop_begin(e, &row, k->fn, i64(k, 0), rows, BLOCK, 0, NULL);
  blu_loop_begin(e, &column, k->fn, i64(k, 0), i64(k, wide), BLOCK, 0, NULL);
  e->lanes = BLOCK;
  LLVMValueRef r[BLOCK];
  for (int i = 0; i < BLOCK; i++) r[i] = blu_emit_load(e, elem, from, add(k, mul(k, add(k, row.i, i64(k, i)), wide), column.i), BLOCK);
  transpose_block(k, r);
  for (int i = 0; i < BLOCK; i++) blu_emit_store(e, elem, r[i], to, add(k, mul(k, add(k, column.i, i64(k, i)), stride), row.i), BLOCK);
  e->lanes = BLU_LANES;
  blu_loop_end(e, &column, NULL);
  blu_loop_end(e, &row, NULL);
}

/* Four rows of eight become eight columns of four, two in each vector. */
static void transpose_half(Kernel *k, LLVMValueRef *r) {
  static const int pairs[2][BLOCK] = {{0, 8, 1, 9, 4, 12, 5, 13}, {2, 10, 3, 11, 6, 14, 7, 15}};
  static const int fours[2][BLOCK] = {{0, 1, 8, 9, 4, 5, 12, 13}, {2, 3, 10, 11, 6, 7, 14, 15}};
  static const int halves[2][BLOCK] = {{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}};
  LLVMValueRef p[2][2], f[2][2]; /* f[h][i]: columns 2 h + i and 4 + 2 h + i */
  for (int h = 0; h < 2; h++)
    for (int i = 0; i < 2; i++) p[h][i] = shuffled(k, r[2 * i], r[2 * i + 1], pairs[h]);
  for (int h = 0; h < 2; h++)
    for (int i = 0; i < 2; i++) f[h][i] = shuffled(k, p[h][0], p[h][1], fours[i]);
  for (int h = 0; h < 2; h++)
    for (int i = 0; i < 2; i++) r[2 * i + h] = shuffled(k, f[h][0], f[h][1], halves[i]);
}

/* Columns [begin, end) along kk, of which whole blocks are 8 x 8 at a time, the rest one by one; rows from `valid` on repeat the last one. */
static void pack_transposed(Kernel *k, const Product *p, Matrix from, LLVMValueRef to, LLVMValueRef begin, LLVMValueRef end, LLVMValueRef ahead,
                            int width, int valid) {
  Emit *e = &k->e;
  LLVMValueRef whole = p->k % BLOCK ? LLVMBuildAnd(e->b, end, i64(k, -BLOCK), "") : end;
  Loop l;
  e->lanes = BLOCK;
  blu_loop_begin(e, &l, k->fn, begin, whole, BLOCK, 0, NULL);
  for (int row = 0; ahead && row < valid; row++)
    blu_emit_prefetch(e, within(k, &from, add(k, add(k, l.i, ahead), i64(k, row * from.across))), 1);
  for (int g = 0; g < width; g += BLOCK) {
    bool half = width == BLOCK / 2;
    int first = g + BLOCK > width && width >= BLOCK ? width - BLOCK : g, count = width < BLOCK ? width : BLOCK, rows = half ? BLOCK / 2 : BLOCK;
    LLVMValueRef r[BLOCK];
    for (int c = 0; c < rows; c++) {
      int row = first + c < valid ? first + c : valid - 1;
      r[c] = blu_emit_load(e, from.elem, from.at, add(k, l.i, i64(k, row * from.across)), BLOCK);
    }
    if (half) transpose_half(k, r);
    else transpose_block(k, r);
    for (int c = 0; c < rows; c++)
      blu_emit_store(e, p->elem, r[c], to, add(k, mul(k, l.i, width), i64(k, half ? (int64_t)c * BLOCK : (int64_t)c * width + first)), half ? BLOCK : count);
  }
  blu_loop_end(e, &l, NULL);
  e->lanes = 1;
  if (p->k % BLOCK) {
    blu_loop_begin(e, &l, k->fn, most(k, begin, whole), end, 1, 0, NULL);
    for (int c = 0; c < width; c++) {
      int row = c < valid ? c : valid - 1;
      LLVMValueRef v = blu_emit_load(e, from.elem, from.at, add(k, l.i, i64(k, row * from.across)), 1);
      blu_emit_store(e, p->elem, v, to, add(k, mul(k, l.i, width), i64(k, c)), 1);
    }
    blu_loop_end(e, &l, NULL);
  }
  e->lanes = BLU_LANES;
}

/* Where rows lie across kk: copies of `width` elements, of which `valid` exist. */
static void copy_row(Kernel *k, const Product *p, BluElem elem, LLVMValueRef from, LLVMValueRef to, int width, int valid) {
  Emit *e = &k->e;
  for (int g = 0; g < width; g += BLU_LANES) {
    int count = valid - g > BLU_LANES ? BLU_LANES : valid - g, room = width - g > BLU_LANES ? BLU_LANES : width - g;
    LLVMValueRef v = count > 0 ? blu_emit_load(e, elem, from, i64(k, g), count) : LLVMConstNull(blu_emit_type(e, p->elem));
    blu_emit_store(e, p->elem, v, to, i64(k, g), room);
  }
}

int blu_product_step(const Product *p) { return p->tb ? BLOCK : 1; }

void blu_product_pack_b(Kernel *k, const Product *p, Matrix b, LLVMValueRef panel, LLVMValueRef from, LLVMValueRef to, LLVMValueRef ahead, int valid) {
  if (p->tb) {
    pack_transposed(k, p, b, panel, from, to, ahead, p->nr, valid);
    return;
  }
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, from, to, 1, 0, NULL);
  Matrix row = {within(k, &b, mul(k, l.i, b.along)), 0, 0, b.elem};
  for (int c = 0; ahead && c < valid; c += LINE / blu_elem_bytes(b.elem))
    blu_emit_prefetch(&k->e, within(k, &row, add(k, ahead, i64(k, c))), 1);
  copy_row(k, p, b.elem, row.at, pointer(k, p, panel, mul(k, l.i, p->nr)), p->nr, valid);
  blu_loop_end(&k->e, &l, NULL);
}

LLVMValueRef blu_product_tile_start(Kernel *k, const Product *p, LLVMValueRef i, LLVMValueRef to) {
  return p->m % p->mr || p->chunk % p->mr ? least(k, i, sub(k, to, i64(k, p->mr))) : i;
}

LLVMValueRef blu_product_packed_tile(Kernel *k, const Product *p, LLVMValueRef chunk, LLVMValueRef row) {
  return pointer(k, p, chunk, mul(k, quotient(k, row, p->mr), blu_product_tile_stride(p)));
}

/* Row kk of a transposed a, as rows kk of `tiles` tiles at a time. */
static void copy_tiles(Kernel *k, const Product *p, Matrix a, LLVMValueRef chunk, LLVMValueRef first, LLVMValueRef from, LLVMValueRef to, LLVMValueRef kk,
                       int tiles) {
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, from, to, (int64_t)tiles * p->mr, 0, NULL);
  LLVMValueRef start = tiles > 1 ? l.i : blu_product_tile_start(k, p, l.i, to);
  Matrix row = {within(k, &a, add(k, start, mul(k, kk, a.along))), 0, 0, a.elem};
  LLVMValueRef at = blu_product_packed_tile(k, p, chunk, sub(k, l.i, first));
  blu_emit_prefetch(&k->e, within(k, &row, i64(k, AHEAD * a.along)), 1);
  for (int t = 0; t < tiles; t++)
    copy_row(k, p, a.elem, within(k, &row, i64(k, (int64_t)t * p->mr)),
             pointer(k, p, at, add(k, mul(k, kk, p->mr), i64(k, t * blu_product_tile_stride(p)))), p->mr, p->mr);
  blu_loop_end(&k->e, &l, NULL);
}

/* Where rows lie across k, memory is read in its order: all tiles of one kk, then the next. */
void blu_product_pack_a(Kernel *k, const Product *p, Matrix a, LLVMValueRef chunk, LLVMValueRef from, LLVMValueRef to, LLVMValueRef depth) {
  Loop l;
  if (!p->ta) {
    blu_loop_begin(&k->e, &l, k->fn, from, to, p->mr, 0, NULL);
    LLVMValueRef start = blu_product_tile_start(k, p, l.i, to), at = blu_product_packed_tile(k, p, chunk, sub(k, l.i, from));
    Matrix rows = {within(k, &a, mul(k, start, a.across)), a.across, a.along, a.elem};
    pack_transposed(k, p, rows, at, i64(k, 0), depth, NULL, p->mr, p->mr);
    blu_loop_end(&k->e, &l, NULL);
    return;
  }
  int64_t side = (int64_t)TILES * p->mr;
  bool even = p->m % side == 0 && p->chunk % side == 0;
  LLVMValueRef whole = even ? to : add(k, from, mul(k, quotient(k, sub(k, least(k, to, i64(k, p->m / p->mr * p->mr)), from), side), side));
  blu_loop_begin(&k->e, &l, k->fn, i64(k, 0), depth, 1, 0, NULL);
  copy_tiles(k, p, a, chunk, from, from, whole, l.i, TILES);
  if (!even) copy_tiles(k, p, a, chunk, from, whole, to, l.i, 1);
  blu_loop_end(&k->e, &l, NULL);
}
