/* ops_index.c - ops whose integer operand says where: one_hot, gather, scatter_add, take_along, top_k. */
#include <math.h>
#include <string.h>
#include "dialects_internal.h"

/* ---- one_hot ---- */

static bool infer_one_hot(BluSig *s, BluWhy *why) {
  int64_t size = blu_attr_int(&s->attrs, "size", 0);
  if (!blu_require_integer(s, why, 0)) return false;
  if (size < 1 || size > INT32_MAX) return blu_refuse(why, "size-positive", -1, "size is %lld", (long long)size);
  if (s->in[0].rank == BLU_MAX_RANK) return blu_refuse(why, "rank", 0, "a tensor has at most %d dimensions", BLU_MAX_RANK);
  s->out = s->in[0];
  s->out.elem = (BluElem)blu_attr_int(&s->attrs, "elem", BLU_F32);
  s->out.dim[s->out.rank] = size;
  s->out.name[s->out.rank] = NULL;
  s->out.unit[s->out.rank++] = false;
  return true;
}

static void ref_one_hot(BluRefCall *c) {
  int64_t size = blu_attr_int(&c->sig->attrs, "size", 0);
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = c->in[0][i / size] == (double)(i % size);
}

static MlirValue expand_one_hot(BluBuilder *b, const BluSig *s, const MlirValue *in) {
  BluElem e = s->in[0].elem == BLU_I64 ? BLU_I64 : BLU_I32;
  BluType all = s->out, column = s->out;
  all.elem = e;
  column.dim[column.rank - 1] = 1;
  MlirValue id = blu_broadcast_to(b, blu_reshape_to(b, blu_cast_to(b, in[0], e), &column), &all);
  return blu_cast_to(b, blu_build2(b, "eq", blu_iota(b, &all, all.rank - 1), id), s->out.elem);
}

const BluRule blu_rule_one_hot = {.kind = BLU_KIND_COMPOSITE, .labels = "integer size-positive rank", .infer = infer_one_hot,
    .nodiff = true,
  .ref = ref_one_hot, .expand = expand_one_hot, .tolerance = 0,
  .cases = (const BluOpCase[]){
    {"%i: tensor<2x3xi32>", "%r = blu.one_hot %i {size = 5} : (tensor<2x3xi32>) -> tensor<2x3x5xf32>", 0, 0, 6}, {0}}};

/* ---- gather and scatter_add: rows of a table by id ---- */

#define NO_CASES ((const BluOpCase[]){{0}})
#define P(p) BLU_PRIM_##p
enum { X, IDS, U };

static double no_element(BluElem e) { return blu_elem_is_float(e) ? NAN : 0; }

static bool infer_gather(BluSig *s, BluWhy *why) {
  const BluType *x = &s->in[X], *ids = &s->in[IDS];
  if (!blu_require_integer(s, why, IDS)) return false;
  if (!x->rank || x->rank - 1 + ids->rank > BLU_MAX_RANK)
    return blu_refuse(why, "rank", X, "rows of a tensor of rank %d by ids of rank %d", x->rank, ids->rank);
  s->out = *ids;
  s->out.elem = x->elem;
  for (int i = 1; i < x->rank; i++) {
    int o = s->out.rank++;
    s->out.dim[o] = x->dim[i], s->out.name[o] = x->name[i], s->out.unit[o] = x->unit[i];
  }
  return true;
}

static int64_t row_size(const BluType *x) {
  int64_t n = 1;
  for (int i = 1; i < x->rank; i++) n *= x->dim[i];
  return n;
}

static void ref_gather(BluRefCall *c) {
  int64_t row = row_size(&c->sig->in[X]), n = c->sig->in[X].dim[0];
  for (int64_t i = 0, count = blu_type_count(&c->sig->out); i < count; i++) {
    double id = c->in[IDS][i / row];
    c->out[i] = id >= 0 && id < (double)n ? c->in[X][(int64_t)id * row + i % row] : no_element(c->sig->out.elem);
  }
}

static BluEmitVal id_at(BluEmit *e, const BluSig *s, const BluEmitVal *at, BluMoveLoad load, void *user) {
  BluEmitVal id = load(user, IDS, blu_emit_linear(e, &s->in[IDS], at));
  return id.elem == BLU_I64 ? id : e->prim(e, P(CAST), BLU_I64, id, id, id);
}

static BluEmitVal move_gather(BluEmit *e, const BluSig *s, const BluEmitVal *at, BluMoveLoad load, void *user) {
  BluEmitVal none = blu_emit_no_element(e, s->out.elem), from[BLU_MAX_RANK];
  if (!s->in[X].dim[0]) return none;
  BluEmitVal id = id_at(e, s, at, load, user);
  from[0] = blu_emit_clamp(e, id, s->in[X].dim[0]);
  for (int d = 1; d < s->in[X].rank; d++) from[d] = at[s->in[IDS].rank + d - 1];
  return blu_emit3(e, P(SELECT), blu_emit_within(e, id, s->in[X].dim[0]), load(user, X, blu_emit_linear(e, &s->in[X], from)),
      none);
}

static int runs_gather(const BluSig *s, BluRun *run) {
  return s->in[X].rank > 1 ? blu_run_add(run, 0, 0, blu_row_length(&s->out), 1u << X) : 0;
}

static void vjp_gather(BluVjp *v) {
  MlirValue zeros = blu_constant(v->b, &v->sig.in[X], 0);
  if (v->need[X]) v->dx[X] = blu_build(v->b, "scatter_add", NULL, 3, (MlirValue[]){zeros, v->in[IDS], v->ct});
}

#define GATHER(x, ids, elem, out) \
  {"%x: tensor<" x "xf64>, %i: tensor<" ids elem ">", "%r = blu.gather %x, %i : (tensor<" x "xf64>, tensor<" ids elem ">) -> tensor<" out "xf64>", -1, 1, 4}
const BluRule blu_rule_gather = {.kind = BLU_KIND_MOVE, .exact = true, .labels = "integer rank", .infer = infer_gather, .vjp = vjp_gather, .ref = ref_gather,
  .move = move_gather, .runs = runs_gather,
  .cases = (const BluOpCase[]){GATHER("4x3", "2x5x", "i32", "2x5x3"), GATHER("4x2x2", "6x", "ui8", "6x2x2"), GATHER("4", "3x", "i64", "3"),
                               GATHER("4x3", "", "i32", "3"), {0}}};

static bool infer_scatter_add(BluSig *s, BluWhy *why) {
  char a[200], b[200];
  BluSig rows = {.nin = 2, .in = {s->in[X], s->in[IDS]}};
  if (!blu_require_float(s, why, X) || !infer_gather(&rows, why)) return false;
  if (!blu_type_same(&rows.out, &s->in[U]))
    return blu_refuse(why, "row-per-id", U, "expected one row for each id, %s, found %s", blu_type_print(&rows.out, a, sizeof a),
                      blu_type_print(&s->in[U], b, sizeof b));
  s->out = s->in[X];
  return true;
}

static void ref_scatter_add(BluRefCall *c) {
  int64_t row = row_size(&c->sig->in[X]), n = c->sig->in[X].dim[0];
  memcpy(c->out, c->in[X], (size_t)(n * row) * sizeof *c->out);
  for (int64_t i = 0, count = blu_type_count(&c->sig->in[U]); i < count; i++) {
    double id = c->in[IDS][i / row];
    if (id >= 0 && id < (double)n) c->out[(int64_t)id * row + i % row] += c->in[U][i];
  }
}

/* A bool of the shape of a row per id: true where the id is in [0, n). */
static MlirValue in_table(BluBuilder *b, MlirValue ids, int64_t n, const BluType *shape) {
  BluElem e = blu_value_type(ids).elem == BLU_I64 ? BLU_I64 : BLU_I32;
  MlirValue id = blu_cast_to(b, ids, e);
  BluType column = blu_value_type(id), wide = *shape;
  MlirValue good = blu_build2(b, "ge", id, blu_constant_like(b, id, 0));
  if (e == BLU_I64 || n <= INT32_MAX) good = blu_build2(b, "and", good, blu_build2(b, "lt", id, blu_constant_like(b, id,
      (double)n)));
  column.elem = wide.elem = BLU_BOOL;
  while (column.rank < wide.rank) column.dim[column.rank++] = 1;
  return blu_broadcast_to(b, blu_reshape_to(b, good, &column), &wide);
}

static void vjp_scatter_add(BluVjp *v) {
  if (v->need[X]) v->dx[X] = v->ct;
  if (!v->need[U]) return;
  MlirValue rows = blu_build2(v->b, "gather", v->ct, v->in[IDS]);
  v->dx[U] = blu_where(v->b, in_table(v->b, v->in[IDS], v->sig.in[X].dim[0], &v->sig.in[U]), rows, blu_constant(v->b,
      &v->sig.in[U], 0));
}

const BluRule blu_rule_scatter_add = {.kind = BLU_KIND_MOVE, .labels = "float integer rank row-per-id",
    .infer = infer_scatter_add,
  .vjp = vjp_scatter_add, .ref = ref_scatter_add, .tolerance = 2e-6 /* a row gets a few additions in the tests */,
      .cases = (const BluOpCase[]){
    {"%x: tensor<4x3xf64>, %i: tensor<2x5xi32>, %u: tensor<2x5x3xf64>",
     "%r = blu.scatter_add %x, %i, %u : (tensor<4x3xf64>, tensor<2x5xi32>, tensor<2x5x3xf64>) -> tensor<4x3xf64>", -1, 1, 6},
    {"%x: tensor<3xf64>, %i: tensor<5xi64>, %u: tensor<5xf64>",
     "%r = blu.scatter_add %x, %i, %u : (tensor<3xf64>, tensor<5xi64>, tensor<5xf64>) -> tensor<3xf64>", -1, 1, 3}, {0}}};

/* ---- take_along and top_k: along the last dimension ---- */

static bool infer_take_along(BluSig *s, BluWhy *why) {
  const BluType *x = &s->in[X], *ids = &s->in[IDS];
  char a[200], b[200];
  if (!blu_require_integer(s, why, IDS)) return false;
  if (x->rank == BLU_MAX_RANK) /* the gradient compares along one dimension more */
    return blu_refuse(why, "rank", X, "take_along takes at most %d dimensions", BLU_MAX_RANK - 1);
  bool fits = x->rank >= 1 && x->rank == ids->rank;
  for (int i = 0; fits && i + 1 < x->rank; i++) fits = x->dim[i] == ids->dim[i];
  if (!fits)
    return blu_refuse(why, "same-rows", IDS, "%s and %s differ before the last dimension", blu_type_print(x, a, sizeof a),
        blu_type_print(ids, b, sizeof b));
  s->out = *ids;
  s->out.elem = x->elem;
  return true;
}

static void ref_take_along(BluRefCall *c) {
  int last = c->sig->out.rank - 1;
  int64_t n = c->sig->in[X].dim[last], k = c->sig->out.dim[last];
  for (int64_t i = 0, count = blu_type_count(&c->sig->out); i < count; i++) {
    double id = c->in[IDS][i];
    c->out[i] = id >= 0 && id < (double)n ? c->in[X][i / k * n + (int64_t)id] : no_element(c->sig->out.elem);
  }
}

static BluEmitVal move_take_along(BluEmit *e, const BluSig *s, const BluEmitVal *at, BluMoveLoad load, void *user) {
  BluEmitVal none = blu_emit_no_element(e, s->out.elem), from[BLU_MAX_RANK];
  int last = s->out.rank - 1;
  if (!s->in[X].dim[last]) return none;
  BluEmitVal id = id_at(e, s, at, load, user);
  for (int d = 0; d < last; d++) from[d] = at[d];
  from[last] = blu_emit_clamp(e, id, s->in[X].dim[last]);
  return blu_emit3(e, P(SELECT), blu_emit_within(e, id, s->in[X].dim[last]), load(user, X, blu_emit_linear(e, &s->in[X], from)),
      none);
}

/* Each element of x gets the sum over the k ids that name it: a comparison of [.., k, n], reduced over k. */
static void vjp_take_along(BluVjp *v) {
  const BluType *x = &v->sig.in[X];
  if (!v->need[X]) return;
  BluElem e = v->sig.in[IDS].elem == BLU_I64 ? BLU_I64 : BLU_I32;
  BluType all = v->sig.out, column = v->sig.out;
  all.dim[all.rank++] = x->dim[x->rank - 1];
  column.dim[column.rank++] = 1;
  BluType places = all, cts = all;
  places.elem = e, cts.elem = x->elem;
  MlirValue id = blu_broadcast_to(v->b, blu_reshape_to(v->b, blu_cast_to(v->b, v->in[IDS], e), &column), &places);
  MlirValue ct = blu_broadcast_to(v->b, blu_reshape_to(v->b, v->ct, &column), &cts);
  MlirValue hit = blu_build2(v->b, "eq", blu_iota(v->b, &places, places.rank - 1), id);
  int64_t over = all.rank - 2;
  v->dx[X] = blu_reduce(v->b, "sum", blu_where(v->b, hit, ct, blu_constant(v->b, &cts, 0)), 1, &over, false);
}

const BluRule blu_rule_take_along = {.kind = BLU_KIND_MOVE, .exact = true, .labels = "integer rank same-rows", .infer = infer_take_along,
    .vjp = vjp_take_along,
  .ref = ref_take_along, .move = move_take_along, .cases = (const BluOpCase[]){
    {"%x: tensor<3x4xf64>, %i: tensor<3x2xi32>", "%r = blu.take_along %x, %i : (tensor<3x4xf64>, tensor<3x2xi32>) -> "
        "tensor<3x2xf64>", -1, 1, 4}, {0}}};

static bool infer_top_k(BluSig *s, BluWhy *why) {
  const BluType *x = &s->in[0];
  int64_t k = blu_attr_int(&s->attrs, "k", 0);
  if (!x->rank) return blu_refuse(why, "rank", 0, "a scalar has no last dimension");
  if (x->elem == BLU_BOOL) return blu_refuse(why, "number", 0, "expected numbers, found bool");
  if (x->dim[x->rank - 1] > INT32_MAX) return blu_refuse(why, "index-i32", 0,
      "the last dimension has more than 2^31 - 1 elements");
  if (k < 1 || k > x->dim[x->rank - 1])
    return blu_refuse(why, "k-in-range", 0, "k = %lld of %lld elements", (long long)k, (long long)x->dim[x->rank - 1]);
  s->out = *x;
  s->out.elem = BLU_I32;
  s->out.dim[x->rank - 1] = k, s->out.name[x->rank - 1] = NULL, s->out.unit[x->rank - 1] = false;
  return true;
}

/* Does b come before a, when a stands before b in x? */
static bool beats(double b, double a) { return isnan(b) ? !isnan(a) : b > a; }

static void ref_top_k(BluRefCall *c) {
  int64_t n = c->sig->in[0].dim[c->sig->in[0].rank - 1], k = blu_attr_int(&c->sig->attrs, "k", 0);
  for (int64_t row = 0, rows = blu_type_count(&c->sig->out) / k; row < rows; row++) {
    const double *x = c->in[0] + row * n;
    double *top = c->out + row * k;
    for (int64_t i = 0, m = 0; i < n; i++) { /* insertion into the m best so far */
      int64_t at = m;
      while (at > 0 && beats(x[i], x[(int64_t)top[at - 1]])) at--;
      if (at == k) continue;
      if (m < k) m++;
      memmove(top + at + 1, top + at, (size_t)(m - at - 1) * sizeof *top);
      top[at] = (double)i;
    }
  }
}

const BluRule blu_rule_top_k = {.kind = BLU_KIND_MOVE, .exact = true, .labels = "rank number index-i32 k-in-range", .infer = infer_top_k,
    .ref = ref_top_k,
  .nodiff = true, .cases = (const BluOpCase[]){
    {"%x: tensor<2x5xf64>", "%r = blu.top_k %x {k = 3} : (tensor<2x5xf64>) -> tensor<2x3xi32>", -1, 1, 0}, {0}}};
