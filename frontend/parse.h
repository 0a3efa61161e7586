/* parse.h - source text to syntax tree. */
#ifndef BLU_FRONTEND_PARSE_H
#define BLU_FRONTEND_PARSE_H
#include "ast.h"
#include "diag.h"

/* The tree of the whole file. What can't be parsed is reported and missing from it, or stands as an ERROR node. */
BluFile *blu_parse(BluArena *a, const BluSource *s, BluDiags *ds);

#endif
