/* array.c - arrays of examples in memory, of whatever type a file has, and their way into the slots of a program.
 *
 * A value goes into a slot only if it stays itself: integers that the slot's type can't hold, and ids outside of
 * [0, bound), are refused. Fractions are rounded to the slot's type. */
#include <stdlib.h>
#include <string.h>

#include "data_internal.h"
#include "half.h"

static const struct {
  const char *name;
  int32_t bytes;
  bool real;
} raw_types[] = {
    [BLU_RAW_U8] = {"u8", 1, false},   [BLU_RAW_I8] = {"i8", 1, false},   [BLU_RAW_BOOL] = {"bool", 1, false},
    [BLU_RAW_U16] = {"u16", 2, false}, [BLU_RAW_I16] = {"i16", 2, false}, [BLU_RAW_U32] = {"u32", 4, false},
    [BLU_RAW_I32] = {"i32", 4, false}, [BLU_RAW_I64] = {"i64", 8, false}, [BLU_RAW_F32] = {"f32", 4, true},
    [BLU_RAW_F64] = {"f64", 8, true},   [BLU_RAW_F16] = {"f16", 2, true},   [BLU_RAW_BF16] = {"bf16", 2, true},
};

bool blu_raw_real(BluRaw raw) { return raw_types[raw].real; }
int64_t blu_raw_bytes(BluRaw raw) { return raw_types[raw].bytes; }
const char *blu_raw_name(BluRaw raw) { return raw_types[raw].name; }

BluRaw blu_raw_of(int32_t dtype) {
  static const BluRaw same[] = {
      [BLU_DTYPE_F32] = BLU_RAW_F32, [BLU_DTYPE_F64] = BLU_RAW_F64, [BLU_DTYPE_I32] = BLU_RAW_I32,
      [BLU_DTYPE_I64] = BLU_RAW_I64, [BLU_DTYPE_U8] = BLU_RAW_U8,   [BLU_DTYPE_BOOL] = BLU_RAW_BOOL,
      [BLU_DTYPE_F16] = BLU_RAW_F16, [BLU_DTYPE_BF16] = BLU_RAW_BF16,
  };
  return same[dtype];
}

enum { BLOCK = 256 };

/* Widens up to BLOCK values, so that conversion needs a loop for each type and not for each pair of types. */
static void widen(const char *from, BluRaw raw, int64_t count, int64_t *whole, double *real) {
#define EACH(type, to)                                 \
  do {                                                 \
    for (int64_t i = 0; i < count; i++) {              \
      type value;                                      \
      memcpy(&value, from + i * (int64_t)sizeof value, sizeof value); \
      to[i] = value;                                   \
    }                                                  \
  } while (0)
  switch (raw) {
    case BLU_RAW_U8: EACH(uint8_t, whole); break;
    case BLU_RAW_I8: EACH(int8_t, whole); break;
    case BLU_RAW_BOOL: EACH(uint8_t, whole); break;
    case BLU_RAW_U16: EACH(uint16_t, whole); break;
    case BLU_RAW_I16: EACH(int16_t, whole); break;
    case BLU_RAW_U32: EACH(uint32_t, whole); break;
    case BLU_RAW_I32: EACH(int32_t, whole); break;
    case BLU_RAW_I64: EACH(int64_t, whole); break;
    case BLU_RAW_F32: EACH(float, real); break;
    case BLU_RAW_F64: EACH(double, real); break;
    case BLU_RAW_F16:
    case BLU_RAW_BF16:
      for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, from + 2 * i, sizeof bits);
        real[i] = blu_half_number(raw == BLU_RAW_F16 ? BLU_DTYPE_F16 : BLU_DTYPE_BF16, bits);
      }
      break;
  }
#undef EACH
}

static bool is_real(int32_t dtype) { return dtype == BLU_DTYPE_F32 || dtype == BLU_DTYPE_F64 || blu_half_is(dtype); }

/* Whole numbers up to this one are numbers of the type. */
static int64_t whole_end(int32_t dtype) {
  return dtype == BLU_DTYPE_F32 ? 1 << 24 : dtype == BLU_DTYPE_F16 ? 1 << 11 : dtype == BLU_DTYPE_BF16 ? 1 << 8 : INT64_MAX;
}

/* Least and greatest integer that a slot takes. */
static void range_of(int32_t dtype, int64_t bound, int64_t *low, int64_t *high) {
  bool bounded = bound > 0;
  *low = bounded || dtype == BLU_DTYPE_U8 || dtype == BLU_DTYPE_BOOL ? 0
         : dtype == BLU_DTYPE_I32                                    ? INT32_MIN
         : is_real(dtype)                                            ? -whole_end(dtype)
                                                                     : INT64_MIN;
  *high = dtype == BLU_DTYPE_U8     ? UINT8_MAX
          : dtype == BLU_DTYPE_BOOL ? 1
          : dtype == BLU_DTYPE_I32  ? INT32_MAX
          : is_real(dtype)          ? whole_end(dtype)
                                    : INT64_MAX;
  if (bounded && bound - 1 < *high) *high = bound - 1;
}

/* True if no value of the file's type can be outside of [low, high]. */
static bool always_inside(BluRaw raw, int64_t low, int64_t high) {
  int bits = 8 * raw_types[raw].bytes;
  bool negative = raw == BLU_RAW_I8 || raw == BLU_RAW_I16 || raw == BLU_RAW_I32 || raw == BLU_RAW_I64;
  if (raw_types[raw].real) return false;
  if (bits == 64) return low == INT64_MIN && high == INT64_MAX;
  int64_t least = negative ? -((int64_t)1 << (bits - 1)) : 0, most = ((int64_t)1 << (bits - negative)) - 1;
  return least >= low && most <= high;
}

/* Index of the first value that is not a whole number in [low, high]; -1 if there is none. */
static int64_t first_outside(const int64_t *whole, const double *real, int64_t count, int64_t low, int64_t high) {
  int64_t outside = 0;
  for (int64_t i = 0; i < count; i++)
    outside |= real ? !(real[i] >= (double)low && real[i] <= (double)high && real[i] < 0x1p63 &&
                        (double)(int64_t)real[i] == real[i])
                    : whole[i] < low || whole[i] > high;
  if (!outside) return -1;
  for (int64_t i = 0; i < count; i++)
    if (real ? !(real[i] >= (double)low && real[i] <= (double)high && real[i] < 0x1p63 &&
                 (double)(int64_t)real[i] == real[i])
             : whole[i] < low || whole[i] > high)
      return i;
  return -1;
}

static void narrow(const int64_t *whole, const double *real, int64_t count, char *to, int32_t dtype) {
#define EACH(type)                                                   \
  do {                                                               \
    type *restrict out = (type *)(void *)to;                         \
    if (real)                                                        \
      for (int64_t i = 0; i < count; i++) out[i] = (type)real[i];    \
    else                                                             \
      for (int64_t i = 0; i < count; i++) out[i] = (type)whole[i];   \
  } while (0)
  switch (dtype) {
    case BLU_DTYPE_F32: EACH(float); break;
    case BLU_DTYPE_F64: EACH(double); break;
    case BLU_DTYPE_BF16:
    case BLU_DTYPE_F16:
      for (int64_t i = 0; i < count; i++) ((uint16_t *)(void *)to)[i] = blu_half_nearest(dtype, real ? real[i] : (double)whole[i]);
      break;
    case BLU_DTYPE_I32: EACH(int32_t); break;
    case BLU_DTYPE_I64: EACH(int64_t); break;
    default: EACH(uint8_t); break;
  }
#undef EACH
}

int64_t blu_raw_convert(const void *from, BluRaw raw, int64_t count, void *to, int32_t dtype, int64_t bound) {
  int64_t whole[BLOCK], low, high;
  double real[BLOCK];
  bool reals = raw_types[raw].real, free_values = is_real(dtype) && bound <= 0;
  if (raw == blu_raw_of(dtype) && bound <= 0 && raw != BLU_RAW_BOOL) {
    if (to) memcpy(to, from, (size_t)(count * raw_types[raw].bytes));
    return -1;
  }
  range_of(dtype, bound, &low, &high);
  if (!to && always_inside(raw, low, high)) return -1;
  for (int64_t i = 0; i < count; i += BLOCK) {
    int64_t some = count - i < BLOCK ? count - i : BLOCK;
    widen((const char *)from + i * raw_types[raw].bytes, raw, some, whole, real);
    bool any = free_values && (reals || dtype == BLU_DTYPE_F64 || (dtype == BLU_DTYPE_F32 && raw_types[raw].bytes < 4));
    int64_t bad = any ? -1 : first_outside(whole, reals ? real : NULL, some, low, high);
    if (bad >= 0) return i + bad;
    if (to) narrow(whole, reals ? real : NULL, some, (char *)to + i * blu_dtype_bytes(dtype), dtype);
  }
  return -1;
}

void blu_raw_print(const void *from, BluRaw raw, char text[static 40]) {
  int64_t whole = 0;
  double real = 0;
  widen(from, raw, 1, &whole, &real);
  if (raw_types[raw].real) snprintf(text, 40, "%g", real);
  else snprintf(text, 40, "%lld", (long long)whole);
}

int64_t blu_array_row(const BluArray *array) {
  int64_t values = 1;
  for (int32_t i = 1; i < array->rank; i++) values *= array->dim[i];
  return values;
}

const char *blu_array_type(const BluArray *array, char text[static 200]) {
  int used = snprintf(text, 200, "%s[", raw_types[array->raw].name);
  for (int32_t i = 0; i < array->rank; i++)
    used += snprintf(text + used, (size_t)(200 - used), "%s%lld", i ? "," : "", (long long)array->dim[i]);
  snprintf(text + used, (size_t)(200 - used), "]");
  return text;
}

bool blu_array_fits(const BluArray *array, const BluSlot *slot) {
  int64_t values = 1;
  bool same = slot->rank == array->rank;
  for (int32_t i = 1; i < slot->rank; i++) {
    values *= slot->dim[i];
    same = same && slot->dim[i] == array->dim[i];
  }
  return same || ((slot->rank == 2 || array->rank <= 2) && slot->rank >= 1 && values == blu_array_row(array));
}

static const char *row_of(const BluArray *array, int64_t row) {
  return (const char *)array->value + row * array->stride * raw_types[array->raw].bytes;
}

bool blu_array_check(BluError *err, const BluArray *array, const BluSlot *slot) {
  int64_t values = blu_array_row(array), low, high;
  for (int64_t row = 0; row < array->dim[0]; row++) {
    /* Rows that follow each other without a gap are looked at in one go. */
    bool packed = array->stride == values;
    int64_t bad = blu_raw_convert(row_of(array, row), array->raw, packed ? values * array->dim[0] : values, NULL,
                                  slot->dtype, slot->bound);
    if (bad < 0 && packed) break;
    if (bad < 0) continue;
    char value[40], where[80] = "";
    int64_t at = row * values + bad;
    blu_raw_print(row_of(array, at / values) + at % values * raw_types[array->raw].bytes, array->raw, value);
    if (array->first_line) snprintf(where, sizeof where, " (line %lld)", (long long)(array->first_line + at / values));
    range_of(slot->dtype, slot->bound, &low, &high);
    if (slot->bound > 0 && low == 0 && high == slot->bound - 1 && value[0] != '-' && !strchr(value, '.'))
      return blu_error_set(err, "%s: the value at index %lld%s is %s, but '%s' must be less than %lld", array->path,
                           (long long)at, where, value, slot->name, (long long)slot->bound);
    return blu_error_set(err, "%s: the value at index %lld%s is %s, but '%s' takes whole numbers from %lld to %lld",
                         array->path, (long long)at, where, value, slot->name, (long long)low, (long long)high);
  }
  return true;
}

bool blu_array_fetch(const BluArray *array, const BluSlot *slot, char *place, const int64_t *index, int64_t rows) {
  int64_t values = blu_array_row(array), bytes = values * blu_dtype_bytes(slot->dtype);
  bool good = true;
  for (int64_t i = 0; i < rows; i++) {
    int64_t bad = blu_raw_convert(row_of(array, index[i]), array->raw, values, place + i * bytes, slot->dtype,
                                  slot->bound);
    good = good && bad < 0;
    if (bad >= 0) memset(place + i * bytes, 0, (size_t)bytes);
  }
  return good;
}
