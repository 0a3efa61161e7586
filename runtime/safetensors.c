/* safetensors.c - files of named tensors: u64 little-endian length, a JSON header of that length, then the data.
 *
 * The writer sorts by alignment of the type (descending), then by name, and pads the header with spaces to 8 bytes, as
 * the format's own library does; its metadata name PyTorch's layout, without which some readers refuse a file. The reader takes nothing on
 * trust: it accepts the JSON of the format and no more. The index of a checkpoint in several files is read in the same way. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data_internal.h"
#include "half.h"

static const char *const type_names[] = {
    [BLU_DTYPE_F32] = "F32", [BLU_DTYPE_F64] = "F64", [BLU_DTYPE_I32] = "I32",
    [BLU_DTYPE_I64] = "I64", [BLU_DTYPE_U8] = "U8",   [BLU_DTYPE_BOOL] = "BOOL",
    [BLU_DTYPE_BF16] = "BF16", [BLU_DTYPE_F16] = "F16",
};
enum { TYPES = sizeof type_names / sizeof *type_names };

/* f32, and what is shorter. */
static bool is_single(int32_t dtype) { return dtype == BLU_DTYPE_F32 || blu_half_is(dtype); }

/* --- writing --- */

static int by_alignment(const void *a, const void *b) {
  const BluSlot *x = *(const BluSlot *const *)a, *y = *(const BluSlot *const *)b;
  int64_t difference = blu_dtype_bytes(y->dtype) - blu_dtype_bytes(x->dtype);
  return difference ? (difference > 0 ? 1 : -1) : strcmp(x->name, y->name);
}

static void print_header(FILE *out, const BluSlot *const *tensor, int64_t tensors) {
  fputs("{\"__metadata__\":{\"format\":\"pt\"}", out); /* what PyTorch's readers ask for */
  int64_t offset = 0;
  for (int64_t i = 0; i < tensors; i++) {
    const BluSlot *t = tensor[i];
    fputs(",\"", out);
    for (const char *c = t->name; *c; c++) {
      if (*c == '"' || *c == '\\') fputc('\\', out);
      fputc(*c, out);
    }
    fprintf(out, "\":{\"dtype\":\"%s\",\"shape\":[", type_names[t->dtype]);
    for (int32_t j = 0; j < t->rank; j++) fprintf(out, "%s%" PRId64, j ? "," : "", t->dim[j]);
    int64_t bytes = blu_slot_count(t) * blu_dtype_bytes(t->dtype);
    fprintf(out, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", offset, offset + bytes);
    offset += bytes;
  }
  fputc('}', out);
}

bool blu_adapter_is(const char *name) {
  static const char *const parts[] = {".lora_A", ".lora_B", ".lora_scale"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (blu_text_ends(name, parts[i])) return true;
  return false;
}

bool blu_slot_picked(const BluSlot *slot, BluPick pick) {
  bool param = slot->role == BLU_ROLE_PARAM, state = slot->role == BLU_ROLE_STATE;
  bool model_state = state && !strchr(slot->name, ':');
  switch (pick) {
    case BLU_PICK_PARAMS: return param;
    case BLU_PICK_STATES: return state;
    case BLU_PICK_MODEL_STATES: return model_state;
    case BLU_PICK_MODEL: return param || model_state;
    case BLU_PICK_BASE: return (param || model_state) && !blu_adapter_is(slot->name);
  }
  return false;
}

static bool write_values(BluError *err, int fd, const char *path, const char *from, int64_t count, int32_t dtype, int32_t as) {
  enum { BLOCK = 4096 };
  float to[BLOCK];
  if (as == dtype) return blu_file_write(err, fd, path, from, count * blu_dtype_bytes(dtype));
  for (int64_t i = 0; i < count; i += BLOCK) {
    int64_t some = count - i < BLOCK ? count - i : BLOCK;
    blu_raw_convert(from + i * blu_dtype_bytes(dtype), blu_raw_of(dtype), some, to, as, 0);
    if (!blu_file_write(err, fd, path, to, some * blu_dtype_bytes(as))) return false;
  }
  return true;
}

static const BluSlot *slot_of(const BluProgram *program, const char *name) {
  for (int64_t i = 0; i < program->tensors; i++)
    if (!strcmp(program->tensor[i].name, name)) return &program->tensor[i];
  return NULL;
}

/* The tensor as it lies in the arena, of type `dtype`, as values of its own type in the file. */
static bool write_tensor(BluError *err, int fd, const char *path, const BluArena *arena, const BluSlot *slot, int32_t dtype) {
  int64_t size = blu_dtype_bytes(dtype), bytes = blu_slot_count(slot) * size;
  for (int64_t at = 0, part; at < bytes; at += part) {
    const char *from = blu_device_look(err, arena, slot->offset + at, (part = bytes - at, &part));
    if (!from || !write_values(err, fd, path, from, part / size, dtype, slot->dtype)) return false;
  }
  return true;
}

bool blu_safetensors_write(BluError *err, const char *path, const BluProgram *program, BluPick pick, int32_t dtype,
                           const BluArena *arena) {
  const BluSlot **tensor = blu_new(program->tensors, sizeof *tensor);
  BluSlot *slot = blu_new(program->tensors, sizeof *slot); /* as they are written */
  int64_t tensors = 0;
  for (int64_t i = 0; i < program->tensors; i++) {
    if (!blu_slot_picked(&program->tensor[i], pick)) continue;
    slot[tensors] = program->tensor[i];
    if (dtype != BLU_DTYPE_AS_IT_IS && slot[tensors].role == BLU_ROLE_PARAM && is_single(slot[tensors].dtype)) slot[tensors].dtype = dtype;
    tensor[tensors] = &slot[tensors];
    tensors++;
  }
  qsort(tensor, (size_t)tensors, sizeof *tensor, by_alignment);
  char *header = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&header, &bytes);
  blu_need(out);
  print_header(out, tensor, tensors);
  while (fflush(out), bytes % 8) fputc(' ', out);
  fclose(out);
  uint64_t length = bytes;
  int fd;
  bool good = blu_file_create(err, path, &fd);
  if (good) {
    good = blu_file_write(err, fd, path, &length, sizeof length) &&
           blu_file_write(err, fd, path, header, (int64_t)bytes);
    for (int64_t i = 0; good && i < tensors; i++)
      good = write_tensor(err, fd, path, arena, tensor[i], slot_of(program, tensor[i]->name)->dtype);
    if (good) good = blu_file_close(err, fd, path);
    else close(fd);
  }
  free(header);
  free(slot);
  free(tensor);
  return good;
}

/* --- reading --- */

/* A place in the header. `err` is filled at the first fault; `name` is the tensor being read, for messages. */
typedef struct {
  BluError *err;
  const char *path, *at, *end, *name;
  const char *kind; /* what the file should be */
} Reader;

static bool refuse(const Reader *r, const char *what) {
  return r->name ? blu_error_set(r->err, "%s: tensor '%s': %s", r->path, r->name, what)
                 : blu_error_set(r->err, "%s: not a valid %s: %s", r->path, r->kind, what);
}

static void skip_space(Reader *r) {
  while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) r->at++;
}

/* Takes one character of punctuation, if it comes next. */
static bool take(Reader *r, char c) {
  skip_space(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static bool expect(Reader *r, char c) {
  char what[] = "the header lacks a ' '";
  what[sizeof what - 3] = c;
  return take(r, c) || refuse(r, what);
}

/* Reads a string into `*to`, NUL-terminated, and moves *to behind it; it never grows. A \u escape stays as it is
 * written unless it stands for ASCII. */
static bool read_string(Reader *r, char **to) {
  if (!expect(r, '"')) return false;
  char *out = *to;
  while (r->at < r->end && *r->at != '"') {
    unsigned char c = (unsigned char)*r->at++;
    if (c < ' ') return refuse(r, "a control character stands in a name");
    if (c != '\\') {
      *out++ = (char)c;
      continue;
    }
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *escape = r->at < r->end && *r->at ? strchr(escapes, *r->at) : NULL;
    if (escape) {
      *out++ = meanings[escape - escapes];
      r->at++;
    } else if (r->end - r->at > 5 && *r->at == 'u') {
      char hex[5] = {r->at[1], r->at[2], r->at[3], r->at[4]};
      if (strspn(hex, "0123456789abcdefABCDEF") < 4) return refuse(r, "an unknown escape stands in a name");
      long code = strtol(hex, NULL, 16);
      if (code && code < 128) *out++ = (char)code;
      else memcpy(out, r->at - 1, 6), out += 6;
      r->at += 5;
    } else {
      return refuse(r, "an unknown escape stands in a name");
    }
  }
  *out++ = 0;
  *to = out;
  return expect(r, '"');
}

static bool read_number(Reader *r, int64_t *number) {
  skip_space(r);
  const char *start = r->at;
  *number = 0;
  while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
    if (__builtin_mul_overflow(*number, 10, number) || __builtin_add_overflow(*number, *r->at++ - '0', number))
      return refuse(r, "a number is too large");
  if (r->at == start) return refuse(r, "a shape or offset is not a whole number from 0");
  return (*start != '0' || r->at == start + 1) || refuse(r, "a number starts with 0");
}

/* Reads "[1, 2]" of at most `most` numbers. */
static bool read_numbers(Reader *r, int64_t *number, int32_t most, int32_t *count) {
  *count = 0;
  if (!expect(r, '[')) return false;
  if (take(r, ']')) return true;
  do {
    if (*count == most) return refuse(r, "a list has too many numbers");
    if (!read_number(r, &number[(*count)++])) return false;
  } while (take(r, ','));
  return expect(r, ']');
}

static bool read_type(Reader *r, int32_t *dtype, char **names) {
  char *word = *names;
  if (!read_string(r, names)) return false;
  for (*dtype = 0; *dtype < TYPES; ++*dtype)
    if (!strcmp(word, type_names[*dtype])) return true;
  char what[100];
  snprintf(what, sizeof what, "unknown type '%.60s'", word);
  return refuse(r, what);
}

/* Reads the three fields of a tensor, each once, in any order; `tensor->offset` and `bytes` from the offsets. */
static bool read_tensor(Reader *r, BluSlot *tensor, char **names) {
  enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
  int seen = 0;
  int64_t span[2];
  if (!expect(r, '{')) return false;
  do {
    char *key = *names;
    if (!read_string(r, names) || !expect(r, ':')) return false;
    int field = !strcmp(key, "dtype") ? DTYPE : !strcmp(key, "shape") ? SHAPE 
                                                                  : !strcmp(key, "data_offsets") ? OFFSETS : 0;
    if (!field || seen & field) return refuse(r, field ? "a field is given twice" : "unknown field");
    seen |= field;
    int32_t count = 2;
    bool good = field == DTYPE   ? read_type(r, &tensor->dtype, names)
                : field == SHAPE ? read_numbers(r, tensor->dim, BLU_ABI_RANK, &tensor->rank)
                                 : read_numbers(r, span, 2, &count);
    if (!good) return false;
    if (count != 2) return refuse(r, "data_offsets has not two numbers");
  } while (take(r, ','));
  if (!expect(r, '}')) return false;
  if (seen != (DTYPE | SHAPE | OFFSETS)) return refuse(r, "dtype, shape or data_offsets is missing");
  if (span[1] < span[0]) return refuse(r, "its offsets are reversed");
  tensor->offset = span[0];
  tensor->bytes = span[1] - span[0];
  int64_t bytes = blu_dtype_bytes(tensor->dtype);
  for (int32_t i = 0; i < tensor->rank; i++)
    if (__builtin_mul_overflow(bytes, tensor->dim[i], &bytes)) return refuse(r, "its shape overflows");
  return bytes == tensor->bytes || refuse(r, "its shape and type don't fill its offsets");
}

/* {"key": "value", ...}: checked, not kept. */
static bool skip_metadata(Reader *r, char *room) {
  if (!expect(r, '{')) return false;
  if (take(r, '}')) return true;
  do {
    char *to = room;
    if (!read_string(r, &to) || !expect(r, ':') || !read_string(r, &to)) return false;
  } while (take(r, ','));
  return expect(r, '}');
}

static int by_offset(const void *a, const void *b) {
  const BluSlot *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* empty tensors come first */
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const BluSlot *const *)a)->name, (*(const BluSlot *const *)b)->name);
}

static bool check_names(Reader *r, const BluSafetensors *file) {
  const BluSlot **sorted = blu_new(file->tensors, sizeof *sorted);
  for (int64_t i = 0; i < file->tensors; i++) sorted[i] = &file->tensor[i];
  qsort(sorted, (size_t)file->tensors, sizeof *sorted, by_name);
  bool good = true;
  for (int64_t i = 1; good && i < file->tensors; i++) {
    r->name = sorted[i]->name;
    good = strcmp(sorted[i - 1]->name, sorted[i]->name) || refuse(r, "its name is given twice");
  }
  free(sorted);
  return good;
}

static bool check_spans(Reader *r, const BluSafetensors *file, int64_t data_bytes) {
  int64_t next = 0;
  for (int64_t i = 0; i < file->tensors; i++) {
    const BluSlot *t = &file->tensor[i];
    r->name = t->name;
    if (t->bytes > data_bytes || t->offset > data_bytes - t->bytes) return refuse(r, "it ends after the file");
    if (t->offset < next) return refuse(r, "it overlaps the tensor before it");
    if (t->offset > next) return refuse(r, "there is a hole before it");
    next = t->offset + t->bytes;
  }
  return next == data_bytes || refuse(r, "bytes follow the last tensor");
}

/* Reads `"name": {...}`: a tensor, or the metadata. */
static bool read_entry(Reader *r, BluSafetensors *file, int64_t *capacity, bool *metadata, char **names) {
  char *name = *names;
  r->name = NULL;
  if (!read_string(r, names) || !expect(r, ':')) return false;
  r->name = name;
  if (!strcmp(name, "__metadata__")) {
    if (*metadata) return refuse(r, "it is given twice");
    *metadata = true;
    return skip_metadata(r, *names);
  }
  if (file->tensors == *capacity) {
    *capacity = 2 * *capacity + 16;
    file->tensor = realloc(file->tensor, (size_t)*capacity * sizeof *file->tensor);
    blu_need(file->tensor);
  }
  BluSlot *tensor = &file->tensor[file->tensors++];
  *tensor = (BluSlot){.name = name};
  return read_tensor(r, tensor, names);
}

static bool read_header(Reader *r, BluSafetensors *file, int64_t data_bytes) {
  int64_t capacity = 0;
  char *names = file->names;
  bool metadata = false;
  if (r->at == r->end || *r->at != '{') return refuse(r, "the header doesn't start with '{'");
  r->at++;
  if (!take(r, '}')) {
    do {
      if (!read_entry(r, file, &capacity, &metadata, &names)) return false;
    } while (take(r, ','));
    r->name = NULL;
    if (!expect(r, '}')) return false;
  }
  skip_space(r);
  if (r->at != r->end) return refuse(r, "something follows the last '}' of the header");
  if (file->tensors) qsort(file->tensor, (size_t)file->tensors, sizeof *file->tensor, by_offset);
  return check_names(r, file) && check_spans(r, file, data_bytes);
}

bool blu_safetensors_parse(BluError *err, BluSafetensors *file, const char *path, const char *header, int64_t bytes,
                           int64_t data_bytes) {
  *file = (BluSafetensors){.names = blu_new(bytes + 1, 1), .data_start = 8 + bytes};
  Reader reader = {.err = err, .path = path, .at = header, .end = header + bytes, .kind = "safetensors file"};
  if (read_header(&reader, file, data_bytes)) return true;
  blu_safetensors_close(file);
  return false;
}

static bool parse_file(BluError *err, BluSafetensors *file, const char *path, int fd) {
  struct stat info;
  uint8_t start[8];
  if (fstat(fd, &info) || info.st_size < 8)
    return blu_error_set(err, "%s: not a safetensors file: shorter than 8 bytes", path);
  if (!blu_file_read(err, fd, path, start, 8, 0)) return false;
  uint64_t bytes = 0;
  for (int i = 7; i >= 0; i--) bytes = bytes << 8 | start[i];
  if (bytes > BLU_SAFETENSORS_HEADER_MAX)
    return blu_error_set(err, "%s: not a valid safetensors file: its header of %" PRIu64 " bytes is over the limit of "
                         "%d", path, bytes, BLU_SAFETENSORS_HEADER_MAX);
  if ((int64_t)bytes > info.st_size - 8)
    return blu_error_set(err, "%s: not a valid safetensors file: its header of %" PRIu64 " bytes ends after the file",
                         path, bytes);
  char *header = blu_new((int64_t)bytes + 1, 1);
  bool good = blu_file_read(err, fd, path, header, (int64_t)bytes, 8) &&
              blu_safetensors_parse(err, file, path, header, (int64_t)bytes, info.st_size - 8 - (int64_t)bytes);
  free(header);
  return good;
}

bool blu_safetensors_open(BluError *err, BluSafetensors *file, const char *path, int *fd) {
  *file = (BluSafetensors){0};
  *fd = open(path, O_RDONLY | O_CLOEXEC);
  if (*fd < 0) return blu_error_set(err, "cannot open %s: %s", path, strerror(errno));
  if (parse_file(err, file, path, *fd)) return true;
  close(*fd);
  return false;
}

void blu_safetensors_close(BluSafetensors *file) {
  free(file->tensor);
  free(file->names);
  *file = (BluSafetensors){0};
}

/* --- the index of several files --- */

static bool skip_value(Reader *r, char *room, int depth);

/* What stands between the brackets of an object or a list, behind the first. */
static bool skip_members(Reader *r, char *room, bool object, int depth) {
  if (take(r, object ? '}' : ']')) return true;
  do {
    char *to = room;
    if (object && (!read_string(r, &to) || !expect(r, ':'))) return false;
    if (!skip_value(r, room, depth)) return false;
  } while (take(r, ','));
  return expect(r, object ? '}' : ']');
}

/* Any value, which nobody needs. `room` is for its strings. */
static bool skip_value(Reader *r, char *room, int depth) {
  static const char *const words[] = {"true", "false", "null"};
  enum { DEEPEST = 32 };
  if (depth > DEEPEST) return refuse(r, "its metadata nest too deep");
  if (take(r, '{')) return skip_members(r, room, true, depth + 1);
  if (take(r, '[')) return skip_members(r, room, false, depth + 1);
  if (r->at < r->end && *r->at == '"') return read_string(r, &room);
  size_t length = 0, left = (size_t)(r->end - r->at);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (left >= strlen(words[i]) && !memcmp(r->at, words[i], strlen(words[i]))) length = strlen(words[i]);
  char number[40] = "", *end = number;
  while (!length && end < number + sizeof number - 1 && (size_t)(end - number) < left && r->at[end - number] && strchr("+-.0123456789eE", r->at[end - number]))
    *end = r->at[end - number], end++;
  double value;
  if (!length && end > number && *number != '+' && *number != '.' && blu_text_double(number, &value)) length = (size_t)(end - number);
  r->at += length;
  return length || refuse(r, "its metadata hold what is no JSON");
}

static int by_place_name(const void *a, const void *b) { return strcmp(((const BluPlacement *)a)->name, ((const BluPlacement *)b)->name); }

static bool read_places(Reader *r, BluSafetensorsIndex *index, char **names) {
  int64_t capacity = 0;
  if (!expect(r, '{')) return false;
  if (take(r, '}')) return true;
  do {
    if (index->places == capacity) {
      capacity = 2 * capacity + 16;
      index->place = blu_need(realloc(index->place, (size_t)capacity * sizeof *index->place));
    }
    BluPlacement *p = &index->place[index->places++];
    p->name = *names;
    if (!read_string(r, names) || !expect(r, ':')) return false;
    p->file = *names;
    if (!read_string(r, names)) return false;
  } while (take(r, ','));
  if (!expect(r, '}')) return false;
  qsort(index->place, (size_t)index->places, sizeof *index->place, by_place_name);
  for (int64_t i = 1; i < index->places; i++) {
    r->name = index->place[i].name;
    if (!strcmp(index->place[i - 1].name, r->name)) return refuse(r, "its name is given twice");
  }
  r->name = NULL;
  return true;
}

static bool read_index(Reader *r, BluSafetensorsIndex *index) {
  char *names = index->names;
  bool seen = false;
  if (!expect(r, '{')) return false;
  do {
    char *key = names;
    if (!read_string(r, &names) || !expect(r, ':')) return false;
    bool map = !strcmp(key, "weight_map");
    if (map && seen) return refuse(r, "weight_map is given twice");
    seen |= map;
    if (!(map ? read_places(r, index, &names) : skip_value(r, names, 0))) return false;
  } while (take(r, ','));
  if (!expect(r, '}')) return false;
  skip_space(r);
  if (r->at != r->end) return refuse(r, "something follows its last '}'");
  return seen || refuse(r, "it has no weight_map");
}

bool blu_safetensors_index(BluError *err, BluSafetensorsIndex *index, const char *path, const char *text, int64_t bytes) {
  *index = (BluSafetensorsIndex){.names = blu_new(bytes + 1, 1)};
  Reader reader = {.err = err, .path = path, .at = text, .end = text + bytes, .kind = "index of safetensors files"};
  if (read_index(&reader, index)) return true;
  blu_safetensors_index_close(index);
  return false;
}

void blu_safetensors_index_close(BluSafetensorsIndex *index) {
  free(index->place);
  free(index->names);
  *index = (BluSafetensorsIndex){0};
}

const BluSlot *blu_safetensors_find(const BluSafetensors *file, const char *name) {
  for (int64_t i = 0; i < file->tensors; i++)
    if (!strcmp(file->tensor[i].name, name)) return &file->tensor[i];
  return NULL;
}

int64_t blu_safetensors_differences(BluError *err, const BluProgram *program, BluPick pick, const BluSafetensors *file,
                                    const char *holder) {
  enum { NAMED = 8 };
  char here[200], there[200];
  int64_t differences = 0, matched = 0;
  for (int64_t i = 0; i < program->tensors; i++) {
    const BluSlot *want = &program->tensor[i], *got;
    if (!blu_slot_picked(want, pick)) continue;
    got = blu_safetensors_find(file, want->name);
    matched += got != NULL;
    bool same = got && !strcmp(blu_slot_type(want, here), blu_slot_type(got, there));
    if (same || differences++ >= NAMED) continue;
    if (got) blu_error_add(err, "\n  %s: %s in the program, %s in %s", want->name, here, there, holder);
    else blu_error_add(err, "\n  %s: missing in %s", want->name, holder);
  }
  bool more = matched < file->tensors && pick != BLU_PICK_MODEL_STATES;
  for (int64_t i = 0; more && i < file->tensors; i++) {
    bool known = false;
    for (int64_t j = 0; j < program->tensors && !known; j++)
      known = blu_slot_picked(&program->tensor[j], pick) && !strcmp(program->tensor[j].name, file->tensor[i].name);
    if (!known && differences++ < NAMED)
      blu_error_add(err, "\n  %s: %s in %s, missing in the program", file->tensor[i].name,
                    blu_slot_type(&file->tensor[i], there), holder);
  }
  if (differences > NAMED) blu_error_add(err, "\n  and %" PRId64 " more", differences - NAMED);
  return differences;
}
