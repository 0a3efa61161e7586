/* codegen.h - from a planned module to LLVM IR, an object, and a program. */
#ifndef BLU_CODEGEN_CODEGEN_H
#define BLU_CODEGEN_CODEGEN_H
#include <llvm-c/Core.h>
#include <stdio.h>
#include "dialects/blu.h"

/* ---- target.c ---- */

typedef struct {
  const char *name;   /* as LLVM calls it */
  int level, vector_bits;
  int64_t cache[2];   /* bytes of the first and second cache of a core: how products are cut, never what they give */
  char tune[64];      /* "" or a processor */
  bool swaps;         /* products are swapped (codegen/product.h) wherever they can be, not where it pays: tests want to see both ways */
} BluCpu;
/* "x86-64-v2", "x86-64-v3", "x86-64-v4" (or v2, v3, v4), "native": the highest of these that this machine has, with its caches, tuned for it. */
bool blu_cpu_parse(const char *name, BluCpu *cpu);

typedef enum { BLU_FILE_OBJECT, BLU_FILE_ASSEMBLY } BluFileKind;
/* Runs LLVM's few passes and its code generator. NULL and a message in *error (the caller frees both) on failure. */
char *blu_target_emit(LLVMModuleRef m, const BluCpu *cpu, BluFileKind kind, size_t *size, char **error);
/* Objects of several modules, each made on a thread of its own: their contexts differ. */
typedef struct { char *bytes; size_t size; } BluObject;
bool blu_target_emit_all(LLVMModuleRef *m, int n, const BluCpu *cpu, BluObject *object, char **error);
void blu_target_prepare(LLVMModuleRef m, const BluCpu *cpu); /* triple, layout and functions' attributes */

/* ---- cuda/ ---- */

enum { BLU_CUDA_ARCHS = 8 };
typedef struct { const char *name; int number; } BluArch;           /* "sm_90a", 90 */
typedef struct { BluArch arch[BLU_CUDA_ARCHS]; int n; } BluArchs;   /* the oldest first */
extern const char blu_cuda_archs[];                                 /* the known ones, for messages */
bool blu_cuda_parse(const char *list, BluArchs *to);                /* "sm_80,sm_90"; false: it names one that isn't known */

/* A kernel's launches, and what CUDA's assembler says of its code, the most of all architectures. */
typedef struct { char *name; MlirLocation at; int64_t blocks, shared_bytes; int threads, registers, spilled, stack; } BluCudaUse;
typedef struct { int arch, least; char *bytes; size_t size; } BluCudaImage; /* as BluImage in runtime/abi.h */

/* Device code of a program. The caller sets archs and module, which is empty and has a context of its own; only_ptx: no machine code. */
typedef struct {
  const BluArchs *archs;
  LLVMModuleRef module;
  bool only_ptx, assembled;  /* assembled: there is machine code */
  BluCudaUse *kernel;
  int kernels;
  char *ptx;
  BluCudaImage image[BLU_CUDA_ARCHS + 1];
  int images;
  double ptx_ms, assembler_ms; /* what the images took */
} BluCuda;
void blu_cuda_free(BluCuda *c);                                     /* all but the module */
void blu_cuda_print(const BluCuda *c, FILE *out);                   /* a table of kernels, as comments of PTX and of MLIR */

/* The module's triple and layout. PTX of a module for architectures from `number` on, as text that the caller frees. The images of a module
 * that is complete. CUDA's assembler, on PATH, beside nvcc or where CUDA installs it. NULL or false: *error says why (the caller frees it);
 * of the assembler: there is none. */
void blu_cuda_prepare(LLVMModuleRef m);
char *blu_cuda_ptx(LLVMModuleRef m, int number, char **error);
bool blu_cuda_images(BluCuda *to, char **error);
bool blu_cuda_assembler(char *path, size_t size);

/* ---- program.c ---- */

typedef struct {
  const char *source, *source_name, *compiler;
  const BluCpu *cpu;
  int64_t embedded_bytes;  /* of the parameters to embed, and a hash of them; 0: none */
  uint64_t embedded_hash;
  int64_t tokenizer_bytes; /* of the tokenizer to embed; 0: none */
  bool poison;             /* what nobody needs any more is filled with NaN after every launch */
  BluCuda *cuda;           /* the program is for a device, whose code goes here; NULL: it is for the CPU */
  LLVMModuleRef *part; /* kernels go to these modules, where there are any, evenly; each has a context of its own */
  int parts;
} BluProgramInfo;

/* Does the CPU have code for this op, or for what it expands to? A device has for the same. */
bool blu_has_code(const BluOp *op);

/* All kernels and the constant blu_program (runtime/abi.h). false: something has no code for this target; reported at its
 * location. */
bool blu_program_emit(LLVMModuleRef m, MlirModule planned, const BluProgramInfo *info);
/* How many tokens the entry that text can be sampled from knows (BLU_DECODE of runtime/abi.h); 0: there is none. */
int64_t blu_program_vocabulary(MlirModule planned);

/* ---- link.c ---- */

enum { BLU_LINK_MOST = 8 }; /* objects */
typedef struct { int fd; const char *symbol; } BluAttached; /* a file that is open (fd -1: none), and what its first byte is called */
enum { BLU_ATTACH_WEIGHTS, BLU_ATTACH_TOKENIZER, BLU_ATTACHED };
/* Links objects and runtime to a static executable at path, with the attached files in it as they are. false: *error says why (the
 * caller frees it), path is untouched. */
bool blu_link(const char *path, const BluObject *object, int n, const BluAttached attached[BLU_ATTACHED], char **error);
/* The same for a program with images: the executable needs glibc 2.34 or newer where it runs, and nothing else to start. */
bool blu_link_device(const char *path, const BluObject *object, int n, const BluAttached attached[BLU_ATTACHED], char **error);

/* ---- data.c ---- */

/* Has a trainer the data source that the program names? If not, *error says so (malloc), and *at is the `train` block. */
bool blu_data_check(MlirModule m, MlirLocation *at, char **error);

/* ---- weights.c ---- */

/* Opens a safetensors file that holds exactly the parameters and the model's own states of a planned module. -1: *error says why, and names
 * the tensors (the caller frees it). */
int blu_weights_open(const char *path, MlirModule planned, int64_t *bytes, uint64_t *hash, char **error);
/* Opens a tokenizer.json whose ids a planned module knows, to be embedded for `sample`. -1: *error says why (the caller frees it). */
int blu_tokenizer_attach(const char *path, MlirModule planned, int64_t *bytes, char **error);

/* ---- tokenize.c ---- */

/* `bluc tokenize` with the words behind it: the exit status. */
int blu_tokenize_main(int argc, char **argv);
#endif
