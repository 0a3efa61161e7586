/* step.c - one function per train step: forward and gradient, squared norms of all gradients, a guard, clipping and the
 * optimizer. What stands before the guard changes nothing; the runtime looks at loss and norms there (docs/ir.md). Where a step may be
 * of several micro-batches, two functions: @train for one of them, @update for the rest. */
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"
#include "passes_internal.h"
#include "dialects/memory.h"

/* A growing list of ports with one value each. */
typedef struct { BluPort *port; MlirValue *value; int n, cap; } Ports;

static int port_find(const Ports *p, const char *role, const char *name) {
  for (int i = 0; i < p->n; i++)
    if (!strcmp(p->port[i].role, role) && !strcmp(p->port[i].name, name)) return i;
  return -1;
}

static void port_add(Ports *p, BluPort port, MlirValue value) {
  if (p->n == p->cap) {
    p->cap = p->cap ? 2 * p->cap : 16;
    p->port = blu_realloc(p->port, (size_t)p->cap * sizeof *p->port);
    p->value = blu_realloc(p->value, (size_t)p->cap * sizeof *p->value);
  }
  p->port[p->n] = port;
  p->value[p->n++] = value;
}

static void free_ports(Ports *p) { free(p->port), free(p->value); }

/* Arguments of f that are not in the list yet join it; gradients are made inside of the step. */
static void collect_args(Ports *args, MlirOperation f) {
  for (int i = 0; !mlirOperationIsNull(f) && i < blu_func_nargs(f); i++) {
    BluPort p = blu_func_arg(f, i);
    if (strcmp(p.role, "grad") && port_find(args, p.role, p.name) < 0) port_add(args, p, (MlirValue){0});
  }
}

/* Clones f's body; its arguments become the values of the same role and name. Results, in order, to out[]. */
static void inline_func(BluBuilder *b, MlirOperation f, const Ports *args, const Ports *grads, MlirValue *out) {
  BluMap map = {0};
  MlirBlock block = blu_func_block(f);
  for (int i = 0; i < blu_func_nargs(f); i++) {
    BluPort p = blu_func_arg(f, i);
    const Ports *from = strcmp(p.role, "grad") ? args : grads;
    int k = port_find(from, p.role, p.name);
    if (k >= 0) blu_map_set(&map, mlirBlockGetArgument(block, i).ptr, (void *)from->value[k].ptr);
  }
  blu_clone_into(b, block, &map);
  MlirOperation end = mlirBlockGetTerminator(block);
  for (int i = 0; i < blu_func_nresults(f); i++) {
    MlirValue v = mlirOperationGetOperand(end, i);
    void *to = blu_map_get(&map, v.ptr);
    out[i] = to ? (MlirValue){to} : v;
  }
  blu_map_free(&map);
}

static MlirValue sum_of_squares(BluBuilder *b, MlirValue g) {
  BluAttrs all = {0};
  MlirValue square = blu_build2(b, "mul", g, g);
  return blu_value_type(g).rank ? blu_build(b, "sum", &all, 1, &square) : square;
}

/* min(1, clip / norm) */
static MlirValue clip_factor(BluBuilder *b, MlirOperation f, const Ports *args, MlirValue norm) {
  MlirValue limit;
  inline_func(b, f, args, NULL, &limit);
  limit = blu_cast_to(b, limit, BLU_F32);
  return blu_build(b, "where", NULL, 3, (MlirValue[]){blu_build2(b, "gt", norm, limit), blu_build2(b, "div", limit, norm),
                                                      blu_constant_like(b, norm, 1)});
}

static void scale_gradients(BluBuilder *b, Ports *grads, MlirValue factor) {
  for (int i = 0; i < grads->n; i++) {
    BluType t = blu_value_type(grads->value[i]);
    grads->value[i] = blu_build2(b, "mul", grads->value[i], blu_broadcast_to(b, blu_cast_to(b, factor, t.elem), &t));
  }
}

static bool is_updated(MlirOperation update, const char *param) {
  for (int i = 0; i < blu_func_nresults(update); i++) {
    BluPort p = blu_func_result(update, i);
    if (!strcmp(p.role, "param") && !strcmp(p.name, param)) return true;
  }
  return false;
}

/* Clones @train: its results, gradients, and the new values of the model's own state. */
static void inline_train(BluBuilder *b, MlirOperation train, MlirOperation update, const Ports *args, Ports *results, Ports *grads, Ports *states) {
  int n = blu_func_nresults(train);
  MlirValue *out = blu_alloc((size_t)(n + 1) * sizeof *out);
  inline_func(b, train, args, NULL, out);
  for (int i = 0; i < n; i++) {
    BluPort p = blu_func_result(train, i);
    if (strcmp(p.role, "grad")) port_add(strcmp(p.role, "state") ? results : states, p, out[i]);
    else if (is_updated(update, p.name)) port_add(grads, p, out[i]); /* a frozen parameter's gradient is nobody's */
  }
  free(out);
}

/* Squares of each gradient times `scale` (null: 1) squared, and the norm of all, which is returned (null: no gradients). */
static MlirValue add_norms(BluBuilder *b, const Ports *grads, MlirValue scale, Ports *results) {
  MlirValue norm = {0}, scale2 = mlirValueIsNull(scale) ? scale : blu_build2(b, "mul", scale, scale);
  MlirLocation loc = b->loc;
  for (int i = 0; i < grads->n; i++) {
    if (!mlirOperationIsNull(blu_def(grads->value[i]))) b->loc = mlirOperationGetLocation(blu_def(grads->value[i]));
    MlirValue square = blu_cast_to(b, sum_of_squares(b, grads->value[i]), BLU_F32);
    if (!mlirValueIsNull(scale)) square = blu_build2(b, "mul", square, scale2);
    port_add(results, (BluPort){.role = "squares", .name = grads->port[i].name, .type = blu_value_type(square)}, square);
    norm = i ? blu_build2(b, "add", norm, square) : square;
  }
  b->loc = loc;
  if (!grads->n) return norm;
  norm = blu_build1(b, "sqrt", norm);
  port_add(results, (BluPort){.role = "norm", .name = "norm", .type = blu_value_type(norm)}, norm);
  return norm;
}

static void inline_update(BluBuilder *b, MlirOperation update, const Ports *args, const Ports *grads, Ports *results) {
  int n = blu_func_nresults(update);
  MlirValue *out = blu_alloc((size_t)(n + 1) * sizeof *out);
  inline_func(b, update, args, grads, out);
  for (int i = 0; i < n; i++) port_add(results, blu_func_result(update, i), out[i]);
  free(out);
}

/* A function with these arguments, whose values are filled in. */
static MlirOperation start(MlirModule m, MlirLocation loc, const char *name, Ports *args, BluBuilder *b) {
  MlirBlock block;
  MlirOperation f = blu_func_make(m, loc, name, args->n, args->port, &block);
  *b = (BluBuilder){mlirModuleGetContext(m), loc, block, {0}};
  for (int i = 0; i < args->n; i++) args->value[i] = mlirBlockGetArgument(block, i);
  return f;
}

/* 1 / scale in f32, for programs whose gradients are of the loss times `scale`, which becomes a result; null for others. */
static MlirValue unscaled(BluBuilder *b, const Ports *args, Ports *results) {
  int k = port_find(args, "scale", "loss_scale");
  if (k < 0) return (MlirValue){0};
  MlirValue scale = args->value[k];
  port_add(results, (BluPort){.role = "output", .name = "loss_scale", .type = blu_value_type(scale)}, scale);
  return blu_cast_to(b, blu_build2(b, "div", blu_constant_like(b, scale, 1), scale), BLU_F32);
}

/* a * b, where null is 1 */
static MlirValue times(BluBuilder *b, MlirValue x, MlirValue y) {
  return mlirValueIsNull(x) ? y : mlirValueIsNull(y) ? x : blu_build2(b, "mul", x, y);
}

static void make_step(MlirModule m, MlirOperation train, MlirOperation update, MlirOperation clip_func) {
  MlirLocation loc = mlirOperationGetLocation(train);
  Ports args = {0}, grads = {0}, results = {0}, states = {0};
  collect_args(&args, train);
  collect_args(&args, update);
  collect_args(&args, clip_func);
  BluBuilder b;
  MlirOperation step = start(m, loc, "train", &args, &b);
  inline_train(&b, train, update, &args, &results, &grads, &states);
  MlirValue factor = unscaled(&b, &args, &results), norm = add_norms(&b, &grads, factor, &results);
  blu_build(&b, "guard", NULL, results.n, results.value);
  for (int i = 0; i < states.n; i++) port_add(&results, states.port[i], states.value[i]); /* the model's own, such as running means */
  if (grads.n && !mlirOperationIsNull(clip_func)) factor = times(&b, factor, clip_factor(&b, clip_func, &args, norm));
  if (!mlirValueIsNull(factor)) scale_gradients(&b, &grads, factor);
  inline_update(&b, update, &args, &grads, &results);
  blu_func_return(step, loc, results.n, results.value, results.port);
  free_ports(&args), free_ports(&grads), free_ports(&results), free_ports(&states);
}

/* ---- steps of several micro-batches ---- */

/* A port for the sum of the gradients of each parameter that is updated. */
static void add_sums(Ports *to, MlirOperation train, MlirOperation update) {
  for (int i = 0; i < blu_func_nresults(train); i++) {
    BluPort p = blu_func_result(train, i);
    if (strcmp(p.role, "grad") || !is_updated(update, p.name)) continue;
    port_add(to, (BluPort){.role = "gradient", .name = p.name, .type = p.type}, (MlirValue){0});
  }
}

/* A micro-batch: forward pass and gradient, which is added to the sums. */
static void make_micro_batch(MlirModule m, MlirOperation train, MlirOperation update) {
  MlirLocation loc = mlirOperationGetLocation(train);
  Ports args = {0}, grads = {0}, results = {0}, states = {0};
  collect_args(&args, train);
  add_sums(&args, train, update);
  BluBuilder b;
  MlirOperation f = start(m, loc, "train", &args, &b);
  inline_train(&b, train, update, &args, &results, &grads, &states);
  for (int i = 0; i < states.n; i++) port_add(&results, states.port[i], states.value[i]);
  for (int i = 0; i < grads.n; i++) {
    BluPort p = {.role = "gradient", .name = grads.port[i].name, .type = grads.port[i].type};
    b.loc = mlirOperationIsNull(blu_def(grads.value[i])) ? loc : mlirOperationGetLocation(blu_def(grads.value[i]));
    port_add(&results, p, blu_build2(&b, "add", args.value[port_find(&args, p.role, p.name)], grads.value[i]));
  }
  blu_func_return(f, loc, results.n, results.value, results.port);
  free_ports(&args), free_ports(&grads), free_ports(&results), free_ports(&states);
}

/* The update by the sums divided by the total weight. Dividing is a factor on either side of the guard, one of the squares and one that
 * joins clipping, so that no divided gradient is stored: the update reads the sums themselves. */
static void make_update(MlirModule m, MlirOperation train, MlirOperation update, MlirOperation clip_func) {
  MlirLocation loc = mlirOperationGetLocation(update);
  Ports args = {0}, grads = {0}, results = {0};
  collect_args(&args, update);
  collect_args(&args, clip_func);
  add_sums(&args, train, update);
  BluType scalar = blu_type_make(BLU_F64, 0, NULL);
  port_add(&args, (BluPort){.role = "total", .name = "total", .type = scalar}, (MlirValue){0});
  if (blu_scales_loss(m)) port_add(&args, (BluPort){.role = "scale", .name = "loss_scale", .type = scalar}, (MlirValue){0});
  BluBuilder b;
  MlirOperation f = start(m, loc, "update", &args, &b);
  MlirValue total = args.value[port_find(&args, "total", "total")], zero = blu_constant(&b, &scalar, 0), one = blu_constant(&b, &scalar, 1);
  MlirValue scale = blu_build(&b, "where", NULL, 3, (MlirValue[]){blu_build2(&b, "eq", total, zero), zero, blu_build2(&b, "div", one, total)});
  scale = times(&b, blu_cast_to(&b, scale, BLU_F32), unscaled(&b, &args, &results));
  for (int i = 0; i < args.n; i++)
    if (!strcmp(args.port[i].role, "gradient")) port_add(&grads, args.port[i], args.value[i]);
  MlirValue norm = add_norms(&b, &grads, scale, &results);
  blu_build(&b, "guard", NULL, results.n, results.value);
  if (grads.n && !mlirOperationIsNull(clip_func)) scale = blu_build2(&b, "mul", scale, clip_factor(&b, clip_func, &args, norm));
  scale_gradients(&b, &grads, scale);
  for (int i = 0; i < grads.n; i++) grads.port[i].role = "grad"; /* as @update calls them */
  inline_update(&b, update, &args, &grads, &results);
  blu_func_return(f, loc, results.n, results.value, results.port);
  free_ports(&args), free_ports(&grads), free_ports(&results);
}

bool blu_pass_step(MlirModule m) {
  MlirOperation train = blu_func_find(m, "train"), update = blu_func_find(m, "update"), clip_func = blu_func_find(m, "clip");
  if (mlirOperationIsNull(train) || mlirOperationIsNull(update)) return true;
  if (blu_accumulates(m)) {
    make_micro_batch(m, train, update);
    make_update(m, train, update, clip_func);
  } else make_step(m, train, update, clip_func);
  mlirOperationDestroy(train);
  mlirOperationDestroy(update);
  if (!mlirOperationIsNull(clip_func)) mlirOperationDestroy(clip_func);
  return true;
}
