// Every rewrite once, and next to it what looks like it and must stay: each rewrite is an identity of IEEE arithmetic.
// RUN: blu-opt -pass=simplify %s | FileCheck %s

// ---- products ----

// CHECK-LABEL: func.func @mul_one(
// CHECK-NEXT: return %arg0, %arg0
func.func @mul_one(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %one = blu.constant {elem = f32, shape = array<i64: 3>, value = 1.0 : f64} : () -> tensor<3xf32>
  %0 = blu.mul %x, %one : tensor<3xf32>
  %1 = blu.mul %one, %x : tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// x * 0 is NaN for an infinite x, and -0 for a negative one.
// CHECK-LABEL: func.func @mul_zero(
// CHECK: blu.mul
func.func @mul_zero(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = blu.constant {elem = f32, shape = array<i64: 3>, value = 0.0 : f64} : () -> tensor<3xf32>
  %0 = blu.mul %x, %zero : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @div_one(
// CHECK-NEXT: return %arg0
func.func @div_one(%x: tensor<3xf32>) -> tensor<3xf32> {
  %one = blu.constant {elem = f32, shape = array<i64: 3>, value = 1.0 : f64} : () -> tensor<3xf32>
  %0 = blu.div %x, %one : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @one_over_x(
// CHECK: blu.div
func.func @one_over_x(%x: tensor<3xf32>) -> tensor<3xf32> {
  %one = blu.constant {elem = f32, shape = array<i64: 3>, value = 1.0 : f64} : () -> tensor<3xf32>
  %0 = blu.div %one, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// x / x is NaN at 0; a division by 3 is no product with 1/3.
// CHECK-LABEL: func.func @division_stays(
// CHECK: blu.div %arg0, %arg0
// CHECK: blu.div %arg0, %{{[0-9a-z]+}}
// CHECK-NOT: blu.mul
func.func @division_stays(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %three = blu.constant {elem = f32, shape = array<i64: 3>, value = 3.0 : f64} : () -> tensor<3xf32>
  %0 = blu.div %x, %x : tensor<3xf32>
  %1 = blu.div %x, %three : tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// ---- sums and differences ----

// -0 + 0 is +0. But the order of operands doesn't matter: both are one.
// CHECK-LABEL: func.func @add_zero(
// CHECK: %[[s:[0-9]+]] = blu.add %arg0
// CHECK-NOT: blu.
// CHECK: return %[[s]], %[[s]]
func.func @add_zero(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %zero = blu.constant {elem = f32, shape = array<i64: 3>, value = 0.0 : f64} : () -> tensor<3xf32>
  %0 = blu.add %x, %zero : tensor<3xf32>
  %1 = blu.add %zero, %x : tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @sub_zero(
// CHECK-NEXT: return %arg0
func.func @sub_zero(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = blu.constant {elem = f32, shape = array<i64: 3>, value = 0.0 : f64} : () -> tensor<3xf32>
  %0 = blu.sub %x, %zero : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @sub_minus_zero(
// CHECK: blu.sub
func.func @sub_minus_zero(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = blu.constant {elem = f32, shape = array<i64: 3>, value = -0.0 : f64} : () -> tensor<3xf32>
  %0 = blu.sub %x, %zero : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// 0 - x is not -x at 0, x - x is not 0 at infinity, (x + y) + z is not x + (y + z).
// CHECK-LABEL: func.func @sums_stay(
// CHECK: blu.sub %{{[0-9a-z]+}}, %arg0
// CHECK: blu.sub %arg0, %arg0
// CHECK: %[[s:[0-9]+]] = blu.add %arg0, %arg1
// CHECK: blu.add %[[s]], %arg1
func.func @sums_stay(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %zero = blu.constant {elem = f32, shape = array<i64: 3>, value = 0.0 : f64} : () -> tensor<3xf32>
  %0 = blu.sub %zero, %x : tensor<3xf32>
  %1 = blu.sub %x, %x : tensor<3xf32>
  %2 = blu.add %x, %y : tensor<3xf32>
  %3 = blu.add %2, %y : tensor<3xf32>
  return %0, %1, %3 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @neg_neg(
// CHECK-NEXT: return %arg0
func.func @neg_neg(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = blu.neg %x : tensor<3xf32>
  %1 = blu.neg %0 : tensor<3xf32>
  return %1 : tensor<3xf32>
}

// ---- where ----

// CHECK-LABEL: func.func @where_known(
// CHECK-NEXT: return %arg0, %arg1, %arg0
func.func @where_known(%x: tensor<3xf32>, %y: tensor<3xf32>, %c: tensor<3xi1>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %t = blu.constant {elem = i1, shape = array<i64: 3>, value = 1.0 : f64} : () -> tensor<3xi1>
  %f = blu.constant {elem = i1, shape = array<i64: 3>, value = 0.0 : f64} : () -> tensor<3xi1>
  %0 = blu.where %t, %x, %y : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = blu.where %f, %x, %y : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %2 = blu.where %c, %x, %x : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0, %1, %2 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @where_open(
// CHECK: blu.where %arg2, %arg0, %arg1
func.func @where_open(%x: tensor<3xf32>, %y: tensor<3xf32>, %c: tensor<3xi1>) -> tensor<3xf32> {
  %0 = blu.where %c, %x, %y : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// ---- pow ----

// CHECK-LABEL: func.func @pow_one_two(
// CHECK: %[[s:[0-9]+]] = blu.mul %arg0, %arg0
// CHECK-NOT: blu.pow
// CHECK: return %arg0, %[[s]]
func.func @pow_one_two(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %one = blu.constant {elem = f32, shape = array<i64: 3>, value = 1.0 : f64} : () -> tensor<3xf32>
  %two = blu.constant {elem = f32, shape = array<i64: 3>, value = 2.0 : f64} : () -> tensor<3xf32>
  %0 = blu.pow %x, %one : tensor<3xf32>
  %1 = blu.pow %x, %two : tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// In f64 pow and the product may round apart; 0.5 is not sqrt at -infinity; pow(x, 0) costs nothing worth a rule.
// CHECK-LABEL: func.func @pow_stays(
// CHECK: blu.pow %arg0
// CHECK: blu.pow %arg1
// CHECK: blu.pow %arg1
// CHECK-NOT: blu.mul
// CHECK-NOT: blu.sqrt
func.func @pow_stays(%d: tensor<3xf64>, %x: tensor<3xf32>) -> (tensor<3xf64>, tensor<3xf32>, tensor<3xf32>) {
  %two = blu.constant {elem = f64, shape = array<i64: 3>, value = 2.0 : f64} : () -> tensor<3xf64>
  %half = blu.constant {elem = f32, shape = array<i64: 3>, value = 0.5 : f64} : () -> tensor<3xf32>
  %three = blu.constant {elem = f32, shape = array<i64: 3>, value = 3.0 : f64} : () -> tensor<3xf32>
  %0 = blu.pow %d, %two : tensor<3xf64>
  %1 = blu.pow %x, %half : tensor<3xf32>
  %2 = blu.pow %x, %three : tensor<3xf32>
  return %0, %1, %2 : tensor<3xf64>, tensor<3xf32>, tensor<3xf32>
}

// ---- shapes and casts ----

// CHECK-LABEL: func.func @shapes(
// CHECK-DAG: %[[c:[0-9a-z]+]] = blu.constant {{.*}}shape = array<i64: 2, 3>, value = 7.0
// CHECK-DAG: %[[r:[0-9]+]] = blu.reshape %arg0 {shape = array<i64: 3, 2>}
// CHECK-DAG: %[[b:[0-9]+]] = blu.broadcast %arg1 {shape = array<i64: 4, 5, 3>}
// CHECK-NOT: blu.
// CHECK: return %arg0, %arg0, %[[c]], %[[r]], %[[b]]
func.func @shapes(%x: tensor<6xf32>, %y: tensor<3xf32>)
    -> (tensor<6xf32>, tensor<6xf32>, tensor<2x3xf32>, tensor<3x2xf32>, tensor<4x5x3xf32>) {
  %same = blu.reshape %x {shape = array<i64: 6>} : (tensor<6xf32>) -> tensor<6xf32>
  %also = blu.broadcast %x {shape = array<i64: 6>} : (tensor<6xf32>) -> tensor<6xf32>
  %seven = blu.constant {elem = f32, shape = array<i64: 3>, value = 7.0 : f64} : () -> tensor<3xf32>
  %wide = blu.broadcast %seven {shape = array<i64: 2, 3>} : (tensor<3xf32>) -> tensor<2x3xf32>
  %once = blu.reshape %x {shape = array<i64: 2, 3>} : (tensor<6xf32>) -> tensor<2x3xf32>
  %twice = blu.reshape %once {shape = array<i64: 3, 2>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %up = blu.broadcast %y {shape = array<i64: 5, 3>} : (tensor<3xf32>) -> tensor<5x3xf32>
  %upper = blu.broadcast %up {shape = array<i64: 4, 5, 3>} : (tensor<5x3xf32>) -> tensor<4x5x3xf32>
  return %same, %also, %wide, %twice, %upper : tensor<6xf32>, tensor<6xf32>, tensor<2x3xf32>, tensor<3x2xf32>, tensor<4x5x3xf32>
}

// A broadcast of a reshape aligns other axes than the reshape's operand.
// CHECK-LABEL: func.func @broadcast_of_reshape(
// CHECK: %[[r:[0-9]+]] = blu.reshape %arg0
// CHECK: blu.broadcast %[[r]]
func.func @broadcast_of_reshape(%x: tensor<3xf32>) -> tensor<3x2xf32> {
  %0 = blu.reshape %x {shape = array<i64: 3, 1>} : (tensor<3xf32>) -> tensor<3x1xf32>
  %1 = blu.broadcast %0 {shape = array<i64: 3, 2>} : (tensor<3x1xf32>) -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// A constant of f32 is the rounded number, also when it is read as f64.
// CHECK-LABEL: func.func @casts(
// CHECK: %[[c:[0-9a-z]+]] = blu.constant {{.*}}elem = f64{{.*}}value = 0.10000000149011612
// CHECK-NOT: blu.cast
// CHECK: return %arg0, %[[c]]
func.func @casts(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf64>) {
  %tenth = blu.constant {elem = f32, shape = array<i64: 3>, value = 0.1 : f64} : () -> tensor<3xf32>
  %0 = blu.cast %x {to = f32} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = blu.cast %tenth {to = f64} : (tensor<3xf32>) -> tensor<3xf64>
  return %0, %1 : tensor<3xf32>, tensor<3xf64>
}

// f32 -> f64 -> f32 would be x again, f64 -> f32 -> f64 would not; neither is touched. A constant that becomes an integer
// is left to the code, which saturates.
// CHECK-LABEL: func.func @casts_stay(
// CHECK-DAG: blu.cast %arg0 {to = f32}
// CHECK-DAG: blu.cast %{{[0-9]+}} {to = f64}
// CHECK-DAG: blu.cast %{{[0-9a-z]+}} {to = i32}
// CHECK: return
func.func @casts_stay(%x: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xi32>) {
  %huge = blu.constant {elem = f32, shape = array<i64: 3>, value = 1.0e20 : f64} : () -> tensor<3xf32>
  %0 = blu.cast %x {to = f32} : (tensor<3xf64>) -> tensor<3xf32>
  %1 = blu.cast %0 {to = f64} : (tensor<3xf32>) -> tensor<3xf64>
  %2 = blu.cast %huge {to = i32} : (tensor<3xf32>) -> tensor<3xi32>
  return %1, %2 : tensor<3xf64>, tensor<3xi32>
}

// ---- transposes and products ----

// CHECK-LABEL: func.func @transposes(
// CHECK: %[[t:[0-9]+]] = blu.transpose %arg0 {perm = array<i64: 2, 1, 0>}
// CHECK-NOT: blu.
// CHECK: return %arg0, %arg0, %[[t]]
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<4x3x2xf32>) {
  %0 = blu.transpose %x {perm = array<i64: 0, 1, 2>} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %1 = blu.transpose %x {perm = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %2 = blu.transpose %1 {perm = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  %3 = blu.transpose %1 {perm = array<i64: 1, 0, 2>} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
  return %0, %2, %3 : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<4x3x2xf32>
}

// CHECK-LABEL: func.func @product_reads_transposed(
// CHECK-NEXT: blu.matmul %arg0, %arg1 {ta = true, tb = true}
// CHECK-NEXT: return
func.func @product_reads_transposed(%a: tensor<5x3xf32>, %b: tensor<4x5xf32>) -> tensor<3x4xf32> {
  %0 = blu.transpose %a {perm = array<i64: 1, 0>} : (tensor<5x3xf32>) -> tensor<3x5xf32>
  %1 = blu.transpose %b {perm = array<i64: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
  %2 = blu.matmul %0, %1 : (tensor<3x5xf32>, tensor<5x4xf32>) -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// Two transposes are none.
// CHECK-LABEL: func.func @product_flags_cancel(
// CHECK-NEXT: blu.matmul %arg0, %arg1 {{.*}}tb = false
// CHECK-NEXT: return
func.func @product_flags_cancel(%a: tensor<3x5xf32>, %b: tensor<5x4xf32>) -> tensor<3x4xf32> {
  %0 = blu.transpose %b {perm = array<i64: 1, 0>} : (tensor<5x4xf32>) -> tensor<4x5xf32>
  %1 = blu.matmul %a, %0 {tb = true} : (tensor<3x5xf32>, tensor<4x5xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// A batch times one matrix can't read the batch transposed (no-ta-of-batch), but the matrix it can.
// CHECK-LABEL: func.func @product_of_batch(
// CHECK: %[[t:[0-9]+]] = blu.transpose %arg0
// CHECK: blu.matmul %[[t]], %arg1 {tb = true}
func.func @product_of_batch(%a: tensor<2x5x3xf32>, %b: tensor<4x5xf32>) -> tensor<2x3x4xf32> {
  %0 = blu.transpose %a {perm = array<i64: 0, 2, 1>} : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
  %1 = blu.transpose %b {perm = array<i64: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
  %2 = blu.matmul %0, %1 : (tensor<2x3x5xf32>, tensor<5x4xf32>) -> tensor<2x3x4xf32>
  return %2 : tensor<2x3x4xf32>
}

// Only a swap of the last two axes is a flag.
// CHECK-LABEL: func.func @product_of_moved_batch(
// CHECK: blu.transpose %arg0
// CHECK: blu.matmul
func.func @product_of_moved_batch(%a: tensor<3x2x5xf32>, %b: tensor<2x5x4xf32>) -> tensor<2x3x4xf32> {
  %0 = blu.transpose %a {perm = array<i64: 1, 0, 2>} : (tensor<3x2x5xf32>) -> tensor<2x3x5xf32>
  %1 = blu.matmul %0, %b : (tensor<2x3x5xf32>, tensor<2x5x4xf32>) -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// (A B)^T = B^T A^T
// CHECK-LABEL: func.func @transposed_product(
// CHECK-NEXT: blu.matmul %arg1, %arg0 {ta = true, tb = true}
// CHECK-NEXT: return
func.func @transposed_product(%a: tensor<3x5xf32>, %b: tensor<5x4xf32>) -> tensor<4x3xf32> {
  %0 = blu.matmul %a, %b : (tensor<3x5xf32>, tensor<5x4xf32>) -> tensor<3x4xf32>
  %1 = blu.transpose %0 {perm = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}

// Somebody else wants A B: two products would cost more than a transpose.
// CHECK-LABEL: func.func @transposed_product_used_twice(
// CHECK: %[[p:[0-9]+]] = blu.matmul %arg0, %arg1 :
// CHECK: blu.transpose %[[p]]
// CHECK-NOT: blu.matmul
// CHECK: return
func.func @transposed_product_used_twice(%a: tensor<3x5xf32>, %b: tensor<5x4xf32>) -> (tensor<3x4xf32>, tensor<4x3xf32>) {
  %0 = blu.matmul %a, %b : (tensor<3x5xf32>, tensor<5x4xf32>) -> tensor<3x4xf32>
  %1 = blu.transpose %0 {perm = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  return %0, %1 : tensor<3x4xf32>, tensor<4x3xf32>
}

// The batch stands on one side only: B^T A^T would need a batch on the right.
// CHECK-LABEL: func.func @transposed_product_of_shared(
// CHECK: blu.matmul %arg0, %arg1
// CHECK: blu.transpose
func.func @transposed_product_of_shared(%a: tensor<2x3x5xf32>, %b: tensor<5x4xf32>) -> tensor<2x4x3xf32> {
  %0 = blu.matmul %a, %b : (tensor<2x3x5xf32>, tensor<5x4xf32>) -> tensor<2x3x4xf32>
  %1 = blu.transpose %0 {perm = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  return %1 : tensor<2x4x3xf32>
}

// ---- reductions ----

// CHECK-LABEL: func.func @extremum_of_one(
// CHECK-NEXT: %[[r:[0-9]+]] = blu.reshape %arg0 {shape = array<i64: 3>}
// CHECK-NEXT: return %[[r]], %arg0
func.func @extremum_of_one(%x: tensor<3x1xf32>) -> (tensor<3xf32>, tensor<3x1xf32>) {
  %0 = blu.max %x {axis = array<i64: 1>} : (tensor<3x1xf32>) -> tensor<3xf32>
  %1 = blu.min %x {axis = array<i64: 1>, keep = true} : (tensor<3x1xf32>) -> tensor<3x1xf32>
  return %0, %1 : tensor<3xf32>, tensor<3x1xf32>
}

// A sum starts at +0: the sum of one -0 is +0.
// CHECK-LABEL: func.func @sum_of_one(
// CHECK: blu.sum
// CHECK: blu.mean
func.func @sum_of_one(%x: tensor<3x1xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = blu.sum %x {axis = array<i64: 1>} : (tensor<3x1xf32>) -> tensor<3xf32>
  %1 = blu.mean %x {axis = array<i64: 1>} : (tensor<3x1xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @extremum_of_many(
// CHECK: blu.max
func.func @extremum_of_many(%x: tensor<3x2xf32>) -> tensor<3xf32> {
  %0 = blu.max %x {axis = array<i64: 1>} : (tensor<3x2xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// ---- arithmetic on constants ----

// In f32 each step is rounded: 16777216 + 1 stays 16777216.
// CHECK-LABEL: func.func @constants(
// CHECK-DAG: %[[add:[0-9a-z]+]] = blu.constant {{.*}}elem = f32{{.*}}value = 0x4170000000000000
// CHECK-DAG: %[[sqrt:[0-9a-z]+]] = blu.constant {{.*}}elem = f64{{.*}}value = 1.4142135623730951
// CHECK-DAG: %[[third:[0-9a-z]+]] = blu.constant {{.*}}elem = f32{{.*}}value = 0.3333333432674408
// CHECK-DAG: %[[neg:[0-9a-z]+]] = blu.constant {{.*}}elem = f32{{.*}}value = -1.0
// CHECK-DAG: %[[product:[0-9a-z]+]] = blu.constant {{.*}}elem = f32{{.*}}value = 0x4180000000000000
// CHECK: return %[[add]], %[[sqrt]], %[[third]], %[[neg]], %[[product]]
func.func @constants() -> (tensor<f32>, tensor<f64>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %big = blu.constant {elem = f32, shape = array<i64>, value = 16777216.0 : f64} : () -> tensor<f32>
  %one = blu.constant {elem = f32, shape = array<i64>, value = 1.0 : f64} : () -> tensor<f32>
  %two = blu.constant {elem = f32, shape = array<i64>, value = 2.0 : f64} : () -> tensor<f32>
  %three = blu.constant {elem = f32, shape = array<i64>, value = 3.0 : f64} : () -> tensor<f32>
  %td = blu.constant {elem = f64, shape = array<i64>, value = 2.0 : f64} : () -> tensor<f64>
  %add = blu.add %big, %one : tensor<f32>
  %sqrt = blu.sqrt %td : tensor<f64>
  %third = blu.div %one, %three : tensor<f32>
  %neg = blu.neg %one : tensor<f32>
  %product = blu.mul %big, %two : tensor<f32>
  return %add, %sqrt, %third, %neg, %product : tensor<f32>, tensor<f64>, tensor<f32>, tensor<f32>, tensor<f32>
}

// Our own functions and those of the C library need not round alike; integers may wrap.
// CHECK-LABEL: func.func @constants_stay(
// CHECK: blu.exp
// CHECK: blu.pow
// CHECK: blu.add
func.func @constants_stay() -> (tensor<f32>, tensor<f64>, tensor<i32>) {
  %one = blu.constant {elem = f32, shape = array<i64>, value = 1.0 : f64} : () -> tensor<f32>
  %td = blu.constant {elem = f64, shape = array<i64>, value = 2.0 : f64} : () -> tensor<f64>
  %hd = blu.constant {elem = f64, shape = array<i64>, value = 3.0 : f64} : () -> tensor<f64>
  %i = blu.constant {elem = i32, shape = array<i64>, value = 2147483647.0 : f64} : () -> tensor<i32>
  %0 = blu.exp %one : tensor<f32>
  %1 = blu.pow %td, %hd : tensor<f64>
  %2 = blu.add %i, %i : tensor<i32>
  return %0, %1, %2 : tensor<f32>, tensor<f64>, tensor<i32>
}

// ---- common subexpressions, dead code, rounds until nothing changes ----

// CHECK-LABEL: func.func @common(
// CHECK-NEXT: %[[e:[0-9]+]] = blu.exp %arg0
// CHECK-NEXT: return %[[e]], %[[e]]
func.func @common(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = blu.exp %x : tensor<3xf32>
  %1 = blu.exp %x : tensor<3xf32>
  %dead = blu.log %x : tensor<3xf32>
  %deader = blu.sqrt %dead : tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// The same key with another stream is another number.
// CHECK-LABEL: func.func @random(
// CHECK-COUNT-2: blu.uniform
// CHECK-NOT: blu.uniform
// CHECK: return
func.func @random(%key: tensor<i64>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0 = blu.uniform %key {shape = array<i64: 3>, stream = 1 : i64} : (tensor<i64>) -> tensor<3xf32>
  %1 = blu.uniform %key {shape = array<i64: 3>, stream = 1 : i64} : (tensor<i64>) -> tensor<3xf32>
  %2 = blu.uniform %key {shape = array<i64: 3>, stream = 2 : i64} : (tensor<i64>) -> tensor<3xf32>
  return %0, %1, %2 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @again(
// CHECK-NEXT: return %arg0
func.func @again(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %half = blu.constant {elem = f32, shape = array<i64>, value = 0.5 : f64} : () -> tensor<f32>
  %one = blu.add %half, %half : tensor<f32>
  %wide = blu.broadcast %one {shape = array<i64: 2, 3>} : (tensor<f32>) -> tensor<2x3xf32>
  %0 = blu.mul %wide, %x : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// The guard stays, and so does what it checks.
// CHECK-LABEL: func.func @guarded(
// CHECK-NEXT: %[[e:[0-9]+]] = blu.exp %arg0
// CHECK-NEXT: blu.guard %[[e]]
// CHECK-NEXT: return %arg0
func.func @guarded(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = blu.exp %x : tensor<3xf32>
  blu.guard %0 : tensor<3xf32>
  return %x : tensor<3xf32>
}

// What was widened and comes back is itself; what was rounded and is widened is not.
// CHECK-LABEL: func.func @widened(
// CHECK-NEXT: %[[r:[0-9]+]] = blu.cast %arg1 {to = bf16}
// CHECK-NEXT: %[[w:[0-9]+]] = blu.cast %[[r]] {to = f32}
// CHECK-NEXT: return %arg0, %[[w]]
func.func @widened(%a: tensor<4xbf16>, %b: tensor<4xf32>) -> (tensor<4xbf16>, tensor<4xf32>) {
  %0 = blu.cast %a {to = f32} : (tensor<4xbf16>) -> tensor<4xf32>
  %1 = blu.cast %0 {to = bf16} : (tensor<4xf32>) -> tensor<4xbf16>
  %2 = blu.cast %b {to = bf16} : (tensor<4xf32>) -> tensor<4xbf16>
  %3 = blu.cast %2 {to = f32} : (tensor<4xbf16>) -> tensor<4xf32>
  return %1, %3 : tensor<4xbf16>, tensor<4xf32>
}

// A constant of a half type is the rounded one.
// CHECK-LABEL: func.func @half_constant(
// CHECK-NEXT: blu.constant {elem = f32, shape = array<i64>, value = 1.101562{{.*}}
func.func @half_constant() -> tensor<f32> {
  %0 = blu.constant {value = 1.1, elem = bf16, shape = array<i64>} : () -> tensor<bf16>
  %1 = blu.cast %0 {to = f32} : (tensor<bf16>) -> tensor<f32>
  return %1 : tensor<f32>
}

// A table that is rounded for its rows alone is not rounded; one that others read is.
// CHECK-LABEL: func.func @rounded_rows(
// CHECK-NEXT: %[[g:[0-9]+]] = blu.gather %arg0, %arg2 : (tensor<50x4xf32>
// CHECK-NEXT: %[[c:[0-9]+]] = blu.cast %[[g]] {to = bf16}
// CHECK-NEXT: %[[t:[0-9]+]] = blu.cast %arg1 {to = bf16}
// CHECK-NEXT: %[[h:[0-9]+]] = blu.gather %[[t]], %arg2 : (tensor<50x4xbf16>
// CHECK-NEXT: return %[[c]], %[[h]], %[[t]]
func.func @rounded_rows(%a: tensor<50x4xf32>, %b: tensor<50x4xf32>, %i: tensor<3xi32>) -> (tensor<3x4xbf16>, tensor<3x4xbf16>, tensor<50x4xbf16>) {
  %0 = blu.cast %a {to = bf16} : (tensor<50x4xf32>) -> tensor<50x4xbf16>
  %1 = blu.gather %0, %i : (tensor<50x4xbf16>, tensor<3xi32>) -> tensor<3x4xbf16>
  %2 = blu.cast %b {to = bf16} : (tensor<50x4xf32>) -> tensor<50x4xbf16>
  %3 = blu.gather %2, %i : (tensor<50x4xbf16>, tensor<3xi32>) -> tensor<3x4xbf16>
  return %1, %3, %2 : tensor<3x4xbf16>, tensor<3x4xbf16>, tensor<50x4xbf16>
}
