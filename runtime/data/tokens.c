/* tokens.c - long rows of tokens: text files as their bytes (source `text`), and shards of token ids (source `tokens`:
 * llm.c's uint16 and uint32 files, or bare ids as in nanoGPT's .bin). Shards are mapped, in the order of their names.
 *
 * Example i of a shard starts at its token i * T. Of the DATA slots, the first takes T tokens from there; a second one
 * of the same shape the T tokens from one further, one of rank 1 the token behind. No example spans two shards. */
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../data_internal.h"

enum { HEADER = 1024, PAGE = 4096 };

static uint32_t word_at(const uint8_t *b, int i) {
  b += 4 * i;
  return b[0] | b[1] << 8 | b[2] << 16 | (uint32_t)b[3] << 24;
}

bool blu_shard_parse(BluError *err, const char *path, const uint8_t *bytes, int64_t size, int64_t raw_bits,
                     BluShard *shard) {
  *shard = (BluShard){0};
  if (raw_bits) {
    shard->raw = raw_bits == 8 ? BLU_RAW_U8 : raw_bits == 16 ? BLU_RAW_U16 : BLU_RAW_U32;
    int64_t width = blu_raw_bytes(shard->raw);
    if (size % width)
      return blu_error_set(err, "%s: %" PRId64 " bytes are not a whole number of tokens of %" PRId64 " bytes", path, size,
                           width);
    shard->token = bytes;
    shard->count = size / width;
    return true;
  }
  if (size < HEADER)
    return blu_error_set(err, "%s: not a token shard: it has only %" PRId64 " bytes, less than the header of %d", path,
                         size, HEADER);
  uint32_t magic = word_at(bytes, 0), version = word_at(bytes, 1);
  if (magic == 20240520 && version == 1) shard->raw = BLU_RAW_U16;
  else if (magic == 20240801 && version == 7) shard->raw = BLU_RAW_U32;
  else
    return blu_error_set(err, "%s: not a token shard: it starts with magic %" PRIu32 " and version %" PRIu32 ", not "
                         "20240520 and 1 (uint16) or 20240801 and 7 (uint32); bare ids need the argument raw = 16", path,
                         magic, version);
  int64_t width = blu_raw_bytes(shard->raw);
  shard->count = word_at(bytes, 2);
  shard->token = bytes + HEADER;
  /* The count is an int32: a shard of more tokens than that says how many it has by its size alone. */
  int64_t have = size - HEADER;
  if (have % width == 0 && have / width > INT32_MAX && (uint32_t)(have / width) == (uint32_t)shard->count)
    shard->count = have / width;
  return have == shard->count * width ||
         blu_error_set(err, "%s: its header promises %" PRId64 " tokens, which take %" PRId64 " bytes with the header, "
                       "but it has %" PRId64, path, shard->count, HEADER + shard->count * width, size);
}

typedef struct {
  BluBytes bytes;
  BluShard shard;
  int64_t first; /* number of its first example */
} File;

typedef struct {
  File *file;
  int64_t files, count;    /* count: examples */
  int64_t window;          /* T */
  const BluSlot *second;   /* in the function that the split was opened for; NULL: there is none */
  char second_name[80];
} Tokens;

static int64_t tokens_count(const void *state) { return ((const Tokens *)state)->count; }

static void tokens_bytes(const void *state, int64_t *own, int64_t *mapped) {
  const Tokens *tokens = state;
  *own = *mapped = 0;
  for (int64_t i = 0; i < tokens->files; i++)
    *(tokens->file[i].bytes.map ? mapped : own) += tokens->file[i].bytes.size;
}

static bool tokens_check(BluError *err, const void *state, const BluSlot *slot) {
  const Tokens *tokens = state;
  bool second = !strcmp(slot->name, tokens->second_name);
  char type[200];
  bool whole = slot->dtype == BLU_DTYPE_U8 || slot->dtype == BLU_DTYPE_I32 || slot->dtype == BLU_DTYPE_I64;
  if (!whole || slot->rank > 2 || slot->rank < (second ? 1 : 2) || (slot->rank == 2 && slot->dim[1] != tokens->window))
    return blu_error_set(err, "tokens cannot fill '%s: %s': they are u8, i32 or i64, for [batch, %" PRId64 "]%s",
                         slot->name, blu_slot_type(slot, type), tokens->window, second ? " or [batch]" : "");
  for (int64_t i = 0; i < tokens->files; i++) {
    const File *file = &tokens->file[i];
    int64_t bad = blu_raw_convert(file->shard.token, file->shard.raw, file->shard.count, NULL, slot->dtype, slot->bound);
    if (bad >= 0) {
      char value[40];
      blu_raw_print(file->shard.token + bad * blu_raw_bytes(file->shard.raw), file->shard.raw, value);
      return blu_error_set(err, "%s: the token at offset %" PRId64 " is %s, but '%s' must be less than %" PRId64,
                           file->bytes.path, bad, value, slot->name,
                           slot->bound > 0 ? slot->bound : slot->dtype == BLU_DTYPE_U8 ? 256 : (int64_t)INT32_MAX + 1);
    }
  }
  return true;
}

static const File *file_of(const Tokens *tokens, int64_t example) {
  int64_t low = 0, high = tokens->files - 1;
  while (low < high) {
    int64_t middle = (low + high + 1) / 2;
    if (tokens->file[middle].first <= example) low = middle;
    else high = middle - 1;
  }
  return &tokens->file[low];
}

static const uint8_t *place_of(const Tokens *tokens, int64_t example, BluRaw *raw) {
  const File *file = file_of(tokens, example);
  *raw = file->shard.raw;
  return file->shard.token + (example - file->first) * tokens->window * blu_raw_bytes(*raw);
}

static bool tokens_fetch(const void *state, const BluSlot *slot, char *place, const int64_t *index, int64_t rows) {
  const Tokens *tokens = state;
  bool second = !strcmp(slot->name, tokens->second_name), good = true;
  int64_t values = slot->rank == 2 ? tokens->window : 1, shift = !second ? 0 : slot->rank == 2 ? 1 : tokens->window;
  for (int64_t i = 0; i < rows; i++) {
    BluRaw raw;
    const uint8_t *from = place_of(tokens, index[i], &raw);
    char *to = place + i * values * blu_dtype_bytes(slot->dtype);
    if (blu_raw_convert(from + shift * blu_raw_bytes(raw), raw, values, to, slot->dtype, slot->bound) < 0) continue;
    memset(to, 0, (size_t)(values * blu_dtype_bytes(slot->dtype)));
    good = false;
  }
  return good;
}

static int64_t tokens_touch(const void *state, const int64_t *index, int64_t rows) {
  const Tokens *tokens = state;
  int64_t sum = 0;
  for (int64_t i = 0; i < rows; i++) {
    BluRaw raw;
    const volatile uint8_t *from = place_of(tokens, index[i], &raw);
    int64_t bytes = tokens->window * blu_raw_bytes(raw);
    for (int64_t at = 0; at < bytes; at += PAGE) sum += from[at];
  }
  return sum;
}

static bool tokens_unchanged(BluError *err, const void *state) {
  const Tokens *tokens = state;
  for (int64_t i = 0; i < tokens->files; i++)
    if (!blu_bytes_unchanged(err, &tokens->file[i].bytes)) return false;
  return true;
}

static void tokens_close(void *state) {
  Tokens *tokens = state;
  for (int64_t i = 0; i < tokens->files; i++) blu_bytes_close(&tokens->file[i].bytes);
  free(tokens->file);
  free(tokens);
}

static bool add_file(BluError *err, Tokens *tokens, const BluDataSpec *spec, const char *path, int64_t raw_bits) {
  File *file = &tokens->file[tokens->files];
  if (!blu_bytes_open(err, &file->bytes, path, spec->seconds)) return false;
  tokens->files++;
  if (!blu_shard_parse(err, path, file->bytes.data, file->bytes.size, raw_bits, &file->shard)) return false;
  file->first = tokens->count;
  if (file->shard.count > tokens->window) tokens->count += (file->shard.count - 1) / tokens->window;
  return true;
}

static bool add_files(BluError *err, Tokens *tokens, const BluDataSpec *spec, glob_t *found, int64_t raw_bits) {
  tokens->file = blu_new((int64_t)found->gl_pathc, sizeof *tokens->file);
  for (size_t i = 0; i < found->gl_pathc; i++)
    if (!add_file(err, tokens, spec, found->gl_pathv[i], raw_bits)) return false;
  return tokens->count > 0 ||
         blu_error_set(err, "%s: too few tokens for an example of %" PRId64 " and the one that follows",
                       found->gl_pathv[0], tokens->window);
}

static void find_slots(const BluDataSpec *spec, Tokens *tokens) {
  const BluSlot *first = NULL;
  tokens->window = 1;
  for (int64_t i = 0; i < spec->function->slots; i++) {
    const BluSlot *slot = &spec->function->slot[i];
    if (slot->role != BLU_ROLE_DATA) continue;
    if (!first) first = slot, tokens->window = slot->rank == 2 && slot->dim[1] > 0 ? slot->dim[1] : 1;
    else if (!tokens->second) tokens->second = slot;
  }
  if (tokens->second) snprintf(tokens->second_name, sizeof tokens->second_name, "%s", tokens->second->name);
}

/* Opens what the argument `file` or `test_file` names, which may be a pattern; `fallback` if it isn't given. */
static bool open_files(BluError *err, const BluDataSpec *spec, void **state, const char *fallback, int64_t raw_bits) {
  char name[1000];
  bool given = blu_text_value(spec->args, spec->split == BLU_SPLIT_TEST ? "test_file" : "file", name, sizeof name);
  if (!given) snprintf(name, sizeof name, "%s", fallback);
  char *pattern = blu_text_path(spec->dir, name);
  glob_t found = {0};
  *state = NULL;
  bool good = !glob(pattern, 0, NULL, &found), absent = !good && !given && spec->optional;
  if (!good) blu_error_set(err, "%s: no such file; --data DIR names the folder of the data", pattern);
  if (good) {
    Tokens *tokens = blu_new(1, sizeof *tokens);
    find_slots(spec, tokens);
    good = add_files(err, tokens, spec, &found, raw_bits);
    if (good) *state = tokens;
    else tokens_close(tokens);
  }
  globfree(&found);
  free(pattern);
  return good || absent;
}

static bool text_open(BluError *err, const BluDataSpec *spec, void **state) {
  return open_files(err, spec, state, spec->split == BLU_SPLIT_TEST ? "test.txt" : "train.txt", 8);
}

static bool shards_open(BluError *err, const BluDataSpec *spec, void **state) {
  char word[40];
  int64_t bits = 0;
  if (blu_text_value(spec->args, "raw", word, sizeof word) && (!blu_text_int(word, &bits) || (bits != 16 && bits != 32)))
    return blu_error_set(err, "the argument 'raw' of data source tokens is 16 or 32, not '%s'", word);
  return open_files(err, spec, state, spec->split == BLU_SPLIT_TEST ? "*val*.bin" : "*train*.bin", bits);
}

#define COMMON                                                                                                        \
  .count = tokens_count, .bytes = tokens_bytes, .check = tokens_check, .fetch = tokens_fetch, .touch = tokens_touch, \
  .unchanged = tokens_unchanged, .close = tokens_close

const BluDataSource blu_data_text = {.name = "text", .keys = " file test_file ", .open = text_open, COMMON};
const BluDataSource blu_data_tokens = {.name = "tokens", .keys = " file test_file raw ", .open = shards_open, COMMON};
