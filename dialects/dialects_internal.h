/* dialects_internal.h - shared between the files of dialects/ alone. */
#ifndef BLU_DIALECTS_INTERNAL_H
#define BLU_DIALECTS_INTERNAL_H
#include "dialects/blu.h"
#ifdef __cplusplus
extern "C" {
#endif
/* Asks the rule of `op` and compares its result type with what infer gives. */
bool blu_verify(MlirOperation op, char *why, size_t size);
bool blu_scan_verify(MlirOperation op, char *why, size_t size);
MlirDialectHandle mlirGetDialectHandle__blu__(void);
int blu_shim_tensor(MlirType t, int most, int64_t *dim, MlirType *elem); /* BluDialect.cpp */

MlirAttribute blu_attr_to_mlir(MlirContext ctx, const BluAttr *a);
bool blu_attr_from_mlir(const BluAttrInfo *info, MlirAttribute m, BluAttr *a);

/* Refuses a signature: sets label, operand and text; returns false, so that a rule can `return blu_refuse(...)`. */
bool blu_refuse(BluWhy *why, const char *label, int operand, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* What the rules share. */
bool blu_infer_same(BluSig *s, BluWhy *why);      /* result as operand 0; all operands of its type */
int64_t blu_axis(const BluSig *s, const char *name, int64_t absent); /* in [0, rank of operand 0): infer has wrapped it */
uint32_t blu_axes(const BluSig *s);               /* of a reduction, as a set of bits; all if none is given */
bool blu_require_float(const BluSig *s, BluWhy *why, int operand);
bool blu_require_integer(const BluSig *s, BluWhy *why, int operand); /* i32, i64 or u8: ids and labels */
BluType blu_kept_type(const BluSig *s);           /* operand 0's type with 1 in the place of reduced axes */
int64_t blu_reduced_count(const BluSig *s);       /* how many elements one result of a reduction comes from */
/* Iteration of reference loops: the linear index in `t` of the coordinates of linear index i in `space`; a coordinate of
 * t is 0 where t's size is 1; shapes are aligned at the end. */
int64_t blu_index_in(const BluType *t, const BluType *space, int64_t i);
/* 32 random bits: word 0 of Philox4x32-10 with the 64-bit key and the 128-bit counter (index, stream). */
uint32_t blu_philox(uint64_t key, uint64_t stream, uint64_t index);

/* f32 and f64 functions that more than one op uses, as vector code; ops_math.c. */
BluEmitVal blu_emit1(BluEmit *e, BluPrim p, BluEmitVal a);
BluEmitVal blu_emit2(BluEmit *e, BluPrim p, BluEmitVal a, BluEmitVal b);
BluEmitVal blu_emit3(BluEmit *e, BluPrim p, BluEmitVal a, BluEmitVal b, BluEmitVal c);
BluEmitVal blu_emit_real(BluEmit *e, BluEmitVal like, double v);
BluEmitVal blu_emit_exp(BluEmit *e, BluEmitVal x);
BluEmitVal blu_emit_log(BluEmit *e, BluEmitVal x);
BluEmitVal blu_emit_sincos(BluEmit *e, BluEmitVal x, bool cosine);
BluEmitVal blu_emit_tanh(BluEmit *e, BluEmitVal x);
BluEmitVal blu_emit_sigmoid(BluEmit *e, BluEmitVal x);
BluEmitVal blu_emit_pow(BluEmit *e, BluEmitVal x, BluEmitVal y);
BluEmitVal blu_emit_expm1(BluEmit *e, BluEmitVal x);
BluEmitVal blu_emit_log1p(BluEmit *e, BluEmitVal x);
BluEmitVal blu_emit_erf(BluEmit *e, BluEmitVal x);

/* Index arithmetic for `move`, on i64 scalars; emit_index.c. */
BluEmitVal blu_emit_int(BluEmit *e, int64_t v);
BluEmitVal blu_emit_affine(BluEmit *e, BluEmitVal x, int64_t factor, int64_t offset);
BluEmitVal blu_emit_linear(BluEmit *e, const BluType *t, const BluEmitVal *at); /* of the element at these coordinates */
BluEmitVal blu_emit_within(BluEmit *e, BluEmitVal x, int64_t size);            /* bool: 0 <= x < size */
BluEmitVal blu_emit_clamp(BluEmit *e, BluEmitVal x, int64_t size);             /* to [0, size) */
BluEmitVal blu_emit_floor_div(BluEmit *e, BluEmitVal x, int64_t by);
BluEmitVal blu_emit_value(BluEmit *e, BluElem t, double v);                    /* a constant of any element type */
BluEmitVal blu_emit_no_element(BluEmit *e, BluElem t);  /* what is read where an id names no element: NaN; 0 for integers */

/* Adds the run [from, to) to n of them, unless it is empty. */
int blu_run_add(BluRun *run, int n, int64_t from, int64_t to, unsigned operands);
int64_t blu_row_length(const BluType *t); /* its last dimension; 1 for rank 0 */

/* v as the expansion of a composite over element type e has it as a constant: rounded to what it computes in. References use the same. */
double blu_rounded(BluElem e, double v);
/* Coordinates in t of the linear index i, and back. */
void blu_coordinates(const BluType *t, int64_t i, int64_t *at);
int64_t blu_linear(const BluType *t, const int64_t *at);

/* Building: what composites and gradients share; compose.c. */
MlirValue blu_where(BluBuilder *b, MlirValue c, MlirValue x, MlirValue y);
MlirValue blu_over(BluBuilder *b, const char *f, MlirValue x, int naxes,
    const int64_t *axes); /* f(x) over axes, repeated to x's shape */
MlirValue blu_scaled(BluBuilder *b, MlirValue x, double factor);
MlirValue blu_iota(BluBuilder *b, const BluType *t, int64_t axis);
MlirValue blu_transposed(BluBuilder *b, MlirValue x, const int64_t *perm);
MlirValue blu_product(BluBuilder *b, MlirValue x, bool tx, MlirValue y, bool ty); /* matmul */
MlirValue blu_centre(BluBuilder *b, MlirValue x, int naxes, const int64_t *axes); /* x - mean; exactly 0 where x is constant */
/* The gradient of a composite by its expansion: expands it again where b stands and runs the primitives' own rules. */
void blu_vjp_by_expansion(BluVjp *v);

/* Attention; ops_attention.c. */
bool blu_attention_mask_fits(const BluSig *s, BluWhy *why);  /* the last operand is a mask: bool, and broadcasts to the scores */
bool blu_attention_sees(const BluRefCall *c, const BluAttention *a, int64_t batch, int64_t head, int64_t i, int64_t j); /* query i the key j? */
/* What query i may see, as a bool of [b, g, r, t, s]; null: everything. And the scores of that shape, of all keys. */
MlirValue blu_attention_visible(BluBuilder *b, const BluSig *s, const BluAttention *a, const MlirValue *in);
MlirValue blu_attention_scores(BluBuilder *b, const BluSig *s, const BluAttention *a, const MlirValue *in);
/* As kernels compute it, whole; ops_attention_whole.c. stays: has the code that is made where b stands a kernel for this attention? */
bool blu_attention_stays(const BluBuilder *b, const BluSig *s);
void blu_attention_vjp_whole(BluVjp *v);
#ifdef __cplusplus
}
#endif
#endif
