/* data.c - the data source that a program names, asked by the table that its trainer will have. */
#include <string.h>
#include "mlir-c/BuiltinAttributes.h"
#include "codegen/codegen.h"
#include "runtime/data.h"

bool blu_data_check(MlirModule m, MlirLocation *at, char **error) {
  MlirOperation train = blu_func_find(m, "train");
  MlirAttribute source = mlirOperationGetAttributeByName(mlirModuleGetOperation(m), mlirStringRefCreateFromCString("blu.data"));
  BluError err;
  if (mlirOperationIsNull(train) || mlirAttributeIsNull(source)) return true;
  MlirStringRef name = mlirStringAttrGetValue(source);
  if (!name.length || blu_data_known(&err, name.data)) return true; /* ended by 0, but for an empty one, which is NULL */
  *at = mlirOperationGetLocation(train);
  *error = strdup(err.text);
  return false;
}
