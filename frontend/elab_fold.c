/* elab_fold.c - ops over compile-time numbers, booleans and strings: 64-bit integers that don't overflow, doubles. */
#include <math.h>
#include <string.h>
#include "elab_internal.h"

static double f_neg(double x) { return -x; }
static double f_rsqrt(double x) { return 1 / sqrt(x); }
static double f_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double f_relu(double x) { return x > 0 || x != x ? x : 0; }
static double f_add(double a, double b) { return a + b; }
static double f_sub(double a, double b) { return a - b; }
static double f_mul(double a, double b) { return a * b; }
static double f_div(double a, double b) { return a / b; }
static double f_max(double a, double b) { return a > b || a != a ? a : b; }
static double f_min(double a, double b) { return a < b || a != a ? a : b; }

static bool i_neg(int64_t a, int64_t b, int64_t *r) { return (void)b, !__builtin_sub_overflow((int64_t)0, a, r); }
static bool i_abs(int64_t a, int64_t b, int64_t *r) { return a < 0 ? i_neg(a, b, r) : (*r = a, true); }
static bool i_same(int64_t a, int64_t b, int64_t *r) { return (void)b, *r = a, true; }
static bool i_add(int64_t a, int64_t b, int64_t *r) { return !__builtin_add_overflow(a, b, r); }
static bool i_sub(int64_t a, int64_t b, int64_t *r) { return !__builtin_sub_overflow(a, b, r); }
static bool i_mul(int64_t a, int64_t b, int64_t *r) { return !__builtin_mul_overflow(a, b, r); }
static bool i_max(int64_t a, int64_t b, int64_t *r) { return *r = a > b ? a : b, true; }
static bool i_min(int64_t a, int64_t b, int64_t *r) { return *r = a < b ? a : b, true; }
static bool i_relu(int64_t a, int64_t b, int64_t *r) { return (void)b, i_max(a, 0, r); }

/* Integers stay integers where `i` is; else they become doubles. div and pow have rules of their own. */
static const struct {
  const char *op;
  double (*f1)(double);
  double (*f2)(double, double);
  bool (*i)(int64_t, int64_t, int64_t *);
} arithmetic[] = {
    {"neg", f_neg, NULL, i_neg},     {"abs", fabs, NULL, i_abs},         {"floor", floor, NULL, i_same},
    {"exp", exp, NULL, NULL},        {"log", log, NULL, NULL},           {"sqrt", sqrt, NULL, NULL},
    {"rsqrt", f_rsqrt, NULL, NULL},  {"sin", sin, NULL, NULL},           {"cos", cos, NULL, NULL},
    {"tanh", tanh, NULL, NULL},      {"sigmoid", f_sigmoid, NULL, NULL}, {"relu", f_relu, NULL, i_relu},
    {"add", NULL, f_add, i_add},     {"sub", NULL, f_sub, i_sub},        {"mul", NULL, f_mul, i_mul},
    {"div", NULL, f_div, NULL},      {"pow", NULL, pow, NULL},           {"maximum", NULL, f_max, i_max},
    {"minimum", NULL, f_min, i_min},
};

bool blu_fold_known(const BluOperand *in, int n) {
  for (int i = 0; i < n; i++)
    if (in[i].val.kind < VAL_INT || in[i].val.kind > VAL_STRING) return false;
  return true;
}

static BluVal wrong_kind(BluElab *E, const BluOp *op, const BluOperand *v, const char *wants) {
  blu_elab_error(E, BLU_E_KIND, v->span, "`%s` needs %s, not %s", blu_op_text(op), wants, blu_val_describe(E, &v->val));
  return blu_val_unknown;
}

static BluVal overflow(BluElab *E, BluSpan at) {
  blu_elab_error(E, BLU_E_ARITHMETIC, at, "the result does not fit in 64 bits");
  return blu_val_unknown;
}

static BluVal divide(BluElab *E, int64_t a, int64_t b, BluSpan at) {
  if (b == 0) {
    blu_elab_error(E, BLU_E_ARITHMETIC, at, "division of the integer %lld by zero", (long long)a);
    return blu_val_unknown;
  }
  if (a == INT64_MIN && b == -1) return overflow(E, at);
  if (a % b == 0) return blu_val_int(a / b);
  BluDiag *d = blu_elab_error(E, BLU_E_ARITHMETIC, at, "%lld / %lld is not an integer", (long long)a, (long long)b);
  blu_diag_help(d, "`div(a, b)` rounds down; `1.0 * a / b` is a real number");
  return blu_val_unknown;
}

static BluVal power(BluElab *E, int64_t a, int64_t n, BluSpan at) {
  if (n < 0) return blu_val_real(pow((double)a, (double)n));
  int64_t r = 1;
  for (; n; n >>= 1) {
    if (n & 1 && !i_mul(r, a, &r)) return overflow(E, at);
    if (n > 1 && !i_mul(a, a, &a)) return overflow(E, at);
  }
  return blu_val_int(r);
}

static BluVal fold_logic(BluElab *E, const BluOp *op, const BluOperand *in, int n) {
  for (int i = 0; i < n; i++)
    if (in[i].val.kind != VAL_BOOL) return wrong_kind(E, op, &in[i], "conditions");
  bool a = in[0].val.u.b;
  return blu_val_bool(n == 1 ? !a : op->name[0] == 'a' ? a && in[1].val.u.b : a || in[1].val.u.b);
}

static BluVal fold_compare(BluElab *E, const BluOp *op, const BluOperand *in, BluSpan at) {
  const BluVal *a = &in[0].val, *b = &in[1].val;
  double x, y;
  int c; /* -1, 0, 1; 2: not comparable (NaN) */
  bool numbers = blu_val_number(a, &x) && blu_val_number(b, &y);
  if (a->kind == VAL_INT && b->kind == VAL_INT) c = a->u.i < b->u.i ? -1 : a->u.i > b->u.i;
  else if (numbers) c = x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
  else if (a->kind == VAL_BOOL && b->kind == VAL_BOOL) c = a->u.b != b->u.b;
  else if (a->kind == VAL_STRING && b->kind == VAL_STRING) c = strcmp(a->u.s, b->u.s) != 0;
  else {
    blu_elab_error(E, BLU_E_KIND, at, "can't compare %s with %s", blu_val_describe(E, a), blu_val_describe(E, b));
    return blu_val_unknown;
  }
  if (!strcmp(op->name, "eq")) return blu_val_bool(c == 0);
  if (!strcmp(op->name, "ne")) return blu_val_bool(c != 0);
  if (!numbers) return wrong_kind(E, op, &in[0], "numbers");
  bool less = op->name[0] == 'l', or_equal = op->name[1] == 'e';
  return blu_val_bool(c == (less ? -1 : 1) || (or_equal && c == 0));
}

BluVal blu_fold(BluElab *E, const BluOp *op, const BluOperand *in, int n, BluSpan at) {
  const char *name = op->name;
  if (!strcmp(name, "and") || !strcmp(name, "or") || !strcmp(name, "not")) return fold_logic(E, op, in, n);
  if (n == 2 && strlen(name) == 2) return fold_compare(E, op, in, at);
  if (!strcmp(name, "where")) {
    if (in[0].val.kind != VAL_BOOL) return wrong_kind(E, op, &in[0], "a condition");
    return in[in[0].val.u.b ? 1 : 2].val;
  }
  double x[2] = {0, 0};
  bool integers = true;
  for (int i = 0; i < n && i < 2; i++) {
    if (!blu_val_number(&in[i].val, &x[i])) return wrong_kind(E, op, &in[i], "a number");
    integers &= in[i].val.kind == VAL_INT;
  }
  int64_t a = integers ? in[0].val.u.i : 0, b = integers && n > 1 ? in[1].val.u.i : 0, r;
  if (integers && !strcmp(name, "div")) return divide(E, a, b, at);
  if (integers && !strcmp(name, "pow")) return power(E, a, b, at);
  for (size_t k = 0; k < sizeof arithmetic / sizeof *arithmetic; k++) {
    if (strcmp(arithmetic[k].op, name)) continue;
    if (integers && arithmetic[k].i) return arithmetic[k].i(a, b, &r) ? blu_val_int(r) : overflow(E, at);
    return blu_val_real(n == 1 ? arithmetic[k].f1(x[0]) : arithmetic[k].f2(x[0], x[1]));
  }
  return wrong_kind(E, op, &in[0], "a tensor");
}

BluVal blu_fold_mod(BluElab *E, const BluOperand *in, BluSpan at) {
  for (int i = 0; i < 2; i++)
    if (in[i].val.kind == VAL_UNKNOWN) return blu_val_unknown;
  for (int i = 0; i < 2; i++) {
    if (in[i].val.kind == VAL_INT) continue;
    blu_elab_error(E, BLU_E_KIND, in[i].span, "`%%` needs integers known when compiled, not %s",
                   blu_val_describe(E, &in[i].val));
    return blu_val_unknown;
  }
  int64_t a = in[0].val.u.i, b = in[1].val.u.i;
  if (b == 0) {
    blu_elab_error(E, BLU_E_ARITHMETIC, at, "division of the integer %lld by zero", (long long)a);
    return blu_val_unknown;
  }
  int64_t r = b == -1 ? 0 : a % b;
  return blu_val_int(r && (r < 0) != (b < 0) ? r + b : r);
}
