/* golden.c - golden numbers in files: unpacks what a model starts with, and compares what it computes. See golden.sh and make.py.
 *
 * A number is right if it is within RTOL of the wanted one, relative to the greater of that number and the root mean square of its
 * tensor. For a gradient that is 0 but for rounding (a bias before a batch norm) that of all gradients counts. NaN is never right. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/data_internal.h"

enum { MOST = 1 << 24 }; /* numbers of a printed tensor */
static const double ROUNDING = 1e-12; /* of double, in a sum that cancels */

static BluError err;
static int failures, compared;

static void die(const char *what) {
  fprintf(stderr, "golden: %s\n", what);
  exit(2);
}

static void demand(bool good) {
  if (!good) die(err.text);
}

/* --- files --- */

typedef struct {
  BluSafetensors head;
  char *data;
} File;

static File file_read(const char *path) {
  File f;
  int fd;
  struct stat st;
  demand(blu_safetensors_open(&err, &f.head, path, &fd));
  if (fstat(fd, &st)) die(path);
  size_t bytes = (size_t)(st.st_size - f.head.data_start);
  f.data = malloc(bytes + 1);
  if (!f.data || pread(fd, f.data, bytes, f.head.data_start) != (ssize_t)bytes) die(path);
  close(fd);
  return f;
}

static double number_at(const File *f, const BluSlot *t, int64_t i) {
  const char *at = f->data + t->offset + i * blu_dtype_bytes(t->dtype);
  union { float f; double d; int32_t i; uint8_t u; } x;
  memcpy(&x, at, (size_t)blu_dtype_bytes(t->dtype));
  switch (t->dtype) {
    case BLU_DTYPE_F32: return (double)x.f;
    case BLU_DTYPE_F64: return x.d;
    case BLU_DTYPE_I32: return x.i;
    case BLU_DTYPE_U8: return x.u;
    default: return NAN;
  }
}

static double *numbers_of(const File *f, const BluSlot *t) {
  int64_t n = blu_slot_count(t);
  double *x = calloc((size_t)n + 1, sizeof *x);
  if (!x) die("out of memory");
  for (int64_t i = 0; i < n; i++) x[i] = number_at(f, t, i);
  return x;
}

/* What stands behind "KIND " in a tensor's name; NULL if it is of another kind. */
static const char *name_of(const BluSlot *t, const char *kind) {
  size_t n = strlen(kind);
  return !strncmp(t->name, kind, n) && t->name[n] == ' ' ? t->name + n + 1 : NULL;
}

static void write_npy(const char *dir, const char *name, const BluSlot *t, const void *data) {
  char path[4096];
  int fd;
  snprintf(path, sizeof path, "%s/%s.npy", dir, name);
  demand(blu_file_create(&err, path, &fd) && blu_npy_header(&err, fd, path, t, t->rank ? t->dim[0] : 1) &&
         blu_file_write(&err, fd, path, data, blu_slot_count(t) * blu_dtype_bytes(t->dtype)));
  close(fd);
}

/* unpack GOLDEN DIR: data/NAME.npy, start/NAME.npy and start.safetensors, which is of the form that `import` takes. */
static void unpack(const char *golden, const char *dir) {
  File f = file_read(golden);
  BluSlot *start = calloc((size_t)f.head.tensors + 1, sizeof *start);
  BluProgram program = {.tensor = start};
  char path[4096];
  for (int64_t i = 0; i < f.head.tensors; i++) {
    const BluSlot *t = &f.head.tensor[i];
    const char *data = name_of(t, "data"), *param = name_of(t, "param"), *init = name_of(t, "init");
    snprintf(path, sizeof path, "%s/%s", dir, data ? "data" : "start");
    if (data) write_npy(path, data, t, f.data + t->offset);
    if (!param && !init) continue;
    start[program.tensors] = *t;
    start[program.tensors].name = param ? param : init;
    start[program.tensors++].role = param ? BLU_ROLE_PARAM : BLU_ROLE_STATE;
    write_npy(path, param ? param : init, t, f.data + t->offset);
  }
  snprintf(path, sizeof path, "%s/start.safetensors", dir);
  demand(blu_safetensors_write(&err, path, &program, BLU_PICK_MODEL, BLU_DTYPE_AS_IT_IS, &(BluArena){.base = f.data}));
}

/* --- comparing --- */

/* Root mean square of all numbers of a kind. */
static double scale_of(const File *f, const char *kind) {
  double squares = 0, n = 0;
  for (int64_t i = 0; i < f->head.tensors; i++) {
    const BluSlot *t = &f->head.tensor[i];
    if (!name_of(t, kind)) continue;
    for (int64_t j = 0; j < blu_slot_count(t); j++) squares += number_at(f, t, j) * number_at(f, t, j), n++;
  }
  return n > 0 ? sqrt(squares / n) : 0;
}

static void judge(const char *what, const double *want, const double *got, int64_t n, double scale, double rtol) {
  double squares = 0, worst = 0;
  int64_t bad = -1, at = 0;
  for (int64_t i = 0; i < n; i++) squares += want[i] * want[i];
  double least = sqrt(squares / (double)n);
  if (least < scale * ROUNDING) least = scale;
  for (int64_t i = 0; i < n; i++) {
    double off = fabs(got[i] - want[i]) / fmax(fabs(want[i]), least);
    if (got[i] == want[i]) off = 0;
    if (!(off <= rtol) && bad < 0) bad = i;
    if (!(off <= worst)) worst = off, at = i;
  }
  compared++;
  if (bad < 0) {
    printf("held    %s: %.1e (%lld numbers)\n", what, worst, (long long)n);
  } else {
    printf("FAILED  %s: %.1e, more than %.1e: number %lld is %.17g, not %.17g\n", what, worst, rtol, (long long)at, got[at], want[at]);
    failures++;
  }
}

static void missing(const char *what) {
  printf("FAILED  %s: not there, or not of this size\n", what);
  failures++;
}

/* file GOLDEN KIND OTHER RTOL [SUFFIX]: every "KIND NAME" of the golden file against NAME + SUFFIX of another safetensors file. */
static void compare_file(const char *golden, const char *kind, const char *other, double rtol, const char *suffix) {
  File f = file_read(golden), g = file_read(other);
  for (int64_t i = 0; i < f.head.tensors; i++) {
    const BluSlot *t = &f.head.tensor[i];
    char name[1000];
    if (!name_of(t, kind)) continue;
    snprintf(name, sizeof name, "%s%s", name_of(t, kind), suffix);
    const BluSlot *u = blu_safetensors_find(&g.head, name);
    if (!u || blu_slot_count(u) != blu_slot_count(t)) missing(t->name);
    else judge(t->name, numbers_of(&f, t), numbers_of(&g, u), blu_slot_count(t), scale_of(&f, kind), rtol);
  }
}

/* Numbers with commas between them, up to the end of the line; their number. */
static int64_t read_numbers(const char *at, double *x, int64_t most) {
  int64_t n = 0;
  for (char *end; n < most; at = end + 1) {
    x[n] = strtod(at, &end);
    if (end == at) break;
    n++;
    if (*end != ',') break;
  }
  return n;
}

/* printed GOLDEN KIND ROLE RTOL: every "KIND NAME" against the line "ROLE NAME: TYPE = NUMBERS" of blu-opt --run on standard input. */
static void compare_printed(const char *golden, const char *kind, const char *role, double rtol, const char *text) {
  File f = file_read(golden);
  for (int64_t i = 0; i < f.head.tensors; i++) {
    const BluSlot *t = &f.head.tensor[i];
    char head[1000];
    if (!name_of(t, kind)) continue;
    int64_t n = blu_slot_count(t);
    snprintf(head, sizeof head, "\n%s %s: ", role, name_of(t, kind));
    const char *line = strstr(text, head), *numbers = line ? strstr(line, " = ") : NULL;
    double *got = calloc((size_t)n + 1, sizeof *got);
    if (!numbers || read_numbers(numbers + 3, got, n + 1) != n) missing(t->name);
    else judge(t->name, numbers_of(&f, t), got, n, scale_of(&f, kind), rtol);
  }
}

/* metrics GOLDEN NAME FIELD RTOL: a vector against a field of the lines of metrics.jsonl for training, in their order. */
static void compare_metrics(const char *golden, const char *name, const char *field, double rtol, char *text) {
  File f = file_read(golden);
  const BluSlot *t = blu_safetensors_find(&f.head, name);
  if (!t) die("no such tensor");
  int64_t n = blu_slot_count(t), have = 0;
  double *got = calloc((size_t)n + 1, sizeof *got);
  char key[100];
  snprintf(key, sizeof key, "\"%s\":", field);
  for (char *line = strtok(text, "\n"); line && have <= n; line = strtok(NULL, "\n")) {
    const char *at = strstr(line, "\"split\":\"train\"") ? strstr(line, key) : NULL;
    if (at) got[have++] = strtod(at + strlen(key), NULL);
  }
  if (have != n) missing(name);
  else judge(name, numbers_of(&f, t), got, n, 0, rtol);
}

/* Values of an array of f32; their number in *n, -1: it is of another type. */
static double *read_array(const char *path, int64_t *n) {
  BluBytes bytes = {0};
  BluArray a;
  demand(blu_bytes_open(&err, &bytes, path, 1) && blu_npy_parse(&err, path, bytes.data, bytes.size, &a));
  *n = a.raw == BLU_RAW_F32 ? 1 : -1;
  for (int32_t i = 0; i < a.rank; i++) *n *= a.dim[i];
  double *got = calloc((size_t)(*n > 0 ? *n : 0) + 1, sizeof *got);
  if (!got) die("out of memory");
  for (int64_t i = 0; i < *n; i++) {
    float x;
    memcpy(&x, (const char *)a.value + i * (int64_t)sizeof x, sizeof x);
    got[i] = (double)x;
  }
  return got;
}

/* array GOLDEN NAME FILE.npy RTOL: one tensor against an array of f32. */
static void compare_array(const char *golden, const char *name, const char *path, double rtol) {
  File f = file_read(golden);
  const BluSlot *t = blu_safetensors_find(&f.head, name);
  int64_t have;
  if (!t) die("no such tensor");
  double *got = read_array(path, &have);
  if (have != blu_slot_count(t)) missing(name);
  else judge(name, numbers_of(&f, t), got, have, 0, rtol);
}

/* arrays WANTED.npy FILE.npy RTOL: two arrays of f32. */
static void compare_arrays(const char *wanted, const char *path, double rtol) {
  int64_t n, have;
  double *want = read_array(wanted, &n), *got = read_array(path, &have);
  if (have != n || n < 1) missing(path);
  else judge(path, want, got, n, 0, rtol);
}

/* --- several steps by the interpreter --- */

/* next DIR: parameters and states that blu-opt --run printed become DIR/NAME.npy, for the next step. */
static void next(const char *dir, char *text) {
  double *x = malloc(MOST * sizeof *x);
  if (!x) die("out of memory");
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    if (strncmp(line, "param ", 6) && strncmp(line, "state ", 6)) continue;
    char *name = line + 6, *type = strstr(name, ": "), *shape = strchr(type, '['), *numbers = strstr(type, " = ");
    BluSlot t = {.dtype = BLU_DTYPE_F64};
    *type = 0;
    if (shape && shape < numbers)
      for (char *at = shape + 1; *at != ']' && t.rank < BLU_ABI_RANK; at += *at == ',') t.dim[t.rank++] = strtoll(at, &at, 10);
    if (read_numbers(numbers + 3, x, MOST) != blu_slot_count(&t)) die(name);
    write_npy(dir, name, &t, x);
  }
}

static char *read_all(void) { /* with a newline before the first line */
  size_t size = 1, room = 1 << 20;
  char *text = malloc(room + 1);
  for (size_t n; text && (n = fread(text + size, 1, room - size, stdin)) > 0;) {
    size += n;
    if (size == room) text = realloc(text, (room *= 2) + 1);
  }
  if (!text) die("out of memory");
  text[0] = '\n';
  text[size] = 0;
  return text;
}

int main(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  if (argc == 4 && !strcmp(command, "unpack")) return unpack(argv[2], argv[3]), 0;
  if (argc == 3 && !strcmp(command, "next")) return next(argv[2], read_all()), 0;
  if ((argc == 6 || argc == 7) && !strcmp(command, "file")) compare_file(argv[2], argv[3], argv[4], atof(argv[5]), argc == 7 ? argv[6] : "");
  else if (argc == 6 && !strcmp(command, "printed")) compare_printed(argv[2], argv[3], argv[4], atof(argv[5]), read_all());
  else if (argc == 6 && !strcmp(command, "metrics")) compare_metrics(argv[2], argv[3], argv[4], atof(argv[5]), read_all());
  else if (argc == 6 && !strcmp(command, "array")) compare_array(argv[2], argv[3], argv[4], atof(argv[5]));
  else if (argc == 5 && !strcmp(command, "arrays")) compare_arrays(argv[2], argv[3], atof(argv[4]));
  else die("unpack GOLDEN DIR | next DIR | file GOLDEN KIND OTHER RTOL [SUFFIX] | printed GOLDEN KIND ROLE RTOL | metrics GOLDEN NAME FIELD RTOL"
           " | array GOLDEN NAME FILE.npy RTOL | arrays WANTED.npy FILE.npy RTOL");
  if (!compared && !failures) printf("FAILED  %s: nothing to compare\n", command);
  return failures || !compared;
}
