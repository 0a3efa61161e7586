// RUN: split-file %s %t
// RUN: for f in %t/*.mlir; do blu-opt -pass=expand -pass=simplify -pass=fuse $f | FileCheck $f || { echo "in part $f"; exit 1; }; done

//--- softmax_and_loss.mlir
// Loss and gradient of a softmax classifier walk the rows once: one kernel of kind rows, whose reductions stay inside.
// CHECK: func.func @f(
// CHECK-NEXT: %[[c:[0-9]+]]:2 = call @[[k:[a-z0-9_]+]](%arg0, %arg1)
// CHECK-NEXT: return %[[c]]#0, %[[c]]#1
// CHECK: func.func private @[[k]](
// CHECK-SAME: -> (tensor<8xf32>, tensor<8x10xf32>) attributes {blu.kernel = "rows", blu.space = array<i64: 8, 10>}
// CHECK: blu.max
// CHECK: blu.exp
// CHECK: blu.sum
// CHECK: blu.log
// CHECK-NOT: func.func
func.func @f(%x: tensor<8x10xf32>, %y: tensor<8xui8>) -> (tensor<8xf32>, tensor<8x10xf32>) {
  %0 = blu.cross_entropy %x, %y : (tensor<8x10xf32>, tensor<8xui8>) -> tensor<8xf32>
  %1 = blu.softmax %x : (tensor<8x10xf32>) -> tensor<8x10xf32>
  return %0, %1 : tensor<8xf32>, tensor<8x10xf32>
}

//--- epilogue.mlir
// Bias and activation are applied before the product is stored; the space is the product's.
// CHECK: func.func @f(
// CHECK-NEXT: call @matmul_add_relu_8x4(%arg0, %arg1, %arg2)
// CHECK-NEXT: return
// CHECK: func.func private @matmul_add_relu_8x4({{.*}} -> tensor<8x4xf32> attributes {blu.kernel = "matmul", blu.space = array<i64: 8, 4>}
// CHECK-NEXT: blu.matmul
// CHECK-NEXT: blu.broadcast
// CHECK-NEXT: blu.add
// CHECK-NEXT: blu.relu
// CHECK-NEXT: return
// CHECK-NOT: func.func
func.func @f(%x: tensor<8x5xf32>, %w: tensor<5x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %0 = blu.matmul %x, %w : (tensor<8x5xf32>, tensor<5x4xf32>) -> tensor<8x4xf32>
  %1 = blu.broadcast %b {shape = array<i64: 8, 4>} : (tensor<4xf32>) -> tensor<8x4xf32>
  %2 = blu.add %0, %1 : tensor<8x4xf32>
  %3 = blu.relu %2 : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}

//--- only_reduced.mlir
// y * y serves the sum alone: beside the product it would have to be stored, so it goes to the reduction's kernel.
// CHECK: func.func @f(
// CHECK: %[[p:[0-9]+]] = call @matmul_8x4(
// CHECK: call @mul_sum_8x4(%[[p]])
// CHECK: func.func private @matmul_8x4(
// CHECK-NEXT: blu.matmul
// CHECK-NEXT: return
func.func @f(%x: tensor<8x5xf32>, %w: tensor<5x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>) {
  %0 = blu.matmul %x, %w : (tensor<8x5xf32>, tensor<5x4xf32>) -> tensor<8x4xf32>
  %1 = blu.mul %0, %0 : tensor<8x4xf32>
  %2 = blu.sum %1 {axis = array<i64: 1>} : (tensor<8x4xf32>) -> tensor<8xf32>
  return %0, %2 : tensor<8x4xf32>, tensor<8xf32>
}

//--- free_ops.mlir
// Constants, casts and broadcasts are copied to each kernel that uses them and never stored: the arguments of the second kernel are
// the product and the scalar, not a tensor of repeated scalars.
// CHECK: func.func @f(
// CHECK-SAME: %arg0: tensor<8x5xf32>, %arg1: tensor<5x4xf32>, %arg2: tensor<f64>
// CHECK-NOT: blu.
// CHECK: call @mul_8x5(%arg2, %arg0)
// CHECK-NOT: blu.
// CHECK: return
// CHECK: func.func private @mul_8x5(%arg0: tensor<f64>, %arg1: tensor<8x5xf32>)
// CHECK: blu.cast
// CHECK: blu.broadcast
// CHECK: blu.mul
// CHECK: func.func private @matmul_mul_add_8x4(
// CHECK: blu.cast
// CHECK: blu.broadcast
func.func @f(%x: tensor<8x5xf32>, %w: tensor<5x4xf32>, %s: tensor<f64>) -> tensor<8x4xf32> {
  %one = blu.constant {elem = f32, shape = array<i64: 8, 4>, value = 1.0 : f64} : () -> tensor<8x4xf32>
  %0 = blu.cast %s {to = f32} : (tensor<f64>) -> tensor<f32>
  %1 = blu.broadcast %0 {shape = array<i64: 8, 5>} : (tensor<f32>) -> tensor<8x5xf32>
  %2 = blu.broadcast %0 {shape = array<i64: 8, 4>} : (tensor<f32>) -> tensor<8x4xf32>
  %3 = blu.mul %1, %x : tensor<8x5xf32>
  %4 = blu.matmul %3, %w : (tensor<8x5xf32>, tensor<5x4xf32>) -> tensor<8x4xf32>
  %5 = blu.mul %4, %2 : tensor<8x4xf32>
  %6 = blu.add %5, %one : tensor<8x4xf32>
  return %6 : tensor<8x4xf32>
}

//--- shared.mlir
// Equal kernels are one function, also across functions; another shape, constant or type is another kernel.
// CHECK: func.func @f(
// CHECK-NEXT: call @exp_8(%arg0)
// CHECK-NEXT: call @exp_9(%arg2)
// CHECK: func.func @g(
// CHECK-NEXT: call @exp_8(%arg0)
// CHECK: func.func @h(
// CHECK-NEXT: call @[[k:exp_8[a-z0-9_]*]](%arg0)
// CHECK-COUNT-3: func.func private
// CHECK-NOT: func.func private
func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<9xf32>) -> (tensor<8xf32>, tensor<9xf32>) {
  %0 = blu.exp %x : tensor<8xf32>
  %1 = blu.exp %z : tensor<9xf32>
  return %0, %1 : tensor<8xf32>, tensor<9xf32>
}
func.func @g(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = blu.exp %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @h(%x: tensor<8xf64>) -> tensor<8xf64> {
  %0 = blu.exp %x : tensor<8xf64>
  return %0 : tensor<8xf64>
}

//--- guard.mlir
// Both exp would be one kernel but for the guard between them; a value from before it is an argument behind it.
// CHECK: func.func @f(
// CHECK-NEXT: %[[a:[0-9]+]] = call @exp_8(%arg0)
// CHECK-NEXT: blu.guard %[[a]]
// CHECK-NEXT: %[[b:[0-9]+]] = call @mul_8(%[[a]], %arg0)
// CHECK-NEXT: return %[[b]]
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = blu.exp %x : tensor<8xf32>
  blu.guard %0 : tensor<8xf32>
  %1 = blu.mul %0, %x : tensor<8xf32>
  return %1 : tensor<8xf32>
}

//--- view.mlir
// A reshape stays in the function as another name for the same bytes: no kernel copies. The product reads it.
// CHECK: func.func @f(
// CHECK-NEXT: %[[r:[0-9]+]] = blu.reshape %arg0 {shape = array<i64: 8, 6>}
// CHECK-NEXT: %[[p:[0-9]+]] = call @matmul_8x4(%[[r]], %arg1)
// CHECK-NEXT: %[[s:[0-9]+]] = blu.reshape %[[p]] {shape = array<i64: 32>}
// CHECK-NEXT: return %[[s]]
func.func @f(%x: tensor<8x2x3xf32>, %w: tensor<6x4xf32>) -> tensor<32xf32> {
  %0 = blu.reshape %x {shape = array<i64: 8, 6>} : (tensor<8x2x3xf32>) -> tensor<8x6xf32>
  %1 = blu.matmul %0, %w : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  %2 = blu.reshape %1 {shape = array<i64: 32>} : (tensor<8x4xf32>) -> tensor<32xf32>
  return %2 : tensor<32xf32>
}

//--- kinds.mlir
// A reduction over the last axis walks rows; over another axis it has a kernel of its own, of kind columns; a transpose that no
// product takes is a move.
// CHECK: func.func private @sum_8x4({{.*}}blu.kernel = "rows"
// CHECK: func.func private @sum_8x4_2({{.*}}blu.kernel = "columns", blu.space = array<i64: 8, 4>
// CHECK: func.func private @transpose_4x8({{.*}}blu.kernel = "move", blu.space = array<i64: 4, 8>
func.func @f(%x: tensor<8x4xf32>) -> (tensor<8xf32>, tensor<4xf32>, tensor<4x8xf32>) {
  %0 = blu.sum %x {axis = array<i64: 1>} : (tensor<8x4xf32>) -> tensor<8xf32>
  %1 = blu.sum %x {axis = array<i64: 0>} : (tensor<8x4xf32>) -> tensor<4xf32>
  %2 = blu.transpose %x {perm = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return %0, %1, %2 : tensor<8xf32>, tensor<4xf32>, tensor<4x8xf32>
}

//--- same_tensor.mlir
// Reductions that read one computed tensor are one kernel.
// CHECK: func.func @f(
// CHECK: %[[p:[0-9]+]] = call @matmul_8x4(
// CHECK: call @sum_max_8x4(%[[p]])
// CHECK-NOT: call
// CHECK: return
func.func @f(%x: tensor<8x5xf32>, %w: tensor<5x4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %p = blu.matmul %x, %w : (tensor<8x5xf32>, tensor<5x4xf32>) -> tensor<8x4xf32>
  %0 = blu.sum %p {axis = array<i64: 1>} : (tensor<8x4xf32>) -> tensor<8xf32>
  %1 = blu.max %p {axis = array<i64: 1>} : (tensor<8x4xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

//--- inner.mlir
// What only the kernel uses is no result of it, and dead ops cost nothing.
// CHECK: func.func private @exp_log_8(%arg0: tensor<8xf32>) -> tensor<8xf32>
// CHECK-NOT: func.func
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = blu.exp %x : tensor<8xf32>
  %1 = blu.log %0 : tensor<8xf32>
  %dead = blu.sqrt %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}

//--- returned_argument.mlir
// Arguments and constants that are returned: an argument needs no kernel, a constant needs one to be written.
// CHECK: func.func @f(
// CHECK-NEXT: %[[c:[0-9]+]] = call @constant_8()
// CHECK-NEXT: return %arg0, %[[c]]
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %one = blu.constant {elem = f32, shape = array<i64: 8>, value = 1.0 : f64} : () -> tensor<8xf32>
  return %x, %one : tensor<8xf32>, tensor<8xf32>
}

//--- streams.mlir
// Random tensors of one shape are one kernel, whatever their streams: those are numbers in memory, made by one kernel.
// CHECK: func.func @f(
// CHECK: %[[s:[0-9]+]]:4 = call @constant_constant_constant_constant_scalar()
// CHECK: call @uniform_at_8(%arg0, %[[s]]#0, %[[s]]#1)
// CHECK: call @uniform_at_8(%arg0, %[[s]]#2, %[[s]]#3)
// CHECK-NOT: uniform_at_8_2
func.func @f(%k: tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = blu.constant {elem = i64, shape = array<i64>, value = 1.0 : f64} : () -> tensor<i64>
  %b = blu.constant {elem = i64, shape = array<i64>, value = 2.0 : f64} : () -> tensor<i64>
  %c = blu.constant {elem = i64, shape = array<i64>, value = 3.0 : f64} : () -> tensor<i64>
  %d = blu.constant {elem = i64, shape = array<i64>, value = 4.0 : f64} : () -> tensor<i64>
  %0 = blu.uniform_at %k, %a, %b {shape = array<i64: 8>} : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8xf32>
  %1 = blu.uniform_at %k, %c, %d {shape = array<i64: 8>} : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

//--- attention.mlir
// Attention reads the heads where they lie, stores what the next product wants, and makes the sums of its gradient itself.
// CHECK: func.func @f(
// CHECK-NEXT: %[[o:[0-9]+]]:2 = call @attention_2x2x5x4(%arg0)
// CHECK-NEXT: %[[y:[0-9]+]] = blu.reshape %arg1
// CHECK-NEXT: %[[g:[0-9]+]] = call @attention_grad_2x2x5x4(%arg0, %[[o]]#1, %[[y]], %[[o]]#0)
// CHECK-NEXT: %[[z:[0-9]+]] = blu.reshape %[[o]]#0
// CHECK-NEXT: return %[[z]], %[[g]]
// CHECK: func.func private @attention_2x2x5x4(%arg0: tensor<2x5x24xf32>) -> (tensor<2x5x2x4xf32>, tensor<2x2x5xf32>)
// CHECK: func.func private @attention_grad_2x2x5x4({{.*}} -> tensor<2x5x24xf32>
func.func @f(%x: tensor<2x5x24xf32>, %y: tensor<2x5x8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x24xf32>) {
  %0 = blu.slice %x {start = array<i64: 0, 0, 0>, stop = array<i64: 2, 5, 8>} : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
  %1 = blu.reshape %0 {shape = array<i64: 2, 5, 2, 4>} : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %q = blu.transpose %1 {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %2 = blu.slice %x {start = array<i64: 0, 0, 8>, stop = array<i64: 2, 5, 16>} : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
  %3 = blu.reshape %2 {shape = array<i64: 2, 5, 2, 4>} : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %k = blu.transpose %3 {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %4 = blu.slice %x {start = array<i64: 0, 0, 16>, stop = array<i64: 2, 5, 24>} : (tensor<2x5x24xf32>) -> tensor<2x5x8xf32>
  %5 = blu.reshape %4 {shape = array<i64: 2, 5, 2, 4>} : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %v = blu.transpose %5 {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %o = blu.attention %q, %k, %v : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %6 = blu.transpose %o {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %z = blu.reshape %6 {shape = array<i64: 2, 5, 8>} : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %7 = blu.reshape %y {shape = array<i64: 2, 5, 2, 4>} : (tensor<2x5x8xf32>) -> tensor<2x5x2x4xf32>
  %c = blu.transpose %7 {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x5x2x4xf32>) -> tensor<2x2x5x4xf32>
  %l = blu.attention_lse %q, %k : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5xf32>
  %8 = blu.mul %c, %o : tensor<2x2x5x4xf32>
  %d = blu.sum %8 {axis = array<i64: 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x2x5xf32>
  %dq = blu.attention_grad %q, %k, %v, %l, %d, %c {of = 0} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5xf32>, tensor<2x2x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %dk = blu.attention_grad %q, %k, %v, %l, %d, %c {of = 1} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5xf32>, tensor<2x2x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %dv = blu.attention_grad %q, %k, %v, %l, %d, %c {of = 2} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5xf32>, tensor<2x2x5xf32>, tensor<2x2x5x4xf32>) -> tensor<2x2x5x4xf32>
  %9 = blu.transpose %dq {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %10 = blu.reshape %9 {shape = array<i64: 2, 5, 8>} : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %11 = blu.transpose %dk {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %12 = blu.reshape %11 {shape = array<i64: 2, 5, 8>} : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %13 = blu.transpose %dv {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x2x5x4xf32>) -> tensor<2x5x2x4xf32>
  %14 = blu.reshape %13 {shape = array<i64: 2, 5, 8>} : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %15 = blu.concat %10, %12 {axis = -1} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x16xf32>
  %16 = blu.concat %15, %14 {axis = 2} : (tensor<2x5x16xf32>, tensor<2x5x8xf32>) -> tensor<2x5x24xf32>
  return %z, %16 : tensor<2x5x8xf32>, tensor<2x5x24xf32>
}

//--- attention_parts.mlir
// What others read, too, is stored; and rows whose numbers lie apart are moved first.
// CHECK: func.func @f(
// CHECK-NEXT: %[[q:[0-9]+]] = call @transpose_1x2x3x4(%arg0)
// CHECK-NEXT: %[[k:[0-9]+]] = call @transpose_1x2x5x4(%arg1)
// CHECK-NEXT: %[[o:[0-9]+]] = call @attention_1x2x3x4(%[[q]], %[[k]], %arg2)
// CHECK-NEXT: return %[[o]], %[[q]]
func.func @f(%x: tensor<1x3x2x4xf32>, %y: tensor<1x2x4x5xf32>, %z: tensor<1x5x2x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) {
  %q = blu.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x3x2x4xf32>) -> tensor<1x2x3x4xf32>
  %k = blu.transpose %y {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x4x5xf32>) -> tensor<1x2x5x4xf32>
  %v = blu.transpose %z {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x5x2x4xf32>) -> tensor<1x2x5x4xf32>
  %o = blu.attention %q, %k, %v : (tensor<1x2x3x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x3x4xf32>
  return %o, %q : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>
}

//--- attention_half.mlir
// Half types are widened as they are read.
// CHECK: func.func @f(
// CHECK-NEXT: call @attention_1x2x3x4(%arg0)
func.func @f(%x: tensor<1x3x2x4xbf16>) -> tensor<1x2x3x4xf32> {
  %h = blu.transpose %x {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x3x2x4xbf16>) -> tensor<1x2x3x4xbf16>
  %q = blu.cast %h {to = f32} : (tensor<1x2x3x4xbf16>) -> tensor<1x2x3x4xf32>
  %o = blu.attention %q, %q, %q {causal = true} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}
