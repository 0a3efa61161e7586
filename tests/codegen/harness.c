/* harness.c - see harness.h. */
#include "harness.h"
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "contract.h"
#include "passes/passes.h"
#include "runtime/abi.h"

int harness_programs, harness_failures, harness_left_out;
struct HarnessNoisy harness_compared;
bool harness_quiet;
static uint64_t seed = 2026;
uint64_t harness_random(void) { return (seed = seed * 6364136223846793005u + 1442695040888963407u) >> 16; }
double harness_uniform(double lo, double hi) { return lo + (hi - lo) * (double)(harness_random() & 0xffffffffu) * 0x1p-32; }


void harness_seed(uint64_t s) { seed = s; }

void harness_start(Setting *set) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  *set = (Setting){.ctx = mlirContextCreateWithThreading(false)};
  blu_context_load(set->ctx);
}

/* ---- one program: text -> passes -> code -> run ---- */

typedef struct { LLVMOrcLLJITRef jit; const BluProgram *program; const HarnessDevice *device; bool failed; } Loaded;

static bool fail(const char *what, const char *text) {
  harness_failures++;
  if (!harness_quiet) printf("FAILED: %s in\n%s\n", what, text);
  return false;
}

static void *find(void *user, const char *name) {
  LLVMOrcExecutorAddress at;
  LLVMErrorRef e = LLVMOrcLLJITLookup(((Loaded *)user)->jit, &at, name);
  if (!e) return (void *)(uintptr_t)at;
  LLVMConsumeError(e);
  return NULL;
}

static bool load(const Setting *set, MlirModule planned, Loaded *l) {
  LLVMOrcThreadSafeContextRef tsc = LLVMOrcCreateNewThreadSafeContext();
  LLVMContextRef ctx = LLVMContextCreate();
  LLVMModuleRef m = LLVMModuleCreateWithNameInContext("test", ctx);
  BluProgramInfo info = {.source = "", .source_name = "test", .compiler = "test", .cpu = &set->cpu};
  BluArchs archs;
  BluCuda cuda = {.archs = &archs, .only_ptx = true};
  char *error = NULL, *kernels = NULL;
  size_t size, kernels_size = 0;
  blu_cuda_parse("sm_80", &archs);
  l->device = set->device;
  if (set->device) cuda.module = LLVMModuleCreateWithNameInContext("test", LLVMContextCreate()), info.cuda = &cuda;
  if (!blu_program_emit(m, planned, &info)) return false;
  if (set->device) {
    kernels = set->device->object(cuda.module, &set->cpu, &kernels_size);
    LLVMContextRef device_ctx = LLVMGetModuleContext(cuda.module);
    LLVMDisposeModule(cuda.module);
    LLVMContextDispose(device_ctx);
    blu_cuda_free(&cuda);
    if (!kernels) return false;
  }
  blu_target_prepare(m, &set->cpu);
  char *object = blu_target_emit(m, &set->cpu, BLU_FILE_OBJECT, &size, &error);
  LLVMDisposeModule(m);
  LLVMContextDispose(ctx);
  LLVMOrcDisposeThreadSafeContext(tsc);
  if (!object) return false;
  if (LLVMOrcCreateLLJIT(&l->jit, NULL)) return false;
  LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(l->jit);
  static const HarnessSymbol runtime[] = {
    {"blu_rt_exp", (void *)blu_rt_exp}, {"blu_rt_log", (void *)blu_rt_log}, {"blu_rt_pow", (void *)blu_rt_pow}, {"blu_rt_sin", (void *)blu_rt_sin},
    {"blu_rt_cos", (void *)blu_rt_cos}, {"blu_rt_tanh", (void *)blu_rt_tanh}, {"memcpy", (void *)memcpy}, {"memset", (void *)memset},
    {"memmove", (void *)memmove}, {"fmaf", (void *)fmaf}, {"fma", (void *)fma}, {NULL, NULL}};
  LLVMOrcCSymbolMapPair pairs[32];
  size_t npairs = 0;
  for (int from = 0; from < 2; from++)
    for (const HarnessSymbol *s = !from ? runtime : set->device ? set->device->symbol : NULL; s && s->name; s++)
      pairs[npairs++] = (LLVMOrcCSymbolMapPair){LLVMOrcLLJITMangleAndIntern(l->jit, s->name),
                                                {(LLVMOrcExecutorAddress)(uintptr_t)s->at, {LLVMJITSymbolGenericFlagsExported, 0}}};
  LLVMOrcExecutorAddress at;
  bool good = !LLVMOrcJITDylibDefine(lib, LLVMOrcAbsoluteSymbols(pairs, npairs)) &&
              !LLVMOrcLLJITAddObjectFile(l->jit, lib, LLVMCreateMemoryBufferWithMemoryRangeCopy(object, size, "test")) &&
              (!kernels || !LLVMOrcLLJITAddObjectFile(l->jit, lib, LLVMCreateMemoryBufferWithMemoryRangeCopy(kernels, kernels_size, "device"))) &&
              !LLVMOrcLLJITLookup(l->jit, &at, "blu_program");
  free(object), free(kernels);
  if (good) l->program = (const BluProgram *)(uintptr_t)at;
  return good;
}

static void shuffled(int64_t n, int64_t *order) {
  for (int64_t k = 0; k < n; k++) order[k] = k;
  for (int64_t k = n - 1; k > 0; k--) {
    int64_t j = (int64_t)(harness_random() % (uint64_t)(k + 1)), swap = order[k];
    order[k] = order[j], order[j] = swap;
  }
}

/* Launches in order; the pieces of each all at once, in a few ranges, or one by one, shuffled. So are the steps of parallel loops, each with a frame
 * of rubbish. */
static void run(Loaded *l, const BluLaunch *launch, int64_t launches, char *arena, char *scratch, int64_t *at, int depth) {
  const BluProgram *p = l->program;
  for (int64_t i = 0; i < launches; i++) {
    const BluLoop *loop = launch[i].loop;
    int64_t n = loop ? loop->steps : launch[i].pieces;
    int64_t *order = malloc((size_t)n * sizeof *order), *offset = malloc((size_t)(p->loop_offsets + 1) * sizeof *offset);
    int64_t most[] = {1, 5, n}, range = most[harness_random() % 3], last; /* pieces of a range */
    shuffled(n, order);
    if (!loop || loop->parallel) memset(scratch, 0xff, loop ? (size_t)p->scratch_bytes : (size_t)p->frame_offset);
    for (int64_t k = 0; loop && k < n; k++) {
      at[depth] = loop->parallel ? order[k] : loop->reverse ? n - 1 - k : k;
      if (loop->parallel) at[depth + 1] = scratch + p->frame_offset - arena;
      run(l, loop->launch, loop->launches, arena, scratch, at, depth + (loop->parallel ? 2 : 1));
    }
    for (int64_t k = 0; !loop && depth && k < launch[i].offsets; k++) {
      offset[k] = launch[i].offset[k];
      for (int d = 0; d < depth; d++) offset[k] += launch[i].stride[k * depth + d] * at[d];
    }
    const int64_t *places = depth ? offset : launch[i].offset;
    bool host = !loop && !launch[i].device;
    if (launch[i].device && !l->failed && !l->device->run(&launch[i], find, l, arena, places, p->arena_bytes)) l->failed = true;
    for (int64_t k = 0; host && range == 1 && k < n; k++) launch[i].kernel(arena, places, scratch, order[k], order[k] + 1);
    for (int64_t k = 0; host && range > 1 && k < n; k = last) {
      last = range == n ? n : k + 1 + (int64_t)(harness_random() % (uint64_t)range);
      launch[i].kernel(arena, places, scratch, k, last < n ? last : n);
    }
    free(order), free(offset);
  }
}

static bool same_bits(const void *a, const void *b, BluElem e, int64_t i) {
  double x = contract_get(a, e, i), y = contract_get(b, e, i);
  if (isnan(x) && isnan(y)) return true; /* which NaN is not promised */
  int n = blu_elem_bytes(e);
  return !memcmp((const char *)a + i * n, (const char *)b + i * n, (size_t)n);
}

static double noise(void) { return harness_uniform(-1, 1); }

/* How far noisy runs are from each element of the contract's results: 0 where bits are the same, infinite if one is NaN, infinite or an integer. */
static double *spread_of(const Setting *set, const BluType *t, const void *exact, void *const *noisy) {
  int64_t n = blu_type_count(t);
  double *spread = calloc((size_t)n + 1, sizeof *spread);
  for (int r = 0; r < set->noisy; r++)
    for (int64_t i = 0; i < n; i++) {
      if (same_bits(noisy[r], exact, t->elem, i)) continue;
      double by = blu_elem_is_float(t->elem) ? fabs(contract_get(noisy[r], t->elem, i) - contract_get(exact, t->elem, i)) : INFINITY;
      spread[i] = isnan(by) ? INFINITY : fmax(spread[i], by);
    }
  return spread;
}

enum { SPREADS = 2 }; /* a few random runs don't show the worst */

static bool compare_noisy(const Setting *set, const BluSlot *slot, const BluType *t, const char *arena, const void *exact, void *const *noisy,
                          const char *text) {
  double *spread = spread_of(set, t, exact, noisy);
  bool good = true;
  for (int64_t i = 0, n = blu_type_count(t); i < n && good; i++) {
    if (isinf(spread[i])) harness_compared.open++;
    else if (spread[i] > 0) harness_compared.near++;
    else harness_compared.exact++;
    double got = contract_get(arena + slot->offset, t->elem, i), want = contract_get(exact, t->elem, i);
    if (isinf(spread[i]) || same_bits(arena + slot->offset, exact, t->elem, i) || fabs(got - want) <= SPREADS * spread[i]) continue;
    char what[256];
    snprintf(what, sizeof what, "element %lld is %.9g, the contract says %.9g, other orders of sums move that by %.2g", (long long)i, got, want, spread[i]);
    good = fail(what, text);
  }
  free(spread);
  return good;
}

static bool compare(const Setting *set, const BluSlot *slot, const BluType *t, const char *arena, const void *exact, const double *ref, const char *text) {
  char what[256];
  for (int64_t i = 0, n = blu_type_count(t); i < n; i++) {
    double got = contract_get(arena + slot->offset, t->elem, i);
    if (set->cpu.level >= 3 && (!set->device || set->bits) && !same_bits(arena + slot->offset, exact, t->elem, i)) { /* level 2 has no FMA: other bits */
      snprintf(what, sizeof what, "element %lld is %.9g, the contract says %.9g", (long long)i, got, contract_get(exact, t->elem, i));
      return fail(what, text);
    }
    if (isinf(set->tolerance)) continue;
    double error = fabs(got - ref[i]) / fmax(1, fabs(ref[i]));
    bool equal = got == ref[i] || (isnan(got) && isnan(ref[i]));
    if (!equal && !(error <= set->tolerance + set->rounding)) {
      snprintf(what, sizeof what, "element %lld is %.9g, the reference %.9g: error %.2g", (long long)i, got, ref[i], error);
      return fail(what, text);
    }
  }
  return true;
}

enum { GUARD = 256, PORTS = 32, NOISY = 8 /* at most: arguments or results; noisy runs */ };

bool harness_check(const Setting *set, const char *format, ...) {
  char text[8192];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  for (char *at = text; set->elem && (at = strstr(at, "f32"));) { /* as long or one longer */
    size_t n = strlen(set->elem), rest = strlen(at + 3) + 1;
    if (at + n + rest > text + sizeof text) return fail("the program is too long", text);
    memmove(at + n, at + 3, rest);
    memcpy(at, set->elem, n);
    at += n;
  }
  for (char *at = text; (at = strstr(at, "F32")); at++) *at = 'f'; /* f32 that stays */
  if (set->device && strstr(text, "f16")) return harness_left_out++, true;
  MlirModule m = mlirModuleCreateParse(set->ctx, mlirStringRefCreateFromCString(text));
  if (mlirModuleIsNull(m)) return harness_programs++, fail("the program does not parse", text);
  return harness_check_module(set, m, text);
}

bool harness_check_module(const Setting *set, MlirModule m, const char *text) {
  harness_programs++;
  MlirOperation f = blu_func_find(m, "f");
  int nargs = blu_func_nargs(f), nresults = blu_func_nresults(f);
  BluPort in[PORTS], out[PORTS];
  void *args[PORTS], *exact[PORTS];
  double *wide[PORTS], *ref[PORTS];
  if (nargs > PORTS || nresults > PORTS || set->noisy > NOISY) return fail("too many arguments or results", text);
  for (int i = 0; i < nargs; i++) {
    in[i] = (BluPort){.role = "input", .name = "x", .type = blu_func_arg(f, i).type};
    int64_t n = blu_type_count(&in[i].type);
    args[i] = calloc((size_t)n + 1, 8);
    wide[i] = calloc((size_t)n + 1, sizeof(double));
    if (set->fill) set->fill(i, args[i], n);
    for (int64_t k = 0; set->fill && k < n; k++) wide[i][k] = contract_get(args[i], in[i].type.elem, k);
    for (int64_t k = 0; !set->fill && k < n; k++) {
      static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, -1e-40, 3e38, 3e-6, 65519, -65520};
      double v = blu_elem_is_float(in[i].type.elem) ? harness_uniform(set->lo, set->hi) : floor(harness_uniform(0, set->ihi));
      if (set->special && blu_elem_is_float(in[i].type.elem) && harness_random() % 4 == 0) v = odd[harness_random() % (sizeof odd / sizeof *odd)];
      contract_set(args[i], in[i].type.elem, k, v);
      wide[i][k] = contract_get(args[i], in[i].type.elem, k);
    }
    blu_func_set_arg(f, i, &in[i]);
  }
  BluWhy why = {0};
  if (!blu_interp_run(m, f, (const double *const *)wide, ref, &why)) return fail(why.text, text);
  MlirOperation end = mlirBlockGetTerminator(blu_func_block(f));
  MlirValue values[PORTS];
  for (int i = 0; i < nresults; i++) {
    values[i] = mlirOperationGetOperand(end, i);
    out[i] = (BluPort){.role = "output", .name = "y", .type = blu_value_type(values[i])};
  }
  mlirOperationDestroy(end);
  blu_func_return(f, mlirLocationUnknownGet(set->ctx), nresults, values, out);
  if (set->device) blu_module_set_target(m, "cuda");
  bool good = blu_pass_simplify(m) && blu_pass_expand(m) && blu_pass_simplify(m);
  contract_run(f, args, exact);
  void *noisy[PORTS][NOISY];
  for (int r = 0; r < set->noisy; r++) {
    void *run[PORTS];
    contract_run_noisy(f, args, noise, run);
    for (int i = 0; i < nresults; i++) noisy[i][r] = run[i];
  }
  good = good && blu_pass_fuse(m) && blu_pass_plan(m) && mlirOperationVerify(mlirModuleGetOperation(m));
  Loaded l = {0};
  if (!good || !load(set, m, &l)) good = fail("does not compile", text);
  else {
    const BluProgram *p = l.program;
    const BluFunction *fn = &p->function[0];
    size_t size = (size_t)p->arena_bytes + 2 * GUARD;
    char *memory = aligned_alloc(64, (size + 63) / 64 * 64), *arena = memory + GUARD;
    char *scratch = aligned_alloc(64, ((size_t)p->scratch_bytes + GUARD + 63) / 64 * 64);
    memset(memory, 0xa5, size);
    memset(scratch + p->scratch_bytes, 0xa5, GUARD);
    for (int i = 0; i < nargs; i++) memcpy(arena + fn->slot[i].offset, args[i], (size_t)fn->slot[i].bytes);
    run(&l, fn->launch, fn->launches, arena, scratch, (int64_t[2 * BLU_ABI_LOOPS]){0}, 0);
    if (l.failed) good = fail("a device would have failed", text);
    for (int i = 0; i < nresults && good; i++) {
      const BluSlot *slot = &fn->slot[nargs + i];
      if (set->noisy) good = compare_noisy(set, slot, &out[i].type, arena, exact[i], noisy[i], text);
      else good = compare(set, slot, &out[i].type, arena, exact[i], ref[i], text);
    }
    bool outside = false;
    for (int i = 0; i < GUARD; i++) {
      const char *guarded[] = {memory + i, memory + size - 1 - i, scratch + p->scratch_bytes + i};
      for (int g = 0; g < 3; g++) outside |= (unsigned char)*guarded[g] != 0xa5;
    }
    if (outside) good = fail("writes outside of the arena, or of scratch memory", text);
    free(memory);
    free(scratch);
  }
  if (l.jit) LLVMConsumeError(LLVMOrcDisposeLLJIT(l.jit));
  for (int i = 0; i < nargs; i++) free(args[i]), free(wide[i]);
  for (int i = 0; i < nresults; i++) {
    for (int r = 0; r < set->noisy; r++) free(noisy[i][r]);
    free(exact[i]), free(ref[i]);
  }
  mlirModuleDestroy(m);
  return good;
}

struct HarnessCode { Loaded l; char *arena, *scratch; };

HarnessCode *harness_open(const Setting *set, const char *text, void **in, void **out) {
  MlirModule m = mlirModuleCreateParse(set->ctx, mlirStringRefCreateFromCString(text));
  MlirOperation f = blu_func_find(m, "f"), end = mlirBlockGetTerminator(blu_func_block(f));
  MlirValue v = mlirOperationGetOperand(end, 0);
  BluPort port = {.role = "input", .name = "x", .type = blu_func_arg(f, 0).type};
  blu_func_set_arg(f, 0, &port);
  port = (BluPort){.role = "output", .name = "y", .type = blu_value_type(v)};
  mlirOperationDestroy(end);
  blu_func_return(f, mlirLocationUnknownGet(set->ctx), 1, &v, &port);
  HarnessCode *code = calloc(1, sizeof *code);
  bool good = blu_pass_simplify(m) && blu_pass_expand(m) && blu_pass_simplify(m) && blu_pass_fuse(m) && blu_pass_plan(m) && load(set, m, &code->l);
  mlirModuleDestroy(m);
  if (!good) {
    fail("does not compile", text);
    harness_close(code);
    return NULL;
  }
  const BluProgram *p = code->l.program;
  code->arena = aligned_alloc(64, (size_t)(p->arena_bytes + 63) / 64 * 64);
  code->scratch = aligned_alloc(64, (size_t)p->scratch_bytes / 64 * 64 + 64);
  *in = code->arena + p->function[0].slot[0].offset;
  *out = code->arena + p->function[0].slot[1].offset;
  return code;
}

void harness_run(HarnessCode *code) {
  const BluFunction *f = &code->l.program->function[0];
  run(&code->l, f->launch, f->launches, code->arena, code->scratch, (int64_t[2 * BLU_ABI_LOOPS]){0}, 0);
}

void harness_close(HarnessCode *code) {
  if (code->l.jit) LLVMConsumeError(LLVMOrcDisposeLLJIT(code->l.jit));
  free(code->arena), free(code->scratch);
  free(code);
}
