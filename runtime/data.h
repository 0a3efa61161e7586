/* data.h - what data sources say of a program that is being compiled. */
#ifndef BLU_RUNTIME_DATA_H
#define BLU_RUNTIME_DATA_H
#include "abi.h"
#include "safetensors.h"

/* Is there a data source of this name, and has it these arguments, "key=value" lines, for the DATA slots of the function? What they mean for files is
 * found when these are read. */
bool blu_data_known(BluError *err, const char *source, const char *args, const BluFunction *function);
#endif
