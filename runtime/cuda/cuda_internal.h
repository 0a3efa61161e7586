/* cuda_internal.h - the driver for NVIDIA's GPUs, in trainers that have code for one.
 *
 * Everything of NVIDIA's is opened while running: the driver's library and, for matrix products, cublasLt. What is used of them is declared
 * here, so that no header of CUDA's is needed: names, numbers and layouts are those of CUDA's public interface, which keeps them.
 * library.c opens them, product.c describes products to cublasLt, step.c runs functions, device.c is the rest. */
#ifndef BLU_RUNTIME_CUDA_INTERNAL_H
#define BLU_RUNTIME_CUDA_INTERNAL_H
#include "../runtime_internal.h"

/* --- the driver's interface (cuda.h) --- */

typedef uint64_t CuAddress; /* of memory of the device */
typedef struct CUctx_st *CuContext;
typedef struct CUmod_st *CuModule;
typedef struct CUfunc_st *CuFunction;
typedef struct CUstream_st *CuStream;
typedef struct CUevent_st *CuEvent;
typedef struct CUgraph_st *CuGraph;
typedef struct CUgraphExec_st *CuGraphExec;

enum {
  CU_MAJOR = 75, CU_MINOR = 76, /* attributes of a device: compute capability */
  CU_MOST_THREADS = 0, CU_DYNAMIC_SHARED = 8, /* attributes of a function */
  CU_NON_BLOCKING = 1,          /* of a stream */
  CU_NO_TIMING = 2,             /* of an event */
  CU_CAPTURE_RELAXED = 2,
  CU_JIT_ERROR_LOG = 5, CU_JIT_ERROR_LOG_BYTES = 6,
  CU_OUT_OF_MEMORY = 2, CU_NO_DEVICE = 100, CU_NO_BINARY = 209
};

#define BLU_CUDA_API(X)                                                                          \
  X(init, cuInit, (unsigned flags))                                                              \
  X(version, cuDriverGetVersion, (int *version))                                                 \
  X(error_name, cuGetErrorName, (int code, const char **text))                                   \
  X(error_text, cuGetErrorString, (int code, const char **text))                                 \
  X(device_count, cuDeviceGetCount, (int *count))                                                \
  X(device_get, cuDeviceGet, (int *device, int number))                                          \
  X(device_name, cuDeviceGetName, (char *name, int size, int device))                            \
  X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))             \
  X(context_retain, cuDevicePrimaryCtxRetain, (CuContext *context, int device))                  \
  X(context_release, cuDevicePrimaryCtxRelease_v2, (int device))                                 \
  X(context_set, cuCtxSetCurrent, (CuContext context))                                           \
  X(memory_info, cuMemGetInfo_v2, (size_t *left, size_t *all))                                   \
  X(memory_take, cuMemAlloc_v2, (CuAddress *address, size_t bytes))                              \
  X(memory_give, cuMemFree_v2, (CuAddress address))                                              \
  X(host_take, cuMemHostAlloc, (void **place, size_t bytes, unsigned flags))                     \
  X(host_give, cuMemFreeHost, (void *place))                                                     \
  X(host_pin, cuMemHostRegister_v2, (void *place, size_t bytes, unsigned flags))                 \
  X(host_unpin, cuMemHostUnregister, (void *place))                                              \
  X(to_device, cuMemcpyHtoDAsync_v2, (CuAddress to, const void *from, size_t bytes, CuStream stream)) \
  X(to_host, cuMemcpyDtoHAsync_v2, (void *to, CuAddress from, size_t bytes, CuStream stream))    \
  X(copy, cuMemcpyDtoDAsync_v2, (CuAddress to, CuAddress from, size_t bytes, CuStream stream))   \
  X(fill, cuMemsetD8Async, (CuAddress to, unsigned char byte, size_t bytes, CuStream stream))    \
  X(stream_open, cuStreamCreate, (CuStream *stream, unsigned flags))                             \
  X(stream_close, cuStreamDestroy_v2, (CuStream stream))                                         \
  X(stream_wait, cuStreamSynchronize, (CuStream stream))                                         \
  X(stream_after, cuStreamWaitEvent, (CuStream stream, CuEvent event, unsigned flags))           \
  X(event_open, cuEventCreate, (CuEvent *event, unsigned flags))                                 \
  X(event_close, cuEventDestroy_v2, (CuEvent event))                                             \
  X(event_record, cuEventRecord, (CuEvent event, CuStream stream))                               \
  X(event_wait, cuEventSynchronize, (CuEvent event))                                             \
  X(event_time, cuEventElapsedTime, (float *milliseconds, CuEvent from, CuEvent to))             \
  X(module_open, cuModuleLoadDataEx, (CuModule *module, const void *image, unsigned options, int *option, void **value)) \
  X(module_close, cuModuleUnload, (CuModule module))                                             \
  X(module_function, cuModuleGetFunction, (CuFunction *function, CuModule module, const char *name)) \
  X(function_get, cuFuncGetAttribute, (int *value, int attribute, CuFunction function))          \
  X(function_set, cuFuncSetAttribute, (CuFunction function, int attribute, int value))           \
  X(launch, cuLaunchKernel, (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
    unsigned block_z, unsigned shared_bytes, CuStream stream, void **parameter, void **extra))   \
  X(capture_begin, cuStreamBeginCapture_v2, (CuStream stream, int mode))                         \
  X(capture_end, cuStreamEndCapture, (CuStream stream, CuGraph *graph))                          \
  X(graph_make, cuGraphInstantiateWithFlags, (CuGraphExec *exec, CuGraph graph, unsigned long long flags)) \
  X(graph_launch, cuGraphLaunch, (CuGraphExec exec, CuStream stream))                            \
  X(graph_free, cuGraphDestroy, (CuGraph graph))                                                 \
  X(graph_exec_free, cuGraphExecDestroy, (CuGraphExec exec))

/* --- cublasLt's interface (cublasLt.h) --- */

typedef struct { uint64_t data[8]; } LtAlgorithm;

typedef struct {
  LtAlgorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} LtChoice;

enum {
  LT_F32 = 0,                                            /* CUDA_R_32F */
  LT_COMPUTE_F32 = 68, LT_COMPUTE_TF32 = 77,             /* CUBLAS_COMPUTE_32F, _32F_FAST_TF32 */
  LT_TRANSPOSE_A = 3, LT_TRANSPOSE_B = 4, LT_EPILOGUE = 7, LT_BIAS = 8, /* of a product */
  LT_T = 1,                                              /* CUBLAS_OP_T */
  LT_EPILOGUE_DEFAULT = 1, LT_EPILOGUE_BIAS = 4, LT_EPILOGUE_BGRADA = 256, LT_EPILOGUE_BGRADB = 512,
  LT_BATCH = 5, LT_BATCH_STEP = 6,                       /* of a matrix: int32, int64 elements */
  LT_WISH_WORKSPACE = 1, LT_WISH_REDUCTIONS = 3, LT_WISH_ALIGNMENT_A = 5, /* B, C and D follow */
  LT_REDUCTIONS_APART = 2 | 4                            /* partial sums go to the workspace, and are added in order */
};

#define BLU_CUDA_LT_API(X)                                                                       \
  X(open, cublasLtCreate, (void **handle))                                                       \
  X(close, cublasLtDestroy, (void *handle))                                                      \
  X(product_open, cublasLtMatmulDescCreate, (void **product, int compute, int scale))            \
  X(product_close, cublasLtMatmulDescDestroy, (void *product))                                   \
  X(product_set, cublasLtMatmulDescSetAttribute, (void *product, int attribute, const void *value, size_t bytes)) \
  X(matrix_open, cublasLtMatrixLayoutCreate, (void **matrix, int type, uint64_t rows, uint64_t columns, int64_t leading)) \
  X(matrix_close, cublasLtMatrixLayoutDestroy, (void *matrix))                                   \
  X(matrix_set, cublasLtMatrixLayoutSetAttribute, (void *matrix, int attribute, const void *value, size_t bytes)) \
  X(wish_open, cublasLtMatmulPreferenceCreate, (void **wish))                                    \
  X(wish_close, cublasLtMatmulPreferenceDestroy, (void *wish))                                   \
  X(wish_set, cublasLtMatmulPreferenceSetAttribute, (void *wish, int attribute, const void *value, size_t bytes)) \
  X(choose, cublasLtMatmulAlgoGetHeuristic, (void *handle, void *product, void *a, void *b, void *c, void *d, void *wish, int most, \
    LtChoice *choice, int *choices))                                                             \
  X(multiply, cublasLtMatmul, (void *handle, void *product, const void *alpha, const void *a, void *matrix_a, const void *b, void *matrix_b, \
    const void *beta, const void *c, void *matrix_c, void *d, void *matrix_d, const LtAlgorithm *algorithm, void *workspace, \
    size_t workspace_bytes, CuStream stream))

#define BLU_CUDA_MEMBER(member, name, parameters) int (*member) parameters;

typedef struct {
  void *library;
  BLU_CUDA_API(BLU_CUDA_MEMBER)
} BluCudaApi;

typedef struct {
  void *library;
  BLU_CUDA_LT_API(BLU_CUDA_MEMBER)
  size_t (*version)(void);
} BluCudaLtApi;

/* --- library.c --- */

#define BLU_CUDA_LEAST_VERSION 12000 /* of the driver: CUDA 12.0 */

/* Opens the driver's library and the driver itself. What was opened stays so to the end of the process. */
bool blu_cuda_open_api(BluError *err, BluCudaApi *api, int *version);
bool blu_cuda_open_lt(BluError *err, BluCudaLtApi *lt);
/* True if code is 0; else says in `err` what was not possible, and why. */
bool blu_cuda_good(BluError *err, const BluCudaApi *api, int code, const char *what);

/* --- what a device is --- */

#define BLU_CUDA_WORKSPACE (32ll << 20) /* bytes, of cublasLt: what NVIDIA recommends for its largest chips, for all, so that chips choose alike */
#define BLU_CUDA_WINDOW (8ll << 20)     /* bytes, pinned: through which files are read and written */
#define BLU_CUDA_PARAMETERS 500         /* most of a function: NVIDIA takes 4096 bytes */

typedef struct {
  const char *name;
  CuFunction function;
  int32_t shared_bytes; /* the most that a launch wants, */
  int64_t threads;      /* and of threads a block */
} BluCudaCode;

typedef struct {
  const BluProduct *product;
  int32_t alignment;    /* bytes: of all places of all its launches */
  bool apart;           /* the sum that it has for an epilogue is made by a function of the program behind it */
  void *wanted, *a, *b, *c;
  LtChoice choice;
} BluCudaProduct;

/* Bytes that lie together in the arena and in a buffer of the host. */
typedef struct { int64_t offset, bytes, at; } BluCudaSpan;

/* Launches [first, last) of a function, recorded when they run for the first time. */
typedef struct BluCudaPart {
  const BluFunction *function;
  int64_t first, last;
  CuGraphExec graph;
  CuEvent done;
  bool launched;               /* `done` was recorded */
  char *numbers;               /* pinned: numbers of the run, then what host launches have computed, in their order */
  char *results;               /* pinned: results of one number */
  BluCudaSpan *number, *result;
  int64_t scalar_spans, spans, number_bytes; /* of `number`: those of numbers of the run come first */
  int64_t *host_spans, hosts;  /* of each host launch: how many of `number` */
  int64_t result_spans, result_bytes;
  CuEvent *time;               /* of a profile: before each launch, and after the last; NULL: not profiled yet */
  const BluLaunch **timed;
  int64_t times;
  struct BluCudaPart *next;
} BluCudaPart;

typedef struct {
  const BluProgram *program;
  BluCudaApi api;
  BluCudaLtApi lt;
  int version, device, number, arch;  /* of the driver; NVIDIA's number of the device, ours; 90 for sm_90 */
  char name[100];
  bool epilogues;                     /* the library may make sums beside products */
  CuContext context;
  const BluImage *image;
  CuModule module;
  CuStream stream, copier;
  CuEvent sent, taken;                /* the host's DATA has arrived; the arena has it */
  bool has_sent, has_taken;
  const BluFunction *pending;         /* whose DATA is on its way; NULL: nobody's */
  CuAddress arena, staging, workspace;
  int64_t staging_bytes, workspace_bytes, pinned_bytes;
  BluCudaSpan *pinned;                /* of the mirror: DATA, whole pages */
  int64_t pins;
  char *window;
  void *handle;                       /* cublasLt's; NULL: no products */
  BluCudaCode *code;                  /* by name */
  int64_t codes;
  BluCudaProduct *product;            /* by address */
  int64_t products;
  BluCudaPart *part, *last;           /* all; that which was run last */
  int64_t *offset;                    /* of a launch inside of loops */
} BluCudaDevice;

/* --- product.c --- */

/* Finds all products that the program launches, and opens cublasLt if there are any. */
bool blu_cuda_products_find(BluError *err, BluCudaDevice *d);
/* Describes them, and lets cublasLt choose how to compute each. The arena is there. */
bool blu_cuda_products_choose(BluError *err, BluCudaDevice *d);
void blu_cuda_products_close(BluCudaDevice *d);
bool blu_cuda_multiply(BluError *err, BluCudaDevice *d, const BluProduct *product, const int64_t *offset);
/* Does the library make the product's sum? */
bool blu_cuda_sums(const BluCudaDevice *d, const BluProduct *product);
int64_t blu_cuda_epilogues(const BluCudaDevice *d);      /* products whose sum it makes */
uint64_t blu_cuda_products_hash(const BluCudaDevice *d); /* of the algorithms */

/* --- step.c --- */

/* Sees each launch that is no loop, in the order of running, loops unrolled; `offset`: its places then. */
typedef bool BluCudaVisit(BluError *err, void *user, const BluLaunch *launch, const int64_t *offset);
bool blu_cuda_walk(BluError *err, const BluLaunch *launch, int64_t launches, int64_t *room, BluCudaVisit *visit, void *user);

bool blu_cuda_run(BluError *err, const BluArena *arena, BluProfile *profile, const BluFunction *function, int64_t first, int64_t last);
bool blu_cuda_wait(BluError *err, const BluArena *arena);
const char *blu_cuda_result(const BluArena *arena, const BluSlot *slot);
void blu_cuda_parts_close(BluCudaDevice *d);

#endif
