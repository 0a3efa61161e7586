/* attention.c - attention in one kernel forward and two backward, without a matrix of scores in memory (FlashAttention-2, Dao 2023, arXiv:2307.08691).
 *
 * A block has a tile of queries of one head and goes through the keys, a tile of TILE_COLUMNS at a time: scores, their weights under the greatest score
 * so far, and the sum of values, which is scaled down when a greater score comes. What is kept for the gradients is the logarithm of each query's sum.
 * The gradient of queries goes the same way, with the weights made again from that; the gradient of keys and values has a tile of keys in a
 * block, which goes through the queries that see them, of all heads that share the keys. So every sum has one block, and one order. Tiles that a
 * causal attention hides are left out, of both. */
#include <math.h>
#include <stdlib.h>
#include "codegen/cuda/tile.h"

enum { Q, K, V, LSE, DELTA, CT, FILLING_BLOCKS = 264 /* two for each multiprocessor of a large device */ };

typedef struct {
  Cuda *c;
  Tile t;
  BluAttention a;
  MlirOperation op;      /* whose operands these are */
  int64_t heads;         /* of a launch: of queries, or of keys */
  Value head, first;     /* the block's: which head, and its tile's first row */
} Block;

static Value number(const Block *b, int64_t v) { return blu_cuda_number(b->c, v); }
static Value add(const Block *b, Value x, Value y) { return blu_cuda_add(b->c, x, y); }
static Value times(const Block *b, Value x, int64_t by) { return blu_cuda_mul(b->c, x, by); }
static Value real(const Block *b, double v) { return blu_tile_real(&b->t, v); }
static Value place_of(const Block *b, int operand) { return b->c->k.place[mlirBlockArgumentGetArgNumber(mlirOperationGetOperand(b->op, operand))]; }
static bool is_masked(const Block *b) { return b->a.causal || b->a.mask >= 0; }

/* A function of one number, by the rule of its op. */
static Value function_of(const Block *b, const char *name, Value x) {
  BluEmitVal in = {BLU_F32, {x}};
  return blu_op_find(name)->rule->lower(&b->c->k.e.base, &(BluAttrs){0}, &in, 1).u.v;
}

static Value product(const Block *b, Value x, Value y) { return LLVMBuildFMul(b->c->k.e.b, x, y, ""); }
static Value difference(const Block *b, Value x, Value y) { return LLVMBuildFSub(b->c->k.e.b, x, y, ""); }
static Value is_equal(const Block *b, Value x, double y) { return LLVMBuildFCmp(b->c->k.e.b, LLVMRealOEQ, x, real(b, y), ""); }
static Value choose(const Block *b, Value condition, Value x, Value y) { return LLVMBuildSelect(b->c->k.e.b, condition, x, y, ""); }
static Value greatest(const Block *b, Value x, Value y) { return choose(b, LLVMBuildFCmp(b->c->k.e.b, LLVMRealOGT, x, y, ""), x, y); }

/* Heads and rows of a launch, a tile to a block: the tile's rows, as few as fill a device. The last tiles of a causal attention have most to do
 * (of queries; the first, of keys), and start first. */
static bool share_out(Block *b, int64_t heads, int64_t rows, int own, bool last_first) {
  Cuda *c = b->c;
  b->heads = heads;
  while (own > 1 && (heads * blu_cuda_divide_up(rows, (int64_t)own * TILE_DOWN) < FILLING_BLOCKS || (own / 2) * (int64_t)TILE_DOWN >= rows)) own /= 2;
  int64_t tile = (int64_t)own * TILE_DOWN, tiles = blu_cuda_divide_up(rows, tile);
  c->k.e.narrow = true;
  b->t = blu_tile_begin(c, own);
  c->blocks = heads * tiles;
  if (!c->blocks) return false;
  b->head = blu_emit_remainder(&c->k.e, c->block, heads);
  Value at = blu_emit_quotient(&c->k.e, c->block, heads);
  if (last_first) at = LLVMBuildSub(c->k.e.b, number(b, tiles - 1), at, "");
  b->first = times(b, at, tile);
  return true;
}

/* ---- who sees whom ---- */

typedef struct { Value place, base; int64_t query, key; } Mask; /* element base + i query + j key */

static Mask mask_of(const Block *b, Value query_head) {
  Mask m = {0};
  if (b->a.mask < 0) return m;
  BluType type = blu_value_type(mlirOperationGetOperand(b->op, b->a.mask));
  int64_t step[4], size = 1, heads = b->a.g * b->a.r;
  for (int d = 3; d >= 0; d--) {
    int64_t n = d < 4 - type.rank ? 1 : type.dim[d - (4 - type.rank)];
    step[d] = n == 1 ? 0 : size;
    size *= n;
  }
  Emit *e = &b->c->k.e;
  Value batch = blu_emit_quotient(e, query_head, heads), head = blu_emit_remainder(e, query_head, heads);
  m = (Mask){place_of(b, b->a.mask), add(b, times(b, batch, step[0]), times(b, head, step[1])), step[2], step[3]};
  return m;
}

/* Does the query see the key? Both may lie behind the end, where a mask is read elsewhere. */
static Value sees(const Block *b, const Mask *m, Value query, Value key) {
  LLVMBuilderRef o = b->c->k.e.b;
  Value seen = LLVMBuildAnd(o, blu_cuda_less(b->c, query, number(b, b->a.t)), blu_cuda_less(b->c, key, number(b, b->a.s)), "");
  if (b->a.causal) seen = LLVMBuildAnd(o, seen, blu_cuda_less(b->c, key, add(b, query, number(b, b->a.s - b->a.t + 1))), "");
  if (!m->place) return seen;
  Value i = blu_tile_least(&b->t, query, number(b, b->a.t - 1)), j = blu_tile_least(&b->t, key, number(b, b->a.s - 1));
  Value at = add(b, m->base, add(b, times(b, i, m->query), times(b, j, m->key)));
  return LLVMBuildAnd(o, seen, blu_emit_load(&b->c->k.e, BLU_BOOL, m->place, at, 1), "");
}

/* The keys that the tile of queries sees end here. */
static Value keys_end(const Block *b) {
  Value all = number(b, b->a.s);
  if (!b->a.causal) return all;
  return blu_tile_least(&b->t, all, add(b, b->first, number(b, (int64_t)b->t.own * TILE_DOWN + b->a.s - b->a.t)));
}

/* The queries that see the tile of keys begin here: in the tile of queries that has the first of them. */
static Value queries_begin(const Block *b) {
  Value zero = number(b, 0);
  if (!b->a.causal) return zero;
  Value from = add(b, b->first, number(b, b->a.t - b->a.s));
  from = choose(b, blu_cuda_less(b->c, from, zero), zero, from);
  return LLVMBuildAnd(b->c->k.e.b, from, number(b, -TILE_COLUMNS), "");
}

/* ---- forward ---- */

/* Values of a thread, from one tile of keys to the next: the greatest scores, sums of weights, sums of values. */
typedef struct { Value most[TILE_MOST_OWN], sum[TILE_MOST_OWN], out[TILE_MOST_SUMS]; int own, outs; } Running;

static int flatten(const Running *r, Value *to) {
  int n = 0;
  for (int i = 0; i < r->own; i++) to[n++] = r->most[i];
  for (int i = 0; i < r->own; i++) to[n++] = r->sum[i];
  for (int i = 0; i < r->outs; i++) to[n++] = r->out[i];
  return n;
}
static void unflatten(Running *r, const Value *from) {
  int n = 0;
  for (int i = 0; i < r->own; i++) r->most[i] = from[n++];
  for (int i = 0; i < r->own; i++) r->sum[i] = from[n++];
  for (int i = 0; i < r->outs; i++) r->out[i] = from[n++];
}

/* Of all threads of a row. */
static Value over_row(const Block *b, Value x, bool most) {
  for (int apart = TILE_ACROSS / 2; apart >= 1; apart /= 2) {
    Value other = blu_cuda_exchange(b->c, (BluEmitVal){BLU_F32, {x}}, apart, CUDA_WARP).u.v;
    x = most ? greatest(b, x, other) : LLVMBuildFAdd(b->c->k.e.b, x, other, "");
  }
  return x;
}

/* Scores of the tile of keys from `key` on become weights: of a row that has seen nothing but -infinity, all 0. */
static void take_scores(const Block *b, const Mask *m, Value key, Value *score, Running *r) {
  Value none = real(b, -INFINITY);
  for (int i = 0; i < r->own; i++) {
    Value *own = score + (size_t)i * TILE_OWN, most = r->most[i];
    for (int j = 0; j < TILE_OWN; j++) {
      Value seen = sees(b, m, add(b, b->first, blu_tile_row(&b->t, i)), add(b, key, blu_tile_column(&b->t, j)));
      own[j] = choose(b, seen, product(b, own[j], real(b, b->a.scale)), none);
    }
    for (int j = 0; j < TILE_OWN; j++) most = greatest(b, own[j], most);
    most = over_row(b, most, true);
    Value from = choose(b, is_equal(b, most, -INFINITY), real(b, 0), most), shrink = function_of(b, "exp", difference(b, r->most[i], from));
    r->sum[i] = product(b, r->sum[i], shrink);
    for (int j = 0; j < TILE_OWN; j++) {
      own[j] = function_of(b, "exp", difference(b, own[j], from));
      r->sum[i] = LLVMBuildFAdd(b->c->k.e.b, r->sum[i], own[j], "");
    }
    for (int k = 0; k < r->outs / r->own; k++) {
      Value *out = &r->out[i * (r->outs / r->own) + k];
      *out = product(b, *out, shrink);
    }
    r->most[i] = most;
  }
}

/* Results and logarithms, where they are wanted. A row without weights is 0 if a key may be hidden, else there are only scores of -infinity: NaN. */
static void finish(const Block *b, Running *r, Value out, Value lse) {
  Cuda *c = b->c;
  int64_t rows = b->a.t;
  int each = r->outs / r->own;
  for (int i = 0; i < r->own; i++) {
    Value sum = over_row(b, r->sum[i], false), empty = is_equal(b, sum, 0), by = is_masked(b) ? choose(b, empty, real(b, 1), sum) : sum;
    for (int k = 0; k < each; k++) r->out[i * each + k] = LLVMBuildFDiv(c->k.e.b, r->out[i * each + k], by, "");
    if (!lse) continue;
    Value v = LLVMBuildFAdd(c->k.e.b, r->most[i], function_of(b, "log", sum), "");
    v = choose(b, empty, real(b, is_masked(b) ? 0 : NAN), v);
    Value row = add(b, b->first, blu_tile_row(&b->t, i));
    Value wanted = LLVMBuildAnd(c->k.e.b, blu_cuda_less(c, row, number(b, rows)), LLVMBuildICmp(c->k.e.b, LLVMIntEQ, b->t.x, number(b, 0), ""), "");
    LLVMBasicBlockRef after = blu_cuda_if(c, wanted);
    blu_emit_store(&c->k.e, BLU_F32, v, lse, add(b, times(b, b->head, rows), row), 1);
    blu_cuda_end_if(c, after);
  }
  if (out) blu_tile_store(&b->t, r->out, out, times(b, b->head, rows * b->a.dv), b->first, rows, b->a.dv);
}

static void forward(Block *b, Value out, Value lse) {
  enum { WIDE = 64 };
  Cuda *c = b->c;
  const BluAttention *a = &b->a;
  int chunks = out ? blu_tile_chunks(a->dv) : 0;
  if (!share_out(b, a->b * a->g * a->r, a->t, a->d <= WIDE && a->dv <= WIDE ? TILE_MOST_OWN : TILE_MOST_OWN / 2, a->causal)) return;
  int rows = b->t.own * TILE_DOWN;
  Area queries = blu_tile_area(c, rows, a->d), keys = blu_tile_area(c, TILE_COLUMNS, a->d), values = {0}, weights = {0};
  if (out) values = blu_tile_area(c, TILE_COLUMNS, a->dv), weights = blu_tile_scores(c, rows);
  Value key_head = blu_emit_quotient(&c->k.e, b->head, a->r);
  Mask m = mask_of(b, b->head);
  blu_tile_fill(&b->t, queries, place_of(b, Q), times(b, b->head, a->t * a->d), b->first, a->t, a->d);
  Running r = {.own = b->t.own, .outs = b->t.own * chunks * CUDA_VECTOR};
  for (int i = 0; i < r.own; i++) r.most[i] = real(b, -INFINITY), r.sum[i] = real(b, 0);
  for (int i = 0; i < r.outs; i++) r.out[i] = real(b, 0);
  Value flat[BLU_LOOP_VALUES], score[TILE_MOST_OWN * TILE_OWN];
  Loop l;
  int n = flatten(&r, flat);
  blu_loop_begin(&c->k.e, &l, c->k.fn, number(b, 0), keys_end(b), TILE_COLUMNS, n, flat);
  unflatten(&r, l.phi);
  blu_cuda_barrier(c);
  blu_tile_fill(&b->t, keys, place_of(b, K), times(b, key_head, a->s * a->d), l.i, a->s, a->d);
  if (out) blu_tile_fill(&b->t, values, place_of(b, V), times(b, key_head, a->s * a->dv), l.i, a->s, a->dv);
  blu_cuda_barrier(c);
  blu_tile_dot(&b->t, queries, keys, a->d, score);
  take_scores(b, &m, l.i, score, &r);
  if (out) {
    blu_tile_put(&b->t, weights, score);
    blu_cuda_barrier(c);
    blu_tile_accumulate(&b->t, weights, values, chunks, r.out);
  }
  flatten(&r, flat);
  blu_loop_end(&c->k.e, &l, flat);
  unflatten(&r, l.phi);
  finish(b, &r, out, lse);
}

/* ---- backward ---- */

/* A number for each query, of the row or column that the thread has. */
static Value of_query(const Block *b, int operand, Value head, Value query) {
  Value at = add(b, times(b, head, b->a.t), blu_tile_least(&b->t, query, number(b, b->a.t - 1)));
  return blu_emit_load(&b->c->k.e, BLU_F32, place_of(b, operand), at, 1);
}

/* The weight again, from a product of query and key. */
static Value weight(const Block *b, Value seen, Value dot, Value lse) {
  Value p = function_of(b, "exp", difference(b, product(b, dot, real(b, b->a.scale)), lse));
  return choose(b, seen, p, real(b, 0));
}

/* The score's cotangent, times the scale. */
static Value slope(const Block *b, Value p, Value dp, Value delta) { return product(b, product(b, p, difference(b, dp, delta)), real(b, b->a.scale)); }

static void back_to_queries(Block *b, Value dq) {
  Cuda *c = b->c;
  const BluAttention *a = &b->a;
  int chunks = blu_tile_chunks(a->d);
  if (!share_out(b, a->b * a->g * a->r, a->t, TILE_MOST_OWN / 2, a->causal)) return;
  int own = b->t.own, rows = own * TILE_DOWN, n = own * chunks * CUDA_VECTOR;
  Area queries = blu_tile_area(c, rows, a->d), cts = blu_tile_area(c, rows, a->dv), keys = blu_tile_area(c, TILE_COLUMNS, a->d),
       values = blu_tile_area(c, TILE_COLUMNS, a->dv), slopes = blu_tile_scores(c, rows);
  Value key_head = blu_emit_quotient(&c->k.e, b->head, a->r), lse[TILE_MOST_OWN], delta[TILE_MOST_OWN], sum[TILE_MOST_SUMS];
  Mask m = mask_of(b, b->head);
  for (int i = 0; i < own; i++) {
    Value query = add(b, b->first, blu_tile_row(&b->t, i));
    lse[i] = of_query(b, LSE, b->head, query), delta[i] = of_query(b, DELTA, b->head, query);
  }
  blu_tile_fill(&b->t, queries, place_of(b, Q), times(b, b->head, a->t * a->d), b->first, a->t, a->d);
  blu_tile_fill(&b->t, cts, place_of(b, CT), times(b, b->head, a->t * a->dv), b->first, a->t, a->dv);
  for (int i = 0; i < n; i++) sum[i] = real(b, 0);
  Loop l;
  blu_loop_begin(&c->k.e, &l, c->k.fn, number(b, 0), keys_end(b), TILE_COLUMNS, n, sum);
  for (int i = 0; i < n; i++) sum[i] = l.phi[i];
  blu_cuda_barrier(c);
  blu_tile_fill(&b->t, keys, place_of(b, K), times(b, key_head, a->s * a->d), l.i, a->s, a->d);
  blu_tile_fill(&b->t, values, place_of(b, V), times(b, key_head, a->s * a->dv), l.i, a->s, a->dv);
  blu_cuda_barrier(c);
  Value score[TILE_MOST_OWN * TILE_OWN], dp[TILE_MOST_OWN * TILE_OWN];
  blu_tile_dot(&b->t, queries, keys, a->d, score);
  blu_tile_dot(&b->t, cts, values, a->dv, dp);
  for (int i = 0; i < own * TILE_OWN; i++) {
    int row = i / TILE_OWN;
    Value seen = sees(b, &m, add(b, b->first, blu_tile_row(&b->t, row)), add(b, l.i, blu_tile_column(&b->t, i % TILE_OWN)));
    score[i] = slope(b, weight(b, seen, score[i], lse[row]), dp[i], delta[row]);
  }
  blu_tile_put(&b->t, slopes, score);
  blu_cuda_barrier(c);
  blu_tile_accumulate(&b->t, slopes, keys, chunks, sum);
  blu_loop_end(&c->k.e, &l, sum);
  blu_tile_store(&b->t, l.phi, dq, times(b, b->head, a->t * a->d), b->first, a->t, a->d);
}

/* The areas of a block of keys. */
typedef struct { Area keys, values, queries, cts, weights, slopes; int to_keys, to_values; } Held; /* how many sums of a thread, 0: not wanted */

/* The queries of one head: sum[to_keys + to_values]. */
static void back_from_head(const Block *b, const Held *h, Value head, Value *sum) {
  Cuda *c = b->c;
  const BluAttention *a = &b->a;
  int n = h->to_keys + h->to_values;
  Mask m = mask_of(b, head);
  Loop l;
  blu_loop_begin(&c->k.e, &l, c->k.fn, queries_begin(b), number(b, a->t), TILE_COLUMNS, n, sum);
  for (int i = 0; i < n; i++) sum[i] = l.phi[i];
  blu_cuda_barrier(c);
  blu_tile_fill(&b->t, h->queries, place_of(b, Q), times(b, head, a->t * a->d), l.i, a->t, a->d);
  blu_tile_fill(&b->t, h->cts, place_of(b, CT), times(b, head, a->t * a->dv), l.i, a->t, a->dv);
  blu_cuda_barrier(c);
  Value score[TILE_MOST_OWN * TILE_OWN], dp[TILE_MOST_OWN * TILE_OWN], lse[TILE_OWN], delta[TILE_OWN];
  for (int j = 0; j < TILE_OWN; j++) {
    Value query = add(b, l.i, blu_tile_column(&b->t, j));
    lse[j] = of_query(b, LSE, head, query);
    if (h->to_keys) delta[j] = of_query(b, DELTA, head, query);
  }
  blu_tile_dot(&b->t, h->keys, h->queries, a->d, score);
  if (h->to_keys) blu_tile_dot(&b->t, h->values, h->cts, a->dv, dp);
  for (int i = 0; i < b->t.own * TILE_OWN; i++) {
    int j = i % TILE_OWN;
    Value seen = sees(b, &m, add(b, l.i, blu_tile_column(&b->t, j)), add(b, b->first, blu_tile_row(&b->t, i / TILE_OWN)));
    score[i] = weight(b, seen, score[i], lse[j]);
    if (h->to_keys) dp[i] = slope(b, score[i], dp[i], delta[j]);
  }
  if (h->to_values) blu_tile_put(&b->t, h->weights, score);
  if (h->to_keys) blu_tile_put(&b->t, h->slopes, dp);
  blu_cuda_barrier(c);
  if (h->to_values) blu_tile_accumulate(&b->t, h->weights, h->cts, blu_tile_chunks(a->dv), sum + h->to_keys);
  if (h->to_keys) blu_tile_accumulate(&b->t, h->slopes, h->queries, blu_tile_chunks(a->d), sum);
  blu_loop_end(&c->k.e, &l, sum);
  for (int i = 0; i < n; i++) sum[i] = l.phi[i];
}

static void back_to_keys(Block *b, Value dk, Value dv) {
  Cuda *c = b->c;
  const BluAttention *a = &b->a;
  if (!share_out(b, a->b * a->g, a->s, TILE_MOST_OWN / 2, false)) return;
  int own = b->t.own, rows = own * TILE_DOWN;
  Held h = {.to_keys = dk ? own * blu_tile_chunks(a->d) * CUDA_VECTOR : 0, .to_values = dv ? own * blu_tile_chunks(a->dv) * CUDA_VECTOR : 0};
  Value sum[2 * TILE_MOST_SUMS];
  h.keys = blu_tile_area(c, rows, a->d), h.queries = blu_tile_area(c, TILE_COLUMNS, a->d), h.cts = blu_tile_area(c, TILE_COLUMNS, a->dv);
  if (dk) h.values = blu_tile_area(c, rows, a->dv), h.slopes = blu_tile_scores(c, rows);
  if (dv) h.weights = blu_tile_scores(c, rows);
  blu_tile_fill(&b->t, h.keys, place_of(b, K), times(b, b->head, a->s * a->d), b->first, a->s, a->d);
  if (dk) blu_tile_fill(&b->t, h.values, place_of(b, V), times(b, b->head, a->s * a->dv), b->first, a->s, a->dv);
  for (int i = 0; i < h.to_keys + h.to_values; i++) sum[i] = real(b, 0);
  Value heads = times(b, b->head, a->r);
  if (a->r == 1) back_from_head(b, &h, heads, sum);
  else {
    Loop l;
    int n = h.to_keys + h.to_values;
    blu_loop_begin(&c->k.e, &l, c->k.fn, number(b, 0), number(b, a->r), 1, n, sum);
    for (int i = 0; i < n; i++) sum[i] = l.phi[i];
    back_from_head(b, &h, add(b, heads, l.i), sum);
    blu_loop_end(&c->k.e, &l, sum);
    for (int i = 0; i < n; i++) sum[i] = l.phi[i];
  }
  if (dk) blu_tile_store(&b->t, sum, dk, times(b, b->head, a->s * a->d), b->first, a->s, a->d);
  if (dv) blu_tile_store(&b->t, sum + h.to_keys, dv, times(b, b->head, a->s * a->dv), b->first, a->s, a->dv);
}

/* ---- the kernel ---- */

void blu_cuda_attention(Cuda *c) {
  Block b = {.c = c, .t = {.c = c}};
  Value place[3] = {NULL}, lse = NULL, out = NULL; /* place: of the gradients of q, k, v */
  for (int i = 0; i < c->k.nout; i++) {
    MlirOperation op = blu_def(blu_kernel_result(&c->k, i));
    BluSig s;
    blu_sig_of(op, &s);
    int64_t of = blu_attr_int(&s.attrs, "of", -1);
    Value to = c->k.place[c->k.nin + i];
    bool logarithms = of < 0 && s.out.rank == 3;
    if (of >= 0) place[of] = to;
    else if (logarithms) lse = to;
    else out = to;
    if (!i || (of < 0 && !logarithms)) b.op = op, b.a = blu_attention_of(&s); /* the logarithms' op has no values */
  }
  if (out || lse) forward(&b, out, lse);
  else if (place[Q]) back_to_queries(&b, place[Q]);
  else back_to_keys(&b, place[K], place[V]);
}
