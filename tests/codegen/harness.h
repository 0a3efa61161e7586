/* harness.h - compiled code, run in the process: against the contract bit for bit, and against the references in double. */
#ifndef BLU_TESTS_HARNESS_H
#define BLU_TESTS_HARNESS_H
#include "codegen/codegen.h"
#include "runtime/abi.h"

/* Who runs the launches of a program for a device, in the place of one (tests/cuda/). */
typedef struct { const char *name; void *at; } HarnessSymbol;
typedef struct {
  const HarnessSymbol *symbol; /* what the kernels call, ended by one without name */
  char *(*object)(LLVMModuleRef device, const BluCpu *cpu, size_t *size); /* its kernels as an object for this machine; NULL: said why not */
  /* One launch, whose function `find` gives by name. false: said what went wrong. */
  bool (*run)(const BluLaunch *launch, void *(*find)(void *user, const char *name), void *user, char *arena, const int64_t *offset, int64_t arena_bytes);
} HarnessDevice;

typedef struct {
  MlirContext ctx;
  BluCpu cpu;
  const HarnessDevice *device; /* NULL: programs are for the CPU */
  bool bits;            /* with a device: bits are compared too */
  int noisy;            /* with a device, not 0: the judge is the contract, within what so many runs with sums in other orders show to be open; the
                         * same bits where they show nothing to be */
  double lo, hi;        /* range of float arguments */
  int ihi;              /* integer arguments: [0, ihi) */
  bool special;         /* some arguments are NaN, infinite, denormal, -0 */
  double tolerance;     /* against the reference, relative to max(1, |ref|); INFINITY: the contract alone is the judge */
  double rounding;      /* added to it: on half types the reference is rounded too, and may be on the other side of a tie */
  const char *elem;     /* harness_check: what stands in the place of f32 in the program (not of F32, which is f32 too); NULL: f32 */
  void (*fill)(int arg, void *tensor, int64_t n); /* writes an argument as it lies in memory; NULL: random ones */
} Setting;

extern int harness_programs, harness_failures, harness_left_out; /* left out: programs in half types, which no device has code for */
/* Elements compared with noisy runs: bit for bit, nearly, not at all since integers or NaN came out otherwise. */
extern struct HarnessNoisy { int64_t exact, near, open; } harness_compared;
extern bool harness_quiet;                           /* failures are counted and not printed */
void harness_start(Setting *set);                    /* LLVM's target and a context */
uint64_t harness_random(void);
double harness_uniform(double lo, double hi);
void harness_seed(uint64_t seed);

/* Compiles and runs the function @f of a program in text, with random arguments. Pieces run in a random order, as threads would
 * run them; memory around the arena must stay untouched. Says what failed. */
bool harness_check(const Setting *set, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a module that has @f; the module is consumed. `text` names it in messages. */
bool harness_check_module(const Setting *set, MlirModule m, const char *text);

/* A compiled function @f of expanded IR with one argument and one result, to be run many times: args and results lie at `in` and `out`.
 * NULL: said what failed. harness_close frees it. */
typedef struct HarnessCode HarnessCode;
HarnessCode *harness_open(const Setting *set, const char *text, void **in, void **out);
void harness_run(HarnessCode *code);
void harness_close(HarnessCode *code);
#endif
