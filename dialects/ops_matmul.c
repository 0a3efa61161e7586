/* ops_matmul.c - the matrix product, with batches and transposes. */
#include <stdlib.h>
#include <string.h>
#include "dialects_internal.h"
#include "dialects/memory.h"

typedef struct { int64_t batch, m, n, k; bool ta, tb, b_shared; } Shape; /* b_shared: b is one matrix for all of the batch */

static Shape shape_of(const BluSig *s) {
  const BluType *a = &s->in[0], *b = &s->in[1];
  Shape g = {.batch = 1, .ta = blu_attr_int(&s->attrs, "ta", 0), .tb = blu_attr_int(&s->attrs, "tb", 0)};
  g.m = a->dim[a->rank - (g.ta ? 1 : 2)];
  g.k = a->dim[a->rank - (g.ta ? 2 : 1)];
  g.n = b->dim[b->rank - (g.tb ? 2 : 1)];
  for (int i = 0; i < a->rank - 2; i++) g.batch *= a->dim[i];
  g.b_shared = b->rank == 2;
  return g;
}

static bool infer_matmul(BluSig *s, BluWhy *why) {
  const BluType *a = &s->in[0], *b = &s->in[1];
  char x[200], y[200];
  if (!blu_require_float(s, why, 0)) return false;
  if (a->elem != b->elem)
    return blu_refuse(why, "same-type", 1, "operands have different element types: %s and %s", blu_type_print(a, x, sizeof x),
                      blu_type_print(b, y, sizeof y));
  if (a->rank < 2 || b->rank < 2)
    return blu_refuse(why, "rank", a->rank < 2 ? 0 : 1, "expected a matrix (rank 2 or more), found %s",
                      blu_type_print(a->rank < 2 ? a : b, x, sizeof x));
  bool ta = blu_attr_int(&s->attrs, "ta", 0), tb = blu_attr_int(&s->attrs, "tb", 0);
  int ak = a->rank - (ta ? 2 : 1), am = a->rank - (ta ? 1 : 2), bk = b->rank - (tb ? 1 : 2), bn = b->rank - (tb ? 2 : 1);
  if (b->rank != 2 && (b->rank != a->rank || memcmp(a->dim, b->dim, (size_t)(a->rank - 2) * sizeof *a->dim)))
    return blu_refuse(why, "same-batch", 1, "leading dimensions differ: %s @ %s", blu_type_print(a, x, sizeof x), blu_type_print(b, y, sizeof y));
  if (b->rank == 2 && a->rank > 2 && ta)
    return blu_refuse(why, "no-ta-of-batch", 0, "a batch times one matrix can't transpose the batch");
  if (a->dim[ak] != b->dim[bk])
    return blu_refuse(why, "same-inner", 1, "inner dimensions differ: %s @ %s (%s%s%lld and %s%s%lld)", blu_type_print(a, x, sizeof x),
                      blu_type_print(b, y, sizeof y), a->name[ak] ? a->name[ak] : "", a->name[ak] ? " = " : "", (long long)a->dim[ak],
                      b->name[bk] ? b->name[bk] : "", b->name[bk] ? " = " : "", (long long)b->dim[bk]);
  s->out = *a;
  int m = s->out.rank - 2, n = s->out.rank - 1;
  s->out.dim[m] = a->dim[am], s->out.name[m] = a->name[am], s->out.unit[m] = a->unit[am];
  s->out.dim[n] = b->dim[bn], s->out.name[n] = b->name[bn], s->out.unit[n] = b->unit[bn];
  return true;
}

/* Row by row of b, so that the inner loop walks through both b and the result; a transposed b is copied the other way round before. */
static void ref_matmul(BluRefCall *c) {
  Shape g = shape_of(c->sig);
  int64_t nb = (g.b_shared ? 1 : g.batch) * g.k * g.n;
  double *turned = g.tb ? blu_alloc(((size_t)nb + 1) * sizeof *turned) : NULL;
  for (int64_t i = 0; turned && i < nb; i++) turned[i / (g.k * g.n) * g.k * g.n + i % g.k * g.n + i / g.k % g.n] = c->in[1][i];
  const double *b = turned ? turned : c->in[1];
  for (int64_t t = 0; t < g.batch; t++)
    for (int64_t i = 0; i < g.m; i++) {
      const double *a = c->in[0] + t * g.m * g.k;
      double *out = c->out + (t * g.m + i) * g.n;
      for (int64_t j = 0; j < g.n; j++) out[j] = 0;
      for (int64_t k = 0; k < g.k; k++) {
        const double x = a[g.ta ? k * g.m + i : i * g.k + k], *row = b + ((g.b_shared ? 0 : t * g.k) + k) * g.n;
        for (int64_t j = 0; j < g.n; j++) out[j] += x * row[j];
      }
    }
  free(turned);
}

static MlirValue product(BluBuilder *b, MlirValue x, bool tx, MlirValue y, bool ty) {
  BluAttrs as = {0};
  if (tx) as = blu_attr_set_bool(as, "ta", true);
  if (ty) as = blu_attr_set_bool(as, "tb", true);
  return blu_build(b, "matmul", &as, 2, (MlirValue[]){x, y});
}

/* With A and B the operands after their transposes: dA = ct B^T and dB = A^T ct, each transposed back by its flags. */
static void vjp_matmul(BluVjp *v) {
  Shape g = shape_of(&v->sig);
  MlirValue a = v->in[0], b = v->in[1], ct = v->ct;
  if (v->need[0]) v->dx[0] = g.ta ? product(v->b, b, g.tb, ct, true) : product(v->b, ct, false, b, !g.tb);
  if (!v->need[1]) return;
  if (g.b_shared && v->sig.in[0].rank > 2) { /* the batch is more rows */
    BluType ta = blu_type_make(v->sig.out.elem, 2, (int64_t[]){g.batch * g.m, g.k});
    BluType tc = blu_type_make(v->sig.out.elem, 2, (int64_t[]){g.batch * g.m, g.n});
    a = blu_reshape_to(v->b, a, &ta);
    ct = blu_reshape_to(v->b, ct, &tc);
  }
  v->dx[1] = g.tb ? product(v->b, ct, true, a, g.ta) : product(v->b, a, !g.ta, ct, false);
}

#define MAT(ta, tb, sa, sb)                                                                                     \
  {"%a: tensor<" sa "xf64>, %b: tensor<" sb "xf64>",                                                            \
   "%r = blu.matmul %a, %b {ta = " ta ", tb = " tb "} : (tensor<" sa "xf64>, tensor<" sb "xf64>) -> tensor<3x4xf64>", -1, 1, 0}

const BluRule blu_rule_matmul = {.kind = BLU_KIND_MATMUL, .labels = "float same-type rank same-batch no-ta-of-batch same-inner", .infer = infer_matmul,
    .vjp = vjp_matmul, .ref = ref_matmul,
  .tolerance = 4e-6, /* k up to 1000 in the tests, values of order 1: sqrt(k) roundings and a margin */
  .cases = (const BluOpCase[]){
    MAT("false", "false", "3x5", "5x4"), MAT("true", "false", "5x3", "5x4"), MAT("false", "true", "3x5", "4x5"), MAT("true", "true", "5x3", "4x5"),
    {"%a: tensor<2x3x5xf64>, %b: tensor<2x4x5xf64>",
     "%r = blu.matmul %a, %b {tb = true} : (tensor<2x3x5xf64>, tensor<2x4x5xf64>) -> tensor<2x3x4xf64>", -1, 1, 0},
    {"%a: tensor<2x5x3xf64>, %b: tensor<2x5x4xf64>",
     "%r = blu.matmul %a, %b {ta = true} : (tensor<2x5x3xf64>, tensor<2x5x4xf64>) -> tensor<2x3x4xf64>", -1, 1, 0},
    {"%a: tensor<2x3x5xf64>, %b: tensor<4x5xf64>",
     "%r = blu.matmul %a, %b {tb = true} : (tensor<2x3x5xf64>, tensor<4x5xf64>) -> tensor<2x3x4xf64>", -1, 1, 0},
    {"%a: tensor<2x3x5xf64>, %b: tensor<5x4xf64>",
     "%r = blu.matmul %a, %b : (tensor<2x3x5xf64>, tensor<5x4xf64>) -> tensor<2x3x4xf64>", -1, 1, 0},
    {"%a: tensor<4x4xf64>", "%r = blu.matmul %a, %a {tb = true} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>", -1, 1, 0},
    {0}}};
