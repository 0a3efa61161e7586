// The number of classes of a cross-entropy is noted at the data that its labels come from.
// RUN: blu-opt -pass=bounds %s | FileCheck %s

// CHECK-LABEL: func.func @plain(
// CHECK-SAME: %arg1: tensor<4xi32> {blu.bound = 10 : i64, blu.name = "y", blu.role = "data"}
func.func @plain(%x: tensor<4x10xf32> {blu.role = "data", blu.name = "x"}, %y: tensor<4xi32> {blu.role = "data", blu.name = "y"}) -> tensor<4xf32> {
  %0 = blu.cross_entropy %x, %y : (tensor<4x10xf32>, tensor<4xi32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Through casts and reshapes, which change no label.
// CHECK-LABEL: func.func @seen_through(
// CHECK-SAME: tensor<2x2xui8> {blu.bound = 10 : i64
func.func @seen_through(%x: tensor<4x10xf32> {blu.role = "data", blu.name = "x"}, %y: tensor<2x2xui8> {blu.role = "data", blu.name = "y"}) -> tensor<4xf32> {
  %0 = blu.reshape %y {shape = array<i64: 4>} : (tensor<2x2xui8>) -> tensor<4xui8>
  %1 = blu.cast %0 {to = i32} : (tensor<4xui8>) -> tensor<4xi32>
  %2 = blu.cross_entropy %x, %1 : (tensor<4x10xf32>, tensor<4xi32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// Two losses: the smaller number of classes is the bound, in either order.
// CHECK-LABEL: func.func @smallest(
// CHECK-SAME: tensor<4xi32> {blu.bound = 5 : i64
// CHECK-SAME: tensor<4xi32> {blu.bound = 5 : i64
func.func @smallest(%y: tensor<4xi32> {blu.role = "data", blu.name = "y"}, %z: tensor<4xi32> {blu.role = "data", blu.name = "z"},
                    %a: tensor<4x5xf32> {blu.role = "data", blu.name = "a"}, %b: tensor<4x10xf32> {blu.role = "data", blu.name = "b"})
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = blu.cross_entropy %a, %y : (tensor<4x5xf32>, tensor<4xi32>) -> tensor<4xf32>
  %1 = blu.cross_entropy %b, %y : (tensor<4x10xf32>, tensor<4xi32>) -> tensor<4xf32>
  %2 = blu.cross_entropy %b, %z : (tensor<4x10xf32>, tensor<4xi32>) -> tensor<4xf32>
  %3 = blu.cross_entropy %a, %z : (tensor<4x5xf32>, tensor<4xi32>) -> tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Inputs of entries are noted, too: `at` of a decode entry tells how long the context is.
// CHECK-LABEL: func.func @input(
// CHECK-SAME: blu.bound = 10
func.func @input(%x: tensor<4x10xf32> {blu.role = "input", blu.name = "x"}, %i: tensor<4xi32> {blu.role = "input", blu.name = "i"}) -> tensor<4xf32> {
  %0 = blu.cross_entropy %x, %i : (tensor<4x10xf32>, tensor<4xi32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Computed labels say nothing about the data; arguments that are neither data nor input are nobody's.
// CHECK-LABEL: func.func @not_noted(
// CHECK-NOT: blu.bound
// CHECK: return
func.func @not_noted(%x: tensor<4x10xf32> {blu.role = "data", blu.name = "x"}, %y: tensor<4xi32> {blu.role = "data", blu.name = "y"},
                     %i: tensor<4xi32> {blu.role = "state", blu.name = "i"}) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = blu.constant {elem = i32, shape = array<i64: 4>, value = 1.0 : f64} : () -> tensor<4xi32>
  %0 = blu.add %y, %one : tensor<4xi32>
  %1 = blu.cross_entropy %x, %0 : (tensor<4x10xf32>, tensor<4xi32>) -> tensor<4xf32>
  %2 = blu.cross_entropy %x, %i : (tensor<4x10xf32>, tensor<4xi32>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// Ids of a gather are rows of the table.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: tensor<4xi32> {blu.bound = 7 : i64
func.func @rows(%t: tensor<7x3xf32> {blu.role = "param", blu.name = "t"}, %i: tensor<4xi32> {blu.role = "data", blu.name = "i"}) -> tensor<4x3xf32> {
  %0 = blu.gather %t, %i : (tensor<7x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// A number outside of the classes that labels are compared with is allowed in the data: there is no bound then.
// CHECK-LABEL: func.func @ignored(
// CHECK-NOT: blu.bound
// CHECK: return
func.func @ignored(%x: tensor<4x10xf32> {blu.role = "data", blu.name = "x"}, %y: tensor<4xi32> {blu.role = "data", blu.name = "y"})
    -> (tensor<4xf32>, tensor<4xi1>) {
  %0 = blu.cross_entropy %x, %y : (tensor<4x10xf32>, tensor<4xi32>) -> tensor<4xf32>
  %c = blu.constant {elem = i32, shape = array<i64: 4>, value = -100.0 : f64} : () -> tensor<4xi32>
  %1 = blu.ne %y, %c : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  return %0, %1 : tensor<4xf32>, tensor<4xi1>
}
