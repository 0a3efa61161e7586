/* tables.h - tables of characters, which tables.py makes; unicode.c reads them. */
#ifndef BLU_RUNTIME_TOKENIZER_TABLES_H
#define BLU_RUNTIME_TOKENIZER_TABLES_H
#include <stdint.h>

extern const uint32_t blu_class_runs[], blu_order_runs[], blu_decompositions[][3];
extern const uint16_t blu_compositions[];
extern const char blu_class_names[30][3];
extern const int blu_class_run_count, blu_order_run_count, blu_decomposition_count, blu_composition_count;
#endif
