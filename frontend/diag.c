/* diag.c - collecting and printing of diagnostics. */
#include "diag.h"
#include <stdlib.h>
#include <string.h>

typedef struct Note { BluSpan at; const char *text; struct Note *next; } Note;

struct BluDiag {
  BluDiags *owner;
  BluCode code;
  BluSpan at;
  const char *text, *help;
  Note *notes, *trail;
  int order; /* of arrival */
};

struct BluDiags {
  BluArena *arena;
  BluDiag **item;
  int n, errors;
  const BluSource **source;
  int sources;
};

static const struct { const char *code, *explanation; } codes[BLU_CODES] = {
#define BLU_CODE(name, code, explanation) [BLU_##name] = {code, explanation},
#include "diag_codes.def"
#undef BLU_CODE
};

static bool is_error(const BluDiag *d) { return codes[d->code].code[0] == 'E'; }

BluDiags *blu_diags_make(void) {
  BluArena *a = blu_arena_make();
  BluDiags *ds = blu_arena_alloc(a, sizeof *ds);
  ds->arena = a;
  return ds;
}

void blu_diags_free(BluDiags *ds) {
  if (ds) blu_arena_free(ds->arena);
}

BluArena *blu_diags_arena(BluDiags *ds) { return ds->arena; }

void blu_diags_add_source(BluDiags *ds, BluSource *s) {
  ds->source = blu_arena_grow(ds->arena, ds->source, ds->sources, sizeof *ds->source);
  s->order = ds->sources;
  ds->source[ds->sources++] = s;
}

const BluSource *blu_diags_source(const BluDiags *ds, const char *path, size_t n) {
  for (int i = 0; i < ds->sources; i++)
    if (strlen(ds->source[i]->path) == n && !memcmp(ds->source[i]->path, path, n)) return ds->source[i];
  return NULL;
}

BluDiag *blu_diags_vadd(BluDiags *ds, BluCode code, BluSpan at, const char *format, va_list args) {
  BluDiag *d = blu_arena_alloc(ds->arena, sizeof *d);
  *d = (BluDiag){.owner = ds, .code = code, .at = at, .order = ds->n};
  d->text = blu_arena_vprint(ds->arena, format, args);
  ds->item = blu_arena_grow(ds->arena, ds->item, ds->n, sizeof *ds->item);
  ds->item[ds->n++] = d;
  ds->errors += is_error(d);
  return d;
}

BluDiag *blu_diags_add(BluDiags *ds, BluCode code, BluSpan at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  BluDiag *d = blu_diags_vadd(ds, code, at, format, args);
  va_end(args);
  return d;
}

static void append(BluDiag *d, Note **list, BluSpan at, const char *format, va_list args) {
  Note *n = blu_arena_alloc(d->owner->arena, sizeof *n);
  *n = (Note){.at = at, .text = blu_arena_vprint(d->owner->arena, format, args)};
  while (*list) list = &(*list)->next;
  *list = n;
}

void blu_diag_note(BluDiag *d, BluSpan at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  append(d, &d->notes, at, format, args);
  va_end(args);
}

void blu_diag_trail(BluDiag *d, BluSpan at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  append(d, &d->trail, at, format, args);
  va_end(args);
}

void blu_diag_help(BluDiag *d, const char *format, ...) {
  va_list args;
  va_start(args, format);
  d->help = blu_arena_vprint(d->owner->arena, format, args);
  va_end(args);
}

int blu_diags_errors(const BluDiags *ds) { return ds->errors; }

const char *blu_diag_explain(const char *code) {
  for (int i = 0; i < BLU_CODES; i++)
    if (!strcmp(codes[i].code, code)) return codes[i].explanation;
  return NULL;
}

/* ---- printing ---- */

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

/* The line at the span's start, and under it a caret at the start and tildes to the end. The second line repeats the
 * tabs of the first, so that the two stay aligned whatever the width of a tab. */
static void print_line(FILE *out, BluSpan at) {
  if (!at.src || at.line < 1 || at.line > at.src->lines) return;
  size_t n;
  const char *text = blu_source_line(at.src, at.line, &n);
  int points = 0;
  for (size_t i = 0; i < n; i++) points += !continues(text[i]);
  enum { WIDEST = 240 };
  if (points > WIDEST) return; /* such a line was not written by hand */
  fprintf(out, "  ");
  for (size_t i = 0; i < n;) {
    size_t k = blu_utf8_length(text + i, n - i);
    bool plain = k && ((unsigned char)text[i] >= 0x20 || text[i] == '\t');
    fprintf(out, "%.*s", plain ? (int)k : 1, plain ? text + i : "?");
    i += k ? k : 1;
  }
  fprintf(out, "\n  ");
  int col = 1;
  for (size_t i = 0; i < n && col < at.col; i++)
    if (!continues(text[i])) fputc(text[i] == '\t' ? '\t' : ' ', out), col++;
  fputc('^', out);
  int end = at.end_line > at.line ? points + 1 : at.end_col;
  for (col = at.col + 1; col < end; col++) fputc('~', out);
  fputc('\n', out);
}

static void print_place(FILE *out, BluSpan at) {
  fprintf(out, "%s:", at.src ? at.src->path : "bluc");
  if (at.src && at.line) fprintf(out, "%d:%d:", at.line, at.col);
  fputc(' ', out);
}

static void print_notes(FILE *out, const Note *n, int limit) {
  for (; n; n = n->next) {
    if (limit-- == 0) {
      fprintf(out, "  ... and further calls\n");
      return;
    }
    print_place(out, n->at);
    fprintf(out, "note: %s\n", n->text);
    print_line(out, n->at);
  }
}

static void print_one(FILE *out, const BluDiag *d) {
  print_place(out, d->at);
  fprintf(out, "%s[%s]: %s\n", is_error(d) ? "error" : "warning", codes[d->code].code, d->text);
  print_line(out, d->at);
  print_notes(out, d->notes, -1);
  enum { CALLS = 8 };
  print_notes(out, d->trail, CALLS);
  if (d->help) fprintf(out, "  help: %s\n", d->help);
}

void blu_diags_print(BluDiags *ds, FILE *out) {
  BluDiag **sorted = blu_arena_alloc(ds->arena, ((size_t)ds->n + 1) * sizeof *sorted);
  if (ds->n) memcpy(sorted, ds->item, (size_t)ds->n * sizeof *sorted);
  qsort(sorted, (size_t)ds->n, sizeof *sorted, compare);
  int shown = 0, left = 0;
  for (int i = 0; i < ds->n; i++) {
    bool seen = false;
    for (int k = i - 1; k >= 0 && !seen && !compare_place(sorted[k], sorted[i]); k--) seen = same(sorted[k], sorted[i]);
    if (seen) continue;
    if (shown == BLU_DIAGS_SHOWN) left++;
    else print_one(out, sorted[i]), shown++;
  }
  if (left) fprintf(out, "... and %d more\n", left);
}
