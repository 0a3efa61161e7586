/* simplify.c - local rewrites, each an identity of IEEE arithmetic for every input (so x + 0, which changes -0, and x * 0 are
 * not among them), then MLIR's CSE, then dead code. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/format.h"
#include "mlir-c/Pass.h"
#include "mlir-c/Transforms.h"
#include "passes_internal.h"

static MlirValue operand(MlirOperation o, int i) { return mlirOperationGetOperand(o, i); }
static const MlirValue none = {0};

static bool is_constant(MlirValue v, double value) {
  double c;
  return blu_constant_value(v, &c) && c == value;
}

/* ---- one rewrite: the value to use instead of o's result, or none ---- */

static MlirValue fold_shape(BluBuilder *b, MlirOperation o) { /* broadcast and reshape */
  MlirValue x = operand(o, 0);
  BluType to = blu_value_type(mlirOperationGetResult(o, 0)), from = blu_value_type(x);
  double c;
  if (blu_type_same(&to, &from)) return x;
  if (blu_constant_value(x, &c)) return blu_constant(b, &to, c);
  MlirOperation d = blu_def(x);
  if (blu_is(o, "reshape") && blu_is(d, "reshape")) return blu_reshape_to(b, operand(d, 0), &to);
  if (blu_is(o, "broadcast") && blu_is(d, "broadcast")) return blu_broadcast_to(b, operand(d, 0), &to);
  return none;
}

static MlirValue fold_cast(BluBuilder *b, MlirOperation o) {
  MlirValue x = operand(o, 0);
  BluType to = blu_value_type(mlirOperationGetResult(o, 0)), from = blu_value_type(x);
  double c;
  if (to.elem == from.elem) return x;
  MlirOperation d = blu_def(x);
  if (blu_is(d, "cast") && blu_elem_is_half(to.elem) && blu_elem_is_float(from.elem) && blu_value_type(operand(d, 0)).elem == to.elem)
    return operand(d, 0); /* widened and back */
  if (!blu_constant_value(x, &c) || !blu_elem_is_float(to.elem) || from.elem == BLU_SIM) return none; /* which `formats` will round */
  return blu_constant(b, &to, blu_elem_round(from.elem, c));
}

static MlirValue fold_product(BluBuilder *b, MlirOperation o) {
  (void)b;
  if (is_constant(operand(o, 1), 1)) return operand(o, 0);
  if (blu_is(o, "mul") && is_constant(operand(o, 0), 1)) return operand(o, 1);
  return none;
}

static MlirValue fold_sub(BluBuilder *b, MlirOperation o) {
  (void)b;
  double c; /* x - (+0) is x; x - (-0) turns -0 into +0 */
  return blu_constant_value(operand(o, 1), &c) && c == 0 && !signbit(c) ? operand(o, 0) : none;
}

static MlirValue fold_neg(BluBuilder *b, MlirOperation o) {
  (void)b;
  return blu_is(blu_def(operand(o, 0)), "neg") ? operand(blu_def(operand(o, 0)), 0) : none;
}

static MlirValue fold_where(BluBuilder *b, MlirOperation o) {
  (void)b;
  double c;
  if (blu_constant_value(operand(o, 0), &c)) return operand(o, c != 0 ? 1 : 2);
  return mlirValueEqual(operand(o, 1), operand(o, 2)) ? operand(o, 1) : none;
}

static MlirValue fold_pow(BluBuilder *b, MlirOperation o) {
  if (is_constant(operand(o, 1), 1)) return operand(o, 0);
  /* in f32 the square is exact in the double that pow computes in */
  bool square = is_constant(operand(o, 1), 2) && blu_value_type(operand(o, 0)).elem == BLU_F32;
  return square ? blu_build2(b, "mul", operand(o, 0), operand(o, 0)) : none;
}

/* Does perm swap the last two axes and leave the rest? */
static bool swaps_last_two(const BluAttr *perm) {
  int n = perm->n;
  for (int i = 0; i < n - 2; i++)
    if (perm->i[i] != i) return false;
  return n >= 2 && perm->i[n - 2] == n - 1 && perm->i[n - 1] == n - 2;
}

/* (A B)^T = B^T A^T: the same products in the same order. Only if nobody else wants A B. */
static MlirValue transposed_product(BluBuilder *b, MlirOperation d) {
  MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(d, 0));
  BluSig s;
  blu_sig_of(d, &s);
  if (!mlirOpOperandIsNull(mlirOpOperandGetNextUse(use)) || s.in[0].rank != s.in[1].rank) return none;
  BluAttrs as = blu_attr_set_bool((BluAttrs){0}, "ta", !blu_attr_int(&s.attrs, "tb", 0));
  as = blu_attr_set_bool(as, "tb", !blu_attr_int(&s.attrs, "ta", 0));
  return blu_build(b, "matmul", &as, 2, (MlirValue[]){operand(d, 1), operand(d, 0)});
}

static MlirValue fold_transpose(BluBuilder *b, MlirOperation o) {
  BluAttrs as = blu_attrs_of(o);
  const BluAttr *p = blu_attr(&as, "perm");
  bool identity = true;
  for (int i = 0; i < p->n; i++) identity &= p->i[i] == i;
  if (identity) return operand(o, 0);
  MlirOperation d = blu_def(operand(o, 0));
  if (blu_is(d, "matmul") && swaps_last_two(p)) return transposed_product(b, d);
  if (!blu_is(d, "transpose")) return none;
  BluAttrs first = blu_attrs_of(d), both = {0};
  int64_t perm[BLU_MAX_RANK];
  for (int i = 0; i < p->n; i++) perm[i] = blu_attr(&first, "perm")->i[p->i[i]];
  both = blu_attr_set_ints(both, "perm", p->n, perm);
  MlirValue x = operand(d, 0);
  return blu_build(b, "transpose", &both, 1, &x);
}

/* A product reads a transposed operand as it stands. */
static MlirValue fold_matmul(BluBuilder *b, MlirOperation o) {
  BluAttrs as = blu_attrs_of(o);
  MlirValue in[2] = {operand(o, 0), operand(o, 1)};
  const char *flag[2] = {"ta", "tb"};
  bool changed = false;
  for (int i = 0; i < 2; i++) {
    MlirOperation d = blu_def(in[i]);
    if (!blu_is(d, "transpose")) continue;
    BluAttrs t = blu_attrs_of(d);
    if (!swaps_last_two(blu_attr(&t, "perm"))) continue;
    if (i == 0 && blu_value_type(in[0]).rank > 2 && blu_value_type(in[1]).rank == 2) continue; /* no-ta-of-batch */
    as = blu_attr_set_bool(as, flag[i], !blu_attr_int(&as, flag[i], 0));
    in[i] = operand(d, 0);
    changed = true;
  }
  return changed ? blu_build(b, "matmul", &as, 2, in) : none;
}

/* Rows of a table that is rounded for them alone: only what they hold needs rounding. */
static MlirValue fold_gather(BluBuilder *b, MlirOperation o) {
  MlirOperation d = blu_def(operand(o, 0));
  if (!blu_is(d, "cast") || !mlirOpOperandIsNull(mlirOpOperandGetNextUse(mlirValueGetFirstUse(operand(o, 0))))) return none;
  BluElem to = blu_value_type(operand(o, 0)).elem, from = blu_value_type(operand(d, 0)).elem;
  if (!blu_elem_is_half(to) || !blu_elem_is_float(from)) return none;
  return blu_cast_to(b, blu_build2(b, "gather", operand(d, 0), operand(o, 1)), to);
}

/* Over axes of size 1 the extremum is the operand. A sum is not: it starts at +0, so a single -0 gives +0. */
static MlirValue fold_reduce(BluBuilder *b, MlirOperation o) {
  BluSig s;
  blu_sig_of(o, &s);
  if (blu_type_count(&s.in[0]) != blu_type_count(&s.out)) return none;
  return blu_reshape_to(b, operand(o, 0), &s.out);
}

/* Arithmetic on constants, where double gives the rounded result of the type: one rounding to 53 bits and one to 24 or fewer is the
 * direct rounding for these ops (Figueroa, "When is double rounding innocuous?", 1995). */
static MlirValue fold_arithmetic(BluBuilder *b, MlirOperation o) {
  BluSig s;
  double in[2], out;
  blu_sig_of(o, &s);
  if (!blu_elem_is_float(s.out.elem) || s.out.elem == BLU_SIM) return none;
  for (int i = 0; i < s.nin; i++) {
    if (!blu_constant_value(operand(o, i), &in[i])) return none;
    in[i] = blu_elem_round(s.out.elem, in[i]);
  }
  BluSig scalar = {.nin = s.nin, .in = {{.elem = s.out.elem}, {.elem = s.out.elem}}, .out = {.elem = s.out.elem}};
  BluRefCall call = {.sig = &scalar, .in = {&in[0], &in[1]}, .out = &out};
  blu_op_of(o)->rule->ref(&call);
  return blu_constant(b, &s.out, blu_elem_round(s.out.elem, out));
}

static const struct { const char *op; MlirValue (*fold)(BluBuilder *, MlirOperation); } rewrites[] = {
  {"add", fold_arithmetic}, {"sub", fold_arithmetic}, {"mul", fold_arithmetic}, {"div", fold_arithmetic},
  {"sqrt", fold_arithmetic}, {"neg", fold_arithmetic},
  {"broadcast", fold_shape}, {"reshape", fold_shape}, {"cast", fold_cast}, {"mul", fold_product}, {"div", fold_product},
  {"sub", fold_sub}, {"neg", fold_neg}, {"where", fold_where}, {"pow", fold_pow}, {"transpose", fold_transpose},
  {"matmul", fold_matmul}, {"gather", fold_gather}, {"max", fold_reduce}, {"min", fold_reduce},
};

/* One pass over the block, operands before users; true if something changed. */
static bool rewrite_block(MlirBlock block) {
  int n;
  MlirOperation *ops = blu_block_ops(block, &n);
  bool changed = false;
  for (int i = 0; i < n; i++)
    for (size_t r = 0; r < sizeof rewrites / sizeof *rewrites; r++) {
      if (!blu_is(ops[i], rewrites[r].op)) continue;
      BluBuilder b = blu_builder_before(ops[i]);
      MlirValue by = rewrites[r].fold(&b, ops[i]);
      if (mlirValueIsNull(by)) continue;
      blu_replace(ops[i], by);
      changed = true;
      break;
    }
  free(ops);
  return changed;
}

static bool run_cse(MlirModule m) {
  MlirPassManager pm = mlirPassManagerCreate(mlirModuleGetContext(m));
  mlirPassManagerEnableVerifier(pm, false);
  mlirPassManagerAddOwnedPass(pm, mlirCreateTransformsCSE());
  bool good = mlirLogicalResultIsSuccess(mlirPassManagerRunOnOp(pm, mlirModuleGetOperation(m)));
  mlirPassManagerDestroy(pm);
  return good;
}

static bool simplify_scans(MlirModule m) {
  int n, k;
  bool changed = false;
  MlirOperation *funcs = blu_module_funcs(m, &n);
  for (int i = 0; i < n; i++) {
    MlirOperation *ops = blu_block_ops(blu_func_block(funcs[i]), &k);
    for (int j = 0; j < k; j++) changed |= blu_is(ops[j], "scan") && blu_simplify_scan(ops[j]);
    free(ops);
  }
  free(funcs);
  return changed;
}

static void each_function(MlirModule m, void (*run)(MlirBlock block)) {
  int n;
  MlirOperation *funcs = blu_module_funcs(m, &n);
  for (int i = 0; i < n; i++) run(blu_func_block(funcs[i]));
  free(funcs);
}

static void rewrite(MlirBlock block) {
  while (rewrite_block(block)) continue;
}

bool blu_pass_simplify(MlirModule m) {
  each_function(m, rewrite);
  bool good = run_cse(m);
  do { /* a scan that loses a result may leave others without users */
    each_function(m, blu_remove_dead);
    blu_remove_orphans(m);
  } while (simplify_scans(m));
  return good;
}
