/* nodes.c - makers of syntax tree nodes, one per kind, for grammar.y. They keep `depth`: a tree that is higher than
 * BLU_MAX_NESTING is refused here, where it is built, so that no walk of it can run out of stack. */
#include "parse_internal.h"

static int larger(int a, int b) { return a > b ? a : b; }
static int depth_of(const BluExpr *e) { return e ? e->depth : 0; }

/* The node itself if it is not too high, else an error in its place. */
static BluExpr *raise(BluParser *p, BluExpr *e, int below) {
  e->depth = below + 1;
  if (e->depth <= BLU_MAX_NESTING) return e;
  blu_parse_too_deep(p, e->span);
  return blu_parse_expr(p, BLU_EXPR_ERROR, e->span);
}

static int range_depth(BluRange r) { return larger(depth_of(r.from), depth_of(r.to)); }

BluExpr *blu_parse_expr(BluParser *p, BluExprKind kind, BluSpan span) {
  BluExpr *e = blu_arena_alloc(p->arena, sizeof *e);
  e->kind = kind;
  e->span = span;
  e->depth = 1;
  return e;
}

BluExpr *blu_parse_unary(BluParser *p, BluOperator op, BluSpan at, BluExpr *x) {
  BluExpr *e = blu_parse_expr(p, BLU_EXPR_UNARY, blu_span_join(at, x->span));
  e->u.op.op = op;
  e->u.op.left = x;
  e->u.op.at = at;
  return raise(p, e, x->depth);
}

BluExpr *blu_parse_binary(BluParser *p, BluOperator op, BluSpan at, BluExpr *x, BluExpr *y) {
  BluExpr *e = blu_parse_expr(p, BLU_EXPR_BINARY, blu_span_join(x->span, y->span));
  e->u.op.op = op;
  e->u.op.left = x;
  e->u.op.right = y;
  e->u.op.at = at;
  return raise(p, e, larger(x->depth, y->depth));
}

BluExpr *blu_parse_call(BluParser *p, BluExpr *callee, BluArgList args, BluSpan span) {
  BluExpr *e = blu_parse_expr(p, BLU_EXPR_CALL, span);
  e->u.call.callee = callee;
  e->u.call.args = args.first;
  int below = callee->depth;
  for (BluArg *a = args.first; a; a = a->next) below = larger(below, a->value->depth);
  return raise(p, e, below);
}

BluExpr *blu_parse_member(BluParser *p, BluExpr *of, BluName name, BluSpan span) {
  BluExpr *e = blu_parse_expr(p, BLU_EXPR_MEMBER, span);
  e->u.member.of = of;
  e->u.member.name = name;
  return raise(p, e, of->depth);
}

BluExpr *blu_parse_index(BluParser *p, BluExpr *of, BluSubs subs, BluSpan span) {
  BluExpr *e = blu_parse_expr(p, BLU_EXPR_INDEX, span);
  e->u.index.of = of;
  e->u.index.subs = subs.first;
  int below = of->depth;
  for (BluSub *s = subs.first; s; s = s->next) below = larger(below, larger(depth_of(s->from), depth_of(s->to)));
  return raise(p, e, below);
}

BluExpr *blu_parse_list(BluParser *p, BluExprKind kind, BluExprs items, BluSpan span) {
  BluExpr *e = blu_parse_expr(p, kind, span);
  e->u.list.first = items.first;
  e->u.list.n = items.n;
  int below = 0;
  for (BluExpr *i = items.first; i; i = i->next) below = larger(below, i->depth);
  return raise(p, e, below);
}

BluExpr *blu_parse_comprehension(BluParser *p, BluExpr *body, BluPattern pattern, BluRange range, BluSpan span) {
  BluExpr *e = blu_parse_expr(p, BLU_EXPR_COMPREHENSION, span);
  e->u.comp.body = body;
  e->u.comp.pattern = pattern;
  e->u.comp.range = range;
  return raise(p, e, larger(body->depth, range_depth(range)));
}

BluExpr *blu_parse_if(BluParser *p, BluExpr *cond, BluBlock *then, BluBlock *other, BluExpr *other_if, BluSpan span) {
  BluExpr *e = blu_parse_expr(p, BLU_EXPR_IF, span);
  e->u.cond.cond = cond;
  e->u.cond.then = then;
  e->u.cond.other = other;
  e->u.cond.other_if = other_if;
  return raise(p, e, larger(larger(cond->depth, then->depth), other ? other->depth : depth_of(other_if)));
}

BluBlock *blu_parse_block(BluParser *p, BluStmts stmts, BluExpr *result, BluSpan span) {
  BluBlock *b = blu_arena_alloc(p->arena, sizeof *b);
  b->stmts = stmts.first;
  b->result = result;
  b->span = span;
  b->depth = depth_of(result);
  for (BluStmt *s = stmts.first; s; s = s->next) b->depth = larger(b->depth, s->depth);
  return b;
}

BluStmt *blu_parse_stmt(BluParser *p, BluStmtKind kind, BluSpan span, BluPattern pattern, BluExpr *value) {
  BluStmt *s = blu_arena_alloc(p->arena, sizeof *s);
  s->kind = kind;
  s->span = span;
  s->pattern = pattern;
  s->value = value;
  s->depth = depth_of(value);
  return s;
}

BluStmt *blu_parse_for(BluParser *p, BluPattern pattern, BluRange range, BluBlock *body, BluSpan span) {
  BluStmt *s = blu_parse_stmt(p, BLU_STMT_FOR, span, pattern, NULL);
  s->range = range;
  s->body = body;
  s->depth = 1 + larger(range_depth(range), body->depth);
  if (s->depth <= BLU_MAX_NESTING) return s;
  blu_parse_too_deep(p, span);
  return blu_parse_stmt(p, BLU_STMT_ERROR, span, pattern, NULL);
}

BluPattern blu_parse_pattern(BluNameList names, bool tuple, BluSpan span) {
  return (BluPattern){names.first, names.n, tuple, span};
}

BluPattern blu_parse_lone(BluParser *p, BluName name) {
  return (BluPattern){blu_parse_name(p, name), 1, false, name.span};
}

BluName *blu_parse_name(BluParser *p, BluName name) {
  BluName *n = blu_arena_alloc(p->arena, sizeof *n);
  *n = name;
  return n;
}

BluSub *blu_parse_sub(BluParser *p, BluSubKind kind, BluExpr *from, BluExpr *to, BluSpan span) {
  BluSub *s = blu_arena_alloc(p->arena, sizeof *s);
  *s = (BluSub){kind, from, to, span, NULL};
  return s;
}

BluDim *blu_parse_dim(BluParser *p, BluDimKind kind, BluExpr *expr, BluSpan span) {
  BluDim *d = blu_arena_alloc(p->arena, sizeof *d);
  *d = (BluDim){kind, expr, span, NULL};
  return d;
}

BluTypeExpr *blu_parse_type(BluParser *p, BluName elem, BluDims dims, BluSpan span) {
  BluTypeExpr *t = blu_arena_alloc(p->arena, sizeof *t);
  *t = (BluTypeExpr){elem, dims.first, dims.n, span};
  return t;
}

BluParam *blu_parse_param(BluParser *p, BluName name, BluTypeExpr *type, BluExpr *init) {
  BluParam *q = blu_arena_alloc(p->arena, sizeof *q);
  *q = (BluParam){name, type, init, NULL};
  return q;
}

BluResult *blu_parse_result(BluParser *p, BluName name, BluTypeExpr *type) {
  BluResult *r = blu_arena_alloc(p->arena, sizeof *r);
  *r = (BluResult){name, type, NULL};
  return r;
}

BluFn *blu_parse_fn(BluParser *p, BluName name, BluSignature sig, BluBlock *body, BluSpan span) {
  BluFn *f = blu_arena_alloc(p->arena, sizeof *f);
  *f = (BluFn){name, sig, body, span};
  return f;
}

BluMember *blu_parse_member_decl(BluParser *p, BluMemberKind kind, BluSpan span) {
  BluMember *m = blu_arena_alloc(p->arena, sizeof *m);
  m->kind = kind;
  m->span = span;
  return m;
}

BluDecl *blu_parse_decl(BluParser *p, BluDeclKind kind, BluSpan span) {
  BluDecl *d = blu_arena_alloc(p->arena, sizeof *d);
  d->kind = kind;
  d->span = span;
  return d;
}

BluDecls blu_parse_add_decls(BluDecls list, BluDecl *more) {
  for (BluDecl *next; more; more = next) {
    next = more->next;
    BLU_APPEND(list, more);
  }
  return list;
}

BluDecl *blu_parse_set_kind(BluDecls list, BluDeclKind kind) {
  for (BluDecl *d = list.first; d; d = d->next) d->kind = kind;
  return list.first;
}
