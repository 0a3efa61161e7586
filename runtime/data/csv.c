/* csv.c - tables of numbers: one example a line, comma-separated, with or without a first line of names. Quotes around
 * a field, spaces, CRLF and empty lines at the end are fine; anything that is not a finite number is an error.
 *
 * The data source reads `file` and `test_file`. A DATA slot takes as many columns as an example of it has values, from the
 * column that the argument NAME gives (a name of the first line, or a number from 0), else from where the slot before
 * it ended. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../data_internal.h"

enum { CELL = 64, MOST_COLUMNS = 1 << 20 };

typedef struct {
  BluError *err;
  const char *path, *at, *end;
  int64_t line;
} Reader;

/* The next field without quotes and spaces around it; false at a fault. *last: the line ends with it. */
static bool read_field(Reader *r, const char **field, int64_t *length, bool *last) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t')) r->at++;
  bool quoted = r->at < r->end && *r->at == '"';
  *field = r->at += quoted;
  while (r->at < r->end && *r->at != '\n' && (quoted ? *r->at != '"' : *r->at != ',' && *r->at != '\r')) r->at++;
  *length = r->at - *field;
  if (quoted) {
    if (r->at == r->end || *r->at != '"')
      return blu_error_set(r->err, "%s:%" PRId64 ": a quote is not closed", r->path, r->line);
    r->at++;
  }
  while (!quoted && *length > 0 && ((*field)[*length - 1] == ' ' || (*field)[*length - 1] == '\t')) --*length;
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t')) r->at++;
  if (r->at < r->end && *r->at == '\r') r->at++;
  *last = r->at == r->end || *r->at == '\n';
  if (!*last && *r->at != ',')
    return blu_error_set(r->err, "%s:%" PRId64 ": a comma is missing after '%.*s'", r->path, r->line,
                         (int)(*length < CELL ? *length : CELL), *field);
  r->at += r->at < r->end;
  return true;
}

static bool is_number(const char *field, int64_t length, double *value) {
  char cell[CELL];
  if (length < 1 || length >= CELL) return false;
  memcpy(cell, field, (size_t)length);
  cell[length] = 0;
  return strspn(cell, "0123456789+-.eE") == (size_t)length && blu_text_double(cell, value);
}

/* Counts the columns of the first line, and keeps its fields as names if one of them is not a number. */
static bool read_first(Reader *r, BluCsv *csv) {
  Reader again = *r;
  const char *field;
  int64_t length;
  bool last = false, names = false;
  double value;
  while (!last) {
    if (!read_field(&again, &field, &length, &last)) return false;
    names |= !is_number(field, length, &value);
    if (++csv->columns > MOST_COLUMNS)
      return blu_error_set(r->err, "%s: more than %d columns", r->path, MOST_COLUMNS);
  }
  csv->first_line = 1;
  if (!names) return true;
  csv->name = blu_new(csv->columns, sizeof *csv->name);
  for (int64_t i = 0; i < csv->columns; i++) {
    read_field(r, &field, &length, &last);
    csv->name[i] = strndup(field, (size_t)length);
    blu_need(csv->name[i]);
  }
  r->line = csv->first_line = 2;
  return true;
}

static bool read_row(Reader *r, const BluCsv *csv, double *row) {
  bool last = false;
  int64_t column = 0;
  for (; !last; column++) {
    const char *field;
    int64_t length;
    if (!read_field(r, &field, &length, &last)) return false;
    if (column < csv->columns && !is_number(field, length, &row[column]))
      return blu_error_set(r->err, "%s:%" PRId64 ": column %" PRId64 " holds '%.*s', which is not a finite number",
                           r->path, r->line, column + 1, (int)(length < CELL ? length : CELL), field);
  }
  return column == csv->columns ||
         blu_error_set(r->err, "%s:%" PRId64 ": %" PRId64 " columns, but the first line has %" PRId64, r->path, r->line,
                       column, csv->columns);
}

static bool read_rows(Reader *r, BluCsv *csv) {
  int64_t capacity = 0;
  while (r->at < r->end) {
    /* Empty lines may stand at the end only. */
    const char *rest = r->at;
    while (rest < r->end && strchr("\r\n \t", *rest) && *rest) rest++;
    if (rest == r->end) return true;
    if (csv->rows == capacity) {
      capacity = capacity ? 2 * capacity : 64;
      csv->value = realloc(csv->value, (size_t)(capacity * csv->columns) * sizeof *csv->value);
      if (!csv->value) return blu_error_set(r->err, "%s: no memory for its values", r->path);
    }
    if (!read_row(r, csv, csv->value + csv->rows * csv->columns)) return false;
    csv->rows++;
    r->line++;
  }
  return true;
}

bool blu_csv_parse(BluError *err, const char *path, const uint8_t *bytes, int64_t size, BluCsv *csv) {
  *csv = (BluCsv){0};
  const char *text = (const char *)bytes;
  if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3, size -= 3; /* the mark of UTF-8 */
  Reader reader = {.err = err, .path = path, .at = text, .end = text + size, .line = 1};
  if (size == 0) return blu_error_set(err, "%s: the file is empty", path);
  if (read_first(&reader, csv) && read_rows(&reader, csv)) {
    if (csv->rows) return true;
    blu_error_set(err, "%s: the file has no examples", path);
  }
  blu_csv_free(csv);
  return false;
}

void blu_csv_free(BluCsv *csv) {
  for (int64_t i = 0; csv->name && i < csv->columns; i++) free(csv->name[i]);
  free(csv->name);
  free(csv->value);
  *csv = (BluCsv){0};
}

/* --- the source --- */

/* Column where a slot begins; `next` is where the one before it ended. */
static bool find_column(BluError *err, const BluCsv *csv, const char *path, const char *args, const char *slot,
                        int64_t next, int64_t *column) {
  char word[200];
  *column = next;
  if (!blu_text_value(args, slot, word, sizeof word)) return true;
  BluGuess guess = {.word = word};
  for (int64_t i = 0; csv->name && i < csv->columns; i++) {
    blu_guess_add(&guess, csv->name[i]);
    if (strcmp(csv->name[i], word)) continue;
    *column = i;
    return true;
  }
  return (blu_text_int(word, column) && *column >= 0) ||
         blu_error_set(err, "%s: no column is called '%s'%s", path, word, blu_guess_hint(&guess));
}

static bool add_slots(BluError *err, BluFiles *files, const BluDataSpec *spec, const char *path, const BluCsv *csv) {
  int64_t next = 0;
  for (int64_t i = 0; i < spec->function->slots; i++) {
    const BluSlot *slot = &spec->function->slot[i];
    if (slot->role != BLU_ROLE_DATA) continue;
    int64_t column, values = slot->rank && slot->dim[0] ? blu_slot_count(slot) / slot->dim[0] : 1;
    if (!find_column(err, csv, path, spec->args, slot->name, next, &column)) return false;
    if (column > csv->columns - values)
      return blu_error_set(err, "%s: '%s' takes %" PRId64 " columns from number %" PRId64 " (counted from 0), but there "
                           "are only %" PRId64, path, slot->name, values, column, csv->columns);
    next = column + values;
    BluArray array = {.path = path, .value = csv->value + column, .raw = BLU_RAW_F64, .rank = 2,
                      .dim = {csv->rows, values}, .stride = csv->columns, .first_line = csv->first_line};
    if (!blu_files_add(err, files, slot->name, &array)) return false;
  }
  return true;
}

static bool csv_open(BluError *err, const BluDataSpec *spec, void **state) {
  bool test = spec->split == BLU_SPLIT_TEST;
  char name[1000];
  *state = NULL;
  bool given = blu_text_value(spec->args, test ? "test_file" : "file", name, sizeof name);
  if (!given) strcpy(name, test ? "test.csv" : "train.csv");
  char *path = blu_files_find(err, spec->dir, name);
  if (!path) return !given && spec->optional;
  BluBytes bytes;
  bool good = blu_bytes_open(err, &bytes, path, spec->seconds);
  BluCsv csv;
  if (good) {
    good = blu_csv_parse(err, path, bytes.data, bytes.size, &csv);
    blu_bytes_close(&bytes);
  }
  if (!good) {
    free(path);
    return false;
  }
  BluFiles *files = blu_files_new();
  good = add_slots(err, files, spec, path, &csv);
  blu_files_hold(files, csv.value, csv.rows * csv.columns * (int64_t)sizeof *csv.value);
  blu_files_hold(files, path, 0);
  csv.value = NULL;
  blu_csv_free(&csv);
  if (good) *state = files;
  else blu_files_close(files);
  return good;
}

const BluDataSource blu_data_csv = {
    .name = "csv",
    .keys = " file test_file SLOT ",
    .open = csv_open,
    .count = blu_files_count,
    .bytes = blu_files_bytes,
    .check = blu_files_check,
    .fetch = blu_files_fetch,
    .unchanged = blu_files_unchanged,
    .close = blu_files_close,
};
