/* elab_einsum.c - einsum("b t d, d k -> b t k", x, w) and rearrange(x, "b t (h k) -> b h t k", h = 4): patterns of named
 * dimensions, turned into reshape, transpose, sum and one matrix product. */
#include <ctype.h>
#include <string.h>
#include "elab_internal.h"

enum { MAX_AXES = 16, MAX_TERMS = 3 };

typedef struct {
  const char *name;
  int64_t size;       /* 0: not known yet */
  const char *dim;    /* the name that the tensor's dimension has, for types in messages */
  BluSpan bound;      /* what gave it its size */
} Axis;

/* One side of a pattern, or one operand of it: axes, and which dimension each belongs to ("(h k)" is one dimension). */
typedef struct { int n, ndims; int axis[MAX_AXES], dim[MAX_AXES]; BluSpan at[MAX_AXES], span; } Term;

typedef struct {
  BluElab *E;
  const BluOperand *text;
  const char *p;      /* what is left to read */
  Axis axis[MAX_AXES];
  int naxes;
  Term in[MAX_TERMS], out;
  int nin;
} Pattern;

/* ---- reading ---- */

/* The place in the string where `n` characters start at p; the whole string if it was computed. */
static BluSpan place(const Pattern *P, const char *p, int n) {
  const BluExpr *e = P->text->expr;
  if (!e || e->kind != BLU_EXPR_STRING || strlen(P->text->val.u.s) + 2 != (size_t)(e->span.end_col - e->span.col))
    return P->text->span; /* escapes or UTF-8: columns are not bytes */
  BluSpan at = e->span;
  at.col += 1 + (int)(p - P->text->val.u.s);
  at.end_col = at.col + n;
  return at;
}

static bool bad(const Pattern *P, const char *p, int n, const char *what) {
  BluDiag *d = blu_elab_error(P->E, BLU_E_PATTERN_TEXT, place(P, p, n), "%s", what);
  blu_diag_help(d, "a pattern is like \"b t (h k) -> b h t k\": names of dimensions, in brackets where one holds several");
  return false;
}

static void blanks(Pattern *P) {
  while (*P->p == ' ') P->p++;
}

static int axis_of(Pattern *P, const char *name, int n) {
  for (int i = 0; i < P->naxes; i++)
    if (strlen(P->axis[i].name) == (size_t)n && !memcmp(P->axis[i].name, name, (size_t)n)) return i;
  if (P->naxes == MAX_AXES) return -1;
  P->axis[P->naxes].name = blu_arena_copy(P->E->arena, name, (size_t)n);
  return P->naxes++;
}

static bool read_term(Pattern *P, Term *t, bool groups) {
  const char *start = P->p;
  bool open = false;
  for (blanks(P); *P->p && *P->p != ',' && strncmp(P->p, "->", 2); blanks(P)) {
    const char *name = P->p;
    if (groups && *P->p == '(' && !open) {
      open = true, P->p++;
      continue;
    }
    if (*P->p == ')' && open) {
      open = false, P->p++, t->ndims++;
      continue;
    }
    while (isalnum((unsigned char)*P->p) || *P->p == '_') P->p++;
    int n = (int)(P->p - name), axis = n ? axis_of(P, name, n) : 0;
    if (!n || isdigit((unsigned char)*name)) return bad(P, name, 1, "the name of a dimension is needed here");
    if (axis < 0 || t->n == MAX_AXES) return bad(P, name, n, "a pattern has 16 names at most");
    for (int i = 0; i < t->n; i++)
      if (t->axis[i] == axis)
        return bad(P, name, n, blu_arena_print(P->E->arena, "`%s` stands twice in one shape", P->axis[axis].name));
    t->at[t->n] = place(P, name, n);
    t->axis[t->n] = axis;
    t->dim[t->n++] = t->ndims;
    if (!open) t->ndims++;
  }
  t->span = place(P, start, (int)(P->p - start));
  return !open || bad(P, P->p, 1, "a bracket is not closed");
}

static bool read_pattern(BluElab *E, Pattern *P, const BluOperand *text, int nin, bool groups) {
  *P = (Pattern){.E = E, .text = text, .p = text->val.u.s};
  for (;; P->p++) {
    if (P->nin == MAX_TERMS) return bad(P, P->p, 1, "there are more shapes than operands");
    if (!read_term(P, &P->in[P->nin], groups)) return false;
    P->nin++;
    if (*P->p != ',') break;
  }
  if (strncmp(P->p, "->", 2)) return bad(P, P->p, 1, "`->` and the shape of the result are missing");
  P->p += 2;
  if (!read_term(P, &P->out, groups)) return false;
  if (*P->p) return bad(P, P->p, 1, "one result is all there can be");
  if (P->nin == nin) return true;
  blu_elab_error(E, BLU_E_PATTERN_TEXT, text->span, "the pattern has %d shape%s, but there %s %d tensor%s", P->nin,
                 P->nin == 1 ? "" : "s", nin == 1 ? "is" : "are", nin, nin == 1 ? "" : "s");
  return false;
}

/* ---- sizes ---- */

static bool bind_axis(Pattern *P, int axis, int64_t size, const char *dim, BluSpan at, BluSpan tensor) {
  Axis *a = &P->axis[axis];
  if (a->size && a->size != size) {
    BluDiag *d = blu_elab_error(P->E, BLU_E_PATTERN_TEXT, at, "`%s` is %lld here, but was %lld before", a->name,
                                (long long)size, (long long)a->size);
    blu_diag_label(d, a->bound, "`%s` = %lld", a->name, (long long)a->size);
    blu_diag_label(d, tensor, "`%s` = %lld", a->name, (long long)size);
    return false;
  }
  if (!a->size) a->bound = tensor;
  a->size = size;
  if (!a->dim) a->dim = dim;
  return true;
}

/* One dimension of a tensor against the axes that it holds: at most one of them has no size yet. */
static bool bind_dim(Pattern *P, const Term *t, int dim, int64_t size, const char *name, const BluOperand *x) {
  int64_t known = 1;
  int open = -1, first = -1, count = 0;
  for (int i = 0; i < t->n; i++) {
    if (t->dim[i] != dim) continue;
    if (first < 0) first = i;
    count++;
    if (P->axis[t->axis[i]].size) {
      if (__builtin_mul_overflow(known, P->axis[t->axis[i]].size, &known)) known = INT64_MAX;
    } else if (open < 0) {
      open = i;
    } else {
      BluDiag *d = blu_elab_error(P->E, BLU_E_PATTERN_TEXT, t->at[i], "the sizes of `%s` and `%s` are both open",
                                  P->axis[t->axis[open]].name, P->axis[t->axis[i]].name);
      blu_diag_help(d, "give one of them: `%s = ...`", P->axis[t->axis[i]].name);
      return false;
    }
  }
  if (count == 0) return size == 1;
  if (count == 1) return bind_axis(P, t->axis[first], size, name, t->at[first], x->span);
  if (open >= 0 && size % known == 0) return bind_axis(P, t->axis[open], size / known, NULL, t->at[open], x->span);
  if (open < 0 && known == size) return true;
  BluType have;
  BluDiag *d = blu_elab_error(P->E, BLU_E_PATTERN_TEXT, blu_span_join(t->at[first], t->at[first + count - 1]),
                              open < 0 ? "this is %lld, but dimension %d of the tensor is %lld"
                                       : "this is a multiple of %lld, but dimension %d of the tensor is %lld",
                              (long long)known, dim, (long long)size);
  if (blu_val_type(&x->val, &have)) blu_diag_label(d, x->span, "%s", blu_type_text(P->E, &have));
  return false;
}

static bool bind_tensor(Pattern *P, const Term *t, const BluOperand *x, BluType *type) {
  if (!blu_val_type(&x->val, type)) {
    if (x->val.kind != VAL_UNKNOWN)
      blu_elab_error(P->E, BLU_E_KIND, x->span, "a tensor is needed here, not %s", blu_val_describe(P->E, &x->val));
    return false;
  }
  if (type->rank != t->ndims) {
    BluDiag *d = blu_elab_error(P->E, BLU_E_PATTERN_TEXT, t->span, "this names %d dimension%s, but the tensor has %d",
                                t->ndims, t->ndims == 1 ? "" : "s", type->rank);
    blu_diag_label(d, x->span, "%s", blu_type_text(P->E, type));
    return false;
  }
  for (int i = 0; i < type->rank; i++)
    if (!bind_dim(P, t, i, type->dim[i], type->name[i], x)) return false;
  return true;
}

/* ---- ops ---- */

static int position(const Term *t, int axis) {
  for (int i = 0; i < t->n; i++)
    if (t->axis[i] == axis) return i;
  return -1;
}

static BluVal reshape(BluElab *E, BluVal x, int rank, const int64_t *dim, BluSpan at) {
  BluOperand in = {.val = x, .span = at};
  BluType have;
  if (blu_val_type(&x, &have) && have.rank == rank && !memcmp(have.dim, dim, (size_t)rank * sizeof *dim)) return x;
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", rank, dim);
  return blu_elab_apply(E, blu_op_find("reshape"), &in, 1, &as, at);
}

static BluVal transpose(BluElab *E, BluVal x, int rank, const int64_t *perm, BluSpan at) {
  BluOperand in = {.val = x, .span = at};
  bool same = true;
  for (int i = 0; i < rank; i++) same &= perm[i] == i;
  if (same) return x;
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "perm", rank, perm);
  return blu_elab_apply(E, blu_op_find("transpose"), &in, 1, &as, at);
}

/* x, whose dimensions are the axes of `from`, with those of `to` in their order. */
static BluVal permute(const Pattern *P, BluVal x, const Term *from, const Term *to, BluSpan at) {
  int64_t perm[BLU_MAX_RANK];
  for (int i = 0; i < to->n; i++) perm[i] = position(from, to->axis[i]);
  return transpose(P->E, x, to->n, perm, at);
}

static bool fits(const Pattern *P, const Term *t, BluSpan at) {
  if (t->n <= BLU_MAX_RANK) return true;
  blu_elab_error(P->E, BLU_E_DIMENSION, at, "a tensor has at most %d dimensions", BLU_MAX_RANK);
  return false;
}

/* The result with the dimensions of the pattern's right side, which keep their names. */
static BluVal finish(const Pattern *P, BluVal x, BluSpan at) {
  BluType t;
  int64_t dim[BLU_MAX_RANK];
  const char *name[BLU_MAX_RANK] = {0};
  for (int i = 0; i < P->out.ndims; i++) dim[i] = 1;
  for (int i = 0; i < P->out.n; i++) {
    int d = P->out.dim[i];
    bool alone = dim[d] == 1 && (i + 1 == P->out.n || P->out.dim[i + 1] != d) && (i == 0 || P->out.dim[i - 1] != d);
    dim[d] *= P->axis[P->out.axis[i]].size;
    if (alone) name[d] = P->axis[P->out.axis[i]].dim;
  }
  x = reshape(P->E, x, P->out.ndims, dim, at);
  if (!blu_val_type(&x, &t) || x.kind != VAL_TENSOR) return x;
  memcpy(t.name, name, sizeof name);
  memset(t.unit, 0, sizeof t.unit);
  return blu_val_tensor(P->E, x.u.tensor->value, &t);
}

/* ---- rearrange ---- */

BluVal blu_elab_rearrange(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  Pattern P;
  BluType t;
  for (int i = 0; i < n; i++)
    if (args[i].val.kind == VAL_UNKNOWN) return blu_val_unknown;
  if (n < 2 || args[0].name.text || args[1].name.text || args[1].val.kind != VAL_STRING) {
    blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s(x, \"a (b c) -> a b c\", b = 2)` takes a tensor and a pattern", self->name);
    return blu_val_unknown;
  }
  if (!read_pattern(E, &P, &args[1], 1, true) || !fits(&P, &P.in[0], at) || !fits(&P, &P.out, at)) return blu_val_unknown;
  for (int i = 2; i < n; i++) {
    int axis = -1;
    BluNearest near = {.wanted = args[i].name.text ? args[i].name.text : ""};
    for (int k = 0; k < P.naxes && args[i].name.text; k++) {
      if (!strcmp(P.axis[k].name, args[i].name.text)) axis = k;
      blu_nearest_try(&near, P.axis[k].name);
    }
    if (axis < 0) {
      BluDiag *d = blu_elab_error(E, BLU_E_UNKNOWN_ARGUMENT, args[i].name.text ? args[i].name.span : args[i].span,
                                  "this is no name of the pattern");
      if (near.best) blu_diag_help(d, "did you mean `%s`?", near.best);
      return blu_val_unknown;
    }
    if (args[i].val.kind != VAL_INT || args[i].val.u.i < 1) {
      blu_elab_error(E, BLU_E_DIMENSION, args[i].span, "a dimension is a positive integer, not %s",
                     blu_val_describe(E, &args[i].val));
      return blu_val_unknown;
    }
    if (!bind_axis(&P, axis, args[i].val.u.i, NULL, args[i].span, args[i].span)) return blu_val_unknown;
  }
  if (!bind_tensor(&P, &P.in[0], &args[0], &t)) return blu_val_unknown;
  for (int i = 0; i < P.naxes; i++) {
    int here = position(&P.in[0], i), there = position(&P.out, i);
    if (here >= 0 && there >= 0) continue;
    blu_elab_error(E, BLU_E_PATTERN_TEXT, here >= 0 ? P.in[0].at[here] : there >= 0 ? P.out.at[there] : at,
                   "`%s` stands on one side of the pattern alone", P.axis[i].name);
    return blu_val_unknown;
  }
  int64_t dim[BLU_MAX_RANK];
  for (int i = 0; i < P.in[0].n; i++) dim[i] = P.axis[P.in[0].axis[i]].size;
  BluVal x = reshape(E, args[0].val, P.in[0].n, dim, at);
  return finish(&P, permute(&P, x, &P.in[0], &P.out, at), at);
}

/* ---- einsum ---- */

static void put(Term *t, int axis) { t->axis[t->n++] = axis; }

/* Sums over the axes of operand k that stand nowhere else; *t loses them. */
static BluVal sum_lonely(const Pattern *P, BluVal x, Term *t, const Term *other, BluSpan at) {
  int64_t axes[BLU_MAX_RANK];
  int n = 0;
  Term left = {0};
  for (int i = 0; i < t->n; i++) {
    if (position(&P->out, t->axis[i]) < 0 && (!other || position(other, t->axis[i]) < 0)) axes[n++] = i;
    else put(&left, t->axis[i]);
  }
  *t = left;
  if (!n) return x;
  BluOperand in = {.val = x, .span = at};
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "axis", n, axes);
  return blu_elab_apply(P->E, blu_op_find("sum"), &in, 1, &as, at);
}

static int64_t count(const Pattern *P, const Term *t, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++) n *= P->axis[t->axis[i]].size;
  return n;
}

/* Both operands as [batch.., rows, inner] @ [batch.., inner, columns]. */
static BluVal product(const Pattern *P, BluVal a, const Term *ta, BluVal b, const Term *tb, BluSpan at) {
  BluElab *E = P->E;
  Term batch = {0}, rows = {0}, columns = {0}, inner = {0};
  for (int i = 0; i < ta->n; i++) {
    int axis = ta->axis[i];
    bool both = position(tb, axis) >= 0;
    put(!both ? &rows : position(&P->out, axis) >= 0 ? &batch : &inner, axis);
  }
  for (int i = 0; i < tb->n; i++)
    if (position(ta, tb->axis[i]) < 0) put(&columns, tb->axis[i]);
  Term left = batch, right = batch, result = batch;
  for (int i = 0; i < rows.n; i++) put(&left, rows.axis[i]), put(&result, rows.axis[i]);
  for (int i = 0; i < inner.n; i++) put(&left, inner.axis[i]), put(&right, inner.axis[i]);
  for (int i = 0; i < columns.n; i++) put(&right, columns.axis[i]), put(&result, columns.axis[i]);
  int64_t dim[BLU_MAX_RANK];
  if (batch.n + 2 > BLU_MAX_RANK || !fits(P, &result, at)) {
    blu_elab_error(E, BLU_E_DIMENSION, at, "a tensor has at most %d dimensions", BLU_MAX_RANK);
    return blu_val_unknown;
  }
  for (int i = 0; i < batch.n; i++) dim[i] = P->axis[batch.axis[i]].size;
  int64_t m = count(P, &rows, 0, rows.n), k = count(P, &inner, 0, inner.n), n = count(P, &columns, 0, columns.n);
  dim[batch.n] = m, dim[batch.n + 1] = k;
  BluOperand in[2] = {{.val = reshape(E, permute(P, a, ta, &left, at), batch.n + 2, dim, at), .span = at}};
  dim[batch.n] = k, dim[batch.n + 1] = n;
  in[1] = (BluOperand){.val = reshape(E, permute(P, b, tb, &right, at), batch.n + 2, dim, at), .span = at};
  BluVal y = blu_elab_apply(E, blu_op_find("matmul"), in, 2, &(BluAttrs){0}, at);
  for (int i = 0; i < result.n; i++) dim[i] = P->axis[result.axis[i]].size;
  y = reshape(E, y, result.n, dim, at);
  return permute(P, y, &result, &P->out, at);
}

BluVal blu_elab_einsum(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  Pattern P;
  BluType t;
  bool form = n >= 2 && n <= 3 && args[0].val.kind == VAL_STRING;
  for (int i = 0; i < n; i++) {
    if (args[i].val.kind == VAL_UNKNOWN) return blu_val_unknown;
    form &= !args[i].name.text;
  }
  if (!form) {
    blu_elab_error(E, BLU_E_ARGUMENTS, at, "`%s(\"a b, b c -> a c\", x, y)` takes a pattern and one or two tensors",
                   self->name);
    return blu_val_unknown;
  }
  if (!read_pattern(E, &P, &args[0], n - 1, false) || !fits(&P, &P.out, at)) return blu_val_unknown;
  for (int i = 1; i < n; i++)
    if (!bind_tensor(&P, &P.in[i - 1], &args[i], &t)) return blu_val_unknown;
  for (int i = 0; i < P.out.n; i++) {
    if (P.axis[P.out.axis[i]].size) continue;
    blu_elab_error(E, BLU_E_PATTERN_TEXT, P.out.at[i], "no operand has a dimension `%s`", P.axis[P.out.axis[i]].name);
    return blu_val_unknown;
  }
  Term ta = P.in[0], tb = P.in[1];
  BluVal a = sum_lonely(&P, args[1].val, &ta, n == 3 ? &tb : NULL, at);
  if (n == 2) return finish(&P, permute(&P, a, &ta, &P.out, at), at);
  BluVal b = sum_lonely(&P, args[2].val, &tb, &P.in[0], at);
  return finish(&P, product(&P, a, &ta, b, &tb, at), at);
}
