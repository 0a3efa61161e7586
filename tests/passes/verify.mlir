// One op per constraint that the verifier must refuse, naming the constraint. verify.sh runs each part alone.

//--- same-shape
func.func @f(%c: tensor<3xi1>, %a: tensor<3xf32>, %b: tensor<4xf32>) { %0 = blu.where %c, %a, %b : (tensor<3xi1>, tensor<3xf32>, tensor<4xf32>) -> tensor<3xf32> return }
//--- same-shape
func.func @f(%c: tensor<4xi1>, %a: tensor<3xf32>) { %0 = blu.where %c, %a, %a : (tensor<4xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32> return }
//--- same-shape
func.func @f(%a: tensor<3xf32>, %b: tensor<1xf32>) { %0 = blu.lt %a, %b : (tensor<3xf32>, tensor<1xf32>) -> tensor<3xi1> return }
//--- same-type
func.func @f(%a: tensor<3xf32>, %b: tensor<3xf64>) { %0 = blu.eq %a, %b : (tensor<3xf32>, tensor<3xf64>) -> tensor<3xi1> return }
//--- same-type
func.func @f(%a: tensor<3x3xf32>, %b: tensor<3x3xf64>) { %0 = blu.matmul %a, %b : (tensor<3x3xf32>, tensor<3x3xf64>) -> tensor<3x3xf32> return }
//--- bool
func.func @f(%a: tensor<3xf32>) { %0 = blu.where %a, %a, %a : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32> return }
//--- bool
func.func @f(%a: tensor<3xi32>) { %0 = blu.and %a, %a : tensor<3xi32> return }
//--- float
func.func @f(%a: tensor<3xi32>) { %0 = blu.exp %a : tensor<3xi32> return }
//--- float
func.func @f(%a: tensor<3x3xi32>) { %0 = blu.matmul %a, %a : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32> return }
//--- float
func.func @f(%a: tensor<3xi32>) { %0 = blu.mean %a : (tensor<3xi32>) -> tensor<i32> return }
//--- float
func.func @f(%a: tensor<3xi32>) { %0 = blu.softmax %a : (tensor<3xi32>) -> tensor<3xi32> return }
//--- number
func.func @f(%a: tensor<3xi1>) { %0 = blu.add %a, %a : tensor<3xi1> return }
//--- number
func.func @f(%a: tensor<3xui8>) { %0 = blu.sum %a : (tensor<3xui8>) -> tensor<ui8> return }
//--- number
func.func @f() { %0 = blu.iota {shape = array<i64: 3>, axis = 0 : i64, elem = i1} : () -> tensor<3xi1> return }
//--- number
func.func @f(%a: tensor<3xi1>) { %0 = blu.argmax %a : (tensor<3xi1>) -> tensor<i32> return }
//--- div-exact
func.func @f(%a: tensor<3xi64>) { %0 = blu.div %a, %a : tensor<3xi64> return }
//--- axis-in-range
func.func @f(%a: tensor<3x4xf32>) { %0 = blu.sum %a {axis = array<i64: 2>} : (tensor<3x4xf32>) -> tensor<3x4xf32> return }
//--- axis-in-range
func.func @f(%a: tensor<3x4xf32>) { %0 = blu.softmax %a {axis = -3 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32> return }
//--- axis-in-range
func.func @f() { %0 = blu.iota {shape = array<i64: 3>, axis = 1 : i64, elem = i32} : () -> tensor<3xi32> return }
//--- axis-once
func.func @f(%a: tensor<3x4xf32>) { %0 = blu.sum %a {axis = array<i64: 1, -1>} : (tensor<3x4xf32>) -> tensor<3xf32> return }
//--- perm-rank
func.func @f(%a: tensor<3x4xf32>) { %0 = blu.transpose %a {perm = array<i64: 0>} : (tensor<3x4xf32>) -> tensor<3x4xf32> return }
//--- perm-once
func.func @f(%a: tensor<3x4xf32>) { %0 = blu.transpose %a {perm = array<i64: 1, 1>} : (tensor<3x4xf32>) -> tensor<4x4xf32> return }
//--- perm-once
func.func @f(%a: tensor<3x4xf32>) { %0 = blu.transpose %a {perm = array<i64: 0, 2>} : (tensor<3x4xf32>) -> tensor<3x4xf32> return }
//--- broadcast-suffix
func.func @f(%a: tensor<3xf32>) { %0 = blu.broadcast %a {shape = array<i64: 3, 4>} : (tensor<3xf32>) -> tensor<3x4xf32> return }
//--- broadcast-suffix
func.func @f(%a: tensor<3x4xf32>) { %0 = blu.broadcast %a {shape = array<i64: 4>} : (tensor<3x4xf32>) -> tensor<4xf32> return }
//--- same-count
func.func @f(%a: tensor<3x4xf32>) { %0 = blu.reshape %a {shape = array<i64: 13>} : (tensor<3x4xf32>) -> tensor<13xf32> return }
//--- same-inner
func.func @f(%a: tensor<3x4xf32>) { %0 = blu.matmul %a, %a : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32> return }
//--- same-inner
func.func @f(%a: tensor<3x4xf32>) { %0 = blu.matmul %a, %a {ta = true, tb = true} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<4x3xf32> return }
//--- same-batch
func.func @f(%a: tensor<2x3x3xf32>, %b: tensor<4x3x3xf32>) { %0 = blu.matmul %a, %b : (tensor<2x3x3xf32>, tensor<4x3x3xf32>) -> tensor<2x3x3xf32> return }
//--- same-batch
func.func @f(%a: tensor<3x3xf32>, %b: tensor<4x3x3xf32>) { %0 = blu.matmul %a, %b : (tensor<3x3xf32>, tensor<4x3x3xf32>) -> tensor<4x3x3xf32> return }
//--- no-ta-of-batch
func.func @f(%a: tensor<2x3x3xf32>, %b: tensor<3x3xf32>) { %0 = blu.matmul %a, %b {ta = true} : (tensor<2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x3x3xf32> return }
//--- rank
func.func @f(%a: tensor<3xf32>, %b: tensor<3x3xf32>) { %0 = blu.matmul %a, %b : (tensor<3xf32>, tensor<3x3xf32>) -> tensor<3xf32> return }
//--- rank
func.func @f(%a: tensor<f32>) { %0 = blu.softmax %a : (tensor<f32>) -> tensor<f32> return }
//--- rank
func.func @f(%a: tensor<f32>) { %0 = blu.argmax %a : (tensor<f32>) -> tensor<i32> return }
//--- label-per-row
func.func @f(%a: tensor<3x4xf32>, %b: tensor<4xi32>) { %0 = blu.cross_entropy %a, %b : (tensor<3x4xf32>, tensor<4xi32>) -> tensor<3xf32> return }
//--- integer-labels
func.func @f(%a: tensor<3x4xf32>, %b: tensor<3xf32>) { %0 = blu.cross_entropy %a, %b : (tensor<3x4xf32>, tensor<3xf32>) -> tensor<3xf32> return }
//--- not-empty
func.func @f(%a: tensor<3x0xf32>) { %0 = blu.max %a {axis = array<i64: 1>} : (tensor<3x0xf32>) -> tensor<3xf32> return }
//--- not-empty
func.func @f(%a: tensor<3x0xf32>) { %0 = blu.argmax %a : (tensor<3x0xf32>) -> tensor<3xi32> return }
//--- not-empty
func.func @f(%a: tensor<3x0xf32>) { %0 = blu.softmax %a : (tensor<3x0xf32>) -> tensor<3x0xf32> return }
//--- not-empty
func.func @f(%a: tensor<3x0xf32>, %b: tensor<3xi32>) { %0 = blu.cross_entropy %a, %b : (tensor<3x0xf32>, tensor<3xi32>) -> tensor<3xf32> return }
//--- index-i32
func.func @f(%a: tensor<2147483648xf32>) { %0 = blu.argmax %a : (tensor<2147483648xf32>) -> tensor<i32> return }
//--- key
func.func @f(%k: tensor<i32>) { %0 = blu.uniform %k {shape = array<i64: 3>, stream = 1 : i64} : (tensor<i32>) -> tensor<3xf32> return }
//--- key
func.func @f(%k: tensor<2xi64>) { %0 = blu.normal %k {shape = array<i64: 3>, stream = 1 : i64} : (tensor<2xi64>) -> tensor<3xf32> return }
//--- size-positive
func.func @f() { %0 = blu.constant {shape = array<i64: 3, -1>, value = 1.0 : f64, elem = f32} : () -> tensor<3x1xf32> return }
//--- size-bounded
func.func @f(%a: tensor<f32>) { %0 = blu.broadcast %a {shape = array<i64: 4294967296, 4294967296>} : (tensor<f32>) -> tensor<4294967296x4294967296xf32> return }
//--- result-type
func.func @f(%a: tensor<3x4xf32>) { %0 = blu.sum %a {axis = array<i64: 1>} : (tensor<3x4xf32>) -> tensor<4xf32> return }
//--- result-type
func.func @f(%a: tensor<3xf32>) { %0 = blu.lt %a, %a : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32> return }
//--- result-type
func.func @f(%a: tensor<3xf32>) { %0 = blu.cast %a {to = i32} : (tensor<3xf32>) -> tensor<3xf32> return }
