/* tile.h - products of tiles in shared memory, each thread with some rows and columns of the result in its registers: what the kernels of attention
 * are made of. All is f32, and every sum is one chain of multiply-adds. */
#ifndef BLU_CODEGEN_CUDA_TILE_H
#define BLU_CODEGEN_CUDA_TILE_H
#include "codegen/cuda/cuda.h"

/* A block has TILE_DOWN x TILE_ACROSS threads. Of a tile of rows and TILE_COLUMNS columns, a thread has the rows y, y + TILE_DOWN .. and the columns x,
 * x + TILE_ACROSS .., so that neighbours read neighbouring rows of an area, whose strides put them in other banks. */
enum { TILE_ACROSS = 8, TILE_DOWN = 16, TILE_THREADS = TILE_ACROSS * TILE_DOWN, TILE_COLUMNS = 32,
       TILE_OWN = TILE_COLUMNS / TILE_ACROSS /* columns of a thread */, TILE_MOST_OWN = 4 /* rows of a thread */, TILE_CHUNK = TILE_ACROSS * CUDA_VECTOR,
       TILE_MOST_SUMS = 64 };

typedef LLVMValueRef Value;

/* Rows of `stride` numbers in shared memory, from number `at` on. An odd number of vectors apart, rows begin in other banks. */
typedef struct { int64_t at; int rows, width, stride; } Area;
/* The next rows x width of shared memory; a width of data is a multiple of TILE_CHUNK, of which `depth` numbers count and the others are 0. */
Area blu_tile_area(Cuda *c, int rows, int64_t depth);
Area blu_tile_scores(Cuda *c, int rows); /* one number for each row and column of a tile */

typedef struct { Cuda *c; int own; Value x, y; } Tile; /* own: rows of a thread; x, y: the thread's place */
Tile blu_tile_begin(Cuda *c, int own);
Value blu_tile_row(const Tile *t, int i);       /* in the tile: of the thread's i-th row */
Value blu_tile_column(const Tile *t, int j);

/* The area's rows from the matrix at `place`: row first + i of `limit` ones, of `depth` numbers each, the matrix beginning at element `base`. What lies
 * beyond is 0. All threads take part; barriers are the caller's. */
void blu_tile_fill(const Tile *t, Area to, Value place, Value base, Value first, int64_t limit, int64_t depth);
/* out[own][TILE_OWN]: of the thread's rows of a and of b (which are the columns), the product over `depth` numbers. */
void blu_tile_dot(const Tile *t, Area a, Area b, int64_t depth, Value *out);
/* sum[own][chunks][4] += scores times the TILE_COLUMNS rows of b. The thread has the columns (x + TILE_ACROSS chunk) 4 .. of the result. */
int blu_tile_chunks(int64_t depth);
void blu_tile_accumulate(const Tile *t, Area scores, Area b, int chunks, Value *sum);
void blu_tile_put(const Tile *t, Area scores, const Value *v); /* [own][TILE_OWN] */
/* The sums to rows first .. of the matrix, as of blu_tile_fill. */
void blu_tile_store(const Tile *t, const Value *sum, Value place, Value base, Value first, int64_t limit, int64_t depth);

Value blu_tile_real(const Tile *t, double v);
Value blu_tile_fma(const Tile *t, Value a, Value b, Value c);
Value blu_tile_least(const Tile *t, Value a, Value b); /* of i64 */
#endif
