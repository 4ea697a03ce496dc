// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt-raw %t.mlir --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(pipe-verify-stages)'

// What pipe-verify-stages refuses of functions without a body (docs/Stages.md, "Extern functions").

// CASES
@@
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// error: has no body; a function of a stage, and every function that it calls, needs one, or the attribute pipe.extern
func.func private @f(tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output})

// error: '@f' has a body and pipe.extern; expected one of them
func.func private @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output})
    attributes {pipe.extern = {symbol = "f", library = "f.so"}} {
  return %x : tensor<8xf32>
}

// error: '@f' has 'libary' in pipe.extern, which is not one of its fields, the closest is 'library'
func.func private @f(tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output})
    attributes {pipe.extern = {symbol = "f", libary = "f.so"}}

// error: '@f' has no symbol in pipe.extern; expected symbol = "..", the name of a C function
func.func private @f(tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output})
    attributes {pipe.extern = {library = "f.so"}}

// error: '@f' has the symbol "f-1" in pipe.extern, expected the name of a C function
func.func private @f(tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output})
    attributes {pipe.extern = {symbol = "f-1"}}

// error: '@f' has pipe.extern = "f", expected {symbol = "..", library = ".."}
func.func private @f(tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) attributes {pipe.extern = "f"}

// error: '@f' puts its result 0 of type 'tensor<4xf32>' in the place of argument 0, which is 'tensor<8xf32>'
func.func private @f(tensor<8xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output})
    attributes {pipe.extern = {symbol = "f", in_place = array<i64: 0>}}

// error: '@f' has 1 in in_place of pipe.extern, expected -1 or an argument, 0 to 0
func.func private @f(tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output})
    attributes {pipe.extern = {symbol = "f", in_place = array<i64: 1>}}

// error: '@f' has the engine "tensor" in work of pipe.extern, expected matrix or vector
func.func private @f(tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output})
    attributes {pipe.extern = {symbol = "f", work = [{engine = "tensor", flops = 1}]}}

// error: '@f' has flops = -1 : i64 in work of pipe.extern, expected a number from 0
func.func private @f(tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output})
    attributes {pipe.extern = {symbol = "f", work = [{engine = "vector", flops = -1}]}}

// -----

// expected-error @+1 {{'@f' is extern, and its argument 0 has type 'tensor<?xf32>'; expected a tensor whose sizes are all known}}
func.func private @f(tensor<?xf32>) -> tensor<8xf32> attributes {pipe.extern = {symbol = "f"}}
func.func @g(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  %any = tensor.cast %x : tensor<8xf32> to tensor<?xf32>
  %y = func.call @f(%any) : (tensor<?xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @g
}
