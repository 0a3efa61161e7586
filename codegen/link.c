/* link.c - objects + prelinked runtime -> one executable, without files besides the result: the inputs are memory files, and the result is
 * written beside its place and renamed. For the processor it is static, with a C library inside of the runtime; for a device it needs the
 * system's glibc, which can open the driver's library, and stubs stand for that in the link. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "codegen/codegen.h"
#include "dialects/memory.h"

/* embed.c: the runtime, prelinked with the C library when Blu was built, and the C library's last object. */
extern const char blu_runtime_object[], blu_runtime_object_end[], blu_crtn_object[], blu_crtn_object_end[];
/* For devices: the runtime without a C library, and names and versions of what it uses of glibc. */
extern const char blu_device_runtime_object[], blu_device_runtime_object_end[], blu_stub_libc[], blu_stub_libc_end[], blu_stub_libm[], blu_stub_libm_end[];
int blu_lld(int argc, const char **argv, char **error);

static bool write_all(int fd, const void *bytes, size_t size) {
  for (size_t at = 0; at < size;) {
    ssize_t n = write(fd, (const char *)bytes + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += (size_t)n;
  }
  return true;
}

static bool memory_file(const void *bytes, size_t size, char *path, size_t path_size, int *fd) {
  *fd = memfd_create("bluc", MFD_CLOEXEC);
  if (*fd < 0 || !write_all(*fd, bytes, size)) return false;
  snprintf(path, path_size, "/proc/self/fd/%d", *fd);
  return true;
}

/* lld says "ld.lld: error: reason", perhaps on several lines: ours is one, without its name. */
static void shorten(char *text) {
  char *what = strstr(text, "error: ");
  if (what) memmove(text, what + strlen("error: "), strlen(what + strlen("error: ")) + 1);
  text[strcspn(text, "\n")] = 0;
}

/* Runs lld with its result going to standard output, which is `fd` meanwhile: then it writes what it made from memory. Into a file
 * it would write through a mapping, and a full disk would end the compiler with a signal. */
static bool link_to(int fd, int argc, const char **argv, char **error) {
  fflush(stdout);
  int console = dup(STDOUT_FILENO);
  bool good = console >= 0 && dup2(fd, STDOUT_FILENO) >= 0;
  if (!good) *error = strdup(strerror(errno));
  if (good && blu_lld(argc, argv, error)) {
    shorten(*error);
    good = false;
  }
  if (console >= 0) dup2(console, STDOUT_FILENO), close(console);
  return good;
}

/* Copies a memory file to path: under another name beside it first, so that path is all there or untouched. */
static bool save(int fd, const char *path) {
  char *fresh = blu_alloc(strlen(path) + 8), chunk[1 << 16];
  sprintf(fresh, "%s.new~", path);
  int out = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0777);
  bool good = out >= 0;
  off_t at = 0;
  for (ssize_t n; good && (n = pread(fd, chunk, sizeof chunk, at)) > 0; at += n) good = write_all(out, chunk, (size_t)n);
  if (out >= 0) good &= !close(out);
  good = good && !rename(fresh, path);
  int reason = errno;
  if (!good && out >= 0) unlink(fresh);
  free(fresh);
  errno = reason;
  return good;
}

/* The symbol that lld gives to the start of a binary input: its path with other characters than letters and digits replaced. */
static void attach_symbol(const BluAttached *a, char definition[static 96]) {
  snprintf(definition, 96, "--defsym=%s=_binary__proc_self_fd_%d_start", a->symbol, a->fd);
}

/* What is put before and after a program's objects. */
typedef struct {
  struct { const char *bytes; size_t size; } runtime, last[2];
  int lasts;
  const char *const *option;
} Kind;

#define BYTES(name) {name, (size_t)(name##_end - name)}

static bool link_as(const Kind *kind, const char *path, const BluObject *object, int n, const BluAttached attached[BLU_ATTACHED], char **error) {
  enum { RUNTIME, LAST, RESULT = LAST + 2, FIRST };
  struct { const void *bytes; size_t size; char path[64]; int fd; } file[FIRST + BLU_LINK_MOST] = {
    [RUNTIME] = {kind->runtime.bytes, kind->runtime.size, "", -1}, [LAST] = {kind->last[0].bytes, kind->last[0].size, "", -1},
    [LAST + 1] = {kind->last[1].bytes, kind->last[1].size, "", -1}, [RESULT] = {"", 0, "", -1}};
  const char *args[30 + BLU_LINK_MOST + 3 * BLU_ATTACHED] = {"ld.lld", "--gc-sections", "--strip-all", "--build-id=none",
                                                             "--threads=1", "-z", "noexecstack", "-o", "-"};
  char place[BLU_ATTACHED][64], symbol[BLU_ATTACHED][96];
  int files = FIRST + n, nargs = 9;
  for (const char *const *o = kind->option; *o; o++) args[nargs++] = *o;
  bool good = true;
  for (int i = FIRST; i < files; i++) file[i].bytes = object[i - FIRST].bytes, file[i].size = object[i - FIRST].size, file[i].fd = -1;
  for (int i = 0; i < files && good; i++) good = memory_file(file[i].bytes, file[i].size, file[i].path, sizeof file[i].path, &file[i].fd);
  args[nargs++] = file[RUNTIME].path;
  for (int i = FIRST; i < files; i++) args[nargs++] = file[i].path;
  for (int i = 0; i < kind->lasts; i++) args[nargs++] = file[LAST + i].path;
  for (int i = 0; i < BLU_ATTACHED; i++) {
    if (attached[i].fd < 0) continue;
    snprintf(place[i], sizeof place[i], "/proc/self/fd/%d", attached[i].fd);
    attach_symbol(&attached[i], symbol[i]);
    args[nargs++] = "--format=binary", args[nargs++] = place[i], args[nargs++] = symbol[i];
  }
  if (good) good = link_to(file[RESULT].fd, nargs, args, error) && save(file[RESULT].fd, path);
  if (!good && !*error) *error = strdup(strerror(errno));
  for (int i = 0; i < files; i++)
    if (file[i].fd >= 0) close(file[i].fd);
  return good;
}

bool blu_link(const char *path, const BluObject *object, int n, const BluAttached attached[BLU_ATTACHED], char **error) {
  static const char *const options[] = {"-static", NULL};
  const Kind kind = {.runtime = BYTES(blu_runtime_object), .last = {BYTES(blu_crtn_object), {"", 0}}, .lasts = 1, .option = options};
  return link_as(&kind, path, object, n, attached, error);
}

bool blu_link_device(const char *path, const BluObject *object, int n, const BluAttached attached[BLU_ATTACHED], char **error) {
  static const char *const options[] = {"--dynamic-linker=/lib64/ld-linux-x86-64.so.2", "--hash-style=gnu", "--as-needed", "-z", "now", NULL};
  const Kind kind = {.runtime = BYTES(blu_device_runtime_object), .last = {BYTES(blu_stub_libc), BYTES(blu_stub_libm)}, .lasts = 2, .option = options};
  return link_as(&kind, path, object, n, attached, error);
}
