/* elab_train.c - the `train` block: its body makes @train and, with `training` false, @eval; its settings make @clip
 * and
 * @settings, its optimizer @update. Sums are taken here: the program's loss and metrics are per example. */
#include <string.h>
#include "elab_internal.h"

typedef struct { const char *name; BluSpan span; bool set; BluOperand value; } Setting;
enum { LOSS, OPTIMIZER, CLIP_NORM, EPOCHS, STOP, SETTINGS };
static const char *const setting_name[SETTINGS] = {"loss", "optimizer", "clip_norm", "epochs", "stop"};

struct BluTrain {
  const BluDecl *decl;
  BluScope *scope;
  bool training;
  int64_t batch;
  Setting setting[SETTINGS];
  BluNames metrics;
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
    const BluSlot *param = blu_build_param_of(E, weight);
    if (param) {
      blu_elab_error(E, BLU_E_PER_EXAMPLE, w.span, "weights depend on the data alone, and these on the parameter `%s`",
                     param->name);
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

static void metric(BluElab *E, BluTrain *T, const BluStmt *st) {
  const BluName *name = st->pattern.names;
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
  if (!strcmp(name->text, "loss")) blu_elab_error(E, BLU_E_SETTING, name->span, "a metric can't be called `loss`");
  else if (set_once(E, s, name)) add_sums(E, T, name->text, st);
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
    } else if (T->training) {
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
    } else if (!blu_elab_type(E, T->scope, p->type, &slot->type)) {
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

/* The body once, as @train or as @eval. */
static void body(BluElab *E, BluScope *file, BluTrain *T, const BluDecl *d, bool training) {
  *T = (BluTrain){.decl = d, .scope = blu_scope_make(E, file), .training = training};
  blu_scope_define(E, T->scope, "step", blu_host_slot(E, E->step), (BluSpan){0});
  bind_data(E, T);
  if (!d->params)
    blu_elab_error(E, BLU_E_TRAIN, d->name.span, "`train` has no data: name its tensors, as in `train (x: f32[B, 4])`");
  BluBuild f;
  BluVal last;
  blu_build_start(E, &f, training);
  E->train = T;
  blu_elab_stmts(E, T->scope, d->settings, &last);
  E->train = NULL;
  if (!T->setting[LOSS].set) blu_elab_error(E, BLU_E_TRAIN, d->name.span, "`train` sets no `loss`");
  /* The loss comes first, wherever it stands. */
  BluOutput *out = blu_arena_alloc(E->arena, ((size_t)T->nout + 1) * sizeof *out);
  int n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < T->nout; i++)
      if ((strcmp(T->out[i].name, "loss") == 0) == (pass == 0)) out[n++] = T->out[i];
  blu_build_finish(E, &f, training ? "train" : "eval", d->name.span, n, out);
}

/* ---- the functions of the settings ---- */

static void build_clip(BluElab *E, const Setting *s) {
  BluBuild f;
  BluOutput out = {.role = "output", .name = "clip_norm"};
  blu_build_start(E, &f, false);
  blu_host_scalar(E, &s->value, &out.value);
  blu_build_finish(E, &f, "clip", s->span, 1, &out);
}

/* epochs and stop: both always there, 0 = no limit by this one. */
static void build_settings(BluElab *E, const BluTrain *T) {
  static const int given[] = {EPOCHS, STOP};
  BluBuild f;
  BluOutput out[2];
  blu_build_start(E, &f, false);
  for (int i = 0; i < 2; i++) {
    const Setting *s = &T->setting[given[i]];
    BluOperand v = s->set ? s->value : (BluOperand){.val = blu_val_int(0), .span = T->decl->name.span};
    out[i] = (BluOutput){.role = "output", .name = setting_name[given[i]]};
    if (v.val.kind == VAL_HOST && blu_host_uses_step(v.val.u.host))
      blu_elab_error(E, BLU_E_SETTING, v.span, "`%s` is known before the first step, so it can't depend on `step`",
                     s->name);
    blu_host_scalar(E, &v, &out[i].value);
  }
  blu_build_finish(E, &f, "settings", T->decl->name.span, 2, out);
}

void blu_elab_train(BluElab *E, BluScope *file, const BluDecl *d, BluSlot ***states, int *nstates) {
  BluTrain T, again;
  body(E, file, &T, d, true);
  Setting *optimizer = &T.setting[OPTIMIZER];
  if (!optimizer->set) blu_elab_error(E, BLU_E_TRAIN, d->name.span, "`train` sets no `optimizer`");
  if (!T.setting[EPOCHS].set && !T.setting[STOP].set)
    blu_elab_error(E, BLU_E_TRAIN, d->name.span, "`train` sets neither `epochs` nor `stop`, so it would never end");
  body(E, file, &again, d, false);
  if (T.setting[CLIP_NORM].set) build_clip(E, &T.setting[CLIP_NORM]);
  build_settings(E, &T);
  if (!optimizer->set || optimizer->value.val.kind == VAL_UNKNOWN) return;
  if (optimizer->value.val.kind == VAL_UPDATE) {
    blu_elab_update(E, optimizer->value.val.u.update, states, nstates);
    return;
  }
  BluDiag *e = blu_elab_error(E, BLU_E_OPTIMIZER, optimizer->value.span,
                              "`optimizer` is an optimizer with its arguments, not %s",
                              blu_val_describe(E, &optimizer->value.val));
  if (optimizer->value.val.kind == VAL_OPTIMIZER)
    blu_diag_help(e, "call it: `%s(...)`", optimizer->value.val.u.decl->decl->name.text);
}
