/* model_twin.c MODEL.blu FOLDER [-D NAME=VALUE]..: compiles a model for a device as bluc does, with the options that bluc has by itself, and writes the
 * twin of each image to FOLDER/HASH.so for the emulator. A trainer whose images are others finds no twin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frontend/frontend.h"
#include "passes/passes.h"
#include "twin.h"

static const char *const pipeline[] = {"bounds", "differentiate", "step", "simplify", "expand", "simplify", "fuse", "plan"};

static void must(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "model_twin: %s\n", what);
  exit(1);
}

static MlirModule plan(MlirContext ctx, const char *model, const char **defs, int ndefs) {
  BluFrontendOptions front = {.path = model, .ndefs = ndefs, .defs = defs};
  BluDiags *diags = blu_diags_make();
  MlirModule m = blu_frontend_build(ctx, &front, diags);
  must(!mlirModuleIsNull(m), "the model is wrong");
  blu_diags_free(diags);
  blu_module_set_target(m, "cuda");
  for (size_t i = 0; i < sizeof pipeline / sizeof *pipeline; i++) must(blu_pass_find(pipeline[i])->run(m), pipeline[i]);
  return m;
}

/* FNV-1a 64. */
static uint64_t hash_of(const char *bytes, size_t size) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++) h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
  return h;
}

static void link_shared(const char *object, const char *path) {
  pid_t child = fork();
  if (!child) {
    execl(BLU_LLD, BLU_LLD, "-shared", "--gc-sections", "-o", path, object, (char *)NULL);
    _exit(127);
  }
  int status;
  must(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status), "cannot link");
}

int main(int argc, char **argv) {
  must(argc >= 3, "which model, which folder?");
  const char *defs[32];
  int ndefs = 0;
  for (int i = 3; i + 1 < argc && ndefs < 32; i += 2) defs[ndefs++] = argv[i + 1];
  MlirContext ctx = mlirContextCreateWithThreading(false);
  blu_context_load(ctx);
  MlirModule m = plan(ctx, argv[1], defs, ndefs);
  BluCpu cpu;
  BluArchs archs;
  char *error = NULL, path[4096], object_path[4096];
  size_t size;
  must(blu_cpu_parse("v3", &cpu) && blu_cuda_parse("sm_80,sm_90", &archs), "cpu or archs");
  const char *name = strrchr(argv[1], '/') ? strrchr(argv[1], '/') + 1 : argv[1];
  BluCuda cuda = {.archs = &archs, .module = LLVMModuleCreateWithNameInContext(name, LLVMContextCreate())};
  LLVMModuleRef host = LLVMModuleCreateWithNameInContext(name, LLVMContextCreate());
  BluProgramInfo info = {.source = "", .source_name = name, .compiler = "twin", .cpu = &cpu, .cuda = &cuda};
  must(blu_program_emit(host, m, &info), "no code");
  LLVMModuleRef twin = twin_make(cuda.module, &cpu, &error);
  must(twin != NULL, error);
  char *object = twin_object(twin, &cpu, &size, &error);
  must(object != NULL, error);
  snprintf(object_path, sizeof object_path, "%s/twin.o", argv[2]);
  FILE *file = fopen(object_path, "wb");
  must(file && fwrite(object, 1, size, file) == size && !fclose(file), "cannot write");
  for (int i = 0; i < cuda.images; i++) {
    snprintf(path, sizeof path, "%s/%016llx.so", argv[2], (unsigned long long)hash_of(cuda.image[i].bytes, cuda.image[i].size));
    link_shared(object_path, path);
  }
  printf("%d images, %d kernels\n", cuda.images, cuda.kernels);
  return 0;
}
