/* fuzz.c - a libFuzzer target from the lexer to elaboration: any bytes give a module that verifies, or diagnostics, and
 * never a signal. What parses is formatted too, and the formatter checks its own work. Built with -DBLU_FUZZ=ON, by clang:
 * run.sh runs it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/blu.h"
#include "frontend/frontend.h"

enum { RUNS_PER_CONTEXT = 300 }; /* a context keeps every type and attribute that it has seen */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void swallow(MlirStringRef s, void *out) { (void)s, (void)out; }

static void must_print(BluDiags *ds, BluDiagStyle style) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  blu_diags_print_as(ds, out, style);
  fclose(out);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static MlirContext ctx;
  static int runs;
  if (runs++ % RUNS_PER_CONTEXT == 0) {
    if (!mlirContextIsNull(ctx)) mlirContextDestroy(ctx);
    ctx = mlirContextCreateWithThreading(false);
    blu_context_load(ctx);
  }
  BluFrontendOptions o = {.path = "fuzz.blu", .text = (const char *)data, .size = size, .holes = true};
  BluDiags *ds = blu_diags_make();
  MlirModule m = blu_frontend_build(ctx, &o, ds);
  if (mlirModuleIsNull(m)) {
    if (!blu_diags_errors(ds)) abort();
  } else {
    if (!mlirOperationVerify(mlirModuleGetOperation(m))) abort();
    mlirOperationPrint(mlirModuleGetOperation(m), swallow, NULL);
    mlirModuleDestroy(m);
  }
  must_print(ds, runs % 2 ? BLU_DIAGS_COLOURS : BLU_DIAGS_JSON);
  blu_diags_free(ds);

  bool changed;
  ds = blu_diags_make();
  if (!blu_frontend_format(&o, ds, &changed) && !blu_diags_errors(ds)) abort();
  if (blu_diags_find(ds, BLU_E_FORMAT)) abort();
  blu_diags_free(ds);
  return 0;
}
