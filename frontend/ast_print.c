/* ast_print.c - a line is `(kind detail @line:col-line:col`, children follow, `)` closes the last one. */
#include "ast_print.h"
#include <inttypes.h>
#include <stdlib.h>

typedef struct { FILE *out; int depth; } Printer;

static void open(Printer *p, const char *kind, const char *detail, BluSpan at) {
  fprintf(p->out, "%s%*s(%s", p->depth ? "\n" : "", 2 * p->depth, "", kind);
  if (detail) fprintf(p->out, " %s", detail);
  fprintf(p->out, " @%d:%d-%d:%d", at.line, at.col, at.end_line, at.end_col);
  p->depth++;
}

static void shut(Printer *p) {
  fputc(')', p->out);
  p->depth--;
}

static void print_expr(Printer *p, const BluExpr *e);
static void print_block(Printer *p, const BluBlock *b);

static void print_quoted(FILE *out, const char *s) {
  fputc('"', out);
  for (; *s; s++) {
    if (*s == '\n') fputs("\\n", out);
    else if (*s == '\t') fputs("\\t", out);
    else if (*s == '"' || *s == '\\') fprintf(out, "\\%c", *s);
    else fputc(*s, out);
  }
  fputc('"', out);
}

/* The shortest decimal that reads back as the same number. */
static void print_real(FILE *out, double x) {
  char buf[40];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(buf, sizeof buf, "%.*g", digits, x);
    if (strtod(buf, NULL) == x) break;
  }
  fprintf(out, " %s", buf);
}

static void print_leaf(Printer *p, const char *kind, const char *detail, BluSpan at) {
  open(p, kind, detail, at);
  shut(p);
}

static void print_names(Printer *p, const BluName *names) {
  for (const BluName *n = names; n; n = n->next) {
    if (!n->parts) {
      print_leaf(p, "name", n->text, n->span);
      continue;
    }
    open(p, "tuple-pattern", NULL, n->span);
    print_names(p, n->parts);
    shut(p);
  }
}

static void print_pattern(Printer *p, const BluPattern *q) {
  if (!q->names) return;
  if (q->n == 1 && !q->tuple) {
    print_leaf(p, "name", q->names->text, q->names->span);
    return;
  }
  open(p, q->tuple ? "tuple-pattern" : "names", NULL, q->span);
  print_names(p, q->names);
  shut(p);
}

static void print_range(Printer *p, const BluRange *r) {
  open(p, r->to ? "range" : "in", NULL, r->span);
  print_expr(p, r->from);
  if (r->to) print_expr(p, r->to);
  shut(p);
}

static void print_type(Printer *p, const BluTypeExpr *t) {
  open(p, "type", t->elem.text, t->span);
  for (const BluDim *d = t->dims; d; d = d->next) {
    if (d->kind == BLU_DIM_EXPR) print_expr(p, d->expr);
    else print_leaf(p, d->kind == BLU_DIM_REST ? "rest" : "hole", NULL, d->span);
  }
  shut(p);
}

static void print_args(Printer *p, const BluArg *a) {
  for (; a; a = a->next) {
    if (a->name.text) open(p, "named", a->name.text, a->name.span);
    print_expr(p, a->value);
    if (a->name.text) shut(p);
  }
}

static void print_subs(Printer *p, const BluSub *s) {
  static const char *const word[] = {[BLU_SUB_AT] = "at", [BLU_SUB_RANGE] = "slice", [BLU_SUB_REST] = "rest"};
  for (; s; s = s->next) {
    open(p, word[s->kind], NULL, s->span);
    if (s->from) print_expr(p, s->from);
    if (s->to) {
      open(p, "to", NULL, s->to->span);
      print_expr(p, s->to);
      shut(p);
    }
    shut(p);
  }
}

static void print_expr(Printer *p, const BluExpr *e) {
  FILE *out = p->out;
  switch (e->kind) {
    case BLU_EXPR_ERROR: open(p, "error", NULL, e->span); break;
    case BLU_EXPR_NAME: open(p, "name", e->u.name, e->span); break;
    case BLU_EXPR_INT:
      open(p, "int", NULL, e->span);
      fprintf(out, " %" PRId64, e->u.i);
      break;
    case BLU_EXPR_REAL:
      open(p, "real", NULL, e->span);
      print_real(out, e->u.real);
      break;
    case BLU_EXPR_STRING:
      open(p, "string", NULL, e->span);
      fputc(' ', out);
      print_quoted(out, e->u.name);
      break;
    case BLU_EXPR_UNARY:
    case BLU_EXPR_BINARY:
      open(p, e->kind == BLU_EXPR_UNARY ? "unary" : "binary", blu_operator_text(e->u.op.op), e->span);
      print_expr(p, e->u.op.left);
      if (e->u.op.right) print_expr(p, e->u.op.right);
      break;
    case BLU_EXPR_CALL:
      open(p, "call", NULL, e->span);
      print_expr(p, e->u.call.callee);
      print_args(p, e->u.call.args);
      break;
    case BLU_EXPR_MEMBER:
      open(p, "member", e->u.member.name.text, e->span);
      print_expr(p, e->u.member.of);
      break;
    case BLU_EXPR_INDEX:
      open(p, "index", NULL, e->span);
      print_expr(p, e->u.index.of);
      print_subs(p, e->u.index.subs);
      break;
    case BLU_EXPR_LIST:
    case BLU_EXPR_TUPLE:
      open(p, e->kind == BLU_EXPR_LIST ? "list" : "tuple", NULL, e->span);
      for (const BluExpr *i = e->u.list.first; i; i = i->next) print_expr(p, i);
      break;
    case BLU_EXPR_COMPREHENSION:
      open(p, "comprehension", NULL, e->span);
      print_expr(p, e->u.comp.body);
      print_pattern(p, &e->u.comp.pattern);
      print_range(p, &e->u.comp.range);
      break;
    case BLU_EXPR_IF:
      open(p, "if", NULL, e->span);
      print_expr(p, e->u.cond.cond);
      print_block(p, e->u.cond.then);
      if (e->u.cond.other) print_block(p, e->u.cond.other);
      if (e->u.cond.other_if) print_expr(p, e->u.cond.other_if);
      break;
  }
  shut(p);
}

static void print_stmts(Printer *p, const BluStmt *s) {
  static const char *const word[] = {
    [BLU_STMT_ERROR] = "error", [BLU_STMT_LET] = "let", [BLU_STMT_VAR] = "var", [BLU_STMT_SET] = "set",
    [BLU_STMT_COMMIT] = "commit", [BLU_STMT_LABELLED] = "labelled", [BLU_STMT_FOR] = "for", [BLU_STMT_IF] = "do"};
  for (; s; s = s->next) {
    open(p, word[s->kind], s->label.text, s->span);
    print_pattern(p, &s->pattern);
    if (s->kind == BLU_STMT_FOR) print_range(p, &s->range);
    if (s->value) print_expr(p, s->value);
    if (s->per) {
      open(p, "per", NULL, s->per->span);
      print_expr(p, s->per);
      shut(p);
    }
    if (s->body) print_block(p, s->body);
    shut(p);
  }
}

static void print_block(Printer *p, const BluBlock *b) {
  open(p, "block", NULL, b->span);
  print_stmts(p, b->stmts);
  if (b->result) {
    open(p, "value", NULL, b->result->span);
    print_expr(p, b->result);
    shut(p);
  }
  shut(p);
}

static void print_params(Printer *p, const BluParam *q) {
  for (; q; q = q->next) {
    open(p, "parameter", q->name.text, q->name.span);
    if (q->type) print_type(p, q->type);
    if (q->init) print_expr(p, q->init);
    shut(p);
  }
}

static void print_fn_parts(Printer *p, const BluFn *f) {
  print_params(p, f->sig.params);
  for (const BluResult *r = f->sig.results; r; r = r->next) {
    open(p, "result", r->name.text, r->type->span);
    print_type(p, r->type);
    shut(p);
  }
  print_block(p, f->body);
}

static void print_member(Printer *p, const BluMember *m) {
  open(p, blu_member_word(m->kind), m->fn ? m->fn->name.text : NULL, m->span);
  if (m->label.text) print_leaf(p, "label", m->label.text, m->label.span);
  print_pattern(p, &m->pattern);
  if (m->type) print_type(p, m->type);
  if (m->value) print_expr(p, m->value);
  if (m->fn) print_fn_parts(p, m->fn);
  shut(p);
}

static void print_decl(Printer *p, const BluDecl *d) {
  open(p, blu_decl_word(d->kind), d->path || d->kind == BLU_DECL_TRAIN ? NULL : d->name.text, d->span);
  if (d->path) {
    fputc(' ', p->out);
    print_quoted(p->out, d->name.text);
  }
  print_pattern(p, &d->pattern);
  print_params(p, d->params);
  if (d->source.text) {
    open(p, "from", d->source.text, d->source.span);
    print_args(p, d->args);
    shut(p);
  }
  if (d->value) print_expr(p, d->value);
  if (d->fn) print_fn_parts(p, d->fn);
  for (const BluMember *m = d->members; m; m = m->next) print_member(p, m);
  print_stmts(p, d->settings);
  shut(p);
}

void blu_ast_print(const BluFile *f, FILE *out) {
  Printer p = {out, 0};
  fputs("(file", out);
  p.depth = 1;
  for (const BluDecl *d = f->decls; d; d = d->next) print_decl(&p, d);
  fputs(")\n", out);
}
