// y = w tanh(x), with the loss sum(y).
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  stage 0 init @init forward @f backward @b
  data @data
  loss @loss
  worker 0 runs [0F0 0B0]
}
func.func @init() -> (tensor<32xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<2.0> : tensor<32xf32>
  return %w : tensor<32xf32>
}
func.func @f(%w: tensor<32xf32> {pipe.param = "w"}, %x: tensor<32xf32> {pipe.input})
    -> (tensor<32xf32> {pipe.output}) {
  %t = math.tanh %x : tensor<32xf32>
  %y = arith.mulf %w, %t : tensor<32xf32>
  return %y : tensor<32xf32>
}
func.func @b(%x: tensor<32xf32> {pipe.input}, %dy: tensor<32xf32> {pipe.output_gradient})
    -> (tensor<32xf32> {pipe.gradient = "w"}) {
  %t = math.tanh %x : tensor<32xf32>
  %dw = arith.mulf %dy, %t : tensor<32xf32>
  return %dw : tensor<32xf32>
}
func.func @data(%step: i64 {pipe.step}) -> (tensor<32xf32> {pipe.input}) {
  %tenth = arith.constant 0.1 : f32
  %x = tensor.generate {
  ^bb0(%i: index):
    %n = arith.index_cast %i : index to i64
    %sum = arith.addi %n, %step : i64
    %f = arith.sitofp %sum : i64 to f32
    %z = arith.mulf %f, %tenth : f32
    tensor.yield %z : f32
  } : tensor<32xf32>
  return %x : tensor<32xf32>
}
func.func @loss(%y: tensor<32xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<32xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %l = linalg.reduce { arith.addf } ins(%y : tensor<32xf32>) outs(%zero : tensor<f32>) dimensions = [0]
  %one = arith.constant dense<1.0> : tensor<32xf32>
  return %l, %one : tensor<f32>, tensor<32xf32>
}
