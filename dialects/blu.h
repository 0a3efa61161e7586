/* blu.h - the op set: what the rest of the compiler sees of it.
 *
 * An op is one TableGen record (BluOps.td) and one C rule (ops_*.c). A build step turns the records into the table
 * `blu_ops`, which points at the rules; the language's built-in names, the verifier, the gradients, the lowering, the op
 * tests and docs/ops.md all read that table, so nothing is listed twice and a record without a rule does not link.
 * Every op is pure but `guard`. Functions here report through return values and never exit. */
#ifndef BLU_DIALECTS_BLU_H
#define BLU_DIALECTS_BLU_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "mlir-c/IR.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { BLU_MAX_RANK = 8, BLU_MAX_IN = 7, BLU_MAX_ATTRS = 8 };

/* ---- types ---- */

typedef enum { BLU_F32, BLU_F64, BLU_BF16, BLU_F16, BLU_SIM, BLU_I32, BLU_I64, BLU_U8, BLU_BOOL, BLU_ELEMS } BluElem;

/* BLU_SIM: a number of the simulated format that the module's attribute `blu.format` describes; in IR tf32, which nothing else uses, until
 * the pass formats makes f32 of it. It has no spelling of its own: the language knows it as `float`. */

/* A tensor type. `name` and `unit` serve the front end alone and don't exist in IR: a dimension remembers the name that
 * it was declared with ("B", or NULL), and whether it is a unit dimension, one that may stretch. */
typedef struct {
  BluElem elem;
  int rank;
  int64_t dim[BLU_MAX_RANK];
  const char *name[BLU_MAX_RANK];
  bool unit[BLU_MAX_RANK];
} BluType;

const char *blu_elem_name(BluElem e);              /* "f32": the language's spelling */
bool blu_elem_parse(const char *name, BluElem *e); /* false: no such type */
bool blu_elem_is_float(BluElem e);
bool blu_elem_is_half(BluElem e);                  /* bf16, f16 or simulated: computed in f32, each result rounded once */
BluElem blu_elem_compute(BluElem e);               /* what ops on elements of e compute and accumulate in: f32 for the half types, else e */
int blu_elem_bytes(BluElem e);                     /* in memory; a bool takes one byte */
int64_t blu_type_count(const BluType *t);          /* number of elements; 1 for rank 0 */
bool blu_type_same(const BluType *a, const BluType *b); /* element type and sizes; names and units don't count */
char *blu_type_print(const BluType *t, char *buf, size_t size); /* "f32[B = 8, 3]"; returns buf */
BluType blu_type_make(BluElem e, int rank, const int64_t *dim); /* no names, no units */

/* ---- attributes ---- */

typedef enum { BLU_ATTR_INT, BLU_ATTR_INTS, BLU_ATTR_REAL, BLU_ATTR_BOOL, BLU_ATTR_TYPE, BLU_ATTR_STRING } BluAttrKind;

typedef struct {
  const char *name;
  BluAttrKind kind;
  int n;                    /* INTS: how many */
  int64_t i[BLU_MAX_RANK];  /* INT, BOOL, TYPE (a BluElem): i[0] */
  double real;
  const char *str;          /* borrowed */
} BluAttr;

typedef struct { int n; BluAttr a[BLU_MAX_ATTRS]; } BluAttrs;

const BluAttr *blu_attr(const BluAttrs *as, const char *name);               /* NULL: absent */
int64_t blu_attr_int(const BluAttrs *as, const char *name, int64_t absent);  /* INT, BOOL and TYPE */
double blu_attr_real(const BluAttrs *as, const char *name, double absent);
BluAttrs blu_attr_set_int(BluAttrs as, const char *name, int64_t v);
BluAttrs blu_attr_set_ints(BluAttrs as, const char *name, int n, const int64_t *v);
BluAttrs blu_attr_set_real(BluAttrs as, const char *name, double v);
BluAttrs blu_attr_set_bool(BluAttrs as, const char *name, bool v);
BluAttrs blu_attr_set_type(BluAttrs as, const char *name, BluElem v);

/* ---- ops ---- */

/* One use of an op, without IR: what `infer` judges. */
typedef struct {
  int nin;
  BluType in[BLU_MAX_IN];
  BluAttrs attrs;
  BluType out;   /* written by infer, names and units included */
} BluSig;

/* Why a signature is refused. `label` names the constraint, as in the docs and the negative tests ("same-shape");
 * `operand` is the one to blame, -1 for none. */
typedef struct { const char *label; int operand; char text[400]; } BluWhy;

typedef struct BluBuilder BluBuilder;
struct BluMap;
typedef struct BluEmit BluEmit;
typedef struct BluEmitVal BluEmitVal;
typedef struct BluVjp BluVjp;
typedef struct BluRefCall BluRefCall;

/* How an op takes part in kernels (passes/fuse, codegen). */
typedef enum {
  BLU_KIND_ELEMENT,   /* result element i from operands' elements i: has `lower` */
  BLU_KIND_INDEX,     /* made from indices alone, or moves elements without a stored copy: constant, iota, broadcast */
  BLU_KIND_REDUCE,    /* sum, max, ... over axes */
  BLU_KIND_MATMUL,
  BLU_KIND_MOVE,      /* result elements are operand elements at other places, or a fill value: has `move`; scatter_add, cumsum and
                         top_k, where elements depend on one another, have none */
  BLU_KIND_VIEW,      /* same bytes, another shape: reshape */
  BLU_KIND_COMPOSITE, /* has `expand` */
  BLU_KIND_EFFECT     /* guard */
} BluKind;

/* Inputs that the op tests use for one op; `func` is the body of a function in IR, see tests/ops. */
typedef struct {
  const char *args;   /* "%a: tensor<3x4xf64>, %b: tensor<4xf64>" */
  const char *body;   /* "%r = blu.add ..." : the result is %r */
  double lo, hi;      /* range of float operands; integer operands: [0, (int)ihi) */
  int ihi;
} BluOpCase;

/* Reads element `index` (i64) of an operand for `move`; the index must be inside of the operand, whatever is selected later. */
typedef BluEmitVal (*BluMoveLoad)(void *user, int operand, BluEmitVal index);

/* Columns [from, to) of a move's result, along its last dimension, that are moved together: all conditions are the same for all of them,
 * and operands whose bit is set are read at places that grow with the column, by 1; others at one place for all, if the result is theirs. */
typedef struct { int64_t from, to; unsigned operands; } BluRun;
enum { BLU_MAX_RUNS = 3 };

typedef struct {
  BluKind kind;
  const char *labels;                     /* names of the constraints that infer checks, for docs and tests: "float rank" */
  bool (*infer)(BluSig *s, BluWhy *why);
  void (*vjp)(BluVjp *v);                 /* NULL: has no gradient (an error at the user's line when one is asked for) */
  void (*ref)(BluRefCall *c);             /* the meaning of the op, in double */
  BluEmitVal (*lower)(BluEmit *e, const BluAttrs *a, const BluEmitVal *in, int nin); /* ELEMENT only */
  /* MOVE only: the result's element at the coordinates at[0 .. rank). All values are scalars. */
  BluEmitVal (*move)(BluEmit *e, const BluSig *s, const BluEmitVal *at, BluMoveLoad load, void *user);
  int (*runs)(const BluSig *s, BluRun *run); /* MOVE only: the runs of a row, in order; 0, or NULL: one element at a time */
  MlirValue (*expand)(BluBuilder *b, const BluSig *s, const MlirValue *in);           /* COMPOSITE; ELEMENT: a form that is better to compile */
  bool nodiff;                            /* integer-valued or piecewise constant: the gradient is zero, not missing */
  bool narrow;                            /* COMPOSITE: expands in the type of its operands; others expand half types in f32 */
  bool exact;                             /* results are operands' elements or other numbers of their type: nothing to round on half types */
  const BluOpCase *cases;                 /* ended by one with body == NULL */
  /* In the place of `cases`, for an op that no target has code for yet, or whose expansion holds such an op: op tests run
   * these, kernel tests don't. A primitive with `uncoded` is refused at the user's line when code is asked for. NULL: none. */
  const BluOpCase *uncoded;
  double tolerance;                       /* of f32 code against ref, relative; with a reason in a comment */
} BluRule;

typedef struct { const char *name; BluAttrKind kind; bool optional; } BluAttrInfo;

typedef struct {
  const char *name;                       /* "add", in IR "blu.add" */
  const char *summary, *doc;
  const char *gradient;                   /* the rule in words; "": none */
  int nin;                                /* -1: any number */
  const char *in[BLU_MAX_IN];             /* operand names */
  int nattr;
  BluAttrInfo attr[BLU_MAX_ATTRS];
  int nout;                               /* 0 or 1 */
  bool pure;
  bool builtin;                           /* a function of the language by this name */
  const BluRule *rule;
} BluOp;

extern const BluOp blu_ops[];
extern const int blu_nops;
const BluOp *blu_op_find(const char *name);       /* by language name; NULL: none. For IR ops: */
const BluOp *blu_op_of(MlirOperation op);         /* NULL: not of this dialect */
/* Runs infer after the checks that hold for all ops (operand count, known attributes and their kinds, negative axes). */
bool blu_infer(const BluOp *op, BluSig *s, BluWhy *why);
const BluOpCase *blu_op_cases(const BluOp *op);   /* cases or uncoded; ended by one with body == NULL */

/* ---- IR ---- */

void blu_context_load(MlirContext ctx);           /* loads blu and func into the context */
MlirType blu_type_to_mlir(MlirContext ctx, const BluType *t);
bool blu_type_from_mlir(MlirType t, BluType *out); /* false: not a ranked tensor of a known element type */
void blu_sig_of(MlirOperation op, BluSig *s);     /* types and attributes of an op of this dialect */
BluAttrs blu_attrs_of(MlirOperation op);

struct BluBuilder {
  MlirContext ctx;
  MlirLocation loc;
  MlirBlock block;
  MlirOperation before;  /* insert before this op; null: append to block */
};

/* Builds one op; its result type is inferred. A signature that infer refuses is the caller's bug here: the front end asks
 * blu_infer first. Aborts with the reason then. For an op without result, a null value. */
MlirValue blu_build(BluBuilder *b, const char *name, const BluAttrs *attrs, int n, const MlirValue *in);
MlirValue blu_build1(BluBuilder *b, const char *name, MlirValue x);
MlirValue blu_build2(BluBuilder *b, const char *name, MlirValue x, MlirValue y);
MlirValue blu_constant(BluBuilder *b, const BluType *t, double value);              /* splat */
MlirValue blu_constant_like(BluBuilder *b, MlirValue like, double value);
MlirValue blu_broadcast_to(BluBuilder *b, MlirValue x, const BluType *t);           /* x itself if the shape is the same */
MlirValue blu_reshape_to(BluBuilder *b, MlirValue x, const BluType *t);
MlirValue blu_cast_to(BluBuilder *b, MlirValue x, BluElem e);
MlirValue blu_reduce(BluBuilder *b, const char *name, MlirValue x, int naxes, const int64_t *axes, bool keep);
BluType blu_value_type(MlirValue v);
/* What a composite, or an elementwise op with `expand`, stands for. On half types that is in f32, and the result is rounded once. */
MlirValue blu_expand_op(BluBuilder *b, MlirOperation op);

/* Functions: arguments and results carry dictionaries such as {blu.name = "fc1.weight", blu.role = "param"}; docs/ir.md
 * lists the roles. `name` is what blu.name holds. */
typedef struct {
  BluType type;
  const char *role, *name;
  double value;          /* blu.value, of a run value */
  bool has_value;
  int64_t bound;         /* blu.bound: elements lie in [0, bound); 0 = not known */
  MlirLocation loc;
} BluPort;
/* Makes func.func @name with an entry block (returned in *block) in the module; results come with blu_func_return. */
MlirOperation blu_func_make(MlirModule m, MlirLocation loc, const char *name, int nargs, const BluPort *args, MlirBlock *block);
/* Appends func.return and writes the function's type and result dictionaries. */
void blu_func_return(MlirOperation func, MlirLocation loc, int n, const MlirValue *values, const BluPort *ports);
MlirModule blu_module_of(MlirOperation op);                       /* that it stands in; null: none */
void blu_module_set_target(MlirModule m, const char *target);   /* blu.target */
bool blu_targets_device(MlirModule m);                            /* the program is for a CUDA device: blu.target = "cuda" */
MlirOperation blu_func_find(MlirModule m, const char *name);      /* null: none */
/* A name that no function has: `base`, or `base`, `between` and the first free number from 2 on. Cut off at `room` bytes. */
void blu_func_free_name(MlirModule m, const char *base, const char *between, char *name, size_t room);
/* A function with these arguments in the module where b builds, named after `base`, and a builder inside of it: a scan's body to be. */
MlirOperation blu_func_open(const BluBuilder *b, const char *base, int nargs, const BluPort *args, BluBuilder *inside);
MlirBlock blu_func_block(MlirOperation func);
int blu_func_nargs(MlirOperation func);
int blu_func_nresults(MlirOperation func);
BluPort blu_func_arg(MlirOperation func, int i);                  /* strings borrowed from the context */
BluPort blu_func_result(MlirOperation func, int i);
void blu_func_set_arg(MlirOperation func, int i, const BluPort *port);  /* its dictionary; the type stays */
/* Clones the ops of block `from` but its terminator to where b stands; operands go through `map` (value -> value), which gets the
 * clones' results. Values that are not in the map stay as they are. */
void blu_clone_into(BluBuilder *b, MlirBlock from, struct BluMap *map);
/* The op that b inserts next stands before op. */
BluBuilder blu_builder_before(MlirOperation op);
bool blu_is(MlirOperation op, const char *name);                  /* "add": is it blu.add? */
MlirOperation blu_def(MlirValue v);                               /* defining op; null for an argument */
bool blu_constant_value(MlirValue v, double *value);              /* v is a blu.constant */

/* ---- scan ---- */

/* blu.scan runs a private function of the module, its body, `steps` times. Operands: the carries' first values, then tensors whose
 * leading dimension is `steps` and of which each run gets one slice, then tensors that every run gets whole. The body returns the
 * new carries and further results; the op's results are the last carries and those further results stacked along a leading
 * dimension. With `reverse` the runs go from the last slice to the first. A body belongs to one scan. */
typedef struct {
  int carries, sequences, fixed, stacked;
  int64_t steps;
  bool reverse;
  const char *body; /* borrowed from the context */
} BluScan;

bool blu_scan_of(MlirOperation op, BluScan *s);   /* false: not a scan */
/* Steps that don't depend on one another, and enough of them to give each thread some. */
bool blu_scan_is_map(const BluScan *s);
/* carries, sequences, steps and reverse of s are read; the rest follows from the body and the n operands, which fit together. */
MlirOperation blu_scan_build(BluBuilder *b, const BluScan *s, MlirOperation body, int n, const MlirValue *in);
MlirOperation blu_scan_body(MlirOperation scan);  /* the function, found through the module that the scan stands in */
BluType blu_scan_slice(const BluType *t);         /* without the leading dimension */
BluType blu_scan_stack(const BluType *t, int64_t steps);
bool blu_is_body(MlirOperation func);             /* a private function that is no kernel */
void blu_func_retype(MlirOperation func);        /* writes the function's type again, after types of its values have changed */
void blu_set_body(MlirOperation func);            /* makes it private */

/* ---- gradient rules ---- */

struct BluVjp {
  BluBuilder *b;
  MlirOperation op;
  BluSig sig;
  const MlirValue *in;   /* operands */
  MlirValue out, ct;     /* result and its cotangent, of the same type */
  MlirValue dx[BLU_MAX_IN]; /* written by the rule: cotangent of operand i; null = zero */
  bool need[BLU_MAX_IN];    /* operand i leads to something that is differentiated */
};

/* Calls the rule of v->op. Where it is of several ops on half types, they are in f32, and its cotangents rounded at the end. */
void blu_vjp_run(BluVjp *v);
/* x * y where a zero cotangent x gives zero whatever y is (infinity, NaN): y is used only where x != 0. */
MlirValue blu_strong_mul(BluBuilder *b, MlirValue ct, MlirValue factor);

/* ---- reference ---- */

struct BluRefCall {
  const BluSig *sig;
  const double *in[BLU_MAX_IN]; /* every element type as double; bool 0 or 1; i64 exact to 2^53 */
  double *out;
};

/* Runs a function of one block (blu ops, calls of other functions of the module) through the rules' ref.
 * args[i] points at count(arg i) doubles; results[i] is malloc'ed here, the caller frees it, NULL after an error. f32 values are *not*
 * rounded, but constants and what is made of constants alone: this is the meaning in exact arithmetic, as near as double comes. Values
 * of the half types are: they are the numbers that a user asked for.
 * false: an op without ref, named in why, or a call of what can't be called. */
bool blu_interp_run(MlirModule m, MlirOperation func, const double *const *args, double **results, BluWhy *why);
/* What the stop_gradients of a run gave, in order. A zeroed one records; with `replay`, runs of the same function take these values for
 * the op's: so do differences of a function whose gradient leaves something out. held NULL: neither. Here values of the half types are not
 * rounded either, nor those of round_to: a difference of rounded numbers is no slope. */
typedef struct { double **v; int n, next; bool replay; } BluHeld;
bool blu_interp_run_held(MlirModule m, MlirOperation func, const double *const *args, double **results, BluHeld *held, BluWhy *why);
void blu_held_free(BluHeld *held);

/* ---- attention ---- */

/* What an op of the attention family works on: b batches of g key heads, each for r query heads; t queries and s keys, of d and, their values,
 * of dv numbers. mask: the operand that says which keys a query sees, -1 if none does. */
typedef struct { int64_t b, g, r, t, s, d, dv; bool causal; double scale; int mask; } BluAttention;
BluAttention blu_attention_of(const BluSig *s); /* attention, attention_lse, attention_grad, and the masked ones */
/* Does op stay whole, computed by one kernel, rather than being expanded? */
bool blu_attention_is_whole(MlirOperation op);

/* ---- lowering of elementwise ops ---- */

/* A value while code is emitted: `v` for a target's handle, the others for targets that compute right away. */
struct BluEmitVal { BluElem elem; union { void *v; float f; double d; int64_t i; } u; };

typedef enum {
  BLU_PRIM_FADD, BLU_PRIM_FSUB, BLU_PRIM_FMUL, BLU_PRIM_FDIV, BLU_PRIM_FMA /* a*b+c, one rounding */,
  BLU_PRIM_FNEG, BLU_PRIM_FABS, BLU_PRIM_FSQRT, BLU_PRIM_FFLOOR, BLU_PRIM_FROUND /* to nearest, ties to even */,
  BLU_PRIM_EQ, BLU_PRIM_NE, BLU_PRIM_LT, BLU_PRIM_LE, BLU_PRIM_GT, BLU_PRIM_GE,
      /* -> bool; NE is true for NaN, the rest false; u8 unsigned */
  BLU_PRIM_SELECT,                        /* a (bool) ? b : c */
  BLU_PRIM_AND, BLU_PRIM_OR, BLU_PRIM_XOR,
  BLU_PRIM_IADD, BLU_PRIM_ISUB, BLU_PRIM_IMUL, BLU_PRIM_SHL, BLU_PRIM_SHR /* logical */, BLU_PRIM_MULHI /* unsigned i32 */,
  BLU_PRIM_CAST,                          /* a to elem; float to integer truncates and saturates, NaN gives 0 */
  BLU_PRIM_BITCAST,                       /* f32 <-> i32, f64 <-> i64 */
  BLU_PRIM_EXP64, BLU_PRIM_LOG64, BLU_PRIM_POW64, BLU_PRIM_SIN64, BLU_PRIM_COS64, BLU_PRIM_TANH64, /* f64 by the runtime */
  BLU_PRIM_SIN_FAR, BLU_PRIM_COS_FAR /* f32: b, but where |a| > 2^20 the sine of a, by the runtime in f64; costs little elsewhere */
} BluPrim;

/* What a target gives to `lower`. Every prim rounds to its type; nothing is contracted or reassociated. */
struct BluEmit {
  BluEmitVal (*prim)(BluEmit *e, BluPrim p, BluElem elem, BluEmitVal a, BluEmitVal b, BluEmitVal c);
  BluEmitVal (*constant)(BluEmit *e, BluElem elem, double value);
  BluEmitVal (*bits)(BluEmit *e, BluElem elem, uint64_t bits);    /* integer constants */
  BluEmitVal (*index)(BluEmit *e);                                /* i64: linear index of the element in the result */
};

#ifdef __cplusplus
}
#endif
#endif
