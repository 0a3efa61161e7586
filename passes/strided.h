/* strided.h - tensors that are parts of others, in another order: what a kernel whose main op takes strides reads and writes without a copy. */
#ifndef BLU_PASSES_STRIDED_H
#define BLU_PASSES_STRIDED_H
#include "dialects/blu.h"

/* Element (i, j, ..) of a value is element `offset` + i * stride[0] + j * stride[1] .. of `whole`. Dimensions of one element have any stride. */
typedef struct { MlirValue whole; int64_t offset, stride[BLU_MAX_RANK]; } BluStrided;

/* Ops through which a value can be a part of another: transpose, reshape, slice, a cast that widens. */
bool blu_is_strided(MlirOperation op);
/* v as a part of `whole`, or, if that is null, of the argument of the function that it is made of. false: it is none. */
bool blu_strided_part(MlirValue v, MlirValue whole, BluStrided *s);
/* Where v lies in `whole`, which is v itself, or made of it, and perhaps of others, by transpose, reshape and concat. false: it isn't there. */
bool blu_strided_place(MlirValue v, MlirValue whole, BluStrided *s);
#endif
