/* ast_print.h - the syntax tree as text (--emit=ast): one node a line, indented by its depth, with its span. */
#ifndef BLU_FRONTEND_AST_PRINT_H
#define BLU_FRONTEND_AST_PRINT_H
#include <stdio.h>
#include "ast.h"

void blu_ast_print(const BluFile *f, FILE *out);

#endif
