/* ops_move.c - elements at other places: slice, update_slice, concat, pad. Each has the transpose of its map as gradient. */
#include <string.h>
#include "dialects/format.h"
#include "dialects_internal.h"

#define NO_CASES ((const BluOpCase[]){{0}})
#define P(p) BLU_PRIM_##p

static const int64_t *ints(const BluSig *s, const char *name) { return blu_attr(&s->attrs, name)->i; }
static int64_t step_of(const BluSig *s, const char *name, int d, int64_t absent) {
  const BluAttr *a = blu_attr(&s->attrs, name);
  return a ? a->i[d] : absent;
}
static bool per_dimension(const BluSig *s, BluWhy *why, const char *name) {
  const BluAttr *a = blu_attr(&s->attrs, name);
  if (!a || a->n == s->in[0].rank) return true;
  return blu_refuse(why, "one-per-dimension", 0, "`%s` has %d numbers for a tensor of rank %d", name, a->n, s->in[0].rank);
}

/* ---- slice ---- */

static bool infer_slice(BluSig *s, BluWhy *why) {
  if (!per_dimension(s, why, "start") || !per_dimension(s, why, "stop") || !per_dimension(s, why, "step")) return false;
  s->out = s->in[0];
  for (int i = 0; i < s->out.rank; i++) {
    int64_t from = ints(s, "start")[i], to = ints(s, "stop")[i], step = step_of(s, "step", i, 1), n = s->in[0].dim[i];
    if (step < 1) return blu_refuse(why, "step-positive", 0, "dimension %d has a step of %lld", i, (long long)step);
    if (from < 0 || to < from || to > n)
      return blu_refuse(why, "slice-in-range", 0, "[%lld : %lld] is no part of dimension %d, which has %lld elements",
          (long long)from,
                        (long long)to, i, (long long)n);
    s->out.dim[i] = (to - from + step - 1) / step;
    if (s->out.dim[i] != n) s->out.name[i] = NULL;
    s->out.unit[i] = s->in[0].unit[i] && s->out.dim[i] == 1;
  }
  return true;
}

static void ref_slice(BluRefCall *c) {
  int64_t at[BLU_MAX_RANK];
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) {
    blu_coordinates(&c->sig->out, i, at);
    for (int d = 0; d < c->sig->out.rank; d++) at[d] = ints(c->sig, "start")[d] + at[d] * step_of(c->sig, "step", d, 1);
    c->out[i] = c->in[0][blu_linear(&c->sig->in[0], at)];
  }
}

static BluEmitVal move_slice(BluEmit *e, const BluSig *s, const BluEmitVal *at, BluMoveLoad load, void *user) {
  BluEmitVal from[BLU_MAX_RANK];
  for (int d = 0; d < s->out.rank; d++) from[d] = blu_emit_affine(e, at[d], step_of(s, "step", d, 1), ints(s, "start")[d]);
  return load(user, 0, blu_emit_linear(e, &s->in[0], from));
}

static int runs_slice(const BluSig *s, BluRun *run) {
  int last = s->out.rank - 1;
  return last >= 0 && step_of(s, "step", last, 1) == 1 ? blu_run_add(run, 0, 0, s->out.dim[last], 1) : 0;
}

static MlirValue slice(BluBuilder *b, MlirValue x, const int64_t *start, const int64_t *stop, const int64_t *step) {
  int rank = blu_value_type(x).rank;
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "start", rank, start);
  as = blu_attr_set_ints(as, "stop", rank, stop);
  if (step) as = blu_attr_set_ints(as, "step", rank, step);
  return blu_build(b, "slice", &as, 1, &x);
}

static void vjp_slice(BluVjp *v) { /* zeros around and between */
  int64_t high[BLU_MAX_RANK], inner[BLU_MAX_RANK];
  int rank = v->sig.out.rank;
  if (!blu_type_count(&v->sig.out)) return;
  for (int d = 0; d < rank; d++) {
    int64_t step = step_of(&v->sig, "step", d, 1);
    inner[d] = step - 1;
    high[d] = v->sig.in[0].dim[d] - ints(&v->sig, "start")[d] - (v->sig.out.dim[d] - 1) * step - 1;
  }
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "low", rank, ints(&v->sig, "start"));
  as = blu_attr_set_ints(as, "high", rank, high);
  as = blu_attr_set_ints(as, "inner", rank, inner);
  v->dx[0] = blu_build(v->b, "pad", &as, 1, &v->ct);
}

const BluRule blu_rule_slice = {.kind = BLU_KIND_MOVE, .exact = true, .labels = "one-per-dimension step-positive slice-in-range",
    .infer = infer_slice,
  .vjp = vjp_slice, .ref = ref_slice, .move = move_slice, .runs = runs_slice, .cases = (const BluOpCase[]){
    {"%x: tensor<5x4xf64>", "%r = blu.slice %x {start = array<i64: 1, 0>, stop = array<i64: 4, 3>} : (tensor<5x4xf64>) -> "
        "tensor<3x3xf64>", -1, 1, 0},
    {"%x: tensor<2x7xf64>", "%r = blu.slice %x {start = array<i64: 0, 1>, stop = array<i64: 2, 6>, step = array<i64: 1, 3>} : "
        "(tensor<2x7xf64>) -> tensor<2x2xf64>", -1, 1, 0},
    {"%x: tensor<3xf64>", "%r = blu.slice %x {start = array<i64: 2>, stop = array<i64: 2>} : (tensor<3xf64>) -> tensor<0xf64>",
        -1, 1, 0}, {0}}};

/* ---- update_slice ---- */

static bool infer_update_slice(BluSig *s, BluWhy *why) {
  const BluType *x = &s->in[0], *u = &s->in[1];
  char a[200], c[200];
  if (u->elem != x->elem)
    return blu_refuse(why, "same-type", 1, "operands have different element types: %s and %s", blu_elem_name(x->elem),
        blu_elem_name(u->elem));
  if (u->rank != x->rank)
    return blu_refuse(why, "same-rank", 1, "ranks differ: %s and %s", blu_type_print(x, a, sizeof a), blu_type_print(u, c,
        sizeof c));
  if (!per_dimension(s, why, "start")) return false;
  for (int i = 0; i < x->rank; i++)
    if (ints(s, "start")[i] < 0 || ints(s, "start")[i] > x->dim[i] - u->dim[i])
      return blu_refuse(why, "slice-in-range", 1, "%lld elements from %lld on are no part of dimension %d, which has %lld",
          (long long)u->dim[i],
                        (long long)ints(s, "start")[i], i, (long long)x->dim[i]);
  s->out = *x;
  return true;
}

static void ref_update_slice(BluRefCall *c) {
  const BluType *u = &c->sig->in[1];
  int64_t at[BLU_MAX_RANK];
  memcpy(c->out, c->in[0], (size_t)blu_type_count(&c->sig->out) * sizeof *c->out);
  for (int64_t i = 0, n = blu_type_count(u); i < n; i++) {
    blu_coordinates(u, i, at);
    for (int d = 0; d < u->rank; d++) at[d] += ints(c->sig, "start")[d];
    c->out[blu_linear(&c->sig->out, at)] = c->in[1][i];
  }
}

static BluEmitVal move_update_slice(BluEmit *e, const BluSig *s, const BluEmitVal *at, BluMoveLoad load, void *user) {
  BluEmitVal old = load(user, 0, blu_emit_linear(e, &s->out, at)), inside = e->bits(e, BLU_BOOL, 1), to[BLU_MAX_RANK];
  if (!blu_type_count(&s->in[1])) return old;
  for (int d = 0; d < s->out.rank; d++) {
    BluEmitVal c = blu_emit_affine(e, at[d], 1, -ints(s, "start")[d]);
    inside = blu_emit2(e, P(AND), inside, blu_emit_within(e, c, s->in[1].dim[d]));
    to[d] = blu_emit_clamp(e, c, s->in[1].dim[d]);
  }
  return blu_emit3(e, P(SELECT), inside, load(user, 1, blu_emit_linear(e, &s->in[1], to)), old);
}

static int runs_update_slice(const BluSig *s, BluRun *run) {
  int last = s->out.rank - 1;
  if (last < 0) return 0;
  int64_t from = ints(s, "start")[last], to = from + s->in[1].dim[last];
  return blu_run_add(run, blu_run_add(run, blu_run_add(run, 0, 0, from, 1), from, to, 3), to, s->out.dim[last], 1);
}

static void vjp_update_slice(BluVjp *v) {
  const BluType *u = &v->sig.in[1];
  int64_t stop[BLU_MAX_RANK];
  for (int d = 0; d < u->rank; d++) stop[d] = ints(&v->sig, "start")[d] + u->dim[d];
  if (v->need[0]) v->dx[0] = blu_build(v->b, "update_slice", &v->sig.attrs, 2, (MlirValue[]){v->ct, blu_constant(v->b, u, 0)});
  if (v->need[1]) v->dx[1] = slice(v->b, v->ct, ints(&v->sig, "start"), stop, NULL);
}

const BluRule blu_rule_update_slice = {.kind = BLU_KIND_MOVE, .exact = true, .labels = "same-type same-rank one-per-dimension slice-in-range",
    .infer = infer_update_slice,
  .vjp = vjp_update_slice, .ref = ref_update_slice, .move = move_update_slice, .runs = runs_update_slice, .cases = (const BluOpCase[]){
    {"%x: tensor<4x5xf64>, %u: tensor<2x3xf64>", "%r = blu.update_slice %x, %u {start = array<i64: 1, 2>} : (tensor<4x5xf64>, "
        "tensor<2x3xf64>) -> tensor<4x5xf64>", -1, 1, 0},
    {"%x: tensor<3xf64>, %u: tensor<3xf64>", "%r = blu.update_slice %x, %u {start = array<i64: 0>} : (tensor<3xf64>, "
        "tensor<3xf64>) -> tensor<3xf64>", -1, 1, 0}, {0}}};

/* ---- concat ---- */

static bool infer_concat(BluSig *s, BluWhy *why) {
  const BluType *a = &s->in[0], *c = &s->in[1];
  char x[200], y[200];
  int64_t axis = blu_axis(s, "axis", 0);
  if (c->elem != a->elem)
    return blu_refuse(why, "same-type", 1, "operands have different element types: %s and %s", blu_elem_name(a->elem),
        blu_elem_name(c->elem));
  bool fits = a->rank == c->rank;
  if (!fits) return blu_refuse(why, "same-rank", 1, "ranks differ: %s and %s", blu_type_print(a, x, sizeof x), blu_type_print(c,
      y, sizeof y));
  for (int i = 0; i < a->rank; i++) fits &= i == axis || a->dim[i] == c->dim[i];
  if (!fits)
    return blu_refuse(why, "same-shape", 1, "shapes differ beside axis %lld: %s and %s", (long long)axis, blu_type_print(a, x,
        sizeof x), blu_type_print(c, y, sizeof y));
  s->out = *a;
  for (int i = 0; i < a->rank; i++) {
    if (!s->out.name[i]) s->out.name[i] = c->name[i];
    s->out.unit[i] &= c->unit[i];
  }
  s->out.dim[axis] += c->dim[axis];
  s->out.name[axis] = NULL, s->out.unit[axis] = false;
  return true;
}

static void ref_concat(BluRefCall *c) {
  int64_t axis = blu_axis(c->sig, "axis", 0), at[BLU_MAX_RANK], first = c->sig->in[0].dim[axis];
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) {
    blu_coordinates(&c->sig->out, i, at);
    int from = at[axis] >= first;
    if (from) at[axis] -= first;
    c->out[i] = c->in[from][blu_linear(&c->sig->in[from], at)];
  }
}

static BluEmitVal move_concat(BluEmit *e, const BluSig *s, const BluEmitVal *at, BluMoveLoad load, void *user) {
  int64_t axis = blu_axis(s, "axis", 0), first = s->in[0].dim[axis];
  BluEmitVal part[2], to[BLU_MAX_RANK];
  for (int k = 0; k < 2; k++) {
    if (!s->in[k].dim[axis]) continue;
    for (int d = 0; d < s->out.rank; d++) to[d] = at[d];
    to[axis] = blu_emit_clamp(e, blu_emit_affine(e, at[axis], 1, k ? -first : 0), s->in[k].dim[axis]);
    part[k] = load(user, k, blu_emit_linear(e, &s->in[k], to));
  }
  if (!first) return part[1];
  if (!s->in[1].dim[axis]) return part[0];
  return blu_emit3(e, P(SELECT), blu_emit2(e, P(LT), at[axis], blu_emit_int(e, first)), part[0], part[1]);
}

static int runs_concat(const BluSig *s, BluRun *run) {
  int64_t columns = blu_row_length(&s->out), first = s->in[0].dim[s->out.rank - 1];
  if (blu_axis(s, "axis", 0) != s->out.rank - 1) return blu_run_add(run, 0, 0, columns, 3);
  return blu_run_add(run, blu_run_add(run, 0, 0, first, 1), first, columns, 2);
}

static void vjp_concat(BluVjp *v) {
  int64_t axis = blu_axis(&v->sig, "axis", 0), start[BLU_MAX_RANK] = {0}, stop[BLU_MAX_RANK];
  memcpy(stop, v->sig.out.dim, sizeof stop);
  for (int k = 0; k < 2; k++) {
    stop[axis] = start[axis] + v->sig.in[k].dim[axis];
    if (v->need[k]) v->dx[k] = slice(v->b, v->ct, start, stop, NULL);
    start[axis] = stop[axis];
  }
}

const BluRule blu_rule_concat = {.kind = BLU_KIND_MOVE, .exact = true, .labels = "same-type same-rank same-shape axis-in-range",
    .infer = infer_concat,
  .vjp = vjp_concat, .ref = ref_concat, .move = move_concat, .runs = runs_concat, .cases = (const BluOpCase[]){
    {"%a: tensor<2x3xf64>, %b: tensor<2x2xf64>", "%r = blu.concat %a, %b {axis = 1} : (tensor<2x3xf64>, tensor<2x2xf64>) -> "
        "tensor<2x5xf64>", -1, 1, 0},
    {"%a: tensor<2x3xf64>", "%r = blu.concat %a, %a {axis = 0} : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<4x3xf64>", -1, 1,
        0},
    {"%a: tensor<0x3xf64>, %b: tensor<2x3xf64>", "%r = blu.concat %a, %b {axis = -2} : (tensor<0x3xf64>, tensor<2x3xf64>) -> "
        "tensor<2x3xf64>", -1, 1, 0}, {0}}};

/* ---- pad ---- */

static bool infer_pad(BluSig *s, BluWhy *why) {
  if (!per_dimension(s, why, "low") || !per_dimension(s, why, "high") || !per_dimension(s, why, "inner")) return false;
  s->out = s->in[0];
  for (int i = 0; i < s->out.rank; i++) {
    int64_t low = ints(s, "low")[i], high = ints(s, "high")[i], inner = step_of(s, "inner", i, 0), n = s->in[0].dim[i];
    if (low < 0 || high < 0 || inner < 0) return blu_refuse(why, "pad-positive", 0, "dimension %d has a negative padding", i);
    if (low > (int64_t)1 << 48 || high > (int64_t)1 << 48 || inner > (int64_t)1 << 14)
      return blu_refuse(why, "size-bounded", 0, "the padding of dimension %d is too large", i);
    s->out.dim[i] = low + high + n + (n > 1 ? (n - 1) * inner : 0);
    if (s->out.dim[i] != n) s->out.name[i] = NULL, s->out.unit[i] = false;
  }
  return true;
}

static double fill_of(const BluSig *s) { return blu_attr_real(&s->attrs, "value", 0); }

static void ref_pad(BluRefCall *c) {
  int64_t at[BLU_MAX_RANK];
  double fill = blu_elem_round(c->sig->out.elem, fill_of(c->sig));
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = fill;
  for (int64_t i = 0, n = blu_type_count(&c->sig->in[0]); i < n; i++) {
    blu_coordinates(&c->sig->in[0], i, at);
    for (int d = 0; d < c->sig->out.rank; d++) at[d] = ints(c->sig, "low")[d] + at[d] * (1 + step_of(c->sig, "inner", d, 0));
    c->out[blu_linear(&c->sig->out, at)] = c->in[0][i];
  }
}

static BluEmitVal move_pad(BluEmit *e, const BluSig *s, const BluEmitVal *at, BluMoveLoad load, void *user) {
  BluEmitVal fill = blu_emit_value(e, s->out.elem, fill_of(s)), inside = e->bits(e, BLU_BOOL, 1), from[BLU_MAX_RANK];
  if (!blu_type_count(&s->in[0])) return fill;
  for (int d = 0; d < s->out.rank; d++) {
    int64_t step = 1 + step_of(s, "inner", d, 0);
    BluEmitVal c = blu_emit_affine(e, at[d], 1, -ints(s, "low")[d]), q = blu_emit_floor_div(e, c, step);
    inside = blu_emit2(e, P(AND), inside, blu_emit_within(e, q, s->in[0].dim[d]));
    if (step > 1) inside = blu_emit2(e, P(AND), inside, blu_emit2(e, P(EQ), blu_emit_affine(e, q, step, 0), c));
    from[d] = blu_emit_clamp(e, q, s->in[0].dim[d]);
  }
  return blu_emit3(e, P(SELECT), inside, load(user, 0, blu_emit_linear(e, &s->in[0], from)), fill);
}

static int runs_pad(const BluSig *s, BluRun *run) {
  int last = s->out.rank - 1;
  if (last < 0 || step_of(s, "inner", last, 0)) return 0;
  int64_t from = ints(s, "low")[last], to = from + s->in[0].dim[last];
  return blu_run_add(run, blu_run_add(run, blu_run_add(run, 0, 0, from, 0), from, to, 1), to, s->out.dim[last], 0);
}

static void vjp_pad(BluVjp *v) {
  int64_t stop[BLU_MAX_RANK], step[BLU_MAX_RANK];
  if (!blu_type_count(&v->sig.in[0])) return;
  for (int d = 0; d < v->sig.out.rank; d++) {
    step[d] = 1 + step_of(&v->sig, "inner", d, 0);
    stop[d] = ints(&v->sig, "low")[d] + (v->sig.in[0].dim[d] - 1) * step[d] + 1;
  }
  v->dx[0] = slice(v->b, v->ct, ints(&v->sig, "low"), stop, step);
}

const BluRule blu_rule_pad = {.kind = BLU_KIND_MOVE, .exact = true, .labels = "one-per-dimension pad-positive size-bounded", .infer = infer_pad,
    .vjp = vjp_pad,
  .ref = ref_pad, .move = move_pad, .runs = runs_pad, .cases = (const BluOpCase[]){
    {"%x: tensor<2x3xf64>", "%r = blu.pad %x {low = array<i64: 1, 0>, high = array<i64: 0, 2>, value = -1.5} : "
        "(tensor<2x3xf64>) -> tensor<3x5xf64>", -1, 1, 0},
    {"%x: tensor<3x2xf64>", "%r = blu.pad %x {low = array<i64: 0, 1>, high = array<i64: 1, 0>, inner = array<i64: 2, 1>} : "
        "(tensor<3x2xf64>) -> tensor<8x4xf64>", -1, 1, 0},
    {"%x: tensor<0x2xf64>", "%r = blu.pad %x {low = array<i64: 1, 0>, high = array<i64: 1, 0>} : (tensor<0x2xf64>) -> "
        "tensor<2x2xf64>", -1, 1, 0}, {0}}};
