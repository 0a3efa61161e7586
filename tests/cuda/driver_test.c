/* driver_test.c CASE - uses the emulated driver as a host does that makes one mistake, or none. Mistakes end in a fault, which emulator.sh looks for;
 * `good` and `late` print "good" when all was as it should be. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_internal.h"

#define MUST(call)                                                            \
  do {                                                                        \
    int code = (call);                                                        \
    if (code) return printf("%s gave %d\n", #call, code), 2;                  \
  } while (0)
#define WANT(what)                                                            \
  if (!(what)) return printf("not so: %s\n", #what), 2

static BluCudaApi cu;
static CuContext context;
static CuStream stream;
static CuModule module;
static CuFunction pixels, total;
static CuAddress memory;
static float *pinned;
enum { BYTES = 4096 };

static int open_all(void) {
  BluError err;
  int version;
  if (!blu_cuda_open_api(&err, &cu, &version)) return printf("%s\n", err.text), 2;
  MUST(cu.context_retain(&context, 0));
  MUST(cu.context_set(context));
  MUST(cu.stream_open(&stream, CU_NON_BLOCKING));
  MUST(cu.module_open(&module, "the code of fake_device\n", 0, NULL, NULL));
  MUST(cu.module_function(&pixels, module, "pixels"));
  MUST(cu.module_function(&total, module, "total"));
  MUST(cu.memory_take(&memory, BYTES));
  MUST(cu.host_take((void **)&pinned, BYTES, 0));
  return 0;
}

static int close_all(void) {
  MUST(cu.stream_close(stream));
  MUST(cu.module_close(module));
  MUST(cu.memory_give(memory));
  MUST(cu.host_give(pinned));
  MUST(cu.context_release(0));
  return puts("good"), 0;
}

/* pixel = image / 255, 128 of each. */
static int launch(CuFunction f, unsigned grid, unsigned block, unsigned shared, uint64_t arena, int64_t image, int64_t pixel) {
  void *parameter[] = {&arena, &image, &pixel};
  return cu.launch(f, grid, 1, 1, block, 1, 1, shared, stream, parameter, NULL);
}

static int fill_image(void) {
  for (int i = 0; i < 128; i++) pinned[i] = 255.0f * (float)i;
  MUST(cu.to_device(memory, pinned, 512, stream));
  return 0;
}

/* Results come when they are waited for, and not before (with the seed 1). */
static int late(void) {
  fill_image();
  MUST(launch(pixels, 2, 64, 0, memory, 0, 512));
  pinned[7] = -1;
  MUST(cu.to_host(pinned, memory + 512, 512, stream));
  WANT(pinned[3] == 3 * 255);
  MUST(cu.stream_wait(stream));
  WANT(pinned[3] == 3 && pinned[127] == 127 && pinned[7] == -1.0f / 255); /* changed before it was sent */
  return close_all();
}

static int graphs(void) {
  CuGraph graph;
  CuGraphExec exec;
  CuEvent done;
  MUST(cu.event_open(&done, CU_NO_TIMING));
  MUST(cu.capture_begin(stream, CU_CAPTURE_RELAXED));
  fill_image();
  MUST(launch(pixels, 2, 64, 0, memory, 0, 512));
  MUST(cu.to_host(pinned, memory + 512, 512, stream));
  WANT(cu.stream_wait(stream) != 0 && cu.event_record(done, stream) != 0); /* nothing else happens while a graph is recorded */
  MUST(cu.capture_end(stream, &graph));
  MUST(cu.graph_make(&exec, graph, 0));
  MUST(cu.graph_free(graph));
  for (int round = 1; round < 4; round++) {
    for (int i = 0; i < 128; i++) pinned[i] = 255.0f * (float)(round * i);
    MUST(cu.graph_launch(exec, stream));
    MUST(cu.event_record(done, stream));
    MUST(cu.event_wait(done));
    WANT(pinned[100] == (float)(round * 100));
  }
  MUST(cu.graph_exec_free(exec));
  MUST(cu.event_close(done));
  return close_all();
}

static int events(void) { /* a second stream that waits for the first, and pageable memory, which is read before the call returns */
  CuStream second;
  CuEvent sent;
  float *heap = malloc(512);
  MUST(cu.stream_open(&second, CU_NON_BLOCKING));
  MUST(cu.event_open(&sent, CU_NO_TIMING));
  for (int i = 0; i < 128; i++) heap[i] = 255;
  MUST(cu.to_device(memory, heap, 512, stream));
  memset(heap, 0, 512);
  MUST(cu.event_record(sent, stream));
  MUST(cu.stream_after(second, sent, 0));
  MUST(cu.copy(memory + 1024, memory, 512, second));
  MUST(cu.to_host(heap, memory + 1024, 512, second)); /* waits by itself */
  WANT(heap[5] == 255);
  free(heap);
  MUST(cu.event_close(sent));
  MUST(cu.stream_close(second));
  return close_all();
}

int main(int arguments, char **argument) {
  const char *name = arguments > 1 ? argument[1] : "";
  static float heap[128];
  if (open_all()) return 2;
  if (!strcmp(name, "late")) return late();
  if (!strcmp(name, "graphs")) return graphs();
  if (!strcmp(name, "events")) return events();
  if (!strcmp(name, "good")) return fill_image() || launch(pixels, 2, 64, 0, memory, 0, 512) || cu.stream_wait(stream) ? 2 : close_all();
  fill_image();
  if (!strcmp(name, "unsent")) launch(pixels, 2, 64, 0, memory, 512, 1024);
  if (!strcmp(name, "beyond")) launch(pixels, 2, 64, 0, memory, 0, BYTES - 256);
  if (!strcmp(name, "host")) launch(pixels, 2, 64, 0, (uint64_t)(uintptr_t)pinned, 0, 512);
  if (!strcmp(name, "foreign")) launch(pixels, 2, 64, 0, 4096, 0, 512);
  if (!strcmp(name, "many_threads")) launch(pixels, 1, 1056, 0, memory, 0, 512);
  if (!strcmp(name, "no_blocks")) launch(pixels, 0, 64, 0, memory, 0, 512);
  if (!strcmp(name, "much_shared")) launch(total, 1, 64, 64 << 10, memory, 0, 512);
  if (!strcmp(name, "long_copy")) cu.to_device(memory + BYTES - 8, pinned, 64, stream);
  if (!strcmp(name, "host_copy")) cu.copy((uint64_t)(uintptr_t)pinned, memory, 64, stream);
  if (!strcmp(name, "foreign_free")) cu.memory_give((uint64_t)(uintptr_t)heap);
  if (!strcmp(name, "left_memory")) return cu.context_release(0);
  if (!strcmp(name, "after_free")) {
    MUST(cu.stream_wait(stream));
    MUST(cu.memory_give(memory));
    launch(pixels, 2, 64, 0, memory, 0, 512);
  }
  cu.stream_wait(stream);
  return puts("no fault"), 0;
}
