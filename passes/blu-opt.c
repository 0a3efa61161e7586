/* blu-opt.c - reads IR, runs passes in the order given, prints IR: for FileCheck tests and for people who look inside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mlir-c/Diagnostics.h"
#include "mlir-c/IR.h"
#include "passes/passes.h"
#include "dialects/memory.h"

static void print_to(MlirStringRef s, void *file) { fwrite(s.data, 1, s.length, file); }

static MlirLogicalResult report(MlirDiagnostic d, void *user) {
  static const char *const severity[] = {"error", "warning", "note", "remark"};
  (void)user;
  MlirLocation l = mlirDiagnosticGetLocation(d);
  if (mlirLocationIsAFileLineColRange(l))
    fprintf(stderr, "%s:%d:%d: ", mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(l)).data,
            mlirLocationFileLineColRangeGetStartLine(l), mlirLocationFileLineColRangeGetStartColumn(l));
  fprintf(stderr, "%s: ", severity[mlirDiagnosticGetSeverity(d)]);
  mlirDiagnosticPrint(d, print_to, stderr);
  fputc('\n', stderr);
  return mlirLogicalResultSuccess();
}

static int usage(FILE *out, int status) {
  fputs("usage: blu-opt [options] [FILE]\n\n"
        "Reads a module of the blu dialect from FILE (standard input, if none or -), runs passes in the order in which they are\n"
        "given, verifies and prints the result; or runs one of its functions, in double, and prints what that returns.\n\n"
        "  -pass=NAME      run a pass; may be given many times\n"
        "  --plan          print the memory plan as text in place of the IR (after -pass=plan)\n"
        "  --locations     print locations\n"
        "  --no-verify     don't verify between passes\n"
        "  --run=FUNC      run the function @FUNC after the passes and print its results in place of the IR\n"
        "  --input=ARG=V   an argument, by name or number (from 0): V is numbers with commas between them (one: for all elements)\n"
        "                  or FILE.npy; other arguments are drawn at random: labels within their bound, run values as they are\n"
        "  --seed=N        another draw (default 1)\n"
        "  --full          print every number of the results\n"
        "  --help          this text\n\npasses, in the compiler's order:\n", out);
  for (const BluPass *p = blu_passes; p->name; p++) fprintf(out, "  %-15s %s\n", p->name, p->summary);
  fputs("\nexamples:\n"
        "  bluc --emit=blu model.blu | blu-opt -pass=differentiate -pass=simplify\n"
        "  bluc --emit=blu model.blu | blu-opt -pass=differentiate --run=train --input=step=10 --seed=7\n"
        "exit status: 0 good, 1 bad input or a failed pass, 2 usage\n", out);
  return status;
}

static char *read_all(FILE *f) {
  size_t size = 0, cap = 1 << 16;
  char *text = blu_alloc(cap + 1);
  for (size_t n; (n = fread(text + size, 1, cap - size, f)) > 0;) {
    size += n;
    if (size == cap) text = blu_realloc(text, (cap *= 2) + 1);
  }
  text[size] = 0;
  return text;
}

typedef struct { const char *file; const BluPass **pass; int npasses; bool plan, locations, verify; const char **inputs; BluRunOptions run; } Options;

static int run(const Options *o, MlirContext ctx) {
  FILE *f = !o->file || !strcmp(o->file, "-") ? stdin : fopen(o->file, "rb");
  if (!f) return fprintf(stderr, "blu-opt: %s: cannot read\n", o->file), 1;
  char *text = read_all(f);
  if (f != stdin) fclose(f);
  MlirModule m = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  free(text);
  if (mlirModuleIsNull(m)) return 1;
  int status = 0;
  for (int i = 0; i < o->npasses && !status; i++) {
    if (!o->pass[i]->run(m)) status = 1;
    else if (o->verify && !mlirOperationVerify(mlirModuleGetOperation(m)))
      status = 1, fprintf(stderr, "blu-opt: internal error: pass %s left an invalid module\n", o->pass[i]->name);
  }
  if (!status && o->run.func) {
    BluWhy why;
    if (!blu_run(m, &o->run, stdout, &why)) status = 1, fprintf(stderr, "blu-opt: %s\n", why.text);
  } else if (!status && o->plan) {
    char *plan = blu_plan_print(m);
    fputs(plan, stdout);
    free(plan);
  } else if (!status) {
    MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
    if (o->locations) mlirOpPrintingFlagsEnableDebugInfo(flags, true, true);
    mlirOperationPrintWithFlags(mlirModuleGetOperation(m), flags, print_to, stdout);
    mlirOpPrintingFlagsDestroy(flags);
  }
  mlirModuleDestroy(m);
  return status;
}

int main(int argc, char **argv) {
  Options o = {.pass = blu_alloc_zeroed((size_t)argc, sizeof *o.pass), .inputs = blu_alloc_zeroed((size_t)argc, sizeof *o.inputs),
               .verify = true, .run.seed = 1};
  o.run.inputs = o.inputs;
  int bad = 0;
  for (int i = 1; i < argc && !bad; i++) {
    const char *a = argv[i];
    if (!strcmp(a, "--help") || !strcmp(a, "-h")) return free(o.pass), free(o.inputs), usage(stdout, 0);
    if (!strcmp(a, "--plan")) o.plan = true;
    else if (!strcmp(a, "--locations")) o.locations = true;
    else if (!strcmp(a, "--no-verify")) o.verify = false;
    else if (!strcmp(a, "--full")) o.run.full = true;
    else if (!strncmp(a, "--run=", 6)) o.run.func = a + 6;
    else if (!strncmp(a, "--seed=", 7)) {
      char *end;
      o.run.seed = strtoull(a + 7, &end, 10);
      if (!a[7] || a[7] == '-' || *end) bad = fprintf(stderr, "blu-opt: --seed takes a number, not '%s'\n", a + 7);
    } else if (!strncmp(a, "--input=", 8)) {
      o.inputs[o.run.ninputs++] = a + 8;
      if (!strchr(a + 8, '=')) bad = fprintf(stderr, "blu-opt: --input takes ARG=VALUE, not '%s'\n", a + 8);
    }
    else if (!strncmp(a, "-pass=", 6) || !strncmp(a, "--pass=", 7)) {
      const char *name = strchr(a, '=') + 1;
      if (!(o.pass[o.npasses++] = blu_pass_find(name))) bad = fprintf(stderr, "blu-opt: no pass is called '%s' (see --help)\n", name);
    } else if (a[0] == '-' && a[1]) bad = fprintf(stderr, "blu-opt: unknown option '%s' (see --help)\n", a);
    else if (o.file) bad = fprintf(stderr, "blu-opt: one file at most\n");
    else o.file = a;
  }
  if (!bad && !o.run.func && (o.run.ninputs || o.run.full)) bad = fprintf(stderr, "blu-opt: --input and --full go with --run\n");
  int status = 2;
  if (!bad) {
    MlirContext ctx = mlirContextCreateWithThreading(false);
    blu_context_load(ctx);
    mlirContextAttachDiagnosticHandler(ctx, report, NULL, NULL);
    status = run(&o, ctx);
    mlirContextDestroy(ctx);
  }
  free(o.pass), free(o.inputs);
  return status;
}
