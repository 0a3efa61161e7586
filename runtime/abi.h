/* abi.h - the contract between compiled code and the runtime, and the only header that both sides see.
 *
 * A trainer is one constant `blu_program` (emitted by the compiler) linked with the runtime. Every tensor lives at a
 * fixed offset of one arena; every computation is a table of launches; a launch is a kernel with fixed offsets and a
 * fixed number of pieces, so that results never depend on the number of threads. The compiler emits these structs field
 * by field (codegen/program.c): change both together, and raise BLU_ABI. */
#ifndef BLU_RUNTIME_ABI_H
#define BLU_RUNTIME_ABI_H
#include <stdint.h>

#define BLU_ABI 8
#define BLU_ABI_RANK 8     /* highest rank of a tensor */
#define BLU_ABI_ALIGN 64   /* alignment of every offset, bytes; slices inside of loops have that of their elements */
#define BLU_ABI_LOOPS 8    /* how deep loops nest */

typedef enum {
  BLU_DTYPE_F32, BLU_DTYPE_F64, BLU_DTYPE_I32, BLU_DTYPE_I64, BLU_DTYPE_U8, BLU_DTYPE_BOOL /* one byte, 0 or 1 */,
  BLU_DTYPE_BF16, BLU_DTYPE_F16
} BluDtype;

typedef enum {
  BLU_ROLE_PARAM,    /* trained, saved */
  BLU_ROLE_STATE,    /* optimizer or model state: saved, not trained */
  BLU_ROLE_DATA,     /* filled by the data source before a run; `bound` > 0: every value must lie in [0, bound) */
  BLU_ROLE_ROWS,     /* i32 scalar: how many leading rows of the batch are real; the rest is padding */
  BLU_ROLE_RUN,      /* f64 scalar of a `run` declaration, `value` is its default */
  BLU_ROLE_STEP,     /* f64 scalar: number of optimizer steps done before this one, from 0 */
  BLU_ROLE_SEED,     /* i64 scalar: the seed of the run */
  BLU_ROLE_INPUT,    /* argument of an entry */
  BLU_ROLE_OUTPUT,   /* result of an entry, or one named setting of the entry `settings` (f64 scalar) */
  BLU_ROLE_SUM,      /* f32 scalar: sum over the batch of the loss or of a metric ... */
  BLU_ROLE_WEIGHT,   /* f32 scalar: ... and the sum of its weights; both carry the same name, `loss` or the metric's */
  BLU_ROLE_SQUARES,  /* f32 scalar: sum of squares of the gradient of the parameter `name`, before clipping */
  BLU_ROLE_NORM,     /* f32 scalar: norm of all gradients, before clipping */
  BLU_ROLE_CACHE,    /* kept between the runs of entries, zero at the start of a session, never saved */
  BLU_ROLE_GRADIENT, /* sum of the gradients of the parameter `name` over the micro-batches of a step: zeroed before, never saved */
  BLU_ROLE_TOTAL,    /* f64 scalar: sum of the loss's weights over the micro-batches of a step */
  BLU_ROLE_SCALE     /* f64 scalar: what the loss is multiplied by before its gradient is taken; SQUARES and NORM are without */
} BluRole;

/* A tensor at a fixed place of the arena. Row-major, dense. */
typedef struct {
  const char *name;
  int32_t role, dtype, rank, reserved;
  int64_t dim[BLU_ABI_RANK];
  int64_t offset, bytes; /* from the start of the arena */
  int64_t bound;         /* BLU_ROLE_DATA: see there; else 0 */
  double value;          /* BLU_ROLE_RUN: see there; else 0 */
  const char *starts;    /* PARAM, STATE: how its first values are made, such as "normal(0, 0.02)"; else "" */
  const char *group;     /* PARAM: which optimizer changes it, such as `adamw`, or "frozen"; else "" */
} BluSlot;

/* Runs pieces [first, last) of a kernel. offset[i] is the place of the kernel's i-th operand or result in the arena; elementwise kernels serve
 * tensors of any size and find the number of elements behind these;
 * scratch is private to the calling thread, BluProgram.scratch_bytes long, aligned to BLU_ABI_ALIGN, undefined at entry. */
typedef void BluKernel(char *arena, const int64_t *offset, char *scratch, int64_t first, int64_t last);

typedef struct BluLoop BluLoop;

/* c[i] = op(a[i]) op(b[i]) for each matrix i of a batch, row-major, f32: what a library computes on a device. Places: the launch's offsets. */
typedef struct {
  int64_t batch, m, n, k;
  int64_t step_a, step_b, step_c; /* elements from one matrix of the batch to the next; 0: all use the same */
  int32_t ta, tb;                 /* a is stored [k, m]; b is stored [n, k] */
  int32_t tf32;                   /* the program allows products rounded to TF32 */
  int32_t epilogue;               /* BLU_EPILOGUE_... */
  int32_t place_a, place_b, place_c, place_bias; /* which of the launch's offsets; place_bias -1: none */
} BluProduct;

/* What a product does beside. Sums are over the k rows of an operand that is stored [k, ..], of a batch of one: the gradient of a bias beside
 * that of its weight. */
typedef enum {
  BLU_EPILOGUE_NONE,
  BLU_EPILOGUE_BIAS,  /* bias[n] is added to each row */
  BLU_EPILOGUE_SUM_A, /* bias[m] becomes the sums of a's columns */
  BLU_EPILOGUE_SUM_B  /* bias[n] becomes the sums of b's columns */
} BluEpilogue;

/* How a launch runs on a device: one function of the program's image, or one product of a library. The function's parameters are all 64 bits
 * wide: the arena's address, then each of the launch's offsets. Behind a product whose epilogue is a sum stands a function that makes this sum,
 * for a library that can't: its parameters are the arena's address, the place of what is summed, and that of the sums. */
typedef struct {
  const char *function;    /* NULL: product alone */
  const BluProduct *product;
  int32_t grid[3], block[3], shared_bytes, reserved;
} BluDeviceLaunch;

/* Code for one kind of device. */
typedef struct {
  int32_t arch;      /* 80 for sm_80; 0: PTX, which the driver compiles */
  int32_t least;     /* of PTX: the oldest arch that it runs on */
  const char *bytes; /* a cubin, or PTX ending in NUL */
  int64_t size;
} BluImage;

typedef struct {
  BluKernel *kernel;  /* NULL: a loop */
  const int64_t *offset;
  int64_t pieces;     /* >= 1; the pieces of one launch are independent of each other */
  const char *name;   /* of the kernel, for profiles */
  int64_t line;       /* of the .blu file, 0 = none */
  const BluLoop *loop;
  const int64_t *stride; /* inside of D loops: [offsets][D], how far each offset moves with each loop's step, outermost first */
  int64_t offsets;       /* inside of a loop, and in programs for devices: how many */
  const BluDeviceLaunch *device; /* NULL: this launch is host code, or a loop. In a program for a device, host launches are numbers of the
                                    step: they read and write scalars alone, and depend on nothing that a device computes */
} BluLaunch;

/* Runs its launches `steps` times, at step 0, 1, .., or in reverse. Parallel loops don't nest. */
struct BluLoop {
  int64_t steps, reverse;
  int64_t parallel; /* steps don't depend on one another, and each runs in one thread. Then launches inside have one stride more, behind that of
                       this loop: of the distance from the arena to the thread's frame, at BluProgram.frame_offset of its scratch */
  const BluLaunch *launch;
  int64_t launches;
};

/* A step is one run of "train". In a program with a function "update" it is several, one for each micro-batch, which change no parameter
 * and add to the tensors of role GRADIENT, and one of "update", which computes norms (first part) and changes the parameters. */

/* A compiled function. Launches run in order, each after all pieces of the one before.
 * `commit` splits them: [0, commit) only compute, [commit, launches) change parameters and state. The caller looks at the
 * results between the two and may leave the second part out. A function that changes nothing has commit == launches. */
typedef struct {
  const char *name;   /* "init", "train", "update", "eval", "settings", or the name of an `entry` */
  const BluSlot *slot; /* DATA, INPUT, then results: what is special to this function */
  int64_t slots;
  const BluLaunch *launch;
  int64_t launches, commit;
  int64_t flops;      /* of one run: 2 per multiply-add of the matrix products, nothing else counted */
  int64_t bytes;      /* of one run: what its launches read and write, each operand and result once */
  int64_t own_bytes;  /* of the arena, behind what is kept */
} BluFunction;

/* Processor features that the code was compiled for (BluProgram.cpu). */
enum { BLU_CPU_V2 = 1, BLU_CPU_V3 = 2, BLU_CPU_V4 = 3 };

/* Of the runtime; see runtime_internal.h. */
struct BluProgram;
struct BluError;
struct BluOptions;
struct BluAdapters; /* transfer_internal.h */
typedef _Bool BluSample(struct BluError *err, const struct BluProgram *program, const struct BluOptions *options, double *run);

typedef struct BluProgram {
  uint32_t abi;                 /* BLU_ABI */
  int32_t cpu;                  /* BLU_CPU_...: x86-64 level that the code needs */
  const char *model;            /* name of the model: the file's stem */
  const char *compiler;         /* "bluc 0.1.0" */
  const char *target;           /* as given to --cpu */
  const char *source_name;      /* file name as given to the compiler, without folders */
  const char *source;           /* text of the .blu file, NUL-terminated */
  const char *plan;             /* --emit=plan of this program: text, by gzip */
  int64_t plan_bytes;           /* of its compressed form */
  const char *data;             /* data source by name ("idx"), "" if the program trains nothing */
  const char *data_args;        /* its arguments as "key=value\n" lines, in the order of the source file */
  uint64_t hash;                /* of program and compiler: checkpoints of another hash void the promise of equal bits */
  int64_t arena_bytes;          /* all of it */
  int64_t kept_bytes;           /* leading part that holds tensors and scalars; the rest is overlaid by the functions */
  int64_t scratch_bytes;        /* per thread */
  int64_t frame_offset;         /* in scratch: see BluLoop */
  int64_t loop_offsets;         /* the most offsets of a launch inside of a loop */
  const BluSlot *tensor;        /* PARAM and STATE: what a checkpoint holds; sorted by offset */
  int64_t tensors;
  const BluSlot *scalar;        /* RUN, STEP, SEED, ROWS, TOTAL, SCALE: set by the runtime before a run */
  int64_t scalars;
  const BluFunction *function;
  int64_t functions;
  const char *embedded;         /* a safetensors file with exactly the parameters and the model's own states, to start with in place of
                                   what "init" gives; NULL: none */
  int64_t embedded_bytes;
  const BluImage *image;        /* code for devices; the arena is then the device's */
  int64_t images;               /* 0: all code is for the CPU */
  BluSample *sample;            /* blu_sample_run, in a program with an entry to sample from; else NULL, and its code is not in the program */
  const char *tokenizer;        /* a tokenizer.json, for `sample`; NULL: none */
  int64_t tokenizer_bytes;
  const struct BluAdapters *adapters; /* blu_adapters, in a program with a parameter PATH.lora_A; else NULL, and its code is not in the program */
} BluProgram;

/* The function named so is an entry to sample from if it takes an i32[1], a token, and an i32, its position from 0, unless it needs none,
 * and gives one tensor float[1, V], the logits of the token that follows. What it has to remember is in tensors of role CACHE. */
#define BLU_DECODE "decode"

/* The first matrix of a low-rank adapter is named PATH and this. */
#define BLU_ADAPTER_FIRST ".lora_A"

/* runtime/sample.c: the command `sample`. */
_Bool blu_sample_run(struct BluError *err, const struct BluProgram *program, const struct BluOptions *options, double *run);

extern const BluProgram blu_program;

/* Double-precision functions that compiled code calls for host scalars (schedules, beta^t); runtime/math.c. */
double blu_rt_exp(double x);
double blu_rt_log(double x);
double blu_rt_pow(double x, double y);
double blu_rt_sin(double x);
double blu_rt_cos(double x);
double blu_rt_tanh(double x);

/* For debugging, as a kernel: fills places with bytes that are NaN in every floating type. offset[0] = n, then n times place and size. */
void blu_rt_poison(char *arena, const int64_t *offset, char *scratch, int64_t first, int64_t last);
#endif
