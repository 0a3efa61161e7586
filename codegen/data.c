/* data.c - the data source that a program names, asked by the table that its trainer will have. */
#include <stdlib.h>
#include <string.h>
#include "mlir-c/BuiltinAttributes.h"
#include "codegen/codegen.h"
#include "dialects/memory.h"
#include "runtime/data.h"

static const char *text_of(MlirModule m, const char *name) {
  MlirAttribute a = mlirOperationGetAttributeByName(mlirModuleGetOperation(m), mlirStringRefCreateFromCString(name));
  MlirStringRef s = mlirAttributeIsNull(a) ? (MlirStringRef){0} : mlirStringAttrGetValue(a);
  return s.length ? s.data : ""; /* ended by 0, but for an empty one, which is NULL */
}

bool blu_data_check(MlirModule m, MlirLocation *at, char **error) {
  MlirOperation train = blu_func_find(m, "train");
  const char *source = text_of(m, "blu.data");
  if (mlirOperationIsNull(train) || !*source) return true;
  int n = blu_func_nargs(train);
  BluSlot *slot = blu_alloc_zeroed((size_t)n + 1, sizeof *slot);
  BluFunction function = {.name = "train", .slot = slot};
  for (int i = 0; i < n; i++) {
    BluPort p = blu_func_arg(train, i);
    if (!strcmp(p.role, "data")) slot[function.slots++] = (BluSlot){.name = p.name, .role = BLU_ROLE_DATA};
  }
  BluError err;
  bool good = blu_data_known(&err, source, text_of(m, "blu.data_args"), &function);
  *at = mlirOperationGetLocation(train);
  if (!good) *error = strdup(err.text);
  free(slot);
  return good;
}
