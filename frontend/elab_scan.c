/* elab_scan.c - scan(f, init, xs, axis = 0): f(carry, x) -> (carry, y) for each slice x of xs along the axis. f is evaluated
 * once; what it builds becomes a function of the module, and what it takes from around it arguments of that function. */
#include <string.h>
#include "dialects/map.h"
#include "elab_internal.h"
#include "mlir-c/BuiltinAttributes.h"

enum { MAX_TENSORS = 64 };

/* The tensors of a value that is a tensor or a tuple of such values, in order. */
typedef struct { BluTensor item[MAX_TENSORS]; int n; } Tensors;

typedef struct {
  BluOperand f, init, xs;
  BluSpan at;
  int64_t axis, steps, checkpoint;
  bool reverse;
  Tensors carry, x;   /* x: whole, with the steps in front */
} Scan;

/* ---- arguments ---- */

static bool flatten(BluElab *E, const BluVal *v, BluSpan at, const char *what, Tensors *out) {
  if (v->kind == VAL_UNKNOWN) return false;
  if (v->kind == VAL_TUPLE || v->kind == VAL_LIST) {
    for (int i = 0; i < v->u.list->n; i++)
      if (!flatten(E, &v->u.list->item[i], at, what, out)) return false;
    return true;
  }
  BluTensor t;
  if (!blu_val_type(v, &t.type)) {
    BluDiag *d = blu_elab_error(E, BLU_E_SCAN, at, "%s of `scan` is a tensor or a tuple of tensors, not %s", what,
                                blu_val_describe(E, v));
    double x;
    if (blu_val_number(v, &x)) blu_diag_help(d, "`zeros()` and `ones()` are tensors of one element");
    return false;
  }
  if (out->n == MAX_TENSORS) {
    blu_elab_error(E, BLU_E_SCAN, at, "%s of `scan` has more than %d tensors", what, MAX_TENSORS);
    return false;
  }
  BluOperand o = {.val = *v, .span = at};
  if (!blu_elab_tensor(E, &o, &t.value, &t.type)) return false;
  out->item[out->n++] = t;
  return true;
}

/* v's form with other tensors in it. */
static BluVal with_tensors(BluElab *E, const BluVal *v, const BluTensor **next) {
  if (v->kind != VAL_TUPLE && v->kind != VAL_LIST) {
    const BluTensor *t = (*next)++;
    return blu_val_tensor(E, t->value, &t->type);
  }
  BluVal out = blu_val_list(E, v->kind, v->u.list->n);
  for (int i = 0; i < out.u.list->n; i++) out.u.list->item[i] = with_tensors(E, &v->u.list->item[i], next);
  return out;
}

static bool integer(BluElab *E, const BluOperand *v, const char *name, int64_t *out) {
  if (v->val.kind == VAL_UNKNOWN) return false;
  if (v->val.kind == VAL_INT) return *out = v->val.u.i, true;
  blu_elab_error(E, BLU_E_KIND, v->span, "`%s` is an integer known when compiled, not %s", name, blu_val_describe(E, &v->val));
  return false;
}

static bool arguments(BluElab *E, Scan *s, const BluOperand *args, int n) {
  static const char *const names[] = {"f", "init", "xs", "axis", "reverse", "checkpoint"};
  const BluOperand *given[6] = {0};
  bool good = true;
  for (int i = 0; i < n; i++) {
    int k = i;
    for (k = args[i].name.text ? 0 : i; args[i].name.text && k < 6 && strcmp(names[k], args[i].name.text);) k++;
    if (k > 5 || (!args[i].name.text && k > 2) || given[k]) {
      blu_elab_error(E, args[i].name.text && k > 5 ? BLU_E_UNKNOWN_ARGUMENT : BLU_E_ARGUMENTS,
                     args[i].name.text ? args[i].name.span : args[i].span,
                     k <= 5 && given[k] ? "`%s` is given twice"
                                        : "`scan(f, init, xs, axis = 0, reverse = false, checkpoint = 0)` has no such argument",
                     k <= 5 ? names[k] : "");
      return false;
    }
    given[k] = &args[i];
    good &= args[i].val.kind != VAL_UNKNOWN;
  }
  if (!given[0] || !given[1] || !given[2]) {
    blu_elab_error(E, BLU_E_ARGUMENTS, s->at, "`scan(f, init, xs, axis = 0)` misses its argument `%s`",
                   names[!given[0] ? 0 : !given[1] ? 1 : 2]);
    return false;
  }
  s->f = *given[0], s->init = *given[1], s->xs = *given[2];
  if (given[3]) good &= integer(E, given[3], "axis", &s->axis);
  if (given[5]) good &= integer(E, given[5], "checkpoint", &s->checkpoint);
  if (given[4] && given[4]->val.kind != VAL_BOOL && given[4]->val.kind != VAL_UNKNOWN) {
    blu_elab_error(E, BLU_E_KIND, given[4]->span, "`reverse` is true or false, not %s", blu_val_describe(E, &given[4]->val));
    good = false;
  } else if (given[4] && given[4]->val.kind == VAL_BOOL) {
    s->reverse = given[4]->val.u.b;
  }
  return good && flatten(E, &s->init.val, s->init.span, "the carry", &s->carry) &&
         flatten(E, &s->xs.val, s->xs.span, "the input", &s->x);
}

/* ---- the steps in front ---- */

/* t with dimension `from` moved to `to`. */
static BluTensor moved(BluElab *E, BluTensor t, int from, int to) {
  int64_t perm[BLU_MAX_RANK];
  BluType in = t.type;
  if (from == to) return t;
  for (int i = 0, k = 0; i < in.rank; i++) {
    if (i == to) perm[i] = from;
    else perm[i] = k + (k >= from), k++;
    t.type.dim[i] = in.dim[perm[i]], t.type.name[i] = in.name[perm[i]], t.type.unit[i] = in.unit[perm[i]];
  }
  BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "perm", in.rank, perm);
  t.value = blu_build(&E->build->b, "transpose", &as, 1, &t.value);
  return t;
}

static bool steps_in_front(BluElab *E, Scan *s) {
  if (!s->x.n) {
    blu_elab_error(E, BLU_E_SCAN, s->xs.span, "`scan` runs over the slices of a tensor, and there is none");
    return false;
  }
  int64_t axis = s->axis;
  for (int i = 0; i < s->x.n; i++) {
    BluTensor *x = &s->x.item[i];
    int64_t at = axis < 0 ? axis + x->type.rank : axis;
    if (at < 0 || at >= x->type.rank) {
      blu_elab_error(E, BLU_E_SCAN, s->xs.span, "%s has no dimension %lld to run over", blu_type_text(E, &x->type), (long long)axis);
      return false;
    }
    if (!i) s->steps = x->type.dim[at], s->axis = at;
    if (x->type.dim[at] != s->steps || at != s->axis) {
      BluDiag *d = blu_elab_error(E, BLU_E_SCAN, s->xs.span, "the inputs of `scan` have different numbers of steps: %lld and %lld",
                                  (long long)s->steps, (long long)x->type.dim[at]);
      blu_diag_help(d, "they are %s and %s, run over dimension %lld", blu_type_text(E, &s->x.item[0].type),
                    blu_type_text(E, &x->type), (long long)axis);
      return false;
    }
    *x = moved(E, *x, (int)at, 0);
  }
  if (s->checkpoint && (s->checkpoint < 0 || s->steps % s->checkpoint)) {
    blu_elab_error(E, BLU_E_SCAN, s->at, "`checkpoint` divides the number of steps, and %lld doesn't divide %lld",
                   (long long)s->checkpoint, (long long)s->steps);
    return false;
  }
  return true;
}

/* ---- the body ---- */

static BluTensor argument(BluElab *E, BluBuild *body, const BluType *t) {
  return (BluTensor){mlirBlockAddArgument(body->b.block, blu_type_to_mlir(E->ctx, t), body->b.loc), *t};
}

MlirValue blu_build_iteration(BluElab *E) {
  BluBuild *f = E->build;
  BluType t = blu_type_make(BLU_I64, 0, NULL);
  if (!f->iteration.ptr) f->iteration = argument(E, f, &t).value;
  return f->iteration;
}

/* The carry keeps its type from step to step. */
static bool same_carry(BluElab *E, const Scan *s, const Tensors *now) {
  bool same = now->n == s->carry.n;
  int wrong = 0;
  for (int i = 0; same && i < now->n; i++)
    if (!blu_type_same(&now->item[i].type, &s->carry.item[i].type)) same = false, wrong = i;
  if (same) return true;
  BluDiag *d;
  if (now->n != s->carry.n)
    d = blu_elab_error(E, BLU_E_SCAN, s->f.span, "the carry enters as %d tensor%s and leaves as %d", s->carry.n,
                       s->carry.n == 1 ? "" : "s", now->n);
  else
    d = blu_elab_error(E, BLU_E_SCAN, s->f.span, "the carry changes its type: %s enters and %s leaves",
                       blu_type_text(E, &s->carry.item[wrong].type), blu_type_text(E, &now->item[wrong].type));
  blu_diag_label(d, s->init.span, "it starts here");
  return false;
}

/* Evaluates f in a build of its own. Its results, the carry's first, go to `out`; *y is the form of what is stacked. */
static bool build_body(BluElab *E, Scan *s, BluBuild *body, Tensors *out, BluVal *y) {
  BluBuild *outer = E->build;
  *body = (BluBuild){.id = ++E->builds, .kind = outer->kind, .training = outer->training, .outer = outer};
  body->b = (BluBuilder){.ctx = E->ctx, .loc = outer->b.loc, .block = mlirBlockCreate(0, NULL, NULL)};
  Tensors carry = {.n = s->carry.n}, x = {.n = s->x.n};
  for (int i = 0; i < carry.n; i++) carry.item[i] = argument(E, body, &s->carry.item[i].type);
  for (int i = 0; i < x.n; i++) {
    BluType slice = blu_scan_slice(&s->x.item[i].type);
    x.item[i] = argument(E, body, &slice);
  }
  E->build = body;
  const BluTensor *c = carry.item, *xs = x.item;
  BluOperand args[2] = {{.val = with_tensors(E, &s->init.val, &c), .span = s->init.span},
                        {.val = with_tensors(E, &s->xs.val, &xs), .span = s->xs.span}};
  BluVal v = blu_elab_call(E, s->f.val, args, 2, s->f.span, s->at);
  bool good = v.kind != VAL_UNKNOWN;
  if (good && (v.kind != VAL_TUPLE || v.u.list->n != 2)) {
    BluDiag *d = blu_elab_error(E, BLU_E_SCAN, s->f.span, "the function of `scan` returns (carry, y), not %s",
                                v.kind == VAL_NONE ? "nothing" : blu_val_describe(E, &v));
    blu_diag_help(d, "y is what is stacked, one for each step");
    good = false;
  }
  good = good && flatten(E, &v.u.list->item[0], s->f.span, "the carry", out) && same_carry(E, s, out);
  if (good) {
    *y = v.u.list->item[1];
    good = flatten(E, y, s->f.span, "the result", out);
  }
  for (int i = s->carry.n; good && i < out->n; i++) {
    if (out->item[i].type.rank >= s->axis && out->item[i].type.rank < BLU_MAX_RANK) continue;
    blu_elab_error(E, BLU_E_SCAN, s->f.span, "%s can't be stacked along dimension %lld", blu_type_text(E, &out->item[i].type),
                   (long long)s->axis);
    good = false;
  }
  E->build = outer;
  return good;
}

/* Values from around the body become its further arguments; in `outer` what they are there, in that order. */
typedef struct { BluBuild *body; BluMap inside; MlirValue *outer; int n; } Captures;

static MlirValue captured(BluElab *E, Captures *c, MlirValue v) {
  void *known = blu_map_get(&c->inside, v.ptr);
  if (known) return (MlirValue){known};
  BluType t = blu_value_type(v);
  MlirValue a = argument(E, c->body, &t).value;
  blu_map_set(&c->inside, v.ptr, (void *)a.ptr);
  c->outer = blu_arena_grow(E->arena, c->outer, c->n, sizeof *c->outer);
  c->outer[c->n++] = v;
  return a;
}

static void capture(BluElab *E, Captures *c, Tensors *results) {
  MlirBlock block = c->body->b.block;
  for (intptr_t i = 0, n = mlirBlockGetNumArguments(block); i < n; i++) {
    MlirValue a = mlirBlockGetArgument(block, i);
    blu_map_set(&c->inside, a.ptr, (void *)a.ptr);
  }
  for (MlirOperation o = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    for (intptr_t i = 0, n = mlirOperationGetNumOperands(o); i < n; i++)
      mlirOperationSetOperand(o, i, captured(E, c, mlirOperationGetOperand(o, i)));
    for (intptr_t i = 0, n = mlirOperationGetNumResults(o); i < n; i++) {
      MlirValue v = mlirOperationGetResult(o, i);
      blu_map_set(&c->inside, v.ptr, (void *)v.ptr);
    }
  }
  for (int i = 0; i < results->n; i++) results->item[i].value = captured(E, c, results->item[i].value);
  blu_map_free(&c->inside);
}

static MlirOperation body_function(BluElab *E, const char *name, MlirBlock from, const Tensors *results) {
  int nargs = (int)mlirBlockGetNumArguments(from);
  BluPort *ports = blu_arena_alloc(E->arena, ((size_t)nargs + 1) * sizeof *ports);
  for (int i = 0; i < nargs; i++) ports[i] = (BluPort){.type = blu_value_type(mlirBlockGetArgument(from, i))};
  MlirBlock block;
  MlirLocation loc = E->build->b.loc;
  MlirOperation func = blu_func_make(E->module, loc, name, nargs, ports, &block);
  MlirValue out[MAX_TENSORS];
  for (int i = 0; i < results->n; i++) out[i] = results->item[i].value;
  for (int i = 0; i < nargs; i++) {
    MlirValue a = mlirBlockGetArgument(from, i), to = mlirBlockGetArgument(block, i);
    mlirValueReplaceAllUsesOfWith(a, to);
    for (int k = 0; k < results->n; k++)
      if (mlirValueEqual(out[k], a)) out[k] = to;
  }
  for (MlirOperation op; op = mlirBlockGetFirstOperation(from), !mlirOperationIsNull(op);) {
    mlirOperationRemoveFromParent(op);
    mlirBlockAppendOwnedOperation(block, op);
  }
  blu_func_return(func, loc, results->n, out, NULL);
  blu_set_body(func);
  return func;
}

/* A body that runs `inner` over `steps` slices: the outer of two loops, which differentiate() makes a checkpoint for each run of. */
static MlirOperation chunk_function(BluElab *E, const char *name, const BluScan *s, MlirOperation inner) {
  int nargs = blu_func_nargs(inner), nout = blu_func_nresults(inner);
  BluPort *ports = blu_arena_alloc(E->arena, ((size_t)nargs + 1) * sizeof *ports);
  MlirValue *in = blu_arena_alloc(E->arena, ((size_t)nargs + 1) * sizeof *in), out[MAX_TENSORS];
  for (int i = 0; i < nargs; i++) {
    BluType t = blu_func_arg(inner, i).type;
    ports[i] = (BluPort){.type = i >= s->carries && i < s->carries + s->sequences ? blu_scan_stack(&t, s->steps) : t};
  }
  BluBuilder b = E->build->b;
  MlirOperation func = blu_func_make(E->module, b.loc, name, nargs, ports, &b.block);
  b.before = (MlirOperation){0};
  for (int i = 0; i < nargs; i++) in[i] = mlirBlockGetArgument(b.block, i);
  MlirOperation op = blu_scan_build(&b, s, inner, nargs, in);
  for (int i = 0; i < nout; i++) out[i] = mlirOperationGetResult(op, i);
  blu_func_return(func, b.loc, nout, out, NULL);
  blu_set_body(func);
  return func;
}

/* [n, ..] <-> [n / k, k, ..] */
static MlirValue regrouped(BluElab *E, MlirValue v, int64_t k) {
  BluType t = blu_value_type(v), to = blu_scan_slice(&t);
  if (k) {
    to = blu_scan_stack(&to, k);
    to = blu_scan_stack(&to, t.dim[0] / k);
  } else {
    int64_t n = t.dim[0] * t.dim[1];
    to = blu_scan_slice(&to);
    to = blu_scan_stack(&to, n);
  }
  return blu_reshape_to(&E->build->b, v, &to);
}

BluVal blu_elab_scan(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at) {
  (void)self;
  Scan s = {.at = at};
  if (!E->build) {
    blu_elab_error(E, BLU_E_NO_FUNCTION, at, "tensors are computed in functions, entries and the `train` block alone");
    return blu_val_unknown;
  }
  if (!arguments(E, &s, args, n)) return blu_val_unknown;
  blu_build_at(E, at);
  if (!steps_in_front(E, &s)) return blu_val_unknown;
  BluBuild body;
  Tensors results = {0};
  BluVal y = blu_val_unknown;
  if (!build_body(E, &s, &body, &results, &y)) {
    mlirBlockDestroy(body.b.block);
    return blu_val_unknown;
  }
  blu_build_at(E, at);
  BluBuilder *b = &E->build->b;
  Captures captures = {.body = &body};
  int nin = 0;
  capture(E, &captures, &results);
  MlirValue *in = blu_arena_alloc(E->arena, (size_t)(s.carry.n + s.x.n + captures.n + 1) * sizeof *in);
  for (int i = 0; i < s.carry.n; i++) in[nin++] = s.carry.item[i].value;
  for (int i = 0; i < s.x.n; i++) in[nin++] = s.x.item[i].value;
  if (body.iteration.ptr) {
    BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", 1, &s.steps);
    as = blu_attr_set_type(blu_attr_set_int(as, "axis", 0), "elem", BLU_I64);
    in[nin++] = blu_build(b, "iota", &as, 0, NULL);
  }
  BluScan shape = {.carries = s.carry.n, .sequences = nin - s.carry.n, .steps = s.steps, .reverse = s.reverse};
  for (int i = 0; i < captures.n; i++) in[nin++] = captures.outer[i];
  const char *name = blu_arena_print(E->arena, "scan.%d", E->scans++);
  MlirOperation func = body_function(E, name, body.b.block, &results);
  mlirBlockDestroy(body.b.block);
  bool chunks = s.checkpoint > 1 && s.checkpoint < s.steps;
  if (chunks) {
    shape.steps = s.checkpoint;
    func = chunk_function(E, blu_arena_print(E->arena, "%s.chunk", name), &shape, func);
    shape.steps = s.steps / s.checkpoint;
    for (int i = 0; i < shape.sequences; i++) in[shape.carries + i] = regrouped(E, in[shape.carries + i], s.checkpoint);
  }
  MlirOperation op = blu_scan_build(b, &shape, func, nin, in);
  for (int i = 0; i < results.n; i++) {
    BluTensor *t = &results.item[i];
    t->value = mlirOperationGetResult(op, i);
    if (i < s.carry.n) continue;
    if (chunks) t->value = regrouped(E, t->value, 0);
    t->type = blu_scan_stack(&t->type, s.steps);
    *t = moved(E, *t, 0, (int)s.axis);
  }
  for (int i = s.carry.n; i < results.n; i++) /* what the caller calls the dimension of the steps */
    results.item[i].type.name[s.axis] = s.x.item[0].type.name[0];
  const BluTensor *next = results.item;
  BluVal out = blu_val_list(E, VAL_TUPLE, 2);
  out.u.list->item[0] = with_tensors(E, &s.init.val, &next);
  out.u.list->item[1] = with_tensors(E, &y, &next);
  return out;
}
