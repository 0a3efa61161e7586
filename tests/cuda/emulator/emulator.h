/* emulator.h - a fake of NVIDIA's driver library for tests: it has the driver's names, so that a trainer runs unchanged, and runs the x86-64 twins
 * of its kernels on the processor, with checks that no GPU makes. It says nothing about speed, and everything that it prints says "emulated".
 *
 * A twin is a shared object TWINS/HASH.so for an image (HASH: FNV-1a 64 of its bytes, 16 hex digits; TWINS: environment BLU_EMULATOR_TWINS). For
 * a function f it exports `void f.call(const int64_t *args)` and `int32_t f.params`, and may say by `int32_t f.meets` = 0 that f has neither
 * barriers nor shuffles, so that its threads run one after another. What a kernel asks of a GPU are calls of the functions of the first part
 * below, and before each load and store stands blu_emu_access.
 *
 * A fault ends the process with one line and status 1: divergent barriers and shuffles, races, accesses outside of memory, of freed or of host
 * memory, reads of what nobody wrote, launches beyond limits, what is left behind at the end.
 *
 * Streams run late: what is asked for happens when somebody waits, streams mixed at random, so that a host that doesn't wait where it must is
 * found. Blocks run one after another, in random order; threads of a block until the next barrier or shuffle, in random order. The seed of all
 * that is BLU_EMULATOR_SEED (0: what is asked for happens at once, in order).
 *
 * Environment, for tests: BLU_EMULATOR_ARCH (90), _DRIVER (13000), _DEVICES (1), _MEMORY (bytes, 4 GiB), _POISON (1: memory that is filled with
 * ff counts as never written), _EPILOGUES (see cublaslt.c). */
#ifndef BLU_TESTS_EMULATOR_H
#define BLU_TESTS_EMULATOR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- what twins call --- */

int32_t blu_emu_thread(int32_t axis);  /* indices and dimensions, axis 0 to 2 */
int32_t blu_emu_block(int32_t axis);
int32_t blu_emu_threads(int32_t axis);
int32_t blu_emu_blocks(int32_t axis);
void blu_emu_barrier(int32_t site);    /* of the block; `site` is a line or number that messages name */
/* As PTX's shfl.sync.b32; kind 0 idx, 1 up, 2 down, 3 bfly. */
int32_t blu_emu_shuffle(int32_t kind, int32_t mask, int32_t value, int32_t lane, int32_t clamp, int32_t site);
void blu_emu_access(const void *place, int64_t bytes, int32_t write, int32_t space, int32_t site); /* space 0 global, 1 shared */
char *blu_emu_shared(void);            /* the block's shared memory */

/* --- what the fake cublasLt calls --- */

/* Puts work that takes a copy of `data` onto a stream (or into the graph that it records). */
int blu_emu_enqueue(void *stream, void (*run)(const void *data), const void *data, size_t bytes);
/* A library's access to global memory, checked as a kernel's; `who` is what the message says. */
void blu_emu_library_access(const char *who, const void *place, int64_t bytes, bool write);
_Noreturn void blu_emu_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- between its files --- */

typedef void EmuCall(const int64_t *args);

typedef struct {
  char name[128];
  EmuCall *call;
  int32_t params;
  int32_t most_shared; /* bytes granted to a launch */
  bool meets;          /* its threads may wait for one another */
} EmuFunction;

/* A launch, its arguments copied. */
typedef struct {
  const EmuFunction *function;
  unsigned grid[3], block[3], shared_bytes;
  int64_t args[512];
} EmuLaunch;

/* block.c */
void blu_emu_run(const EmuLaunch *launch); /* all blocks */
/* Where the running thread stands, for messages; false outside of kernels. */
bool blu_emu_where(char *text, size_t size);

/* memory.c */
typedef struct EmuRegion EmuRegion;
EmuRegion *blu_emu_take(int64_t bytes, bool host); /* zeroed; NULL: no memory. Device memory counts as never written. */
void *blu_emu_base(const EmuRegion *region);
EmuRegion *blu_emu_find(const void *place);        /* region that holds it, also if freed; NULL */
bool blu_emu_is_host(const EmuRegion *region);
void blu_emu_give(EmuRegion *region);              /* its addresses are never used again */
/* A whole range that a copy or fill names must lie in one live region of the device. */
void blu_emu_range(const char *who, const void *place, int64_t bytes);
void blu_emu_mark(const void *place, int64_t bytes, bool written); /* device memory */
void blu_emu_copy_marks(const void *to, const void *from, int64_t bytes);
int64_t blu_emu_taken(void);                       /* bytes of the device */
int64_t blu_emu_left_behind(char *text, size_t size); /* live regions; the first of them in text */

/* The thread that runs, for races: memory.c keeps who accessed what last. */
enum { EMU_LAUNCHES = 1 << 12, EMU_EPOCHS = 1 << 16 };
typedef struct {
  uint32_t launch, block, thread, epoch; /* launch: in [1, EMU_LAUNCHES); epoch: barriers of the block so far, in [0, EMU_EPOCHS) */
  const void *code;                      /* of the kernel */
} EmuActor;
void blu_emu_forget(void);               /* who accessed what */
void blu_emu_check(const void *place, int64_t bytes, bool write, const EmuActor *actor);
void blu_emu_shared_open(char *base, int64_t bytes); /* a block starts: nothing in it is written */
void blu_emu_check_shared(const void *place, int64_t bytes, bool write, const EmuActor *actor);

/* emulator.c */
int64_t blu_emu_seed(void);
uint64_t blu_emu_random(void);
int64_t blu_emu_setting(const char *name, int64_t fallback);

#endif
