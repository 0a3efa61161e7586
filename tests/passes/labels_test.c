/* labels_test.c - constraints of ops that well-formed IR can't break, since MLIR checks them first: the front end can. And what
 * differentiation says of an op without a gradient: the op table has none, so the linker (--wrap=blu_op_of) puts a doctored row in
 * the place of blu.sin. Prints the labels that were reached, one a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mlir-c/Diagnostics.h"
#include "passes/passes.h"

static int failed;

static void check(bool good, const char *what) {
  if (!good) printf("FAIL %s\n", what), failed = 1;
}

/* ---- blu_infer alone ---- */

static void refused(const char *op, BluSig s, const char *label) {
  BluWhy why = {0};
  bool good = blu_infer(blu_op_find(op), &s, &why);
  if (!good && !strcmp(why.label, label) && *why.text) puts(label);
  else printf("FAIL %s: expected [%s], found %s\n", op, label, good ? "no error" : why.label), failed = 1;
}

static void test_infer(void) {
  BluType m = blu_type_make(BLU_F32, 2, (int64_t[]){3, 4});
  BluSig one = {.nin = 1, .in = {m}}, two = {.nin = 2, .in = {m, m}};
  refused("add", one, "operand-count");
  refused("sum", two, "operand-count");
  refused("reshape", one, "attribute-given");
  BluSig s = one;
  s.attrs = blu_attr_set_int(s.attrs, "axes", 0);
  refused("sum", s, "attribute-known");
  s = one;
  s.attrs = blu_attr_set_int(s.attrs, "axis", 0);
  refused("sum", s, "attribute-kind");
}

/* ---- a row of the table without gradient and reference ---- */

const BluOp *__real_blu_op_of(MlirOperation op);
const BluOp *__wrap_blu_op_of(MlirOperation op);
const BluOp *__wrap_blu_op_of(MlirOperation op) {
  static BluOp row;
  static BluRule rule;
  const BluOp *real = __real_blu_op_of(op);
  if (!real || strcmp(real->name, "sin")) return real;
  rule = *real->rule;
  rule.vjp = NULL;
  rule.ref = NULL;
  row = *real;
  row.rule = &rule;
  return &row;
}

typedef struct { char text[256], file[64]; int line, column, n; } Report;

static void append(MlirStringRef s, void *to) { strncat(((Report *)to)->text, s.data, s.length < 200 ? s.length : 200); }

static MlirLogicalResult report(MlirDiagnostic d, void *to) {
  Report *r = to;
  MlirLocation l = mlirDiagnosticGetLocation(d);
  r->n++;
  if (r->n > 1 || !mlirLocationIsAFileLineColRange(l)) return mlirLogicalResultSuccess();
  snprintf(r->file, sizeof r->file, "%s", mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(l)).data);
  r->line = mlirLocationFileLineColRangeGetStartLine(l);
  r->column = mlirLocationFileLineColRangeGetStartColumn(l);
  mlirDiagnosticPrint(d, append, r);
  return mlirLogicalResultSuccess();
}

static void test_no_gradient(MlirContext ctx) {
  static const char *const text =
    "func.func @train(%w: tensor<f32> {blu.role = \"param\", blu.name = \"w\"}, %n: tensor<f32> {blu.role = \"data\", blu.name = \"n\"})\n"
    " -> (tensor<f32> {blu.role = \"sum\", blu.name = \"loss\"}, tensor<f32> {blu.role = \"weight\", blu.name = \"loss\"}) {\n"
    "  %0 = blu.exp %w : tensor<f32>\n"
    "  %data = blu.sin %n : tensor<f32> loc(\"m.blu\":4:1)\n" /* no gradient is asked for here */
    "  %1 = blu.sin %0 : tensor<f32> loc(\"m.blu\":5:9)\n"
    "  %2 = blu.mul %1, %data : tensor<f32>\n"
    "  return %2, %n : tensor<f32>, tensor<f32>\n}\n";
  Report r = {{0}, {0}, 0, 0, 0};
  MlirModule m = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  MlirDiagnosticHandlerID handler = mlirContextAttachDiagnosticHandler(ctx, report, &r, NULL);
  check(!blu_pass_differentiate(m), "an op without gradient on the way is an error");
  check(r.n == 1 && !strcmp(r.text, "`sin` has no gradient"), "it is reported once, by name");
  check(!strcmp(r.file, "m.blu") && r.line == 5 && r.column == 9, "it is reported at its location");
  mlirContextDetachDiagnosticHandler(ctx, handler);
  mlirModuleDestroy(m);
}

/* ---- the interpreter ---- */

static void test_interpreter(MlirContext ctx) {
  static const char *const text = "func.func @f(%x: tensor<f32>) -> tensor<f32> {\n  %0 = blu.sin %x : tensor<f32>\n  return %0 : tensor<f32>\n}\n"
                                  "func.func @g(%x: tensor<f32>) -> tensor<f32> {\n  %0 = call @f(%x) : (tensor<f32>) -> tensor<f32>\n"
                                  "  return %0 : tensor<f32>\n}\n";
  double x = 1, *result = NULL;
  BluWhy why = {0};
  MlirModule m = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  MlirOperation f = blu_func_find(m, "f"), g = blu_func_find(m, "g");
  check(!blu_interp_run(m, g, (const double *const[]){&x}, &result, &why), "an op without reference can't be run");
  if (why.label && !strcmp(why.label, "ref")) puts("ref");
  mlirOperationDestroy(f);
  check(!blu_interp_run(m, g, (const double *const[]){&x}, &result, &why), "a call needs its function");
  if (why.label && !strcmp(why.label, "callee")) puts("callee");
  mlirModuleDestroy(m);
}

int main(void) {
  MlirContext ctx = mlirContextCreateWithThreading(false);
  blu_context_load(ctx);
  test_infer();
  test_no_gradient(ctx);
  test_interpreter(ctx);
  mlirContextDestroy(ctx);
  return failed;
}
