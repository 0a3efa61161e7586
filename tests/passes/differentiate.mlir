// RUN: blu-opt -pass=differentiate %s | FileCheck %s
// RUN: not blu-opt -pass=differentiate %S/inputs/no_loss.mlir 2>&1 | FileCheck --check-prefix=NOLOSS %s
