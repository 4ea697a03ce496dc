// y is w x, whose last columns an extern function makes of the first of x: 2 x + step. The slices have gaps, which
// the function cannot have. A step loses 2 (12 1.5 + 12 (3 + step)).
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  stage 0 init @init forward @f backward @b
  data @data
  loss @loss
  worker 0 runs [0F0 0B0 0F1 0B1]
}
func.func private @scale(tensor<4x3xf32>, i64, f32) -> tensor<4x3xf32>
  attributes {pipe.extern = {symbol = "scale", library = "kernels.o"}}
func.func @init() -> (tensor<4x6xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<1.0> : tensor<4x6xf32>
  return %w : tensor<4x6xf32>
}
func.func @f(%w: tensor<4x6xf32> {pipe.param = "w"}, %x: tensor<4x6xf32> {pipe.input}, %step: i64 {pipe.step})
    -> (tensor<4x6xf32> {pipe.output}) {
  %two = arith.constant 2.0 : f32
  %wx = arith.mulf %w, %x : tensor<4x6xf32>
  %left = tensor.extract_slice %wx[0, 0] [4, 3] [1, 1] : tensor<4x6xf32> to tensor<4x3xf32>
  %scaled = func.call @scale(%left, %step, %two) : (tensor<4x3xf32>, i64, f32) -> tensor<4x3xf32>
  %y = tensor.insert_slice %scaled into %wx[0, 3] [4, 3] [1, 1] : tensor<4x3xf32> into tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
func.func @b(%x: tensor<4x6xf32> {pipe.input}, %dy: tensor<4x6xf32> {pipe.output_gradient})
    -> (tensor<4x6xf32> {pipe.gradient = "w"}) {
  %dw = arith.mulf %dy, %x : tensor<4x6xf32>
  return %dw : tensor<4x6xf32>
}
func.func @data() -> (tensor<4x6xf32> {pipe.input}) {
  %x = arith.constant dense<1.5> : tensor<4x6xf32>
  return %x : tensor<4x6xf32>
}
func.func @loss(%y: tensor<4x6xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<4x6xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %l = linalg.reduce { arith.addf } ins(%y : tensor<4x6xf32>) outs(%zero : tensor<f32>) dimensions = [0, 1]
  return %l, %y : tensor<f32>, tensor<4x6xf32>
}
