/* runtime_test.c - the parts of the runtime that have an interface of their own: shuffle, pool, arena, host, text,
 * safetensors, checkpoint. The loop and the command line are tested from outside by e2e.sh. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data_internal.h"
#include "train_internal.h"
#include "unit.h"

/* --- shuffle --- */

static void check_permutation(int64_t count, int64_t seed, int64_t epoch) {
  BluShuffle shuffle = blu_shuffle_make(count, seed, epoch);
  char *seen = blu_new(count, 1);
  int64_t fixed = 0, bad = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = blu_shuffle_at(&shuffle, i);
    if (at < 0 || at >= count || seen[at]) bad++;
    else seen[at] = 1;
    fixed += at == i;
  }
  CHECK(!bad, "count %lld: %lld values outside or twice", (long long)count, (long long)bad);
  CHECK(count < 100 || fixed < 12, "count %lld: %lld fixed points", (long long)count, (long long)fixed);
  free(seen);
}

/* An epoch of all shards together has every example once. */
static void check_shards(int64_t count, int64_t shards, bool shuffle) {
  int64_t index[3], rows;
  char *seen = blu_new(count, 1);
  for (int64_t r = 0; r < shards; r++) {
    BluTrainer t = {.data = {.count = count, .shuffle = shuffle}, .batch = 3, .micro = 3, .accumulate = 1, .ranks = 1, .shard = r, .shards = shards,
                    .exec = {.seed = 7}};
    t.count = (count - r + shards - 1) / shards;
    t.per_epoch = (t.count + 2) / 3;
    for (int64_t step = 0; step < t.per_epoch; step++) {
      rows = blu_train_rows(&t, t.per_epoch + step, index);
      for (int64_t i = 0; i < rows; i++) seen[index[i]]++;
    }
  }
  for (int64_t i = 0; i < count; i++) CHECK(seen[i] == 1, "%lld shards: example %lld %d times", (long long)shards, (long long)i, seen[i]);
  free(seen);
}

/* The ranks of a step have its examples in order, each its micro-batches. */
static void check_parts(int64_t count, int64_t ranks, int64_t accumulate) {
  int64_t all[100], part[100], per_step = 2 * accumulate * ranks, wrong = 0;
  BluTrainer one = {.data = {.count = count, .shuffle = true}, .batch = per_step, .micro = 2, .accumulate = accumulate * ranks, .ranks = 1, .shards = 1,
                    .count = count, .per_epoch = (count + per_step - 1) / per_step};
  for (int64_t step = 0; step < 2 * one.per_epoch; step++) {
    int64_t rows = blu_train_rows(&one, step, all), seen = 0;
    for (int64_t r = 0; r < ranks; r++) {
      BluTrainer t = one;
      t.rank = r, t.ranks = ranks, t.accumulate = accumulate;
      int64_t more = blu_train_rows(&t, step, part);
      for (int64_t i = 0; i < more; i++) wrong += seen + i >= rows || all[seen + i] != part[i];
      seen += more;
    }
    wrong += seen != rows;
  }
  CHECK(!wrong, "%lld examples on %lld ranks with %lld micro-batches: %lld wrong", (long long)count, (long long)ranks, (long long)accumulate, (long long)wrong);
}

static void check_shuffle(void) {
  for (int64_t ranks = 1; ranks < 8; ranks++)
    for (int64_t accumulate = 1; accumulate < 4; accumulate++) check_parts(10, ranks, accumulate), check_parts(97, ranks, accumulate);
  static const int64_t counts[] = {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 127, 997, 1024, 4099, 60000, 65537};
  for (int64_t shards = 1; shards <= 8; shards++) check_shards(83, shards, shards % 2);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    for (int64_t seed = 0; seed < 3; seed++) check_permutation(counts[i], seed, seed + 5);
  int64_t same_epoch = 0, same_seed = 0, first_of[4] = {0};
  BluShuffle a = blu_shuffle_make(1000, 1, 0), b = blu_shuffle_make(1000, 1, 1), c = blu_shuffle_make(1000, 2, 0);
  for (int64_t i = 0; i < 1000; i++) {
    same_epoch += blu_shuffle_at(&a, i) == blu_shuffle_at(&b, i);
    same_seed += blu_shuffle_at(&a, i) == blu_shuffle_at(&c, i);
  }
  CHECK(same_epoch < 12 && same_seed < 12, "%lld and %lld equal places", (long long)same_epoch, (long long)same_seed);
  for (int64_t epoch = 0; epoch < 4000; epoch++) {
    BluShuffle s = blu_shuffle_make(4, 1, epoch);
    first_of[blu_shuffle_at(&s, 0)]++;
  }
  for (int i = 0; i < 4; i++)
    CHECK(first_of[i] > 880 && first_of[i] < 1120, "%lld times %d", (long long)first_of[i], i);
}

/* --- pool: launch i adds 1 to each of its pieces' counters; launch i + 1 must see all of them done --- */

enum { CELLS = 64, LAUNCHES = 40 };

static void bump(char *arena, const int64_t *offset, char *scratch, int64_t first, int64_t last) {
  int32_t *cell = (int32_t *)(void *)(arena + offset[0]);
  memset(scratch, (int)first, 100);
  for (int64_t i = first; i < last; i++) cell[i]++;
  for (int j = 0; j < 100; j++)
    if (scratch[j] != (char)first) cell[0] = -1000000; /* somebody else wrote into our scratch */
}

static void collect(char *arena, const int64_t *offset, char *scratch, int64_t first, int64_t last) {
  (void)scratch, (void)first, (void)last;
  const int32_t *cell = (const int32_t *)(void *)(arena + offset[0]);
  int32_t *least = (int32_t *)(void *)(arena + offset[1]);
  for (int i = 0; i < CELLS; i++)
    if (cell[i] < *least + 1) return;
  ++*least;
}

static void check_pool(void) {
  static const int64_t offset[] = {0, 4096};
  BluProgram program = {.arena_bytes = 8192, .scratch_bytes = 100};
  BluLaunch launch[LAUNCHES];
  for (int i = 0; i < LAUNCHES; i++)
    launch[i] = i % 2 ? (BluLaunch){.kernel = collect, .offset = offset, .pieces = 1}
                      : (BluLaunch){.kernel = bump, .offset = offset, .pieces = CELLS};
  for (int threads = 1; threads <= 5; threads++) {
    BluError err;
    BluArena arena;
    bool open = blu_arena_open(&err, &arena, &program, threads, INT64_MAX);
    CHECK(open, "%s", err.text);
    BluPool *pool = open ? blu_pool_open(&err, &arena, threads) : NULL;
    CHECK(pool, "%s", err.text);
    if (!pool) return;
    enum { RUNS = 50 };
    for (int run = 0; run < RUNS; run++) {
      blu_pool_run(pool, launch, LAUNCHES);
      if (run % 10 == 0) usleep(1500); /* long enough for the workers to fall asleep */
    }
    int32_t *cell = (int32_t *)(void *)arena.base;
    CHECK(cell[0] == RUNS * LAUNCHES / 2 && cell[1024] == RUNS * LAUNCHES / 2, "%d threads: %d, %d", threads, cell[0],
          cell[1024]);
    blu_pool_close(pool);
    blu_arena_close(&arena);
  }
}

/* --- arena, host, text --- */

static void check_arena(void) {
  BluError err;
  BluArena arena;
  BluProgram program = {.arena_bytes = 3 << 20, .scratch_bytes = 1000};
  CHECK(!blu_arena_open(&err, &arena, &program, 2, 3 << 20), "3 MB of arena and scratch fitted into 3 MB");
  CHECK(strstr(err.text, "3145728") && strstr(err.text, "needs 3162240 bytes"), "%s", err.text);
  bool open = blu_arena_open(&err, &arena, &program, 2, 4 << 20);
  CHECK(open, "%s", err.text);
  if (!open) return;
  CHECK((intptr_t)arena.base % (2 << 20) == 0, "arena at %p", (void *)arena.base);
  CHECK((intptr_t)arena.scratch % BLU_ABI_ALIGN == 0 && arena.scratch_stride % BLU_ABI_ALIGN == 0, "scratch");
  blu_arena_close(&arena);
}

static void check_host(void) {
  char missing[200];
  BluCpuid none = {0}, all = {~0u, ~0u, ~0u, ~(uint64_t)0}, no_os = {~0u, ~0u, ~0u, 3};
  blu_host_missing(&all, BLU_CPU_V4, missing);
  CHECK(!missing[0], "%s", missing);
  blu_host_missing(&none, BLU_CPU_V2, missing);
  CHECK(!strcmp(missing, "cx16 lahf popcnt sse3 ssse3 sse4.1 sse4.2"), "%s", missing);
  blu_host_missing(&no_os, BLU_CPU_V3, missing); /* the processor has AVX, but the system doesn't save its registers */
  CHECK(!strcmp(missing, "avx avx2 f16c fma"), "%s", missing);
  CHECK(blu_host_cpus() >= 1 && blu_host_memory(0) > 0, "%d CPUs", blu_host_cpus());
  /* What is available changes all the time. */
  CHECK(blu_host_memory(INT64_MAX / 2) / 2 <= blu_host_memory(0), "what is held counts");
}

static void check_text(void) {
  BluGuess near = {.word = "trian"}, far = {.word = "xyzzy"};
  blu_guess_add(&near, "eval"), blu_guess_add(&near, "train"), blu_guess_add(&far, "train");
  CHECK(!strcmp(blu_guess_hint(&near), ", did you mean 'train'?"), "%s", near.hint);
  CHECK(!blu_guess_hint(&far)[0], "%s", far.hint);
  char value[8];
  CHECK(blu_text_value("ab=1\na=23\n", "a", value, sizeof value) && !strcmp(value, "23"), "%s", value);
  CHECK(!blu_text_value("ab=1\n", "b", value, sizeof value), "a key inside a key");
  double number;
  CHECK(!blu_text_double("1x", &number) && !blu_text_double("", &number) && !blu_text_double("nan", &number),
        "doubles");
}

/* --- array: what goes into which slot --- */

static void check_convert(void) {
  static const int16_t small[] = {-1, 0, 7, 300};
  static const uint16_t tokens[] = {0, 1, 65535};
  static const double reals[] = {0, 2, 2.5, -1, 1e300};
  static const int32_t wide[] = {16777216, 16777217};
  int32_t whole[5];
  float real[5];
  CHECK(blu_raw_convert(small, BLU_RAW_I16, 4, whole, BLU_DTYPE_I32, 0) == -1 && whole[0] == -1 && whole[3] == 300, "i16");
  CHECK(blu_raw_convert(small, BLU_RAW_I16, 4, NULL, BLU_DTYPE_U8, 0) == 0, "-1 is no u8");
  CHECK(blu_raw_convert(small + 1, BLU_RAW_I16, 3, NULL, BLU_DTYPE_I32, 8) == 2, "300 is not below 8");
  CHECK(blu_raw_convert(tokens, BLU_RAW_U16, 3, NULL, BLU_DTYPE_I32, 65536) == -1, "every u16 is below 65536");
  CHECK(blu_raw_convert(tokens, BLU_RAW_U16, 3, NULL, BLU_DTYPE_I32, 65535) == 2, "65535 is not below 65535");
  CHECK(blu_raw_convert(tokens, BLU_RAW_U16, 3, NULL, BLU_DTYPE_BOOL, 0) == 2, "65535 is no bool");
  CHECK(blu_raw_convert(reals, BLU_RAW_F64, 5, NULL, BLU_DTYPE_I32, 0) == 2, "2.5 is no integer");
  CHECK(blu_raw_convert(reals + 4, BLU_RAW_F64, 1, NULL, BLU_DTYPE_I64, 0) == 0, "1e300 is no i64");
  CHECK(blu_raw_convert(reals, BLU_RAW_F64, 4, real, BLU_DTYPE_F32, 0) == -1 && real[2] == 2.5f, "f64 into f32");
  CHECK(blu_raw_convert(wide, BLU_RAW_I32, 2, real, BLU_DTYPE_F32, 0) == 1, "16777217 is no f32");
}

/* --- safetensors --- */

static void check_refusals(void) {
  static const struct {
    const char *header;
    int64_t data;
    const char *message; /* NULL: accepted */
  } cases[] = {
      {"{}", 0, NULL},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}   ", 4, NULL},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, NULL},
      {"{\"__metadata__\":{\"k\":\"v\\u00e9\"},\"a\":{\"data_offsets\":[0,2],\"shape\":[2],\"dtype\":\"BOOL\"}}", 2,
       NULL},
      {"{ \"b\" : {\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]} , \"a\":{\"dtype\":\"U8\",\"shape\":[1],"
       "\"data_offsets\":[0,1]}}", 2, NULL},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "'a': its shape and type"},
      {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "'a': unknown type 'F33'"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "'a': its offsets are reversed"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "'a': a shape or offset"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "'a': a shape or offset"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "'a': the header lacks a ']'"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
       "'a': its shape overflows"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}", 0, "'a': a number is too"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, "'a': there is a hole"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],"
       "\"data_offsets\":[1,3]}}", 3, "'b': it overlaps"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 3, "'a': bytes follow"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 1, "'a': it ends after"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
       "\"data_offsets\":[1,2]}}", 2, "'a': its name is given twice"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
       "'a': a field is given twice"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "'a': dtype, shape or data_offsets is missing"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "'a': data_offsets"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
       "'a': a list has too many"},
      {"{\"a\":{\"dtype\":\"U8\",\"color\":[1]}}", 1, "'a': unknown field"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[01],\"data_offsets\":[0,1]}}", 1, "'a': a number starts with 0"},
      {" {}", 0, "doesn't start with '{'"},
      {"", 0, "doesn't start with '{'"},
      {"{}x", 0, "something follows"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}", 1, "lacks a '}'"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},}", 1, "lacks a '\"'"},
      {"{\"a", 0, "lacks a '\"'"},
      {"{\"a\\", 0, "unknown escape"},
      {"{\"a\\u12", 0, "unknown escape"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t bytes = strlen(cases[i].header);
    char *header = malloc(bytes + !bytes); /* exactly as long as it is, for the address sanitizer */
    memcpy(header, cases[i].header, bytes);
    BluError err = {"accepted"};
    BluSafetensors file = {0};
    bool good = blu_safetensors_parse(&err, &file, "file", header, (int64_t)bytes, cases[i].data);
    CHECK(good == !cases[i].message && (good || strstr(err.text, cases[i].message)), "%s: %s", cases[i].header,
          err.text);
    if (good) blu_safetensors_close(&file);
    /* Cut anywhere and with any byte broken: never a crash, and what is accepted stays inside the data. */
    for (size_t cut = 0; cut < bytes; cut++) {
      char *broken = malloc(bytes);
      memcpy(broken, header, bytes);
      broken[cut] = (char)(broken[cut] ^ (1 << cut % 7));
      for (int whole = 0; whole < 2; whole++) {
        int64_t length = (int64_t)(whole ? bytes : cut);
        if (!blu_safetensors_parse(&err, &file, "file", broken, length, cases[i].data)) continue;
        for (int64_t t = 0; t < file.tensors; t++)
          CHECK(file.tensor[t].offset + file.tensor[t].bytes <= cases[i].data, "outside");
        blu_safetensors_close(&file);
      }
      free(broken);
    }
    free(header);
  }
}

/* --- checkpoint: what is saved is loaded; another table is refused with its differences --- */

static const BluSlot tensors[] = {
    {.name = "b", .role = BLU_ROLE_PARAM, .dtype = BLU_DTYPE_F32, .rank = 2, .dim = {2, 3}, .offset = 0, .bytes = 24},
    {.name = "flag", .role = BLU_ROLE_PARAM, .dtype = BLU_DTYPE_BOOL, .rank = 1, .dim = {3}, .offset = 64, .bytes = 3},
    {.name = "a", .role = BLU_ROLE_PARAM, .dtype = BLU_DTYPE_F32, .rank = 0, .offset = 128, .bytes = 4},
    {.name = "z", .role = BLU_ROLE_PARAM, .dtype = BLU_DTYPE_F64, .rank = 1, .dim = {1}, .offset = 192, .bytes = 8},
    {.name = "b:m", .role = BLU_ROLE_STATE, .dtype = BLU_DTYPE_I64, .rank = 1, .dim = {2}, .offset = 256, .bytes = 16},
};
enum { TENSORS = sizeof tensors / sizeof *tensors, BYTES = 320 };
static const BluProgram program = {.model = "test", .hash = 7, .tensor = tensors, .tensors = TENSORS};

static void check_header(const char *path) {
  static const char expected[] =
      "{\"__metadata__\":{\"format\":\"pt\"},\"z\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[8,12]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[12,36]},"
      "\"flag\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[36,39]}}";
  char text[1000] = "";
  FILE *file = fopen(path, "rb");
  CHECK(file && fread(text, 1, sizeof text - 1, file) > 8 && !fclose(file), "%s", path);
  CHECK(!strncmp(text + 8, expected, sizeof expected - 1), "%s", text + 8);
  CHECK((unsigned char)text[0] % 8 == 0, "length %d", text[0]);
}

static void check_checkpoint(const char *out) {
  char from[BYTES], to[BYTES] = {0}, *text;
  BluArena saved = {.base = from}, loaded = {.base = to};
  for (int i = 0; i < BYTES; i++) from[i] = (char)(i * 7 + 1);
  BluError err, warning;
  CHECK(blu_checkpoint_latest(out) == -1, "a checkpoint in a folder that doesn't exist");
  CHECK(blu_file_folder(&err, out), "%s", err.text);
  for (int64_t step = 5; step <= 20; step += 5)
    CHECK(blu_checkpoint_save(&err, &program, &saved, out, step, "position=3\n"), "%s", err.text);
  char *first = blu_text_path(out, "step-5"), *best = blu_text_path(out, "best");
  CHECK(blu_checkpoint_link(&err, out, 5) && !access(best, F_OK), "no link to the best");
  char *half = blu_text_path(out, "step-99.tmp"), *oldest = blu_text_path(out, "step-10");
  CHECK(!mkdir(half, 0777), "mkdir");
  CHECK(blu_checkpoint_latest(out) == 20, "a half-written checkpoint was taken for a whole one");
  blu_checkpoint_clean(out);
  blu_checkpoint_prune(out, 2, 5);
  CHECK(!access(first, F_OK), "the best was removed");
  CHECK(blu_checkpoint_link(&err, out, 6) && access(best, F_OK), "a link to a checkpoint that isn't there");
  free(first), free(best);
  CHECK(access(half, F_OK) && access(oldest, F_OK), "left: a half-written checkpoint, or more than two");
  char *folder = blu_checkpoint_path(out, 20), *model = blu_text_path(folder, "model.safetensors");
  check_header(model);
  CHECK(blu_checkpoint_load(&err, &program, &loaded, folder, true, &text, &warning), "%s", err.text);
  CHECK(!warning.text[0] && text && strstr(text, "position=3\n"), "%s", warning.text);
  free(text);
  for (int i = 0; i < TENSORS; i++)
    CHECK(!memcmp(from + tensors[i].offset, to + tensors[i].offset, (size_t)tensors[i].bytes), "%s", tensors[i].name);

  BluProgram other = program;
  other.hash = 8;
  CHECK(blu_checkpoint_load(&err, &other, &loaded, folder, true, &text, &warning) && warning.text[0], "%s", err.text);
  free(text);
  BluSlot changed[TENSORS];
  memcpy(changed, tensors, sizeof tensors);
  changed[0].dim[1] = 4;
  changed[2].name = "c";
  other.tensor = changed;
  CHECK(!blu_checkpoint_load(&err, &other, &loaded, folder, true, &text, &warning), "another table was loaded");
  CHECK(strstr(err.text, "b: f32[2,4] in the program, f32[2,3] in the checkpoint") &&
        strstr(err.text, "c: missing in the checkpoint") &&
        strstr(err.text, "a: f32[] in the checkpoint, missing in the program"), "%s", err.text);
  CHECK(!truncate(model, 300) && !blu_checkpoint_load(&err, &program, &loaded, folder, true, &text, &warning), "truncated");
  free(half), free(oldest), free(folder), free(model);
}

int main(int arguments, char **argument) {
  if (arguments != 2) return 2;
  check_shuffle();
  check_pool();
  check_arena();
  check_host();
  check_text();
  check_convert();
  check_refusals();
  check_checkpoint(argument[1]);
  return unit_verdict();
}
