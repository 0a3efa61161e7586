/* arena.h - memory that is freed all at once: syntax trees, compile-time values, text of diagnostics.
 *
 * Memory comes zeroed and aligned for any type. Running out of memory aborts here and nowhere else in the front end. */
#ifndef BLU_FRONTEND_ARENA_H
#define BLU_FRONTEND_ARENA_H
#include <stdarg.h>
#include <stddef.h>

typedef struct BluArena BluArena;

BluArena *blu_arena_make(void);
void blu_arena_free(BluArena *a); /* NULL is fine */
void *blu_arena_alloc(BluArena *a, size_t bytes);
char *blu_arena_copy(BluArena *a, const char *text, size_t n); /* n bytes and a NUL */
char *blu_arena_print(BluArena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *blu_arena_vprint(BluArena *a, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
/* The array `items` of n elements with room for one more: moved to twice its size whenever n is a power of two. */
void *blu_arena_grow(BluArena *a, void *items, int n, size_t item_bytes);

#endif
