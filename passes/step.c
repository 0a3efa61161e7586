/* step.c - one function per train step: forward and gradient, squared norms of all gradients, a guard, clipping and the
 * optimizer. What stands before the guard changes nothing; the runtime looks at loss and norms there (docs/ir.md). */
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

/* Gradients times min(1, clip / norm). */
static void clip(BluBuilder *b, MlirOperation f, const Ports *args, MlirValue norm, Ports *grads) {
  MlirValue limit;
  inline_func(b, f, args, NULL, &limit);
  limit = blu_cast_to(b, limit, BLU_F32);
  MlirValue scale = blu_build(b, "where", NULL, 3, (MlirValue[]){blu_build2(b, "gt", norm, limit), blu_build2(b, "div", limit, norm),
                                                               blu_constant_like(b, norm, 1)});
  for (int i = 0; i < grads->n; i++) {
    BluType t = blu_value_type(grads->value[i]);
    grads->value[i] = blu_build2(b, "mul", grads->value[i], blu_broadcast_to(b, blu_cast_to(b, scale, t.elem), &t));
  }
}

static bool is_updated(MlirOperation update, const char *param) {
  for (int i = 0; i < blu_func_nresults(update); i++) {
    BluPort p = blu_func_result(update, i);
    if (!strcmp(p.role, "param") && !strcmp(p.name, param)) return true;
  }
  return false;
}

static void make_step(MlirModule m, MlirOperation train, MlirOperation update, MlirOperation clip_func) {
  MlirLocation loc = mlirOperationGetLocation(train);
  Ports args = {0}, grads = {0}, results = {0}, states = {0};
  collect_args(&args, train);
  collect_args(&args, update);
  collect_args(&args, clip_func);

  MlirBlock block;
  MlirOperation step = blu_func_make(m, loc, "train", args.n, args.port, &block);
  BluBuilder b = {mlirModuleGetContext(m), loc, block, {0}};
  for (int i = 0; i < args.n; i++) args.value[i] = mlirBlockGetArgument(block, i);

  int n = blu_func_nresults(train);
  MlirValue *out = blu_alloc((size_t)(n + 1) * sizeof *out);
  inline_func(&b, train, &args, NULL, out);
  for (int i = 0; i < n; i++) {
    BluPort p = blu_func_result(train, i);
    if (strcmp(p.role, "grad")) port_add(strcmp(p.role, "state") ? &results : &states, p, out[i]);
    else if (is_updated(update, p.name)) port_add(&grads, p, out[i]); /* a frozen parameter's gradient is nobody's */
  }
  MlirValue norm = {0};
  for (int i = 0; i < grads.n; i++) {
    if (!mlirOperationIsNull(blu_def(grads.value[i]))) b.loc = mlirOperationGetLocation(blu_def(grads.value[i]));
    MlirValue square = blu_cast_to(&b, sum_of_squares(&b, grads.value[i]), BLU_F32);
    port_add(&results, (BluPort){.role = "squares", .name = grads.port[i].name, .type = blu_value_type(square)}, square);
    norm = i ? blu_build2(&b, "add", norm, square) : square;
  }
  b.loc = loc;
  if (grads.n) {
    norm = blu_build1(&b, "sqrt", norm);
    port_add(&results, (BluPort){.role = "norm", .name = "norm", .type = blu_value_type(norm)}, norm);
  }
  blu_build(&b, "guard", NULL, results.n, results.value);
  for (int i = 0; i < states.n; i++) port_add(&results, states.port[i], states.value[i]); /* the model's own, such as running means */
  if (grads.n && !mlirOperationIsNull(clip_func)) clip(&b, clip_func, &args, norm, &grads);
  n = blu_func_nresults(update);
  out = blu_realloc(out, (size_t)(n + 1) * sizeof *out);
  inline_func(&b, update, &args, &grads, out);
  for (int i = 0; i < n; i++) port_add(&results, blu_func_result(update, i), out[i]);
  blu_func_return(step, loc, results.n, results.value, results.port);
  free(out);
  free_ports(&args), free_ports(&grads), free_ports(&results), free_ports(&states);
}

bool blu_pass_step(MlirModule m) {
  MlirOperation train = blu_func_find(m, "train"), update = blu_func_find(m, "update"), clip_func = blu_func_find(m, "clip");
  if (mlirOperationIsNull(train) || mlirOperationIsNull(update)) return true;
  make_step(m, train, update, clip_func);
  mlirOperationDestroy(train);
  mlirOperationDestroy(update);
  if (!mlirOperationIsNull(clip_func)) mlirOperationDestroy(clip_func);
  return true;
}
