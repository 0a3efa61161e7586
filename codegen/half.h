/* half.h - bf16 and f16 in registers: f32 whose values are numbers of the type, made from bits and back, and rounded to. Works on
 * scalars and on vectors; with instructions for f16 where the processor has them, by integers elsewhere, with the same bits. */
#ifndef BLU_CODEGEN_HALF_H
#define BLU_CODEGEN_HALF_H
#include "codegen/emit.h"

LLVMValueRef blu_emit_from_half(Emit *e, BluElem t, LLVMValueRef bits);   /* i16 to f32 */
LLVMValueRef blu_emit_to_half(Emit *e, BluElem t, LLVMValueRef number);   /* f32 that is a number of t to i16 */
LLVMValueRef blu_emit_round_half(Emit *e, BluElem t, LLVMValueRef x);     /* f32 to the nearest number of t, as f32; NaN stays NaN */
uint16_t blu_half_bits(BluElem t, double number);                         /* of a number of t */
#endif
