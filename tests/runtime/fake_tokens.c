/* fake_tokens.c - a program by hand that looks at its data: x and y are rows of T tokens, N at a time. The loss is the
 * mean token of x, `shifted` the share of places where y is the token after, and the parameter sums up what was seen, in
 * an order-dependent way. */
#include <stddef.h>

#include "abi.h"

#ifndef FAKE_DATA
#define FAKE_DATA "tokens"
#endif
#ifndef FAKE_ARGS
#define FAKE_ARGS ""
#endif

enum { N = 2, T = 4, VOCABULARY = 300 };

typedef struct {
  _Alignas(64) double seen;
  _Alignas(64) double count; /* examples seen: a state of the model, not of the optimizer */
  _Alignas(64) int64_t seed;
  _Alignas(64) int32_t rows;
  _Alignas(64) int32_t x[N][T]; /* from here on: overlaid */
  _Alignas(64) int64_t y[N][T];
  _Alignas(64) float loss, loss_weight, shifted, shifted_weight;
} Arena;

#define KERNEL(name) static void name(char *arena, const int64_t *offset, char *scratch, int64_t first, int64_t last)
#define ARENA Arena *a = (Arena *)(void *)arena; (void)offset, (void)scratch, (void)first, (void)last

KERNEL(init) {
  ARENA;
  a->seen = a->count = 0;
}

KERNEL(look) {
  ARENA;
  a->loss = a->loss_weight = a->shifted = a->shifted_weight = 0;
  for (int r = 0; r < a->rows; r++) {
    for (int t = 0; t < T; t++) a->loss += (float)a->x[r][t] / T;
    for (int t = 0; t + 1 < T; t++) a->shifted += (float)(a->y[r][t] == a->x[r][t + 1]) / (T - 1);
    a->loss_weight++, a->shifted_weight++;
  }
}

KERNEL(update) {
  ARENA;
  for (int r = 0; r < a->rows; r++) a->seen = a->seen * 0.999 + a->x[r][0], a->count++;
}

#define AT(member) .offset = offsetof(Arena, member), .bytes = sizeof((Arena *)0)->member
#define SCALAR(member, label, kind, type) {.name = label, .role = kind, .dtype = type, AT(member)}
#define SLOTS                                                                                                       \
  {.name = "x", .role = BLU_ROLE_DATA, .dtype = BLU_DTYPE_I32, .rank = 2, .dim = {N, T}, AT(x), .bound = VOCABULARY}, \
      {.name = "y", .role = BLU_ROLE_DATA, .dtype = BLU_DTYPE_I64, .rank = 2, .dim = {N, T}, AT(y)},                \
      SCALAR(loss, "loss", BLU_ROLE_SUM, BLU_DTYPE_F32), SCALAR(loss_weight, "loss", BLU_ROLE_WEIGHT, BLU_DTYPE_F32), \
      SCALAR(shifted, "shifted", BLU_ROLE_SUM, BLU_DTYPE_F32),                                                      \
      SCALAR(shifted_weight, "shifted", BLU_ROLE_WEIGHT, BLU_DTYPE_F32)

static const BluSlot tensors[] = {SCALAR(seen, "seen", BLU_ROLE_PARAM, BLU_DTYPE_F64),
                                  SCALAR(count, "count", BLU_ROLE_STATE, BLU_DTYPE_F64)};
static const BluSlot scalars[] = {SCALAR(seed, "seed", BLU_ROLE_SEED, BLU_DTYPE_I64),
                                  SCALAR(rows, "rows", BLU_ROLE_ROWS, BLU_DTYPE_I32)};
static const BluSlot slots[] = {SLOTS};
static const BluLaunch init_launches[] = {{.kernel = init, .pieces = 1, .name = "init"}};
static const BluLaunch launches[] = {{.kernel = look, .pieces = 1, .name = "look"},
                                     {.kernel = update, .pieces = 1, .name = "update"}};
/* What isn't kept of the arena belongs to any function. */
#define OWN ((int64_t)sizeof(Arena) - (int64_t)offsetof(Arena, x))
static const BluFunction functions[] = {
    {.own_bytes = OWN, .name = "init", .launch = init_launches, .launches = 1},
    {.own_bytes = OWN, .name = "train", .slot = slots, .slots = 6, .launch = launches, .launches = 2, .commit = 1},
    {.own_bytes = OWN, .name = "eval", .slot = slots, .slots = 6, .launch = launches, .launches = 1, .commit = 1},
};

const BluProgram blu_program = {
    .abi = BLU_ABI,
    .cpu = BLU_CPU_V2,
    .model = "tokens",
    .compiler = "bluc test",
    .target = "x86-64-test",
    .source_name = "tokens.blu",
    .source = "// the source of tokens.blu\n",
    .plan = "",
    .data = FAKE_DATA,
    .data_args = FAKE_ARGS,
    .arena_bytes = sizeof(Arena),
    .kept_bytes = offsetof(Arena, x),
    .tensor = tensors,
    .tensors = 2,
    .scalar = scalars,
    .scalars = 2,
    .function = functions,
    .functions = 3,
};
