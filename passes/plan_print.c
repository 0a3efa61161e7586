/* plan_print.c - the memory plan as text: what is kept, then per function the launches with what they write, where, and how
 * long it lives, and the bytes that live at each launch. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "passes_internal.h"
#include "dialects/memory.h"

static int64_t place(MlirOperation op, const char *list, int i) {
  return mlirDenseI64ArrayGetElement(mlirOperationGetAttributeByName(op, mlirStringRefCreateFromCString(list)), i);
}

static bool is_call(MlirOperation op) {
  return mlirStringRefEqual(mlirIdentifierStr(mlirOperationGetName(op)), mlirStringRefCreateFromCString("func.call"));
}

static void print_slot(FILE *out, int64_t offset, const BluType *t, const char *name, const char *note) {
  char type[200];
  int64_t bytes = blu_type_count(t) * blu_elem_bytes(t->elem);
  fprintf(out, "  %12lld %12lld  %-28s %-20s %s\n", (long long)offset, (long long)bytes, name, blu_type_print(t, type, sizeof type), note);
}

/* Parameters, state and scalars: as the functions' ports name them, each once. */
static void print_kept(FILE *out, MlirOperation *funcs, int n, int64_t kept) {
  int64_t next = 0; /* in the order of their places */
  while (next < kept) {
    BluPort best = {0};
    int64_t at = kept;
    for (int i = 0; i < n; i++) {
      if (*blu_get_string(funcs[i], "blu.kernel")) continue;
      for (int pass = 0; pass < 2; pass++)
        for (int k = 0, m = pass ? blu_func_nresults(funcs[i]) : blu_func_nargs(funcs[i]); k < m; k++) {
          int64_t o = place(funcs[i], pass ? "blu.results" : "blu.args", k);
          if (o < next || o >= at) continue;
          at = o;
          best = pass ? blu_func_result(funcs[i], k) : blu_func_arg(funcs[i], k);
        }
    }
    if (at == kept) break;
    print_slot(out, at, &best.type, *best.name ? best.name : best.role, best.role);
    next = at + 1;
  }
}

static int last_reader(MlirOperation *calls, int n, MlirValue v) {
  int last = -1;
  for (MlirOpOperand u = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(u); u = mlirOpOperandGetNextUse(u)) {
    MlirOperation user = mlirOpOperandGetOwner(u);
    int at = n;
    if (blu_is(user, "guard")) continue;
    if (blu_is(user, "reshape")) at = last_reader(calls, n, mlirOperationGetResult(user, 0));
    for (int i = 0; is_call(user) && i < n; i++)
      if (mlirOperationEqual(calls[i], user)) at = i;
    if (at > last) last = at;
  }
  return last;
}

/* Adds v's bytes to the launches during which it lives, if it lies in the part that functions share. */
static void add_live(int64_t *live, int launches, int64_t kept, int64_t offset, MlirValue v, int from, int last) {
  enum { ALIGN = 64 };
  BluType t = blu_value_type(v);
  int64_t bytes = (blu_type_count(&t) * blu_elem_bytes(t.elem) + ALIGN - 1) / ALIGN * ALIGN;
  if (offset < kept) return;
  if (last < from) last = from;
  for (int i = from; i <= last && i < launches; i++) live[i] += bytes;
}

/* Bytes that live during each launch, as bars; and how near the plan comes to the largest of them. */
static void print_live(FILE *out, MlirOperation f, MlirOperation *calls, int n, int64_t kept) {
  int64_t *live = blu_alloc_zeroed((size_t)n, sizeof *live), most = 0, planned = blu_get_int(f, "blu.bytes", 0);
  MlirBlock block = blu_func_block(f);
  for (int i = 0; i < blu_func_nargs(f); i++) {
    MlirValue v = mlirBlockGetArgument(block, i);
    add_live(live, n, kept, place(f, "blu.args", i), v, 0, last_reader(calls, n, v));
  }
  for (int i = 0; i < n; i++)
    for (int k = 0, nin = (int)mlirOperationGetNumOperands(calls[i]); k < (int)mlirOperationGetNumResults(calls[i]); k++) {
      MlirValue v = mlirOperationGetResult(calls[i], k);
      add_live(live, n, kept, place(calls[i], "blu.places", nin + k), v, i, last_reader(calls, n, v));
    }
  for (int i = 0; i < n; i++)
    if (live[i] > most) most = live[i];
  fprintf(out, "  largest live set %lld bytes, planned %lld", (long long)most, (long long)planned);
  if (most) fprintf(out, " (+%.1f%%)", 100 * (double)(planned - most) / (double)most);
  fputc('\n', out);
  for (int i = 0; i < n && most; i++) fprintf(out, "  %3d %12lld |%.*s\n", i, (long long)live[i], (int)(48 * live[i] / most),
                                              "################################################");
  free(live);
}

static void print_function(FILE *out, MlirOperation f, int64_t kept) {
  int n, calls = 0, commit = (int)blu_get_int(f, "blu.commit", 0);
  MlirOperation *ops = blu_block_ops(blu_func_block(f), &n);
  for (int i = 0; i < n; i++)
    if (is_call(ops[i])) ops[calls++] = ops[i];
  fprintf(out, "\nfunction %s: %d launches, %lld bytes\n", blu_func_name(f), calls, (long long)blu_get_int(f, "blu.bytes", 0));
  for (int i = 0; i < blu_func_nargs(f); i++) {
    BluPort p = blu_func_arg(f, i);
    if (!strcmp(p.role, "data") || !strcmp(p.role, "input")) print_slot(out, place(f, "blu.args", i), &p.type, p.name, p.role);
  }
  for (int i = 0; i < calls; i++) {
    MlirAttribute callee = mlirOperationGetAttributeByName(ops[i], mlirStringRefCreateFromCString("callee"));
    int nin = (int)mlirOperationGetNumOperands(ops[i]);
    if (i == commit && commit) fprintf(out, "  -- commit: what follows changes parameters and state --\n");
    fprintf(out, "  %3d %s\n", i, mlirFlatSymbolRefAttrGetValue(callee).data);
    for (int k = 0; k < (int)mlirOperationGetNumResults(ops[i]); k++) {
      MlirValue v = mlirOperationGetResult(ops[i], k);
      BluType t = blu_value_type(v);
      int last = last_reader(ops, calls, v);
      char note[64];
      snprintf(note, sizeof note, last == calls ? "until the end" : "until %d", last < i ? i : last);
      print_slot(out, place(ops[i], "blu.places", nin + k), &t, "", note);
    }
  }
  if (calls) print_live(out, f, ops, calls, kept);
  free(ops);
}

char *blu_plan_print(MlirModule m) {
  char *text = NULL;
  size_t size;
  int n;
  FILE *out = open_memstream(&text, &size);
  MlirOperation *funcs = blu_module_funcs(m, &n), module = mlirModuleGetOperation(m);
  int64_t kept = blu_get_int(module, "blu.kept", 0), arena = blu_get_int(module, "blu.arena", 0);
  fprintf(out, "arena: %lld bytes, %lld kept between runs, %lld shared by the functions\n\n", (long long)arena, (long long)kept,
          (long long)(arena - kept));
  fprintf(out, "  %12s %12s  %-28s %-20s %s\n", "offset", "bytes", "kept", "type", "role");
  print_kept(out, funcs, n, kept);
  for (int i = 0; i < n; i++)
    if (!*blu_get_string(funcs[i], "blu.kernel")) print_function(out, funcs[i], kept);
  free(funcs);
  fclose(out);
  return text;
}
