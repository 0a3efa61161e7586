// The carry is an argument, so the scan gets a copy of it, which the body changes in place; the stacked result stands outside of the frame.
// PLAN: function f: 2 launches, 256 bytes
// PLAN: 0 copy.f32.16
// PLAN-NEXT: 448 {{ *}}64 {{ *}}f32[16] {{ *}}until the end
// PLAN: 1 b, 3 times
// PLAN-NEXT: 256 {{ *}}192 {{ *}}f32[3, 16] {{ *}}until the end
// PLAN: body b: 0 bytes, from the start of its frame
// PLAN-NEXT: 0 add_mul_16
// PLAN-NEXT: outside {{ *}}64 {{ *}}f32[16] {{ *}}until the end
// PLAN-NEXT: outside {{ *}}64 {{ *}}f32[16] {{ *}}until the end
func.func private @b(%c: tensor<16xf32>, %x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %0 = blu.add %c, %x : tensor<16xf32>
  %1 = blu.mul %c, %x : tensor<16xf32>
  return %0, %1 : tensor<16xf32>, tensor<16xf32>
}
func.func @f(%c: tensor<16xf32> {blu.name = "c", blu.role = "run"}, %x: tensor<3x16xf32> {blu.name = "x", blu.role = "run"}) -> (tensor<16xf32>, tensor<3x16xf32>) {
  %0:2 = blu.scan @b(%c, %x) {carries = 1 : i64, sequences = 1 : i64, steps = 3 : i64} : (tensor<16xf32>, tensor<3x16xf32>) -> (tensor<16xf32>, tensor<3x16xf32>)
  return %0#0, %0#1 : tensor<16xf32>, tensor<3x16xf32>
}
