/* ops_shape.c - tensors made from indices, and elements at other places: constant, iota, broadcast, reshape, transpose. */
#include <string.h>
#include "dialects/format.h"
#include "dialects_internal.h"

static BluType shape_of(const BluSig *s, BluElem e) {
  const BluAttr *a = blu_attr(&s->attrs, "shape");
  return blu_type_make(e, a->n, a->i);
}

/* ---- constant ---- */

static bool infer_constant(BluSig *s, BluWhy *why) {
  (void)why;
  s->out = shape_of(s, (BluElem)blu_attr_int(&s->attrs, "elem", BLU_F32));
  return true;
}

static void ref_constant(BluRefCall *c) {
  double v = blu_attr(&c->sig->attrs, "value")->real;
  v = blu_elem_round(c->sig->out.elem, v); /* the program's number is the rounded one */
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++) c->out[i] = v;
}

const BluRule blu_rule_constant = {.kind = BLU_KIND_INDEX, .labels = "size-positive size-bounded", .infer = infer_constant, .ref = ref_constant,
    .nodiff = true,
  .cases = (const BluOpCase[]){
    {"", "%r = blu.constant {value = 0.25, elem = f64, shape = array<i64: 2, 3>} : () -> tensor<2x3xf64>", 0, 0, 0}, {0}}};

/* ---- iota ---- */

static bool infer_iota(BluSig *s, BluWhy *why) {
  s->out = shape_of(s, (BluElem)blu_attr_int(&s->attrs, "elem", BLU_I32));
  int64_t axis = blu_attr_int(&s->attrs, "axis", 0);
  if (s->out.elem == BLU_BOOL) return blu_refuse(why, "number", -1, "iota has no bool");
  if (axis < 0 || axis >= s->out.rank) return blu_refuse(why, "axis-in-range", -1, "axis %lld is outside of the shape", (long long)axis);
  return true;
}

static void ref_iota(BluRefCall *c) {
  const BluType *t = &c->sig->out;
  int64_t axis = blu_attr_int(&c->sig->attrs, "axis", 0), inner = 1;
  for (int d = (int)axis + 1; d < t->rank; d++) inner *= t->dim[d];
  for (int64_t i = 0, n = blu_type_count(t); i < n; i++) c->out[i] = (double)(i / inner % t->dim[axis]);
}

const BluRule blu_rule_iota = {.kind = BLU_KIND_INDEX, .labels = "number axis-in-range size-positive size-bounded", .infer = infer_iota, .ref = ref_iota,
    .nodiff = true,
  .cases = (const BluOpCase[]){
    {"", "%r = blu.iota {shape = array<i64: 2, 5>, axis = 1, elem = i32} : () -> tensor<2x5xi32>", 0, 0, 0}, {0}}};

/* ---- broadcast ---- */

static bool infer_broadcast(BluSig *s, BluWhy *why) {
  s->out = shape_of(s, s->in[0].elem);
  char a[200], b[200];
  int shift = s->out.rank - s->in[0].rank;
  blu_type_print(&s->in[0], a, sizeof a), blu_type_print(&s->out, b, sizeof b);
  if (shift < 0) return blu_refuse(why, "broadcast-suffix", 0, "%s does not broadcast to %s, which has fewer dimensions", a, b);
  for (int i = 0; i < s->in[0].rank; i++) {
    int64_t from = s->in[0].dim[i], to = s->out.dim[i + shift];
    if (from != to && from != 1)
      return blu_refuse(why, "broadcast-suffix", 0, "%s does not broadcast to %s: its dimension %d is %lld, not %lld or 1", a, b, i, (long long)from,
                        (long long)to);
    if (from == to) s->out.name[i + shift] = s->in[0].name[i];
  }
  return true;
}

static void ref_broadcast(BluRefCall *c) {
  for (int64_t i = 0, n = blu_type_count(&c->sig->out); i < n; i++)
    c->out[i] = c->in[0][blu_index_in(&c->sig->in[0], &c->sig->out, i)];
}

/* The one place where cotangents are un-broadcast: summed over what was repeated. */
static void vjp_broadcast(BluVjp *v) {
  const BluType *from = &v->sig.in[0], *to = &v->sig.out;
  int64_t axes[BLU_MAX_RANK];
  int n = 0, shift = to->rank - from->rank;
  for (int i = 0; i < to->rank; i++)
    if (i < shift || from->dim[i - shift] != to->dim[i]) axes[n++] = i;
  v->dx[0] = blu_reshape_to(v->b, n ? blu_reduce(v->b, "sum", v->ct, n, axes, false) : v->ct, from);
}

const BluRule blu_rule_broadcast = {.kind = BLU_KIND_INDEX, .labels = "broadcast-suffix size-positive size-bounded", .infer = infer_broadcast,
    .ref = ref_broadcast, .vjp = vjp_broadcast,
  .cases = (const BluOpCase[]){
    {"%a: tensor<3x1xf64>", "%r = blu.broadcast %a {shape = array<i64: 2, 3, 4>} : (tensor<3x1xf64>) -> tensor<2x3x4xf64>", -1, 1, 0},
    {"%a: tensor<f64>", "%r = blu.broadcast %a {shape = array<i64: 2, 3>} : (tensor<f64>) -> tensor<2x3xf64>", -1, 1, 0},
    {"%a: tensor<1x3xf64>", "%r = blu.broadcast %a {shape = array<i64: 1, 1, 3>} : (tensor<1x3xf64>) -> tensor<1x1x3xf64>", -1, 1, 0},
    {0}}};

/* ---- reshape ---- */

static bool infer_reshape(BluSig *s, BluWhy *why) {
  s->out = shape_of(s, s->in[0].elem);
  char a[200], b[200];
  if (blu_type_count(&s->in[0]) == blu_type_count(&s->out)) return true;
  return blu_refuse(why, "same-count", 0, "%s has %lld elements, %s has %lld", blu_type_print(&s->in[0], a, sizeof a),
                    (long long)blu_type_count(&s->in[0]), blu_type_print(&s->out, b, sizeof b), (long long)blu_type_count(&s->out));
}

static void ref_reshape(BluRefCall *c) {
  memcpy(c->out, c->in[0], (size_t)blu_type_count(&c->sig->out) * sizeof *c->out);
}

static void vjp_reshape(BluVjp *v) { v->dx[0] = blu_reshape_to(v->b, v->ct, &v->sig.in[0]); }

const BluRule blu_rule_reshape = {.kind = BLU_KIND_VIEW, .labels = "same-count size-positive size-bounded", .infer = infer_reshape, .ref = ref_reshape,
    .vjp = vjp_reshape,
  .cases = (const BluOpCase[]){
    {"%a: tensor<3x4xf64>", "%r = blu.reshape %a {shape = array<i64: 2, 6>} : (tensor<3x4xf64>) -> tensor<2x6xf64>", -1, 1, 0},
    {"%a: tensor<1xf64>", "%r = blu.reshape %a {shape = array<i64>} : (tensor<1xf64>) -> tensor<f64>", -1, 1, 0},
    {0}}};

/* ---- transpose ---- */

static bool infer_transpose(BluSig *s, BluWhy *why) {
  const BluAttr *p = blu_attr(&s->attrs, "perm");
  uint32_t seen = 0;
  s->out = (BluType){.elem = s->in[0].elem, .rank = s->in[0].rank};
  if (p->n != s->in[0].rank) return blu_refuse(why, "perm-rank", 0, "%d axes for a tensor of rank %d", p->n, s->in[0].rank);
  for (int i = 0; i < p->n; i++) {
    if (p->i[i] < 0 || p->i[i] >= p->n || seen >> p->i[i] & 1)
      return blu_refuse(why, "perm-once", 0, "perm must name each axis once");
    seen |= 1u << p->i[i];
    s->out.dim[i] = s->in[0].dim[p->i[i]];
    s->out.name[i] = s->in[0].name[p->i[i]];
    s->out.unit[i] = s->in[0].unit[p->i[i]];
  }
  return true;
}

static void ref_transpose(BluRefCall *c) {
  const BluAttr *p = blu_attr(&c->sig->attrs, "perm");
  const BluType *in = &c->sig->in[0], *out = &c->sig->out;
  int64_t stride[BLU_MAX_RANK], step[BLU_MAX_RANK];
  for (int d = in->rank - 1, first = 1; d >= 0; d--, first = 0) stride[d] = first ? 1 : stride[d + 1] * in->dim[d + 1];
  for (int d = 0; d < out->rank; d++) step[d] = stride[p->i[d]];
  for (int64_t i = 0, n = blu_type_count(out); i < n; i++) {
    int64_t at = 0, rest = i;
    for (int d = out->rank - 1; d >= 0; rest /= out->dim[d--]) at += rest % out->dim[d] * step[d];
    c->out[i] = c->in[0][at];
  }
}

static BluEmitVal move_transpose(BluEmit *e, const BluSig *s, const BluEmitVal *at, BluMoveLoad load, void *user) {
  const BluAttr *p = blu_attr(&s->attrs, "perm");
  BluEmitVal from[BLU_MAX_RANK];
  for (int i = 0; i < p->n; i++) from[p->i[i]] = at[i];
  return load(user, 0, blu_emit_linear(e, &s->in[0], from));
}

static int runs_transpose(const BluSig *s, BluRun *run) {
  const BluAttr *p = blu_attr(&s->attrs, "perm");
  return p->n && p->i[p->n - 1] == p->n - 1 ? blu_run_add(run, 0, 0, blu_row_length(&s->out), 1) : 0;
}

static void vjp_transpose(BluVjp *v) {
  const BluAttr *p = blu_attr(&v->sig.attrs, "perm");
  int64_t back[BLU_MAX_RANK];
  for (int i = 0; i < p->n; i++) back[p->i[i]] = i;
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "perm", p->n, back);
  v->dx[0] = blu_build(v->b, "transpose", &as, 1, &v->ct);
}

const BluRule blu_rule_transpose = {.kind = BLU_KIND_MOVE, .exact = true, .labels = "perm-rank perm-once", .infer = infer_transpose, .ref = ref_transpose,
    .move = move_transpose, .runs = runs_transpose, .vjp = vjp_transpose,
  .cases = (const BluOpCase[]){
    {"%a: tensor<2x3x4xf64>", "%r = blu.transpose %a {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf64>) -> tensor<4x2x3xf64>", -1, 1, 0},
    {0}}};
