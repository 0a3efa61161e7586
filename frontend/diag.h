/* diag.h - what is wrong with the user's program: collected, then printed in the order of the source.
 *
 * A diagnostic has a code (diag_codes.def), a span, a message, and may have notes at other places, a trail (the calls
 * that led there) and one line of help. Two that say the same at the same place count once. Nothing here exits. */
#ifndef BLU_FRONTEND_DIAG_H
#define BLU_FRONTEND_DIAG_H
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include "source.h"

typedef enum {
#define BLU_CODE(name, code, explanation) BLU_##name,
#include "diag_codes.def"
#undef BLU_CODE
  BLU_CODES
} BluCode;

typedef struct BluDiags BluDiags;
typedef struct BluDiag BluDiag;

BluDiags *blu_diags_make(void);
void blu_diags_free(BluDiags *ds);
/* Memory that lives as long as the diagnostics: sources belong here, since messages show their lines. */
BluArena *blu_diags_arena(BluDiags *ds);
/* Makes the source known by its path (for blu_diags_add_at) and gives it its place in the order of files. */
void blu_diags_add_source(BluDiags *ds, BluSource *s);
const BluSource *blu_diags_source(const BluDiags *ds, const char *path, size_t n); /* NULL: no such file was read */

/* A code that starts with E makes an error, W a warning, N an answer that was asked for. Never NULL; valid until
 * blu_diags_free. */
BluDiag *blu_diags_add(BluDiags *ds, BluCode code, BluSpan at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
BluDiag *blu_diags_vadd(BluDiags *ds, BluCode code, BluSpan at, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));
void blu_diag_note(BluDiag *d, BluSpan at, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The fault shows at a place in the library, while the diagnostic stands at the user's call that led there. */
void blu_diag_inside(BluDiag *d, BluSpan at);
/* Text under a part of the diagnostic's own line; a note, if the part lies elsewhere. */
void blu_diag_label(BluDiag *d, BluSpan at, const char *format, ...) __attribute__((format(printf, 3, 4)));
void blu_diag_trail(BluDiag *d, BluSpan at, const char *format, ...) __attribute__((format(printf, 3, 4)));
void blu_diag_help(BluDiag *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

int blu_diags_errors(const BluDiags *ds);
bool blu_diags_find(const BluDiags *ds, BluCode code); /* is there one of this code? */
enum { BLU_DIAGS_SHOWN = 100 };
/* The first BLU_DIAGS_SHOWN, by file, line and column; then how many were left out. Warnings are shown only if there is no
 * error: half a program warns of much that is not so. */
void blu_diags_print(BluDiags *ds, FILE *out);
/* The same as plain text, with colours for a terminal, or as JSON: one object a line, with severity, code, message, file,
 * line, column, end_line, end_column, notes and perhaps help. */
typedef enum { BLU_DIAGS_TEXT, BLU_DIAGS_COLOURS, BLU_DIAGS_JSON } BluDiagStyle;
void blu_diags_print_as(BluDiags *ds, FILE *out, BluDiagStyle style);
/* The paragraph that explains a code such as "E0201" to its user; NULL: no such code. */
const char *blu_diag_explain(const char *code);

#endif
