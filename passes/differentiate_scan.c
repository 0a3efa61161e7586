/* differentiate_scan.c - the gradient of a scan is a scan the other way. Its body runs the forward body again from the carries that
 * stood before each step, which the forward scan hands out, and then backward through it. Results of products are handed out too and
 * not computed again; scans inside of a body are, which makes a nested scan a chain of checkpoints.
 *
 * A fixed operand's gradient is a sum over the steps. Where each term is a product of two matrices over rows, or a sum over some
 * axes, what it is made of is stacked and the whole sum is one product or sum after the scan; otherwise it is a carry. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"
#include "dialects/memory.h"
#include "mlir-c/BuiltinAttributes.h"
#include "passes_internal.h"

typedef struct { MlirValue *v; int n, cap; } Values;

static void push(Values *l, MlirValue v) {
  if (l->n == l->cap) l->v = blu_realloc(l->v, (size_t)(l->cap = l->cap ? 2 * l->cap : 16) * sizeof *l->v);
  l->v[l->n++] = v;
}

static int find(const Values *l, int from, MlirValue v) {
  for (int i = from; i < l->n; i++)
    if (mlirValueEqual(l->v[i], v)) return i;
  return -1;
}

/* A new body with these argument types, named after `from`. */
static MlirOperation new_body(MlirModule m, MlirOperation from, const char *suffix, int nargs, const BluPort *args, MlirBlock *block) {
  char base[240], name[256];
  snprintf(base, sizeof base, "%s.%s", blu_func_name(from), suffix);
  blu_func_free_name(m, base, "", name, sizeof name);
  return blu_func_make(m, mlirOperationGetLocation(from), name, nargs, args, block);
}

/* ---- forward: what is handed out ---- */

static bool is_product(MlirOperation o) {
  const BluOp *op = blu_op_of(o);
  return op && (op->rule->kind == BLU_KIND_MATMUL || blu_is(o, "conv2d") || blu_is(o, "attention") || blu_is(o, "masked_attention"));
}

static MlirOperation clone_body(MlirModule m, MlirOperation body) {
  int nargs = blu_func_nargs(body), nout = blu_func_nresults(body);
  BluPort *ports = blu_alloc_zeroed((size_t)nargs + 1, sizeof *ports);
  for (int i = 0; i < nargs; i++) ports[i].type = blu_func_arg(body, i).type;
  MlirBlock from = blu_func_block(body), block;
  MlirOperation made = new_body(m, body, "again", nargs, ports, &block), end = mlirBlockGetTerminator(from);
  BluMap map = {0};
  for (int i = 0; i < nargs; i++) blu_map_set(&map, mlirBlockGetArgument(from, i).ptr, (void *)mlirBlockGetArgument(block, i).ptr);
  BluBuilder b = {mlirModuleGetContext(m), mlirOperationGetLocation(body), block, {0}};
  blu_clone_into(&b, from, &map);
  MlirValue *out = blu_alloc((size_t)(nout + 1) * sizeof *out);
  for (int i = 0; i < nout; i++) out[i] = (MlirValue){blu_map_get(&map, mlirOperationGetOperand(end, i).ptr)};
  blu_func_return(made, mlirOperationGetLocation(end), nout, out, NULL);
  blu_set_body(made);
  blu_map_free(&map);
  free(ports), free(out);
  return made;
}

/* Clones of scans get bodies of their own: a body belongs to one scan. */
static void own_bodies(MlirOperation f) {
  int n;
  MlirOperation *ops = blu_block_ops(blu_func_block(f), &n);
  for (int i = 0; i < n; i++) {
    if (!blu_is(ops[i], "scan")) continue;
    MlirOperation body = clone_body(blu_module_of(f), blu_scan_body(ops[i]));
    MlirAttribute name = mlirFlatSymbolRefAttrGet(mlirOperationGetContext(f), mlirStringRefCreateFromCString(blu_func_name(body)));
    mlirOperationSetAttributeByName(ops[i], mlirStringRefCreateFromCString("body"), name);
    own_bodies(body);
  }
  free(ops);
}

static void save_scan(MlirOperation scan) {
  BluScan s;
  blu_scan_of(scan, &s);
  MlirOperation body = blu_scan_body(scan);
  blu_save_scans(body);
  MlirBlock block = blu_func_block(body);
  MlirOperation end = mlirBlockGetTerminator(block);
  MlirLocation loc = mlirOperationGetLocation(end);
  Values out = {0}, in = {0};
  for (int i = 0; i < s.carries + s.stacked; i++) push(&out, mlirOperationGetOperand(end, i));
  for (int i = 0; i < s.carries; i++)
    if (find(&out, s.carries, mlirBlockGetArgument(block, i)) < 0) push(&out, mlirBlockGetArgument(block, i));
  int n;
  MlirOperation *ops = blu_block_ops(block, &n);
  for (int i = 0; i < n; i++)
    if (is_product(ops[i]) && find(&out, s.carries, mlirOperationGetResult(ops[i], 0)) < 0) push(&out, mlirOperationGetResult(ops[i], 0));
  free(ops);
  mlirOperationDestroy(end);
  blu_func_return(body, loc, out.n, out.v, NULL);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(scan); i++) push(&in, mlirOperationGetOperand(scan, i));
  BluBuilder b = blu_builder_before(scan);
  MlirOperation made = blu_scan_build(&b, &s, body, in.n, in.v);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(scan); i++)
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(scan, i), mlirOperationGetResult(made, i));
  mlirOperationDestroy(scan);
  free(out.v), free(in.v);
}

void blu_save_scans(MlirOperation f) {
  int n;
  MlirOperation *ops = blu_block_ops(blu_func_block(f), &n);
  for (int i = 0; i < n; i++)
    if (blu_is(ops[i], "scan")) save_scan(ops[i]);
  free(ops);
}

/* ---- backward ---- */

typedef struct {
  MlirOperation scan;
  BluScan s;
  MlirBlock block;      /* of the backward body */
  BluBuilder b;         /* in it */
  Values seq, seq_out;  /* sequence arguments of the backward body, and the tensors outside that they are slices of */
  Values stacked;       /* results of the backward body that are stacked */
  MlirOperation made;   /* the backward scan */
} Back;

static MlirValue argument(Back *k, MlirValue like, bool slice) {
  BluType t = blu_value_type(like);
  if (slice) t = blu_scan_slice(&t);
  return mlirBlockAddArgument(k->block, blu_type_to_mlir(k->b.ctx, &t), k->b.loc);
}

static MlirValue sequence(Back *k, MlirValue outside) {
  MlirValue a = argument(k, outside, true);
  push(&k->seq, a), push(&k->seq_out, outside);
  return a;
}

/* Can the sum of v over the steps be computed from stacked values? */
static bool can_sum_outside(const Back *k, MlirValue v) {
  MlirOperation d = blu_def(v);
  if (blu_is(d, "add")) return can_sum_outside(k, mlirOperationGetOperand(d, 0)) && can_sum_outside(k, mlirOperationGetOperand(d, 1));
  if (blu_is(d, "transpose") || blu_is(d, "reshape")) return can_sum_outside(k, mlirOperationGetOperand(d, 0));
  if (blu_is(d, "sum")) return blu_value_type(mlirOperationGetOperand(d, 0)).rank < BLU_MAX_RANK;
  if (!blu_is(d, "matmul")) return false;
  BluSig s;
  blu_sig_of(d, &s);
  if (!blu_attr_int(&s.attrs, "ta", 0) || blu_attr_int(&s.attrs, "tb", 0) || s.in[0].rank != 2 || s.in[1].rank != 2) return false;
  for (int i = 0; i < 2; i++) { /* a factor that is the same in every step has no stack */
    MlirValue in = mlirOperationGetOperand(d, i);
    if (mlirValueIsABlockArgument(in) && find(&k->seq, 0, in) < 0) return false;
  }
  return true;
}

/* The stacked values that the sum of v reads join the results. */
static void stack_for(Back *k, MlirValue v) {
  MlirOperation d = blu_def(v);
  bool leaf = blu_is(d, "sum") || blu_is(d, "matmul");
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(d); i < n; i++) {
    MlirValue in = mlirOperationGetOperand(d, i);
    if (!leaf) stack_for(k, in);
    else if (find(&k->seq, 0, in) < 0 && find(&k->stacked, 0, in) < 0) push(&k->stacked, in);
  }
}

static MlirValue stack_of(const Back *k, int carries, MlirValue v) {
  int i = find(&k->seq, 0, v);
  return i >= 0 ? k->seq_out.v[i] : mlirOperationGetResult(k->made, carries + find(&k->stacked, 0, v));
}

/* [steps, rows, n] as [steps rows, n] */
static MlirValue joined(BluBuilder *b, MlirValue v) {
  BluType t = blu_value_type(v), to = blu_scan_slice(&t);
  to.dim[0] *= t.dim[0];
  return blu_reshape_to(b, v, &to);
}

static MlirValue sum_outside(BluBuilder *b, const Back *k, int carries, MlirValue v) {
  MlirOperation d = blu_def(v);
  BluType t = blu_value_type(v);
  BluSig s;
  blu_sig_of(d, &s);
  if (blu_is(d, "add"))
    return blu_build2(b, "add", sum_outside(b, k, carries, mlirOperationGetOperand(d, 0)), sum_outside(b, k, carries, mlirOperationGetOperand(d, 1)));
  if (blu_is(d, "matmul")) {
    BluAttrs as = blu_attr_set_bool((BluAttrs){0}, "ta", true);
    MlirValue in[2];
    for (int i = 0; i < 2; i++) in[i] = joined(b, stack_of(k, carries, mlirOperationGetOperand(d, i)));
    return blu_build(b, "matmul", &as, 2, in);
  }
  if (blu_is(d, "sum")) {
    const BluAttr *axis = blu_attr(&s.attrs, "axis");
    int64_t axes[BLU_MAX_RANK] = {0};
    int n = 1;
    for (int i = 0; i < (axis ? axis->n : s.in[0].rank); i++) axes[n++] = 1 + (axis ? axis->i[i] : i);
    return blu_reshape_to(b, blu_reduce(b, "sum", stack_of(k, carries, mlirOperationGetOperand(d, 0)), n, axes, false), &t);
  }
  MlirValue in = sum_outside(b, k, carries, mlirOperationGetOperand(d, 0));
  return blu_is(d, "transpose") ? blu_build(b, "transpose", &s.attrs, 1, &in) : blu_reshape_to(b, in, &t);
}

static bool is_float(MlirValue v) { return blu_elem_is_float(blu_value_type(v).elem); }

bool blu_scan_vjp(BluBuilder *b, MlirOperation scan, const MlirValue *ct, const bool *need, MlirValue *dx) {
  Back k = {.scan = scan};
  blu_scan_of(scan, &k.s);
  const BluScan *s = &k.s;
  MlirModule m = blu_module_of(scan);
  MlirOperation body = blu_scan_body(scan);
  MlirBlock from = blu_func_block(body);
  MlirOperation end = mlirBlockGetTerminator(from), back = new_body(m, body, "back", 0, NULL, &k.block);
  int nin = s->carries + s->sequences + s->fixed, nout = s->carries + s->stacked;
  k.b = (BluBuilder){b->ctx, mlirOperationGetLocation(scan), k.block, {0}};

  /* arguments: cotangents of the float carries; the carries before each step, sequences, what was handed out, cotangents of it; the rest */
  Values in = {0}, roots = {0}, cts = {0}, wrt = {0}, next = {0};
  int *wrt_of = blu_alloc((size_t)(nin + 1) * sizeof *wrt_of);
  MlirValue *ct_in = blu_alloc_zeroed((size_t)nout + 1, sizeof *ct_in), *known = blu_alloc_zeroed((size_t)nout + 1, sizeof *known);
  BluMap map = {0};
  for (int i = 0; i < s->carries; i++) {
    if (!is_float(mlirOperationGetResult(scan, i))) continue;
    ct_in[i] = argument(&k, mlirOperationGetResult(scan, i), false);
    push(&in, mlirValueIsNull(ct[i]) ? blu_constant_like(b, mlirOperationGetResult(scan, i), 0) : ct[i]);
  }
  int ncarry = in.n;
  for (int i = 0; i < s->carries; i++) {
    int at = s->carries;
    while (!mlirValueEqual(mlirOperationGetOperand(end, at), mlirBlockGetArgument(from, i))) at++; /* save_scan put it there */
    known[at] = sequence(&k, mlirOperationGetResult(scan, at));
    blu_map_set(&map, mlirBlockGetArgument(from, i).ptr, (void *)known[at].ptr);
  }
  for (int i = s->carries; i < s->carries + s->sequences; i++)
    blu_map_set(&map, mlirBlockGetArgument(from, i).ptr, (void *)sequence(&k, mlirOperationGetOperand(scan, i)).ptr);
  for (int i = s->carries; i < nout; i++) {
    if (mlirValueIsNull(known[i])) known[i] = sequence(&k, mlirOperationGetResult(scan, i));
    if (!mlirValueIsNull(ct[i])) ct_in[i] = sequence(&k, ct[i]);
  }
  for (int i = s->carries + s->sequences; i < nin; i++)
    blu_map_set(&map, mlirBlockGetArgument(from, i).ptr, (void *)argument(&k, mlirOperationGetOperand(scan, i), false).ptr);

  /* forward again, then backward */
  blu_clone_into(&k.b, from, &map);
  own_bodies(back);
  for (int i = 0; i < nout; i++) {
    if (mlirValueIsNull(ct_in[i])) continue;
    push(&roots, (MlirValue){blu_map_get(&map, mlirOperationGetOperand(end, i).ptr)});
    push(&cts, ct_in[i]);
  }
  for (int i = 0; i < nin; i++) {
    MlirValue arg = mlirBlockGetArgument(from, i);
    wrt_of[i] = -1;
    if (!is_float(arg) || (i >= s->carries && !need[i])) continue;
    wrt_of[i] = wrt.n;
    push(&wrt, (MlirValue){blu_map_get(&map, arg.ptr)});
  }
  MlirValue *grad = blu_alloc_zeroed((size_t)wrt.n + 1, sizeof *grad);
  bool good = blu_gradient(&k.b, roots.n, roots.v, cts.v, wrt.n, wrt.v, grad);
  for (int i = s->carries; i < nout; i++) { /* what was handed out is not computed again */
    MlirValue again = {blu_map_get(&map, mlirOperationGetOperand(end, i).ptr)};
    for (int g = 0; g < wrt.n; g++)
      if (!mlirValueIsNull(grad[g]) && mlirValueEqual(grad[g], again)) grad[g] = known[i];
    if (!mlirValueIsABlockArgument(again)) mlirValueReplaceAllUsesOfWith(again, known[i]);
  }

  /* results */
  for (int i = 0; i < s->carries; i++)
    if (wrt_of[i] >= 0) push(&next, mlirValueIsNull(grad[wrt_of[i]]) ? blu_constant_like(&k.b, wrt.v[wrt_of[i]], 0) : grad[wrt_of[i]]);
  for (int i = s->carries; i < s->carries + s->sequences; i++)
    if (wrt_of[i] >= 0 && !mlirValueIsNull(grad[wrt_of[i]])) push(&k.stacked, grad[wrt_of[i]]);
  bool *outside = blu_alloc_zeroed((size_t)nin + 1, sizeof *outside);
  int *carry_of = blu_alloc_zeroed((size_t)nin + 1, sizeof *carry_of);
  for (int i = s->carries + s->sequences; i < nin; i++) {
    if (wrt_of[i] < 0 || mlirValueIsNull(grad[wrt_of[i]])) continue;
    MlirValue g = grad[wrt_of[i]];
    outside[i] = can_sum_outside(&k, g);
    if (outside[i]) {
      stack_for(&k, g);
      continue;
    }
    carry_of[i] = ncarry;
    MlirValue sum = mlirBlockInsertArgument(k.block, ncarry++, mlirValueGetType(g), k.b.loc);
    push(&in, blu_constant_like(b, mlirOperationGetOperand(scan, i), 0));
    push(&next, blu_build2(&k.b, "add", sum, g));
  }
  for (int i = 0; i < k.seq_out.n; i++) push(&in, k.seq_out.v[i]);
  for (int i = s->carries + s->sequences; i < nin; i++) push(&in, mlirOperationGetOperand(scan, i));
  for (int i = 0; i < k.stacked.n; i++) push(&next, k.stacked.v[i]);
  blu_func_return(back, k.b.loc, next.n, next.v, NULL);
  blu_set_body(back);
  BluScan shape = {.carries = ncarry, .sequences = k.seq.n, .steps = s->steps, .reverse = !s->reverse};
  k.made = blu_scan_build(b, &shape, back, in.n, in.v);

  for (int i = 0, c = 0; i < nin; i++) {
    dx[i] = (MlirValue){0};
    if (i < s->carries) {
      if (wrt_of[i] >= 0) dx[i] = mlirOperationGetResult(k.made, c++);
      continue;
    }
    MlirValue g = wrt_of[i] < 0 ? (MlirValue){0} : grad[wrt_of[i]];
    if (mlirValueIsNull(g)) continue;
    if (i < s->carries + s->sequences) dx[i] = mlirOperationGetResult(k.made, ncarry + find(&k.stacked, 0, g));
    else dx[i] = outside[i] ? sum_outside(b, &k, ncarry, g) : mlirOperationGetResult(k.made, carry_of[i]);
  }
  blu_map_free(&map);
  free(in.v), free(roots.v), free(cts.v), free(wrt.v), free(next.v), free(wrt_of), free(ct_in), free(known), free(grad), free(outside), free(carry_of);
  free(k.seq.v), free(k.seq_out.v), free(k.stacked.v);
  return good;
}
