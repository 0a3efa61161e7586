/* retarget.h - a twin is a module of device functions made to run on this machine: what only a device has becomes calls of C functions, which
 * somebody who plays the device defines, and each access of memory is announced. A test tool: it shows that code is right, never how fast. */
#ifndef BLU_TESTS_RETARGET_H
#define BLU_TESTS_RETARGET_H
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <stdint.h>
#include "codegen/codegen.h"

/* Index of the thread in its block and of the block in its grid, and how many there are; axis 0, 1, 2. */
int32_t blu_emu_thread(int32_t axis);
int32_t blu_emu_block(int32_t axis);
int32_t blu_emu_threads(int32_t axis);
int32_t blu_emu_blocks(int32_t axis);
void blu_emu_barrier(int32_t site);
/* As PTX's shfl.sync.b32; kind 0 idx, 1 up, 2 down, 3 bfly. */
int32_t blu_emu_shuffle(int32_t kind, int32_t mask, int32_t value, int32_t lane, int32_t clamp, int32_t site);
/* Before each load and store; space 0: global, 1: shared. site: the number of the instruction in its module. */
void blu_emu_access(const void *place, int64_t bytes, int32_t write, int32_t space, int32_t site);
char *blu_emu_shared(void); /* the block's shared memory */

/* The twin of a device module, in the same context, for the CPU; the caller disposes it. For each device function f it has
 *   void f.call(const int64_t *args)   args: arena, offsets
 *   int32_t f.params                   how many of them
 *   int32_t f.meets                    whether threads wait for one another
 * NULL: it holds something that a twin has no function for, named in *error (the caller frees it). */
LLVMModuleRef twin_make(LLVMModuleRef device, const BluCpu *cpu, char **error);
/* Its object, which may lie anywhere in memory. The caller frees it; NULL: *error says why. */
char *twin_object(LLVMModuleRef twin, const BluCpu *cpu, size_t *size, char **error);
#endif
