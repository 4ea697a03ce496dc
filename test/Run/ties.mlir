// RUN: pipesched-run %s --select=ties --schedule=1f1b --steps=3 --check | FileCheck %s
// RUN: pipesched-run %s --select=ties --schedule=zb-v --workers=2 --steps=3 --check | FileCheck %s
// RUN: pipesched-run %s --select=ties --schedule=chimera --steps=3 --check | FileCheck %s
// RUN: pipesched-run %s --select=ties --schedule=chimera --steps=3 --form=straight --check | FileCheck %s
// RUN: pipesched-run %s --select=ties --schedule=chimera --steps=3 --check --pipeline='pipe-add-optimizer{all-reduce=eager}' | FileCheck %s
// RUN: pipesched-run %s --select=ties --schedule=1f1b --steps=3 --emit=executable -o %t --cc=%cc
// RUN: %t | FileCheck %s
// RUN: not pipesched-run %s --select=early 2>&1 | FileCheck %s --check-prefix=EARLY

// The stages 0, 2 and 3 share a number w, and stage 1 has its own: the output is
// x + 3 w + v. The loss is half its square, so that each gradient is the output,
// that of w three times as large. With x = 1, w = 2, v = 4 and a rate of 1/16, in
// two microbatches:
//
//   step   w         v        output  loss (two microbatches)
//   0      2         4        11      121
//   1      -2.125    2.625    -2.75   7.5625
//   2      -1.09375  2.96875  0.6875  0.472656
//
// CHECK: step 0: loss 121,
// CHECK: step 1: loss 7.5625,
// CHECK: step 2: loss 0.472656,
// EARLY: 'pipe.schedule' op steps stage 3, whose parameter is tied as "w", before 1B0 on worker 0; expected steps of the optimizer at the end of the row

pipe.schedule @ties workers 4 microbatches 2 {
  path on [0, 1, 2, 3]
  stage 0 init @init forward @forward input_gradient @input_gradient weight_gradient @weight_gradient update @update
  stage 1 init @init_own forward @forward_own input_gradient @input_gradient weight_gradient @weight_gradient update @update
  stage 2 init @init forward @forward input_gradient @input_gradient weight_gradient @weight_gradient update @update
  stage 3 init @init forward @forward input_gradient @input_gradient weight_gradient @weight_gradient update @update
  data @data
  loss @loss
}

pipe.schedule @early workers 2 microbatches 2 {
  path on [0, 1, 1, 0]
  stage 0 init @init forward @forward input_gradient @input_gradient weight_gradient @weight_gradient update @update
  stage 1 init @init_own forward @forward_own input_gradient @input_gradient weight_gradient @weight_gradient update @update
  stage 2 init @init forward @forward input_gradient @input_gradient weight_gradient @weight_gradient update @update
  stage 3 init @init forward @forward input_gradient @input_gradient weight_gradient @weight_gradient update @update
  data @data
  loss @loss
  worker 0 runs [0F0 0F1 3F0 3B0 3F1 3B1 3O0 0B0 0B1 0O0]
  worker 1 runs [1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1 1O0 2O0]
}

func.func @init() -> (tensor<f32> {pipe.param = "w"}) {
  %w = arith.constant dense<2.0> : tensor<f32>
  return %w : tensor<f32>
}
func.func @init_own() -> (tensor<f32> {pipe.param = "w"}) {
  %w = arith.constant dense<4.0> : tensor<f32>
  return %w : tensor<f32>
}
func.func @data() -> (tensor<f32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<f32>
  return %x : tensor<f32>
}
func.func @forward(%w: tensor<f32> {pipe.param = "w", pipe.tied = "w"}, %x: tensor<f32> {pipe.input})
    -> (tensor<f32> {pipe.output}) {
  %y = arith.addf %x, %w : tensor<f32>
  return %y : tensor<f32>
}
func.func @forward_own(%w: tensor<f32> {pipe.param = "w"}, %x: tensor<f32> {pipe.input})
    -> (tensor<f32> {pipe.output}) {
  %y = arith.addf %x, %w : tensor<f32>
  return %y : tensor<f32>
}
func.func @input_gradient(%dy: tensor<f32> {pipe.output_gradient})
    -> (tensor<f32> {pipe.input_gradient}) {
  return %dy : tensor<f32>
}
func.func @weight_gradient(%dy: tensor<f32> {pipe.output_gradient})
    -> (tensor<f32> {pipe.gradient = "w"}) {
  return %dy : tensor<f32>
}
func.func @update(%w: tensor<f32> {pipe.param = "w"}, %dw: tensor<f32> {pipe.gradient = "w"})
    -> (tensor<f32> {pipe.param = "w"}) {
  %rate = arith.constant dense<0.0625> : tensor<f32>
  %step = arith.mulf %dw, %rate : tensor<f32>
  %new = arith.subf %w, %step : tensor<f32>
  return %new : tensor<f32>
}
func.func @loss(%y: tensor<f32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<f32> {pipe.output_gradient}) {
  %half = arith.constant dense<0.5> : tensor<f32>
  %square = arith.mulf %y, %y : tensor<f32>
  %l = arith.mulf %square, %half : tensor<f32>
  return %l, %y : tensor<f32>, tensor<f32>
}
