/* fuse.c - groups ops to kernels. A kernel is a private function of blu ops (so the interpreter can still run it) with the
 * attributes blu.kernel (its kind) and blu.space (what it walks); equal kernels are one function. What is left of a function
 * is calls, reshapes (which are other names for the same bytes) and the guard.
 *
 * Greedy, in program order: an op joins the group of the operand that is computed last, or a later one that reads the same
 * tensor, if it fits into that group's space; so every group depends on earlier groups alone. Free ops (constants, casts,
 * broadcasts) are copied to their users; elementwise ops of arguments and of numbers of the step alone wait for their first
 * user's group. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"
#include "passes/kernel.h"
#include "passes_internal.h"
#include "dialects/memory.h"

typedef struct {
  BluKernelKind kind;
  BluType space;
  MlirOperation *anchor;
  int n, cap, segment;
  bool numbers, host; /* numbers of the step; the host computes them */
} Group;

/* The kernels of the module so far. */
typedef struct { struct { MlirOperation func; BluKernelKey key; } *kernel; int n, cap; } Library;

typedef struct {
  MlirModule module;
  Library *library;
  MlirOperation func;
  Group *group;
  int n, cap, segment;  /* segment: guards passed so far; no group spans one */
  bool device;          /* the program is for one */
  int ops;              /* of the function, before it is rewritten */
  BluMap group_of;      /* anchor op -> group index + 1 */
  BluMap host;          /* op that computes a number of the step, or is a random stream's -> itself */
  BluMap absorbed;      /* op that kernels of attention do for themselves -> itself */
  BluMap waiting;       /* elementwise op that has no group yet -> itself */
  BluMap stored;        /* reshape op that stays in the function -> itself */
  BluMap made;          /* value -> value in the function that is being written */
} Fuse;

static int group_of(const Fuse *f, MlirOperation op) {
  return mlirOperationIsNull(op) ? -1 : (int)(intptr_t)blu_map_get(&f->group_of, op.ptr) - 1;
}

/* ---- forming groups ---- */

static int group_new(Fuse *f, BluKernelKind kind, const BluType *space) {
  if (f->n == f->cap) f->group = blu_realloc(f->group, (size_t)(f->cap = f->cap ? 2 * f->cap : 16) * sizeof *f->group);
  f->group[f->n] = (Group){.kind = kind, .space = *space, .segment = f->segment};
  return f->n++;
}

static void group_add(Fuse *f, int g, MlirOperation op) {
  Group *to = &f->group[g];
  if (to->n == to->cap) to->anchor = blu_realloc(to->anchor, (size_t)(to->cap = to->cap ? 2 * to->cap : 8) * sizeof *to->anchor);
  to->anchor[to->n++] = op;
  blu_map_set(&f->group_of, op.ptr, (void *)(intptr_t)(g + 1));
}

/* The group that puts v's bytes into memory: -1 for arguments, INT_MAX for what is nowhere stored. */
static int stored_by(const Fuse *f, MlirValue v) {
  MlirOperation d = blu_def(v);
  if (mlirOperationIsNull(d)) return -1;
  int g = group_of(f, d);
  if (g >= 0) return g;
  return blu_map_get(&f->stored, d.ptr) ? stored_by(f, mlirOperationGetOperand(d, 0)) : INT_MAX;
}

/* Can group g read v from memory? A free op may be stored by a later group for others' sake: then g evaluates it itself. */
static bool is_stored(const Fuse *f, MlirValue v, int g) { return stored_by(f, v) < g; }

static bool is_waiting(const Fuse *f, MlirOperation op) { return blu_map_get(&f->waiting, op.ptr) != NULL; }

/* Can v be evaluated at view `at` of group g's space? If not, *blame is a free op's value that must be stored first, or null
 * if v can't stand there at all. */
static bool evaluable(const Fuse *f, int g, MlirValue v, BluView at, MlirValue *blame) {
  const BluType *s = &f->group[g].space;
  if (is_stored(f, v, g)) return true;
  MlirOperation d = blu_def(v);
  if (group_of(f, d) == g) { /* computed here: at the one view that its type has */
    BluType t = blu_value_type(v);
    BluView own;
    *blame = (MlirValue){0};
    if (!blu_view_of_type(&t, s, &own)) return false;
    return own.kind == at.kind || (at.kind == BLU_VIEW_SCALAR && blu_type_count(&t) == 1 && blu_space_rows(s) == 1);
  }
  if (is_waiting(f, d)) { /* joins g at the view of its type, or is stored when it can't */
    BluType t = blu_value_type(v);
    BluView own;
    return (blu_view_of_type(&t, s, &own) && own.kind == at.kind) || (*blame = v, false);
  }
  if (!mlirOperationGetNumOperands(d)) { /* constant, iota: by linear index */
    *blame = v;
    return at.kind != BLU_VIEW_MAPPED || blu_is(d, "constant");
  }
  BluView in;
  if (!blu_view_through(d, s, at, &in)) return *blame = v, false;
  return evaluable(f, g, mlirOperationGetOperand(d, 0), in, blame);
}

/* The latest group that op's operands come from, through free and waiting ops; -1: arguments alone. Each op is visited once. */
static int latest_through(const Fuse *f, MlirOperation op, BluMap *seen) {
  int last = -1;
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(op); i < n; i++) {
    MlirOperation d = blu_def(mlirOperationGetOperand(op, i));
    if (mlirOperationIsNull(d) || blu_map_get(seen, d.ptr)) continue;
    blu_map_set(seen, d.ptr, (void *)d.ptr);
    int g = group_of(f, d);
    if (g < 0) g = latest_through(f, d, seen);
    if (g > last) last = g;
  }
  return last;
}

static int latest_of_operands(const Fuse *f, MlirOperation op) {
  BluMap seen = {0};
  int last = latest_through(f, op, &seen);
  blu_map_free(&seen);
  return last;
}

/* The kind of kernel that an op asks for, and the space that it walks. */
static BluKernelKind kernel_of(MlirOperation op, BluType *space) {
  BluSig s;
  blu_sig_of(op, &s);
  *space = s.out;
  if (blu_attention_is_whole(op)) return BLU_KERNEL_ATTENTION;
  switch (blu_op_of(op)->rule->kind) {
  case BLU_KIND_MATMUL: return BLU_KERNEL_MATMUL;
  case BLU_KIND_MOVE: return BLU_KERNEL_MOVE;
  case BLU_KIND_REDUCE: {
    *space = s.in[0];
    const BluAttr *a = blu_attr(&s.attrs, "axis");
    int64_t axis = a ? a->i[0] : s.in[0].rank - 1;
    if (axis < 0) axis += s.in[0].rank;
    return axis == s.in[0].rank - 1 ? BLU_KERNEL_ROWS : BLU_KERNEL_COLUMNS;
  }
  default: return BLU_KERNEL_ROWS;
  }
}

/* The view under which op reads its operand i in space s: of its result for elementwise ops, whole for reductions. */
static bool operand_view(MlirOperation op, int i, const BluType *s, BluView *v) {
  BluSig sig;
  blu_sig_of(op, &sig);
  bool reduce = blu_op_of(op)->rule->kind == BLU_KIND_REDUCE;
  if (!blu_view_of_type(reduce ? &sig.in[0] : &sig.out, s, v)) return false;
  if (reduce) return v->kind == BLU_VIEW_FULL;
  if (sig.in[i].rank == 0 && sig.out.rank) v->kind = BLU_VIEW_SCALAR; /* a key */
  v->from = sig.in[i];
  return true;
}

/* Such an op belongs to the reduction's kernel: beside a product its result would have to be stored. */
static bool is_only_reduced(MlirOperation op) {
  for (MlirOpOperand u = mlirValueGetFirstUse(mlirOperationGetResult(op, 0)); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
    const BluOp *user = blu_op_of(mlirOpOperandGetOwner(u));
    if (!user || user->rule->kind != BLU_KIND_REDUCE) return false;
  }
  return true;
}

static bool is_one_use(MlirValue v) {
  MlirOpOperand u = mlirValueGetFirstUse(v);
  return !mlirOpOperandIsNull(u) && mlirOpOperandIsNull(mlirOpOperandGetNextUse(u));
}

/* A library's product takes a bias that is in memory, and nothing else. */
static bool fits_library(const Fuse *f, int g, MlirOperation op) {
  MlirOperation product = f->group[g].anchor[0];
  MlirValue bias = blu_product_bias(op, product);
  return f->group[g].n == 1 && is_one_use(mlirOperationGetResult(product, 0)) && !mlirValueIsNull(bias) && is_stored(f, bias, g);
}

/* Registers for one more reduction? */
static bool has_room(const Group *g, MlirOperation op) {
  int states = blu_reduction_states(op);
  for (int i = 0; i < g->n; i++) states += blu_reduction_states(g->anchor[i]);
  return states <= BLU_KERNEL_STATES;
}

/* Random numbers are a long piece of code. Alone it is one function for all tensors; beside what makes first values of them, one for each
 * standard deviation. */
static bool stays_alone(MlirOperation op) { return blu_is(op, "uniform_at"); }

static bool shares_attention(const Group *to, MlirOperation op) {
  for (int i = 0; i < to->n; i++)
    if (blu_attention_is_whole(to->anchor[i]) && !blu_attention_shares(to->anchor[i], op)) return false;
  return true;
}

/* Does op fit into group g as it stands? */
static bool fits(const Fuse *f, int g, MlirOperation op) {
  const Group *to = &f->group[g];
  if (stays_alone(op) || (to->n && stays_alone(to->anchor[0]))) return false;
  if (to->kind == BLU_KERNEL_ATTENTION) return to->segment == f->segment && shares_attention(to, op);
  if (to->kind == BLU_KERNEL_MATMUL && to->n == 1 && to->segment == f->segment) {
    int summed = blu_product_sum(op, to->anchor[0]);
    if (f->device ? summed >= 0 && blu_product_in_library(to->anchor[0]) : summed == 1) return true;
  }
  bool element = blu_op_of(op)->rule->kind == BLU_KIND_ELEMENT;
  BluType own, out = blu_value_type(mlirOperationGetResult(op, 0));
  BluView at;
  MlirValue blame;
  if (to->segment != f->segment || kernel_of(op, &own) != BLU_KERNEL_ROWS) return false;
  if (to->kind != BLU_KERNEL_ROWS && !(to->kind == BLU_KERNEL_MATMUL && element)) return false;
  if (!has_room(to, op) || (element && !blu_view_of_type(&out, &to->space, &at))) return false;
  if (to->kind == BLU_KERNEL_MATMUL && (at.kind != BLU_VIEW_FULL || is_only_reduced(op))) return false;
  if (to->kind == BLU_KERNEL_MATMUL && f->device && blu_product_in_library(to->anchor[0]) && !fits_library(f, g, op)) return false;
  for (int i = 0; i < (int)mlirOperationGetNumOperands(op); i++)
    if (!operand_view(op, i, &to->space, &at) || !evaluable(f, g, mlirOperationGetOperand(op, i), at, &blame)) return false;
  return true;
}

/* The first group after `last` that reads a tensor which op reads, too; INT_MAX: none. */
static int next_reader(const Fuse *f, MlirOperation op, int last) {
  int next = INT_MAX;
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(op); i < n; i++) {
    MlirValue v = mlirOperationGetOperand(op, i);
    BluType t = blu_value_type(v);
    int made = stored_by(f, v);
    if (made == INT_MAX && blu_attention_is_whole(op)) made = latest_of_operands(f, blu_def(v)); /* it may be absorbed */
    if (blu_type_count(&t) == 1 || made == INT_MAX) continue;
    for (MlirOpOperand u = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
      int g = group_of(f, mlirOpOperandGetOwner(u));
      if (g > last && g > made && g < next) next = g;
    }
  }
  return next;
}

static void place_alone(Fuse *f, MlirOperation op);
static void settle(Fuse *f, MlirValue v, int g);

/* op joins group `last`, or the first later one that reads a tensor that op reads, if it fits there; false: into none. */
static bool join_reader(Fuse *f, MlirOperation op, int last) {
  for (int g = last < 0 ? next_reader(f, op, last) : last; g < f->n; g = next_reader(f, op, g)) {
    if (!fits(f, g, op)) continue;
    for (intptr_t i = 0, n = mlirOperationGetNumOperands(op); i < n; i++) settle(f, mlirOperationGetOperand(op, i), g);
    if (latest_of_operands(f, op) <= g) group_add(f, g, op);
    else place_alone(f, op);
    return true;
  }
  return false;
}

/* Gives v a place in memory: free ops become kernels of their own, a reshape stays a view of a stored value. */
static void store(Fuse *f, MlirValue v) {
  MlirOperation d = blu_def(v);
  if (mlirOperationIsNull(d) || group_of(f, d) >= 0) return;
  if (is_waiting(f, d)) {
    if (!join_reader(f, d, -1)) place_alone(f, d);
    return;
  }
  if (blu_is(d, "reshape")) {
    blu_map_set(&f->stored, d.ptr, (void *)d.ptr);
    store(f, mlirOperationGetOperand(d, 0));
    return;
  }
  BluType t = blu_value_type(v);
  /* its own operands may be free in a way that this space can't follow */
  if (mlirOperationGetNumOperands(d)) {
    BluView full = {.kind = BLU_VIEW_FULL}, in;
    MlirOperation p = blu_def(mlirOperationGetOperand(d, 0));
    if (!blu_view_through(d, &t, full, &in) || (!mlirOperationIsNull(p) && !blu_is(p, "constant"))) store(f, mlirOperationGetOperand(d, 0));
  }
  int g = group_new(f, BLU_KERNEL_ROWS, &t);
  f->group[g].host = f->device && !blu_is_body(f->func) && blu_map_get(&f->host, d.ptr); /* the host may have to read it: a constant rate */
  group_add(f, g, d);
}

/* Waiting ops behind v join group g where they fit, and get groups of their own elsewhere; g < 0: fit nowhere. */
static void settle(Fuse *f, MlirValue v, int g) {
  MlirOperation d = blu_def(v);
  if (mlirOperationIsNull(d) || group_of(f, d) >= 0 || !(blu_is_free(d) || is_waiting(f, d))) return;
  bool waiting = is_waiting(f, d);
  if (waiting && g < 0) {
    place_alone(f, d);
    return;
  }
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(d); i < n; i++) settle(f, mlirOperationGetOperand(d, i), g);
  if (!waiting) return;
  if (latest_of_operands(f, d) <= g && fits(f, g, d)) group_add(f, g, d);
  else place_alone(f, d);
}

/* What waits behind op's operands and wouldn't fit beside op in a group of this space gets a group of its own. */
static void settle_misfits(Fuse *f, MlirOperation op, const BluType *space, BluMap *seen) {
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(op); i < n; i++) {
    MlirOperation d = blu_def(mlirOperationGetOperand(op, i));
    if (mlirOperationIsNull(d) || group_of(f, d) >= 0 || blu_map_get(seen, d.ptr)) continue;
    blu_map_set(seen, d.ptr, (void *)d.ptr);
    bool fit = true;
    if (is_waiting(f, d)) {
      fit = fits(f, group_new(f, BLU_KERNEL_ROWS, space), d);
      f->n--;
    }
    if (fit) settle_misfits(f, d, space, seen);
    else place_alone(f, d);
  }
}

/* What a kernel that reads memory itself reads for v. */
static MlirValue read_as(MlirValue v) { return blu_is_widening(blu_def(v)) ? mlirOperationGetOperand(blu_def(v), 0) : v; }

/* What such a kernel reads for v is to be in memory; if v is absorbed, what that is made of. */
static void store_read(Fuse *f, MlirValue v) {
  MlirValue root = blu_absorbed_root(&f->absorbed, v);
  MlirOperation d = blu_def(root);
  if (mlirOperationIsNull(d) || !blu_map_get(&f->absorbed, d.ptr)) {
    store(f, read_as(root));
    return;
  }
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(d); i < n; i++) store_read(f, mlirOperationGetOperand(d, i));
}

/* Gives op a group of its own; whatever operand is in its way gets stored, in a group before it. */
static void place_alone(Fuse *f, MlirOperation op) {
  BluType space;
  BluKernelKind kind = kernel_of(op, &space);
  intptr_t n = mlirOperationGetNumOperands(op);
  blu_map_set(&f->waiting, op.ptr, NULL);
  for (intptr_t i = 0; i < n && kind != BLU_KERNEL_ROWS; i++) store_read(f, mlirOperationGetOperand(op, i));
  for (intptr_t i = 0; i < n && kind == BLU_KERNEL_ROWS; i++) {
    MlirValue blame = {0};
    do {
      BluView at;
      if (!mlirValueIsNull(blame)) store(f, blame);
      operand_view(op, (int)i, &space, &at);
      int trial = group_new(f, kind, &space); /* only to ask what would fit */
      bool good = evaluable(f, trial, mlirOperationGetOperand(op, i), at, &blame);
      f->n--;
      if (good) break;
    } while (true);
  }
  BluMap seen = {0};
  if (kind == BLU_KERNEL_ROWS) settle_misfits(f, op, &space, &seen);
  blu_map_free(&seen);
  int g = group_new(f, kind, &space);
  for (intptr_t i = 0; i < n && kind == BLU_KERNEL_ROWS; i++) settle(f, mlirOperationGetOperand(op, i), g);
  group_add(f, g, op);
}

/* The group of attention whose results op puts in their place; -1: there is none. */
static int group_that_stores(const Fuse *f, MlirOperation op) {
  int g = -1;
  if (f->device || !blu_absorbs_result(op)) return -1;
  for (int i = 0; i < (int)mlirOperationGetNumOperands(op); i++) {
    int h = group_of(f, blu_absorbed_source(op, i));
    if (h < 0 || f->group[h].kind != BLU_KERNEL_ATTENTION || (g >= 0 && h != g)) return -1;
    g = h;
  }
  return g;
}

static void place_op(Fuse *f, MlirOperation op) {
  int g = group_that_stores(f, op);
  if (g >= 0) {
    group_add(f, g, op);
    return;
  }
  int last = latest_of_operands(f, op);
  if (stays_alone(op)) {
    place_alone(f, op);
    return;
  }
  if ((last < 0 || f->group[last].numbers) && blu_op_of(op)->rule->kind == BLU_KIND_ELEMENT) {
    blu_map_set(&f->waiting, op.ptr, (void *)op.ptr);
    return;
  }
  bool alone = last < 0 && !blu_attention_is_whole(op); /* that has a place beside what reads the same arguments */
  if (alone || !join_reader(f, op, last)) place_alone(f, op);
}

/* Half of the number of a random stream. Read from memory, so that a kernel serves all streams. */
static bool is_stream(MlirOperation op) {
  MlirValue v = mlirOperationGetResult(op, 0);
  MlirOpOperand u = mlirValueGetFirstUse(v);
  if (!blu_is(op, "constant") || mlirOpOperandIsNull(u)) return false;
  MlirOperation user = mlirOpOperandGetOwner(u);
  return blu_is(user, "uniform_at") || blu_is(user, "random_bits_at");
}

/* May the host read an argument before a device's part of a step? What the runtime sets, that is. */
static bool is_set_by_runtime(MlirOperation func, MlirValue arg) {
  static const char *const roles[] = {"run", "step", "seed", "rows", "total"};
  const char *role = blu_func_arg(func, (int)mlirBlockArgumentGetArgNumber(arg)).role;
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    if (!strcmp(role, roles[i])) return true;
  return false;
}

/* A number of the step: f64 (or a condition) of rank 0, made of arguments and of such numbers alone. */
static bool is_host_scalar(const Fuse *f, MlirOperation op) {
  BluType t = blu_value_type(mlirOperationGetResult(op, 0));
  if (t.rank || (t.elem != BLU_F64 && t.elem != BLU_BOOL) || (blu_op_of(op)->rule->kind != BLU_KIND_ELEMENT && !blu_is_free(op))) return false;
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(op); i < n; i++) {
    MlirValue v = mlirOperationGetOperand(op, i);
    MlirOperation d = blu_def(v);
    t = blu_value_type(v);
    if (mlirOperationIsNull(d) ? t.rank != 0 : !blu_map_get(&f->host, d.ptr)) return false;
    if (mlirOperationIsNull(d) && f->device && !blu_is_body(f->func) && !is_set_by_runtime(f->func, v)) return false;
  }
  return true;
}

/* Numbers of the step and of random streams come first in each segment, in one group: what uses them needn't stand behind what was made in between.
 * In a program for a device the host computes them, but for what stands in a scan. */
static void place_host_scalars(Fuse *f, MlirOperation *ops, int n) {
  BluType scalar = blu_type_make(BLU_F64, 0, NULL);
  int g = -1;
  for (int i = 0; i < n && blu_op_of(ops[i]) && blu_op_of(ops[i])->pure; i++) {
    bool stream = is_stream(ops[i]);
    if (!stream && !is_host_scalar(f, ops[i])) continue;
    blu_map_set(&f->host, ops[i].ptr, (void *)ops[i].ptr);
    if (blu_is_free(ops[i]) && !stream) continue;
    if (g < 0) g = group_new(f, BLU_KERNEL_ROWS, &scalar);
    f->group[g].numbers = true;
    f->group[g].host = f->device && !blu_is_body(f->func);
    group_add(f, g, ops[i]);
  }
}

static void form_groups(Fuse *f) {
  int n;
  if (!f->device) blu_absorb(f->func, &f->absorbed);
  MlirOperation *ops = blu_block_ops(blu_func_block(f->func), &n);
  f->ops = n;
  place_host_scalars(f, ops, n);
  for (int i = 0; i < n; i++) {
    const BluOp *op = blu_op_of(ops[i]);
    if (op && op->pure) {
      if (!blu_is_free(ops[i]) && group_of(f, ops[i]) < 0 && !blu_map_get(&f->absorbed, ops[i].ptr)) place_op(f, ops[i]);
      continue;
    }
    for (intptr_t k = 0; k < mlirOperationGetNumOperands(ops[i]); k++) store(f, mlirOperationGetOperand(ops[i], k));
    if (blu_is(ops[i], "scan")) { /* a group of its own, which nothing joins */
      BluType none = {0};
      group_add(f, group_new(f, BLU_KERNEL_MOVE, &none), ops[i]);
    } else {
      f->segment++; /* guard, return */
    }
    place_host_scalars(f, ops + i + 1, n - i - 1);
  }
  free(ops);
}

/* ---- writing kernels and calls ---- */

/* Is v used outside of group g, perhaps through free ops? */
static bool escapes(const Fuse *f, MlirValue v, int g) {
  for (MlirOpOperand u = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
    MlirOperation user = mlirOpOperandGetOwner(u);
    int h = group_of(f, user);
    bool view = blu_map_get(&f->stored, user.ptr) != NULL;
    const BluOp *op = blu_op_of(user);
    if (h >= 0 ? h != g : view || !op || !op->pure) return true;
    if (h < 0 && blu_map_get(&f->absorbed, user.ptr)) return true;
    if (h < 0 && blu_is_free(user) && escapes(f, mlirOperationGetResult(user, 0), g)) return true;
  }
  return false;
}

typedef struct { BluBuilder b; BluMap map; MlirValue *input; int n; } Body; /* a kernel's function while it is written */

static MlirValue copy_value(const Fuse *f, int g, Body *k, MlirValue v) {
  void *known = blu_map_get(&k->map, v.ptr);
  if (known) return (MlirValue){known};
  MlirValue to;
  if (is_stored(f, v, g)) {
    k->input[k->n++] = v;
    to = mlirBlockAddArgument(k->b.block, mlirValueGetType(v), k->b.loc);
  } else {
    MlirOperation d = blu_def(v), c = mlirOperationClone(d);
    for (intptr_t i = 0, n = mlirOperationGetNumOperands(d); i < n; i++)
      mlirOperationSetOperand(c, i, copy_value(f, g, k, mlirOperationGetOperand(d, i)));
    mlirBlockAppendOwnedOperation(k->b.block, c);
    to = mlirOperationGetResult(c, 0);
  }
  blu_map_set(&k->map, v.ptr, (void *)to.ptr);
  return to;
}

/* matmul_add_relu_64x256: what the kernel does, and over what. Attention's says enough of it. */
static void name_kernel(const Group *g, char *name, size_t size) {
  size_t n = 0;
  int named = g->kind == BLU_KERNEL_ATTENTION ? 1 : g->n;
  for (int i = 0; i < named && i < 4; i++)
    n += (size_t)snprintf(name + n, size - n, "%s_", blu_op_of(g->anchor[i])->name);
  if (named > 4) n += (size_t)snprintf(name + n, size - n, "and%d_", named - 4);
  for (int i = 0; i < g->space.rank && n < size; i++)
    n += (size_t)snprintf(name + n, size - n, "%s%lld", i ? "x" : "", (long long)g->space.dim[i]);
  if (!g->space.rank) snprintf(name + n, size - n, "scalar");
}

/* Gives a new kernel its name, and a number where others are called so. */
static void name_function(MlirModule m, MlirOperation func, const char *base) {
  char name[192];
  blu_func_free_name(m, base, "_", name, sizeof name);
  blu_set_string(func, "sym_name", name);
}

/* func itself, named, or the equal kernel that was there before; then func is gone. */
static MlirOperation unique(Library *lib, MlirModule m, MlirOperation func, const char *base) {
  BluKernelKey key = blu_kernel_key(func, true);
  for (int i = 0; i < lib->n; i++) {
    if (!blu_kernel_key_same(&lib->kernel[i].key, &key)) continue;
    blu_kernel_key_free(&key);
    mlirOperationDestroy(func);
    return lib->kernel[i].func;
  }
  if (lib->n == lib->cap) lib->kernel = blu_realloc(lib->kernel, (size_t)(lib->cap = lib->cap ? 2 * lib->cap : 32) * sizeof *lib->kernel);
  name_function(m, func, base);
  lib->kernel[lib->n].func = func;
  lib->kernel[lib->n++].key = key;
  return func;
}

static MlirOperation make_kernel(Fuse *f, int g, Body *k, MlirValue *outputs, int *nout) {
  const Group *from = &f->group[g];
  MlirContext ctx = mlirModuleGetContext(f->module);
  char base[160];
  name_kernel(from, base, sizeof base);
  MlirLocation loc = mlirOperationGetLocation(from->anchor[0]);
  k->b = (BluBuilder){ctx, loc, {0}, {0}};
  MlirOperation func = blu_func_make(f->module, loc, "", 0, NULL, &k->b.block); /* named when it is new */
  MlirValue *results = blu_alloc((size_t)from->n * sizeof *results);
  *nout = 0;
  for (int i = 0; i < from->n; i++) {
    MlirValue v = mlirOperationGetResult(from->anchor[i], 0), inner = copy_value(f, g, k, v);
    if (!escapes(f, v, g)) continue;
    outputs[*nout] = v;
    results[(*nout)++] = inner;
  }
  blu_func_return(func, loc, *nout, results, NULL);
  mlirOperationRemoveAttributeByName(func, mlirStringRefCreateFromCString("arg_attrs"));
  blu_set_string(func, "sym_visibility", "private");
  blu_set_string(func, "blu.kernel", blu_kernel_kind_names[from->kind]);
  blu_set_ints(func, "blu.space", from->space.rank, from->space.dim);
  if (from->host) blu_set_int(func, "blu.host", 1);
  free(results);
  return unique(f->library, f->module, func, base);
}

static MlirValue rewritten(const Fuse *f, MlirValue v) {
  void *to = blu_map_get(&f->made, v.ptr);
  return to ? (MlirValue){to} : v;
}

/* Stored reshapes are written when their operand exists: before the first op that needs them. */
static MlirValue stored_value(Fuse *f, BluBuilder *b, MlirValue v) {
  MlirOperation d = blu_def(v);
  if (mlirOperationIsNull(d) || blu_map_get(&f->made, v.ptr) || !blu_map_get(&f->stored, d.ptr)) return rewritten(f, v);
  MlirValue x = stored_value(f, b, mlirOperationGetOperand(d, 0));
  BluType t = blu_value_type(v);
  b->loc = mlirOperationGetLocation(d);
  MlirValue view = blu_reshape_to(b, x, &t);
  blu_map_set(&f->made, v.ptr, (void *)view.ptr);
  return view;
}

static void write_call(Fuse *f, int g, BluBuilder *b) {
  int size = f->ops * BLU_MAX_IN + blu_func_nargs(f->func) + 1, nout;
  Body k = {.input = blu_alloc((size_t)size * sizeof *k.input)};
  MlirValue *outputs = blu_alloc((size_t)f->group[g].n * sizeof *outputs);
  MlirOperation kernel = make_kernel(f, g, &k, outputs, &nout);
  for (int i = 0; i < k.n; i++) k.input[i] = stored_value(f, b, k.input[i]);
  MlirType *types = blu_alloc((size_t)(nout + 1) * sizeof *types);
  for (int i = 0; i < nout; i++) types[i] = mlirValueGetType(outputs[i]);
  MlirOperationState st = mlirOperationStateGet(mlirStringRefCreateFromCString("func.call"), mlirOperationGetLocation(f->group[g].anchor[0]));
  MlirNamedAttribute callee = mlirNamedAttributeGet(mlirIdentifierGet(b->ctx, mlirStringRefCreateFromCString("callee")),
    mlirFlatSymbolRefAttrGet(b->ctx, mlirStringRefCreateFromCString(blu_func_name(kernel))));
  mlirOperationStateAddAttributes(&st, 1, &callee);
  mlirOperationStateAddOperands(&st, k.n, k.input);
  mlirOperationStateAddResults(&st, nout, types);
  MlirOperation call = mlirOperationCreate(&st);
  mlirBlockInsertOwnedOperationBefore(b->block, b->before, call);
  for (int i = 0; i < nout; i++) blu_map_set(&f->made, outputs[i].ptr, (void *)mlirOperationGetResult(call, i).ptr);
  blu_map_free(&k.map);
  free(k.input), free(outputs), free(types);
}

static void place_scan(Fuse *f, MlirOperation scan, BluBuilder *b) {
  mlirOperationMoveBefore(scan, b->before);
  BluBuilder before = blu_builder_before(scan);
  for (intptr_t k = 0; k < mlirOperationGetNumOperands(scan); k++)
    mlirOperationSetOperand(scan, k, stored_value(f, &before, mlirOperationGetOperand(scan, k)));
}

/* Writes the calls before each op that stays (guard, return), then removes what the calls replace. */
static void write_function(Fuse *f) {
  int n, next = 0, segment = 0;
  MlirOperation *ops = blu_block_ops(blu_func_block(f->func), &n);
  for (int i = 0; i < n; i++) {
    const BluOp *op = blu_op_of(ops[i]);
    if ((op && op->pure) || blu_is(ops[i], "scan")) continue;
    BluBuilder b = blu_builder_before(ops[i]);
    for (; next < f->n && f->group[next].segment == segment; next++) {
      if (blu_is(f->group[next].anchor[0], "scan")) place_scan(f, f->group[next].anchor[0], &b);
      else write_call(f, next, &b);
    }
    for (intptr_t k = 0; k < mlirOperationGetNumOperands(ops[i]); k++)
      mlirOperationSetOperand(ops[i], k, stored_value(f, &b, mlirOperationGetOperand(ops[i], k)));
    segment++;
  }
  for (int i = n - 1; i >= 0; i--) {
    const BluOp *op = blu_op_of(ops[i]);
    if (op && op->pure) mlirOperationDestroy(ops[i]);
  }
  free(ops);
}

bool blu_pass_fuse(MlirModule m) {
  int n;
  MlirOperation *funcs = blu_module_funcs(m, &n);
  Library library = {0};
  for (int i = 0; i < n; i++) {
    blu_gather_bias_gradients(funcs[i], blu_targets_device(m));
    Fuse f = {.module = m, .library = &library, .func = funcs[i], .device = blu_targets_device(m)};
    form_groups(&f);
    write_function(&f);
    for (int g = 0; g < f.n; g++) free(f.group[g].anchor);
    free(f.group);
    blu_map_free(&f.group_of), blu_map_free(&f.host), blu_map_free(&f.absorbed), blu_map_free(&f.waiting), blu_map_free(&f.stored), blu_map_free(&f.made);
  }
  for (int i = 0; i < library.n; i++) blu_kernel_key_free(&library.kernel[i].key);
  free(library.kernel);
  free(funcs);
  return true;
}
