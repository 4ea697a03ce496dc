// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify-stages)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-zb-h1,pipe-verify-stages,convert-pipe-to-exec,pipe-verify-stages)' \
// RUN:   | FileCheck %s --check-prefix=EXEC

// Clauses keep their order and are copied to the program.

func.func @init() -> (tensor<8xf32> {pipe.param}) {
  %w = arith.constant dense<1.0> : tensor<8xf32>
  return %w : tensor<8xf32>
}
func.func @forward(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input})
    -> (tensor<8xf32> {pipe.output}, tensor<8xf32> {pipe.residual = "x"}) {
  %y = call @multiply(%w, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %y, %x : tensor<8xf32>, tensor<8xf32>
}
func.func private @multiply(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.mulf %a, %b : tensor<8xf32>
  return %c : tensor<8xf32>
}
func.func @input_gradient(%w: tensor<8xf32> {pipe.param}, %dy: tensor<8xf32> {pipe.output_gradient})
    -> (tensor<8xf32> {pipe.input_gradient}) {
  %dx = arith.mulf %w, %dy : tensor<8xf32>
  return %dx : tensor<8xf32>
}
func.func @weight_gradient(%x: tensor<8xf32> {pipe.residual = "x"}, %dy: tensor<8xf32> {pipe.output_gradient})
    -> (tensor<8xf32> {pipe.gradient}) {
  %dw = arith.mulf %x, %dy : tensor<8xf32>
  return %dw : tensor<8xf32>
}
func.func @update(%w: tensor<8xf32> {pipe.param}, %dw: tensor<8xf32> {pipe.gradient},
                  %m: tensor<8xf32> {pipe.state}, %step: i64 {pipe.step})
    -> (tensor<8xf32> {pipe.param}, tensor<8xf32> {pipe.state}) {
  %new = arith.subf %w, %dw : tensor<8xf32>
  return %new, %m : tensor<8xf32>, tensor<8xf32>
}
func.func @data(%i: i64 {pipe.microbatch}, %step: i64 {pipe.step}) -> (tensor<8xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<8xf32>
  return %x : tensor<8xf32>
}
func.func @target() -> (tensor<8xf32> {pipe.target}) {
  %t = arith.constant dense<1.0> : tensor<8xf32>
  return %t : tensor<8xf32>
}
func.func @loss(%y: tensor<8xf32> {pipe.output}, %t: tensor<8xf32> {pipe.target})
    -> (tensor<f32> {pipe.loss}, tensor<8xf32> {pipe.output_gradient}) {
  %dy = arith.subf %y, %t : tensor<8xf32>
  %l = arith.constant dense<0.0> : tensor<f32>
  return %l, %dy : tensor<f32>, tensor<8xf32>
}

// CHECK: pipe.schedule @p workers 2 microbatches 4 {
// CHECK-NEXT: path on [0, 1]
// CHECK-NEXT: stage 1 init @init forward @forward recompute @forward input_gradient @input_gradient weight_gradient @weight_gradient update @update
// CHECK-NEXT: stage 0 init @init forward @forward
// CHECK-NEXT: data @data
// CHECK-NEXT: target @target
// CHECK-NEXT: loss @loss
// EXEC: exec.program @p workers 2 microbatches 4 family "zb-h1" {
// EXEC-NEXT: pipe.path on [0, 1]
// EXEC-NEXT: pipe.stage 1 init @init forward @forward
// EXEC-NEXT: pipe.stage 0 init
// EXEC-NEXT: pipe.data @data
// EXEC-NEXT: pipe.target @target
// EXEC-NEXT: pipe.loss @loss
// EXEC-NEXT: worker 0
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  stage 1 init @init forward @forward recompute @forward input_gradient @input_gradient
    weight_gradient @weight_gradient update @update
  stage 0 init @init forward @forward input_gradient @input_gradient
    weight_gradient @weight_gradient update @update
  data @data
  target @target
  loss @loss
}
