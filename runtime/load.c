/* load.c - all bytes of a data file: mapped where it is a plain file, else read into memory - from a pipe, or inflated
 * from gzip. A pipe that stalls ends in a message, not in a wait without end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "data_internal.h"

/* Memory that grows; `limit` is what the machine has left. */
typedef struct {
  uint8_t *data;
  int64_t size, capacity, limit;
} Buffer;

static bool reserve(BluError *err, const char *path, Buffer *buffer, int64_t capacity) {
  if (capacity > buffer->limit)
    return blu_error_set(err, "%s: its content takes more than the %lld bytes of memory that are available here", path,
                         (long long)buffer->limit);
  uint8_t *data = realloc(buffer->data, (size_t)(capacity > 0 ? capacity : 1));
  if (!data) return blu_error_set(err, "%s: no memory for %lld bytes", path, (long long)capacity);
  buffer->data = data;
  buffer->capacity = capacity;
  return true;
}

static bool grow(BluError *err, const char *path, Buffer *buffer) {
  int64_t twice = buffer->capacity ? 2 * buffer->capacity : 64 << 10;
  if (twice > buffer->limit && buffer->capacity < buffer->limit) twice = buffer->limit;
  return buffer->size < buffer->capacity || reserve(err, path, buffer, twice);
}

static bool read_stream(BluError *err, const char *path, int fd, int64_t seconds, Buffer *buffer) {
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  for (;;) {
    int events = poll(&ready, 1, (int)(seconds * 1000));
    if (events < 0 && errno == EINTR) continue;
    if (!events)
      return blu_error_set(err, "%s: no data came for %lld seconds (--timeout sets how long to wait)", path,
                           (long long)seconds);
    if (!grow(err, path, buffer)) return false;
    ssize_t got = read(fd, buffer->data + buffer->size, (size_t)(buffer->capacity - buffer->size));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return blu_error_set(err, "cannot read %s: %s", path, strerror(errno));
    if (!got) return true;
    buffer->size += got;
  }
}

static bool inflate_all(BluError *err, const char *path, z_stream *stream, const uint8_t *from, int64_t size,
                        Buffer *to) {
  enum { PIECE = 1 << 30 };
  int64_t next = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (!grow(err, path, to)) return false;
    if (!stream->avail_in) {
      if (next == size)
        return blu_error_set(err, "%s: the file is truncated: its gzip stream goes on after %lld bytes", path,
                             (long long)size);
      stream->next_in = (uint8_t *)(uintptr_t)(from + next); /* zlib doesn't write there */
      stream->avail_in = (uInt)(size - next < PIECE ? size - next : PIECE);
      next += stream->avail_in;
    }
    int64_t room = to->capacity - to->size < PIECE ? to->capacity - to->size : PIECE;
    stream->next_out = to->data + to->size;
    stream->avail_out = (uInt)room;
    status = inflate(stream, Z_NO_FLUSH);
    to->size += room - stream->avail_out;
    if (status != Z_OK && status != Z_STREAM_END)
      return blu_error_set(err, "%s: the gzip file is damaged: %s", path, stream->msg ? stream->msg : "unexpected data");
  }
  int64_t left = size - next + stream->avail_in;
  return !left || blu_error_set(err, "%s: %lld bytes follow the end of the gzip stream", path, (long long)left);
}

bool blu_bytes_inflate(BluError *err, const char *path, const uint8_t *from, int64_t size, uint8_t **to,
                       int64_t *to_size) {
  z_stream stream = {0};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) return blu_error_set(err, "%s: no memory for zlib", path);
  Buffer buffer = {.limit = blu_host_memory(0)};
  bool good = inflate_all(err, path, &stream, from, size, &buffer) && reserve(err, path, &buffer, buffer.size);
  inflateEnd(&stream);
  if (!good) free(buffer.data);
  *to = good ? buffer.data : NULL;
  *to_size = good ? buffer.size : 0;
  return good;
}

static bool map_file(BluError *err, BluBytes *bytes, int fd, const struct stat *info) {
  bytes->size = info->st_size;
  bytes->file = *info;
  if (!bytes->size) return true;
  bytes->map = mmap(NULL, (size_t)bytes->size, PROT_READ, MAP_SHARED, fd, 0);
  if (bytes->map == MAP_FAILED) {
    bytes->map = NULL;
    return blu_error_set(err, "cannot map %s: %s", bytes->path, strerror(errno));
  }
  bytes->data = bytes->map;
  return true;
}

/* Drops what the content was read from, once it is inflated. */
static bool unpack(BluError *err, BluBytes *bytes) {
  uint8_t *data;
  int64_t size;
  if (!blu_bytes_inflate(err, bytes->path, bytes->data, bytes->size, &data, &size)) return false;
  if (bytes->map) munmap(bytes->map, (size_t)bytes->size);
  free(bytes->heap);
  bytes->map = NULL;
  bytes->data = bytes->heap = data;
  bytes->size = size;
  return true;
}

static bool read_all(BluError *err, BluBytes *bytes, int fd, int64_t seconds) {
  struct stat info;
  if (fd < 0 || fstat(fd, &info)) return blu_error_set(err, "%s: %s", bytes->path, strerror(errno));
  if (S_ISDIR(info.st_mode)) return blu_error_set(err, "%s: this is a folder, not a file", bytes->path);
  if (S_ISREG(info.st_mode)) {
    if (!map_file(err, bytes, fd, &info)) return false;
  } else {
    Buffer buffer = {.limit = blu_host_memory(0)};
    bool good = read_stream(err, bytes->path, fd, seconds, &buffer);
    bytes->data = bytes->heap = buffer.data;
    bytes->size = buffer.size;
    if (!good) return false;
  }
  bool gzip = bytes->size > 2 && bytes->data[0] == 0x1f && bytes->data[1] == 0x8b;
  return !gzip || unpack(err, bytes);
}

bool blu_bytes_open(BluError *err, BluBytes *bytes, const char *path, int64_t seconds) {
  *bytes = (BluBytes){.path = blu_text_path("", path)};
  /* Without O_NONBLOCK, opening a FIFO that nobody writes to would wait without end. The file is closed at once: there
   * may be more shards than a process may have open. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  bool good = read_all(err, bytes, fd, seconds);
  if (fd >= 0) close(fd);
  if (!good) blu_bytes_close(bytes);
  return good;
}

bool blu_bytes_unchanged(BluError *err, const BluBytes *bytes) {
  const struct stat *was = &bytes->file;
  struct stat is;
  if (!bytes->map) return true;
  /* Another file under the same name is none of our business: what is mapped stays as it was. */
  if (stat(bytes->path, &is) || is.st_ino != was->st_ino || is.st_dev != was->st_dev) return true;
  if (is.st_size == was->st_size && is.st_mtim.tv_sec == was->st_mtim.tv_sec &&
      is.st_mtim.tv_nsec == was->st_mtim.tv_nsec)
    return true;
  return blu_error_set(err, "%s: the file was changed while this program read it", bytes->path);
}

void blu_bytes_close(BluBytes *bytes) {
  if (bytes->map) munmap(bytes->map, (size_t)bytes->size);
  free(bytes->heap);
  free(bytes->path);
  *bytes = (BluBytes){0};
}
