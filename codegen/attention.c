/* attention.c - attention in one kernel forward and one backward, without a matrix of scores in memory (FlashAttention-2, Dao 2023, arXiv:2307.08691).
 *
 * Forward, a piece is a tile of BLU_QUERIES of one head, which goes through the keys, BLU_KEYS at a time: scores, their weights under the greatest
 * score so far, and the sum of values, which is scaled down when a greater score comes. What is kept for the gradients is the logarithm of
 * each query's sum. Backward, a piece is one head of keys: for each tile of keys, the queries that see it, of all heads that share the keys; the
 * weights are made again from the logarithms, so that each of them is computed once for the three gradients. Keys that a causal attention hides
 * from MR queries side by side are left out, by vectors.
 *
 * The order of additions, which tests/codegen/contract.c has too: a score is a chain of multiply-adds over the depth. Weights of a tile of keys are added
 * to 16 sums, by lanes, and these at the end as every sum's; a tile's values are a chain of multiply-adds over its keys, added to what was there.
 * Gradients are chains over the keys, or the queries, of a tile, added in the order of tiles. */
#include <assert.h>
#include <math.h>
#include <string.h>
#include "codegen/product.h"

enum { Q, K, V, LSE, DELTA, CT, GRADS = 3 };
enum { TERMS = 4 /* of an iteration of the innermost loop */, MOST_ROWS = 12 /* of a tile in registers */ };

typedef LLVMValueRef Value;

/* Rows of numbers that lie side by side: row i of a head begins at element batch * its batch + head * its number there + i * row. */
typedef struct { Value at; BluElem elem; int64_t batch, head, row; } Rows;

typedef struct {
  Kernel *k;
  BluAttention a;
  BluElem elem;
  MlirOperation op;            /* whose operands these are */
  int mr, lanes;               /* queries of a tile in registers, which is BLU_LANES wide; elements of a vector there */
  int64_t queries, keys;       /* of a tile */
  int64_t d, dv;               /* depths as they are kept: whole vectors */
  Rows out, lse, grad[GRADS];  /* where the results go, if they are wanted */
  bool has_out, has_lse, has_grad[GRADS];
} Attend;

/* ---- small words ---- */

static int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }
static Value at(const Attend *x, Value base, Value index) {
  return LLVMBuildGEP2(x->k->e.b, blu_emit_elem(&x->k->e, x->elem), base, &index, 1, "");
}
static Value at_row(const Attend *x, Value base, Value row, int64_t stride) { return at(x, base, mul(x->k, row, stride)); }
static Value clamped(Kernel *k, Value v, Value to) { return most(k, i64(k, 0), least(k, v, to)); }
static Value whole_vectors(Kernel *k, Value n) { return LLVMBuildAnd(k->e.b, add(k, n, i64(k, BLU_LANES - 1)), i64(k, -BLU_LANES), ""); }

/* Numbers, as many as k->e.lanes says. */
static Value real(const Attend *x, double v) { return x->k->e.base.constant(&x->k->e.base, x->elem, v).u.v; }
static Value get(const Attend *x, Value base, int64_t i) { return blu_emit_load(&x->k->e, x->elem, base, i64(x->k, i), x->k->e.lanes); }
static void put(const Attend *x, Value v, Value base, int64_t i) { blu_emit_store(&x->k->e, x->elem, v, base, i64(x->k, i), x->k->e.lanes); }
static Value prim(const Attend *x, BluPrim p, BluElem result, Value a, Value b, Value c) {
  BluEmitVal v[3] = {{x->elem, {a}}, {x->elem, {b}}, {x->elem, {c}}};
  return x->k->e.base.prim(&x->k->e.base, p, result, v[0], v[1], v[2]).u.v;
}
static Value function_of(const Attend *x, const char *name, Value v) { /* of one number, by the rule of its op */
  BluEmitVal in = {x->elem, {v}};
  return blu_op_find(name)->rule->lower(&x->k->e.base, &(BluAttrs){0}, &in, 1).u.v;
}
static Value product(const Attend *x, Value a, Value b) { return LLVMBuildFMul(x->k->e.b, a, b, ""); }
static Value sum(const Attend *x, Value a, Value b) { return LLVMBuildFAdd(x->k->e.b, a, b, ""); }
static Value difference(const Attend *x, Value a, Value b) { return LLVMBuildFSub(x->k->e.b, a, b, ""); }
static Value is_equal(const Attend *x, Value a, double b) { return LLVMBuildFCmp(x->k->e.b, LLVMRealOEQ, a, real(x, b), ""); }
static Value greatest(const Attend *x, Value a, Value b) {
  return either(x->k, LLVMBuildFCmp(x->k->e.b, LLVMRealOGT, a, b, ""), a, b);
}
static Value splat(const Attend *x, Value v) { return blu_emit_splat(&x->k->e, v); }
static bool is_masked(const Attend *x) { return x->a.causal || x->a.mask >= 0; }

/* One number of 16: lane l and l + 8, then the rest the same way. */
static Value over_lanes(const Attend *x, Value v, bool is_sum) {
  for (int n = BLU_LANES / 2; n >= 1; n /= 2) {
    Value low = blu_emit_slice(&x->k->e, v, 0, n), high = blu_emit_slice(&x->k->e, v, n, n);
    v = is_sum ? sum(x, low, high) : greatest(x, low, high);
  }
  return v;
}

/* ---- what a kernel computes, and where things lie ---- */

static Rows rows_from(Kernel *k, const BluStrided *s, const BluType *t, Value place, BluElem elem) {
  Value offset = i64(k, s->offset);
  Rows r = {LLVMBuildGEP2(k->e.b, blu_emit_stored(&k->e, elem), place, &offset, 1, ""), elem, s->stride[0], t->dim[1] == 1 ? 0 : s->stride[1], s->stride[2]};
  return r;
}

/* What fuse.c leaves where blu_strided_part finds it. */
static Rows rows_of(const Attend *x, MlirValue v) {
  BluType t = blu_value_type(v);
  BluStrided s;
  bool is_part = blu_strided_part(v, (MlirValue){0}, &s);
  assert(is_part);
  (void)is_part;
  return rows_from(x->k, &s, &t, x->k->place[mlirBlockArgumentGetArgNumber(s.whole)], blu_value_type(s.whole).elem);
}

static Rows operand_of(const Attend *x, int i) { return rows_of(x, mlirOperationGetOperand(x->op, i)); }

/* A result of the family, in the kernel's result that it is, or is part of. */
static bool result_of(Kernel *k, MlirValue v, Rows *r) {
  BluType t = blu_value_type(v);
  BluStrided s;
  for (int i = 0; i < k->nout; i++)
    if (blu_strided_place(v, blu_kernel_result(k, i), &s)) return *r = rows_from(k, &s, &t, k->place[k->nin + i], t.elem), true;
  return false;
}

static Attend attend_of(Kernel *k) {
  Attend x = {.k = k};
  for (MlirOperation o = mlirBlockGetFirstOperation(k->block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    if (!blu_attention_is_whole(o)) continue;
    BluSig s;
    blu_sig_of(o, &s);
    int64_t of = blu_attr_int(&s.attrs, "of", -1);
    MlirValue v = mlirOperationGetResult(o, 0);
    bool logarithms = of < 0 && s.out.rank == 3;
    if (of >= 0) x.has_grad[of] = result_of(k, v, &x.grad[of]);
    else if (logarithms) x.has_lse = result_of(k, v, &x.lse);
    else x.has_out = result_of(k, v, &x.out);
    if (mlirOperationIsNull(x.op) || (of < 0 && !logarithms)) x.op = o, x.a = blu_attention_of(&s), x.elem = s.in[Q].elem; /* lse's has no values */
  }
  int level = k->cpu->level, bytes = blu_elem_bytes(x.elem);
  int registers = BLU_LANES * bytes * 8 / (level >= 4 ? 512 : level == 3 ? 256 : 128), held = level >= 4 ? 24 : level == 3 ? 12 : 8; /* for sums */
  x.lanes = level == 3 ? BLU_LANES / 2 : BLU_LANES;
  x.mr = held / registers;
  if (x.mr > MOST_ROWS) x.mr = MOST_ROWS;
  if (x.mr < 1) x.mr = 1;
  if (x.mr > x.a.t) x.mr = x.a.t > 0 ? (int)x.a.t : 1;
  x.queries = x.a.t > BLU_QUERIES ? BLU_QUERIES : x.a.t > 0 ? x.a.t : 1;
  x.keys = x.a.s < BLU_KEYS ? round_up(x.a.s, BLU_LANES) : BLU_KEYS;
  x.d = round_up(x.a.d, BLU_LANES), x.dv = round_up(x.a.dv, BLU_LANES);
  return x;
}

static bool is_backward(const Attend *x) { return x->has_grad[Q] || x->has_grad[K] || x->has_grad[V]; }
static int64_t tiles_of(const Attend *x) { return (x->a.t + x->queries - 1) / x->queries; }

/* Scratch memory: the areas of a tile, in elements. Tiles in registers may reach behind the last query. */
typedef struct { int64_t q, ct, k_rows, v_rows, k_columns, v_columns, weights, slopes, out, most, shrink, tops, from, sums, dq, dk, dv, delta, size; } Areas;

static int64_t area(int64_t *size, int64_t n) {
  int64_t first = *size;
  *size += round_up(n, BLU_LANES);
  return first;
}

static Areas areas_of(const Attend *x) {
  Areas s = {0};
  int64_t queries = round_up(x->queries, x->mr);
  bool back = is_backward(x);
  s.q = area(&s.size, queries * x->d), s.k_rows = area(&s.size, x->keys * x->d), s.k_columns = area(&s.size, x->keys * x->d);
  s.v_rows = area(&s.size, x->keys * x->dv), s.weights = area(&s.size, (back ? queries : x->mr) * x->keys);
  if (back) {
    s.ct = area(&s.size, queries * x->dv), s.v_columns = area(&s.size, x->keys * x->dv), s.slopes = area(&s.size, queries * x->keys);
    s.dq = area(&s.size, x->a.r * round_up(x->a.t, x->mr) * x->d), s.dk = area(&s.size, round_up(x->keys, x->mr) * x->d);
    s.dv = area(&s.size, round_up(x->keys, x->mr) * x->dv), s.delta = area(&s.size, x->a.r * x->a.t);
  } else {
    s.out = area(&s.size, queries * x->dv), s.most = area(&s.size, queries + BLU_LANES), s.shrink = area(&s.size, queries + BLU_LANES);
    s.tops = area(&s.size, BLU_LANES), s.from = area(&s.size, BLU_LANES);
    s.sums = area(&s.size, queries * BLU_LANES);
  }
  return s;
}

static int64_t scratch(const Kernel *k) {
  Attend x = attend_of((Kernel *)k);
  return areas_of(&x).size * blu_elem_bytes(x.elem);
}

static int64_t pieces(const Kernel *k) {
  Attend x = attend_of((Kernel *)k);
  int64_t n = x.a.b * x.a.g * (is_backward(&x) ? 1 : x.a.r * tiles_of(&x));
  return n > 0 ? n : 1;
}

/* ---- rows to and from scratch memory ---- */

/* Rows [first, first + rows) of one head, each filled up with zeros to whole vectors, and rows of zeros behind them up to `all`. */
static void take_rows(const Attend *x, const Rows *from, Value head, Value first, Value rows, Value all, int64_t depth, Value to) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  Loop l;
  int64_t wide = round_up(depth, BLU_LANES);
  blu_loop_begin(e, &l, k->fn, i64(k, 0), rows, 1, 0, NULL);
  Value source = add(k, head, mul(k, add(k, first, l.i), from->row)), row = mul(k, l.i, wide);
  for (int64_t c = 0; c < depth; c += BLU_LANES) {
    int count = depth - c < BLU_LANES ? (int)(depth - c) : BLU_LANES;
    blu_emit_store(e, x->elem, blu_emit_load(e, from->elem, from->at, add(k, source, i64(k, c)), count), to, add(k, row, i64(k, c)), BLU_LANES);
  }
  blu_loop_end(e, &l, NULL);
  blu_loop_begin(e, &l, k->fn, mul(k, rows, wide), mul(k, all, wide), BLU_LANES, 0, NULL);
  blu_emit_store(e, x->elem, real(x, 0), to, l.i, BLU_LANES);
  blu_loop_end(e, &l, NULL);
}

static void give_rows(const Attend *x, Value from, int64_t depth, const Rows *to, Value head, Value first, Value rows) {
  Kernel *k = x->k;
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, i64(k, 0), rows, 1, 0, NULL);
  Value target = add(k, head, mul(k, add(k, first, l.i), to->row)), row = mul(k, l.i, round_up(depth, BLU_LANES));
  for (int64_t c = 0; c < depth; c += BLU_LANES) {
    int count = depth - c < BLU_LANES ? (int)(depth - c) : BLU_LANES;
    blu_emit_store(&k->e, to->elem, blu_emit_load(&k->e, x->elem, from, add(k, row, i64(k, c)), BLU_LANES), to->at, add(k, target, i64(k, c)), count);
  }
  blu_loop_end(&k->e, &l, NULL);
}

static void fill(const Attend *x, Value to, int64_t n, double v) {
  Loop l;
  blu_loop_begin(&x->k->e, &l, x->k->fn, i64(x->k, 0), i64(x->k, round_up(n, BLU_LANES)), BLU_LANES, 0, NULL);
  blu_emit_store(&x->k->e, x->elem, real(x, v), to, l.i, BLU_LANES);
  blu_loop_end(&x->k->e, &l, NULL);
}

/* ---- a tile of sums ---- */

typedef struct { Value at; int64_t across, along; } Left;      /* element (row, kk) */
typedef struct { Value at; int64_t stride; } Area;             /* of rows that have a stride */
typedef enum { STORED, ADDED, ADDED_TO_SHRUNK } How;           /* a tile becomes what it is, is added; what was there is multiplied before that */

/* Terms [from, to) of MR x BLU_LANES chains, `step` at a time; acc: the sums so far, then the places in left and right. */
static void add_terms(const Attend *x, Left left, Area right, Value from, Value to, int step, Value *acc) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  int vectors = BLU_LANES / x->lanes, n = x->mr * vectors;
  Loop l;
  blu_loop_begin(e, &l, k->fn, from, to, step, n + 2, acc);
  memcpy(acc, l.phi, (size_t)(n + 2) * sizeof *acc);
  for (int j = 0; j < step; j++) {
    Value b[2];
    for (int g = 0; g < vectors; g++) b[g] = get(x, acc[n + 1], j * right.stride + g * x->lanes);
    for (int r = 0; r < x->mr; r++) {
      e->lanes = 1;
      Value a = get(x, acc[n], j * left.along + r * left.across);
      e->lanes = x->lanes;
      a = splat(x, a);
      for (int g = 0; g < vectors; g++) acc[r * vectors + g] = prim(x, BLU_PRIM_FMA, x->elem, a, b[g], acc[r * vectors + g]);
    }
  }
  acc[n] = at(x, acc[n], i64(k, step * left.along)), acc[n + 1] = at(x, acc[n + 1], i64(k, step * right.stride));
  blu_loop_end(e, &l, acc);
  memcpy(acc, l.phi, (size_t)(n + 2) * sizeof *acc);
}

/* c[MR][columns) of left and right, chains over `depth` each. shrink: a factor for each row of what was there. */
static void multiply(const Attend *x, Left left, Area right, Value depth, Area c, Value columns, How how, Value shrink) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  int vectors = BLU_LANES / x->lanes, n = x->mr * vectors;
  Loop l;
  Value acc[MOST_ROWS * 2 + 2];
  blu_loop_begin(e, &l, k->fn, i64(k, 0), columns, BLU_LANES, 0, NULL);
  e->lanes = x->lanes;
  for (int i = 0; i < n; i++) acc[i] = real(x, 0);
  acc[n] = left.at, acc[n + 1] = at(x, right.at, l.i);
  Value whole = LLVMBuildAnd(e->b, depth, i64(k, -TERMS), "");
  add_terms(x, left, right, i64(k, 0), whole, TERMS, acc);
  if (!LLVMIsConstant(depth) || LLVMConstIntGetZExtValue(depth) % TERMS) add_terms(x, left, right, whole, depth, 1, acc);
  Value to = at(x, c.at, l.i);
  for (int r = 0; r < x->mr; r++) {
    Value by = NULL;
    e->lanes = 1;
    if (how == ADDED_TO_SHRUNK) by = get(x, shrink, r);
    e->lanes = x->lanes;
    if (by) by = splat(x, by);
    for (int g = 0; g < vectors; g++) {
      Value v = acc[r * vectors + g], before = how == STORED ? NULL : get(x, to, r * c.stride + g * x->lanes);
      if (how == ADDED) v = sum(x, before, v);
      if (by) v = prim(x, BLU_PRIM_FMA, x->elem, before, by, v);
      put(x, v, to, r * c.stride + g * x->lanes);
    }
  }
  e->lanes = BLU_LANES;
  blu_loop_end(e, &l, NULL);
}

/* ---- who sees whom ---- */

typedef struct {
  Value batch, within, group;  /* of the head: its batch, its number there, and that of its keys */
  Value first, rows;           /* the tile of queries */
  Value key, keys;             /* the tile of keys; `keys` of them exist */
} Place;

/* How many keys of the tile the query sees that is number `row` of its tile, were there no mask: they come first. */
static Value seen_keys(const Attend *x, const Place *p, Value row) {
  Kernel *k = x->k;
  if (!x->a.causal) return p->keys;
  return clamped(k, sub(k, add(k, add(k, p->first, row), i64(k, x->a.s - x->a.t + 1)), p->key), p->keys);
}

/* So many keys, whole vectors, the MR queries from `row` on are computed with. */
static Value width_of(const Attend *x, const Place *p, Value row) {
  return whole_vectors(x->k, seen_keys(x, p, add(x->k, row, i64(x->k, x->mr - 1))));
}

/* Which of the keys from `column` of the tile on does the query see? NULL: all of them. */
static Value visible(const Attend *x, const Place *p, Value row, Value seen, Value column) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  Value all = NULL;
  if (x->a.causal || x->a.s % BLU_LANES) {
    e->linear = column;
    BluEmitVal index = e->base.index(&e->base);
    all = LLVMBuildICmp(e->b, LLVMIntSLT, index.u.v, splat(x, seen), "");
  }
  if (x->a.mask < 0) return all;
  BluType t = blu_value_type(mlirOperationGetOperand(x->op, x->a.mask));
  int64_t step[4], size = 1;
  for (int d = 3; d >= 0; d--) {
    int64_t n = d < 4 - t.rank ? 1 : t.dim[d - (4 - t.rank)];
    step[d] = n == 1 ? 0 : size;
    size *= n;
  }
  Value query = least(k, add(k, p->first, row), i64(k, x->a.t - 1)), place = k->place[mlirBlockArgumentGetArgNumber(mlirOperationGetOperand(x->op, x->a.mask))];
  Value base = add(k, add(k, mul(k, p->batch, step[0]), mul(k, p->within, step[1])), mul(k, query, step[2])), key = add(k, p->key, column), m;
  if (step[3] && x->a.s % BLU_LANES == 0) {
    m = blu_emit_load(e, BLU_BOOL, place, add(k, base, key), BLU_LANES);
  } else {
    int n = step[3] ? BLU_LANES : 1;
    m = LLVMGetUndef(blu_emit_type(e, BLU_BOOL));
    e->lanes = 1;
    for (int i = 0; i < n; i++) { /* behind the last key, that one's: it isn't visible anyway */
      Value one = blu_emit_load(e, BLU_BOOL, place, add(k, base, mul(k, least(k, add(k, key, i64(k, i)), i64(k, x->a.s - 1)), step[3])), 1);
      if (n > 1) m = LLVMBuildInsertElement(e->b, m, one, i64(k, i), "");
      else m = one;
    }
    e->lanes = BLU_LANES;
    m = splat(x, m);
  }
  return all ? LLVMBuildAnd(e->b, all, m, "") : m;
}

/* The keys of the tile, as they are and turned, and the values. */
static void take_keys(const Attend *x, const Areas *s, const Rows *keys, const Rows *values, const Place *p) {
  Kernel *k = x->k;
  Value base = k->scratch, all = whole_vectors(k, p->keys);
  Value rows = at(x, base, i64(k, s->k_rows)), value_rows = at(x, base, i64(k, s->v_rows));
  take_rows(x, keys, add(k, mul(k, p->batch, keys->batch), mul(k, p->group, keys->head)), p->key, p->keys, all, x->a.d, rows);
  blu_product_turn(k, x->elem, rows, x->d, i64(k, x->keys), at(x, base, i64(k, s->k_columns)), x->keys);
  if (!values) return;
  take_rows(x, values, add(k, mul(k, p->batch, values->batch), mul(k, p->group, values->head)), p->key, p->keys, all, x->a.dv, value_rows);
  if (is_backward(x)) blu_product_turn(k, x->elem, value_rows, x->dv, i64(k, x->keys), at(x, base, i64(k, s->v_columns)), x->keys);
}

static Value head_of(const Attend *x, const Rows *r, const Place *p) { return add(x->k, mul(x->k, p->batch, r->batch), mul(x->k, p->within, r->head)); }

/* ---- forward ---- */

/* The scores of the query that is number `which` of MR become what they are times the scale, or -infinity where it doesn't see the key. */
static void scale_scores(const Attend *x, const Areas *s, const Place *p, Value row, Value which, Value scores, Value width) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  Value seen = seen_keys(x, p, row), none = real(x, -INFINITY), scale = real(x, x->a.scale);
  Loop l;
  blu_loop_begin(e, &l, k->fn, i64(k, 0), width, BLU_LANES, 1, &none);
  Value score = product(x, blu_emit_load(e, x->elem, scores, l.i, BLU_LANES), scale), sees = visible(x, p, row, seen, l.i);
  if (sees) score = either(k, sees, score, none);
  blu_emit_store(e, x->elem, score, scores, l.i, BLU_LANES);
  score = greatest(x, score, l.phi[0]);
  blu_loop_end(e, &l, &score);
  Value top = over_lanes(x, l.phi[0], false);
  e->lanes = 1;
  put(x, top, at(x, k->scratch, add(k, which, i64(k, s->tops))), 0);
  e->lanes = BLU_LANES;
}

/* The greatest scores so far of MR queries at once: what they were is shrunk by. The other lanes are queries whose turn comes; theirs stay. */
static void raise_tops(const Attend *x, const Areas *s, Value row) {
  Kernel *k = x->k;
  Value most_at = at(x, k->scratch, add(k, row, i64(k, s->most))), tops_at = at(x, k->scratch, i64(k, s->tops));
  Value before = get(x, most_at, 0), top = greatest(x, get(x, tops_at, 0), before);
  Value from = either(k, is_equal(x, top, -INFINITY), real(x, 0), top);
  put(x, top, most_at, 0);
  put(x, from, at(x, k->scratch, i64(k, s->from)), 0);
  put(x, function_of(x, "exp", difference(x, before, from)), at(x, k->scratch, add(k, row, i64(k, s->shrink))), 0);
}

/* Scores become weights, and are added to the query's sums. */
static void weigh(const Attend *x, const Areas *s, Value row, Value which, Value scores, Value width) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  e->lanes = 1;
  Value from = get(x, at(x, k->scratch, add(k, which, i64(k, s->from))), 0), shrink = get(x, at(x, k->scratch, add(k, row, i64(k, s->shrink))), 0);
  e->lanes = BLU_LANES;
  from = splat(x, from);
  Value sums_at = at(x, k->scratch, add(k, mul(k, row, BLU_LANES), i64(k, s->sums))), sums = product(x, get(x, sums_at, 0), splat(x, shrink));
  Loop l;
  blu_loop_begin(e, &l, k->fn, i64(k, 0), width, BLU_LANES, 1, &sums);
  Value weight = function_of(x, "exp", difference(x, blu_emit_load(e, x->elem, scores, l.i, BLU_LANES), from));
  blu_emit_store(e, x->elem, weight, scores, l.i, BLU_LANES);
  weight = sum(x, l.phi[0], weight);
  blu_loop_end(e, &l, &weight);
  put(x, l.phi[0], sums_at, 0);
}

/* A row without weights is 0 if a key may be hidden; else there are only scores of -infinity: NaN. */
static void finish(const Attend *x, const Areas *s, const Place *p) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  Loop row, l;
  blu_loop_begin(e, &row, k->fn, i64(k, 0), p->rows, 1, 0, NULL);
  Value total = over_lanes(x, get(x, at(x, k->scratch, add(k, mul(k, row.i, BLU_LANES), i64(k, s->sums))), 0), true);
  e->lanes = 1;
  Value empty = is_equal(x, total, 0), by = is_masked(x) ? either(k, empty, real(x, 1), total) : total;
  if (x->has_lse) {
    Value v = sum(x, get(x, at(x, k->scratch, add(k, row.i, i64(k, s->most))), 0), function_of(x, "log", total));
    v = either(k, empty, real(x, is_masked(x) ? 0 : NAN), v);
    blu_emit_store(e, x->lse.elem, v, x->lse.at, add(k, head_of(x, &x->lse, p), mul(k, add(k, p->first, row.i), x->lse.row)), 1);
  }
  e->lanes = BLU_LANES;
  if (x->has_out) {
    by = splat(x, by);
    Value from = at_row(x, at(x, k->scratch, i64(k, s->out)), row.i, x->dv);
    blu_loop_begin(e, &l, k->fn, i64(k, 0), i64(k, x->dv), BLU_LANES, 0, NULL);
    blu_emit_store(e, x->elem, LLVMBuildFDiv(e->b, blu_emit_load(e, x->elem, from, l.i, BLU_LANES), by, ""), from, l.i, BLU_LANES);
    blu_loop_end(e, &l, NULL);
  }
  blu_loop_end(e, &row, NULL);
  if (x->has_out) give_rows(x, at(x, k->scratch, i64(k, s->out)), x->a.dv, &x->out, head_of(x, &x->out, p), p->first, p->rows);
}

static void forward(const Attend *x, const Areas *s) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  int64_t tiles = tiles_of(x), heads = x->a.g * x->a.r;
  Value base = k->scratch, queries = at(x, base, i64(k, s->q)), scores = at(x, base, i64(k, s->weights));
  Rows q = operand_of(x, Q), keys = operand_of(x, K), values = {0};
  if (x->has_out) values = operand_of(x, V);
  Loop piece, key, row, l;
  blu_loop_begin(e, &piece, k->fn, k->first, k->last, 1, 0, NULL);
  Value number = quotient(k, piece.i, tiles); /* of the head, within the batch */
  Place p = {.batch = quotient(k, number, heads), .within = remainder_of(k, number, heads)};
  p.group = quotient(k, p.within, x->a.r);
  p.first = mul(k, sub(k, i64(k, tiles - 1), remainder_of(k, piece.i, tiles)), x->queries); /* of a causal attention the last have most to do */
  p.rows = least(k, sub(k, i64(k, x->a.t), p.first), i64(k, x->queries));
  take_rows(x, &q, head_of(x, &q, &p), p.first, p.rows, p.rows, x->a.d, queries);
  fill(x, at(x, base, i64(k, s->most)), x->queries + BLU_LANES, -INFINITY);
  fill(x, at(x, base, i64(k, s->tops)), BLU_LANES, -INFINITY);
  fill(x, at(x, base, i64(k, s->sums)), x->queries * BLU_LANES, 0);
  if (x->has_out) fill(x, at(x, base, i64(k, s->out)), x->queries * x->dv, 0);
  Value end = i64(k, x->a.s);
  if (x->a.causal) end = clamped(k, add(k, add(k, p.first, p.rows), i64(k, x->a.s - x->a.t)), end);
  blu_loop_begin(e, &key, k->fn, i64(k, 0), end, x->keys, 0, NULL);
  p.key = key.i, p.keys = least(k, sub(k, i64(k, x->a.s), key.i), i64(k, x->keys));
  take_keys(x, s, &keys, x->has_out ? &values : NULL, &p);
  blu_loop_begin(e, &row, k->fn, i64(k, 0), p.rows, x->mr, 0, NULL);
  Value width = width_of(x, &p, row.i);
  multiply(x, (Left){at_row(x, queries, row.i, x->d), x->d, 1}, (Area){at(x, base, i64(k, s->k_columns)), x->keys}, i64(k, x->a.d),
           (Area){scores, x->keys}, width, STORED, NULL);
  blu_loop_begin(e, &l, k->fn, i64(k, 0), i64(k, x->mr), 1, 0, NULL);
  scale_scores(x, s, &p, add(k, row.i, l.i), l.i, at_row(x, scores, l.i, x->keys), width);
  blu_loop_end(e, &l, NULL);
  raise_tops(x, s, row.i);
  blu_loop_begin(e, &l, k->fn, i64(k, 0), i64(k, x->mr), 1, 0, NULL);
  weigh(x, s, add(k, row.i, l.i), l.i, at_row(x, scores, l.i, x->keys), width);
  blu_loop_end(e, &l, NULL);
  if (x->has_out)
    multiply(x, (Left){scores, x->keys, 1}, (Area){at(x, base, i64(k, s->v_rows)), x->dv}, width,
             (Area){at_row(x, at(x, base, i64(k, s->out)), row.i, x->dv), x->dv}, i64(k, x->dv), ADDED_TO_SHRUNK,
             at(x, base, add(k, row.i, i64(k, s->shrink))));
  blu_loop_end(e, &row, NULL);
  blu_loop_end(e, &key, NULL);
  finish(x, s, &p);
  blu_loop_end(e, &piece, NULL);
}

/* ---- backward ---- */

/* For each query how much its weights' cotangents are worth together: an operand, or (fuse.c leaves the ops here) the sum of cotangent times result. */
static void take_deltas(const Attend *x, const Areas *s, const Place *p, Value which) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  MlirOperation made = blu_def(mlirOperationGetOperand(x->op, DELTA)), products = {0};
  if (!mlirOperationIsNull(made) && blu_is(made, "sum")) products = blu_def(mlirOperationGetOperand(made, 0));
  bool given = mlirOperationIsNull(products);
  Rows from[2] = {{0}};
  Value head[2] = {NULL};
  for (int i = 0; i < (given ? 1 : 2); i++) {
    from[i] = given ? operand_of(x, DELTA) : rows_of(x, mlirOperationGetOperand(products, i));
    head[i] = head_of(x, &from[i], p);
  }
  Loop l;
  blu_loop_begin(e, &l, k->fn, i64(k, 0), i64(k, x->a.t), 1, 0, NULL);
  Value row[2] = {add(k, head[0], mul(k, l.i, from[0].row)), head[1] ? add(k, head[1], mul(k, l.i, from[1].row)) : NULL}, v;
  if (given) {
    e->lanes = 1;
    v = blu_emit_load(e, from[0].elem, from[0].at, row[0], 1);
    e->lanes = BLU_LANES;
  } else {
    v = real(x, 0);
    for (int64_t c = 0; c < x->a.dv; c += BLU_LANES) {
      int count = x->a.dv - c < BLU_LANES ? (int)(x->a.dv - c) : BLU_LANES;
      Value both[2];
      for (int i = 0; i < 2; i++) both[i] = blu_emit_load(e, from[i].elem, from[i].at, add(k, row[i], i64(k, c)), count);
      v = sum(x, v, product(x, both[0], both[1]));
    }
    v = over_lanes(x, v, true);
  }
  e->lanes = 1;
  blu_emit_store(e, x->elem, v, at(x, k->scratch, i64(k, s->delta)), add(k, mul(k, which, x->a.t), l.i), 1);
  e->lanes = BLU_LANES;
  blu_loop_end(e, &l, NULL);
}

/* Scores and the cotangents of weights, of one query, become weights and the cotangents of scores. */
static void slope(const Attend *x, const Areas *s, const Place *p, Value which, Value row, Value width) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  bool slopes = x->has_grad[Q] || x->has_grad[K];
  Value seen = seen_keys(x, p, row), query = least(k, add(k, p->first, row), i64(k, x->a.t - 1)), zero = real(x, 0), scale = real(x, x->a.scale);
  Value weights_at = at_row(x, at(x, k->scratch, i64(k, s->weights)), row, x->keys), slopes_at = at_row(x, at(x, k->scratch, i64(k, s->slopes)), row, x->keys);
  Rows lses = operand_of(x, LSE);
  e->lanes = 1;
  Value lse = blu_emit_load(e, lses.elem, lses.at, add(k, head_of(x, &lses, p), mul(k, query, lses.row)), 1);
  Value delta = blu_emit_load(e, x->elem, at(x, k->scratch, i64(k, s->delta)), add(k, mul(k, which, x->a.t), query), 1);
  e->lanes = BLU_LANES;
  lse = splat(x, lse), delta = splat(x, delta);
  Loop l;
  blu_loop_begin(e, &l, k->fn, i64(k, 0), width, BLU_LANES, 0, NULL);
  Value weight = function_of(x, "exp", difference(x, product(x, blu_emit_load(e, x->elem, weights_at, l.i, BLU_LANES), scale), lse));
  Value sees = visible(x, p, row, seen, l.i);
  if (sees) weight = either(k, sees, weight, zero);
  blu_emit_store(e, x->elem, weight, weights_at, l.i, BLU_LANES);
  if (slopes) {
    Value v = difference(x, blu_emit_load(e, x->elem, slopes_at, l.i, BLU_LANES), delta);
    blu_emit_store(e, x->elem, product(x, product(x, weight, v), scale), slopes_at, l.i, BLU_LANES);
  }
  blu_loop_end(e, &l, NULL);
  blu_loop_begin(e, &l, k->fn, width, i64(k, x->keys), BLU_LANES, 0, NULL);
  blu_emit_store(e, x->elem, zero, weights_at, l.i, BLU_LANES);
  if (slopes) blu_emit_store(e, x->elem, zero, slopes_at, l.i, BLU_LANES);
  blu_loop_end(e, &l, NULL);
}

/* to[keys] += the transpose of by[queries][keys], times with[queries]. Queries that don't see the first of MR keys come first, and are left out. */
static void gather_keys(const Attend *x, const Place *p, int64_t by, int64_t with, int64_t depth, int64_t to) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  Value base = k->scratch, from = i64(k, 0);
  Loop l;
  blu_loop_begin(e, &l, k->fn, from, p->keys, x->mr, 0, NULL);
  if (x->a.causal) from = clamped(k, sub(k, add(k, p->key, l.i), add(k, p->first, i64(k, x->a.s - x->a.t))), p->rows);
  multiply(x, (Left){at(x, at_row(x, at(x, base, i64(k, by)), from, x->keys), l.i), 1, x->keys},
           (Area){at_row(x, at(x, base, i64(k, with)), from, depth), depth}, sub(k, p->rows, from),
           (Area){at_row(x, at(x, base, i64(k, to)), l.i, depth), depth}, i64(k, depth), ADDED, NULL);
  blu_loop_end(e, &l, NULL);
}

/* What a tile of queries and a tile of keys add to the gradients. which: of the heads that share the keys. */
static void add_tile(const Attend *x, const Areas *s, const Place *p, Value which) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  Value base = k->scratch;
  Rows q = operand_of(x, Q), cts = operand_of(x, CT);
  Loop row, l;
  take_rows(x, &q, head_of(x, &q, p), p->first, p->rows, p->rows, x->a.d, at(x, base, i64(k, s->q)));
  take_rows(x, &cts, head_of(x, &cts, p), p->first, p->rows, p->rows, x->a.dv, at(x, base, i64(k, s->ct)));
  blu_loop_begin(e, &row, k->fn, i64(k, 0), p->rows, x->mr, 0, NULL);
  Value width = width_of(x, p, row.i), slopes = at_row(x, at(x, base, i64(k, s->slopes)), row.i, x->keys);
  multiply(x, (Left){at_row(x, at(x, base, i64(k, s->q)), row.i, x->d), x->d, 1}, (Area){at(x, base, i64(k, s->k_columns)), x->keys},
           i64(k, x->a.d), (Area){at_row(x, at(x, base, i64(k, s->weights)), row.i, x->keys), x->keys}, width, STORED, NULL);
  if (x->has_grad[Q] || x->has_grad[K])
    multiply(x, (Left){at_row(x, at(x, base, i64(k, s->ct)), row.i, x->dv), x->dv, 1}, (Area){at(x, base, i64(k, s->v_columns)), x->keys},
             i64(k, x->a.dv), (Area){slopes, x->keys}, width, STORED, NULL);
  blu_loop_begin(e, &l, k->fn, i64(k, 0), i64(k, x->mr), 1, 0, NULL);
  slope(x, s, p, which, add(k, row.i, l.i), width);
  blu_loop_end(e, &l, NULL);
  if (x->has_grad[Q]) {
    Value query = add(k, mul(k, which, round_up(x->a.t, x->mr)), add(k, p->first, row.i));
    multiply(x, (Left){slopes, x->keys, 1}, (Area){at(x, base, i64(k, s->k_rows)), x->d}, width,
             (Area){at_row(x, at(x, base, i64(k, s->dq)), query, x->d), x->d}, i64(k, x->d), ADDED, NULL);
  }
  blu_loop_end(e, &row, NULL);
  if (x->has_grad[K]) gather_keys(x, p, s->slopes, s->q, x->d, s->dk);
  if (x->has_grad[V]) gather_keys(x, p, s->weights, s->ct, x->dv, s->dv);
}

static void backward(const Attend *x, const Areas *s) {
  Kernel *k = x->k;
  Emit *e = &k->e;
  Value base = k->scratch, all_queries = i64(k, x->a.t);
  Rows keys = operand_of(x, K), values = operand_of(x, V);
  Loop piece, key, head, tile;
  blu_loop_begin(e, &piece, k->fn, k->first, k->last, 1, 0, NULL);
  Place p = {.batch = quotient(k, piece.i, x->a.g), .group = remainder_of(k, piece.i, x->a.g)};
  Value within = mul(k, p.group, x->a.r);
  fill(x, at(x, base, i64(k, s->dq)), x->a.r * round_up(x->a.t, x->mr) * x->d, 0);
  blu_loop_begin(e, &head, k->fn, i64(k, 0), i64(k, x->a.r), 1, 0, NULL);
  p.within = add(k, within, head.i);
  take_deltas(x, s, &p, head.i);
  blu_loop_end(e, &head, NULL);

  blu_loop_begin(e, &key, k->fn, i64(k, 0), i64(k, x->a.s), x->keys, 0, NULL);
  p.key = key.i, p.keys = least(k, sub(k, i64(k, x->a.s), key.i), i64(k, x->keys));
  take_keys(x, s, &keys, &values, &p);
  fill(x, at(x, base, i64(k, s->dk)), round_up(x->keys, x->mr) * x->d, 0);
  fill(x, at(x, base, i64(k, s->dv)), round_up(x->keys, x->mr) * x->dv, 0);
  blu_loop_begin(e, &head, k->fn, i64(k, 0), i64(k, x->a.r), 1, 0, NULL);
  p.within = add(k, within, head.i);
  Value from = i64(k, 0); /* the first tile of queries that sees one of the keys */
  if (x->a.causal) from = mul(k, quotient(k, clamped(k, sub(k, key.i, i64(k, x->a.s - x->a.t)), all_queries), x->queries), x->queries);
  blu_loop_begin(e, &tile, k->fn, from, all_queries, x->queries, 0, NULL);
  p.first = tile.i, p.rows = least(k, sub(k, all_queries, tile.i), i64(k, x->queries));
  add_tile(x, s, &p, head.i);
  blu_loop_end(e, &tile, NULL);
  blu_loop_end(e, &head, NULL);
  for (int i = K; i <= V; i++)
    if (x->has_grad[i])
      give_rows(x, at(x, base, i64(k, i == K ? s->dk : s->dv)), i == K ? x->a.d : x->a.dv, &x->grad[i],
                add(k, mul(k, p.batch, x->grad[i].batch), mul(k, p.group, x->grad[i].head)), p.key, p.keys);
  blu_loop_end(e, &key, NULL);

  if (x->has_grad[Q]) {
    blu_loop_begin(e, &head, k->fn, i64(k, 0), i64(k, x->a.r), 1, 0, NULL);
    p.within = add(k, within, head.i);
    give_rows(x, at_row(x, at(x, base, i64(k, s->dq)), head.i, round_up(x->a.t, x->mr) * x->d), x->a.d, &x->grad[Q], head_of(x, &x->grad[Q], &p), i64(k, 0),
              all_queries);
    blu_loop_end(e, &head, NULL);
  }
  blu_loop_end(e, &piece, NULL);
}

static void body(Kernel *k) {
  Attend x = attend_of(k);
  Areas s = areas_of(&x);
  blu_kernel_enter(k, LEVEL_POINT, BLU_LANES);
  if (x.a.b && x.a.g && x.a.r && (x.a.t || is_backward(&x))) {
    if (is_backward(&x)) backward(&x, &s);
    else forward(&x, &s);
  }
  LLVMBuildRetVoid(k->e.b);
}

const KernelKind blu_kernel_attention = {.pieces = pieces, .body = body, .scratch = scratch};
