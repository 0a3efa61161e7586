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
//--- stream
func.func @f(%k: tensor<i64>, %l: tensor<i32>) { %0 = blu.uniform_at %k, %k, %l {shape = array<i64: 3>} : (tensor<i64>, tensor<i64>, tensor<i32>) -> tensor<3xf32> return }
//--- stream
func.func @f(%k: tensor<i64>, %l: tensor<1xi64>) { %0 = blu.random_bits_at %k, %l, %k {shape = array<i64: 3>} : (tensor<i64>, tensor<1xi64>, tensor<i64>) -> tensor<3xi32> return }
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
//--- enough-elements
func.func @f(%a: tensor<3x1xf32>) { %0 = blu.std %a {axis = array<i64: 1>, correction = 1 : i64} : (tensor<3x1xf32>) -> tensor<3xf32> return }
//--- enough-elements
func.func @f(%a: tensor<3x2xf32>) { %0 = blu.variance %a {correction = -1 : i64} : (tensor<3x2xf32>) -> tensor<f32> return }
//--- enough-elements
func.func @f(%a: tensor<0xf32>) { %0 = blu.variance %a : (tensor<0xf32>) -> tensor<f32> return }
//--- float
func.func @f(%a: tensor<3xi32>) { %0 = blu.norm %a : (tensor<3xi32>) -> tensor<i32> return }
//--- float
func.func @f(%a: tensor<3xi32>) { %0 = blu.erf %a : tensor<3xi32> return }
//--- float
func.func @f(%a: tensor<3xi32>) { %0 = blu.gelu %a : tensor<3xi32> return }
//--- number
func.func @f(%a: tensor<3xi1>) { %0 = blu.sign %a : tensor<3xi1> return }
//--- number
func.func @f(%a: tensor<3xui8>) { %0 = blu.cumsum %a : (tensor<3xui8>) -> tensor<3xui8> return }
//--- rank
func.func @f(%a: tensor<f32>) { %0 = blu.cumsum %a : (tensor<f32>) -> tensor<f32> return }
//--- not-empty
func.func @f(%a: tensor<0xf32>) { %0 = blu.logsumexp %a : (tensor<0xf32>) -> tensor<f32> return }
//--- per-column
func.func @f(%x: tensor<3x4xf32>, %w: tensor<3xf32>) { %0 = blu.rms_norm %x, %w : (tensor<3x4xf32>, tensor<3xf32>) -> tensor<3x4xf32> return }
//--- per-column
func.func @f(%x: tensor<3x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf64>) { %0 = blu.layer_norm %x, %w, %b : (tensor<3x4xf32>, tensor<4xf32>, tensor<4xf64>) -> tensor<3x4xf32> return }
//--- per-column
func.func @f(%x: tensor<3x4xf32>, %w: tensor<4xf32>, %b: tensor<1x4xf32>) { %0 = blu.batch_norm %x, %w, %b : (tensor<3x4xf32>, tensor<4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32> return }
//--- rank
func.func @f(%x: tensor<f32>, %w: tensor<f32>) { %0 = blu.rms_norm %x, %w : (tensor<f32>, tensor<f32>) -> tensor<f32> return }
//--- eps
func.func @f(%x: tensor<3x4xf32>, %w: tensor<4xf32>) { %0 = blu.rms_norm %x, %w {eps = -1.0} : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32> return }
//--- key
func.func @f(%k: tensor<i32>) { %0 = blu.random_bits %k {stream = 0 : i64, shape = array<i64: 3>} : (tensor<i32>) -> tensor<3xi32> return }
//--- key
func.func @f(%x: tensor<3xf32>, %k: tensor<1xi64>) { %0 = blu.dropout %x, %k {stream = 0 : i64, p = 0.5} : (tensor<3xf32>, tensor<1xi64>) -> tensor<3xf32> return }
//--- probability
func.func @f(%x: tensor<3xf32>, %k: tensor<i64>) { %0 = blu.dropout %x, %k {stream = 0 : i64, p = 1.0} : (tensor<3xf32>, tensor<i64>) -> tensor<3xf32> return }
//--- probability
func.func @f(%k: tensor<i64>) { %0 = blu.bernoulli %k {stream = 0 : i64, shape = array<i64: 3>, p = -0.1} : (tensor<i64>) -> tensor<3xi1> return }
//--- integer
func.func @f(%i: tensor<3xf32>) { %0 = blu.one_hot %i {size = 4 : i64} : (tensor<3xf32>) -> tensor<3x4xf32> return }
//--- size-positive
func.func @f(%i: tensor<3xi32>) { %0 = blu.one_hot %i {size = 0 : i64} : (tensor<3xi32>) -> tensor<3x0xf32> return }
//--- size-bounded
func.func @f(%a: tensor<1099511627776x1xf32>, %b: tensor<1x1099511627776xf32>) { %0 = blu.matmul %a, %b : (tensor<1099511627776x1xf32>, tensor<1x1099511627776xf32>) -> tensor<1099511627776x1099511627776xf32> return }
//--- size-bounded
func.func @f(%a: tensor<2xf32>) { %0 = blu.pad %a {low = array<i64: 0>, high = array<i64: 9007199254740992>} : (tensor<2xf32>) -> tensor<2xf32> return }
//--- integer
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2xi1>) { %0 = blu.gather %x, %i : (tensor<4x3xf32>, tensor<2xi1>) -> tensor<2x3xf32> return }
//--- rank
func.func @f(%x: tensor<f32>, %i: tensor<2xi32>) { %0 = blu.gather %x, %i : (tensor<f32>, tensor<2xi32>) -> tensor<2xf32> return }
//--- row-per-id
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2xi32>, %u: tensor<3x3xf32>) { %0 = blu.scatter_add %x, %i, %u : (tensor<4x3xf32>, tensor<2xi32>, tensor<3x3xf32>) -> tensor<4x3xf32> return }
//--- same-rows
func.func @f(%x: tensor<4x3xf32>, %i: tensor<3x2xi32>) { %0 = blu.take_along %x, %i : (tensor<4x3xf32>, tensor<3x2xi32>) -> tensor<3x2xf32> return }
//--- k-in-range
func.func @f(%x: tensor<4x3xf32>) { %0 = blu.top_k %x {k = 4 : i64} : (tensor<4x3xf32>) -> tensor<4x4xi32> return }
//--- k-in-range
func.func @f(%x: tensor<4x3xf32>) { %0 = blu.top_k %x {k = 0 : i64} : (tensor<4x3xf32>) -> tensor<4x0xi32> return }
//--- one-per-dimension
func.func @f(%x: tensor<4x3xf32>) { %0 = blu.slice %x {start = array<i64: 0>, stop = array<i64: 2, 2>} : (tensor<4x3xf32>) -> tensor<2x2xf32> return }
//--- one-per-dimension
func.func @f(%x: tensor<4x3xf32>) { %0 = blu.pad %x {low = array<i64: 0, 0>, high = array<i64: 2>} : (tensor<4x3xf32>) -> tensor<4x5xf32> return }
//--- slice-in-range
func.func @f(%x: tensor<4xf32>) { %0 = blu.slice %x {start = array<i64: 2>, stop = array<i64: 5>} : (tensor<4xf32>) -> tensor<3xf32> return }
//--- slice-in-range
func.func @f(%x: tensor<4xf32>) { %0 = blu.slice %x {start = array<i64: 2>, stop = array<i64: 1>} : (tensor<4xf32>) -> tensor<0xf32> return }
//--- slice-in-range
func.func @f(%x: tensor<4xf32>, %u: tensor<2xf32>) { %0 = blu.update_slice %x, %u {start = array<i64: 3>} : (tensor<4xf32>, tensor<2xf32>) -> tensor<4xf32> return }
//--- step-positive
func.func @f(%x: tensor<4xf32>) { %0 = blu.slice %x {start = array<i64: 0>, stop = array<i64: 4>, step = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32> return }
//--- same-rank
func.func @f(%x: tensor<4xf32>, %u: tensor<1x2xf32>) { %0 = blu.update_slice %x, %u {start = array<i64: 0>} : (tensor<4xf32>, tensor<1x2xf32>) -> tensor<4xf32> return }
//--- same-rank
func.func @f(%x: tensor<4xf32>, %u: tensor<1x2xf32>) { %0 = blu.concat %x, %u {axis = 0 : i64} : (tensor<4xf32>, tensor<1x2xf32>) -> tensor<6xf32> return }
//--- same-shape
func.func @f(%x: tensor<4x2xf32>, %u: tensor<4x3xf32>) { %0 = blu.concat %x, %u {axis = 0 : i64} : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<8x2xf32> return }
//--- same-type
func.func @f(%x: tensor<4xf32>, %u: tensor<4xf64>) { %0 = blu.concat %x, %u {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf64>) -> tensor<8xf32> return }
//--- axis-in-range
func.func @f(%x: tensor<4xf32>) { %0 = blu.concat %x, %x {axis = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32> return }
//--- pad-positive
func.func @f(%x: tensor<4xf32>) { %0 = blu.pad %x {low = array<i64: -1>, high = array<i64: 0>} : (tensor<4xf32>) -> tensor<3xf32> return }
//--- window
func.func @f(%x: tensor<1x4x4x1xf32>) { %0 = blu.max_pool %x {kernel = array<i64: 2>, stride = array<i64: 0>} : (tensor<1x4x4x1xf32>) -> tensor<1x2x2x1xf32> return }
//--- window
func.func @f(%x: tensor<1x4x4x1xf32>) { %0 = blu.patches %x {kernel = array<i64: 2, 2, 2>} : (tensor<1x4x4x1xf32>) -> tensor<1x3x3x2x2x1xf32> return }
//--- window-fits
func.func @f(%x: tensor<1x4x4x1xf32>) { %0 = blu.avg_pool %x {kernel = array<i64: 5>} : (tensor<1x4x4x1xf32>) -> tensor<1x1x1x1xf32> return }
//--- window-fits
func.func @f(%x: tensor<1x2x2x2x2x1xf32>) { %0 = blu.unpatch %x {size = array<i64: 4>} : (tensor<1x2x2x2x2x1xf32>) -> tensor<1x4x4x1xf32> return }
//--- pad-half
func.func @f(%x: tensor<1x4x4x1xf32>) { %0 = blu.max_pool %x {kernel = array<i64: 2>, pad = array<i64: 2>} : (tensor<1x4x4x1xf32>) -> tensor<1x4x4x1xf32> return }
//--- groups-divide
func.func @f(%x: tensor<1x4x4x3xf32>, %w: tensor<4x1x2x2xf32>) { %0 = blu.conv2d %x, %w {groups = 2 : i64} : (tensor<1x4x4x3xf32>, tensor<4x1x2x2xf32>) -> tensor<1x3x3x4xf32> return }
//--- same-channels
func.func @f(%x: tensor<1x4x4x3xf32>, %w: tensor<4x2x2x2xf32>) { %0 = blu.conv2d %x, %w : (tensor<1x4x4x3xf32>, tensor<4x2x2x2xf32>) -> tensor<1x3x3x4xf32> return }
//--- rank
func.func @f(%x: tensor<4x4x3xf32>, %w: tensor<4x3x2x2xf32>) { %0 = blu.conv2d %x, %w : (tensor<4x4x3xf32>, tensor<4x3x2x2xf32>) -> tensor<4x3x3xf32> return }
//--- heads-divide
func.func @f(%q: tensor<1x3x4x2xf32>, %k: tensor<1x2x4x2xf32>) { %0 = blu.attention %q, %k, %k : (tensor<1x3x4x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>) -> tensor<1x3x4x2xf32> return }
//--- value-per-key
func.func @f(%q: tensor<1x2x4x2xf32>, %v: tensor<1x2x3x2xf32>) { %0 = blu.attention %q, %q, %v : (tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x3x2xf32>) -> tensor<1x2x4x2xf32> return }
//--- same-inner
func.func @f(%q: tensor<1x2x4x2xf32>, %k: tensor<1x2x4x3xf32>) { %0 = blu.attention %q, %k, %k : (tensor<1x2x4x2xf32>, tensor<1x2x4x3xf32>, tensor<1x2x4x3xf32>) -> tensor<1x2x4x3xf32> return }
//--- same-batch
func.func @f(%q: tensor<1x2x4x2xf32>, %k: tensor<2x2x4x2xf32>) { %0 = blu.attention %q, %k, %k : (tensor<1x2x4x2xf32>, tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32>) -> tensor<1x2x4x2xf32> return }
//--- not-empty
func.func @f(%q: tensor<1x2x4x2xf32>, %k: tensor<1x2x0x2xf32>) { %0 = blu.attention %q, %k, %k : (tensor<1x2x4x2xf32>, tensor<1x2x0x2xf32>, tensor<1x2x0x2xf32>) -> tensor<1x2x4x2xf32> return }
//--- mask-fits
func.func @f(%q: tensor<1x2x4x2xf32>, %m: tensor<3x4xi1>) { %0 = blu.masked_attention %q, %q, %q, %m : (tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>, tensor<3x4xi1>) -> tensor<1x2x4x2xf32> return }
//--- bool
func.func @f(%q: tensor<1x2x4x2xf32>, %m: tensor<4x4xf32>) { %0 = blu.masked_attention %q, %q, %q, %m : (tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>, tensor<4x4xf32>) -> tensor<1x2x4x2xf32> return }
//--- attention-operands
func.func @f(%q: tensor<1x2x4x2xf32>, %k: tensor<1x3x4x2xf32>) { %0 = blu.attention_lse %q, %k : (tensor<1x2x4x2xf32>, tensor<1x3x4x2xf32>) -> tensor<1x2x4xf32> return }
//--- attention-operands
func.func @f(%q: tensor<1x2x4x2xf32>, %l: tensor<1x2x4xf32>, %c: tensor<1x2x4x3xf32>) { %0 = blu.attention_grad %q, %q, %q, %l, %l, %c {of = 0 : i64} : (tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4x3xf32>) -> tensor<1x2x4x2xf32> return }
//--- attention-operands
func.func @f(%q: tensor<1x2x4x2xf32>, %l: tensor<1x2x4xf32>) { %0 = blu.attention_grad %q, %q, %q, %l, %l, %q {of = 3 : i64} : (tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4x2xf32>) -> tensor<1x2x4x2xf32> return }
//--- mask-fits
func.func @f(%q: tensor<1x2x4x2xf32>, %m: tensor<3x4xi1>) { %0 = blu.masked_attention_lse %q, %q, %m : (tensor<1x2x4x2xf32>, tensor<1x2x4x2xf32>, tensor<3x4xi1>) -> tensor<1x2x4xf32> return }
//--- scan-body
func.func @f(%c: tensor<2xf32>, %x: tensor<4x3xf32>) { %0:2 = blu.scan @f(%c, %x) {carries = 1 : i64, sequences = 1 : i64, steps = 4 : i64} : (tensor<2xf32>, tensor<4x3xf32>) -> (tensor<2xf32>, tensor<4x3xf32>) return }
//--- scan-counts
func.func private @b(%c: tensor<2xf32>, %x: tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>) { return %c, %x : tensor<2xf32>, tensor<3xf32> }
func.func @f(%c: tensor<2xf32>) { %0 = blu.scan @b(%c) {carries = 1 : i64, sequences = 0 : i64, steps = 4 : i64} : (tensor<2xf32>) -> tensor<2xf32> return }
//--- scan-counts
func.func private @b(%c: tensor<2xf32>, %x: tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>) { return %c, %x : tensor<2xf32>, tensor<3xf32> }
func.func @f(%c: tensor<2xf32>, %x: tensor<4x3xf32>) { %0:2 = blu.scan @b(%c, %x) {carries = 1 : i64, sequences = 2 : i64, steps = 4 : i64} : (tensor<2xf32>, tensor<4x3xf32>) -> (tensor<2xf32>, tensor<4x3xf32>) return }
//--- scan-steps
func.func private @b(%c: tensor<2xf32>, %x: tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>) { return %c, %x : tensor<2xf32>, tensor<3xf32> }
func.func @f(%c: tensor<2xf32>, %x: tensor<5x3xf32>) { %0:2 = blu.scan @b(%c, %x) {carries = 1 : i64, sequences = 1 : i64, steps = 4 : i64} : (tensor<2xf32>, tensor<5x3xf32>) -> (tensor<2xf32>, tensor<4x3xf32>) return }
//--- scan-types
func.func private @b(%c: tensor<2xf32>, %x: tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>) { return %c, %x : tensor<2xf32>, tensor<3xf32> }
func.func @f(%c: tensor<2xf32>, %x: tensor<4x2xf32>) { %0:2 = blu.scan @b(%c, %x) {carries = 1 : i64, sequences = 1 : i64, steps = 4 : i64} : (tensor<2xf32>, tensor<4x2xf32>) -> (tensor<2xf32>, tensor<4x3xf32>) return }
//--- scan-carry
func.func private @b(%c: tensor<2xf32>, %x: tensor<3xf32>) -> (tensor<3xf32>) { return %x : tensor<3xf32> }
func.func @f(%c: tensor<2xf32>, %x: tensor<4x3xf32>) { %0 = blu.scan @b(%c, %x) {carries = 1 : i64, sequences = 1 : i64, steps = 4 : i64} : (tensor<2xf32>, tensor<4x3xf32>) -> tensor<2xf32> return }
//--- rank
func.func private @b(%c: tensor<1x1x1x1x1x1x1x1xf32>) -> (tensor<1x1x1x1x1x1x1x1xf32>) { return %c : tensor<1x1x1x1x1x1x1x1xf32> }
func.func @f(%c: tensor<1x1x1x1x1x1x1x1xf32>) { %0 = blu.scan @b(%c) {carries = 0 : i64, sequences = 0 : i64, steps = 4 : i64} : (tensor<1x1x1x1x1x1x1x1xf32>) -> tensor<4x1xf32> return }
//--- result-type
func.func private @b(%c: tensor<2xf32>, %x: tensor<3xf32>) -> (tensor<2xf32>, tensor<3xf32>) { return %c, %x : tensor<2xf32>, tensor<3xf32> }
func.func @f(%c: tensor<2xf32>, %x: tensor<4x3xf32>) { %0:2 = blu.scan @b(%c, %x) {carries = 1 : i64, sequences = 1 : i64, steps = 4 : i64} : (tensor<2xf32>, tensor<4x3xf32>) -> (tensor<2xf32>, tensor<3x3xf32>) return }
//--- f32
func.func @f(%a: tensor<3xf64>) { %0 = blu.round_to %a {exponent = 5 : i64, mantissa = 2 : i64} : (tensor<3xf64>) -> tensor<3xf64> return }
//--- format
func.func @f(%a: tensor<3xf32>) { %0 = blu.round_to %a {exponent = 9 : i64, mantissa = 2 : i64} : (tensor<3xf32>) -> tensor<3xf32> return }
//--- format
func.func @f(%a: tensor<3xf32>) { %0 = blu.round_to %a {exponent = 5 : i64, mantissa = 0 : i64} : (tensor<3xf32>) -> tensor<3xf32> return }
