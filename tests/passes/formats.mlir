// Numbers of a simulated format are f32, rounded where they were made.
// RUN: blu-opt -pass=expand -pass=formats -pass=simplify %s | FileCheck %s
// RUN: blu-opt --run=total --input=x=1.03125,1,1,1 %s | FileCheck --check-prefix=NUMBERS %s
// RUN: blu-opt -pass=expand -pass=formats %s | blu-opt --run=total --input=x=1.03125,1,1,1 | FileCheck --check-prefix=NUMBERS %s

module attributes {blu.format = array<i64: 5, 2, 0, 1>} {
  // CHECK-LABEL: func.func @product(
  // CHECK-SAME: %arg0: tensor<2x3xf32>, %arg1: tensor<3x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: %[[a:[0-9]+]] = blu.round_to %arg0 {denormals = false, exponent = 5 : i64, mantissa = 2 : i64, saturate = true}
  // CHECK-NEXT: %[[b:[0-9]+]] = blu.round_to %arg1
  // CHECK-NEXT: %[[p:[0-9]+]] = blu.matmul %[[a]], %[[b]] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: %[[r:[0-9]+]] = blu.round_to %[[p]]
  // CHECK-NEXT: return %[[r]]
  func.func @product(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
    %0 = blu.cast %a {to = tf32} : (tensor<2x3xf32>) -> tensor<2x3xtf32>
    %1 = blu.cast %b {to = tf32} : (tensor<3x4xf32>) -> tensor<3x4xtf32>
    %2 = blu.matmul %0, %1 : (tensor<2x3xtf32>, tensor<3x4xtf32>) -> tensor<2x4xtf32>
    %3 = blu.cast %2 {to = f32} : (tensor<2x4xtf32>) -> tensor<2x4xf32>
    return %3 : tensor<2x4xf32>
  }

  // What moves and chooses numbers has nothing to round, but what it puts where none is; constants are rounded here.
  // CHECK-LABEL: func.func @moves(
  // CHECK: blu.constant {elem = f32, shape = array<i64: 4>, value = 1.000000e+00 : f64}
  // CHECK: blu.maximum %{{.*}} : tensor<4xf32>
  // CHECK-NOT: round_to
  // CHECK: blu.pad {{.*}}value = 3.500000e+00 : f64
  // CHECK-NOT: round_to
  // CHECK: return
  func.func @moves(%a: tensor<4xtf32>) -> tensor<5xf32> {
    %0 = blu.constant {value = 1.1, elem = tf32, shape = array<i64: 4>} : () -> tensor<4xtf32>
    %1 = blu.maximum %a, %0 : tensor<4xtf32>
    %2 = blu.pad %1 {low = array<i64: 1>, high = array<i64: 0>, value = 3.3} : (tensor<4xtf32>) -> tensor<5xtf32>
    %3 = blu.cast %2 {to = f32} : (tensor<5xtf32>) -> tensor<5xf32>
    return %3 : tensor<5xf32>
  }

  // 1.03125 is rounded to 1, and the sum of four, 4, is a number of the format.
  // NUMBERS: f32 = 4{{$}}
  func.func @total(%x: tensor<4xf32> {blu.role = "input", blu.name = "x"}) -> (tensor<f32> {blu.role = "output", blu.name = "y"}) {
    %0 = blu.cast %x {to = tf32} : (tensor<4xf32>) -> tensor<4xtf32>
    %1 = blu.sum %0 : (tensor<4xtf32>) -> tensor<tf32>
    %2 = blu.cast %1 {to = f32} : (tensor<tf32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
}
