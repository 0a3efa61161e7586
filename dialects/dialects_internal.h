/* dialects_internal.h - shared between the files of dialects/ alone. */
#ifndef BLU_DIALECTS_INTERNAL_H
#define BLU_DIALECTS_INTERNAL_H
#include "dialects/blu.h"
#ifdef __cplusplus
extern "C" {
#endif
/* Asks the rule of `op` and compares its result type with what infer gives. */
bool blu_verify(MlirOperation op, char *why, size_t size);
MlirDialectHandle mlirGetDialectHandle__blu__(void);

MlirAttribute blu_attr_to_mlir(MlirContext ctx, const BluAttr *a);
bool blu_attr_from_mlir(const BluAttrInfo *info, MlirAttribute m, BluAttr *a);

/* Refuses a signature: sets label, operand and text; returns false, so that a rule can `return blu_refuse(...)`. */
bool blu_refuse(BluWhy *why, const char *label, int operand, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* What the rules share. */
bool blu_infer_same(BluSig *s, BluWhy *why);      /* result as operand 0; all operands of its type */
int64_t blu_axis(const BluSig *s, const char *name, int64_t absent); /* in [0, rank of operand 0): infer has wrapped it */
uint32_t blu_axes(const BluSig *s);               /* of a reduction, as a set of bits; all if none is given */
bool blu_require_float(const BluSig *s, BluWhy *why, int operand);
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
#ifdef __cplusplus
}
#endif
#endif
