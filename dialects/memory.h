/* memory.h - allocation that does not fail: out of memory ends the compiler in one place, with a message. */
#ifndef BLU_DIALECTS_MEMORY_H
#define BLU_DIALECTS_MEMORY_H
#include <stddef.h>

void *blu_alloc(size_t size);                    /* undefined contents; never NULL, even for 0 */
void *blu_alloc_zeroed(size_t n, size_t size);
void *blu_realloc(void *old, size_t size);
#endif
