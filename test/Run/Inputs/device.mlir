// Four stages of extern functions alone: y = w x + 1, number by number. All code that runs on a worker launches kernels,
// so that the processor need not use the memory of the device.
pipe.schedule @p workers 4 microbatches 6 {
  path on [0, 1, 2, 3]
  stage 0 init @init forward @layer input_gradient @layer_input weight_gradient @layer_weight update @layer_update
  stage 1 init @init forward @layer input_gradient @layer_input weight_gradient @layer_weight update @layer_update
  stage 2 init @init forward @layer input_gradient @layer_input weight_gradient @layer_weight update @layer_update
  stage 3 init @init forward @layer input_gradient @layer_input weight_gradient @layer_weight update @layer_update
  data @data
  loss @loss
}
func.func @init() -> (tensor<1000xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<0.5> : tensor<1000xf32>
  return %w : tensor<1000xf32>
}
func.func private @layer(tensor<1000xf32> {pipe.param = "w"}, tensor<1000xf32> {pipe.input})
    -> (tensor<1000xf32> {pipe.output})
  attributes {pipe.extern = {symbol = "layer", library = "libfake.so"}}
func.func private @layer_input(tensor<1000xf32> {pipe.param = "w"}, tensor<1000xf32> {pipe.output_gradient})
    -> (tensor<1000xf32> {pipe.input_gradient})
  attributes {pipe.extern = {symbol = "layer_input", library = "libfake.so"}}
func.func private @layer_weight(tensor<1000xf32> {pipe.input}, tensor<1000xf32> {pipe.output_gradient},
                                tensor<1000xf32> {pipe.gradient = "w"}) -> (tensor<1000xf32> {pipe.gradient = "w"})
  attributes {pipe.extern = {symbol = "layer_weight", library = "libfake.so", in_place = array<i64: 2>}}
func.func private @layer_update(tensor<1000xf32> {pipe.param = "w"}, tensor<1000xf32> {pipe.gradient = "w"})
    -> (tensor<1000xf32> {pipe.param = "w"})
  attributes {pipe.extern = {symbol = "layer_update", library = "libfake.so", in_place = array<i64: 0>}}
func.func private @data(i64 {pipe.microbatch}, i64 {pipe.step}) -> (tensor<1000xf32> {pipe.input})
  attributes {pipe.extern = {symbol = "samples", library = "libfake.so"}}
func.func private @loss(tensor<1000xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<1000xf32> {pipe.output_gradient})
  attributes {pipe.extern = {symbol = "loss_of", library = "libfake.so"}}

// The same with code of the processor, for devices whose memory it can use: device.test names them in the clauses.
func.func @data_here(%m: i64 {pipe.microbatch}, %step: i64 {pipe.step}) -> (tensor<1000xf32> {pipe.input}) {
  %three = arith.constant 3 : i64
  %five = arith.constant 5 : i64
  %seven = arith.constant 7 : i64
  %eighth = arith.constant 0.125 : f32
  %empty = tensor.empty() : tensor<1000xf32>
  %m3 = arith.muli %m, %three : i64
  %step5 = arith.muli %step, %five : i64
  %first = arith.addi %m3, %step5 : i64
  %x = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%empty : tensor<1000xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %place = arith.index_cast %i : index to i64
    %number = arith.addi %place, %first : i64
    %rest = arith.remui %number, %seven : i64
    %value = arith.uitofp %rest : i64 to f32
    %scaled = arith.mulf %value, %eighth : f32
    linalg.yield %scaled : f32
  } -> tensor<1000xf32>
  return %x : tensor<1000xf32>
}

// Extern functions on its arguments, with code in front of the first and behind the second.
func.func @layer_here(%w: tensor<1000xf32> {pipe.param = "w"}, %x: tensor<1000xf32> {pipe.input})
    -> (tensor<1000xf32> {pipe.output}) {
  %half = arith.constant dense<0.5> : tensor<1000xf32>
  %y = func.call @layer(%w, %x) : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
  %z = arith.mulf %y, %half : tensor<1000xf32>
  return %z : tensor<1000xf32>
}

// The output of the first call is a temporary of this function.
func.func @layer_twice(%w: tensor<1000xf32> {pipe.param = "w"}, %x: tensor<1000xf32> {pipe.input})
    -> (tensor<1000xf32> {pipe.output}) {
  %y = func.call @layer(%w, %x) : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
  %z = func.call @layer(%w, %y) : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
  return %z : tensor<1000xf32>
}
