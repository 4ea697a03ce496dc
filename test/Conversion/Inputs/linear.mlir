// Stages y = x w, half the sum of squares as loss, and steps of SGD. One pipeline
// runs them by 1F1B, one in two directions by Chimera, one with I and W apart.
#rows = affine_map<(m, n, k) -> (k, m)>
#columns = affine_map<(m, n, k) -> (k, n)>
#transposed = affine_map<(m, n, k) -> (n, k)>
#left = affine_map<(m, n, k) -> (m, k)>
#out = affine_map<(m, n, k) -> (m, n)>
func.func private @forward(%w: tensor<4x4xf32> {pipe.param = "w"}, %x: tensor<2x4xf32> {pipe.input})
    -> (tensor<2x4xf32> {pipe.output}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = linalg.matmul ins(%x, %w : tensor<2x4xf32>, tensor<4x4xf32>) outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
// dw is a term that is added to the sum.
func.func private @backward0(%x: tensor<2x4xf32> {pipe.input}, %dy: tensor<2x4xf32> {pipe.output_gradient})
    -> (tensor<4x4xf32> {pipe.gradient = "w"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4xf32>) -> tensor<4x4xf32>
  %dw = linalg.matmul indexing_maps = [#rows, #columns, #out]
      ins(%x, %dy : tensor<2x4xf32>, tensor<2x4xf32>) outs(%init : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %dw : tensor<4x4xf32>
}
// dw is the new sum.
func.func private @backward1(%w: tensor<4x4xf32> {pipe.param = "w"}, %x: tensor<2x4xf32> {pipe.input},
    %dy: tensor<2x4xf32> {pipe.output_gradient}, %sum: tensor<4x4xf32> {pipe.gradient = "w"})
    -> (tensor<2x4xf32> {pipe.input_gradient}, tensor<4x4xf32> {pipe.gradient = "w"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x4xf32>) -> tensor<2x4xf32>
  %dx = linalg.matmul indexing_maps = [#left, #transposed, #out]
      ins(%dy, %w : tensor<2x4xf32>, tensor<4x4xf32>) outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  %dw = linalg.matmul indexing_maps = [#rows, #columns, #out]
      ins(%x, %dy : tensor<2x4xf32>, tensor<2x4xf32>) outs(%sum : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %dx, %dw : tensor<2x4xf32>, tensor<4x4xf32>
}
func.func private @update(%w: tensor<4x4xf32> {pipe.param = "w"}, %dw: tensor<4x4xf32> {pipe.gradient = "w"})
    -> (tensor<4x4xf32> {pipe.param = "w"}) {
  %rate = arith.constant -0.0000152587890625 : f32
  %new = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%dw : tensor<4x4xf32>) outs(%w : tensor<4x4xf32>) {
  ^bb0(%g: f32, %old: f32):
    %step = arith.mulf %g, %rate : f32
    %sum = arith.addf %old, %step : f32
    linalg.yield %sum : f32
  } -> tensor<4x4xf32>
  return %new : tensor<4x4xf32>
}
// x[i, j] = microbatch + i - j, small whole numbers.
func.func private @data(%m: i64 {pipe.microbatch}) -> (tensor<2x4xf32> {pipe.input}) {
  %empty = tensor.empty() : tensor<2x4xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      outs(%empty : tensor<2x4xf32>) {
  ^bb0(%unused: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %d = arith.subi %i, %j : index
    %di = arith.index_cast %d : index to i64
    %v = arith.addi %di, %m : i64
    %f = arith.sitofp %v : i64 to f32
    linalg.yield %f : f32
  } -> tensor<2x4xf32>
  return %x : tensor<2x4xf32>
}
// Half of the sum of squares; its gradient is y.
func.func private @loss(%y: tensor<2x4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<2x4xf32> {pipe.output_gradient}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>) -> tensor<f32>
  %loss = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>],
      iterator_types = ["reduction", "reduction"]} ins(%y : tensor<2x4xf32>) outs(%init : tensor<f32>) {
  ^bb0(%v: f32, %sum: f32):
    %half = arith.constant 0.5 : f32
    %s = arith.mulf %v, %v : f32
    %h = arith.mulf %s, %half : f32
    %r = arith.addf %sum, %h : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %loss, %y : tensor<f32>, tensor<2x4xf32>
}
// I leaves dy for W, as a residual.
func.func private @input_gradient(%w: tensor<4x4xf32> {pipe.param = "w"},
    %dy: tensor<2x4xf32> {pipe.output_gradient})
    -> (tensor<2x4xf32> {pipe.input_gradient}, tensor<2x4xf32> {pipe.residual = "dz"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x4xf32>) -> tensor<2x4xf32>
  %dx = linalg.matmul indexing_maps = [#left, #transposed, #out]
      ins(%dy, %w : tensor<2x4xf32>, tensor<4x4xf32>) outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %dx, %dy : tensor<2x4xf32>, tensor<2x4xf32>
}
func.func private @weight_gradient(%x: tensor<2x4xf32> {pipe.input}, %dy: tensor<2x4xf32> {pipe.residual = "dz"})
    -> (tensor<4x4xf32> {pipe.gradient = "w"}) {
  %dw = call @backward0(%x, %dy) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return %dw : tensor<4x4xf32>
}
pipe.schedule @one workers 2 microbatches 4 {
  path on [0, 1]
  stage 0 forward @forward backward @backward0 update @update
  stage 1 forward @forward backward @backward1 update @update
  data @data
  loss @loss
}
pipe.schedule @two workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
  path on [3, 2, 1, 0]
  stage 0 forward @forward backward @backward0 update @update
  stage 1 forward @forward backward @backward1 update @update
  stage 2 forward @forward backward @backward1 update @update
  stage 3 forward @forward backward @backward1 update @update
  data @data
  loss @loss
}
pipe.schedule @apart workers 2 microbatches 6 {
  path on [0, 1, 1, 0]
  stage 0 forward @forward input_gradient @input_gradient weight_gradient @weight_gradient update @update
  stage 1 forward @forward input_gradient @input_gradient weight_gradient @weight_gradient update @update
  stage 2 forward @forward input_gradient @input_gradient weight_gradient @weight_gradient update @update
  stage 3 forward @forward input_gradient @input_gradient weight_gradient @weight_gradient update @update
  data @data
  loss @loss
}
