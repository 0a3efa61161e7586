/* file.c - files and folders that are whole on the disk when a call returns true. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "runtime_internal.h"

static bool fail(BluError *err, const char *verb, const char *path) {
  return blu_error_set(err, "cannot %s %s: %s", verb, path, strerror(errno));
}

bool blu_file_write(BluError *err, int fd, const char *path, const void *data, int64_t bytes) {
  const char *from = data;
  while (bytes > 0) {
    ssize_t written = write(fd, from, (size_t)bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(err, "write", path);
    from += written;
    bytes -= written;
  }
  return true;
}

bool blu_file_read(BluError *err, int fd, const char *path, void *data, int64_t bytes, int64_t offset) {
  char *to = data;
  while (bytes > 0) {
    ssize_t got = pread(fd, to, (size_t)bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(err, "read", path);
    if (!got) return blu_error_set(err, "%s: the file ends %lld bytes too early", path, (long long)bytes);
    to += got;
    bytes -= got;
    offset += got;
  }
  return true;
}

bool blu_file_sync(BluError *err, const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(err, "open", path);
  bool good = !fsync(fd) || fail(err, "sync", path);
  close(fd);
  return good;
}

bool blu_file_create(BluError *err, const char *path, int *fd) {
  *fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return *fd >= 0 || fail(err, "create", path);
}

bool blu_file_close(BluError *err, int fd, const char *path) {
  bool good = !fsync(fd) || fail(err, "sync", path);
  if (close(fd) && good) good = fail(err, "write", path);
  return good;
}

char *blu_file_text(BluError *err, const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  char *text = NULL;
  if (fd < 0 || fstat(fd, &info)) fail(err, "read", path);
  else if (info.st_size > 1 << 20) blu_error_set(err, "%s: too long for what it should hold", path);
  else {
    text = blu_new(info.st_size + 1, 1);
    bool good = blu_file_read(err, fd, path, text, info.st_size, 0);
    if (good && memchr(text, 0, (size_t)info.st_size)) good = blu_error_set(err, "%s: not a text file", path);
    if (!good) free(text), text = NULL;
  }
  if (fd >= 0) close(fd);
  return text;
}

static const uint64_t prime = 0x9e3779b97f4a7c15u;
typedef struct { uint64_t lane[4]; } Hash;

/* Four lanes of words: every step is a permutation of the lane for a given word and of the word for a given lane, so
 * that any single change shows. All parts but the last are whole steps. */
static void hash_more(Hash *h, const char *from, int64_t bytes) {
  uint64_t word[4];
  for (int64_t at = 0; at < bytes; at += (int64_t)sizeof word) {
    int64_t left = bytes - at < (int64_t)sizeof word ? bytes - at : (int64_t)sizeof word;
    memset(word, 0, sizeof word);
    memcpy(word, from + at, (size_t)left);
    for (int i = 0; i < 4; i++) {
      h->lane[i] = (h->lane[i] ^ word[i]) * prime;
      h->lane[i] ^= h->lane[i] >> 32;
    }
  }
}

static uint64_t hash_end(const Hash *h, int64_t bytes) {
  uint64_t hash = (uint64_t)bytes;
  for (int i = 0; i < 4; i++) hash = (hash ^ h->lane[i]) * prime, hash ^= hash >> 29;
  return hash;
}

uint64_t blu_file_hash(const void *data, int64_t bytes) {
  Hash h = {{1, 2, 3, 4}};
  hash_more(&h, data, bytes);
  return hash_end(&h, bytes);
}

/* Read in parts: pages of a mapped file would count as memory of the process, beside what `info` says. */
bool blu_file_check(BluError *err, const char *path, uint64_t *check) {
  char part[1 << 15];
  Hash h = {{1, 2, 3, 4}};
  int64_t all = 0, size = sizeof part;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  bool good = fd >= 0;
  *check = 0;
  while (good && size == (int64_t)sizeof part) {
    ssize_t n = 1;
    for (size = 0; n && size < (int64_t)sizeof part;) {
      n = read(fd, part + size, sizeof part - (size_t)size);
      if (n > 0) size += n;
      else if (n < 0 && errno != EINTR) break;
    }
    good = n >= 0;
    if (good) hash_more(&h, part, size), all += size;
  }
  if (good) *check = hash_end(&h, all);
  else fail(err, "read", path);
  if (fd >= 0) close(fd);
  return good;
}

bool blu_file_folder(BluError *err, const char *path) {
  char *part = blu_text_path("", path);
  bool good = true;
  for (char *slash = part; good && slash;) {
    slash = strchr(slash + 1, '/');
    if (slash) *slash = 0;
    good = !mkdir(part, 0777) || errno == EEXIST || fail(err, "create folder", path);
    if (slash) *slash = '/';
  }
  struct stat info;
  if (good && (stat(path, &info) || !S_ISDIR(info.st_mode))) good = blu_error_set(err, "%s is not a folder", path);
  free(part);
  return good;
}

void blu_file_remove_folder(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    char *file = blu_text_path(path, entry->d_name);
    unlink(file);
    free(file);
  }
  closedir(folder);
  rmdir(path);
}

/* Locks the open file; false, with who has it, if another process has. The file may have been removed by its owner
 * between our opening and locking it: then *again. */
static bool take_lock(BluError *err, int fd, const char *path, bool *again) {
  char owner[200] = "";
  struct stat ours, there;
  *again = false;
  if (flock(fd, LOCK_EX | LOCK_NB)) {
    if (errno != EWOULDBLOCK) return fail(err, "lock", path);
    ssize_t length = pread(fd, owner, sizeof owner - 1, 0);
    owner[length > 0 ? length : 0] = 0;
    owner[strcspn(owner, "\n")] = 0;
    return blu_error_set(err, "%s: another trainer is writing to this folder (%s)", path,
                         owner[0] ? owner : "it is just starting");
  }
  *again = fstat(fd, &ours) || stat(path, &there) || ours.st_ino != there.st_ino || ours.st_dev != there.st_dev;
  return true;
}

int blu_file_lock(BluError *err, const char *out) {
  char *path = blu_text_path(out, "lock");
  int fd = -1;
  bool good = true, again = true;
  while (good && again) {
    if (fd >= 0) close(fd);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    good = fd >= 0 ? take_lock(err, fd, path, &again) : fail(err, "create", path);
  }
  if (good) {
    struct utsname host;
    char owner[200];
    uname(&host);
    snprintf(owner, sizeof owner, "process %ld on %.100s\n", (long)getpid(), host.nodename);
    good = !ftruncate(fd, 0) || fail(err, "write", path);
    if (good) good = blu_file_write(err, fd, path, owner, (int64_t)strlen(owner));
  }
  if (!good && fd >= 0) close(fd);
  free(path);
  return good ? fd : -1;
}

void blu_file_unlock(int lock, const char *out) {
  if (lock < 0) return;
  char *path = blu_text_path(out, "lock");
  unlink(path);
  close(lock);
  free(path);
}
