// A model that a front end has cut into stages, with linalg.generic on named
// dimensions and shared functions: its functions go in as they are. Only their
// arguments and results say what they are.

// RUN: pipesched-opt %s -o %t --pass-pipeline='builtin.module(pipe-attach-stage-costs)'
// RUN: FileCheck %s < %t
// RUN: pipesched-opt %t --pass-pipeline='builtin.module(pipe-attach-system{name=toy},pipe-schedule{family=1f1b},pipe-verify)' | FileCheck %s --check-prefix=ROWS

// Tokens [2, 4], hidden 6, feedforward 12: x 192 bytes, w 288, b 48, z 384.
// The linear layer: 2 x 8 x 6 x 12 FLOPs; x 192, w 288, sum 384 twice. The bias
// is added where the sum begins. B takes x and z; R makes z again from x. Who
// calls B adds up the gradient of the bias; B itself adds that of the weight.

// CHECK-LABEL: pipe.model @mlp_stages
// CHECK-NEXT:    block "stage 0" parameters 84 activation_bytes 576 recomputed_bytes 192 state_bytes [336, 336, 0] message_bytes [384, 0] {
// CHECK-NEXT:      kernel "main.stage_0: linalg.broadcast" on vector F <0 flops, 432 bytes>
// CHECK-NEXT:      kernel "main.stage_0: linalg.generic" on matrix F <1152 flops, 1248 bytes>
// CHECK-NEXT:      kernel "main.stage_0: linalg.generic" on vector F <96 flops, 768 bytes>
// CHECK-NEXT:      kernel "main.again_0: linalg.broadcast" on vector R <0 flops, 432 bytes>
// CHECK-NEXT:      kernel "main.again_0: linalg.generic" on matrix R <1152 flops, 1248 bytes>
// CHECK-NEXT:      kernel "main.backward_0: linalg.generic" on vector B <96 flops, 1152 bytes>
// CHECK-NEXT:      kernel "main.backward_0: linalg.generic" on matrix B <1152 flops, 1152 bytes>
// CHECK-NEXT:      kernel "main.backward_0: linalg.fill" on vector B <0 flops, 48 bytes>
// CHECK-NEXT:      kernel "main.backward_0: linalg.reduce" on vector B <96 flops, 480 bytes>
// CHECK-NEXT:      kernel "main.backward_0: sum of gradient b" on vector B <12 flops, 144 bytes>
// CHECK-NEXT:    }
// CHECK-NEXT:    block "stage 1" parameters 0 activation_bytes 384 recomputed_bytes 384 state_bytes [0, 0, 0] message_bytes [0, 384] {
// CHECK-NEXT:      kernel "main.stage_1: linalg.generic" on vector F <288 flops, 768 bytes>
// CHECK-NEXT:      kernel "main.backward_1: linalg.generic" on vector B <192 flops, 1152 bytes>

// ROWS: worker 0 runs [0F0 0F1 0B0 0F2 0B1 0B2]

#tokens_hidden = affine_map<(batch, sequence, hidden, wide) -> (batch, sequence, hidden)>
#weight = affine_map<(batch, sequence, hidden, wide) -> (hidden, wide)>
#tokens_wide = affine_map<(batch, sequence, hidden, wide) -> (batch, sequence, wide)>
#all = affine_map<(batch, sequence, wide) -> (batch, sequence, wide)>

func.func private @linear(%x: tensor<2x4x6xf32>, %w: tensor<6x12xf32>, %b: tensor<12xf32>) -> tensor<2x4x12xf32> {
  %empty = tensor.empty() : tensor<2x4x12xf32>
  %bias = linalg.broadcast ins(%b : tensor<12xf32>) outs(%empty : tensor<2x4x12xf32>) dimensions = [0, 1]
  %z = linalg.generic {indexing_maps = [#tokens_hidden, #weight, #tokens_wide],
                       iterator_types = ["parallel", "parallel", "reduction", "parallel"]}
      ins(%x, %w : tensor<2x4x6xf32>, tensor<6x12xf32>) outs(%bias : tensor<2x4x12xf32>) {
  ^bb0(%a: f32, %v: f32, %sum: f32):
    %0 = arith.mulf %a, %v : f32
    %1 = arith.addf %sum, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x4x12xf32>
  return %z : tensor<2x4x12xf32>
}

func.func @main.stage_0(%w: tensor<6x12xf32> {pipe.param = "w"}, %b: tensor<12xf32> {pipe.param = "b"},
                        %x: tensor<2x4x6xf32> {pipe.input})
    -> (tensor<2x4x12xf32> {pipe.output}, tensor<2x4x12xf32> {pipe.residual = "z"}) {
  %z = call @linear(%x, %w, %b) : (tensor<2x4x6xf32>, tensor<6x12xf32>, tensor<12xf32>) -> tensor<2x4x12xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x4x12xf32>
  %y = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%z : tensor<2x4x12xf32>) outs(%empty : tensor<2x4x12xf32>) {
  ^bb0(%a: f32, %out: f32):
    %0 = arith.maximumf %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x4x12xf32>
  return %y, %z : tensor<2x4x12xf32>, tensor<2x4x12xf32>
}

func.func @main.again_0(%w: tensor<6x12xf32> {pipe.param = "w"}, %b: tensor<12xf32> {pipe.param = "b"},
                        %x: tensor<2x4x6xf32> {pipe.input}) -> (tensor<2x4x12xf32> {pipe.residual = "z"}) {
  %z = call @linear(%x, %w, %b) : (tensor<2x4x6xf32>, tensor<6x12xf32>, tensor<12xf32>) -> tensor<2x4x12xf32>
  return %z : tensor<2x4x12xf32>
}

func.func @main.backward_0(%x: tensor<2x4x6xf32> {pipe.input}, %z: tensor<2x4x12xf32> {pipe.residual = "z"},
                           %dy: tensor<2x4x12xf32> {pipe.output_gradient},
                           %sum: tensor<6x12xf32> {pipe.gradient = "w"})
    -> (tensor<6x12xf32> {pipe.gradient = "w"}, tensor<12xf32> {pipe.gradient = "b"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x4x12xf32>
  %dz = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%z, %dy : tensor<2x4x12xf32>, tensor<2x4x12xf32>) outs(%empty : tensor<2x4x12xf32>) {
  ^bb0(%a: f32, %g: f32, %out: f32):
    %positive = arith.cmpf ogt, %a, %zero : f32
    %0 = arith.select %positive, %g, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x4x12xf32>
  %dw = linalg.generic {indexing_maps = [#tokens_hidden, #tokens_wide, #weight],
                        iterator_types = ["reduction", "reduction", "parallel", "parallel"]}
      ins(%x, %dz : tensor<2x4x6xf32>, tensor<2x4x12xf32>) outs(%sum : tensor<6x12xf32>) {
  ^bb0(%a: f32, %g: f32, %acc: f32):
    %0 = arith.mulf %a, %g : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<6x12xf32>
  %row = tensor.empty() : tensor<12xf32>
  %none = linalg.fill ins(%zero : f32) outs(%row : tensor<12xf32>) -> tensor<12xf32>
  %db = linalg.reduce { arith.addf } ins(%dz : tensor<2x4x12xf32>) outs(%none : tensor<12xf32>) dimensions = [0, 1]
  return %dw, %db : tensor<6x12xf32>, tensor<12xf32>
}

// GELU by tanh, as far as it matters here, without parameters.
func.func @main.stage_1(%x: tensor<2x4x12xf32> {pipe.input}) -> (tensor<2x4x12xf32> {pipe.output}) {
  %one = arith.constant 1.0 : f32
  %empty = tensor.empty() : tensor<2x4x12xf32>
  %y = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<2x4x12xf32>) outs(%empty : tensor<2x4x12xf32>) {
  ^bb0(%a: f32, %out: f32):
    %0 = math.tanh %a : f32
    %1 = arith.addf %0, %one : f32
    %2 = arith.mulf %1, %a : f32
    linalg.yield %2 : f32
  } -> tensor<2x4x12xf32>
  return %y : tensor<2x4x12xf32>
}
func.func @main.backward_1(%x: tensor<2x4x12xf32> {pipe.input}, %dy: tensor<2x4x12xf32> {pipe.output_gradient})
    -> (tensor<2x4x12xf32> {pipe.input_gradient}) {
  %empty = tensor.empty() : tensor<2x4x12xf32>
  %dx = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %dy : tensor<2x4x12xf32>, tensor<2x4x12xf32>) outs(%empty : tensor<2x4x12xf32>) {
  ^bb0(%a: f32, %g: f32, %out: f32):
    %0 = math.tanh %a : f32
    %1 = arith.mulf %0, %g : f32
    linalg.yield %1 : f32
  } -> tensor<2x4x12xf32>
  return %dx : tensor<2x4x12xf32>
}

pipe.schedule @mlp workers 2 microbatches 3 {
  path on [0, 1]
  stage 0 forward @main.stage_0 recompute @main.again_0 backward @main.backward_0
  stage 1 forward @main.stage_1 backward @main.backward_1
}
