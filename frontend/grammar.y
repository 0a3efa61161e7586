/* grammar.y - the grammar of the language, free of conflicts. A production builds its node and nothing else; what is
 * more than syntax is judged by check.c and elab*.c. After an error the parser goes on behind the next `;` or `}`. */
%require "3.8"
%define api.prefix {blu_yy}
%define api.pure full
%define api.location.type {BluSpan}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%param {BluParser *p}

%code requires {
#include "parse_internal.h"
}

%union {
  const char *name;
  int64_t i;
  double real;
  BluOperator op;
  BluName ident;
  BluExpr *expr;
  BluExprs exprs;
  BluBlock *block;
  BluStmt *stmt;
  BluStmts stmts;
  BluPattern pattern;
  BluRange range;
  BluNameList names;
  BluSub *sub;
  BluSubs subs;
  BluDim *dim;
  BluDims dims;
  BluTypeExpr *type;
  BluParam *param;
  BluParams params;
  BluResult *result;
  BluResults results;
  BluSignature sig;
  BluArg *arg;
  BluArgList args;
  BluFn *fn;
  BluMember *member;
  BluMembers members;
  BluDecl *decl;
  BluDecls decls;
}

%code {
int blu_yylex(BLU_YYSTYPE *value, BluSpan *at, BluParser *p); /* parse.c */
static void blu_yyerror(BluSpan *at, BluParser *p, const char *message);

#define YYLLOC_DEFAULT(current, rhs, n)                                                   \
  do {                                                                                    \
    if (n) (current) = blu_span_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n));                 \
    else (current) = (BluSpan){YYRHSLOC(rhs, 0).src, YYRHSLOC(rhs, 0).end_line,           \
      YYRHSLOC(rhs, 0).end_col, YYRHSLOC(rhs, 0).end_line, YYRHSLOC(rhs, 0).end_col};     \
  } while (0)
}

%token <name> IDENT "a name" STRING "a string"
%token <i> INT "an integer"
%token <real> REAL "a number"
%token IMPORT "`import`" CONST "`const`" RUN "`run`" LET "`let`" VAR "`var`" FN "`fn`" MODULE "`module`" PARAM "`param`"
  STATE "`state`" CACHE "`cache`" FOR "`for`" IN "`in`" IF "`if`" ELSE "`else`" TRAIN "`train`" FROM "`from`"
  ENTRY "`entry`" OPTIMIZER "`optimizer`" PER "`per`" NOT "`not`" AND "`and`" OR "`or`"
%token ARROW "`->`" COMMIT "`:=`" DOTDOT "`..`" LE "`<=`" GE "`>=`" EQ "`==`" NE "`!=`" HOLE "`_`"
%token END 0 "the end of the file"

%left OR
%left AND
%precedence NOT
%nonassoc '<' '>' GE LE EQ NE
%left '+' '-'
%left '*' '/' '%' '@'
%precedence NEGATION
%right '^'

%type <ident> ident label part
%type <names> names parts
%type <pattern> pattern
%type <expr> expr postfix value if_value if_stmt
%type <exprs> exprs
%type <block> block
%type <stmt> stmt setting assignment
%type <stmts> stmts settings
%type <range> range
%type <sub> sub
%type <subs> subs
%type <dim> dim
%type <dims> dims
%type <type> type
%type <param> param
%type <params> params params1
%type <result> result
%type <results> results
%type <sig> sig
%type <arg> arg
%type <args> args args1
%type <fn> fn
%type <member> member
%type <members> members
%type <decl> item source
%type <decls> items bindings

%start file

%%

file: items                                     { p->file->decls = $1.first; }
    ;
items: %empty                                   { $$ = (BluDecls){0}; }
    | items item                                { $$ = blu_parse_add_decls($1, $2); }
    ;

/* ---- declarations ---- */

item: IMPORT ident ';'                          { $$ = blu_parse_decl(p, BLU_DECL_IMPORT, @$); $$->name = $2; }
    | IMPORT STRING ';'                         { $$ = blu_parse_decl(p, BLU_DECL_IMPORT, @$);
                                                  $$->name = (BluName){.text = $2, .span = @2};
                                                  $$->path = true; }
    | CONST bindings ';'                        { $$ = blu_parse_set_kind($2, BLU_DECL_CONST); }
    | RUN bindings ';'                          { $$ = blu_parse_set_kind($2, BLU_DECL_RUN); }
    | LET pattern '=' value ';'                 { $$ = blu_parse_decl(p, BLU_DECL_LET, @$); $$->pattern = $2;
                                                  $$->value = $4; }
    | LET pattern '=' error ';'                 { $$ = blu_parse_decl(p, BLU_DECL_LET, @$); $$->pattern = $2;
                                                  $$->value = blu_parse_expr(p, BLU_EXPR_ERROR, @4); yyerrok; }
    | fn                                        { $$ = blu_parse_decl(p, BLU_DECL_FN, @$); $$->fn = $1;
                                                  $$->name = $1->name; }
    | MODULE ident '(' params ')' '{' members '}'
                                                { $$ = blu_parse_decl(p, BLU_DECL_MODULE, @$); $$->name = $2;
                                                  $$->params = $4.first;
                                                  $$->members = $7.first; }
    | OPTIMIZER ident '(' params ')' '{' members '}'
                                                { $$ = blu_parse_decl(p, BLU_DECL_OPTIMIZER, @$); $$->name = $2;
                                                  $$->params = $4.first;
                                                  $$->members = $7.first; }
    | TRAIN '(' params ')' source '{' settings '}'
                                                { $$ = $5; $$->span = @$; $$->params = $3.first;
                                                  $$->settings = $7.first;
                                                  $$->name = (BluName){.text = "train", .span = @1}; }
    | ENTRY ident sig block                     { $$ = blu_parse_decl(p, BLU_DECL_ENTRY, @$); $$->name = $2;
                                                  $$->fn = blu_parse_fn(p, $2, $3, $4, @$); }
    | error ';'                                 { $$ = blu_parse_decl(p, BLU_DECL_ERROR, @$); yyerrok; }
    | error '}'                                 { $$ = blu_parse_decl(p, BLU_DECL_ERROR, @$); yyerrok; }
    ;
source: %empty                                  { $$ = blu_parse_decl(p, BLU_DECL_TRAIN, @$); }
    | FROM ident                                { $$ = blu_parse_decl(p, BLU_DECL_TRAIN, @$); $$->source = $2; }
    | FROM ident '(' args ')'                   { $$ = blu_parse_decl(p, BLU_DECL_TRAIN, @$); $$->source = $2;
                                                  $$->args = $4.first; }
    ;
bindings: ident '=' error                       { $$ = (BluDecls){0}; BluDecl *d = blu_parse_decl(p, BLU_DECL_CONST,
                                                  @$);
                                                d->name = $1; d->value = blu_parse_expr(p, BLU_EXPR_ERROR, @3);
                                                  BLU_APPEND($$, d); }
    | ident '=' expr                            { $$ = (BluDecls){0}; BluDecl *d = blu_parse_decl(p, BLU_DECL_CONST,
                                                  @$);
                                                  d->name = $1; d->value = $3; BLU_APPEND($$, d); }
    | bindings ',' ident '=' expr               { $$ = $1; BluDecl *d = blu_parse_decl(p, BLU_DECL_CONST,
                                                  blu_span_join(@3, @5));
                                                  d->name = $3; d->value = $5; BLU_APPEND($$, d); }
    ;
fn: FN ident sig block                          { $$ = blu_parse_fn(p, $2, $3, $4, @$); }
    ;
members: %empty                                 { $$ = (BluMembers){0}; }
    | members member                            { $$ = $1; BLU_APPEND($$, $2); }
    ;
member: LET pattern '=' value ';'               { $$ = blu_parse_member_decl(p, BLU_MEMBER_LET, @$); $$->pattern = $2;
                                                  $$->value = $4; }
    | LET pattern '=' error ';'                 { $$ = blu_parse_member_decl(p, BLU_MEMBER_LET, @$); $$->pattern = $2;
                                                  $$->value = blu_parse_expr(p, BLU_EXPR_ERROR, @4); yyerrok; }
    | PARAM names ':' type '=' value ';'        { $$ = blu_parse_member_decl(p, BLU_MEMBER_PARAM, @$);
                                                $$->pattern = blu_parse_pattern($2, false, @2); $$->type = $4;
                                                  $$->value = $6; }
    | ident PARAM names ':' type '=' value ';'  { $$ = blu_parse_member_decl(p, BLU_MEMBER_PARAM, @$); $$->label = $1;
                                                $$->pattern = blu_parse_pattern($3, false, @3); $$->type = $5;
                                                  $$->value = $7; }
    | STATE names ':' type '=' value ';'        { $$ = blu_parse_member_decl(p, BLU_MEMBER_STATE, @$);
                                                $$->pattern = blu_parse_pattern($2, false, @2); $$->type = $4;
                                                  $$->value = $6; }
    | STATE names '=' value ';'                 { $$ = blu_parse_member_decl(p, BLU_MEMBER_STATE, @$);
                                                  $$->pattern = blu_parse_pattern($2, false, @2); $$->value = $4; }
    | CACHE names ':' type ';'                  { $$ = blu_parse_member_decl(p, BLU_MEMBER_CACHE, @$);
                                                  $$->pattern = blu_parse_pattern($2, false, @2); $$->type = $4; }
    | FN sig block                              { $$ = blu_parse_member_decl(p, BLU_MEMBER_FN, @$);
                                                  $$->fn = blu_parse_fn(p, (BluName){.span = @1}, $2, $3, @$); }
    | fn                                        { $$ = blu_parse_member_decl(p, BLU_MEMBER_FN, @$); $$->fn = $1; }
    | error ';'                                 { $$ = blu_parse_member_decl(p, BLU_MEMBER_ERROR, @$); yyerrok; }
    | error '}'                                 { $$ = blu_parse_member_decl(p, BLU_MEMBER_ERROR, @$); yyerrok; }
    ;

/* ---- signatures and types ---- */

sig: '(' params ')'                             { $$ = (BluSignature){$2.first, $2.n, NULL, 0, false, @$}; }
    | '(' params ')' ARROW type                 { BluResult *r = blu_parse_result(p, (BluName){0}, $5);
                                                  $$ = (BluSignature){$2.first, $2.n, r, 1, false, @$}; }
    | '(' params ')' ARROW '(' results ')'      { $$ = (BluSignature){$2.first, $2.n, $6.first, $6.n, true, @$}; }
    ;
results: result                                 { $$ = (BluResults){0}; BLU_APPEND($$, $1); $$.n = 1; }
    | results ',' result                        { $$ = $1; BLU_APPEND($$, $3); $$.n++; }
    ;
result: type                                    { $$ = blu_parse_result(p, (BluName){0}, $1); }
    | ident ':' type                            { $$ = blu_parse_result(p, $1, $3); }
    ;
params: %empty                                  { $$ = (BluParams){0}; }
    | params1
    | params1 ','
    ;
params1: param                                  { $$ = (BluParams){0}; BLU_APPEND($$, $1); $$.n = 1; }
    | params1 ',' param                         { $$ = $1; BLU_APPEND($$, $3); $$.n++; }
    ;
param: ident                                    { $$ = blu_parse_param(p, $1, NULL, NULL); }
    | ident '=' expr                            { $$ = blu_parse_param(p, $1, NULL, $3); }
    | ident ':' type                            { $$ = blu_parse_param(p, $1, $3, NULL); }
    | ident ':' type '=' expr                   { $$ = blu_parse_param(p, $1, $3, $5); }
    ;
type: ident                                     { $$ = blu_parse_type(p, $1, (BluDims){0}, @$); }
    | ident '[' dims ']'                        { $$ = blu_parse_type(p, $1, $3, @$); }
    ;
dims: dim                                       { $$ = (BluDims){0}; BLU_APPEND($$, $1); $$.n = 1; }
    | dims ',' dim                              { $$ = $1; BLU_APPEND($$, $3); $$.n++; }
    ;
dim: expr                                       { $$ = blu_parse_dim(p, BLU_DIM_EXPR, $1, @$); }
    | DOTDOT                                    { $$ = blu_parse_dim(p, BLU_DIM_REST, NULL, @$); }
    | HOLE                                      { $$ = blu_parse_dim(p, BLU_DIM_HOLE, NULL, @$); }
    ;

/* ---- statements ---- */

block: '{' stmts '}'                            { $$ = blu_parse_block(p, $2, NULL, @$); }
    | '{' stmts expr '}'                        { $$ = blu_parse_block(p, $2, $3, @$); }
    | '{' stmts error '}'                       { $$ = blu_parse_block(p, $2, blu_parse_expr(p, BLU_EXPR_ERROR, @3),
                                                  @$); yyerrok; }
    ;
stmts: %empty                                   { $$ = (BluStmts){0}; }
    | stmts stmt                                { $$ = $1; BLU_APPEND($$, $2); }
    ;
stmt: assignment
    | ident COMMIT value ';'                    { $$ = blu_parse_stmt(p, BLU_STMT_COMMIT, @$, blu_parse_lone(p, $1),
                                                  $3); }
    ;
assignment: LET pattern '=' value ';'           { $$ = blu_parse_stmt(p, BLU_STMT_LET, @$, $2, $4); }
    | LET pattern '=' error ';'                 { $$ = blu_parse_stmt(p, BLU_STMT_LET, @$, $2, blu_parse_expr(p,
                                                  BLU_EXPR_ERROR, @4));
                                                  yyerrok; }
    | VAR ident '=' error ';'                   { $$ = blu_parse_stmt(p, BLU_STMT_VAR, @$, blu_parse_lone(p, $2),
                                                    blu_parse_expr(p, BLU_EXPR_ERROR, @4)); yyerrok; }
    | VAR ident '=' value ';'                   { $$ = blu_parse_stmt(p, BLU_STMT_VAR, @$, blu_parse_lone(p, $2), $4); }
    | ident '=' value ';'                       { $$ = blu_parse_stmt(p, BLU_STMT_SET, @$, blu_parse_lone(p, $1), $3); }
    | FOR pattern IN range block                { $$ = blu_parse_for(p, $2, $4, $5, @$); }
    | if_stmt                                   { $$ = blu_parse_stmt(p, BLU_STMT_IF, @$, (BluPattern){.span = @1},
                                                  $1); }
    | error ';'                                 { $$ = blu_parse_stmt(p, BLU_STMT_ERROR, @$, (BluPattern){.span = @$},
                                                  NULL); yyerrok; }
    ;
settings: %empty                                { $$ = (BluStmts){0}; }
    | settings setting                          { $$ = $1; BLU_APPEND($$, $2); }
    ;
setting: assignment
    | ident '=' value PER expr ';'              { $$ = blu_parse_stmt(p, BLU_STMT_SET, @$, blu_parse_lone(p, $1), $3);
                                                  $$->per = $5; }
    | OPTIMIZER '=' value ';'                   { $$ = blu_parse_stmt(p, BLU_STMT_SET, @$, blu_parse_lone(p,
                                                  (BluName){.text = "optimizer", .span = @1}), $3); }
    | OPTIMIZER STRING '=' value ';'            { $$ = blu_parse_stmt(p, BLU_STMT_LABELLED, @$, blu_parse_lone(p,
                                                  (BluName){.text = $2, .span = @2}), $4);
                                                  $$->label = (BluName){.text = "optimizer", .span = @1}; }
    | label ident '=' value ';'                 { $$ = blu_parse_stmt(p, BLU_STMT_LABELLED, @$, blu_parse_lone(p, $2),
                                                  $4);
                                                  $$->label = $1; }
    | label ident '=' value PER expr ';'        { $$ = blu_parse_stmt(p, BLU_STMT_LABELLED, @$, blu_parse_lone(p, $2),
                                                  $4);
                                                  $$->label = $1; $$->per = $6; }
    ;
label: ident
    ;
range: expr                                     { $$ = (BluRange){$1, NULL, @$}; }
    | expr DOTDOT expr                          { $$ = (BluRange){$1, $3, @$}; }
    ;
if_stmt: IF expr block                          { $$ = blu_parse_if(p, $2, $3, NULL, NULL, @$); }
    | IF expr block ELSE block                  { $$ = blu_parse_if(p, $2, $3, $5, NULL, @$); }
    | IF expr block ELSE if_stmt                { $$ = blu_parse_if(p, $2, $3, NULL, $5, @$); }
    ;
pattern: ident                                  { $$ = blu_parse_lone(p, $1); }
    | HOLE                                      { $$ = blu_parse_lone(p, (BluName){.text = "_", .span = @1}); }
    | '(' parts ')'                             { $$ = blu_parse_pattern($2, true, @$); }
    ;
parts: part                                     { $$ = (BluNameList){0}; BLU_APPEND($$, blu_parse_name(p, $1)); $$.n = 1; }
    | parts ',' part                            { $$ = $1; BLU_APPEND($$, blu_parse_name(p, $3)); $$.n++; }
    ;
part: ident
    | HOLE                                      { $$ = (BluName){.text = "_", .span = @1}; }
    | '(' parts ')'                             { $$ = (BluName){.span = @$, .parts = $2.first, .nparts = $2.n}; }
    ;
names: ident                                    { $$ = (BluNameList){0}; BLU_APPEND($$, blu_parse_name(p, $1));
                                                  $$.n = 1; }
    | HOLE                                      { $$ = (BluNameList){0}; $$.n = 1;
                                                  BLU_APPEND($$, blu_parse_name(p, ((BluName){.text = "_", .span = @1}))); }
    | names ',' ident                           { $$ = $1; BLU_APPEND($$, blu_parse_name(p, $3)); $$.n++; }
    | names ',' HOLE                            { $$ = $1; BLU_APPEND($$, blu_parse_name(p, ((BluName){.text = "_", .span = @3}))); $$.n++; }
    ;
ident: IDENT                                    { $$ = (BluName){.text = $1, .span = @1}; }
    ;

/* ---- expressions ---- */

value: expr
    | if_value
    ;
if_value: IF expr block ELSE block              { $$ = blu_parse_if(p, $2, $3, $5, NULL, @$); }
    | IF expr block ELSE if_value               { $$ = blu_parse_if(p, $2, $3, NULL, $5, @$); }
    ;
expr: postfix
    | '-' expr %prec NEGATION                   { $$ = blu_parse_unary(p, BLU_OP_NEG, @1, $2); }
    | NOT expr                                  { $$ = blu_parse_unary(p, BLU_OP_NOT, @1, $2); }
    | expr '+' expr                             { $$ = blu_parse_binary(p, BLU_OP_ADD, @2, $1, $3); }
    | expr '-' expr                             { $$ = blu_parse_binary(p, BLU_OP_SUB, @2, $1, $3); }
    | expr '*' expr                             { $$ = blu_parse_binary(p, BLU_OP_MUL, @2, $1, $3); }
    | expr '/' expr                             { $$ = blu_parse_binary(p, BLU_OP_DIV, @2, $1, $3); }
    | expr '%' expr                             { $$ = blu_parse_binary(p, BLU_OP_MOD, @2, $1, $3); }
    | expr '@' expr                             { $$ = blu_parse_binary(p, BLU_OP_MATMUL, @2, $1, $3); }
    | expr '^' expr                             { $$ = blu_parse_binary(p, BLU_OP_POW, @2, $1, $3); }
    | expr '<' expr                             { $$ = blu_parse_binary(p, BLU_OP_LT, @2, $1, $3); }
    | expr '>' expr                             { $$ = blu_parse_binary(p, BLU_OP_GT, @2, $1, $3); }
    | expr GE expr                              { $$ = blu_parse_binary(p, BLU_OP_GE, @2, $1, $3); }
    | expr LE expr                              { $$ = blu_parse_binary(p, BLU_OP_LE, @2, $1, $3); }
    | expr EQ expr                              { $$ = blu_parse_binary(p, BLU_OP_EQ, @2, $1, $3); }
    | expr NE expr                              { $$ = blu_parse_binary(p, BLU_OP_NE, @2, $1, $3); }
    | expr OR expr                              { $$ = blu_parse_binary(p, BLU_OP_OR, @2, $1, $3); }
    | expr AND expr                             { $$ = blu_parse_binary(p, BLU_OP_AND, @2, $1, $3); }
    ;
postfix: IDENT                                  { $$ = blu_parse_expr(p, BLU_EXPR_NAME, @$); $$->u.name = $1; }
    | INT                                       { $$ = blu_parse_expr(p, BLU_EXPR_INT, @$); $$->u.i = $1; }
    | REAL                                      { $$ = blu_parse_expr(p, BLU_EXPR_REAL, @$); $$->u.real = $1; }
    | STRING                                    { $$ = blu_parse_expr(p, BLU_EXPR_STRING, @$); $$->u.name = $1; }
    | '(' value ')'                             { $$ = $2; }
    | '(' value ',' exprs ')'                   { BluExprs all = {$2, $2, 1}; $2->next = $4.first; all.last = $4.last;
                                                  all.n += $4.n;
                                                  $$ = blu_parse_list(p, BLU_EXPR_TUPLE, all, @$); }
    | postfix '(' args ')'                      { $$ = blu_parse_call(p, $1, $3, @$); }
    | postfix '.' ident                         { $$ = blu_parse_member(p, $1, $3, @$); }
    | postfix '[' subs ']'                      { $$ = blu_parse_index(p, $1, $3, @$); }
    | '[' expr FOR pattern IN range ']'         { $$ = blu_parse_comprehension(p, $2, $4, $6, @$); }
    | '[' exprs ']'                             { $$ = blu_parse_list(p, BLU_EXPR_LIST, $2, @$); }
    | '[' exprs ',' ']'                         { $$ = blu_parse_list(p, BLU_EXPR_LIST, $2, @$); }
    | '[' ']'                                   { $$ = blu_parse_list(p, BLU_EXPR_LIST, (BluExprs){0}, @$); }
    ;
subs: sub                                       { $$ = (BluSubs){0}; BLU_APPEND($$, $1); }
    | subs ',' sub                              { $$ = $1; BLU_APPEND($$, $3); }
    ;
sub: expr                                       { $$ = blu_parse_sub(p, BLU_SUB_AT, $1, NULL, @$); }
    | DOTDOT                                    { $$ = blu_parse_sub(p, BLU_SUB_REST, NULL, NULL, @$); }
    | ':'                                       { $$ = blu_parse_sub(p, BLU_SUB_RANGE, NULL, NULL, @$); }
    | expr ':'                                  { $$ = blu_parse_sub(p, BLU_SUB_RANGE, $1, NULL, @$); }
    | ':' expr                                  { $$ = blu_parse_sub(p, BLU_SUB_RANGE, NULL, $2, @$); }
    | expr ':' expr                             { $$ = blu_parse_sub(p, BLU_SUB_RANGE, $1, $3, @$); }
    ;
exprs: expr                                     { $$ = (BluExprs){0}; BLU_APPEND($$, $1); $$.n = 1; }
    | exprs ',' expr                            { $$ = $1; BLU_APPEND($$, $3); $$.n++; }
    ;
args: %empty                                    { $$ = (BluArgList){0}; }
    | args1
    | args1 ','
    ;
args1: arg                                      { $$ = (BluArgList){0}; BLU_APPEND($$, $1); }
    | args1 ',' arg                             { $$ = $1; BLU_APPEND($$, $3); }
    ;
arg: value                                      { $$ = blu_arena_alloc(p->arena, sizeof *$$); $$->value = $1; }
    | ident '=' value                           { $$ = blu_arena_alloc(p->arena, sizeof *$$); $$->name = $1;
                                                  $$->value = $3; }
    ;

%%

/* Called by the parser itself for one reason alone: its stack is full. */
static void blu_yyerror(BluSpan *at, BluParser *p, const char *message) {
  (void)message;
  blu_parse_too_deep(p, *at);
}

static int yyreport_syntax_error(const yypcontext_t *context, BluParser *p) {
  enum { ALL = 80 };
  yysymbol_kind_t kinds[ALL];
  const char *expected[ALL];
  int n = yypcontext_expected_tokens(context, kinds, ALL);
  if (n < 0) return n;
  for (int i = 0; i < n; i++) expected[i] = yysymbol_name(kinds[i]);
  yysymbol_kind_t found = yypcontext_token(context);
  const char *name = found == YYSYMBOL_YYEMPTY ? NULL : yysymbol_name(found);
  blu_parse_unexpected(p, *yypcontext_location(context), name, expected, n);
  return 0;
}
