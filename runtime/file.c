/* file.c - files and folders that are whole on the disk when a call returns true. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    if (!blu_file_read(err, fd, path, text, info.st_size, 0)) free(text), text = NULL;
  }
  if (fd >= 0) close(fd);
  return text;
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
