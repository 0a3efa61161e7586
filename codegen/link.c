/* link.c - object + prelinked runtime + libc -> one static executable, without files besides the result: the inputs are memory
 * files, and the linker writes beside the target and renames. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "codegen/codegen.h"

/* embed.c: the runtime, prelinked with the C library when Blu was built, and the C library's last object. */
extern const char blu_runtime_object[], blu_runtime_object_end[], blu_crtn_object[], blu_crtn_object_end[];
int blu_lld(int argc, const char **argv, char **error);

static bool memory_file(const void *bytes, size_t size, char *path, size_t path_size, int *fd) {
  *fd = memfd_create("bluc", MFD_CLOEXEC);
  if (*fd < 0) return false;
  for (size_t at = 0; at < size;) {
    ssize_t n = write(*fd, (const char *)bytes + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += (size_t)n;
  }
  snprintf(path, path_size, "/proc/self/fd/%d", *fd);
  return true;
}

bool blu_link(const char *path, const void *object, size_t size, char **error) {
  struct { const void *bytes; size_t size; char path[64]; int fd; } input[3] = {
    {blu_runtime_object, (size_t)(blu_runtime_object_end - blu_runtime_object), "", -1},
    {object, size, "", -1},
    {blu_crtn_object, (size_t)(blu_crtn_object_end - blu_crtn_object), "", -1}};
  bool good = true;
  for (int i = 0; i < 3 && good; i++) good = memory_file(input[i].bytes, input[i].size, input[i].path, sizeof input[i].path, &input[i].fd);
  if (!good) *error = strdup(strerror(errno));
  const char *args[] = {"ld.lld", "-static", "--gc-sections", "--strip-all", "--build-id=none", "--threads=1", "-z", "noexecstack",
                        "-o", path, input[0].path, input[1].path, input[2].path};
  if (good) good = blu_lld(sizeof args / sizeof *args, args, error) == 0;
  for (int i = 0; i < 3; i++)
    if (input[i].fd >= 0) close(input[i].fd);
  return good;
}
