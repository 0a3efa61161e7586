// RUN: split-file %s %t
// RUN: for f in %t/*.mlir; do blu-opt -pass=step $f | FileCheck $f || { echo "in part $f"; exit 1; }; done

//--- order.mlir
// Loss and gradient, squares, guard, update: nothing that changes parameters or state stands before the guard, and @train and
// @update are one function.
// CHECK-NOT: func.func @update
// CHECK: func.func @train(
// CHECK-SAME: %[[x:arg[0-9]+]]: tensor<4xf32> {blu.name = "x", blu.role = "data"}
// CHECK-SAME: %[[w:arg[0-9]+]]: tensor<4xf32> {blu.name = "w", blu.role = "param"}
// CHECK-SAME: %[[m:arg[0-9]+]]: tensor<4xf32> {blu.name = "w:m", blu.role = "state"}
// CHECK-SAME: %[[lr:arg[0-9]+]]: tensor<f64> {blu.name = "lr", blu.role = "run", blu.value = {{[^}]*}}}
// CHECK-NOT: grad
// CHECK-SAME: -> (tensor<f32> {blu.name = "loss", blu.role = "sum"}, tensor<f32> {blu.name = "loss", blu.role = "weight"}, tensor<f32> {blu.name = "w", blu.role = "squares"}, tensor<f32> {blu.name = "norm", blu.role = "norm"}, tensor<4xf32> {blu.name = "w", blu.role = "param"}, tensor<4xf32> {blu.name = "w:m", blu.role = "state"})
// CHECK: %[[loss:[0-9]+]] = blu.sum %[[x]]
// CHECK: %[[g:[0-9]+]] = blu.exp %[[x]]
// CHECK: %[[sq:[0-9]+]] = blu.mul %[[g]], %[[g]]
// CHECK: %[[s:[0-9]+]] = blu.sum %[[sq]] :
// CHECK: %[[norm:[0-9]+]] = blu.sqrt %[[s]]
// CHECK-NOT: blu.add
// CHECK: blu.guard %[[loss]], %[[loss]], %[[s]], %[[norm]]
// CHECK: %[[m2:[0-9]+]] = blu.add %[[m]], %[[g]]
// CHECK: blu.cast %[[lr]]
// CHECK: %[[w2:[0-9]+]] = blu.sub %[[w]]
// CHECK: return %[[loss]], %[[loss]], %[[s]], %[[norm]], %[[w2]], %[[m2]]
// CHECK-NOT: func.func @update
func.func @train(%x: tensor<4xf32> {blu.role = "data", blu.name = "x"}, %w: tensor<4xf32> {blu.role = "param", blu.name = "w"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}, tensor<4xf32> {blu.role = "grad", blu.name = "w"}) {
  %0 = blu.sum %x : (tensor<4xf32>) -> tensor<f32>
  %1 = blu.exp %x : tensor<4xf32>
  return %0, %0, %1 : tensor<f32>, tensor<f32>, tensor<4xf32>
}
func.func @update(%w: tensor<4xf32> {blu.role = "param", blu.name = "w"}, %g: tensor<4xf32> {blu.role = "grad", blu.name = "w"},
                  %m: tensor<4xf32> {blu.role = "state", blu.name = "w:m"}, %lr: tensor<f64> {blu.role = "run", blu.name = "lr", blu.value = 0.1 : f64})
    -> (tensor<4xf32> {blu.role = "param", blu.name = "w"}, tensor<4xf32> {blu.role = "state", blu.name = "w:m"}) {
  %0 = blu.add %m, %g : tensor<4xf32>
  %1 = blu.cast %lr {to = f32} : (tensor<f64>) -> tensor<f32>
  %2 = blu.broadcast %1 {shape = array<i64: 4>} : (tensor<f32>) -> tensor<4xf32>
  %3 = blu.mul %2, %0 : tensor<4xf32>
  %4 = blu.sub %w, %3 : tensor<4xf32>
  return %4, %0 : tensor<4xf32>, tensor<4xf32>
}

//--- clip.mlir
// @clip is inlined behind the guard: gradients times limit / norm where the norm is greater. One norm over all gradients, in
// f32; the squares that the guard sees are those before clipping. The update reads clipped gradients only.
// CHECK-NOT: func.func @clip
// CHECK: func.func @train(
// CHECK-SAME: %[[a:arg[0-9]+]]: tensor<4xf32> {blu.name = "a", blu.role = "data"}
// CHECK-SAME: %[[b:arg[0-9]+]]: tensor<f64> {blu.name = "b", blu.role = "data"}
// CHECK-SAME: %[[limit:arg[0-9]+]]: tensor<f64> {blu.name = "limit", blu.role = "run"
// CHECK-SAME: blu.name = "w", blu.role = "squares"
// CHECK-SAME: blu.name = "v", blu.role = "squares"
// CHECK-SAME: blu.name = "norm", blu.role = "norm"
// CHECK: %[[aa:[0-9]+]] = blu.mul %[[a]], %[[a]]
// CHECK: %[[sa:[0-9]+]] = blu.sum %[[aa]]
// CHECK: %[[bb:[0-9]+]] = blu.mul %[[b]], %[[b]]
// CHECK: %[[sb:[0-9]+]] = blu.cast %[[bb]] {to = f32}
// CHECK: %[[all:[0-9]+]] = blu.add %[[sa]], %[[sb]]
// CHECK: %[[norm:[0-9]+]] = blu.sqrt %[[all]]
// CHECK: blu.guard
// CHECK: %[[c:[0-9]+]] = blu.cast %[[limit]] {to = f32}
// CHECK-DAG: %[[over:[0-9]+]] = blu.gt %[[norm]], %[[c]]
// CHECK-DAG: %[[ratio:[0-9]+]] = blu.div %[[c]], %[[norm]]
// CHECK-DAG: %[[one:[0-9a-z]+]] = blu.constant {{.*}}value = 1.0
// CHECK: %[[scale:[0-9]+]] = blu.where %[[over]], %[[ratio]], %[[one]]
// CHECK: %[[wide:[0-9]+]] = blu.broadcast %[[scale]] {shape = array<i64: 4>}
// CHECK: %[[ca:[0-9]+]] = blu.mul %[[a]], %[[wide]]
// CHECK: %[[double:[0-9]+]] = blu.cast %[[scale]] {to = f64}
// CHECK: %[[cb:[0-9]+]] = blu.mul %[[b]], %[[double]]
// CHECK: %[[w2:[0-9]+]] = blu.sub %{{arg[0-9]+}}, %[[ca]]
// CHECK: %[[v2:[0-9]+]] = blu.sub %{{arg[0-9]+}}, %[[cb]]
// CHECK: return {{.*}}%[[sa]], %[[sb]], %[[norm]], %[[w2]], %[[v2]]
func.func @train(%a: tensor<4xf32> {blu.role = "data", blu.name = "a"}, %b: tensor<f64> {blu.role = "data", blu.name = "b"}, %l: tensor<f32> {blu.role = "data", blu.name = "l"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"},
        tensor<4xf32> {blu.role = "grad", blu.name = "w"}, tensor<f64> {blu.role = "grad", blu.name = "v"}) {
  return %l, %l, %a, %b : tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<f64>
}
func.func @clip(%limit: tensor<f64> {blu.role = "run", blu.name = "limit", blu.value = 1.0 : f64}) -> tensor<f64> {
  return %limit : tensor<f64>
}
func.func @update(%w: tensor<4xf32> {blu.role = "param", blu.name = "w"}, %gw: tensor<4xf32> {blu.role = "grad", blu.name = "w"},
                  %v: tensor<f64> {blu.role = "param", blu.name = "v"}, %gv: tensor<f64> {blu.role = "grad", blu.name = "v"})
    -> (tensor<4xf32> {blu.role = "param", blu.name = "w"}, tensor<f64> {blu.role = "param", blu.name = "v"}) {
  %0 = blu.sub %w, %gw : tensor<4xf32>
  %1 = blu.sub %v, %gv : tensor<f64>
  return %0, %1 : tensor<4xf32>, tensor<f64>
}

//--- no_parameters.mlir
// Nothing is trained: no norm, and a guard for the loss alone.
// CHECK: func.func @train(
// CHECK-NOT: norm
// CHECK: blu.guard %arg0, %arg0
// CHECK-NEXT: return %arg0, %arg0
func.func @train(%l: tensor<f32> {blu.role = "data", blu.name = "l"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"}) {
  return %l, %l : tensor<f32>, tensor<f32>
}
func.func @update() { return }

//--- no_training.mlir
// A program of entries stays as it is.
// CHECK: func.func @predict(
// CHECK-NOT: blu.guard
// CHECK: return
func.func @predict(%x: tensor<4xf32> {blu.role = "input", blu.name = "x"}) -> (tensor<4xf32> {blu.role = "output", blu.name = "predict"}) {
  %0 = blu.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- frozen_and_state.mlir
// A parameter that the update doesn't change has no part in squares, norm and guard. A module's own state is computed before the guard,
// and is a result like the parameters: the guard doesn't look at it.
// CHECK: func.func @train(
// CHECK-NOT: blu.name = "frozen", blu.role = "squares"
// CHECK: %[[running:[0-9]+]] = blu.exp
// CHECK: %[[sq:[0-9]+]] = blu.mul %[[g:[a-z0-9]+]], %[[g]]
// CHECK: %[[s:[0-9]+]] = blu.sum %[[sq]]
// CHECK: %[[norm:[0-9]+]] = blu.sqrt %[[s]]
// CHECK: blu.guard %[[loss:[0-9]+]], %[[loss]], %[[s]], %[[norm]] :
// CHECK: return %[[loss]], %[[loss]], %[[s]], %[[norm]], %[[running]], %{{[0-9]+}} :
func.func @train(%x: tensor<4xf32> {blu.role = "data", blu.name = "x"}, %f: tensor<4xf32> {blu.role = "param", blu.name = "frozen"},
                 %w: tensor<4xf32> {blu.role = "param", blu.name = "w"}, %r: tensor<4xf32> {blu.role = "state", blu.name = "running"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"},
        tensor<4xf32> {blu.role = "state", blu.name = "running"}, tensor<4xf32> {blu.role = "grad", blu.name = "frozen"},
        tensor<4xf32> {blu.role = "grad", blu.name = "w"}) {
  %0 = blu.sum %x : (tensor<4xf32>) -> tensor<f32>
  %1 = blu.exp %r : tensor<4xf32>
  return %0, %0, %1, %f, %x : tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func @update(%w: tensor<4xf32> {blu.role = "param", blu.name = "w"}, %g: tensor<4xf32> {blu.role = "grad", blu.name = "w"})
    -> (tensor<4xf32> {blu.role = "param", blu.name = "w"}) {
  %0 = blu.sub %w, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- accumulate.mlir
// A step of micro-batches: @train adds gradients to the sums that it gets and has no guard; its own state changes with each. @update
// divides by the total weight without storing a divided gradient: the squares by a factor before the guard, the rest together with clipping.
// CHECK: func.func @train(
// CHECK-SAME: %[[x:arg[0-9]+]]: tensor<4xf32> {blu.name = "x", blu.role = "data"}
// CHECK-SAME: %[[r:arg[0-9]+]]: tensor<4xf32> {blu.name = "running", blu.role = "state"}
// CHECK-SAME: %[[sum:arg[0-9]+]]: tensor<4xf32> {blu.name = "w", blu.role = "gradient"}) ->
// CHECK-NOT: "fixed"
// CHECK-SAME: tensor<4xf32> {blu.name = "running", blu.role = "state"}, tensor<4xf32> {blu.name = "w", blu.role = "gradient"}) {
// CHECK-NOT: blu.guard
// CHECK: %[[g:[0-9]+]] = blu.neg %[[x]]
// CHECK: %[[running:[0-9]+]] = blu.exp %[[r]]
// CHECK: %[[more:[0-9]+]] = blu.add %[[sum]], %[[g]]
// CHECK: return %{{[0-9]+}}, %{{[0-9]+}}, %[[running]], %[[more]]
// CHECK: func.func @update(
// CHECK-SAME: %[[w:arg[0-9]+]]: tensor<4xf32> {blu.name = "w", blu.role = "param"}
// CHECK-SAME: %[[sum:arg[0-9]+]]: tensor<4xf32> {blu.name = "w", blu.role = "gradient"}
// CHECK-SAME: %[[total:arg[0-9]+]]: tensor<f64> {blu.name = "total", blu.role = "total"})
// CHECK-DAG: %[[zero:[0-9]+]] = blu.constant {{.*}}value = 0.0
// CHECK-DAG: %[[one:[0-9]+]] = blu.constant {{.*}}value = 1.0
// CHECK-DAG: %[[empty:[0-9]+]] = blu.eq %[[total]], %[[zero]]
// CHECK-DAG: %[[per:[0-9]+]] = blu.div %[[one]], %[[total]]
// CHECK: %[[wide:[0-9]+]] = blu.where %[[empty]], %[[zero]], %[[per]]
// CHECK: %[[scale:[0-9]+]] = blu.cast %[[wide]] {to = f32}
// CHECK: %[[scale2:[0-9]+]] = blu.mul %[[scale]], %[[scale]]
// CHECK: %[[sq:[0-9]+]] = blu.mul %[[sum]], %[[sum]]
// CHECK: %[[all:[0-9]+]] = blu.sum %[[sq]]
// CHECK: %[[s:[0-9]+]] = blu.mul %[[all]], %[[scale2]]
// CHECK: %[[norm:[0-9]+]] = blu.sqrt %[[s]]
// CHECK: blu.guard %[[s]], %[[norm]]
// CHECK: %[[clip:[0-9]+]] = blu.where %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}
// CHECK: %[[factor:[0-9]+]] = blu.mul %[[scale]], %[[clip]]
// CHECK: %[[broad:[0-9]+]] = blu.broadcast %[[factor]] {shape = array<i64: 4>}
// CHECK: %[[mean:[0-9]+]] = blu.mul %[[sum]], %[[broad]]
// CHECK: %[[new:[0-9]+]] = blu.sub %[[w]], %[[mean]]
// CHECK: return %[[s]], %[[norm]], %[[new]]
module attributes {blu.accumulate} {
func.func @train(%x: tensor<4xf32> {blu.role = "data", blu.name = "x"}, %r: tensor<4xf32> {blu.role = "state", blu.name = "running"})
    -> (tensor<f32> {blu.role = "sum", blu.name = "loss"}, tensor<f32> {blu.role = "weight", blu.name = "loss"},
        tensor<4xf32> {blu.role = "state", blu.name = "running"}, tensor<4xf32> {blu.role = "grad", blu.name = "fixed"},
        tensor<4xf32> {blu.role = "grad", blu.name = "w"}) {
  %0 = blu.sum %x : (tensor<4xf32>) -> tensor<f32>
  %1 = blu.neg %x : tensor<4xf32>
  %2 = blu.exp %r : tensor<4xf32>
  return %0, %0, %2, %x, %1 : tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func @clip(%limit: tensor<f64> {blu.role = "run", blu.name = "limit", blu.value = 1.0 : f64}) -> tensor<f64> {
  return %limit : tensor<f64>
}
func.func @update(%w: tensor<4xf32> {blu.role = "param", blu.name = "w"}, %g: tensor<4xf32> {blu.role = "grad", blu.name = "w"})
    -> (tensor<4xf32> {blu.role = "param", blu.name = "w"}) {
  %0 = blu.sub %w, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
}
}
