/* source.h - the text of a .blu file, and places in it.
 *
 * Lines and columns count from 1; a column is a code point, never a byte. */
#ifndef BLU_FRONTEND_SOURCE_H
#define BLU_FRONTEND_SOURCE_H
#include <stdbool.h>
#include <stddef.h>
#include "arena.h"

typedef struct {
  const char *path;     /* as messages show it */
  const char *text;     /* NUL-terminated, may hold further NULs */
  size_t size;
  bool library;         /* part of the compiler (std/...) */
  int order;            /* messages of files come in this order */
  const size_t *line;   /* byte offset of each line's start */
  int lines;
} BluSource;

/* A range of source text; `end_col` is one past the last character. No place at all: src == NULL. A whole file: line ==
 * 0. */
typedef struct {
  const BluSource *src;
  int line, col, end_line, end_col;
} BluSpan;

BluSource *blu_source_make(BluArena *a, const char *path, const char *text, size_t size);
/* NULL if the file can't be read; *why then says so. */
BluSource *blu_source_read(BluArena *a, const char *path, const char **why);
BluSpan blu_span_join(BluSpan first, BluSpan last);
BluSpan blu_span_file(const BluSource *src);
/* Text of a line without its end, *n bytes. Empty for lines that don't exist. */
const char *blu_source_line(const BluSource *s, int line, size_t *n);
/* Length of the UTF-8 sequence at p (shortest form, no surrogates, at most U+10FFFF); 0: none, or a NUL. */
size_t blu_utf8_length(const char *p, size_t left);
/* Place of the first byte that is not UTF-8 text without NULs; false if all of it is. */
bool blu_source_bad_utf8(const BluSource *s, BluSpan *at);

#endif
