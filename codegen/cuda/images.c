/* images.c - the images of a program: PTX, and, if CUDA's assembler is found, machine code for each architecture that was asked for, with
 * what it says of each function: registers, spilled bytes, stack. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "codegen/codegen.h"
#include "dialects/memory.h"

extern char **environ;

/* ---- where ptxas is ---- */

static bool is_program(const char *path) {
  struct stat info;
  return !stat(path, &info) && S_ISREG(info.st_mode) && !access(path, X_OK);
}

/* A program on PATH; false: it isn't there. */
static bool on_path(const char *name, char *to, size_t size) {
  const char *path = getenv("PATH");
  for (const char *at = path ? path : ""; *at;) {
    size_t n = strcspn(at, ":");
    snprintf(to, size, "%.*s/%s", (int)n, n ? at : ".", name);
    if (is_program(to)) return true;
    at += n + (at[n] == ':');
  }
  return false;
}

bool blu_cuda_assembler(char *to, size_t size) {
  char nvcc[4096], real[4096];
  if (on_path("ptxas", to, size)) return true;
  if (on_path("nvcc", nvcc, sizeof nvcc) && realpath(nvcc, real)) { /* beside it */
    snprintf(to, size, "%.*s/ptxas", (int)(strrchr(real, '/') - real), real);
    if (is_program(to)) return true;
  }
  snprintf(to, size, "/usr/local/cuda/bin/ptxas");
  return is_program(to);
}

/* ---- running it ---- */

static char *read_all(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  char *text = blu_alloc(1);
  *size = 0;
  for (size_t n = 1; f && n;) {
    text = blu_realloc(text, *size + 65537);
    n = fread(text + *size, 1, 65536, f);
    *size += n;
  }
  text[*size] = 0;
  if (f) fclose(f);
  return text;
}

static bool write_all(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  bool good = fputs(text, f) >= 0;
  return !fclose(f) && good;
}

/* Both of its outputs go to a file. false: it could not be started, or failed. */
static bool run(char *const *argv, const char *output) {
  posix_spawn_file_actions_t actions;
  pid_t pid;
  int status = -1;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  int failed = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return errno = failed, false;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* ---- what it says ---- */

static BluCudaUse *use_of(BluCuda *to, const char *name, size_t n) {
  for (int i = 0; i < to->kernels; i++)
    if (strlen(to->kernel[i].name) == n && !strncmp(to->kernel[i].name, name, n)) return &to->kernel[i];
  return NULL;
}

/* Lines of "Function properties for NAME", "N bytes stack frame, N bytes spill stores, N bytes spill loads" and "Used N registers, ..". */
static void read_uses(BluCuda *to, const char *text) {
  static const char about[] = "Function properties for ", compiling[] = "Compiling entry function '";
  BluCudaUse *use = NULL;
  for (const char *line = text; *line;) {
    size_t n = strcspn(line, "\n");
    char one[512];
    snprintf(one, sizeof one, "%.*s", (int)n, line);
    const char *at;
    int stack, stores, loads, registers;
    if ((at = strstr(one, compiling))) use = use_of(to, at + strlen(compiling), strcspn(at + strlen(compiling), "'"));
    else if ((at = strstr(one, about))) use = use_of(to, at + strlen(about), strlen(at + strlen(about)));
    else if (use && sscanf(one, " %d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stack, &stores, &loads) == 3) {
      if (stores + loads > use->spilled) use->spilled = stores + loads;
      if (stack > use->stack) use->stack = stack;
    } else if (use && (at = strstr(one, "Used ")) && sscanf(at, "Used %d registers", &registers) == 1 && registers > use->registers) use->registers = registers;
    line += n + (line[n] == '\n');
  }
}

static char *first_line(const char *text) {
  const char *what = strstr(text, "error");
  if (!what) what = strstr(text, "fatal");
  if (!what) what = text;
  return strndup(what, strcspn(what, "\n"));
}

/* Machine code of one architecture from the PTX file in `folder`. */
static bool assemble(BluCuda *to, const char *program, const char *folder, const BluArch *arch, char **error) {
  char gpu[32], in[4200], out[4200], log[4200];
  snprintf(gpu, sizeof gpu, "-arch=%s", arch->name);
  snprintf(in, sizeof in, "%s/kernels.ptx", folder), snprintf(out, sizeof out, "%s/kernels.cubin", folder), snprintf(log, sizeof log, "%s/log", folder);
  char *argv[] = {(char *)program, "-v", gpu, in, "-o", out, NULL};
  size_t size, nlog;
  bool good = run(argv, log);
  char *said = read_all(log, &nlog), *why = good ? NULL : first_line(said), *bytes = read_all(out, &size);
  if (good) {
    read_uses(to, said);
    to->image[to->images++] = (BluCudaImage){.arch = arch->number, .bytes = bytes, .size = size};
  } else if (asprintf(error, "%s can't compile the kernels for %s: %s", program, arch->name, *why ? why : strerror(errno)) < 0) *error = NULL;
  if (!good) free(bytes);
  free(said), free(why);
  unlink(out), unlink(log);
  return good;
}

static bool assemble_all(BluCuda *to, const char *program, char **error) {
  const char *temporary = getenv("TMPDIR");
  char folder[4096], in[4200];
  snprintf(folder, sizeof folder, "%s/bluc.XXXXXX", temporary && *temporary ? temporary : "/tmp");
  bool good = mkdtemp(folder) != NULL;
  if (good) {
    snprintf(in, sizeof in, "%s/kernels.ptx", folder);
    good = write_all(in, to->ptx);
    for (int i = 0; i < to->archs->n && good; i++) good = assemble(to, program, folder, &to->archs->arch[i], error);
    unlink(in);
    rmdir(folder);
  }
  if (!good && !*error && asprintf(error, "%s: %s", folder, strerror(errno)) < 0) *error = NULL;
  return good;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

bool blu_cuda_images(BluCuda *to, char **error) {
  int least = to->archs->arch[0].number;
  char program[4096];
  double start = now_ms(), printed;
  to->ptx = blu_cuda_ptx(to->module, least, error);
  printed = now_ms();
  to->ptx_ms = printed - start;
  if (!to->ptx) return false;
  to->assembled = !to->only_ptx && blu_cuda_assembler(program, sizeof program);
  if (to->assembled && !assemble_all(to, program, error)) return false;
  to->assembler_ms = now_ms() - printed;
  to->image[to->images++] = (BluCudaImage){.least = least, .bytes = strdup(to->ptx), .size = strlen(to->ptx) + 1};
  return true;
}

void blu_cuda_free(BluCuda *to) {
  for (int i = 0; i < to->images; i++) free(to->image[i].bytes);
  for (int i = 0; i < to->kernels; i++) free(to->kernel[i].name);
  free(to->kernel), free(to->ptx);
}

void blu_cuda_print(const BluCuda *of, FILE *out) {
  fputs("// kernel: blocks x threads, shared bytes; ", out);
  if (of->assembled) fputs("registers, spilled bytes and stack's bytes of a thread, the most of", out);
  else fputs("no ptxas was found, which tells registers and spilled bytes", out);
  for (int i = 0; of->assembled && i < of->archs->n; i++) fprintf(out, "%s%s", i ? ", " : " ", of->archs->arch[i].name);
  fputs("\n", out);
  for (int i = 0; i < of->kernels; i++) {
    const BluCudaUse *u = &of->kernel[i];
    fprintf(out, "// %s: %lld x %d, %lld", u->name, (long long)u->blocks, u->threads, (long long)u->shared_bytes);
    if (of->assembled) fprintf(out, "; %d, %d, %d", u->registers, u->spilled, u->stack);
    fputs("\n", out);
  }
}
