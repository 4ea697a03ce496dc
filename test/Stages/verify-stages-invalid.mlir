// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt-raw %t.mlir --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(pipe-verify-stages)'

// What pipe-verify-stages refuses, case by case: docs/Stages.md has the rules.

// CASES
@@

// No function at all.
// error: names no functions of stages; expected clauses such as 'stage 0 forward @f'
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
}
// Each tensor fits, all together do not.
func.func @f(%x: tensor<8xf32> {pipe.input}, %a: tensor<144115188075855872xf64> {pipe.param = "a"}, %b: tensor<8xf64> {pipe.param = "b"}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  // error: makes the tensors of stages 0 to 0 take over 1152921504606846976 bytes together
  stage 0 forward @f
}
// No input.
// error: is the forward of stage 0, but has no argument with pipe.input
func.func @f(%w: tensor<8xf32> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
}
// Neither schedule nor program.
// error: the module has no pipe.schedule and no exec.program
module {}
// A tie without a name.
// error: gives "pipe.tied" the value unit, expected the name of what is tied, in quotes
func.func @f(%w: tensor<8xf32> {pipe.param = "w", pipe.tied}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}

// CASES
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
@@

// A stage of the path without a clause.
// error: has no functions for stage 1 of 2; expected 'stage 1 forward @..'
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1]
  stage 0 forward @f
}
// A clause of no stage.
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
  // error: is stage 3, but paths have 1 stages
  stage 3 forward @f
}
// Paths of different splits.
pipe.schedule @p workers 2 microbatches 2 {
  // note: the first path
  path on [0, 1] takes [0] blocks [1, 2]
  // error: splits the model differently from the first path
  path on [1, 0] takes [1] blocks [2, 1]
  stage 0 forward @f
  stage 1 forward @f
}
// One parameter, two types.
// error: is the backward of stage 0, but its pipe.param "0" is 'tensor<4xf32>', and in an earlier function of the stage 'tensor<8xf32>'
func.func @b(%w: tensor<4xf32> {pipe.param}, %dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.input_gradient}) {
  return %dy : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // note: the stage
  stage 0 forward @f backward @b
}
// A gradient of no parameter.
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.gradient = "v"}) {
  return %dy : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // error: has a gradient "v" and no parameter of that name
  stage 0 forward @f backward @b
}
// A gradient of another shape.
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<4xf32> {pipe.gradient}) {
  %g = arith.constant dense<0.0> : tensor<4xf32>
  return %g : tensor<4xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // error: as the gradient of its parameter
  stage 0 forward @f backward @b
}
// Outputs that are not the next input.
func.func @g(%x: tensor<4xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1]
  stage 0 forward @f
  // error: has the input 'tensor<4xf32>', and stage 0 the output 'tensor<8xf32>'
  stage 1 forward @g
}
// A gradient that the stage before needs.
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.gradient}) {
  return %dy : tensor<8xf32>
}
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1]
  stage 0 forward @f backward @b
  // error: gives no pipe.input_gradient, which stage 0 takes as its pipe.output_gradient
  stage 1 forward @f backward @b
}
// I and W without functions.
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.gradient}) {
  return %dy : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  // error: runs I in this schedule and has no input_gradient and weight_gradient
  stage 0 forward @f backward @b
  worker 0 runs [0F0 0I0 0W0]
}
// O without an update.
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.gradient}) {
  return %dy : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  // error: runs O in this schedule and has no update
  stage 0 forward @f backward @b
  worker 0 runs [0F0 0B0 0O0]
}
// Data of another type.
// error: is the data, but its pipe.input is
func.func @d() -> (tensor<4xf32> {pipe.input}) {
  %g = arith.constant dense<0.0> : tensor<4xf32>
  return %g : tensor<4xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
  data @d
}
// A loss without the target that it takes.
// error: takes a pipe.target, but no clause 'target @..'
func.func @l(%y: tensor<8xf32> {pipe.output}, %t: tensor<8xf32> {pipe.target}) -> (tensor<f32> {pipe.loss}) {
  %g = arith.constant dense<0.0> : tensor<f32>
  return %g : tensor<f32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
  loss @l
}
// A loss that is not a number.
// error: a loss is one number, such as tensor<f32>
func.func @l(%y: tensor<8xf32> {pipe.output}) -> (tensor<8xf32> {pipe.loss}) {
  return %y : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
  // remark: named here
  loss @l
}
// An update that loses state.
// error: takes a pipe.state "m" and does not give its next value
func.func @u(%w: tensor<8xf32> {pipe.param}, %m: tensor<8xf32> {pipe.state = "m"}) -> (tensor<8xf32> {pipe.param}) {
  return %w : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f update @u
}
// An init without a parameter.
// error: does not give the pipe.param "0"
func.func @i() -> (tensor<8xf32> {pipe.param = "v"}) {
  %g = arith.constant dense<0.0> : tensor<8xf32>
  return %g : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 init @i forward @f
}

// CASES
@@
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// No body.
// error: has no body; a function of a stage, and every function that it calls, needs one
func.func private @f(tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output})
// An argument without a role.
// error: argument 0 has no role; expected an attribute out of pipe.param, pipe.input
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// A role that the function cannot have.
// error: argument 1 has the role pipe.output_gradient; expected one out of pipe.param, pipe.input
func.func @f(%x: tensor<8xf32> {pipe.input}, %dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// Two roles.
// error: argument 0 has two roles, pipe.input and pipe.param; expected one
func.func @f(%x: tensor<8xf32> {pipe.input, pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// Sizes that are not known.
// error: argument 0 has type 'tensor<?xf32>'; expected a tensor whose sizes are all known
func.func @f(%x: tensor<?xf32> {pipe.input}) -> (tensor<?xf32> {pipe.output}) {
  return %x : tensor<?xf32>
}
// No tensor.
// error: argument 0 has type 'memref<8xf32>'; expected a tensor
func.func @f(%x: memref<8xf32> {pipe.input}, %w: tensor<8xf32> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}
// Bits that are not bytes.
// error: argument 1 has type 'tensor<8xi1>'; expected numbers of 8, 16, 32 or 64 bits
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xi1> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// LLVM stores each in four bytes.
// error: argument 1 has type 'tensor<8xi24>'; expected numbers of 8, 16, 32 or 64 bits
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xi24> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// LLVM stores each in sixteen bytes.
// error: argument 1 has type 'tensor<8xf80>'; expected numbers of 8, 16, 32 or 64 bits
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xf80> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// Wider than any number of the runtime.
// error: argument 1 has type 'tensor<8xi1024>'; expected numbers of 8, 16, 32 or 64 bits
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xi1024> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// Two numbers each.
// error: argument 1 has type 'tensor<8xcomplex<f32>>'; expected numbers of 8, 16, 32 or 64 bits
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xcomplex<f32>> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// As wide as the target has it.
// error: argument 1 has type 'tensor<8xindex>'; expected numbers of 8, 16, 32 or 64 bits
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xindex> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// The product of the sizes is 2^64.
// error: argument 1 has type 'tensor<4294967296x4294967296xf32>'; expected at most 1152921504606846976 bytes
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<4294967296x4294967296xf32> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// The number of elements fits, their bytes do not.
// error: argument 1 has type 'tensor<4611686018427387904xf64>'; expected at most 1152921504606846976 bytes
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<4611686018427387904xf64> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// No bytes, but strides that do not fit.
// error: argument 1 has type 'tensor<0x4294967296x4294967296xf32>'; expected at most 1152921504606846976 bytes
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<0x4294967296x4294967296xf32> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// Two inputs.
// error: argument 1 is a second pipe.input; expected at most one
func.func @f(%x: tensor<8xf32> {pipe.input}, %z: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// Two parameters of a name.
// error: argument 2 is a second pipe.param of the name "w"
func.func @f(%x: tensor<8xf32> {pipe.input}, %a: tensor<8xf32> {pipe.param = "w"}, %b: tensor<8xf32> {pipe.param = "w"}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// No output.
// error: is used as forward, but has no result with pipe.output
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.residual}) {
  return %x : tensor<8xf32>
}
// A function that writes memory.
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: memref<8xf32>) -> (tensor<8xf32> {pipe.output}) {
  %zero = arith.constant 0.0 : f32
  // error: 'linalg.fill' may read or write memory; functions of stages compute results only from arguments, on tensors
  linalg.fill ins(%zero : f32) outs(%m : memref<8xf32>)
  return %x : tensor<8xf32>
}
// A function that calls itself.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: calls a function that is already running; functions of stages do not call themselves
  %y = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
// Only parameters are tied.
// error: argument 1 has pipe.tied beside pipe.input; only a pipe.param can be tied
func.func @f(%w: tensor<8xf32> {pipe.param = "w"}, %x: tensor<8xf32> {pipe.input, pipe.tied = "w"}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}

// -----

// Samples that data and forward take for different tensors.
// expected-error @+1 {{is the data of stage 0, but its pipe.param "w" is 'tensor<4xf32>', and in an earlier function of the stage 'tensor<8xf32>'}}
func.func @data(%w: tensor<4xf32> {pipe.param = "w"}) -> (tensor<8xf32> {pipe.input}) {
  %x = arith.constant dense<0.0> : tensor<8xf32>
  return %x : tensor<8xf32>
}
func.func @f(%w: tensor<8xf32> {pipe.param = "w"}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}
// expected-note @+3 {{the stage}}
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
  data @data
}

// CASES
@@
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f backward @b
}

// A residual that nothing gives.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// error: takes a pipe.residual "r" that forward does not give
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}, %r: tensor<8xf32> {pipe.residual = "r"}) -> (tensor<8xf32> {pipe.gradient}) {
  return %dy : tensor<8xf32>
}
// Two names for a tie.
func.func @f(%w: tensor<8xf32> {pipe.param = "w", pipe.tied = "t"}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}
// error: is the backward of stage 0, but its pipe.param "w" is tied as "u", and in an earlier function of the stage as "t"
func.func @b(%w: tensor<8xf32> {pipe.param = "w", pipe.tied = "u"}) -> (tensor<8xf32> {pipe.input_gradient}, tensor<8xf32> {pipe.gradient = "w"}) {
  return %w, %w : tensor<8xf32>, tensor<8xf32>
}

// CASES
func.func @f(%w: tensor<8xf32> {pipe.param = "w", pipe.tied = "t"}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}
@@

// A tied parameter without a gradient.
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // error: ties its pipe.param "w" as "t", but none of its functions gives a gradient of it
  stage 0 forward @f
}
// Tied parameters of different types, and one that is not updated.
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.input_gradient}, tensor<8xf32> {pipe.gradient = "w"}) {
  return %dy, %dy : tensor<8xf32>, tensor<8xf32>
}
func.func @g(%w: tensor<2x4xf32> {pipe.param = "w", pipe.tied = "t"}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
func.func @c(%dy: tensor<8xf32> {pipe.output_gradient}, %dw: tensor<2x4xf32> {pipe.gradient = "w"}) -> (tensor<8xf32> {pipe.input_gradient}, tensor<2x4xf32> {pipe.gradient = "w"}) {
  return %dy, %dw : tensor<8xf32>, tensor<2x4xf32>
}
func.func @u(%w: tensor<8xf32> {pipe.param = "w"}) -> (tensor<8xf32> {pipe.param = "w"}) {
  return %w : tensor<8xf32>
}
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1]
  stage 0 forward @f backward @b
  // error: ties its pipe.param "w" as "t", but its gradient is 'tensor<2x4xf32>', and that of stage 0 'tensor<8xf32>'
  stage 1 forward @g backward @c
}
pipe.schedule @q workers 2 microbatches 2 {
  path on [0, 1]
  stage 0 forward @f backward @b update @u
  // error: ties its pipe.param "w" as "t", but of the stages 0 and 1 only one updates it
  stage 1 forward @f backward @b
}
