// RUN: pipesched-run %s --schedule=gpipe --check --tolerance=0 | FileCheck %s
// RUN: pipesched-run %s --schedule=zb-h1 --check --tolerance=0 | FileCheck %s
// RUN: pipesched-run %s --schedule=interleaved-1f1b --workers=2 --chunks=2 --check --tolerance=0 | FileCheck %s
// RUN: pipesched-run %s --schedule=chimera --check --tolerance=0 --form=straight | FileCheck %s

// A stage before the trained ones may give a gradient that none takes.
// RUN: sed 's/stage 1 .*/stage 1 forward @same backward @give/' %s > %t.given.mlir
// RUN: pipesched-run %t.given.mlir --schedule=1f1b --check --tolerance=0 | FileCheck %s

// Stages are frozen, or have no parameters: they have no gradients, no update, and give no gradient
// of their input where nothing before them is trained. With x = 2, the output is 3 x w 5, of
// which the loss is the sum over 4 numbers and 4 microbatches; w begins with 1, and its gradient is
// 4 x 2 x 3 x 5 = 120 in each step, of which an update takes a 1000th.
// CHECK: step 0: loss 480,
// CHECK: step 1: loss 422.4,
// CHECK: step 2: loss 364.8,
// CHECK: gradients {{ *}}[[N:[0-9]+]] {{ *}}[[N]] 0.00e+00
// CHECK: check: passed

pipe.schedule @p workers 4 microbatches 4 {
  path on [0, 1, 2, 3]
  stage 0 init @three forward @scale backward @nothing input_gradient @nothing weight_gradient @nothing
  stage 1 forward @same backward @nothing input_gradient @nothing weight_gradient @nothing
  stage 2 init @one forward @scale backward @train input_gradient @nothing weight_gradient @train update @update
  stage 3 init @five forward @scale backward @back input_gradient @back weight_gradient @nothing
  data @data
  loss @loss
}

func.func @one() -> (tensor<4xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<1.0> : tensor<4xf32>
  return %w : tensor<4xf32>
}
func.func @three() -> (tensor<4xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<3.0> : tensor<4xf32>
  return %w : tensor<4xf32>
}
func.func @five() -> (tensor<4xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<5.0> : tensor<4xf32>
  return %w : tensor<4xf32>
}
func.func @data() -> (tensor<4xf32> {pipe.input}) {
  %x = arith.constant dense<2.0> : tensor<4xf32>
  return %x : tensor<4xf32>
}
func.func @scale(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}) {
  %y = arith.mulf %w, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @same(%x: tensor<4xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
func.func @nothing() {
  return
}
func.func @give() -> (tensor<4xf32> {pipe.input_gradient}) {
  %dx = arith.constant dense<7.0> : tensor<4xf32>
  return %dx : tensor<4xf32>
}
func.func @train(%x: tensor<4xf32> {pipe.input}, %dy: tensor<4xf32> {pipe.output_gradient})
    -> (tensor<4xf32> {pipe.gradient = "w"}) {
  %dw = arith.mulf %x, %dy : tensor<4xf32>
  return %dw : tensor<4xf32>
}
func.func @back(%w: tensor<4xf32> {pipe.param = "w"}, %dy: tensor<4xf32> {pipe.output_gradient})
    -> (tensor<4xf32> {pipe.input_gradient}) {
  %dx = arith.mulf %w, %dy : tensor<4xf32>
  return %dx : tensor<4xf32>
}
func.func @update(%w: tensor<4xf32> {pipe.param = "w"}, %dw: tensor<4xf32> {pipe.gradient = "w"})
    -> (tensor<4xf32> {pipe.param = "w"}) {
  %rate = arith.constant dense<0.001> : tensor<4xf32>
  %step = arith.mulf %rate, %dw : tensor<4xf32>
  %next = arith.subf %w, %step : tensor<4xf32>
  return %next : tensor<4xf32>
}
func.func @loss(%y: tensor<4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce { arith.addf } ins(%y : tensor<4xf32>) outs(%zero : tensor<f32>)
      dimensions = [0]
  %dy = arith.constant dense<1.0> : tensor<4xf32>
  return %sum, %dy : tensor<f32>, tensor<4xf32>
}
