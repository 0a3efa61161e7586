/* weights.c - what is put into a trainer as it is. The file of `--embed`: its tensors against the program's, by the reader that the trainer
 * will use; and the tokenizer of `--tokenizer`, likewise. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "codegen/codegen.h"
#include "dialects/memory.h"
#include "runtime/safetensors.h"
#include "runtime/tokenizer.h"

/* Code of the small model reaches 2 GiB; the rest of the program is far smaller than what is left. */
enum { MOST_BYTES = 2040 << 20 };

static int32_t dtype_of(BluElem e) {
  static const int32_t dtypes[BLU_ELEMS] = {[BLU_F32] = BLU_DTYPE_F32, [BLU_F64] = BLU_DTYPE_F64, [BLU_I32] = BLU_DTYPE_I32,
                                            [BLU_I64] = BLU_DTYPE_I64, [BLU_U8] = BLU_DTYPE_U8,   [BLU_BOOL] = BLU_DTYPE_BOOL,
                                            [BLU_BF16] = BLU_DTYPE_BF16, [BLU_F16] = BLU_DTYPE_F16};
  return dtypes[e];
}

/* The parameters and states that @init makes, as the trainer will have them. */
static BluProgram tensors_of(MlirModule planned) {
  BluProgram program = {0};
  MlirOperation init = blu_func_find(planned, "init");
  int n = mlirOperationIsNull(init) ? 0 : blu_func_nresults(init);
  BluSlot *slots = blu_alloc_zeroed((size_t)n + 1, sizeof *slots);
  for (int i = 0; i < n; i++) {
    BluPort p = blu_func_result(init, i);
    BluSlot *slot = &slots[program.tensors++];
    *slot = (BluSlot){.name = p.name, .role = strcmp(p.role, "param") ? BLU_ROLE_STATE : BLU_ROLE_PARAM, .dtype = dtype_of(p.type.elem),
                      .rank = p.type.rank};
    memcpy(slot->dim, p.type.dim, (size_t)p.type.rank * sizeof *slot->dim);
  }
  program.tensor = slots;
  return program;
}

static uint64_t hash_of(const unsigned char *bytes, int64_t n) { /* FNV-1a of words, and of what is left */
  uint64_t h = 0xcbf29ce484222325u, word;
  for (; n >= 8; bytes += 8, n -= 8) memcpy(&word, bytes, 8), h = (h ^ word) * 0x100000001b3u, h ^= h >> 29;
  for (; n > 0; n--) h = (h ^ *bytes++) * 0x100000001b3u;
  return h;
}

static bool check(BluError *err, const char *path, MlirModule planned, const BluSafetensors *file, int fd, int64_t *bytes, uint64_t *hash) {
  struct stat info;
  if (fstat(fd, &info)) return blu_error_set(err, "%s: can't be read", path);
  *bytes = info.st_size;
  if (*bytes > MOST_BYTES)
    return blu_error_set(err, "%s: %lld bytes, and a program can hold %d; the trainer's `import` takes larger files", path, (long long)*bytes, MOST_BYTES);
  BluProgram program = tensors_of(planned);
  blu_error_set(err, "%s: these are not the tensors of this program:", path);
  bool good = !blu_safetensors_differences(err, &program, BLU_PICK_MODEL, file, "the file");
  free((void *)program.tensor);
  if (!good) return false;
  void *map = mmap(NULL, (size_t)*bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) return blu_error_set(err, "%s: can't be mapped", path);
  *hash = hash_of(map, *bytes);
  munmap(map, (size_t)*bytes);
  return true;
}

int blu_weights_open(const char *path, MlirModule planned, int64_t *bytes, uint64_t *hash, char **error) {
  BluError err;
  BluSafetensors file;
  int fd;
  if (blu_safetensors_open(&err, &file, path, &fd)) {
    bool good = check(&err, path, planned, &file, fd, bytes, hash);
    blu_safetensors_close(&file);
    if (good) return fd;
    close(fd);
  }
  *error = strdup(err.text);
  return -1;
}

/* ---- the file of --tokenizer ---- */

static bool check_tokenizer(BluError *err, const char *path, MlirModule planned, int fd, int64_t *bytes) {
  struct stat info;
  int64_t vocabulary = blu_program_vocabulary(planned);
  if (!vocabulary) return blu_error_set(err, "%s: this program has no entry to sample from: `entry decode(token: i32[1], at: i32) -> float[1, V]`", path);
  if (fstat(fd, &info) || !S_ISREG(info.st_mode)) return blu_error_set(err, "%s: not a file that can be read", path);
  *bytes = info.st_size;
  if (!*bytes || *bytes > MOST_BYTES / 2) return blu_error_set(err, "%s: %lld bytes are no tokenizer", path, (long long)*bytes);
  void *map = mmap(NULL, (size_t)*bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) return blu_error_set(err, "%s: can't be mapped", path);
  BluTokenizer *t = blu_tokenizer_parse(err, path, map, *bytes);
  munmap(map, (size_t)*bytes);
  bool good = t && (blu_tokenizer_count(t) <= vocabulary || blu_error_set(err, "%s: it has %lld tokens, but this program knows %lld", path,
                                                                          (long long)blu_tokenizer_count(t), (long long)vocabulary));
  blu_tokenizer_free(t);
  return good;
}

int blu_tokenizer_attach(const char *path, MlirModule planned, int64_t *bytes, char **error) {
  BluError err;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) blu_error_set(&err, "cannot open %s: %s", path, strerror(errno));
  else if (check_tokenizer(&err, path, planned, fd, bytes)) return fd;
  else close(fd);
  *error = strdup(err.text);
  return -1;
}
