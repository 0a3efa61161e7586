/* device.h - a device played by one thread: a kernel's blocks one after another, the threads of a block as fibers that wait for one another at
 * barriers and shuffles. It sees every access: outside of its memory, and two threads at one byte with nothing between them. */
#ifndef BLU_TESTS_DEVICE_H
#define BLU_TESTS_DEVICE_H
#include <stdbool.h>
#include <stdint.h>
#include "runtime/abi.h"

typedef void DeviceCall(const int64_t *args);

/* args: arena, then the launch's offsets. false: said what went wrong. */
bool device_run(const BluDeviceLaunch *launch, DeviceCall *call, bool meets, const int64_t *args, int64_t arena_bytes);
/* What a library would compute, in double. */
void device_product(const BluProduct *p, char *arena, const int64_t *offset);
#endif
