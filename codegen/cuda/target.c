/* target.c - CUDA's architectures, and from a module of device functions to PTX, by LLVM's back end in this process. As on the CPU, everything
 * that would change a rounding is off: no contraction, no approximate division or root, denormals kept. */
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/codegen.h"
#include "codegen/cuda/cuda.h"
#include "dialects/memory.h"

/* ptx: the version of PTX that first knows the architecture, which a driver must know at least. */
static const struct { BluArch arch; const char *ptx; } known[] = {
  {{"sm_80", 80}, "+ptx70"}, {{"sm_86", 86}, "+ptx71"}, {{"sm_89", 89}, "+ptx78"}, {{"sm_90", 90}, "+ptx78"}, {{"sm_90a", 90}, "+ptx80"},
  {{"sm_100", 100}, "+ptx86"}, {{"sm_120", 120}, "+ptx87"}};
enum { KNOWN = sizeof known / sizeof *known };

const char blu_cuda_archs[] = "sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_120";

/* The architecture that a word names, with or without "sm_"; -1: none. */
static int find(const char *word, size_t n) {
  for (int i = 0; i < KNOWN; i++) {
    const char *name = known[i].arch.name;
    if ((strlen(name) == n && !strncmp(name, word, n)) || (strlen(name) == n + 3 && !strncmp(name + 3, word, n))) return i;
  }
  return -1;
}

bool blu_cuda_parse(const char *list, BluArchs *to) {
  bool wanted[KNOWN] = {false};
  *to = (BluArchs){.n = 0};
  for (const char *at = list;; at++) {
    size_t n = strcspn(at, ",");
    int i = find(at, n);
    if (i < 0) return false;
    wanted[i] = true;
    at += n;
    if (!*at) break;
  }
  for (int i = 0; i < KNOWN; i++) /* in the table's order, each once */
    if (wanted[i]) to->arch[to->n++] = known[i].arch;
  return true;
}

static void initialize(void) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

/* The plain architecture of that number: code for sm_90 runs on what is newer, code for sm_90a nowhere else. */
static LLVMTargetMachineRef machine(int number, char **error) {
  static const char triple[] = "nvptx64-nvidia-cuda";
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  LLVMTargetRef target;
  int i = 0;
  while (known[i].arch.number != number) i++;
  pthread_once(&once, initialize);
  if (LLVMGetTargetFromTriple(triple, &target, error)) return NULL;
  return LLVMCreateTargetMachine(target, triple, known[i].arch.name, known[i].ptx, LLVMCodeGenLevelDefault, LLVMRelocDefault, LLVMCodeModelDefault);
}

static char *print(LLVMTargetMachineRef tm, LLVMModuleRef m, char **error) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef e = LLVMRunPasses(m, "always-inline,function(early-cse)", tm, options);
  LLVMDisposePassBuilderOptions(options);
  if (e) {
    char *text = LLVMGetErrorMessage(e);
    *error = strdup(text);
    LLVMDisposeErrorMessage(text);
    return NULL;
  }
  LLVMMemoryBufferRef buffer = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(tm, m, LLVMAssemblyFile, error, &buffer)) return NULL;
  size_t size = LLVMGetBufferSize(buffer);
  char *text = blu_alloc(size + 1);
  memcpy(text, LLVMGetBufferStart(buffer), size);
  text[size] = 0;
  LLVMDisposeMemoryBuffer(buffer);
  return text;
}

void blu_cuda_prepare(LLVMModuleRef m) {
  char *error = NULL;
  LLVMTargetMachineRef tm = machine(known[0].arch.number, &error);
  LLVMDisposeMessage(error);
  if (!tm) return;
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
  char *triple = LLVMGetTargetMachineTriple(tm);
  LLVMSetTarget(m, triple);
  LLVMSetModuleDataLayout(m, layout);
  LLVMDisposeMessage(triple);
  LLVMDisposeTargetData(layout);
  LLVMDisposeTargetMachine(tm);
}

char *blu_cuda_ptx(LLVMModuleRef m, int number, char **error) {
  LLVMTargetMachineRef tm = machine(number, error);
  if (!tm) return NULL;
  LLVMModuleRef copy = LLVMCloneModule(m); /* passes change it */
  char *text = print(tm, copy, error);
  LLVMDisposeModule(copy);
  LLVMDisposeTargetMachine(tm);
  return text;
}
