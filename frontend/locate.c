/* locate.c - from an MLIR location back to the source, for what later stages report. */
#include <ctype.h>
#include <string.h>
#include "frontend.h"

/* The token at a place: a word, or one character. */
static int token_width(const BluSource *s, int line, int col) {
  size_t n, i = 0;
  const char *text = blu_source_line(s, line, &n);
  for (int c = 1; i < n; i++) {
    if (((unsigned char)text[i] & 0xC0) == 0x80) continue;
    if (c++ == col) break;
  }
  size_t end = i;
  while (end < n && (isalnum((unsigned char)text[end]) || text[end] == '_' || text[end] == '.')) end++;
  return end > i ? (int)(end - i) : 1;
}

static BluSpan span_of(BluDiags *ds, MlirLocation loc) {
  if (!mlirLocationIsAFileLineColRange(loc)) return (BluSpan){0};
  MlirStringRef path = mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(loc));
  int line = mlirLocationFileLineColRangeGetStartLine(loc), col = mlirLocationFileLineColRangeGetStartColumn(loc);
  const BluSource *s = blu_diags_source(ds, path.data, path.length);
  if (!s) return (BluSpan){0};
  return (BluSpan){s, line, col, line, col + token_width(s, line, col)};
}

static void add_at(BluDiags *ds, BluCode code, MlirLocation loc, const char *message) {
  if (!mlirLocationIsACallSite(loc)) {
    blu_diags_add(ds, code, span_of(ds, loc), "%s", message);
    return;
  }
  BluDiag *d = blu_diags_add(ds, code, span_of(ds, mlirLocationCallSiteGetCaller(loc)), "%s", message);
  blu_diag_note(d, span_of(ds, mlirLocationCallSiteGetCallee(loc)), "the operation is here in the library");
}

void blu_frontend_error_at(BluDiags *ds, MlirLocation loc, const char *message) { add_at(ds, BLU_E_STAGE, loc, message); }
void blu_frontend_warn_at(BluDiags *ds, MlirLocation loc, const char *message) { add_at(ds, BLU_W_CODE, loc, message); }
