/* programs.c - random well-typed programs, made from the op table, through the whole compiler.
 *
 * Each program is checked three ways: the interpreter gives the same numbers after every pass as before (this names the guilty pass);
 * its gradient is that of central differences along a random direction; its compiled code equals the bit contract. A failing
 * program is reduced to the first value that fails. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"
#include "harness.h"
#include "passes/passes.h"

enum { MAX_VALUES = 40, MAX_ARGS = 4 };
typedef struct { MlirModule module; MlirOperation func; int nargs, nvalues; MlirValue value[MAX_VALUES]; } Program;

static int below(int n) { return n > 0 ? (int)(harness_random() % (uint64_t)n) : 0; }

/* ---- making programs ---- */

static const int64_t sizes[] = {1, 1, 2, 3, 5, 16, 17, 33};
static BluType random_type(BluElem elem) {
  BluType t = {.elem = elem, .rank = below(4)};
  for (int i = 0; i < t.rank; i++) t.dim[i] = sizes[below(8)];
  return t;
}

/* A shape with the elements of t: flattened, a unit put in, or two dimensions joined. */
static int other_shape(const BluType *t, int64_t *dim) {
  int n = 0;
  if (below(3) == 0) return dim[0] = blu_type_count(t), 1;
  int unit = below(2) && t->rank < 4 ? below(t->rank + 1) : -1, join = unit < 0 ? below(t->rank ? t->rank : 1) : -1;
  for (int i = 0; i < t->rank; i++) {
    if (i == unit) dim[n++] = 1;
    if (i == join && i + 1 < t->rank) dim[n++] = t->dim[i] * t->dim[i + 1], i++;
    else dim[n++] = t->dim[i];
  }
  if (unit == t->rank) dim[n++] = 1;
  return n;
}

/* A shape that t broadcasts to. */
static int wider_shape(const BluType *t, int64_t *dim) {
  int lead = t->rank < 3 ? below(3) : 0, n = 0;
  for (int i = 0; i < lead; i++) dim[n++] = sizes[2 + below(4)];
  for (int i = 0; i < t->rank; i++) dim[n++] = t->dim[i] == 1 && below(2) ? sizes[2 + below(6)] : t->dim[i];
  return n;
}

static BluAttrs random_attrs(const BluOp *op, const BluSig *s) {
  BluAttrs as = {0};
  for (int i = 0; i < op->nattr; i++) {
    const BluAttrInfo *a = &op->attr[i];
    int rank = s->nin ? s->in[0].rank : 2, n;
    int64_t v[BLU_MAX_RANK];
    if (a->optional && below(2)) continue;
    switch (a->kind) {
    case BLU_ATTR_INT: as = blu_attr_set_int(as, a->name, strcmp(a->name, "axis") ? below(1000) : below(2 * rank) - rank); break;
    case BLU_ATTR_BOOL: as = blu_attr_set_bool(as, a->name, below(2)); break;
    case BLU_ATTR_REAL: as = blu_attr_set_real(as, a->name, strcmp(a->name, "value") ? 0.5 : below(2)); break; /* eps, p: not degenerate */
    case BLU_ATTR_TYPE: as = blu_attr_set_type(as, a->name, (BluElem)below(BLU_ELEMS)); break;
    case BLU_ATTR_INTS:
      if (!strcmp(a->name, "shape") && !s->nin) v[0] = sizes[below(8)], v[1] = sizes[below(8)], n = 2;
      else if (!strcmp(a->name, "shape")) n = !strcmp(op->name, "broadcast") ? wider_shape(&s->in[0], v) : other_shape(&s->in[0], v);
      else if (!strcmp(a->name, "perm")) {
        for (n = 0; n < rank; n++) v[n] = n;
        for (int k = rank - 1; k > 0; k--) {
          int j = below(k + 1);
          int64_t swap = v[k];
          v[k] = v[j], v[j] = swap;
        }
      } else {
        n = 0;
        for (int k = 0; k < rank; k++)
          if (below(2)) v[n++] = k;
      }
      as = blu_attr_set_ints(as, a->name, n, v);
      break;
    default: break;
    }
  }
  return as;
}

/* Tries to add one op with operands from what is there; most tries are refused by infer, which is the point. */
static bool add_op(Program *p, BluBuilder *b, BluElem real) {
  const BluOp *op = &blu_ops[below(blu_nops)];
  /* at large arguments a sine tells nothing about how near two numbers are */
  if (real == BLU_F64 && (!strcmp(op->name, "sin") || !strcmp(op->name, "cos"))) return false;
  BluSig s = {.nin = op->nin};
  BluWhy why;
  MlirValue in[BLU_MAX_IN];
  if (op->nin < 0 || !op->nout) return false;
  for (int i = 0; i < s.nin; i++) {
    in[i] = p->value[below(p->nvalues)];
    if (i && below(2)) { /* as the first, if there is one */
      int k = below(p->nvalues);
      for (int tries = 0; tries < p->nvalues; tries++, k = (k + 1) % p->nvalues) {
        BluType x = blu_value_type(p->value[k]), y = blu_value_type(in[0]);
        if (blu_type_same(&x, &y)) break;
      }
      in[i] = p->value[k];
    }
    s.in[i] = blu_value_type(in[i]);
  }
  s.attrs = random_attrs(op, &s);
  if (!blu_infer(op, &s, &why) || blu_type_count(&s.out) > 5000) return false;
  if (blu_elem_is_float(s.out.elem) && s.out.elem != real) return false;
  if (op->rule->kind != BLU_KIND_ELEMENT && op->rule->kind != BLU_KIND_INDEX && op->rule->kind != BLU_KIND_VIEW && !blu_has_code(op)) return false;
  BluAttrs as = s.attrs;
  p->value[p->nvalues++] = blu_build(b, op->name, &as, s.nin, in);
  return true;
}

/* In f64 a composite and what it expands to use the same constants, so that numbers can be compared closely; in f32 they round. */
static Program random_program(MlirContext ctx, BluElem real) {
  Program p = {.module = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx))};
  BluPort ports[MAX_ARGS];
  MlirBlock block;
  p.nargs = 1 + below(MAX_ARGS);
  for (int i = 0; i < p.nargs; i++) {
    const BluElem elems[] = {real, real, real, real, BLU_I32, BLU_U8, BLU_BOOL};
    ports[i] = (BluPort){.role = "input", .name = "x", .type = random_type(i ? elems[below(7)] : real)};
    if (i && below(2)) {
      BluElem e = ports[i].type.elem;
      ports[i].type = ports[0].type;
      ports[i].type.elem = e;
    }
  }
  p.func = blu_func_make(p.module, mlirLocationUnknownGet(ctx), "f", p.nargs, ports, &block);
  for (int i = 0; i < p.nargs; i++) p.value[p.nvalues++] = mlirBlockGetArgument(block, i);
  BluBuilder b = {ctx, mlirLocationUnknownGet(ctx), block, {0}};
  int ops = 3 + below(20);
  for (int tries = 0; tries < 4000 && p.nvalues < p.nargs + ops && p.nvalues < MAX_VALUES; tries++) add_op(&p, &b, real);
  return p;
}

/* Ends the function by returning up to three of its last values, or only value `which`. */
static void finish(Program *p, int which) {
  MlirValue out[3];
  BluPort ports[3];
  int n = 0;
  for (int i = p->nvalues - 1; i >= p->nargs && n < 3; i -= 1 + i % 2)
    if (which < 0 || i == which) out[n++] = p->value[i];
  if (which >= 0) out[0] = p->value[which], n = 1;
  if (!n) out[n++] = p->value[0];
  for (int i = 0; i < n; i++) ports[i] = (BluPort){.role = "output", .name = "y", .type = blu_value_type(out[i])};
  blu_func_return(p->func, mlirLocationUnknownGet(mlirModuleGetContext(p->module)), n, out, ports);
}

/* ---- the interpreter as judge ---- */

typedef struct { double *arg[MAX_ARGS], *result[3]; BluType type[3]; int nargs, n; } Numbers;

static void random_arguments(const Program *p, Numbers *x) {
  x->nargs = p->nargs;
  for (int i = 0; i < p->nargs; i++) {
    BluType t = blu_value_type(p->value[i]);
    int64_t n = blu_type_count(&t);
    x->arg[i] = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t k = 0; k < n; k++)
      x->arg[i][k] = blu_elem_is_float(t.elem) ? harness_uniform(-2, 2) : t.elem == BLU_BOOL ? below(2) : below(5);
  }
}

static bool interpret(MlirModule m, Numbers *x, BluWhy *why) {
  MlirOperation f = blu_func_find(m, "f");
  x->n = blu_func_nresults(f);
  for (int i = 0; i < x->n; i++) x->type[i] = blu_func_result(f, i).type;
  return blu_interp_run(m, f, (const double *const *)x->arg, x->result, why);
}

static void free_results(Numbers *x) {
  for (int i = 0; i < x->n; i++) free(x->result[i]), x->result[i] = NULL;
}
static void free_arguments(Numbers *x) {
  for (int i = 0; i < x->nargs; i++) free(x->arg[i]);
}

/* Doubles that were computed in another order: equal to 1e-9 of the larger, both NaN, or both too large to say. */
static bool near_double(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return true;
  return fabs(a - b) <= 1e-9 * fmax(1, fmax(fabs(a), fabs(b)));
}

/* NULL: every pass keeps the numbers; else the name of the first that doesn't. */
static const char *guilty_pass(Program *p) {
  static const char *const passes[] = {"simplify", "expand", "simplify", "fuse", "plan"};
  Numbers before, after;
  BluWhy why;
  const char *guilty = NULL;
  random_arguments(p, &before);
  after = before;
  if (!interpret(p->module, &before, &why)) return "the interpreter";
  for (size_t i = 0; i < sizeof passes / sizeof *passes && !guilty; i++) {
    if (!blu_pass_find(passes[i])->run(p->module) || !mlirOperationVerify(mlirModuleGetOperation(p->module)) ||
        !interpret(p->module, &after, &why)) {
      guilty = passes[i];
      break;
    }
    for (int r = 0; r < before.n; r++)
      for (int64_t k = 0, n = blu_type_count(&before.type[r]); k < n && !guilty; k++)
        if (!near_double(before.result[r][k], after.result[r][k])) guilty = passes[i];
    free_results(&after);
  }
  free_results(&before);
  free_arguments(&before);
  return guilty;
}

/* ---- gradients ---- */

/* d/dh of sum(ct * last result) along a random direction, by the rules and by differences. Where the function jumps or bends between the
 * points, or is too steep to tell, differences with two steps disagree, and nothing is said. */
static bool gradient_is_right(MlirContext ctx, uint64_t seed) {
  harness_seed(seed);
  Program p = random_program(ctx, BLU_F64);
  MlirValue root = {0}, wrt[MAX_ARGS], grads[MAX_ARGS] = {{0}}, out[MAX_ARGS + 1];
  for (int i = p.nvalues - 1; i >= p.nargs && mlirValueIsNull(root); i--)
    if (blu_value_type(p.value[i]).elem == BLU_F64) root = p.value[i];
  int nwrt = 0, arg[MAX_ARGS];
  for (int i = 0; i < p.nargs; i++)
    if (blu_value_type(p.value[i]).elem == BLU_F64) arg[nwrt] = i, wrt[nwrt++] = p.value[i];
  if (mlirValueIsNull(root)) return mlirModuleDestroy(p.module), true;
  BluBuilder b = {ctx, mlirLocationUnknownGet(ctx), blu_func_block(p.func), {0}};
  MlirValue ct = blu_constant_like(&b, root, 1), sum = root;
  BluAttrs all = {0};
  if (blu_value_type(root).rank) sum = blu_build(&b, "sum", &all, 1, &root);
  /* the walk wants an op to stand before: the return, which is replaced */
  blu_func_return(p.func, b.loc, 1, &sum, NULL);
  MlirOperation end = mlirBlockGetTerminator(blu_func_block(p.func));
  b = blu_builder_before(end);
  bool good = blu_gradient(&b, 1, &root, &ct, nwrt, wrt, grads);
  out[0] = sum;
  for (int i = 0; i < nwrt; i++) out[i + 1] = mlirValueIsNull(grads[i]) ? blu_constant_like(&b, wrt[i], 0) : grads[i];
  mlirOperationDestroy(end);
  blu_func_return(p.func, mlirLocationUnknownGet(ctx), nwrt + 1, out, NULL);
  Numbers x;
  BluWhy why;
  double *results[MAX_ARGS + 1], *dir[MAX_ARGS], slope = 0, f[5];
  random_arguments(&p, &x);
  good = good && blu_interp_run(p.module, p.func, (const double *const *)x.arg, results, &why);
  for (int i = 0; i < nwrt && good; i++) {
    BluType t = blu_value_type(p.value[arg[i]]);
    int64_t n = blu_type_count(&t);
    dir[i] = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t k = 0; k < n; k++) dir[i][k] = harness_uniform(-1, 1), slope += dir[i][k] * results[i + 1][k];
  }
  for (int i = 0; i <= nwrt && good; i++) free(results[i]);
  static const double steps[] = {1e-5, -1e-5, 2e-5, -2e-5};
  for (int s = 0; s < 4 && good; s++) {
    Numbers y = x;
    for (int i = 0; i < nwrt; i++) {
      BluType t = blu_value_type(p.value[arg[i]]);
      int64_t n = blu_type_count(&t);
      y.arg[arg[i]] = malloc((size_t)(n + 1) * sizeof(double));
      for (int64_t k = 0; k < n; k++) y.arg[arg[i]][k] = x.arg[arg[i]][k] + steps[s] * dir[i][k];
    }
    good = blu_interp_run(p.module, p.func, (const double *const *)y.arg, results, &why);
    f[s] = good ? results[0][0] : 0;
    for (int i = 0; i <= nwrt && good; i++) free(results[i]);
    for (int i = 0; i < nwrt; i++) free(y.arg[arg[i]]);
  }
  if (good) {
    double d1 = (f[0] - f[1]) / 2e-5, d2 = (f[2] - f[3]) / 4e-5, scale = fmax(1, fabs(d1));
    double noise = 1e-10 * fabs(f[0]) / 1e-5; /* rounding of a large sum */
    /* a slope that is not finite: the program is at a kink such as sqrt(x - x); that rules give no NaN elsewhere is for the op tests */
    bool sure = isfinite(slope) && fabs(d1 - d2) <= 1e-6 * scale && noise < 1e-4 * scale && fabs(d1) < 1e3;
    if (sure && !(fabs(slope - d1) <= 1e-4 * scale + noise)) {
      printf("gradient: by the rules %.9g, by differences %.9g\n", slope, d1);
      good = false;
    }
    for (int i = 0; i < nwrt; i++) free(dir[i]);
  }
  free_arguments(&x);
  mlirModuleDestroy(p.module);
  return good;
}

/* ---- the loop ---- */

static void print_to(MlirStringRef s, void *file) { fwrite(s.data, 1, s.length, file); }

static bool passes_are_right(MlirContext ctx, uint64_t seed, int which, const char **guilty) {
  harness_seed(seed);
  Program p = random_program(ctx, BLU_F64);
  finish(&p, which);
  *guilty = guilty_pass(&p);
  mlirModuleDestroy(p.module);
  return !*guilty;
}

static bool code_is_right(const Setting *set, uint64_t seed, int which) {
  harness_seed(seed);
  Program p = random_program(set->ctx, BLU_F32);
  finish(&p, which);
  return harness_check_module(set, p.module, "a random program");
}

/* The program that returns only value `which` (or all, if -1), printed without what that doesn't need. */
static void print_program(MlirContext ctx, uint64_t seed, BluElem real, int which) {
  harness_seed(seed);
  Program p = random_program(ctx, real);
  finish(&p, which);
  for (int i = p.nvalues - 1; i >= p.nargs; i--)
    if (mlirOpOperandIsNull(mlirValueGetFirstUse(p.value[i]))) mlirOperationDestroy(blu_def(p.value[i]));
  mlirOperationPrint(mlirModuleGetOperation(p.module), print_to, stdout);
  mlirModuleDestroy(p.module);
}

static int values_of(MlirContext ctx, uint64_t seed, BluElem real) {
  harness_seed(seed);
  Program p = random_program(ctx, real);
  mlirModuleDestroy(p.module);
  return p.nvalues;
}

static int usage(FILE *out, int status) {
  fputs("usage: programs [--count N] [--seed N] [--print]\n\nMakes N random programs (default 500) from the op table and sends them through the compiler.\n"
        "A failure prints the seed of the program and its smallest part that fails: --count 1 --seed THAT runs it again, and\n"
        "--print prints it before, as it must for one that crashes.\n"
        "exit status: 0 all good, 1 a failure, 2 usage\n", out);
  return status;
}

int main(int argc, char **argv) {
  long count = 500;
  uint64_t seed = 1;
  bool print = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--help")) return usage(stdout, 0);
    if (!strcmp(argv[i], "--print")) {
      print = true;
      continue;
    }
    if (i + 1 == argc) return usage(stderr, 2);
    if (!strcmp(argv[i], "--count")) count = atol(argv[++i]);
    else if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[++i], NULL, 10);
    else return usage(stderr, 2);
  }
  Setting set;
  harness_start(&set);
  set.lo = -2, set.hi = 2, set.ihi = 2, set.tolerance = INFINITY;
  blu_cpu_parse("v3", &set.cpu);
  int failures = 0;
  for (long i = 0; i < count && failures < 5; i++) {
    uint64_t s = seed + (uint64_t)i;
    const char *guilty = NULL;
    for (int real = BLU_F32; print && real <= BLU_F64; real++) print_program(set.ctx, s, (BluElem)real, -1), fflush(stdout);
    bool numbers = passes_are_right(set.ctx, s, -1, &guilty), code = numbers && code_is_right(&set, s, -1);
    bool gradient = gradient_is_right(set.ctx, s);
    if (numbers && code && gradient) continue;
    failures++;
    printf("FAILED: --seed %llu: %s\n", (unsigned long long)s, !gradient && numbers && code ? "gradient" : guilty ? guilty : "compiled code");
    BluElem real = numbers && !code ? BLU_F32 : BLU_F64;
    int n = values_of(set.ctx, s, real), v = 0;
    while (v < n && !(numbers && code) && (numbers ? code_is_right(&set, s, v) : passes_are_right(set.ctx, s, v, &guilty))) v++;
    print_program(set.ctx, s, real, v < n && !(numbers && code) ? v : -1); /* no single value fails: the whole program */
  }
  mlirContextDestroy(set.ctx);
  printf("%ld programs, %d failures\n", count, failures);
  return failures != 0;
}
