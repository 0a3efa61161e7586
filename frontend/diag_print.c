/* diag_print.c - diagnostics as text with source lines and carets, or as JSON, one object a line. */
#include <stdlib.h>
#include <string.h>
#include "diag_internal.h"

typedef struct { FILE *out; bool colours; } Printer;

static int compare_place(const BluDiag *a, const BluDiag *b) {
  int fa = a->at.src ? a->at.src->order : -1, fb = b->at.src ? b->at.src->order : -1;
  if (fa != fb) return fa < fb ? -1 : 1;
  if (a->at.line != b->at.line) return a->at.line < b->at.line ? -1 : 1;
  if (a->at.col != b->at.col) return a->at.col < b->at.col ? -1 : 1;
  return 0;
}

static int compare(const void *pa, const void *pb) {
  const BluDiag *a = *(BluDiag *const *)pa, *b = *(BluDiag *const *)pb;
  int c = compare_place(a, b);
  return c ? c : a->order < b->order ? -1 : a->order > b->order;
}

static bool same(const BluDiag *a, const BluDiag *b) {
  return a->code == b->code && !compare_place(a, b) && !strcmp(a->text, b->text);
}

static bool continues(char c) { return ((unsigned char)c & 0xC0) == 0x80; }

/* ---- text ---- */

#define RED "\033[1;31m"
#define YELLOW "\033[1;33m"
#define CYAN "\033[1;36m"
#define BOLD "\033[1m"
#define PLAIN "\033[0m"

static void colour(const Printer *p, const char *code) {
  if (p->colours) fputs(code, p->out);
}

/* What stands under a line, from its first column on: marks and the texts of labels. Tabs of the line are repeated, so
 * that columns stay aligned whatever the width of a tab. */
typedef struct { char *text; int n; } Under;

static void mark(Under *u, int col, int end, char first, char rest) {
  for (int c = col; c < end && c <= u->n; c++) u->text[c - 1] = c == col ? first : rest;
}

/* Prints `u` up to its last mark; returns the columns printed. */
static int print_under(const Printer *p, const Under *u, const char *line, size_t bytes, const char *code) {
  int last = u->n;
  while (last && u->text[last - 1] == ' ') last--;
  fputs("  ", p->out);
  size_t at = 0;
  bool on = false;
  for (int c = 0; c < last; c++) {
    bool tab = at < bytes && line[at] == '\t';
    if (at < bytes) at += blu_utf8_length(line + at, bytes - at) ? blu_utf8_length(line + at, bytes - at) : 1;
    if (!on && u->text[c] != ' ') colour(p, code), on = true;
    fputc(u->text[c] == ' ' && tab ? '\t' : u->text[c], p->out);
  }
  if (on) colour(p, PLAIN);
  return last;
}

static int by_column(const void *a, const void *b) {
  return (*(const BluNote *const *)a)->at.col - (*(const BluNote *const *)b)->at.col;
}

/* Labels in the order of their columns; those that lie on another's first column are left out. */
static int sort_labels(const BluNote *labels, const BluNote **sorted, int most) {
  int n = 0, kept = 0;
  for (; labels && n < most; labels = labels->next) sorted[n++] = labels;
  qsort(sorted, (size_t)n, sizeof *sorted, by_column);
  for (int i = 0; i < n; i++)
    if (!kept || sorted[kept - 1]->at.col != sorted[i]->at.col) sorted[kept++] = sorted[i];
  return kept;
}

/* The line at the span's start; under it a caret at the start and tildes to the end, and the labels with their texts. */
static void print_line(const Printer *p, BluSpan at, const BluNote *labels, const char *code) {
  FILE *out = p->out;
  if (!at.src || at.line < 1 || at.line > at.src->lines) return;
  enum { WIDEST = 240, MOST = 8 };
  size_t bytes;
  const char *text = blu_source_line(at.src, at.line, &bytes);
  int points = 0;
  for (size_t i = 0; i < bytes; i++) points += !continues(text[i]);
  if (points > WIDEST) return; /* such a line was not written by hand */
  fprintf(out, "  ");
  for (size_t i = 0; i < bytes;) {
    size_t k = blu_utf8_length(text + i, bytes - i);
    bool plain = k && ((unsigned char)text[i] >= 0x20 || text[i] == '\t');
    fprintf(out, "%.*s", plain ? (int)k : 1, plain ? text + i : "?");
    i += k ? k : 1;
  }
  fputc('\n', out);
  char row[WIDEST + 2];
  Under u = {row, points + 1};
  const BluNote *sorted[MOST];
  int n = sort_labels(labels, sorted, MOST);
  memset(row, ' ', sizeof row);
  for (int i = 0; i < n; i++) mark(&u, sorted[i]->at.col, sorted[i]->at.end_col, '-', '-');
  mark(&u, at.col, at.end_line > at.line ? points + 1 : at.end_col > at.col ? at.end_col : at.col + 1, '^', '~');
  for (int i = 0; i < n; i++) /* a label inside of what the carets underline shows all the same */
    if (sorted[i]->at.col > at.col) mark(&u, sorted[i]->at.col, sorted[i]->at.end_col, '-', '-');
  int last = print_under(p, &u, text, bytes, code);
  if (n && sorted[n - 1]->at.end_col > last) fprintf(out, " %s", sorted[--n]->text);
  fputc('\n', out);
  for (bool bars = true; n;) { /* from right to left: bars down to a text, then the text itself */
    memset(row, ' ', sizeof row);
    const BluNote *next = sorted[n - 1];
    for (int i = 0; i < n - !bars; i++) mark(&u, sorted[i]->at.col, sorted[i]->at.col + 1, '|', '|');
    if (!bars) mark(&u, next->at.col, next->at.col + 1, next->text[0], ' ');
    print_under(p, &u, text, bytes, code);
    fprintf(out, "%s\n", bars ? "" : next->text + 1);
    n -= !bars;
    bars = false;
  }
}

static void print_place(const Printer *p, BluSpan at) {
  colour(p, BOLD);
  fprintf(p->out, "%s:", at.src ? at.src->path : "bluc");
  if (at.src && at.line) fprintf(p->out, "%d:%d:", at.line, at.col);
  colour(p, PLAIN);
  fputc(' ', p->out);
}

static void print_note(const Printer *p, BluSpan at, const char *text, const BluNote *labels) {
  print_place(p, at);
  colour(p, CYAN);
  fputs("note:", p->out);
  colour(p, PLAIN);
  fprintf(p->out, " %s\n", text);
  print_line(p, at, labels, CYAN);
}

static const char in_library[] = "it is here in the library";

static void print_notes(const Printer *p, const BluNote *n, int limit) {
  for (; n; n = n->next) {
    if (limit-- == 0) {
      fprintf(p->out, "  ... and further calls\n");
      return;
    }
    print_note(p, n->at, n->text, NULL);
  }
}

static void print_one(const Printer *p, const BluDiag *d) {
  const char *code = blu_diag_is_error(d) ? RED : blu_diag_is_warning(d) ? YELLOW : CYAN;
  print_place(p, d->at);
  colour(p, code);
  fprintf(p->out, "%s[%s]:", blu_diag_severity(d), blu_diag_code(d));
  colour(p, PLAIN);
  colour(p, BOLD);
  fprintf(p->out, " %s\n", d->text);
  colour(p, PLAIN);
  print_line(p, d->at, d->inside.src ? NULL : d->labels, code);
  if (d->inside.src) print_note(p, d->inside, in_library, d->labels);
  print_notes(p, d->notes, -1);
  enum { CALLS = 8 };
  print_notes(p, d->trail, CALLS);
  if (!d->help) return;
  colour(p, CYAN);
  fputs("  help:", p->out);
  colour(p, PLAIN);
  fprintf(p->out, " %s\n", d->help);
}

/* ---- JSON ---- */

static void json_string(FILE *out, const char *s) {
  fputc('"', out);
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
    else if (c < 0x20 || c == 0x7f) fprintf(out, "\\u%04x", c);
    else fputc(c, out);
  }
  fputc('"', out);
}

static void json_place(FILE *out, BluSpan at) {
  fputs("\"file\":", out);
  json_string(out, at.src ? at.src->path : "");
  fprintf(out, ",\"line\":%d,\"column\":%d,\"end_line\":%d,\"end_column\":%d", at.line, at.col, at.end_line, at.end_col);
}

static void json_notes(FILE *out, const BluNote *n, bool *first) {
  for (; n; n = n->next) {
    if (!*first) fputc(',', out);
    *first = false;
    fputs("{\"message\":", out);
    json_string(out, n->text);
    fputc(',', out);
    json_place(out, n->at);
    fputc('}', out);
  }
}

static void json_one(FILE *out, const BluDiag *d) {
  bool first = true;
  fprintf(out, "{\"severity\":\"%s\",\"code\":\"%s\",\"message\":", blu_diag_severity(d), blu_diag_code(d));
  json_string(out, d->text);
  fputc(',', out);
  json_place(out, d->at);
  fputs(",\"notes\":[", out);
  if (d->inside.src) json_notes(out, &(BluNote){.at = d->inside, .text = in_library}, &first);
  json_notes(out, d->labels, &first);
  json_notes(out, d->notes, &first);
  json_notes(out, d->trail, &first);
  fputc(']', out);
  if (d->help) {
    fputs(",\"help\":", out);
    json_string(out, d->help);
  }
  fputs("}\n", out);
}

/* ---- both ---- */

void blu_diags_print_as(BluDiags *ds, FILE *out, BluDiagStyle style) {
  BluDiag **sorted = blu_arena_alloc(ds->arena, ((size_t)ds->n + 1) * sizeof *sorted);
  Printer p = {out, style == BLU_DIAGS_COLOURS};
  if (ds->n) memcpy(sorted, ds->item, (size_t)ds->n * sizeof *sorted);
  qsort(sorted, (size_t)ds->n, sizeof *sorted, compare);
  int shown = 0, left = 0;
  for (int i = 0; i < ds->n; i++) {
    bool seen = false;
    for (int k = i - 1; k >= 0 && !seen && !compare_place(sorted[k], sorted[i]); k--) seen = same(sorted[k], sorted[i]);
    if (seen || (blu_diag_is_warning(sorted[i]) && ds->errors)) continue;
    if (shown == BLU_DIAGS_SHOWN) {
      left++;
      continue;
    }
    shown++;
    if (style == BLU_DIAGS_JSON) json_one(out, sorted[i]);
    else print_one(&p, sorted[i]);
  }
  if (left && style != BLU_DIAGS_JSON) fprintf(out, "... and %d more\n", left);
}

void blu_diags_print(BluDiags *ds, FILE *out) { blu_diags_print_as(ds, out, BLU_DIAGS_TEXT); }
