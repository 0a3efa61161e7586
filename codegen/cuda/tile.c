/* tile.c - see tile.h. */
#include "codegen/cuda/tile.h"

Value blu_tile_real(const Tile *t, double v) { return LLVMConstReal(LLVMFloatTypeInContext(t->c->k.e.ctx), v); }

Value blu_tile_fma(const Tile *t, Value a, Value b, Value c) {
  BluEmit *e = &t->c->k.e.base;
  return e->prim(e, BLU_PRIM_FMA, BLU_F32, (BluEmitVal){BLU_F32, {a}}, (BluEmitVal){BLU_F32, {b}}, (BluEmitVal){BLU_F32, {c}}).u.v;
}

Value blu_tile_least(const Tile *t, Value a, Value b) { return LLVMBuildSelect(t->c->k.e.b, blu_cuda_less(t->c, a, b), a, b, ""); }

/* ---- shared memory ---- */

static Area area(Cuda *c, int rows, int width, int stride) {
  Area a = {c->shared_bytes / 4, rows, width, stride};
  c->shared_bytes += (int64_t)rows * stride * 4;
  return a;
}

int blu_tile_chunks(int64_t depth) { return (int)blu_cuda_divide_up(depth, TILE_CHUNK); }

Area blu_tile_area(Cuda *c, int rows, int64_t depth) {
  int width = blu_tile_chunks(depth) * TILE_CHUNK;
  return area(c, rows, width, width + CUDA_VECTOR);
}

/* Rows 8 banks apart: four rows of a warp, 8 neighbouring columns each. */
Area blu_tile_scores(Cuda *c, int rows) { return area(c, rows, TILE_COLUMNS, TILE_COLUMNS + TILE_ACROSS); }

Tile blu_tile_begin(Cuda *c, int own) {
  Tile t = {.c = c, .own = own};
  c->threads = TILE_THREADS;
  c->holds_much = true;
  t.y = blu_emit_quotient(&c->k.e, c->thread, TILE_ACROSS), t.x = blu_emit_remainder(&c->k.e, c->thread, TILE_ACROSS);
  return t;
}

Value blu_tile_row(const Tile *t, int i) { return blu_cuda_add(t->c, t->y, blu_cuda_number(t->c, (int64_t)i * TILE_DOWN)); }
Value blu_tile_column(const Tile *t, int j) { return blu_cuda_add(t->c, t->x, blu_cuda_number(t->c, (int64_t)j * TILE_ACROSS)); }

static Value number_at(const Tile *t, Value base, Value index) {
  return LLVMBuildGEP2(t->c->k.e.b, LLVMFloatTypeInContext(t->c->k.e.ctx), base, &index, 1, "");
}

/* A vector at `plus` numbers behind `from`, as its numbers. */
static void vector_at(const Tile *t, Value from, int64_t plus, Value *out) {
  LLVMBuilderRef b = t->c->k.e.b;
  Value v = LLVMBuildLoad2(b, LLVMVectorType(LLVMFloatTypeInContext(t->c->k.e.ctx), CUDA_VECTOR), number_at(t, from, blu_cuda_number(t->c, plus)), "");
  LLVMSetAlignment(v, CUDA_VECTOR_BYTES);
  for (int i = 0; i < CUDA_VECTOR; i++) out[i] = LLVMBuildExtractElement(b, v, blu_cuda_number(t->c, i), "");
}

static void store_vector(const Tile *t, Value to, const Value *in) {
  LLVMBuilderRef b = t->c->k.e.b;
  Value v = LLVMGetUndef(LLVMVectorType(LLVMFloatTypeInContext(t->c->k.e.ctx), CUDA_VECTOR));
  for (int i = 0; i < CUDA_VECTOR; i++) v = LLVMBuildInsertElement(b, v, in[i], blu_cuda_number(t->c, i), "");
  LLVMSetAlignment(LLVMBuildStore(b, v, to), CUDA_VECTOR_BYTES);
}

/* ---- from and to memory ---- */

/* Do rows of so many numbers begin at whole vectors? */
static bool by_vectors(const Tile *t, int64_t depth) { return t->c->aligned && depth % CUDA_VECTOR == 0; }

/* Four numbers of a row from column `column` on; what isn't there is read elsewhere in the matrix and then 0. */
static void fetch(const Tile *t, Value place, Value base, Value row, int64_t limit, Value column, int64_t depth, Value *out) {
  Cuda *c = t->c;
  LLVMBuilderRef b = c->k.e.b;
  Value exists = blu_cuda_less(c, row, blu_cuda_number(c, limit)), zero = blu_tile_real(t, 0);
  Value start = blu_cuda_add(c, base, blu_cuda_mul(c, blu_tile_least(t, row, blu_cuda_number(c, limit - 1)), depth));
  bool whole = by_vectors(t, depth);
  if (whole) {
    Value first = blu_tile_least(t, column, blu_cuda_number(c, depth - CUDA_VECTOR));
    vector_at(t, number_at(t, place, blu_cuda_add(c, start, first)), 0, out);
  }
  for (int i = 0; i < CUDA_VECTOR; i++) {
    Value at = whole ? column : blu_cuda_add(c, column, blu_cuda_number(c, i));
    Value within = LLVMBuildAnd(b, exists, blu_cuda_less(c, at, blu_cuda_number(c, depth)), "");
    if (!whole) out[i] = blu_emit_load(&c->k.e, BLU_F32, place, blu_cuda_add(c, start, blu_tile_least(t, at, blu_cuda_number(c, depth - 1))), 1);
    out[i] = LLVMBuildSelect(b, within, out[i], zero, "");
  }
}

void blu_tile_fill(const Tile *t, Area to, Value place, Value base, Value first, int64_t limit, int64_t depth) {
  enum { AHEAD = 4 }; /* vectors of a thread that are under way */
  Cuda *c = t->c;
  int across = to.width / CUDA_VECTOR, total = to.rows * across;
  Value v[AHEAD][CUDA_VECTOR], cell[AHEAD], index[AHEAD];
  for (int from = 0; from < total; from += AHEAD * TILE_THREADS) {
    int n = (int)blu_cuda_divide_up(total - from, TILE_THREADS);
    if (n > AHEAD) n = AHEAD;
    for (int i = 0; i < n; i++) {
      index[i] = blu_cuda_add(c, c->thread, blu_cuda_number(c, from + i * TILE_THREADS));
      Value row = blu_emit_quotient(&c->k.e, index[i], across), column = blu_cuda_mul(c, blu_emit_remainder(&c->k.e, index[i], across), CUDA_VECTOR);
      cell[i] = blu_cuda_add(c, blu_cuda_add(c, blu_cuda_mul(c, row, to.stride), column), blu_cuda_number(c, to.at));
      fetch(t, place, base, blu_cuda_add(c, first, row), limit, column, depth, v[i]);
    }
    for (int i = 0; i < n; i++) {
      bool all = from + (i + 1) * TILE_THREADS <= total;
      LLVMBasicBlockRef after = all ? NULL : blu_cuda_if(c, blu_cuda_less(c, index[i], blu_cuda_number(c, total)));
      store_vector(t, number_at(t, c->shared, cell[i]), v[i]);
      if (after) blu_cuda_end_if(c, after);
    }
  }
}

void blu_tile_store(const Tile *t, const Value *sum, Value place, Value base, Value first, int64_t limit, int64_t depth) {
  Cuda *c = t->c;
  int chunks = blu_tile_chunks(depth);
  for (int i = 0; i < t->own; i++) {
    Value row = blu_cuda_add(c, first, blu_tile_row(t, i)), start = blu_cuda_add(c, base, blu_cuda_mul(c, row, depth));
    LLVMBasicBlockRef after_row = blu_cuda_if(c, blu_cuda_less(c, row, blu_cuda_number(c, limit)));
    for (int k = 0; k < chunks; k++) {
      const Value *v = sum + (i * chunks + k) * CUDA_VECTOR;
      Value column = blu_cuda_mul(c, blu_tile_column(t, k), CUDA_VECTOR);
      bool whole = by_vectors(t, depth), all = (int64_t)(k + 1) * TILE_CHUNK <= depth;
      for (int n = 0; n < (whole ? 1 : CUDA_VECTOR); n++) {
        Value at = blu_cuda_add(c, column, blu_cuda_number(c, n)), to = number_at(t, place, blu_cuda_add(c, start, at));
        LLVMBasicBlockRef after = all ? NULL : blu_cuda_if(c, blu_cuda_less(c, at, blu_cuda_number(c, depth)));
        if (whole) store_vector(t, to, v);
        else LLVMSetAlignment(LLVMBuildStore(c->k.e.b, v[n], to), 4);
        if (after) blu_cuda_end_if(c, after);
      }
    }
    blu_cuda_end_if(c, after_row);
  }
}

/* ---- products ---- */

void blu_tile_dot(const Tile *t, Area a, Area b, int64_t depth, Value *out) {
  Cuda *c = t->c;
  int n = t->own * TILE_OWN;
  Value sum[TILE_MOST_OWN * TILE_OWN], left[TILE_MOST_OWN][CUDA_VECTOR], right[TILE_OWN][CUDA_VECTOR];
  Value row = blu_cuda_add(c, blu_cuda_mul(c, t->y, a.stride), blu_cuda_number(c, a.at));
  Value column = blu_cuda_add(c, blu_cuda_mul(c, t->x, b.stride), blu_cuda_number(c, b.at));
  for (int i = 0; i < n; i++) sum[i] = blu_tile_real(t, 0);
  Loop l;
  blu_loop_begin(&c->k.e, &l, c->k.fn, blu_cuda_number(c, 0), blu_cuda_number(c, depth), CUDA_VECTOR, n, sum);
  Value from_a = number_at(t, c->shared, blu_cuda_add(c, row, l.i)), from_b = number_at(t, c->shared, blu_cuda_add(c, column, l.i));
  for (int i = 0; i < t->own; i++) vector_at(t, from_a, (int64_t)i * TILE_DOWN * a.stride, left[i]);
  for (int j = 0; j < TILE_OWN; j++) vector_at(t, from_b, (int64_t)j * TILE_ACROSS * b.stride, right[j]);
  for (int i = 0; i < n; i++) sum[i] = l.phi[i];
  for (int e = 0; e < CUDA_VECTOR; e++)
    for (int i = 0; i < n; i++) sum[i] = blu_tile_fma(t, left[i / TILE_OWN][e], right[i % TILE_OWN][e], sum[i]);
  blu_loop_end(&c->k.e, &l, sum);
  for (int i = 0; i < n; i++) out[i] = l.phi[i];
}

void blu_tile_put(const Tile *t, Area scores, const Value *v) {
  Cuda *c = t->c;
  Value at = blu_cuda_add(c, blu_cuda_add(c, blu_cuda_mul(c, t->y, scores.stride), t->x), blu_cuda_number(c, scores.at));
  Value from = number_at(t, c->shared, at);
  for (int i = 0; i < t->own * TILE_OWN; i++) {
    int64_t plus = (int64_t)(i / TILE_OWN) * TILE_DOWN * scores.stride + i % TILE_OWN * TILE_ACROSS;
    LLVMSetAlignment(LLVMBuildStore(c->k.e.b, v[i], number_at(t, from, blu_cuda_number(c, plus))), 4);
  }
}

void blu_tile_accumulate(const Tile *t, Area scores, Area b, int chunks, Value *sum) {
  Cuda *c = t->c;
  int n = t->own * chunks * CUDA_VECTOR;
  Value left[TILE_MOST_OWN][CUDA_VECTOR], right[CUDA_VECTOR];
  Value row = blu_cuda_add(c, blu_cuda_mul(c, t->y, scores.stride), blu_cuda_number(c, scores.at));
  Value column = blu_cuda_add(c, blu_cuda_mul(c, t->x, CUDA_VECTOR), blu_cuda_number(c, b.at));
  Loop l;
  blu_loop_begin(&c->k.e, &l, c->k.fn, blu_cuda_number(c, 0), blu_cuda_number(c, TILE_COLUMNS), CUDA_VECTOR, n, sum);
  Value from_a = number_at(t, c->shared, blu_cuda_add(c, row, l.i));
  Value from_b = number_at(t, c->shared, blu_cuda_add(c, column, blu_cuda_mul(c, l.i, b.stride)));
  for (int i = 0; i < n; i++) sum[i] = l.phi[i];
  for (int i = 0; i < t->own; i++) vector_at(t, from_a, (int64_t)i * TILE_DOWN * scores.stride, left[i]);
  for (int j = 0; j < CUDA_VECTOR; j++)
    for (int k = 0; k < chunks; k++) {
      vector_at(t, from_b, (int64_t)j * b.stride + k * TILE_CHUNK, right);
      for (int i = 0; i < t->own; i++)
        for (int e = 0; e < CUDA_VECTOR; e++) {
          Value *to = &sum[(i * chunks + k) * CUDA_VECTOR + e];
          *to = blu_tile_fma(t, left[i][j], right[e], *to);
        }
    }
  blu_loop_end(&c->k.e, &l, sum);
  for (int i = 0; i < n; i++) sum[i] = l.phi[i];
}
