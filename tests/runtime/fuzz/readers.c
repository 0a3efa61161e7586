/* readers.c - every reader of files, one at a time, on bytes of any kind. FUZZ_READER picks one for libFuzzer; without
 * it, main runs the files of the corpus: readers FOLDER..., each folder called like its reader.
 *
 * A reader may refuse; what it accepts must lie inside the bytes, which the sanitizers check by reading all of it. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data_internal.h"
#include "tokenizer/tokenizer_internal.h"
#include "transfer_internal.h"
#include "unit.h"

static const BluSlot label = {.name = "label", .dtype = BLU_DTYPE_I32, .rank = 1, .dim = {1}, .bound = 10};

static void look_at(const BluArray *array) {
  BluError err;
  char text[200];
  BluSlot row = {.name = "row", .dtype = BLU_DTYPE_F32, .rank = 2, .dim = {1, blu_array_row(array)}};
  blu_array_type(array, text);
  if (array->rank < 1) return;
  if (blu_array_fits(array, &row)) blu_array_check(&err, array, &row);
  if (blu_array_fits(array, &label)) blu_array_check(&err, array, &label);
}

static void read_idx(const uint8_t *bytes, int64_t size) {
  BluError err;
  BluArray array;
  if (blu_idx_parse(&err, "file", bytes, size, &array)) look_at(&array);
}

static void read_npy(const uint8_t *bytes, int64_t size) {
  BluError err;
  BluArray array;
  if (blu_npy_parse(&err, "file", bytes, size, &array)) look_at(&array);
}

static void read_csv(const uint8_t *bytes, int64_t size) {
  BluError err;
  BluCsv csv;
  if (!blu_csv_parse(&err, "file", bytes, size, &csv)) return;
  BluArray array = {.path = "file", .value = csv.value, .raw = BLU_RAW_F64, .rank = 2, .dim = {csv.rows, csv.columns},
                    .stride = csv.columns, .first_line = csv.first_line};
  look_at(&array);
  blu_csv_free(&csv);
}

static void read_shard(const uint8_t *bytes, int64_t size) {
  BluError err;
  BluShard shard;
  static const int64_t widths[] = {0, 8, 16, 32};
  for (int i = 0; i < 4; i++)
    if (blu_shard_parse(&err, "file", bytes, size, widths[i], &shard))
      blu_raw_convert(shard.token, shard.raw, shard.count, NULL, BLU_DTYPE_I32, 1000);
}

static void read_gzip(const uint8_t *bytes, int64_t size) {
  BluError err;
  uint8_t *data;
  int64_t data_size;
  if (blu_bytes_inflate(&err, "file", bytes, size, &data, &data_size)) blu_file_hash(data, data_size);
  free(data);
}

/* The first 8 bytes are those of the file, as safetensors.c reads them. */
static void read_safetensors(const uint8_t *bytes, int64_t size) {
  BluError err;
  BluSafetensors file;
  uint64_t header = 0;
  if (size < 8) return;
  memcpy(&header, bytes, 8);
  if (header > (uint64_t)size - 8) return;
  int64_t length = (int64_t)header;
  if (!blu_safetensors_parse(&err, &file, "file", (const char *)bytes + 8, length, size - 8 - length)) return;
  for (int64_t i = 0; i < file.tensors; i++)
    blu_file_hash(bytes + file.data_start + file.tensor[i].offset, file.tensor[i].bytes);
  blu_safetensors_close(&file);
}

/* The index of a checkpoint in several files. */
static void read_index(const uint8_t *bytes, int64_t size) {
  BluError err;
  BluSafetensorsIndex index;
  size_t length = 0;
  if (!blu_safetensors_index(&err, &index, "file", (const char *)bytes, size)) return;
  for (int64_t i = 0; i < index.places; i++) length += strlen(index.place[i].name) + strlen(index.place[i].file);
  CHECK(length <= (size_t)size, "names of %zu bytes in %lld", length, (long long)size);
  blu_safetensors_index_close(&index);
}

/* A checkpoint of llm.c, whose size is that of the bytes. */
static void read_llmc(const uint8_t *bytes, int64_t size) {
  BluError err;
  BluWeights weights = {0};
  if (size < BLU_LLMC_HEADER) return;
  if (blu_llmc_parse(&err, &weights, "file", bytes, size))
    for (int64_t i = 0; i < weights.weights; i++) blu_file_hash(bytes + weights.weight[i].slot.offset, weights.weight[i].slot.bytes);
  blu_weights_close(&weights);
}

/* The configuration of an adapter. */
static void read_peft(const uint8_t *bytes, int64_t size) {
  BluError err;
  double scale;
  if (blu_peft_config(&err, "file", (const char *)bytes, size, &scale)) CHECK(isfinite(scale), "the scale is %g", scale);
}

/* The text of checkpoints and of data arguments. */
static void read_text(const uint8_t *bytes, int64_t size) {
  static const char *const keys[] = {"step", "best", "run.lr", "check"};
  char *text = blu_new(size + 1, 1), value[32];
  int64_t whole;
  double real;
  memcpy(text, bytes, (size_t)size);
  for (int i = 0; i < 4; i++)
    if (blu_text_value(text, keys[i], value, sizeof value)) blu_text_int(value, &whole), blu_text_double(value, &real);
  free(text);
}

/* A tokenizer.json, which then encodes itself and a little more; or, from a '#' on, the merges of a pair of files. */
static void read_tokenizer(const uint8_t *bytes, int64_t size) {
  static const char ids[] = "{\"a\":0,\"b\":1,\"ab\":2,\"aba\":3,\"\u0120\":4,\"\u0120a\":5}";
  static const char text[] = "ab ba  <s>\n\xe2\x96\x81 1\x65\xcc\x81\xff''S <mask> "
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbaaaaaaaaaaaaaaaaaaaaabababab";
  BluError err;
  const char *data = (const char *)bytes;
  BluTokenizer *t = size && *data == '#' ? blu_tokenizer_parse_pair(&err, "file", data, size, "ids", ids, (int64_t)strlen(ids))
                                         : blu_tokenizer_parse(&err, "file", data, size);
  if (!t) return;
  BluIds made = {0};
  blu_tokenizer_encode(&err, t, data, size, false, &made);
  blu_tokenizer_encode(&err, t, text, (int64_t)strlen(text), true, &made);
  for (int64_t i = 0, n; i < made.ids; i++) {
    const char *part = blu_tokenizer_text(t, made.id[i], &n);
    if (part) blu_file_hash(part, n);
  }
  blu_tokenizer_prefix(t, &made.ids);
  blu_tokenizer_separator(t);
  free(made.id);
  blu_tokenizer_free(t);
}

/* The first line is a pattern, the rest what is looked through; both are normalised, too. */
static void read_pattern(const uint8_t *bytes, int64_t size) {
  BluError err;
  const char *data = (const char *)bytes, *line = size ? memchr(data, '\n', (size_t)size) : NULL;
  int64_t first = line ? line - data : size;
  BluText made = {0};
  blu_code_normalise(&made, data, size, BLU_FORM_NFC);
  blu_code_normalise(&made, data, size, BLU_FORM_NFD);
  free(made.text);
  BluPattern *pattern = blu_pattern_compile(&err, data, first);
  int64_t a = 0, b = first;
  while (pattern && b < size && blu_pattern_find(pattern, data, size, b, &a, &b) == 1)
    if (b <= a) abort(); /* it must go on */
  blu_pattern_free(pattern);
}

static const struct {
  const char *name;
  void (*read)(const uint8_t *bytes, int64_t size);
} readers[] = {{"idx", read_idx},     {"npy", read_npy},   {"csv", read_csv},   {"shard", read_shard},
               {"gzip", read_gzip},   {"safetensors", read_safetensors},       {"text", read_text},
               {"tokenizer", read_tokenizer}, {"pattern", read_pattern}, {"index", read_index}, {"llmc", read_llmc}, {"peft", read_peft}};
enum { READERS = sizeof readers / sizeof *readers };

#ifdef FUZZ_READER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  for (int i = 0; i < READERS; i++)
    if (!strcmp(readers[i].name, FUZZ_READER)) readers[i].read(data, (int64_t)size);
  (void)unit_verdict;
  return 0;
}

#else

/* The whole file, each of its beginnings, and it with single bits changed. */
static void try_file(int reader, const char *path) {
  static uint8_t data[1 << 16];
  FILE *file = fopen(path, "rb");
  CHECK(file, "%s", path);
  if (!file) return;
  size_t size = fread(data, 1, sizeof data, file);
  fclose(file);
  for (size_t cut = 0; cut <= size; cut++) {
    uint8_t *copy = malloc(cut + !cut); /* exactly as long as it is, for the address sanitizer */
    memcpy(copy, data, cut);
    readers[reader].read(copy, (int64_t)cut);
    free(copy);
  }
  for (size_t at = 0; at < size; at++) {
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    copy[at] ^= (uint8_t)(1 << at % 8);
    readers[reader].read(copy, (int64_t)size);
    free(copy);
  }
}

static void try_folder(const char *folder) {
  const char *name = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder;
  int reader = 0, files = 0;
  while (reader < READERS && strcmp(readers[reader].name, name)) reader++;
  DIR *dir = opendir(folder);
  CHECK(reader < READERS && dir, "%s: no such reader or folder", folder);
  if (reader == READERS || !dir) return;
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    char *path = blu_text_path(folder, entry->d_name);
    try_file(reader, path);
    free(path);
    files++;
  }
  closedir(dir);
  CHECK(files > 0, "%s is empty", folder);
}

int main(int arguments, char **argument) {
  for (int i = 1; i < arguments; i++) try_folder(argument[i]);
  return unit_verdict();
}

#endif
