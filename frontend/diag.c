/* diag.c - collecting of diagnostics. */
#include <string.h>
#include "diag_internal.h"


static const struct { const char *code, *explanation; } codes[BLU_CODES] = {
#define BLU_CODE(name, code, explanation) [BLU_##name] = {code, explanation},
#include "diag_codes.def"
#undef BLU_CODE
};

bool blu_diag_is_error(const BluDiag *d) { return codes[d->code].code[0] == 'E'; }
bool blu_diag_is_warning(const BluDiag *d) { return codes[d->code].code[0] == 'W'; }
const char *blu_diag_severity(const BluDiag *d) {
  return blu_diag_is_error(d) ? "error" : blu_diag_is_warning(d) ? "warning" : "note";
}

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
  ds->errors += blu_diag_is_error(d);
  return d;
}

BluDiag *blu_diags_add(BluDiags *ds, BluCode code, BluSpan at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  BluDiag *d = blu_diags_vadd(ds, code, at, format, args);
  va_end(args);
  return d;
}

static void append(BluDiag *d, BluNote **list, BluSpan at, const char *format, va_list args) {
  BluNote *n = blu_arena_alloc(d->owner->arena, sizeof *n);
  *n = (BluNote){.at = at, .text = blu_arena_vprint(d->owner->arena, format, args)};
  while (*list) list = &(*list)->next;
  *list = n;
}

void blu_diag_note(BluDiag *d, BluSpan at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  append(d, &d->notes, at, format, args);
  va_end(args);
}

void blu_diag_inside(BluDiag *d, BluSpan at) { d->inside = at; }

void blu_diag_label(BluDiag *d, BluSpan at, const char *format, ...) {
  va_list args;
  BluSpan line = d->inside.src ? d->inside : d->at;
  bool here = at.src == line.src && at.line == line.line && at.end_line == at.line;
  va_start(args, format);
  append(d, here ? &d->labels : &d->notes, at, format, args);
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

bool blu_diags_find(const BluDiags *ds, BluCode code) {
  for (int i = 0; i < ds->n; i++)
    if (ds->item[i]->code == code) return true;
  return false;
}

const char *blu_diag_code(const BluDiag *d) { return codes[d->code].code; }

const char *blu_diag_explain(const char *code) {
  for (int i = 0; i < BLU_CODES; i++)
    if (!strcmp(codes[i].code, code)) return codes[i].explanation;
  return NULL;
}
