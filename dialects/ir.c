/* ir.c - functions of a module and their ports: arguments and results with role and name (docs/ir.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dialects_internal.h"
#include "dialects/map.h"
#include "mlir-c/BuiltinAttributes.h"
#include "mlir-c/BuiltinTypes.h"
#include "mlir-c/Dialect/Func.h"
#include "dialects/memory.h"

static MlirStringRef ref(const char *s) { return mlirStringRefCreateFromCString(s); }

void blu_context_load(MlirContext ctx) {
  mlirDialectHandleLoadDialect(mlirGetDialectHandle__blu__(), ctx);
  mlirDialectHandleLoadDialect(mlirGetDialectHandle__func__(), ctx);
}

static MlirNamedAttribute named(MlirContext c, const char *name, MlirAttribute a) {
  return mlirNamedAttributeGet(mlirIdentifierGet(c, ref(name)), a);
}

static MlirAttribute port_to_mlir(MlirContext c, const BluPort *p) {
  MlirNamedAttribute a[4];
  int n = 0;
  if (p->role) a[n++] = named(c, "blu.role", mlirStringAttrGet(c, ref(p->role)));
  if (p->name) a[n++] = named(c, "blu.name", mlirStringAttrGet(c, ref(p->name)));
  if (p->has_value) a[n++] = named(c, "blu.value", mlirFloatAttrDoubleGet(c, mlirF64TypeGet(c), p->value));
  if (p->bound) a[n++] = named(c, "blu.bound", mlirIntegerAttrGet(mlirIntegerTypeGet(c, 64), p->bound));
  return mlirDictionaryAttrGet(c, n, a);
}

static MlirAttribute ports_to_mlir(MlirContext c, int n, const BluPort *ports) {
  MlirAttribute *all = blu_alloc(((size_t)n + 1) * sizeof *all);
  for (int i = 0; i < n; i++) all[i] = port_to_mlir(c, &ports[i]);
  MlirAttribute array = mlirArrayAttrGet(c, n, all);
  free(all);
  return array;
}

MlirOperation blu_func_make(MlirModule m, MlirLocation loc, const char *name, int nargs, const BluPort *args, MlirBlock *block) {
  MlirContext c = mlirModuleGetContext(m);
  MlirType *types = blu_alloc(((size_t)nargs + 1) * sizeof *types);
  MlirLocation *locs = blu_alloc(((size_t)nargs + 1) * sizeof *locs);
  for (int i = 0; i < nargs; i++) {
    types[i] = blu_type_to_mlir(c, &args[i].type);
    locs[i] = args[i].loc.ptr ? args[i].loc : loc;
  }
  *block = mlirBlockCreate(nargs, types, locs);
  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, *block);
  MlirNamedAttribute attrs[] = {
    named(c, "sym_name", mlirStringAttrGet(c, ref(name))),
    named(c, "function_type", mlirTypeAttrGet(mlirFunctionTypeGet(c, nargs, types, 0, NULL))),
    named(c, "arg_attrs", ports_to_mlir(c, nargs, args))};
  MlirOperationState st = mlirOperationStateGet(ref("func.func"), loc);
  mlirOperationStateAddAttributes(&st, 3, attrs);
  mlirOperationStateAddOwnedRegions(&st, 1, &region);
  MlirOperation f = mlirOperationCreate(&st);
  mlirBlockAppendOwnedOperation(mlirModuleGetBody(m), f);
  free(types);
  free(locs);
  return f;
}

void blu_func_return(MlirOperation f, MlirLocation loc, int n, const MlirValue *values, const BluPort *ports) {
  MlirContext c = mlirOperationGetContext(f);
  MlirBlock block = blu_func_block(f);
  MlirOperationState st = mlirOperationStateGet(ref("func.return"), loc);
  mlirOperationStateAddOperands(&st, n, values);
  mlirBlockAppendOwnedOperation(block, mlirOperationCreate(&st));
  int nargs = (int)mlirBlockGetNumArguments(block);
  MlirType *types = blu_alloc(((size_t)nargs + (size_t)n + 1) * sizeof *types);
  for (int i = 0; i < nargs; i++) types[i] = mlirValueGetType(mlirBlockGetArgument(block, i));
  for (int i = 0; i < n; i++) types[nargs + i] = mlirValueGetType(values[i]);
  mlirOperationSetAttributeByName(f, ref("function_type"), mlirTypeAttrGet(mlirFunctionTypeGet(c, nargs, types, n, types + nargs)));
  if (ports) mlirOperationSetAttributeByName(f, ref("res_attrs"), ports_to_mlir(c, n, ports));
  free(types);
}

void blu_module_set_target(MlirModule m, const char *target) {
  mlirOperationSetAttributeByName(mlirModuleGetOperation(m), ref("blu.target"), mlirStringAttrGet(mlirModuleGetContext(m), ref(target)));
}

bool blu_targets_device(MlirModule m) {
  MlirAttribute a = mlirOperationGetAttributeByName(mlirModuleGetOperation(m), ref("blu.target"));
  return !mlirAttributeIsNull(a) && mlirAttributeIsAString(a) && mlirStringRefEqual(mlirStringAttrGetValue(a), ref("cuda"));
}

void blu_func_retype(MlirOperation f) {
  MlirBlock block = blu_func_block(f);
  MlirOperation end = mlirBlockGetTerminator(block);
  int nargs = (int)mlirBlockGetNumArguments(block), n = (int)mlirOperationGetNumOperands(end);
  MlirType *types = blu_alloc(((size_t)nargs + (size_t)n + 1) * sizeof *types);
  for (int i = 0; i < nargs; i++) types[i] = mlirValueGetType(mlirBlockGetArgument(block, i));
  for (int i = 0; i < n; i++) types[nargs + i] = mlirValueGetType(mlirOperationGetOperand(end, i));
  mlirOperationSetAttributeByName(f, ref("function_type"), mlirTypeAttrGet(mlirFunctionTypeGet(mlirOperationGetContext(f), nargs, types, n, types + nargs)));
  free(types);
}

MlirOperation blu_func_find(MlirModule m, const char *name) {
  for (MlirOperation o = mlirBlockGetFirstOperation(mlirModuleGetBody(m)); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o)) {
    MlirAttribute a = mlirOperationGetAttributeByName(o, ref("sym_name"));
    if (!mlirAttributeIsNull(a) && mlirStringRefEqual(mlirStringAttrGetValue(a), ref(name))) return o;
  }
  return (MlirOperation){0};
}

void blu_func_free_name(MlirModule m, const char *base, const char *between, char *name, size_t room) {
  snprintf(name, room, "%s", base);
  for (int i = 2; !mlirOperationIsNull(blu_func_find(m, name)); i++) snprintf(name, room, "%s%s%d", base, between, i);
}

MlirOperation blu_func_open(const BluBuilder *b, const char *base, int nargs, const BluPort *args, BluBuilder *inside) {
  MlirModule m = blu_module_of(mlirBlockGetParentOperation(b->block));
  char name[64];
  blu_func_free_name(m, base, ".", name, sizeof name);
  *inside = (BluBuilder){b->ctx, b->loc, {0}, {0}};
  return blu_func_make(m, b->loc, name, nargs, args, &inside->block);
}

MlirBlock blu_func_block(MlirOperation f) { return mlirRegionGetFirstBlock(mlirOperationGetRegion(f, 0)); }

static MlirType func_type(MlirOperation f) {
  return mlirTypeAttrGetValue(mlirOperationGetAttributeByName(f, ref("function_type")));
}
int blu_func_nargs(MlirOperation f) { return (int)mlirFunctionTypeGetNumInputs(func_type(f)); }
int blu_func_nresults(MlirOperation f) { return (int)mlirFunctionTypeGetNumResults(func_type(f)); }

static const char *text(MlirAttribute a) { /* MLIR's strings end with NUL, but an empty one has no storage */
  MlirStringRef s = mlirStringAttrGetValue(a);
  return s.length ? s.data : "";
}

static BluPort port_from_mlir(MlirOperation f, const char *list, int i, MlirType type) {
  BluPort p = {.role = "", .name = ""};
  blu_type_from_mlir(type, &p.type);
  MlirAttribute all = mlirOperationGetAttributeByName(f, ref(list));
  if (mlirAttributeIsNull(all) || i >= mlirArrayAttrGetNumElements(all)) return p;
  MlirAttribute d = mlirArrayAttrGetElement(all, i), a;
  a = mlirDictionaryAttrGetElementByName(d, ref("blu.role"));
  if (!mlirAttributeIsNull(a)) p.role = text(a);
  a = mlirDictionaryAttrGetElementByName(d, ref("blu.name"));
  if (!mlirAttributeIsNull(a)) p.name = text(a);
  a = mlirDictionaryAttrGetElementByName(d, ref("blu.value"));
  if (!mlirAttributeIsNull(a)) p.has_value = true, p.value = mlirFloatAttrGetValueDouble(a);
  a = mlirDictionaryAttrGetElementByName(d, ref("blu.bound"));
  if (!mlirAttributeIsNull(a)) p.bound = mlirIntegerAttrGetValueInt(a);
  return p;
}

BluPort blu_func_arg(MlirOperation f, int i) {
  BluPort p = port_from_mlir(f, "arg_attrs", i, mlirFunctionTypeGetInput(func_type(f), i));
  p.loc = mlirOperationGetLocation(f);
  return p;
}

BluPort blu_func_result(MlirOperation f, int i) {
  BluPort p = port_from_mlir(f, "res_attrs", i, mlirFunctionTypeGetResult(func_type(f), i));
  p.loc = mlirOperationGetLocation(f);
  return p;
}

void blu_func_set_arg(MlirOperation f, int i, const BluPort *port) {
  int n = blu_func_nargs(f);
  BluPort *ports = blu_alloc((size_t)n * sizeof *ports);
  for (int k = 0; k < n; k++) ports[k] = k == i ? *port : blu_func_arg(f, k);
  mlirOperationSetAttributeByName(f, ref("arg_attrs"), ports_to_mlir(mlirOperationGetContext(f), n, ports));
  free(ports);
}

/* ---- ops ---- */

BluBuilder blu_builder_before(MlirOperation op) {
  return (BluBuilder){mlirOperationGetContext(op), mlirOperationGetLocation(op), mlirOperationGetBlock(op), op};
}

bool blu_is(MlirOperation op, const char *name) {
  if (mlirOperationIsNull(op)) return false;
  MlirStringRef s = mlirIdentifierStr(mlirOperationGetName(op));
  return s.length == strlen(name) + 4 && !memcmp(s.data, "blu.", 4) && !memcmp(s.data + 4, name, s.length - 4);
}

MlirOperation blu_def(MlirValue v) { return mlirValueIsAOpResult(v) ? mlirOpResultGetOwner(v) : (MlirOperation){0}; }

bool blu_constant_value(MlirValue v, double *value) {
  MlirOperation op = blu_def(v);
  if (!blu_is(op, "constant")) return false;
  BluAttrs as = blu_attrs_of(op);
  *value = blu_attr(&as, "value")->real;
  return true;
}

void blu_clone_into(BluBuilder *b, MlirBlock from, BluMap *map) {
  MlirOperation end = mlirBlockGetTerminator(from);
  for (MlirOperation o = mlirBlockGetFirstOperation(from); !mlirOperationEqual(o, end); o = mlirOperationGetNextInBlock(o)) {
    MlirOperation c = mlirOperationClone(o);
    for (intptr_t i = 0, n = mlirOperationGetNumOperands(c); i < n; i++) {
      void *to = blu_map_get(map, mlirOperationGetOperand(o, i).ptr);
      if (to) mlirOperationSetOperand(c, i, (MlirValue){to});
    }
    if (mlirOperationIsNull(b->before)) mlirBlockAppendOwnedOperation(b->block, c);
    else mlirBlockInsertOwnedOperationBefore(b->block, b->before, c);
    for (intptr_t i = 0, n = mlirOperationGetNumResults(o); i < n; i++)
      blu_map_set(map, mlirOperationGetResult(o, i).ptr, (void *)mlirOperationGetResult(c, i).ptr);
  }
}
