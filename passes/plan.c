/* plan.c - gives every value its place in the arena. First what is kept between runs (parameters, state, scalars), then, from
 * the same offset on for every function, what a run needs: live ranges over the launches, placed largest first at the lowest
 * offset that is free during the whole range. A result whose launch is the last to read an operand of the same size, and reads it
 * where it writes, is written over it. So is a new value of a parameter or state over the old one, if nobody reads that later; else
 * it is copied at the end. In a program for a device the host's launches run first, and no scan is shared by threads.
 *
 * A scan is one launch. Its carries stay in the places of their first values, which the body changes in place; what else a run
 * of the body needs is one range of the function, the frame. Steps that don't depend on one another are shared by the threads,
 * each with a frame of its own outside of the arena; what scans inside of such a step need is part of that frame. Inside of the body,
 * offsets count from the start of the frame, and what comes from outside is BLU_PLACE_OUTSIDE - k, the k-th of the scan's own places. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"
#include "passes/kernel.h"
#include "passes_internal.h"
#include "dialects/memory.h"

enum { ALIGN = 64 };

typedef struct { const char *role, *name; BluType type; int64_t offset; } Kept;
typedef struct { MlirValue value; int64_t bytes, offset; int from, to; } Range; /* launches [from, to]; value, its first: null: a frame */

typedef struct {
  MlirModule module;
  Kept *kept;
  int nkept, cap;
  BluMap found;      /* hash of role and name -> number in `kept` + 1; others follow at the next keys */
  int64_t kept_bytes, frame; /* frame: of a thread */
  bool good;
} Plan;

typedef struct {
  Plan *plan;
  MlirOperation func, scan; /* scan: whose body func is, or null */
  bool in_map;              /* that scan is a map, or stands in one */
  MlirOperation *call;      /* calls and scans */
  int ncalls, commit;
  BluPort *arg, *result;
  int nargs, nresults;
  BluMap index;    /* call or scan -> its number + 1 */
  BluMap place;    /* value -> offset + 1, of what has its place beforehand */
  BluMap range_of; /* another value -> number of the range that it lies in + 1 */
  Range *range;
  int nranges;
} Func;

static int64_t aligned(int64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }
static int64_t bytes_of(const BluType *t) { return blu_type_count(t) * blu_elem_bytes(t->elem); }

/* ---- what is kept ---- */

static const char *const kept_roles[] = {"param", "state", "cache", "gradient", "run", "step", "total", "scale", "seed", "rows"};

static bool role_is_kept(const char *role) {
  for (size_t i = 0; i < sizeof kept_roles / sizeof *kept_roles; i++)
    if (!strcmp(role, kept_roles[i])) return true;
  return false;
}

static uintptr_t key_of(const char *role, const char *name) { /* FNV-1a; never 0 */
  uintptr_t h = 0xcbf29ce484222325u;
  for (const char *s = role; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
  for (const char *s = name; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
  return h | 1;
}

/* The tensor of this role and name, or NULL; *key: where it is, or would be, in `found`. */
static const Kept *look_up(const Plan *p, const char *role, const char *name, uintptr_t *key) {
  for (*key = key_of(role, name);; *key += 2) {
    int at = (int)(intptr_t)blu_map_get(&p->found, (void *)*key);
    if (!at) return NULL;
    if (!strcmp(p->kept[at - 1].role, role) && !strcmp(p->kept[at - 1].name, name)) return &p->kept[at - 1];
  }
}

static const Kept *find_kept(const Plan *p, const char *role, const char *name) {
  uintptr_t key;
  return look_up(p, role, name, &key);
}

static void keep(Plan *p, const BluPort *port) {
  uintptr_t key;
  if (look_up(p, port->role, port->name, &key)) return;
  if (p->nkept == p->cap) p->kept = blu_realloc(p->kept, (size_t)(p->cap = p->cap ? 2 * p->cap : 32) * sizeof *p->kept);
  p->kept[p->nkept++] = (Kept){port->role, port->name, port->type, p->kept_bytes};
  blu_map_set(&p->found, (void *)key, (void *)(intptr_t)p->nkept);
  p->kept_bytes += aligned(bytes_of(&port->type));
}

/* Role by role, in the order of the functions. */
static void keep_all(Plan *p, MlirOperation *funcs, int n) {
  BluPort *port = NULL;
  int ports = 0;
  for (int i = 0; i < n; i++) {
    if (blu_is_kernel(funcs[i])) continue;
    int nargs = blu_func_nargs(funcs[i]), nresults = blu_func_nresults(funcs[i]);
    port = blu_realloc(port, (size_t)(ports + nargs + nresults + 1) * sizeof *port);
    for (int k = 0; k < nresults; k++) port[ports++] = blu_func_result(funcs[i], k);
    for (int k = 0; k < nargs; k++) port[ports++] = blu_func_arg(funcs[i], k);
  }
  for (size_t r = 0; r < sizeof kept_roles / sizeof *kept_roles; r++)
    for (int i = 0; i < ports; i++)
      if (!strcmp(port[i].role, kept_roles[r])) keep(p, &port[i]);
  free(port);
}

/* ---- live ranges ---- */

static int number_of(const Func *f, MlirOperation op) { return (int)(intptr_t)blu_map_get(&f->index, op.ptr) - 1; }

static int last_use(const Func *f, MlirValue v, MlirOpOperand but);

/* The last launch that use u makes read its value; ncalls: the return; a carry lives on in the scan's result. */
static int use_until(const Func *f, MlirOpOperand u, MlirOpOperand but) {
  MlirOperation user = mlirOpOperandGetOwner(u);
  MlirValue same = blu_same_bytes(u);
  int at = blu_is_launch(user) ? number_of(f, user) : blu_is(user, "guard") ? f->commit : blu_is(user, "reshape") ? -1 : f->ncalls;
  int later = mlirValueIsNull(same) ? -1 : last_use(f, same, but);
  return later > at ? later : at;
}

/* The last launch that reads v or a view of it, use `but` (or null) left out; -1: never. */
static int last_use(const Func *f, MlirValue v, MlirOpOperand but) {
  int last = -1;
  for (MlirOpOperand u = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
    bool left_out = !mlirOpOperandIsNull(but) && mlirOperationEqual(mlirOpOperandGetOwner(u), mlirOpOperandGetOwner(but)) &&
                    mlirOpOperandGetOperandNumber(u) == mlirOpOperandGetOperandNumber(but);
    int at = left_out ? -1 : use_until(f, u, but);
    if (at > last) last = at;
  }
  return last;
}

static const MlirOpOperand no_use = {0};

static void set_place(Func *f, MlirValue v, int64_t offset) { blu_map_set(&f->place, v.ptr, (void *)(intptr_t)(offset + 1)); }
static int64_t place_of(const Func *f, MlirValue v) {
  int64_t place = (int64_t)(intptr_t)blu_map_get(&f->place, blu_root(v).ptr) - 1;
  int range = (int)(intptr_t)blu_map_get(&f->range_of, blu_root(v).ptr) - 1;
  return range < 0 ? place : f->range[range].offset;
}

static void add_bytes(Func *f, MlirValue v, int64_t bytes, int from, int to) {
  f->range = blu_realloc(f->range, (size_t)(f->nranges + 1) * sizeof *f->range);
  f->range[f->nranges++] = (Range){v, aligned(bytes), -1, from, to < from ? from : to};
}

static void add_range(Func *f, MlirValue v, int from) {
  BluType t = blu_value_type(v);
  add_bytes(f, v, bytes_of(&t), from, last_use(f, v, no_use));
  blu_map_set(&f->range_of, v.ptr, (void *)(intptr_t)f->nranges);
}

static bool overlap_in_time(const Range *a, const Range *b) { return a->from <= b->to && b->from <= a->to; }

/* Orders in which ranges get their places; those first that leave the worst gaps later. */
typedef int Order(const void *, const void *);

static int larger_first(const void *x, const void *y) {
  const Range *a = *(Range *const *)x, *b = *(Range *const *)y;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return a < b ? -1 : 1;
}

static int longer_first(const void *x, const void *y) { /* bytes times launches */
  const Range *a = *(Range *const *)x, *b = *(Range *const *)y;
  int64_t s = a->bytes * (a->to - a->from + 1), t = b->bytes * (b->to - b->from + 1);
  if (s != t) return s < t ? 1 : -1;
  return a < b ? -1 : 1;
}

static int earlier_first(const void *x, const void *y) {
  const Range *a = *(Range *const *)x, *b = *(Range *const *)y;
  if (a->from != b->from) return a->from < b->from ? -1 : 1;
  return larger_first(x, y);
}

static int later_first(const void *x, const void *y) {
  const Range *a = *(Range *const *)x, *b = *(Range *const *)y;
  if (a->to != b->to) return a->to > b->to ? -1 : 1;
  return larger_first(x, y);
}

/* Places ranges from `base` on, each at the lowest offset that is free while it lives; returns the end of the highest. */
static int64_t place_in_order(Func *f, int64_t base, Range **order, Order *by) {
  int64_t top = base;
  qsort(order, (size_t)f->nranges, sizeof *order, by);
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
    if (at + order[i]->bytes > top) top = at + order[i]->bytes;
  }
  return top;
}

/* The most bytes that live at one time: no plan needs less. */
static int64_t largest_live(const Func *f) {
  int64_t *change = blu_alloc_zeroed((size_t)f->ncalls + 3, sizeof *change), live = 0, most = 0;
  for (int i = 0; i < f->nranges; i++) {
    change[f->range[i].from] += f->range[i].bytes;
    change[f->range[i].to + 1] -= f->range[i].bytes;
  }
  for (int i = 0; i <= f->ncalls; i++) {
    live += change[i];
    if (live > most) most = live;
  }
  free(change);
  return most;
}

/* Places ranges in the best of the orders; returns the end of the highest. */
static int64_t place_ranges(Func *f, int64_t base) {
  static Order *const orders[] = {larger_first, longer_first, earlier_first, later_first};
  enum { NEAR = 100 }; /* parts of the least that a plan may be above it without another try */
  size_t n = (size_t)f->nranges + 1;
  Range **order = blu_alloc(n * sizeof *order);
  int64_t *offset = blu_alloc(n * sizeof *offset), top = INT64_MAX, least = largest_live(f);
  for (int i = 0; i < f->nranges; i++) order[i] = &f->range[i];
  for (size_t k = 0; k < sizeof orders / sizeof *orders && (!k || top - base > least + least / NEAR); k++) {
    int64_t end = place_in_order(f, base, order, orders[k]);
    if (end >= top) continue;
    top = end;
    for (int i = 0; i < f->nranges; i++) offset[i] = f->range[i].offset;
  }
  for (int i = 0; i < f->nranges; i++) f->range[i].offset = offset[i];
  free(order), free(offset);
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

/* The host's launches of a program for a device: all run before the device begins. */
static bool is_host_launch(const Func *f, int launch) { return blu_is_call(f->call[launch]) && blu_kernel_is_host(callee_of(f->plan, f->call[launch])); }

/* May the launch write a result over `old`, of as many bytes, which nobody reads later? Only if it reads each element before it writes there. */
static bool may_write_over(const Func *f, MlirOperation call, MlirValue old) {
  MlirOperation kernel = callee_of(f->plan, call);
  BluKernelInfo k;
  blu_kernel_info(kernel, &k);
  bool adds_rows = k.kind == BLU_KERNEL_MOVE && blu_is(k.main, "scatter_add") && !blu_targets_device(f->plan->module);
  if (k.kind != BLU_KERNEL_ROWS && k.kind != BLU_KERNEL_MATMUL && !adds_rows) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(call); i++) {
    MlirValue in = mlirOperationGetOperand(call, i), inside = mlirBlockGetArgument(blu_func_block(kernel), i);
    if (!mlirValueEqual(blu_root(in), old)) continue;
    if (adds_rows ? !mlirValueEqual(mlirOperationGetOperand(k.main, 0), inside) : !reads_pointwise(kernel, inside, &k)) return false;
  }
  return true;
}

/* May the result v of a launch take the place of argument `old` (null: the function doesn't read it)? */
static bool may_replace(const Func *f, MlirValue v, MlirValue old) {
  MlirOperation call = blu_def(v);
  if (mlirOperationIsNull(call) || !blu_is_call(call) || blu_map_get(&f->place, v.ptr)) return false;
  int at = number_of(f, call);
  if (at < f->commit || is_host_launch(f, at)) return false; /* nothing that is kept changes before the guard */
  int last = mlirValueIsNull(old) ? -1 : last_use(f, old, no_use);
  return last < at || (last == at && may_write_over(f, call, old));
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
    if (!blu_is_launch(ops[i])) continue;
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

/* A launch before `before` that copies v; returns its result. */
static MlirValue insert_copy(Func *f, MlirValue v, MlirOperation before) {
  BluType t = blu_value_type(v);
  MlirLocation loc = mlirOperationGetLocation(before);
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
  mlirBlockInsertOwnedOperationBefore(blu_func_block(f->func), before, call);
  list_calls(f);
  return mlirOperationGetResult(call, 0);
}

static MlirValue append_copy(Func *f, MlirValue v) { return insert_copy(f, v, mlirBlockGetTerminator(blu_func_block(f->func))); }

/* The first value of a carry is overwritten: if somebody else reads it during the scan or later, or if it is an argument, the scan
 * gets a copy. */
static void own_carries(Func *f) {
  for (int i = 0; i < f->ncalls; i++) {
    BluScan s;
    if (!blu_scan_of(f->call[i], &s)) continue;
    MlirOperation scan = f->call[i];
    for (int k = 0; k < s.carries; k++) {
      MlirValue v = mlirOperationGetOperand(scan, k), root = blu_root(v);
      MlirOpOperand use = mlirValueGetFirstUse(v);
      while (!mlirOperationEqual(mlirOpOperandGetOwner(use), scan) || mlirOpOperandGetOperandNumber(use) != (unsigned)k)
        use = mlirOpOperandGetNextUse(use);
      if (!mlirValueIsABlockArgument(root) && last_use(f, root, use) < number_of(f, scan)) continue;
      mlirOperationSetOperand(scan, k, insert_copy(f, v, scan));
    }
    i = number_of(f, scan);
  }
}

/* The argument of f with this role and name; null: none. */
static MlirValue argument(const Func *f, const char *role, const char *name) {
  for (int i = 0; i < f->nargs; i++)
    if (!strcmp(f->arg[i].name, name) && !strcmp(f->arg[i].role, role)) return mlirBlockGetArgument(blu_func_block(f->func), i);
  return (MlirValue){0};
}

/* Where result i of f has to be, and the argument that is there before; false: anywhere. */
static bool target_of(const Func *f, int i, int64_t *offset, MlirValue *old) {
  BluScan s;
  MlirBlock block = blu_func_block(f->func);
  if (!mlirOperationIsNull(f->scan)) {
    blu_scan_of(f->scan, &s);
    *old = i < s.carries ? mlirBlockGetArgument(block, i) : (MlirValue){0};
    *offset = BLU_PLACE_OUTSIDE - (i < s.carries ? i : s.carries + s.sequences + s.fixed + i);
    return true;
  }
  BluPort p = f->result[i];
  const Kept *k = role_is_kept(p.role) ? find_kept(f->plan, p.role, p.name) : NULL;
  if (!k) return false;
  *old = argument(f, p.role, p.name);
  *offset = k->offset;
  return true;
}

/* Moves the reshapes behind which v is an argument to the front of the block; returns the op that follows them. */
static MlirOperation to_front(MlirBlock block, MlirValue v) {
  MlirOperation d = blu_def(v);
  if (mlirOperationIsNull(d)) return mlirBlockGetFirstOperation(block);
  MlirOperation first = to_front(block, mlirOperationGetOperand(d, 0));
  if (!mlirOperationEqual(first, d)) mlirOperationMoveBefore(d, first);
  return mlirOperationGetNextInBlock(d);
}

/* Results that have a place go there: directly, or by a copy at the end. A result that is the old value of another such tensor is
 * first copied aside, so that no new value is written over it before: a swap works. */
static void place_results(Func *f) {
  MlirBlock block = blu_func_block(f->func);
  MlirOperation end = mlirBlockGetTerminator(block);
  int n = blu_func_nresults(f->func);
  for (int aside = 1; aside >= 0; aside--)
    for (int i = 0; i < n; i++) {
      MlirValue v = blu_root(mlirOperationGetOperand(end, i)), old;
      int64_t offset;
      if (!target_of(f, i, &offset, &old) || (!mlirValueIsNull(old) && mlirValueEqual(v, old))) continue;
      if (aside) { /* in a body at its start, where all that it gets is still there, so that a carry can then be changed in place */
        if (!mlirValueIsABlockArgument(v)) continue;
        MlirValue from = mlirOperationGetOperand(end, i);
        MlirOperation before = mlirOperationIsNull(f->scan) ? end : to_front(block, from);
        mlirOperationSetOperand(end, i, insert_copy(f, from, before));
        continue;
      }
      if (!may_replace(f, v, old)) {
        v = append_copy(f, mlirOperationGetOperand(end, i));
        mlirOperationSetOperand(end, i, v);
      }
      set_place(f, v, offset);
    }
}

static int64_t plan_function(Plan *p, MlirOperation func, MlirOperation scan, bool in_map);

/* The bytes that one run of the body of `scan` needs. */
static int64_t plan_body(Plan *p, MlirOperation scan, bool in_map) {
  MlirOperation body = blu_scan_body(scan);
  if (blu_get_int(body, "blu.bytes", -1) >= 0) p->good = blu_error(mlirOperationGetLocation(scan), "another scan has this body");
  return plan_function(p, body, scan, in_map);
}

static void place_arguments(Func *f) {
  MlirBlock block = blu_func_block(f->func);
  for (int i = 0; i < f->nargs; i++) {
    BluPort port = f->arg[i];
    if (!mlirOperationIsNull(f->scan)) set_place(f, mlirBlockGetArgument(block, i), BLU_PLACE_OUTSIDE - i);
    else if (role_is_kept(port.role)) set_place(f, mlirBlockGetArgument(block, i), find_kept(f->plan, port.role, port.name)->offset);
  }
}

/* The range of an operand that ends with this launch and that its result v may be written over; NULL: none. */
static Range *range_to_take(const Func *f, int launch, MlirValue v) {
  MlirOperation call = f->call[launch];
  BluType t = blu_value_type(v);
  if (!blu_is_call(call) || is_host_launch(f, launch)) return NULL;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(call); i++) {
    MlirValue old = blu_root(mlirOperationGetOperand(call, i));
    int number = (int)(intptr_t)blu_map_get(&f->range_of, old.ptr);
    BluType was = blu_value_type(old);
    if (!number || bytes_of(&was) != bytes_of(&t) || f->range[number - 1].to != launch || last_use(f, old, no_use) != launch) continue;
    if (may_write_over(f, call, old)) return &f->range[number - 1];
  }
  return NULL;
}

static void add_result(Func *f, int launch, MlirValue v) {
  Range *r = range_to_take(f, launch, v);
  int to = last_use(f, v, no_use);
  if (!r || to <= launch) {
    add_range(f, v, launch);
    return;
  }
  r->to = to;
  blu_map_set(&f->range_of, v.ptr, (void *)(intptr_t)(r - f->range + 1));
}

/* Ranges of what has no place yet: arguments, results of launches, frames. */
static void list_ranges(Func *f) {
  MlirBlock block = blu_func_block(f->func);
  for (int i = 0; i < blu_func_nargs(f->func); i++)
    if (!blu_map_get(&f->place, mlirBlockGetArgument(block, i).ptr)) add_range(f, mlirBlockGetArgument(block, i), 0);
  for (int i = 0; i < f->ncalls; i++) {
    BluScan s = {0};
    bool loop = blu_scan_of(f->call[i], &s);
    for (intptr_t k = loop ? s.carries : 0; k < mlirOperationGetNumResults(f->call[i]); k++) {
      MlirValue v = mlirOperationGetResult(f->call[i], k);
      if (blu_map_get(&f->place, v.ptr)) continue;
      if (is_host_launch(f, i)) add_range(f, v, 0);
      else add_result(f, i, v);
    }
    if (!loop) continue;
    bool map = blu_scan_is_map(&s) && !f->in_map && !blu_targets_device(f->plan->module); /* a device has no threads with frames */
    int64_t frame = plan_body(f->plan, f->call[i], f->in_map || map);
    if (!map) add_bytes(f, (MlirValue){0}, frame, i, i);
    else if (frame > f->plan->frame) f->plan->frame = frame;
  }
}

static int64_t frame_of(const Func *f, int launch) {
  for (int i = 0; i < f->nranges; i++)
    if (mlirValueIsNull(f->range[i].value) && f->range[i].from == launch) return f->range[i].offset;
  return BLU_PLACE_OF_THREAD;
}

static void write_places(const Func *f) {
  MlirBlock block = blu_func_block(f->func);
  MlirOperation end = mlirBlockGetTerminator(block);
  int nargs = blu_func_nargs(f->func), nresults = blu_func_nresults(f->func);
  int64_t *places = blu_alloc(((size_t)nargs + (size_t)nresults + 1) * sizeof *places);
  for (int i = 0; i < nargs; i++) places[i] = place_of(f, mlirBlockGetArgument(block, i));
  blu_set_ints(f->func, "blu.args", nargs, places);
  for (int i = 0; i < nresults; i++) places[i] = place_of(f, mlirOperationGetOperand(end, i));
  blu_set_ints(f->func, "blu.results", nresults, places);
  free(places);
  for (int i = 0; i < f->ncalls; i++) {
    MlirOperation o = f->call[i];
    int nin = (int)mlirOperationGetNumOperands(o), n = nin + (int)mlirOperationGetNumResults(o);
    places = blu_alloc((size_t)(n + 1) * sizeof *places);
    for (int k = 0; k < n; k++) places[k] = place_of(f, k < nin ? mlirOperationGetOperand(o, k) : mlirOperationGetResult(o, k - nin));
    if (!blu_is_call(o)) places[n++] = frame_of(f, i);
    blu_set_ints(o, "blu.places", n, places);
    free(places);
  }
}

/* `scan`: whose body func is; null: a function of its own. Returns the end of its part of the arena, or of its frame. */
static int64_t plan_function(Plan *p, MlirOperation func, MlirOperation scan, bool in_map) {
  Func f = {.plan = p, .func = func, .scan = scan, .in_map = in_map};
  int64_t base = mlirOperationIsNull(scan) ? p->kept_bytes : 0;
  f.nargs = blu_func_nargs(func), f.nresults = blu_func_nresults(func);
  f.arg = blu_alloc((size_t)(f.nargs + f.nresults + 1) * sizeof *f.arg);
  f.result = f.arg + f.nargs;
  for (int i = 0; i < f.nargs; i++) f.arg[i] = blu_func_arg(func, i);
  for (int i = 0; i < f.nresults; i++) f.result[i] = blu_func_result(func, i);
  list_calls(&f);
  place_arguments(&f);
  own_carries(&f);
  place_results(&f);
  list_ranges(&f);
  int64_t top = place_ranges(&f, base);
  check_ranges(&f);
  write_places(&f);
  bool changes = false; /* a function that keeps nothing has nothing to commit */
  for (int i = 0; i < f.nresults; i++) changes |= role_is_kept(f.result[i].role);
  if (mlirOperationIsNull(scan)) blu_set_int(func, "blu.commit", changes ? f.commit : f.ncalls);
  blu_set_int(func, "blu.bytes", top - base);
  free(f.call), free(f.range), free(f.arg);
  blu_map_free(&f.index), blu_map_free(&f.place), blu_map_free(&f.range_of);
  return top;
}

bool blu_pass_plan(MlirModule m) {
  int n;
  MlirOperation *funcs = blu_module_funcs(m, &n);
  Plan p = {.module = m, .good = true};
  keep_all(&p, funcs, n);
  int64_t arena = p.kept_bytes;
  for (int i = 0; i < n; i++) {
    if (blu_is_kernel(funcs[i]) || blu_is_body(funcs[i])) continue;
    int64_t top = plan_function(&p, funcs[i], (MlirOperation){0}, false);
    if (top > arena) arena = top;
  }
  blu_set_int(mlirModuleGetOperation(m), "blu.kept", p.kept_bytes);
  blu_set_int(mlirModuleGetOperation(m), "blu.arena", arena);
  if (p.frame) blu_set_int(mlirModuleGetOperation(m), "blu.frame", p.frame);
  free(p.kept);
  blu_map_free(&p.found);
  free(funcs);
  return p.good;
}
