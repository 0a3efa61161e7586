/* driver.c - the functions of NVIDIA's driver library that trainers call, by their names. Codes and layouts are those of cuda.h. */
#define _GNU_SOURCE
#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* they are NVIDIA's, whose headers need not be here */
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams.h"

enum {
  GOOD = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, ALREADY_PINNED = 712,
  NOT_PINNED = 713, NOT_FOUND = 500
};

static const struct { int code; const char *name, *text; } codes[] = {
    {GOOD, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument (emulated)"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory (emulated)"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error (emulated)"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected (emulated)"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal (emulated)"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context (emulated)"},
    {ALREADY_PINNED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped (emulated)"},
    {NOT_PINNED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region (emulated)"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found (emulated)"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready (emulated)"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing (emulated)"},
};

#define MOST_CODE 4096

typedef struct Pin {
  struct Pin *next;
  char *place;
  size_t bytes;
} Pin;

typedef struct {
  void *twin;
  EmuFunction *function;
  int functions;
} Module;

static struct {
  bool started, context;
  Pin *pin;
  int modules;
} driver;

/* --- the driver and its devices --- */

int cuGetErrorName(int code, const char **text) {
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].code == code) return *text = codes[i].name, GOOD;
  return INVALID_VALUE;
}

int cuGetErrorString(int code, const char **text) {
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].code == code) return *text = codes[i].text, GOOD;
  return INVALID_VALUE;
}

int cuDriverGetVersion(int *version) { return *version = (int)blu_emu_setting("DRIVER", 13000), GOOD; }

int cuInit(unsigned flags) {
  if (flags) return INVALID_VALUE;
  if (!blu_emu_setting("DEVICES", 1)) return NO_DEVICE;
  if (!driver.started)
    fprintf(stderr, "emulated: no GPU, kernels run on the processor to be checked; seed %lld\n", (long long)blu_emu_seed());
  driver.started = true;
  return GOOD;
}

int cuDeviceGetCount(int *count) { return driver.started ? (*count = (int)blu_emu_setting("DEVICES", 1), GOOD) : NOT_INITIALIZED; }

int cuDeviceGet(int *device, int number) {
  if (!driver.started) return NOT_INITIALIZED;
  if (number < 0 || number >= blu_emu_setting("DEVICES", 1)) return INVALID_DEVICE;
  *device = number;
  return GOOD;
}

int cuDeviceGetName(char *name, int size, int device) { return snprintf(name, (size_t)size, "emulated GPU %d", device), GOOD; }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  enum { MAJOR = 75, MINOR = 76 };
  (void)device;
  int arch = (int)blu_emu_setting("ARCH", 90);
  if (attribute != MAJOR && attribute != MINOR) return INVALID_VALUE;
  *value = attribute == MAJOR ? arch / 10 : arch % 10;
  return GOOD;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
  (void)device;
  driver.context = true;
  *context = &driver;
  return GOOD;
}

int cuCtxSetCurrent(void *context) { return context == &driver ? GOOD : INVALID_CONTEXT; }

/* The trainer's last call: nothing may be left. */
int cuDevicePrimaryCtxRelease_v2(int device) {
  char what[100];
  (void)device;
  if (blu_emu_left_behind(what, sizeof what) || emu_streams_left_behind(what, sizeof what)) blu_emu_fault("left behind at the end: %s", what);
  if (driver.modules) blu_emu_fault("left behind at the end: a module");
  if (driver.pin) blu_emu_fault("left behind at the end: memory of the host, still pinned");
  driver.context = false;
  return GOOD;
}

/* --- memory --- */

int cuMemGetInfo_v2(size_t *left, size_t *total) {
  if (!driver.context) return INVALID_CONTEXT;
  int64_t bytes = blu_emu_setting("MEMORY", 4ll << 30);
  *total = (size_t)bytes;
  *left = (size_t)(bytes - blu_emu_taken());
  return GOOD;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  if (!driver.context) return INVALID_CONTEXT;
  if (!bytes) return INVALID_VALUE;
  EmuRegion *r = (int64_t)bytes + blu_emu_taken() > blu_emu_setting("MEMORY", 4ll << 30) ? NULL : blu_emu_take((int64_t)bytes, false);
  if (!r) return OUT_OF_MEMORY;
  *address = (uint64_t)(uintptr_t)blu_emu_base(r);
  return GOOD;
}

static int give(void *place, bool host) {
  EmuRegion *r = blu_emu_find(place);
  if (!r || blu_emu_is_host(r) != host || blu_emu_base(r) != place) blu_emu_fault("%p is freed, which is no memory of the %s", place, host ? "host" : "device");
  blu_emu_give(r);
  return GOOD;
}

int cuMemFree_v2(uint64_t address) { return give((void *)(uintptr_t)address, false); }
int cuMemFreeHost(void *place) { return give(place, true); }

int cuMemHostAlloc(void **place, size_t bytes, unsigned flags) {
  (void)flags;
  if (!driver.context) return INVALID_CONTEXT;
  EmuRegion *r = blu_emu_take((int64_t)bytes, true);
  if (!r) return OUT_OF_MEMORY;
  *place = blu_emu_base(r);
  return GOOD;
}

int cuMemHostRegister_v2(void *place, size_t bytes, unsigned flags) {
  (void)flags;
  for (Pin *p = driver.pin; p; p = p->next)
    if ((char *)place < p->place + p->bytes && p->place < (char *)place + bytes) return ALREADY_PINNED;
  Pin *p = calloc(1, sizeof *p);
  *p = (Pin){.next = driver.pin, .place = place, .bytes = bytes};
  driver.pin = p;
  return GOOD;
}

int cuMemHostUnregister(void *place) {
  for (Pin **p = &driver.pin; *p; p = &(*p)->next)
    if ((*p)->place == place) {
      Pin *gone = *p;
      *p = gone->next;
      free(gone);
      return GOOD;
    }
  return NOT_PINNED;
}

static bool is_pinned(const void *place, size_t bytes) {
  EmuRegion *r = blu_emu_find(place);
  if (r && blu_emu_is_host(r)) return true;
  for (Pin *p = driver.pin; p; p = p->next)
    if ((const char *)place >= p->place && (const char *)place + bytes <= p->place + p->bytes) return true;
  return false;
}

/* --- copies --- */

typedef struct {
  char *to;
  const char *from;
  size_t bytes;
  unsigned char byte;
} Copy;

static void to_device(const void *data) {
  const Copy *c = data;
  blu_emu_range("a copy writes", c->to, (int64_t)c->bytes);
  memcpy(c->to, c->from, c->bytes);
  blu_emu_mark(c->to, (int64_t)c->bytes, true);
}

static void to_device_carried(const void *data) { /* the bytes follow */
  Copy c = *(const Copy *)data;
  c.from = (const char *)data + sizeof c;
  to_device(&c);
}

static void to_host(const void *data) {
  const Copy *c = data;
  blu_emu_range("a copy reads", c->from, (int64_t)c->bytes);
  memcpy(c->to, c->from, c->bytes);
}

static void within_device(const void *data) {
  const Copy *c = data;
  blu_emu_range("a copy reads", c->from, (int64_t)c->bytes);
  blu_emu_range("a copy writes", c->to, (int64_t)c->bytes);
  memmove(c->to, c->from, c->bytes);
  blu_emu_copy_marks(c->to, c->from, (int64_t)c->bytes);
}

static void fill(const void *data) {
  const Copy *c = data;
  blu_emu_range("a fill writes", c->to, (int64_t)c->bytes);
  memset(c->to, c->byte, c->bytes);
  blu_emu_mark(c->to, (int64_t)c->bytes, !(c->byte == 0xff && blu_emu_setting("POISON", 0)));
}

/* The driver reads memory that isn't pinned before it returns, and then has written it. */
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  Copy c = {.to = (char *)(uintptr_t)to, .from = from, .bytes = bytes};
  if (is_pinned(from, bytes) || emu_stream_records(stream)) return emu_stream_add(stream, to_device, &c, sizeof c);
  char *carried = malloc(sizeof c + bytes);
  memcpy(carried, &c, sizeof c);
  memcpy(carried + sizeof c, from, bytes);
  int code = emu_stream_add(stream, to_device_carried, carried, sizeof c + bytes);
  free(carried);
  return code;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  Copy c = {.to = to, .from = (const char *)(uintptr_t)from, .bytes = bytes};
  int code = emu_stream_add(stream, to_host, &c, sizeof c);
  return code || is_pinned(to, bytes) || emu_stream_records(stream) ? code : emu_stream_wait(stream);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  Copy c = {.to = (char *)(uintptr_t)to, .from = (const char *)(uintptr_t)from, .bytes = bytes};
  return emu_stream_add(stream, within_device, &c, sizeof c);
}

int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void *stream) {
  Copy c = {.to = (char *)(uintptr_t)to, .bytes = bytes, .byte = byte};
  return emu_stream_add(stream, fill, &c, sizeof c);
}

/* --- streams, events, graphs --- */

int cuStreamCreate(void **stream, unsigned flags) { return (void)flags, *stream = emu_stream_open(), GOOD; }
int cuStreamDestroy_v2(void *stream) { return emu_stream_close(stream); }
int cuStreamSynchronize(void *stream) { return emu_stream_wait(stream); }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return (void)flags, emu_stream_after(stream, event); }
int cuEventCreate(void **event, unsigned flags) { return *event = emu_event_open(!(flags & 2)), GOOD; }
int cuEventDestroy_v2(void *event) { return emu_event_close(event), GOOD; }
int cuEventRecord(void *event, void *stream) { return emu_event_record(event, stream); }
int cuEventSynchronize(void *event) { return emu_event_wait(event); }
int cuEventElapsedTime(float *milliseconds, void *from, void *to) { return emu_event_time(milliseconds, from, to); }
int cuStreamBeginCapture_v2(void *stream, int mode) { return (void)mode, emu_capture_begin(stream); }
int cuStreamEndCapture(void *stream, void **graph) { return emu_capture_end(stream, (EmuGraph **)graph); }
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) { return (void)flags, *exec = emu_graph_copy(graph), GOOD; }
int cuGraphLaunch(void *exec, void *stream) { return emu_graph_launch(exec, stream); }
int cuGraphDestroy(void *graph) { return emu_graph_close(graph), GOOD; }
int cuGraphExecDestroy(void *exec) { return emu_graph_close(exec), GOOD; }

/* --- modules: twins of their images --- */

static uint64_t hash_of(const char *bytes, size_t size) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++) h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
  return h;
}

/* Bytes of an ELF file, which a cubin is. */
static size_t elf_size(const char *bytes) {
  Elf64_Ehdr head;
  memcpy(&head, bytes, sizeof head);
  size_t size = head.e_shoff + (size_t)head.e_shnum * head.e_shentsize, parts = head.e_phoff + (size_t)head.e_phnum * head.e_phentsize;
  if (parts > size) size = parts;
  for (int i = 0; i < head.e_shnum; i++) {
    Elf64_Shdr section;
    memcpy(&section, bytes + head.e_shoff + (size_t)i * head.e_shentsize, sizeof section);
    if (section.sh_type != SHT_NOBITS && section.sh_offset + section.sh_size > size) size = section.sh_offset + section.sh_size;
  }
  return size;
}

static void *open_twin(const char *image) {
  const char *folder = getenv("BLU_EMULATOR_TWINS");
  bool elf = !memcmp(image, ELFMAG, SELFMAG);
  size_t size = elf ? elf_size(image) : strlen(image);
  char path[4096], first[4096] = "";
  if (!folder) blu_emu_fault("BLU_EMULATOR_TWINS names no folder of twins");
  for (int i = 0; i < 2; i++) { /* PTX may be counted with its final NUL */
    snprintf(path, sizeof path, "%s/%016llx.so", folder, (unsigned long long)hash_of(image, size + (size_t)i));
    void *twin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (twin) return twin;
    if (!i) snprintf(first, sizeof first, "%s", dlerror());
    if (elf) break;
  }
  blu_emu_fault("the image has no twin: %s", first);
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned options, int *option, void **value) {
  Dl_info self;
  (void)options, (void)option, (void)value;
  if (!driver.context) return INVALID_CONTEXT;
  /* twins find the functions of this library, which the trainer has opened for itself alone */
  if (!dladdr((void *)(uintptr_t)cuInit, &self) || !dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL)) blu_emu_fault("%s", dlerror());
  Module *m = calloc(1, sizeof *m);
  m->function = calloc(MOST_CODE, sizeof *m->function);
  m->twin = open_twin(image);
  driver.modules++;
  *module = m;
  return GOOD;
}

int cuModuleUnload(void *module) {
  Module *m = module;
  dlclose(m->twin);
  free(m->function);
  free(m);
  driver.modules--;
  return GOOD;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
  Module *m = module;
  char symbol[200];
  for (int i = 0; i < m->functions; i++)
    if (!strcmp(m->function[i].name, name)) return *function = &m->function[i], GOOD;
  if (m->functions == MOST_CODE) return OUT_OF_MEMORY;
  EmuFunction *f = &m->function[m->functions];
  snprintf(f->name, sizeof f->name, "%s", name);
  snprintf(symbol, sizeof symbol, "%s.call", name);
  void *call = dlsym(m->twin, symbol);
  snprintf(symbol, sizeof symbol, "%s.params", name);
  const int32_t *params = dlsym(m->twin, symbol);
  if (!call || !params) return NOT_FOUND;
  snprintf(symbol, sizeof symbol, "%s.meets", name);
  const int32_t *meets = dlsym(m->twin, symbol);
  memcpy(&f->call, &call, sizeof call);
  f->meets = !meets || *meets;
  f->params = *params;
  f->most_shared = 48 << 10;
  m->functions++;
  *function = f;
  return GOOD;
}

/* Bytes of shared memory that a block may have, by the table of compute capabilities in NVIDIA's programming guide. */
static int32_t most_shared(void) {
  int64_t arch = blu_emu_setting("ARCH", 90);
  int64_t kilobytes = arch == 80 || arch == 87 ? 163 : arch == 86 || arch == 89 || arch >= 120 ? 99 : arch >= 90 ? 227 : 64;
  return (int32_t)kilobytes << 10;
}

int cuFuncGetAttribute(int *value, int attribute, void *function) {
  (void)function;
  return attribute ? INVALID_VALUE : (*value = 1024, GOOD);
}

int cuFuncSetAttribute(void *function, int attribute, int value) {
  enum { MOST_DYNAMIC_SHARED = 8 };
  if (attribute != MOST_DYNAMIC_SHARED || value < 0 || value > most_shared()) return INVALID_VALUE;
  ((EmuFunction *)function)->most_shared = value;
  return GOOD;
}

/* --- launches --- */

static void launch(const void *data) { blu_emu_run(data); }

static void check_launch(const EmuLaunch *l) {
  const char *name = l->function->name;
  const unsigned *g = l->grid, *b = l->block;
  if (!g[0] || !g[1] || !g[2] || !b[0] || !b[1] || !b[2]) blu_emu_fault("%s is launched without blocks or threads", name);
  if (g[0] > 0x7fffffff || g[1] > 65535 || g[2] > 65535) blu_emu_fault("%s is launched with a grid of (%u, %u, %u), which is too large", name, g[0], g[1], g[2]);
  if ((uint64_t)b[0] * b[1] * b[2] > 1024 || b[2] > 64) blu_emu_fault("%s is launched with blocks of (%u, %u, %u) threads; 1024 are allowed", name, b[0], b[1], b[2]);
  if ((int64_t)l->shared_bytes > l->function->most_shared)
    blu_emu_fault("%s is launched with %u bytes of shared memory; it was granted %d", name, l->shared_bytes, l->function->most_shared);
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared_bytes, void *stream, void **parameter, void **extra) {
  EmuLaunch l = {.function = function, .grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}, .shared_bytes = shared_bytes};
  if (extra || l.function->params > 512) return INVALID_VALUE;
  check_launch(&l);
  for (int i = 0; i < l.function->params; i++) memcpy(&l.args[i], parameter[i], sizeof l.args[i]);
  return emu_stream_add(stream, launch, &l, offsetof(EmuLaunch, args) + (size_t)l.function->params * sizeof l.args[0]);
}
