// Composites become primitives; a reduction over several axes becomes a chain, the last axis first.
// RUN: blu-opt -pass=expand %s | FileCheck %s

// CHECK-LABEL: func.func @softmax(
// CHECK: %[[m:[0-9]+]] = blu.max %arg0 {axis = array<i64: 1>, keep = true}
// CHECK: %[[w:[0-9]+]] = blu.broadcast %[[m]]
// CHECK: %[[d:[0-9]+]] = blu.sub %arg0, %[[w]]
// CHECK: %[[e:[0-9]+]] = blu.exp %[[d]]
// CHECK: %[[s:[0-9]+]] = blu.sum %[[e]] {axis = array<i64: 1>, keep = true}
// CHECK: %[[t:[0-9]+]] = blu.broadcast %[[s]]
// CHECK: blu.div %[[e]], %[[t]]
// CHECK-NOT: blu.softmax
// CHECK: return
func.func @softmax(%x: tensor<4x10xf32>) -> tensor<4x10xf32> {
  %0 = blu.softmax %x : (tensor<4x10xf32>) -> tensor<4x10xf32>
  return %0 : tensor<4x10xf32>
}

// CHECK-LABEL: func.func @softmax_of_axis(
// CHECK: blu.max %arg0 {axis = array<i64: 0>, keep = true}
// CHECK: blu.sum {{.*}} {axis = array<i64: 0>, keep = true}
func.func @softmax_of_axis(%x: tensor<4x10xf32>) -> tensor<4x10xf32> {
  %0 = blu.softmax %x {axis = -2 : i64} : (tensor<4x10xf32>) -> tensor<4x10xf32>
  return %0 : tensor<4x10xf32>
}

// CHECK-LABEL: func.func @log_softmax(
// CHECK: blu.max
// CHECK: %[[d:[0-9]+]] = blu.sub %arg0
// CHECK: blu.exp %[[d]]
// CHECK: blu.sum
// CHECK: blu.log
// CHECK: blu.sub %[[d]]
// CHECK-NOT: blu.log_softmax
// CHECK: return
func.func @log_softmax(%x: tensor<4x10xf32>) -> tensor<4x10xf32> {
  %0 = blu.log_softmax %x : (tensor<4x10xf32>) -> tensor<4x10xf32>
  return %0 : tensor<4x10xf32>
}

// Only the label's logit is picked: no softmax is made and no one-hot tensor is multiplied.
// CHECK-LABEL: func.func @cross_entropy(
// CHECK-DAG: blu.iota {{.*}}axis = 1
// CHECK-DAG: blu.eq
// CHECK-DAG: blu.where
// CHECK-DAG: blu.log
// CHECK-NOT: blu.div
// CHECK-NOT: blu.mul
// CHECK-NOT: blu.cross_entropy
// CHECK: return
func.func @cross_entropy(%x: tensor<4x10xf32>, %y: tensor<4xui8>) -> tensor<4xf32> {
  %0 = blu.cross_entropy %x, %y : (tensor<4x10xf32>, tensor<4xui8>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A mean expands to a sum, and this one over two axes to a chain: composites inside of what expansion made are expanded too.
// CHECK-LABEL: func.func @mean(
// CHECK: %[[a:[0-9]+]] = blu.sum %arg0 {axis = array<i64: 2>}
// CHECK: %[[b:[0-9]+]] = blu.sum %[[a]] {axis = array<i64: 0>}
// CHECK: blu.constant {{.*}}value = 8.0
// CHECK: blu.div %[[b]]
// CHECK-NOT: blu.mean
// CHECK: return
func.func @mean(%x: tensor<2x3x4xf32>) -> tensor<3xf32> {
  %0 = blu.mean %x {axis = array<i64: 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @all_axes(
// CHECK: %[[a:[0-9]+]] = blu.max %arg0 {axis = array<i64: 1>}
// CHECK: %[[b:[0-9]+]] = blu.max %[[a]] {axis = array<i64: 0>}
// CHECK: return %[[b]]
func.func @all_axes(%x: tensor<3x4xf32>) -> tensor<f32> {
  %0 = blu.max %x : (tensor<3x4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// Kept axes come back by one reshape at the end.
// CHECK-LABEL: func.func @kept(
// CHECK: blu.sum %arg0 {axis = array<i64: 2>}
// CHECK: %[[b:[0-9]+]] = blu.sum {{.*}} {axis = array<i64: 1>}
// CHECK: blu.reshape %[[b]] {shape = array<i64: 2, 1, 1>}
func.func @kept(%x: tensor<2x3x4xf32>) -> tensor<2x1x1xf32> {
  %0 = blu.sum %x {axis = array<i64: 1, 2>, keep = true} : (tensor<2x3x4xf32>) -> tensor<2x1x1xf32>
  return %0 : tensor<2x1x1xf32>
}

// One axis is a primitive already, named or not; argmax has one always.
// CHECK-LABEL: func.func @untouched(
// CHECK-NEXT: blu.sum %arg0 {axis = array<i64: 0>}
// CHECK-NEXT: blu.sum %arg1 :
// CHECK-NEXT: blu.argmax %arg0 :
// CHECK-NEXT: return
func.func @untouched(%x: tensor<3x4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>, tensor<3xi32>) {
  %0 = blu.sum %x {axis = array<i64: 0>} : (tensor<3x4xf32>) -> tensor<4xf32>
  %1 = blu.sum %y : (tensor<4xf32>) -> tensor<f32>
  %2 = blu.argmax %x : (tensor<3x4xf32>) -> tensor<3xi32>
  return %0, %1, %2 : tensor<4xf32>, tensor<f32>, tensor<3xi32>
}

// Two streams of one key, and Box-Muller.
// CHECK-LABEL: func.func @normal(
// CHECK: %[[low:[0-9]+]] = blu.constant {elem = i64, shape = array<i64>, value = 7.000000e+00 : f64}
// CHECK: %[[high:[0-9]+]] = blu.constant {elem = i64, shape = array<i64>, value = 0.000000e+00 : f64}
// CHECK: blu.uniform_at %arg0, %[[low]], %[[high]]
// CHECK: blu.uniform_at %arg0
// CHECK-DAG: blu.cos
// CHECK-DAG: blu.sqrt
// CHECK-NOT: blu.normal
// CHECK: return
func.func @normal(%key: tensor<i64>) -> tensor<3xf32> {
  %0 = blu.normal %key {shape = array<i64: 3>, stream = 7 : i64} : (tensor<i64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Half types are computed in f32 and rounded by a cast, once for a composite.
// CHECK-LABEL: func.func @half(
// CHECK-NEXT: %[[a:[0-9]+]] = blu.cast %arg0 {to = f32}
// CHECK-NEXT: %[[b:[0-9]+]] = blu.cast %arg1 {to = f32}
// CHECK-NEXT: %[[s:[0-9]+]] = blu.add %[[a]], %[[b]] : tensor<4x8xf32>
// CHECK-NEXT: %[[h:[0-9]+]] = blu.cast %[[s]] {to = bf16}
// CHECK-NEXT: %[[w:[0-9]+]] = blu.cast %[[h]] {to = f32}
// CHECK-NOT: to = bf16
// CHECK: %[[q:[0-9]+]] = blu.div %{{.*}} : tensor<4x8xf32>
// CHECK-NEXT: %[[y:[0-9]+]] = blu.cast %[[q]] {to = bf16}
// CHECK-NEXT: %[[m:[0-9]+]] = blu.maximum %[[y]], %[[h]] : tensor<4x8xbf16>
// CHECK-NEXT: return %[[m]]
func.func @half(%a: tensor<4x8xbf16>, %b: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = blu.add %a, %b : tensor<4x8xbf16>
  %1 = blu.softmax %0 : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %2 = blu.maximum %1, %0 : tensor<4x8xbf16>
  return %2 : tensor<4x8xbf16>
}

// A sum over two axes is rounded behind both.
// CHECK-LABEL: func.func @half_sum(
// CHECK: blu.sum {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT: %[[s:[0-9]+]] = blu.sum {{.*}} -> tensor<8xf32>
// CHECK: blu.cast %{{.*}} {to = f16} : (tensor<8xf32>) -> tensor<8xf16>
func.func @half_sum(%a: tensor<4x8x3xf16>) -> tensor<8xf16> {
  %0 = blu.sum %a {axis = array<i64: 0, 2>} : (tensor<4x8x3xf16>) -> tensor<8xf16>
  return %0 : tensor<8xf16>
}
