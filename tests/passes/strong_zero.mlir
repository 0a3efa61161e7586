// A factor that can be infinite or NaN is taken only where the cotangent is not zero. One part per op.
// RUN: for op in exp log sqrt rsqrt sin cos; do sed "s/OP/blu.$op %w : tensor<4xf32>/" %s | blu-opt -pass=differentiate | FileCheck %s || { echo "op $op"; exit 1; }; done
// RUN: for op in div pow; do for a in "%w, %x" "%x, %w"; do sed "s/OP/blu.$op $a : tensor<4xf32>/" %s | blu-opt -pass=differentiate | FileCheck %s || { echo "op $op $a"; exit 1; }; done; done
// A product by a finite factor needs none: tanh and sigmoid are bounded, and mul passes its operands on as they are.
// RUN: for op in "tanh %w" "sigmoid %w" "mul %w, %x" "add %w, %x"; do sed "s/OP/blu.$op : tensor<4xf32>/" %s | blu-opt -pass=differentiate | FileCheck --check-prefix=PLAIN %s || { echo "op $op"; exit 1; }; done

// CHECK: %[[ct:[0-9]+]] = blu.broadcast {{.*}} -> tensor<4xf32>
// CHECK: %[[used:[0-9]+]] = blu.ne %[[ct]], %{{[0-9a-z]+}}
// CHECK: %[[factor:[0-9]+]] = blu.where %[[used]]
// CHECK: %[[g:[0-9]+]] = blu.mul %[[ct]], %[[factor]]
// CHECK: return %{{[0-9]+}}, %arg2, %[[g]]

// PLAIN-NOT: blu.ne
// PLAIN: return
func.func @train(%w: tensor<4xf32> {blu.role = "param", blu.name = "w"}, %x: tensor<4xf32> {blu.role = "data", blu.name = "x"}, %n: tensor<f32> {blu.role = "data", blu.name = "n"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  %0 = OP
  %1 = blu.sum %0 : (tensor<4xf32>) -> tensor<f32>
  return %1, %n : tensor<f32>, tensor<f32>
}
