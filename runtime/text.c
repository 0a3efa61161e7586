/* text.c - errors, suggestions for what a user mistyped, and the key=value text of checkpoints and data arguments. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime_internal.h"

bool blu_error_set(BluError *err, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(err->text, sizeof err->text, format, args);
  va_end(args);
  return false;
}

void blu_error_add(BluError *err, const char *format, ...) {
  size_t used = strlen(err->text);
  va_list args;
  va_start(args, format);
  vsnprintf(err->text + used, sizeof err->text - used, format, args);
  va_end(args);
}

/* Number of single-character edits between two short words; INT_MAX-like for long ones, which nobody mistypes. */
static int edit_distance(const char *a, const char *b) {
  enum { LONGEST = 63 };
  size_t n = strlen(a), m = strlen(b);
  if (n > LONGEST || m > LONGEST) return 1000;
  int row[LONGEST + 1];
  for (size_t j = 0; j <= m; j++) row[j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      int best = diagonal + (a[i - 1] != b[j - 1]);
      if (best > row[j] + 1) best = row[j] + 1;
      if (best > row[j - 1] + 1) best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[m];
}

void blu_guess_add(BluGuess *guess, const char *candidate) {
  int distance = edit_distance(guess->word, candidate);
  if (guess->best && guess->distance <= distance) return;
  guess->best = candidate;
  guess->distance = distance;
}

const char *blu_guess_hint(BluGuess *guess) {
  guess->hint[0] = 0;
  if (guess->best && guess->distance <= 1 + (int)strlen(guess->word) / 3)
    snprintf(guess->hint, sizeof guess->hint, ", did you mean '%s'?", guess->best);
  return guess->hint;
}

bool blu_text_value(const char *lines, const char *key, char *value, size_t size) {
  size_t length = strlen(key);
  for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    if (strncmp(line, key, length) || line[length] != '=') continue;
    const char *start = line + length + 1;
    snprintf(value, size, "%.*s", (int)strcspn(start, "\n"), start);
    return true;
  }
  return false;
}

bool blu_text_double(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  return end != text && !*end && isfinite(*value);
}

bool blu_text_int(const char *text, int64_t *value) {
  char *end;
  errno = 0;
  *value = strtoll(text, &end, 10);
  return end != text && !*end && !errno;
}

bool blu_text_ends(const char *text, const char *ending) {
  size_t length = strlen(text), last = strlen(ending);
  return length > last && !strcmp(text + length - last, ending);
}

void *blu_need(void *memory) {
  if (!memory) abort();
  return memory;
}

char *blu_text_print(const char *format, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, format);
  int length = vasprintf(&text, format, args);
  va_end(args);
  return blu_need(length < 0 ? NULL : text);
}

void *blu_new(int64_t count, size_t size) {
  return blu_need(calloc(count > 0 ? (size_t)count : 1, size));
}

char *blu_text_path(const char *dir, const char *name) {
  size_t length = strlen(dir) + strlen(name) + 2;
  char *path = blu_new((int64_t)length, 1);
  if (name[0] == '/' || !dir[0]) strcpy(path, name);
  else snprintf(path, length, "%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", name);
  return path;
}
