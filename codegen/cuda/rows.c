/* rows.c - kernels that walk rows and columns. Without reductions every thread has a few neighbouring points of the space. With them a row
 * belongs to a group of threads: a part of a warp, a warp, or a block; a row is passed once per stage, as on the CPU, and the threads' states
 * are joined by shuffles and, between warps, through shared memory. A row that is not too long is unrolled, and what a thread has
 * evaluated of it stays in registers from stage to stage. */
#include <stdlib.h>
#include <string.h>
#include "codegen/cuda/cuda.h"
#include "dialects/memory.h"

enum {
  MOST_THREADS = 1024,
  MANY_BLOCKS = 128,   /* about one for each multiprocessor */
  WARP_POINTS = 256,   /* points of a row that one warp still works on alone */
  THREAD_POINTS = 8,   /* unrolled: most points of a thread */
  WANTED_POINTS = 4,   /* of a thread in a row of a whole block */
  KEPT_VALUES = 64     /* elements of operands that a thread keeps in registers from stage to stage */
};

static bool is_full(const Kernel *k, int result) { return blu_rows_result_view(k, blu_kernel_result(k, result)).kind == BLU_VIEW_FULL; }

/* All results at the current point are computed before one is stored: a result may take an operand's place. */
static void store_point(Cuda *c) {
  Kernel *k = &c->k;
  BluEmitVal *value = blu_alloc((size_t)(k->nout + 1) * sizeof *value);
  for (int i = 0; i < k->nout; i++) {
    BluView at = blu_rows_result_view(k, blu_kernel_result(k, i));
    if (at.kind == BLU_VIEW_FULL) value[i] = blu_kernel_eval(k, blu_kernel_result(k, i), BLU_VIEW_FULL, &at.from);
  }
  for (int i = 0; i < k->nout; i++)
    if (is_full(k, i)) blu_emit_store(&k->e, value[i].elem, value[i].u.v, k->place[k->nin + i], blu_kernel_linear(k), k->count);
  free(value);
}

/* ---- points side by side ---- */

static void one_point(Cuda *c, LLVMValueRef row, LLVMValueRef column, int lanes, int count) {
  Kernel *k = &c->k;
  blu_kernel_forget(k, LEVEL_ROW), blu_kernel_forget(k, LEVEL_POINT);
  k->row = row, k->column = column, k->count = count;
  blu_cuda_split(c);
  blu_kernel_enter(k, LEVEL_POINT, lanes);
  store_point(c);
}

static void points(Cuda *c) {
  Kernel *k = &c->k;
  bool flat = blu_rows_are_flat(k);
  if (flat) k->info.space = blu_type_make(BLU_F32, 1, (int64_t[]){blu_type_count(&k->info.space)});
  int64_t columns = blu_space_columns(&k->info.space), rows = blu_space_rows(&k->info.space);
  int lanes = c->aligned && columns >= CUDA_VECTOR && (flat || columns % CUDA_VECTOR == 0) ? CUDA_VECTOR : 1, tail = (int)(columns % lanes);
  int64_t across = columns / lanes, whole = rows * across, total = whole + (tail != 0);
  c->threads = blu_cuda_power(blu_cuda_divide_up(total, CUDA_WARP), CUDA_BLOCK / CUDA_WARP) * CUDA_WARP;
  c->blocks = blu_cuda_divide_up(total, c->threads);
  if (!total) return;
  LLVMValueRef index = blu_cuda_point(c, rows * columns);
  LLVMBasicBlockRef after = blu_cuda_if(c, blu_cuda_less(c, index, blu_cuda_number(c, whole)));
  LLVMValueRef row = rows == 1 ? blu_cuda_number(c, 0) : blu_emit_quotient(&k->e, index, across);
  LLVMValueRef column = rows == 1 ? index : across == 1 ? blu_cuda_number(c, 0) : blu_emit_remainder(&k->e, index, across);
  one_point(c, row, blu_cuda_mul(c, column, lanes), lanes, lanes);
  blu_kernel_enter(k, LEVEL_POINT, 1);
  blu_cuda_end_if(c, after);
  if (!tail) return;
  after = blu_cuda_if(c, LLVMBuildICmp(k->e.b, LLVMIntEQ, index, blu_cuda_number(c, whole), ""));
  one_point(c, blu_cuda_number(c, 0), blu_cuda_number(c, columns - tail), lanes, tail);
  blu_kernel_enter(k, LEVEL_POINT, 1);
  blu_cuda_end_if(c, after);
}

/* ---- a row to a group of threads ---- */

typedef struct {
  Reduction *red;
  int nred, stages, group, lanes, npoints; /* threads of a group; elements and number of a thread's points; 0: a loop, not unrolled */
  bool keeps;
  LLVMValueRef own;           /* i64: this thread in its group */
  int64_t cell;               /* of shared memory: the next that nothing uses */
  Memo memo[THREAD_POINTS];   /* what is known at each of the points */
} Row;

typedef struct { State s[BLU_KERNEL_STATES]; int n; } States;

static State join(Cuda *c, void *op, State a, State b) { return blu_reduce_combine(&c->k, *(MlirOperation *)op, a, b); }

static int flatten(const States *s, LLVMValueRef *out) {
  int at = 0;
  for (int i = 0; i < s->n; i++)
    for (int j = 0; j < s->s[i].n; j++) out[at++] = s->s[i].v[j].u.v;
  return at;
}
static void unflatten(States *s, const LLVMValueRef *in) {
  for (int i = 0, at = 0; i < s->n; i++)
    for (int j = 0; j < s->s[i].n; j++) s->s[i].v[j].u.v = in[at++];
}

/* At the current point: the stage's reductions take their operands; in the last, results are stored. */
static void point(Cuda *c, const Row *r, int stage, States *s) {
  Kernel *k = &c->k;
  for (int i = 0, at = 0; i < r->nred; i++) {
    if (r->red[i].stage != stage) continue;
    MlirValue x = mlirOperationGetOperand(r->red[i].op, 0);
    BluType t = blu_value_type(x);
    BluEmitVal v = blu_kernel_eval(k, x, BLU_VIEW_FULL, &t);
    s->s[at] = blu_reduce_step(k, r->red[i].op, s->s[at], v, k->column, true);
    at++;
  }
  if (stage == r->stages - 1) store_point(c);
}

/* The points of a thread one after another; those that not every thread has are left out where they don't exist. */
static void unrolled(Cuda *c, Row *r, int stage, States *s) {
  Kernel *k = &c->k;
  int64_t columns = blu_space_columns(&k->info.space);
  for (int p = 0; p < r->npoints; p++) {
    LLVMValueRef column = blu_cuda_mul(c, blu_cuda_add(c, r->own, blu_cuda_number(c, (int64_t)p * r->group)), r->lanes);
    bool always = (int64_t)(p + 1) * r->group * r->lanes <= columns;
    if (!always || !r->keeps) r->memo[p].n = 0;
    Memo outer = k->memo[LEVEL_POINT];
    k->memo[LEVEL_POINT] = r->memo[p];
    k->column = column;
    if (always) point(c, r, stage, s);
    else {
      LLVMValueRef before[BLU_KERNEL_STATES], now[BLU_KERNEL_STATES];
      int n = flatten(s, before);
      LLVMBasicBlockRef from = LLVMGetInsertBlock(k->e.b), after = blu_cuda_if(c, blu_cuda_less(c, column, blu_cuda_number(c, columns)));
      point(c, r, stage, s);
      flatten(s, now);
      LLVMBasicBlockRef end = LLVMGetInsertBlock(k->e.b);
      blu_cuda_end_if(c, after);
      for (int i = 0; i < n; i++) {
        LLVMValueRef phi = LLVMBuildPhi(k->e.b, LLVMTypeOf(now[i]), "");
        LLVMAddIncoming(phi, &before[i], &from, 1), LLVMAddIncoming(phi, &now[i], &end, 1);
        now[i] = phi;
      }
      unflatten(s, now);
    }
    r->memo[p] = k->memo[LEVEL_POINT];
    k->memo[LEVEL_POINT] = outer;
  }
}

static void looped(Cuda *c, Row *r, int stage, States *s) {
  Kernel *k = &c->k;
  LLVMValueRef flat[BLU_KERNEL_STATES];
  int n = flatten(s, flat);
  Loop l;
  LLVMValueRef from = blu_cuda_mul(c, r->own, r->lanes), to = blu_cuda_number(c, blu_space_columns(&k->info.space));
  blu_loop_begin(&k->e, &l, k->fn, from, to, (int64_t)r->group * r->lanes, n, flat);
  unflatten(s, l.phi);
  k->column = l.i;
  blu_kernel_forget(k, LEVEL_POINT);
  point(c, r, stage, s);
  flatten(s, flat);
  blu_loop_end(&k->e, &l, flat);
  unflatten(s, l.phi);
  blu_kernel_forget(k, LEVEL_POINT);
}

static void stage(Cuda *c, Row *r, int number) {
  Kernel *k = &c->k;
  States s = {.n = 0};
  blu_cuda_split(c);
  blu_kernel_enter(k, LEVEL_POINT, r->lanes);
  k->count = r->lanes;
  for (int i = 0; i < r->nred; i++) {
    if (r->red[i].stage != number) continue;
    State *one = &s.s[s.n++];
    *one = blu_reduce_identity(k, r->red[i].op);
    for (int j = 0; j < one->n; j++) one->v[j].u.v = blu_emit_splat(&k->e, one->v[j].u.v);
  }
  if (r->npoints) unrolled(c, r, number, &s);
  else looped(c, r, number, &s);
  for (int i = 0, at = 0; i < r->nred; i++) {
    if (r->red[i].stage != number) continue;
    State one = r->lanes > 1 ? blu_reduce_to_one(k, r->red[i].op, s.s[at]) : s.s[at];
    at++;
    k->e.lanes = 1;
    one = blu_cuda_join(c, join, &r->red[i].op, one, r->group, &r->cell);
    k->e.lanes = r->lanes;
    blu_kernel_define(k, LEVEL_ROW, mlirOperationGetResult(r->red[i].op, 0), BLU_VIEW_ROW, blu_reduce_result(r->red[i].op, one));
  }
}

static int full_operands(const Kernel *k) {
  int n = 0;
  for (int i = 0; i < k->nin; i++) {
    BluType t = blu_value_type(mlirBlockGetArgument(k->block, i));
    BluView at;
    n += blu_view_of_type(&t, &k->info.space, &at) && at.kind == BLU_VIEW_FULL;
  }
  return n;
}

/* Who works on a row. */
static void share_out(Cuda *c, Row *r) {
  Kernel *k = &c->k;
  int64_t columns = blu_space_columns(&k->info.space), rows = blu_space_rows(&k->info.space);
  r->lanes = c->aligned && columns && columns % CUDA_VECTOR == 0 ? CUDA_VECTOR : 1;
  int64_t n = columns / r->lanes;
  if (!r->stages) r->group = 1; /* nothing walks the columns */
  else if (n <= WARP_POINTS) r->group = blu_cuda_power(n, CUDA_WARP);
  else r->group = blu_cuda_power(blu_cuda_divide_up(n, WANTED_POINTS), MOST_THREADS);
  int64_t each = blu_cuda_divide_up(n, r->group);
  r->npoints = each <= THREAD_POINTS ? (int)each : 0;
  r->keeps = each * r->lanes * (full_operands(k) + 1) <= KEPT_VALUES;
  c->threads = r->group;
  if (r->group <= CUDA_WARP) { /* several rows a block, but many blocks before large ones */
    int together = CUDA_BLOCK / r->group, least = CUDA_WARP / r->group;
    while (together > least && rows < (int64_t)together * MANY_BLOCKS) together /= 2;
    c->threads = together * r->group;
  }
}

static void grouped(Cuda *c) {
  Kernel *k = &c->k;
  Row r = {.stages = 0};
  r.nred = blu_rows_reductions(k, &r.red);
  for (int i = 0; i < r.nred; i++)
    if (r.red[i].stage + 1 > r.stages) r.stages = r.red[i].stage + 1;
  for (int i = 0; i < k->nout; i++) {
    int last = blu_rows_stage(k, blu_kernel_result(k, i)) + 1;
    if (is_full(k, i) && last > r.stages) r.stages = last;
  }
  share_out(c, &r);
  int64_t rows = blu_space_rows(&k->info.space), together = c->threads / r.group;
  c->blocks = blu_cuda_divide_up(rows, together);
  if (rows) {
    k->e.narrow = rows * blu_space_columns(&k->info.space) < INT32_MAX && rows < INT32_MAX - MOST_THREADS;
    r.own = LLVMBuildAnd(k->e.b, c->thread, blu_cuda_number(c, r.group - 1), "");
    k->row = together == 1 ? c->block : blu_cuda_add(c, blu_cuda_mul(c, c->block, together), blu_emit_quotient(&k->e, c->thread, r.group));
    LLVMBasicBlockRef after = rows % together ? blu_cuda_if(c, blu_cuda_less(c, k->row, blu_cuda_number(c, rows))) : NULL;
    for (int s = 0; s < r.stages; s++) stage(c, &r, s);
    blu_cuda_split(c);
    blu_kernel_enter(k, LEVEL_POINT, 1);
    LLVMBasicBlockRef first = r.group > 1 ? blu_cuda_if(c, LLVMBuildICmp(k->e.b, LLVMIntEQ, r.own, blu_cuda_number(c, 0), "")) : NULL;
    for (int i = 0; i < k->nout; i++) {
      BluView at = blu_rows_result_view(k, blu_kernel_result(k, i));
      if (at.kind != BLU_VIEW_ROW) continue;
      BluEmitVal v = blu_kernel_eval(k, blu_kernel_result(k, i), BLU_VIEW_ROW, &at.from);
      blu_kernel_enter(k, LEVEL_POINT, 1);
      blu_emit_store(&k->e, v.elem, v.u.v, k->place[k->nin + i], k->row, 1);
    }
    if (first) blu_cuda_end_if(c, first);
    if (after) blu_cuda_end_if(c, after);
  }
  c->shared_bytes = r.cell * CUDA_CELL;
  for (int p = 0; p < THREAD_POINTS; p++) free(r.memo[p].known);
  free(r.red);
}

void blu_cuda_rows(Cuda *c) {
  Kernel *k = &c->k;
  bool side_by_side = true;
  for (int i = 0; i < k->nout; i++) side_by_side &= is_full(k, i);
  for (MlirOperation o = mlirBlockGetFirstOperation(k->block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o))
    side_by_side &= !blu_reduction_states(o);
  if (side_by_side) points(c);
  else {
    if (blu_rows_are_flat(k)) k->info.space = blu_type_make(BLU_F32, 1, (int64_t[]){blu_type_count(&k->info.space)});
    grouped(c);
  }
}
