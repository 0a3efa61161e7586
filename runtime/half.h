/* half.h - bf16 and f16 as bits, from and to numbers. Rounds to nearest, ties to even; NaN stays NaN. */
#ifndef BLU_RUNTIME_HALF_H
#define BLU_RUNTIME_HALF_H
#include <stdbool.h>
#include <stdint.h>

#include "abi.h"

bool blu_half_is(int32_t dtype);
double blu_half_number(int32_t dtype, uint16_t bits);
uint16_t blu_half_nearest(int32_t dtype, double number);

#endif
