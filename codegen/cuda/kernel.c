/* kernel.c - a device function around a kernel's body, and what the kinds of kernels share: indices, conditions, exchange between threads. */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/cuda/cuda.h"
#include "dialects/memory.h"
#include "mlir-c/BuiltinAttributes.h"

LLVMValueRef blu_cuda_number(Cuda *c, int64_t v) { return blu_emit_i64(&c->k.e, v); }
LLVMValueRef blu_cuda_add(Cuda *c, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(c->k.e.b, a, b, ""); }
LLVMValueRef blu_cuda_mul(Cuda *c, LLVMValueRef a, int64_t by) { return by == 1 ? a : LLVMBuildMul(c->k.e.b, a, blu_cuda_number(c, by), ""); }
LLVMValueRef blu_cuda_less(Cuda *c, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildICmp(c->k.e.b, LLVMIntSLT, a, b, ""); }
int64_t blu_cuda_divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int blu_cuda_power(int64_t n, int most) {
  int p = 1;
  while (p < n && p < most) p *= 2;
  return p;
}

LLVMValueRef blu_cuda_point(Cuda *c, int64_t total) {
  c->k.e.narrow = total < INT32_MAX - 1024;
  return blu_cuda_add(c, blu_cuda_mul(c, c->block, c->threads), c->thread);
}

/* ---- control flow: the row's builder stands in front of the branch to where the point's is ---- */

static void at_end(Cuda *c, LLVMBasicBlockRef block) {
  for (int l = LEVEL_ROW; l < LEVELS; l++) LLVMPositionBuilderAtEnd(c->k.builder[l], block);
}

void blu_cuda_split(Cuda *c) {
  Emit *e = &c->k.e;
  LLVMBasicBlockRef next = LLVMAppendBasicBlockInContext(e->ctx, c->k.fn, "");
  LLVMBuilderRef row = c->k.builder[LEVEL_ROW];
  LLVMPositionBuilderAtEnd(row, LLVMGetInsertBlock(e->b));
  LLVMPositionBuilderBefore(row, LLVMBuildBr(row, next));
  LLVMPositionBuilderAtEnd(c->k.builder[LEVEL_POINT], next);
}

LLVMBasicBlockRef blu_cuda_if(Cuda *c, LLVMValueRef condition) {
  Emit *e = &c->k.e;
  LLVMBasicBlockRef then = LLVMAppendBasicBlockInContext(e->ctx, c->k.fn, ""), after = LLVMAppendBasicBlockInContext(e->ctx, c->k.fn, "");
  LLVMBuildCondBr(e->b, condition, then, after);
  LLVMPositionBuilderAtEnd(e->b, then);
  return after;
}

void blu_cuda_end_if(Cuda *c, LLVMBasicBlockRef after) {
  LLVMBuildBr(c->k.e.b, after);
  LLVMPositionBuilderAtEnd(c->k.e.b, after);
}

/* ---- threads ---- */

static LLVMValueRef i32(Cuda *c, int64_t v) { return LLVMConstInt(LLVMInt32TypeInContext(c->k.e.ctx), (uint64_t)v, 1); }

static LLVMValueRef special_register(Cuda *c, const char *name) {
  return LLVMBuildZExt(c->k.e.b, blu_emit_intrinsic(&c->k.e, name, NULL, 0, NULL), LLVMInt64TypeInContext(c->k.e.ctx), "");
}

void blu_cuda_barrier(Cuda *c) { blu_emit_intrinsic(&c->k.e, "llvm.nvvm.barrier.cta.sync.aligned.all", NULL, 1, (LLVMValueRef[]){i32(c, 0)}); }

static LLVMValueRef cell_at(Cuda *c, LLVMValueRef index) {
  LLVMValueRef bytes = blu_cuda_mul(c, index, CUDA_CELL);
  return LLVMBuildGEP2(c->k.e.b, LLVMInt8TypeInContext(c->k.e.ctx), c->shared, &bytes, 1, "");
}

void blu_cuda_shared_store(Cuda *c, LLVMValueRef index, BluEmitVal v) {
  blu_emit_store(&c->k.e, v.elem, v.u.v, cell_at(c, index), blu_cuda_number(c, 0), 1);
}

BluEmitVal blu_cuda_shared_load(Cuda *c, LLVMValueRef index, BluElem t) {
  return (BluEmitVal){.elem = t, .u.v = blu_emit_load(&c->k.e, t, cell_at(c, index), blu_cuda_number(c, 0), 1)};
}

static LLVMValueRef exchange32(Cuda *c, LLVMValueRef v, int apart, int width) {
  LLVMBuilderRef b = c->k.e.b;
  LLVMValueRef mask = i32(c, -1);
  if (width < CUDA_WARP) { /* groups run apart: the threads of this one */
    LLVMValueRef lane = LLVMBuildAnd(b, LLVMBuildTrunc(b, c->thread, LLVMInt32TypeInContext(c->k.e.ctx), ""), i32(c, CUDA_WARP - width), "");
    mask = LLVMBuildShl(b, i32(c, ((int64_t)1 << width) - 1), lane, "");
  }
  return blu_emit_intrinsic(&c->k.e, "llvm.nvvm.shfl.sync.bfly.i32", NULL, 4, (LLVMValueRef[]){mask, v, i32(c, apart), i32(c, CUDA_WARP - 1)});
}

BluEmitVal blu_cuda_exchange(Cuda *c, BluEmitVal v, int apart, int width) {
  LLVMBuilderRef b = c->k.e.b;
  LLVMTypeRef own = LLVMTypeOf(v.u.v), narrow = LLVMInt32TypeInContext(c->k.e.ctx), wide = LLVMInt64TypeInContext(c->k.e.ctx);
  int bytes = blu_elem_bytes(v.elem);
  bool real = blu_elem_is_float(v.elem);
  LLVMValueRef bits = real ? LLVMBuildBitCast(b, v.u.v, bytes == 8 ? wide : narrow, "") : v.u.v;
  if (bytes == 8) {
    LLVMValueRef low = exchange32(c, LLVMBuildTrunc(b, bits, narrow, ""), apart, width);
    LLVMValueRef high = exchange32(c, LLVMBuildTrunc(b, LLVMBuildLShr(b, bits, blu_cuda_number(c, 32), ""), narrow, ""), apart, width);
    high = LLVMBuildShl(b, LLVMBuildZExt(b, high, wide, ""), blu_cuda_number(c, 32), "");
    bits = LLVMBuildOr(b, LLVMBuildZExt(b, low, wide, ""), high, "");
  } else {
    if (bytes < 4) bits = LLVMBuildZExt(b, bits, narrow, "");
    bits = exchange32(c, bits, apart, width);
    if (bytes < 4) bits = LLVMBuildTrunc(b, bits, own, "");
  }
  v.u.v = real ? LLVMBuildBitCast(b, bits, own, "") : bits;
  return v;
}

State blu_cuda_join(Cuda *c, CudaJoin *join, void *user, State s, int width, int64_t *cell) {
  Emit *e = &c->k.e;
  int within = width < CUDA_WARP ? width : CUDA_WARP, warps = width / CUDA_WARP;
  for (int apart = within / 2; apart >= 1; apart /= 2) {
    State other = s;
    for (int i = 0; i < s.n; i++) other.v[i] = blu_cuda_exchange(c, s.v[i], apart, within);
    s = join(c, user, s, other);
  }
  if (warps <= 1) return s;
  int64_t first = *cell;
  *cell += (int64_t)warps * s.n;
  LLVMValueRef warp = LLVMBuildLShr(e->b, c->thread, blu_cuda_number(c, 5), "");
  LLVMValueRef lane = LLVMBuildAnd(e->b, c->thread, blu_cuda_number(c, CUDA_WARP - 1), "");
  LLVMBasicBlockRef after = blu_cuda_if(c, LLVMBuildICmp(e->b, LLVMIntEQ, lane, blu_cuda_number(c, 0), ""));
  for (int i = 0; i < s.n; i++) blu_cuda_shared_store(c, blu_cuda_add(c, warp, blu_cuda_number(c, first + (int64_t)i * warps)), s.v[i]);
  blu_cuda_end_if(c, after);
  blu_cuda_barrier(c);
  State all = s;
  for (int w = 0; w < warps; w++) { /* each thread adds up all warps, in their order */
    State one = s;
    for (int i = 0; i < s.n; i++) one.v[i] = blu_cuda_shared_load(c, blu_cuda_number(c, first + (int64_t)i * warps + w), s.v[i].elem);
    all = w ? join(c, user, all, one) : one;
  }
  return all;
}

/* ---- the function ---- */

void blu_cuda_name(MlirOperation func, char *to, size_t size) {
  MlirStringRef name = mlirStringAttrGetValue(mlirOperationGetAttributeByName(func, mlirStringRefCreateFromCString("sym_name")));
  snprintf(to, size, "%.*s", (int)name.length, name.data);
  for (char *p = to; *p; p++)
    if (!isalnum((unsigned char)*p) && *p != '_') *p = '$';
}

/* All shared memory is dynamic: one array, whose size the launch gives. Where it begins is what an inlined function says, so that the
 * emulator's copy of a module (tests/cuda/retarget.h) has one place to change. */
static LLVMValueRef shared_memory(Cuda *c) {
  static const char name[] = "blu_shared_memory", attribute[] = "alwaysinline";
  LLVMContextRef ctx = c->k.e.ctx;
  LLVMModuleRef module = c->k.e.module;
  LLVMTypeRef type = LLVMFunctionType(LLVMPointerTypeInContext(ctx, CUDA_SHARED), NULL, 0, 0);
  LLVMValueRef f = LLVMGetNamedFunction(module, name);
  if (!f) {
    LLVMValueRef g = LLVMAddGlobalInAddressSpace(module, LLVMArrayType2(LLVMInt8TypeInContext(ctx), 0), "blu_shared", CUDA_SHARED);
    LLVMSetAlignment(g, CUDA_VECTOR_BYTES);
    f = LLVMAddFunction(module, name, type);
    LLVMSetLinkage(f, LLVMInternalLinkage);
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(ctx, LLVMGetEnumAttributeKindForName(attribute, strlen(attribute)), 0));
    LLVMBuilderRef b = LLVMCreateBuilderInContext(ctx);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(ctx, f, ""));
    LLVMBuildRet(b, g);
    LLVMDisposeBuilder(b);
  }
  return LLVMBuildCall2(c->k.e.b, type, f, NULL, 0, "");
}

enum { PTX_KERNEL = 71 }; /* LLVM's calling convention */

/* arena, then one offset for each operand and result. */
static void make_function(Cuda *c, const char *name) {
  LLVMContextRef ctx = c->k.e.ctx;
  int n = c->k.nin + c->k.nout + 1;
  LLVMTypeRef *args = blu_alloc((size_t)n * sizeof *args);
  args[0] = LLVMPointerTypeInContext(ctx, CUDA_GLOBAL);
  for (int i = 1; i < n; i++) args[i] = LLVMInt64TypeInContext(ctx);
  c->k.fn = LLVMAddFunction(c->k.e.module, name, LLVMFunctionType(LLVMVoidTypeInContext(ctx), args, (unsigned)n, 0));
  LLVMSetFunctionCallConv(c->k.fn, PTX_KERNEL);
  c->k.arena = LLVMGetParam(c->k.fn, 0);
  free(args);
}

static const struct { void (*body)(Cuda *c); } kinds[] = {
  [BLU_KERNEL_ROWS] = {blu_cuda_rows}, [BLU_KERNEL_COLUMNS] = {blu_cuda_columns}, [BLU_KERNEL_MATMUL] = {blu_cuda_matmul}, [BLU_KERNEL_MOVE] = {blu_cuda_move},
  [BLU_KERNEL_ATTENTION] = {blu_cuda_attention}};

/* What lives while a function is called (of double, for a sine's large arguments) takes registers which the assembler, left alone, spills for the sake
 * of one more block beside the others. */
static bool calls_function(LLVMValueRef fn) {
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
      LLVMValueRef to = LLVMIsACallInst(i) ? LLVMIsAFunction(LLVMGetCalledValue(i)) : NULL;
      if (to && !LLVMGetIntrinsicID(to)) return true;
    }
  return false;
}

LLVMValueRef blu_cuda_kernel_emit(LLVMModuleRef module, MlirOperation func, bool aligned, CudaShape *shape) {
  LLVMContextRef ctx = LLVMGetModuleContext(module);
  Cuda c = {.k = {.func = func, .block = blu_func_block(func), .nin = blu_func_nargs(func), .nout = blu_func_nresults(func)}, .aligned = aligned, .blocks = 1,
            .threads = CUDA_BLOCK};
  Kernel *k = &c.k;
  blu_emit_init(&k->e, ctx, module, 3 /* it has FMA */);
  bool is_kernel = blu_kernel_info(func, &k->info);
  assert(is_kernel);
  (void)is_kernel;
  k->e.align = aligned ? CUDA_VECTOR_BYTES : 0;
  char name[256];
  blu_cuda_name(func, name, sizeof name);
  make_function(&c, name);
  LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(ctx, k->fn, "entry"), body = LLVMAppendBasicBlockInContext(ctx, k->fn, "body");
  k->builder[LEVEL_CALL] = k->e.b;
  for (int l = LEVEL_ROW; l < LEVELS; l++) k->builder[l] = LLVMCreateBuilderInContext(ctx);
  LLVMPositionBuilderAtEnd(k->e.b, entry);
  LLVMPositionBuilderBefore(k->e.b, LLVMBuildBr(k->e.b, body));
  k->place = blu_alloc((size_t)(k->nin + k->nout + 1) * sizeof *k->place);
  for (int i = 0; i < k->nin + k->nout; i++) {
    LLVMValueRef offset = LLVMGetParam(k->fn, (unsigned)i + 1);
    k->place[i] = LLVMBuildGEP2(k->e.b, LLVMInt8TypeInContext(ctx), k->arena, &offset, 1, "");
  }
  c.shared = shared_memory(&c);
  c.thread = special_register(&c, "llvm.nvvm.read.ptx.sreg.tid.x");
  c.block = special_register(&c, "llvm.nvvm.read.ptx.sreg.ctaid.x");
  at_end(&c, body);
  blu_kernel_enter(k, LEVEL_POINT, 1);
  bool loop = k->info.kind == BLU_KERNEL_MOVE && !blu_op_of(k->info.main)->rule->move;
  if (loop) blu_cuda_loop(&c);
  else kinds[k->info.kind].body(&c);
  LLVMBuildRetVoid(k->e.b);
  char threads[16];
  snprintf(threads, sizeof threads, "%d", c.threads);
  LLVMAddTargetDependentFunctionAttr(k->fn, "nvvm.maxntid", threads); /* how many registers a thread may have follows from it */
  if (c.holds_much || calls_function(k->fn)) LLVMAddTargetDependentFunctionAttr(k->fn, "nvvm.minctasm", "1");
  if (c.blocks < 1) c.blocks = 1; /* nothing to do, which a launch can't say */
  *shape = (CudaShape){c.blocks, c.shared_bytes, c.threads};
  for (int l = 0; l < LEVELS; l++) {
    LLVMDisposeBuilder(k->builder[l]);
    free(k->memo[l].known);
  }
  free(k->place);
  blu_map_free(&k->stage);
  return k->fn;
}
