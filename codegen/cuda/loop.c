/* loop.c - ops whose elements depend on one another in an order of their own. What is independent runs side by side, and the rest in the
 * op's order: cumsum has a thread a line; scatter_add a thread an element of the result, which looks through all ids for its row; top_k
 * a group of threads a row, which finds the k greatest one after another. */
#include <string.h>
#include "codegen/cuda/cuda.h"

static MlirValue operand(const Cuda *c, int i) { return mlirOperationGetOperand(c->k.info.main, i); }
static BluEmitVal load(Cuda *c, int i, LLVMValueRef index) {
  BluElem t = blu_value_type(operand(c, i)).elem;
  return (BluEmitVal){.elem = t, .u.v = blu_emit_load(&c->k.e, t, c->k.place[mlirBlockArgumentGetArgNumber(operand(c, i))], index, 1)};
}
static BluEmitVal prim(Cuda *c, BluPrim p, BluElem t, BluEmitVal a, BluEmitVal b) { return c->k.e.base.prim(&c->k.e.base, p, t, a, b, b); }
static BluEmitVal sum(Cuda *c, BluEmitVal a, BluEmitVal b) { return prim(c, blu_elem_is_float(a.elem) ? BLU_PRIM_FADD : BLU_PRIM_IADD, a.elem, a, b); }

/* ---- cumsum ---- */

static void cumsum(Cuda *c) {
  Kernel *k = &c->k;
  BluSig s;
  blu_sig_of(k->info.main, &s);
  int64_t axis = blu_attr_int(&s.attrs, "axis", -1), inner = 1;
  if (axis < 0) axis += s.in[0].rank;
  int64_t n = s.in[0].dim[axis], lines = n ? blu_type_count(&s.in[0]) / n : 0;
  for (int d = (int)axis + 1; d < s.in[0].rank; d++) inner *= s.in[0].dim[d];
  c->threads = CUDA_WARP;
  c->blocks = blu_cuda_divide_up(lines, c->threads);
  if (!lines) return;
  LLVMValueRef line = blu_cuda_point(c, blu_type_count(&s.in[0])), zero = LLVMConstNull(blu_emit_type(&k->e, s.in[0].elem));
  LLVMBasicBlockRef after = blu_cuda_if(c, blu_cuda_less(c, line, blu_cuda_number(c, lines)));
  LLVMValueRef part = inner == 1 ? blu_cuda_number(c, 0) : blu_emit_remainder(&k->e, line, inner);
  LLVMValueRef start = blu_cuda_add(c, blu_cuda_mul(c, blu_emit_quotient(&k->e, line, inner), n * inner), part);
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, blu_cuda_number(c, 0), blu_cuda_number(c, n), 1, 1, &zero);
  LLVMValueRef at = blu_attr_int(&s.attrs, "reverse", 0) ? LLVMBuildSub(k->e.b, blu_cuda_number(c, n - 1), l.i, "") : l.i;
  LLVMValueRef index = blu_cuda_add(c, start, blu_cuda_mul(c, at, inner));
  BluEmitVal total = sum(c, load(c, 0, index), (BluEmitVal){.elem = s.in[0].elem, .u.v = l.phi[0]});
  blu_emit_store(&k->e, total.elem, total.u.v, k->place[k->nin], index, 1);
  LLVMValueRef next = total.u.v;
  blu_loop_end(&k->e, &l, &next);
  blu_cuda_end_if(c, after);
}

/* ---- scatter_add(x, ids, u) ---- */

/* Ids that are this row, of up to 32 from `first` on, as bits: each thread of a warp looks at one of them. Threads of a warp have one row. */
static LLVMValueRef matches(Cuda *c, LLVMValueRef row, LLVMValueRef first, int64_t ids) {
  Kernel *k = &c->k;
  LLVMBuilderRef b = k->e.b;
  LLVMTypeRef i32 = LLVMInt32TypeInContext(k->e.ctx);
  LLVMValueRef lane = LLVMBuildAnd(b, c->thread, blu_cuda_number(c, CUDA_WARP - 1), ""), at = blu_cuda_add(c, first, lane);
  LLVMValueRef exists = blu_cuda_less(c, at, blu_cuda_number(c, ids));
  BluEmitVal id = load(c, 1, LLVMBuildSelect(b, exists, at, blu_cuda_number(c, 0), ""));
  if (id.elem != BLU_I64) id = prim(c, BLU_PRIM_CAST, BLU_I64, id, id);
  LLVMValueRef same = LLVMBuildAnd(b, exists, LLVMBuildICmp(b, LLVMIntEQ, id.u.v, row, ""), "");
  LLVMValueRef bit = LLVMBuildShl(b, LLVMConstInt(i32, 1, 0), LLVMBuildTrunc(b, lane, i32, ""), "");
  BluEmitVal bits = {.elem = BLU_I32, .u.v = LLVMBuildSelect(b, same, bit, LLVMConstNull(i32), "")};
  for (int apart = CUDA_WARP / 2; apart >= 1; apart /= 2)
    bits.u.v = LLVMBuildOr(b, bits.u.v, blu_cuda_exchange(c, bits, apart, CUDA_WARP).u.v, "");
  return bits.u.v;
}

/* total + the rows of u whose bits are set, the lowest first. */
static LLVMValueRef add_matches(Cuda *c, LLVMValueRef bits, LLVMValueRef first, LLVMValueRef total, BluElem t, int64_t columns, LLVMValueRef column) {
  Kernel *k = &c->k;
  Emit *e = &k->e;
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), head = LLVMAppendBasicBlockInContext(e->ctx, k->fn, ""),
                    body = LLVMAppendBasicBlockInContext(e->ctx, k->fn, ""), exit = LLVMAppendBasicBlockInContext(e->ctx, k->fn, "");
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  LLVMValueRef left = LLVMBuildPhi(e->b, i32, ""), so_far = LLVMBuildPhi(e->b, LLVMTypeOf(total), ""), zero = LLVMConstNull(i32);
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntNE, left, zero, ""), body, exit);
  LLVMPositionBuilderAtEnd(e->b, body);
  LLVMValueRef nonzero = LLVMConstInt(LLVMInt1TypeInContext(e->ctx), 1, 0);
  LLVMValueRef which = blu_emit_intrinsic(e, "llvm.cttz", i32, 2, (LLVMValueRef[]){left, nonzero});
  LLVMValueRef from = blu_cuda_add(c, first, LLVMBuildZExt(e->b, which, LLVMInt64TypeInContext(e->ctx), ""));
  BluEmitVal more = sum(c, (BluEmitVal){.elem = t, .u.v = so_far}, load(c, 2, blu_cuda_add(c, blu_cuda_mul(c, from, columns), column)));
  LLVMValueRef next = LLVMBuildAnd(e->b, left, LLVMBuildSub(e->b, left, LLVMConstInt(i32, 1, 0), ""), "");
  LLVMBasicBlockRef end = LLVMGetInsertBlock(e->b);
  LLVMValueRef later = more.u.v;
  LLVMBuildBr(e->b, head);
  LLVMAddIncoming(left, &bits, &before, 1), LLVMAddIncoming(left, &next, &end, 1);
  LLVMAddIncoming(so_far, &total, &before, 1), LLVMAddIncoming(so_far, &later, &end, 1);
  LLVMPositionBuilderAtEnd(e->b, exit);
  return so_far;
}

static void scatter_add(Cuda *c) {
  Kernel *k = &c->k;
  Emit *e = &k->e;
  BluType x = blu_value_type(operand(c, 0)), of = blu_value_type(operand(c, 1));
  int64_t rows = x.dim[0], columns = 1, ids = blu_type_count(&of), count = blu_type_count(&x);
  for (int d = 1; d < x.rank; d++) columns *= x.dim[d];
  if (!count) return;
  int64_t warps = blu_cuda_divide_up(columns, CUDA_WARP), total = rows * warps * CUDA_WARP; /* a warp has columns of one row */
  c->blocks = blu_cuda_divide_up(total, c->threads);
  LLVMValueRef point = blu_cuda_point(c, total < INT32_MAX && count < INT32_MAX ? total : INT64_MAX);
  LLVMBasicBlockRef after = blu_cuda_if(c, blu_cuda_less(c, point, blu_cuda_number(c, total)));
  LLVMValueRef row = blu_emit_quotient(e, point, warps * CUDA_WARP), column = blu_emit_remainder(e, point, warps * CUDA_WARP);
  LLVMValueRef exists = blu_cuda_less(c, column, blu_cuda_number(c, columns)), index = blu_cuda_add(c, blu_cuda_mul(c, row, columns), column);
  column = LLVMBuildSelect(e->b, exists, column, blu_cuda_number(c, 0), ""); /* whoever has no column looks through ids for the others */
  LLVMValueRef start = load(c, 0, blu_cuda_add(c, blu_cuda_mul(c, row, columns), column)).u.v;
  Loop l;
  blu_loop_begin(e, &l, k->fn, blu_cuda_number(c, 0), blu_cuda_number(c, ids), CUDA_WARP, 1, &start);
  LLVMValueRef next = add_matches(c, matches(c, row, l.i, ids), l.i, l.phi[0], x.elem, columns, column);
  blu_loop_end(e, &l, &next);
  LLVMBasicBlockRef stored = blu_cuda_if(c, exists);
  blu_emit_store(e, x.elem, l.phi[0], k->place[k->nin], index, 1);
  blu_cuda_end_if(c, stored);
  blu_cuda_end_if(c, after);
}

/* ---- top_k: k times the first of what comes after the last one found, in the order greatest first, then earliest first ---- */

/* Is a greater than b? NaN is greater than every number. */
static LLVMValueRef greater(Cuda *c, BluEmitVal a, BluEmitVal b) {
  LLVMValueRef more = prim(c, BLU_PRIM_GT, BLU_BOOL, a, b).u.v;
  if (!blu_elem_is_float(a.elem)) return more;
  LLVMValueRef a_nan = prim(c, BLU_PRIM_NE, BLU_BOOL, a, a).u.v, b_number = prim(c, BLU_PRIM_EQ, BLU_BOOL, b, b).u.v;
  return LLVMBuildOr(c->k.e.b, more, LLVMBuildAnd(c->k.e.b, a_nan, b_number, ""), "");
}

/* Does (a, i) come before (b, j)? An index below 0 is nothing, which all others come before. */
static LLVMValueRef before(Cuda *c, const State *a, const State *b) {
  LLVMBuilderRef B = c->k.e.b;
  LLVMValueRef zero = LLVMConstNull(LLVMInt32TypeInContext(c->k.e.ctx));
  LLVMValueRef tie = LLVMBuildNot(B, greater(c, b->v[0], a->v[0]), ""), earlier = LLVMBuildICmp(B, LLVMIntSLT, a->v[1].u.v, b->v[1].u.v, "");
  LLVMValueRef first = LLVMBuildOr(B, greater(c, a->v[0], b->v[0]), LLVMBuildAnd(B, tie, earlier, ""), "");
  LLVMValueRef some = LLVMBuildICmp(B, LLVMIntSGE, a->v[1].u.v, zero, ""), none = LLVMBuildICmp(B, LLVMIntSLT, b->v[1].u.v, zero, "");
  return LLVMBuildAnd(B, some, LLVMBuildOr(B, none, first, ""), "");
}

static State first_of(Cuda *c, void *user, State a, State b) {
  (void)user;
  LLVMValueRef take = before(c, &b, &a);
  for (int i = 0; i < 2; i++) a.v[i].u.v = LLVMBuildSelect(c->k.e.b, take, b.v[i].u.v, a.v[i].u.v, "");
  return a;
}

static void top_k(Cuda *c) {
  Kernel *k = &c->k;
  Emit *e = &k->e;
  BluSig s;
  blu_sig_of(k->info.main, &s);
  int64_t n = s.in[0].dim[s.in[0].rank - 1], count = blu_attr_int(&s.attrs, "k", 1), rows = blu_space_rows(&s.in[0]), cell = 0;
  BluElem t = s.in[0].elem;
  int group = n <= 8 * CUDA_WARP ? CUDA_WARP : blu_cuda_power(n / 8, 1024);
  int together = group > CUDA_WARP ? 1 : CUDA_BLOCK / group;
  c->threads = group * together;
  c->blocks = blu_cuda_divide_up(rows, together);
  if (!rows || !count) return;
  LLVMTypeRef i32 = LLVMInt32TypeInContext(e->ctx);
  LLVMValueRef own = LLVMBuildAnd(e->b, c->thread, blu_cuda_number(c, group - 1), "");
  LLVMValueRef row = blu_cuda_add(c, blu_cuda_mul(c, c->block, together), LLVMBuildUDiv(e->b, c->thread, blu_cuda_number(c, group), ""));
  LLVMBasicBlockRef after = blu_cuda_if(c, blu_cuda_less(c, row, blu_cuda_number(c, rows)));
  LLVMValueRef none[2] = {LLVMConstNull(blu_emit_type(e, t)), LLVMConstInt(i32, (uint64_t)-1, 1)};
  Loop pick, scan;
  blu_loop_begin(e, &pick, k->fn, blu_cuda_number(c, 0), blu_cuda_number(c, count), 1, 2, none);
  State last = {2, {{.elem = t, .u.v = pick.phi[0]}, {.elem = BLU_I32, .u.v = pick.phi[1]}}};
  blu_loop_begin(e, &scan, k->fn, own, blu_cuda_number(c, n), group, 2, none);
  BluEmitVal element = load(c, 0, blu_cuda_add(c, blu_cuda_mul(c, row, n), scan.i));
  State x = {2, {element, {.elem = BLU_I32, .u.v = LLVMBuildTrunc(e->b, scan.i, i32, "")}}};
  State best = {2, {{.elem = t, .u.v = scan.phi[0]}, {.elem = BLU_I32, .u.v = scan.phi[1]}}};
  LLVMValueRef fresh = LLVMBuildICmp(e->b, LLVMIntSLT, last.v[1].u.v, LLVMConstNull(i32), "");
  LLVMValueRef take = LLVMBuildAnd(e->b, LLVMBuildOr(e->b, fresh, before(c, &last, &x), ""), before(c, &x, &best), ""), found[2];
  for (int i = 0; i < 2; i++) found[i] = LLVMBuildSelect(e->b, take, x.v[i].u.v, best.v[i].u.v, "");
  blu_loop_end(e, &scan, found);
  for (int i = 0; i < 2; i++) best.v[i].u.v = scan.phi[i];
  best = blu_cuda_join(c, first_of, NULL, best, group, &cell);
  LLVMBasicBlockRef stored = blu_cuda_if(c, LLVMBuildICmp(e->b, LLVMIntEQ, own, blu_cuda_number(c, 0), ""));
  blu_emit_store(e, BLU_I32, best.v[1].u.v, k->place[k->nin], blu_cuda_add(c, blu_cuda_mul(c, row, count), pick.i), 1);
  blu_cuda_end_if(c, stored);
  if (group > CUDA_WARP) blu_cuda_barrier(c); /* the shared memory is written again */
  for (int i = 0; i < 2; i++) found[i] = best.v[i].u.v;
  blu_loop_end(e, &pick, found);
  blu_cuda_end_if(c, after);
  c->shared_bytes = cell * CUDA_CELL;
}

/* ---- by name ---- */

void blu_cuda_loop(Cuda *c) {
  static const struct { const char *op; void (*body)(Cuda *c); } loops[] = {{"cumsum", cumsum}, {"scatter_add", scatter_add}, {"top_k", top_k}};
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
    if (blu_is(c->k.info.main, loops[i].op)) loops[i].body(c);
}
