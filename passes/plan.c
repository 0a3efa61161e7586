/* plan.c - gives every value its place in the arena. First what is kept between runs (parameters, state, scalars), then, from
 * the same offset on for every function, what a run needs: live ranges over the launches, placed largest first at the lowest
 * offset that is free during the whole range. A new value of a parameter or state is written over the old one if nobody reads
 * that later; else it is copied at the end. Nothing here depends on the target. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"
#include "passes/kernel.h"
#include "passes_internal.h"
#include "dialects/memory.h"

enum { ALIGN = 64 };

typedef struct { const char *role, *name; BluType type; int64_t offset; } Kept;
typedef struct { MlirValue value; int64_t bytes, offset; int from, to; } Range; /* launches [from, to]; offset -1: not placed */

typedef struct {
  MlirModule module;
  Kept *kept;
  int nkept, cap;
  int64_t kept_bytes;
} Plan;

typedef struct {
  Plan *plan;
  MlirOperation func;
  MlirOperation *call;
  int ncalls, commit;
  BluMap index;    /* call -> its number + 1 */
  BluMap place;    /* value -> offset + 1, once known */
  Range *range;
  int nranges;
} Func;

static int64_t aligned(int64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }
static int64_t bytes_of(const BluType *t) { return blu_type_count(t) * blu_elem_bytes(t->elem); }
static bool is_call(MlirOperation op) {
  return mlirStringRefEqual(mlirIdentifierStr(mlirOperationGetName(op)), mlirStringRefCreateFromCString("func.call"));
}

/* ---- what is kept ---- */

static bool role_is_kept(const char *role) {
  static const char *const roles[] = {"param", "state", "cache", "gradient", "run", "step", "total", "seed", "rows"};
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    if (!strcmp(role, roles[i])) return true;
  return false;
}

static const Kept *find_kept(const Plan *p, const char *role, const char *name) {
  for (int i = 0; i < p->nkept; i++)
    if (!strcmp(p->kept[i].role, role) && !strcmp(p->kept[i].name, name)) return &p->kept[i];
  return NULL;
}

static void keep(Plan *p, const BluPort *port, const char *role) {
  if (strcmp(port->role, role) || find_kept(p, port->role, port->name)) return;
  if (p->nkept == p->cap) p->kept = blu_realloc(p->kept, (size_t)(p->cap = p->cap ? 2 * p->cap : 32) * sizeof *p->kept);
  p->kept[p->nkept++] = (Kept){port->role, port->name, port->type, p->kept_bytes};
  p->kept_bytes += aligned(bytes_of(&port->type));
}

static void keep_all(Plan *p, MlirOperation *funcs, int n) {
  static const char *const order[] = {"param", "state", "cache", "gradient", "run", "step", "total", "seed", "rows"};
  for (size_t r = 0; r < sizeof order / sizeof *order; r++)
    for (int i = 0; i < n; i++) {
      if (*blu_get_string(funcs[i], "blu.kernel")) continue;
      for (int k = 0; k < blu_func_nresults(funcs[i]); k++) {
        BluPort port = blu_func_result(funcs[i], k);
        keep(p, &port, order[r]);
      }
      for (int k = 0; k < blu_func_nargs(funcs[i]); k++) {
        BluPort port = blu_func_arg(funcs[i], k);
        keep(p, &port, order[r]);
      }
    }
}

/* ---- live ranges ---- */

/* The value whose bytes v names: through reshapes. */
static MlirValue root_of(MlirValue v) {
  while (blu_is(blu_def(v), "reshape")) v = mlirOperationGetOperand(blu_def(v), 0);
  return v;
}

static int number_of(const Func *f, MlirOperation op) { return (int)(intptr_t)blu_map_get(&f->index, op.ptr) - 1; }

/* The last launch that reads v or a view of it; ncalls: used by the return; -1: never. */
static int last_use(const Func *f, MlirValue v) {
  int last = -1;
  for (MlirOpOperand u = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
    MlirOperation user = mlirOpOperandGetOwner(u);
    int at = blu_is(user, "reshape") ? last_use(f, mlirOperationGetResult(user, 0)) : is_call(user) ? number_of(f, user)
             : blu_is(user, "guard") ? f->commit : f->ncalls;
    if (at > last) last = at;
  }
  return last;
}

static void set_place(Func *f, MlirValue v, int64_t offset) { blu_map_set(&f->place, v.ptr, (void *)(intptr_t)(offset + 1)); }
static int64_t place_of(const Func *f, MlirValue v) { return (int64_t)(intptr_t)blu_map_get(&f->place, root_of(v).ptr) - 1; }

static void add_range(Func *f, MlirValue v, int from) {
  BluType t = blu_value_type(v);
  int to = last_use(f, v);
  f->range = blu_realloc(f->range, (size_t)(f->nranges + 1) * sizeof *f->range);
  f->range[f->nranges++] = (Range){v, aligned(bytes_of(&t)), -1, from, to < from ? from : to};
}

static int larger_first(const void *x, const void *y) {
  const Range *a = *(Range *const *)x, *b = *(Range *const *)y;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return a < b ? -1 : 1;
}

static bool overlap_in_time(const Range *a, const Range *b) { return a->from <= b->to && b->from <= a->to; }

/* Places ranges from `base` on; returns the end of the highest. */
static int64_t place_ranges(Func *f, int64_t base) {
  Range **order = blu_alloc((size_t)(f->nranges + 1) * sizeof *order);
  int64_t top = base;
  for (int i = 0; i < f->nranges; i++) order[i] = &f->range[i];
  qsort(order, (size_t)f->nranges, sizeof *order, larger_first);
  for (int i = 0; i < f->nranges; i++) {
    int64_t at = base;
    for (bool moved = true; moved;) { /* up past every placed range that is in the way, until none is */
      moved = false;
      for (int k = 0; k < i; k++) {
        const Range *o = order[k];
        if (!overlap_in_time(o, order[i]) || at + order[i]->bytes <= o->offset || o->offset + o->bytes <= at) continue;
        at = o->offset + o->bytes;
        moved = true;
      }
    }
    order[i]->offset = at;
    set_place(f, order[i]->value, at);
    if (at + order[i]->bytes > top) top = at + order[i]->bytes;
  }
  free(order);
  return top;
}

/* Two values that live at the same time share no byte: the pass checks its own work. */
static void check_ranges(const Func *f) {
  for (int i = 0; i < f->nranges; i++)
    for (int k = 0; k < i; k++) {
      const Range *a = &f->range[i], *b = &f->range[k];
      if (!overlap_in_time(a, b) || a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset) continue;
      fprintf(stderr, "blu: internal error: plan: two live values of %s share bytes at %lld\n", blu_func_name(f->func), (long long)a->offset);
      abort();
    }
}

/* ---- writing new parameters over the old ---- */

/* Does the kernel read argument i at the point that it writes, and nowhere else? */
static bool reads_pointwise(MlirOperation kernel, MlirValue v, const BluKernelInfo *k) {
  BluType t = blu_value_type(v);
  BluView at;
  if (!blu_view_of_type(&t, &k->space, &at) || at.kind != BLU_VIEW_FULL) return false;
  for (MlirOpOperand u = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
    MlirOperation user = mlirOpOperandGetOwner(u);
    const BluOp *op = blu_op_of(user);
    if (!op) continue; /* returned: a copy */
    if (blu_is(user, "broadcast") || (!mlirOperationIsNull(k->main) && mlirOperationEqual(user, k->main))) return false;
    if (blu_is_free(user) && !reads_pointwise(kernel, mlirOperationGetResult(user, 0), k)) return false;
  }
  return true;
}

static MlirOperation callee_of(const Plan *p, MlirOperation call) {
  MlirAttribute a = mlirOperationGetAttributeByName(call, mlirStringRefCreateFromCString("callee"));
  return blu_func_find(p->module, mlirFlatSymbolRefAttrGetValue(a).data);
}

/* May the result v of a launch take the place of argument `old` (null: the function doesn't read it)? */
static bool may_replace(const Func *f, MlirValue v, MlirValue old) {
  MlirOperation call = blu_def(v);
  if (mlirOperationIsNull(call) || !is_call(call) || blu_map_get(&f->place, v.ptr)) return false;
  int at = number_of(f, call);
  if (at < f->commit) return false; /* nothing that is kept changes before the guard */
  if (mlirValueIsNull(old)) return true;
  if (last_use(f, old) > at) return false;
  MlirOperation kernel = callee_of(f->plan, call);
  BluKernelInfo k;
  blu_kernel_info(kernel, &k);
  if (k.kind != BLU_KERNEL_ROWS && k.kind != BLU_KERNEL_MATMUL) return last_use(f, old) < at;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(call); i++) {
    MlirValue in = mlirOperationGetOperand(call, i);
    if (mlirValueEqual(root_of(in), old) && !reads_pointwise(kernel, mlirBlockGetArgument(blu_func_block(kernel), i), &k)) return false;
  }
  return true;
}

static void list_calls(Func *f) {
  int n;
  MlirOperation *ops = blu_block_ops(blu_func_block(f->func), &n);
  blu_map_free(&f->index);
  free(f->call);
  f->call = blu_alloc((size_t)(n + 1) * sizeof *f->call);
  f->ncalls = 0;
  f->commit = -1;
  for (int i = 0; i < n; i++) {
    if (blu_is(ops[i], "guard")) f->commit = f->ncalls;
    if (!is_call(ops[i])) continue;
    f->call[f->ncalls++] = ops[i];
    blu_map_set(&f->index, ops[i].ptr, (void *)(intptr_t)f->ncalls);
  }
  if (f->commit < 0) f->commit = 0; /* no guard: everything may change kept values (init), or nothing does */
  free(ops);
}

/* The kernel that copies a tensor of type t: a function that returns its argument. A dot keeps its name apart from the user's. */
static MlirOperation copy_kernel(MlirModule m, MlirLocation loc, const BluType *t) {
  char name[160];
  size_t n = (size_t)snprintf(name, sizeof name, "copy.%s", blu_elem_name(t->elem));
  for (int i = 0; i < t->rank; i++) n += (size_t)snprintf(name + n, sizeof name - n, "%c%lld", i ? 'x' : '.', (long long)t->dim[i]);
  MlirOperation kernel = blu_func_find(m, name);
  if (!mlirOperationIsNull(kernel)) return kernel;
  BluPort port = {.type = *t};
  MlirBlock block;
  kernel = blu_func_make(m, loc, name, 1, &port, &block);
  MlirValue arg = mlirBlockGetArgument(block, 0);
  blu_func_return(kernel, loc, 1, &arg, NULL);
  blu_set_string(kernel, "sym_visibility", "private");
  blu_set_string(kernel, "blu.kernel", blu_kernel_kind_names[BLU_KERNEL_ROWS]);
  blu_set_ints(kernel, "blu.space", t->rank, t->dim);
  return kernel;
}

/* A launch at the end of f that copies v; returns its result. */
static MlirValue append_copy(Func *f, MlirValue v) {
  BluType t = blu_value_type(v);
  MlirOperation end = mlirBlockGetTerminator(blu_func_block(f->func));
  MlirLocation loc = mlirOperationGetLocation(end);
  MlirOperation kernel = copy_kernel(f->plan->module, loc, &t);
  MlirContext ctx = mlirModuleGetContext(f->plan->module);
  MlirOperationState st = mlirOperationStateGet(mlirStringRefCreateFromCString("func.call"), loc);
  MlirNamedAttribute callee = mlirNamedAttributeGet(mlirIdentifierGet(ctx, mlirStringRefCreateFromCString("callee")),
    mlirFlatSymbolRefAttrGet(ctx, mlirStringRefCreateFromCString(blu_func_name(kernel))));
  MlirType type_of = mlirValueGetType(v);
  mlirOperationStateAddAttributes(&st, 1, &callee);
  mlirOperationStateAddOperands(&st, 1, &v);
  mlirOperationStateAddResults(&st, 1, &type_of);
  MlirOperation call = mlirOperationCreate(&st);
  mlirBlockInsertOwnedOperationBefore(blu_func_block(f->func), end, call);
  list_calls(f);
  return mlirOperationGetResult(call, 0);
}

/* The argument of f with this role and name; null: none. */
static MlirValue argument(const Func *f, const char *role, const char *name) {
  for (int i = 0; i < blu_func_nargs(f->func); i++) {
    BluPort p = blu_func_arg(f->func, i);
    if (!strcmp(p.role, role) && !strcmp(p.name, name)) return mlirBlockGetArgument(blu_func_block(f->func), i);
  }
  return (MlirValue){0};
}

/* Results that are parameters or state go to their kept places: directly, or by a copy at the end. A result that is the old value of
 * another kept tensor is first copied aside, so that no new value is written over it before: a swap works. */
static void place_kept_results(Func *f) {
  MlirOperation end = mlirBlockGetTerminator(blu_func_block(f->func));
  int n = blu_func_nresults(f->func);
  for (int aside = 1; aside >= 0; aside--)
    for (int i = 0; i < n; i++) {
      BluPort p = blu_func_result(f->func, i);
      const Kept *k = role_is_kept(p.role) ? find_kept(f->plan, p.role, p.name) : NULL;
      MlirValue v = root_of(mlirOperationGetOperand(end, i)), old = argument(f, p.role, p.name);
      if (!k || (!mlirValueIsNull(old) && mlirValueEqual(v, old))) continue;
      if (aside) {
        if (mlirValueIsABlockArgument(v)) mlirOperationSetOperand(end, i, append_copy(f, mlirOperationGetOperand(end, i)));
        continue;
      }
      if (!may_replace(f, v, old)) {
        v = append_copy(f, mlirOperationGetOperand(end, i));
        mlirOperationSetOperand(end, i, v);
      }
      set_place(f, v, k->offset);
    }
}

static int64_t plan_function(Plan *p, MlirOperation func) {
  Func f = {.plan = p, .func = func};
  MlirBlock block = blu_func_block(func);
  MlirOperation end = mlirBlockGetTerminator(block);
  list_calls(&f);
  int nargs = blu_func_nargs(func), nresults = blu_func_nresults(func);
  for (int i = 0; i < nargs; i++) {
    BluPort port = blu_func_arg(func, i);
    if (role_is_kept(port.role)) set_place(&f, mlirBlockGetArgument(block, i), find_kept(p, port.role, port.name)->offset);
  }
  place_kept_results(&f);
  for (int i = 0; i < nargs; i++)
    if (!role_is_kept(blu_func_arg(func, i).role)) add_range(&f, mlirBlockGetArgument(block, i), 0);
  for (int i = 0; i < f.ncalls; i++)
    for (intptr_t k = 0; k < mlirOperationGetNumResults(f.call[i]); k++) {
      MlirValue v = mlirOperationGetResult(f.call[i], k);
      if (!blu_map_get(&f.place, v.ptr)) add_range(&f, v, i);
    }
  int64_t top = place_ranges(&f, p->kept_bytes);
  check_ranges(&f);

  int64_t *places = blu_alloc(((size_t)nargs + (size_t)nresults + 1) * sizeof *places);
  for (int i = 0; i < nargs; i++) places[i] = place_of(&f, mlirBlockGetArgument(block, i));
  blu_set_ints(func, "blu.args", nargs, places);
  for (int i = 0; i < nresults; i++) places[i] = place_of(&f, mlirOperationGetOperand(end, i));
  blu_set_ints(func, "blu.results", nresults, places);
  free(places);
  for (int i = 0; i < f.ncalls; i++) {
    int nin = (int)mlirOperationGetNumOperands(f.call[i]), nout = (int)mlirOperationGetNumResults(f.call[i]);
    places = blu_alloc((size_t)(nin + nout + 1) * sizeof *places);
    for (int k = 0; k < nin; k++) places[k] = place_of(&f, mlirOperationGetOperand(f.call[i], k));
    for (int k = 0; k < nout; k++) places[nin + k] = place_of(&f, mlirOperationGetResult(f.call[i], k));
    blu_set_ints(f.call[i], "blu.places", nin + nout, places);
    free(places);
  }
  bool changes = false; /* a function that keeps nothing has nothing to commit */
  for (int i = 0; i < nresults; i++) changes |= role_is_kept(blu_func_result(func, i).role);
  blu_set_int(func, "blu.commit", changes ? f.commit : f.ncalls);
  blu_set_int(func, "blu.bytes", top - p->kept_bytes);
  free(f.call), free(f.range);
  blu_map_free(&f.index), blu_map_free(&f.place);
  return top;
}

bool blu_pass_plan(MlirModule m) {
  int n;
  MlirOperation *funcs = blu_module_funcs(m, &n);
  Plan p = {.module = m};
  keep_all(&p, funcs, n);
  int64_t arena = p.kept_bytes;
  for (int i = 0; i < n; i++) {
    if (*blu_get_string(funcs[i], "blu.kernel")) continue;
    int64_t top = plan_function(&p, funcs[i]);
    if (top > arena) arena = top;
  }
  blu_set_int(mlirModuleGetOperation(m), "blu.kept", p.kept_bytes);
  blu_set_int(mlirModuleGetOperation(m), "blu.arena", arena);
  free(p.kept);
  free(funcs);
  return true;
}
