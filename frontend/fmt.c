/* fmt.c - the canonical layout of a file (bluc fmt). Works on tokens: the user's line breaks stay, blanks and indentation
 * are ours, comments are kept where they stand. The result has the same tokens and formats to itself. */
#include <string.h>
#include "frontend.h"
#include "parse.h"
#include "parse_internal.h"
#include "grammar.h"

int blu_flex_lex(BLU_YYSTYPE *value, BluSpan *at, void *scanner);
int blu_flex_lex_init_extra(BluParser *p, void **scanner);
int blu_flex_lex_destroy(void *scanner);
struct yy_buffer_state *blu_flex__scan_bytes(const char *text, int n, void *scanner);

enum { COMMENT = 1, INDENT = 2, CONTINUED = 4, GAP = 2 };

typedef struct { int kind; size_t from, to; int breaks; /* line ends before it */ } Piece;
typedef struct { Piece *item; int n; } Pieces;
typedef struct { const char *code, *comment; int width; /* code points of code */ } Line;
typedef struct { int bracket, indent; } Open;

typedef struct {
  BluArena *arena;
  const char *text;
  Line *line;
  int nlines;
  char *now;          /* the line under construction */
  size_t used, room;
  const char *comment;
  Open open[BLU_MAX_NESTING + 1];
  int depth, indent;  /* brackets that are open; indentation of the current line */
} Format;

/* ---- pieces: tokens and comments ---- */

static void add(BluArena *a, Pieces *ps, Piece p) {
  ps->item = blu_arena_grow(a, ps->item, ps->n, sizeof *ps->item);
  ps->item[ps->n++] = p;
}

/* Comments in the gap between two tokens; returns the line ends since the last of them. */
static int add_comments(BluArena *a, Pieces *ps, const char *text, size_t from, size_t to) {
  int breaks = 0;
  for (size_t i = from; i < to; i++) {
    if (text[i] == '\n') breaks++;
    if (text[i] != '/') continue;
    size_t end = i;
    while (end < to && text[end] != '\n') end++;
    size_t last = end;
    while (last > i && strchr(" \t\r", text[last - 1])) last--;
    add(a, ps, (Piece){COMMENT, i, last, breaks});
    breaks = 0;
    i = end - 1;
  }
  return breaks;
}

static Pieces read_pieces(BluArena *a, const BluSource *s) {
  Pieces ps = {0};
  BluDiags *none = blu_diags_make();
  BluParser p = {.arena = a, .diags = none, .source = s, .line = 1, .col = 1};
  if (blu_flex_lex_init_extra(&p, &p.scanner)) return ps;
  blu_flex__scan_bytes(s->text, (int)s->size, p.scanner);
  size_t last = 0;
  for (;;) {
    BLU_YYSTYPE value;
    BluSpan at;
    int kind = blu_flex_lex(&value, &at, p.scanner);
    size_t to = kind ? p.offset : s->size, from = kind ? p.offset - p.length : s->size;
    int breaks = add_comments(a, &ps, s->text, last, from);
    if (!kind) break;
    add(a, &ps, (Piece){kind, from, to, breaks});
    last = to;
  }
  blu_flex_lex_destroy(p.scanner);
  blu_diags_free(none);
  return ps;
}

/* ---- blanks between two pieces of one line ---- */

static bool ends_operand(int k) {
  return k == IDENT || k == INT || k == REAL || k == STRING || k == HOLE || k == ')' || k == ']';
}

/* before: the piece before `prev`, to tell `-x` from `a - x`. */
static bool blank(int before, int prev, int k, int bracket) {
  if (k == ',' || k == ';' || k == ')' || k == ']' || k == '.' || prev == '.' || prev == '(' || prev == '[') return false;
  if (prev == ',' || prev == ';') return true;
  if (k == '(') return !(ends_operand(prev) && prev != STRING) && !(prev == '-' && !ends_operand(before));
  if (k == '[') return !ends_operand(prev) && !(prev == '-' && !ends_operand(before));
  if (k == DOTDOT || prev == DOTDOT) return k != DOTDOT && prev != DOTDOT;
  if (k == ':') return false;
  if (prev == ':') return bracket != '[';
  if (prev == '-') return ends_operand(before);
  return true;
}

/* ---- lines ---- */

static void write(Format *f, const char *s, size_t n) {
  if (f->used + n + 1 > f->room) {
    size_t room = 2 * (f->used + n + 64);
    char *more = blu_arena_alloc(f->arena, room);
    if (f->used) memcpy(more, f->now, f->used);
    f->now = more, f->room = room;
  }
  memcpy(f->now + f->used, s, n);
  f->used += n;
  f->now[f->used] = 0;
}

static void end_line(Format *f) {
  int width = 0;
  for (size_t i = 0; i < f->used; i++) width += ((unsigned char)f->now[i] & 0xC0) != 0x80;
  f->line = blu_arena_grow(f->arena, f->line, f->nlines, sizeof *f->line);
  f->line[f->nlines++] = (Line){f->used ? f->now : "", f->comment, width};
  f->now = NULL, f->used = f->room = 0, f->comment = NULL;
}

static void start_line(Format *f, int prev, int k) {
  bool closes = k == ')' || k == ']' || k == '}', inside = f->depth > 0;
  const Open *o = inside ? &f->open[f->depth - 1] : NULL;
  f->indent = !inside ? 0 : closes ? o->indent : o->indent + INDENT;
  bool whole = prev == 0 || prev == ';' || prev == '{' || prev == '}' || prev == COMMENT;
  if (k != COMMENT && !closes && !whole && (!inside || o->bracket == '{')) f->indent += CONTINUED;
  for (int i = 0; i < f->indent; i++) write(f, " ", 1);
}

static void track(Format *f, int k) {
  if (k == '(' || k == '[' || k == '{') {
    if (f->depth <= BLU_MAX_NESTING) f->open[f->depth] = (Open){k, f->indent};
    f->depth++;
  } else if ((k == ')' || k == ']' || k == '}') && f->depth) {
    f->depth--;
  }
}

/* Is a line end before this piece one that stays? */
static bool breaks(int prev, const Piece *p) {
  if (!p->breaks) return prev == COMMENT;
  if (prev == COMMENT) return true;
  return p->kind != ',' && p->kind != ';' && !(p->kind == ELSE && prev == '}');
}

static void layout(Format *f, const Pieces *ps) {
  int before = 0, prev = 0, code = 0; /* the last two pieces; the last one that is no comment */
  for (int i = 0; i < ps->n; i++) {
    const Piece *p = &ps->item[i];
    int k = p->kind;
    if (i && breaks(prev, p)) {
      end_line(f);
      if (p->breaks > 1 && prev != '{' && k != '}') end_line(f);
    } else if (k == COMMENT && i) {
      f->comment = blu_arena_copy(f->arena, f->text + p->from, p->to - p->from);
      prev = k;
      continue;
    }
    bool first = f->used == 0 && !f->comment;
    if (first) start_line(f, prev == COMMENT ? (code == ';' || code == '{' || code == '}' || !code ? 0 : code) : prev, k);
    else if (blank(before, prev, k, f->depth ? f->open[f->depth - 1].bracket : 0)) write(f, " ", 1);
    write(f, f->text + p->from, p->to - p->from);
    if (k != COMMENT) track(f, k), before = first ? code : prev, code = k;
    prev = k;
  }
  if (f->used || f->comment) end_line(f);
}

/* Comments behind code stand in one column for as long as lines that have them follow each other. */
static const char *join_lines(Format *f) {
  Format out = {.arena = f->arena};
  for (int i = 0; i < f->nlines;) {
    int end = i, widest = 0;
    for (; end < f->nlines && f->line[end].comment; end++)
      if (f->line[end].width > widest) widest = f->line[end].width;
    if (end == i) end++;
    for (; i < end; i++) {
      const Line *l = &f->line[i];
      write(&out, l->code, strlen(l->code));
      for (int k = l->width; l->comment && k < widest + GAP; k++) write(&out, " ", 1);
      if (l->comment) write(&out, l->comment, strlen(l->comment));
      write(&out, "\n", 1);
    }
  }
  return out.now ? out.now : "";
}

static const char *format_source(BluArena *a, const BluSource *s, Pieces *ps) {
  Format f = {.arena = a, .text = s->text};
  *ps = read_pieces(a, s);
  layout(&f, ps);
  return join_lines(&f);
}

/* Do two texts have the same pieces in the same order? */
static bool same_pieces(const char *x, const Pieces *a, const char *y, const Pieces *b) {
  if (a->n != b->n) return false;
  for (int i = 0; i < a->n; i++) {
    size_t n = a->item[i].to - a->item[i].from;
    if (a->item[i].kind != b->item[i].kind || n != b->item[i].to - b->item[i].from) return false;
    if (memcmp(x + a->item[i].from, y + b->item[i].from, n)) return false;
  }
  return true;
}

const char *blu_frontend_format(const BluFrontendOptions *o, BluDiags *ds, bool *changed) {
  BluArena *a = blu_diags_arena(ds);
  const char *why = NULL;
  BluSource *s = o->text ? blu_source_make(a, o->path, o->text, o->size) : blu_source_read(a, o->path, &why);
  if (!s) {
    s = blu_source_make(a, o->path, "", 0);
    blu_diags_add(ds, BLU_E_READ, blu_span_file(s), "can't be read: %s", why);
    return NULL;
  }
  blu_diags_add_source(ds, s);
  int errors = blu_diags_errors(ds);
  blu_parse(a, s, ds);
  if (blu_diags_errors(ds) > errors) return NULL;
  Pieces ps, again;
  const char *text = format_source(a, s, &ps);
  BluSource *out = blu_source_make(a, o->path, text, strlen(text));
  const char *twice = format_source(a, out, &again);
  if (!same_pieces(s->text, &ps, text, &again) || strcmp(text, twice)) {
    blu_diags_add(ds, BLU_E_FORMAT, blu_span_file(s), "the formatter would change what this file means; it stays as it is");
    return NULL;
  }
  *changed = strcmp(text, s->text) != 0;
  return text;
}
