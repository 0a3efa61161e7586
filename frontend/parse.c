/* parse.c - drives lexer and parser over one file: UTF-8, bracket depth, syntax errors. */
#include "parse.h"
#include <string.h>
#include "parse_internal.h"
#include "grammar.h"

int blu_yylex(BLU_YYSTYPE *value, BluSpan *at, BluParser *p);

/* Of the scanner that flex makes from lexer.l. */
int blu_flex_lex(BLU_YYSTYPE *value, BluSpan *at, void *scanner);
int blu_flex_lex_init_extra(BluParser *p, void **scanner);
int blu_flex_lex_destroy(void *scanner);
struct yy_buffer_state *blu_flex__scan_bytes(const char *text, int n, void *scanner);

void blu_parse_too_deep(BluParser *p, BluSpan at) {
  if (p->stopped) return;
  p->stopped = true;
  blu_diags_add(p->diags, BLU_E_NESTING, at, "nested deeper than %d; the rest of the file is not read",
                BLU_MAX_NESTING);
}

int blu_yylex(BLU_YYSTYPE *value, BluSpan *at, BluParser *p) {
  p->last = *at;
  int token = p->stopped ? 0 : blu_flex_lex(value, at, p->scanner);
  if (token == '(' || token == '[' || token == '{') {
    if (++p->brackets > BLU_MAX_NESTING) {
      blu_parse_too_deep(p, *at);
      token = 0;
    }
  } else if ((token == ')' || token == ']' || token == '}') && p->brackets) {
    p->brackets--;
  }
  if (token == 0) *at = (BluSpan){p->source, p->line, p->col, p->line, p->col};
  return token;
}

static bool has(const char *const *set, int n, const char *token) {
  for (int i = 0; i < n; i++)
    if (!strcmp(set[i], token)) return true;
  return false;
}

/* Tokens that start an expression, and those that carry one on; the messages sum them up. */
static const char *const firsts[] = {"a name", "an integer", "a number", "a string", "`not`",
                                     "`if`",   "'-'",        "'('",      "'['"};
static const char *const operators[] = {"`or`", "`and`", "`==`", "`!=`", "`<=`", "`>=`", "'<'", "'>'", "'+'",
                                        "'-'",  "'*'",   "'/'",  "'%'",  "'@'",  "'^'",  "'('", "'['", "'.'"};
enum { FIRSTS = sizeof firsts / sizeof *firsts, OPERATORS = sizeof operators / sizeof *operators };

static const char *show(BluParser *p, const char *token) {
  return token[0] == '\'' ? blu_arena_print(p->arena, "`%c`", token[1]) : token;
}

/* "a name" as it follows "unexpected". */
static const char *without_article(const char *s) {
  return !strncmp(s, "a ", 2) ? s + 2 : !strncmp(s, "an ", 3) ? s + 3 : s;
}

/* Is this what a token's span holds? False for a line of more than ASCII, whose columns are not bytes. */
static bool reads(BluSpan at, const char *text) {
  size_t n, length = strlen(text);
  if (!at.src || at.line != at.end_line || (size_t)(at.end_col - at.col) != length) return false;
  const char *line = blu_source_line(at.src, at.line, &n);
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)line[i] >= 0x80) return false;
  return (size_t)(at.end_col - 1) <= n && !strncmp(line + at.col - 1, text, length);
}

/* What programmers of other languages write, at the place where it stops to be Blu. */
static void other_language(BluParser *p, BluDiag *d, const char *found, const char *const *expected, int n, bool starts) {
  if (reads(p->last, "return")) blu_diag_help(d, "the value of a function is the last expression of its body: there is no `return`");
  else if (!found) return;
  else if (starts && !strcmp(found, "'*'") && reads(p->last, "*")) blu_diag_help(d, "a power is written `x ^ y`");
  else if (starts && !strcmp(found, "'='")) blu_diag_help(d, "a variable, declared by `var x = ...`, takes a new value by `x = x + ...`");
  else if (!strcmp(found, "','") && n == 1 && has(expected, n, "'='")) blu_diag_help(d, "several names stand in brackets: `let (a, b) = ...`");
}

void blu_parse_unexpected(BluParser *p, BluSpan at, const char *found, const char *const *expected, int n) {
  if (p->stopped || p->bad_line == at.line) return;
  if (p->bad_line && p->bad_line == p->last.line) return;
  if (has(expected, n, "';'") && p->last.line && at.line > p->last.end_line) {
    BluSpan after = {p->last.src, p->last.end_line, p->last.end_col, p->last.end_line, p->last.end_col + 1};
    blu_diags_add(p->diags, BLU_E_SYNTAX, after, "expected `;` here");
    return;
  }
  bool starts = has(expected, n, "an integer") && has(expected, n, "`not`"), goes_on = has(expected, n, "'^'");
  enum { FEW = 6 };
  const char *item[FEW];
  int items = 0, all = 0;
  if (starts) item[items++] = "an expression", all++;
  for (int i = 0; i < n; i++) {
    if ((starts && has(firsts, FIRSTS, expected[i])) || (goes_on && has(operators, OPERATORS, expected[i]))) continue;
    if (all++ < FEW) item[items++] = show(p, expected[i]);
  }
  const char *list = "";
  for (int i = 0; i < items && all <= FEW; i++)
    list = blu_arena_print(p->arena, "%s%s%s", list, i == 0 ? ": expected " : i == items - 1 ? " or " : ", ", item[i]);
  BluDiag *d = blu_diags_add(p->diags, BLU_E_SYNTAX, at, "unexpected %s%s",
                             found ? without_article(show(p, found)) : "text", list);
  p->bad_line = at.line;
  static const char *const comparisons[] = {"`==`", "`!=`", "`<=`", "`>=`", "'<'", "'>'"};
  if (found && has(comparisons, 6, found) && has(expected, n, "'+'"))
    blu_diag_help(d, "comparisons don't chain: `a < b and b < c`");
  else if (found && !strcmp(found, "`..`") && has(expected, n, "':'"))
    blu_diag_help(d, "a part of a tensor or list is `x[a:b]`; `a..b` is the range of a loop");
  else if (found && starts && !strcmp(found, "`if`"))
    blu_diag_help(d, "`if` is no operand: put it in brackets, `(if c { a } else { b })`");
  else if (found && found[0] == '`' && found[1] >= 'a' && found[1] <= 'z' && has(expected, n, "a name"))
    blu_diag_help(d, "%s is a reserved word and can't be a name", found);
  else other_language(p, d, found, expected, n, starts);
}

BluFile *blu_parse(BluArena *a, const BluSource *s, BluDiags *ds) {
  BluFile *f = blu_arena_alloc(a, sizeof *f);
  f->source = s;
  BluSpan bad;
  if (blu_source_bad_utf8(s, &bad)) {
    blu_diags_add(ds, BLU_E_UTF8, bad, "this is not UTF-8 text");
    return f;
  }
  BluParser p = {.arena = a, .diags = ds, .source = s, .line = 1, .col = 1, .file = f};
  if (blu_flex_lex_init_extra(&p, &p.scanner)) return f;
  blu_flex__scan_bytes(s->text, (int)s->size, p.scanner);
  int errors = blu_diags_errors(ds);
  /* Tokens that recovery could not place end the parse: there is an error then, or the stack was full. */
  if (blu_yyparse(&p) && blu_diags_errors(ds) == errors) blu_parse_too_deep(&p, p.last);
  blu_flex_lex_destroy(p.scanner);
  return f;
}
