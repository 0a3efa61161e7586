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

/* Scratch memory, in elements: two panels of b, the sums of the group, a tile, zeros of its size, the chunk of a. */
static bool has_sums(const Product *p) { return p->k > BLU_CHAIN; }
static int64_t panel_room(const Product *p) { return round_up(blu_product_block(p) * p->nr, BLU_LANES); }
static int64_t tile_room(const Product *p) { return round_up(p->mr * p->nr, BLU_LANES); }
static int64_t sums_at(const Product *p) { return 2 * panel_room(p); }
static int64_t tile_at(const Product *p) { return sums_at(p) + (has_sums(p) ? p->chunk * p->group * p->nr : 0); }
static int64_t zeros_at(const Product *p) { return tile_at(p) + tile_room(p); }
static int64_t chunk_at(const Product *p) { return zeros_at(p) + (has_sums(p) ? tile_room(p) : 0); }

static int64_t scratch(const Kernel *k) {
  Product p = blu_product_of(k);
  return (chunk_at(&p) + (p.packs_a ? p.chunk / p.mr * blu_product_tile_stride(&p) : 0)) * blu_elem_bytes(p.elem);
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

/* Is the product itself all that is stored? Then a tile goes from the registers to its place. */
static bool is_plain(const Kernel *k) {
  return k->nout == 1 && mlirValueEqual(blu_kernel_result(k, 0), mlirOperationGetResult(k->info.main, 0));
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
  for (int c = 0; c < valid; c += p->lanes) {
    blu_kernel_forget(k, LEVEL_POINT);
    blu_kernel_enter(k, LEVEL_POINT, p->lanes);
    k->count = valid - c > p->lanes ? p->lanes : valid - c;
    k->column = add(k, column, i64(k, c));
    LLVMValueRef v = blu_emit_load(e, p->elem, tile, add(k, mul(k, l.i, p->nr), i64(k, c)), p->lanes);
    blu_kernel_define(k, LEVEL_POINT, product, BLU_VIEW_FULL, (BluEmitVal){.elem = p->elem, .u.v = v});
    BluEmitVal *value = blu_alloc((size_t)k->nout * sizeof *value);
    for (int i = 0; i < k->nout; i++) value[i] = blu_kernel_eval(k, blu_kernel_result(k, i), BLU_VIEW_FULL, &k->info.space);
    LLVMValueRef index = blu_kernel_linear(k);
    for (int i = 0; i < k->nout; i++) blu_emit_store(e, value[i].elem, value[i].u.v, k->place[k->nin + i], index, k->count);
    free(value);
  }
  blu_loop_end(e, &l, NULL);
  e->lanes = BLU_LANES;
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
  Matrix a = {operand_place(k, 0), p->ta ? 1 : p->k, p->ta ? p->m : 1, p->a};
  a.at = within(k, &a, add(k, mul(k, g->batch, p->m * p->k), mul(k, g->kk, a.along)));
  return a;
}

static Matrix part_of_b(Kernel *k, const Product *p, LLVMValueRef batch, LLVMValueRef panel, LLVMValueRef kk) {
  Matrix b = {operand_place(k, 1), p->tb ? p->k : 1, p->tb ? 1 : p->n, p->b};
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

/* One tile of a panel at b. */
static void one_tile(Kernel *k, const Product *p, const Place *g, Matrix a, LLVMValueRef b, LLVMValueRef panel, LLVMValueRef i) {
  LLVMValueRef chunk = pointer(k, p, k->scratch, i64(k, chunk_at(p))), tile = pointer(k, p, k->scratch, i64(k, tile_at(p)));
  LLVMValueRef last = LLVMBuildNot(k->e.b, less(k, add(k, g->kk, g->depth), i64(k, p->k)), "");
  LLVMValueRef at = sub(k, i, g->from), start = blu_product_tile_start(k, p, i);
  LLVMValueRef row = add(k, mul(k, g->batch, p->m), start), skip = sub(k, i, start), column = mul(k, panel, p->nr);
  if (p->batch * p->m * p->n * blu_elem_bytes(p->elem) > FAR_RESULT_BYTES) {
    LLVMBasicBlockRef after = has_sums(p) ? begin_if(k, last, "ask") : NULL;
    prefetch_results(k, p, row, column);
    if (after) end_if(k, after);
  }
  Matrix rows = {within(k, &a, mul(k, start, a.across)), a.across, a.along, a.elem};
  if (!p->packs_a && !p->ta && p->far_a) {
    LLVMBasicBlockRef after = begin_if(k, equal(k, panel, g->panel), "rows");
    prefetch_rows(k, p, rows, g->depth);
    end_if(k, after);
  }
  if (p->packs_a) rows = (Matrix){blu_product_packed_tile(k, p, chunk, at), 1, p->mr, p->elem};
  LLVMValueRef before = NULL, to = tile, stride = i64(k, p->nr), direct = NULL;
  if (is_plain(k)) {
    LLVMValueRef index = add(k, mul(k, row, p->n), column);
    direct = LLVMConstInt(LLVMInt1TypeInContext(k->e.ctx), 1, 0);
    if (p->m % p->mr) direct = equal(k, skip, i64(k, 0));
    if (p->n % p->nr) direct = LLVMBuildAnd(k->e.b, direct, less(k, panel, i64(k, p->n / p->nr)), "");
    to = either(k, direct, pointer(k, p, k->place[k->nin], index), tile), stride = either(k, direct, i64(k, p->n), stride);
  }
  if (has_sums(p)) {
    LLVMValueRef sum = add(k, mul(k, sub(k, panel, g->panel), p->chunk * p->nr), mul(k, at, p->nr));
    sum = pointer(k, p, k->scratch, add(k, sum, i64(k, sums_at(p))));
    for (int64_t c = 0; c < p->mr * p->nr; c += LINE / blu_elem_bytes(p->elem)) blu_emit_prefetch(&k->e, pointer(k, p, sum, i64(k, c)), 1);
    before = either(k, equal(k, g->kk, i64(k, 0)), pointer(k, p, k->scratch, i64(k, zeros_at(p))), sum);
    to = either(k, last, to, sum), stride = either(k, last, stride, i64(k, p->nr));
  }
  add_chain(k, p, rows, b, g->depth, before, to, stride);
  if (direct && !(p->m % p->mr) && !(p->n % p->nr)) return;
  LLVMValueRef through = has_sums(p) ? last : LLVMConstInt(LLVMInt1TypeInContext(k->e.ctx), 1, 0);
  if (direct) through = LLVMBuildAnd(k->e.b, through, LLVMBuildNot(k->e.b, direct, ""), "");
  LLVMBasicBlockRef stored = begin_if(k, through, "store");
  Fork f;
  int valid = fork_begin(k, p, panel, &f);
  do store_tile(k, p, tile, row, skip, column, valid), valid = f.rest;
  while (fork_next(k, &f));
  end_if(k, stored);
}

/* One block of all panels of a group. *current: elements from the scratch to the packed panel, and from then on to the next group's. */
static void all_panels(Kernel *k, const Product *p, const Place *g, LLVMValueRef *current) {
  Matrix a = part_of_a(k, p, g);
  if (p->packs_a) blu_product_pack_a(k, p, a, pointer(k, p, k->scratch, i64(k, chunk_at(p))), g->from, g->to, g->depth);
  Loop l, tiles;
  /* At the start of a call nothing is packed: a round that only packs comes before the first panel. */
  LLVMValueRef cold = LLVMBuildAnd(k->e.b, g->is_first, equal(k, g->kk, i64(k, 0)), "");
  blu_loop_begin(&k->e, &l, k->fn, sub(k, g->panel, LLVMBuildZExt(k->e.b, cold, LLVMInt64TypeInContext(k->e.ctx), "")), g->panels, 1, 1, current);
  LLVMValueRef other = sub(k, i64(k, panel_room(p)), l.phi[0]);
  Packing next = packing_after(k, p, g, l.i, pointer(k, p, k->scratch, other));
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
