/* elab.c - elaboration of a program: files and imports, top-level names, -D, and the module's functions in order. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ast_print.h"
#include "elab_internal.h"
#include "mlir-c/BuiltinAttributes.h"
#include "parse.h"

/* ---- -D NAME=VALUE ---- */

static BluVal parse_override(BluElab *E, const char *text) {
  char *end;
  errno = 0;
  long long i = strtoll(text, &end, 10);
  if (*text && !*end && !errno) return blu_val_int(i);
  double r = strtod(text, &end);
  if (*text && !*end && isfinite(r)) return blu_val_real(r);
  if (!strcmp(text, "true") || !strcmp(text, "false")) return blu_val_bool(text[0] == 't');
  return (BluVal){.kind = VAL_STRING, .u.s = blu_arena_copy(E->arena, text, strlen(text))};
}

static const char *override_text(const BluElab *E, const char *name) {
  const char *found = NULL;
  size_t n = strlen(name);
  for (int i = 0; i < E->options->ndefs; i++) /* the last one counts, as with a C compiler */
    if (!strncmp(E->options->defs[i], name, n) && E->options->defs[i][n] == '=') found = E->options->defs[i] + n + 1;
  return found;
}

static BluVal override(BluElab *E, const BluDecl *d, BluVal v) {
  const char *text = override_text(E, d->name.text);
  if (!text || v.kind == VAL_UNKNOWN) return v;
  BluVal o = parse_override(E, text);
  if (o.kind == v.kind) return o;
  if (v.kind == VAL_REAL && o.kind == VAL_INT) return blu_val_real((double)o.u.i);
  blu_elab_error(E, BLU_E_OVERRIDE, d->name.span, "-D %s=%s: %s can't replace %s", d->name.text, text,
                 blu_val_describe(E, &o), blu_val_describe(E, &v));
  return v;
}

static void check_overrides(BluElab *E, const BluFile *f) {
  for (int i = 0; i < E->options->ndefs; i++) {
    const char *def = E->options->defs[i], *eq = strchr(def, '=');
    const char *name = blu_arena_copy(E->arena, def, eq ? (size_t)(eq - def) : strlen(def));
    BluNearest near = {.wanted = name};
    bool found = false;
    for (const BluDecl *d = f->decls; d && !found; d = d->next) {
      if (d->kind != BLU_DECL_CONST) continue;
      found = !strcmp(d->name.text, name);
      blu_nearest_try(&near, d->name.text);
    }
    if (found && eq) continue;
    BluDiag *d =
        found ? blu_elab_error(E, BLU_E_OVERRIDE, blu_span_file(f->source), "-D %s has no value: write -D %s=...", def,
                               name)
              : blu_elab_error(E, BLU_E_OVERRIDE, blu_span_file(f->source), "-D %s: there is no `const %s`", def, name);
    if (!found && near.best) blu_diag_help(d, "did you mean `%s`?", near.best);
  }
}

/* ---- files ---- */

static void run_decls(BluElab *E, BluScope *file, const BluFile *f, bool main);

typedef struct { BluScope *scope; /* NULL while it is being read */ } Imported;

static BluScope *load(BluElab *E, BluSource *source, Imported *entry) {
  blu_diags_add_source(E->diags, source);
  BluFile *f = blu_parse(E->arena, source, E->diags);
  blu_check_names(E->arena, E->diags, f, E->builtins, false);
  BluScope *scope = blu_scope_make(E, E->builtins);
  run_decls(E, scope, f, false);
  return entry->scope = scope;
}

/* The path of a file named in an import, relative to the file that imports it. */
static const char *beside(BluElab *E, const char *from, const char *path) {
  const char *slash = strrchr(from, '/');
  if (path[0] == '/' || !slash) return path;
  return blu_arena_print(E->arena, "%.*s/%s", (int)(slash - from), from, path);
}

static const char *stem(BluElab *E, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
  return blu_arena_copy(E->arena, name, dot && dot != name ? (size_t)(dot - name) : strlen(name));
}

static BluSource *open_import(BluElab *E, const BluDecl *d, const char *path) {
  const char *why = "";
  if (d->path) {
    BluSource *s = blu_source_read(blu_diags_arena(E->diags), path, &why);
    if (!s) blu_elab_error(E, BLU_E_IMPORT, d->name.span, "can't read %s: %s", path, why);
    return s;
  }
  BluNearest near = {.wanted = d->name.text};
  for (int i = 0; i < blu_nstd; i++) {
    blu_nearest_try(&near, blu_std[i].name);
    if (strcmp(blu_std[i].name, d->name.text)) continue;
    BluSource *s = blu_source_make(blu_diags_arena(E->diags), path, blu_std[i].text, strlen(blu_std[i].text));
    s->library = true;
    return s;
  }
  BluDiag *e = blu_elab_error(E, BLU_E_IMPORT, d->name.span, "the standard library has no module `%s`", d->name.text);
  if (near.best) blu_diag_help(e, "did you mean `%s`?", near.best);
  else blu_diag_help(e, "a file of your own is imported by its path: `import \"%s.blu\";`", d->name.text);
  return NULL;
}

static BluScope *import(BluElab *E, const BluDecl *d, const BluSource *from) {
  const char *path =
      d->path ? beside(E, from->path, d->name.text) : blu_arena_print(E->arena, "std/%s.blu", d->name.text);
  Imported *known = blu_names_find(&E->files, path);
  if (known && !known->scope)
    blu_elab_error(E, BLU_E_IMPORT, d->name.span, "%s imports itself, perhaps through other files", path);
  if (known) return known->scope;
  BluSource *source = open_import(E, d, path);
  if (!source) return NULL;
  known = blu_arena_alloc(E->arena, sizeof *known);
  blu_names_add(E->arena, &E->files, path, known);
  return load(E, source, known);
}

/* ---- declarations ---- */

static BluVal decl_ref(BluElab *E, BluScope *file, const BluDecl *d) {
  BluDeclRef *r = blu_arena_alloc(E->arena, sizeof *r);
  *r = (BluDeclRef){d, file};
  return (BluVal){.kind = d->kind == BLU_DECL_MODULE ? VAL_MODULE : VAL_OPTIMIZER, .u.decl = r};
}

static BluVal function(BluElab *E, BluScope *file, const BluFn *fn) {
  BluClosure *c = blu_arena_alloc(E->arena, sizeof *c);
  *c = (BluClosure){fn, file, blu_arena_print(E->arena, "`%s`", fn->name.text)};
  return (BluVal){.kind = VAL_FN, .u.fn = c};
}

static void declare_names(BluElab *E, BluScope *file, const BluName *names) {
  for (const BluName *n = names; n; n = n->next) {
    if (n->parts) declare_names(E, file, n->parts);
    else if (strcmp(n->text, "_")) blu_scope_define(E, file, n->text, blu_val_unknown, n->span)->ready = false;
  }
}

/* Names are known in the whole file; those that are computed are not ready until their turn. */
static void declare(BluElab *E, BluScope *file, const BluFile *f) {
  for (const BluDecl *d = f->decls; d; d = d->next) {
    switch (d->kind) {
      case BLU_DECL_FN: blu_scope_define(E, file, d->name.text, function(E, file, d->fn), d->name.span); break;
      case BLU_DECL_MODULE:
      case BLU_DECL_OPTIMIZER: blu_scope_define(E, file, d->name.text, decl_ref(E, file, d), d->name.span); break;
      case BLU_DECL_CONST:
      case BLU_DECL_RUN: blu_scope_define(E, file, d->name.text, blu_val_unknown, d->name.span)->ready = false; break;
      case BLU_DECL_LET: declare_names(E, file, d->pattern.names); break;
      case BLU_DECL_IMPORT:
        blu_scope_define(E, file, d->path ? stem(E, d->name.text) : d->name.text, blu_val_unknown, d->name.span);
        break;
      default: break;
    }
  }
}

static BluVal run_value(BluElab *E, BluScope *file, const BluDecl *d) {
  BluVal v = blu_elab_expr(E, file, d->value);
  double x = 0;
  if (v.kind != VAL_UNKNOWN && !blu_val_number(&v, &x)) {
    blu_elab_error(E, BLU_E_KIND, d->value->span,
                   "the default of a `run` value is a number known when compiled, not %s", blu_val_describe(E, &v));
    return blu_val_unknown;
  }
  BluSlot *s = blu_arena_alloc(E->arena, sizeof *s);
  *s = (BluSlot){.role = SLOT_RUN, .order = E->runs++, .name = d->name.text, .type = blu_type_make(BLU_F64, 0, NULL),
                 .span = d->name.span, .initial = x};
  return blu_host_slot(E, s);
}

static void misplaced(BluElab *E, const BluDecl *d) {
  blu_elab_error(E, BLU_E_PLACE, d->name.span, "`%s` belongs to the main file, and this one is imported",
                 blu_decl_word(d->kind));
}

static void run_decls(BluElab *E, BluScope *file, const BluFile *f, bool main) {
  declare(E, file, f);
  for (const BluDecl *d = f->decls; d && !E->stopped; d = d->next) {
    BluVal v = blu_val_unknown;
    switch (d->kind) {
      case BLU_DECL_IMPORT: {
        BluScope *space = import(E, d, f->source);
        if (space) v = (BluVal){.kind = VAL_NAMESPACE, .u.space = space};
        blu_scope_define(E, file, d->path ? stem(E, d->name.text) : d->name.text, v, d->name.span);
        break;
      }
      case BLU_DECL_CONST:
        v = blu_elab_expr(E, file, d->value);
        if (v.kind > VAL_LIST && v.kind != VAL_TUPLE) {
          blu_elab_error(E, BLU_E_KIND, d->value->span,
                         "a `const` is a number, condition, string or list known when compiled, not %s",
                         blu_val_describe(E, &v));
          v = blu_val_unknown;
        }
        blu_scope_define(E, file, d->name.text, main ? override(E, d, v) : v, d->name.span);
        break;
      case BLU_DECL_RUN:
        if (!main) misplaced(E, d);
        else v = run_value(E, file, d);
        blu_scope_define(E, file, d->name.text, v, d->name.span);
        break;
      case BLU_DECL_LET: blu_elab_bind_pattern(E, file, &d->pattern, blu_elab_expr(E, file, d->value), BIND_LET); break;
      case BLU_DECL_TRAIN:
      case BLU_DECL_ENTRY:
        if (!main) misplaced(E, d);
        break;
      default: break;
    }
  }
}

/* ---- what nothing calls ---- */

static void warn_function(BluElab *E, const BluFn *fn, const char *of) {
  if (blu_elab_was_called(E, fn)) return;
  const char *name = fn->name.text ? fn->name.text : "fn";
  blu_diags_add(E->diags, BLU_W_NEVER_CALLED, fn->name.span,
                of ? "nothing calls `%s` of `%s`, so only its names were checked"
                   : "nothing calls `%s`, so only its names were checked",
                name, of);
}

static void warn_uncalled(BluElab *E, const BluFile *f) {
  for (const BluDecl *d = f->decls; d; d = d->next) {
    if (d->kind == BLU_DECL_FN) warn_function(E, d->fn, NULL);
    if (d->kind != BLU_DECL_MODULE && d->kind != BLU_DECL_OPTIMIZER) continue;
    if (!blu_elab_was_called(E, d)) {
      blu_diags_add(E->diags, BLU_W_NEVER_CALLED, d->name.span,
                    "nothing uses the %s `%s`, so only its names were checked", blu_decl_word(d->kind), d->name.text);
      continue;
    }
    for (const BluMember *m = d->members; m; m = m->next)
      if (m->kind == BLU_MEMBER_FN) warn_function(E, m->fn, d->name.text);
  }
}

/* ---- the program ---- */

static void set_string(BluElab *E, const char *name, const char *value) {
  mlirOperationSetAttributeByName(mlirModuleGetOperation(E->module), mlirStringRefCreateFromCString(name),
                                  mlirStringAttrGet(E->ctx, mlirStringRefCreateFromCString(value)));
}

/* The arguments of the data source as "key=value" lines. */
static const char *data_args(BluElab *E, BluScope *file, const BluDecl *d) {
  const char *text = "";
  for (const BluArg *a = d->args; a; a = a->next) {
    BluVal v = blu_elab_expr(E, file, a->value);
    if (v.kind == VAL_UNKNOWN) continue;
    if (!a->name.text) {
      blu_elab_error(E, BLU_E_ARGUMENTS, a->value->span, "arguments of a data source are given by name");
    } else if (v.kind == VAL_STRING && !strchr(v.u.s, '\n')) {
      text = blu_arena_print(E->arena, "%s%s=%s\n", text, a->name.text, v.u.s);
    } else if (v.kind == VAL_INT) {
      text = blu_arena_print(E->arena, "%s%s=%lld\n", text, a->name.text, (long long)v.u.i);
    } else {
      blu_elab_error(E, BLU_E_KIND, a->value->span,
                     "arguments of a data source are integers and strings of one line, not %s",
                     blu_val_describe(E, &v));
    }
  }
  return text;
}

/* One text of each tensor that is saved, as "NAME=text" lines. */
static void describe(BluElab *E, const char *attribute, size_t field, const BluSlots *states) {
  const BluSlots *all[] = {&E->params, &E->states, states};
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  for (size_t k = 0; file && k < sizeof all / sizeof *all; k++)
    for (int i = 0; i < all[k]->n; i++) {
      const char *words = *(const char *const *)(const void *)((const char *)all[k]->slot[i] + field);
      if (words) fprintf(file, "%s=%s\n", all[k]->slot[i]->name, words);
    }
  if (file) fclose(file);
  if (size) set_string(E, attribute, text);
  free(text);
}

static const BluDecl *find_train(BluElab *E, const BluFile *f) {
  const BluDecl *train = NULL;
  for (const BluDecl *d = f->decls; d; d = d->next) {
    if (d->kind != BLU_DECL_TRAIN) continue;
    if (train) {
      BluDiag *e = blu_elab_error(E, BLU_E_PLACE, d->name.span, "a program has one `train`");
      blu_diag_note(e, train->name.span, "the first one");
    } else {
      train = d;
    }
  }
  return train;
}

static void build_functions(BluElab *E, BluScope *file, const BluFile *f) {
  const BluDecl *train = find_train(E, f);
  BluSlots states = {0};
  blu_elab_name_slots(E, file);
  blu_elab_precision(E, file, train);
  set_string(E, "blu.data", train && train->source.text ? train->source.text : "");
  set_string(E, "blu.data_args", train ? data_args(E, file, train) : "");
  if (train) blu_elab_train(E, file, train, &states);
  blu_elab_init(E, &states);
  describe(E, "blu.starts", offsetof(BluSlot, starts), &states);
  describe(E, "blu.group", offsetof(BluSlot, group), &states);
  for (const BluDecl *d = f->decls; d; d = d->next)
    if (d->kind == BLU_DECL_ENTRY) blu_elab_entry(E, file, d);
}

static BluSlot *make_slot(BluElab *E, BluSlotRole role, const char *name, BluElem elem) {
  BluSlot *s = blu_arena_alloc(E->arena, sizeof *s);
  *s = (BluSlot){.role = role, .name = name, .type = blu_type_make(elem, 0, NULL)};
  return s;
}

static BluFile *read_main(BluArena *a, const BluFrontendOptions *o, BluDiags *ds) {
  const char *why = NULL;
  BluSource *s = o->text ? blu_source_make(blu_diags_arena(ds), o->path, o->text, o->size)
                         : blu_source_read(blu_diags_arena(ds), o->path, &why);
  if (!s) {
    s = blu_source_make(blu_diags_arena(ds), o->path, "", 0);
    blu_diags_add(ds, BLU_E_READ, blu_span_file(s), "can't be read: %s", why);
    return NULL;
  }
  blu_diags_add_source(ds, s);
  return blu_parse(a, s, ds);
}

bool blu_frontend_print_ast(const BluFrontendOptions *o, BluDiags *ds, FILE *out) {
  BluArena *a = blu_arena_make();
  BluFile *f = read_main(a, o, ds);
  if (f) blu_ast_print(f, out);
  blu_arena_free(a);
  return !blu_diags_errors(ds);
}

static void elaborate(BluElab *E, const BluFile *f) {
  E->builtins = blu_scope_make(E, NULL);
  blu_builtin_define(E, E->builtins);
  E->rows = make_slot(E, SLOT_ROWS, "rows", BLU_I32);
  E->step = make_slot(E, SLOT_STEP, "step", BLU_F64);
  E->seed = make_slot(E, SLOT_SEED, "seed", BLU_I64);
  const char *slash = strrchr(E->options->path, '/');
  set_string(E, "blu.model", stem(E, E->options->path));
  set_string(E, "blu.source_name", slash ? slash + 1 : E->options->path);
  blu_names_add(E->arena, &E->files, f->source->path,
                blu_arena_alloc(E->arena, sizeof(Imported))); /* can't be imported */
  blu_check_names(E->arena, E->diags, f, E->builtins, true);
  check_overrides(E, f);
  BluScope *file = blu_scope_make(E, E->builtins);
  run_decls(E, file, f, true);
  build_functions(E, file, f);
  if (!blu_diags_errors(E->diags)) warn_uncalled(E, f);
}

MlirModule blu_frontend_build(MlirContext ctx, const BluFrontendOptions *o, BluDiags *ds) {
  BluArena *a = blu_arena_make();
  BluElab E = {.ctx = ctx, .arena = a, .diags = ds, .options = o};
  BluFile *f = read_main(a, o, ds);
  if (f) {
    E.module = mlirModuleCreateEmpty(mlirLocationUnknownGet(ctx));
    elaborate(&E, f);
    if (blu_diags_errors(ds)) {
      mlirModuleDestroy(E.module);
      E.module = (MlirModule){0};
    }
  }
  blu_arena_free(a);
  return E.module;
}
