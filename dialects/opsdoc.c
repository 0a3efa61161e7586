/* opsdoc.c - build tool: writes docs/ops.md from the op table. usage: blu-opsdoc > docs/ops.md
 * Fails when an op has a constraint without an explanation here, or a gradient without words or words without a gradient. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/blu.h"

static const struct { const char *label, *means; } constraints[] = {
  {"operand-count", "as many operands as the op takes"},
  {"attribute-known", "only attributes that the op has"},
  {"attribute-kind", "each attribute of its kind"},
  {"attribute-given", "every attribute that is not optional"},
  {"result-type", "the result has the type that follows from operands and attributes"},
  {"size-bounded", "no result, and no padding, of more than 2^48 elements"},
  {"attention-operands", "queries, keys, values and what else belongs to one attention"},
  {"axis-in-range", "axes are those of the operand; negative ones count from the end"},
  {"axis-once", "no axis is named twice"},
  {"bool", "conditions, masks and operands of logical ops are bool"},
  {"broadcast-suffix", "the operand's dimensions, aligned at the end, are equal to the result's or 1"},
  {"div-exact", "no division of i64"},
  {"enough-elements", "more elements than the correction, which is not negative"},
  {"eps", "eps is 0 or more"},
  {"f32", "f32 elements"},
  {"float", "floating-point elements"},
  {"format", "2 to 8 exponent bits, 1 to 23 mantissa bits"},
  {"groups-divide", "the groups divide the channels in and out"},
  {"heads-divide", "the heads of keys divide those of queries"},
  {"index-i32", "at most 2^31 - 1 elements along the axis, so that an i32 can name each"},
  {"integer", "ids are i32, i64 or u8"},
  {"integer-labels", "labels are integers"},
  {"k-in-range", "1 <= k <= the number of elements"},
  {"key", "the key is an i64 scalar"},
  {"stream", "the halves of a stream are i64 scalars"},
  {"label-per-row", "one label for each row of logits"},
  {"mask-fits", "the mask's dimensions, aligned at the end, are equal to [batch, heads, queries, keys] or 1"},
  {"no-ta-of-batch", "a batch times one matrix does not transpose the batch"},
  {"not-empty", "at least one element where there must be one"},
  {"number", "elements are numbers: not bool, and u8 only where they are compared or moved"},
  {"one-per-dimension", "lists have one number for each dimension"},
  {"pad-half", "the padding is at most half of the window"},
  {"pad-positive", "no negative padding"},
  {"per-column", "one element for each of the last dimension of x, of x's type"},
  {"perm-once", "perm names each axis once"},
  {"perm-rank", "perm has one axis for each dimension"},
  {"probability", "p is in [0, 1]; for dropout below 1"},
  {"rank", "as many dimensions as the op needs, and at most 8 in the result"},
  {"row-per-id", "one row for each id"},
  {"same-batch", "the same leading dimensions, or one matrix for all of them"},
  {"same-channels", "the weights take as many channels as a group has"},
  {"same-count", "the same number of elements"},
  {"same-inner", "the dimensions that are summed over are equal"},
  {"same-rank", "operands of the same rank"},
  {"same-rows", "the same dimensions before the last"},
  {"same-shape", "operands of the same shape"},
  {"same-type", "operands of the same element type"},
  {"size-positive", "no negative size; for classes at least 1"},
  {"slice-in-range", "the slice lies inside of the dimension"},
  {"step-positive", "steps are 1 or more"},
  {"value-per-key", "as many values as keys, in the same heads"},
  {"window", "one number or two; kernel, stride and dilation 1 or more, padding 0 or more"},
  {"window-fits", "the window fits into the padded image, and there are as many as fit"},
};
enum { GENERAL = 6, CONSTRAINTS = sizeof constraints / sizeof *constraints };

static int failed;

static void complain(const char *op, const char *what) {
  fprintf(stderr, "blu-opsdoc: %s: %s\n", op, what);
  failed = 1;
}

static const char *explain(const char *label, size_t n) {
  for (int i = 0; i < CONSTRAINTS; i++)
    if (strlen(constraints[i].label) == n && !memcmp(constraints[i].label, label, n)) return constraints[i].means;
  return NULL;
}

static const char *kind_name(const BluAttrInfo *a) {
  static const char *const names[] = {
    [BLU_ATTR_INT] = "integer", [BLU_ATTR_INTS] = "integers", [BLU_ATTR_REAL] = "number",
    [BLU_ATTR_BOOL] = "true or false", [BLU_ATTR_TYPE] = "type", [BLU_ATTR_STRING] = "string"};
  return names[a->kind];
}

static void print_signature(const BluOp *op) {
  printf("`%s(", op->name);
  for (int i = 0; i < op->nin; i++) printf("%s%s", i ? ", " : "", op->in[i]);
  if (op->nin < 0) printf("..");
  for (int i = 0; i < op->nattr; i++)
    printf("%s%s: %s%s", i ? ", " : op->nin ? "; " : "", op->attr[i].name, kind_name(&op->attr[i]), op->attr[i].optional ? "?"
        : "");
  printf(")`%s\n\n", op->builtin ? ", a function of the language" : "");
}

static void print_labels(const BluOp *op) {
  int n = 0;
  for (const char *l = op->rule->labels ? op->rule->labels : ""; *l;) {
    size_t size = strcspn(l, " ");
    bool of_two = size > 5 && !memcmp(l, "same-", 5) && op->nin == 1; /* families share their lists */
    if (!explain(l, size)) complain(op->name, "a constraint is not explained");
    if (size && !of_two) printf("%s`%.*s`", n++ ? ", " : "Constraints: ", (int)size, l);
    l += size + (l[size] == ' ');
  }
  if (n) puts(".\n");
}

static void print_example(const BluOp *op) {
  const BluOpCase *c = blu_op_cases(op);
  if (!c->body) return;
  printf("```mlir\nfunc.func @f(%s) {\n", c->args);
  for (const char *line = c->body; *line;) {
    size_t n = strcspn(line, "\n");
    printf("  %.*s\n", (int)n, line);
    line += n + (line[n] == '\n');
  }
  puts("  return\n}\n```\n");
}

static void print_op(const BluOp *op) {
  const BluRule *r = op->rule;
  printf("### %s\n\n", op->name);
  print_signature(op);
  printf("%s.\n\n", op->summary);
  if (*op->doc) printf("%s\n\n", op->doc);
  print_labels(op);
  if (*op->gradient) printf("Gradient: %s.\n\n", op->gradient);
  else if (r->nodiff && op->nout) puts("Gradient: none; the result is an integer or piecewise constant, or depends on no number "
      "that is trained, or is meant to have none.\n");
  if (!*op->gradient && r->vjp) complain(op->name, "has a gradient and no words for it");
  if (*op->gradient && !r->vjp) complain(op->name, "has words for a gradient and none");
  if (r->uncoded) puts("Not compiled yet: interpreted alone.\n");
  else if (r->tolerance > 0) printf("f32: within %.2g.\n\n", r->tolerance);
  print_example(op);
}

static void print_kinds(const char *title, const char *about, const BluKind *kinds, int n) {
  printf("## %s\n\n%s\n\n", title, about);
  for (int i = 0; i < blu_nops; i++)
    for (int k = 0; k < n; k++)
      if (blu_ops[i].rule->kind == kinds[k]) print_op(&blu_ops[i]);
}

int main(void) {
  puts("# The ops of the blu dialect\n\n"
       "Written by `blu-opsdoc` from the op table (`dialects/BluOps.td` and the rules in `dialects/ops_*.c`). Don't edit: "
           "change the\n"
       "table, then `build/bin/blu-opsdoc > docs/ops.md`. A test compares.\n\n"
       "A function of the language is called with operands by place and attributes by name: `sum(x, axis = 1)`; a `?` marks "
           "what may\n"
       "be left out. The other ops stand behind operators and syntax, or are made by the compiler. Elements are f32, f64, i32, "
           "i64, u8\n"
       "or bool. In formulas y is the result and ct its cotangent; a gradient is that of the loss with respect to an operand. A "
           "zero\n"
       "cotangent gives a zero gradient, also where a factor is infinite or not a number, for the ops whose factor can be so "
           "for a\n"
       "finite operand. `f32: within E` is the greatest distance of compiled code from the value that tests allow, relative to\n"
       "max(1, |value|). Examples are the first of an op's test cases.\n\n"
       "## Constraints\n\nThe label stands in the error message, in brackets. Every op demands the first six.\n\n| label | "
           "demands |\n|---|---|");
  for (int i = 0; i < CONSTRAINTS; i++) printf("| `%s` | %s |\n", constraints[i].label, constraints[i].means);
  puts("");
  print_kinds("Elementwise", "An element of the result comes from the operands' elements at its place; shapes are equal (the "
      "language inserts broadcasts).",
              (BluKind[]){BLU_KIND_ELEMENT}, 1);
  print_kinds("Made from indices, and moved", "Where an element stands is what counts; unpatch, scatter_add and cumsum add, one "
      "after another.",
              (BluKind[]){BLU_KIND_INDEX, BLU_KIND_VIEW, BLU_KIND_MOVE}, 3);
  print_kinds("Over axes", "The order of additions is fixed.", (BluKind[]){BLU_KIND_REDUCE}, 1);
  print_kinds("Products", "", (BluKind[]){BLU_KIND_MATMUL}, 1);
  print_kinds("Composites", "The optimiser knows them by name; they become primitives before code is made.",
      (BluKind[]){BLU_KIND_COMPOSITE}, 1);
  puts("## Loops\n\n### scan\n\n`scan(f, init, xs, axis = 0, reverse = false, checkpoint = 0)`, a function of the language (docs/language.md)\n\n"
       "Runs a function of the module for each slice along the leading dimension of tensors (docs/ir.md). Its operands and results are those of\n"
       "the function, so it is no row of the op table.\n\n"
       "Constraints: `scan-body` (a private function of the module), `scan-counts` (as many operands and results as the function has),\n"
       "`scan-steps` (each sequence has one slice for each step), `scan-types` (operands fit the function's arguments), `scan-carry` (a carry\n"
       "keeps its type), `rank`, `result-type`.\n\n"
       "Gradient: a scan in the other direction.\n\n"
       "```mlir\nfunc.func private @sum(%total: tensor<3xf32>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {\n"
       "  %r = blu.add %total, %x : tensor<3xf32>\n  return %r, %r : tensor<3xf32>, tensor<3xf32>\n}\n"
       "func.func @f(%zero: tensor<3xf32>, %xs: tensor<5x3xf32>) {\n"
       "  %r:2 = blu.scan @sum(%zero, %xs) {carries = 1 : i64, sequences = 1 : i64, steps = 5 : i64} : (tensor<3xf32>, tensor<5x3xf32>) -> "
       "(tensor<3xf32>, tensor<5x3xf32>)\n  return\n}\n```\n");
  print_kinds("Effects", "", (BluKind[]){BLU_KIND_EFFECT}, 1);
  return failed;
}
