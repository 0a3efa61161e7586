/* product.c - how a matrix product is cut. A tile of MR x NR sums is held in registers; a panel is NR columns of one matrix of the batch; a chunk
 * is a range of rows whose block along k lies in the second cache. A piece is a panel of a chunk; consecutive pieces of one chunk are worked
 * on as a group, for which the rows of a are packed once. Nothing of this changes a result: the order of additions is fixed. */
#include "codegen/product.h"

enum {
  FEWEST_PIECES = 8,
  MOST_ROWS = 512,         /* of a chunk */
  FEWEST_TO_PACK_A = 4,    /* panels: with fewer, packing costs more than it saves; if a is transposed, half of that */
  MANY_PANELS = 24,        /* with as many, packing an a that is far costs less than it saves */
  FAR_APART = 1 << 16,     /* elements of a: with fewer, they lie in the second cache in any order */
  PAGE = 4096,             /* bytes: rows that are multiples of this apart meet in the same lines of the first cache */
  SUMS_BYTES = 1 << 21,    /* of a group */
  LATENCY = 8,             /* multiply-adds, of a register each, that must be independent to hide their latency */
  TILE_COST = 4,           /* what a tile costs besides its multiply-adds, in twentieths of a cycle for each of 256 terms */
  PACK_COST = 6,           /* of an element that is transposed into a panel, in twentieths of a cycle; more on a core that is shared */
  TURN_COST = 20,          /* of an element of the result that is turned before it is stored, in the same */
  NEAR = 4,                /* second caches: a larger operand comes from memory, which is better read evenly, as packing does */
  LEAST_GAIN = 32,         /* a product is swapped if that part of its time is gained; if b is not near, */
  LEAST_FAR_GAIN = 8,      /* that */
  SHORT = 64,              /* rows of a chunk of a swapped product, at least: the small operand is packed for each */
  STRIP = 32               /* rows of a strip, at least */
};

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

/* Registers of a vector. */
static int registers_of(const Product *p, int level) { return p->lanes * blu_elem_bytes(p->elem) * 8 / (level >= 4 ? 512 : level == 3 ? 256 : 128); }

/* Time of all tiles, in twentieths of a cycle per term, if two multiply-adds start in each cycle. */
static int64_t cost_of_tiles(int64_t tiles, int mr, int nv, int registers) {
  int64_t fmas = (int64_t)mr * nv * registers;
  return tiles * (10 * (fmas > LATENCY ? fmas : LATENCY) + TILE_COST);
}

/* Time of a product whose operands have their rows along k, in the same unit: tiles, the packing of b once for each chunk, and of a if it is, the
 * turning of the result. */
static int64_t cost_of(const Product *p, int level) {
  int64_t left = p->m - (p->chunks - 1) * p->chunk, tiles = (p->chunks - 1) * divide_up(p->chunk, p->mr) + divide_up(left, p->mr);
  int64_t packed = p->chunks * p->panels * p->nr + (p->packs_a ? p->m : 0), turned = p->swapped ? p->m * p->n : 0;
  return cost_of_tiles(tiles * p->panels, p->mr, p->nv, registers_of(p, level)) + packed * PACK_COST + turned * TURN_COST / p->k;
}

/* Registers: at level 3, 16 of 8 floats (4 x 3 or 6 x 2 for the tile); at level 4, 32 of 16 (12 x 2); at level 2, 16 of 4 (2 rows of 4). Where
 * few rows or columns are left over, a smaller tile may waste less. */
static void choose_tile(Product *p, int level, int64_t first_cache) {
  int bytes = blu_elem_bytes(p->elem), wide = bytes > 4;
  p->lanes = level == 3 ? 8 : BLU_LANES;
  int registers = registers_of(p, level);
  int most_nv = level == 3 && !wide ? 3 : level >= 4 && !wide && p->n > BLU_LANES ? 2 : 1;
  int64_t best = -1;
  for (int nv = most_nv; nv >= (most_nv > 1 ? 2 : 1); nv--) {
    int held = level >= 4 ? 24 : level == 3 ? 12 : 8, mr = held / (nv * registers); /* registers for sums */
    if (level >= 4 && mr > 12) mr = 12;
    if (nv > 2 && (int64_t)BLU_CHAIN * nv * p->lanes * bytes > first_cache * 3 / 4) continue; /* the panel must stay there */
    for (int rows = mr; rows >= (nv > 2 ? mr : (2 * mr + 2) / 3); rows--) {
      int64_t tiles = divide_up(p->m, rows) * divide_up(p->n, nv * p->lanes), cost = cost_of_tiles(tiles, rows, nv, registers);
      if (best >= 0 && cost >= best) continue;
      best = cost, p->mr = rows, p->nv = nv;
    }
  }
  if (p->mr > p->m) p->mr = p->m > 0 ? (int)p->m : 1;
  p->nr = p->nv * p->lanes;
}

static int64_t common_multiple(int64_t a, int64_t b) {
  int64_t m = a;
  while (m % b) m += a;
  return m;
}

/* Tile, panels, chunks and groups of a product whose shape is known. */
static void cut(Product *p, const BluCpu *cpu) {
  int bytes = blu_elem_bytes(p->elem);
  int64_t second_cache = cpu->cache[1];
  choose_tile(p, cpu->level, cpu->cache[0]);
  p->panels = divide_up(p->n, p->nr);
  int64_t parts = p->panels * p->batch, wanted = parts ? divide_up(FEWEST_PIECES, parts) : 1;
  if (p->swapped && wanted > p->m / SHORT) wanted = p->m / SHORT > 0 ? p->m / SHORT : 1;
  int64_t most_rows = second_cache / (BLU_CHAIN * bytes); /* more, and blocks of a would come from further away */
  if (p->swapped) most_rows /= 2; /* they pass by fewer panels, and the sums of all of these lie beside them */
  if (most_rows > MOST_ROWS) most_rows = MOST_ROWS;
  if (wanted < divide_up(p->m, most_rows)) wanted = divide_up(p->m, most_rows);
  int rows = p->swapped ? BLU_LANES : p->mr; /* a chunk is whole tiles, or whole vectors of the result */
  p->chunk = round_up(divide_up(p->m, wanted), rows);
  if (p->chunk < rows) p->chunk = rows;
  p->chunks = divide_up(p->m, p->chunk);
  p->strip = (int)common_multiple(p->mr, BLU_LANES);
  p->strip = (int)round_up(STRIP, p->strip);
  int64_t fitting = SUMS_BYTES / (p->chunk * p->nr * bytes); /* panels of a group; one block keeps no sums */
  if (fitting < 1) fitting = 1;
  p->group = p->k <= BLU_CHAIN || !p->panels ? p->panels : divide_up(p->panels, divide_up(p->panels, fitting));
  p->far_a = p->batch * p->m * p->k * bytes > second_cache / 2;
  p->far_b = p->k * p->n * bytes * (p->shared_b ? 1 : p->batch) > second_cache / 2;
  if (p->a != p->elem) p->packs_a = true; /* widened once, and not in each tile */
  else if (p->ta) p->packs_a = 2 * p->panels >= FEWEST_TO_PACK_A;
  else p->packs_a = (p->panels >= MANY_PANELS && p->far_a) || (p->panels >= FEWEST_TO_PACK_A && p->k * bytes % PAGE == 0);
}

Product blu_product_of(const Kernel *k) {
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
  Product other = p;
  cut(&p, k->cpu);
  if (p.ta || !p.tb || p.m >= p.n || !p.m || !p.k) return p;
  other.swapped = true, other.shared_b = false;
  other.m = p.n, other.n = p.m, other.a = p.b, other.b = p.a;
  cut(&other, k->cpu);
  int64_t cost = cost_of(&p, k->cpu->level), bytes = p.batch * p.n * p.k * blu_elem_bytes(p.b);
  int64_t least = cost / (bytes > NEAR * k->cpu->cache[1] ? LEAST_FAR_GAIN : LEAST_GAIN);
  return k->cpu->swaps || cost_of(&other, k->cpu->level) < cost - least ? other : p;
}

int64_t blu_product_block(const Product *p) { return p->k < BLU_CHAIN ? p->k : BLU_CHAIN; }

/* Not a multiple of a page, for lines of all tiles are written in turn. */
int64_t blu_product_tile_stride(const Product *p) { return p->mr * blu_product_block(p) + BLU_LANES; }
