/* library.c - NVIDIA's libraries, opened by name while running. */
#include <dlfcn.h>
#include <string.h>

#include "cuda_internal.h"

typedef struct {
  const char *name;
  size_t place; /* of the pointer, in the struct */
} Symbol;

static bool find_symbols(BluError *err, void *library, const char *file, const Symbol *symbol, int symbols, void *api) {
  for (int i = 0; i < symbols; i++) {
    void *address = dlsym(library, symbol[i].name);
    if (!address) return blu_error_set(err, "%s is too old for this program: it has no %s", file, symbol[i].name);
    memcpy((char *)api + symbol[i].place, &address, sizeof address);
  }
  return true;
}

bool blu_cuda_good(BluError *err, const BluCudaApi *api, int code, const char *what) {
  if (!code) return true;
  const char *name = NULL, *text = NULL;
  api->error_name(code, &name);
  api->error_text(code, &text);
  return blu_error_set(err, "%s: the NVIDIA driver says %s (%s)", what, name ? name : "an unknown error", text ? text : "");
}

bool blu_cuda_open_api(BluError *err, BluCudaApi *api, int *version) {
  static const char file[] = "libcuda.so.1";
#define SYMBOL(member, name, parameters) {#name, offsetof(BluCudaApi, member)},
  static const Symbol symbols[] = {BLU_CUDA_API(SYMBOL)};
#undef SYMBOL
  api->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!api->library)
    return blu_error_set(err, "this program trains on an NVIDIA GPU, and the driver's library can't be opened: %s", dlerror());
  if (!find_symbols(err, api->library, file, symbols, sizeof symbols / sizeof *symbols, api)) return false;
  int code = api->version(version);
  if (!code && *version < BLU_CUDA_LEAST_VERSION)
    return blu_error_set(err, "the NVIDIA driver is too old: it knows CUDA up to %d.%d, and this program needs %d.%d or newer", *version / 1000,
                         *version % 1000 / 10, BLU_CUDA_LEAST_VERSION / 1000, BLU_CUDA_LEAST_VERSION % 1000 / 10);
  if (!code) code = api->init(0);
  if (code == CU_NO_DEVICE) return blu_error_set(err, "this program trains on an NVIDIA GPU, and the driver finds none (CUDA_VISIBLE_DEVICES can hide them)");
  return blu_cuda_good(err, api, code, "starting the driver");
}

bool blu_cuda_open_lt(BluError *err, BluCudaLtApi *lt) {
  static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
#define SYMBOL(member, name, parameters) {#name, offsetof(BluCudaLtApi, member)},
  static const Symbol symbols[] = {BLU_CUDA_LT_API(SYMBOL) {"cublasLtGetVersion", offsetof(BluCudaLtApi, version)}};
#undef SYMBOL
  for (int i = 0; i < 2; i++) {
    lt->library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (lt->library) return find_symbols(err, lt->library, files[i], symbols, sizeof symbols / sizeof *symbols, lt);
  }
  return blu_error_set(err, "this program computes matrix products with NVIDIA's cublasLt, and neither %s nor %s can be opened: %s", files[0], files[1],
                       dlerror());
}
