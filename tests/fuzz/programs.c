/* programs.c - random well-typed programs (generate.h) through the whole compiler.
 *
 * Each program is checked three ways: the interpreter gives the same numbers after every pass as before, which names the guilty pass; its
 * gradient is that of central differences along a random direction; its compiled code equals the bit contract. With --cuda passes and code are
 * those for a GPU, which tests/cuda/device.h plays; it keeps to the contract but for the order of additions. A failing program is made smaller, as
 * long as it fails in the same way: one result, and ops dropped one after another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"
#include "generate.h"
#include "dialects/format.h"
#include "harness.h"
#include "passes/passes.h"
#include "player.h"

/* ---- numbers for arguments, results by the interpreter ---- */

typedef struct { double *arg[MAX_ARGS], *result[MAX_ARGS + 1]; BluType type[MAX_ARGS], result_type[MAX_ARGS + 1]; int nargs, n; } Numbers;

static bool random_arguments(const Program *p, Numbers *x) {
  *x = (Numbers){.nargs = (int)mlirBlockGetNumArguments(p->block)};
  if (x->nargs > MAX_ARGS) return false;
  for (int i = 0; i < x->nargs; i++) {
    x->type[i] = blu_value_type(mlirBlockGetArgument(p->block, i));
    int64_t n = blu_type_count(&x->type[i]);
    x->arg[i] = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t k = 0; k < n; k++)
      x->arg[i][k] = blu_elem_is_float(x->type[i].elem) ? harness_uniform(-2, 2) : (double)(harness_random() % (x->type[i].elem == BLU_BOOL ? 2 : 4));
    for (int64_t k = 0; blu_elem_is_half(x->type[i].elem) && k < n; k++) x->arg[i][k] = blu_elem_round(x->type[i].elem, x->arg[i][k]);
  }
  return true;
}

static bool interpret_held(MlirModule m, Numbers *x, BluHeld *held) {
  BluWhy why;
  MlirOperation f = blu_func_find(m, "f");
  x->n = blu_func_nresults(f);
  for (int i = 0; i < x->n; i++) x->result_type[i] = blu_func_result(f, i).type;
  if (!held) return blu_interp_run(m, f, (const double *const *)x->arg, x->result, &why);
  return blu_interp_run_held(m, f, (const double *const *)x->arg, x->result, held, &why);
}
static bool interpret(MlirModule m, Numbers *x) { return interpret_held(m, x, NULL); }

static void free_results(Numbers *x) {
  for (int i = 0; i < x->n; i++) free(x->result[i]), x->result[i] = NULL;
}
static void free_arguments(Numbers *x) {
  for (int i = 0; i < x->nargs; i++) free(x->arg[i]);
}

/* ---- passes ---- */

static const char *const passes[] = {"simplify", "expand", "simplify", "fuse", "plan"};
enum { PASSES = sizeof passes / sizeof *passes };

/* What is wrong with a program: PASS + i for the i-th of the list. */
typedef enum { NOTHING, GRADIENT, CODE, INTERPRETER, PASS } Guilt;

static const char *guilt_name(int g) {
  static const char *const names[] = {"nothing", "gradient", "compiled code", "the interpreter"};
  return g < PASS ? names[g] : passes[g - PASS];
}

/* Doubles that were computed in another order: equal to 1e-9 of the larger, or both NaN. */
static bool near_double(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return true;
  return fabs(a - b) <= 1e-9 * fmax(1, fmax(fabs(a), fabs(b)));
}

static bool same_results(const Numbers *a, const Numbers *b) {
  if (a->n != b->n) return false;
  for (int r = 0; r < a->n; r++) {
    if (!blu_type_same(&a->result_type[r], &b->result_type[r])) return false;
    for (int64_t k = 0, n = blu_type_count(&a->result_type[r]); k < n; k++)
      if (!near_double(a->result[r][k], b->result[r][k])) return false;
  }
  return true;
}

/* Ops whose references round no constants in f32, where what they expand to does: gelu of a constant. */
static bool has_composite_of_constants(const Program *p) {
  BluMap constant = {0};
  bool found = false;
  for (MlirOperation o = mlirBlockGetFirstOperation(p->block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    static const char *const kept[] = {"add", "sub", "mul", "div", "sqrt", "neg", "broadcast", "reshape", "cast"};
    const BluOp *op = blu_op_of(o);
    bool any = false, all = true, keeps = blu_is(o, "constant");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) keeps |= blu_is(o, kept[i]);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(o); i++) {
      bool is = blu_map_get(&constant, mlirOperationGetOperand(o, i).ptr) != NULL;
      any |= is, all &= is;
    }
    found |= op && op->rule->kind == BLU_KIND_COMPOSITE && any;
    if (op && op->nout && keeps && all) blu_map_set(&constant, mlirOperationGetResult(o, 0).ptr, (void *)op);
  }
  blu_map_free(&constant);
  return found;
}

/* Do arguments that differ by some units in the last place give the same results? If not, other orders of additions needn't either. */
static bool is_stable(MlirContext ctx, const Recipe *recipe, const Numbers *x) {
  Program p = program_make(ctx, recipe);
  program_return(&p, recipe, false);
  bool stable = true;
  for (int tries = 0; tries < 4 && stable; tries++) {
    Numbers y = *x;
    for (int i = 0; i < x->nargs; i++) {
      int64_t n = blu_type_count(&x->type[i]);
      double by = blu_elem_is_float(x->type[i].elem) ? 1e-14 : 0;
      y.arg[i] = malloc((size_t)(n + 1) * sizeof(double));
      for (int64_t k = 0; k < n; k++) y.arg[i][k] = x->arg[i][k] * (1 + by * harness_uniform(-1, 1));
    }
    stable = interpret(p.module, &y) && same_results(x, &y);
    free_results(&y);
    free_arguments(&y);
  }
  mlirModuleDestroy(p.module);
  return stable;
}

/* Runs the passes one after another; the first whose program gives other numbers is guilty. */
static int judge_passes(const Setting *set, const Recipe *recipe) {
  Program p = program_make(set->ctx, recipe);
  program_return(&p, recipe, false);
  if (set->device) blu_module_set_target(p.module, "cuda");
  Numbers before, after;
  int guilt = NOTHING;
  if (recipe->real != BLU_F64 && has_composite_of_constants(&p)) return mlirModuleDestroy(p.module), NOTHING;
  if (!random_arguments(&p, &before)) return mlirModuleDestroy(p.module), NOTHING;
  after = before;
  if (!interpret(p.module, &before)) guilt = INTERPRETER;
  for (int i = 0; i < PASSES && guilt == NOTHING; i++) {
    bool good = blu_pass_find(passes[i])->run(p.module) && mlirOperationVerify(mlirModuleGetOperation(p.module)) && interpret(p.module, &after);
    if (!good || (!same_results(&before, &after) && is_stable(set->ctx, recipe, &before))) guilt = PASS + i;
    free_results(&after);
  }
  free_results(&before);
  free_arguments(&before);
  mlirModuleDestroy(p.module);
  return guilt;
}

static int judge_code(const Setting *set, const Recipe *recipe) {
  Program p = program_make(set->ctx, recipe);
  program_return(&p, recipe, false);
  if (mlirBlockGetNumArguments(p.block) > MAX_ARGS) return mlirModuleDestroy(p.module), NOTHING;
  return harness_check_module(set, p.module, "a random program") ? NOTHING : CODE;
}

/* ---- gradients ---- */

/* The last float value, or the recipe's. */
static MlirValue root_of(const Program *p, const Recipe *recipe) {
  if (recipe->which >= 0) return p->value[recipe->which];
  for (int i = p->nvalues - 1; i >= p->first; i--)
    if (blu_value_type(p->value[i]).elem == BLU_F64) return p->value[i];
  return (MlirValue){0};
}

/* Ends f by returning the sum of the root, and its gradient by the float arguments, in their order. false: there is none. */
static bool return_gradient(Program *p, MlirValue root) {
  MlirValue wrt[MAX_ARGS], grads[MAX_ARGS] = {{0}}, out[MAX_ARGS + 1];
  MlirLocation loc = mlirOperationGetLocation(p->func);
  int n = 0;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(p->block); i++)
    if (blu_value_type(mlirBlockGetArgument(p->block, i)).elem == BLU_F64) wrt[n++] = mlirBlockGetArgument(p->block, i);
  BluBuilder b = {mlirModuleGetContext(p->module), loc, p->block, {0}};
  BluAttrs all = {0};
  MlirValue ct = blu_constant_like(&b, root, 1), sum = blu_value_type(root).rank ? blu_build(&b, "sum", &all, 1, &root) : root;
  blu_func_return(p->func, loc, 1, &sum, NULL); /* the walk wants an op to stand before */
  MlirOperation end = mlirBlockGetTerminator(p->block);
  b = blu_builder_before(end);
  bool good = blu_gradient(&b, 1, &root, &ct, n, wrt, grads);
  out[0] = sum;
  for (int i = 0; i < n; i++) out[i + 1] = mlirValueIsNull(grads[i]) ? blu_constant_like(&b, wrt[i], 0) : grads[i];
  mlirOperationDestroy(end);
  blu_func_return(p->func, loc, n + 1, out, NULL);
  return good;
}

/* f at the arguments moved by h along the direction (NULL where an argument has none). */
static double value_at(MlirModule m, const Numbers *x, double *const *direction, double h, BluHeld *held) {
  Numbers y = *x;
  for (int i = 0; i < x->nargs; i++) {
    int64_t n = blu_type_count(&x->type[i]);
    y.arg[i] = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t k = 0; k < n; k++) y.arg[i][k] = x->arg[i][k] + (direction[i] ? h * direction[i][k] : 0);
  }
  double f = interpret_held(m, &y, held) ? y.result[0][0] : NAN;
  free_results(&y);
  free_arguments(&y);
  return f;
}

/* d/dh along a random direction, by the rules and by differences. Where the function jumps or bends between the points, or is too steep
 * to tell, differences with two steps disagree, and nothing is said. */
static bool slopes_agree(MlirModule m, Numbers *x) {
  static const double h = 1e-5;
  double *direction[MAX_ARGS] = {0}, slope = 0;
  BluHeld held = {0}; /* what stop_gradient gives doesn't move */
  if (!interpret_held(m, x, &held)) return false;
  held.replay = true;
  for (int i = 0, g = 1; i < x->nargs; i++) {
    if (x->type[i].elem != BLU_F64) continue;
    int64_t n = blu_type_count(&x->type[i]);
    direction[i] = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t k = 0; k < n; k++) direction[i][k] = harness_uniform(-1, 1), slope += direction[i][k] * x->result[g][k];
    g++;
  }
  double d1 = (value_at(m, x, direction, h, &held) - value_at(m, x, direction, -h, &held)) / (2 * h);
  double d2 = (value_at(m, x, direction, 2 * h, &held) - value_at(m, x, direction, -2 * h, &held)) / (4 * h);
  double scale = fmax(1, fabs(d1)), noise = 1e-10 * fabs(x->result[0][0]) / h; /* rounding of a large sum */
  /* a slope that is not finite: the program is at a kink such as sqrt(x - x); that rules give no NaN elsewhere is for the op tests */
  bool sure = isfinite(slope) && fabs(d1 - d2) <= 1e-6 * scale && noise < 1e-4 * scale && fabs(d1) < 1e3;
  for (int i = 0; i < x->nargs; i++) free(direction[i]);
  free_results(x);
  blu_held_free(&held);
  return !sure || fabs(slope - d1) <= 1e-4 * scale + noise;
}

static int judge_gradient(MlirContext ctx, const Recipe *recipe, uint64_t draw) {
  Program p = program_make(ctx, recipe);
  if (draw) harness_seed(recipe->seed + draw);
  MlirValue root = root_of(&p, recipe);
  Numbers x = {0};
  bool good = true;
  if (!mlirValueIsNull(root) && random_arguments(&p, &x)) good = return_gradient(&p, root) && slopes_agree(p.module, &x);
  free_arguments(&x);
  mlirModuleDestroy(p.module);
  return good ? NOTHING : GRADIENT;
}

/* ---- making a failing program smaller ---- */

static int judge(const Setting *set, const Recipe *r, int how, uint64_t draw) {
  return how == GRADIENT ? judge_gradient(set->ctx, r, draw) : how == CODE ? judge_code(set, r) : judge_passes(set, r);
}

/* Some arguments are at a kink of the gradient, where nothing is said: others are drawn. */
static bool still_fails(const Setting *set, const Recipe *r, int guilt) {
  for (uint64_t draw = 0; draw < (guilt == GRADIENT ? 4 : 1); draw++)
    if (judge(set, r, guilt, draw << 32) == guilt) return true;
  return false;
}

/* Tries to drop the op of value v: its result by a new argument, or by a value of its type from before. */
static bool drop_op(const Setting *set, Recipe *r, int guilt, const Program *p, int v) {
  BluType t = blu_value_type(p->value[v]);
  for (int by = BY_ARGUMENT; by < v; by++) {
    BluType other = by < 0 ? t : blu_value_type(p->value[by]);
    if (!blu_type_same(&t, &other)) continue;
    r->edit[v] = (signed char)by;
    if (still_fails(set, r, guilt)) return true;
  }
  r->edit[v] = KEPT;
  return false;
}

static void shrink(const Setting *set, Recipe *r, int guilt) {
  Program p = program_make(set->ctx, r);
  for (int v = p.first; v < p.nvalues && r->which < 0; v++) {
    Recipe one = *r;
    one.which = v;
    if ((guilt != GRADIENT || blu_value_type(p.value[v]).elem == BLU_F64) && still_fails(set, &one, guilt)) *r = one;
  }
  for (int v = p.nvalues - 1; v >= p.first; v--)
    if (v != r->which && (r->which < 0 || v < r->which)) drop_op(set, r, guilt, &p, v);
  mlirModuleDestroy(p.module);
}

static void print_to(MlirStringRef s, void *file) { fwrite(s.data, 1, s.length, file); }

static void print_program(MlirContext ctx, const Recipe *r, int guilt) {
  Program p = program_make(ctx, r);
  Recipe shown = *r;
  if (guilt == GRADIENT && r->which < 0) /* the root alone */
    for (int v = p.first; v < p.nvalues; v++)
      if (mlirValueEqual(p.value[v], root_of(&p, r))) shown.which = v;
  program_return(&p, &shown, guilt != NOTHING && shown.which >= 0);
  mlirOperationPrint(mlirModuleGetOperation(p.module), print_to, stdout);
  mlirModuleDestroy(p.module);
}

/* ---- coverage ---- */

/* Ops that are never drawn, and why; the test fails for any other, and for one of these that is drawn after all. */
static const struct { const char *op, *why; } never[] = {
  {"guard", "has no result"},
};

typedef struct { int *f32, *f64; } Coverage;

static void count_ops(MlirContext ctx, uint64_t seed, Coverage *c) {
  for (int real = BLU_F32; real <= BLU_F64; real++) {
    Recipe r = recipe_of(seed, (BluElem)real);
    Program p = program_make(ctx, &r);
    program_return(&p, &r, false);
    program_count(&p, real == BLU_F32 ? c->f32 : c->f64);
    mlirModuleDestroy(p.module);
  }
}

static bool print_coverage(const Coverage *c) {
  bool good = true;
  printf("%-24s %8s %8s\n", "times that results need", "f32", "f64");
  for (int i = 0; i < blu_nops; i++) {
    const char *why = NULL;
    for (size_t k = 0; k < sizeof never / sizeof *never; k++)
      if (!strcmp(never[k].op, blu_ops[i].name)) why = never[k].why;
    int n = c->f32[i] + c->f64[i];
    bool right = (n > 0) == !why;
    printf("%-24s %8d %8d%s%s%s\n", blu_ops[i].name, c->f32[i], c->f64[i], why ? "  never: " : "", why ? why : "", right ? "" : "  FAILED");
    good &= right;
  }
  return good;
}

/* ---- the loop ---- */

static int usage(FILE *out, int status) {
  fputs("usage: programs [--cuda] [--count N] [--seed N] [--print] [--coverage]\n\n"
        "Makes N random programs (default 500) from the op table and sends them through the compiler. A failure prints the seed of the program,\n"
        "what is guilty, and a smallest part that fails: --count 1 --seed THAT runs it again, and --print prints it before, as it must for one\n"
        "that crashes. --cuda: as for a GPU. --coverage prints how often each op was drawn, and fails for one that never was.\n"
        "exit status: 0 all good, 1 a failure, 2 usage\n", out);
  return status;
}

static bool check_program(const Setting *set, uint64_t seed) {
  Recipe wide = recipe_of(seed, BLU_F64), narrow = recipe_of(seed, BLU_F32), half = recipe_of(seed, seed % 2 ? BLU_BF16 : BLU_F16), *r = &wide;
  int guilt = judge_passes(set, &wide);
  if (guilt == NOTHING && (guilt = judge_passes(set, &narrow)) != NOTHING) r = &narrow; /* other ops: those that are f32 alone */
  if (guilt == NOTHING && (guilt = judge_code(set, &narrow)) != NOTHING) r = &narrow;
  if (guilt == NOTHING && set->device) guilt = judge_code(set, &wide); /* half types and gradients have no other code there */
  if (guilt == NOTHING && !set->device && (guilt = judge_passes(set, &half)) != NOTHING) r = &half;
  if (guilt == NOTHING && !set->device && (guilt = judge_code(set, &half)) != NOTHING) r = &half;
  if (guilt == NOTHING && !set->device) guilt = judge_gradient(set->ctx, &wide, 0);
  if (guilt == NOTHING) return true;
  printf("FAILED: --seed %llu: %s", (unsigned long long)seed, guilt_name(guilt));
  if (guilt >= PASS) printf(" (pass %d of %d)", guilt - PASS + 1, PASSES);
  putchar('\n');
  harness_quiet = true;
  shrink(set, r, guilt);
  harness_quiet = false;
  print_program(set->ctx, r, guilt);
  return false;
}

int main(int argc, char **argv) {
  long count = 500;
  uint64_t seed = 1;
  bool print = false, coverage = false, cuda = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--help")) return usage(stdout, 0);
    if (!strcmp(argv[i], "--print")) print = true;
    else if (!strcmp(argv[i], "--cuda")) cuda = true;
    else if (!strcmp(argv[i], "--coverage")) coverage = true;
    else if (i + 1 == argc) return usage(stderr, 2);
    else if (!strcmp(argv[i], "--count")) count = atol(argv[++i]);
    else if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[++i], NULL, 10);
    else return usage(stderr, 2);
  }
  Setting set;
  harness_start(&set);
  set.lo = -2, set.hi = 2, set.ihi = 2, set.tolerance = INFINITY;
  blu_cpu_parse("v3", &set.cpu);
  if (cuda) set.device = &player, set.noisy = 4;
  int failures = 0;
  Coverage c = {calloc((size_t)blu_nops, sizeof(int)), calloc((size_t)blu_nops, sizeof(int))};
  for (long i = 0; i < count && failures < 5; i++) {
    uint64_t s = seed + (uint64_t)i;
    for (int real = BLU_F32; print && real <= BLU_F16; real++) {
      Recipe r = recipe_of(s, (BluElem)real);
      print_program(set.ctx, &r, NOTHING), fflush(stdout);
    }
    if (coverage) count_ops(set.ctx, s, &c);
    failures += !check_program(&set, s);
  }
  bool covered = !coverage || print_coverage(&c);
  free(c.f32), free(c.f64);
  mlirContextDestroy(set.ctx);
  printf("%ld programs, %d failures\n", count, failures);
  const struct HarnessNoisy *e = &harness_compared;
  bool judged = !cuda || e->open * 10 < e->exact + e->near;
  if (cuda)
    printf("results: %lld elements bit for bit, %lld nearly, %lld left open, for they change with the order of sums%s\n", (long long)e->exact,
           (long long)e->near, (long long)e->open, judged ? "" : ": too many");
  return failures || !covered || !judged;
}
