/* loop.c - ops whose elements depend on one another in an order of their own: cumsum, scatter_add, top_k. Each is cut into pieces
 * that don't touch one another, so that the order inside of a piece is the order of the op. */
#include <string.h>
#include "codegen/kernel.h"

enum { LINES = 64, COLUMNS = 4 * BLU_LANES }; /* per piece */

static LLVMValueRef i64(Kernel *k, int64_t v) { return blu_emit_i64(&k->e, v); }
static LLVMValueRef mul(Kernel *k, LLVMValueRef a, int64_t b) { return LLVMBuildMul(k->e.b, a, i64(k, b), ""); }
static LLVMValueRef add(Kernel *k, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(k->e.b, a, b, ""); }
static LLVMValueRef smaller(Kernel *k, LLVMValueRef a, int64_t b) {
  return LLVMBuildSelect(k->e.b, LLVMBuildICmp(k->e.b, LLVMIntSLT, a, i64(k, b), ""), a, i64(k, b), "");
}
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static MlirValue operand(const Kernel *k, int i) { return mlirOperationGetOperand(k->info.main, i); }
static BluEmitVal load(Kernel *k, int i, LLVMValueRef index) {
  BluElem t = blu_value_type(operand(k, i)).elem;
  LLVMValueRef place;
  BluElem stored = blu_kernel_source(k, i, &place);
  return (BluEmitVal){.elem = t, .u.v = blu_emit_load(&k->e, stored, place, index, k->e.lanes)};
}
static BluEmitVal prim(Kernel *k, BluPrim p, BluElem t, BluEmitVal a, BluEmitVal b, BluEmitVal c) {
  return k->e.base.prim(&k->e.base, p, t, a, b, c);
}
static BluEmitVal sum(Kernel *k, BluEmitVal a, BluEmitVal b) {
  return prim(k, blu_elem_is_float(a.elem) ? BLU_PRIM_FADD : BLU_PRIM_IADD, a.elem, a, b, b);
}

/* ---- cumsum: a line along the axis is added one after another ---- */

typedef struct { int64_t n, inner, lines; bool reverse; } Sum;

static Sum sum_of(const Kernel *k) {
  BluSig s;
  blu_sig_of(k->info.main, &s);
  int64_t axis = blu_attr_int(&s.attrs, "axis", -1);
  if (axis < 0) axis += s.in[0].rank;
  Sum x = {.n = s.in[0].dim[axis], .inner = 1, .reverse = blu_attr_int(&s.attrs, "reverse", 0)};
  for (int d = (int)axis + 1; d < s.in[0].rank; d++) x.inner *= s.in[0].dim[d];
  x.lines = x.n ? blu_type_count(&s.in[0]) / x.n : 0;
  return x;
}

static int64_t cumsum_pieces(const Kernel *k) { return divide_up(sum_of(k).lines, LINES); }

static void cumsum_body(Kernel *k) {
  Sum x = sum_of(k);
  if (!x.lines) return;
  Loop line, along;
  BluElem t = blu_value_type(operand(k, 0)).elem;
  blu_loop_begin(&k->e, &line, k->fn, mul(k, k->first, LINES), smaller(k, mul(k, k->last, LINES), x.lines), 1, 0, NULL);
  LLVMValueRef outer = LLVMBuildUDiv(k->e.b, line.i, i64(k, x.inner), ""), inner = LLVMBuildURem(k->e.b, line.i, i64(k, x.inner), "");
  LLVMValueRef start = add(k, mul(k, outer, x.n * x.inner), inner), zero = LLVMConstNull(blu_emit_type(&k->e, t));
  blu_loop_begin(&k->e, &along, k->fn, i64(k, 0), i64(k, x.n), 1, 1, &zero);
  LLVMValueRef at = x.reverse ? LLVMBuildSub(k->e.b, i64(k, x.n - 1), along.i, "") : along.i, index = add(k, start, mul(k, at, x.inner));
  BluEmitVal total = sum(k, load(k, 0, index), (BluEmitVal){.elem = t, .u.v = along.phi[0]});
  blu_emit_store(&k->e, t, total.u.v, k->place[k->nin], index, 1);
  LLVMValueRef next = total.u.v;
  blu_loop_end(&k->e, &along, &next);
  blu_loop_end(&k->e, &line, NULL);
}

/* ---- scatter_add(x, ids, u): a piece is a range of columns of all rows, so that rows are added in the order of the ids ---- */

typedef struct { int64_t rows, columns, ids; } Scatter;

static Scatter scatter_of(const Kernel *k) {
  BluType x = blu_value_type(operand(k, 0)), ids = blu_value_type(operand(k, 1));
  Scatter s = {.rows = x.dim[0], .columns = 1, .ids = blu_type_count(&ids)};
  for (int d = 1; d < x.rank; d++) s.columns *= x.dim[d];
  return s;
}

static int64_t scatter_pieces(const Kernel *k) { return divide_up(scatter_of(k).columns, COLUMNS); }

/* out[row] = (from = x: x[row]; from = u: out[row] + u[other]) over columns [c0, c1): vectors, then the rest one by one. */
static void combine_row(Kernel *k, const Scatter *s, int from, LLVMValueRef row, LLVMValueRef other, LLVMValueRef c0, LLVMValueRef c1) {
  BluElem t = blu_value_type(operand(k, 0)).elem;
  LLVMValueRef out = k->place[k->nin], to = mul(k, row, s->columns), source = mul(k, other, s->columns), at = c0;
  LLVMValueRef whole = LLVMBuildSub(k->e.b, c1, LLVMBuildSRem(k->e.b, LLVMBuildSub(k->e.b, c1, c0, ""), i64(k, BLU_LANES), ""), "");
  for (int lanes = BLU_LANES; lanes; lanes = lanes > 1 ? 1 : 0) {
    Loop l;
    k->e.lanes = lanes;
    blu_loop_begin(&k->e, &l, k->fn, at, lanes > 1 ? whole : c1, lanes, 0, NULL);
    BluEmitVal v = load(k, from, add(k, source, l.i));
    if (from != 0) {
      BluEmitVal before = {.elem = t, .u.v = blu_emit_load(&k->e, t, out, add(k, to, l.i), lanes)};
      v = sum(k, before, v);
    }
    blu_emit_store(&k->e, t, v.u.v, out, add(k, to, l.i), lanes);
    blu_loop_end(&k->e, &l, NULL);
    at = whole;
  }
  k->e.lanes = 1;
}

static void scatter_body(Kernel *k) {
  Scatter s = scatter_of(k);
  LLVMValueRef c0 = mul(k, k->first, COLUMNS), c1 = smaller(k, mul(k, k->last, COLUMNS), s.columns);
  LLVMValueRef x, zero = i64(k, 0);
  blu_kernel_source(k, 0, &x);
  LLVMValueRef in_place = LLVMBuildICmp(k->e.b, LLVMIntEQ, x, k->place[k->nin], ""); /* then x is there already */
  Loop l;
  blu_loop_begin(&k->e, &l, k->fn, zero, LLVMBuildSelect(k->e.b, in_place, zero, i64(k, s.rows), ""), 1, 0, NULL);
  combine_row(k, &s, 0, l.i, l.i, c0, c1);
  blu_loop_end(&k->e, &l, NULL);
  blu_loop_begin(&k->e, &l, k->fn, i64(k, 0), i64(k, s.ids), 1, 0, NULL);
  BluEmitVal id = load(k, 1, l.i);
  if (id.elem != BLU_I64) id = prim(k, BLU_PRIM_CAST, BLU_I64, id, id, id);
  LLVMValueRef inside = LLVMBuildICmp(k->e.b, LLVMIntULT, id.u.v, i64(k, s.rows), ""); /* also false for a negative id */
  LLVMValueRef row = LLVMBuildSelect(k->e.b, inside, id.u.v, i64(k, 0), ""), end = LLVMBuildSelect(k->e.b, inside, c1, c0, "");
  combine_row(k, &s, 2, row, l.i, c0, end);
  blu_loop_end(&k->e, &l, NULL);
}

/* ---- top_k: k times the first of what comes after the last one found, in the order greatest first, then earliest first ---- */

static int64_t rows_of(const Kernel *k) {
  BluType x = blu_value_type(operand(k, 0));
  return blu_space_rows(&x);
}

static int64_t top_k_pieces(const Kernel *k) { return divide_up(rows_of(k), LINES); }

/* Is a greater than b? NaN is greater than every number. */
static LLVMValueRef greater(Kernel *k, BluEmitVal a, BluEmitVal b) {
  LLVMValueRef more = prim(k, BLU_PRIM_GT, BLU_BOOL, a, b, b).u.v;
  if (!blu_elem_is_float(a.elem)) return more;
  LLVMValueRef a_nan = prim(k, BLU_PRIM_NE, BLU_BOOL, a, a, a).u.v, b_number = prim(k, BLU_PRIM_EQ, BLU_BOOL, b, b, b).u.v;
  return LLVMBuildOr(k->e.b, more, LLVMBuildAnd(k->e.b, a_nan, b_number, ""), "");
}

/* Does (a, i) come before (b, j)? */
static LLVMValueRef before(Kernel *k, BluEmitVal a, LLVMValueRef i, BluEmitVal b, LLVMValueRef j) {
  LLVMBuilderRef B = k->e.b;
  LLVMValueRef tie = LLVMBuildNot(B, greater(k, b, a), ""), earlier = LLVMBuildICmp(B, LLVMIntSLT, i, j, "");
  return LLVMBuildOr(B, greater(k, a, b), LLVMBuildAnd(B, tie, earlier, ""), "");
}

static void top_k_body(Kernel *k) {
  BluSig s;
  blu_sig_of(k->info.main, &s);
  int64_t n = s.in[0].dim[s.in[0].rank - 1], count = blu_attr_int(&s.attrs, "k", 1);
  BluElem t = s.in[0].elem;
  LLVMBuilderRef B = k->e.b;
  Loop row, pick, scan;
  blu_loop_begin(&k->e, &row, k->fn, mul(k, k->first, LINES), smaller(k, mul(k, k->last, LINES), rows_of(k)), 1, 0, NULL);
  LLVMValueRef start = mul(k, row.i, n), none[2] = {LLVMConstNull(blu_emit_type(&k->e, t)), i64(k, -1)}; /* the last one found */
  blu_loop_begin(&k->e, &pick, k->fn, i64(k, 0), i64(k, count), 1, 2, none);
  BluEmitVal last = {.elem = t, .u.v = pick.phi[0]};
  blu_loop_begin(&k->e, &scan, k->fn, i64(k, 0), i64(k, n), 1, 2, none);
  BluEmitVal x = load(k, 0, add(k, start, scan.i)), best = {.elem = t, .u.v = scan.phi[0]};
  LLVMValueRef first = LLVMBuildICmp(B, LLVMIntSLT, pick.phi[1], i64(k, 0), ""), empty = LLVMBuildICmp(B, LLVMIntSLT, scan.phi[1], i64(k, 0), "");
  LLVMValueRef open = LLVMBuildOr(B, first, before(k, last, pick.phi[1], x, scan.i), "");
  LLVMValueRef take = LLVMBuildAnd(B, open, LLVMBuildOr(B, empty, before(k, x, scan.i, best, scan.phi[1]), ""), "");
  LLVMValueRef found[2] = {LLVMBuildSelect(B, take, x.u.v, best.u.v, ""), LLVMBuildSelect(B, take, scan.i, scan.phi[1], "")};
  blu_loop_end(&k->e, &scan, found);
  LLVMValueRef index = LLVMBuildTrunc(B, scan.phi[1], LLVMInt32TypeInContext(k->e.ctx), "");
  blu_emit_store(&k->e, BLU_I32, index, k->place[k->nin], add(k, mul(k, row.i, count), pick.i), 1);
  blu_loop_end(&k->e, &pick, scan.phi);
  blu_loop_end(&k->e, &row, NULL);
}

/* ---- by name ---- */

static const struct { const char *op; int64_t (*pieces)(const Kernel *); void (*body)(Kernel *); } loops[] = {
  {"cumsum", cumsum_pieces, cumsum_body}, {"scatter_add", scatter_pieces, scatter_body}, {"top_k", top_k_pieces, top_k_body}};

bool blu_loop_has_code(const char *op) {
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
    if (!strcmp(loops[i].op, op)) return true;
  return false;
}

static int64_t pieces(const Kernel *k) {
  int64_t n = 0;
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
    if (blu_is(k->info.main, loops[i].op)) n = loops[i].pieces(k);
  return n > 0 ? n : 1;
}

static void body(Kernel *k) {
  blu_kernel_enter(k, LEVEL_POINT, 1);
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
    if (blu_is(k->info.main, loops[i].op)) loops[i].body(k);
  LLVMBuildRetVoid(k->e.b);
}

const KernelKind blu_kernel_loop = {.pieces = pieces, .body = body};
