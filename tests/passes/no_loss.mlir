// A train function without a loss is refused at its place.
// RUN: not blu-opt -pass=differentiate %s 2>&1 | FileCheck %s
// RUN: not blu-opt -pass=differentiate %s > %t 2>/dev/null; test ! -s %t
// CHECK: m.blu:7:3: error: the train function has no loss
func.func @train(%w: tensor<f32> {blu.role = "param", blu.name = "w"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "size"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  return %w, %w : tensor<f32>, tensor<f32>
} loc("m.blu":7:3)
