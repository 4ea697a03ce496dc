// The step of examples/stages/step.mlir as the functions of one stage, each of which calls the
// whole step: forward returns the loss, and backward the gradients.

pipe.schedule @undivided workers 1 microbatches 8 {
  path on [0]
  stage 0 forward @all_forward backward @all_backward update @all_update
  data @data
  loss @all_loss
}
func.func private @call(%w0: tensor<16x16xf32>, %w1: tensor<16x16xf32>, %w2: tensor<16x16xf32>, %w3: tensor<16x4xf32>, %x: tensor<8x16xf32>, %m: i64, %s: i64)
    -> (tensor<f32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>) {
  %t = call @target(%m, %s) : (i64, i64) -> tensor<8x4xf32>
  %r:9 = call @step(%w0, %w1, %w2, %w3, %x, %t) : (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>, tensor<8x16xf32>, tensor<8x4xf32>)
      -> (tensor<f32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>)
  return %r#0, %r#1, %r#2, %r#3, %r#4 : tensor<f32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>
}
func.func @all_forward(%w0: tensor<16x16xf32> {pipe.param = "w0"}, %w1: tensor<16x16xf32> {pipe.param = "w1"}, %w2: tensor<16x16xf32> {pipe.param = "w2"}, %w3: tensor<16x4xf32> {pipe.param = "w3"},
                       %x: tensor<8x16xf32> {pipe.input}, %m: i64 {pipe.microbatch}, %s: i64 {pipe.step})
    -> (tensor<f32> {pipe.output}) {
  %r:5 = call @call(%w0, %w1, %w2, %w3, %x, %m, %s) : (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>, tensor<8x16xf32>, i64, i64)
      -> (tensor<f32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>)
  return %r#0 : tensor<f32>
}
func.func @all_loss(%y: tensor<f32> {pipe.output}) -> (tensor<f32> {pipe.loss}) {
  return %y : tensor<f32>
}
func.func @all_backward(%w0: tensor<16x16xf32> {pipe.param = "w0"}, %w1: tensor<16x16xf32> {pipe.param = "w1"}, %w2: tensor<16x16xf32> {pipe.param = "w2"}, %w3: tensor<16x4xf32> {pipe.param = "w3"},
                        %x: tensor<8x16xf32> {pipe.input}, %m: i64 {pipe.microbatch}, %s: i64 {pipe.step})
    -> (tensor<16x16xf32> {pipe.gradient = "w0"}, tensor<16x16xf32> {pipe.gradient = "w1"}, tensor<16x16xf32> {pipe.gradient = "w2"}, tensor<16x4xf32> {pipe.gradient = "w3"}) {
  %r:5 = call @call(%w0, %w1, %w2, %w3, %x, %m, %s) : (tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>, tensor<8x16xf32>, i64, i64)
      -> (tensor<f32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>)
  return %r#1, %r#2, %r#3, %r#4 : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>
}
func.func @all_update(%w0: tensor<16x16xf32> {pipe.param = "w0"}, %w1: tensor<16x16xf32> {pipe.param = "w1"}, %w2: tensor<16x16xf32> {pipe.param = "w2"}, %w3: tensor<16x4xf32> {pipe.param = "w3"},
                      %d0: tensor<16x16xf32> {pipe.gradient = "w0"}, %d1: tensor<16x16xf32> {pipe.gradient = "w1"}, %d2: tensor<16x16xf32> {pipe.gradient = "w2"}, %d3: tensor<16x4xf32> {pipe.gradient = "w3"})
    -> (tensor<16x16xf32> {pipe.param = "w0"}, tensor<16x16xf32> {pipe.param = "w1"}, tensor<16x16xf32> {pipe.param = "w2"}, tensor<16x4xf32> {pipe.param = "w3"}) {
  %rate = arith.constant dense<0.1> : tensor<16x16xf32>
  %rate3 = arith.constant dense<0.1> : tensor<16x4xf32>
  %c0 = arith.mulf %rate, %d0 : tensor<16x16xf32>
  %n0 = arith.subf %w0, %c0 : tensor<16x16xf32>
  %c1 = arith.mulf %rate, %d1 : tensor<16x16xf32>
  %n1 = arith.subf %w1, %c1 : tensor<16x16xf32>
  %c2 = arith.mulf %rate, %d2 : tensor<16x16xf32>
  %n2 = arith.subf %w2, %c2 : tensor<16x16xf32>
  %c3 = arith.mulf %rate3, %d3 : tensor<16x4xf32>
  %n3 = arith.subf %w3, %c3 : tensor<16x4xf32>
  return %n0, %n1, %n2, %n3 : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>
}
