/* parse_internal.h - what lexer.l, grammar.y and parse.c share: the parser's state and the makers of nodes. */
#ifndef BLU_FRONTEND_PARSE_INTERNAL_H
#define BLU_FRONTEND_PARSE_INTERNAL_H
#include "ast.h"
#include "diag.h"

typedef struct {
  BluArena *arena;
  BluDiags *diags;
  const BluSource *source;
  void *scanner;
  int line, col;   /* of the next character */
  size_t offset, length; /* bytes read so far; of the last token */
  int brackets;    /* open now */
  bool stopped;    /* too deep: the rest of the text is not read */
  int bad_line;    /* last line with a bad token: what the grammar says about that line would only confuse */
  BluSpan last;    /* the token before the current one */
  BluFile *file;   /* the result */
} BluParser;

/* A list under construction. */
typedef struct { BluExpr *first, *last; int n; } BluExprs;
typedef struct { BluStmt *first, *last; } BluStmts;
typedef struct { BluDecl *first, *last; } BluDecls;
typedef struct { BluMember *first, *last; } BluMembers;
typedef struct { BluParam *first, *last; int n; } BluParams;
typedef struct { BluResult *first, *last; int n; } BluResults;
typedef struct { BluName *first, *last; int n; } BluNameList;
typedef struct { BluDim *first, *last; int n; } BluDims;
typedef struct { BluArg *first, *last; } BluArgList;
typedef struct { BluSub *first, *last; } BluSubs;

#define BLU_APPEND(list, node)                                         \
  (*((list).last ? &(list).last->next : &(list).first) = (node),       \
   (list).last = (list).last ? (list).last->next : (list).first)

void blu_parse_too_deep(BluParser *p, BluSpan at); /* reports once and ends the parse */
/* Reports a syntax error. Tokens are named as in grammar.y: `for`, 'x' for a character, "a name"; NULL: unknown. */
void blu_parse_unexpected(BluParser *p, BluSpan at, const char *found, const char *const *expected, int n);

BluExpr *blu_parse_expr(BluParser *p, BluExprKind kind, BluSpan span);
BluExpr *blu_parse_unary(BluParser *p, BluOperator op, BluSpan at, BluExpr *x);
BluExpr *blu_parse_binary(BluParser *p, BluOperator op, BluSpan at, BluExpr *x, BluExpr *y);
BluExpr *blu_parse_call(BluParser *p, BluExpr *callee, BluArgList args, BluSpan span);
BluExpr *blu_parse_member(BluParser *p, BluExpr *of, BluName name, BluSpan span);
BluExpr *blu_parse_index(BluParser *p, BluExpr *of, BluSubs subs, BluSpan span);
BluExpr *blu_parse_list(BluParser *p, BluExprKind kind, BluExprs items, BluSpan span);
BluExpr *blu_parse_comprehension(BluParser *p, BluExpr *body, BluPattern pattern, BluRange range, BluSpan span);
BluExpr *blu_parse_if(BluParser *p, BluExpr *cond, BluBlock *then, BluBlock *other, BluExpr *other_if, BluSpan span);
BluBlock *blu_parse_block(BluParser *p, BluStmts stmts, BluExpr *result, BluSpan span);
BluStmt *blu_parse_stmt(BluParser *p, BluStmtKind kind, BluSpan span, BluPattern pattern, BluExpr *value);
BluStmt *blu_parse_for(BluParser *p, BluPattern pattern, BluRange range, BluBlock *body, BluSpan span);
BluPattern blu_parse_pattern(BluNameList names, bool tuple, BluSpan span);
BluPattern blu_parse_lone(BluParser *p, BluName name); /* the pattern of one name */
BluName *blu_parse_name(BluParser *p, BluName name);
BluSub *blu_parse_sub(BluParser *p, BluSubKind kind, BluExpr *from, BluExpr *to, BluSpan span);
BluDim *blu_parse_dim(BluParser *p, BluDimKind kind, BluExpr *expr, BluSpan span);
BluTypeExpr *blu_parse_type(BluParser *p, BluName elem, BluDims dims, BluSpan span);
BluParam *blu_parse_param(BluParser *p, BluName name, BluTypeExpr *type, BluExpr *init);
BluResult *blu_parse_result(BluParser *p, BluName name, BluTypeExpr *type);
BluFn *blu_parse_fn(BluParser *p, BluName name, BluSignature sig, BluBlock *body, BluSpan span);
BluMember *blu_parse_member_decl(BluParser *p, BluMemberKind kind, BluSpan span);
BluDecls blu_parse_add_decls(BluDecls list, BluDecl *more);
BluDecl *blu_parse_set_kind(BluDecls list, BluDeclKind kind); /* of all; the first of them */
BluDecl *blu_parse_decl(BluParser *p, BluDeclKind kind, BluSpan span);

#endif
