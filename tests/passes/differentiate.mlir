// The pass works on @train: one part per property. Arguments are the parameters w and v and the data x; results loss and weight,
// then a gradient per parameter.
// RUN: split-file %s %t
// RUN: for f in %t/*.mlir; do blu-opt -pass=differentiate $f | FileCheck $f || { echo "in part $f"; exit 1; }; done

//--- seed.mlir
// The loss is sum / weight: the cotangent of sum is 1 / weight, and 0 if the weight is 0. What was there before stays first.
// CHECK: tensor<f32> {blu.name = "loss", blu.role = "sum"}, tensor<f32> {blu.name = "loss", blu.role = "weight"}, tensor<f32> {blu.name = "w", blu.role = "grad"}
// CHECK: %[[sum:[0-9]+]] = blu.mul %arg0, %arg1
// CHECK-DAG: %[[zero:[0-9a-z]+]] = blu.constant {{.*}}value = 0.0
// CHECK-DAG: %[[one:[0-9a-z]+]] = blu.constant {{.*}}value = 1.0
// CHECK-DAG: %[[empty:[0-9]+]] = blu.eq %arg2, %[[zero]]
// CHECK-DAG: %[[per:[0-9]+]] = blu.div %[[one]], %arg2
// CHECK: %[[seed:[0-9]+]] = blu.where %[[empty]], %[[zero]], %[[per]]
// CHECK: %[[g:[0-9]+]] = blu.mul %[[seed]], %arg1
// CHECK: return %[[sum]], %arg2, %[[g]]
func.func @train(%w: tensor<f32> {blu.role = "param", blu.name = "w"}, %x: tensor<f32> {blu.role = "data", blu.name = "x"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = blu.mul %w, %x : tensor<f32>
  return %0, %n : tensor<f32>, tensor<f32>
}

//--- sum_alone.mlir
// In a step of micro-batches the weight of the whole step is not known yet: the gradient is that of the sum.
// CHECK: %[[sum:[0-9]+]] = blu.mul %arg0, %arg1
// CHECK-NOT: blu.div
// CHECK: %[[one:[0-9a-z]+]] = blu.constant {{.*}}value = 1.0
// CHECK-NOT: blu.div
// CHECK: %[[g:[0-9]+]] = blu.mul %[[one]], %arg1
// CHECK: return %[[sum]], %arg2, %[[g]]
module attributes {blu.accumulate} {
func.func @train(%w: tensor<f32> {blu.role = "param", blu.name = "w"}, %x: tensor<f32> {blu.role = "data", blu.name = "x"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = blu.mul %w, %x : tensor<f32>
  return %0, %n : tensor<f32>, tensor<f32>
}
}

//--- second_use.mlir
// w is used twice, and twice by one op: its cotangents are summed, later uses first.
// CHECK: %[[seed:[0-9]+]] = blu.where
// CHECK: %[[neg:[0-9]+]] = blu.neg %[[seed]]
// CHECK-DAG: %[[a:[0-9]+]] = blu.mul %[[seed]], %arg0
// CHECK: %[[both:[0-9]+]] = blu.add
// CHECK: %[[all:[0-9]+]] = blu.add
// CHECK: return %{{[0-9]+}}, %arg1, %[[all]]
func.func @train(%w: tensor<f32> {blu.role = "param", blu.name = "w"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = blu.mul %w, %w : tensor<f32>
  %1 = blu.sub %0, %w : tensor<f32>
  return %1, %n : tensor<f32>, tensor<f32>
}

//--- broadcast.mlir
// What was repeated is summed: over added axes and over stretched ones, and the result has the operand's shape.
// CHECK: %[[v:[0-9]+]] = blu.sum %{{[0-9]+}} {axis = array<i64: 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3xf32>
// CHECK: %[[vr:[0-9]+]] = blu.reshape %[[v]] {shape = array<i64: 3, 1>}
// CHECK: %[[w:[0-9]+]] = blu.sum %{{[0-9]+}} {axis = array<i64: 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4xf32>
// CHECK-NOT: blu.reshape
// CHECK: return %{{[0-9]+}}, %arg2, %[[w]], %[[vr]]
func.func @train(%w: tensor<4xf32> {blu.role = "param", blu.name = "w"}, %v: tensor<3x1xf32> {blu.role = "param", blu.name = "v"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = blu.broadcast %w {shape = array<i64: 2, 3, 4>} : (tensor<4xf32>) -> tensor<2x3x4xf32>
  %1 = blu.broadcast %v {shape = array<i64: 2, 3, 4>} : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  %2 = blu.mul %0, %1 : tensor<2x3x4xf32>
  %3 = blu.sum %2 : (tensor<2x3x4xf32>) -> tensor<f32>
  return %3, %n : tensor<f32>, tensor<f32>
}

//--- nodiff.mlir
// floor, comparisons, argmax and integers end the walk: w leads nowhere else, so nothing is pulled back through exp and its
// gradient is zero.
// CHECK: blu.argmax
// CHECK: %[[seed:[0-9]+]] = blu.where
// CHECK-NOT: blu.mul
// CHECK-NOT: blu.ne
// CHECK: %[[g:[0-9a-z]+]] = blu.constant {{.*}}shape = array<i64: 4>, value = 0.0
// CHECK: return %{{[0-9]+}}, %arg1, %[[g]]
func.func @train(%w: tensor<4xf32> {blu.role = "param", blu.name = "w"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %e = blu.exp %w : tensor<4xf32>
  %f = blu.floor %e : tensor<4xf32>
  %c = blu.lt %f, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %d = blu.cast %c {to = f32} : (tensor<4xi1>) -> tensor<4xf32>
  %i = blu.cast %w {to = i32} : (tensor<4xf32>) -> tensor<4xi32>
  %j = blu.cast %i {to = f32} : (tensor<4xi32>) -> tensor<4xf32>
  %k = blu.argmax %w : (tensor<4xf32>) -> tensor<i32>
  %l = blu.cast %k {to = f32} : (tensor<i32>) -> tensor<f32>
  %s = blu.add %d, %j : tensor<4xf32>
  %t = blu.sum %s : (tensor<4xf32>) -> tensor<f32>
  %u = blu.add %t, %l : tensor<f32>
  return %u, %n : tensor<f32>, tensor<f32>
}

//--- no_way.mlir
// v reaches a metric, not the loss: its gradient is zero, and the metric's ops are not walked.
// CHECK: blu.sin
// CHECK-NOT: blu.cos
// CHECK: %[[zero:[0-9a-z]+]] = blu.constant {{.*}}shape = array<i64: 4>, value = 0.0
// CHECK: return {{.*}}, %[[zero]] : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>
func.func @train(%w: tensor<f32> {blu.role = "param", blu.name = "w"}, %v: tensor<4xf32> {blu.role = "param", blu.name = "v"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"},
        tensor<f32> {blu.role = "sum", blu.name = "size"}, tensor<f32> {blu.role = "weight", blu.name = "size"}) {
  %0 = blu.mul %w, %w : tensor<f32>
  %1 = blu.sin %v : tensor<4xf32>
  %2 = blu.sum %1 : (tensor<4xf32>) -> tensor<f32>
  return %0, %n, %2, %n : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

//--- only_needed.mlir
// x is data: a product with it gives a cotangent to w alone.
// CHECK: blu.matmul %arg1, %arg0
// CHECK: blu.matmul %arg1, %{{[0-9]+}} {ta = true}
// CHECK-NOT: blu.matmul
// CHECK: return
func.func @train(%w: tensor<5x3xf32> {blu.role = "param", blu.name = "w"}, %x: tensor<4x5xf32> {blu.role = "data", blu.name = "x"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = blu.matmul %x, %w : (tensor<4x5xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
  %1 = blu.sum %0 : (tensor<4x3xf32>) -> tensor<f32>
  return %1, %n : tensor<f32>, tensor<f32>
}

//--- product.mlir
// Transposes are flags of the products: no transpose is made. A batch times one matrix is more rows for the matrix.
// CHECK: %[[ct:[0-9]+]] = blu.broadcast {{.*}} -> tensor<2x4x3xf32>
// CHECK: blu.matmul %[[ct]], %arg0 : (tensor<2x4x3xf32>, tensor<3x5xf32>) -> tensor<2x4x5xf32>
// CHECK: %[[rows:[0-9]+]] = blu.reshape %arg1 {shape = array<i64: 8, 5>}
// CHECK: %[[ctr:[0-9]+]] = blu.reshape %[[ct]] {shape = array<i64: 8, 3>}
// CHECK: blu.matmul %[[ctr]], %[[rows]] {ta = true} : (tensor<8x3xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
// CHECK-NOT: blu.transpose
// CHECK: return
func.func @train(%w: tensor<3x5xf32> {blu.role = "param", blu.name = "w"}, %v: tensor<2x4x5xf32> {blu.role = "param", blu.name = "v"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = blu.matmul %v, %w {tb = true} : (tensor<2x4x5xf32>, tensor<3x5xf32>) -> tensor<2x4x3xf32>
  %1 = blu.sum %0 : (tensor<2x4x3xf32>) -> tensor<f32>
  return %1, %n : tensor<f32>, tensor<f32>
}

//--- cross_entropy.mlir
// The gradient is softmax minus one at the label, for the rows that count.
// CHECK: blu.cross_entropy
// CHECK: blu.softmax %arg0
// CHECK: %[[hit:[0-9]+]] = blu.eq
// CHECK: %[[g:[0-9]+]] = blu.where %[[hit]]
// CHECK: blu.ne
// CHECK: blu.where {{.*}} %[[g]]
// CHECK: return
func.func @train(%w: tensor<4x10xf32> {blu.role = "param", blu.name = "w"}, %y: tensor<4xui8> {blu.role = "data", blu.name = "y"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = blu.cross_entropy %w, %y : (tensor<4x10xf32>, tensor<4xui8>) -> tensor<4xf32>
  %1 = blu.sum %0 : (tensor<4xf32>) -> tensor<f32>
  return %1, %n : tensor<f32>, tensor<f32>
}

//--- where.mlir
// The branch not taken gets no cotangent.
// CHECK: %[[seed:[0-9]+]] = blu.where %{{[0-9]+}}
// CHECK: %[[zero:[0-9a-z]+]] = blu.constant {{.*}}value = 0.0
// CHECK: %[[gw:[0-9]+]] = blu.where %arg2, %[[seed]], %[[zero]]
// CHECK: %[[gv:[0-9]+]] = blu.where %arg2, %[[zero]], %[[seed]]
// CHECK: return %{{[0-9]+}}, %arg3, %[[gw]], %[[gv]]
func.func @train(%w: tensor<f32> {blu.role = "param", blu.name = "w"}, %v: tensor<f32> {blu.role = "param", blu.name = "v"}, %c: tensor<i1> {blu.role = "data", blu.name = "c"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = blu.where %c, %w, %v : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %n : tensor<f32>, tensor<f32>
}

//--- parts.mlir
// What was cut into parts gets one gradient behind the other, not a sum with zeros around (which nobody uses then).
// CHECK: %[[front:[0-9]+]] = blu.concat {{.*}}axis = 0 {{.*}}tensor<1xf32>, tensor<2xf32>
// CHECK: return %{{[0-9]+}}, %arg1, %[[front]]
func.func @train(%w: tensor<3xf32> {blu.role = "param", blu.name = "w"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = blu.slice %w {start = array<i64: 1>, stop = array<i64: 3>} : (tensor<3xf32>) -> tensor<2xf32>
  %1 = blu.slice %w {start = array<i64: 0>, stop = array<i64: 1>} : (tensor<3xf32>) -> tensor<1xf32>
  %2 = blu.sum %0 : (tensor<2xf32>) -> tensor<f32>
  %3 = blu.sum %1 : (tensor<1xf32>) -> tensor<f32>
  %4 = blu.mul %2, %3 : tensor<f32>
  return %4, %n : tensor<f32>, tensor<f32>
}

//--- overlap.mlir
// Parts that overlap, or that leave a gap, are added.
// CHECK: blu.pad
// CHECK: blu.pad
// CHECK: blu.add
// CHECK-NOT: blu.concat
func.func @train(%w: tensor<3xf32> {blu.role = "param", blu.name = "w"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = blu.slice %w {start = array<i64: 1>, stop = array<i64: 3>} : (tensor<3xf32>) -> tensor<2xf32>
  %1 = blu.slice %w {start = array<i64: 0>, stop = array<i64: 2>} : (tensor<3xf32>) -> tensor<2xf32>
  %2 = blu.sum %0 : (tensor<2xf32>) -> tensor<f32>
  %3 = blu.sum %1 : (tensor<2xf32>) -> tensor<f32>
  %4 = blu.mul %2, %3 : tensor<f32>
  return %4, %n : tensor<f32>, tensor<f32>
}

//--- untouched.mlir
// Other functions have no gradient.
// CHECK-LABEL: func.func @eval(
// CHECK-NEXT: blu.exp
// CHECK-NEXT: return
func.func @eval(%w: tensor<f32> {blu.role = "param", blu.name = "w"}) -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}) {
  %0 = blu.exp %w : tensor<f32>
  return %0 : tensor<f32>
}

//--- tied.mlir
// A table that is also a matrix: the rows are added to the product's cotangent itself, not to zeros of that size (which stay, unused).
// CHECK: %[[P:[0-9]+]] = blu.matmul {{.*}} -> tensor<7x2xf32>
// CHECK: blu.scatter_add %[[P]], %arg1, {{.*}}
// CHECK-NOT: blu.add
func.func @train(%w: tensor<7x2xf32> {blu.role = "param", blu.name = "w"}, %i: tensor<3xi32> {blu.role = "data", blu.name = "i"},
                 %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = blu.gather %w, %i : (tensor<7x2xf32>, tensor<3xi32>) -> tensor<3x2xf32>
  %1 = blu.matmul %0, %w {ta = false, tb = true} : (tensor<3x2xf32>, tensor<7x2xf32>) -> tensor<3x7xf32>
  %2 = blu.sum %1 : (tensor<3x7xf32>) -> tensor<f32>
  return %2, %n : tensor<f32>, tensor<f32>
}
