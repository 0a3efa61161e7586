/* rows.c - kernels that walk rows and columns: elementwise chains with reductions along the row. A row is passed once per
 * stage: a reduction's value is known after the stage that feeds it, and what depends on it comes in the next. Cheap values are
 * computed again in each stage that needs them; results are written in the last. Without reductions and broadcasts the space is
 * one long row, cut into pieces. */
#include <stdlib.h>
#include <string.h>
#include "codegen/kernel.h"
#include "dialects/memory.h"

enum {
  PIECE = 8192,         /* elements */
  SHORT_ROW = 16 << 10, /* bytes: two rows of all operands stay in the first cache */
  FAR_RESULT = 1 << 18  /* bytes: a larger result isn't in the second cache when it is stored, since other tensors were there */
};

int blu_rows_stage(Kernel *k, MlirValue v) {
  MlirOperation d = blu_def(v);
  if (mlirOperationIsNull(d)) return 0;
  int known = (int)(intptr_t)blu_map_get(&k->stage, d.ptr), stage = 0;
  if (known) return known - 1;
  for (intptr_t i = 0, n = mlirOperationGetNumOperands(d); i < n; i++) {
    int s = blu_rows_stage(k, mlirOperationGetOperand(d, i));
    if (s > stage) stage = s;
  }
  stage += blu_op_of(d)->rule->kind == BLU_KIND_REDUCE;
  blu_map_set(&k->stage, d.ptr, (void *)(intptr_t)(stage + 1));
  return stage;
}

int blu_rows_reductions(Kernel *k, Reduction **list) {
  int n = 0, cap = 0;
  *list = NULL;
  for (MlirOperation o = mlirBlockGetFirstOperation(k->block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    const BluOp *op = blu_op_of(o);
    if (!op || op->rule->kind != BLU_KIND_REDUCE) continue;
    if (n == cap) *list = blu_realloc(*list, (size_t)(cap = cap ? 2 * cap : 8) * sizeof **list);
    (*list)[n++] = (Reduction){o, blu_rows_stage(k, mlirOperationGetOperand(o, 0))};
  }
  return n;
}

BluView blu_rows_result_view(const Kernel *k, MlirValue v) {
  BluType t = blu_value_type(v);
  BluView at = {.kind = BLU_VIEW_FULL, .from = t};
  blu_view_of_type(&t, &k->info.space, &at);
  return at;
}

bool blu_rows_are_flat(const Kernel *k) { return k->info.space.rank == 1 || blu_kernel_is_flat(k->func, &k->info); }

static bool has_reductions(const Kernel *k) {
  for (MlirOperation o = mlirBlockGetFirstOperation(k->block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o))
    if (blu_reduction_states(o)) return true;
  return false;
}

static int64_t rows_per_piece(const Kernel *k) {
  int64_t c = blu_space_columns(&k->info.space);
  return c >= PIECE ? 1 : c ? PIECE / c : 1;
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t pieces(const Kernel *k) {
  int64_t n = blu_rows_are_flat(k) ? (has_reductions(k) ? 1 : divide_up(blu_type_count(&k->info.space), PIECE))
                         : divide_up(blu_space_rows(&k->info.space), rows_per_piece(k));
  return n > 0 ? n : 1;
}

/* ---- values that a later stage needs again ---- */

/* A costly value that a reduction takes in stage `stage` and that a result is made of in the last one: until then it lies where the
 * result will be. */
typedef struct { MlirValue value; int stage, result; } Kept;

static bool is_costly(MlirOperation op) {
  static const char *const costly[] = {"exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "pow", "cbrt"};
  for (size_t i = 0; i < sizeof costly / sizeof *costly; i++)
    if (blu_is(op, costly[i])) return true;
  return false;
}

static bool is_element(MlirOperation op) {
  BluKind kind = blu_op_of(op)->rule->kind;
  return kind == BLU_KIND_ELEMENT || kind == BLU_KIND_VIEW || blu_is(op, "cast");
}

/* The first costly value at full view that v is computed from and that is known before stage `before`; null: none. */
static MlirValue costly_part(Kernel *k, MlirValue v, int before) {
  MlirOperation d = blu_def(v);
  BluType t = blu_value_type(v);
  BluView at;
  if (mlirOperationIsNull(d) || !is_element(d) || blu_is(d, "broadcast")) return (MlirValue){0};
  if (is_costly(d) && blu_rows_stage(k, v) < before && blu_view_of_type(&t, &k->info.space, &at) && at.kind == BLU_VIEW_FULL) return v;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(d); i++) {
    MlirValue part = costly_part(k, mlirOperationGetOperand(d, i), before);
    if (!mlirValueIsNull(part)) return part;
  }
  return (MlirValue){0};
}

static bool uses(MlirValue v, MlirValue part) {
  MlirOperation d = blu_def(v);
  if (mlirValueEqual(v, part)) return true;
  for (intptr_t i = 0; !mlirOperationIsNull(d) && is_element(d) && i < mlirOperationGetNumOperands(d); i++)
    if (uses(mlirOperationGetOperand(d, i), part)) return true;
  return false;
}

/* Does v, or a reduction of a stage after the kept value's, read an operand that a result may take the place of? What is computed of the kept
 * value doesn't count. */
static bool reads_whole(Kernel *k, MlirValue v, const Kept *kept) {
  MlirOperation d = blu_def(v);
  BluType t = blu_value_type(v);
  BluView at;
  if (mlirValueEqual(v, kept->value)) return false;
  if (mlirOperationIsNull(d)) return !blu_view_of_type(&t, &k->info.space, &at) || at.kind == BLU_VIEW_FULL;
  if (blu_op_of(d)->rule->kind == BLU_KIND_REDUCE && blu_rows_stage(k, mlirOperationGetOperand(d, 0)) <= kept->stage) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(d); i++)
    if (reads_whole(k, mlirOperationGetOperand(d, i), kept)) return true;
  return false;
}

/* Chooses what is kept, one value at most: so that no result's place is needed for two. */
static bool choose_kept(Kernel *k, const Reduction *red, int nred, int stages, Kept *kept) {
  for (int i = 0; i < k->nout; i++) {
    MlirValue out = blu_kernel_result(k, i), part = costly_part(k, out, stages - 1);
    if (mlirValueIsNull(part) || blu_rows_result_view(k, out).kind != BLU_VIEW_FULL) continue;
    BluType have = blu_value_type(part), room = blu_value_type(out);
    *kept = (Kept){part, stages, i};
    for (int r = 0; r < nred; r++)
      if (red[r].stage < kept->stage && uses(mlirOperationGetOperand(red[r].op, 0), part)) kept->stage = red[r].stage;
    bool read = kept->stage >= stages - 1 || have.elem != room.elem;
    for (int j = 0; j < k->nout && !read; j++) read = reads_whole(k, blu_kernel_result(k, j), kept);
    if (!read) return true;
  }
  return false;
}

/* ---- a stage: one pass over the columns of a row ---- */

/* asks: for the places of results, which the next stage stores. */
typedef struct { Reduction *red; int nred, stage; bool stores, asks; const Kept *kept; State state[BLU_KERNEL_STATES]; } Stage;

static LLVMValueRef kept_place(const Kernel *k, const Kept *kept) { return k->place[k->nin + kept->result]; }

/* Asks for the places of this point's results that are far. */
static void prefetch_results(Kernel *k) {
  LLVMValueRef at = blu_kernel_linear(k);
  for (int i = 0; i < k->nout; i++) {
    BluType t = blu_value_type(blu_kernel_result(k, i));
    if (blu_rows_result_view(k, blu_kernel_result(k, i)).kind != BLU_VIEW_FULL || blu_type_count(&t) * blu_elem_bytes(t.elem) <= FAR_RESULT) continue;
    blu_emit_prefetch(&k->e, LLVMBuildGEP2(k->e.b, blu_emit_stored(&k->e, t.elem), k->place[k->nin + i], &at, 1, ""), 1);
  }
}

/* At the current point: reductions of this stage take their operand; results of the last stage are stored. */
static void point(Kernel *k, const Stage *st, State *state) {
  blu_kernel_forget(k, LEVEL_POINT);
  if (st->asks) prefetch_results(k);
  const Kept *kept = st->kept;
  if (kept && kept->stage < st->stage) {
    BluElem elem = blu_value_type(kept->value).elem;
    BluEmitVal v = {.elem = elem, .u.v = blu_emit_load(&k->e, elem, kept_place(k, kept), blu_kernel_linear(k), k->count)};
    blu_kernel_define(k, LEVEL_POINT, kept->value, BLU_VIEW_FULL, v);
  }
  int at = 0;
  for (int i = 0; i < st->nred; i++) {
    if (st->red[i].stage != st->stage) continue;
    MlirValue x = mlirOperationGetOperand(st->red[i].op, 0);
    BluType t = blu_value_type(x);
    BluEmitVal v = blu_kernel_eval(k, x, BLU_VIEW_FULL, &t);
    state[at] = blu_reduce_step(k, st->red[i].op, state[at], v, k->column, true);
    at++;
  }
  if (kept && kept->stage == st->stage) {
    BluType t = blu_value_type(kept->value);
    BluEmitVal v = blu_kernel_eval(k, kept->value, BLU_VIEW_FULL, &t);
    blu_emit_store(&k->e, v.elem, v.u.v, kept_place(k, kept), blu_kernel_linear(k), k->count);
  }
  if (!st->stores) return;
  BluEmitVal *value = blu_alloc((size_t)k->nout * sizeof *value);
  for (int i = 0; i < k->nout; i++) { /* all are computed before one is stored: a result may take an operand's place */
    BluView at_view = blu_rows_result_view(k, blu_kernel_result(k, i));
    if (at_view.kind == BLU_VIEW_FULL) value[i] = blu_kernel_eval(k, blu_kernel_result(k, i), BLU_VIEW_FULL, &at_view.from);
  }
  LLVMValueRef index = blu_kernel_linear(k);
  for (int i = 0; i < k->nout; i++)
    if (blu_rows_result_view(k, blu_kernel_result(k, i)).kind == BLU_VIEW_FULL)
      blu_emit_store(&k->e, value[i].elem, value[i].u.v, k->place[k->nin + i], index, k->count);
  free(value);
}

static int flatten(int n, const State *state, LLVMValueRef *out) {
  int at = 0;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < state[i].n; j++) out[at++] = state[i].v[j].u.v;
  return at;
}

static void unflatten(int n, State *state, const LLVMValueRef *in) {
  for (int i = 0, at = 0; i < n; i++)
    for (int j = 0; j < state[i].n; j++) state[i].v[j].u.v = in[at++];
}

/* All vectors of a stage whose n states are its first ones: a loop, then the incomplete one. */
static void along(Kernel *k, Stage *st, int n, LLVMValueRef from, LLVMValueRef to, int lanes, int tail) {
  int64_t columns = blu_space_columns(&k->info.space);
  LLVMValueRef flat[BLU_KERNEL_STATES];
  int nflat = flatten(n, st->state, flat);
  Loop l;
  LLVMValueRef full = to;
  if (tail) { /* to - tail if to is C, else to: both multiples of the lanes */
    LLVMValueRef end = blu_emit_i64(&k->e, columns - tail);
    full = LLVMBuildSelect(k->e.b, LLVMBuildICmp(k->e.b, LLVMIntSLT, to, end, ""), to, end, "");
  }
  blu_loop_begin(&k->e, &l, k->fn, from, full, lanes, nflat, flat);
  unflatten(n, st->state, l.phi);
  k->column = l.i;
  k->count = lanes;
  /* A row with reductions is read once and then walked again from the cache: meanwhile nothing would come from memory. */
  k->ahead = n && !st->stage && blu_space_rows(&k->info.space) > 1 && columns * (int64_t)sizeof(float) <= SHORT_ROW;
  point(k, st, st->state);
  k->ahead = false;
  flatten(n, st->state, flat);
  blu_loop_end(&k->e, &l, flat);
  unflatten(n, st->state, l.phi);
  if (tail) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(k->e.b), rest = LLVMAppendBasicBlockInContext(k->e.ctx, k->fn, "tail"),
                      after = LLVMAppendBasicBlockInContext(k->e.ctx, k->fn, "after");
    LLVMBuildCondBr(k->e.b, LLVMBuildICmp(k->e.b, LLVMIntEQ, to, blu_emit_i64(&k->e, columns), ""), rest, after);
    LLVMPositionBuilderAtEnd(k->e.b, rest);
    LLVMValueRef whole[BLU_KERNEL_STATES];
    flatten(n, st->state, whole);
    k->column = blu_emit_i64(&k->e, columns - tail);
    k->count = tail;
    point(k, st, st->state);
    flatten(n, st->state, flat);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(k->e.b);
    LLVMBuildBr(k->e.b, after);
    LLVMPositionBuilderAtEnd(k->e.b, after);
    for (int i = 0; i < nflat; i++) {
      LLVMValueRef phi = LLVMBuildPhi(k->e.b, LLVMTypeOf(flat[i]), "");
      LLVMAddIncoming(phi, &whole[i], &before, 1);
      LLVMAddIncoming(phi, &flat[i], &end, 1);
      flat[i] = phi;
    }
    unflatten(n, st->state, flat);
  }
}

/* Columns [from, to); the space's last, incomplete vector belongs to whoever ends at C. The row level's code for this stage goes
 * before the loop: its builder waits there. */
static void stage(Kernel *k, Stage *st, LLVMValueRef from, LLVMValueRef to) {
  int64_t columns = blu_space_columns(&k->info.space);
  int lanes = columns == 1 ? 1 : BLU_LANES, tail = lanes == 1 ? 0 : (int)(columns % lanes);
  LLVMBasicBlockRef start = LLVMAppendBasicBlockInContext(k->e.ctx, k->fn, "stage");
  LLVMBuilderRef row = k->builder[LEVEL_ROW];
  LLVMBuildBr(row, start);
  LLVMPositionBuilderBefore(row, LLVMGetLastInstruction(LLVMGetInsertBlock(row)));
  LLVMPositionBuilderAtEnd(k->builder[LEVEL_POINT], start);
  blu_kernel_enter(k, LEVEL_POINT, lanes);

  int n = 0;
  for (int i = 0; i < st->nred; i++)
    if (st->red[i].stage == st->stage) st->state[n++] = blu_reduce_identity(k, st->red[i].op);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < st->state[i].n; j++) st->state[i].v[j].u.v = blu_emit_splat(&k->e, st->state[i].v[j].u.v);
  if (columns && columns < lanes) {
    k->column = from;
    k->count = tail;
    point(k, st, st->state);
  } else along(k, st, n, from, to, lanes, tail);
  blu_kernel_forget(k, LEVEL_POINT);
  /* the row goes on behind the loop, with the reductions' values */
  LLVMPositionBuilderAtEnd(row, LLVMGetInsertBlock(k->e.b));
  k->e.b = row;
  n = 0;
  for (int i = 0; i < st->nred; i++) {
    if (st->red[i].stage != st->stage) continue;
    BluEmitVal v = lanes == 1 ? blu_reduce_result(st->red[i].op, st->state[n]) : blu_reduce_lanes(k, st->red[i].op, st->state[n]);
    blu_kernel_define(k, LEVEL_ROW, mlirOperationGetResult(st->red[i].op, 0), BLU_VIEW_ROW, v);
    n++;
  }
}

static void one_row(Kernel *k, Reduction *red, int nred, LLVMValueRef from, LLVMValueRef to) {
  int stages = 0;
  bool stores = false;
  for (int i = 0; i < nred; i++)
    if (red[i].stage + 1 > stages) stages = red[i].stage + 1;
  for (int i = 0; i < k->nout; i++) {
    MlirValue v = blu_kernel_result(k, i);
    if (blu_rows_result_view(k, v).kind != BLU_VIEW_FULL) continue;
    stores = true;
    if (blu_rows_stage(k, v) + 1 > stages) stages = blu_rows_stage(k, v) + 1;
  }
  blu_kernel_forget(k, LEVEL_ROW);
  Kept kept;
  bool keeps = choose_kept(k, red, nred, stages, &kept);
  for (int s = 0; s < stages; s++) {
    Stage st = {.red = red, .nred = nred, .stage = s, .stores = stores && s == stages - 1, .kept = keeps ? &kept : NULL};
    /* The first stage asks for the next row; the one before the last has nothing to wait for. Of longer rows the lines would be gone again. */
    st.asks = stores && s > 0 && s == stages - 2 && blu_space_columns(&k->info.space) * (int64_t)sizeof(float) <= SHORT_ROW;
    stage(k, &st, from, to);
  }
  blu_kernel_enter(k, LEVEL_ROW, 1);
  for (int i = 0; i < k->nout; i++) {
    BluView at = blu_rows_result_view(k, blu_kernel_result(k, i));
    if (at.kind != BLU_VIEW_ROW) continue;
    BluEmitVal v = blu_kernel_eval(k, blu_kernel_result(k, i), BLU_VIEW_ROW, &at.from);
    blu_emit_store(&k->e, v.elem, v.u.v, k->place[k->nin + i], k->row, 1);
  }
}

static LLVMValueRef smaller(Emit *e, LLVMValueRef a, int64_t limit) {
  LLVMValueRef b = blu_emit_i64(e, limit);
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, a, b, ""), a, b, "");
}

/* Points [from, to) of the one row, `lanes` at once; no reductions. Places of builders are those of stage(). */
static void elements(Kernel *k, LLVMValueRef from, LLVMValueRef to, int lanes) {
  const Stage st = {.stores = true};
  LLVMBasicBlockRef start = LLVMAppendBasicBlockInContext(k->e.ctx, k->fn, "elements");
  LLVMBuilderRef row = k->builder[LEVEL_ROW];
  LLVMBuildBr(row, start);
  LLVMPositionBuilderBefore(row, LLVMGetLastInstruction(LLVMGetInsertBlock(row)));
  LLVMPositionBuilderAtEnd(k->builder[LEVEL_POINT], start);
  blu_kernel_enter(k, LEVEL_POINT, lanes);
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, from, to, lanes, 0, NULL);
  k->column = l.i;
  k->count = lanes;
  point(k, &st, NULL);
  blu_loop_end(&k->e, &l, NULL);
  blu_kernel_forget(k, LEVEL_POINT);
  LLVMPositionBuilderAtEnd(row, LLVMGetInsertBlock(k->e.b));
  blu_kernel_enter(k, LEVEL_ROW, 1);
}

/* A kernel for any number of elements, which the launch says: vectors, then what is left one by one. */
static void any_size(Kernel *k) {
  Emit *e = &k->e;
  LLVMValueRef at = blu_emit_i64(e, k->nin + k->nout), i64 = blu_emit_i64(e, PIECE), zero = blu_emit_i64(e, 0);
  LLVMTypeRef word = LLVMTypeOf(zero);
  LLVMValueRef n = LLVMBuildLoad2(e->b, word, LLVMBuildGEP2(e->b, word, k->offsets, &at, 1, ""), "n");
  LLVMValueRef from = LLVMBuildMul(e->b, k->first, i64, ""), to = LLVMBuildMul(e->b, k->last, i64, "");
  to = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, to, n, ""), to, n, "");
  LLVMValueRef whole = LLVMBuildAnd(e->b, to, blu_emit_i64(e, -BLU_LANES), "");
  k->row = zero;
  elements(k, from, whole, BLU_LANES); /* pieces begin at multiples of the lanes */
  elements(k, whole, to, 1);
}

static void body(Kernel *k) {
  if (blu_kernel_any_size(k->func)) {
    blu_kernel_enter(k, LEVEL_ROW, 1);
    any_size(k);
    LLVMBuildRetVoid(k->e.b);
    return;
  }
  Reduction *red;
  int nred = blu_rows_reductions(k, &red);
  Emit *e = &k->e;
  bool flat = blu_rows_are_flat(k);
  blu_kernel_enter(k, LEVEL_ROW, 1);
  if (flat) { /* one row of all elements; pieces are ranges of columns */
    k->info.space = blu_type_make(BLU_F32, 1, (int64_t[]){blu_type_count(&k->info.space)});
    int64_t columns = k->info.space.dim[0], per = nred ? columns : PIECE;
    k->row = blu_emit_i64(e, 0);
    LLVMValueRef from = LLVMBuildMul(e->b, k->first, blu_emit_i64(e, per), ""), to = LLVMBuildMul(e->b, k->last, blu_emit_i64(e, per), "");
    one_row(k, red, nred, from, smaller(e, to, columns));
  } else {
    int64_t per = rows_per_piece(k), rows = blu_space_rows(&k->info.space);
    LLVMValueRef from = LLVMBuildMul(e->b, k->first, blu_emit_i64(e, per), ""), to = LLVMBuildMul(e->b, k->last, blu_emit_i64(e, per), "");
    Loop l;
    blu_loop_begin(e, &l, k->fn, from, smaller(e, to, rows), 1, 0, NULL);
    k->row = l.i;
    one_row(k, red, nred, blu_emit_i64(e, 0), blu_emit_i64(e, blu_space_columns(&k->info.space)));
    blu_loop_end(e, &l, NULL);
  }
  LLVMBuildRetVoid(e->b);
  free(red);
}

int64_t blu_kernel_any_size(MlirOperation func) {
  BluKernelInfo k;
  if (!blu_kernel_info(func, &k) || !blu_kernel_is_flat(func, &k)) return 0;
  int64_t n = blu_type_count(&k.space);
  return n > 1 ? n : 0;
}

int64_t blu_kernel_any_size_pieces(int64_t elements) { return divide_up(elements, PIECE); }

const KernelKind blu_kernel_rows = {.pieces = pieces, .body = body};
