/* elab_train.c - the `train` block: its body makes @train and, with `training` false, @eval; its settings make @clip
 * and @settings, its optimizers @update. Sums are taken here: the program's loss and metrics are per example. */
#include <string.h>
#include "elab_internal.h"
#include "mlir-c/BuiltinAttributes.h"

typedef struct { const char *name; BluSpan span; bool set; BluOperand value; } Setting;
enum { LOSS, OPTIMIZER, CLIP_NORM, EPOCHS, STOP, ACCUMULATE, PRECISION, LOSS_SCALE, TF32, SETTINGS };
static const char *const setting_name[SETTINGS] = {"loss", "optimizer", "clip_norm", "epochs", "stop", "accumulate", "precision", "loss_scale", "tf32"};

static const double LARGEST_SCALE = 0x1p32;

struct BluTrain {
  const BluDecl *decl;
  BluScope *scope;
  bool training;
  int64_t batch;
  Setting setting[SETTINGS];
  BluNames metrics;
  BluGroup *groups; /* `optimizer "glob" = ...;`, and the default */
  int ngroups;
  bool optimizer;   /* there was an `optimizer`, right or wrong */
  BluOutput *out;  /* sum and weight of the loss, then of each metric */
  int nout;
  bool mask_made;
  MlirValue mask;  /* bool[batch]: the row is real */
};

/* ---- sums ---- */

static MlirValue build_mask(BluElab *E, BluTrain *T, const BluType *t) {
  BluBuilder *b = &E->build->b;
  if (!T->mask_made) {
    BluType rows = blu_type_make(BLU_I32, 1, &T->batch);
    BluAttrs as = blu_attr_set_ints((BluAttrs){0}, "shape", 1, &T->batch);
    as = blu_attr_set_type(blu_attr_set_int(as, "axis", 0), "elem", BLU_I32);
    MlirValue row = blu_build(b, "iota", &as, 0, NULL);
    T->mask = blu_build2(b, "lt", row, blu_broadcast_to(b, blu_build_slot(E, E->rows), &rows));
    T->mask_made = true;
  }
  BluType column = blu_type_make(BLU_BOOL, t->rank, t->dim), full = column;
  for (int i = 1; i < t->rank; i++) column.dim[i] = 1;
  return blu_broadcast_to(b, blu_reshape_to(b, T->mask, &column), &full);
}

static bool per_example(BluElab *E, const BluTrain *T, const BluOperand *v, const char *what, const BluType *t) {
  if (t->rank >= 1 && t->dim[0] == T->batch) return true;
  BluDiag *d = blu_elab_error(E, BLU_E_PER_EXAMPLE, v->span,
                              "%s is per example, so its leading dimension is the batch of %lld, but this is %s", what,
                              (long long)T->batch, blu_type_text(E, t));
  if (t->rank == 0) blu_diag_help(d, "leave out the sum or mean: the compiler takes it");
  return false;
}

/* sum(E) over the elements where W is not 0 (times W, if W is a number), and sum(W). */
static void add_sums(BluElab *E, BluTrain *T, const char *name, const BluStmt *st) {
  const char *what = blu_arena_print(E->arena, "`%s`", name);
  BluOperand e = {.val = blu_elab_expr(E, T->scope, st->value), .span = st->value->span}, w = {.val = blu_val_none};
  if (st->per) w = (BluOperand){.val = blu_elab_expr(E, T->scope, st->per), .span = st->per->span};
  MlirValue x, weight;
  BluType t, wt;
  if (e.val.kind == VAL_UNKNOWN || w.val.kind == VAL_UNKNOWN || !blu_elab_tensor(E, &e, &x, &t)) return;
  if (t.elem != BLU_BOOL && !blu_elem_is_float(t.elem)) {
    blu_elab_error(E, BLU_E_PER_EXAMPLE, e.span, "%s has float or bool elements, not %s", what, blu_elem_name(t.elem));
    return;
  }
  if (!per_example(E, T, &e, what, &t)) return;
  if (st->per) {
    if (!blu_elab_tensor(E, &w, &weight, &wt) || !per_example(E, T, &w, "a weight", &wt)) return;
    BluType shape = t;
    shape.elem = wt.elem;
    if (!blu_type_same(&shape, &wt)) {
      BluDiag *d = blu_elab_error(E, BLU_E_PER_EXAMPLE, w.span, "the weights are %s, but %s is %s",
                                  blu_type_text(E, &wt), what, blu_type_text(E, &t));
      blu_diag_note(d, e.span, "this is %s", blu_type_text(E, &t));
      return;
    }
    if (wt.elem != BLU_BOOL && !blu_elem_is_float(wt.elem)) {
      blu_elab_error(E, BLU_E_PER_EXAMPLE, w.span, "weights have float or bool elements, not %s",
                     blu_elem_name(wt.elem));
      return;
    }
    BluSlots of = blu_build_slots_of(E, weight, false);
    for (int i = 0; i < of.n; i++) {
      if (of.slot[i]->role != SLOT_PARAM) continue;
      blu_elab_error(E, BLU_E_PER_EXAMPLE, w.span, "weights depend on the data alone, and these on the parameter `%s`",
                     of.slot[i]->name);
      return;
    }
  }
  BluBuilder *b = &E->build->b;
  blu_build_at(E, st->value->span);
  MlirValue counts = build_mask(E, T, &t), sum_of_weights;
  x = blu_cast_to(b, x, BLU_F32);
  if (st->per && wt.elem == BLU_BOOL) {
    counts = blu_build2(b, "and", counts, weight);
  } else if (st->per) {
    weight = blu_cast_to(b, weight, BLU_F32);
    weight = blu_build(b, "where", NULL, 3, (MlirValue[]){counts, weight, blu_constant_like(b, weight, 0)});
    counts = blu_build2(b, "ne", weight, blu_constant_like(b, weight, 0));
    x = blu_build2(b, "mul", x, weight);
  }
  bool plain = !st->per || wt.elem == BLU_BOOL;
  sum_of_weights = blu_build1(b, "sum", plain ? blu_cast_to(b, counts, BLU_F32) : weight);
  x = blu_build(b, "where", NULL, 3, (MlirValue[]){counts, x, blu_constant_like(b, x, 0)});
  MlirValue sum = blu_build1(b, "sum", x);
  for (int i = 0; i < 2; i++) {
    T->out = blu_arena_grow(E->arena, T->out, T->nout, sizeof *T->out);
    T->out[T->nout++] = (BluOutput){i ? sum_of_weights : sum, i ? "weight" : "sum", name};
  }
}

/* ---- settings ---- */

static void unknown_setting(BluElab *E, const BluName *name, const char *kind, BluNearest *near) {
  BluDiag *d = blu_elab_error(E, BLU_E_SETTING, name->span, "there is no %s `%s`", kind, name->text);
  if (near->best) blu_diag_help(d, "did you mean `%s`?", near->best);
}

static bool set_once(BluElab *E, Setting *s, const BluName *name) {
  if (s->set) {
    BluDiag *d = blu_elab_error(E, BLU_E_SETTING, name->span, "`%s` is set twice", name->text);
    blu_diag_note(d, s->span, "the first time");
    return false;
  }
  *s = (Setting){.name = name->text, .span = name->span, .set = true};
  return true;
}

/* The optimizer that a value is; false (reported) for other values. NULL in *u: `frozen`. */
static bool update_of(BluElab *E, const BluOperand *v, const BluUpdate **u) {
  *u = NULL;
  if (v->val.kind == VAL_UNKNOWN) return false;
  if (v->val.kind == VAL_UPDATE) return *u = v->val.u.update, true;
  if (v->val.kind == VAL_FROZEN) return true;
  BluDiag *d = blu_elab_error(E, BLU_E_OPTIMIZER, v->span, "`optimizer` is an optimizer with its arguments, not %s",
                              blu_val_describe(E, &v->val));
  if (v->val.kind == VAL_OPTIMIZER) blu_diag_help(d, "call it: `%s(...)`", v->val.u.decl->decl->name.text);
  return false;
}

static void add_group(BluElab *E, BluTrain *T, const char *glob, const BluStmt *st) {
  T->optimizer = true;
  if (!T->training) return;
  BluOperand v = {.val = blu_elab_expr(E, T->scope, st->value), .span = st->value->span};
  const BluUpdate *u;
  if (!update_of(E, &v, &u)) return;
  T->groups = blu_arena_grow(E->arena, T->groups, T->ngroups, sizeof *T->groups);
  T->groups[T->ngroups++] = (BluGroup){.glob = glob, .update = u, .span = st->pattern.names->span};
}

/* Names of what the trainer's metrics.jsonl says anyway. */
static bool is_reported(const char *name) {
  static const char *const names[] = {"loss", "lr", "grad_norm", "loss_scale", "step", "epoch", "split", "event", "text", "time"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], name)) return true;
  return false;
}

/* Metrics are computed as in evaluation. */
static void metric(BluElab *E, BluTrain *T, const BluStmt *st) {
  const BluName *name = st->pattern.names;
  if (!strcmp(st->label.text, "optimizer")) {
    add_group(E, T, name->text, st);
    return;
  }
  if (strcmp(st->label.text, "metric")) {
    BluNearest near = {.wanted = st->label.text};
    blu_nearest_try(&near, "metric");
    unknown_setting(E, &st->label, "kind of setting", &near);
    return;
  }
  Setting *s = blu_names_find(&T->metrics, name->text);
  if (!s) {
    s = blu_arena_alloc(E->arena, sizeof *s);
    blu_names_add(E->arena, &T->metrics, name->text, s);
  }
  if (is_reported(name->text))
    blu_elab_error(E, BLU_E_SETTING, name->span, "a metric can't be called `%s`: the trainer reports something else under this name", name->text);
  else if (set_once(E, s, name)) {
    bool training = E->build->training;
    E->build->training = false;
    add_sums(E, T, name->text, st);
    E->build->training = training;
  }
}

static void settle(BluElab *E, const BluSlots *slots, bool kept) {
  for (int i = 0; i < slots->n; i++) {
    BluSlot *s = slots->slot[i];
    if (!s->computes) continue;
    s->used = E->compute;
    s->type.elem = kept ? blu_elab_kept(E) : E->compute;
  }
}

void blu_elab_precision(BluElab *E, BluScope *file, const BluDecl *train) {
  const BluStmt *st = train ? train->settings : NULL;
  while (st && !(st->kind == BLU_STMT_SET && !strcmp(st->pattern.names->text, setting_name[PRECISION]))) st = st->next;
  if (!st) return;
  BluVal v = blu_elab_expr(E, file, st->value);
  if (v.kind == VAL_CAST && v.u.elem == BLU_F64) blu_elab_unsupported(E, st->value->span, "`precision = f64`");
  else if (v.kind == VAL_CAST && v.u.elem != BLU_ELEMS && blu_elem_is_float(v.u.elem)) E->compute = v.u.elem;
  else if (v.kind == VAL_FORMAT) E->compute = BLU_SIM, blu_module_set_format(E->module, v.u.format);
  else if (v.kind != VAL_UNKNOWN)
    blu_elab_error(E, BLU_E_SETTING, st->value->span, "`precision` is the type that `float` stands for, such as bf16, not %s",
                   blu_val_describe(E, &v));
  settle(E, &E->params, true), settle(E, &E->states, true), settle(E, &E->caches, false);
}

void blu_elab_setting(BluElab *E, BluScope *s, const BluStmt *st) {
  BluTrain *T = E->train;
  if (s != T->scope) return; /* check.c has reported it */
  if (st->kind == BLU_STMT_LABELLED) {
    metric(E, T, st);
    return;
  }
  const BluName *name = st->pattern.names;
  BluNearest near = {.wanted = name->text};
  for (int k = 0; k < SETTINGS; k++) {
    blu_nearest_try(&near, setting_name[k]);
    if (strcmp(name->text, setting_name[k])) continue;
    if (!set_once(E, &T->setting[k], name)) return;
    if (st->per && k != LOSS) {
      blu_elab_error(E, BLU_E_SETTING, st->per->span, "only `loss` and metrics have weights");
      return;
    }
    if (k == LOSS) {
      add_sums(E, T, "loss", st);
    } else if (k == OPTIMIZER) {
      add_group(E, T, NULL, st);
    } else if (T->training && k != PRECISION) { /* that is known by now: blu_elab_precision */
      T->setting[k].value = (BluOperand){.val = blu_elab_expr(E, s, st->value), .span = st->value->span};
    }
    return;
  }
  if (!blu_scope_find_here(T->scope, name->text))
    unknown_setting(E, name, "setting", &near); /* else check.c has reported it */
}

/* ---- data ---- */

static void bind_data(BluElab *E, BluTrain *T) {
  int order = 0;
  for (const BluParam *p = T->decl->params; p; p = p->next) {
    BluSlot *slot = blu_arena_alloc(E->arena, sizeof *slot);
    *slot = (BluSlot){.role = SLOT_DATA, .order = order++, .name = p->name.text, .span = p->name.span};
    BluVal v = {.kind = VAL_SLOT, .u.slot = slot};
    if (!p->type || p->init) {
      blu_elab_error(E, BLU_E_TRAIN, p->name.span, "`%s` comes from the data: it has a type and no default",
                     p->name.text);
      v = blu_val_unknown;
    } else if (!blu_elab_slot_type(E, T->scope, p->type, slot)) {
      v = blu_val_unknown;
    } else if (slot->type.rank < 1) {
      blu_elab_error(E, BLU_E_TRAIN, p->type->span, "data has a leading dimension, the batch");
      v = blu_val_unknown;
    } else if (T->batch && slot->type.dim[0] != T->batch) {
      blu_elab_error(E, BLU_E_TRAIN, p->type->span,
                     "the leading dimension of all data is the batch, %lld, but this is %s", (long long)T->batch,
                     blu_type_text(E, &slot->type));
      v = blu_val_unknown;
    } else {
      T->batch = slot->type.dim[0];
    }
    blu_scope_define(E, T->scope, p->name.text, v, p->name.span);
  }
}

/* Which parameters the loss can reach. */
static void mark_trained(BluElab *E, const BluTrain *T) {
  for (int i = 0; i < T->nout; i++) {
    if (strcmp(T->out[i].name, "loss") || strcmp(T->out[i].role, "sum")) continue;
    BluSlots of = blu_build_slots_of(E, T->out[i].value, true);
    for (int k = 0; k < of.n; k++) of.slot[k]->trained = true;
  }
}

/* The body once, as @train or as @eval. */
static void body(BluElab *E, BluScope *file, BluTrain *T, const BluDecl *d, bool training) {
  *T = (BluTrain){.decl = d, .scope = blu_scope_make(E, file), .training = training};
  blu_scope_define(E, T->scope, "step", blu_host_slot(E, E->step), (BluSpan){0});
  bind_data(E, T);
  if (!d->params)
    blu_elab_error(E, BLU_E_TRAIN, d->name.span, "`train` has no data: name its tensors, as in `train (x: f32[B, 4])`");
  BluBuild f;
  BluVal last;
  blu_build_start(E, &f, training ? BUILD_TRAIN : BUILD_EVAL);
  E->train = T;
  blu_elab_stmts(E, T->scope, d->settings, &last);
  E->train = NULL;
  if (!T->setting[LOSS].set) blu_elab_error(E, BLU_E_TRAIN, d->name.span, "`train` sets no `loss`");
  /* The loss comes first, wherever it stands. */
  BluOutput *out = NULL;
  int n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < T->nout; i++) {
      if ((strcmp(T->out[i].name, "loss") == 0) != (pass == 0)) continue;
      out = blu_arena_grow(E->arena, out, n, sizeof *out);
      out[n++] = T->out[i];
    }
  BluOperand lr = training ? blu_elab_learning_rate(T->groups, T->ngroups) : (BluOperand){.val = blu_val_none};
  if (lr.val.kind != VAL_NONE) {
    out = blu_arena_grow(E->arena, out, n, sizeof *out);
    out[n] = (BluOutput){.role = "output", .name = "lr"};
    blu_host_scalar(E, &lr, &out[n++].value);
  }
  if (training) mark_trained(E, T);
  blu_build_add_changed(E, SLOT_STATE, &out, &n);
  blu_build_finish(E, &f, training ? "train" : "eval", d->name.span, n, out);
}

/* ---- the functions of the settings ---- */

static void build_clip(BluElab *E, const Setting *s) {
  BluBuild f;
  BluOutput out = {.role = "output", .name = "clip_norm"};
  blu_build_start(E, &f, BUILD_OTHER);
  blu_host_scalar(E, &s->value, &out.value);
  blu_build_finish(E, &f, "clip", s->span, 1, &out);
}

/* A step may be of several micro-batches: the passes compile it in two parts then. */
static void allow_accumulation(BluElab *E, const Setting *s) {
  const BluVal *v = &s->value.val;
  bool whole = v->kind == VAL_INT && v->u.i >= 1;
  if (v->kind != VAL_UNKNOWN && v->kind != VAL_HOST && !whole)
    blu_elab_error(E, BLU_E_SETTING, s->value.span, "`accumulate` is how many micro-batches a step has, a whole number from 1");
  mlirOperationSetAttributeByName(mlirModuleGetOperation(E->module), mlirStringRefCreateFromCString("blu.accumulate"),
                                  mlirUnitAttrGet(E->ctx));
}

/* The gradients of an f16 program are those of the loss times a number that the trainer chooses, so that few are too small for the type. */
static void scale_loss(BluElab *E, const Setting *s) {
  double x;
  const BluVal *v = &s->value.val;
  if (s->set && v->kind != VAL_UNKNOWN && v->kind != VAL_HOST && !(blu_val_number(v, &x) && x >= 1 && x <= LARGEST_SCALE))
    blu_elab_error(E, BLU_E_SETTING, s->value.span, "`loss_scale` is what the loss is multiplied by at first, a number from 1 to 2^32, not %s",
                   blu_val_describe(E, v));
  if (!s->set && E->compute != BLU_F16) return;
  mlirOperationSetAttributeByName(mlirModuleGetOperation(E->module), mlirStringRefCreateFromCString("blu.loss_scale"),
                                  mlirUnitAttrGet(E->ctx));
}

/* May a GPU's library round what it multiplies? For all functions: an entry gives what training saw. */
static void allow_tf32(BluElab *E, const Setting *s) {
  const BluVal *v = &s->value.val;
  if (!s->set || v->kind == VAL_UNKNOWN) return;
  if (v->kind != VAL_BOOL)
    blu_elab_error(E, BLU_E_SETTING, s->value.span, "`tf32` is true or false, not %s", blu_val_describe(E, v));
  else if (v->u.b)
    mlirOperationSetAttributeByName(mlirModuleGetOperation(E->module), mlirStringRefCreateFromCString("blu.tf32"), mlirUnitAttrGet(E->ctx));
}

/* epochs and stop: both always there, 0 = no limit by this one. accumulate and loss_scale: where they are set. */
static void build_settings(BluElab *E, const BluTrain *T) {
  int given[4] = {EPOCHS, STOP}, n = 2;
  BluBuild f;
  BluOutput out[4];
  if (T->setting[ACCUMULATE].set) given[n++] = ACCUMULATE;
  if (T->setting[LOSS_SCALE].set) given[n++] = LOSS_SCALE;
  blu_build_start(E, &f, BUILD_OTHER);
  for (int i = 0; i < n; i++) {
    const Setting *s = &T->setting[given[i]];
    BluOperand v = s->set ? s->value : (BluOperand){.val = blu_val_int(0), .span = T->decl->name.span};
    out[i] = (BluOutput){.role = "output", .name = setting_name[given[i]]};
    if (v.val.kind == VAL_HOST && blu_host_uses_step(v.val.u.host))
      blu_elab_error(E, BLU_E_SETTING, v.span, "`%s` is known before the first step, so it can't depend on `step`",
                     s->name);
    blu_host_scalar(E, &v, &out[i].value);
  }
  blu_build_finish(E, &f, "settings", T->decl->name.span, n, out);
}

void blu_elab_train(BluElab *E, BluScope *file, const BluDecl *d, BluSlots *states) {
  BluTrain T, again;
  body(E, file, &T, d, true);
  if (!T.setting[EPOCHS].set && !T.setting[STOP].set)
    blu_elab_error(E, BLU_E_TRAIN, d->name.span, "`train` sets neither `epochs` nor `stop`, so it would never end");
  body(E, file, &again, d, false);
  if (T.setting[CLIP_NORM].set) build_clip(E, &T.setting[CLIP_NORM]);
  if (T.setting[ACCUMULATE].set) allow_accumulation(E, &T.setting[ACCUMULATE]);
  scale_loss(E, &T.setting[LOSS_SCALE]);
  allow_tf32(E, &T.setting[TF32]);
  build_settings(E, &T);
  if (T.ngroups) blu_elab_update(E, T.groups, T.ngroups, d->name.span, states);
  else if (!T.optimizer)
    blu_elab_error(E, BLU_E_TRAIN, d->name.span, "`train` sets no `optimizer`");
}
