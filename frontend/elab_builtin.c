/* elab_builtin.c - names that every program knows: the ops marked `builtin` in the op table, element types, and the few
 * functions that need more than an op's operands and attributes. */
#include <math.h>
#include <string.h>
#include "elab_internal.h"

/* ---- arguments ---- */

/* Exactly `want` arguments by place. */
static bool positional(BluElab *E, const BluBuiltin *self, const BluOperand *args, int n, int want, BluSpan at) {
  for (int i = 0; i < n; i++) {
    if (args[i].val.kind == VAL_UNKNOWN) return false;
    if (!args[i].name.text) continue;
    blu_elab_error(E, BLU_E_UNKNOWN_ARGUMENT, args[i].name.span, "`%s` takes its arguments by place", self->name);
    return false;
  }
  if (n == want) return true;
  blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s` takes %d argument%s, not %d", self->name, want, want == 1 ? "" : "s", n);
  return false;
}

static bool add_dim(BluElab *E, BluType *t, const BluVal *v, const BluExpr *expr, BluSpan at) {
  if (v->kind == VAL_UNKNOWN) return false;
  if (v->kind != VAL_INT || v->u.i < 1 || t->rank == BLU_MAX_RANK) {
    blu_elab_error(E, BLU_E_DIMENSION, at,
                   t->rank == BLU_MAX_RANK ? "a tensor has at most 8 dimensions"
                                           : "a dimension is a positive integer, not %s",
                   blu_val_describe(E, v));
    return false;
  }
  t->dim[t->rank] = v->u.i;
  t->name[t->rank] = expr && expr->kind == BLU_EXPR_NAME ? expr->u.name : NULL;
  t->unit[t->rank] = expr && expr->kind == BLU_EXPR_INT && v->u.i == 1;
  t->rank++;
  return true;
}

bool blu_elab_dims(BluElab *E, const char *name, const BluOperand *args, int n, BluType *t) {
  for (int i = 0; i < n; i++) {
    if (args[i].name.text) {
      blu_elab_error(E, BLU_E_UNKNOWN_ARGUMENT, args[i].name.span, "`%s` takes its dimensions by place", name);
      return false;
    }
    if (args[i].val.kind == VAL_LIST) {
      for (int k = 0; k < args[i].val.u.list->n; k++)
        if (!add_dim(E, t, &args[i].val.u.list->item[k], NULL, args[i].span)) return false;
    } else if (!add_dim(E, t, &args[i].val, args[i].expr, args[i].span)) {
      return false;
    }
  }
  return true;
}

/* ---- functions ---- */

static bool numbers(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, int want, double *x, BluSpan at) {
  if (!positional(E, self, args, n, want, at)) return false;
  for (int i = 0; i < want; i++) {
    if (blu_val_number(&args[i].val, &x[i])) continue;
    blu_elab_error(E, BLU_E_KIND, args[i].span, "`%s` needs a number known when compiled, not %s", self->name,
                   blu_val_describe(E, &args[i].val));
    return false;
  }
  return true;
}

static BluVal call_uniform(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  double x[2];
  return numbers(E, self, args, n, 2, x, at) ? blu_val_init(E, (BluInit){.kind = INIT_UNIFORM, .a = x[0], .b = x[1]})
                                             : blu_val_unknown;
}

static BluVal call_normal(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  double x[2];
  return numbers(E, self, args, n, 2, x, at) ? blu_val_init(E, (BluInit){.kind = INIT_NORMAL, .a = x[0], .b = x[1]})
                                             : blu_val_unknown;
}

static BluVal call_truncated_normal(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  double x[4];
  if (!numbers(E, self, args, n, 4, x, at)) return blu_val_unknown;
  if (!(x[2] < x[3])) {
    blu_elab_error(E, BLU_E_INITIALISER, at, "a distribution between %g and %g deviations is empty", x[2], x[3]);
    return blu_val_unknown;
  }
  return blu_val_init(E, (BluInit){INIT_TRUNCATED, x[0], x[1], x[2], x[3]});
}

BluVal blu_builtin_fill(BluElab *E, const BluInit *init, BluOperand *args, int n, BluSpan at) {
  BluType t = {.elem = blu_elab_float(E)};
  const char *name = init->kind != INIT_FILL ? "a distribution" : init->a != 0 ? "ones" : "zeros";
  if (!blu_elab_dims(E, name, args, n, &t) || !blu_elab_bounded(E, &t, at)) return blu_val_unknown;
  if (init->kind != INIT_FILL) return blu_elab_random(E, init, &t, at);
  BluOperand fill = {.val = blu_val_real(init->a), .span = at};
  MlirValue v;
  return blu_elab_spread(E, &fill, &t, &v) ? blu_val_tensor(E, v, &t) : blu_val_unknown;
}

static __int128 count_of(const BluType *t, int without) {
  __int128 n = 1, most = (__int128)1 << 62;
  for (int i = 0; i < t->rank; i++)
    if (i != without) n = n > most / t->dim[i] ? most : n * t->dim[i];
  return n;
}

/* A reshape keeps the number of elements. If one dimension alone is wrong, the right one is known. */
static bool same_count(BluElab *E, const BluType *have, const BluType *want, const BluOperand *args, BluSpan at) {
  __int128 n = count_of(have, -1), m = count_of(want, -1);
  if (n == m) return true;
  BluDiag *d = blu_elab_error(E, BLU_E_OP, at, "`reshape`: %s has %lld elements, %s has %lld [same-count]",
                              blu_type_text(E, have), (long long)n, blu_type_text(E, want), (long long)m);
  blu_diag_label(d, args[0].span, "%s", blu_type_text(E, have));
  for (int i = want->rank - 1; i >= 0; i--) {
    __int128 rest = count_of(want, i);
    if (want->name[i] || n % rest) continue;
    blu_diag_help(d, "with %lld in the place of %lld it fits", (long long)(n / rest), (long long)want->dim[i]);
    break;
  }
  return false;
}

static BluVal shaped(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  BluType t = {0}, have;
  if (n < 1 || args[0].name.text) {
    blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s(x, dims...)` takes a tensor and dimensions", self->name);
    return blu_val_unknown;
  }
  if (args[0].val.kind == VAL_UNKNOWN || !blu_elab_dims(E, self->name, args + 1, n - 1, &t)) return blu_val_unknown;
  if (blu_val_type(&args[0].val, &have)) t.elem = have.elem;
  if (!strcmp(self->name, "reshape") && blu_val_type(&args[0].val, &have) && !same_count(E, &have, &t, args, at))
    return blu_val_unknown;
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", t.rank, t.dim);
  BluVal v = blu_elab_apply(E, blu_op_find(self->name), args, 1, &as, at);
  if (v.kind == VAL_TENSOR) v.u.tensor->type = t; /* the same sizes, with the names and units of this call */
  return v;
}

static BluVal call_transpose(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  const BluOp *op = blu_op_find(self->name);
  BluType t;
  if (n != 1 || args[0].name.text || !blu_val_type(&args[0].val, &t)) return blu_elab_call_op(E, op, args, n, at);
  if (t.rank < 2) {
    blu_elab_error(E, BLU_E_OP, args[0].span, "`transpose` swaps the last two dimensions, and %s has not so many",
                   blu_type_text(E, &t));
    return blu_val_unknown;
  }
  int64_t perm[BLU_MAX_RANK];
  for (int i = 0; i < t.rank; i++) perm[i] = i < t.rank - 2 ? i : 2 * t.rank - 3 - i;
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "perm", t.rank, perm);
  return blu_elab_apply(E, op, args, 1, &as, at);
}

static BluVal call_iota(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  BluType t = {.elem = BLU_I32};
  if (!positional(E, self, args, n, 1, at) || !blu_elab_dims(E, self->name, args, n, &t)) return blu_val_unknown;
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", t.rank, t.dim);
  as = blu_attr_set_type(blu_attr_set_int(as, "axis", 0), "elem", BLU_I32);
  if (!E->build) {
    blu_elab_error(E, BLU_E_NO_FUNCTION, at, "tensors are computed in functions, entries and the `train` block alone");
    return blu_val_unknown;
  }
  BluVal v = blu_elab_apply(E, blu_op_find("iota"), NULL, 0, &as, at);
  if (v.kind == VAL_TENSOR) v.u.tensor->type = t;
  return v;
}

static BluVal call_rank(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  BluType t = {0};
  double x;
  if (!positional(E, self, args, n, 1, at)) return blu_val_unknown;
  if (blu_val_type(&args[0].val, &t) || blu_val_number(&args[0].val, &x) || args[0].val.kind == VAL_HOST)
    return blu_val_int(t.rank);
  blu_elab_error(E, BLU_E_KIND, args[0].span, "`rank` needs a tensor, not %s", blu_val_describe(E, &args[0].val));
  return blu_val_unknown;
}

static BluVal call_known(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  double x;
  if (!positional(E, self, args, n, 1, at)) return blu_val_unknown;
  return blu_val_bool(blu_val_number(&args[0].val, &x) || args[0].val.kind == VAL_BOOL);
}

static BluVal call_shape(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  BluType t;
  if (!positional(E, self, args, n, 1, at)) return blu_val_unknown;
  if (!blu_val_type(&args[0].val, &t)) {
    blu_elab_error(E, BLU_E_KIND, args[0].span, "`shape` needs a tensor, not %s", blu_val_describe(E, &args[0].val));
    return blu_val_unknown;
  }
  BluVal v = blu_val_list(E, VAL_LIST, t.rank);
  for (int i = 0; i < t.rank; i++) v.u.list->item[i] = blu_val_int(t.dim[i]);
  return v;
}

static BluVal call_len(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  if (!positional(E, self, args, n, 1, at)) return blu_val_unknown;
  if (args[0].val.kind == VAL_LIST || args[0].val.kind == VAL_TUPLE) return blu_val_int(args[0].val.u.list->n);
  blu_elab_error(E, BLU_E_KIND, args[0].span, "`len` needs a list, not %s", blu_val_describe(E, &args[0].val));
  return blu_val_unknown;
}

static BluVal call_div(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  if (!positional(E, self, args, n, 2, at)) return blu_val_unknown;
  for (int i = 0; i < 2; i++) {
    if (args[i].val.kind == VAL_INT) continue;
    blu_elab_error(E, BLU_E_KIND, args[i].span, "`div` needs integers known when compiled, not %s",
                   blu_val_describe(E, &args[i].val));
    return blu_val_unknown;
  }
  int64_t a = args[0].val.u.i, b = args[1].val.u.i;
  if (b == 0 || (a == INT64_MIN && b == -1)) {
    blu_elab_error(E, BLU_E_ARITHMETIC, at,
                   b ? "the result does not fit in 64 bits" : "division of the integer %lld by zero", (long long)a);
    return blu_val_unknown;
  }
  return blu_val_int(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}

/* What sums, losses and statistics are taken in. */
static BluVal call_wide(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  BluType t;
  MlirValue v;
  if (!positional(E, self, args, n, 1, at) || args[0].val.kind == VAL_UNKNOWN) return blu_val_unknown;
  if ((args[0].val.kind >= VAL_INT && args[0].val.kind <= VAL_BOOL) || args[0].val.kind == VAL_HOST) return args[0].val; /* no type of its own */
  if (!blu_elab_tensor(E, &args[0], &v, &t)) return blu_val_unknown;
  BluAttrs as = blu_attr_set_type((BluAttrs){0}, "to", blu_elem_compute(t.elem));
  return t.elem == blu_elem_compute(t.elem) ? args[0].val : blu_elab_apply(E, blu_op_find("cast"), args, 1, &as, at);
}

/* format(exponent = e, mantissa = m, denormals = true, saturate = false), for `precision`. */
static BluVal call_format(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  BluFormat *f = blu_arena_alloc(E->arena, sizeof *f);
  *f = (BluFormat){.denormals = true};
  struct { const char *name; int *width; bool *flag; int least, most; } given[] = {
    {"exponent", &f->exponent, NULL, 2, 8}, {"mantissa", &f->mantissa, NULL, 1, 23}, {"denormals", NULL, &f->denormals, 0, 0},
    {"saturate", NULL, &f->saturate, 0, 0}};
  enum { GIVEN = sizeof given / sizeof *given };
  for (int i = 0; i < n; i++) {
    const BluVal *v = &args[i].val;
    int k = 0;
    while (k < GIVEN && (!args[i].name.text || strcmp(given[k].name, args[i].name.text))) k++;
    if (v->kind == VAL_UNKNOWN) return blu_val_unknown;
    bool good = k < GIVEN && (given[k].width ? v->kind == VAL_INT && v->u.i >= given[k].least && v->u.i <= given[k].most : v->kind == VAL_BOOL);
    if (!good) {
      blu_elab_error(E, BLU_E_ARGUMENTS, args[i].span, "`%s` takes exponent = 2 to 8, mantissa = 1 to 23, and perhaps denormals = false or saturate = true",
                     self->name);
      return blu_val_unknown;
    }
    if (given[k].width) *given[k].width = (int)v->u.i;
    else *given[k].flag = v->u.b;
  }
  if (f->exponent && f->mantissa) return (BluVal){.kind = VAL_FORMAT, .u.format = f};
  blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s` needs the widths of exponent and mantissa, as in `%s(exponent = 5, mantissa = 2)`", self->name,
                 self->name);
  return blu_val_unknown;
}

static const BluBuiltin builtins[] = {
    {"uniform", call_uniform},
    {"normal", call_normal},
    {"truncated_normal", call_truncated_normal},
    {"reshape", shaped},
    {"broadcast", shaped},
    {"transpose", call_transpose},
    {"iota", call_iota},
    {"rank", call_rank},
    {"known", call_known},
    {"shape", call_shape},
    {"len", call_len},
    {"div", call_div},
    {"wide", call_wide},
    {"format", call_format},
    {"einsum", blu_elab_einsum},
    {"rearrange", blu_elab_rearrange},
    {"dropout", blu_elab_dropout},
    {"bernoulli", blu_elab_bernoulli},
    {"split", blu_elab_split},
    {"concat", blu_elab_concat},
    {"scan", blu_elab_scan},
};

/* Names of the language that are errors where they are used for as long as the op table lacks them. */
static const char *const planned[] = {
    "split", "concat", "dropout", "bernoulli", "gelu", "gelu_tanh", "silu", "erf", "expm1", "log1p",
    "sign", "logsumexp", "norm", "std", "prod", "cumsum", "one_hot", "gather", "take_along", "scatter_add",
    "top_k", "pad", "patches", "conv2d", "max_pool", "avg_pool", "attention", "masked_attention",
    "update_slice", "layer_norm", "rms_norm", "slice", "variance", "batch_norm", "batch_norm_infer",
};

bool blu_builtin_planned(const char *name) {
  for (size_t i = 0; i < sizeof planned / sizeof *planned; i++)
    if (!strcmp(planned[i], name)) return true;
  return false;
}

/* Is the op there that a built-in function needs? */
static bool has_op(const char *name) {
  static const struct { const char *name, *op; } needs[] = {
    {"dropout", "dropout"}, {"bernoulli", "bernoulli"}, {"split", "slice"}, {"concat", "concat"}};
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
    if (!strcmp(needs[i].name, name)) return blu_op_find(needs[i].op) != NULL;
  return true;
}

static void define(BluElab *E, BluScope *s, const char *name, BluVal v) {
  blu_scope_define(E, s, name, v, (BluSpan){0});
}

void blu_builtin_define(BluElab *E, BluScope *s) {
  for (int i = 0; i < blu_nops; i++)
    if (blu_ops[i].builtin) define(E, s, blu_ops[i].name, (BluVal){.kind = VAL_OP, .u.op = &blu_ops[i]});
  for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
    if (has_op(builtins[i].name))
      define(E, s, builtins[i].name, (BluVal){.kind = VAL_BUILTIN, .u.builtin = &builtins[i]});
  for (int i = 0; i < BLU_ELEMS; i++)
    define(E, s, blu_elem_name((BluElem)i), (BluVal){.kind = VAL_CAST, .u.elem = (BluElem)i});
  define(E, s, "float", (BluVal){.kind = VAL_CAST, .u.elem = BLU_ELEMS});
  define(E, s, "true", blu_val_bool(true));
  define(E, s, "false", blu_val_bool(false));
  define(E, s, "training", blu_val_bool(false)); /* its value is that of the function under construction: elab_expr.c */
  define(E, s, "pi", blu_val_real(3.14159265358979323846));
  define(E, s, "inf", blu_val_real(INFINITY));
  define(E, s, "frozen", (BluVal){.kind = VAL_FROZEN});
  define(E, s, "zeros", blu_val_init(E, (BluInit){.kind = INIT_FILL, .a = 0}));
  define(E, s, "ones", blu_val_init(E, (BluInit){.kind = INIT_FILL, .a = 1}));
  define(E, s, "blu", (BluVal){.kind = VAL_NAMESPACE, .u.space = s}); /* what a file's own names hide: `blu.step` */
}
