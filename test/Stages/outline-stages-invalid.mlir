// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt-raw %t.mlir --split-input-file --verify-diagnostics --allow-unregistered-dialect \
// RUN:   --pass-pipeline='builtin.module(pipe-outline-stages)'

// What pipe-outline-stages refuses, case by case: docs/Frontends.md has the rules.

// CASES
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
}
@@

// A number that is not the number of a stage.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: has the attribute "pipe.stage" with the value -1 : i64, expected the number of a stage from 0
  %y = arith.mulf %x, %x {pipe.stage = -1, pipe.phase = "forward"} : tensor<8xf32>
  return %y : tensor<8xf32>
}
// A phase that does not exist.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: has the attribute "pipe.phase" with the value "F", expected one of "forward", "backward", "input_gradient", "weight_gradient", "update", "loss"
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "F"} : tensor<8xf32>
  return %y : tensor<8xf32>
}
// A stage without a phase.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: has pipe.stage and no pipe.phase
  %y = arith.mulf %x, %x {pipe.stage = 0} : tensor<8xf32>
  return %y : tensor<8xf32>
}
// An argument without a role.
// error: is cut into stages, but its argument 1 does not have exactly one role, such as pipe.param
func.func @f(%x: tensor<8xf32> {pipe.input}, %w: tensor<8xf32>) -> (tensor<8xf32> {pipe.output}) {
  %y = arith.mulf %x, %w {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  return %y : tensor<8xf32>
}
// Two parameters of one name.
// error: has a second argument with pipe.param "w"; expected one
func.func @f(%x: tensor<8xf32> {pipe.input}, %v: tensor<8xf32> {pipe.param = "w"}, %w: tensor<8xf32> {pipe.param = "w"}) -> (tensor<8xf32> {pipe.output}) {
  %y = arith.mulf %x, %w {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  return %y : tensor<8xf32>
}
// Two blocks.
// error: has 2 blocks; a function that is cut into stages has one
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  cf.br ^end
^end:
  return %y : tensor<8xf32>
}
// No input.
// error: has no argument with pipe.input
func.func @f(%w: tensor<8xf32> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  %y = arith.mulf %w, %w {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  return %y : tensor<8xf32>
}
// Neither output nor loss.
// error: has neither a result with pipe.output nor a loss that takes a value of forward of stage 0
func.func @f(%x: tensor<8xf32> {pipe.input}) {
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  return
}
// A result of a role that no phase returns.
// error: returns pipe.input, which is no result of a function that is cut
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.input}) {
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  return %y : tensor<8xf32>
}
// A gradient of nothing.
// error: returns pipe.gradient "w", and no op takes the argument of this name
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}, tensor<8xf32> {pipe.gradient = "w"}) {
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  return %y, %x : tensor<8xf32>, tensor<8xf32>
}

// A stage without ops.
// error: has ops of stage 2 and none of stage 1
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  %z = arith.mulf %y, %y {pipe.stage = 2, pipe.phase = "forward"} : tensor<8xf32>
  return %z : tensor<8xf32>
}
// A stage without a forward.
// error: has no op in forward of stage 0
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "backward"} : tensor<8xf32>
  return %x : tensor<8xf32>
}
// A loss in front.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: is in the loss of stage 0; the loss belongs to the last stage, 1
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "loss"} : tensor<8xf32>
  %z = arith.mulf %y, %y {pipe.stage = 1, pipe.phase = "forward"} : tensor<8xf32>
  %v = arith.mulf %y, %y {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  return %z : tensor<8xf32>
}
// An op whose readers are in several stages.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: has no pipe.stage and pipe.phase, and its results do not say to which stage it belongs
  %v = arith.mulf %x, %x : tensor<8xf32>
  // note: read here, in forward of stage 0
  %y = arith.mulf %v, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  // note: read here, in forward of stage 1
  %z = arith.mulf %v, %y {pipe.stage = 1, pipe.phase = "forward"} : tensor<8xf32>
  return %z : tensor<8xf32>
}
// A whole and a split backward.
func.func @f(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}, %dy: tensor<8xf32> {pipe.output_gradient})
    -> (tensor<8xf32> {pipe.output}, tensor<8xf32> {pipe.input_gradient}, tensor<8xf32> {pipe.gradient}) {
  %y = arith.mulf %x, %w {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  %dx = arith.mulf %w, %dy {pipe.stage = 0, pipe.phase = "backward"} : tensor<8xf32>
  // error: is in weight_gradient of stage 0, which has ops in backward; expected either a backward, or an input_gradient and a weight_gradient
  %dw = arith.mulf %x, %dy {pipe.stage = 0, pipe.phase = "weight_gradient"} : tensor<8xf32>
  return %y, %dx, %dw : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Backwards in a forward.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  %v = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  // note: the value
  %y = arith.mulf %v, %v {pipe.stage = 1, pipe.phase = "forward"} : tensor<8xf32>
  // error: 'arith.mulf' op takes, in forward of stage 0, a value of forward of stage 1; expected one of forward of stage 0
  %z = arith.mulf %y, %y {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  return %y : tensor<8xf32>
}
// A stage is skipped.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // note: the value
  %v = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  %y = arith.mulf %v, %v {pipe.stage = 1, pipe.phase = "forward"} : tensor<8xf32>
  // error: takes, in forward of stage 2, a value of forward of stage 0; expected one of forward of stage 1, forward of stage 2
  %z = arith.mulf %y, %v {pipe.stage = 2, pipe.phase = "forward"} : tensor<8xf32>
  return %z : tensor<8xf32>
}
// Two tensors for one message.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // note: the first value
  %v = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  // note: the second value
  %y = arith.mulf %v, %v {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  // error: takes, in forward of stage 1, a second value of forward of stage 0; expected one, as a message carries one tensor
  %z = arith.mulf %v, %y {pipe.stage = 1, pipe.phase = "forward"} : tensor<8xf32>
  return %z : tensor<8xf32>
}
// No message.
// error: has no op of stage 1 that takes a value of forward of stage 0
func.func @f(%x: tensor<8xf32> {pipe.input}, %w: tensor<8xf32> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  %v = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  %z = arith.mulf %w, %w {pipe.stage = 1, pipe.phase = "forward"} : tensor<8xf32>
  return %z : tensor<8xf32>
}
// The result of a weight gradient, in another stage.
func.func @f(%x: tensor<8xf32> {pipe.input}, %dz: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.output}, tensor<8xf32> {pipe.input_gradient}) {
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  %z = arith.mulf %y, %y {pipe.stage = 1, pipe.phase = "forward"} : tensor<8xf32>
  // note: the value
  %dy = arith.mulf %dz, %y {pipe.stage = 1, pipe.phase = "weight_gradient"} : tensor<8xf32>
  // error: takes, in backward of stage 0, a value of weight_gradient of stage 1; expected one of forward of stage 0, backward of stage 0
  %dx = arith.mulf %dy, %x {pipe.stage = 0, pipe.phase = "backward"} : tensor<8xf32>
  return %z, %dx : tensor<8xf32>, tensor<8xf32>
}
// A number between functions.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  %i = arith.constant 0 : index
  // error: 'tensor.extract' op gives forward of stage 1 a value of type 'f32'; expected a tensor whose sizes are all known
  %v = tensor.extract %x[%i] {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  %z = tensor.splat %v {pipe.stage = 1, pipe.phase = "forward"} : tensor<8xf32>
  return %z : tensor<8xf32>
}
// A parameter of two stages.
func.func @f(%x: tensor<8xf32> {pipe.input}, %w: tensor<8xf32> {pipe.param}) -> (tensor<8xf32> {pipe.output}) {
  // note: taken here
  %y = arith.mulf %x, %w {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  // error: takes, in forward of stage 1, the argument with pipe.param "0", which stage 0 has; expected an argument for each stage, with the same pipe.tied if they are one
  %z = arith.mulf %y, %w {pipe.stage = 1, pipe.phase = "forward"} : tensor<8xf32>
  return %z : tensor<8xf32>
}
// The input in another stage than the first.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  // error: takes, in forward of stage 1, the argument with pipe.input; expected it in stage 0
  %z = arith.mulf %y, %x {pipe.stage = 1, pipe.phase = "forward"} : tensor<8xf32>
  return %z : tensor<8xf32>
}
// The target in a forward.
func.func @f(%x: tensor<8xf32> {pipe.input}, %t: tensor<8xf32> {pipe.target}) -> (tensor<8xf32> {pipe.output}) {
  // error: takes, in forward of stage 0, the argument with pipe.target, which is no argument of this phase
  %y = arith.mulf %x, %t {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  return %y : tensor<8xf32>
}
// A gradient of another shape.
func.func @f(%w: tensor<8xf32> {pipe.param = "w"}, %x: tensor<8xf32> {pipe.input}, %dy: tensor<8xf32> {pipe.output_gradient})
    -> (tensor<8xf32> {pipe.output}, tensor<4xf32> {pipe.gradient = "w"}) {
  %y = arith.mulf %x, %w {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  // error: 'tensor.extract_slice' op gives 'tensor<4xf32>' as the gradient of pipe.param "w", which is 'tensor<8xf32>'; expected the same shape
  %dw = tensor.extract_slice %dy[0] [4] [1] {pipe.stage = 0, pipe.phase = "backward"} : tensor<8xf32> to tensor<4xf32>
  return %y, %dw : tensor<8xf32>, tensor<4xf32>
}
// A gradient that the function does not return.
func.func @f(%w: tensor<8xf32> {pipe.param = "w"}, %x: tensor<8xf32> {pipe.input}, %dy: tensor<8xf32> {pipe.output_gradient})
    -> (tensor<8xf32> {pipe.output}, tensor<8xf32> {pipe.param = "w"}) {
  %y = arith.mulf %x, %w {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  // note: the value
  %dw = arith.mulf %x, %dy {pipe.stage = 0, pipe.phase = "backward"} : tensor<8xf32>
  // error: takes, in update of stage 0, a gradient without a name; expected the function to return it with pipe.gradient
  %new = arith.subf %w, %dw {pipe.stage = 0, pipe.phase = "update"} : tensor<8xf32>
  return %y, %new : tensor<8xf32>, tensor<8xf32>
}

// No phase.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: has no phase; expected pipe.phase, or origins that all have the transpose count 0 (forward) or all 1 (backward)
  %y = "mpmd.fragment"(%x) <{mesh_name = "m", origin = [#mpmd.user_origin<"a"(1)>, #mpmd.user_origin<"a">], stage_id = 0}> ({
  ^bb0(%a: tensor<8xf32>):
    "mpmd.return"(%a) : (tensor<8xf32>) -> ()
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
// No stage.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: does not have a stage_id that is the number of a stage from 0
  %y = "mpmd.fragment"(%x) <{mesh_name = "m", origin = [#mpmd.user_origin<"a">]}> ({
  ^bb0(%a: tensor<8xf32>):
    "mpmd.return"(%a) : (tensor<8xf32>) -> ()
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
// A stage that is not a number of one.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: does not have a stage_id that is the number of a stage from 0
  %y = "mpmd.fragment"(%x) <{mesh_name = "m", origin = [#mpmd.user_origin<"a">], stage_id = 99999999999999999999 : i128}> ({
  ^bb0(%a: tensor<8xf32>):
    "mpmd.return"(%a) : (tensor<8xf32>) -> ()
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
// No region.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: does not have one region of one block
  %y = "mpmd.fragment"(%x) <{mesh_name = "m", origin = [#mpmd.user_origin<"a">], stage_id = 0}> ({}) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
// A region that returns more than the fragment.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: has 1 operands and 1 results; its region takes 1 and returns 2
  %y = "mpmd.fragment"(%x) <{mesh_name = "m", origin = [#mpmd.user_origin<"a">], stage_id = 0}> ({
  ^bb0(%a: tensor<8xf32>):
    "mpmd.return"(%a, %a) : (tensor<8xf32>, tensor<8xf32>) -> ()
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
// A region of other types.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: takes 'tensor<8xf32>' as its operand 0, and its region 'tensor<4xf32>'
  %y = "mpmd.fragment"(%x) <{mesh_name = "m", origin = [#mpmd.user_origin<"a">], stage_id = 0}> ({
  ^bb0(%a: tensor<4xf32>):
    "mpmd.return"(%a) : (tensor<4xf32>) -> ()
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// CASES
@@

// No function.
// error: the module has no function whose ops have pipe.stage and pipe.phase
module {
  pipe.schedule @s workers 1 microbatches 2 {
    path on [0]
  }
}
// Two functions.
// error: 2 functions have ops with pipe.stage; choose one by the option 'function'
module {
  pipe.schedule @s workers 1 microbatches 2 {
    path on [0]
  }
  // note: @f
  func.func @f() {
    %0 = arith.constant {pipe.stage = 0, pipe.phase = "forward"} 0 : i64
    return
  }
  // note: @g
  func.func @g() {
    %0 = arith.constant {pipe.stage = 0, pipe.phase = "forward"} 0 : i64
    return
  }
}
// Fewer stages than the path.
// error: has 2 stages; the function has ops of 1
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
}
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  return %y : tensor<8xf32>
}
// No schedule.
// error: the module has no
module {
  func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
    %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
// A schedule with clauses.
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  // error: names a function already; expected a schedule without such clauses
  stage 0 forward @f
}
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  %y = arith.mulf %x, %x {pipe.stage = 0, pipe.phase = "forward"} : tensor<8xf32>
  return %y : tensor<8xf32>
}
