// y = w x on two stages; the backward of the last stage takes no gradient of the
// output, although the loss gives one.
pipe.schedule @p workers 2 microbatches 3 {
  path on [0, 1]
  stage 0 init @init forward @f backward @b
  stage 1 init @init forward @f backward @last
  data @data
  loss @loss
}
func.func @init() -> (tensor<4xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<[0.5, 0.25, 2.0, 1.0]> : tensor<4xf32>
  return %w : tensor<4xf32>
}
func.func @f(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}) {
  %y = arith.mulf %w, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @b(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input},
             %dy: tensor<4xf32> {pipe.output_gradient})
    -> (tensor<4xf32> {pipe.input_gradient}, tensor<4xf32> {pipe.gradient = "w"}) {
  %dx = arith.mulf %dy, %w : tensor<4xf32>
  %dw = arith.mulf %dy, %x : tensor<4xf32>
  return %dx, %dw : tensor<4xf32>, tensor<4xf32>
}
func.func @last(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.input_gradient}, tensor<4xf32> {pipe.gradient = "w"}) {
  return %w, %x : tensor<4xf32>, tensor<4xf32>
}
func.func @data() -> (tensor<4xf32> {pipe.input}) {
  %x = arith.constant dense<1.5> : tensor<4xf32>
  return %x : tensor<4xf32>
}
func.func @loss(%y: tensor<4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %l = linalg.reduce { arith.addf } ins(%y : tensor<4xf32>) outs(%zero : tensor<f32>) dimensions = [0]
  return %l, %y : tensor<f32>, tensor<4xf32>
}
