/* matmul.c - matrix products with the elementwise ops of the kernel applied before the result is stored. codegen/product.h has the words.
 *
 * For each block of BLU_CHAIN along k, the chunk's rows of a are packed once (or read where they are), then panels of b ([BLU_CHAIN][NR], which
 * stays in the first cache while the chunk's tiles pass by it). While the tiles of one panel are computed, the next panel is packed, a
 * share before each tile. A tile gains one chain of multiply-adds per block; the sums are added in order: the order that dialects/BluOps.td
 * defines, whatever the grouping. The last tile of the rows starts earlier, so that it is whole: the rows that it shares with the one before
 * are computed twice and stored once. */
#include <stdlib.h>
#include <string.h>
#include "codegen/product.h"
#include "dialects/memory.h"

enum {
  LINE = 64,               /* bytes of a line of the caches */
  TERMS = 4,               /* of an iteration of the innermost loop: its control takes slots that multiply-adds could have */
  MANY_OPS = 8,
  FAR_RESULT_BYTES = 1 << 18 /* a larger result isn't in the second cache when it is stored, since other tensors were there */
};

static int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

static int64_t pieces(const Kernel *k) {
  Product p = blu_product_of(k);
  int64_t n = p.batch * p.panels * p.chunks;
  return n > 0 ? n : 1;
}

/* Scratch memory, in elements: two panels of b, the sums of the group, zeros of a tile's size, the chunk of a, a tile; if swapped, a strip
 * [strip][NR] behind that, and the same turned. */
static bool has_sums(const Product *p) { return p->k > BLU_CHAIN; }
static int64_t panel_room(const Product *p) { return round_up(blu_product_block(p) * p->nr, BLU_LANES); }
static int64_t tile_room(const Product *p) { return round_up(p->mr * p->nr, BLU_LANES); }
static int64_t sums_room(const Product *p) { return round_up(p->chunk, p->mr) * p->nr; } /* of a panel */
static int64_t sums_at(const Product *p) { return 2 * panel_room(p); }
static int64_t zeros_at(const Product *p) { return sums_at(p) + (has_sums(p) ? p->group * sums_room(p) : 0); }
static int64_t chunk_at(const Product *p) { return zeros_at(p) + (has_sums(p) ? tile_room(p) : 0); }
static int64_t tile_at(const Product *p) {
  return chunk_at(p) + (p->packs_a ? round_up(p->chunk, p->mr) / p->mr * blu_product_tile_stride(p) : 0);
}
static int64_t strip_at(const Product *p) { return tile_at(p) + tile_room(p); }
static int64_t turned_at(const Product *p) { return strip_at(p) + (p->swapped ? p->strip * p->nr : 0); }

static int64_t scratch(const Kernel *k) {
  Product p = blu_product_of(k);
  return (turned_at(&p) + (p.swapped ? p.strip * p.nr : 0)) * blu_elem_bytes(p.elem);
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

/* Result i is the sum of b's columns (blu_product_sum), and not what a tile gives. */
static bool is_column_sum(const Kernel *k, int i) {
  MlirOperation d = blu_def(blu_kernel_result(k, i));
  return !mlirOperationIsNull(d) && blu_is(d, "sum");
}

/* Is the product itself all that is stored of a tile? Then that goes from the registers to its place; else NULL. */
static LLVMValueRef plain_place(const Kernel *k) {
  LLVMValueRef place = NULL;
  for (int i = 0; i < k->nout; i++) {
    if (is_column_sum(k, i)) continue;
    if (!mlirValueEqual(blu_kernel_result(k, i), mlirOperationGetResult(k->info.main, 0))) return NULL;
    place = k->place[k->nin + i];
  }
  return place;
}

/* ---- what comes next ---- */

/* Where in the result, and how much of it. */
typedef struct { LLVMValueRef row, column; int rows, columns; } Area;

/* Asks for what a tensor at `place` with the shape of the result holds there. */
static void prefetch_area(Kernel *k, LLVMValueRef place, BluElem t, const Area *a) {
  for (int r = 0; r < a->rows; r++)
    for (int c = 0; c < a->columns; c += LINE / blu_elem_bytes(t)) {
      LLVMValueRef row = mul(k, add(k, a->row, i64(k, r)), blu_space_columns(&k->info.space)), index = add(k, row, add(k, a->column, i64(k, c)));
      blu_emit_prefetch(&k->e, LLVMBuildGEP2(k->e.b, blu_emit_stored(&k->e, t), place, &index, 1, ""), 1);
    }
}

/* Asks for the lines that will be stored to, and for those that the elementwise ops read: a dozen at once that come from
 * memory would stop the processor. */
static void prefetch_results(Kernel *k, const Product *p, const Area *area) {
  int64_t count = p->batch * p->m * p->n;
  for (int i = 0; i < k->nin; i++) {
    BluType t = blu_value_type(mlirBlockGetArgument(k->block, i));
    bool product = false;
    for (int j = 0; j < 2; j++) product |= operand_place(k, j) == k->place[i];
    if (!product && blu_type_count(&t) == count) prefetch_area(k, k->place[i], t.elem, area);
  }
  int ops = 0; /* with many, stores are far enough apart */
  for (MlirOperation o = mlirBlockGetFirstOperation(k->block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o))
    ops += blu_op_of(o) && blu_op_of(o)->rule->kind == BLU_KIND_ELEMENT;
  if (ops > MANY_OPS) return;
  for (int i = 0; i < k->nout; i++)
    if (!is_column_sum(k, i)) prefetch_area(k, k->place[k->nin + i], blu_value_type(blu_kernel_result(k, i)).elem, area);
}

/* Asks for the rows of a behind those of this tile: they are new in the first panel of a group. */
static void prefetch_rows(Kernel *k, const Product *p, Matrix rows, LLVMValueRef depth) {
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, i64(k, 0), depth, LINE / blu_elem_bytes(p->elem), 0, NULL);
  for (int r = 0; r < p->mr; r++) blu_emit_prefetch(&k->e, within(k, &rows, add(k, l.i, i64(k, (r + p->mr) * rows.across))), 2);
  blu_loop_end(&k->e, &l, NULL);
}

/* ---- the tile ---- */

/* acc += a(row, kk) * panel[kk] for one kk */
static void multiply_add(Kernel *k, const Product *p, Matrix a, LLVMValueRef panel, int64_t kk, LLVMValueRef *acc) {
  Emit *e = &k->e;
  LLVMValueRef b[3];
  for (int g = 0; g < p->nv; g++) b[g] = blu_emit_load(e, p->elem, panel, i64(k, kk * p->nr + g * p->lanes), p->lanes);
  for (int r = 0; r < p->mr; r++) {
    e->lanes = 1;
    BluEmitVal x = {.elem = p->elem, .u.v = blu_emit_load(e, p->elem, a.at, i64(k, kk * a.along + r * a.across), 1)};
    e->lanes = p->lanes;
    for (int g = 0; g < p->nv; g++) {
      LLVMValueRef *c = &acc[r * p->nv + g];
      *c = e->base.prim(&e->base, BLU_PRIM_FMA, p->elem, x, (BluEmitVal){.elem = p->elem, .u.v = b[g]}, (BluEmitVal){.elem = p->elem, .u.v = *c}).u.v;
    }
  }
}

/* Terms [from, to) of the chains, `step` at a time. at[0 .. n) are the sums so far, at[n] and at[n + 1] the places in a and in the panel. */
static void add_terms(Kernel *k, const Product *p, Matrix a, LLVMValueRef from, LLVMValueRef to, int step, int n, LLVMValueRef *at) {
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, from, to, step, n + 2, at);
  memcpy(at, l.phi, (size_t)(n + 2) * sizeof *at);
  a.at = at[n];
  for (int j = 0; j < step; j++) multiply_add(k, p, a, at[n + 1], j, at);
  at[n] = pointer(k, p, at[n], i64(k, step * a.along)), at[n + 1] = pointer(k, p, at[n + 1], i64(k, (int64_t)step * p->nr));
  blu_loop_end(&k->e, &l, at);
  memcpy(at, l.phi, (size_t)(n + 2) * sizeof *at);
}

/* One chain of MR rows of a and the panel, added to before[MR][NR] (NULL: zeros), to after[MR][`stride`]. */
static void add_chain(Kernel *k, const Product *p, Matrix a, LLVMValueRef panel, LLVMValueRef depth, LLVMValueRef before, LLVMValueRef after,
                      LLVMValueRef stride) {
  Emit *e = &k->e;
  e->lanes = p->lanes;
  int n = p->mr * p->nv;
  LLVMValueRef acc[32], zero = LLVMConstNull(blu_emit_type(e, p->elem)), whole = depth;
  for (int i = 0; i < n; i++) acc[i] = zero;
  acc[n] = a.at, acc[n + 1] = panel;
  if (p->k % TERMS) whole = LLVMBuildAnd(e->b, depth, i64(k, -TERMS), "");
  add_terms(k, p, a, i64(k, 0), whole, TERMS, n, acc);
  if (p->k % TERMS) add_terms(k, p, a, whole, depth, 1, n, acc);
  LLVMValueRef row = i64(k, 0);
  for (int r = 0; r < p->mr; r++, row = add(k, row, stride))
    for (int g = 0; g < p->nv; g++) {
      LLVMValueRef sum = before ? blu_emit_load(e, p->elem, before, i64(k, r * p->nr + g * p->lanes), p->lanes) : zero;
      sum = LLVMBuildFAdd(e->b, sum, acc[r * p->nv + g], "");
      blu_emit_store(e, p->elem, sum, after, add(k, row, i64(k, g * p->lanes)), p->lanes);
    }
  e->lanes = BLU_LANES;
}

/* Now code is for the columns of this row of the space; what depends on the row alone goes before them. */
static void begin_row(Kernel *k, LLVMValueRef row) {
  LLVMBasicBlockRef columns = new_block(k, "columns");
  LLVMBuilderRef point = k->e.b, rows = k->builder[LEVEL_ROW];
  k->row = row;
  LLVMPositionBuilderBefore(rows, LLVMBuildBr(point, columns));
  LLVMPositionBuilderAtEnd(point, columns);
  blu_kernel_forget(k, LEVEL_ROW);
}

/* `count` of `lanes` products at sums[index] go through the kernel's elementwise ops and are stored, from `column` of the row on. */
static void store_vector(Kernel *k, const Product *p, LLVMValueRef sums, LLVMValueRef index, LLVMValueRef column, int lanes, int count) {
  Emit *e = &k->e;
  blu_kernel_forget(k, LEVEL_POINT);
  blu_kernel_enter(k, LEVEL_POINT, lanes);
  k->count = count;
  k->column = column;
  BluEmitVal product = {.elem = p->elem, .u.v = blu_emit_load(e, p->elem, sums, index, lanes)};
  blu_kernel_define(k, LEVEL_POINT, mlirOperationGetResult(k->info.main, 0), BLU_VIEW_FULL, product);
  BluEmitVal *value = blu_alloc((size_t)k->nout * sizeof *value);
  for (int i = 0; i < k->nout; i++)
    if (!is_column_sum(k, i)) value[i] = blu_kernel_eval(k, blu_kernel_result(k, i), BLU_VIEW_FULL, &k->info.space);
  LLVMValueRef to = blu_kernel_linear(k);
  for (int i = 0; i < k->nout; i++)
    if (!is_column_sum(k, i)) blu_emit_store(e, value[i].elem, value[i].u.v, k->place[k->nin + i], to, k->count);
  free(value);
}

/* Rows [skip, MR) of the tile, the first of which is `row` of the space. */
static void store_tile(Kernel *k, const Product *p, LLVMValueRef tile, LLVMValueRef row, LLVMValueRef skip, LLVMValueRef column, int valid) {
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, skip, i64(k, p->mr), 1, 0, NULL);
  begin_row(k, add(k, row, l.i));
  for (int c = 0, lanes; c < valid; c += lanes) {
    lanes = p->nr - c >= BLU_LANES && valid - c > p->lanes ? BLU_LANES : p->lanes; /* two registers, whose operations hide each other's latency */
    store_vector(k, p, tile, add(k, mul(k, l.i, p->nr), i64(k, c)), add(k, column, i64(k, c)), lanes, valid - c > lanes ? lanes : valid - c);
  }
  blu_loop_end(&k->e, &l, NULL);
  k->e.lanes = BLU_LANES;
}

/* A strip of a swapped product: NR rows of the result from `row` of the space on, of which `valid` exist, and its columns [from, to). Only the
 * last strip of all may end with part of a vector. */
static void store_strip(Kernel *k, const Product *p, LLVMValueRef row, LLVMValueRef valid, LLVMValueRef from, LLVMValueRef to) {
  LLVMValueRef turned = pointer(k, p, k->scratch, i64(k, turned_at(p))), count = sub(k, to, from);
  blu_product_turn(k, p->elem, pointer(k, p, k->scratch, i64(k, strip_at(p))), p->nr, count, turned, p->strip);
  int rest = (int)(p->m % BLU_LANES);
  LLVMValueRef whole = rest ? LLVMBuildAnd(k->e.b, count, i64(k, -BLU_LANES), "") : count;
  Loop l, c;
  blu_loop_begin(&k->e, &l, k->fn, i64(k, 0), valid, 1, 0, NULL);
  begin_row(k, add(k, row, l.i));
  LLVMValueRef at = mul(k, l.i, p->strip);
  blu_loop_begin(&k->e, &c, k->fn, i64(k, 0), whole, BLU_LANES, 0, NULL);
  store_vector(k, p, turned, add(k, at, c.i), add(k, from, c.i), BLU_LANES, BLU_LANES);
  blu_loop_end(&k->e, &c, NULL);
  if (rest) {
    LLVMBasicBlockRef after = begin_if(k, less(k, whole, count), "rest");
    store_vector(k, p, turned, add(k, at, whole), add(k, from, whole), BLU_LANES, rest);
    end_if(k, after);
  }
  blu_loop_end(&k->e, &l, NULL);
}

/* ---- loops ---- */

typedef struct {
  LLVMValueRef batch, panel, panels; /* of a group: its matrix, first panel, end of its panels */
  LLVMValueRef from, to;             /* rows of its chunk */
  LLVMValueRef is_first, is_last;    /* of the call? */
  LLVMValueRef then_batch, then_panel; /* where the next group begins */
  LLVMValueRef kk, depth;            /* of a block: its place along k, its length */
} Place;

/* A part of a panel that is packed: from where, how deep, in which panel of its matrix, to which place, in which shares. */
typedef struct { Matrix from; LLVMValueRef depth, panel, to, share; } Packing;

static Matrix part_of_a(Kernel *k, const Product *p, const Place *g) {
  Matrix a = {operand_place(k, p->swapped ? 1 : 0), p->ta ? 1 : p->k, p->ta ? p->m : 1, p->a};
  a.at = within(k, &a, add(k, mul(k, g->batch, p->m * p->k), mul(k, g->kk, a.along)));
  return a;
}

static Matrix part_of_b(Kernel *k, const Product *p, LLVMValueRef batch, LLVMValueRef panel, LLVMValueRef kk) {
  Matrix b = {operand_place(k, p->swapped ? 0 : 1), p->tb ? p->k : 1, p->tb ? 1 : p->n, p->b};
  LLVMValueRef index = add(k, mul(k, kk, b.along), mul(k, panel, p->nr * b.across));
  if (!p->shared_b) index = add(k, index, mul(k, batch, p->k * p->n));
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

/* What follows a panel: the next of the group, else the first of the group in the next block, else the first of the next group, if there is one. */
static Packing packing_after(Kernel *k, const Product *p, const Place *g, LLVMValueRef panel, LLVMValueRef to) {
  LLVMValueRef after = add(k, panel, i64(k, 1)), end = add(k, g->kk, g->depth), zero = i64(k, 0);
  LLVMValueRef more = less(k, after, g->panels), deeper = less(k, end, i64(k, p->k));
  Packing next = {.to = to};
  LLVMValueRef kk = either(k, more, g->kk, either(k, deeper, end, zero)), stays = LLVMBuildOr(k->e.b, more, deeper, "");
  next.panel = either(k, more, after, either(k, deeper, g->panel, g->then_panel));
  next.from = part_of_b(k, p, either(k, stays, g->batch, g->then_batch), next.panel, kk);
  next.depth = least(k, sub(k, i64(k, p->k), kk), i64(k, BLU_CHAIN));
  next.depth = either(k, LLVMBuildAnd(k->e.b, g->is_last, LLVMBuildNot(k->e.b, stays, ""), ""), zero, next.depth);
  LLVMValueRef tiles = quotient(k, add(k, sub(k, g->to, g->from), i64(k, p->mr - 1)), p->mr), step = i64(k, blu_product_step(p));
  LLVMValueRef steps = quotient(k, add(k, next.depth, i64(k, blu_product_step(p) - 1)), blu_product_step(p));
  next.share = LLVMBuildUDiv(k->e.b, add(k, steps, sub(k, tiles, i64(k, 1))), tiles, "");
  next.share = LLVMBuildMul(k->e.b, next.share, step, "");
  return next;
}

/* Packs share number `number`, and asks for the next one: of this panel, or behind its last tile for the first one of the panel beside it. */
static void pack_share(Kernel *k, const Product *p, const Packing *next, LLVMValueRef number) {
  LLVMValueRef from = LLVMBuildMul(k->e.b, number, next->share, ""), to = least(k, add(k, from, next->share), next->depth);
  LLVMValueRef ahead = NULL;
  if (p->far_b) {
    LLVMValueRef beside = sub(k, i64(k, p->nr * next->from.across), mul(k, from, next->from.along));
    ahead = either(k, less(k, to, next->depth), mul(k, next->share, next->from.along), beside);
  }
  Fork f;
  int valid = fork_begin(k, p, next->panel, &f);
  do blu_product_pack_b(k, p, next->from, next->to, from, to, ahead, valid), valid = f.rest;
  while (fork_next(k, &f));
}

/* Where a tile of a panel of the group lies. */
typedef struct {
  LLVMValueRef panel, start, skip; /* its first row; how many of its rows belong to the tile before */
  LLVMValueRef at;                 /* row of the chunk that begins the tile's part of sums and packed rows */
  LLVMValueRef in_strip, last;     /* row of its strip, if swapped; is this the last block along k? */
} Tile;

/* What the tile adds to: the chunk's sums, zeros before the first block. */
static LLVMValueRef sums_of(Kernel *k, const Product *p, const Place *g, const Tile *t) {
  LLVMValueRef sum = add(k, mul(k, sub(k, t->panel, g->panel), sums_room(p)), mul(k, t->at, p->nr));
  return pointer(k, p, k->scratch, add(k, sum, i64(k, sums_at(p))));
}

/* The chain of a tile, `to` a place with this stride in the last block, before that to the sums. */
static void tile_chain(Kernel *k, const Product *p, const Place *g, const Tile *t, Matrix rows, LLVMValueRef b, LLVMValueRef to, LLVMValueRef stride) {
  LLVMValueRef before = NULL;
  if (has_sums(p)) {
    LLVMValueRef sum = sums_of(k, p, g, t);
    for (int64_t c = 0; c < p->mr * p->nr; c += LINE / blu_elem_bytes(p->elem)) blu_emit_prefetch(&k->e, pointer(k, p, sum, i64(k, c)), 1);
    before = either(k, equal(k, g->kk, i64(k, 0)), pointer(k, p, k->scratch, i64(k, zeros_at(p))), sum);
    to = either(k, t->last, to, sum), stride = either(k, t->last, stride, i64(k, p->nr));
  }
  add_chain(k, p, rows, b, g->depth, before, to, stride);
}

/* The part of the result that is asked for before the tile: its own, or its share of its strip's. */
static Area area_of(Kernel *k, const Product *p, const Place *g, const Tile *t) {
  LLVMValueRef column = mul(k, t->panel, p->nr), row = add(k, mul(k, g->batch, p->m), t->start);
  if (!p->swapped) return (Area){row, column, p->mr, p->nr};
  int tiles = p->strip / p->mr, share = (p->nr + tiles - 1) / tiles;
  row = add(k, mul(k, g->batch, p->n), add(k, column, mul(k, quotient(k, t->in_strip, p->mr), share)));
  return (Area){row, sub(k, add(k, t->start, t->skip), t->in_strip), share, p->strip};
}

/* A tile of a swapped product, and its strip if that is now complete. The rows that the tile shares with the one before are there already, with
 * the same sums: the tile lies over them. */
static void swapped_tile(Kernel *k, const Product *p, const Place *g, const Tile *t, Matrix rows, LLVMValueRef b) {
  LLVMValueRef place = add(k, mul(k, sub(k, t->in_strip, t->skip), p->nr), i64(k, strip_at(p)));
  tile_chain(k, p, g, t, rows, b, pointer(k, p, k->scratch, place), i64(k, p->nr));
  LLVMValueRef end = add(k, t->start, i64(k, p->mr)), from = sub(k, add(k, t->start, t->skip), t->in_strip);
  LLVMValueRef full = equal(k, add(k, t->in_strip, i64(k, p->mr)), i64(k, p->strip));
  LLVMValueRef complete = LLVMBuildOr(k->e.b, full, equal(k, end, g->to), "");
  LLVMBasicBlockRef after = begin_if(k, has_sums(p) ? LLVMBuildAnd(k->e.b, complete, t->last, "") : complete, "strip");
  LLVMValueRef row = mul(k, t->panel, p->nr), valid = least(k, i64(k, p->nr), sub(k, i64(k, p->n), row));
  store_strip(k, p, add(k, mul(k, g->batch, p->n), row), valid, from, end);
  end_if(k, after);
}

/* A tile of a product as it is. */
static void straight_tile(Kernel *k, const Product *p, const Place *g, const Tile *t, Matrix rows, LLVMValueRef b) {
  LLVMValueRef tile = pointer(k, p, k->scratch, i64(k, tile_at(p))), to = tile, stride = i64(k, p->nr), direct = NULL;
  LLVMValueRef row = add(k, mul(k, g->batch, p->m), t->start), column = mul(k, t->panel, p->nr), yes = LLVMConstInt(LLVMInt1TypeInContext(k->e.ctx), 1, 0);
  LLVMValueRef plain = plain_place(k);
  if (plain) {
    LLVMValueRef index = add(k, mul(k, row, p->n), column);
    direct = yes;
    if (p->m % p->mr) direct = equal(k, t->skip, i64(k, 0));
    if (p->n % p->nr) direct = LLVMBuildAnd(k->e.b, direct, less(k, t->panel, i64(k, p->n / p->nr)), "");
    to = either(k, direct, pointer(k, p, plain, index), tile), stride = either(k, direct, i64(k, p->n), stride);
  }
  tile_chain(k, p, g, t, rows, b, to, stride);
  if (direct && !(p->m % p->mr) && !(p->n % p->nr)) return;
  LLVMValueRef through = has_sums(p) ? t->last : yes;
  if (direct) through = LLVMBuildAnd(k->e.b, through, LLVMBuildNot(k->e.b, direct, ""), "");
  LLVMBasicBlockRef stored = begin_if(k, through, "store");
  Fork f;
  int valid = fork_begin(k, p, t->panel, &f);
  do store_tile(k, p, tile, row, t->skip, column, valid), valid = f.rest;
  while (fork_next(k, &f));
  end_if(k, stored);
}

/* The tile of a panel at b that holds row i. */
static void one_tile(Kernel *k, const Product *p, const Place *g, Matrix a, LLVMValueRef b, LLVMValueRef panel, LLVMValueRef i) {
  Tile t = {.panel = panel, .at = sub(k, i, g->from), .start = blu_product_tile_start(k, p, i, g->to)};
  t.skip = sub(k, i, t.start);
  t.last = LLVMBuildNot(k->e.b, less(k, add(k, g->kk, g->depth), i64(k, p->k)), "");
  if (p->swapped) t.in_strip = remainder_of(k, t.at, p->strip);
  if (p->batch * p->m * p->n * blu_elem_bytes(p->elem) > FAR_RESULT_BYTES) {
    LLVMBasicBlockRef after = has_sums(p) ? begin_if(k, t.last, "ask") : NULL;
    Area area = area_of(k, p, g, &t);
    prefetch_results(k, p, &area);
    if (after) end_if(k, after);
  }
  Matrix rows = {within(k, &a, mul(k, t.start, a.across)), a.across, a.along, a.elem};
  if (!p->packs_a && !p->ta && p->far_a) {
    LLVMBasicBlockRef after = begin_if(k, equal(k, panel, g->panel), "rows");
    prefetch_rows(k, p, rows, g->depth);
    end_if(k, after);
  }
  if (p->packs_a) rows = (Matrix){blu_product_packed_tile(k, p, pointer(k, p, k->scratch, i64(k, chunk_at(p))), t.at), 1, p->mr, p->elem};
  if (p->swapped) swapped_tile(k, p, g, &t, rows, b);
  else straight_tile(k, p, g, &t, rows, b);
}

/* One block of all panels of a group. *current: elements from the scratch to the packed panel, and from then on to the next group's. */
/* The sums of a packed panel's columns so far: a chain of additions for each block, added to those before it, as of every sum over columns. */
static void sum_columns(Kernel *k, const Product *p, const Place *g, LLVMValueRef panel, LLVMValueRef number, LLVMValueRef to) {
  Emit *e = &k->e;
  Fork f;
  int valid = fork_begin(k, p, number, &f);
  do {
    e->lanes = p->lanes;
    LLVMValueRef zero = LLVMConstNull(blu_emit_type(e, p->elem)), part[3] = {zero, zero, zero};
    Loop l;
    blu_loop_begin(e, &l, k->fn, i64(k, 0), g->depth, 1, p->nv, part);
    LLVMValueRef row = mul(k, l.i, p->nr);
    for (int v = 0; v < p->nv; v++) part[v] = LLVMBuildFAdd(e->b, l.phi[v], blu_emit_load(e, p->elem, panel, add(k, row, i64(k, v * p->lanes)), p->lanes), "");
    blu_loop_end(e, &l, part);
    for (int c = 0; c < valid; c += p->lanes) {
      int count = valid - c > p->lanes ? p->lanes : valid - c;
      LLVMValueRef at = add(k, mul(k, number, p->nr), i64(k, c)), before = blu_emit_load(e, p->elem, to, at, count);
      before = either(k, equal(k, g->kk, i64(k, 0)), zero, before);
      blu_emit_store(e, p->elem, LLVMBuildFAdd(e->b, before, l.phi[c / p->lanes], ""), to, at, count);
    }
    e->lanes = BLU_LANES;
    valid = f.rest;
  } while (fork_next(k, &f));
}

static void all_panels(Kernel *k, const Product *p, const Place *g, LLVMValueRef *current) {
  Matrix a = part_of_a(k, p, g);
  if (p->packs_a) blu_product_pack_a(k, p, a, pointer(k, p, k->scratch, i64(k, chunk_at(p))), g->from, g->to, g->depth);
  Loop l, tiles;
  /* At the start of a call nothing is packed: a round that only packs comes before the first panel. */
  LLVMValueRef cold = LLVMBuildAnd(k->e.b, g->is_first, equal(k, g->kk, i64(k, 0)), "");
  blu_loop_begin(&k->e, &l, k->fn, sub(k, g->panel, LLVMBuildZExt(k->e.b, cold, LLVMInt64TypeInContext(k->e.ctx), "")), g->panels, 1, 1, current);
  LLVMValueRef other = sub(k, i64(k, panel_room(p)), l.phi[0]);
  Packing next = packing_after(k, p, g, l.i, pointer(k, p, k->scratch, other));
  for (int i = 0; i < k->nout; i++) { /* once, beside the first chunk of rows */
    if (!is_column_sum(k, i)) continue;
    LLVMValueRef first = LLVMBuildAnd(k->e.b, LLVMBuildNot(k->e.b, less(k, l.i, g->panel), ""), equal(k, g->from, i64(k, 0)), "");
    LLVMBasicBlockRef after = begin_if(k, first, "sum");
    sum_columns(k, p, g, pointer(k, p, k->scratch, l.phi[0]), l.i, k->place[k->nin + i]);
    end_if(k, after);
  }
  blu_loop_begin(&k->e, &tiles, k->fn, g->from, g->to, p->mr, 0, NULL);
  pack_share(k, p, &next, quotient(k, sub(k, tiles.i, g->from), p->mr));
  LLVMBasicBlockRef after = begin_if(k, LLVMBuildNot(k->e.b, less(k, l.i, g->panel), ""), "tile");
  one_tile(k, p, g, a, pointer(k, p, k->scratch, l.phi[0]), l.i, tiles.i);
  end_if(k, after);
  blu_loop_end(&k->e, &tiles, NULL);
  blu_loop_end(&k->e, &l, &other);
  *current = l.phi[0];
}

static void body(Kernel *k) {
  Product p = blu_product_of(k);
  Emit *e = &k->e;
  LLVMPositionBuilderAtEnd(k->builder[LEVEL_POINT], LLVMGetInsertBlock(k->builder[LEVEL_ROW]));
  blu_kernel_enter(k, LEVEL_POINT, BLU_LANES);
  if (!p.m || !p.n) {
    LLVMBuildRetVoid(e->b);
    return;
  }
  for (int64_t i = 0; has_sums(&p) && i < tile_room(&p); i += BLU_LANES)
    blu_emit_store(e, p.elem, LLVMConstNull(blu_emit_type(e, p.elem)), k->scratch, i64(k, zeros_at(&p) + i), BLU_LANES);
  Loop groups, blocks;
  LLVMValueRef zero = i64(k, 0), current = zero;
  blu_loop_begin(e, &groups, k->fn, k->first, k->last, 1, 1, &current);
  LLVMValueRef which = quotient(k, groups.i, p.panels), count, then; /* chunk of the whole batch */
  Place g = {.batch = quotient(k, which, p.chunks), .panel = remainder_of(k, groups.i, p.panels)};
  g.from = mul(k, remainder_of(k, which, p.chunks), p.chunk);
  g.to = least(k, add(k, g.from, i64(k, p.chunk)), i64(k, p.m));
  count = least(k, least(k, sub(k, k->last, groups.i), i64(k, p.group)), sub(k, i64(k, p.panels), g.panel));
  g.panels = add(k, g.panel, count);
  then = add(k, groups.i, count);
  g.is_first = equal(k, groups.i, k->first), g.is_last = LLVMBuildNot(e->b, less(k, then, k->last), "");
  g.then_batch = quotient(k, then, p.panels * p.chunks), g.then_panel = remainder_of(k, then, p.panels);
  groups.step = count;
  current = groups.phi[0];
  blu_loop_begin(e, &blocks, k->fn, zero, i64(k, p.k > 0 ? p.k : 1), BLU_CHAIN, 1, &current); /* a product over nothing is 0, and stored */
  g.kk = blocks.i;
  g.depth = least(k, sub(k, i64(k, p.k), blocks.i), i64(k, BLU_CHAIN));
  current = blocks.phi[0];
  all_panels(k, &p, &g, &current);
  blu_loop_end(e, &blocks, &current);
  current = blocks.phi[0];
  blu_loop_end(e, &groups, &current);
  LLVMBuildRetVoid(e->b);
}

const KernelKind blu_kernel_matmul = {.pieces = pieces, .body = body, .scratch = scratch};
