/* ast.h - the syntax tree: what the parser builds, and checking and elaboration read.
 *
 * Every node knows its span. Nodes live in an arena; the parser's lists are linked through `next`, a node is in one
 * list. `depth` is the height of the tree below a node, so that the parser can refuse what recursion could not walk. */
#ifndef BLU_FRONTEND_AST_H
#define BLU_FRONTEND_AST_H
#include <stdint.h>
#include "source.h"

enum { BLU_MAX_NESTING = 256 };

typedef struct BluExpr BluExpr;
typedef struct BluStmt BluStmt;
typedef struct BluBlock BluBlock;

/* parts: of a pattern, a tuple of names in the place of one, whose text is NULL. */
typedef struct BluName { const char *text; BluSpan span; struct BluName *next, *parts; int nparts; } BluName;

/* `x`, `(a, b)`, `((a, b), c)`; a name `_` takes nothing. */
typedef struct { BluName *names; int n; bool tuple; BluSpan span; } BluPattern;

/* ---- types ---- */

typedef enum { BLU_DIM_EXPR, BLU_DIM_REST /* .. */, BLU_DIM_HOLE /* _ */ } BluDimKind;
typedef struct BluDim { BluDimKind kind; BluExpr *expr; BluSpan span; struct BluDim *next; } BluDim;
typedef struct { BluName elem; BluDim *dims; int ndims; BluSpan span; } BluTypeExpr;

typedef struct BluParam {
  BluName name;
  BluTypeExpr *type; /* NULL: anything */
  BluExpr *init;     /* NULL: required */
  struct BluParam *next;
} BluParam;
typedef struct BluResult { BluName name; /* text NULL: none */ BluTypeExpr *type; struct BluResult *next; } BluResult;
typedef struct {
  BluParam *params;
  int nparams;
  BluResult *results; /* NULL: unchecked */
  int nresults;
  bool tuple;         /* results stand in brackets */
  BluSpan span;
} BluSignature;

/* ---- expressions ---- */

typedef enum {
  BLU_EXPR_ERROR, BLU_EXPR_NAME, BLU_EXPR_INT, BLU_EXPR_REAL, BLU_EXPR_STRING, BLU_EXPR_UNARY, BLU_EXPR_BINARY,
  BLU_EXPR_CALL, BLU_EXPR_MEMBER, BLU_EXPR_INDEX, BLU_EXPR_LIST, BLU_EXPR_COMPREHENSION, BLU_EXPR_TUPLE, BLU_EXPR_IF
} BluExprKind;

typedef enum {
  BLU_OP_NEG, BLU_OP_NOT,
  BLU_OP_ADD, BLU_OP_SUB, BLU_OP_MUL, BLU_OP_DIV, BLU_OP_MOD, BLU_OP_POW, BLU_OP_MATMUL,
  BLU_OP_EQ, BLU_OP_NE, BLU_OP_LT, BLU_OP_LE, BLU_OP_GT, BLU_OP_GE, BLU_OP_AND, BLU_OP_OR
} BluOperator;

typedef struct BluArg { BluName name; /* text NULL: by place */ BluExpr *value; struct BluArg *next; } BluArg;

typedef enum { BLU_SUB_AT, BLU_SUB_RANGE, BLU_SUB_REST } BluSubKind;
typedef struct BluSub { BluSubKind kind; BluExpr *from, *to; BluSpan span; struct BluSub *next; } BluSub;

typedef struct { BluExpr *from, *to; /* to NULL: `from` is a list */ BluSpan span; } BluRange;

struct BluExpr {
  BluExprKind kind;
  int depth;
  BluSpan span;
  BluExpr *next;
  union {
    const char *name; /* NAME, STRING (escapes resolved) */
    int64_t i;
    double real;
    struct { BluOperator op; BluExpr *left, *right; BluSpan at; } op; /* UNARY: left alone; `at` is the operator */
    struct { BluExpr *callee; BluArg *args; } call;
    struct { BluExpr *of; BluName name; } member;
    struct { BluExpr *of; BluSub *subs; } index;
    struct { BluExpr *first; int n; } list; /* LIST, TUPLE */
    struct { BluExpr *body; BluPattern pattern; BluRange range; } comp;
    struct { BluExpr *cond; BluBlock *then; BluExpr *other_if; BluBlock *other; } cond; /* both `other` NULL: no else */
  } u;
};

/* ---- statements ---- */

typedef enum {
  BLU_STMT_ERROR, BLU_STMT_LET, BLU_STMT_VAR,
  BLU_STMT_SET,     /* x = e; in a train block also a setting, perhaps with `per` */
  BLU_STMT_COMMIT,  /* x := e; */
  BLU_STMT_LABELLED,/* metric accuracy = e per w; optimizer "h.*" = e; */
  BLU_STMT_FOR, BLU_STMT_IF
} BluStmtKind;

struct BluBlock { BluStmt *stmts; BluExpr *result; /* NULL: none */ BluSpan span; int depth; };

struct BluStmt {
  BluStmtKind kind;
  int depth;
  BluSpan span;
  BluStmt *next;
  BluName label;      /* LABELLED: `metric`, or `optimizer` whose pattern is a string */
  BluPattern pattern; /* LET, FOR; a single name: VAR, SET, COMMIT, LABELLED */
  BluExpr *value;     /* IF: the whole `if` */
  BluExpr *per;
  BluRange range;
  BluBlock *body;
};

/* ---- declarations ---- */

typedef struct BluFn { BluName name; /* text NULL: unnamed */ BluSignature sig; BluBlock *body; BluSpan span; } BluFn;

typedef enum {
  BLU_MEMBER_ERROR,
  BLU_MEMBER_LET,
  BLU_MEMBER_PARAM,
  BLU_MEMBER_STATE,
  BLU_MEMBER_CACHE,
  BLU_MEMBER_FN
} BluMemberKind;

typedef struct BluMember {
  BluMemberKind kind;
  BluSpan span;
  BluName label;      /* PARAM: the word before it, `frozen`; text NULL: none */
  BluPattern pattern; /* names of LET, PARAM, STATE, CACHE */
  BluTypeExpr *type;  /* PARAM, CACHE; STATE may lack it */
  BluExpr *value;     /* LET; initial value of PARAM and STATE */
  BluFn *fn;
  struct BluMember *next;
} BluMember;

typedef enum {
  BLU_DECL_ERROR,
  BLU_DECL_IMPORT,
  BLU_DECL_CONST,
  BLU_DECL_RUN,
  BLU_DECL_LET,
  BLU_DECL_FN,
  BLU_DECL_MODULE,
  BLU_DECL_OPTIMIZER,
  BLU_DECL_TRAIN,
  BLU_DECL_ENTRY
} BluDeclKind;

typedef struct BluDecl {
  BluDeclKind kind;
  BluSpan span;
  BluName name;       /* IMPORT, CONST, RUN, MODULE, OPTIMIZER */
  bool path;          /* IMPORT: the name is a file */
  BluPattern pattern; /* LET */
  BluExpr *value;     /* CONST, RUN, LET */
  BluFn *fn;          /* FN, ENTRY */
  BluParam *params;   /* MODULE, OPTIMIZER, TRAIN */
  BluMember *members; /* MODULE, OPTIMIZER */
  BluName source;     /* TRAIN: data source, text NULL if none */
  BluArg *args;       /* TRAIN: of the source */
  BluStmt *settings;  /* TRAIN */
  struct BluDecl *next;
} BluDecl;

typedef struct { const BluSource *source; BluDecl *decls; } BluFile;

const char *blu_operator_text(BluOperator op);
const char *blu_decl_word(BluDeclKind k);   /* "const" */
const char *blu_member_word(BluMemberKind k);

#endif
