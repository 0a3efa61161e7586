/* values.c - see values.h. */
#include "dialects/format.h"
#include "values.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"

enum { SHOWN = 8 };

bool blu_values_refuse(BluWhy *why, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  why->label = "values";
  why->operand = -1;
  vsnprintf(why->text, sizeof why->text, format, ap);
  va_end(ap);
  return false;
}

/* ---- random numbers: splitmix64 ---- */

uint64_t blu_values_random(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

uint64_t blu_values_mix(uint64_t seed, const char *text) {
  uint64_t state = blu_values_random(&seed);
  for (; *text; text++) state = (state ^ (unsigned char)*text) * 0x100000001B3u;
  return blu_values_random(&state);
}

static double uniform(uint64_t *state) { return ((double)(blu_values_random(state) >> 11) + 0.5) * 0x1p-53; } /* never 0 or 1 */

double blu_values_normal(uint64_t *state) {
  double radius = sqrt(-2 * log(uniform(state)));
  return radius * cos(6.283185307179586 * uniform(state));
}

/* ---- what an integer may be ---- */

/* bound: elements lie in [0, bound), 0 = any; extra: a number that the function looks for beside those, as in `per label != -100`. */
typedef struct { int64_t bound; double extra; bool has_extra; } Range;

static void limit(Range *r, int64_t bound) {
  if (!r->bound || bound < r->bound) r->bound = bound;
}

/* Which operand holds the ids of this op, and how many there may be; 0: it takes none. */
static int64_t ids_of(MlirOperation o, intptr_t *operand) {
  if (blu_is(o, "gather") || blu_is(o, "cross_entropy") || blu_is(o, "scatter_add")) *operand = 1;
  else return 0;
  BluType table = blu_value_type(mlirOperationGetOperand(o, 0));
  return table.dim[blu_is(o, "cross_entropy") ? table.rank - 1 : 0];
}

/* What the function demands of the integers that it makes from an argument: a walk along casts, reshapes, slices, choices. */
static Range range_of(MlirOperation f, int arg) {
  BluMap from = {0};
  Range r = {.bound = blu_func_arg(f, arg).bound};
  double compared = 0;
  bool has_compared = false;
  MlirBlock block = blu_func_block(f);
  MlirValue v = mlirBlockGetArgument(block, arg);
  blu_map_set(&from, v.ptr, (void *)v.ptr);
  for (MlirOperation o = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    bool derived = false;
    for (intptr_t i = 0, n = mlirOperationGetNumOperands(o); i < n; i++) {
      intptr_t ids = -1;
      if (!blu_map_get(&from, mlirOperationGetOperand(o, i).ptr)) continue;
      int64_t bound = ids_of(o, &ids);
      if (ids == i) limit(&r, bound);
      else derived = true;
    }
    if (!derived || !blu_op_of(o) || !blu_op_of(o)->nout) continue;
    if (blu_is(o, "eq") || blu_is(o, "ne")) has_compared |= blu_constant_value(mlirOperationGetOperand(o, 1), &compared);
    MlirValue out = mlirOperationGetResult(o, 0);
    BluElem e = blu_value_type(out).elem;
    if (!blu_elem_is_float(e) && e != BLU_BOOL) blu_map_set(&from, out.ptr, (void *)out.ptr);
  }
  blu_map_free(&from);
  r.extra = compared;
  r.has_extra = has_compared && r.bound && !(compared >= 0 && compared < (double)r.bound);
  return r;
}

static double draw_integer(const Range *r, BluElem e, uint64_t *state) {
  if (r->has_extra && (e != BLU_U8 || (r->extra >= 0 && r->extra < 256)) && blu_values_random(state) % 8 == 0) return r->extra;
  uint64_t n = e == BLU_BOOL ? 2 : r->bound ? (uint64_t)r->bound : e == BLU_U8 ? 256 : 2;
  return (double)(blu_values_random(state) % n);
}

/* ---- drawing ---- */

/* Examples in a batch: the leading dimension of the data. */
static double batch_of(MlirOperation f) {
  for (int i = 0; i < blu_func_nargs(f); i++) {
    BluPort p = blu_func_arg(f, i);
    if (!strcmp(p.role, "data") && p.type.rank) return (double)p.type.dim[0];
  }
  return 1;
}

void blu_values_draw(MlirOperation f, int arg, uint64_t seed, double *out) {
  BluPort p = blu_func_arg(f, arg);
  Range r = blu_elem_is_float(p.type.elem) ? (Range){0} : range_of(f, arg);
  bool kept = !strcmp(p.role, "state") || !strcmp(p.role, "cache"), weight = !strcmp(p.role, "param") || !strcmp(p.role, "grad");
  uint64_t state = seed;
  for (int64_t i = 0, n = blu_type_count(&p.type); i < n; i++) {
    if (!strcmp(p.role, "run")) out[i] = p.has_value ? p.value : 1;
    else if (!strcmp(p.role, "step")) out[i] = 0;
    else if (!strcmp(p.role, "scale")) out[i] = 1;
    else if (!strcmp(p.role, "seed")) out[i] = (double)(seed >> 12); /* i64 that a double holds */
    else if (!strcmp(p.role, "rows")) out[i] = batch_of(f);
    else if (!blu_elem_is_float(p.type.elem)) out[i] = draw_integer(&r, p.type.elem, &state);
    else if (kept) out[i] = 0.1 + uniform(&state);
    else out[i] = (weight ? 0.3 : 1) * blu_values_normal(&state);
    if (blu_elem_is_half(p.type.elem)) out[i] = blu_elem_round(p.type.elem, out[i]);
  }
}

/* ---- text ---- */

bool blu_values_parse(const char *text, const BluType *t, double *out, BluWhy *why) {
  size_t length = strlen(text);
  if (length > 4 && !strcmp(text + length - 4, ".npy")) return blu_values_read_npy(text, t, out, why);
  int64_t n = blu_type_count(t), k = 0;
  char shape[200];
  for (const char *at = text;; at++) {
    char *end;
    double v = strtod(at, &end);
    if (end == at) return blu_values_refuse(why, "'%.40s' is no number", at);
    while (*end == ' ') end++;
    if (*end && *end != ',') return blu_values_refuse(why, "'%.40s' is no number", at);
    if (!blu_elem_is_float(t->elem) && v != floor(v)) return blu_values_refuse(why, "%.17g is no whole number", v);
    if (k < n) out[k] = blu_elem_is_half(t->elem) ? blu_elem_round(t->elem, v) : v;
    k++;
    at = end;
    if (!*at) break;
  }
  if (k == 1)
    for (; k < n; k++) out[k] = out[0];
  if (k != n)
    return blu_values_refuse(why, "%lld numbers for %s, which has %lld", (long long)k, blu_type_print(t, shape, sizeof shape), (long long)n);
  return true;
}

void blu_values_print(FILE *to, const BluType *t, const double *values, bool full) {
  char shape[200];
  int64_t n = blu_type_count(t), shown = full || n < 2 * SHOWN ? n : SHOWN;
  fprintf(to, "%s =", blu_type_print(t, shape, sizeof shape));
  for (int64_t i = 0; i < shown; i++) fprintf(to, "%s %.17g", i ? "," : "", values[i]);
  if (shown < n) fprintf(to, ", .. (%lld in all)", (long long)n);
  fputc('\n', to);
}
