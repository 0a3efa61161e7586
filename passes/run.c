/* run.c - `blu-opt --run=FUNC`: a function of the module by the interpreter, in double. */
#include <stdlib.h>
#include <string.h>
#include "dialects/memory.h"
#include "passes/passes.h"
#include "values.h"

/* Which argument "NAME" or "INDEX" means; -1: why says that none does, or more than one. */
static int find_argument(MlirOperation f, const char *key, size_t length, BluWhy *why) {
  int n = blu_func_nargs(f), found = -1;
  char *end;
  long index = strtol(key, &end, 10);
  if (length && end == key + length && index >= 0 && index < n) return (int)index;
  for (int i = 0; i < n; i++) {
    BluPort p = blu_func_arg(f, i);
    if (strlen(p.name) != length || strncmp(p.name, key, length)) continue;
    if (found >= 0) return blu_values_refuse(why, "arguments %d and %d are called '%s': give a number", found, i, p.name), -1;
    found = i;
  }
  if (found < 0) blu_values_refuse(why, "no argument '%.*s'; there are %d, counted from 0", (int)length, key, n);
  return found;
}

static bool set_inputs(const BluRunOptions *o, MlirOperation f, double **args, BluWhy *why) {
  for (int i = 0; i < o->ninputs; i++) {
    size_t length = strcspn(o->inputs[i], "=");
    int k = find_argument(f, o->inputs[i], length, why);
    if (k < 0) return false;
    BluType t = blu_func_arg(f, k).type;
    BluWhy what;
    if (!blu_values_parse(o->inputs[i] + length + 1, &t, args[k], &what))
      return blu_values_refuse(why, "argument %.*s: %s", (int)length, o->inputs[i], what.text);
  }
  return true;
}

static void print_results(const BluRunOptions *o, MlirOperation f, double *const *results, FILE *out) {
  for (int i = 0; i < blu_func_nresults(f); i++) {
    BluPort p = blu_func_result(f, i);
    if (*p.name) fprintf(out, "%s%s%s: ", p.role, *p.role ? " " : "", p.name);
    else fprintf(out, "result %d: ", i);
    blu_values_print(out, &p.type, results[i], o->full);
  }
}

bool blu_run(MlirModule m, const BluRunOptions *o, FILE *out, BluWhy *why) {
  MlirOperation f = blu_func_find(m, o->func);
  if (mlirOperationIsNull(f)) return blu_values_refuse(why, "no function is called @%s", o->func);
  if (mlirBlockIsNull(blu_func_block(f))) return blu_values_refuse(why, "@%s has no body", o->func);
  int nargs = blu_func_nargs(f), nresults = blu_func_nresults(f);
  for (int i = 0; i < nargs; i++) {
    BluType t;
    if (!blu_type_from_mlir(mlirValueGetType(mlirBlockGetArgument(blu_func_block(f), i)), &t))
      return blu_values_refuse(why, "argument %d of @%s is no tensor", i, o->func);
  }
  double **args = blu_alloc_zeroed((size_t)nargs + 1, sizeof *args), **results = blu_alloc_zeroed((size_t)nresults + 1, sizeof *results);
  for (int i = 0; i < nargs; i++) {
    BluPort p = blu_func_arg(f, i);
    char index[16];
    snprintf(index, sizeof index, "%d", i);
    args[i] = blu_alloc(((size_t)blu_type_count(&p.type) + 1) * sizeof(double));
    blu_values_draw(f, i, blu_values_mix(o->seed, index), args[i]);
  }
  bool good = set_inputs(o, f, args, why) && blu_interp_run(m, f, (const double *const *)args, results, why);
  if (good) print_results(o, f, results, out);
  for (int i = 0; i < nargs; i++) free(args[i]);
  for (int i = 0; i < nresults; i++) free(results[i]);
  free(args), free(results);
  return good;
}
