// New values go over old ones only when nobody reads those any more, and nothing kept is written before the guard: each plan is
// run over a picture of the arena.
// RUN: split-file %s %t
// RUN: for f in %t/*.mlir; do blu-opt -pass=fuse -pass=plan $f > $f.planned && awk -f %S/plan_check.awk $f.planned $f.planned || { echo "in part $f"; bad=1; }; done; test -z "$bad"

//--- previous.mlir
// A state takes the parameter's old value while the parameter gets a new one.
func.func @train(%x: tensor<4xf32> {blu.role = "data", blu.name = "x"}, %p: tensor<4xf32> {blu.role = "param", blu.name = "p"})
    -> (tensor<4xf32> {blu.role = "param", blu.name = "p"}, tensor<4xf32> {blu.role = "state", blu.name = "p:before"}) {
  blu.guard %x : tensor<4xf32>
  %n = blu.sub %p, %x : tensor<4xf32>
  return %n, %p : tensor<4xf32>, tensor<4xf32>
}

//--- swap.mlir
func.func @train(%a: tensor<4xf32> {blu.role = "state", blu.name = "a"}, %b: tensor<4xf32> {blu.role = "state", blu.name = "b"})
    -> (tensor<4xf32> {blu.role = "state", blu.name = "a"}, tensor<4xf32> {blu.role = "state", blu.name = "b"}) {
  blu.guard %a : tensor<4xf32>
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}

//--- unread.mlir
// The function never reads the state that it writes; its new value exists before the guard.
func.func @train(%x: tensor<4xf32> {blu.role = "data", blu.name = "x"}, %p: tensor<4xf32> {blu.role = "param", blu.name = "p"})
    -> (tensor<4xf32> {blu.role = "param", blu.name = "p"}, tensor<4xf32> {blu.role = "state", blu.name = "p:g"}) {
  %g = blu.exp %x : tensor<4xf32>
  blu.guard %g : tensor<4xf32>
  %n = blu.sub %p, %g : tensor<4xf32>
  return %n, %g : tensor<4xf32>, tensor<4xf32>
}

//--- rotate.mlir
// Both ways at once: a copy that reads what a launch has overwritten.
func.func @train(%a: tensor<4xf32> {blu.role = "state", blu.name = "a"}, %b: tensor<4xf32> {blu.role = "state", blu.name = "b"}, %c: tensor<4xf32> {blu.role = "state", blu.name = "c"})
    -> (tensor<4xf32> {blu.role = "state", blu.name = "a"}, tensor<4xf32> {blu.role = "state", blu.name = "b"}, tensor<4xf32> {blu.role = "state", blu.name = "c"}) {
  blu.guard %a : tensor<4xf32>
  %n = blu.exp %c : tensor<4xf32>
  return %b, %c, %n : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
