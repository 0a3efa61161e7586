/* tokenize.c - text files to the shards that llm.c trains on: a header of 256 int32 (magic, version, tokens) and uint16 ids, or, for
 * vocabularies beyond 65536, uint32 ids under Llama-3's magic. The data source `tokens` reads them (runtime/data/tokens.c).
 *
 * Every shard is written under another name and renamed when all are complete. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../data_internal.h"
#include "tokenizer_internal.h"

enum { HEADER = 1024, SECONDS = 30, TRAIN = 0, VALIDATION = 1 };

typedef struct {
  char *path, *fresh;
} Made;

typedef struct {
  const char *name;
  int fd;                  /* of the shard that is being written; -1: none */
  int64_t number, in_shard, tokens, files;
} Split;

typedef struct {
  BluError *err;
  const BluTokenizeOptions *o;
  BluTokenizer *t;
  BluIds ids;
  int64_t separator;       /* -1: none */
  bool wide, failed;       /* uint32; a write went wrong */
  Split split[2], *now;
  Made *made;
  int64_t mades;
  int64_t documents, chosen; /* documents so far; of them, given to validation */
  int64_t read;            /* bytes */
  double start, shown;
  FILE *out;
} Job;

/* --- shards --- */

static bool open_shard(Job *j, Split *s) {
  j->made = blu_need(realloc(j->made, (size_t)(j->mades + 1) * sizeof *j->made));
  Made *m = &j->made[j->mades];
  m->path = blu_text_print("%s%s_%06" PRId64 ".bin", j->o->output, s->name, s->number++);
  m->fresh = blu_text_print("%s.new~", m->path);
  j->mades++;
  static const char header[HEADER];
  s->in_shard = 0;
  s->files++;
  return blu_file_create(j->err, m->fresh, &s->fd) && blu_file_write(j->err, s->fd, m->fresh, header, HEADER);
}

/* The shard of a split that was opened last: where its name is. */
static const char *fresh_of(const Job *j, const Split *s) {
  char ending[32];
  snprintf(ending, sizeof ending, "%s_%06" PRId64 ".bin", s->name, s->number - 1);
  for (int64_t i = j->mades - 1; i >= 0; i--)
    if (blu_text_ends(j->made[i].path, ending) || !strcmp(j->made[i].path, ending)) return j->made[i].fresh;
  return "";
}

static bool close_shard(Job *j, Split *s) {
  if (s->fd < 0) return true;
  int32_t header[3] = {j->wide ? 20240801 : 20240520, j->wide ? 7 : 1, (int32_t)s->in_shard};
  const char *path = fresh_of(j, s);
  bool good = pwrite(s->fd, header, sizeof header, 0) == sizeof header || blu_error_set(j->err, "cannot write %s: %s", path, strerror(errno));
  if (good) good = blu_file_close(j->err, s->fd, path);
  else close(s->fd);
  s->fd = -1;
  return good;
}

static bool write_ids(Job *j, Split *s, const int32_t *id, int64_t ids) {
  enum { AT_ONCE = 1 << 14 };
  uint16_t narrow[AT_ONCE];
  while (ids > 0) {
    if (s->fd >= 0 && s->in_shard == j->o->shard_tokens && !close_shard(j, s)) return false;
    if (s->fd < 0 && !open_shard(j, s)) return false;
    int64_t n = ids < AT_ONCE ? ids : AT_ONCE;
    if (n > j->o->shard_tokens - s->in_shard) n = j->o->shard_tokens - s->in_shard;
    for (int64_t i = 0; i < n; i++) narrow[i] = (uint16_t)id[i];
    if (!blu_file_write(j->err, s->fd, fresh_of(j, s), j->wide ? (const void *)id : narrow, n * (j->wide ? 4 : 2))) return false;
    id += n, ids -= n;
    s->in_shard += n, s->tokens += n;
  }
  return true;
}

/* True if the folder holds shards of this name already. In *found the name of one; with `remove` they are removed. */
static bool shards_there(const Job *j, bool remove_them, char found[static 512]) {
  const char *slash = strrchr(j->o->output, '/'), *name = slash ? slash + 1 : j->o->output;
  char *dir = slash ? blu_text_print("%.*s", (int)(slash - j->o->output + 1), j->o->output) : blu_text_path("", ".");
  DIR *folder = opendir(dir);
  bool there = false;
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    const char *rest = strncmp(entry->d_name, name, strlen(name)) ? "" : entry->d_name + strlen(name);
    int digits = 0, end = 0;
    if (strncmp(rest, "train_", 6) && strncmp(rest, "val_", 4)) continue;
    if (sscanf(strchr(rest, '_') + 1, "%*[0-9]%n.bin%n", &digits, &end) < 0 || !end || strchr(rest, '_')[1 + end]) continue;
    there = true;
    snprintf(found, 512, "%s%s", slash ? dir : "", entry->d_name);
    if (remove_them) unlink(found);
  }
  if (folder) closedir(folder);
  free(dir);
  return there;
}

/* --- text --- */

static void show(Job *j, bool end) {
  if (j->o->quiet || !isatty(STDERR_FILENO)) return;
  double now = blu_log_now(), seconds = now - j->start;
  if (!end && now - j->shown < 0.1) return;
  j->shown = now;
  if (end) fprintf(stderr, "\r\033[K");
  else fprintf(stderr, "\r%.1f MB, %" PRId64 " tokens, %.1f MB/s\033[K", 1e-6 * (double)j->read, j->split[TRAIN].tokens + j->split[VALIDATION].tokens,
               seconds > 0 ? 1e-6 * (double)j->read / seconds : 0);
}

static void spill(BluIds *ids, void *user) {
  Job *j = user;
  if (!j->failed) j->failed = !write_ids(j, j->now, ids->id, ids->ids);
  ids->ids = 0;
  show(j, false);
}

/* A document, or its part that belongs to a split. */
static bool add_text(Job *j, int split, const char *path, const char *text, int64_t bytes, bool start) {
  j->now = &j->split[split];
  if (start && j->separator >= 0) blu_ids_add(&j->ids, (int32_t)j->separator);
  BluError why;
  if (!blu_tokenizer_encode(&why, j->t, text, bytes, j->o->ordinary, &j->ids)) return blu_error_set(j->err, "%s: %.1500s", path, why.text);
  spill(&j->ids, j);
  j->read += bytes;
  return !j->failed;
}

/* Documents go to validation evenly: after n documents, n times the share of them have. */
static bool add_document(Job *j, int split, const char *path, const char *text, int64_t bytes) {
  if (split == TRAIN) {
    j->documents++;
    if (floor((double)j->documents * j->o->share) > (double)j->chosen) split = VALIDATION, j->chosen++;
  }
  return add_text(j, split, path, text, bytes, true);
}

/* The only document: from the first line that begins in its last part on, it is validation. */
static bool add_single(Job *j, const char *path, const char *text, int64_t bytes) {
  int64_t cut = bytes - (int64_t)((double)bytes * j->o->share);
  while (cut < bytes && cut > 0 && text[cut - 1] != '\n') cut++;
  return add_text(j, TRAIN, path, text, cut, true) && (cut == bytes || add_text(j, VALIDATION, path, text + cut, bytes - cut, false));
}

static bool add_file(Job *j, int split, const char *path) {
  BluBytes file = {0};
  const char *name = strcmp(path, "-") ? path : "/dev/stdin";
  bool good = blu_bytes_open(j->err, &file, name, SECONDS);
  if (good && !file.size) return blu_bytes_close(&file), true;
  const char *text = (const char *)file.data, *end = text + file.size;
  if (good && j->o->document == BLU_DOCUMENT_LINE) {
    for (const char *next; good && text < end; text = next) {
      const char *stop = memchr(text, '\n', (size_t)(end - text));
      next = stop ? stop + 1 : end;
      if (!stop) stop = end;
      if (stop > text && stop[-1] == '\r') stop--;
      if (stop > text) good = add_document(j, split, path, text, stop - text);
    }
  } else if (good && split == TRAIN && j->o->texts == 1 && j->o->share > 0) {
    good = add_single(j, path, text, file.size);
  } else if (good) {
    good = add_document(j, split, path, text, file.size);
  }
  if (good) good = blu_bytes_unchanged(j->err, &file);
  blu_bytes_close(&file);
  return good;
}

/* --- the whole --- */

static bool find_separator(Job *j) {
  const char *name = j->o->separator;
  j->separator = !name ? blu_tokenizer_separator(j->t) : *name ? blu_tokenizer_find(j->t, name) : -1;
  return !name || !*name || j->separator >= 0 || blu_error_set(j->err, "%s: no token is '%s'", j->o->tokenizer, name);
}

static bool prepare(Job *j) {
  char found[512];
  const char *slash = strrchr(j->o->output, '/');
  if (!find_separator(j)) return false;
  j->wide = blu_tokenizer_count(j->t) > 1 << 16;
  if (slash && slash > j->o->output) {
    char *dir = blu_text_print("%.*s", (int)(slash - j->o->output), j->o->output);
    bool good = blu_file_folder(j->err, dir);
    free(dir);
    if (!good) return false;
  }
  return j->o->overwrite || !shards_there(j, false, found) || blu_error_set(j->err, "%s is there already; --overwrite replaces such files", found);
}

static bool run(Job *j) {
  for (int i = 0; i < j->o->texts; i++)
    if (!add_file(j, TRAIN, j->o->text[i])) return false;
  for (int i = 0; i < j->o->validations; i++)
    if (!add_file(j, VALIDATION, j->o->validation[i])) return false;
  if (!close_shard(j, &j->split[TRAIN]) || !close_shard(j, &j->split[VALIDATION])) return false;
  if (!j->split[TRAIN].tokens) return blu_error_set(j->err, "there is no text to train on");
  return true;
}

static bool publish(Job *j) {
  char found[512];
  if (j->o->overwrite) shards_there(j, true, found);
  for (int64_t i = 0; i < j->mades; i++)
    if (rename(j->made[i].fresh, j->made[i].path)) return blu_error_set(j->err, "cannot write %s: %s", j->made[i].path, strerror(errno));
  return true;
}

static void report(const Job *j) {
  for (int i = 0; i < 2; i++) {
    const Split *s = &j->split[i];
    if (s->files)
      fprintf(j->out, "%s%s_*.bin: %" PRId64 " tokens of %d bits in %" PRId64 " file%s\n", j->o->output, s->name, s->tokens, j->wide ? 32 : 16, s->files,
              s->files == 1 ? "" : "s");
  }
  fprintf(j->out, "vocabulary: %" PRId64 " ids\n", blu_tokenizer_count(j->t));
  if (j->separator < 0) fprintf(j->out, "no token stands between documents\n");
}

bool blu_tokenize_run(BluError *err, const BluTokenizeOptions *options, FILE *out) {
  Job j = {.err = err, .o = options, .t = blu_tokenizer_open(err, options->tokenizer), .start = blu_log_now(), .out = out,
           .split = {[TRAIN] = {.name = "train", .fd = -1, .number = 1}, [VALIDATION] = {.name = "val", .fd = -1}}};
  if (!j.t) return false;
  j.ids.spill = spill, j.ids.user = &j;
  bool good = prepare(&j) && run(&j) && publish(&j);
  show(&j, true);
  if (good && !options->quiet) report(&j);
  for (int i = 0; i < 2; i++)
    if (j.split[i].fd >= 0) close(j.split[i].fd);
  for (int64_t i = 0; i < j.mades; i++) {
    if (!good) unlink(j.made[i].fresh);
    free(j.made[i].path), free(j.made[i].fresh);
  }
  free(j.made);
  free(j.ids.id);
  blu_tokenizer_free(j.t);
  return good;
}
