/* kernel.c - see kernel.h. */
#include "codegen/kernel.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "mlir-c/BuiltinAttributes.h"
#include "dialects/memory.h"

/* ---- what is known at each level ---- */

void blu_kernel_define(Kernel *k, Level level, MlirValue v, BluViewKind kind, BluEmitVal value) {
  Memo *m = &k->memo[level];
  if (m->n == m->cap) m->known = blu_realloc(m->known, (size_t)(m->cap = m->cap ? 2 * m->cap : 16) * sizeof *m->known);
  m->known[m->n++] = (Known){v, kind, value};
}

void blu_kernel_forget(Kernel *k, Level level) { k->memo[level].n = 0; }

/* At `level` or outside of it; views that mean the same element in this space count as one. */
static const Known *find(const Kernel *k, Level level, MlirValue v, BluViewKind kind) {
  bool one_row = blu_space_rows(&k->info.space) == 1, one_column = blu_space_columns(&k->info.space) == 1;
  for (int l = 0; l <= (int)level; l++)
    for (int i = 0; i < k->memo[l].n; i++) {
      const Known *known = &k->memo[l].known[i];
      if (!mlirValueEqual(known->value, v)) continue;
      if (known->kind == kind) return known;
      if (known->kind == BLU_VIEW_ROW && ((one_row && kind == BLU_VIEW_SCALAR) || (one_column && kind == BLU_VIEW_FULL))) return known;
    }
  return NULL;
}

void blu_kernel_enter(Kernel *k, Level level, int lanes) {
  k->e.b = k->builder[level];
  k->e.lanes = lanes;
}

/* ---- addressing ---- */

static LLVMValueRef mul(Kernel *k, LLVMValueRef a, int64_t b) { return LLVMBuildMul(k->e.b, a, blu_emit_i64(&k->e, b), ""); }
static LLVMValueRef add(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(k->e.b, a, b, ""); }

LLVMValueRef blu_kernel_linear(Kernel *k) { return add(k, mul(k, k->row, blu_space_columns(&k->info.space)), k->column); }

/* What a row contributes to the index of a broadcast value of type `from`: its coordinates times the value's strides. */
static LLVMValueRef mapped_row(Kernel *k, const BluType *from) {
  const BluType *s = &k->info.space;
  LLVMValueRef index = blu_emit_i64(&k->e, 0);
  int64_t inner = 1, stride = from->rank ? from->dim[from->rank - 1] : 1;
  for (int d = s->rank - 2, f = from->rank - 2; f >= 0; d--, f--) {
    if (from->dim[f] != 1) {
      LLVMValueRef c = blu_emit_remainder(&k->e, blu_emit_quotient(&k->e, k->row, inner), s->dim[d]);
      index = add(k, index, mul(k, c, stride));
    }
    inner *= s->dim[d];
    stride *= from->dim[f];
  }
  return index;
}

static bool is_contiguous(const Kernel *k, const BluType *from) { /* a broadcast value that has the columns of the space */
  return from->rank && from->dim[from->rank - 1] == blu_space_columns(&k->info.space);
}

/* ---- evaluation ---- */

static Level level_of(const Kernel *k, BluViewKind kind, const BluType *from) {
  if (kind == BLU_VIEW_SCALAR) return blu_space_rows(&k->info.space) == 1 ? LEVEL_ROW : LEVEL_CALL; /* may be a reduction of the row */
  if (kind == BLU_VIEW_ROW) return LEVEL_ROW;
  return kind == BLU_VIEW_MAPPED && !is_contiguous(k, from) ? LEVEL_ROW : LEVEL_POINT;
}

static BluEmitVal load(Kernel *k, MlirValue arg, BluViewKind kind, const BluType *from) {
  BluType t = blu_value_type(arg);
  LLVMValueRef index = blu_emit_i64(&k->e, 0);
  if (kind == BLU_VIEW_FULL) index = blu_kernel_linear(k);
  if (kind == BLU_VIEW_ROW) index = k->row;
  if (kind == BLU_VIEW_MAPPED) {
    index = mapped_row(k, from);
    if (is_contiguous(k, from)) index = add(k, index, k->column);
  }
  LLVMValueRef base = k->place[mlirBlockArgumentGetArgNumber(arg)];
  if (k->ahead && kind == BLU_VIEW_FULL && k->e.lanes > 1) {
    LLVMValueRef below = add(k, index, blu_emit_i64(&k->e, blu_space_columns(&k->info.space)));
    blu_emit_prefetch(&k->e, LLVMBuildGEP2(k->e.b, blu_emit_stored(&k->e, t.elem), base, &below, 1, ""), 1);
  }
  return (BluEmitVal){.elem = t.elem, .u.v = blu_emit_load(&k->e, t.elem, base, index, k->e.lanes == 1 ? 1 : k->count)};
}

static BluEmitVal constant(Kernel *k, BluElem elem, double value) {
  BluEmit *b = &k->e.base;
  return blu_elem_is_float(elem) ? b->constant(b, elem, value) : b->bits(b, elem, (uint64_t)(int64_t)value);
}

/* Coordinate of the point along the axis: (index / inner) mod size. */
static BluEmitVal iota(Kernel *k, MlirOperation op, BluViewKind kind) {
  BluSig s;
  blu_sig_of(op, &s);
  BluEmit *b = &k->e.base;
  int64_t axis = blu_attr_int(&s.attrs, "axis", 0), inner = 1;
  for (int d = (int)axis + 1; d < s.out.rank; d++) inner *= s.out.dim[d];
  bool columns = kind == BLU_VIEW_FULL && axis == s.out.rank - 1 && s.out.dim[axis] == blu_space_columns(&k->info.space);
  k->e.linear = columns ? k->column : kind == BLU_VIEW_FULL ? blu_kernel_linear(k) : kind == BLU_VIEW_ROW ? k->row : blu_emit_i64(&k->e, 0);
  BluEmitVal i = b->index(b);
  LLVMValueRef at = i.u.v;
  if (inner != 1) at = LLVMBuildUDiv(k->e.b, at, blu_emit_splat(&k->e, blu_emit_i64(&k->e, inner)), "");
  if (!columns && axis != 0) at = LLVMBuildURem(k->e.b, at, blu_emit_splat(&k->e, blu_emit_i64(&k->e, s.out.dim[axis])), "");
  i.u.v = at;
  return b->prim(b, BLU_PRIM_CAST, s.out.elem, i, i, i);
}

static BluEmitVal compute(Kernel *k, MlirOperation op, BluViewKind kind, const BluType *from, Level level, int lanes) {
  BluSig s;
  BluEmitVal in[BLU_MAX_IN];
  blu_sig_of(op, &s);
  if (blu_is(op, "constant")) return constant(k, s.out.elem, blu_attr(&s.attrs, "value")->real);
  if (blu_is(op, "iota")) return iota(k, op, kind);
  for (int i = 0; i < s.nin; i++) {
    BluView at = {.kind = kind, .from = *from};
    if (blu_is_free(op)) blu_view_through(op, &k->info.space, at, &at);
    else if (s.in[i].rank == 0 && s.out.rank) at.kind = BLU_VIEW_SCALAR;
    in[i] = blu_kernel_eval(k, mlirOperationGetOperand(op, i), at.kind, &at.from);
    blu_kernel_enter(k, level, lanes);
  }
  if (blu_is(op, "reshape") || blu_is(op, "broadcast")) return in[0];
  k->e.linear = kind == BLU_VIEW_FULL ? blu_kernel_linear(k) : kind == BLU_VIEW_ROW ? k->row : blu_emit_i64(&k->e, 0);
  return blu_op_of(op)->rule->lower(&k->e.base, &s.attrs, in, s.nin);
}

BluEmitVal blu_kernel_eval(Kernel *k, MlirValue v, BluViewKind kind, const BluType *from) {
  Level level = level_of(k, kind, from);
  const Known *known = find(k, level, v, kind);
  if (known) return known->result;
  LLVMBuilderRef b = k->e.b;
  int lanes = k->e.lanes, point_lanes = lanes;
  if (level != LEVEL_POINT) point_lanes = 1;
  blu_kernel_enter(k, level, point_lanes);
  BluEmitVal result = mlirValueIsABlockArgument(v) ? load(k, v, kind, from) : compute(k, blu_def(v), kind, from, level, point_lanes);
  /* a value that is broadcast to the point depends on where it is seen from: only the plain views are remembered */
  if (kind != BLU_VIEW_MAPPED) blu_kernel_define(k, level, v, kind, result);
  k->e.b = b;
  k->e.lanes = lanes;
  return result;
}

BluElem blu_kernel_source(const Kernel *k, int i, LLVMValueRef *place) {
  MlirValue v = mlirOperationGetOperand(k->info.main, i);
  if (!mlirValueIsABlockArgument(v)) v = mlirOperationGetOperand(blu_def(v), 0); /* blu_is_widening: fuse.c leaves nothing else there */
  *place = k->place[mlirBlockArgumentGetArgNumber(v)]; /* one argument may be several operands */
  return blu_value_type(v).elem;
}

MlirValue blu_kernel_result(const Kernel *k, int i) { return mlirOperationGetOperand(mlirBlockGetTerminator(k->block), i); }

/* ---- the function ---- */

static const KernelKind *const kinds[] = {
  [BLU_KERNEL_ROWS] = &blu_kernel_rows, [BLU_KERNEL_COLUMNS] = &blu_kernel_columns,
  [BLU_KERNEL_MATMUL] = &blu_kernel_matmul, [BLU_KERNEL_MOVE] = &blu_kernel_move,
  [BLU_KERNEL_ATTENTION] = &blu_kernel_attention};

LLVMValueRef blu_kernel_emit(LLVMContextRef ctx, LLVMModuleRef module, MlirOperation func, const BluCpu *cpu, int64_t *pieces, int64_t *scratch) {
  Kernel k = {.func = func, .block = blu_func_block(func), .nin = blu_func_nargs(func), .nout = blu_func_nresults(func)};
  k.cpu = cpu;
  blu_emit_init(&k.e, ctx, module, cpu->level);
  bool is_kernel = blu_kernel_info(func, &k.info);
  assert(is_kernel);
  (void)is_kernel;
  LLVMTypeRef ptr = LLVMPointerTypeInContext(ctx, 0), i64 = LLVMInt64TypeInContext(ctx), args[] = {ptr, ptr, ptr, i64, i64};
  MlirAttribute name = mlirOperationGetAttributeByName(func, mlirStringRefCreateFromCString("sym_name"));
  k.fn = LLVMAddFunction(module, mlirStringAttrGetValue(name).data, LLVMFunctionType(LLVMVoidTypeInContext(ctx), args, 5, 0));
  LLVMSetLinkage(k.fn, LLVMInternalLinkage);
  k.arena = LLVMGetParam(k.fn, 0), k.offsets = LLVMGetParam(k.fn, 1), k.scratch = LLVMGetParam(k.fn, 2);
  k.first = LLVMGetParam(k.fn, 3), k.last = LLVMGetParam(k.fn, 4);

  /* The call level's builder stays in front of the branch to the body, so that scalars can be added at any time. */
  LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(ctx, k.fn, "entry"), body = LLVMAppendBasicBlockInContext(ctx, k.fn, "body");
  k.builder[LEVEL_CALL] = k.e.b;
  for (int l = LEVEL_ROW; l < LEVELS; l++) k.builder[l] = LLVMCreateBuilderInContext(ctx);
  LLVMPositionBuilderAtEnd(k.e.b, entry);
  LLVMPositionBuilderBefore(k.e.b, LLVMBuildBr(k.e.b, body));
  k.place = blu_alloc((size_t)(k.nin + k.nout + 1) * sizeof *k.place);
  for (int i = 0; i < k.nin + k.nout; i++) {
    LLVMValueRef at = blu_emit_i64(&k.e, i);
    LLVMValueRef offset = LLVMBuildLoad2(k.e.b, i64, LLVMBuildGEP2(k.e.b, i64, k.offsets, &at, 1, ""), "");
    k.place[i] = LLVMBuildGEP2(k.e.b, LLVMInt8TypeInContext(ctx), k.arena, &offset, 1, "");
  }
  LLVMPositionBuilderAtEnd(k.builder[LEVEL_ROW], body);
  LLVMPositionBuilderAtEnd(k.builder[LEVEL_POINT], body);
  const KernelKind *kind = kinds[k.info.kind];
  if (k.info.kind == BLU_KERNEL_MOVE && !blu_op_of(k.info.main)->rule->move) kind = &blu_kernel_loop;
  *pieces = kind->pieces(&k);
  *scratch = kind->scratch ? kind->scratch(&k) : 0;
  kind->body(&k);
  for (int l = 0; l < LEVELS; l++) {
    LLVMDisposeBuilder(k.builder[l]);
    free(k.memo[l].known);
  }
  free(k.place);
  blu_map_free(&k.stage);
  return k.fn;
}
