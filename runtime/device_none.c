/* device_none.c - of trainers for the processor alone: they carry no driver. */
#include "device.h"

const BluDriver *const blu_device_driver = NULL;
