/* value.c - makers of values, scopes, and how values are called in messages. */
#include <string.h>
#include "elab_internal.h"

const BluVal blu_val_unknown = {.kind = VAL_UNKNOWN};
const BluVal blu_val_none = {.kind = VAL_NONE};

BluVal blu_val_int(int64_t i) { return (BluVal){.kind = VAL_INT, .u.i = i}; }
BluVal blu_val_real(double r) { return (BluVal){.kind = VAL_REAL, .u.real = r}; }
BluVal blu_val_bool(bool b) { return (BluVal){.kind = VAL_BOOL, .u.b = b}; }

BluVal blu_val_list(BluElab *E, BluValKind kind, int n) {
  BluList *l = blu_arena_alloc(E->arena, sizeof *l);
  l->item = blu_arena_alloc(E->arena, ((size_t)n + 1) * sizeof *l->item);
  l->n = n;
  return (BluVal){.kind = kind, .u.list = l};
}

BluVal blu_val_tensor(BluElab *E, MlirValue v, const BluType *t) {
  BluTensor *x = blu_arena_alloc(E->arena, sizeof *x);
  *x = (BluTensor){v, *t};
  return (BluVal){.kind = VAL_TENSOR, .u.tensor = x};
}

BluVal blu_val_init(BluElab *E, BluInit init) {
  BluInit *i = blu_arena_alloc(E->arena, sizeof *i);
  *i = init;
  return (BluVal){.kind = VAL_INIT, .u.init = i};
}

bool blu_val_number(const BluVal *v, double *x) {
  if (v->kind == VAL_INT) return *x = (double)v->u.i, true;
  if (v->kind == VAL_REAL) return *x = v->u.real, true;
  return false;
}

bool blu_val_type(const BluVal *v, BluType *t) {
  if (v->kind == VAL_TENSOR) return *t = v->u.tensor->type, true;
  if (v->kind == VAL_SLOT) {
    *t = v->u.slot->type;
    if (v->u.slot->computes) t->elem = v->u.slot->used;
    return true;
  }
  return false;
}

const char *blu_type_text(BluElab *E, const BluType *t) {
  char buf[512];
  const char *s = blu_type_print(t, buf, sizeof buf);
  return blu_arena_copy(E->arena, s, strlen(s));
}

const char *blu_val_describe(BluElab *E, const BluVal *v) {
  BluType t;
  switch (v->kind) {
    case VAL_UNKNOWN: return "an unknown value";
    case VAL_NONE: return "no value";
    case VAL_INT: return blu_arena_print(E->arena, "the integer %lld", (long long)v->u.i);
    case VAL_REAL: return blu_arena_print(E->arena, "the number %.6g", v->u.real);
    case VAL_BOOL: return v->u.b ? "true" : "false";
    case VAL_STRING: return "a string";
    case VAL_LIST: return "a list";
    case VAL_TUPLE: return "a tuple";
    case VAL_FN:
      return v->u.fn->fn->name.text ? blu_arena_print(E->arena, "the function `%s`", v->u.fn->fn->name.text)
                                    : "a function";
    case VAL_OP: return blu_arena_print(E->arena, "the operation `%s`", v->u.op->name);
    case VAL_BUILTIN: return blu_arena_print(E->arena, "the function `%s`", v->u.builtin->name);
    case VAL_CAST: return blu_arena_print(E->arena, "the type %s", v->u.elem == BLU_ELEMS ? "float" : blu_elem_name(v->u.elem));
    case VAL_MODULE: return blu_arena_print(E->arena, "the module `%s`", v->u.decl->decl->name.text);
    case VAL_OPTIMIZER: return blu_arena_print(E->arena, "the optimizer `%s`", v->u.decl->decl->name.text);
    case VAL_NAMESPACE: return "an imported file";
    case VAL_FORMAT: return "a format of numbers";
    case VAL_INSTANCE: return blu_arena_print(E->arena, "an instance of `%s`", v->u.instance->decl->name.text);
    case VAL_UPDATE:
      return blu_arena_print(E->arena, "the optimizer `%s` with its arguments", v->u.update->decl->name.text);
    case VAL_FROZEN: return "`frozen`";
    case VAL_INIT: return "an initial value";
    case VAL_HOST: return blu_host_is_bool(v->u.host) ? "a condition of the run" : "a number of the run";
    case VAL_SLOT:
    case VAL_TENSOR: return blu_val_type(v, &t) ? blu_type_text(E, &t) : "";
  }
  return "";
}

const char *blu_op_text(const BluOp *op) {
  static const struct { const char *op, *text;
  } written[] = {{"neg", "-"}, {"add", "+"}, {"sub", "-"}, {"mul", "*"}, {"div", "/"}, {"pow", "^"}, {"matmul", "@"},
                 {"eq", "=="}, {"ne", "!="}, {"lt", "<"},  {"le", "<="}, {"gt", ">"},  {"ge", ">="}};
  for (size_t i = 0; i < sizeof written / sizeof *written; i++)
    if (!strcmp(written[i].op, op->name)) return written[i].text;
  return op->name;
}

/* ---- scopes ---- */

BluScope *blu_scope_make(BluElab *E, BluScope *parent) {
  BluScope *s = blu_arena_alloc(E->arena, sizeof *s);
  s->parent = parent;
  return s;
}

BluBinding *blu_scope_find_here(BluScope *s, const char *name) { return blu_names_find(&s->names, name); }

BluBinding *blu_scope_find(BluScope *s, const char *name) {
  for (; s; s = s->parent) {
    BluBinding *b = blu_scope_find_here(s, name);
    if (b) return b;
  }
  return NULL;
}

BluBinding *blu_scope_define(BluElab *E, BluScope *s, const char *name, BluVal v, BluSpan span) {
  BluBinding *b = blu_scope_find_here(s, name);
  if (!b) {
    b = blu_arena_alloc(E->arena, sizeof *b);
    blu_names_add(E->arena, &s->names, name, b);
  }
  *b = (BluBinding){.kind = BIND_LET, .val = v, .span = span, .ready = true};
  return b;
}

/* ---- errors ---- */

BluDiag *blu_elab_error(BluElab *E, BluCode code, BluSpan at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  BluSpan user = blu_elab_user_span(E, at);
  bool inside = at.src && at.src->library && user.src && !user.src->library;
  BluDiag *d = blu_diags_vadd(E->diags, code, inside ? user : at, format, args);
  va_end(args);
  if (inside) blu_diag_inside(d, at);
  const BluFrame *f = E->frames;
  for (; f && inside && f->call.src->library; f = f->up) {} /* calls within the library say nothing to its user */
  if (inside && f) f = f->up; /* that one is where the diagnostic stands */
  for (; f; f = f->up) blu_diag_trail(d, f->call, "in %s, called here", f->label);
  enum { ENOUGH = 1000 };
  if (blu_diags_errors(E->diags) > ENOUGH) E->stopped = true;
  return d;
}

BluSpan blu_elab_user_span(const BluElab *E, BluSpan at) {
  for (const BluFrame *f = E->frames; f && at.src && at.src->library; f = f->up) at = f->call;
  return at;
}

BluVal blu_elab_unsupported(BluElab *E, BluSpan at, const char *what) {
  blu_elab_error(E, BLU_E_UNSUPPORTED, at, "%s is not supported by this version", what);
  return blu_val_unknown;
}
