/* licenses.c - of a trainer for a device: the C library and NVIDIA's are the system's, nothing of them is inside. */
#include "../runtime_internal.h"

const char blu_license_libc[] = "";
