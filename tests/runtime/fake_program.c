/* fake_program.c - a program as the compiler would emit it, by hand: softmax regression with momentum on 4x4 images
 * of 3 classes, to test the runtime with. FAKE_... macros make variants that a trainer must refuse. */
#include <math.h>
#include <stddef.h>

#include "abi.h"

#ifndef FAKE_ABI
#define FAKE_ABI BLU_ABI
#endif
#ifndef FAKE_CPU
#define FAKE_CPU BLU_CPU_V2
#endif
#ifndef FAKE_EXTRA /* bytes of the arena that nothing uses */
#define FAKE_EXTRA 0
#endif
#ifndef FAKE_HASH
#define FAKE_HASH 0x1234
#endif
#ifndef FAKE_DATA
#define FAKE_DATA "idx"
#endif
#ifndef FAKE_STEPS /* of a run, where `stop` is not set */
#define FAKE_STEPS 0
#endif
#ifndef FAKE_ARGS /* of the data source */
#define FAKE_ARGS ""
#endif
#ifndef FAKE_BIAS /* name of the bias: another one is another parameter table */
#define FAKE_BIAS "fc.bias"
#endif

#ifndef FAKE_SUMS /* 1: steps are of micro-batches; then the model has a state, the mean of the pixels it saw */
#define FAKE_SUMS 0
#endif
#ifndef FAKE_BALLAST /* length of another parameter, which nothing uses */
#define FAKE_BALLAST 0
#endif

enum { N = 8, D = 16, C = 3 };

/* The arena: every member at a multiple of 64, parameters first. */
typedef struct {
  _Alignas(64) float weight[D][C];
  _Alignas(64) float bias[C];
#if FAKE_BALLAST
  _Alignas(64) float ballast[FAKE_BALLAST];
#endif
  _Alignas(64) float moment[D][C];
#if FAKE_SUMS
  _Alignas(64) float mean;
  _Alignas(64) float weight_sum[D][C];
  _Alignas(64) float bias_sum[C];
  _Alignas(64) double total_weight;
  _Alignas(64) double spoil; /* the step whose micro-batches but the first change a parameter, which they never should */
#endif
  _Alignas(64) double rate;
  _Alignas(64) double poison; /* the step whose gradient of the weight becomes NaN, if its batch is a full one; with sums, not of the first one */
  _Alignas(64) double spike;  /* the step whose loss is 100 higher */
  _Alignas(64) double stop;
  _Alignas(64) double step;
  _Alignas(64) int64_t seed;
  _Alignas(64) int32_t rows;
  _Alignas(64) float image[N][D]; /* from here on: overlaid */
  _Alignas(64) int32_t label[N];
  _Alignas(64) float slope[N][C];   /* of the loss by logit */
  _Alignas(64) float loss_of[N], right_of[N];
  _Alignas(64) float weight_grad[D][C];
  _Alignas(64) float bias_grad[C];
  _Alignas(64) float loss, loss_weight, accuracy, accuracy_weight;
  _Alignas(64) float weight_squares, bias_squares, norm;
  _Alignas(64) double stop_out, epochs_out;
  _Alignas(64) double rate_now;
  _Alignas(64) float logit[N][C];
  _Alignas(64) int32_t best[N];
} Arena;

#define KERNEL(name) static void name(char *arena, const int64_t *offset, char *scratch, int64_t first, int64_t last)
#define UNUSED (void)offset, (void)scratch, (void)first, (void)last
#define ARENA Arena *a = (Arena *)(void *)arena

KERNEL(init) { /* pieces: D */
  ARENA;
  UNUSED;
  for (int64_t i = first; i < last; i++)
    for (int j = 0; j < C; j++) {
      uint64_t x = ((uint64_t)a->seed * 1000003 + (uint64_t)(i * C + j)) * 0x9e3779b97f4a7c15u;
      a->weight[i][j] = (float)((double)(x >> 40) * 0x1p-24 - 0.5) * 0.1f;
      a->moment[i][j] = 0;
      if (!i) a->bias[j] = 0;
    }
}

KERNEL(forward) { /* pieces: N. The scratch holds the logits. */
  ARENA;
  UNUSED;
  float *logit = (float *)(void *)scratch;
  for (int64_t r = first; r < last; r++) {
    float most = -INFINITY, sum = 0;
    int best = 0;
    for (int j = 0; j < C; j++) {
      logit[j] = a->bias[j];
      for (int i = 0; i < D; i++) logit[j] += a->image[r][i] / 255 * a->weight[i][j];
      if (logit[j] > most) most = logit[j], best = j;
    }
    for (int j = 0; j < C; j++) sum += (float)blu_rt_exp(logit[j] - most);
    int real = r < a->rows;
    int32_t label = a->label[r];
    float whole = FAKE_SUMS ? 1 : (float)a->rows;
    for (int j = 0; j < C; j++) a->slope[r][j] = real ? ((float)blu_rt_exp(logit[j] - most) / sum - (j == label)) / whole : 0;
    a->loss_of[r] = real ? (float)blu_rt_log(sum) + most - logit[label] : 0;
    a->right_of[r] = real && best == label;
  }
}

KERNEL(total) { /* pieces: 1 */
  ARENA;
  UNUSED;
  a->loss = a->accuracy = 0;
  for (int r = 0; r < N; r++) a->loss += a->loss_of[r], a->accuracy += a->right_of[r];
  if (a->step == a->spike) a->loss += 100 * (float)a->rows;
  a->loss_weight = a->accuracy_weight = (float)a->rows;
  a->rate_now = a->rate * blu_rt_pow(0.99, a->step);
}

KERNEL(backward) { /* pieces: D */
  ARENA;
  UNUSED;
  for (int64_t i = first; i < last; i++)
    for (int j = 0; j < C; j++) {
      a->weight_grad[i][j] = a->step == a->poison && a->rows == N && !i && (!FAKE_SUMS || a->seed != 1) ? NAN : 0;
      for (int r = 0; r < N; r++) a->weight_grad[i][j] += a->image[r][i] / 255 * a->slope[r][j];
      if (!i) a->bias_grad[j] = 0;
      for (int r = 0; r < N && !i; r++) a->bias_grad[j] += a->slope[r][j];
    }
}

#if FAKE_SUMS
KERNEL(add_up) { /* pieces: 1 */
  ARENA;
  UNUSED;
  float mean = 0;
  for (int j = 0; j < C; j++) {
    a->bias_sum[j] += a->bias_grad[j];
    for (int i = 0; i < D; i++) a->weight_sum[i][j] += a->weight_grad[i][j];
  }
  for (int r = 0; r < N; r++)
    for (int i = 0; i < D; i++) mean += a->image[r][i] / (N * D);
  a->mean = 0.9f * a->mean + 0.1f * mean;
  if (a->step == a->spoil && a->seed != 1) a->weight[1][1] += 1;
}

KERNEL(divide) { /* pieces: 1 */
  ARENA;
  UNUSED;
  for (int j = 0; j < C; j++) {
    a->bias_grad[j] = a->bias_sum[j] / (float)a->total_weight;
    for (int i = 0; i < D; i++) a->weight_grad[i][j] = a->weight_sum[i][j] / (float)a->total_weight;
  }
}
#endif

KERNEL(squares) { /* pieces: 1 */
  ARENA;
  UNUSED;
  a->weight_squares = a->bias_squares = 0;
  for (int j = 0; j < C; j++) {
    a->bias_squares += a->bias_grad[j] * a->bias_grad[j];
    for (int i = 0; i < D; i++) a->weight_squares += a->weight_grad[i][j] * a->weight_grad[i][j];
  }
  a->norm = a->weight_squares + a->bias_squares;
}

KERNEL(update) { /* pieces: D */
  ARENA;
  UNUSED;
  float rate = (float)(a->rate * blu_rt_pow(0.99, a->step));
  for (int64_t i = first; i < last; i++)
    for (int j = 0; j < C; j++) {
      a->moment[i][j] = 0.9f * a->moment[i][j] + a->weight_grad[i][j];
      a->weight[i][j] -= rate * a->moment[i][j];
      if (!i) a->bias[j] -= rate * a->bias_grad[j];
    }
}

KERNEL(classify) { /* pieces: N */
  ARENA;
  UNUSED;
  for (int64_t r = first; r < last; r++) {
    a->best[r] = 0;
    for (int j = 0; j < C; j++) {
      a->logit[r][j] = a->bias[j];
      for (int i = 0; i < D; i++) a->logit[r][j] += a->image[r][i] / 255 * a->weight[i][j];
      if (a->logit[r][j] > a->logit[r][a->best[r]]) a->best[r] = j;
    }
  }
}

KERNEL(constants) { /* pieces: 1. Two numbers from no input */
  ARENA;
  UNUSED;
  a->stop_out = 1.5;
  a->epochs_out = -2;
}

KERNEL(settings) { /* pieces: 1 */
  ARENA;
  UNUSED;
  a->stop_out = a->stop;
  a->epochs_out = 2;
}

#define AT(member) .offset = offsetof(Arena, member), .bytes = sizeof((Arena *)0)->member
#define SCALAR(member, label, kind, type) {.name = label, .role = kind, .dtype = type, AT(member)}

static const BluSlot tensors[] = {
    {.name = "fc.weight", .role = BLU_ROLE_PARAM, .dtype = BLU_DTYPE_F32, .rank = 2, .dim = {D, C}, AT(weight)},
    {.name = FAKE_BIAS, .role = BLU_ROLE_PARAM, .dtype = BLU_DTYPE_F32, .rank = 1, .dim = {C}, AT(bias)},
#if FAKE_BALLAST
    {.name = "ballast", .role = BLU_ROLE_PARAM, .dtype = BLU_DTYPE_F32, .rank = 1, .dim = {FAKE_BALLAST}, AT(ballast)},
#endif
    {.name = "fc.weight:m", .role = BLU_ROLE_STATE, .dtype = BLU_DTYPE_F32, .rank = 2, .dim = {D, C}, AT(moment)},
#if FAKE_SUMS
    {.name = "mean", .role = BLU_ROLE_STATE, .dtype = BLU_DTYPE_F32, AT(mean)},
#endif
};
static const BluSlot scalars[] = {
    {.name = "rate", .role = BLU_ROLE_RUN, .dtype = BLU_DTYPE_F64, AT(rate), .value = 0.5},
    {.name = "poison", .role = BLU_ROLE_RUN, .dtype = BLU_DTYPE_F64, AT(poison), .value = -1},
    {.name = "spike", .role = BLU_ROLE_RUN, .dtype = BLU_DTYPE_F64, AT(spike), .value = -1},
    {.name = "stop", .role = BLU_ROLE_RUN, .dtype = BLU_DTYPE_F64, AT(stop), .value = FAKE_STEPS},
#if FAKE_SUMS
    {.name = "spoil", .role = BLU_ROLE_RUN, .dtype = BLU_DTYPE_F64, AT(spoil), .value = -1},
    SCALAR(total_weight, "total", BLU_ROLE_TOTAL, BLU_DTYPE_F64),
#endif
    SCALAR(step, "step", BLU_ROLE_STEP, BLU_DTYPE_F64),
    SCALAR(seed, "seed", BLU_ROLE_SEED, BLU_DTYPE_I64),
    SCALAR(rows, "rows", BLU_ROLE_ROWS, BLU_DTYPE_I32),
};

#define DATA_SLOTS                                                                                           \
  {.name = "image", .role = BLU_ROLE_DATA, .dtype = BLU_DTYPE_F32, .rank = 3, .dim = {N, 4, 4}, AT(image)},  \
      {.name = "label", .role = BLU_ROLE_DATA, .dtype = BLU_DTYPE_I32, .rank = 1, .dim = {N}, AT(label), .bound = C}
#define METRIC_SLOTS                                                          \
  SCALAR(loss, "loss", BLU_ROLE_SUM, BLU_DTYPE_F32),                          \
      SCALAR(loss_weight, "loss", BLU_ROLE_WEIGHT, BLU_DTYPE_F32),            \
      SCALAR(accuracy, "accuracy", BLU_ROLE_SUM, BLU_DTYPE_F32),              \
      SCALAR(accuracy_weight, "accuracy", BLU_ROLE_WEIGHT, BLU_DTYPE_F32)

#define NORM_SLOTS                                                          \
  SCALAR(weight_squares, "fc.weight", BLU_ROLE_SQUARES, BLU_DTYPE_F32),     \
      SCALAR(bias_squares, FAKE_BIAS, BLU_ROLE_SQUARES, BLU_DTYPE_F32),     \
      SCALAR(norm, "norm", BLU_ROLE_NORM, BLU_DTYPE_F32)

static const BluSlot train_slots[] = {
    DATA_SLOTS,
    METRIC_SLOTS,
#if FAKE_SUMS
    {.name = "fc.weight", .role = BLU_ROLE_GRADIENT, .dtype = BLU_DTYPE_F32, .rank = 2, .dim = {D, C}, AT(weight_sum)},
    {.name = FAKE_BIAS, .role = BLU_ROLE_GRADIENT, .dtype = BLU_DTYPE_F32, .rank = 1, .dim = {C}, AT(bias_sum)},
#else
    NORM_SLOTS,
#endif
    SCALAR(rate_now, "lr", BLU_ROLE_OUTPUT, BLU_DTYPE_F64),
};
#if FAKE_SUMS
static const BluSlot update_slots[] = {NORM_SLOTS};
#endif
static const BluSlot classify_slots[] = {
    {.name = "image", .role = BLU_ROLE_INPUT, .dtype = BLU_DTYPE_F32, .rank = 3, .dim = {N, 4, 4}, AT(image)},
    {.name = "best", .role = BLU_ROLE_OUTPUT, .dtype = BLU_DTYPE_I32, .rank = 1, .dim = {N}, AT(best)},
    {.name = "all", .role = BLU_ROLE_OUTPUT, .dtype = BLU_DTYPE_F32, .rank = 2, .dim = {N, C}, AT(logit)},
};
static const BluSlot constants_slots[] = {SCALAR(stop_out, "first", BLU_ROLE_OUTPUT, BLU_DTYPE_F64),
                                          SCALAR(epochs_out, "second", BLU_ROLE_OUTPUT, BLU_DTYPE_F64)};
static const BluSlot eval_slots[] = {DATA_SLOTS, METRIC_SLOTS};
static const BluSlot settings_slots[] = {
    SCALAR(stop_out, "stop", BLU_ROLE_OUTPUT, BLU_DTYPE_F64),
    SCALAR(epochs_out, "epochs", BLU_ROLE_OUTPUT, BLU_DTYPE_F64),
};

static const BluLaunch init_launches[] = {{.kernel = init, .pieces = D, .name = "init"}};
static const BluLaunch train_launches[] = {
    {.kernel = forward, .pieces = N, .name = "forward", .line = 1}, {.kernel = total, .pieces = 1, .name = "total"},
    {.kernel = backward, .pieces = D, .name = "backward"},
#if FAKE_SUMS
    {.kernel = add_up, .pieces = 1, .name = "add_up"},
};
static const BluLaunch update_launches[] = {
    {.kernel = divide, .pieces = 1, .name = "divide"},
#endif
    {.kernel = squares, .pieces = 1, .name = "squares"},
    {.kernel = update, .pieces = D, .name = "update"},
};
static const BluLaunch eval_launches[] = {
    {.kernel = forward, .pieces = N, .name = "forward"},
    {.kernel = total, .pieces = 1, .name = "total"},
};
static const BluLaunch classify_launches[] = {{.kernel = classify, .pieces = N, .name = "classify"}};
static const BluLaunch constants_launches[] = {{.kernel = constants, .pieces = 1, .name = "constants"}};
static const BluLaunch settings_launches[] = {{.kernel = settings, .pieces = 1, .name = "settings"}};

#define COUNT(table) (sizeof table / sizeof *table)

/* What isn't kept of the arena belongs to any function. */
#define OWN ((int64_t)sizeof(Arena) - (int64_t)offsetof(Arena, image))
static const BluFunction functions[] = {
    {.own_bytes = OWN, .name = "init", .launch = init_launches, .launches = 1},
    {.own_bytes = OWN, .name = "train", .slot = train_slots, .slots = COUNT(train_slots), .launch = train_launches, .launches = FAKE_SUMS ? 4 : 5,
     .commit = 4, .flops = 6 * N * D * C},
#if FAKE_SUMS
    {.own_bytes = OWN, .name = "update", .slot = update_slots, .slots = COUNT(update_slots), .launch = update_launches, .launches = 3, .commit = 2},
#endif
    {.own_bytes = OWN, .name = "eval", .slot = eval_slots, .slots = COUNT(eval_slots), .launch = eval_launches, .launches = 2,
     .commit = 2, .flops = 2 * N * D * C},
    {.own_bytes = OWN, .name = "settings", .slot = settings_slots, .slots = COUNT(settings_slots), .launch = settings_launches,
     .launches = 1, .commit = 1},
    {.own_bytes = OWN, .name = "predict", .slot = classify_slots, .slots = COUNT(classify_slots), .launch = classify_launches,
     .launches = 1, .commit = 1},
    {.own_bytes = OWN, .name = "constants", .slot = constants_slots, .slots = COUNT(constants_slots), .launch = constants_launches,
     .launches = 1, .commit = 1},
};

/* "plan of fake\n" by gzip -9n */
static const unsigned char plan[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x2b, 0xc8, 0x49, 0xcc, 0x53, 0xc8, 0x4f, 0x53,
                                     0x48, 0x4b, 0xcc, 0x4e, 0xe5, 0x02, 0x00, 0x5f, 0x6a, 0x69, 0x8b, 0x0d, 0x00, 0x00, 0x00};

const BluProgram blu_program = {
    .abi = FAKE_ABI,
    .cpu = FAKE_CPU,
    .model = "fake",
    .compiler = "bluc test",
    .target = "x86-64-test",
    .source_name = "fake.blu",
    .source = "// the source of fake.blu\n",
    .plan = (const char *)plan,
    .plan_bytes = sizeof plan,
    .data = FAKE_DATA,
    .data_args = FAKE_ARGS,
    .hash = FAKE_HASH,
    .arena_bytes = (int64_t)sizeof(Arena) + FAKE_EXTRA,
    .kept_bytes = offsetof(Arena, image),
    .scratch_bytes = C * sizeof(float),
    .tensor = tensors,
    .tensors = COUNT(tensors),
    .scalar = scalars,
    .scalars = COUNT(scalars),
    .function = functions,
    .functions = COUNT(functions),
};
