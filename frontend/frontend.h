/* frontend.h - from a .blu file to a module of the blu dialect. The folder's one public header besides diag.h.
 *
 * What is wrong with the program is collected in BluDiags; nothing is printed but by the functions that take a FILE,
 * and nothing exits. */
#ifndef BLU_FRONTEND_FRONTEND_H
#define BLU_FRONTEND_FRONTEND_H
#include <stdbool.h>
#include <stdio.h>
#include "diag.h"
#include "mlir-c/IR.h"

typedef struct {
  const char *path;
  const char *text;        /* the file's text, in the place of what path holds; NULL: read it */
  size_t size;
  int ndefs;
  const char *const *defs; /* "NAME=VALUE", replaces a top-level const */
  bool holes;              /* report what each `_` in a type stands for */
} BluFrontendOptions;

/* Reads and parses the file and prints its syntax tree (--emit=ast). false: there were errors. */
bool blu_frontend_print_ast(const BluFrontendOptions *o, BluDiags *ds, FILE *out);

/* The module that docs/ir.md describes, owned by the caller; the null module after errors. The context has had
 * blu_context_load and stays single-threaded. */
MlirModule blu_frontend_build(MlirContext ctx, const BluFrontendOptions *o, BluDiags *ds);

/* The file's text in its canonical layout, which lives as long as the diagnostics; NULL after errors. */
const char *blu_frontend_format(const BluFrontendOptions *o, BluDiags *ds, bool *changed);

/* Of n names the one that was probably meant; NULL: none is near. For options, stages and the like. */
const char *blu_frontend_nearest(const char *wanted, int n, const char *const *names);

/* Reports what a later stage found (no gradient, no lowering) at an operation's location, as if the front end had said
 * it: with the source line, and for an operation of the library with the user's call as a note. */
void blu_frontend_error_at(BluDiags *ds, MlirLocation loc, const char *message);
void blu_frontend_warn_at(BluDiags *ds, MlirLocation loc, const char *message); /* the same, of code that is right and could be better */

#endif
