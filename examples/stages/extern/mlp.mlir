// The perceptron of ../mlp.mlir, with hidden layers that other compilers have compiled. A function without a
// body says where its code is, what it costs, and which results take the place of an argument:
//
//     cc -O2 -shared -fPIC examples/stages/extern/hidden.c -o examples/stages/extern/libhidden.so
//     gfortran -O2 -fPIC -J /tmp -c examples/stages/extern/hidden.f90 -o examples/stages/extern/hidden.o
//     pipesched-run examples/stages/extern/mlp.mlir --schedule=zb-h1 --check
//
// Names of libraries begin at the folder of this file. docs/Stages.md has the interface of C.

pipe.schedule @mlp workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
  stage 0 init @init0 forward @hidden input_gradient @hidden_input weight_gradient @hidden_weight update @hidden_update
  stage 1 init @init1 forward @hidden input_gradient @hidden_input weight_gradient @hidden_weight update @hidden_update
  stage 2 init @init2 forward @hidden input_gradient @hidden_input weight_gradient @hidden_weight update @hidden_update
  stage 3 init @init3 forward @last backward @last_backward input_gradient @last_input weight_gradient @last_weight update @last_update
  data @data
  target @target
  loss @loss
}

// F of stages 0 to 2: y = max(x w + b, 0).
func.func private @hidden(tensor<16x16xf32> {pipe.param = "w"}, tensor<16xf32> {pipe.param = "b"},
                          tensor<8x16xf32> {pipe.input}) -> (tensor<8x16xf32> {pipe.output})
  attributes {pipe.extern = {symbol = "hidden", library = "libhidden.so",
    work = [{engine = "matrix", flops = 4096, bytes = 2048}, {engine = "vector", flops = 256, bytes = 1088}]}}

// I: the gradient of x, and that of z = x w + b, which W needs and nothing else knows.
func.func private @hidden_input(tensor<16x16xf32> {pipe.param = "w"}, tensor<8x16xf32> {pipe.output},
                                tensor<8x16xf32> {pipe.output_gradient})
    -> (tensor<8x16xf32> {pipe.input_gradient}, tensor<8x16xf32> {pipe.residual = "dz"})
  attributes {pipe.extern = {symbol = "hidden_input", library = "libhidden.so",
    work = [{engine = "matrix", flops = 4096, bytes = 2048}, {engine = "vector", flops = 128, bytes = 1536}]}}

// W adds to the sums of the step, in their place: results 0 and 1 are arguments 2 and 3.
func.func private @hidden_weight(tensor<8x16xf32> {pipe.input}, tensor<8x16xf32> {pipe.residual = "dz"},
                                 tensor<16x16xf32> {pipe.gradient = "w"}, tensor<16xf32> {pipe.gradient = "b"})
    -> (tensor<16x16xf32> {pipe.gradient = "w"}, tensor<16xf32> {pipe.gradient = "b"})
  attributes {pipe.extern = {symbol = "hidden_weight", library = "hidden.o", in_place = array<i64: 2, 3>,
    work = [{engine = "matrix", flops = 4096, bytes = 3072}, {engine = "vector", flops = 128, bytes = 640}]}}

// O: a step against the gradient, in place.
func.func private @hidden_update(tensor<16x16xf32> {pipe.param = "w"}, tensor<16xf32> {pipe.param = "b"},
                                 tensor<16x16xf32> {pipe.gradient = "w"}, tensor<16xf32> {pipe.gradient = "b"})
    -> (tensor<16x16xf32> {pipe.param = "w"}, tensor<16xf32> {pipe.param = "b"})
  attributes {pipe.extern = {symbol = "hidden_update", library = "hidden.o", in_place = array<i64: 0, 1>,
    work = [{engine = "vector", flops = 544, bytes = 3264}]}}

// F of stage 3: y = x w, without a bias.
func.func @last(%w: tensor<16x4xf32> {pipe.param = "w"}, %x: tensor<8x16xf32> {pipe.input})
    -> (tensor<8x4xf32> {pipe.output}) {
  %zeros = arith.constant dense<0.0> : tensor<8x4xf32>
  %y = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x4xf32>)
                     outs(%zeros : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

func.func @last_input(%w: tensor<16x4xf32> {pipe.param = "w"}, %dy: tensor<8x4xf32> {pipe.output_gradient})
    -> (tensor<8x16xf32> {pipe.input_gradient}) {
  %zeros = arith.constant dense<0.0> : tensor<8x16xf32>
  %empty = tensor.empty() : tensor<4x16xf32>
  %turned = linalg.transpose ins(%w : tensor<16x4xf32>) outs(%empty : tensor<4x16xf32>)
                             permutation = [1, 0]
  %dx = linalg.matmul ins(%dy, %turned : tensor<8x4xf32>, tensor<4x16xf32>)
                      outs(%zeros : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %dx : tensor<8x16xf32>
}

// A gradient that is no argument is added to the sum by whoever calls the function.
func.func @last_weight(%x: tensor<8x16xf32> {pipe.input}, %dy: tensor<8x4xf32> {pipe.output_gradient})
    -> (tensor<16x4xf32> {pipe.gradient = "w"}) {
  %zeros = arith.constant dense<0.0> : tensor<16x4xf32>
  %empty = tensor.empty() : tensor<16x8xf32>
  %turned = linalg.transpose ins(%x : tensor<8x16xf32>) outs(%empty : tensor<16x8xf32>)
                             permutation = [1, 0]
  %dw = linalg.matmul ins(%turned, %dy : tensor<16x8xf32>, tensor<8x4xf32>)
                      outs(%zeros : tensor<16x4xf32>) -> tensor<16x4xf32>
  return %dw : tensor<16x4xf32>
}

// B gives both gradients. Without this function, B would run the two above.
func.func @last_backward(%w: tensor<16x4xf32> {pipe.param = "w"}, %x: tensor<8x16xf32> {pipe.input},
                         %dy: tensor<8x4xf32> {pipe.output_gradient})
    -> (tensor<8x16xf32> {pipe.input_gradient}, tensor<16x4xf32> {pipe.gradient = "w"}) {
  %dx = call @last_input(%w, %dy) : (tensor<16x4xf32>, tensor<8x4xf32>) -> tensor<8x16xf32>
  %dw = call @last_weight(%x, %dy) : (tensor<8x16xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  return %dx, %dw : tensor<8x16xf32>, tensor<16x4xf32>
}

func.func @last_update(%w: tensor<16x4xf32> {pipe.param = "w"}, %dw: tensor<16x4xf32> {pipe.gradient = "w"})
    -> (tensor<16x4xf32> {pipe.param = "w"}) {
  %rate = arith.constant 0.1 : f32
  %w_new = linalg.map ins(%w, %dw : tensor<16x4xf32>, tensor<16x4xf32>) outs(%w : tensor<16x4xf32>)
    (%p: f32, %g: f32, %old: f32) {
      %change = arith.mulf %rate, %g : f32
      %next = arith.subf %p, %change : f32
      linalg.yield %next : f32
    }
  return %w_new : tensor<16x4xf32>
}

// The loss of the last stage, and its gradient: half the squared distance from the target, as a
// mean over the 64 samples of the step (the losses of microbatches are added up).
func.func @loss(%y: tensor<8x4xf32> {pipe.output}, %t: tensor<8x4xf32> {pipe.target})
    -> (tensor<f32> {pipe.loss}, tensor<8x4xf32> {pipe.output_gradient}) {
  %part = arith.constant 0.015625 : f32
  %half = arith.constant 0.5 : f32
  %zero = arith.constant dense<0.0> : tensor<f32>
  %empty = tensor.empty() : tensor<8x4xf32>
  %distance = linalg.sub ins(%y, %t : tensor<8x4xf32>, tensor<8x4xf32>)
                         outs(%empty : tensor<8x4xf32>) -> tensor<8x4xf32>
  %dy = linalg.map ins(%distance : tensor<8x4xf32>) outs(%empty : tensor<8x4xf32>)
    (%d: f32, %old: f32) {
      %mean = arith.mulf %d, %part : f32
      linalg.yield %mean : f32
    }
  %areas = linalg.map ins(%distance, %dy : tensor<8x4xf32>, tensor<8x4xf32>) outs(%empty : tensor<8x4xf32>)
    (%d: f32, %g: f32, %old: f32) {
      %square = arith.mulf %d, %g : f32
      %area = arith.mulf %half, %square : f32
      linalg.yield %area : f32
    }
  %loss = linalg.reduce { arith.addf } ins(%areas : tensor<8x4xf32>) outs(%zero : tensor<f32>)
                                       dimensions = [0, 1]
  return %loss, %dy : tensor<f32>, tensor<8x4xf32>
}

// The samples of a microbatch: sin(k (j + 1)) for sample k of all and number j, so that no file is
// read.
func.func @data(%microbatch: i64 {pipe.microbatch}, %step: i64 {pipe.step})
    -> (tensor<8x16xf32> {pipe.input}) {
  %microbatches = arith.constant 8 : i64
  %samples = arith.constant 8 : i64
  %before = arith.muli %step, %microbatches : i64
  %number = arith.addi %before, %microbatch : i64
  %first = arith.muli %number, %samples : i64
  %one = arith.constant 1 : i64
  %empty = tensor.empty() : tensor<8x16xf32>
  %x = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
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

// What to learn: the first four numbers of a sample without their signs.
func.func @target(%microbatch: i64 {pipe.microbatch}, %step: i64 {pipe.step})
    -> (tensor<8x4xf32> {pipe.target}) {
  %x = call @data(%microbatch, %step) : (i64, i64) -> tensor<8x16xf32>
  %part = tensor.extract_slice %x[0, 0] [8, 4] [1, 1] : tensor<8x16xf32> to tensor<8x4xf32>
  %empty = tensor.empty() : tensor<8x4xf32>
  %t = linalg.abs ins(%part : tensor<8x4xf32>) outs(%empty : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %t : tensor<8x4xf32>
}

// The first parameters: uniform in [-0.4, 0.4), different in each stage, and zero for biases.
func.func @init0() -> (tensor<16x16xf32> {pipe.param = "w"}, tensor<16xf32> {pipe.param = "b"}) {
  %seed = arith.constant 1000 : i32
  %w, %b = call @hidden_init(%seed) : (i32) -> (tensor<16x16xf32>, tensor<16xf32>)
  return %w, %b : tensor<16x16xf32>, tensor<16xf32>
}

func.func @init1() -> (tensor<16x16xf32> {pipe.param = "w"}, tensor<16xf32> {pipe.param = "b"}) {
  %seed = arith.constant 2000 : i32
  %w, %b = call @hidden_init(%seed) : (i32) -> (tensor<16x16xf32>, tensor<16xf32>)
  return %w, %b : tensor<16x16xf32>, tensor<16xf32>
}

func.func @init2() -> (tensor<16x16xf32> {pipe.param = "w"}, tensor<16xf32> {pipe.param = "b"}) {
  %seed = arith.constant 3000 : i32
  %w, %b = call @hidden_init(%seed) : (i32) -> (tensor<16x16xf32>, tensor<16xf32>)
  return %w, %b : tensor<16x16xf32>, tensor<16xf32>
}

func.func private @hidden_init(%seed: i32) -> (tensor<16x16xf32>, tensor<16xf32>) {
  %low = arith.constant -0.4 : f64
  %high = arith.constant 0.4 : f64
  %b = arith.constant dense<0.0> : tensor<16xf32>
  %empty = tensor.empty() : tensor<16x16xf32>
  %w = linalg.fill_rng_2d ins(%low, %high, %seed : f64, f64, i32) outs(%empty : tensor<16x16xf32>)
      -> tensor<16x16xf32>
  return %w, %b : tensor<16x16xf32>, tensor<16xf32>
}

func.func @init3() -> (tensor<16x4xf32> {pipe.param = "w"}) {
  %low = arith.constant -0.4 : f64
  %high = arith.constant 0.4 : f64
  %seed = arith.constant 4000 : i32
  %empty = tensor.empty() : tensor<16x4xf32>
  %w = linalg.fill_rng_2d ins(%low, %high, %seed : f64, f64, i32) outs(%empty : tensor<16x4xf32>)
      -> tensor<16x4xf32>
  return %w : tensor<16x4xf32>
}
