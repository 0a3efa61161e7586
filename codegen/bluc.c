/* bluc.c - the compiler, from the command line to the trainer. `compile` lists the stages in their order: it is the place to
 * begin reading. Each stage can be printed (--emit), each pass too (--dump-after). */
#define _GNU_SOURCE
#include <errno.h>
#include <llvm-c/Analysis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "mlir-c/Diagnostics.h"
#include "passes/passes.h"
#include "dialects/memory.h"

static const char version[] = "bluc " BLU_VERSION;

typedef enum {
  STAGE_AST, STAGE_BLU, STAGE_GRAD, STAGE_OPT, STAGE_KERNELS, STAGE_PLAN, STAGE_PTX, STAGE_LLVM, STAGE_ASM, STAGE_OBJECT, STAGE_PROGRAM
} Stage;

static const struct { const char *name, *what; } stages[] = {
  [STAGE_AST] = {"ast", "syntax tree"},
  [STAGE_BLU] = {"blu", "tensor ops, one function per entry"},
  [STAGE_GRAD] = {"grad", "loss, gradient, clipping and optimizer in one train step"},
  [STAGE_OPT] = {"opt", "simplified, composites expanded"},
  [STAGE_KERNELS] = {"kernels", "fused loop nests and matrix products; for a device what each takes, too"},
  [STAGE_PLAN] = {"plan", "places in the arena, launches in order"},
  [STAGE_PTX] = {"ptx", "a device's kernels, and what they take"},
  [STAGE_LLVM] = {"llvm", "LLVM IR of kernels and program table"},
  [STAGE_ASM] = {"asm", "assembly"},
  [STAGE_OBJECT] = {"obj", "object file"},
  [STAGE_PROGRAM] = {"program", "the trainer (default)"},
};

/* The passes of each stage, in their order. */
static const struct { Stage stage; const char *pass; } pipeline[] = {
  {STAGE_GRAD, "bounds"}, {STAGE_GRAD, "differentiate"}, {STAGE_GRAD, "step"},
  {STAGE_OPT, "simplify"}, {STAGE_OPT, "expand"}, {STAGE_OPT, "formats"}, {STAGE_OPT, "simplify"},
  {STAGE_KERNELS, "fuse"},
  {STAGE_PLAN, "plan"},
};

typedef enum { COMMAND_COMPILE, COMMAND_CHECK, COMMAND_FORMAT, COMMAND_VERIFY } Command;

typedef struct {
  Command command;
  const char *input, *output, *dump_after, *embed, *tokenizer;
  const char **defs, **files; /* files: of `fmt` */
  int ndefs, nfiles;
  BluDiagStyle style;
  Stage stage;
  BluCpu cpu;
  bool cuda;
  BluArchs archs;
  bool verify, poison, times, locations, holes, only_check /* fmt --check */;
  BluVerifyOptions judge; /* of `verify` */
} Options;

/* ---- printing ---- */

static void print_to(MlirStringRef s, void *file) { fwrite(s.data, 1, s.length, file); }

static void print_module(MlirModule m, bool locations, FILE *out) {
  MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
  if (locations) mlirOpPrintingFlagsEnableDebugInfo(flags, true, true);
  mlirOperationPrintWithFlags(mlirModuleGetOperation(m), flags, print_to, out);
  mlirOpPrintingFlagsDestroy(flags);
}

/* Errors of passes and of code generation arrive as MLIR diagnostics and become diagnostics of the user's file. */
typedef struct { char *text; size_t size; } Message;
static void append(MlirStringRef s, void *user) {
  Message *m = user;
  m->text = blu_realloc(m->text, m->size + s.length + 1);
  memcpy(m->text + m->size, s.data, s.length);
  m->text[m->size += s.length] = 0;
}
static MlirLogicalResult collect(MlirDiagnostic d, void *diags) {
  Message m = {blu_alloc_zeroed(1, 1), 0};
  mlirDiagnosticPrint(d, append, &m);
  blu_frontend_error_at(diags, mlirDiagnosticGetLocation(d), m.text);
  free(m.text);
  return mlirLogicalResultSuccess();
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* ---- the stages ---- */

static const char *base_name(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  char *text = NULL;
  size_t size = 0;
  for (size_t n = 1; f && n;) {
    text = blu_realloc(text, size + 65537);
    n = fread(text + size, 1, 65536, f);
    size += n;
    text[size] = 0;
  }
  if (f) fclose(f);
  return text;
}

/* Writes bytes to path ("-": standard output): all of them, or nothing stays. */
static bool write_file(const char *path, const char *bytes, size_t size) {
  bool console = !strcmp(path, "-");
  FILE *f = console ? stdout : fopen(path, "wb");
  bool good = f && fwrite(bytes, 1, size, f) == size;
  if (f) good &= console ? !fflush(f) : !fclose(f);
  if (!good) fprintf(stderr, "bluc: %s: %s\n", path, strerror(errno));
  if (!good && !console && f) remove(path);
  return good;
}

static bool run_pass(const Options *o, MlirModule m, const char *name) {
  double start = now_ms();
  if (!blu_pass_find(name)->run(m)) return false;
  if (o->times) fprintf(stderr, "%9.2f ms  %s\n", now_ms() - start, name);
  if (o->verify && !mlirOperationVerify(mlirModuleGetOperation(m))) {
    fprintf(stderr, "bluc: internal error: pass %s left an invalid module\n", name);
    print_module(m, o->locations, stderr);
    abort();
  }
  if (o->dump_after && !strcmp(o->dump_after, name)) {
    fprintf(stderr, "// after %s\n", name);
    print_module(m, o->locations, stderr);
  }
  return true;
}

static bool is_valid(LLVMModuleRef m) {
  char *error = NULL;
  bool bad = LLVMVerifyModule(m, LLVMReturnStatusAction, &error);
  if (bad) fprintf(stderr, "bluc: internal error: code generation made an invalid module: %s\n", error);
  LLVMDisposeMessage(error);
  return !bad;
}

/* Modules to objects to the program, or to one file of assembly or code. */
static bool write_code(const Options *o, LLVMModuleRef *module, int n, const BluAttached *attached) {
  BluObject object[BLU_LINK_MOST] = {{0}};
  char *error = NULL;
  double start = now_ms();
  bool good, program = o->stage == STAGE_PROGRAM;
  if (program) good = blu_target_emit_all(module, n, &o->cpu, object, &error);
  else {
    object->bytes = blu_target_emit(*module, &o->cpu, o->stage == STAGE_ASM ? BLU_FILE_ASSEMBLY : BLU_FILE_OBJECT, &object->size, &error);
    good = object->bytes != NULL;
  }
  if (o->times) fprintf(stderr, "%9.2f ms  machine code\n", now_ms() - start);
  start = now_ms();
  if (good && program) good = (o->cuda ? blu_link_device : blu_link)(o->output, object, n, attached, &error);
  else if (good) good = write_file(o->output, object->bytes, object->size);
  if (o->times && program) fprintf(stderr, "%9.2f ms  link\n", now_ms() - start);
  if (error) fprintf(stderr, "bluc: %s: %s\n", o->output, error);
  for (int i = 0; i < n; i++) free(object[i].bytes);
  free(error);
  return good;
}

/* Registers that lie in memory: worth knowing, and no error. */
static void warn_of_spills(const BluCuda *cuda, BluDiags *diags) {
  for (int i = 0; i < cuda->kernels; i++) {
    const BluCudaUse *u = &cuda->kernel[i];
    char text[512];
    if (!u->spilled) continue;
    snprintf(text, sizeof text, "the kernel `%s` needs more registers than a thread has: it moves %d bytes to memory and back", u->name, u->spilled);
    blu_frontend_warn_at(diags, u->at, text);
  }
}

/* A text of the program behind what is known of each kernel. */
static bool print_uses(const Options *o, const BluCuda *cuda, const char *program) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  blu_cuda_print(cuda, out);
  fputs(program, out);
  fclose(out);
  bool good = write_file(o->output, text, size);
  free(text);
  return good;
}

static bool print_llvm(const Options *o, LLVMModuleRef host, const BluCuda *cuda) {
  char *device = o->cuda ? LLVMPrintModuleToString(cuda->module) : NULL, *text = LLVMPrintModuleToString(host), *all = NULL;
  size_t size;
  FILE *out = open_memstream(&all, &size);
  fprintf(out, "%s%s%s", device ? device : "", device ? "\n" : "", text);
  fclose(out);
  bool good = write_file(o->output, all, size);
  LLVMDisposeMessage(text), LLVMDisposeMessage(device);
  free(all);
  return good;
}

/* The table in the first module; kernels in the others, whose number doesn't depend on the machine: the program has the same bytes
 * everywhere. What is printed is one module. kernels: text of the stage of that name, to be printed with what its code takes; else NULL. */
static bool generate(const Options *o, MlirModule m, const char *kernels, BluDiags *diags) {
  enum { PARTS = 4 };
  double start = now_ms();
  char *source = read_file(o->input), *error = NULL;
  LLVMModuleRef module[1 + PARTS];
  int n = o->stage == STAGE_PROGRAM && !o->cuda ? 1 + PARTS : 1;
  BluCuda cuda = {.archs = &o->archs, .only_ptx = o->stage == STAGE_LLVM || o->stage == STAGE_ASM};
  if (o->cuda) cuda.module = LLVMModuleCreateWithNameInContext(base_name(o->input), LLVMContextCreate());
  for (int i = 0; i < n; i++) module[i] = LLVMModuleCreateWithNameInContext(base_name(o->input), LLVMContextCreate());
  BluProgramInfo info = {.source = source ? source : "", .source_name = base_name(o->input), .compiler = version, .cpu = &o->cpu,
                         .part = module + 1, .parts = n - 1, .poison = o->poison, .cuda = o->cuda ? &cuda : NULL};
  BluAttached attached[BLU_ATTACHED] = {[BLU_ATTACH_WEIGHTS] = {-1, "blu_embedded"}, [BLU_ATTACH_TOKENIZER] = {-1, "blu_tokenizer"}};
  if (o->embed) attached[BLU_ATTACH_WEIGHTS].fd = blu_weights_open(o->embed, m, &info.embedded_bytes, &info.embedded_hash, &error);
  if (error) fprintf(stderr, "bluc: --embed %s\n", error);
  bool good = !error;
  if (good && o->tokenizer) attached[BLU_ATTACH_TOKENIZER].fd = blu_tokenizer_attach(o->tokenizer, m, &info.tokenizer_bytes, &error);
  if (good && error) fprintf(stderr, "bluc: --tokenizer %s\n", error);
  good = !error && blu_program_emit(*module, m, &info);
  free(error);
  bool valid = !o->verify || !good || !o->cuda || is_valid(cuda.module);
  for (int i = 0; i < n && good; i++) valid &= !o->verify || is_valid(module[i]);
  if (!valid) abort();
  for (int i = 0; i < n && good; i++) blu_target_prepare(module[i], &o->cpu);
  if (o->times) fprintf(stderr, "%9.2f ms  llvm\n", now_ms() - start - cuda.ptx_ms - cuda.assembler_ms);
  if (o->times && o->cuda) fprintf(stderr, "%9.2f ms  ptx\n%9.2f ms  ptxas\n", cuda.ptx_ms, cuda.assembler_ms);
  if (good && o->cuda) warn_of_spills(&cuda, diags);
  if (good && (kernels || o->stage == STAGE_PTX)) good = print_uses(o, &cuda, kernels ? kernels : cuda.ptx);
  else if (good && o->stage == STAGE_LLVM) good = print_llvm(o, *module, &cuda);
  else if (good) good = write_code(o, module, n, attached);
  if (o->cuda) {
    LLVMContextRef ctx = LLVMGetModuleContext(cuda.module);
    blu_cuda_free(&cuda);
    LLVMDisposeModule(cuda.module);
    LLVMContextDispose(ctx);
  }
  for (int i = 0; i < BLU_ATTACHED; i++)
    if (attached[i].fd >= 0) close(attached[i].fd);
  for (int i = 0; i < n; i++) {
    LLVMContextRef ctx = LLVMGetModuleContext(module[i]);
    LLVMDisposeModule(module[i]);
    LLVMContextDispose(ctx);
  }
  free(source);
  return good;
}

static char *module_text(const Options *o, MlirModule m) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  print_module(m, o->locations, out);
  fclose(out);
  return text;
}

static bool print_stage(const Options *o, MlirModule m) {
  char *text = o->stage == STAGE_PLAN ? blu_plan_print(m) : module_text(o, m);
  size_t size = strlen(text);
  bool good = write_file(o->output, text, size);
  free(text);
  return good;
}

static bool print_ast(const Options *o, const BluFrontendOptions *front, BluDiags *diags) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  bool good = blu_frontend_print_ast(front, diags, out);
  fclose(out);
  good = good && write_file(o->output, text, size);
  free(text);
  return good;
}

static bool verify_model(const Options *o, MlirModule m) {
  enum { PASSES = sizeof pipeline / sizeof *pipeline };
  const char *names[PASSES];
  for (int i = 0; i < PASSES; i++) names[i] = pipeline[i].pass;
  BluVerifyOptions judge = o->judge;
  judge.passes = names, judge.npasses = PASSES, judge.out = stdout;
  return blu_verify_model(m, &judge);
}

static bool has_data(MlirModule m, BluDiags *diags) {
  MlirLocation at;
  char *error = NULL;
  if (!blu_data_check(m, &at, &error)) blu_frontend_error_at(diags, at, error);
  bool good = !error;
  free(error);
  return good;
}

static bool compile(const Options *o, MlirContext ctx, BluDiags *diags) {
  BluFrontendOptions front = {.path = o->input, .ndefs = o->ndefs, .defs = o->defs, .holes = o->holes};
  if (o->stage == STAGE_AST) return print_ast(o, &front, diags);

  double start = now_ms();
  MlirModule m = blu_frontend_build(ctx, &front, diags);
  if (mlirModuleIsNull(m)) return false;
  if (!has_data(m, diags)) return mlirModuleDestroy(m), false;
  if (o->times) fprintf(stderr, "%9.2f ms  front end\n", now_ms() - start);
  if (o->command == COMMAND_CHECK) return mlirModuleDestroy(m), true;
  if (o->cuda) blu_module_set_target(m, "cuda");

  MlirDiagnosticHandlerID handler = mlirContextAttachDiagnosticHandler(ctx, collect, diags, NULL);
  bool judged = o->command == COMMAND_VERIFY, good = !judged || verify_model(o, m);
  for (size_t i = 0; i < sizeof pipeline / sizeof *pipeline && pipeline[i].stage <= o->stage && good && !judged; i++)
    good = run_pass(o, m, pipeline[i].pass);
  bool uses = o->cuda && o->stage == STAGE_KERNELS && good && !judged;
  char *kernels = uses ? module_text(o, m) : NULL;
  if (uses) good = blu_pass_find("plan")->run(m); /* places decide how wide a kernel's accesses may be */
  if (good && !judged) good = uses || o->stage > STAGE_PLAN ? generate(o, m, kernels, diags) : print_stage(o, m);
  free(kernels);
  mlirContextDetachDiagnosticHandler(ctx, handler);
  mlirModuleDestroy(m);
  return good;
}

/* ---- bluc fmt ---- */

/* Replaces a file in one step: a reader sees the old text or the new one, whatever happens. Links and modes stay. */
static bool replace_file(const char *link, const char *text) {
  struct stat old;
  char *path = realpath(link, NULL);
  if (!path || stat(path, &old)) return fprintf(stderr, "bluc: %s: %s\n", link, strerror(errno)), free(path), false;
  size_t n = strlen(path);
  char *fresh = blu_alloc(n + 8);
  memcpy(fresh, path, n);
  strcpy(fresh + n, ".fmt~");
  bool good = write_file(fresh, text, strlen(text));
  if (good && (chmod(fresh, old.st_mode & 07777) || rename(fresh, path))) {
    fprintf(stderr, "bluc: %s: %s\n", link, strerror(errno));
    remove(fresh);
    good = false;
  }
  free(fresh), free(path);
  return good;
}

static bool format_files(const Options *o, BluDiags *diags) {
  bool good = true;
  for (int i = 0; i < o->nfiles; i++) {
    bool console = !strcmp(o->files[i], "-"), changed = false;
    BluFrontendOptions front = {.path = console ? "/dev/stdin" : o->files[i]};
    const char *text = blu_frontend_format(&front, diags, &changed);
    if (!text) good = false;
    else if (o->only_check) good &= !changed;
    if (text && changed && o->only_check) fprintf(stderr, "bluc: %s: not in canonical layout\n", o->files[i]);
    if (text && !o->only_check && console) good &= write_file("-", text, strlen(text));
    else if (text && changed && !o->only_check) good &= replace_file(o->files[i], text);
  }
  return good;
}

/* ---- the command line ---- */

static int usage(FILE *out, int status) {
  fprintf(out, "usage: bluc [options] MODEL.blu            make a trainer\n"
    "       bluc check [options] MODEL.blu      report errors and warnings, and make nothing\n"
    "       bluc verify [options] MODEL.blu     compare gradients with differences of the loss, and every pass with the model before it\n"
    "       bluc fmt [--check] FILE.blu..       put files into the canonical layout; - is standard input\n"
    "       bluc tokenize [options] TEXT..      make shards of tokens from texts, to train on (see bluc tokenize --help)\n"
    "       bluc --explain E0303                what an error code means\n\n"
    "Compiles a model description into one self-contained program that trains, evaluates and describes the model.\n\n"
    "  -o FILE             the trainer's name (default: the model's, without .blu); with --emit, where to print (default: -)\n"
    "  -D NAME=VALUE       replace a `const` of the file\n"
    "  --embed FILE        put the parameters of a safetensors file into the trainer: it starts with them\n"
    "  --tokenizer FILE    put a tokenizer.json into the trainer, whose command sample then needs none\n"
    "  --cpu=LEVEL         v2, v3 (default), v4 (x86-64 levels) or native: the highest that this machine has, for its caches\n"
    "  --target=TARGET     cpu (default) or cuda: the trainer computes on a GPU, and --cpu is for the code around it\n"
    "  --arch=ARCHS        with --target=cuda: which GPUs get machine code, if ptxas is found; newer ones and all others than the\n"
    "                      oldest get PTX, which their driver compiles (default: sm_80,sm_90); known:\n"
    "                      sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_120\n"
    "  --emit=STAGE        print a stage in place of making the program:\n");
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) fprintf(out, "      %-15s %s\n", stages[i].name, stages[i].what);
  fprintf(out, "  --dump-after=PASS   print the IR after a pass, to standard error; passes:\n");
  for (const BluPass *p = blu_passes; p->name; p++) fprintf(out, "      %-15s %s\n", p->name, p->summary);
  fprintf(out, "  --verify-each       check the IR after each pass\n"
    "  --poison            fill memory with NaN once nobody needs it any more: a trainer that must learn the same, more slowly\n"
    "  --locations         print locations with the IR\n"
    "  --time              how long each stage takes, to standard error\n"
    "  --holes             print what each `_` in a type stands for\n"
    "  --diagnostics=FORM  text (default; in colours on a terminal) or json: one object a line, to standard error\n"
    "  --seed=N            verify: other random numbers (default 1)\n"
    "  --rounds=N          verify: how often, each time with other numbers (default 2)\n"
    "  --version, --help\n\n"
    "examples:\n"
    "  bluc models/fashion.blu -o fashion && ./fashion train --data /usr/share/datasets/fashion-mnist\n"
    "  bluc -D B=256 models/fashion.blu    another batch size\n"
    "  bluc --embed w.safetensors models/fashion.blu   a trainer that knows already\n"
    "  bluc check models/fashion.blu       is it right?\n"
    "  bluc verify models/fashion.blu      are its gradients right, and the compiler?\n"
    "  bluc --emit=blu models/fashion.blu  the model as tensor operations\n"
    "  bluc fmt --check models/*.blu       is the layout canonical?\n"
    "exit status: 0 good, 1 the program has errors or can't be written, or a check of verify failed, 2 usage\n");
  return status;
}

static int complain(const char *what, const char *arg) {
  fprintf(stderr, "bluc: %s%s%s%s (see bluc --help)\n", what, *arg ? " '" : "", arg, *arg ? "'" : "");
  return 2;
}

/* The same, with the name that was probably meant. */
static int unknown(const char *what, const char *arg, int n, const char *const *names) {
  const char *near = blu_frontend_nearest(arg, n, names);
  if (!near) return complain(what, arg);
  fprintf(stderr, "bluc: %s '%s'; did you mean '%s'?\n", what, arg, near);
  return 2;
}

static int unknown_option(const char *arg) {
  static const char *const options[] = {"--cpu", "--target", "--arch", "--emit", "--dump-after", "--verify-each", "--poison", "--locations", "--time",
                                        "--holes", "--diagnostics", "--explain", "--embed", "--tokenizer", "--version", "--help", "--check", "--seed",
                                        "--rounds"};
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(arg, "="), arg);
  return unknown("unknown option", name, sizeof options / sizeof *options, options);
}

static int complain_of_arch(const char *arg) {
  fprintf(stderr, "bluc: --arch takes some of %s, with commas between them, not '%s'\n", blu_cuda_archs, arg);
  return 2;
}

static int unknown_stage(const char *arg) {
  enum { STAGES = sizeof stages / sizeof *stages };
  const char *names[STAGES];
  for (int i = 0; i < STAGES; i++) names[i] = stages[i].name;
  return unknown("no stage is called", arg, STAGES, names);
}

static int unknown_pass(const char *arg) {
  enum { MOST = 64 };
  const char *names[MOST];
  int n = 0;
  for (const BluPass *p = blu_passes; p->name && n < MOST; p++) names[n++] = p->name;
  return unknown("no pass is called", arg, n, names);
}

/* The value of --name=VALUE, or of --name VALUE; NULL: a is another option. */
static const char *value_of(const char *name, int argc, char **argv, int *i) {
  size_t n = strlen(name);
  if (strncmp(argv[*i], name, n)) return NULL;
  if (argv[*i][n] == '=') return argv[*i] + n + 1;
  if (argv[*i][n]) return NULL;
  return *i + 1 < argc ? argv[++*i] : "";
}

/* Colours where a person looks on: a terminal that has them, and nobody has asked for none (no-color.org). */
static BluDiagStyle default_style(void) {
  const char *term = getenv("TERM"), *none = getenv("NO_COLOR");
  bool plain = (none && *none) || !term || !strcmp(term, "dumb") || !isatty(STDERR_FILENO);
  return plain ? BLU_DIAGS_TEXT : BLU_DIAGS_COLOURS;
}

static int parse_command(Options *o, const char *word) {
  if (!strcmp(word, "check")) o->command = COMMAND_CHECK;
  else if (!strcmp(word, "fmt")) o->command = COMMAND_FORMAT;
  else if (!strcmp(word, "verify")) o->command = COMMAND_VERIFY;
  return o->command != COMMAND_COMPILE;
}

/* A whole number in [least, most]; false: the text is none. */
static bool parse_number(const char *text, long long least, long long most, long long *v) {
  char *end;
  errno = 0;
  *v = strtoll(text, &end, 10);
  return end != text && !*end && !errno && *v >= least && *v <= most;
}

/* 0: go on; else the exit status + 1. */
static int parse(Options *o, int argc, char **argv) {
  const char *v;
  long long number;
  for (int i = 1 + (argc > 1 && parse_command(o, argv[1])); i < argc; i++) {
    const char *a = argv[i];
    if (!strcmp(a, "--help") || !strcmp(a, "-h")) return usage(stdout, 0) + 1;
    if (!strcmp(a, "--version")) return puts(version), 1;
    if (!strcmp(a, "--verify-each")) o->verify = true;
    else if (!strcmp(a, "--poison")) o->poison = true;
    else if (!strcmp(a, "--time")) o->times = true;
    else if (!strcmp(a, "--holes")) o->holes = true;
    else if (!strcmp(a, "--check") && o->command == COMMAND_FORMAT) o->only_check = true;
    else if (!strcmp(a, "--locations")) o->locations = true;
    else if ((v = value_of("--explain", argc, argv, &i))) {
      const char *text = blu_diag_explain(v);
      if (!text) return complain("no error has the code", v) + 1;
      return puts(text), 1;
    } else if ((v = value_of("--diagnostics", argc, argv, &i))) {
      if (!strcmp(v, "json")) o->style = BLU_DIAGS_JSON;
      else if (strcmp(v, "text")) return complain("--diagnostics takes text or json, not", v) + 1;
    } else if ((v = value_of("--embed", argc, argv, &i))) {
      if (!*v) return complain("--embed takes a file name", "") + 1;
      o->embed = v;
    } else if ((v = value_of("--tokenizer", argc, argv, &i))) {
      if (!*v) return complain("--tokenizer takes a file name", "") + 1;
      o->tokenizer = v;
    } else if (o->command == COMMAND_VERIFY && (v = value_of("--seed", argc, argv, &i))) {
      if (!parse_number(v, 0, INT64_MAX, &number)) return complain("--seed takes a number, not", v) + 1;
      o->judge.seed = (uint64_t)number;
    } else if (o->command == COMMAND_VERIFY && (v = value_of("--rounds", argc, argv, &i))) {
      if (!parse_number(v, 1, 1000, &number)) return complain("--rounds takes a number from 1 to 1000, not", v) + 1;
      o->judge.rounds = (int)number;
    } else if ((v = value_of("--cpu", argc, argv, &i))) {
      if (!blu_cpu_parse(v, &o->cpu)) return complain("--cpu takes v2, v3, v4 or native, not", v) + 1;
    } else if ((v = value_of("--target", argc, argv, &i))) {
      if (strcmp(v, "cpu") && strcmp(v, "cuda")) return complain("--target takes cpu or cuda, not", v) + 1;
      o->cuda = !strcmp(v, "cuda");
    } else if ((v = value_of("--arch", argc, argv, &i))) {
      if (!blu_cuda_parse(v, &o->archs)) return complain_of_arch(v) + 1;
    } else if ((v = value_of("--dump-after", argc, argv, &i))) {
      if (!blu_pass_find(v)) return unknown_pass(v) + 1;
      o->dump_after = v;
    } else if ((v = value_of("--emit", argc, argv, &i))) {
      size_t s = 0;
      while (s < sizeof stages / sizeof *stages && strcmp(v, stages[s].name)) s++;
      if (s == sizeof stages / sizeof *stages) return unknown_stage(v) + 1;
      o->stage = (Stage)s;
    } else if ((v = value_of("-o", argc, argv, &i))) {
      o->output = v;
    } else if (!strncmp(a, "-D", 2)) {
      v = a[2] ? a + 2 : i + 1 < argc ? argv[++i] : "";
      if (!strchr(v, '=')) return complain("-D takes NAME=VALUE, not", v) + 1;
      o->defs[o->ndefs++] = v;
    } else if (a[0] == '-' && a[1]) return unknown_option(a) + 1;
    else if (o->command == COMMAND_FORMAT) o->files[o->nfiles++] = a;
    else if (o->input) return complain("one model at a time; a second is", a) + 1;
    else o->input = a;
  }
  if (o->command == COMMAND_FORMAT) return o->nfiles ? 0 : complain("which files?", "") + 1;
  if (!o->input) return complain("which model?", "") + 1;
  if (o->embed && (o->command != COMMAND_COMPILE || o->stage != STAGE_PROGRAM)) return complain("--embed is for making a trainer", "") + 1;
  if (o->tokenizer && (o->command != COMMAND_COMPILE || o->stage != STAGE_PROGRAM)) return complain("--tokenizer is for making a trainer", "") + 1;
  if (o->archs.n && !o->cuda) return complain("--arch goes with --target=cuda", "") + 1;
  if (o->stage == STAGE_PTX && !o->cuda) return complain("--emit=ptx goes with --target=cuda", "") + 1;
  if (!o->archs.n) blu_cuda_parse("sm_80,sm_90", &o->archs);
  if (o->command == COMMAND_VERIFY && (o->stage != STAGE_PROGRAM || o->output))
    return complain("verify makes nothing, so -o and --emit don't go with it", "") + 1;
  if (o->output && !*o->output) return complain("-o takes a file name", "") + 1;
  return 0;
}

/* fashion.blu -> fashion */
static char *default_output(const Options *o) {
  if (o->stage != STAGE_PROGRAM && o->stage != STAGE_OBJECT) return strdup("-");
  char *name = blu_alloc(strlen(base_name(o->input)) + 8);
  strcpy(name, base_name(o->input));
  size_t n = strlen(name);
  if (n > 4 && !strcmp(name + n - 4, ".blu")) name[n - 4] = 0;
  strcat(name, o->stage == STAGE_OBJECT ? ".o" : n > 4 && strlen(name) < n ? "" : ".out");
  return name;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "tokenize")) return blu_tokenize_main(argc - 2, argv + 2);
  Options o = {.stage = STAGE_PROGRAM, .style = default_style(), .judge = {.seed = 1, .rounds = 2}, .defs = blu_alloc_zeroed((size_t)argc, sizeof *o.defs),
               .files = blu_alloc_zeroed((size_t)argc, sizeof *o.files)};
  blu_cpu_parse("x86-64-v3", &o.cpu);
  int status = parse(&o, argc, argv);
  if (status) return free(o.defs), free(o.files), status - 1;
  char *output = o.output || o.command != COMMAND_COMPILE ? NULL : default_output(&o);
  if (output) o.output = output;

  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write */
  double start = now_ms();
  MlirContext ctx = mlirContextCreateWithThreading(false);
  blu_context_load(ctx);
  BluDiags *diags = blu_diags_make();
  bool good = o.command == COMMAND_FORMAT ? format_files(&o, diags) : compile(&o, ctx, diags);
  blu_diags_print_as(diags, stderr, o.style);
  if (o.times) fprintf(stderr, "%9.2f ms  in all\n", now_ms() - start);
  blu_diags_free(diags);
  mlirContextDestroy(ctx);
  free(output);
  free(o.defs), free(o.files);
  return good ? 0 : 1;
}
