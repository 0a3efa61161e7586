/* target.c - x86-64 by level, and LLVM's back end. The code arrives as vectors already: early-cse is all that LLVM's optimiser
 * has to do, after inlining the functions that codegen/emit.c makes to be inlined, and everything that would change a rounding is off. */
#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "codegen/codegen.h"
#include <llvm-c/Support.h>
#include "dialects/memory.h"

static const BluCpu cpus[] = {
  {"x86-64-v2", 2, 128, {32 << 10, 256 << 10}, "", false}, {"x86-64-v3", 3, 256, {32 << 10, 512 << 10}, "", false},
  {"x86-64-v4", 4, 512, {32 << 10, 1 << 20}, "", false}};

static int host_level(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return 4;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") ? 3 : 2;
}

bool blu_cpu_parse(const char *name, BluCpu *cpu) {
  bool native = !strcmp(name, "native");
  for (int i = 0; i < 3; i++) {
    if (native ? cpus[i].level != host_level() : strcmp(name, cpus[i].name) && strcmp(name, cpus[i].name + strlen("x86-64-"))) continue;
    *cpu = cpus[i];
    static const int names[2] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE};
    for (int c = 0; native && c < 2; c++) { /* 0: the system doesn't know */
      long bytes = sysconf(names[c]);
      if (bytes >= cpu->cache[c] / 4) cpu->cache[c] = bytes;
    }
    char *host = native ? LLVMGetHostCPUName() : NULL;
    if (host) snprintf(cpu->tune, sizeof cpu->tune, "%s", host);
    LLVMDisposeMessage(host);
    return true;
  }
  return false;
}

static void initialize(void) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  /* Addresses are emitted as loops need them; searching for better ones took a fifth of the compile time and found none. */
  static const char *const options[] = {"bluc", "-disable-lsr"};
  LLVMParseCommandLineOptions(sizeof options / sizeof *options, options, NULL);
}

static LLVMTargetMachineRef machine(const BluCpu *cpu, char **error) {
  static const char triple[] = "x86_64-unknown-linux-musl";
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  LLVMTargetRef target;
  pthread_once(&once, initialize);
  if (LLVMGetTargetFromTriple(triple, &target, error)) return NULL;
  return LLVMCreateTargetMachine(target, triple, cpu->name, "", LLVMCodeGenLevelLess, LLVMRelocStatic, LLVMCodeModelDefault);
}

static void set_attribute(LLVMValueRef f, const char *name, const char *value) { LLVMAddTargetDependentFunctionAttr(f, name, value); }

void blu_target_prepare(LLVMModuleRef m, const BluCpu *cpu) {
  char *error = NULL, bits[16];
  LLVMTargetMachineRef tm = machine(cpu, &error);
  LLVMDisposeMessage(error);
  if (!tm) return;
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
  char *triple = LLVMGetTargetMachineTriple(tm);
  LLVMSetTarget(m, triple);
  LLVMSetModuleDataLayout(m, layout);
  snprintf(bits, sizeof bits, "%d", cpu->vector_bits);
  LLVMContextRef ctx = LLVMGetModuleContext(m);
  for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f)) {
    if (LLVMIsDeclaration(f)) continue;
    set_attribute(f, "target-cpu", cpu->name);
    if (*cpu->tune) set_attribute(f, "tune-cpu", cpu->tune);
    set_attribute(f, "prefer-vector-width", bits);
    set_attribute(f, "min-legal-vector-width", bits);
    LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(ctx, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
  }
  LLVMDisposeMessage(triple);
  LLVMDisposeTargetData(layout);
  LLVMDisposeTargetMachine(tm);
}

char *blu_target_emit(LLVMModuleRef m, const BluCpu *cpu, BluFileKind kind, size_t *size, char **error) {
  LLVMTargetMachineRef tm = machine(cpu, error);
  if (!tm) return NULL;
  char *bytes = NULL;
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef e = LLVMRunPasses(m, "always-inline,function(early-cse)", tm, options);
  LLVMDisposePassBuilderOptions(options);
  LLVMMemoryBufferRef buffer = NULL;
  if (e) {
    char *text = LLVMGetErrorMessage(e);
    *error = strdup(text);
    LLVMDisposeErrorMessage(text);
  } else if (!LLVMTargetMachineEmitToMemoryBuffer(tm, m, kind == BLU_FILE_OBJECT ? LLVMObjectFile : LLVMAssemblyFile, error, &buffer)) {
    *size = LLVMGetBufferSize(buffer);
    bytes = blu_alloc(*size + 1);
    memcpy(bytes, LLVMGetBufferStart(buffer), *size);
    bytes[*size] = 0;
    LLVMDisposeMemoryBuffer(buffer);
  }
  LLVMDisposeTargetMachine(tm);
  return bytes;
}

typedef struct { LLVMModuleRef module; const BluCpu *cpu; BluObject *object; char *error; pthread_t thread; bool started; } Task;

static void *emit_object(void *arg) {
  Task *t = arg;
  t->object->bytes = blu_target_emit(t->module, t->cpu, BLU_FILE_OBJECT, &t->object->size, &t->error);
  return NULL;
}

bool blu_target_emit_all(LLVMModuleRef *m, int n, const BluCpu *cpu, BluObject *object, char **error) {
  Task *task = blu_alloc_zeroed((size_t)n, sizeof *task);
  bool good = true;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 20); /* LLVM recurses, as deep as on the main thread */
  for (int i = 0; i < n; i++) {
    task[i] = (Task){.module = m[i], .cpu = cpu, .object = &object[i]};
    task[i].started = i && !pthread_create(&task[i].thread, &attributes, emit_object, &task[i]);
  }
  for (int i = 0; i < n; i++) /* the first here, and what got no thread */
    if (!task[i].started) emit_object(&task[i]);
  for (int i = 0; i < n; i++) {
    if (task[i].started) pthread_join(task[i].thread, NULL);
    good &= object[i].bytes != NULL;
    if (task[i].error && !*error) *error = task[i].error;
    else free(task[i].error);
  }
  pthread_attr_destroy(&attributes);
  free(task);
  return good;
}
