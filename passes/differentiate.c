/* differentiate.c - reverse mode: one walk, one rule per op (dialects/). The train function gets, as further results, the
 * gradient of its loss with respect to each parameter. The loss is sum / weight of the results named "loss"; weights depend
 * on data alone, so the cotangent of the sum is 1 / weight, and 0 if the weight is 0. */
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"
#include "passes_internal.h"
#include "dialects/memory.h"

enum { MOST_PARTS = 32 };

typedef struct {
  BluBuilder *b;
  BluMap active; /* values that depend on what is differentiated */
  BluMap ct;     /* value -> its cotangent so far */
} Walk;

static bool is_active(const Walk *w, MlirValue v) { return blu_map_get(&w->active, v.ptr) != NULL; }

/* Rows added to zeros, by an op that nothing uses yet? */
static bool is_rows_alone(MlirValue v) {
  MlirOperation d = blu_def(v);
  double start = 1;
  return blu_is(d, "scatter_add") && mlirOpOperandIsNull(mlirValueGetFirstUse(v)) && blu_constant_value(mlirOperationGetOperand(d, 0), &start) && start == 0;
}

/* x + y. Rows of a table, as an embedding's cotangent has them, are added to the other term itself: a large tensor less. */
static MlirValue sum_of(BluBuilder *b, MlirValue x, MlirValue y) {
  MlirValue rows = is_rows_alone(y) ? y : x, other = is_rows_alone(y) ? x : y;
  if (!is_rows_alone(rows)) return blu_build2(b, "add", x, y);
  MlirOperation d = blu_def(rows);
  return blu_build(b, "scatter_add", NULL, 3, (MlirValue[]){other, mlirOperationGetOperand(d, 1), mlirOperationGetOperand(d, 2)});
}

static void add_cotangent(Walk *w, MlirValue v, MlirValue ct) {
  void *before = blu_map_get(&w->ct, v.ptr);
  MlirValue sum = before ? sum_of(w->b, (MlirValue){before}, ct) : ct;
  blu_map_set(&w->ct, v.ptr, (void *)sum.ptr);
}

/* ---- the gradient of a tensor that was cut into parts ---- */

typedef struct { MlirValue value; int64_t from, to; } Part; /* of dimension `axis` of the whole */
typedef struct { Part part[MOST_PARTS]; int n, axis; } Parts;

static bool has_one_use(MlirValue v) {
  MlirOpOperand u = mlirValueGetFirstUse(v);
  return !mlirOpOperandIsNull(u) && mlirOpOperandIsNull(mlirOpOperandGetNextUse(u));
}

/* Is the op a pad with zeros around along one axis, that of the other parts? Then its operand is one more of them. */
static bool add_part(Parts *p, MlirOperation pad) {
  BluSig s;
  blu_sig_of(pad, &s);
  const BluAttr *low = blu_attr(&s.attrs, "low"), *high = blu_attr(&s.attrs, "high"), *inner = blu_attr(&s.attrs, "inner");
  if (p->n == MOST_PARTS || blu_attr_real(&s.attrs, "value", 0) != 0) return false;
  for (int d = 0; d < s.out.rank; d++) {
    if (inner && inner->i[d]) return false;
    if (!low->i[d] && !high->i[d]) continue;
    if (p->axis >= 0 && p->axis != d) return false;
    p->axis = d;
  }
  if (p->axis < 0) return false;
  int64_t from = low->i[p->axis];
  int at = p->n++;
  for (; at && p->part[at - 1].from > from; at--) p->part[at] = p->part[at - 1];
  p->part[at] = (Part){mlirOperationGetOperand(pad, 0), from, s.out.dim[p->axis] - high->i[p->axis]};
  return true;
}

/* The parts that v, a sum of pads which nothing else uses, is made of. */
static bool find_parts(Parts *p, MlirValue v) {
  MlirOperation d = blu_def(v);
  if (blu_is(d, "pad")) return add_part(p, d);
  if (!blu_is(d, "add")) return false;
  for (int i = 0; i < 2; i++) {
    MlirValue x = mlirOperationGetOperand(d, i);
    if (!has_one_use(x) || !find_parts(p, x)) return false;
  }
  return true;
}

static MlirValue concat_parts(BluBuilder *b, const Parts *p, int from, int to) {
  if (to - from == 1) return p->part[from].value;
  MlirValue half[2] = {concat_parts(b, p, from, (from + to) / 2), concat_parts(b, p, (from + to) / 2, to)};
  BluAttrs axis = blu_attr_set_int((BluAttrs){0}, "axis", p->axis);
  return blu_build(b, "concat", &axis, 2, half);
}

/* The cotangent of v. That of a tensor of which only slices were used is a sum of slices' cotangents with zeros around; if they are the
 * whole of it, side by side, as those of split are, it is one behind the other. */
static MlirValue cotangent(Walk *w, MlirValue v) {
  MlirValue ct = {blu_map_get(&w->ct, v.ptr)};
  Parts p = {.axis = -1};
  if (mlirValueIsNull(ct) || !blu_is(blu_def(ct), "add") || !find_parts(&p, ct)) return ct;
  BluType t = blu_value_type(v);
  int64_t end = 0;
  for (int i = 0; i < p.n; i++) {
    if (p.part[i].from != end) return ct;
    end = p.part[i].to;
  }
  if (end != t.dim[p.axis]) return ct;
  ct = concat_parts(w->b, &p, 0, p.n);
  blu_map_set(&w->ct, v.ptr, (void *)ct.ptr);
  return ct;
}

static void mark_active(Walk *w, MlirOperation o) {
  const BluOp *op = blu_op_of(o);
  bool active = false;
  if (op ? op->rule->nodiff : !blu_is(o, "scan")) return;
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(o); i < n; i++) active |= is_active(w, mlirOperationGetOperand(o, i));
  for (intptr_t i = 0, n = mlirOperationGetNumResults(o); active && i < n; i++) {
    MlirValue out = mlirOperationGetResult(o, i);
    if (blu_elem_is_float(blu_value_type(out).elem)) blu_map_set(&w->active, out.ptr, (void *)out.ptr);
  }
}

static bool pull_back_scan(Walk *w, MlirOperation o) {
  int nin = (int)mlirOperationGetNumOperands(o), nout = (int)mlirOperationGetNumResults(o);
  MlirValue *ct = blu_alloc((size_t)(nout + 1) * sizeof *ct), *dx = blu_alloc((size_t)(nin + 1) * sizeof *dx);
  bool *need = blu_alloc((size_t)nin + 1);
  w->b->loc = mlirOperationGetLocation(o);
  for (int i = 0; i < nout; i++) ct[i] = cotangent(w, mlirOperationGetResult(o, i));
  for (int i = 0; i < nin; i++) need[i] = is_active(w, mlirOperationGetOperand(o, i));
  bool good = blu_scan_vjp(w->b, o, ct, need, dx);
  for (int i = 0; i < nin; i++)
    if (need[i] && !mlirValueIsNull(dx[i])) add_cotangent(w, mlirOperationGetOperand(o, i), dx[i]);
  free(ct), free(dx), free(need);
  return good;
}

/* Adds to the cotangents of o's operands what the cotangent of its result gives. */
static bool pull_back(Walk *w, MlirOperation o) {
  const BluOp *op = blu_op_of(o);
  if (!op) return pull_back_scan(w, o);
  MlirValue out = mlirOperationGetResult(o, 0), in[BLU_MAX_IN];
  w->b->loc = mlirOperationGetLocation(o);
  if (!op->rule->vjp) return blu_error(w->b->loc, "`%s` has no gradient", op->name);
  BluVjp v = {.b = w->b, .op = o, .in = in, .out = out, .ct = cotangent(w, out)};
  blu_sig_of(o, &v.sig);
  for (int i = 0; i < v.sig.nin; i++) {
    in[i] = mlirOperationGetOperand(o, i);
    v.need[i] = is_active(w, in[i]);
  }
  blu_vjp_run(&v);
  for (int i = 0; i < v.sig.nin; i++)
    if (v.need[i] && !mlirValueIsNull(v.dx[i])) add_cotangent(w, in[i], v.dx[i]);
  return true;
}

bool blu_gradient(BluBuilder *b, int nroots, const MlirValue *roots, const MlirValue *cts, int nwrt, const MlirValue *wrt,
                  MlirValue *grads) {
  Walk w = {.b = b};
  int n;
  MlirOperation *ops = blu_block_ops(b->block, &n);
  for (int i = 0; i < nwrt; i++) blu_map_set(&w.active, wrt[i].ptr, (void *)wrt[i].ptr);
  for (int i = 0; i < n && !mlirOperationEqual(ops[i], b->before); i++) mark_active(&w, ops[i]);
  for (int i = 0; i < nroots; i++)
    if (is_active(&w, roots[i])) add_cotangent(&w, roots[i], cts[i]);
  bool good = true;
  for (int i = n - 1; i >= 0; i--) {
    bool reached = false; /* by a cotangent; a scan has several results */
    for (intptr_t k = 0; k < mlirOperationGetNumResults(ops[i]); k++) {
      MlirValue out = mlirOperationGetResult(ops[i], k);
      reached |= blu_map_get(&w.ct, out.ptr) && is_active(&w, out);
    }
    if (reached) good &= pull_back(&w, ops[i]);
  }
  for (int i = 0; i < nwrt; i++) grads[i] = cotangent(&w, wrt[i]);
  free(ops);
  blu_map_free(&w.active);
  blu_map_free(&w.ct);
  return good;
}

/* The result of `f` with this role and name; null: none. */
static MlirValue result_named(MlirOperation f, const char *role, const char *name) {
  MlirOperation end = mlirBlockGetTerminator(blu_func_block(f));
  for (int i = 0; i < blu_func_nresults(f); i++) {
    BluPort p = blu_func_result(f, i);
    if (!strcmp(p.role, role) && !strcmp(p.name, name)) return mlirOperationGetOperand(end, i);
  }
  return (MlirValue){0};
}

/* `sum_alone`: the gradient of the loss's sum, for the weight of a whole step is not known yet. `scaled`: times the new argument `scale`. */
static bool differentiate(MlirOperation f, bool sum_alone, bool scaled) {
  blu_save_scans(f);
  MlirBlock block = blu_func_block(f);
  MlirOperation end = mlirBlockGetTerminator(block);
  MlirValue sum = result_named(f, "sum", "loss"), weight = result_named(f, "weight", "loss");
  if (mlirValueIsNull(sum) || mlirValueIsNull(weight)) return blu_error(mlirOperationGetLocation(f), "the train function has no loss");
  int nargs = blu_func_nargs(f), nresults = blu_func_nresults(f), nparams = 0;
  MlirValue *params = blu_alloc((size_t)(nargs + 1) * sizeof *params), *grads = blu_alloc_zeroed((size_t)nargs + 1, sizeof *grads);
  MlirValue *results = blu_alloc((size_t)(nresults + nargs + 1) * sizeof *results);
  BluPort *ports = blu_alloc((size_t)(nresults + nargs + 1) * sizeof *ports);
  for (int i = 0; i < nresults; i++) ports[i] = blu_func_result(f, i), results[i] = mlirOperationGetOperand(end, i);
  for (int i = 0; i < nargs; i++) {
    BluPort p = blu_func_arg(f, i);
    if (strcmp(p.role, "param")) continue;
    ports[nresults + nparams] = (BluPort){.role = "grad", .name = p.name, .type = p.type};
    params[nparams++] = mlirBlockGetArgument(block, i);
  }
  BluBuilder b = blu_builder_before(end);
  b.loc = mlirOperationGetLocation(blu_def(sum));
  MlirValue zero = blu_constant_like(&b, weight, 0), one = blu_constant_like(&b, weight, 1);
  MlirValue seed = one;
  if (!sum_alone)
    seed = blu_build(&b, "where", NULL, 3, (MlirValue[]){blu_build2(&b, "eq", weight, zero), zero, blu_build2(&b, "div", one, weight)});
  BluPort scale = {.role = "scale", .name = "loss_scale", .type = {.elem = BLU_F64}};
  if (scaled) {
    MlirValue by = mlirBlockAddArgument(block, blu_type_to_mlir(b.ctx, &scale.type), b.loc);
    seed = blu_build2(&b, "mul", seed, blu_cast_to(&b, by, blu_value_type(seed).elem));
  }
  bool good = blu_gradient(&b, 1, &sum, &seed, nparams, params, grads);
  for (int i = 0; i < nparams; i++)
    results[nresults + i] = mlirValueIsNull(grads[i]) ? blu_constant_like(&b, params[i], 0) : grads[i];
  MlirLocation loc = mlirOperationGetLocation(end);
  mlirOperationDestroy(end);
  blu_func_return(f, loc, nresults + nparams, results, ports);
  if (scaled) blu_func_set_arg(f, nargs, &scale);
  free(params), free(grads), free(results), free(ports);
  return good;
}

bool blu_pass_differentiate(MlirModule m) {
  MlirOperation f = blu_func_find(m, "train");
  return mlirOperationIsNull(f) || differentiate(f, blu_accumulates(m), blu_scales_loss(m));
}
