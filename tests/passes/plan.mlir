// RUN: split-file %s %t
// RUN: for f in %t/*.mlir; do blu-opt -pass=fuse -pass=plan $f | FileCheck $f || { echo "in part $f"; exit 1; }; done
// RUN: blu-opt -pass=fuse -pass=plan --plan %t/train.mlir | FileCheck --check-prefix=TEXT %t/train.mlir
// RUN: for f in %t/*.mlir; do blu-opt -pass=fuse -pass=plan $f > $f.planned && awk -f %S/plan_check.awk $f.planned $f.planned || { echo "in part $f"; exit 1; }; done

//--- train.mlir
// Kept first: parameters, state, run values, step, rows, each at a multiple of 64; the rest of the arena is shared by the
// functions. A parameter has one place in all of them, whatever its position among the arguments.
// CHECK: module attributes {blu.arena = 512 : i64, blu.kept = 320 : i64}
// CHECK: func.func @train(
// CHECK-SAME: blu.args = array<i64: 320, 0, 64, 128, 192, 256>
// CHECK-SAME: blu.bytes = 192
// CHECK-SAME: blu.commit = 1
// CHECK-SAME: blu.results = array<i64: 384, 0, 64>
// What is made of x is written over it, who is read there for the last time.
// CHECK: call @{{.*}} {blu.places = array<i64: 256, 320, 320, 384>}
// CHECK: blu.guard
// The new state and the new parameter are written over the old ones.
// CHECK: call @mul_scalar(%arg3, %arg4) {blu.places = array<i64: 128, 192, 448>}
// CHECK: call @add_mul_sub_5(%arg2, {{.*}}, %arg1) {blu.places = array<i64: 64, 320, 448, 0, 64, 0>}
// CHECK-NOT: copy
// CHECK: func.func @eval(
// CHECK-SAME: blu.args = array<i64: 0, 320>
// CHECK-SAME: blu.commit = 1 : i64

// TEXT: arena: 512 bytes, 320 kept between runs, 192 shared by the functions
// TEXT: offset {{ *}}bytes {{ *}}kept {{ *}}type {{ *}}role
// TEXT-NEXT: {{^ *}}0 {{ *}}20 {{ *}}w {{ *}}f32[5] {{ *}}param
// TEXT-NEXT: {{^ *}}64 {{ *}}20 {{ *}}w:m {{ *}}f32[5] {{ *}}state
// TEXT-NEXT: {{^ *}}128 {{ *}}8 {{ *}}lr {{ *}}f64 {{ *}}run
// TEXT-NEXT: {{^ *}}192 {{ *}}8 {{ *}}step {{ *}}f64 {{ *}}step
// TEXT-NEXT: {{^ *}}256 {{ *}}4 {{ *}}rows {{ *}}i32 {{ *}}rows
// TEXT: function train: 3 launches, 192 bytes
// TEXT-NEXT: {{^ *}}320 {{ *}}20 {{ *}}x {{ *}}f32[5] {{ *}}data
// TEXT-NEXT: {{^ *}}0 {{.*}}exp
// TEXT: f32[5] {{ *}}until 2, in place
// TEXT: f32 {{ *}}until the end
// TEXT: -- commit: what follows changes parameters and state --
// TEXT-NEXT: {{^ *}}1 mul_scalar
// TEXT: {{^ *}}2 add_mul_sub_5
// TEXT-NEXT: {{^ *}}64 {{ *}}20 {{ *}}f32[5] {{ *}}until the end, in place
// TEXT: function eval: 1 launches, 64 bytes
// TEXT-NOT: commit
func.func @train(%x: tensor<5xf32> {blu.role = "data", blu.name = "x"}, %w: tensor<5xf32> {blu.role = "param", blu.name = "w"},
                 %m: tensor<5xf32> {blu.role = "state", blu.name = "w:m"}, %lr: tensor<f64> {blu.role = "run", blu.name = "lr", blu.value = 0.1 : f64},
                 %step: tensor<f64> {blu.role = "step", blu.name = "step"}, %rows: tensor<i32> {blu.role = "rows", blu.name = "rows"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<5xf32> {blu.role = "param", blu.name = "w"}, tensor<5xf32> {blu.role = "state", blu.name = "w:m"}) {
  %i = blu.iota {shape = array<i64: 5>, axis = 0 : i64, elem = i32} : () -> tensor<5xi32>
  %r = blu.broadcast %rows {shape = array<i64: 5>} : (tensor<i32>) -> tensor<5xi32>
  %c = blu.lt %i, %r : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
  %e = blu.exp %x : tensor<5xf32>
  %g = blu.where %c, %e, %x : (tensor<5xi1>, tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %s = blu.sum %g {axis = array<i64: 0>} : (tensor<5xf32>) -> tensor<f32>
  blu.guard %s : tensor<f32>
  %m2 = blu.add %m, %g : tensor<5xf32>
  %rate = blu.mul %lr, %step : tensor<f64>
  %rate32 = blu.cast %rate {to = f32} : (tensor<f64>) -> tensor<f32>
  %wide = blu.broadcast %rate32 {shape = array<i64: 5>} : (tensor<f32>) -> tensor<5xf32>
  %d = blu.mul %wide, %m2 : tensor<5xf32>
  %w2 = blu.sub %w, %d : tensor<5xf32>
  return %s, %w2, %m2 : tensor<f32>, tensor<5xf32>, tensor<5xf32>
}
func.func @eval(%w: tensor<5xf32> {blu.role = "param", blu.name = "w"}, %x: tensor<5xf32> {blu.role = "data", blu.name = "x"}) -> (tensor<5xf32> {blu.role = "output", blu.name = "y"}) {
  %0 = blu.mul %w, %x : tensor<5xf32>
  return %0 : tensor<5xf32>
}

//--- everywhere.mlir
// Parameters come first whichever function names them first, and have one place in all functions; init writes them right there.
// CHECK: blu.kept = 192
// CHECK: func.func @init(
// CHECK-SAME: blu.args = array<i64: 128>
// CHECK-SAME: blu.bytes = 0
// CHECK-SAME: blu.commit = 0
// CHECK-SAME: blu.results = array<i64: 64, 0>
// CHECK: func.func @predict(
// CHECK-SAME: blu.args = array<i64: 192, 0>
// CHECK: func.func @b_too(
// CHECK-SAME: blu.args = array<i64: 64>
func.func @init(%seed: tensor<i64> {blu.role = "seed", blu.name = "seed"})
    -> (tensor<4xf32> {blu.role = "state", blu.name = "b"}, tensor<4xf32> {blu.role = "param", blu.name = "a"}) {
  %0 = blu.uniform %seed {shape = array<i64: 4>, stream = 1 : i64} : (tensor<i64>) -> tensor<4xf32>
  %1 = blu.uniform %seed {shape = array<i64: 4>, stream = 2 : i64} : (tensor<i64>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
func.func @predict(%x: tensor<4xf32> {blu.role = "input", blu.name = "x"}, %a: tensor<4xf32> {blu.role = "param", blu.name = "a"}) -> (tensor<4xf32> {blu.role = "output", blu.name = "y"}) {
  %0 = blu.mul %x, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @b_too(%b: tensor<4xf32> {blu.role = "state", blu.name = "b"}) -> (tensor<4xf32> {blu.role = "output", blu.name = "z"}) {
  %0 = blu.exp %b : tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- lifetimes.mlir
// A place is used again when nobody reads what was there: of the chain's four tensors two live at a time. A result of the function
// lives until its end. What a launch reads and what it writes share nothing.
// CHECK: blu.arena = 3072
// CHECK: func.func @f(
// CHECK-SAME: blu.args = array<i64: [[in:[0-9]+]], [[w:[0-9]+]]>
// CHECK-SAME: blu.results = array<i64: [[end:[0-9]+]]>
// CHECK: call @{{[a-z_0-9]+}}({{.*}}) {blu.places = array<i64: [[in]], [[w]], [[a:[0-9]+]]>}
// CHECK: call @{{[a-z_0-9]+}}({{.*}}) {blu.places = array<i64: [[a]], [[w]], [[in]]>}
// CHECK: call @{{[a-z_0-9]+}}({{.*}}) {blu.places = array<i64: [[in]], [[w]], [[end]]>}
func.func @f(%x: tensor<16x16xf32> {blu.role = "input", blu.name = "x"}, %w: tensor<16x16xf32> {blu.role = "input", blu.name = "w"}) -> (tensor<16x16xf32> {blu.role = "output", blu.name = "y"}) {
  %0 = blu.matmul %x, %w : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = blu.matmul %0, %w : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = blu.matmul %1, %w : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  return %2 : tensor<16x16xf32>
}

//--- in_place.mlir
// A kernel that reads an operand where it writes, and is the last to read it, writes over it: softmax, a residual, rows added to a table. Two
// results don't share one place, and an operand of another size is no place.
// CHECK: func.func @f(
// CHECK: call @matmul_16x16({{.*}}) {blu.places = array<i64: {{[0-9]+, [0-9]+}}, [[p:[0-9]+]]>}
// CHECK: call @max_sub_exp_sum_and1_16x16(%{{[0-9]+}}) {blu.places = array<i64: [[p]], [[p]]>}
// CHECK: call @matmul_add_16x16(%{{[0-9]+}}, %arg1, %arg0) {blu.places = array<i64: [[p]], {{[0-9]+}}, [[x:[0-9]+]], [[x]]>}
// CHECK: call @scatter_add_16x16(%{{[0-9]+}}, {{.*}}) {blu.places = array<i64: [[x]], {{[0-9]+, [0-9]+}}, [[x]]>}
func.func @f(%x: tensor<16x16xf32> {blu.role = "input", blu.name = "x"}, %w: tensor<16x16xf32> {blu.role = "input", blu.name = "w"},
             %i: tensor<4xi32> {blu.role = "input", blu.name = "i"}, %u: tensor<4x16xf32> {blu.role = "input", blu.name = "u"})
    -> (tensor<16x16xf32> {blu.role = "output", blu.name = "y"}) {
  %0 = blu.matmul %x, %w : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %m = blu.max %0 {axis = array<i64: 1>, keep = true} : (tensor<16x16xf32>) -> tensor<16x1xf32>
  %mb = blu.broadcast %m {shape = array<i64: 16, 16>} : (tensor<16x1xf32>) -> tensor<16x16xf32>
  %d = blu.sub %0, %mb : tensor<16x16xf32>
  %e = blu.exp %d : tensor<16x16xf32>
  %s = blu.sum %e {axis = array<i64: 1>, keep = true} : (tensor<16x16xf32>) -> tensor<16x1xf32>
  %sb = blu.broadcast %s {shape = array<i64: 16, 16>} : (tensor<16x1xf32>) -> tensor<16x16xf32>
  %q = blu.div %e, %sb : tensor<16x16xf32>
  %1 = blu.matmul %q, %w : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = blu.add %1, %x : tensor<16x16xf32>
  %3 = blu.scatter_add %2, %i, %u : (tensor<16x16xf32>, tensor<4xi32>, tensor<4x16xf32>) -> tensor<16x16xf32>
  return %3 : tensor<16x16xf32>
}
// CHECK: func.func @g(
// CHECK-SAME: blu.args = array<i64: [[gx:[0-9]+]], {{[0-9]+}}>
// CHECK: call @matmul_add_16x16{{.*}}(%arg0, %arg1{{.*}}) {blu.places = array<i64: [[gx]], {{[0-9]+}}, [[gy:[0-9]+]]>}
func.func @g(%x: tensor<16x16xf32> {blu.role = "input", blu.name = "x"}, %w: tensor<16x16xf32> {blu.role = "input", blu.name = "w"})
    -> (tensor<16x16xf32> {blu.role = "output", blu.name = "y"}) { // x is also an operand of the product, all of whose columns each element needs
  %0 = blu.matmul %x, %w : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = blu.add %0, %x : tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}
// CHECK: func.func @h(
// CHECK-SAME: blu.results = array<i64: [[a:[0-9]+]], [[b:[0-9]+]]>
// CHECK: call @{{[a-z_0-9]+}}(%arg0) {blu.places = array<i64: [[a]], [[a]], [[b]]>}
func.func @h(%x: tensor<64xf32> {blu.role = "input", blu.name = "x"})
    -> (tensor<64xf32> {blu.role = "output", blu.name = "y"}, tensor<64xf32> {blu.role = "output", blu.name = "z"}) {
  %0 = blu.exp %x : tensor<64xf32>
  %1 = blu.tanh %x : tensor<64xf32>
  return %0, %1 : tensor<64xf32>, tensor<64xf32>
}

//--- view.mlir
// A reshape has its operand's place and keeps it alive. The result is written over what is read for the last time.
// CHECK: func.func @f(
// CHECK-SAME: blu.results = array<i64: [[a:[0-9]+]]>
// CHECK: %[[e:[0-9]+]] = call @exp_2x3(%arg0) {blu.places = array<i64: [[a]], [[a]]>}
// CHECK: blu.reshape %[[e]]
func.func @f(%x: tensor<2x3xf32> {blu.role = "input", blu.name = "x"}) -> (tensor<6xf32> {blu.role = "output", blu.name = "y"}) {
  %0 = blu.exp %x : tensor<2x3xf32>
  %1 = blu.reshape %0 {shape = array<i64: 6>} : (tensor<2x3xf32>) -> tensor<6xf32>
  return %1 : tensor<6xf32>
}

//--- not_pointwise.mlir
// A product reads all of w for each element it writes: the new w is made elsewhere and copied at the end.
// CHECK: func.func @train(
// CHECK-SAME: blu.args = array<i64: 0>
// CHECK-SAME: blu.commit = 0
// CHECK-SAME: blu.results = array<i64: 0>
// CHECK: %[[p:[0-9]+]] = call @matmul_4x4(%arg0) {blu.places = array<i64: 0, [[new:[0-9]+]]>}
// CHECK: %[[c:[0-9]+]] = call @copy.f32.4x4(%[[p]]) {blu.places = array<i64: [[new]], 0>}
// CHECK: return %[[c]]
// CHECK: func.func private @copy.f32.4x4(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {blu.kernel = "rows", blu.space = array<i64: 4, 4>}
// CHECK-NEXT: return %arg0
func.func @train(%w: tensor<4x4xf32> {blu.role = "param", blu.name = "w"}) -> (tensor<4x4xf32> {blu.role = "param", blu.name = "w"}) {
  blu.guard %w : tensor<4x4xf32>
  %0 = blu.matmul %w, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

//--- before_the_guard.mlir
// A new value that is made before the guard can't stand at the old one's place: the step may be left out. It is copied behind.
// CHECK: func.func @train(
// CHECK-SAME: blu.commit = 1
// CHECK: %[[e:[0-9]+]] = call @exp_4(%arg0) {blu.places = array<i64: 0, [[new:[0-9]+]]>}
// CHECK: blu.guard
// CHECK: call @copy.f32.4(%[[e]]) {blu.places = array<i64: [[new]], 0>}
func.func @train(%w: tensor<4xf32> {blu.role = "param", blu.name = "w"}) -> (tensor<4xf32> {blu.role = "param", blu.name = "w"}) {
  %0 = blu.exp %w : tensor<4xf32>
  blu.guard %0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- read_later.mlir
// The old value is read once more after the new one is made: the new one waits elsewhere.
// CHECK: func.func @train(
// CHECK: %[[n:[0-9]+]] = call @exp_4(%arg0) {blu.places = array<i64: 0, [[new:[0-9]+]]>}
// CHECK: call @matmul_4x4(%{{[0-9]+}}, %{{[0-9]+}})
// CHECK: call @copy.f32.4(%[[n]]) {blu.places = array<i64: [[new]], 0>}
func.func @train(%w: tensor<4xf32> {blu.role = "param", blu.name = "w"}) -> (tensor<4xf32> {blu.role = "param", blu.name = "w"}, tensor<4x4xf32> {blu.role = "output", blu.name = "y"}) {
  blu.guard %w : tensor<4xf32>
  %0 = blu.exp %w : tensor<4xf32>
  %1 = blu.reshape %0 {shape = array<i64: 4, 1>} : (tensor<4xf32>) -> tensor<4x1xf32>
  %2 = blu.reshape %w {shape = array<i64: 1, 4>} : (tensor<4xf32>) -> tensor<1x4xf32>
  %3 = blu.matmul %1, %2 : (tensor<4x1xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  return %0, %3 : tensor<4xf32>, tensor<4x4xf32>
}

//--- unchanged.mlir
// A parameter that is returned as it came needs no launch; one value for two parameters needs a copy.
// CHECK: func.func @train(
// CHECK-SAME: blu.results = array<i64: 0, 64, 128>
// CHECK-NEXT: blu.guard
// CHECK-NEXT: %[[e:[0-9]+]] = call @exp_4(%arg1) {blu.places = array<i64: 64, 64>}
// CHECK-NEXT: %[[c:[0-9]+]] = call @copy.f32.4(%[[e]]) {blu.places = array<i64: 64, 128>}
// CHECK-NEXT: return %arg0, %[[e]], %[[c]]
func.func @train(%a: tensor<4xf32> {blu.role = "param", blu.name = "a"}, %b: tensor<4xf32> {blu.role = "param", blu.name = "b"}, %c: tensor<4xf32> {blu.role = "param", blu.name = "c"})
    -> (tensor<4xf32> {blu.role = "param", blu.name = "a"}, tensor<4xf32> {blu.role = "param", blu.name = "b"}, tensor<4xf32> {blu.role = "param", blu.name = "c"}) {
  blu.guard %c : tensor<4xf32>
  %0 = blu.exp %b : tensor<4xf32>
  return %a, %0, %0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

//--- sums_in_place.mlir
// The sum of gradients is kept, and the product that adds to it writes it where it was; without a guard all launches may change what is
// kept.
// CHECK: func.func @train(
// CHECK-SAME: blu.args = array<i64: 64, 192, 0>
// CHECK-SAME: blu.commit = 0 : i64
// CHECK-SAME: blu.results = array<i64: 0>
// CHECK: call @{{.*}}(%arg0, %arg1, %arg2) {blu.places = array<i64: 64, 192, 0, 0>}
// CHECK-NOT: copy
func.func @train(%a: tensor<4x5xf32> {blu.role = "data", blu.name = "a"}, %b: tensor<5x3xf32> {blu.role = "data", blu.name = "b"},
                 %s: tensor<4x3xf32> {blu.role = "gradient", blu.name = "w"}) -> (tensor<4x3xf32> {blu.role = "gradient", blu.name = "w"}) {
  %0 = blu.matmul %a, %b : (tensor<4x5xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>
  %1 = blu.add %s, %0 : tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
