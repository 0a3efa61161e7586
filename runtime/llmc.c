/* llmc.c - checkpoints of llm.c: 256 little-endian i32 (magic 20240326, version, context, vocabulary, layers, heads, width, padded
 * vocabulary, zeros), then GPT-2's parameters kind by kind, those of all layers together. Matrices of layers are stored [out, in], where
 * GPT-2's published parameters and Blu's are [in, out]. Rows of the vocabulary's padding stand for no token and are left out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transfer_internal.h"

enum { MAGIC = 20240326, VERSION_F32 = 3, VERSION_BF16 = 5, PADDING = 128 };
enum { MAX_T = 2, VOCABULARY, LAYERS, HEADS, WIDTH, PADDED, FIELDS };

/* In the file's order; shape of a matrix [rows * width, columns * width] as Blu has it. */
static const struct {
  const char *name;
  int rows, columns; /* rows 0: a vector [columns * width] */
} kinds[] = {
    {"wte.weight", 0, 0},
    {"wpe.weight", 0, 0},
    {"ln_1.weight", 0, 1},
    {"ln_1.bias", 0, 1},
    {"attn.c_attn.weight", 1, 3},
    {"attn.c_attn.bias", 0, 3},
    {"attn.c_proj.weight", 1, 1},
    {"attn.c_proj.bias", 0, 1},
    {"ln_2.weight", 0, 1},
    {"ln_2.bias", 0, 1},
    {"mlp.c_fc.weight", 1, 4},
    {"mlp.c_fc.bias", 0, 4},
    {"mlp.c_proj.weight", 4, 1},
    {"mlp.c_proj.bias", 0, 1},
    {"ln_f.weight", 0, 1},
    {"ln_f.bias", 0, 1},
};
enum { WTE, WPE, FIRST_OF_LAYER, KINDS = sizeof kinds / sizeof *kinds, FIRST_BEHIND = KINDS - 2, LONGEST_NAME = 64 };

static bool is_of_layer(int kind) { return kind >= FIRST_OF_LAYER && kind < FIRST_BEHIND; }

/* Rank, shape, type and bytes of a tensor of a model of these sizes; false: they overflow. */
static bool shape(BluSlot *slot, int kind, const int64_t size[FIELDS], int32_t dtype) {
  int64_t width = size[WIDTH];
  *slot = (BluSlot){.role = BLU_ROLE_PARAM, .dtype = dtype, .rank = kinds[kind].rows || kind < FIRST_OF_LAYER ? 2 : 1};
  if (kind < FIRST_OF_LAYER) slot->dim[0] = size[kind == WTE ? VOCABULARY : MAX_T], slot->dim[1] = width;
  else if (slot->rank == 2) slot->dim[0] = kinds[kind].rows * width, slot->dim[1] = kinds[kind].columns * width;
  else slot->dim[0] = kinds[kind].columns * width;
  slot->bytes = blu_dtype_bytes(dtype);
  for (int32_t i = 0; i < slot->rank; i++)
    if (__builtin_mul_overflow(slot->bytes, slot->dim[i], &slot->bytes)) return false;
  return true;
}

/* Bytes that a kind takes in the file, all layers and the padding of the vocabulary included; false: they overflow. */
static bool extent(int kind, const int64_t size[FIELDS], int32_t dtype, int64_t *bytes) {
  BluSlot slot;
  int64_t padded[FIELDS];
  memcpy(padded, size, sizeof padded);
  padded[VOCABULARY] = size[PADDED];
  if (!shape(&slot, kind, padded, dtype)) return false;
  return !__builtin_mul_overflow(slot.bytes, is_of_layer(kind) ? size[LAYERS] : 1, bytes);
}

/* --- reading --- */

static bool read_header(BluError *err, const char *path, const void *header, int64_t size[FIELDS], int32_t *dtype) {
  static const char *const names[] = {[MAX_T] = "context", [VOCABULARY] = "vocabulary", [LAYERS] = "layers", [HEADS] = "heads",
                                      [WIDTH] = "width",   [PADDED] = "padded vocabulary"};
  int32_t field[FIELDS];
  memcpy(field, header, sizeof field);
  if (field[0] != MAGIC)
    return blu_error_set(err, "%s: not a checkpoint of llm.c: its magic number is %" PRId32 ", not %d (of PyTorch's files only .safetensors can be read)",
                         path, field[0], MAGIC);
  if (field[1] != VERSION_F32 && field[1] != VERSION_BF16)
    return blu_error_set(err, "%s: a checkpoint of llm.c of version %" PRId32 "; known are %d (f32) and %d (bf16)", path, field[1], VERSION_F32,
                         VERSION_BF16);
  *dtype = field[1] == VERSION_F32 ? BLU_DTYPE_F32 : BLU_DTYPE_BF16;
  for (int i = MAX_T; i < FIELDS; i++) {
    size[i] = field[i];
    if (size[i] < 1) return blu_error_set(err, "%s: not a checkpoint of llm.c: its %s is %" PRId64, path, names[i], size[i]);
  }
  if (size[WIDTH] % size[HEADS])
    return blu_error_set(err, "%s: not a checkpoint of llm.c: a width of %" PRId64 " is not divided by %" PRId64 " heads", path, size[WIDTH], size[HEADS]);
  return size[PADDED] >= size[VOCABULARY] ||
         blu_error_set(err, "%s: not a checkpoint of llm.c: its vocabulary of %" PRId64 " is padded to %" PRId64, path, size[VOCABULARY], size[PADDED]);
}

/* Where the next kind begins; tensors of one kind follow each other. `names` has room for one name each. */
static void add_kind(BluWeights *w, int kind, const int64_t size[FIELDS], int32_t dtype, int64_t start, char **names) {
  for (int64_t layer = 0; layer < (is_of_layer(kind) ? size[LAYERS] : 1); layer++) {
    BluWeight *weight = &w->weight[w->weights++];
    *weight = (BluWeight){.transposed = kinds[kind].rows != 0};
    shape(&weight->slot, kind, size, dtype);
    weight->slot.name = *names;
    weight->slot.offset = start + layer * weight->slot.bytes;
    *names += (is_of_layer(kind) ? sprintf(*names, "h.%" PRId64 ".%s", layer, kinds[kind].name) : sprintf(*names, "%s", kinds[kind].name)) + 1;
  }
}

bool blu_llmc_parse(BluError *err, BluWeights *w, const char *path, const void *header, int64_t file_bytes) {
  int64_t size[FIELDS], bytes, end = BLU_LLMC_HEADER;
  int32_t dtype = BLU_DTYPE_F32;
  if (!read_header(err, path, header, size, &dtype)) return false;
  bool good = true;
  for (int i = 0; good && i < KINDS; i++) good = extent(i, size, dtype, &bytes) && !__builtin_add_overflow(end, bytes, &end);
  if (!good || end != file_bytes)
    return blu_error_set(err, "%s: not a whole checkpoint of llm.c: a model of %" PRId64 " layers of width %" PRId64 ", context %" PRId64
                         " and padded vocabulary %" PRId64 " in %s takes %" PRId64 " bytes, and the file has %" PRId64, path, size[LAYERS], size[WIDTH],
                         size[MAX_T], size[PADDED], blu_dtype_name(dtype), good ? end : INT64_MAX, file_bytes);
  int64_t tensors = KINDS + (FIRST_BEHIND - FIRST_OF_LAYER) * (size[LAYERS] - 1); /* fewer than bytes of the file */
  w->weight = blu_new(tensors, sizeof *w->weight);
  w->names = blu_new(tensors, LONGEST_NAME);
  w->heads = size[HEADS];
  char *names = w->names;
  int64_t start = BLU_LLMC_HEADER;
  for (int i = 0; i < KINDS; i++) {
    add_kind(w, i, size, dtype, start, &names);
    extent(i, size, dtype, &bytes);
    start += bytes;
  }
  return true;
}

/* --- writing --- */

static const BluSlot *param(const BluProgram *program, const char *name) {
  for (int64_t i = 0; i < program->tensors; i++)
    if (program->tensor[i].role == BLU_ROLE_PARAM && !strcmp(program->tensor[i].name, name)) return &program->tensor[i];
  return NULL;
}

static const BluSlot *param_of(const BluProgram *program, int kind, int64_t layer) {
  char name[LONGEST_NAME];
  if (is_of_layer(kind)) snprintf(name, sizeof name, "h.%" PRId64 ".%s", layer, kinds[kind].name);
  else snprintf(name, sizeof name, "%s", kinds[kind].name);
  return param(program, name);
}

int64_t blu_llmc_heads(const BluProgram *program) {
  for (int64_t i = 0; i < program->functions; i++) {
    const BluSlot *slot = blu_function_slot(&program->function[i], BLU_ROLE_CACHE, "h.0.attn.keys");
    if (slot && slot->rank == 4) return slot->dim[1]; /* [batch, heads, context, width / heads] */
  }
  return 0;
}

static bool is_single(int32_t dtype) { return dtype == BLU_DTYPE_F32 || dtype == BLU_DTYPE_BF16 || dtype == BLU_DTYPE_F16; }

/* Sizes of the program's model, every parameter of which is one of GPT-2's. */
static bool sizes_of(BluError *err, const BluProgram *program, int64_t heads, int64_t size[FIELDS]) {
  const BluSlot *wte = param(program, "wte.weight"), *wpe = param(program, "wpe.weight");
  int64_t params = 0, known = 0, layers = 0;
  char here[200], there[200];
  if (!wte || !wpe || wte->rank != 2 || wpe->rank != 2)
    return blu_error_set(err, "--format llmc is for GPT-2 and its names: this program has no wte.weight and wpe.weight of rank 2");
  while (param_of(program, FIRST_OF_LAYER, layers)) layers++;
  size[MAX_T] = wpe->dim[0], size[VOCABULARY] = wte->dim[0], size[LAYERS] = layers, size[WIDTH] = wte->dim[1];
  size[PADDED] = (size[VOCABULARY] + PADDING - 1) / PADDING * PADDING;
  size[HEADS] = blu_llmc_heads(program);
  for (int kind = 0; kind < KINDS; kind++)
    for (int64_t layer = 0; layer < (is_of_layer(kind) ? layers : 1); layer++, known++) {
      BluSlot want;
      const BluSlot *slot = param_of(program, kind, layer);
      if (!shape(&want, kind, size, BLU_DTYPE_F32)) return blu_error_set(err, "--format llmc: the sizes of this program are too large");
      if (!slot) return blu_error_set(err, "--format llmc is for GPT-2 and its names: this program lacks %s of layer %" PRId64, kinds[kind].name, layer);
      if (slot->rank != want.rank || memcmp(slot->dim, want.dim, (size_t)want.rank * sizeof *want.dim) || !is_single(slot->dtype))
        return blu_error_set(err, "--format llmc: %s is %s, and GPT-2's is %s", slot->name, blu_slot_type(slot, here), blu_slot_type(&want, there));
    }
  for (int64_t i = 0; i < program->tensors; i++) params += blu_slot_picked(&program->tensor[i], BLU_PICK_BASE);
  if (!layers || params != known)
    return blu_error_set(err, "--format llmc is for GPT-2 and its names: this program has %" PRId64 " tensors, of which %" PRId64 " are GPT-2's",
                         params, known);
  if (heads > 0 && size[HEADS] && heads != size[HEADS])
    return blu_error_set(err, "--heads %" PRId64 ": this program has %" PRId64, heads, size[HEADS]);
  if (heads > 0) size[HEADS] = heads;
  if (!size[HEADS])
    return blu_error_set(err, "--format llmc: the file says how many heads attention has, and this program has no caches that tell: give --heads N");
  return size[WIDTH] % size[HEADS] == 0 || blu_error_set(err, "--heads %" PRId64 " don't divide a width of %" PRId64, size[HEADS], size[WIDTH]);
}

static bool write_values(BluError *err, int fd, const char *path, const char *from, int32_t is, int64_t count, int32_t dtype) {
  enum { BLOCK = 4096 };
  float some[BLOCK];
  for (int64_t i = 0, n; i < count; i += n) {
    n = count - i < BLOCK ? count - i : BLOCK;
    blu_raw_convert(from + i * blu_dtype_bytes(is), blu_raw_of(is), n, some, dtype, 0);
    if (!blu_file_write(err, fd, path, some, n * blu_dtype_bytes(dtype))) return false;
  }
  return true;
}

static bool write_tensor(BluError *err, int fd, const char *path, const BluArena *arena, const BluSlot *slot, bool transposed, int32_t dtype) {
  const char *from = arena->base + slot->offset;
  if (!transposed) return write_values(err, fd, path, from, slot->dtype, blu_slot_count(slot), dtype);
  int64_t rows = slot->dim[0], columns = slot->dim[1], wide = blu_dtype_bytes(slot->dtype);
  char *turned = blu_new(rows * columns, (size_t)wide);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) memcpy(turned + (j * rows + i) * wide, from + (i * columns + j) * wide, (size_t)wide);
  bool good = write_values(err, fd, path, turned, slot->dtype, rows * columns, dtype);
  free(turned);
  return good;
}

static bool write_padding(BluError *err, int fd, const char *path, int64_t count, int32_t dtype) {
  static const float zeros[256];
  for (int64_t i = 0, n; i < count; i += n) {
    n = count - i < 256 ? count - i : 256;
    if (!blu_file_write(err, fd, path, zeros, n * blu_dtype_bytes(dtype))) return false;
  }
  return true;
}

static bool write_all(BluError *err, int fd, const char *path, const BluProgram *program, const BluArena *arena, int32_t dtype,
                      const int64_t size[FIELDS]) {
  int32_t header[BLU_LLMC_HEADER / sizeof(int32_t)] = {MAGIC, dtype == BLU_DTYPE_F32 ? VERSION_F32 : VERSION_BF16};
  for (int i = MAX_T; i < FIELDS; i++) {
    if (size[i] > INT32_MAX) return blu_error_set(err, "--format llmc: a size of %" PRId64 " doesn't go into its header", size[i]);
    header[i] = (int32_t)size[i];
  }
  bool good = blu_file_write(err, fd, path, header, sizeof header);
  for (int kind = 0; kind < KINDS; kind++) {
    for (int64_t layer = 0; good && layer < (is_of_layer(kind) ? size[LAYERS] : 1); layer++)
      good = write_tensor(err, fd, path, arena, param_of(program, kind, layer), kinds[kind].rows != 0, dtype);
    if (good && kind == WTE) good = write_padding(err, fd, path, (size[PADDED] - size[VOCABULARY]) * size[WIDTH], dtype);
  }
  return good;
}

bool blu_llmc_write(BluError *err, const char *path, const BluProgram *program, const BluArena *arena, int32_t dtype, int64_t heads) {
  int64_t size[FIELDS] = {0};
  int fd;
  if (!sizes_of(err, program, heads, size) || !blu_file_create(err, path, &fd)) return false;
  if (write_all(err, fd, path, program, arena, dtype, size)) return blu_file_close(err, fd, path);
  close(fd);
  return false;
}
