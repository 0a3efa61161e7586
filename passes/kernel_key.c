/* kernel_key.c - what a kernel does, as words that can be compared: equal keys are equal kernels. */
#include <stdlib.h>
#include <string.h>
#include "dialects/map.h"
#include "dialects/memory.h"
#include "passes/kernel.h"
#include "passes_internal.h"

static void word(BluKernelKey *k, const void *w) {
  if (k->n == k->cap) k->word = blu_realloc(k->word, (size_t)(k->cap = k->cap ? 2 * k->cap : 64) * sizeof *k->word);
  k->word[k->n++] = w;
}

/* A type; without sizes its elements, and whether there is one of them or many. */
static void word_of_type(BluKernelKey *k, MlirType type, bool sizes) {
  BluType t;
  if (!sizes && blu_type_from_mlir(type, &t)) word(k, (void *)(intptr_t)(2 * (int)t.elem + (blu_type_count(&t) == 1)));
  else word(k, type.ptr);
}

static void words_of_op(BluKernelKey *k, MlirOperation o, BluMap *number, bool sizes) {
  MlirIdentifier shape = mlirIdentifierGet(mlirOperationGetContext(o), mlirStringRefCreateFromCString("shape"));
  word(k, mlirOperationGetName(o).ptr);
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(o); i++) {
    MlirNamedAttribute a = mlirOperationGetAttribute(o, i);
    if (sizes || a.name.ptr != shape.ptr) word(k, a.name.ptr), word(k, a.attribute.ptr);
  }
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(o); i++) word(k, blu_map_get(number, mlirOperationGetOperand(o, i).ptr));
  for (intptr_t i = 0; i < mlirOperationGetNumResults(o); i++) {
    MlirValue v = mlirOperationGetResult(o, i);
    word_of_type(k, mlirValueGetType(v), sizes);
    blu_map_set(number, v.ptr, (void *)(intptr_t)(number->used + 1));
  }
}

BluKernelKey blu_kernel_key(MlirOperation func, bool sizes) {
  static const char *const about[] = {"blu.kernel", "blu.host", "blu.space", "function_type"};
  BluKernelKey k = {0};
  BluMap number = {0};
  MlirBlock block = blu_func_block(func);
  for (size_t i = 0; i < (sizes ? sizeof about / sizeof *about : 2); i++)
    word(&k, mlirOperationGetAttributeByName(func, mlirStringRefCreateFromCString(about[i])).ptr);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) {
    MlirValue v = mlirBlockGetArgument(block, i);
    word_of_type(&k, mlirValueGetType(v), sizes);
    blu_map_set(&number, v.ptr, (void *)(intptr_t)(number.used + 1));
  }
  for (MlirOperation o = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(o); o = mlirOperationGetNextInBlock(o))
    words_of_op(&k, o, &number, sizes);
  blu_map_free(&number);
  return k;
}

bool blu_kernel_key_same(const BluKernelKey *a, const BluKernelKey *b) {
  return a->n == b->n && !memcmp(a->word, b->word, a->n * sizeof *a->word);
}

void blu_kernel_key_free(BluKernelKey *k) {
  free(k->word);
  *k = (BluKernelKey){0};
}
