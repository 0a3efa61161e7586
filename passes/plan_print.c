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

static void print_slot(FILE *out, int64_t offset, const BluType *t, const char *name, const char *note) {
  char type[200], at[32] = "outside"; /* of a body's frame */
  int64_t bytes = blu_type_count(t) * blu_elem_bytes(t->elem);
  if (offset >= 0) snprintf(at, sizeof at, "%lld", (long long)offset);
  fprintf(out, "  %12s %12lld  %-28s %-20s %s\n", at, (long long)bytes, name, blu_type_print(t, type, sizeof type), note);
}

/* Results of a launch that have places of their own: those of a scan after its carries. */
static int first_own(MlirOperation launch) {
  BluScan s;
  return blu_scan_of(launch, &s) ? s.carries : 0;
}

typedef struct { int64_t at; int order; MlirOperation func; bool result; int index; } Port; /* order: in which they were found */

static int by_place(const void *x, const void *y) {
  const Port *a = x, *b = y;
  if (a->at != b->at) return a->at < b->at ? -1 : 1;
  return a->order - b->order;
}

/* Parameters, state and scalars in the order of their places: as the functions' ports name them, each once. */
static void print_kept(FILE *out, MlirOperation *funcs, int n, int64_t kept) {
  Port *port = NULL;
  int ports = 0, cap = 0;
  for (int i = 0; i < n; i++) {
    if (blu_is_kernel(funcs[i]) || blu_is_body(funcs[i])) continue;
    for (int pass = 0; pass < 2; pass++)
      for (int k = 0, m = pass ? blu_func_nresults(funcs[i]) : blu_func_nargs(funcs[i]); k < m; k++) {
        if (ports == cap) port = blu_realloc(port, (size_t)(cap = cap ? 2 * cap : 64) * sizeof *port);
        port[ports] = (Port){place(funcs[i], pass ? "blu.results" : "blu.args", k), ports, funcs[i], pass, k};
        ports += port[ports].at >= 0 && port[ports].at < kept;
      }
  }
  if (ports) qsort(port, (size_t)ports, sizeof *port, by_place);
  for (int i = 0; i < ports; i++) {
    if (i && port[i].at == port[i - 1].at) continue;
    BluPort p = port[i].result ? blu_func_result(port[i].func, port[i].index) : blu_func_arg(port[i].func, port[i].index);
    print_slot(out, port[i].at, &p.type, *p.name ? p.name : p.role, p.role);
  }
  free(port);
}

/* Is it a scan whose frame is part of the arena? */
static bool has_frame(MlirOperation launch) {
  int n = (int)(mlirOperationGetNumOperands(launch) + mlirOperationGetNumResults(launch));
  return !blu_is_call(launch) && place(launch, "blu.places", n) != BLU_PLACE_OF_THREAD;
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
static void print_live(FILE *out, MlirOperation f, const BluLaunches *l, int64_t kept) {
  MlirOperation *calls = l->op;
  int n = l->n;
  int64_t *live = blu_alloc_zeroed((size_t)n, sizeof *live), most = 0, planned = blu_get_int(f, "blu.bytes", 0);
  MlirBlock block = blu_func_block(f);
  for (int i = 0; i < blu_func_nargs(f); i++) {
    MlirValue v = mlirBlockGetArgument(block, i);
    add_live(live, n, kept, place(f, "blu.args", i), v, 0, blu_last_reader(l, v));
  }
  for (int i = 0; i < n; i++) {
    for (int k = first_own(calls[i]), nin = (int)mlirOperationGetNumOperands(calls[i]); k < (int)mlirOperationGetNumResults(calls[i]); k++) {
      MlirValue v = mlirOperationGetResult(calls[i], k);
      int last = blu_last_reader(l, v), from = i + blu_plan_in_place(calls[i], k); /* until then its bytes are those of an operand */
      if (last >= from || from == i) add_live(live, n, kept, place(calls[i], "blu.places", nin + k), v, from, last);
    }
    if (has_frame(calls[i])) live[i] += blu_get_int(blu_scan_body(calls[i]), "blu.bytes", 0);
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

static void print_launches(FILE *out, MlirOperation f, int64_t kept) {
  int commit = (int)blu_get_int(f, "blu.commit", 0);
  BluLaunches l = blu_launches_of(f);
  MlirOperation *ops = l.op;
  int calls = l.n;
  for (int i = 0; i < calls; i++) {
    int nin = (int)mlirOperationGetNumOperands(ops[i]);
    BluScan s;
    if (i == commit && commit) fprintf(out, "  -- commit: what follows changes parameters and state --\n");
    if (blu_scan_of(ops[i], &s)) {
      fprintf(out, "  %3d %s, %lld times%s\n", i, s.body, (long long)s.steps, has_frame(ops[i]) ? "" : ", side by side");
    } else {
      MlirAttribute callee = mlirOperationGetAttributeByName(ops[i], mlirStringRefCreateFromCString("callee"));
      fprintf(out, "  %3d %s\n", i, mlirFlatSymbolRefAttrGetValue(callee).data);
    }
    for (int k = first_own(ops[i]); k < (int)mlirOperationGetNumResults(ops[i]); k++) {
      MlirValue v = mlirOperationGetResult(ops[i], k);
      BluType t = blu_value_type(v);
      int last = blu_last_reader(&l, v);
      char note[64];
      snprintf(note, sizeof note, last == calls ? "until the end" : "until %d", last < i ? i : last);
      if (blu_plan_in_place(ops[i], k)) snprintf(note + strlen(note), sizeof note - strlen(note), ", in place");
      print_slot(out, place(ops[i], "blu.places", nin + k), &t, "", note);
    }
  }
  if (calls) print_live(out, f, &l, kept);
  for (int i = 0; i < calls; i++) {
    if (blu_is_call(ops[i])) continue;
    MlirOperation body = blu_scan_body(ops[i]);
    fprintf(out, "\nbody %s: %lld bytes, from the start of its frame\n", blu_func_name(body), (long long)blu_get_int(body, "blu.bytes", 0));
    print_launches(out, body, 0);
  }
  blu_launches_free(&l);
}

static int count_launches(MlirOperation f) {
  BluLaunches l = blu_launches_of(f);
  blu_launches_free(&l);
  return l.n;
}

static void print_function(FILE *out, MlirOperation f, int64_t kept) {
  fprintf(out, "\nfunction %s: %d launches, %lld bytes\n", blu_func_name(f), count_launches(f), (long long)blu_get_int(f, "blu.bytes", 0));
  for (int i = 0; i < blu_func_nargs(f); i++) {
    BluPort p = blu_func_arg(f, i);
    if (!strcmp(p.role, "data") || !strcmp(p.role, "input")) print_slot(out, place(f, "blu.args", i), &p.type, p.name, p.role);
  }
  print_launches(out, f, kept);
}

char *blu_plan_print(MlirModule m) {
  char *text = NULL;
  size_t size;
  int n;
  FILE *out = open_memstream(&text, &size);
  MlirOperation *funcs = blu_module_funcs(m, &n), module = mlirModuleGetOperation(m);
  int64_t kept = blu_get_int(module, "blu.kept", 0), arena = blu_get_int(module, "blu.arena", 0);
  fprintf(out, "arena: %lld bytes, %lld kept between runs, %lld shared by the functions\n", (long long)arena, (long long)kept,
          (long long)(arena - kept));
  int64_t frame = blu_get_int(module, "blu.frame", 0);
  if (frame) fprintf(out, "frame: %lld bytes for each thread, for what runs side by side\n", (long long)frame);
  fputc('\n', out);
  fprintf(out, "  %12s %12s  %-28s %-20s %s\n", "offset", "bytes", "kept", "type", "role");
  print_kept(out, funcs, n, kept);
  for (int i = 0; i < n; i++)
    if (!blu_is_kernel(funcs[i]) && !blu_is_body(funcs[i])) print_function(out, funcs[i], kept);
  free(funcs);
  fclose(out);
  return text;
}
