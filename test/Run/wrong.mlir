// A run that is wrong does not pass: here forward is not a function of what the
// schedule gives it, since R computes another residual than F.

// RUN: not pipesched-run %s --pipeline=pipe-schedule-gpipe,pipe-add-recompute \
// RUN:   --check | FileCheck %s --check-prefix=WRONG
// RUN: pipesched-run %s --schedule=gpipe --check | FileCheck %s --check-prefix=RIGHT

// WRONG: gradients 2 1 {{.*}} (stage 0 gradient w) too large
// WRONG: check: FAILED
// RIGHT: parameters: by the init functions of the stages; 2 of stages without one are random (--seed=0)
// RIGHT: check: passed

func.func @forward(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}, tensor<4xf32> {pipe.residual = "kept"}) {
  %y = arith.mulf %w, %x : tensor<4xf32>
  return %y, %x : tensor<4xf32>, tensor<4xf32>
}
func.func @wrong(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.residual = "kept"}) {
  %kept = arith.addf %x, %x : tensor<4xf32>
  return %kept : tensor<4xf32>
}
func.func @backward(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.residual = "kept"},
                    %dy: tensor<4xf32> {pipe.output_gradient})
    -> (tensor<4xf32> {pipe.input_gradient}, tensor<4xf32> {pipe.gradient = "w"}) {
  %dx = arith.mulf %w, %dy : tensor<4xf32>
  %dw = arith.mulf %x, %dy : tensor<4xf32>
  return %dx, %dw : tensor<4xf32>, tensor<4xf32>
}
func.func @ones(%microbatch: i64 {pipe.microbatch}) -> (tensor<4xf32> {pipe.input}) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  return %ones : tensor<4xf32>
}
func.func @sum(%y: tensor<4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %loss = linalg.reduce { arith.addf } ins(%y : tensor<4xf32>)
      outs(%zero : tensor<f32>) dimensions = [0]
  return %loss, %y : tensor<f32>, tensor<4xf32>
}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  stage 0 forward @forward recompute @wrong backward @backward
  stage 1 forward @forward backward @backward
  data @ones
  loss @sum
}
