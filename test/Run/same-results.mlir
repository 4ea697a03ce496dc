// RUN: split-file %s %t
// RUN: pipesched-run %t/init.mlir --schedule=gpipe --steps=1 --check --tolerance=0 | FileCheck %s --check-prefix=INIT
// RUN: pipesched-run %t/forward.mlir --schedule=gpipe --check --tolerance=0 | FileCheck %s --check-prefix=FORWARD

// Two results of a function may be one tensor: what changes one of them in
// place leaves the other as it is, in parameters and in the unpipelined model.

//--- init.mlir
// x w v = 1 x 1 x 0.5 + 2 x 1 x 0.25 + 3 x 3 x 1
// INIT: step 0: loss 10,
// INIT: check: passed
func.func private @two(%x: tensor<3xf32>, %w: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %e = tensor.empty() : tensor<3xf32>
  %p = linalg.mul ins(%x, %w : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>)
      -> tensor<3xf32>
  return %p, %p : tensor<3xf32>, tensor<3xf32>
}
func.func @init() -> (tensor<3xf32> {pipe.param = "w"}, tensor<3xf32> {pipe.param = "v"}) {
  %s = arith.constant dense<[0.5, 0.5, 1.0]> : tensor<3xf32>
  %t = arith.constant dense<[1.0, 0.5, 1.0]> : tensor<3xf32>
  %a, %b = call @two(%s, %t) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  %f = arith.constant dense<[2.0, 4.0, 3.0]> : tensor<3xf32>
  %d = linalg.mul ins(%a, %f : tensor<3xf32>, tensor<3xf32>) outs(%a : tensor<3xf32>)
      -> tensor<3xf32>
  return %d, %b : tensor<3xf32>, tensor<3xf32>
}
func.func @forward(%w: tensor<3xf32> {pipe.param = "w"}, %v: tensor<3xf32> {pipe.param = "v"},
    %x: tensor<3xf32> {pipe.input}) -> (tensor<3xf32> {pipe.output}) {
  %y = arith.mulf %x, %w : tensor<3xf32>
  %z = arith.mulf %y, %v : tensor<3xf32>
  return %z : tensor<3xf32>
}
func.func @backward(%dy: tensor<3xf32> {pipe.output_gradient}) {
  return
}
func.func @data() -> (tensor<3xf32> {pipe.input}) {
  %x = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  return %x : tensor<3xf32>
}
func.func @loss(%y: tensor<3xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<3xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce { arith.addf } ins(%y : tensor<3xf32>) outs(%zero : tensor<f32>)
      dimensions = [0]
  return %sum, %y : tensor<f32>, tensor<3xf32>
}
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  stage 0 init @init forward @forward backward @backward
  data @data
  loss @loss
}

//--- forward.mlir
// FORWARD: step 0: loss 28,
// FORWARD: gradients {{ *}}1 {{ *}}1 0.00e+00
// FORWARD: check: passed
func.func @init() -> (tensor<3xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<1.0> : tensor<3xf32>
  return %w : tensor<3xf32>
}
func.func @forward(%w: tensor<3xf32> {pipe.param = "w"}, %x: tensor<3xf32> {pipe.input})
    -> (tensor<3xf32> {pipe.output}, tensor<3xf32> {pipe.residual = "h"}) {
  %e = tensor.empty() : tensor<3xf32>
  %p = linalg.mul ins(%x, %w : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>)
      -> tensor<3xf32>
  return %p, %p : tensor<3xf32>, tensor<3xf32>
}
func.func @backward(%x: tensor<3xf32> {pipe.input}, %h: tensor<3xf32> {pipe.residual = "h"},
    %dy: tensor<3xf32> {pipe.output_gradient}) -> (tensor<3xf32> {pipe.gradient = "w"}) {
  %g = arith.addf %h, %x : tensor<3xf32>
  %dw = arith.mulf %g, %dy : tensor<3xf32>
  return %dw : tensor<3xf32>
}
func.func @update(%w: tensor<3xf32> {pipe.param = "w"}, %g: tensor<3xf32> {pipe.gradient = "w"})
    -> (tensor<3xf32> {pipe.param = "w"}) {
  %n = arith.subf %w, %g : tensor<3xf32>
  return %n : tensor<3xf32>
}
func.func @data() -> (tensor<3xf32> {pipe.input}) {
  %x = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  return %x : tensor<3xf32>
}
// The loss doubles the output in place.
func.func @loss(%y: tensor<3xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<3xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %squares = arith.mulf %y, %y : tensor<3xf32>
  %sum = linalg.reduce { arith.addf } ins(%squares : tensor<3xf32>) outs(%zero : tensor<f32>)
      dimensions = [0]
  %sum2 = arith.addf %sum, %sum : tensor<f32>
  %g = arith.addf %y, %y : tensor<3xf32>
  return %sum2, %g : tensor<f32>, tensor<3xf32>
}
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  stage 0 init @init forward @forward backward @backward update @update
  data @data
  loss @loss
}
