/* kernels_test.c - compiled code, run in the process: against the contract bit for bit, and against the references in double
 * within each op's tolerance. Shapes are chosen around the widths that the code is cut by; pieces run in a random order, as
 * threads would run them. Memory around every tensor is checked to be untouched. */
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/codegen.h"
#include "contract.h"
#include "passes/passes.h"
#include "runtime/abi.h"

static int programs, failures;
static uint64_t seed = 2026;
static uint64_t random_bits(void) { return (seed = seed * 6364136223846793005u + 1442695040888963407u) >> 16; }
static double uniform(double lo, double hi) { return lo + (hi - lo) * (double)(random_bits() & 0xffffffffu) * 0x1p-32; }

typedef struct { MlirContext ctx; BluCpu cpu; double lo, hi; int ihi; bool special; double tolerance; } Setting;

/* ---- one program: text -> passes -> code -> run ---- */

typedef struct { LLVMOrcLLJITRef jit; const BluProgram *program; } Loaded;

static bool fail(const char *what, const char *text) {
  failures++;
  printf("FAILED: %s in\n%s\n", what, text);
  return false;
}

static bool load(const Setting *set, MlirModule planned, Loaded *l) {
  LLVMOrcThreadSafeContextRef tsc = LLVMOrcCreateNewThreadSafeContext();
  LLVMContextRef ctx = LLVMContextCreate();
  LLVMModuleRef m = LLVMModuleCreateWithNameInContext("test", ctx);
  BluProgramInfo info = {.source = "", .source_name = "test", .compiler = "test", .cpu = &set->cpu};
  if (!blu_program_emit(m, planned, &info)) return false;
  blu_target_prepare(m, &set->cpu);
  char *error = NULL;
  size_t size;
  char *object = blu_target_emit(m, &set->cpu, BLU_FILE_OBJECT, &size, &error);
  LLVMDisposeModule(m);
  LLVMContextDispose(ctx);
  LLVMOrcDisposeThreadSafeContext(tsc);
  if (!object) return false;
  if (LLVMOrcCreateLLJIT(&l->jit, NULL)) return false;
  LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(l->jit);
  static const struct { const char *name; void *at; } runtime[] = {
    {"blu_rt_exp", (void *)blu_rt_exp}, {"blu_rt_log", (void *)blu_rt_log}, {"blu_rt_pow", (void *)blu_rt_pow}, {"blu_rt_sin", (void *)blu_rt_sin},
    {"blu_rt_cos", (void *)blu_rt_cos}, {"blu_rt_tanh", (void *)blu_rt_tanh}, {"memcpy", (void *)memcpy}, {"memset", (void *)memset},
    {"memmove", (void *)memmove}, {"fmaf", (void *)fmaf}, {"fma", (void *)fma}};
  LLVMOrcCSymbolMapPair pairs[sizeof runtime / sizeof *runtime];
  for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++)
    pairs[i] = (LLVMOrcCSymbolMapPair){LLVMOrcLLJITMangleAndIntern(l->jit, runtime[i].name),
                                       {(LLVMOrcExecutorAddress)(uintptr_t)runtime[i].at, {LLVMJITSymbolGenericFlagsExported, 0}}};
  LLVMOrcExecutorAddress at;
  bool good = !LLVMOrcJITDylibDefine(lib, LLVMOrcAbsoluteSymbols(pairs, sizeof pairs / sizeof *pairs)) &&
              !LLVMOrcLLJITAddObjectFile(l->jit, lib, LLVMCreateMemoryBufferWithMemoryRangeCopy(object, size, "test")) &&
              !LLVMOrcLLJITLookup(l->jit, &at, "blu_program");
  free(object);
  if (good) l->program = (const BluProgram *)(uintptr_t)at;
  return good;
}

/* Launches in order; pieces of each one by one or in runs, shuffled. */
static void run(const BluProgram *p, const BluFunction *f, char *arena, char *scratch) {
  for (int64_t i = 0; i < f->launches; i++) {
    int64_t n = f->launch[i].pieces, *order = malloc((size_t)n * sizeof *order);
    bool reversed = random_bits() & 1, whole = random_bits() & 1;
    for (int64_t k = 0; k < n; k++) order[k] = reversed ? n - 1 - k : k;
    memset(scratch, 0xff, (size_t)p->scratch_bytes);
    if (whole) f->launch[i].kernel(arena, f->launch[i].offset, scratch, 0, n);
    else for (int64_t k = 0; k < n; k++) f->launch[i].kernel(arena, f->launch[i].offset, scratch, order[k], order[k] + 1);
    free(order);
  }
}

static bool same_bits(const void *a, const void *b, BluElem e, int64_t i) {
  double x = contract_get(a, e, i), y = contract_get(b, e, i);
  if (isnan(x) && isnan(y)) return true; /* which NaN is not promised */
  int n = blu_elem_bytes(e);
  return !memcmp((const char *)a + i * n, (const char *)b + i * n, (size_t)n);
}

static bool compare(const Setting *set, const BluSlot *slot, const BluType *t, const char *arena, const void *exact, const double *ref, const char *text) {
  char what[256];
  for (int64_t i = 0, n = blu_type_count(t); i < n; i++) {
    double got = contract_get(arena + slot->offset, t->elem, i);
    if (set->cpu.level >= 3 && !same_bits(arena + slot->offset, exact, t->elem, i)) { /* level 2 has no FMA: other bits */
      snprintf(what, sizeof what, "element %lld is %.9g, the contract says %.9g", (long long)i, got, contract_get(exact, t->elem, i));
      return fail(what, text);
    }
    if (isinf(set->tolerance)) continue;
    double error = fabs(got - ref[i]) / fmax(1, fabs(ref[i]));
    bool equal = got == ref[i] || (isnan(got) && isnan(ref[i]));
    if (!equal && !(error <= set->tolerance)) {
      snprintf(what, sizeof what, "element %lld is %.9g, the reference %.9g: error %.2g", (long long)i, got, ref[i], error);
      return fail(what, text);
    }
  }
  return true;
}

enum { GUARD = 256 };

static bool check(const Setting *set, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool check(const Setting *set, const char *format, ...) {
  char text[8192];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  programs++;
  MlirModule m = mlirModuleCreateParse(set->ctx, mlirStringRefCreateFromCString(text));
  if (mlirModuleIsNull(m)) return fail("the program does not parse", text);
  MlirOperation f = blu_func_find(m, "f");
  int nargs = blu_func_nargs(f), nresults = blu_func_nresults(f);
  BluPort in[8], out[8];
  void *args[8], *exact[8];
  double *wide[8], *ref[8];
  for (int i = 0; i < nargs; i++) {
    in[i] = (BluPort){.role = "input", .name = "x", .type = blu_func_arg(f, i).type};
    int64_t n = blu_type_count(&in[i].type);
    args[i] = calloc((size_t)n + 1, 8);
    wide[i] = calloc((size_t)n + 1, sizeof(double));
    for (int64_t k = 0; k < n; k++) {
      static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, -1e-40, 3e38};
      double v = blu_elem_is_float(in[i].type.elem) ? uniform(set->lo, set->hi) : floor(uniform(0, set->ihi));
      if (set->special && blu_elem_is_float(in[i].type.elem) && random_bits() % 4 == 0) v = odd[random_bits() % 8];
      contract_set(args[i], in[i].type.elem, k, v);
      wide[i][k] = contract_get(args[i], in[i].type.elem, k);
    }
    blu_func_set_arg(f, i, &in[i]);
  }
  BluWhy why = {0};
  if (!blu_interp_run(m, f, (const double *const *)wide, ref, &why)) return fail(why.text, text);
  MlirOperation end = mlirBlockGetTerminator(blu_func_block(f));
  MlirValue values[8];
  for (int i = 0; i < nresults; i++) {
    values[i] = mlirOperationGetOperand(end, i);
    out[i] = (BluPort){.role = "output", .name = "y", .type = blu_value_type(values[i])};
  }
  mlirOperationDestroy(end);
  blu_func_return(f, mlirLocationUnknownGet(set->ctx), nresults, values, out);
  bool good = blu_pass_simplify(m) && blu_pass_expand(m) && blu_pass_simplify(m);
  contract_run(f, args, exact);
  good = good && blu_pass_fuse(m) && blu_pass_plan(m) && mlirOperationVerify(mlirModuleGetOperation(m));
  Loaded l = {0};
  if (!good || !load(set, m, &l)) good = fail("does not compile", text);
  else {
    const BluProgram *p = l.program;
    const BluFunction *fn = &p->function[0];
    size_t size = (size_t)p->arena_bytes + 2 * GUARD;
    char *memory = aligned_alloc(64, (size + 63) / 64 * 64), *arena = memory + GUARD;
    char *scratch = aligned_alloc(64, (size_t)p->scratch_bytes + 64);
    memset(memory, 0xa5, size);
    for (int i = 0; i < nargs; i++) memcpy(arena + fn->slot[i].offset, args[i], (size_t)fn->slot[i].bytes);
    run(p, fn, arena, scratch);
    for (int i = 0; i < nresults && good; i++) good = compare(set, &fn->slot[nargs + i], &out[i].type, arena, exact[i], ref[i], text);
    for (int i = 0; i < GUARD; i++)
      if ((unsigned char)memory[i] != 0xa5 || (unsigned char)memory[size - 1 - (size_t)i] != 0xa5) {
        good = fail("writes outside of the arena", text);
        break;
      }
    free(memory);
    free(scratch);
  }
  if (l.jit) LLVMConsumeError(LLVMOrcDisposeLLJIT(l.jit));
  for (int i = 0; i < nargs; i++) free(args[i]), free(wide[i]);
  for (int i = 0; i < nresults; i++) free(exact[i]), free(ref[i]);
  mlirModuleDestroy(m);
  return good;
}

/* ---- programs ---- */

/* f64 in a case of the op table becomes f32. */
static void narrow(char *s) {
  for (char *p = s; (p = strstr(p, "f64"));) memcpy(p, "f32", 3);
}

/* The op table's own cases, compiled. */
static void table_cases(Setting set) {
  for (int i = 0; i < blu_nops; i++) {
    const BluRule *rule = blu_ops[i].rule;
    for (const BluOpCase *c = rule->cases; c->body; c++) {
      char args[1024], body[2048], type[64];
      snprintf(args, sizeof args, "%s", c->args);
      snprintf(body, sizeof body, "%s", c->body);
      narrow(args), narrow(body);
      if (!strcmp(blu_ops[i].name, "cast")) continue; /* its own cases below */
      const char *last = strrchr(body, ':'), *arrow = last ? strstr(last, "-> ") : NULL;
      snprintf(type, sizeof type, "%s", arrow ? arrow + 3 : last + 2);
      set.lo = c->lo, set.hi = c->hi, set.ihi = c->ihi;
      set.tolerance = fmax(rule->tolerance, 1.2e-7);
      check(&set, "func.func @f(%s) -> %s {\n%s\nreturn %%r : %s\n}", args, type, body, type);
    }
  }
}

static const int sizes[] = {1, 2, 7, 15, 16, 17, 31, 33, 48, 100, 257};
enum { NSIZES = sizeof sizes / sizeof *sizes };
static int any_size(void) { return sizes[random_bits() % NSIZES]; }

static void elementwise(Setting set) {
  set.lo = -4, set.hi = 4, set.ihi = 100;
  for (int i = 0; i < blu_nops; i++) {
    const BluOp *op = &blu_ops[i];
    if (op->rule->kind != BLU_KIND_ELEMENT || op->nattr || op->nin > 2 || !op->rule->cases[0].body || op->rule->infer == blu_op_find("eq")->rule->infer) continue;
    for (int special = 0; special < 2; special++) {
      Setting s = set;
      s.special = special;
      s.lo = op->rule->cases[0].lo, s.hi = op->rule->cases[0].hi;
      s.tolerance = special ? INFINITY : op->rule->tolerance; /* the contract has the bits; references overflow elsewhere than f32 */
      int n = any_size(), r = 1 + (int)(random_bits() % 5);
      if (op->nin == 1) check(&s, "func.func @f(%%a: tensor<%dx%dxf32>) -> tensor<%dx%dxf32> {\n%%r = blu.%s %%a : tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}", r, n, r, n, op->name, r, n, r, n);
      else check(&s, "func.func @f(%%a: tensor<%dx%dxf32>, %%b: tensor<%dx%dxf32>) -> tensor<%dx%dxf32> {\n%%r = blu.%s %%a, %%b : tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}", r, n, r, n, r, n, op->name, r, n, r, n);
    }
  }
}

static void casts(Setting set) {
  static const char *const elem[] = {"f32", "f64", "i32", "i64", "ui8", "i1"};
  for (int from = 0; from < 6; from++)
    for (int to = 0; to < 6; to++) {
      Setting s = set;
      s.lo = -300, s.hi = 300, s.ihi = from == 5 ? 2 : 256, s.tolerance = 1e-7;
      int n = any_size();
      check(&s, "func.func @f(%%a: tensor<%dx%s>) -> tensor<%dx%s> {\n%%r = blu.cast %%a {to = %s} : (tensor<%dx%s>) -> tensor<%dx%s>\nreturn %%r : tensor<%dx%s>\n}",
            n, elem[from], n, elem[to], elem[to], n, elem[from], n, elem[to], n, elem[to]);
    }
}

static void reductions(Setting set) {
  static const char *const ops[] = {"sum", "max", "min", "mean"};
  set.lo = -1, set.hi = 1, set.tolerance = 4e-6;
  for (int i = 0; i < 40; i++) {
    int d[3] = {1 + (int)(random_bits() % 4), any_size(), any_size()}, axis = i % 3;
    bool keep = random_bits() & 1;
    if (i % 8 == 7) d[axis] = 600; /* more than one chain */
    char out[64] = "";
    for (int k = 0; k < 3; k++)
      if (k != axis || keep) snprintf(out + strlen(out), sizeof out - strlen(out), "%dx", k == axis ? 1 : d[k]);
    check(&set, "func.func @f(%%a: tensor<%dx%dx%dxf32>) -> tensor<%sf32> {\n%%r = blu.%s %%a {axis = array<i64: %d>, keep = %s} : (tensor<%dx%dx%dxf32>) -> tensor<%sf32>\nreturn %%r : tensor<%sf32>\n}",
          d[0], d[1], d[2], out, ops[i % 4], axis, keep ? "true" : "false", d[0], d[1], d[2], out, out);
  }
  for (int i = 0; i < 12; i++) {
    int r = any_size(), n = any_size(), axis = i % 2;
    Setting s = set;
    s.special = i % 3 == 0;
    check(&s, "func.func @f(%%a: tensor<%dx%dxf32>) -> tensor<%dxi32> {\n%%r = blu.argmax %%a {axis = %d} : (tensor<%dx%dxf32>) -> tensor<%dxi32>\nreturn %%r : tensor<%dxi32>\n}",
          r, n, axis ? r : n, axis, r, n, axis ? r : n, axis ? r : n);
  }
}

static void products(Setting set) {
  /* 600 products of order 1: partial sums of order 10, rounded 600 times, against results of order 1 */
  set.lo = -1, set.hi = 1, set.tolerance = 2e-5;
  for (int i = 0; i < 48; i++) {
    int m = any_size(), n = any_size(), k = i % 6 == 5 ? 600 : any_size(), ta = i & 1, tb = i >> 1 & 1;
    int am = ta ? k : m, ak = ta ? m : k, bk = tb ? n : k, bn = tb ? k : n;
    if (i % 3) /* with bias and relu in the store */
      check(&set, "func.func @f(%%a: tensor<%dx%dxf32>, %%b: tensor<%dx%dxf32>, %%c: tensor<%dxf32>) -> tensor<%dx%dxf32> {\n"
            "%%p = blu.matmul %%a, %%b {ta = %s, tb = %s} : (tensor<%dx%dxf32>, tensor<%dx%dxf32>) -> tensor<%dx%dxf32>\n"
            "%%q = blu.broadcast %%c {shape = array<i64: %d, %d>} : (tensor<%dxf32>) -> tensor<%dx%dxf32>\n"
            "%%s = blu.add %%p, %%q : tensor<%dx%dxf32>\n%%r = blu.relu %%s : tensor<%dx%dxf32>\nreturn %%r : tensor<%dx%dxf32>\n}",
            am, ak, bk, bn, n, m, n, ta ? "true" : "false", tb ? "true" : "false", am, ak, bk, bn, m, n, m, n, n, m, n, m, n, m, n, m, n);
    else /* a batch */
      check(&set, "func.func @f(%%a: tensor<3x%dx%dxf32>, %%b: tensor<3x%dx%dxf32>) -> tensor<3x%dx%dxf32> {\n"
            "%%r = blu.matmul %%a, %%b {ta = %s, tb = %s} : (tensor<3x%dx%dxf32>, tensor<3x%dx%dxf32>) -> tensor<3x%dx%dxf32>\nreturn %%r : tensor<3x%dx%dxf32>\n}",
            am, ak, bk, bn, m, n, ta ? "true" : "false", tb ? "true" : "false", am, ak, bk, bn, m, n, m, n);
  }
  check(&set, "func.func @f(%%a: tensor<300x20xf32>) -> tensor<300x300xf32> {\n%%r = blu.matmul %%a, %%a {tb = true} : (tensor<300x20xf32>, tensor<300x20xf32>) -> tensor<300x300xf32>\nreturn %%r : tensor<300x300xf32>\n}");
}

/* Chains with several stages, broadcasts of every kind, and values that are used again. */
static void fused(Setting set) {
  set.lo = -2, set.hi = 2, set.tolerance = 3e-5; /* variance and division: errors of several ops */
  for (int i = 0; i < 10; i++) {
    int r = any_size(), n = any_size();
    check(&set, "func.func @f(%%x: tensor<%dx%dxf32>, %%g: tensor<%dxf32>, %%k: tensor<f32>) -> (tensor<%dx%dxf32>, tensor<%dx1xf32>, tensor<%dxf32>) {\n"
          "%%m = blu.mean %%x {axis = array<i64: 1>, keep = true} : (tensor<%dx%dxf32>) -> tensor<%dx1xf32>\n"
          "%%mb = blu.broadcast %%m {shape = array<i64: %d, %d>} : (tensor<%dx1xf32>) -> tensor<%dx%dxf32>\n"
          "%%d = blu.sub %%x, %%mb : tensor<%dx%dxf32>\n%%s = blu.mul %%d, %%d : tensor<%dx%dxf32>\n"
          "%%v = blu.mean %%s {axis = array<i64: 1>, keep = true} : (tensor<%dx%dxf32>) -> tensor<%dx1xf32>\n"
          "%%e = blu.constant {value = 1.0, elem = f32, shape = array<i64: %d, 1>} : () -> tensor<%dx1xf32>\n"
          "%%ve = blu.add %%v, %%e : tensor<%dx1xf32>\n%%rs = blu.rsqrt %%ve : tensor<%dx1xf32>\n"
          "%%rb = blu.broadcast %%rs {shape = array<i64: %d, %d>} : (tensor<%dx1xf32>) -> tensor<%dx%dxf32>\n"
          "%%y = blu.mul %%d, %%rb : tensor<%dx%dxf32>\n"
          "%%gb = blu.broadcast %%g {shape = array<i64: %d, %d>} : (tensor<%dxf32>) -> tensor<%dx%dxf32>\n%%z = blu.mul %%y, %%gb : tensor<%dx%dxf32>\n"
          "%%kb = blu.broadcast %%k {shape = array<i64: %d, %d>} : (tensor<f32>) -> tensor<%dx%dxf32>\n%%o = blu.add %%z, %%kb : tensor<%dx%dxf32>\n"
          "%%c = blu.sum %%o {axis = array<i64: 0>} : (tensor<%dx%dxf32>) -> tensor<%dxf32>\n"
          "return %%o, %%rs, %%c : tensor<%dx%dxf32>, tensor<%dx1xf32>, tensor<%dxf32>\n}",
          r, n, n, r, n, r, n, r, n, r, r, n, r, r, n, r, n, r, n, r, n, r, r, r, r, r, r, n, r, r, n, r, n, r, n, n, r, n, r, n, r, n, r, n, r, n, r, n, n, r, n, r, n);
    int b = 1 + (int)(random_bits() % 3), t = any_size(), c = any_size();
    check(&set, "func.func @f(%%x: tensor<%dx%dx%dxf32>, %%p: tensor<%dx%dxf32>, %%q: tensor<%dx1x%dxf32>) -> tensor<%dx%dx%dxf32> {\n"
          "%%pb = blu.broadcast %%p {shape = array<i64: %d, %d, %d>} : (tensor<%dx%dxf32>) -> tensor<%dx%dx%dxf32>\n"
          "%%qb = blu.broadcast %%q {shape = array<i64: %d, %d, %d>} : (tensor<%dx1x%dxf32>) -> tensor<%dx%dx%dxf32>\n"
          "%%s = blu.add %%x, %%pb : tensor<%dx%dx%dxf32>\n%%u = blu.mul %%s, %%qb : tensor<%dx%dx%dxf32>\n%%r = blu.softmax %%u : (tensor<%dx%dx%dxf32>) -> tensor<%dx%dx%dxf32>\n"
          "return %%r : tensor<%dx%dx%dxf32>\n}",
          b, t, c, t, c, b, c, b, t, c, b, t, c, t, c, b, t, c, b, t, c, b, c, b, t, c, b, t, c, b, t, c, b, t, c, b, t, c, b, t, c);
  }
}

static void random_numbers(Setting set) {
  set.ihi = 1 << 30, set.tolerance = 2e-6;
  check(&set, "func.func @f(%%k: tensor<i64>) -> (tensor<37x29xf32>, tensor<1000xf32>) {\n%%r = blu.uniform %%k {stream = 123456789012345, shape = array<i64: 37, 29>} : (tensor<i64>) -> tensor<37x29xf32>\n"
        "%%n = blu.normal %%k {stream = 7, shape = array<i64: 1000>} : (tensor<i64>) -> tensor<1000xf32>\nreturn %%r, %%n : tensor<37x29xf32>, tensor<1000xf32>\n}");
}

int main(void) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  Setting set = {.ctx = mlirContextCreateWithThreading(false)};
  blu_context_load(set.ctx);
  BluCpu native;
  blu_cpu_parse("native", &native);
  for (int level = 2; level <= native.level; level++) {
    char name[16];
    snprintf(name, sizeof name, "v%d", level);
    blu_cpu_parse(name, &set.cpu);
    int before = programs;
    table_cases(set);
    elementwise(set);
    casts(set);
    reductions(set);
    products(set);
    fused(set);
    random_numbers(set);
    printf("x86-64-%s: %d programs\n", name, programs - before);
  }
  mlirContextDestroy(set.ctx);
  printf("%d programs, %d failures\n", programs, failures);
  return failures || !programs;
}
