// Functions of stages may compute with vectors, also in the unpipelined model.
// RUN: pipesched-run %s --schedule=gpipe --steps=2 --check | FileCheck %s
// CHECK: gradients          1           1  0.00e+00
// CHECK: check: passed
// RUN: pipesched-run %s --schedule=gpipe --emit=llvm | FileCheck %s --check-prefix=CODE
// CODE: fmul <

pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 init @init forward @forward backward @backward
  data @data
  loss @loss
}
func.func @init() -> (tensor<4x8xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<0.7> : tensor<4x8xf32>
  return %w : tensor<4x8xf32>
}
func.func @data() -> (tensor<4x8xf32> {pipe.input}) {
  %x = arith.constant dense<1.3> : tensor<4x8xf32>
  return %x : tensor<4x8xf32>
}
func.func @forward(%w: tensor<4x8xf32> {pipe.param = "w"}, %x: tensor<4x8xf32> {pipe.input})
    -> (tensor<4x8xf32> {pipe.output}) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = vector.transfer_read %w[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
  %b = vector.transfer_read %x[%c0, %c0], %zero {in_bounds = [true, true]} : tensor<4x8xf32>, vector<4x8xf32>
  %p = arith.mulf %a, %b : vector<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %y = vector.transfer_write %p, %e[%c0, %c0] {in_bounds = [true, true]} : vector<4x8xf32>, tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @backward(%x: tensor<4x8xf32> {pipe.input}, %dy: tensor<4x8xf32> {pipe.output_gradient})
    -> (tensor<4x8xf32> {pipe.gradient = "w"}) {
  %dw = arith.mulf %x, %dy : tensor<4x8xf32>
  return %dw : tensor<4x8xf32>
}
func.func @loss(%y: tensor<4x8xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<4x8xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce {arith.addf} ins(%y : tensor<4x8xf32>) outs(%zero : tensor<f32>) dimensions = [0, 1]
  return %sum, %y : tensor<f32>, tensor<4x8xf32>
}
