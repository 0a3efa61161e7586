// What nobody needs of a scan goes away; what is only handed through stays outside. Unused bodies go too.
// RUN: blu-opt -pass=simplify %s | FileCheck %s
// RUN: not blu-opt -pass=fuse -pass=plan %S/scan/shared.mlir 2>&1 | FileCheck --check-prefix=SHARED %s
// RUN: blu-opt -pass=fuse -pass=plan --plan %S/scan/planned.mlir | FileCheck --check-prefix=PLAN %S/scan/planned.mlir
// SHARED: error: another scan has this body

// CHECK-NOT: @orphan
func.func private @orphan(%c: tensor<2xf32>) -> tensor<2xf32> { return %c : tensor<2xf32> }

// The second carry leads to no result that is used, and the second stacked result has no users.
// CHECK: func.func private @dead(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
// CHECK-NOT: blu.mul
// CHECK-LABEL: func.func @dead_results(
// CHECK: blu.scan @dead(%arg0, %arg2) {carries = 1 : i64, sequences = 1 : i64, steps = 3 : i64} : (tensor<2xf32>, tensor<3x2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
func.func private @dead(%a: tensor<2xf32>, %b: tensor<2xf32>, %x: tensor<2xf32>, %w: tensor<2xf32>)
    -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = blu.add %a, %x : tensor<2xf32>
  %1 = blu.mul %b, %w : tensor<2xf32>
  %2 = blu.mul %b, %x : tensor<2xf32>
  return %0, %1, %0, %2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
func.func @dead_results(%a: tensor<2xf32>, %b: tensor<2xf32>, %x: tensor<3x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>) {
  %0:4 = blu.scan @dead(%a, %b, %x, %w) {carries = 2 : i64, sequences = 1 : i64, steps = 3 : i64}
      : (tensor<2xf32>, tensor<2xf32>, tensor<3x2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<3x2xf32>, tensor<3x2xf32>)
  return %0#0, %0#2 : tensor<2xf32>, tensor<3x2xf32>
}

// A carry that another carry needs stays, though its own result is not used.
// CHECK-LABEL: func.func private @needed(
// CHECK: return {{.*}} : tensor<2xf32>, tensor<2xf32>
// CHECK-LABEL: func.func @needed_carry(
// CHECK: blu.scan @needed(%arg0, %arg1, %arg2) {carries = 2 : i64
func.func private @needed(%a: tensor<2xf32>, %b: tensor<2xf32>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = blu.mul %a, %b : tensor<2xf32>
  %1 = blu.add %b, %x : tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
func.func @needed_carry(%a: tensor<2xf32>, %b: tensor<2xf32>, %x: tensor<3x2xf32>) -> tensor<2xf32> {
  %0:2 = blu.scan @needed(%a, %b, %x) {carries = 2 : i64, sequences = 1 : i64, steps = 3 : i64}
      : (tensor<2xf32>, tensor<2xf32>, tensor<3x2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %0#0 : tensor<2xf32>
}

// A carry that never changes is a fixed operand, and its last value the first; a constant is made in the body.
// CHECK-LABEL: func.func private @same(
// CHECK-SAME: %arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32>
// CHECK: blu.constant
// CHECK-LABEL: func.func @unchanged(
// CHECK: %[[L:.*]] = blu.scan @same(%arg0, %arg1) {carries = 1 : i64, sequences = 0 : i64
// CHECK: return %[[L]], %arg1
func.func private @same(%a: tensor<2xf32>, %b: tensor<2xf32>, %k: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = blu.mul %a, %b : tensor<2xf32>
  %1 = blu.add %0, %k : tensor<2xf32>
  return %1, %b : tensor<2xf32>, tensor<2xf32>
}
func.func @unchanged(%a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %k = blu.constant {elem = f32, shape = array<i64: 2>, value = 3.0 : f64} : () -> tensor<2xf32>
  %0:2 = blu.scan @same(%a, %b, %k) {carries = 2 : i64, sequences = 0 : i64, steps = 3 : i64}
      : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xf32>
}

// A scan without users goes, and its body too.
// CHECK-NOT: @gone
// CHECK-LABEL: func.func @unused_scan(
// CHECK-NEXT: return %arg0
func.func private @gone(%a: tensor<2xf32>) -> tensor<2xf32> { %0 = blu.neg %a : tensor<2xf32> return %0 : tensor<2xf32> }
func.func @unused_scan(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = blu.scan @gone(%a) {carries = 1 : i64, sequences = 0 : i64, steps = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %a : tensor<2xf32>
}
