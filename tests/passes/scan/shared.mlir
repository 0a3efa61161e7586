func.func private @b(%c: tensor<2xf32>) -> tensor<2xf32> { %0 = blu.neg %c : tensor<2xf32> return %0 : tensor<2xf32> }
func.func @f(%c: tensor<2xf32>) -> tensor<2xf32> {
  %0 = blu.scan @b(%c) {carries = 1 : i64, sequences = 0 : i64, steps = 4 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = blu.scan @b(%0) {carries = 1 : i64, sequences = 0 : i64, steps = 4 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
