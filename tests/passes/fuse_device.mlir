// RUN: split-file %s %t
// RUN: for f in %t/*.mlir; do blu-opt -pass=expand -pass=simplify -pass=fuse -pass=plan $f | FileCheck $f || { echo "in part $f"; exit 1; }; done

//--- bias.mlir
// A library's product takes the bias; the activation is a kernel of its own.
// CHECK: func.func @f(
// CHECK-NEXT: %[[p:[0-9]+]] = call @matmul_add_8x4(%arg0, %arg1, %arg2)
// CHECK-NEXT: call @relu_8x4(%[[p]])
// CHECK: func.func private @matmul_add_8x4({{.*}} -> tensor<8x4xf32> attributes {blu.kernel = "matmul"
// CHECK: func.func private @relu_8x4({{.*}} attributes {blu.kernel = "rows"
module attributes {blu.target = "cuda"} {
func.func @f(%x: tensor<8x5xf32>, %w: tensor<5x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %0 = blu.matmul %x, %w : (tensor<8x5xf32>, tensor<5x4xf32>) -> tensor<8x4xf32>
  %1 = blu.broadcast %b {shape = array<i64: 8, 4>} : (tensor<4xf32>) -> tensor<8x4xf32>
  %2 = blu.add %0, %1 : tensor<8x4xf32>
  %3 = blu.relu %2 : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}
}

//--- no_bias.mlir
// What isn't a bias: something of another shape, something that isn't in memory, and a bias behind a product that others read too.
// CHECK: func.func @f(
// CHECK-DAG: call @matmul_8x4(%arg0, %arg1)
// CHECK-DAG: call @matmul_8x4(%arg0, %arg2)
// CHECK-DAG: call @matmul_8x4(%arg0, %arg3)
// CHECK-NOT: @matmul_add
module attributes {blu.target = "cuda"} {
func.func @f(%x: tensor<8x5xf32>, %w: tensor<5x4xf32>, %v: tensor<5x4xf32>, %u: tensor<5x4xf32>, %b: tensor<8x1xf32>, %i: tensor<4xi32>, %c: tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = blu.matmul %x, %w : (tensor<8x5xf32>, tensor<5x4xf32>) -> tensor<8x4xf32>
  %1 = blu.broadcast %b {shape = array<i64: 8, 4>} : (tensor<8x1xf32>) -> tensor<8x4xf32>
  %2 = blu.add %0, %1 : tensor<8x4xf32>
  %3 = blu.matmul %x, %v : (tensor<8x5xf32>, tensor<5x4xf32>) -> tensor<8x4xf32>
  %4 = blu.cast %i {to = f32} : (tensor<4xi32>) -> tensor<4xf32>
  %5 = blu.broadcast %4 {shape = array<i64: 8, 4>} : (tensor<4xf32>) -> tensor<8x4xf32>
  %6 = blu.add %3, %5 : tensor<8x4xf32>
  %7 = blu.matmul %x, %u : (tensor<8x5xf32>, tensor<5x4xf32>) -> tensor<8x4xf32>
  %8 = blu.broadcast %c {shape = array<i64: 8, 4>} : (tensor<4xf32>) -> tensor<8x4xf32>
  %9 = blu.add %7, %8 : tensor<8x4xf32>
  return %2, %6, %7, %9 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}
}

//--- own_product.mlir
// A product that no library computes keeps its elementwise ops.
// CHECK: call @matmul_add_relu_8x4(%arg0, %arg1, %arg2)
module attributes {blu.target = "cuda"} {
func.func @f(%x: tensor<8x5xf64>, %w: tensor<5x4xf64>, %b: tensor<4xf64>) -> tensor<8x4xf64> {
  %0 = blu.matmul %x, %w : (tensor<8x5xf64>, tensor<5x4xf64>) -> tensor<8x4xf64>
  %1 = blu.broadcast %b {shape = array<i64: 8, 4>} : (tensor<4xf64>) -> tensor<8x4xf64>
  %2 = blu.add %0, %1 : tensor<8x4xf64>
  %3 = blu.relu %2 : tensor<8x4xf64>
  return %3 : tensor<8x4xf64>
}
}

//--- numbers.mlir
// What run values and steps give is the host's, on both sides of the guard, and has a place from the start. A number of an input is the device's.
// CHECK: func.func @train(
// CHECK-NEXT: %[[h:[0-9]+]] = call @mul_scalar(%arg1, %arg2)
// CHECK: call @exp_scalar(%arg3)
// CHECK: blu.guard
// CHECK-NEXT: call @pow_scalar(%[[h]], %arg2)
// CHECK: func.func private @mul_scalar({{.*}}blu.host = 1 : i64
// CHECK: func.func private @exp_scalar(
// CHECK-NOT: blu.host
// CHECK: func.func private @pow_scalar({{.*}}blu.host = 1 : i64
module attributes {blu.target = "cuda"} {
func.func @train(%w: tensor<4xf32> {blu.role = "param", blu.name = "w"}, %lr: tensor<f64> {blu.role = "run", blu.name = "lr"}, %t: tensor<f64> {blu.role = "step", blu.name = ""}, %k: tensor<f64> {blu.role = "data", blu.name = "k"}) -> (tensor<4xf32> {blu.role = "param", blu.name = "w"}, tensor<f64> {blu.role = "output", blu.name = "e"}) {
  %0 = blu.mul %lr, %t : tensor<f64>
  %1 = blu.exp %k : tensor<f64>
  blu.guard %1 : tensor<f64>
  %2 = blu.pow %0, %t : tensor<f64>
  %3 = blu.cast %2 {to = f32} : (tensor<f64>) -> tensor<f32>
  %4 = blu.broadcast %3 {shape = array<i64: 4>} : (tensor<f32>) -> tensor<4xf32>
  %5 = blu.mul %w, %4 : tensor<4xf32>
  return %5, %1 : tensor<4xf32>, tensor<f64>
}
}

//--- attention.mlir
// For a device, attention and the logarithms that its gradient wants are one kernel, and so are the gradients of keys and values; scores are nowhere.
// CHECK: func.func @f(
// CHECK-NEXT: %[[f:[0-9]+]]:2 = call @attention_1x2x6x4(%arg0, %arg1, %arg2)
// CHECK-NEXT: call @attention_grad_1x2x6x4(
// CHECK-NEXT: call @attention_grad_1x2x8x4(
// CHECK-NEXT: return
// CHECK: func.func private @attention_1x2x6x4({{.*}} attributes {blu.kernel = "attention", blu.space = array<i64: 1, 2, 6, 4>}
module attributes {blu.target = "cuda"} {
func.func @f(%q: tensor<1x2x6x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %d: tensor<1x2x6xf32>, %c: tensor<1x2x6x4xf32>)
    -> (tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) {
  %0 = blu.attention %q, %k, %v {causal = true} : (tensor<1x2x6x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x6x4xf32>
  %1 = blu.attention_lse %q, %k {causal = true} : (tensor<1x2x6x4xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x6xf32>
  %2 = blu.attention_grad %q, %k, %v, %1, %d, %c {of = 0 : i64, causal = true} : (tensor<1x2x6x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x6x4xf32>
  %3 = blu.attention_grad %q, %k, %v, %1, %d, %c {of = 1 : i64, causal = true} : (tensor<1x2x6x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x8x4xf32>
  %4 = blu.attention_grad %q, %k, %v, %1, %d, %c {of = 2 : i64, causal = true} : (tensor<1x2x6x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x6xf32>, tensor<1x2x6xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x8x4xf32>
  return %0, %2, %3, %4 : tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
}
}

//--- windows.mlir
// A device takes as many images at a time as fill it: here half of 132, by 32 x 32 places and 64 channels; the sum over steps is of weights alone.
// CHECK: module attributes
// CHECK: blu.scan @conv2d({{.*}} {blu.places = {{.*}} steps = 2 : i64}
// CHECK: func.func private @conv2d(%arg0: tensor<66x33x32x1xf32>
// CHECK: call @patches_66x32x32x2x1x1(
// CHECK: call @matmul_67584x64(
module attributes {blu.target = "cuda"} {
func.func @f(%x: tensor<132x33x32x1xf32>, %w: tensor<64x1x2x1xf32>) -> tensor<132x32x32x64xf32> {
  %0 = blu.conv2d %x, %w {by_image = true} : (tensor<132x33x32x1xf32>, tensor<64x1x2x1xf32>) -> tensor<132x32x32x64xf32>
  return %0 : tensor<132x32x32x64xf32>
}
}

//--- few_windows.mlir
// Where they are few, the windows of all images are one tensor, which the gradient reads again.
// CHECK-NOT: blu.scan
// CHECK: call @patches_132x32x32x2x1x1(
// CHECK-NOT: blu.scan
module attributes {blu.target = "cuda"} {
func.func @f(%x: tensor<132x33x32x1xf32>, %w: tensor<64x1x2x1xf32>) -> tensor<132x32x32x64xf32> {
  %0 = blu.conv2d %x, %w : (tensor<132x33x32x1xf32>, tensor<64x1x2x1xf32>) -> tensor<132x32x32x64xf32>
  return %0 : tensor<132x32x32x64xf32>
}
}

//--- attention_memory.mlir
// Queries, keys, values and the result are all that attention needs: 32 KiB each. Scores would be 2 MiB.
// CHECK: module attributes {blu.arena = 131072 : i64
module attributes {blu.target = "cuda"} {
func.func @f(%q: tensor<1x2x512x8xf32> {blu.name = "q", blu.role = "input"}, %k: tensor<1x2x512x8xf32> {blu.name = "k", blu.role = "input"}, %v: tensor<1x2x512x8xf32> {blu.name = "v", blu.role = "input"}) -> (tensor<1x2x512x8xf32> {blu.name = "y", blu.role = "output"}) {
  %0 = blu.attention %q, %k, %v {causal = true} : (tensor<1x2x512x8xf32>, tensor<1x2x512x8xf32>, tensor<1x2x512x8xf32>) -> tensor<1x2x512x8xf32>
  return %0 : tensor<1x2x512x8xf32>
}
}
