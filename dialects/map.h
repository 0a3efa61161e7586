/* map.h - a hash map from pointers (values, operations: MLIR's handles) to pointers. A zeroed BluMap is empty. */
#ifndef BLU_DIALECTS_MAP_H
#define BLU_DIALECTS_MAP_H
#include <stddef.h>

typedef struct { const void *key; void *value; } BluMapSlot;
typedef struct BluMap { BluMapSlot *slot; size_t size, used; } BluMap;

void *blu_map_get(const BluMap *m, const void *key);      /* NULL: absent */
void blu_map_set(BluMap *m, const void *key, void *value);
void blu_map_free(BluMap *m);
#endif
