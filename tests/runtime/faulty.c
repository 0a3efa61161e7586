/* faulty.c - what a trainer asks of the system, wrapped by the linker (--wrap), for runs that go wrong on purpose:
 *   FAULT=kill:N   the process dies at its Nth call that changes files; of a write half is done
 *   FAULT=fail:N   that call fails, with EIO
 *   FAULT=trace    every such call goes to the file that TRACE names, a line each
 *   CLOCK=wild     the time of day jumps by years at every look; the clock that only goes forward doesn't
 *   STEPS=FILE     how many times memory was allocated from the start of the third step to that of the last one goes to FILE */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "data_internal.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the linker alone names them */

static int calls;
static atomic_int allocations;

ssize_t __real_write(int fd, const void *bytes, size_t size);
int __real_open(const char *path, int flags, ...);

static void trace(const char *line) {
  const char *path = getenv("TRACE");
  int fd = path ? __real_open(path, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
  if (fd < 0) return;
  if (__real_write(fd, line, strlen(line)) < 0) abort();
  close(fd);
}

/* Notes a call. True if it is the one that is to fail, or to be the last. */
static bool is_hit(const char *name, const char *path, bool *dies) {
  const char *fault = getenv("FAULT");
  char line[400];
  *dies = false;
  calls++;
  if (!fault) return false;
  if (!strcmp(fault, "trace")) {
    snprintf(line, sizeof line, "%d %s %s\n", calls, name, path);
    trace(line);
    return false;
  }
  *dies = !strncmp(fault, "kill:", 5);
  return atoi(fault + 5) == calls;
}

/* True: the call fails. */
static bool goes_wrong(const char *name, const char *path) {
  bool dies;
  if (!is_hit(name, path, &dies)) return false;
  if (dies) kill(getpid(), SIGKILL);
  errno = EIO;
  return true;
}

static const char *path_of(int fd, char path[static 400]) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, 399);
  path[n < 0 ? 0 : n] = 0;
  return path;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size) {
  char path[400];
  bool dies;
  if (!is_hit("write", path_of(fd, path), &dies)) return __real_write(fd, bytes, size);
  if (dies && __real_write(fd, bytes, size / 2) >= 0) kill(getpid(), SIGKILL);
  errno = EIO;
  return -1;
}

int __wrap_open(const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
  va_end(args);
  return (flags & O_CREAT) && goes_wrong("create", path) ? -1 : __real_open(path, flags, mode);
}

#define PATH_CALL(name)                                                                   \
  int __real_##name(const char *path);                                                    \
  int __wrap_##name(const char *path) { return goes_wrong(#name, path) ? -1 : __real_##name(path); }
PATH_CALL(unlink)
PATH_CALL(rmdir)

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode) { return goes_wrong("mkdir", path) ? -1 : __real_mkdir(path, mode); }

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) { return goes_wrong("rename", from) ? -1 : __real_rename(from, to); }

int __real_symlink(const char *to, const char *path);
int __wrap_symlink(const char *to, const char *path) { return goes_wrong("symlink", path) ? -1 : __real_symlink(to, path); }

int __real_fsync(int fd);
int __wrap_fsync(int fd) {
  char path[400];
  return goes_wrong("fsync", path_of(fd, path)) ? -1 : __real_fsync(fd);
}

int __real_ftruncate(int fd, off_t size);
int __wrap_ftruncate(int fd, off_t size) {
  char path[400];
  return goes_wrong("ftruncate", path_of(fd, path)) ? -1 : __real_ftruncate(fd, size);
}

int __real_fflush(FILE *file);
int __wrap_fflush(FILE *file) {
  char path[400];
  bool ours = file && file != stdout && file != stderr && fileno(file) >= 0;
  return ours && goes_wrong("flush", path_of(fileno(file), path)) ? EOF : __real_fflush(file);
}

/* --- clocks --- */

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now) {
  static atomic_int look;
  int result = __real_clock_gettime(id, now);
  if (getenv("CLOCK") && id == CLOCK_REALTIME) now->tv_sec += (atomic_fetch_add(&look, 1) % 3 - 1) * 100000000L;
  return result;
}

time_t __wrap_time(time_t *now) {
  struct timespec t;
  __wrap_clock_gettime(CLOCK_REALTIME, &t);
  if (now) *now = t.tv_sec;
  return t.tv_sec;
}

/* --- memory --- */

#define ALLOCATOR(type, name, parameters, arguments) \
  type __real_##name parameters;                     \
  type __wrap_##name parameters {                    \
    atomic_fetch_add(&allocations, 1);               \
    return __real_##name arguments;                  \
  }
ALLOCATOR(void *, malloc, (size_t size), (size))
ALLOCATOR(void *, calloc, (size_t n, size_t size), (n, size))
ALLOCATOR(void *, realloc, (void *p, size_t size), (p, size))
ALLOCATOR(int, posix_memalign, (void **p, size_t to, size_t size), (p, to, size))
ALLOCATOR(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
          (at, size, protection, flags, fd, offset))

static int steps, at_third, at_last;

static void write_steps(void) {
  char line[100];
  snprintf(line, sizeof line, "%d steps, %d allocations\n", steps, at_last - at_third);
  int fd = __real_open(getenv("STEPS"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0 || __real_write(fd, line, strlen(line)) < 0) abort();
  close(fd);
}

bool __real_blu_data_fetch(BluError *err, const BluData *data, const BluFunction *function, BluPool *pool, const int64_t *index,
                           int64_t rows);
bool __wrap_blu_data_fetch(BluError *err, const BluData *data, const BluFunction *function, BluPool *pool, const int64_t *index,
                           int64_t rows) {
  at_last = allocations;
  if (++steps == 3) at_third = at_last;
  if (steps == 1 && getenv("STEPS")) atexit(write_steps);
  return __real_blu_data_fetch(err, data, function, pool, index, rows);
}
