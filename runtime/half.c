/* half.c - see half.h. By the bits of a double, since a trainer has no libm: both types are a sign, exponent and mantissa as a double is. */
#include "half.h"

#include <string.h>

enum { DOUBLE_MANTISSA = 52, DOUBLE_BIAS = 1023, DOUBLE_MOST = 2047 };

static int mantissa_of(int32_t dtype) { return dtype == BLU_DTYPE_BF16 ? 7 : 10; }
static int bias_of(int32_t dtype) { return dtype == BLU_DTYPE_BF16 ? 127 : 15; }

bool blu_half_is(int32_t dtype) { return dtype == BLU_DTYPE_BF16 || dtype == BLU_DTYPE_F16; }

static double of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

double blu_half_number(int32_t dtype, uint16_t bits) {
  int m = mantissa_of(dtype), exponent = (bits & 0x7fff) >> m, most = 0x7fff >> m;
  uint64_t rest = bits & ((1u << m) - 1), sign = (uint64_t)(bits >> 15) << 63;
  if (exponent == most) return of_bits(sign | (uint64_t)DOUBLE_MOST << DOUBLE_MANTISSA | rest << (DOUBLE_MANTISSA - m));
  if (exponent) return of_bits(sign | (uint64_t)(exponent - bias_of(dtype) + DOUBLE_BIAS) << DOUBLE_MANTISSA | rest << (DOUBLE_MANTISSA - m));
  double unit = of_bits((uint64_t)(1 - bias_of(dtype) - m + DOUBLE_BIAS) << DOUBLE_MANTISSA); /* of numbers without an implied one */
  return sign ? -((double)rest * unit) : (double)rest * unit;
}

/* The bits of the result are one number, mantissa and exponent: a rounding up that runs over the mantissa carries into the exponent, and from
 * the greatest number into infinity. */
uint16_t blu_half_nearest(int32_t dtype, double number) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  int m = mantissa_of(dtype), exponent = (int)(bits >> DOUBLE_MANTISSA & DOUBLE_MOST) - DOUBLE_BIAS + bias_of(dtype), cut = DOUBLE_MANTISSA - m;
  uint16_t sign = (uint16_t)(bits >> 48 & 0x8000), infinity = (uint16_t)(0x7fff >> m << m);
  uint64_t rest = bits & (((uint64_t)1 << DOUBLE_MANTISSA) - 1);
  if (number != number) return sign | infinity | (uint16_t)(1 << (m - 1));
  if (exponent >= 0x7fff >> m) return sign | infinity;
  if (exponent <= 0) { /* fixed unit: the implied one is written out and moved down */
    cut += 1 - exponent;
    if (cut > DOUBLE_MANTISSA + 1) return sign;
    rest |= (uint64_t)1 << DOUBLE_MANTISSA;
    exponent = 0;
  }
  uint64_t kept = ((uint64_t)exponent << m) + (rest >> cut), lost = rest & (((uint64_t)1 << cut) - 1), half = (uint64_t)1 << (cut - 1);
  kept += lost > half || (lost == half && (kept & 1));
  return sign | (uint16_t)kept;
}
