// RUN: pipesched-opt-raw %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(pipe-verify-stages)'

// What pipe-verify-stages refuses, case by case: docs/Stages.md has the rules.

// No function at all.
// expected-error @+1 {{names no functions of stages; expected clauses such as 'stage 0 forward @f'}}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
}

// -----

// A stage of the path without a clause.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// expected-error @+1 {{has no functions for stage 1 of 2; expected 'stage 1 forward @..'}}
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1]
  stage 0 forward @f
}

// -----

// A clause of no stage.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
  // expected-error @+1 {{is stage 3, but paths have 1 stages}}
  stage 3 forward @f
}

// -----

// Paths of different splits.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 2 microbatches 2 {
  // expected-note @+1 {{the first path}}
  path on [0, 1] takes [0] blocks [1, 2]
  // expected-error @+1 {{splits the model differently from the first path}}
  path on [1, 0] takes [1] blocks [2, 1]
  stage 0 forward @f
  stage 1 forward @f
}

// -----

// No body.
// expected-error @+1 {{has no body; a function of a stage, and every function that it calls, needs one}}
func.func private @f(tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output})
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// An argument without a role.
// expected-error @+1 {{argument 0 has no role; expected an attribute out of pipe.param, pipe.input}}
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// A role that the function cannot have.
// expected-error @+1 {{argument 1 has the role pipe.output_gradient; expected one out of pipe.param, pipe.input}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// Two roles.
// expected-error @+1 {{argument 0 has two roles, pipe.input and pipe.param; expected one}}
func.func @f(%x: tensor<8xf32> {pipe.input, pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// Sizes that are not known.
// expected-error @+1 {{argument 0 has type 'tensor<?xf32>'; expected a tensor whose sizes are all known}}
func.func @f(%x: tensor<?xf32> {pipe.input}) -> (tensor<?xf32> {pipe.output}) {
  return %x : tensor<?xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// No tensor.
// expected-error @+1 {{argument 0 has type 'memref<8xf32>'; expected a tensor}}
func.func @f(%x: memref<8xf32> {pipe.input}, %w: tensor<8xf32> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
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
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
  data @data
}

// -----

// Bits that are no bytes.
// expected-error @+1 {{argument 1 has type 'tensor<8xi1>'; expected numbers of 8, 16, 32 or 64 bits}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xi1> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// LLVM stores each in four bytes.
// expected-error @+1 {{argument 1 has type 'tensor<8xi24>'; expected numbers of 8, 16, 32 or 64 bits}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xi24> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// LLVM stores each in sixteen bytes.
// expected-error @+1 {{argument 1 has type 'tensor<8xf80>'; expected numbers of 8, 16, 32 or 64 bits}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xf80> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// Wider than any number of the runtime.
// expected-error @+1 {{argument 1 has type 'tensor<8xi1024>'; expected numbers of 8, 16, 32 or 64 bits}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xi1024> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// Two numbers each.
// expected-error @+1 {{argument 1 has type 'tensor<8xcomplex<f32>>'; expected numbers of 8, 16, 32 or 64 bits}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xcomplex<f32>> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// As wide as the target has it.
// expected-error @+1 {{argument 1 has type 'tensor<8xindex>'; expected numbers of 8, 16, 32 or 64 bits}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<8xindex> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// The product of the sizes is 2^64.
// expected-error @+1 {{argument 1 has type 'tensor<4294967296x4294967296xf32>'; expected at most 1152921504606846976 bytes}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<4294967296x4294967296xf32> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// The number of elements fits, their bytes do not.
// expected-error @+1 {{argument 1 has type 'tensor<4611686018427387904xf64>'; expected at most 1152921504606846976 bytes}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<4611686018427387904xf64> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// No bytes, but strides that do not fit.
// expected-error @+1 {{argument 1 has type 'tensor<0x4294967296x4294967296xf32>'; expected at most 1152921504606846976 bytes}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: tensor<0x4294967296x4294967296xf32> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// Each tensor fits, all together do not.
func.func @f(%x: tensor<8xf32> {pipe.input}, %a: tensor<144115188075855872xf64> {pipe.param = "a"}, %b: tensor<8xf64> {pipe.param = "b"}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-error @+1 {{makes the tensors of stages 0 to 0 take over 1152921504606846976 bytes together}}
  stage 0 forward @f
}

// -----

// Two inputs.
// expected-error @+1 {{argument 1 is a second pipe.input; expected at most one}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %z: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// Two parameters of a name.
// expected-error @+1 {{argument 2 is a second pipe.param of the name "w"}}
func.func @f(%x: tensor<8xf32> {pipe.input}, %a: tensor<8xf32> {pipe.param = "w"}, %b: tensor<8xf32> {pipe.param = "w"}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// No output.
// expected-error @+1 {{is used as forward, but has no result with pipe.output}}
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.residual}) {
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// No input.
// expected-error @+1 {{is the forward of stage 0, but has no argument with pipe.input}}
func.func @f(%w: tensor<8xf32> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
}

// -----

// A function that writes memory.
func.func @f(%x: tensor<8xf32> {pipe.input}, %m: memref<8xf32>) -> (tensor<8xf32> {pipe.output}) {
  %zero = arith.constant 0.0 : f32
  // expected-error @+1 {{'linalg.fill' may read or write memory; functions of stages compute results from arguments alone, on tensors}}
  linalg.fill ins(%zero : f32) outs(%m : memref<8xf32>)
  return %x : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// A function that calls itself.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // expected-error @+1 {{calls a function that is already running; functions of stages do not call themselves}}
  %y = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// One parameter, two types.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// expected-error @+1 {{is the backward of stage 0, but its pipe.param "0" is 'tensor<4xf32>', and in an earlier function of the stage 'tensor<8xf32>'}}
func.func @b(%w: tensor<4xf32> {pipe.param}, %dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.input_gradient}) {
  return %dy : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-note @+1 {{the stage}}
  stage 0 forward @f backward @b
}

// -----

// A gradient of no parameter.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.gradient = "v"}) {
  return %dy : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-error @+1 {{has a gradient "v" and no parameter of that name}}
  stage 0 forward @f backward @b
}

// -----

// A gradient of another shape.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<4xf32> {pipe.gradient}) {
  %g = arith.constant dense<0.0> : tensor<4xf32>
  return %g : tensor<4xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-error @+1 {{as the gradient of its parameter}}
  stage 0 forward @f backward @b
}

// -----

// A residual that nothing gives.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// expected-error @+1 {{takes a pipe.residual "r" that forward does not give}}
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}, %r: tensor<8xf32> {pipe.residual = "r"}) -> (tensor<8xf32> {pipe.gradient}) {
  return %dy : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f backward @b
}

// -----

// Outputs that are not the next input.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
func.func @g(%x: tensor<4xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1]
  stage 0 forward @f
  // expected-error @+1 {{has the input 'tensor<4xf32>', and stage 0 the output 'tensor<8xf32>'}}
  stage 1 forward @g
}

// -----

// A gradient that the stage before needs.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.gradient}) {
  return %dy : tensor<8xf32>
}
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1]
  stage 0 forward @f backward @b
  // expected-error @+1 {{gives no pipe.input_gradient, which stage 0 takes as its pipe.output_gradient}}
  stage 1 forward @f backward @b
}

// -----

// I and W without functions.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.gradient}) {
  return %dy : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  // expected-error @+1 {{runs I in this schedule and has no input_gradient and weight_gradient}}
  stage 0 forward @f backward @b
  worker 0 runs [0F0 0I0 0W0]
}

// -----

// O without an update.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
func.func @b(%dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.gradient}) {
  return %dy : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  // expected-error @+1 {{runs O in this schedule and has no update}}
  stage 0 forward @f backward @b
  worker 0 runs [0F0 0B0 0O0]
}

// -----

// Data of another type.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// expected-error @+1 {{is the data, but its pipe.input is}}
func.func @d() -> (tensor<4xf32> {pipe.input}) {
  %g = arith.constant dense<0.0> : tensor<4xf32>
  return %g : tensor<4xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
  data @d
}

// -----

// A loss without the target that it takes.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// expected-error @+1 {{takes a pipe.target, but there is no clause 'target @..'}}
func.func @l(%y: tensor<8xf32> {pipe.output}, %t: tensor<8xf32> {pipe.target}) -> (tensor<f32> {pipe.loss}) {
  %g = arith.constant dense<0.0> : tensor<f32>
  return %g : tensor<f32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
  loss @l
}

// -----

// A loss that is no number.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// expected-error @+1 {{a loss is one number, such as tensor<f32>}}
func.func @l(%y: tensor<8xf32> {pipe.output}) -> (tensor<8xf32> {pipe.loss}) {
  return %y : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f
  // expected-remark @+1 {{named here}}
  loss @l
}

// -----

// An update that loses state.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// expected-error @+1 {{takes a pipe.state "m" and does not give its next value}}
func.func @u(%w: tensor<8xf32> {pipe.param}, %m: tensor<8xf32> {pipe.state = "m"}) -> (tensor<8xf32> {pipe.param}) {
  return %w : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f update @u
}

// -----

// An init without a parameter.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
// expected-error @+1 {{does not give the pipe.param "0"}}
func.func @i() -> (tensor<8xf32> {pipe.param = "v"}) {
  %g = arith.constant dense<0.0> : tensor<8xf32>
  return %g : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 init @i forward @f
}

// -----

// Neither schedule nor program.
// expected-error @+1 {{the module has no pipe.schedule and no exec.program}}
module {}

// -----

// Only parameters are tied.
// expected-error @+1 {{argument 1 has pipe.tied beside pipe.input; only a pipe.param can be tied}}
func.func @f(%w: tensor<8xf32> {pipe.param = "w"}, %x: tensor<8xf32> {pipe.input, pipe.tied = "w"}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-remark @+1 {{named here}}
  stage 0 forward @f
}

// -----

// A tie without a name.
// expected-error @+1 {{gives "pipe.tied" the value unit, expected the name of what is tied, in quotes}}
func.func @f(%w: tensor<8xf32> {pipe.param = "w", pipe.tied}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}

// -----

// A tied parameter without a gradient.
func.func @f(%w: tensor<8xf32> {pipe.param = "w", pipe.tied = "t"}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-error @+1 {{ties its pipe.param "w" as "t", but none of its functions gives a gradient of it}}
  stage 0 forward @f
}

// -----

// Tied parameters of different types, and one that is not updated.
func.func @f(%w: tensor<8xf32> {pipe.param = "w", pipe.tied = "t"}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}
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
  // expected-error @+1 {{ties its pipe.param "w" as "t", but its gradient is 'tensor<2x4xf32>', and that of stage 0 'tensor<8xf32>'}}
  stage 1 forward @g backward @c
}
pipe.schedule @q workers 2 microbatches 2 {
  path on [0, 1]
  stage 0 forward @f backward @b update @u
  // expected-error @+1 {{ties its pipe.param "w" as "t", but of the stages 0 and 1 only one updates it}}
  stage 1 forward @f backward @b
}

// -----

// Two names for a tie.
func.func @f(%w: tensor<8xf32> {pipe.param = "w", pipe.tied = "t"}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %w : tensor<8xf32>
}
// expected-error @+1 {{is the backward of stage 0, but its pipe.param "w" is tied as "u", and in an earlier function of the stage as "t"}}
func.func @b(%w: tensor<8xf32> {pipe.param = "w", pipe.tied = "u"}) -> (tensor<8xf32> {pipe.input_gradient}, tensor<8xf32> {pipe.gradient = "w"}) {
  return %w, %w : tensor<8xf32>, tensor<8xf32>
}
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 forward @f backward @b
}
