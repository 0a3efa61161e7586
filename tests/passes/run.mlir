// Functions by the interpreter: arguments given, read and drawn, results printed, and what can't be run refused.
// RUN: blu-opt %s --run=sum --input=0=1,2,3,4,5,6 --input=scale=0.1 | FileCheck %s --check-prefix=GIVEN
// RUN: blu-opt %s -pass=simplify -pass=expand -pass=simplify --run=sum --input=x=1,2,3,4,5,6 --input=1=0.1 | FileCheck %s --check-prefix=GIVEN
// GIVEN: output total: f32[2] = 0.60000000000000009, 1.5
// GIVEN-NEXT: result 1: f32[2, 3] = 0.100000

// One number is for all elements; long results are shortened, unless --full.
// RUN: blu-opt %s --run=long --input=0=2 | FileCheck %s --check-prefix=LONG
// RUN: blu-opt %s --run=long --input=0=2 --full | FileCheck %s --check-prefix=FULL
// LONG: result 0: f64[20] = 4, 4, 4, 4, 4, 4, 4, 4, .. (20 in all)
// FULL: result 0: f64[20] = 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4{{$}}

// An array of NumPy's.
// RUN: printf '\223NUMPY\001\000v\000%-117s\n\000\000\200?\000\000\000@\000\000@@\000\000\200@\000\000\240@\000\000\300@' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" > %t.npy
// RUN: blu-opt %s --run=sum --input=0=%t.npy --input=1=0.1 | FileCheck %s --check-prefix=GIVEN
// RUN: not blu-opt %s --run=long --input=0=%t.npy 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: head -c 140 %t.npy > %t.short.npy && not blu-opt %s --run=sum --input=0=%t.short.npy 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: not blu-opt %s --run=sum --input=0=%s.npy 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: printf abc > %t.text.npy && not blu-opt %s --run=sum --input=0=%t.text.npy 2>&1 | FileCheck %s --check-prefix=TEXT
// SHAPE: blu-opt: argument 0: {{.*}}t.npy: another shape than f64[20]
// SHORT: blu-opt: argument 0: {{.*}}t.short.npy: the file ends before the array does
// MISSING: blu-opt: argument 0: {{.*}}.npy: No such file or directory
// TEXT: blu-opt: argument 0: {{.*}}t.text.npy: not an .npy file

// What is drawn fits: labels name classes (or -100, which the function looks for), ids name rows, all rows of the batch are real, state is
// positive, a run value is its default; the same with the same seed, other numbers with another one.
// RUN: blu-opt %s --run=drawn --full > %t.one && blu-opt %s --run=drawn --full --seed=1 | cmp - %t.one && FileCheck %s --check-prefix=DRAWN < %t.one
// RUN: blu-opt %s --run=drawn --full --seed=2 | not cmp -s - %t.one
// DRAWN: output label: i32[40] = {{((0|1|2|-100), )*-100, (0|1|2|-100)(, (0|1|2|-100))*$}}
// DRAWN-NEXT: output loss: f32[40] = {{[0-9., ]*$}}
// DRAWN-NEXT: output id: u8[12] = {{[0-3](, [0-3])*$}}
// DRAWN-NEXT: output rows: f32[12] = {{[-0-9., ]*$}}
// DRAWN-NEXT: output batch: i32 = 40
// DRAWN-NEXT: output state: f32[4] = {{[01][0-9.]*(, [01][0-9.]*)*$}}
// DRAWN-NEXT: output lr: f64 = 0.25

// RUN: not blu-opt %s --run=none 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not blu-opt %s --run=sum --input=y=1 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not blu-opt %s --run=twice --input=w=1 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not blu-opt %s --run=sum --input=0=1,2 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not blu-opt %s --run=sum --input=0=1,a 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not blu-opt %s --run=drawn --input=label=1.5 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: not blu-opt %s --run=endless 2>&1 | FileCheck %s --check-prefix=ENDLESS
// RUN: not blu-opt %s --run=bare 2>&1 | FileCheck %s --check-prefix=BARE
// RUN: not blu-opt %s --run=integer 2>&1 | FileCheck %s --check-prefix=INTEGER
// RUN: not blu-opt %s --run=sum --input=0 2>&1 | FileCheck %s --check-prefix=USAGE
// RUN: not blu-opt %s --full 2>&1 | FileCheck %s --check-prefix=ALONE
// NONE: {{^}}blu-opt: no function is called @none
// NAME: {{^}}blu-opt: no argument 'y'; there are 2, counted from 0
// TWICE: {{^}}blu-opt: arguments 0 and 1 are called 'w': give a number
// COUNT: {{^}}blu-opt: argument 0: 2 numbers for f32[2, 3], which has 6
// NUMBER: {{^}}blu-opt: argument 0: 'a' is no number
// WHOLE: {{^}}blu-opt: argument label: 1.5 is no whole number
// ENDLESS: {{^}}blu-opt: calls are nested more than 64 deep
// BARE: {{^}}blu-opt: @bare has no body
// INTEGER: {{^}}blu-opt: argument 0 of @integer is no tensor
// USAGE: {{^}}blu-opt: --input takes ARG=VALUE, not '0'
// ALONE: {{^}}blu-opt: --input and --full go with --run

func.func @sum(%x: tensor<2x3xf32> {blu.name = "x", blu.role = "input"}, %s: tensor<f32> {blu.name = "scale", blu.role = "input"})
    -> (tensor<2xf32> {blu.name = "total", blu.role = "output"}, tensor<2x3xf32> {blu.name = "", blu.role = "output"}) {
  %0 = blu.broadcast %s {shape = array<i64: 2, 3>} : (tensor<f32>) -> tensor<2x3xf32>
  %1 = blu.mul %x, %0 : tensor<2x3xf32>
  %2 = blu.sum %1 {axis = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  return %2, %1 : tensor<2xf32>, tensor<2x3xf32>
}
func.func @long(%x: tensor<20xf64>) -> tensor<20xf64> {
  %0 = blu.mul %x, %x : tensor<20xf64>
  return %0 : tensor<20xf64>
}
func.func @drawn(%x: tensor<40x3xf32> {blu.name = "x", blu.role = "data"}, %label: tensor<40xi32> {blu.name = "label", blu.role = "data"},
    %id: tensor<12xui8> {blu.name = "id", blu.role = "data"}, %rows: tensor<i32> {blu.name = "rows", blu.role = "rows"},
    %table: tensor<4x1xf32> {blu.name = "table", blu.role = "param"}, %m: tensor<4xf32> {blu.name = "m", blu.role = "state"},
    %lr: tensor<f64> {blu.name = "lr", blu.role = "run", blu.value = 0.25 : f64})
    -> (tensor<40xi32> {blu.name = "label", blu.role = "output"}, tensor<40xf32> {blu.name = "loss", blu.role = "output"},
        tensor<12xui8> {blu.name = "id", blu.role = "output"}, tensor<12xf32> {blu.name = "rows", blu.role = "output"},
        tensor<i32> {blu.name = "batch", blu.role = "output"}, tensor<4xf32> {blu.name = "state", blu.role = "output"},
        tensor<f64> {blu.name = "lr", blu.role = "output"}) {
  %ignored = blu.constant {elem = i32, shape = array<i64: 40>, value = -1.0e+02 : f64} : () -> tensor<40xi32>
  %zero = blu.constant {elem = i32, shape = array<i64: 40>, value = 0.0 : f64} : () -> tensor<40xi32>
  %is = blu.eq %label, %ignored : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
  %class = blu.where %is, %zero, %label : (tensor<40xi1>, tensor<40xi32>, tensor<40xi32>) -> tensor<40xi32>
  %loss = blu.cross_entropy %x, %class : (tensor<40x3xf32>, tensor<40xi32>) -> tensor<40xf32>
  %wide = blu.cast %id {to = i32} : (tensor<12xui8>) -> tensor<12xi32>
  %picked = blu.gather %table, %wide : (tensor<4x1xf32>, tensor<12xi32>) -> tensor<12x1xf32>
  %flat = blu.reshape %picked {shape = array<i64: 12>} : (tensor<12x1xf32>) -> tensor<12xf32>
  return %label, %loss, %id, %flat, %rows, %m, %lr : tensor<40xi32>, tensor<40xf32>, tensor<12xui8>, tensor<12xf32>, tensor<i32>, tensor<4xf32>, tensor<f64>
}
func.func @twice(%a: tensor<f32> {blu.name = "w", blu.role = "param"}, %b: tensor<f32> {blu.name = "w", blu.role = "grad"}) -> tensor<f32> {
  %0 = blu.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}
func.func @endless(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @endless(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @bare(tensor<f32>) -> tensor<f32>
func.func @integer(%x: i32) -> i32 { return %x : i32 }
