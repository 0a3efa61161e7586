/* acceptance_rows.h - values that ops and gradients must have, each with the fault that it guards against and its neighbours.
 * Included by acceptance_test.c alone. A row is a function, its inputs, a cotangent (ones if none), and what must come out; NaN
 * asks for NaN, 0 asks for exactly 0. */
#define V(...) (const double[]){__VA_ARGS__}
#define F1(op, n) "%a: tensor<" n "xf32>", "%r = blu." op " %a : tensor<" n "xf32>"
#define LOGSUM "%a: tensor<2xf32>", "%r = blu.logsumexp %a : (tensor<2xf32>) -> tensor<f32>"
#define NORM "%a: tensor<3xf32>", "%r = blu.norm %a : (tensor<3xf32>) -> tensor<f32>"
#define STD "%a: tensor<7xf32>", "%r = blu.std %a : (tensor<7xf32>) -> tensor<f32>"
#define SOFT(op) "%a: tensor<2xf32>", "%r = blu." op " %a : (tensor<2xf32>) -> tensor<2xf32>"
#define LN4 "%x: tensor<1x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>", \
  "%r = blu.layer_norm %x, %w, %b : (tensor<1x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4xf32>"
#define CE "%x: tensor<1x2xf32>, %y: tensor<1xi32>", "%r = blu.cross_entropy %x, %y : (tensor<1x2xf32>, tensor<1xi32>) -> tensor<1xf32>"
/* where(a compared with a bound, f(a), 0): a branch not taken gives no NaN */
#define TAKEN(compare, bound, f)                                                                          \
  "%a: tensor<3xf32>",                                                                                    \
  "%z = blu.constant {value = 0.0, elem = f32, shape = array<i64: 3>} : () -> tensor<3xf32>\n"             \
  "%l = blu.constant {value = " bound ", elem = f32, shape = array<i64: 3>} : () -> tensor<3xf32>\n"       \
  "%m = blu." compare " %a, %l : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>\n" f "\n"                  \
  "%r = blu.where %m, %f, %z : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>"
#define UNTAKEN(compare, bound, op) TAKEN(compare, bound, "%f = blu." op " %a : tensor<3xf32>")
#define POWER(x, y) "%p = blu.constant {value = 0.5, elem = f32, shape = array<i64: 3>} : () -> tensor<3xf32>\n%f = blu.pow " x ", " y " : tensor<3xf32>"
#define ALL(op, n) "%a: tensor<" n "xf32>", "%r = blu." op " %a : (tensor<" n "xf32>) -> tensor<f32>"
#define PAIR(op) "%a: tensor<3xf32>, %b: tensor<3xf32>", "%r = blu." op " %a, %b : tensor<3xf32>"

static const Row tied_weights =
  {"tied weights: embedding and head", "%w: tensor<2x1xf32>, %t: tensor<1xi32>, %y: tensor<1xi32>",
   "%h = blu.gather %w, %t : (tensor<2x1xf32>, tensor<1xi32>) -> tensor<1x1xf32>\n"
   "%l = blu.matmul %h, %w {tb = true} : (tensor<1x1xf32>, tensor<2x1xf32>) -> tensor<1x2xf32>\n"
   "%r = blu.cross_entropy %l, %y : (tensor<1x2xf32>, tensor<1xi32>) -> tensor<1xf32>",
   {V(1, 2), V(0), V(1)}, NULL, V(0.3132617), {V(0, -0.2689414)}};

static const Row rows[] = {
  {"logsumexp of -infinities", LOGSUM, {V(-INFINITY, -INFINITY)}, NULL, V(-INFINITY), {V(0, 0)}},
  {"logsumexp of one -infinity", LOGSUM, {V(-INFINITY, 1)}, NULL, V(1), {V(0, 1)}},
  {"logsumexp of large numbers", LOGSUM, {V(1000, 1000)}, NULL, V(1000.6931), {V(0.5, 0.5)}},
  {"logsumexp of small numbers", LOGSUM, {V(-1000, -1000)}, NULL, V(-999.30685), {V(0.5, 0.5)}},
  {"logsumexp of infinity", LOGSUM, {V(INFINITY, 1)}, NULL, V(INFINITY), {NULL}},
  {"logsumexp of NaN", LOGSUM, {V(NAN, 1)}, NULL, V(NAN), {V(NAN, NAN)}},
  {"logsumexp of one -infinite row of two", "%a: tensor<2x2xf32>",
   "%r = blu.logsumexp %a {axis = array<i64: 1>, keep = true} : (tensor<2x2xf32>) -> tensor<2x1xf32>",
   {V(-INFINITY, -INFINITY, 0, 0)}, NULL, V(-INFINITY, 0.69314718), {V(0, 0, 0.5, 0.5)}},
  {"softmax of large numbers", SOFT("softmax"), {V(1000, 1000)}, V(1, 0), V(0.5, 0.5), {V(0.25, -0.25)}},
  {"softmax of small numbers", SOFT("softmax"), {V(-1000, -1000)}, V(1, 0), V(0.5, 0.5), {V(0.25, -0.25)}},
  {"softmax with -infinity", SOFT("softmax"), {V(-INFINITY, 1)}, V(1, 2), V(0, 1), {V(0, 0)}},
  {"log_softmax with -infinity", SOFT("log_softmax"), {V(-INFINITY, 1)}, V(0, 1), V(-INFINITY, 0), {V(0, 0)}},
  {"log_softmax far apart", SOFT("log_softmax"), {V(-1000, 1000)}, V(1, 0), V(-2000, 0), {V(1, -1)}},

  {"cross-entropy of large logits", CE, {V(1000, -1000), V(1)}, NULL, V(2000), {V(1, -1)}},
  {"cross-entropy of a certain class", CE, {V(-INFINITY, 0), V(1)}, NULL, V(0), {V(0, 0)}},
  {"cross-entropy of an impossible class", CE, {V(-INFINITY, 0), V(0)}, NULL, V(INFINITY), {NULL}},
  {"cross-entropy with an ignored label", "%x: tensor<2x2xf32>, %y: tensor<2xi32>",
   "%i = blu.constant {value = -100.0, elem = i32, shape = array<i64: 2>} : () -> tensor<2xi32>\n"
   "%z = blu.constant {value = 0.0, elem = f32, shape = array<i64: 2>} : () -> tensor<2xf32>\n"
   "%w = blu.ne %y, %i : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>\n"
   "%e = blu.cross_entropy %x, %y : (tensor<2x2xf32>, tensor<2xi32>) -> tensor<2xf32>\n"
   "%k = blu.where %w, %e, %z : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>\n"
   "%s = blu.sum %k : (tensor<2xf32>) -> tensor<f32>\n%f = blu.cast %w {to = f32} : (tensor<2xi1>) -> tensor<2xf32>\n"
   "%n = blu.sum %f : (tensor<2xf32>) -> tensor<f32>\n%r = blu.div %s, %n : tensor<f32>",
   {V(0, 0, 0, 0), V(0, -100)}, NULL, V(0.6931472), {V(-0.5, 0.5, 0, 0)}},
  {"norm at 0", NORM, {V(0, 0, 0)}, NULL, V(0), {V(0, 0, 0)}},
  {"norm squared at 0", "%a: tensor<3xf32>", "%n = blu.norm %a : (tensor<3xf32>) -> tensor<f32>\n%r = blu.mul %n, %n : "
      "tensor<f32>",
   {V(0, 0, 0)}, NULL, V(0), {V(0, 0, 0)}},
  {"norm of a zero row beside another", "%a: tensor<2x2xf32>",
      "%r = blu.norm %a {axis = array<i64: 1>} : (tensor<2x2xf32>) -> tensor<2xf32>",
   {V(0, 0, 3, 4)}, NULL, V(0, 5), {V(0, 0, 0.6, 0.8)}},
  {"norm of huge numbers", NORM, {V(2e30, -2e30, 1e30)}, NULL, V(3e30), {V(0.6666667, -0.6666667, 0.3333333)}},
  {"norm of tiny numbers", NORM, {V(2e-30, -2e-30, 1e-30)}, NULL, V(3e-30), {V(0.6666667, -0.6666667, 0.3333333)}},
  {"norm of infinity", NORM, {V(INFINITY, 1, 0)}, NULL, V(INFINITY), {NULL}},
  {"norm of NaN", NORM, {V(NAN, 1, 0)}, NULL, V(NAN), {NULL}},
  {"std of a constant", STD, {V(3, 3, 3, 3, 3, 3, 3)}, NULL, V(0), {V(0, 0, 0, 0, 0, 0, 0)}},
  {"std of a constant that has no exact sum", STD, {V(0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f)}, NULL, V(0), {V(0, 0, 0, 0, 0,
      0, 0)}},
  {"std of a large constant", STD, {V(1e8f, 1e8f, 1e8f, 1e8f, 1e8f, 1e8f, 1e8f)}, NULL, V(0), {V(0, 0, 0, 0, 0, 0, 0)}},
  {"std of one element", ALL("std", "1"), {V(5)}, NULL, V(0), {V(0)}},
  {"std far from 0", "%a: tensor<4xf32>", "%r = blu.std %a : (tensor<4xf32>) -> tensor<f32>", {V(40000, 40001, 40002, 40003)},
      NULL, V(1.1180340),
   {V(-0.3354102, -0.1118034, 0.1118034, 0.3354102)}},
  {"variance far from 0", "%a: tensor<4xf32>", "%r = blu.variance %a {correction = 1} : (tensor<4xf32>) -> tensor<f32>", {V(1e6,
      1e6 + 1, 1e6 + 2, 1e6 + 3)},
   NULL, V(1.6666667), {V(-1, -0.3333333, 0.3333333, 1)}},

  {"where of a quotient", "%x: tensor<2xf32>, %d: tensor<2xf32>",
   "%z = blu.constant {value = 0.0, elem = f32, shape = array<i64: 2>} : () -> tensor<2xf32>\n"
   "%m = blu.ne %d, %z : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>\n%q = blu.div %x, %d : tensor<2xf32>\n"
   "%r = blu.where %m, %q, %z : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
   {V(1, 1), V(0, 1)}, NULL, V(0, 1), {V(0, 1), V(0, -1)}},
  {"log not taken", UNTAKEN("gt", "0.0", "log"), {V(0, 1, -1)}, NULL, V(0, 0, 0), {V(0, 1, 0)}},
  {"log1p not taken", UNTAKEN("gt", "-1.0", "log1p"), {V(-1, 1, -3)}, NULL, V(0, 0.6931472, 0), {V(0, 0.5, 0)}},
  {"sqrt not taken", UNTAKEN("gt", "0.0", "sqrt"), {V(0, 4, -1)}, NULL, V(0, 2, 0), {V(0, 0.25, 0)}},
  {"rsqrt not taken", UNTAKEN("gt", "0.0", "rsqrt"), {V(0, 4, -1)}, NULL, V(0, 0.5, 0), {V(0, -0.0625, 0)}},
  {"exp not taken", UNTAKEN("lt", "50.0", "exp"), {V(1000, 0, INFINITY)}, NULL, V(0, 1, 0), {V(0, 1, 0)}},
  {"expm1 not taken", UNTAKEN("lt", "50.0", "expm1"), {V(1000, 0, INFINITY)}, NULL, V(0, 0, 0), {V(0, 1, 0)}},
  {"sine not taken", UNTAKEN("lt", "50.0", "sin"), {V(1e30, 0, INFINITY)}, NULL, V(0, 0, 0), {V(0, 1, 0)}},
  {"power not taken", TAKEN("gt", "0.0", POWER("%a", "%p")), {V(0, 4, -1)}, NULL, V(0, 2, 0), {V(0, 0.25, 0)}},
  {"exponent not taken", TAKEN("gt", "0.0", POWER("%p", "%a")), {V(-1000, 2, -1e30)}, NULL, V(0, 0.25, 0), {V(0, -0.1732868, 0)}},
  {"quotient by itself not taken", TAKEN("gt", "0.0", "%f = blu.div %a, %a : tensor<3xf32>"), {V(0, 4, 0)}, NULL, V(0, 1, 0),
      {V(0, 0, 0)}},
  {"gelu not taken", UNTAKEN("lt", "50.0", "gelu"), {V(INFINITY, 0, 1e30)}, NULL, V(0, 0, 0), {V(0, 0.5, 0)}},
  {"gelu_tanh not taken", UNTAKEN("lt", "50.0", "gelu_tanh"), {V(INFINITY, 0, 1e30)}, NULL, V(0, 0, 0), {V(0, 0.5, 0)}},
  {"silu not taken", UNTAKEN("lt", "50.0", "silu"), {V(INFINITY, 0, 1e30)}, NULL, V(0, 0, 0), {V(0, 0.5, 0)}},
  {"power of 0 to 0", PAIR("pow"), {V(0, 0, 2), V(0, 2, 0)}, NULL, V(1, 0, 1), {V(0, 0, 0), NULL}},

  {"embedding: rows used twice, once, never", "%x: tensor<3x2xf32>, %i: tensor<3xi32>",
   "%r = blu.gather %x, %i : (tensor<3x2xf32>, tensor<3xi32>) -> tensor<3x2xf32>", {V(1, 2, 3, 4, 5, 6), V(1, 1, 2)}, NULL, V(3,
       4, 3, 4, 5, 6), {V(0, 0, 2, 2, 1, 1)}},
  {"embedding: ids that are no rows", "%x: tensor<2x1xf32>, %i: tensor<4xi32>",
      "%r = blu.gather %x, %i : (tensor<2x1xf32>, tensor<4xi32>) -> tensor<4x1xf32>",
   {V(7, 8), V(0, 2, -1, 1)}, NULL, V(7, NAN, NAN, 8), {V(1, 1)}},
  {"embedding: bytes as ids", "%x: tensor<2x1xf32>, %i: tensor<2xui8>",
      "%r = blu.gather %x, %i : (tensor<2x1xf32>, tensor<2xui8>) -> tensor<2x1xf32>",
   {V(7, 8), V(1, 255)}, NULL, V(8, NAN), {V(0, 1)}},
  {"scatter_add: ids that are no rows", "%x: tensor<2xf32>, %i: tensor<4xi64>, %u: tensor<4xf32>",
   "%r = blu.scatter_add %x, %i, %u : (tensor<2xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<2xf32>",
   {V(10, 20), V(1, -1, 2, 1), V(1, 2, 4, 8)}, NULL, V(10, 29), {V(1, 1), V(1, 0, 0, 1)}},
  {"one_hot: ids that are no class", "%i: tensor<3xi32>", "%r = blu.one_hot %i {size = 2} : (tensor<3xi32>) -> tensor<3x2xf32>",
      {V(1, 2, -1)}, NULL, V(0, 1, 0, 0, 0, 0), {NULL}},
  {"product with its own transpose", "%x: tensor<1x1xf32>", "%r = blu.matmul %x, %x {tb = true} : (tensor<1x1xf32>, "
      "tensor<1x1xf32>) -> tensor<1x1xf32>",
   {V(1)}, NULL, V(1), {V(2)}},
  {"product with its own transpose, 2 by 2", "%x: tensor<2x2xf32>",
      "%r = blu.matmul %x, %x {tb = true} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>",
   {V(1, 2, 3, 4)}, V(1, 0, 0, 0), V(5, 11, 11, 25), {V(2, 4, 0, 0)}},
  {"sum with itself", PAIR("add"), {V(1, 2, 3), V(1, 2, 3)}, NULL, V(2, 4, 6), {V(1, 1, 1), V(1, 1, 1)}},

  {"layer norm far from 0", LN4, {V(40000, 40001, 40002, 40003), V(1, 1, 1, 1), V(0, 0, 0, 0)}, NULL, V(-1.3416354, -0.4472118,
      0.4472118, 1.3416354), {NULL}},
  {"layer norm further from 0", LN4, {V(4e6, 4e6 + 1, 4e6 + 2, 4e6 + 3), V(1, 1, 1, 1), V(0, 0, 0, 0)}, NULL, V(-1.3416354,
      -0.4472118, 0.4472118, 1.3416354), {NULL}},
  {"layer norm below 0", LN4, {V(-40000, -40001, -40002, -40003), V(1, 1, 1, 1), V(0, 0, 0, 0)}, NULL, V(1.3416354, 0.4472118,
      -0.4472118, -1.3416354), {NULL}},
  {"layer norm with gain and bias", LN4, {V(40000, 40001, 40002, 40003), V(1, 2, 0, -1), V(1, 0, 5, 0)}, NULL, V(-0.3416354,
      -0.8944236, 5, -1.3416354), {NULL}},
  {"layer norm of a constant is its bias", LN4, {V(0.1f, 0.1f, 0.1f, 0.1f), V(3, 3, 3, 3), V(1, 2, 3, 4)}, V(1, 1, 1, 1), V(1, 2,
      3, 4), {V(0, 0, 0, 0), V(0, 0, 0, 0), V(1, 1, 1, 1)}},

  {"gelu at 1 and -1", F1("gelu", "2"), {V(1, -1)}, NULL, V(0.8413447, -0.1586553), {V(1.0833155, -0.0833155)}},
  {"gelu_tanh at 1 and -1", F1("gelu_tanh", "2"), {V(1, -1)}, NULL, V(0.8411920, -0.1588080), {V(1.0829641, -0.0829641)}},
  {"gelu at 0 and far out", F1("gelu", "3"), {V(0, 1e20, -1e20)}, NULL, V(0, 1e20, 0), {V(0.5, 1, 0)}},
  {"gelu_tanh at 0 and far out", F1("gelu_tanh", "3"), {V(0, 1e20, -1e20)}, NULL, V(0, 1e20, 0), {V(0.5, 1, 0)}},
  {"silu at 0 and far out", F1("silu", "3"), {V(0, 100, -1000)}, NULL, V(0, 100, 0), {V(0.5, 1, 0)}},
  {"sigmoid far out", F1("sigmoid", "3"), {V(0, 1000, -1000)}, NULL, V(0.5, 1, 0), {V(0.25, 0, 0)}},
  {"tanh far out", F1("tanh", "3"), {V(0, 1000, -1000)}, NULL, V(0, 1, -1), {V(1, 0, 0)}},
  {"erf", F1("erf", "4"), {V(0, 1, -INFINITY, 1e-20)}, NULL, V(0, 0.8427008, -1, 1.1283792e-20), {NULL}},
  {"expm1 and log1p near 0", F1("expm1", "3"), {V(1e-20, -1e-20, -INFINITY)}, NULL, V(1e-20, -1e-20, -1), {V(1, 1, 0)}},
  {"log1p", F1("log1p", "4"), {V(1e-20, -1, INFINITY, -2)}, NULL, V(1e-20, -INFINITY, INFINITY, NAN), {NULL}},
  {"sign", F1("sign", "4"), {V(-3, 0, 1e-40, NAN)}, NULL, V(-1, 0, 1, NAN), {V(0, 0, 0, 0)}},
  {"abs at 0", F1("abs", "3"), {V(-2, 0, 3)}, NULL, V(2, 0, 3), {V(-1, 0, 1)}},
  {"relu at 0 and of NaN", F1("relu", "3"), {V(-2, 0, NAN)}, NULL, V(0, 0, NAN), {NULL}},

  {"maximum propagates NaN", PAIR("maximum"), {V(NAN, 1, 2), V(1, NAN, 2)}, NULL, V(NAN, NAN, 2), {NULL}},
  {"minimum propagates NaN", PAIR("minimum"), {V(NAN, 1, 2), V(1, NAN, 2)}, NULL, V(NAN, NAN, 2), {NULL}},
  {"a tie is shared", PAIR("maximum"), {V(1, 2, 3), V(1, 1, 4)}, NULL, V(1, 2, 4), {V(0.5, 1, 0), V(0.5, 0, 1)}},
  {"max propagates NaN", ALL("max", "5"), {V(1, 2, NAN, 4, 3)}, NULL, V(NAN), {NULL}},
  {"max propagates a first NaN", ALL("max", "5"), {V(NAN, 2, 1, 4, 3)}, NULL, V(NAN), {NULL}},
  {"min propagates NaN", ALL("min", "5"), {V(1, 2, 3, 4, NAN)}, NULL, V(NAN), {NULL}},
  {"max of -infinities", ALL("max", "2"), {V(-INFINITY, -INFINITY)}, NULL, V(-INFINITY), {V(0.5, 0.5)}},
  {"max shared by equals", ALL("max", "4"), {V(1, 3, 3, 2)}, NULL, V(3), {V(0, 0.5, 0.5, 0)}},
  {"argmax of NaN", "%a: tensor<4xf32>", "%r = blu.argmax %a : (tensor<4xf32>) -> tensor<i32>", {V(1, NAN, 9, NAN)}, NULL, V(1),
      {NULL}},
  {"argmax of equals", "%a: tensor<4xf32>", "%r = blu.argmax %a : (tensor<4xf32>) -> tensor<i32>", {V(1, 9, 9, 2)}, NULL, V(1),
      {NULL}},
  {"top_k of equals and NaN", "%a: tensor<5xf32>", "%r = blu.top_k %a {k = 4} : (tensor<5xf32>) -> tensor<4xi32>", {V(1, 9, NAN,
      9, 2)}, NULL, V(2, 1, 3, 4), {NULL}},
  {"x != x is where x is NaN", "%a: tensor<3xf32>", "%m = blu.ne %a, %a : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>\n%r = "
      "blu.cast %m {to = f32} : (tensor<3xi1>) -> tensor<3xf32>",
   {V(NAN, 1, INFINITY)}, NULL, V(1, 0, 0), {NULL}},
  {"x - x is NaN for infinity", "%a: tensor<3xf32>", "%r = blu.sub %a, %a : tensor<3xf32>", {V(NAN, 1, INFINITY)}, NULL, V(NAN,
      0, NAN), {V(0, 0, 0)}},
  {"x / x is NaN for 0", "%a: tensor<3xf32>", "%r = blu.div %a, %a : tensor<3xf32>", {V(0, 2, INFINITY)}, NULL, V(NAN, 1, NAN),
      {NULL}},
  {"x * 0 is NaN for infinity", "%a: tensor<3xf32>",
   "%z = blu.constant {value = 0.0, elem = f32, shape = array<i64: 3>} : () -> tensor<3xf32>\n%r = blu.mul %a, %z : "
       "tensor<3xf32>", {V(NAN, 2, INFINITY)}, NULL, V(NAN, 0, NAN), {NULL}},
  {"prod with one 0", ALL("prod", "3"), {V(2, 0, 5)}, NULL, V(0), {V(0, 10, 0)}},
  {"prod with two 0", ALL("prod", "3"), {V(0, 0, 5)}, NULL, V(0), {V(0, 0, 0)}},
  {"prod without 0", ALL("prod", "3"), {V(2, -3, 5)}, NULL, V(-30), {V(-15, 10, -6)}},
  {"cumsum", "%a: tensor<4xf32>", "%r = blu.cumsum %a : (tensor<4xf32>) -> tensor<4xf32>", {V(1, 2, 3, 4)}, V(1, 0, 0, 1), V(1,
      3, 6, 10), {V(2, 1, 1, 1)}},
  {"max_pool: padding never wins", "%x: tensor<1x2x2x1xf32>",
   "%r = blu.max_pool %x {kernel = array<i64: 3>, stride = array<i64: 2>, pad = array<i64: 1>} : (tensor<1x2x2x1xf32>) -> "
       "tensor<1x1x1x1xf32>",
   {V(-4, -3, -2, -5)}, NULL, V(-2), {V(0, 0, 1, 0)}},
  {"avg_pool: padding counts as zeros", "%x: tensor<1x2x2x1xf32>",
   "%r = blu.avg_pool %x {kernel = array<i64: 3>, stride = array<i64: 2>, pad = array<i64: 1>} : (tensor<1x2x2x1xf32>) -> "
       "tensor<1x1x1x1xf32>",
   {V(9, 18, 27, 36)}, NULL, V(10), {V(0.11111111, 0.11111111, 0.11111111, 0.11111111)}},
  {"conv2d is a correlation", "%x: tensor<1x1x3x1xf32>, %w: tensor<1x1x1x2xf32>",
   "%r = blu.conv2d %x, %w : (tensor<1x1x3x1xf32>, tensor<1x1x1x2xf32>) -> tensor<1x1x2x1xf32>", {V(1, 2, 3), V(10, 100)}, NULL,
       V(210, 320), {V(10, 110, 100), V(3, 5)}},
  {"batch norm of constant channels is its bias", "%x: tensor<3x2xf32>, %w: tensor<2xf32>, %b: tensor<2xf32>",
   "%r = blu.batch_norm %x, %w, %b : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>",
   {V(0.1f, 1234.1f, 0.1f, 1234.1f, 0.1f, 1234.1f), V(2, 2), V(5, 6)}, NULL, V(5, 6, 5, 6, 5, 6), {V(0, 0, 0, 0, 0, 0), V(0, 0),
       V(3, 3)}},
  {"rms norm of zeros", "%x: tensor<2xf32>, %w: tensor<2xf32>",
      "%r = blu.rms_norm %x, %w : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", {V(0, 0), V(1, 1)}, NULL, V(0, 0),
   {V(316.22777, 316.22777), V(0, 0)}},
};
