/* scan.c - simplification of scans: carries, results and operands that nothing needs go away, and what a scan only hands through
 * stays outside. Gradients rely on it: they are built for everything and lose here what nobody asked for. */
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"
#include "dialects/memory.h"
#include "mlir-c/BuiltinAttributes.h"
#include "passes_internal.h"

static bool is_used(MlirValue v) { return !mlirOpOperandIsNull(mlirValueGetFirstUse(v)); }

/* Marks what the value needs; ops of one block, users before operands. */
static void mark_needed(MlirBlock block, BluMap *needed) {
  int n;
  MlirOperation *ops = blu_block_ops(block, &n);
  for (int i = n - 1; i >= 0; i--) {
    bool need = false;
    for (intptr_t r = 0; r < mlirOperationGetNumResults(ops[i]); r++) need |= blu_map_get(needed, mlirOperationGetResult(ops[i], r).ptr) != NULL;
    for (intptr_t k = 0; need && k < mlirOperationGetNumOperands(ops[i]); k++) {
      MlirValue v = mlirOperationGetOperand(ops[i], k);
      blu_map_set(needed, v.ptr, (void *)v.ptr);
    }
  }
  free(ops);
}

/* Which results are needed: those with users, and carries that such results depend on. */
static void find_live(MlirOperation scan, const BluScan *s, MlirOperation body, bool *live) {
  MlirBlock block = blu_func_block(body);
  MlirOperation end = mlirBlockGetTerminator(block);
  for (int i = 0; i < s->carries + s->stacked; i++) live[i] = is_used(mlirOperationGetResult(scan, i));
  for (bool changed = true; changed;) {
    BluMap needed = {0};
    changed = false;
    for (int i = 0; i < s->carries + s->stacked; i++) {
      MlirValue v = mlirOperationGetOperand(end, i);
      if (live[i]) blu_map_set(&needed, v.ptr, (void *)v.ptr);
    }
    mark_needed(block, &needed);
    for (int i = 0; i < s->carries; i++)
      if (!live[i] && blu_map_get(&needed, mlirBlockGetArgument(block, i).ptr)) live[i] = changed = true;
    blu_map_free(&needed);
  }
}

/* Constants and, for unchanged carries, first values: what is the same in every run needs no carry. */
static void settle_carries(MlirOperation scan, const BluScan *s, MlirOperation body, bool *unchanged) {
  MlirBlock block = blu_func_block(body);
  MlirOperation end = mlirBlockGetTerminator(block);
  for (int i = 0; i < s->carries; i++) {
    unchanged[i] = mlirValueEqual(mlirOperationGetOperand(end, i), mlirBlockGetArgument(block, i));
    if (unchanged[i]) mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(scan, i), mlirOperationGetOperand(scan, i));
  }
}

/* A constant operand that stays the same is made in the body. */
static bool sink_constants(MlirOperation scan, const BluScan *s, MlirOperation body) {
  MlirBlock block = blu_func_block(body);
  bool changed = false;
  for (int i = s->carries + s->sequences; i < s->carries + s->sequences + s->fixed; i++) {
    double value;
    MlirValue arg = mlirBlockGetArgument(block, i), v = mlirOperationGetOperand(scan, i);
    if (!is_used(arg) || !blu_constant_value(v, &value)) continue;
    MlirOperation c = mlirOperationClone(blu_def(v));
    mlirBlockInsertOwnedOperation(block, 0, c);
    mlirValueReplaceAllUsesOfWith(arg, mlirOperationGetResult(c, 0));
    changed = true;
  }
  return changed;
}

typedef struct { MlirValue *v; int n; } Values;

/* The scan with the results that are live, without unused operands, and with unchanged carries among the fixed operands. */
static void rebuild(MlirOperation scan, BluScan s, MlirOperation body, const bool *live, const bool *unchanged) {
  MlirBlock block = blu_func_block(body);
  MlirOperation end = mlirBlockGetTerminator(block);
  int nin = s.carries + s.sequences + s.fixed, nout = s.carries + s.stacked;
  Values in = {blu_alloc((size_t)(nin + 1) * sizeof(MlirValue)), 0}, out = {blu_alloc((size_t)(nout + 1) * sizeof(MlirValue)), 0};
  MlirValue *old = blu_alloc((size_t)(nout + 1) * sizeof *old);
  BluScan to = {.steps = s.steps, .reverse = s.reverse};
  for (int i = 0; i < nout; i++) {
    if (!live[i] || (i < s.carries && unchanged[i])) continue;
    old[out.n] = mlirOperationGetResult(scan, i);
    out.v[out.n++] = mlirOperationGetOperand(end, i);
  }
  MlirLocation end_loc = mlirOperationGetLocation(end);
  mlirOperationDestroy(end);
  for (int i = 0; i < s.carries; i++) /* an unchanged carry moves to the end */
    if (unchanged[i]) {
      MlirValue arg = mlirBlockGetArgument(block, i), moved = mlirBlockAddArgument(block, mlirValueGetType(arg), end_loc);
      mlirValueReplaceAllUsesOfWith(arg, moved);
      for (int k = 0; k < out.n; k++)
        if (mlirValueEqual(out.v[k], arg)) out.v[k] = moved;
    }
  BluMap kept = {0}; /* arguments that the return alone names */
  for (int i = 0; i < out.n; i++) blu_map_set(&kept, out.v[i].ptr, (void *)out.v[i].ptr);
  for (int i = 0, at = 0; i < nin; i++) {
    bool carry = i < s.carries;
    MlirValue arg = mlirBlockGetArgument(block, at);
    if (carry ? live[i] && !unchanged[i] : is_used(arg) || blu_map_get(&kept, arg.ptr)) {
      in.v[in.n++] = mlirOperationGetOperand(scan, i);
      at++;
      to.carries += carry, to.sequences += !carry && i < s.carries + s.sequences;
      continue;
    }
    mlirBlockEraseArgument(block, (unsigned)at);
  }
  for (int i = 0; i < s.carries; i++)
    if (unchanged[i]) in.v[in.n++] = mlirOperationGetOperand(scan, i);
  blu_map_free(&kept);
  blu_func_return(body, end_loc, out.n, out.v, NULL);
  BluBuilder b = blu_builder_before(scan);
  MlirOperation made = blu_scan_build(&b, &to, body, in.n, in.v);
  for (int i = 0; i < out.n; i++) mlirValueReplaceAllUsesOfWith(old[i], mlirOperationGetResult(made, i));
  mlirOperationDestroy(scan);
  free(in.v), free(out.v), free(old);
}

/* Ops of a body that lead to no result that stays. The return still names those that don't. */
static void remove_dead_of(MlirOperation body, const BluScan *s, const bool *live, const bool *unchanged) {
  MlirBlock block = blu_func_block(body);
  MlirOperation end = mlirBlockGetTerminator(block);
  for (int i = 0; i < s->carries + s->stacked; i++) {
    if (live[i] && !(i < s->carries && unchanged[i])) continue;
    BluBuilder b = blu_builder_before(end); /* a place holder: the return is written anew */
    mlirOperationSetOperand(end, i, blu_constant_like(&b, mlirOperationGetOperand(end, i), 0));
  }
  blu_remove_dead(block);
}

bool blu_simplify_scan(MlirOperation scan) {
  BluScan s;
  MlirOperation body = blu_scan_body(scan);
  blu_scan_of(scan, &s);
  int nin = s.carries + s.sequences + s.fixed, nout = s.carries + s.stacked;
  bool *live = blu_alloc_zeroed((size_t)nout + 1, sizeof *live), *unchanged = blu_alloc_zeroed((size_t)s.carries + 1, sizeof *unchanged);
  bool changed = sink_constants(scan, &s, body);
  settle_carries(scan, &s, body, unchanged);
  find_live(scan, &s, body, live);
  for (int i = 0; i < nout; i++) changed |= !live[i] || (i < s.carries && unchanged[i]);
  if (changed) remove_dead_of(body, &s, live, unchanged);
  for (int i = s.carries; i < nin; i++) changed |= !is_used(mlirBlockGetArgument(blu_func_block(body), i));
  if (changed) rebuild(scan, s, body, live, unchanged);
  free(live), free(unchanged);
  return changed;
}

/* ---- bodies ---- */

void blu_remove_orphans(MlirModule m) {
  for (bool changed = true; changed;) {
    int n, k;
    BluMap called = {0};
    MlirOperation *funcs = blu_module_funcs(m, &n);
    for (int i = 0; i < n; i++) {
      MlirOperation *ops = blu_block_ops(blu_func_block(funcs[i]), &k);
      for (int j = 0; j < k; j++)
        if (blu_is(ops[j], "scan")) blu_map_set(&called, blu_scan_body(ops[j]).ptr, (void *)ops[j].ptr);
      free(ops);
    }
    changed = false;
    for (int i = 0; i < n; i++) {
      if (!blu_is_body(funcs[i]) || blu_map_get(&called, funcs[i].ptr)) continue;
      mlirOperationDestroy(funcs[i]);
      changed = true;
    }
    free(funcs);
    blu_map_free(&called);
  }
}
