// RUN: pipesched-run %s --schedule=gpipe --steps=2 --check | FileCheck %s

// A function of several blocks that a loop calls stays a call, and allocates
// what it returns; one that is marked no_inline becomes a part of the kernel all
// the same, so that its check can end the step; a loop that exchanges what it
// carries allocates it.
// CHECK: check: passed

pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 init @init forward @forward backward @backward
  data @data
  loss @loss
}
func.func @init() -> (tensor<4xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  return %w : tensor<4xf32>
}
func.func private @blocks(%x: tensor<4xf32>, %w: tensor<4xf32>)
    -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %number = tensor.extract %x[%c0] : tensor<4xf32>
  %is_above = arith.cmpf ogt, %number, %zero : f32
  cf.cond_br %is_above, ^above, ^below
^above:
  %sum = arith.addf %x, %w : tensor<4xf32>
  return %sum : tensor<4xf32>
^below:
  return %x : tensor<4xf32>
}
func.func private @marked(%x: tensor<4xf32>, %w: tensor<4xf32>)
    -> tensor<4xf32> attributes {no_inline} {
  %c0 = arith.constant 0 : index
  %number = tensor.extract %x[%c0] : tensor<4xf32>
  %integer = arith.fptosi %number : f32 to i64
  %i = arith.index_cast %integer : i64 to index
  %y = tensor.insert %number into %w[%i] : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @forward(%w: tensor<4xf32> {pipe.param = "w"},
    %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}, tensor<4xf32> {pipe.residual = "r"},
        tensor<4xf32> {pipe.residual = "s"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%carried = %w)
      -> tensor<4xf32> {
    %next = func.call @blocks(%carried, %x)
        : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    scf.yield %next : tensor<4xf32>
  }
  %r = call @marked(%x, %w)
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %w, %b = %x)
      -> (tensor<4xf32>, tensor<4xf32>) {
    scf.yield %b, %a : tensor<4xf32>, tensor<4xf32>
  }
  return %y, %r, %s#0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func @backward(%r: tensor<4xf32> {pipe.residual = "r"},
    %s: tensor<4xf32> {pipe.residual = "s"},
    %dy: tensor<4xf32> {pipe.output_gradient})
    -> (tensor<4xf32> {pipe.gradient = "w"}) {
  %sum = arith.addf %r, %s : tensor<4xf32>
  %dw = arith.addf %sum, %dy : tensor<4xf32>
  return %dw : tensor<4xf32>
}
func.func @data() -> (tensor<4xf32> {pipe.input}) {
  %x = arith.constant dense<[0.5, 1.0, 2.0, 1.5]> : tensor<4xf32>
  return %x : tensor<4xf32>
}
func.func @loss(%y: tensor<4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce { arith.addf } ins(%y : tensor<4xf32>)
      outs(%zero : tensor<f32>) dimensions = [0]
  return %sum, %y : tensor<f32>, tensor<4xf32>
}
