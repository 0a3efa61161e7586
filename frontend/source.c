/* source.c - reading of source files, line table, UTF-8. */
#include "source.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

BluSource *blu_source_make(BluArena *a, const char *path, const char *text, size_t size) {
  BluSource *s = blu_arena_alloc(a, sizeof *s);
  s->path = blu_arena_copy(a, path, strlen(path));
  s->text = blu_arena_copy(a, text, size);
  s->size = size;
  int lines = 1;
  for (size_t i = 0; i < size; i++) lines += s->text[i] == '\n';
  size_t *line = blu_arena_alloc(a, (size_t)lines * sizeof *line);
  int n = 1;
  for (size_t i = 0; i < size; i++)
    if (s->text[i] == '\n') line[n++] = i + 1;
  s->line = line;
  s->lines = lines;
  return s;
}

BluSource *blu_source_read(BluArena *a, const char *path, const char **why) {
  FILE *f = fopen(path, "rb");
  if (!f) {
    *why = blu_arena_print(a, "%s", strerror(errno));
    return NULL;
  }
  enum { LIMIT = 64 << 20, STEP = 64 << 10 };
  size_t size = 0, room = STEP;
  char *text = malloc(room);
  *why = NULL;
  while (text) {
    size_t got = fread(text + size, 1, room - size, f);
    size += got;
    if (ferror(f)) *why = blu_arena_print(a, "%s", strerror(errno)); /* a folder opens, but doesn't read */
    if (size > LIMIT) *why = "longer than 64 MiB";
    if (*why || got == 0) break;
    if (size == room) {
      char *more = realloc(text, room *= 2);
      if (!more) free(text);
      text = more;
    }
  }
  fclose(f);
  if (!text) *why = "out of memory";
  BluSource *s = *why ? NULL : blu_source_make(a, path, text, size);
  free(text);
  return s;
}

BluSpan blu_span_join(BluSpan first, BluSpan last) {
  first.end_line = last.end_line;
  first.end_col = last.end_col;
  return first;
}

BluSpan blu_span_file(const BluSource *src) { return (BluSpan){.src = src}; }

const char *blu_source_line(const BluSource *s, int line, size_t *n) {
  *n = 0;
  if (line < 1 || line > s->lines) return "";
  size_t from = s->line[line - 1], to = line < s->lines ? s->line[line] - 1 : s->size;
  if (to > from && s->text[to - 1] == '\r') to--;
  *n = to - from;
  return s->text + from;
}

size_t blu_utf8_length(const char *text, size_t left) {
  const unsigned char *p = (const unsigned char *)text;
  if (p[0] < 0x80) return p[0] != 0;
  size_t n = p[0] >= 0xC2 && p[0] <= 0xDF ? 2 : p[0] >= 0xE0 && p[0] <= 0xEF ? 3 : p[0] >= 0xF0 && p[0] <= 0xF4 ? 4 : 0;
  if (!n || n > left) return 0;
  for (size_t i = 1; i < n; i++)
    if ((p[i] & 0xC0) != 0x80) return 0;
  if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F)) return 0;
  if ((p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F)) return 0;
  return n;
}

bool blu_source_bad_utf8(const BluSource *s, BluSpan *at) {
  int line = 1, col = 1;
  for (size_t i = 0; i < s->size;) {
    size_t n = blu_utf8_length(s->text + i, s->size - i);
    if (!n) {
      *at = (BluSpan){s, line, col, line, col + 1};
      return true;
    }
    if (s->text[i] == '\n') line++, col = 1;
    else col++;
    i += n;
  }
  return false;
}
