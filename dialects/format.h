/* format.h - floating-point formats by their widths, as IEEE 754 makes them: a sign, exponent bits with the bias 2^(exponent - 1) - 1 whose
 * highest value stands for infinity and NaN, mantissa bits behind an implied one. bf16 is {8, 7}, f16 {5, 10}, f32 {8, 23}. */
#ifndef BLU_DIALECTS_FORMAT_H
#define BLU_DIALECTS_FORMAT_H
#include "dialects/blu.h"
#ifdef __cplusplus
extern "C" {
#endif

/* exponent in [2, 8], mantissa in [1, 23]: every value is one of f32. Without denormals, results below the least normal number become 0.
 * With saturate, what would overflow to an infinity becomes the greatest number; infinities and NaN stay. */
typedef struct { int exponent, mantissa; bool denormals, saturate; } BluFormat;

BluFormat blu_format_of(BluElem e);               /* of a floating-point type but f64 */
double blu_format_max(const BluFormat *f);        /* the greatest number */
double blu_format_min_normal(const BluFormat *f); /* the least positive normal number */
/* x to the nearest number of the format, the even one of two that are as near: one rounding, also of a double. NaN stays NaN. */
double blu_format_round(const BluFormat *f, double x);
/* The same in f32, by operations on vectors or scalars: x is f32. */
BluEmitVal blu_emit_round_to(BluEmit *e, const BluFormat *f, BluEmitVal x);

/* The module's simulated format; false: it has none. */
bool blu_module_format(MlirModule m, BluFormat *f);
void blu_module_set_format(MlirModule m, const BluFormat *f);
/* The op round_to. */
MlirValue blu_round_to(BluBuilder *b, MlirValue x, const BluFormat *f);

/* v as a number of element type e: rounded for f32, bf16 and f16. */
double blu_elem_round(BluElem e, double v);

#ifdef __cplusplus
}
#endif
#endif
