/* twins.c - writes the twins of a program's images: twins ARCHS FOLDER CC < PLANNED, where PLANNED is the planned module of a program for a device,
 * `bluc --target=cuda --emit=kernels MODEL | blu-opt -pass=plan`. The images are made anew, byte for byte as bluc makes them, for a twin's
 * name is its image's hash. CC links it. */
#define _GNU_SOURCE
#include <llvm-c/Target.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "retarget.h"

extern char **environ;

static char *read_input(void) {
  char *text = NULL;
  size_t size = 0;
  for (size_t n = 1; n; size += n) {
    text = realloc(text, size + 65537);
    n = fread(text + size, 1, 65536, stdin);
  }
  text[size] = 0;
  return text;
}

static uint64_t hash_of(const char *bytes, size_t size) { /* FNV-1a */
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++) h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
  return h;
}

static bool run(char *const *argv) {
  pid_t pid;
  int status = -1;
  return !posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

static bool write_file(const char *path, const char *bytes, size_t size) {
  FILE *f = fopen(path, "wb");
  bool good = f && fwrite(bytes, 1, size, f) == size;
  return f && !fclose(f) && good;
}

/* One shared object under the names of all images. */
static bool write_twins(const BluCuda *cuda, const char *object, size_t size, const char *folder, char *cc) {
  char from[4096], first[4096], name[4096];
  snprintf(from, sizeof from, "%s/twin.o", folder);
  bool good = write_file(from, object, size);
  for (int i = 0; i < cuda->images && good; i++) {
    const BluCudaImage *image = &cuda->image[i];
    size_t bytes = image->arch ? image->size : image->size - 1; /* PTX as text, without its end */
    snprintf(name, sizeof name, "%s/%016llx.so", folder, (unsigned long long)hash_of(image->bytes, bytes));
    unlink(name);
    if (i) good = !link(first, name);
    else good = run((char *[]){cc, "-shared", "-o", name, from, NULL});
    if (!i) strcpy(first, name);
  }
  unlink(from);
  return good;
}

int main(int argc, char **argv) {
  BluArchs archs;
  BluCpu cpu;
  if (argc != 4 || !blu_cuda_parse(argv[1], &archs)) return fprintf(stderr, "usage: twins ARCHS FOLDER CC < PLANNED\n"), 2;
  blu_cpu_parse("native", &cpu);
  MlirContext ctx = mlirContextCreateWithThreading(false);
  blu_context_load(ctx);
  char *text = read_input(), *error = NULL, *object = NULL;
  size_t size;
  MlirModule planned = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  free(text);
  if (mlirModuleIsNull(planned)) return 1;
  LLVMModuleRef host = LLVMModuleCreateWithNameInContext("host", LLVMContextCreate());
  BluCuda cuda = {.archs = &archs, .module = LLVMModuleCreateWithNameInContext("twins", LLVMContextCreate())};
  BluProgramInfo info = {.source = "", .source_name = "", .compiler = "", .cpu = &cpu, .cuda = &cuda};
  bool good = blu_program_emit(host, planned, &info);
  LLVMModuleRef twin = good ? twin_make(cuda.module, &cpu, &error) : NULL;
  if (twin) object = twin_object(twin, &cpu, &size, &error);
  good = object && write_twins(&cuda, object, size, argv[2], argv[3]);
  if (!good) fprintf(stderr, "twins: %s\n", error ? error : "failed");
  free(object), free(error);
  return !good;
}
