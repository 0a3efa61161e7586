/* fake_device.c - a program for a device as the compiler would emit it, by hand: the softmax regression with momentum of tests/runtime/fake_program.c,
 * with the same parameters, first values and run values, so that the two must learn the same. Its kernels are in twin.c. */
#include <stddef.h>

#include "abi.h"

#ifndef FAKE_ARCH /* of the image; 0: PTX for 80 and newer */
#define FAKE_ARCH 0
#endif
#ifndef FAKE_EXTRA /* bytes of the arena that nothing uses */
#define FAKE_EXTRA 0
#endif

#ifndef FAKE_POISON /* what is dead is poisoned: 1 when it is dead, 2 too early */
#define FAKE_POISON 0
#endif

enum { N = 8, D = 16, C = 3 };

typedef struct {
  _Alignas(64) float weight[D][C];
  _Alignas(64) float bias[C];
  _Alignas(64) float moment[D][C];
  _Alignas(64) double rate;
  _Alignas(64) double poison; /* the step whose gradient of the weight becomes NaN, if its batch is a full one */
  _Alignas(64) double spike;  /* the step whose loss is 100 higher */
  _Alignas(64) double stop;
  _Alignas(64) double step;
  _Alignas(64) int64_t seed;
  _Alignas(64) int32_t rows;
  union { /* from here on: overlaid; results lie where the batch was */
    _Alignas(64) float image[N][D];
    struct {
      _Alignas(64) float loss;
      _Alignas(64) float loss_weight;
      _Alignas(64) float accuracy;
      _Alignas(64) float accuracy_weight;
      _Alignas(64) float weight_squares;
      _Alignas(64) float bias_squares;
      _Alignas(64) float norm;
    };
  };
  _Alignas(64) int32_t label[N];
  _Alignas(64) float pixel[N][D], logit[N][C], slope[N][C], loss_of[N], right_of[N];
  _Alignas(64) float weight_grad[D][C];
  _Alignas(64) float bias_grad[C];
  _Alignas(64) double stop_out;
  _Alignas(64) double epochs_out;
  _Alignas(64) double rate_now;
  _Alignas(64) int32_t best[N];
} Arena;

#define KERNEL(name) static void name(char *arena, const int64_t *offset, char *scratch, int64_t first, int64_t last)
#define PLACE(type, i) (*(type *)(void *)(arena + offset[i]))
#define UNUSED (void)scratch, (void)first, (void)last

KERNEL(rate_at) { /* rate, step, rate_now */
  UNUSED;
  PLACE(double, 2) = PLACE(double, 0) * blu_rt_pow(0.99, PLACE(double, 1));
}

KERNEL(settings) { /* stop, stop_out, epochs_out */
  UNUSED;
  PLACE(double, 1) = PLACE(double, 0);
  PLACE(double, 2) = 2;
}

#define O(member) offsetof(Arena, member)
#define AT(member) .offset = offsetof(Arena, member), .bytes = sizeof((Arena *)0)->member
#define SCALAR(member, label, kind, type) {.name = label, .role = kind, .dtype = type, AT(member)}
#define COUNT(table) (sizeof table / sizeof *table)
#define PLACES(...) .offset = (const int64_t[]){__VA_ARGS__}, .offsets = COUNT(((const int64_t[]){__VA_ARGS__}))
#define CODE(f, blocks, threads, shared) \
  .name = f, .pieces = 1, .device = &(const BluDeviceLaunch){.function = f, .grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .shared_bytes = shared}
#define PRODUCT(label, what) .name = label, .pieces = 1, .device = &(const BluDeviceLaunch){.product = &what}

static const BluSlot tensors[] = {
    {.name = "fc.weight", .role = BLU_ROLE_PARAM, .dtype = BLU_DTYPE_F32, .rank = 2, .dim = {D, C}, AT(weight)},
    {.name = "fc.bias", .role = BLU_ROLE_PARAM, .dtype = BLU_DTYPE_F32, .rank = 1, .dim = {C}, AT(bias)},
    {.name = "fc.weight:m", .role = BLU_ROLE_STATE, .dtype = BLU_DTYPE_F32, .rank = 2, .dim = {D, C}, AT(moment)},
};
static const BluSlot scalars[] = {
    {.name = "rate", .role = BLU_ROLE_RUN, .dtype = BLU_DTYPE_F64, AT(rate), .value = 0.5},
    {.name = "poison", .role = BLU_ROLE_RUN, .dtype = BLU_DTYPE_F64, AT(poison), .value = -1},
    {.name = "spike", .role = BLU_ROLE_RUN, .dtype = BLU_DTYPE_F64, AT(spike), .value = -1},
    {.name = "stop", .role = BLU_ROLE_RUN, .dtype = BLU_DTYPE_F64, AT(stop)},
    SCALAR(step, "step", BLU_ROLE_STEP, BLU_DTYPE_F64),
    SCALAR(seed, "seed", BLU_ROLE_SEED, BLU_DTYPE_I64),
    SCALAR(rows, "rows", BLU_ROLE_ROWS, BLU_DTYPE_I32),
};

#define DATA_SLOTS                                                                                           \
  {.name = "image", .role = BLU_ROLE_DATA, .dtype = BLU_DTYPE_F32, .rank = 3, .dim = {N, 4, 4}, AT(image)},  \
      {.name = "label", .role = BLU_ROLE_DATA, .dtype = BLU_DTYPE_I32, .rank = 1, .dim = {N}, AT(label), .bound = C}
#define METRIC_SLOTS                                                                                               \
  SCALAR(loss, "loss", BLU_ROLE_SUM, BLU_DTYPE_F32), SCALAR(loss_weight, "loss", BLU_ROLE_WEIGHT, BLU_DTYPE_F32),  \
      SCALAR(accuracy, "accuracy", BLU_ROLE_SUM, BLU_DTYPE_F32), SCALAR(accuracy_weight, "accuracy", BLU_ROLE_WEIGHT, BLU_DTYPE_F32)

static const BluSlot train_slots[] = {
    DATA_SLOTS,
    METRIC_SLOTS,
    SCALAR(weight_squares, "fc.weight", BLU_ROLE_SQUARES, BLU_DTYPE_F32),
    SCALAR(bias_squares, "fc.bias", BLU_ROLE_SQUARES, BLU_DTYPE_F32),
    SCALAR(norm, "norm", BLU_ROLE_NORM, BLU_DTYPE_F32),
    SCALAR(rate_now, "lr", BLU_ROLE_OUTPUT, BLU_DTYPE_F64),
};
static const BluSlot eval_slots[] = {DATA_SLOTS, METRIC_SLOTS};
static const BluSlot classify_slots[] = {
    {.name = "image", .role = BLU_ROLE_INPUT, .dtype = BLU_DTYPE_F32, .rank = 3, .dim = {N, 4, 4}, AT(image)},
    {.name = "all", .role = BLU_ROLE_OUTPUT, .dtype = BLU_DTYPE_F32, .rank = 2, .dim = {N, C}, AT(logit)},
};
static const BluSlot settings_slots[] = {
    SCALAR(stop_out, "stop", BLU_ROLE_OUTPUT, BLU_DTYPE_F64),
    SCALAR(epochs_out, "epochs", BLU_ROLE_OUTPUT, BLU_DTYPE_F64),
};

/* logit = pixel weight + bias; weight_grad = transpose(pixel) slope */
static const BluProduct forward = {.batch = 1, .m = N, .n = C, .k = D, .step_a = N * D, .step_b = D * C, .step_c = N * C, .epilogue = BLU_EPILOGUE_BIAS,
                                   .place_a = 0, .place_b = 1, .place_c = 2, .place_bias = 3};
static const BluProduct backward = {.batch = 1, .m = D, .n = C, .k = N, .step_a = N * D, .step_b = N * C, .step_c = D * C, .ta = 1, .place_a = 0,
                                    .place_b = 1, .place_c = 2, .place_bias = -1};

#define POISON(member) {.kernel = blu_rt_poison, .name = "poison", .pieces = 1, PLACES(1, O(member), sizeof((Arena *)0)->member)}
#define LOGITS \
  {CODE("pixels", 2, 64, 0), PLACES(O(image), O(pixel)), .line = 1}, \
      {PRODUCT("forward", forward), PLACES(O(pixel), O(weight), O(logit), O(bias)), .line = 2}
#define LOSSES                                                                                                                  \
  {CODE("softmax", N, 32, 0), PLACES(O(logit), O(label), O(rows), O(slope), O(loss_of), O(right_of))},                          \
      {CODE("total", 1, 64, 2 * 64 * 4), PLACES(O(loss_of), O(right_of), O(rows), O(step), O(spike), O(loss), O(loss_weight), O(accuracy), O(accuracy_weight))}

static const BluLaunch init_launches[] = {{CODE("init", 1, 64, 0), PLACES(O(seed), O(weight), O(moment), O(bias))}};
/* Row by row. */
static const BluLaunch update_row[] = {{CODE("update", 1, 32, 0), PLACES(O(weight), O(moment), O(weight_grad), O(rate_now)),
                                        .stride = (const int64_t[]){C * 4, C * 4, C * 4, 0}}};
static const BluLoop update_rows = {.steps = D, .reverse = 1, .launch = update_row, .launches = 1};
static const BluLaunch train_launches[] = {
    LOGITS, LOSSES,
    {.kernel = rate_at, .name = "rate_at", .pieces = 1, PLACES(O(rate), O(step), O(rate_now))},
    {PRODUCT("backward", backward), PLACES(O(pixel), O(slope), O(weight_grad))},
#if FAKE_POISON == 2
    POISON(slope),
#endif
    {CODE("spoil", 1, 1, 0), PLACES(O(step), O(poison), O(rows), O(weight_grad))},
    {CODE("squares", 1, 64, 2 * 64 * 4), PLACES(O(weight_grad), O(slope), O(bias_grad), O(weight_squares), O(bias_squares), O(norm))},
#if FAKE_POISON == 1
    POISON(slope),
#endif
    {.name = "rows", .pieces = 1, .loop = &update_rows},
    {CODE("update", 1, 32, 0), PLACES(O(bias), O(bias_grad), O(bias_grad), O(rate_now))}, /* no moment: it is added to itself by 0 */
};
static const BluLaunch eval_launches[] = {LOGITS, LOSSES};
static const BluLaunch classify_launches[] = {LOGITS};
static const BluLaunch settings_launches[] = {{.kernel = settings, .name = "settings", .pieces = 1, PLACES(O(stop), O(stop_out), O(epochs_out))}};

#define OWN ((int64_t)sizeof(Arena) + FAKE_EXTRA - O(image)) /* every function may need all */
static const BluFunction functions[] = {
    {.own_bytes = OWN, .name = "init", .launch = init_launches, .launches = 1},
    {.own_bytes = OWN, .name = "train", .slot = train_slots, .slots = COUNT(train_slots), .launch = train_launches, .launches = COUNT(train_launches),
     .commit = 8 + (FAKE_POISON > 0), .flops = 4 * N * D * C},
    {.own_bytes = OWN, .name = "eval", .slot = eval_slots, .slots = COUNT(eval_slots), .launch = eval_launches, .launches = COUNT(eval_launches), .commit = 4},
    {.own_bytes = OWN, .name = "settings", .slot = settings_slots, .slots = COUNT(settings_slots), .launch = settings_launches, .launches = 1, .commit = 1},
    {.own_bytes = OWN, .name = "predict", .slot = classify_slots, .slots = COUNT(classify_slots), .launch = classify_launches, .launches = 2, .commit = 2},
};

/* The emulator takes any text for an image: twins are found by its hash. */
static const char code[] = "the code of fake_device\n";
static const BluImage images[] = {{.arch = FAKE_ARCH, .least = FAKE_ARCH ? 0 : 80, .bytes = code, .size = sizeof code - 1}};

/* "plan of fake\n" by gzip -9n */
static const unsigned char plan[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x2b, 0xc8, 0x49, 0xcc, 0x53, 0xc8, 0x4f, 0x53,
                                     0x48, 0x4b, 0xcc, 0x4e, 0xe5, 0x02, 0x00, 0x5f, 0x6a, 0x69, 0x8b, 0x0d, 0x00, 0x00, 0x00};

const BluProgram blu_program = {
    .abi = BLU_ABI, .cpu = BLU_CPU_V2, .model = "fake", .compiler = "bluc test", .target = "x86-64-test", .source_name = "fake.blu",
    .source = "pixels\nforward\n", .plan = (const char *)plan, .plan_bytes = sizeof plan, .data = "idx", .data_args = "", .hash = 0x4321,
    .arena_bytes = (int64_t)sizeof(Arena) + FAKE_EXTRA, .kept_bytes = O(image), .scratch_bytes = 64, .loop_offsets = 4,
    .tensor = tensors, .tensors = COUNT(tensors), .scalar = scalars, .scalars = COUNT(scalars), .function = functions, .functions = COUNT(functions),
    .image = images, .images = COUNT(images),
};
