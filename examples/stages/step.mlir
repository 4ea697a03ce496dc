// A training step of a perceptron of four stages, as one function. Some of its ops name their stage
// and phase; the others follow their readers. `pipe-outline-stages` cuts it into functions of stages:
//
//     pipesched-opt --pass-pipeline='builtin.module(pipe-outline-stages)' examples/stages/step.mlir
//
// Sizes: 8 samples in a microbatch, 8 microbatches in a step, 16 numbers per sample, 4 results.

pipe.schedule @divided workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
  data @data
  target @target
}

func.func @step(%w0: tensor<16x16xf32> {pipe.param = "w0"}, %w1: tensor<16x16xf32> {pipe.param = "w1"},
                %w2: tensor<16x16xf32> {pipe.param = "w2"}, %w3: tensor<16x4xf32> {pipe.param = "w3"},
                %x: tensor<8x16xf32> {pipe.input}, %t: tensor<8x4xf32> {pipe.target})
    -> (tensor<f32> {pipe.loss},
        tensor<16x16xf32> {pipe.gradient = "w0"}, tensor<16x16xf32> {pipe.gradient = "w1"},
        tensor<16x16xf32> {pipe.gradient = "w2"}, tensor<16x4xf32> {pipe.gradient = "w3"},
        tensor<16x16xf32> {pipe.param = "w0"}, tensor<16x16xf32> {pipe.param = "w1"},
        tensor<16x16xf32> {pipe.param = "w2"}, tensor<16x4xf32> {pipe.param = "w3"}) {
  %zero = arith.constant dense<0.0> : tensor<8x16xf32>
  %one = arith.constant dense<1.0> : tensor<8x16xf32>

  // Forward: y0 = max(x w0, 0), y1 = tanh(y0 w1), y2 = tanh(y1 w2), y3 = y2 w3.
  %z0 = linalg.matmul ins(%x, %w0 : tensor<8x16xf32>, tensor<16x16xf32>) outs(%zero : tensor<8x16xf32>) -> tensor<8x16xf32>
  %positive = arith.cmpf ogt, %z0, %zero : tensor<8x16xf32>
  %y0 = arith.select %positive, %z0, %zero {pipe.stage = 0, pipe.phase = "forward"} : tensor<8x16xi1>, tensor<8x16xf32>
  %z1 = linalg.matmul ins(%y0, %w1 : tensor<8x16xf32>, tensor<16x16xf32>) outs(%zero : tensor<8x16xf32>) -> tensor<8x16xf32>
  %y1 = math.tanh %z1 {pipe.stage = 1, pipe.phase = "forward"} : tensor<8x16xf32>
  %z2 = linalg.matmul ins(%y1, %w2 : tensor<8x16xf32>, tensor<16x16xf32>) outs(%zero : tensor<8x16xf32>) -> tensor<8x16xf32>
  %y2 = math.tanh %z2 {pipe.stage = 2, pipe.phase = "forward"} : tensor<8x16xf32>
  %zeros = arith.constant dense<0.0> : tensor<8x4xf32>
  %y3 = linalg.matmul {pipe.stage = 3, pipe.phase = "forward"} ins(%y2, %w3 : tensor<8x16xf32>, tensor<16x4xf32>) outs(%zeros : tensor<8x4xf32>) -> tensor<8x4xf32>

  // Half the squared distance, as a mean over the 64 samples of a step, and its gradient.
  %part = arith.constant dense<0.015625> : tensor<8x4xf32>
  %half = arith.constant dense<0.5> : tensor<8x4xf32>
  %distance = arith.subf %y3, %t : tensor<8x4xf32>
  %dy3 = arith.mulf %distance, %part {pipe.phase = "loss"} : tensor<8x4xf32>
  %square = arith.mulf %distance, %dy3 : tensor<8x4xf32>
  %area = arith.mulf %square, %half : tensor<8x4xf32>
  %none = arith.constant dense<0.0> : tensor<f32>
  %loss = linalg.reduce {arith.addf} ins(%area : tensor<8x4xf32>) outs(%none : tensor<f32>) dimensions = [0, 1]

  // Backward, from the last stage to the first.
  %dw3 = call @product4(%y2, %dy3) : (tensor<8x16xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %dy2 = call @back4(%dy3, %w3) {pipe.stage = 3, pipe.phase = "backward"} : (tensor<8x4xf32>, tensor<16x4xf32>) -> tensor<8x16xf32>
  %square2 = arith.mulf %y2, %y2 : tensor<8x16xf32>
  %slope2 = arith.subf %one, %square2 : tensor<8x16xf32>
  %dz2 = arith.mulf %dy2, %slope2 : tensor<8x16xf32>
  %dw2 = call @product(%y1, %dz2) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  %dy1 = call @back(%dz2, %w2) {pipe.stage = 2, pipe.phase = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %square1 = arith.mulf %y1, %y1 : tensor<8x16xf32>
  %slope1 = arith.subf %one, %square1 : tensor<8x16xf32>
  %dz1 = arith.mulf %dy1, %slope1 : tensor<8x16xf32>
  %dw1 = call @product(%y0, %dz1) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  %dy0 = call @back(%dz1, %w1) {pipe.stage = 1, pipe.phase = "backward"} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %dz0 = arith.select %positive, %dy0, %zero : tensor<8x16xi1>, tensor<8x16xf32>
  %dw0 = call @product(%x, %dz0) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>

  // A step against each gradient.
  %rate = arith.constant dense<0.1> : tensor<16x16xf32>
  %rate3 = arith.constant dense<0.1> : tensor<16x4xf32>
  %change0 = arith.mulf %rate, %dw0 {pipe.stage = 0, pipe.phase = "update"} : tensor<16x16xf32>
  %new0 = arith.subf %w0, %change0 : tensor<16x16xf32>
  %change1 = arith.mulf %rate, %dw1 {pipe.stage = 1, pipe.phase = "update"} : tensor<16x16xf32>
  %new1 = arith.subf %w1, %change1 : tensor<16x16xf32>
  %change2 = arith.mulf %rate, %dw2 {pipe.stage = 2, pipe.phase = "update"} : tensor<16x16xf32>
  %new2 = arith.subf %w2, %change2 : tensor<16x16xf32>
  %change3 = arith.mulf %rate3, %dw3 {pipe.stage = 3, pipe.phase = "update"} : tensor<16x4xf32>
  %new3 = arith.subf %w3, %change3 : tensor<16x4xf32>
  return %loss, %dw0, %dw1, %dw2, %dw3, %new0, %new1, %new2, %new3
      : tensor<f32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>,
        tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>
}

// The gradients of x w: of w, x' dy, and of x, dy w'.
func.func private @product(%x: tensor<8x16xf32>, %dy: tensor<8x16xf32>) -> tensor<16x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<16x16xf32>
  %empty = tensor.empty() : tensor<16x8xf32>
  %turned = linalg.transpose ins(%x : tensor<8x16xf32>) outs(%empty : tensor<16x8xf32>) permutation = [1, 0]
  %dw = linalg.matmul ins(%turned, %dy : tensor<16x8xf32>, tensor<8x16xf32>) outs(%zero : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %dw : tensor<16x16xf32>
}
func.func private @product4(%x: tensor<8x16xf32>, %dy: tensor<8x4xf32>) -> tensor<16x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<16x4xf32>
  %empty = tensor.empty() : tensor<16x8xf32>
  %turned = linalg.transpose ins(%x : tensor<8x16xf32>) outs(%empty : tensor<16x8xf32>) permutation = [1, 0]
  %dw = linalg.matmul ins(%turned, %dy : tensor<16x8xf32>, tensor<8x4xf32>) outs(%zero : tensor<16x4xf32>) -> tensor<16x4xf32>
  return %dw : tensor<16x4xf32>
}
func.func private @back(%dy: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<8x16xf32>
  %empty = tensor.empty() : tensor<16x16xf32>
  %turned = linalg.transpose ins(%w : tensor<16x16xf32>) outs(%empty : tensor<16x16xf32>) permutation = [1, 0]
  %dx = linalg.matmul ins(%dy, %turned : tensor<8x16xf32>, tensor<16x16xf32>) outs(%zero : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %dx : tensor<8x16xf32>
}
func.func private @back4(%dy: tensor<8x4xf32>, %w: tensor<16x4xf32>) -> tensor<8x16xf32> {
  %zero = arith.constant dense<0.0> : tensor<8x16xf32>
  %empty = tensor.empty() : tensor<4x16xf32>
  %turned = linalg.transpose ins(%w : tensor<16x4xf32>) outs(%empty : tensor<4x16xf32>) permutation = [1, 0]
  %dx = linalg.matmul ins(%dy, %turned : tensor<8x4xf32>, tensor<4x16xf32>) outs(%zero : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %dx : tensor<8x16xf32>
}

// sin(k (j + 1)) for sample k of all and number j; to learn: the first four without their signs.
func.func @data(%microbatch: i64 {pipe.microbatch}, %step: i64 {pipe.step}) -> (tensor<8x16xf32> {pipe.input}) {
  %empty = tensor.empty() : tensor<8x16xf32>
  %sixty_four = arith.constant 64 : i64
  %eight = arith.constant 8 : i64
  %one = arith.constant 1 : i64
  %steps = arith.muli %step, %sixty_four : i64
  %microbatches = arith.muli %microbatch, %eight : i64
  %first = arith.addi %steps, %microbatches : i64
  %x = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      outs(%empty : tensor<8x16xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %row = arith.index_cast %i : index to i64
    %column = arith.index_cast %j : index to i64
    %k = arith.addi %first, %row : i64
    %factor = arith.addi %column, %one : i64
    %product = arith.muli %k, %factor : i64
    %angle = arith.sitofp %product : i64 to f32
    %value = math.sin %angle : f32
    linalg.yield %value : f32
  } -> tensor<8x16xf32>
  return %x : tensor<8x16xf32>
}
func.func @target(%microbatch: i64 {pipe.microbatch}, %step: i64 {pipe.step}) -> (tensor<8x4xf32> {pipe.target}) {
  %x = call @data(%microbatch, %step) : (i64, i64) -> tensor<8x16xf32>
  %part = tensor.extract_slice %x[0, 0] [8, 4] [1, 1] : tensor<8x16xf32> to tensor<8x4xf32>
  %t = math.absf %part : tensor<8x4xf32>
  return %t : tensor<8x4xf32>
}
