/* player.h - a device for the harness of tests/codegen/: kernels become twins, launches run on device.h. */
#ifndef BLU_TESTS_PLAYER_H
#define BLU_TESTS_PLAYER_H
#include "harness.h"

extern const HarnessDevice player;
#endif
