// A value that is used twice at each of many levels: time and memory grow with the number of ops, not with the number of ways.
// RUN: awk 'BEGIN { print "func.func @f(%x0: tensor<4xf32>) -> tensor<4xf32> {"; for (i = 1; i <= 200; i++) printf "%%x%d = blu.mul %%x%d, %%x%d : tensor<4xf32>\n", i, i - 1, i - 1; print "return %x200 : tensor<4xf32> }" }' > %t
// RUN: timeout 20 blu-opt -pass=fuse -pass=plan %t | FileCheck %s
// RUN: awk '{ gsub(/%x0:/, "%y: tensor<4x4xf32>, %z:") } /@f/ { print; print "%x0 = blu.sum %y {axis = array<i64: 1>} : (tensor<4x4xf32>) -> tensor<4xf32>"; next } 1' %t | timeout 20 blu-opt -pass=fuse -pass=plan | FileCheck %s
// CHECK: func.func @f(
// CHECK: call @{{[a-z0-9_]*}}mul
// CHECK-NOT: call
// CHECK: return
