/* diag_internal.h - what diag.c and diag_print.c share. */
#ifndef BLU_FRONTEND_DIAG_INTERNAL_H
#define BLU_FRONTEND_DIAG_INTERNAL_H
#include "diag.h"

typedef struct BluNote { BluSpan at; const char *text; struct BluNote *next; } BluNote;

struct BluDiag {
  BluDiags *owner;
  BluCode code;
  BluSpan at, inside; /* inside: in the library, src NULL: not there */
  const char *text, *help;
  BluNote *labels, *notes, *trail;
  int order; /* of arrival */
};

struct BluDiags {
  BluArena *arena;
  BluDiag **item;
  int n, errors;
  const BluSource **source;
  int sources;
};

bool blu_diag_is_error(const BluDiag *d);
bool blu_diag_is_warning(const BluDiag *d);
const char *blu_diag_severity(const BluDiag *d); /* "error" */
const char *blu_diag_code(const BluDiag *d);     /* "E0201" */

#endif
