/* program.h - shared by the tests of what programs mean: a compiled program, and functions of it run by the interpreter of
 * the blu dialect. */
#ifndef BLU_TESTS_FRONTEND_PROGRAM_H
#define BLU_TESTS_FRONTEND_PROGRAM_H
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/blu.h"
#include "frontend/frontend.h"

typedef struct { const char *role, *name; const double *value; } Input;
typedef struct { MlirContext ctx; MlirModule m; } Program;

static int failures;

static Program compile(const char *path) {
  Program p = {.ctx = mlirContextCreateWithThreading(false)};
  blu_context_load(p.ctx);
  BluFrontendOptions o = {.path = path};
  BluDiags *ds = blu_diags_make();
  p.m = blu_frontend_build(p.ctx, &o, ds);
  blu_diags_print(ds, stderr);
  blu_diags_free(ds);
  if (mlirModuleIsNull(p.m)) {
    printf("FAIL %s does not compile\n", path);
    exit(1);
  }
  return p;
}

static void drop(Program p) {
  mlirModuleDestroy(p.m);
  mlirContextDestroy(p.ctx);
}

/* Copies the result with this role and name to out (count elements). */
static void run(Program p, const char *func, int nin, const Input *in, const char *role, const char *name,
                int64_t count, double *out) {
  MlirOperation f = blu_func_find(p.m, func);
  enum { MOST = 64 };
  const double *args[MOST];
  double *results[MOST] = {0};
  bool found = false;
  int nargs = blu_func_nargs(f), nresults = blu_func_nresults(f);
  for (int i = 0; i < nargs; i++) {
    BluPort port = blu_func_arg(f, i);
    args[i] = NULL;
    for (int k = 0; k < nin; k++)
      if (!strcmp(port.role, in[k].role) && !strcmp(port.name, in[k].name)) args[i] = in[k].value;
    if (!args[i]) {
      printf("FAIL @%s: the test has no %s %s\n", func, port.role, port.name);
      exit(1);
    }
  }
  BluWhy why = {0};
  if (!blu_interp_run(p.m, f, args, results, &why)) {
    printf("FAIL @%s: %s\n", func, why.text);
    exit(1);
  }
  for (int i = 0; i < nresults; i++) {
    BluPort port = blu_func_result(f, i);
    if (!strcmp(port.role, role) && !strcmp(port.name, name) && blu_type_count(&port.type) == count) {
      memcpy(out, results[i], (size_t)count * sizeof *out);
      found = true;
    }
    free(results[i]);
  }
  if (!found) {
    printf("FAIL @%s has no %s %s of %lld elements\n", func, role, name, (long long)count);
    exit(1);
  }
}

static void expect(const char *what, double got, double want, double tolerance) {
  if (!(fabs(got - want) <= tolerance * fmax(1, fabs(want)))) {
    printf("FAIL %s: %.9g, expected %.9g\n", what, got, want);
    failures++;
  }
}

#endif
