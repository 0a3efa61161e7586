/* retarget.c - see retarget.h. */
#include "retarget.h"
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GLOBAL = 1, SHARED = 3, PTX_KERNEL = 71, MOST_ARGS = 8 };

typedef struct { LLVMContextRef ctx; LLVMModuleRef m; LLVMBuilderRef b; int site; char *error; } Twin;

static LLVMTypeRef i32(Twin *t) { return LLVMInt32TypeInContext(t->ctx); }
static LLVMTypeRef i64(Twin *t) { return LLVMInt64TypeInContext(t->ctx); }
static LLVMTypeRef ptr(Twin *t) { return LLVMPointerTypeInContext(t->ctx, 0); }
static LLVMValueRef number(Twin *t, int64_t v) { return LLVMConstInt(i32(t), (uint64_t)v, 1); }

static LLVMValueRef call(Twin *t, const char *name, LLVMTypeRef result, int n, LLVMValueRef *args) {
  LLVMTypeRef types[MOST_ARGS];
  for (int i = 0; i < n; i++) types[i] = LLVMTypeOf(args[i]);
  LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)n, 0);
  LLVMValueRef f = LLVMGetNamedFunction(t->m, name);
  if (!f) f = LLVMAddFunction(t->m, name, type);
  return LLVMBuildCall2(t->b, type, f, args, (unsigned)n, "");
}

/* ---- what only a device has ---- */

static const struct { const char *intrinsic, *function; int axis; } registers[] = {
  {"llvm.nvvm.read.ptx.sreg.tid.x", "blu_emu_thread", 0},   {"llvm.nvvm.read.ptx.sreg.tid.y", "blu_emu_thread", 1},
  {"llvm.nvvm.read.ptx.sreg.tid.z", "blu_emu_thread", 2},   {"llvm.nvvm.read.ptx.sreg.ctaid.x", "blu_emu_block", 0},
  {"llvm.nvvm.read.ptx.sreg.ctaid.y", "blu_emu_block", 1},  {"llvm.nvvm.read.ptx.sreg.ctaid.z", "blu_emu_block", 2},
  {"llvm.nvvm.read.ptx.sreg.ntid.x", "blu_emu_threads", 0}, {"llvm.nvvm.read.ptx.sreg.nctaid.x", "blu_emu_blocks", 0}};
static const char *const shuffles[] = {"llvm.nvvm.shfl.sync.idx.i32", "llvm.nvvm.shfl.sync.up.i32", "llvm.nvvm.shfl.sync.down.i32",
                                       "llvm.nvvm.shfl.sync.bfly.i32"};
static const char barrier[] = "llvm.nvvm.barrier.cta.sync.aligned.all";

static bool is_meeting(const char *name) { return !strncmp(name, "llvm.nvvm.shfl.", 15) || !strcmp(name, barrier); }

/* The call of a C function that does what the intrinsic `name` does, for the call o; NULL: there is none. */
static LLVMValueRef replacement(Twin *t, LLVMValueRef o, const char *name) {
  for (size_t i = 0; i < sizeof registers / sizeof *registers; i++)
    if (!strcmp(name, registers[i].intrinsic)) return call(t, registers[i].function, i32(t), 1, (LLVMValueRef[]){number(t, registers[i].axis)});
  if (!strcmp(name, barrier)) return call(t, "blu_emu_barrier", LLVMVoidTypeInContext(t->ctx), 1, (LLVMValueRef[]){number(t, t->site)});
  for (int k = 0; k < 4; k++) {
    if (strcmp(name, shuffles[k])) continue;
    LLVMValueRef args[6] = {number(t, k)};
    for (unsigned i = 0; i < 4; i++) args[1 + i] = LLVMGetOperand(o, i);
    args[5] = number(t, t->site);
    return call(t, "blu_emu_shuffle", i32(t), 6, args);
  }
  return NULL;
}

/* Replaces o if it is the call of a device's intrinsic; true: then it is gone. */
static bool replace(Twin *t, LLVMValueRef o, int *meets) {
  size_t n;
  LLVMValueRef callee = LLVMGetInstructionOpcode(o) == LLVMCall ? LLVMGetCalledValue(o) : NULL;
  const char *name = callee ? LLVMGetValueName2(callee, &n) : "";
  if (strncmp(name, "llvm.nvvm.", 10)) return false;
  *meets |= is_meeting(name);
  LLVMValueRef by = replacement(t, o, name);
  if (!by) {
    if (!t->error) t->error = strdup(name);
    return false;
  }
  if (LLVMGetTypeKind(LLVMTypeOf(o)) != LLVMVoidTypeKind) LLVMReplaceAllUsesWith(o, by);
  LLVMInstructionEraseFromParent(o);
  return true;
}

/* ---- memory ---- */

static void announce(Twin *t, LLVMValueRef o) {
  LLVMOpcode code = LLVMGetInstructionOpcode(o);
  if (code != LLVMLoad && code != LLVMStore) return;
  bool store = code == LLVMStore;
  LLVMValueRef at = LLVMGetOperand(o, store ? 1 : 0);
  unsigned space = LLVMGetPointerAddressSpace(LLVMTypeOf(at));
  if (space != GLOBAL && space != SHARED) return;
  LLVMTypeRef type = store ? LLVMTypeOf(LLVMGetOperand(o, 0)) : LLVMTypeOf(o);
  uint64_t bytes = LLVMStoreSizeOfType(LLVMGetModuleDataLayout(t->m), type);
  LLVMValueRef args[] = {LLVMBuildAddrSpaceCast(t->b, at, ptr(t), ""), LLVMConstInt(i64(t), bytes, 0), number(t, store), number(t, space == SHARED),
                         number(t, t->site)};
  call(t, "blu_emu_access", LLVMVoidTypeInContext(t->ctx), 5, args);
}

static void shared_memory(Twin *t) {
  LLVMValueRef f = LLVMGetNamedFunction(t->m, "blu_shared_memory");
  if (!f) return;
  LLVMValueRef ret = LLVMGetBasicBlockTerminator(LLVMGetEntryBasicBlock(f));
  LLVMPositionBuilderBefore(t->b, ret);
  LLVMValueRef at = call(t, "blu_emu_shared", ptr(t), 0, NULL);
  LLVMSetOperand(ret, 0, LLVMBuildAddrSpaceCast(t->b, at, LLVMPointerTypeInContext(t->ctx, SHARED), ""));
}

/* ---- functions ---- */

static void rewrite(Twin *t, LLVMValueRef f, int *meets) {
  for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block; block = LLVMGetNextBasicBlock(block))
    for (LLVMValueRef o = LLVMGetFirstInstruction(block), next; o; o = next) {
      next = LLVMGetNextInstruction(o);
      t->site++;
      LLVMPositionBuilderBefore(t->b, o);
      if (!replace(t, o, meets)) announce(t, o);
    }
}

static void constant(Twin *t, const char *of, const char *what, int value) {
  char name[300];
  snprintf(name, sizeof name, "%s.%s", of, what);
  LLVMValueRef g = LLVMAddGlobal(t->m, i32(t), name);
  LLVMSetInitializer(g, number(t, value));
  LLVMSetGlobalConstant(g, 1);
}

static void export_call(Twin *t, LLVMValueRef f, int meets) {
  size_t n;
  const char *name = LLVMGetValueName2(f, &n);
  char wrapped[300];
  unsigned count = LLVMCountParams(f);
  constant(t, name, "params", (int)count), constant(t, name, "meets", meets);
  snprintf(wrapped, sizeof wrapped, "%s.call", name);
  LLVMTypeRef arg = ptr(t);
  LLVMValueRef w = LLVMAddFunction(t->m, wrapped, LLVMFunctionType(LLVMVoidTypeInContext(t->ctx), &arg, 1, 0)), *args = calloc(count, sizeof *args);
  LLVMPositionBuilderAtEnd(t->b, LLVMAppendBasicBlockInContext(t->ctx, w, ""));
  for (unsigned i = 0; i < count; i++) {
    LLVMValueRef at = LLVMConstInt(i64(t), i, 0);
    args[i] = LLVMBuildLoad2(t->b, i64(t), LLVMBuildGEP2(t->b, i64(t), LLVMGetParam(w, 0), &at, 1, ""), "");
    if (!i) args[i] = LLVMBuildIntToPtr(t->b, args[i], LLVMTypeOf(LLVMGetParam(f, 0)), "");
  }
  LLVMBuildCall2(t->b, LLVMGlobalGetValueType(f), f, args, count, "");
  LLVMBuildRetVoid(t->b);
  free(args);
}

LLVMModuleRef twin_make(LLVMModuleRef device, const BluCpu *cpu, char **error) {
  Twin t = {.ctx = LLVMGetModuleContext(device), .m = LLVMCloneModule(device)};
  LLVMValueRef *kernel = NULL;
  int n = 0, *meets = NULL;
  t.b = LLVMCreateBuilderInContext(t.ctx);
  blu_target_prepare(t.m, cpu);
  for (LLVMValueRef f = LLVMGetFirstFunction(t.m); f; f = LLVMGetNextFunction(f)) {
    if (LLVMIsDeclaration(f)) continue;
    int own = 0;
    rewrite(&t, f, &own);
    if (LLVMGetFunctionCallConv(f) != PTX_KERNEL) continue;
    LLVMSetFunctionCallConv(f, LLVMCCallConv);
    kernel = realloc(kernel, (size_t)(n + 1) * sizeof *kernel), meets = realloc(meets, (size_t)(n + 1) * sizeof *meets);
    kernel[n] = f, meets[n++] = own;
  }
  shared_memory(&t);
  for (int i = 0; i < n; i++) export_call(&t, kernel[i], meets[i]);
  LLVMDisposeBuilder(t.b);
  free(kernel), free(meets);
  if (!t.error) return t.m;
  *error = t.error;
  LLVMDisposeModule(t.m);
  return NULL;
}

char *twin_object(LLVMModuleRef twin, const BluCpu *cpu, size_t *size, char **error) {
  LLVMTargetRef target;
  LLVMMemoryBufferRef buffer = NULL;
  char *bytes = NULL;
  if (LLVMGetTargetFromTriple(LLVMGetTarget(twin), &target, error)) return NULL;
  LLVMTargetMachineRef tm = LLVMCreateTargetMachine(target, LLVMGetTarget(twin), cpu->name, "", LLVMCodeGenLevelLess, LLVMRelocPIC, LLVMCodeModelDefault);
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef e = LLVMRunPasses(twin, "always-inline,function(early-cse)", tm, options);
  LLVMDisposePassBuilderOptions(options);
  if (e) *error = LLVMGetErrorMessage(e);
  else if (!LLVMTargetMachineEmitToMemoryBuffer(tm, twin, LLVMObjectFile, error, &buffer)) {
    *size = LLVMGetBufferSize(buffer);
    bytes = malloc(*size);
    memcpy(bytes, LLVMGetBufferStart(buffer), *size);
    LLVMDisposeMemoryBuffer(buffer);
  }
  LLVMDisposeTargetMachine(tm);
  return bytes;
}
