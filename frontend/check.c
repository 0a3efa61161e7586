/* check.c - names, before anything is evaluated: every use has a definition in sight, nothing is defined twice in one
 * scope, only variables are assigned, and what is never used is warned about. Functions that nothing calls are checked
 * here like all others. */
#include <string.h>
#include "elab_internal.h"

typedef enum { NAME_VALUE, NAME_VAR, NAME_STATE, NAME_PARAM } NameKind;
/* `what`: how a warning calls it if nothing uses it; NULL: no warning. */
typedef struct { NameKind kind; BluSpan span; const char *what; bool used; } Known;
typedef struct Names { BluNames table; struct Names *outer; } Names;

typedef struct {
  BluArena *arena;
  BluDiags *diags;
  const BluScope *builtins;
  Names *names;   /* innermost scope */
  bool quiet;     /* no warnings: the library's files */
  bool settings;  /* in a train block itself: `x = e` is a setting unless the block defines x */
} Check;

static void check_expr(Check *c, const BluExpr *e);
static void check_block(Check *c, const BluBlock *b);

/* ---- scopes ---- */

static void push(Check *c, Names *s) {
  *s = (Names){.outer = c->names};
  c->names = s;
}
static void pop(Check *c) {
  const BluNames *t = &c->names->table;
  for (int i = 0; i < t->n && !c->quiet; i++) {
    const Known *k = t->entry[i].item;
    if (!k->what || k->used || t->entry[i].name[0] == '_') continue;
    BluDiag *d = blu_diags_add(c->diags, BLU_W_UNUSED, k->span, "nothing uses the %s `%s`", k->what, t->entry[i].name);
    if (strcmp(k->what, "import")) blu_diag_help(d, "if that is meant, call it `_%s`", t->entry[i].name);
  }
  c->names = c->names->outer;
}

static Known *find(const Check *c, const char *name) {
  for (const Names *s = c->names; s; s = s->outer) {
    Known *k = blu_names_find(&s->table, name);
    if (k) return k;
  }
  return NULL;
}

static void define(Check *c, const BluName *name, NameKind kind, const char *what) {
  if (!strcmp(name->text, "_")) return;
  const Known *old = blu_names_find(&c->names->table, name->text);
  if (old) {
    BluDiag *d =
        blu_diags_add(c->diags, BLU_E_DEFINED_TWICE, name->span, "`%s` is already defined in this scope", name->text);
    blu_diag_note(d, old->span, "the first definition");
    return;
  }
  Known *k = blu_arena_alloc(c->arena, sizeof *k);
  *k = (Known){kind, name->span, what, false};
  blu_names_add(c->arena, &c->names->table, name->text, k);
}

/* The parts of a tuple need names even where one of them is not wanted. */
static void define_names(Check *c, const BluName *names, NameKind kind, const char *what) {
  for (const BluName *n = names; n; n = n->next) {
    if (n->parts) define_names(c, n->parts, kind, what);
    else define(c, n, kind, what);
  }
}

static void define_pattern(Check *c, const BluPattern *p, NameKind kind, const char *what) {
  define_names(c, p->names, kind, p->tuple ? NULL : what);
}

static void unknown(Check *c, const char *name, BluSpan at) {
  BluNearest near = {.wanted = name};
  if (blu_diags_errors(c->diags) > BLU_DIAGS_SHOWN) { /* nobody will read it: don't search all names */
    blu_diags_add(c->diags, BLU_E_UNKNOWN_NAME, at, "`%s` is not defined here", name);
    return;
  }
  for (const Names *s = c->names; s; s = s->outer) blu_nearest_try_all(&near, &s->table);
  blu_nearest_try_all(&near, &c->builtins->names);
  BluDiag *d = blu_diags_add(c->diags, BLU_E_UNKNOWN_NAME, at, "`%s` is not defined here", name);
  if (near.best) blu_diag_help(d, "did you mean `%s`?", near.best);
  if (!strcmp(name, "step")) blu_diag_help(d, "`step` is known in the `train` block alone; pass it on as an argument");
  for (int i = 0; !near.best && i < blu_nstd; i++)
    if (!strcmp(blu_std[i].name, name)) blu_diag_help(d, "`import %s;` makes it known", name);
}

static void check_name(Check *c, const char *name, BluSpan at) {
  Known *k = find(c, name);
  if (k) k->used = true;
  if (k || blu_names_find(&c->builtins->names, name)) return;
  if (blu_builtin_planned(name) && c->quiet) return; /* reported where the user's program comes to it */
  if (blu_builtin_planned(name))
    blu_diags_add(c->diags, BLU_E_UNSUPPORTED, at, "`%s` is not supported by this version", name);
  else unknown(c, name, at);
}

/* ---- expressions ---- */

static void check_range(Check *c, const BluRange *r) {
  check_expr(c, r->from);
  if (r->to) check_expr(c, r->to);
}

static void check_expr(Check *c, const BluExpr *e) {
  Names inner;
  switch (e->kind) {
    case BLU_EXPR_NAME: check_name(c, e->u.name, e->span); break;
    case BLU_EXPR_UNARY: check_expr(c, e->u.op.left); break;
    case BLU_EXPR_BINARY:
      check_expr(c, e->u.op.left);
      check_expr(c, e->u.op.right);
      break;
    case BLU_EXPR_CALL:
      check_expr(c, e->u.call.callee);
      for (const BluArg *a = e->u.call.args; a; a = a->next) check_expr(c, a->value);
      break;
    case BLU_EXPR_MEMBER: check_expr(c, e->u.member.of); break;
    case BLU_EXPR_INDEX:
      check_expr(c, e->u.index.of);
      for (const BluSub *s = e->u.index.subs; s; s = s->next) {
        if (s->from) check_expr(c, s->from);
        if (s->to) check_expr(c, s->to);
      }
      break;
    case BLU_EXPR_LIST:
    case BLU_EXPR_TUPLE:
      for (const BluExpr *x = e->u.list.first; x; x = x->next) check_expr(c, x);
      break;
    case BLU_EXPR_COMPREHENSION:
      check_range(c, &e->u.comp.range);
      push(c, &inner);
      define_pattern(c, &e->u.comp.pattern, NAME_VALUE, NULL);
      check_expr(c, e->u.comp.body);
      pop(c);
      break;
    case BLU_EXPR_IF:
      check_expr(c, e->u.cond.cond);
      check_block(c, e->u.cond.then);
      if (e->u.cond.other) check_block(c, e->u.cond.other);
      if (e->u.cond.other_if) check_expr(c, e->u.cond.other_if);
      break;
    default: break;
  }
}

/* ---- statements ---- */

static void check_target(Check *c, const BluStmt *s) {
  const BluName *name = s->pattern.names;
  const Known *k = find(c, name->text);
  NameKind wants = s->kind == BLU_STMT_SET ? NAME_VAR : NAME_STATE;
  if (k && k->kind == wants) return;
  if (s->kind == BLU_STMT_SET && c->settings && !blu_names_find(&c->names->table, name->text)) return;
  if (!k && !blu_names_find(&c->builtins->names, name->text)) {
    unknown(c, name->text, name->span);
    return;
  }
  BluDiag *d =
      s->kind == BLU_STMT_SET
          ? blu_diags_add(c->diags, BLU_E_NOT_VARIABLE, name->span, "`%s` is no variable, so it keeps its value",
                          name->text)
          : blu_diags_add(c->diags, BLU_E_NOT_VARIABLE, name->span,
                          "`:=` changes a `state`, a `cache` or the parameter of an optimizer's rule, and `%s` is none",
                          name->text);
  if (!k) return;
  blu_diag_note(d, k->span, "defined here");
  if (s->kind == BLU_STMT_SET && k->kind == NAME_VALUE)
    blu_diag_help(d, "a name that takes new values is declared with `var`");
  if (s->kind == BLU_STMT_SET && k->kind == NAME_STATE) blu_diag_help(d, "a state takes its next value by `:=`");
  if (s->kind == BLU_STMT_COMMIT && k->kind == NAME_VAR) blu_diag_help(d, "a variable takes its next value by `=`");
  if (k->kind == NAME_PARAM) blu_diag_help(d, "a `param` changes by the optimizer alone; what a function changes is a `state`");
}

static void check_stmts(Check *c, const BluStmt *s) {
  Names inner;
  for (; s; s = s->next) {
    if (s->value) check_expr(c, s->value);
    if (s->per) check_expr(c, s->per);
    switch (s->kind) {
      case BLU_STMT_LET: define_pattern(c, &s->pattern, NAME_VALUE, "value"); break;
      case BLU_STMT_VAR: define_pattern(c, &s->pattern, NAME_VAR, "variable"); break;
      case BLU_STMT_SET:
      case BLU_STMT_COMMIT: check_target(c, s); break;
      case BLU_STMT_FOR:
        check_range(c, &s->range);
        push(c, &inner);
        define_pattern(c, &s->pattern, NAME_VALUE, NULL);
        check_block(c, s->body);
        pop(c);
        break;
      default: break;
    }
  }
}

static void check_block(Check *c, const BluBlock *b) {
  Names inner;
  bool settings = c->settings;
  c->settings = false;
  push(c, &inner);
  check_stmts(c, b->stmts);
  if (b->result) check_expr(c, b->result);
  pop(c);
  c->settings = settings;
}

/* ---- signatures ---- */

static void check_elem(Check *c, const BluName *name) {
  BluElem e;
  if (!strcmp(name->text, "float") || blu_elem_parse(name->text, &e)) return;
  if (blu_builtin_planned(name->text)) {
    blu_diags_add(c->diags, BLU_E_UNSUPPORTED, name->span, "the type `%s` is not supported by this version", name->text);
    return;
  }
  BluNearest near = {.wanted = name->text};
  blu_nearest_try(&near, "float");
  for (int i = 0; i < BLU_ELEMS; i++) blu_nearest_try(&near, blu_elem_name((BluElem)i));
  BluDiag *d = blu_diags_add(c->diags, BLU_E_UNKNOWN_TYPE, name->span, "there is no element type `%s`", name->text);
  if (near.best) blu_diag_help(d, "did you mean `%s`?", near.best);
}

/* Dimensions of a parameter: a lone name that is not in scope is a dimension variable from here on. */
static void check_param_dims(Check *c, const BluTypeExpr *t, bool binds) {
  check_elem(c, &t->elem);
  for (const BluDim *d = t->dims; d; d = d->next) {
    if (d->kind != BLU_DIM_EXPR) continue;
    if (binds && d->expr->kind == BLU_EXPR_NAME && !find(c, d->expr->u.name)) {
      BluName name = {.text = d->expr->u.name, .span = d->span};
      define(c, &name, NAME_VALUE, NULL);
    } else {
      check_expr(c, d->expr);
    }
  }
}

static void check_params(Check *c, const BluParam *params, bool binds, const char *what) {
  for (const BluParam *p = params; p; p = p->next) {
    if (p->type) check_param_dims(c, p->type, binds);
    if (p->init) check_expr(c, p->init);
    define(c, &p->name, NAME_VALUE, what);
  }
}

static void check_results(Check *c, const BluSignature *sig) {
  for (const BluResult *r = sig->results; r; r = r->next) check_elem(c, &r->type->elem);
  for (const BluResult *r = sig->results; r; r = r->next)
    for (const BluDim *d = r->type->dims; d; d = d->next) {
      if (d->kind != BLU_DIM_EXPR) continue;
      if (d->expr->kind != BLU_EXPR_NAME || find(c, d->expr->u.name)) {
        check_expr(c, d->expr);
        continue;
      }
      BluDiag *e = blu_diags_add(c->diags, BLU_E_RESULT_NAME, d->span, "no parameter gives the dimension `%s` a value",
                                 d->expr->u.name);
      BluNearest near = {.wanted = d->expr->u.name};
      for (const Names *s = c->names; s; s = s->outer) blu_nearest_try_all(&near, &s->table);
      if (near.best) blu_diag_help(e, "did you mean `%s`?", near.best);
    }
}

static void check_fn(Check *c, const BluFn *fn, bool binds) {
  Names inner;
  push(c, &inner);
  check_params(c, fn->sig.params, binds, "parameter");
  check_results(c, &fn->sig);
  check_block(c, fn->body);
  pop(c);
}

/* ---- declarations ---- */

/* In the types of an optimizer's states, the parameter has the name that the rule gives it. */
static void check_member_type(Check *c, const BluDecl *decl, const BluTypeExpr *type) {
  Names inner;
  push(c, &inner);
  for (const BluMember *m = decl->members; m && decl->kind == BLU_DECL_OPTIMIZER; m = m->next)
    if (m->kind == BLU_MEMBER_FN && !m->fn->name.text && m->fn->sig.params && !inner.table.n)
      define(c, &m->fn->sig.params->name, NAME_VALUE, NULL);
  check_param_dims(c, type, false);
  pop(c);
}

static void check_members(Check *c, const BluDecl *decl) {
  Names inner;
  push(c, &inner);
  check_params(c, decl->params, false, "parameter");
  for (const BluMember *m = decl->members; m; m = m->next)
    if (m->kind == BLU_MEMBER_FN && m->fn->name.text) define(c, &m->fn->name, NAME_VALUE, NULL);
  for (const BluMember *m = decl->members; m; m = m->next) {
    if (m->kind == BLU_MEMBER_FN) continue;
    if (m->type) check_member_type(c, decl, m->type);
    if (m->value) check_expr(c, m->value);
    define_pattern(c, &m->pattern,
                   m->kind == BLU_MEMBER_STATE || m->kind == BLU_MEMBER_CACHE ? NAME_STATE
                   : m->kind == BLU_MEMBER_PARAM                              ? NAME_PARAM
                                                                              : NAME_VALUE,
                   NULL);
    if (m->label.text && strcmp(m->label.text, "frozen")) {
      BluNearest near = {.wanted = m->label.text};
      blu_nearest_try(&near, "frozen");
      BluDiag *d = blu_diags_add(c->diags, BLU_E_MODULE, m->label.span, "`%s` is no word before `param`", m->label.text);
      if (near.best) blu_diag_help(d, "did you mean `%s`?", near.best);
      else blu_diag_help(d, "`frozen param` declares a parameter that no optimizer changes");
    }
  }
  for (const BluMember *m = decl->members; m; m = m->next) {
    if (m->kind != BLU_MEMBER_FN) continue;
    if (decl->kind != BLU_DECL_OPTIMIZER || !m->fn->sig.params) {
      check_fn(c, m->fn, true);
      continue;
    }
    /* The first parameter of an optimizer's rule is what it updates. */
    Names rule;
    push(c, &rule);
    define(c, &m->fn->sig.params->name, NAME_STATE, NULL);
    check_params(c, m->fn->sig.params->next, true, NULL);
    check_block(c, m->fn->body);
    pop(c);
  }
  pop(c);
}

static void check_train(Check *c, const BluDecl *d) {
  Names inner;
  for (const BluArg *a = d->args; a; a = a->next) check_expr(c, a->value);
  push(c, &inner);
  BluName step = {.text = "step", .span = d->name.span};
  define(c, &step, NAME_VALUE, NULL);
  check_params(c, d->params, false, "data");
  c->settings = true;
  check_stmts(c, d->settings);
  c->settings = false;
  pop(c);
}

/* What other files may use is not warned about: `main` is the file that nothing imports. */
static void declare(Check *c, const BluDecl *d, bool main) {
  if (d->kind == BLU_DECL_LET) {
    define_pattern(c, &d->pattern, NAME_VALUE, main ? "value" : NULL);
  } else if (d->kind == BLU_DECL_IMPORT && d->path) {
    const char *slash = strrchr(d->name.text, '/'), *name = slash ? slash + 1 : d->name.text, *dot = strrchr(name, '.');
    BluName stem = {.text = blu_arena_copy(c->arena, name, dot && dot != name ? (size_t)(dot - name) : strlen(name)), .span = d->name.span};
    define(c, &stem, NAME_VALUE, "import");
  } else if (d->kind != BLU_DECL_TRAIN && d->kind != BLU_DECL_ERROR) {
    const char *what = d->kind == BLU_DECL_IMPORT                                      ? "import"
                       : main && d->kind == BLU_DECL_CONST                             ? "constant"
                       : main && d->kind == BLU_DECL_RUN                               ? "`run` value"
                                                                                       : NULL;
    define(c, &d->name, NAME_VALUE, what); /* entries too: their names are those of the program's functions */
  }
}

void blu_check_names(BluArena *a, BluDiags *ds, const BluFile *f, const BluScope *builtins, bool main) {
  Check c = {.arena = a, .diags = ds, .builtins = builtins, .quiet = f->source->library};
  Names file;
  push(&c, &file);
  for (const BluDecl *d = f->decls; d; d = d->next) declare(&c, d, main);
  for (const BluDecl *d = f->decls; d; d = d->next) {
    switch (d->kind) {
      case BLU_DECL_CONST:
      case BLU_DECL_RUN:
      case BLU_DECL_LET: check_expr(&c, d->value); break;
      case BLU_DECL_FN: check_fn(&c, d->fn, true); break;
      case BLU_DECL_ENTRY: check_fn(&c, d->fn, false); break;
      case BLU_DECL_MODULE:
      case BLU_DECL_OPTIMIZER: check_members(&c, d); break;
      case BLU_DECL_TRAIN: check_train(&c, d); break;
      default: break;
    }
  }
  pop(&c);
}
