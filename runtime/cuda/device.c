/* device.c - an NVIDIA GPU as the device of a program: chosen, checked, with all memory that a run takes, taken once.
 *
 * On the device: the arena with the room behind it, a place where the next batch arrives, cublasLt's workspace. Pinned on the host: the
 * mirror's DATA, a window for files, and the numbers of each part (step.c). A step allocates nothing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_internal.h"

static int64_t padded(int64_t bytes) { return (bytes + BLU_ABI_ALIGN - 1) / BLU_ABI_ALIGN * BLU_ABI_ALIGN; }

/* --- which device, which code --- */

static void name_images(const BluProgram *program, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int64_t i = 0; i < program->images && used < size; i++) {
    const BluImage *image = &program->image[i];
    used += (size_t)snprintf(text + used, size - used, image->arch ? "%ssm_%d" : "%sPTX for sm_%d and newer", i ? ", " : "",
                             image->arch ? image->arch : image->least);
  }
}

/* A cubin runs on chips of its own major version that are not older; PTX on all that are not older. */
static const BluImage *image_for(const BluProgram *program, int arch) {
  const BluImage *best = NULL;
  for (int64_t i = 0; i < program->images; i++) {
    const BluImage *image = &program->image[i];
    bool runs = image->arch ? image->arch / 10 == arch / 10 && image->arch <= arch : image->least <= arch;
    if (runs && (!best || image->arch > best->arch)) best = image;
  }
  return best;
}

static bool choose_device(BluError *err, BluCudaDevice *d, const BluDeviceWish *wish) {
  const BluCudaApi *api = &d->api;
  int devices = 0, major = 0, minor = 0;
  if (!blu_cuda_good(err, api, api->device_count(&devices), "counting devices")) return false;
  int64_t number = wish->number < 0 ? 0 : wish->number;
  if (number >= devices)
    return blu_error_set(err, "there is no device %" PRId64 " here: the NVIDIA driver shows this process %d, from 0 (see CUDA_VISIBLE_DEVICES)", number,
                         devices);
  d->number = (int)number;
  int code = api->device_get(&d->device, d->number);
  if (!code) code = api->device_name(d->name, sizeof d->name, d->device);
  if (!code) code = api->device_attribute(&major, CU_MAJOR, d->device);
  if (!code) code = api->device_attribute(&minor, CU_MINOR, d->device);
  if (!blu_cuda_good(err, api, code, "asking the device what it is")) return false;
  d->arch = 10 * major + minor;
  d->image = image_for(d->program, d->arch);
  char images[300];
  name_images(d->program, images, sizeof images);
  return d->image || blu_error_set(err, "this program has no code for device %d (%s, sm_%d); it has: %s", d->number, d->name, d->arch, images);
}

/* --- code --- */

static int by_name(const void *a, const void *b) { return strcmp(((const BluCudaCode *)a)->name, ((const BluCudaCode *)b)->name); }

typedef struct {
  BluCudaDevice *device;
  int64_t room;
} Names;

static bool note_name(BluError *err, void *user, const BluLaunch *launch, const int64_t *offset) {
  Names *names = user;
  BluCudaDevice *d = names->device;
  const BluDeviceLaunch *to = launch->device;
  (void)offset;
  if (!to || !to->function) return true;
  int64_t threads = (int64_t)to->block[0] * to->block[1] * to->block[2];
  if (launch->offsets >= BLU_CUDA_PARAMETERS)
    return blu_error_set(err, "%s takes %" PRId64 " places, and a function on a device at most %d", to->function, launch->offsets, BLU_CUDA_PARAMETERS - 1);
  for (int64_t i = d->codes - 1; i >= 0; i--) { /* the latest first: loops repeat */
    BluCudaCode *c = &d->code[i];
    if (strcmp(c->name, to->function)) continue;
    if (to->shared_bytes > c->shared_bytes) c->shared_bytes = to->shared_bytes;
    if (threads > c->threads) c->threads = threads;
    return true;
  }
  if (d->codes == names->room) {
    names->room = names->room ? 2 * names->room : 64;
    d->code = blu_need(realloc(d->code, (size_t)names->room * sizeof *d->code));
  }
  d->code[d->codes++] = (BluCudaCode){.name = to->function, .shared_bytes = to->shared_bytes, .threads = threads};
  return true;
}

static bool find_code(BluError *err, BluCudaDevice *d, BluCudaCode *c) {
  enum { ALWAYS_GRANTED = 48 << 10 }; /* bytes of shared memory that need no asking */
  char what[200];
  int most = 0;
  snprintf(what, sizeof what, "preparing %s", c->name);
  int code = d->api.module_function(&c->function, d->module, c->name);
  if (!code) code = d->api.function_get(&most, CU_MOST_THREADS, c->function); /* loads it, which may not happen while recording */
  if (!code && c->shared_bytes > ALWAYS_GRANTED) code = d->api.function_set(c->function, CU_DYNAMIC_SHARED, c->shared_bytes);
  if (!code && c->threads > most)
    return blu_error_set(err, "%s is launched with %" PRId64 " threads a block, and this device takes at most %d for it", c->name, c->threads, most);
  return blu_cuda_good(err, &d->api, code, what);
}

static bool open_code(BluError *err, BluCudaDevice *d) {
  Names names = {.device = d};
  for (int64_t i = 0; i < d->program->functions; i++) {
    const BluFunction *f = &d->program->function[i];
    if (!blu_cuda_walk(err, f->launch, f->launches, d->offset, note_name, &names)) return false;
  }
  qsort(d->code, (size_t)d->codes, sizeof *d->code, by_name);
  char log[600] = "", what[700];
  int option[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BYTES};
  void *value[] = {log, (void *)(uintptr_t)sizeof log};
  int code = d->api.module_open(&d->module, d->image->bytes, 2, option, value);
  log[strcspn(log, "\n")] = 0;
  snprintf(what, sizeof what, "loading the code for sm_%d%s%s", d->image->arch ? d->image->arch : d->image->least, log[0] ? ", " : "", log);
  if (!blu_cuda_good(err, &d->api, code, what)) return false;
  for (int64_t i = 0; i < d->codes; i++)
    if (!find_code(err, d, &d->code[i])) return false;
  return true;
}

/* --- memory --- */

static int64_t data_bytes(const BluFunction *f) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < f->slots; i++)
    if (f->slot[i].role == BLU_ROLE_DATA) bytes += padded(f->slot[i].bytes);
  return bytes;
}

static int64_t staging_bytes(const BluProgram *program) {
  int64_t most = 0;
  for (int64_t i = 0; i < program->functions; i++)
    if (data_bytes(&program->function[i]) > most) most = data_bytes(&program->function[i]);
  return most;
}

static bool take(BluError *err, BluCudaDevice *d, CuAddress *address, int64_t bytes, const char *what) {
  return !bytes || blu_cuda_good(err, &d->api, d->api.memory_take(address, (size_t)bytes), what);
}

static bool open_memory(BluError *err, BluCudaDevice *d) {
  int64_t arena = d->program->arena_bytes + blu_program_undo_bytes(d->program);
  size_t left, all;
  d->staging_bytes = staging_bytes(d->program);
  if (!blu_cuda_good(err, &d->api, d->api.memory_info(&left, &all), "asking for the device's memory")) return false;
  int64_t need = arena + d->staging_bytes + d->workspace_bytes;
  if (need > (int64_t)left)
    return blu_error_set(err, "this program needs %" PRId64 " bytes of the device's memory (%" PRId64 " for its arena), but only %zu of %zu are free on device "
                         "%d (%s)", need, arena, left, all, d->number, d->name);
  if (!take(err, d, &d->arena, arena, "memory for the arena") || !take(err, d, &d->staging, d->staging_bytes, "memory for batches") ||
      !take(err, d, &d->workspace, d->workspace_bytes, "memory for cublasLt"))
    return false;
  /* As on the host caches start as zeros; what functions overlay is written before it is read. */
  int code = d->program->kept_bytes ? d->api.fill(d->arena, 0, (size_t)d->program->kept_bytes, d->stream) : 0;
  if (!code) code = d->api.host_take((void **)&d->window, BLU_CUDA_WINDOW, 0);
  d->pinned_bytes += BLU_CUDA_WINDOW;
  return blu_cuda_good(err, &d->api, code, "pinned memory");
}

/* --- pinned pages of the mirror --- */

static int by_offset(const void *a, const void *b) {
  const BluCudaSpan *x = a, *y = b;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* The pages of all DATA, as spans that don't touch; the caller frees them. */
static BluCudaSpan *data_pages(const BluProgram *program, int64_t page, int64_t *spans) {
  int64_t most = 0;
  for (int64_t i = 0; i < program->functions; i++) most += program->function[i].slots;
  BluCudaSpan *span = blu_new(most, sizeof *span);
  int64_t n = 0, joined = 0;
  for (int64_t i = 0; i < program->functions; i++)
    for (int64_t k = 0; k < program->function[i].slots; k++) {
      const BluSlot *slot = &program->function[i].slot[k];
      if (slot->role != BLU_ROLE_DATA) continue;
      int64_t first = slot->offset / page * page, end = (slot->offset + slot->bytes + page - 1) / page * page;
      span[n++] = (BluCudaSpan){.offset = first, .bytes = end - first};
    }
  qsort(span, (size_t)n, sizeof *span, by_offset);
  for (int64_t i = 0; i < n; i++) {
    BluCudaSpan *before = joined ? &span[joined - 1] : NULL;
    if (!before || span[i].offset > before->offset + before->bytes) span[joined++] = span[i];
    else if (span[i].offset + span[i].bytes > before->offset + before->bytes) before->bytes = span[i].offset + span[i].bytes - before->offset;
  }
  *spans = joined;
  return span;
}

static bool pin_data(BluError *err, BluCudaDevice *d, const BluArena *arena) {
  int64_t spans;
  d->pinned = data_pages(d->program, sysconf(_SC_PAGESIZE), &spans);
  for (; d->pins < spans; d->pins++) {
    const BluCudaSpan *span = &d->pinned[d->pins];
    if (!blu_cuda_good(err, &d->api, d->api.host_pin(arena->base + span->offset, (size_t)span->bytes, 0), "pinning memory of the host")) return false;
    d->pinned_bytes += span->bytes;
  }
  return true;
}

/* --- open and close --- */

static bool open_parts_of_device(BluError *err, BluCudaDevice *d) {
  const BluCudaApi *api = &d->api;
  int code = api->context_retain(&d->context, d->device);
  if (!code) code = api->context_set(d->context);
  if (!code) code = api->stream_open(&d->stream, CU_NON_BLOCKING);
  if (!code) code = api->stream_open(&d->copier, CU_NON_BLOCKING);
  if (!code) code = api->event_open(&d->sent, CU_NO_TIMING);
  if (!code) code = api->event_open(&d->taken, CU_NO_TIMING);
  return blu_cuda_good(err, api, code, "opening the device");
}

static void close_device(BluArena *arena) {
  BluCudaDevice *d = arena->device;
  if (!d) return;
  const BluCudaApi *api = &d->api;
  if (d->stream) api->stream_wait(d->stream);
  if (d->copier) api->stream_wait(d->copier);
  blu_cuda_parts_close(d);
  blu_cuda_products_close(d);
  for (int64_t i = 0; i < d->pins; i++) api->host_unpin(arena->base + d->pinned[i].offset);
  if (d->window) api->host_give(d->window);
  if (d->arena) api->memory_give(d->arena);
  if (d->staging) api->memory_give(d->staging);
  if (d->workspace) api->memory_give(d->workspace);
  if (d->module) api->module_close(d->module);
  if (d->sent) api->event_close(d->sent);
  if (d->taken) api->event_close(d->taken);
  if (d->copier) api->stream_close(d->copier);
  if (d->stream) api->stream_close(d->stream);
  if (d->context) api->context_release(d->device);
  free(d->pinned);
  free(d->code);
  free(d->offset);
  free(d);
  arena->device = NULL;
}

static bool open_device(BluError *err, BluArena *arena, const BluProgram *program, const BluDeviceWish *wish) {
  BluCudaDevice *d = arena->device = blu_new(1, sizeof *d);
  d->program = program;
  d->epilogues = wish->epilogues;
  d->offset = blu_new(program->loop_offsets, sizeof *d->offset);
  return blu_cuda_open_api(err, &d->api, &d->version) && choose_device(err, d, wish) && open_parts_of_device(err, d) && blu_cuda_products_find(err, d) &&
         open_memory(err, d) && blu_cuda_products_choose(err, d) && open_code(err, d) && pin_data(err, d, arena);
}

/* --- the arena's bytes --- */

static bool wait_for(BluError *err, BluCudaDevice *d, int code, const char *what) {
  return blu_cuda_good(err, &d->api, code ? code : d->api.stream_wait(d->stream), what);
}

static const char *look(BluError *err, const BluArena *arena, int64_t offset, int64_t *bytes) {
  BluCudaDevice *d = arena->device;
  if (*bytes > BLU_CUDA_WINDOW) *bytes = BLU_CUDA_WINDOW;
  int code = d->api.to_host(d->window, d->arena + (uint64_t)offset, (size_t)*bytes, d->stream);
  return wait_for(err, d, code, "reading the arena") ? d->window : NULL;
}

static char *place(const BluArena *arena, int64_t offset, int64_t *bytes) {
  BluCudaDevice *d = arena->device;
  (void)offset;
  if (*bytes > BLU_CUDA_WINDOW) *bytes = BLU_CUDA_WINDOW;
  return d->window;
}

static bool put(BluError *err, const BluArena *arena, int64_t offset, const char *from, int64_t bytes) {
  BluCudaDevice *d = arena->device;
  return wait_for(err, d, d->api.to_device(d->arena + (uint64_t)offset, from, (size_t)bytes, d->stream), "writing the arena");
}

static bool copy(BluError *err, const BluArena *arena, int64_t to, int64_t from, int64_t bytes) {
  BluCudaDevice *d = arena->device;
  return blu_cuda_good(err, &d->api, d->api.copy(d->arena + (uint64_t)to, d->arena + (uint64_t)from, (size_t)bytes, d->stream), "copying in the arena");
}

static bool clear(BluError *err, const BluArena *arena, int64_t offset, int64_t bytes) {
  BluCudaDevice *d = arena->device;
  return blu_cuda_good(err, &d->api, d->api.fill(d->arena + (uint64_t)offset, 0, (size_t)bytes, d->stream), "clearing");
}

/* --- batches --- */

static bool ready(BluError *err, const BluArena *arena) {
  BluCudaDevice *d = arena->device;
  return !d->has_sent || blu_cuda_good(err, &d->api, d->api.event_wait(d->sent), "sending a batch");
}

static bool send(BluError *err, const BluArena *arena, const BluFunction *f) {
  BluCudaDevice *d = arena->device;
  int code = d->has_taken ? d->api.stream_after(d->copier, d->taken, 0) : 0;
  int64_t at = 0;
  for (int64_t i = 0; !code && i < f->slots; i++) {
    const BluSlot *slot = &f->slot[i];
    if (slot->role != BLU_ROLE_DATA) continue;
    code = d->api.to_device(d->staging + (uint64_t)at, arena->base + slot->offset, (size_t)slot->bytes, d->copier);
    at += padded(slot->bytes);
  }
  if (!code) code = d->api.event_record(d->sent, d->copier);
  d->has_sent = true;
  d->pending = f;
  return blu_cuda_good(err, &d->api, code, "sending a batch");
}

/* --- what is said about it --- */

static void print_settings(FILE *file, const BluArena *arena) {
  const BluCudaDevice *d = arena->device;
  fprintf(file, "device.name=%s\ndevice.arch=sm_%d\ndevice.driver=%d\n", d->name, d->arch, d->version);
  if (d->products)
    fprintf(file, "device.cublaslt=%zu\ndevice.products=%016" PRIx64 "\n", d->lt.version(), blu_cuda_products_hash(d));
  if (blu_cuda_epilogues(d)) fprintf(file, "device.epilogues=%" PRId64 "\n", blu_cuda_epilogues(d));
}

static void compare_settings(BluError *warning, const BluArena *arena, const char *text) {
  char *here = NULL, saved[120], now[120];
  size_t size;
  FILE *file = open_memstream(&here, &size);
  blu_need(file);
  print_settings(file, arena);
  fclose(file);
  for (const char *line = here; *line; line += strcspn(line, "\n") + 1) {
    char key[60];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(line, "="), line);
    if (!blu_text_value(text, key, saved, sizeof saved)) snprintf(saved, sizeof saved, "none");
    blu_text_value(here, key, now, sizeof now);
    if (!strcmp(saved, now)) continue;
    if (!warning->text[0]) blu_error_set(warning, "the checkpoint was made on another device, so that equal bits are not promised:");
    blu_error_add(warning, " %s %s -> %s;", key, saved, now);
  }
  free(here);
}

static void print_here(FILE *file, const BluProgram *program, const BluDeviceWish *wish) {
  BluCudaDevice d = {.program = program};
  BluError err;
  size_t left = 0, all = 0;
  if (!blu_cuda_open_api(&err, &d.api, &d.version) || !choose_device(&err, &d, wish)) {
    fprintf(file, "device      none that this program can run on here: %s\n", err.text);
    return;
  }
  if (!d.api.context_retain(&d.context, d.device)) {
    if (!d.api.context_set(d.context)) d.api.memory_info(&left, &all);
    d.api.context_release(d.device);
  }
  fprintf(file, "device      %d: %s, sm_%d, %zu of %zu bytes free; the driver knows CUDA up to %d.%d\n", d.number, d.name, d.arch, left, all,
          d.version / 1000, d.version % 1000 / 10);
}

/* Parts' numbers are small and not counted, as tables on the host aren't. */
static void print_info(FILE *file, const BluProgram *program, const BluDeviceWish *wish) {
  char images[300];
  int64_t undo = blu_program_undo_bytes(program), staging = staging_bytes(program), workspace = 0, room = 0, pages = 0, spans;
  name_images(program, images, sizeof images);
  fprintf(file, "images      %s\n", images);
  print_here(file, program, wish);
  BluCudaDevice d = {.program = program, .offset = blu_new(program->loop_offsets, sizeof *d.offset)};
  BluError err;
  if (!blu_cuda_products_find(&err, &d)) fprintf(file, "  %s\n", err.text);
  workspace = d.workspace_bytes;
  free(d.product);
  free(d.offset);
  BluCudaSpan *span = data_pages(program, sysconf(_SC_PAGESIZE), &spans);
  for (int64_t i = 0; i < spans; i++) pages += span[i].bytes;
  free(span);
  fprintf(file, "device's memory, in bytes\n");
  fprintf(file, "  %-30s %12" PRId64 " = %" PRId64 " kept + %" PRId64 " overlaid by the functions\n", "arena", program->arena_bytes, program->kept_bytes,
          program->arena_bytes - program->kept_bytes);
  if (undo) fprintf(file, "  %-30s %12" PRId64 "\n", "copy of the model's state", undo);
  if (staging) fprintf(file, "  %-30s %12" PRId64 "\n", "next batch", staging);
  if (workspace) fprintf(file, "  %-30s %12" PRId64 "\n", "workspace of cublasLt", workspace);
  room = program->arena_bytes + undo + staging + workspace;
  fprintf(file, "  %-30s %12" PRId64 " without the driver's own and the program's code\n", "in all", room);
  fprintf(file, "host's pinned memory, in bytes\n  %-30s %12lld\n", "window for files", BLU_CUDA_WINDOW);
  if (pages) fprintf(file, "  %-30s %12" PRId64 ", whole pages\n", "batch", pages);
}

static const BluDriver driver = {
  .open = open_device, .close = close_device, .look = look, .place = place, .put = put, .copy = copy, .clear = clear, .ready = ready, .send = send,
  .run = blu_cuda_run, .wait = blu_cuda_wait, .result = blu_cuda_result,
  .print_settings = print_settings, .compare_settings = compare_settings, .print_info = print_info};
const BluDriver *const blu_device_driver = &driver;
