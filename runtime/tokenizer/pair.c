/* pair.c - GPT-2's pair of files: vocab.bpe has a line for each merge, behind one that says its version; encoder.json has an id for each token.
 * Hugging Face calls them merges.txt and vocab.json. And which of the files that a tokenizer may be in are there. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../data_internal.h"
#include "tokenizer_internal.h"

/* Each line "A B"; the last may lack its end. */
static bool read_lines(BluError *err, BluTokenizer *t, const char *path, const char *at, const char *end) {
  int64_t line = 0, rank = 0;
  for (const char *next; at < end; at = next) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    next = stop ? stop + 1 : end;
    if (!stop) stop = end;
    line++;
    if ((line == 1 && stop - at >= 9 && !memcmp(at, "#version:", 9)) || stop == at) continue;
    const char *blank = memchr(at, ' ', (size_t)(stop - at));
    if (!blank || memchr(blank + 1, ' ', (size_t)(stop - blank - 1)))
      return blu_error_set(err, "%s:%lld: not a merge: two tokens with a blank between", path, (long long)line);
    if (!blu_read_merge(err, t, path, at, blank - at, blank + 1, stop - blank - 1, rank++)) return false;
  }
  return rank > 0 || blu_error_set(err, "%s: it has no merges", path);
}

static bool read_pair(BluError *err, BluTokenizer *t, const BluJson *json, const char *merges_path, const char *merges, int64_t bytes, const char *ids_path) {
  static const char end[] = "<|endoftext|>";
  if (json->node->kind != BLU_JSON_OBJECT) return blu_error_set(err, "%s: not a vocabulary: an object with an id for each token", ids_path);
  int64_t lines = 1;
  for (int64_t i = 0; i < bytes; i++) lines += merges[i] == '\n';
  BluPattern *pattern = blu_pattern_compile(err, blu_gpt2_pattern, (int64_t)strlen(blu_gpt2_pattern));
  if (!pattern) return false;
  t->stage[t->stages++] = (BluStage){.kind = BLU_STAGE_CUT, .pattern = pattern};
  t->byte_level = true;
  if (!blu_read_names(err, t, ids_path, json, json->node, lines, 0) || !read_lines(err, t, merges_path, merges, merges + bytes)) return false;
  int32_t id = blu_bpe_find(t, end, (int64_t)strlen(end));
  if (id != BLU_NO_ID && !blu_read_added(err, t, ids_path, end, (int64_t)strlen(end), (BluAdded){.id = id, .special = true})) return false;
  blu_read_finish(t);
  return true;
}

BluTokenizer *blu_tokenizer_parse_pair(BluError *err, const char *merges_path, const char *merges, int64_t merges_bytes, const char *ids_path,
                                       const char *ids, int64_t ids_bytes) {
  BluJson json;
  if (!blu_json_parse(err, &json, ids_path, ids, ids_bytes)) return NULL;
  BluTokenizer *t = blu_tokenizer_new();
  bool good = read_pair(err, t, &json, merges_path, merges, merges_bytes, ids_path);
  blu_json_free(&json);
  if (!good) blu_tokenizer_free(t);
  return good ? t : NULL;
}

static bool exists(const char *path) {
  struct stat info;
  return !stat(path, &info);
}

static BluTokenizer *open_pair(BluError *err, const char *merges, const char *ids) {
  BluBytes m = {0}, i = {0};
  BluTokenizer *t = NULL;
  enum { SECONDS = 30 };
  if (blu_bytes_open(err, &m, merges, SECONDS) && blu_bytes_open(err, &i, ids, SECONDS))
    t = blu_tokenizer_parse_pair(err, merges, (const char *)m.data, m.size, ids, (const char *)i.data, i.size);
  blu_bytes_close(&m);
  blu_bytes_close(&i);
  return t;
}

BluTokenizer *blu_tokenizer_open(BluError *err, const char *path) {
  static const struct { const char *merges, *ids; } pairs[] = {{"vocab.bpe", "encoder.json"}, {"merges.txt", "vocab.json"}};
  struct stat info;
  bool folder = !stat(path, &info) && S_ISDIR(info.st_mode);
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char *dir = folder ? blu_text_path("", path) : blu_text_print("%.*s", slash ? (int)(slash - path + 1) : 0, path);
  char *file = folder ? blu_text_path(path, "tokenizer.json") : blu_text_path("", path);
  BluTokenizer *t = NULL;
  bool done = false;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs && !done; i++) {
    char *merges = blu_text_path(dir, pairs[i].merges), *ids = blu_text_path(dir, pairs[i].ids);
    done = folder ? !exists(file) && exists(merges) && exists(ids) : !strcmp(name, pairs[i].merges);
    if (done) t = open_pair(err, merges, ids);
    free(merges);
    free(ids);
  }
  if (!done && folder && !exists(file))
    done = true, blu_error_set(err, "%s: the folder has no tokenizer.json, no vocab.bpe with encoder.json and no merges.txt with vocab.json", path);
  BluBytes bytes = {0};
  if (!done && blu_bytes_open(err, &bytes, file, 30)) t = blu_tokenizer_parse(err, file, (const char *)bytes.data, bytes.size);
  if (!done) blu_bytes_close(&bytes);
  free(file);
  free(dir);
  return t;
}
