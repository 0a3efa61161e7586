/* data.h - what data sources say of a program that is being compiled. */
#ifndef BLU_RUNTIME_DATA_H
#define BLU_RUNTIME_DATA_H
#include <stdbool.h>
#include "safetensors.h"

/* Is there a data source of this name? Its arguments are looked at by the trainer. */
bool blu_data_known(BluError *err, const char *source);
#endif
