/* blu_front.c - the front end alone, for tests: blu-front [--emit=ast|blu] [--locations] [--holes] [-D NAME=VALUE] FILE
 * Prints the tree or the module to stdout, diagnostics to stderr. Exit status 1 after errors, 2 for a wrong command
 * line.
 * --fail-at=OP reports each op of that name through blu_frontend_error_at, as a later stage would. */
#include <stdio.h>
#include <string.h>
#include "dialects/blu.h"
#include "frontend/frontend.h"

static void write_text(MlirStringRef s, void *out) { fwrite(s.data, 1, s.length, out); }

typedef struct { BluDiags *ds; const char *op; } Fail;

static MlirWalkResult fail_at(MlirOperation op, void *data) {
  Fail *f = data;
  MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(op));
  if (strlen(f->op) == name.length && !memcmp(f->op, name.data, name.length))
    blu_frontend_error_at(f->ds, mlirOperationGetLocation(op), "this operation is refused for a test");
  return MlirWalkResultAdvance;
}

static void print_module(MlirModule m, bool locations) {
  MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
  if (locations) mlirOpPrintingFlagsEnableDebugInfo(flags, true, false);
  mlirOperationPrintWithFlags(mlirModuleGetOperation(m), flags, write_text, stdout);
  mlirOpPrintingFlagsDestroy(flags);
}

static int build(const BluFrontendOptions *o, BluDiags *ds, bool locations, const char *fail) {
  MlirContext ctx = mlirContextCreateWithThreading(false);
  blu_context_load(ctx);
  MlirModule m = blu_frontend_build(ctx, o, ds);
  bool good = !mlirModuleIsNull(m);
  if (good && !mlirOperationVerify(mlirModuleGetOperation(m))) {
    fputs("blu-front: the module does not verify\n", stderr);
    good = false;
  }
  if (good && fail) mlirOperationWalk(mlirModuleGetOperation(m), fail_at, &(Fail){ds, fail}, MlirWalkPreOrder);
  else if (good) print_module(m, locations);
  if (!mlirModuleIsNull(m)) mlirModuleDestroy(m);
  mlirContextDestroy(ctx);
  return good && !blu_diags_errors(ds) ? 0 : 1;
}

/* --format: the canonical layout to stdout; exit status 3 if the file has another one. */
static int format(const BluFrontendOptions *o, BluDiags *ds) {
  bool changed = false;
  const char *text = blu_frontend_format(o, ds, &changed);
  if (text) fputs(text, stdout);
  return text ? 3 * changed : 1;
}

int main(int argc, char **argv) {
  enum { MOST = 16 };
  const char *defs[MOST], *path = NULL, *fail = NULL;
  bool ast = false, locations = false, holes = false, layout = false, json = false;
  int ndefs = 0;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--emit=ast")) ast = true;
    else if (!strcmp(argv[i], "--emit=blu")) ast = false;
    else if (!strcmp(argv[i], "--locations")) locations = true;
    else if (!strcmp(argv[i], "--holes")) holes = true;
    else if (!strcmp(argv[i], "--format")) layout = true;
    else if (!strcmp(argv[i], "--json")) json = true;
    else if (!strncmp(argv[i], "--fail-at=", 10)) fail = argv[i] + 10;
    else if (!strcmp(argv[i], "-D") && i + 1 < argc && ndefs < MOST) defs[ndefs++] = argv[++i];
    else if (argv[i][0] != '-' && !path) path = argv[i];
    else path = NULL, i = argc;
  }
  if (!path) {
    fputs("usage: blu-front [--emit=ast|blu] [--locations] [--holes] [-D NAME=VALUE] [--fail-at=OP] FILE\n", stderr);
    return 2;
  }
  BluFrontendOptions o = {.path = path, .ndefs = ndefs, .defs = defs, .holes = holes};
  BluDiags *ds = blu_diags_make();
  int status = layout ? format(&o, ds) : ast ? !blu_frontend_print_ast(&o, ds, stdout) : build(&o, ds, locations, fail);
  blu_diags_print_as(ds, stderr, json ? BLU_DIAGS_JSON : BLU_DIAGS_TEXT);
  blu_diags_free(ds);
  return status;
}
