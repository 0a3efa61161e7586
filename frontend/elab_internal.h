/* elab_internal.h - elaboration: a tree-walking evaluator of the syntax tree whose run-time values are MLIR values.
 *
 * Compile-time values fold in C. Host scalars (what depends on `run` values and `step` alone) are kept as expressions
 * and become f64 ops in each function that uses them. After an error evaluation goes on with VAL_UNKNOWN, which nothing
 * complains about. Every function that reports takes the span to blame. */
#ifndef BLU_FRONTEND_ELAB_INTERNAL_H
#define BLU_FRONTEND_ELAB_INTERNAL_H
#include "ast.h"
#include "diag.h"
#include "dialects/blu.h"
#include "dialects/format.h"
#include "frontend.h"
#include "names.h"

typedef struct BluElab BluElab;
typedef struct BluVal BluVal;
typedef struct BluScope BluScope;
typedef struct BluHost BluHost;
typedef struct BluInstance BluInstance;

/* ---- values ---- */

typedef enum {
  VAL_UNKNOWN, /* an error was reported already */
  VAL_NONE,    /* of a block without a value */
  VAL_INT, VAL_REAL, VAL_BOOL, VAL_STRING,
  VAL_LIST, VAL_TUPLE,
  VAL_FN, VAL_OP, VAL_BUILTIN, VAL_CAST, VAL_MODULE, VAL_OPTIMIZER, VAL_NAMESPACE, /* what can be named and called */
  VAL_FORMAT,  /* of numbers, to be simulated */
  VAL_INSTANCE, VAL_UPDATE, VAL_FROZEN, VAL_INIT,
  VAL_HOST,    /* f64 or bool scalar of the host */
  VAL_SLOT,    /* a tensor that comes from outside: parameter, data, input */
  VAL_TENSOR
} BluValKind;

typedef struct { BluVal *item; int n; } BluList;
typedef struct { const BluFn *fn; BluScope *env; const char *label; } BluClosure;
typedef struct { const BluDecl *decl; BluScope *env; } BluDeclRef;   /* module or optimizer */
typedef struct { MlirValue value; BluType type; } BluTensor;
typedef struct BluBuiltin BluBuiltin;

/* Where a run-time value comes from. In the order of a function's arguments. */
typedef enum {
  SLOT_DATA, SLOT_INPUT, SLOT_ROWS, SLOT_PARAM, SLOT_GRAD, SLOT_STATE, SLOT_CACHE, SLOT_RUN, SLOT_STEP, SLOT_SEED
} BluSlotRole;

typedef struct BluSlot {
  BluSlotRole role;
  int order;              /* among slots of the role */
  const char *name;       /* blu.name; of a parameter its path, known once all instances are */
  BluType type;
  bool computes;          /* declared with elements `float`: kept as `type` says, and used as: */
  BluElem used;           /* (everywhere but in optimizers) */
  BluSpan span;
  const BluInstance *instance; /* PARAM, STATE, CACHE of a module */
  double initial;         /* RUN: default */
  const BluExpr *init;    /* PARAM, STATE: initial value, to be evaluated in env */
  BluScope *env;
  const char *owner;      /* the module that declares it, for messages */
  BluSpan made;           /* the call that made the instance */
  bool frozen;            /* PARAM: no optimizer changes it */
  bool trained;           /* PARAM: the loss depends on it */
  const char *starts, *group; /* PARAM, STATE: initial value and optimizer in words, for the trainer's `info`; NULL: none */
  int build;              /* function that `value`, its argument, belongs to */
  MlirValue value;
  int changed;            /* function that `:=` gave the new value `now` in */
  MlirValue now;
} BluSlot;

/* How a parameter starts: all elements alike, or random numbers scaled. */
typedef struct {
  enum { INIT_FILL, INIT_UNIFORM, INIT_NORMAL, INIT_TRUNCATED } kind;
  double a, b;    /* value; lo, hi; mean, deviation */
  double lo, hi;  /* TRUNCATED: in deviations from the mean */
} BluInit;

/* optimizer = NAME(...): the optimizer with its arguments. */
typedef struct { const BluDecl *decl; BluScope *scope; BluSpan call; } BluUpdate;

struct BluVal {
  BluValKind kind;
  union {
    int64_t i;
    double real;
    bool b;
    const char *s;
    BluList *list;        /* LIST, TUPLE */
    BluClosure *fn;
    const BluOp *op;
    const BluBuiltin *builtin;
    BluElem elem;         /* CAST; BLU_ELEMS: to what `float` is */
    BluDeclRef *decl;     /* MODULE, OPTIMIZER */
    BluScope *space;      /* NAMESPACE */
    BluInstance *instance;
    BluUpdate *update;
    BluInit *init;
    BluFormat *format;
    BluHost *host;
    BluSlot *slot;
    BluTensor *tensor;
  } u;
};

struct BluInstance {
  const BluDecl *decl;
  BluScope *scope;        /* constructor's arguments and members */
  const BluFn *call;      /* the unnamed fn, NULL if there is none */
  BluSpan made;
  const char *path;       /* "h.0.attn", "" for the model itself; NULL: no binding holds it */
  BluSlot **slots;        /* its own parameters, states and caches, in source order */
  int nslots;
  int random_build, randoms; /* random tensors that it made in a function */
};

typedef struct { BluSlot **slot; int n; } BluSlots;

typedef enum { BIND_LET, BIND_VAR, BIND_STATE } BluBindKind;
typedef struct {
  BluBindKind kind;
  BluVal val;
  BluSpan span;
  bool ready;             /* false: top-level and not computed yet */
  bool dim;               /* a dimension variable: */
  const char *dim_name;   /* what the caller calls that dimension, and */
  bool dim_unit;          /* whether it is a unit dimension there */
  BluSpan from;           /* the argument that bound it */
} BluBinding;

struct BluScope {
  BluScope *parent;
  BluInstance *instance;  /* of an instance's members */
  BluNames names;         /* -> BluBinding */
};

/* One evaluated operand or argument. */
typedef struct {
  BluVal val;
  BluSpan span;
  BluName name;        /* text NULL: by place */
  const BluExpr *expr; /* as it is written; NULL: not known */
} BluOperand;

/* ---- state ---- */

typedef struct BluFrame {
  const char *label;
  BluSpan call;
  const void *what;
  const BluScope *env;
  struct BluFrame *up;
} BluFrame;

/* A function under construction. Ops go to a block of their own; arguments join it as they are used. */
typedef enum { BUILD_TRAIN, BUILD_EVAL, BUILD_ENTRY, BUILD_UPDATE, BUILD_OTHER } BluBuildKind;
typedef struct BluBuild {
  int id;
  BluBuildKind kind;
  bool training;
  struct BluBuild *outer;  /* of the body of a scan: the function, or the other body, that the scan stands in */
  MlirValue iteration;     /* of a body that asked for it: number of the step, i64 */
  BluBuilder b;
  BluSlots used, changed;
  int randoms;            /* random tensors made outside of instances */
  bool key_made;
  MlirValue key;          /* of random tensors */
} BluBuild;

typedef struct BluTrain BluTrain;

struct BluElab {
  MlirContext ctx;
  MlirModule module;
  BluArena *arena;
  BluDiags *diags;
  const BluFrontendOptions *options;
  BluScope *builtins;
  BluNames files;         /* path -> scope of an imported file */
  BluFrame *frames;
  BluBuild *build;        /* NULL at top level */
  int builds;
  int depth;
  int64_t steps;          /* expressions evaluated, to stop what would never end */
  bool stopped;
  BluElem compute;        /* what `float` stands for */
  BluSlot *rows, *step, *seed;
  int runs, scans;
  BluSlots params, states, caches; /* of all instances, in the order of their paths */
  BluInstance **instances;         /* that have a path */
  int ninstances;
  const void **called;    /* BluFn or BluDecl that something called */
  int ncalled;
  BluTrain *train;        /* while the train block is evaluated */
};

/* ---- value.c ---- */

extern const BluVal blu_val_unknown, blu_val_none;
BluVal blu_val_int(int64_t i);
BluVal blu_val_real(double r);
BluVal blu_val_bool(bool b);
BluVal blu_val_list(BluElab *E, BluValKind kind, int n); /* items are unknown */
BluVal blu_val_tensor(BluElab *E, MlirValue v, const BluType *t);
BluVal blu_val_init(BluElab *E, BluInit init);
bool blu_val_number(const BluVal *v, double *x);          /* INT or REAL */
/* A tensor's type; false for other values. */
bool blu_val_type(const BluVal *v, BluType *t);
const char *blu_val_describe(BluElab *E, const BluVal *v); /* "a string", "the tensor f32[B = 8]" */
const char *blu_type_text(BluElab *E, const BluType *t);
const char *blu_op_text(const BluOp *op);                  /* as it is written: "+", "relu" */

BluScope *blu_scope_make(BluElab *E, BluScope *parent);
BluBinding *blu_scope_define(BluElab *E, BluScope *s, const char *name, BluVal v,
                             BluSpan span);                     /* replaces an older one */
BluBinding *blu_scope_find(BluScope *s, const char *name);      /* outwards; NULL: none */
BluBinding *blu_scope_find_here(BluScope *s, const char *name);

/* Reports with the trail of calls that led here. */
BluDiag *blu_elab_error(BluElab *E, BluCode code, BluSpan at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The call in the user's own files that led to a place in the library; other places are their own. */
BluSpan blu_elab_user_span(const BluElab *E, BluSpan at);
BluVal blu_elab_unsupported(BluElab *E, BluSpan at, const char *what);

/* ---- elab_expr.c, elab_stmt.c ---- */

BluVal blu_elab_expr(BluElab *E, BluScope *s, const BluExpr *e);
BluVal blu_elab_block(BluElab *E, BluScope *s, const BluBlock *b);
void blu_elab_stmts(BluElab *E, BluScope *s, const BluStmt *first, BluVal *last_if);
void blu_elab_bind_pattern(BluElab *E, BluScope *s, const BluPattern *p, BluVal v, BluBindKind kind);
/* The values that a range or a list stands for; false after an error. */
bool blu_elab_range(BluElab *E, BluScope *s, const BluRange *r, BluList *out);
/* The value of an `if`; NONE if no branch is taken. */
BluVal blu_elab_if(BluElab *E, BluScope *s, const BluExpr *e);

/* ---- elab_type.c ---- */

typedef struct {
  bool bound;
  int n;
  int64_t dim[BLU_MAX_RANK];
  const char *name[BLU_MAX_RANK];
  bool unit[BLU_MAX_RANK];
} BluRest;

/* What `float` is in the function under construction: the compute type; in optimizers what parameters are kept in. */
BluElem blu_elab_float(const BluElab *E);
BluElem blu_elab_kept(const BluElab *E); /* f32 for the half types */
bool blu_elab_is_float(const BluTypeExpr *t); /* is its element type written `float`? */
bool blu_elab_elem(const BluElab *E, const BluName *name, BluElem *e);
/* The type of what comes from outside. `float` is kept in f32, and rounded where it is used. */
bool blu_elab_slot_type(BluElab *E, BluScope *s, const BluTypeExpr *t, BluSlot *slot);
/* Sets what `float` stands for, by the setting of the train block, and the slots that were declared before this was known. */
void blu_elab_precision(BluElab *E, BluScope *file, const BluDecl *train);
/* A type all of whose dimensions are known in the scope. */
bool blu_elab_type(BluElab *E, BluScope *s, const BluTypeExpr *t, BluType *out);
/* Whether t is small enough for a tensor; reported if not. */
bool blu_elab_bounded(BluElab *E, const BluType *t, BluSpan at);
/* Fits an argument to a parameter's type: binds dimension variables in s, converts numbers. UNKNOWN after an error. */
BluVal blu_elab_fit(BluElab *E, BluScope *s, const BluParam *p, BluRest *rest, const BluOperand *arg);
/* Fits the body's value to the signature's results. */
BluVal blu_elab_fit_result(BluElab *E, BluScope *s, const BluSignature *sig, const BluRest *rest, BluVal v, BluSpan at);

/* ---- elab_call.c ---- */

BluVal blu_elab_call(BluElab *E, BluVal callee, BluOperand *args, int n, BluSpan callee_at, BluSpan at);
/* Calls a function of the program with values, by place. */
BluVal blu_elab_call_fn(BluElab *E, const BluClosure *f, BluOperand *args, int n, BluSpan at);
void blu_elab_mark_called(BluElab *E, const void *what);
bool blu_elab_was_called(const BluElab *E, const void *what);

/* ---- elab_op.c, elab_fold.c, elab_host.c ---- */

/* One op over values of any kind: folds, builds a host expression, or broadcasts and emits. `at` is the location of the
 * op. */
BluVal blu_elab_apply(BluElab *E, const BluOp *op, const BluOperand *in, int n, const BluAttrs *attrs, BluSpan at);
/* What an operand is called in a suggestion: its text in the user's file, if that is short; else "...". `argument`: it will stand
 * between commas, so that operators in it do no harm. */
const char *blu_elab_written(BluElab *E, const BluOperand *v, bool argument);
/* A call of an op by its language name: operands by place, attributes by name. */
BluVal blu_elab_call_op(BluElab *E, const BluOp *op, BluOperand *args, int n, BluSpan at);
/* The value as a tensor of the type's element type and shape; a number or a host scalar is spread over it. */
bool blu_elab_spread(BluElab *E, const BluOperand *v, const BluType *t, MlirValue *out);
/* A tensor's MLIR value; false (reported) for other values and outside of functions. */
bool blu_elab_tensor(BluElab *E, const BluOperand *v, MlirValue *out, BluType *t);
bool blu_elab_attr(BluElab *E, const BluAttrInfo *info, const BluOperand *v, BluAttr *out);

bool blu_fold_known(const BluOperand *in, int n);          /* all are compile-time scalars */
BluVal blu_fold(BluElab *E, const BluOp *op, const BluOperand *in, int n, BluSpan at);
BluVal blu_fold_mod(BluElab *E, const BluOperand *in, BluSpan at);

BluVal blu_host_slot(BluElab *E, BluSlot *slot);
BluVal blu_host_apply(BluElab *E, const BluOp *op, const BluOperand *in, int n, BluSpan at);
bool blu_host_is_bool(const BluHost *h);
bool blu_host_uses_step(const BluHost *h);
MlirValue blu_host_emit(BluElab *E, BluHost *h);           /* rank 0, f64 or bool, in the function under construction */
/* The f64 scalar of a number or host expression; false (reported) for other values. */
bool blu_host_scalar(BluElab *E, const BluOperand *v, MlirValue *out);

/* ---- elab_builtin.c ---- */

struct BluBuiltin {
  const char *name;
  BluVal (*call)(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at);
};
BluVal blu_elab_scan(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at);
BluVal blu_elab_einsum(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at);
BluVal blu_elab_rearrange(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at);
/* x[...] of a tensor x of type t. */
BluVal blu_elab_part(BluElab *E, BluScope *s, const BluExpr *e, const BluOperand *x, const BluType *t);
BluVal blu_elab_split(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at);
BluVal blu_elab_concat(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at);
/* uniform(lo, hi)(dims) in the training step. */
BluVal blu_elab_random(BluElab *E, const BluInit *init, const BluType *t, BluSpan at);
BluVal blu_elab_dropout(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at);
BluVal blu_elab_bernoulli(BluElab *E, const BluBuiltin *self, BluOperand *args, int n, BluSpan at);
/* Dimensions written as arguments, or as one list; they join t. They keep their names, and a written `1` is a unit. */
bool blu_elab_dims(BluElab *E, const char *name, const BluOperand *args, int n, BluType *t);
void blu_builtin_define(BluElab *E, BluScope *s);
bool blu_builtin_planned(const char *name);                /* a name of the language that this version lacks */
/* zeros(b, n): the tensor that an initial value stands for. */
BluVal blu_builtin_fill(BluElab *E, const BluInit *init, BluOperand *args, int n, BluSpan at);

/* ---- elab_func.c: functions of the module ---- */

void blu_slots_add(BluElab *E, BluSlots *s, BluSlot *slot);
void blu_build_start(BluElab *E, BluBuild *f, BluBuildKind kind);
MlirLocation blu_build_loc(BluElab *E, BluSpan at);
void blu_build_at(BluElab *E, BluSpan at);                 /* location of the ops that follow */
/* The slot's value at this place of the function: its argument, or what `:=` has made of it. */
MlirValue blu_build_slot(BluElab *E, BluSlot *slot);
/* The function under construction, also while the body of a scan is built. */
BluBuild *blu_build_root(const BluElab *E);
/* In the body of a scan: the number of the step, an i64 scalar. */
MlirValue blu_build_iteration(BluElab *E);
void blu_build_change(BluElab *E, BluSlot *slot, MlirValue v);
/* The slots that v depends on; `smoothly`: through ops that have a gradient. */
BluSlots blu_build_slots_of(BluElab *E, MlirValue v, bool smoothly);
typedef struct { MlirValue value; const char *role, *name; } BluOutput;
/* Adds the new values of slots that the function changed and that have this role. */
void blu_build_add_changed(BluElab *E, BluSlotRole role, BluOutput **out, int *n);
/* Ends the function: its arguments are the slots it used. Null if there were errors: nothing is made then. */
MlirOperation blu_build_finish(BluElab *E, BluBuild *f, const char *name, BluSpan at, int n, const BluOutput *outputs);
void blu_elab_entry(BluElab *E, BluScope *file, const BluDecl *d);

/* ---- elab_init.c: paths and initial values ---- */

void blu_elab_name_slots(BluElab *E, BluScope *file);
void blu_elab_init(BluElab *E, const BluSlots *optimizer_states);
MlirValue blu_init_emit(BluElab *E, const BluInit *init, const BluType *t, MlirValue key, int64_t stream);
/* Number of the stream of random numbers that belongs to a path. */
int64_t blu_elab_stream(const char *path);

/* ---- elab_train.c, elab_update.c ---- */

/* Makes @train, @eval, @update, @clip and @settings; the optimizer's states, for @init. */
void blu_elab_train(BluElab *E, BluScope *file, const BluDecl *d, BluSlots *states);
/* A statement `x = e` that assigns no variable, or `label x = e`: a setting. */
void blu_elab_setting(BluElab *E, BluScope *s, const BluStmt *st);
/* `optimizer = update;` (glob NULL), or `optimizer "glob" = update;` (update NULL: frozen). */
typedef struct { const char *glob; const BluUpdate *update; BluSpan span; bool used; } BluGroup;
void blu_elab_update(BluElab *E, BluGroup *groups, int n, BluSpan at, BluSlots *states);
/* The argument `lr` of the optimizer of most parameters: that of the default group, else of the first that isn't frozen. NONE: it has
 * no number of this name. */
BluOperand blu_elab_learning_rate(const BluGroup *groups, int n);

/* ---- the standard library's text ---- */

typedef struct { const char *name, *text; } BluStdFile; /* of the standard library: "nn"; made by embed.cmake */
extern const BluStdFile blu_std[];
extern const int blu_nstd;

/* ---- check.c ---- */

/* Checks the names of a whole file, those of functions that nothing calls included. `main`: nothing imports the file. */
void blu_check_names(BluArena *a, BluDiags *ds, const BluFile *f, const BluScope *builtins, bool main);

#endif
