/* player.c - see player.h. */
#include "player.h"
#include <stdio.h>
#include <stdlib.h>
#include "device.h"
#include "retarget.h"

static const HarnessSymbol symbols[] = {
  {"blu_emu_thread", (void *)blu_emu_thread},   {"blu_emu_block", (void *)blu_emu_block},   {"blu_emu_threads", (void *)blu_emu_threads},
  {"blu_emu_blocks", (void *)blu_emu_blocks},   {"blu_emu_barrier", (void *)blu_emu_barrier}, {"blu_emu_shuffle", (void *)blu_emu_shuffle},
  {"blu_emu_access", (void *)blu_emu_access},   {"blu_emu_shared", (void *)blu_emu_shared}, {NULL, NULL}};

static char *make(LLVMModuleRef device, const BluCpu *cpu, size_t *size) {
  char *error = NULL, *object = NULL;
  LLVMModuleRef twin = twin_make(device, cpu, &error);
  if (twin) object = twin_object(twin, cpu, size, &error), LLVMDisposeModule(twin);
  if (!object) printf("no twin: %s\n", error);
  free(error);
  return object;
}

static bool run(const BluLaunch *launch, void *(*find)(void *user, const char *name), void *user, char *arena, const int64_t *offset, int64_t arena_bytes) {
  const BluDeviceLaunch *device = launch->device;
  char name[300];
  const BluProduct *product = device->product;
  int64_t both[2], offsets = launch->offsets;
  if (product) device_product(product, arena, offset);
  if (!device->function) return true;
  if (product) { /* the sum beside it, as by a library that can't make it */
    both[0] = offset[product->epilogue == BLU_EPILOGUE_SUM_A ? product->place_a : product->place_b], both[1] = offset[product->place_bias];
    offset = both, offsets = 2;
  }
  snprintf(name, sizeof name, "%s.call", device->function);
  DeviceCall *call = (DeviceCall *)(uintptr_t)find(user, name);
  snprintf(name, sizeof name, "%s.meets", device->function);
  const int32_t *meets = find(user, name);
  snprintf(name, sizeof name, "%s.params", device->function);
  const int32_t *params = find(user, name);
  if (!call || !meets || !params || *params != offsets + 1) return printf("the image has no function %s for this launch\n", device->function), false;
  int64_t *args = malloc((size_t)*params * sizeof *args);
  args[0] = (int64_t)(intptr_t)arena;
  for (int64_t i = 0; i < offsets; i++) args[1 + i] = offset[i];
  bool good = device_run(device, call, *meets, args, arena_bytes);
  free(args);
  return good;
}

const HarnessDevice player = {symbols, make, run};
