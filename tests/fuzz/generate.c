/* generate.c - see generate.h. Most ops of a program are drawn at random, with random operands: most tries are refused by infer, which is
 * the point. Ops that want operands of certain shapes would never come so; therefore each seed has one op of the table, in turn, that
 * gets operands of the types of one of its test cases. */
#include "generate.h"
#include <stdio.h>
#include <string.h>
#include "dialects/map.h"
#include "harness.h"

static int below(int n) { return n > 0 ? (int)(harness_random() % (uint64_t)n) : 0; }

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

/* ---- adding ops ---- */

static bool is_allowed(const BluOp *op, BluElem real) {
  BluKind kind = op->rule->kind;
  if (!op->nout) return false;
  /* at large arguments a sine tells nothing about how near two numbers are */
  if (real == BLU_F64 && (!strcmp(op->name, "sin") || !strcmp(op->name, "cos"))) return false;
  return kind == BLU_KIND_ELEMENT || kind == BLU_KIND_INDEX || kind == BLU_KIND_VIEW || blu_has_code(op);
}

/* Builds the op if its signature is right and its result no float of another type; beside a half type, f32 is what sums are of. */
static bool add(Program *p, BluBuilder *b, BluElem real, const BluOp *op, BluSig *s, const MlirValue *in) {
  BluWhy why;
  if (!blu_infer(op, s, &why) || blu_type_count(&s->out) > 5000) return false;
  if (blu_elem_is_float(s->out.elem) && s->out.elem != real && s->out.elem != blu_elem_compute(real)) return false;
  BluAttrs as = s->attrs;
  p->value[p->nvalues++] = blu_build(b, op->name, &as, s->nin, in);
  return true;
}

static MlirValue value_of_type(const Program *p, const BluType *t, MlirValue otherwise) {
  int k = below(p->nvalues);
  for (int tries = 0; tries < p->nvalues; tries++, k = (k + 1) % p->nvalues) {
    BluType x = blu_value_type(p->value[k]);
    if (blu_type_same(&x, t)) return p->value[k];
  }
  return otherwise;
}

static bool add_random(Program *p, BluBuilder *b, BluElem real) {
  const BluOp *op = &blu_ops[below(blu_nops)];
  if (op->nin < 0 || !is_allowed(op, real)) return false;
  BluSig s = {.nin = op->nin};
  MlirValue in[BLU_MAX_IN];
  for (int i = 0; i < s.nin; i++) {
    in[i] = p->value[below(p->nvalues)];
    if (i && below(2)) { /* as the first */
      BluType t = blu_value_type(in[0]);
      in[i] = value_of_type(p, &t, in[i]);
    }
    s.in[i] = blu_value_type(in[i]);
  }
  s.attrs = random_attrs(op, &s);
  return add(p, b, real, op, &s, in);
}

/* ---- the op of the seed ---- */

typedef struct { const BluOp *op; BluSig sig; double lo; } Special;

static BluElem as_real(BluElem e, BluElem real) { return e == BLU_F64 ? real : e; }

/* The signature of a random test case of the op, with floats of type real. */
static bool find_special(MlirContext ctx, const BluOp *op, BluElem real, Special *s) {
  const BluOpCase *c = blu_op_cases(op);
  int n = 0;
  while (c[n].body) n++;
  if (!n || !is_allowed(op, real)) return false;
  c += below(n);
  char text[4096];
  snprintf(text, sizeof text, "func.func @f(%s) {\n%s\nreturn\n}", c->args, c->body);
  MlirModule m = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  if (mlirModuleIsNull(m)) return false;
  MlirOperation last = {0};
  for (MlirOperation o = mlirBlockGetFirstOperation(blu_func_block(blu_func_find(m, "f"))); !mlirOperationIsNull(o);
       o = mlirOperationGetNextInBlock(o))
    if (blu_is(o, op->name)) last = o;
  bool found = !mlirOperationIsNull(last);
  if (found) blu_sig_of(last, &s->sig);
  mlirModuleDestroy(m);
  s->op = op;
  s->lo = c->lo;
  for (int i = 0; i < s->sig.nin; i++) s->sig.in[i].elem = as_real(s->sig.in[i].elem, real);
  for (int i = 0; i < s->sig.attrs.n; i++) {
    BluAttr *a = &s->sig.attrs.a[i];
    if (a->kind == BLU_ATTR_TYPE) a->i[0] = as_real((BluElem)a->i[0], real);
  }
  return found;
}

/* Its operands are the first arguments, or values of their types; positive where the case asks for that. */
static void add_special(Program *p, BluBuilder *b, BluElem real, Special *s) {
  MlirValue in[BLU_MAX_IN];
  if (p->nvalues + s->sig.nin * 2 >= MAX_VALUES) return;
  for (int i = 0; i < s->sig.nin; i++) {
    in[i] = below(2) ? value_of_type(p, &s->sig.in[i], p->value[i]) : p->value[i];
    if (!blu_elem_is_float(s->sig.in[i].elem) || !(s->lo >= 0)) continue;
    MlirValue size = p->value[p->nvalues++] = blu_build1(b, "abs", in[i]);
    in[i] = p->value[p->nvalues++] = blu_build2(b, "add", size, blu_constant_like(b, size, s->lo));
  }
  add(p, b, real, s->op, &s->sig, in);
}

/* ---- programs ---- */

Recipe recipe_of(uint64_t seed, BluElem real) {
  Recipe r = {.seed = seed, .real = real, .which = -1};
  for (int i = 0; i < MAX_VALUES; i++) r.edit[i] = KEPT;
  return r;
}

static bool is_edited(const Recipe *r) {
  for (int i = 0; i < MAX_VALUES; i++)
    if (r->edit[i] != KEPT) return true;
  return false;
}

static void edit(Program *p, const Recipe *r) {
  for (int i = p->first; i < p->nvalues; i++) {
    if (r->edit[i] == KEPT || i == r->which) continue;
    MlirOperation old = blu_def(p->value[i]);
    MlirType type = mlirValueGetType(p->value[i]);
    MlirValue by = r->edit[i] >= 0 ? p->value[r->edit[i]] : mlirBlockAddArgument(p->block, type, mlirOperationGetLocation(p->func));
    mlirValueReplaceAllUsesOfWith(p->value[i], by);
    mlirOperationDestroy(old);
    p->value[i] = by;
  }
}

/* In f64 a composite and what it expands to use the same constants, so that numbers can be compared closely; in f32 they round. */
Program program_make(MlirContext ctx, const Recipe *r) {
  harness_seed(r->seed);
  MlirLocation loc = mlirLocationUnknownGet(ctx);
  Program p = {.module = mlirModuleCreateEmpty(loc)};
  BluPort ports[MAX_ARGS];
  Special s = {0};
  bool special = find_special(ctx, &blu_ops[r->seed % (uint64_t)blu_nops], r->real, &s);
  int given = special ? s.sig.nin : 0, nargs = given + 1 + below(MAX_ARGS - 2 - given < 4 ? MAX_ARGS - 2 - given : 4);
  for (int i = 0; i < nargs; i++) {
    const BluElem elems[] = {r->real, r->real, r->real, r->real, BLU_I32, BLU_U8, BLU_BOOL};
    ports[i] = (BluPort){.role = "input", .name = "x", .type = i < given ? s.sig.in[i] : random_type(i ? elems[below(7)] : r->real)};
    if (i > given && below(2)) {
      BluElem e = ports[i].type.elem;
      ports[i].type = ports[0].type;
      ports[i].type.elem = e;
    }
  }
  p.func = blu_func_make(p.module, loc, "f", nargs, ports, &p.block);
  for (int i = 0; i < nargs; i++) p.value[p.nvalues++] = mlirBlockGetArgument(p.block, i);
  p.first = nargs;
  BluBuilder b = {ctx, loc, p.block, {0}};
  int last = nargs + 3 + below(20), when = special ? nargs + below(last - nargs + 1) : -1; /* the seed's op may be the first, or the last */
  for (int tries = 0; tries < 4000 && p.nvalues < last && p.nvalues < MAX_VALUES; tries++) {
    if (p.nvalues >= when && special) add_special(&p, &b, r->real, &s), special = false;
    else add_random(&p, &b, r->real);
  }
  if (special && p.nvalues < MAX_VALUES) add_special(&p, &b, r->real, &s);
  edit(&p, r);
  return p;
}

static void remove_unused(Program *p) {
  for (MlirOperation o = mlirBlockGetTerminator(p->block); !mlirOperationIsNull(o);) {
    MlirOperation before = {0}; /* there is no way backwards: look for it */
    for (MlirOperation k = mlirBlockGetFirstOperation(p->block); !mlirOperationEqual(k, o); k = mlirOperationGetNextInBlock(k)) before = k;
    if (blu_op_of(o) && mlirOpOperandIsNull(mlirValueGetFirstUse(mlirOperationGetResult(o, 0)))) mlirOperationDestroy(o);
    o = before;
  }
  for (intptr_t i = mlirBlockGetNumArguments(p->block) - 1; i >= 0; i--)
    if (mlirOpOperandIsNull(mlirValueGetFirstUse(mlirBlockGetArgument(p->block, i))) && mlirBlockGetNumArguments(p->block) > 1)
      mlirBlockEraseArgument(p->block, (unsigned)i);
}

void program_return(Program *p, const Recipe *r, bool trim) {
  MlirValue out[3];
  BluPort ports[3];
  MlirLocation loc = mlirOperationGetLocation(p->func);
  int n = 0;
  for (int i = p->nvalues - 1; i >= p->first && n < 3; i -= 1 + i % 2)
    if (r->which < 0) out[n++] = p->value[i];
  if (r->which >= 0) out[n++] = p->value[r->which];
  if (!n) out[n++] = p->value[0];
  for (int i = 0; i < n; i++) ports[i] = (BluPort){.role = "output", .name = "y", .type = blu_value_type(out[i])};
  blu_func_return(p->func, loc, n, out, ports);
  if (!trim && !is_edited(r)) return;
  remove_unused(p);
  mlirOperationDestroy(mlirBlockGetTerminator(p->block)); /* again, for the types of the arguments that are left */
  blu_func_return(p->func, loc, n, out, ports);
  for (int i = 0; i < blu_func_nargs(p->func); i++)
    blu_func_set_arg(p->func, i, &(BluPort){.role = "input", .name = "x", .type = blu_func_arg(p->func, i).type});
}

void program_count(const Program *p, int *count) {
  BluMap live = {0};
  int n = 0;
  MlirOperation ops[4 * MAX_VALUES];
  for (MlirOperation o = mlirBlockGetFirstOperation(p->block); !mlirOperationIsNull(o) && n < 4 * MAX_VALUES; o = mlirOperationGetNextInBlock(o))
    ops[n++] = o;
  for (int i = n - 1; i >= 0; i--) {
    const BluOp *op = blu_op_of(ops[i]);
    if (op && (!op->nout || !blu_map_get(&live, mlirOperationGetResult(ops[i], 0).ptr))) continue;
    if (op) count[op - blu_ops]++;
    for (intptr_t k = 0; k < mlirOperationGetNumOperands(ops[i]); k++) {
      void *v = (void *)mlirOperationGetOperand(ops[i], k).ptr;
      blu_map_set(&live, v, v);
    }
  }
  blu_map_free(&live);
}
