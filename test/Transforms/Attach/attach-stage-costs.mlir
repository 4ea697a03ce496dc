// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-stage-costs)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-stage-costs{fusion=full microbatch-size=8})' | FileCheck %s --check-prefix=FUSED

// Two linear layers on x [8, 24], w [24, 16] and w [16, 8], all sums by hand.
//
// Kernels read operands and write results: a product of stage 0 has 2 x 8 x 24
// x 16 FLOPs and reads x 768, w 1536 and the sum 512, which it also writes. The
// first stage accumulates its gradient itself; that of the second is added to
// the sum. W takes input and output gradient; the loss also takes the output.

// CHECK: pipe.model @linear_stages microbatch_size 1 boundary_bytes 512 state_bytes [0, 0, 0] source "functions of stages, fusion none" {
// CHECK-NEXT:    block "stage 0" parameters 384 activation_bytes 768 weight_grad_bytes 1280 recomputed_bytes 768 state_bytes [1536, 1536, 1536] message_bytes [512, 0] {
// CHECK-NEXT:      kernel "data: tensor.splat" on vector kept F <0 flops, 768 bytes>
// CHECK-NEXT:      kernel "f0: linalg.fill" on vector F <0 flops, 512 bytes>
// CHECK-NEXT:      kernel "f0: linalg.matmul" on matrix F <6144 flops, 3328 bytes>
// CHECK-NEXT:      kernel "i0: linalg.fill" on vector I <0 flops, 768 bytes>
// CHECK-NEXT:      kernel "i0: linalg.matmul" on matrix I <6144 flops, 3584 bytes>
// CHECK-NEXT:      kernel "w0: linalg.matmul" on matrix W <6144 flops, 4352 bytes>
// CHECK-NEXT:      kernel "o0: arith.addf" on vector O <384 flops, 4608 bytes>
// CHECK-NEXT:      kernel "o0: arith.subf" on vector O <384 flops, 4608 bytes>
// CHECK-NEXT:    }
// CHECK-NEXT:    block "stage 1" parameters 128 activation_bytes 768 weight_grad_bytes 768 recomputed_bytes 512 state_bytes [512, 512, 0] message_bytes [0, 512] {
// CHECK-NEXT:      kernel "f1: linalg.fill" on vector F <0 flops, 256 bytes>
// CHECK-NEXT:      kernel "f1: linalg.matmul" on matrix F <2048 flops, 1536 bytes>
// CHECK-NEXT:      kernel "target: tensor.splat" on vector I <0 flops, 256 bytes>
// CHECK-NEXT:      kernel "loss: arith.subf" on vector I <64 flops, 768 bytes>
// CHECK-NEXT:      kernel "loss: arith.mulf" on vector I <64 flops, 768 bytes>
// CHECK-NEXT:      kernel "loss: linalg.reduce" on vector I <64 flops, 264 bytes>
// CHECK-NEXT:      kernel "i1: linalg.fill" on vector I <0 flops, 512 bytes>
// CHECK-NEXT:      kernel "i1: linalg.matmul" on matrix I <2048 flops, 1792 bytes>
// CHECK-NEXT:      kernel "w1: linalg.fill" on vector W <0 flops, 512 bytes>
// CHECK-NEXT:      kernel "w1: linalg.matmul" on matrix W <2048 flops, 1792 bytes>
// CHECK-NEXT:      kernel "w1: sum of gradient w" on vector W <128 flops, 1536 bytes>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
// CHECK-NEXT:  pipe.schedule @linear workers 2 microbatches 4 model @linear_stages {
// CHECK-NEXT:    path on [0, 1]

// Fused, the first kernel of a function moves its arguments and results, and
// the sum of a gradient is read once.
// FUSED: pipe.model @linear_stages microbatch_size 8 boundary_bytes 512 state_bytes [0, 0, 0] source "functions of stages, fusion full" {
// FUSED-NEXT:    block "stage 0" parameters 384 activation_bytes 768 weight_grad_bytes 1280 recomputed_bytes 768 state_bytes [1536, 1536, 1536] message_bytes [512, 0] {
// FUSED-NEXT:      kernel "data: other ops" on vector kept F <0 flops, 768 bytes>
// FUSED-NEXT:      kernel "f0: contractions" on matrix F <6144 flops, 2816 bytes>
// FUSED-NEXT:      kernel "i0: contractions" on matrix I <6144 flops, 2816 bytes>
// FUSED-NEXT:      kernel "w0: contractions" on matrix W <6144 flops, 4352 bytes>
// FUSED-NEXT:      kernel "o0: other ops" on vector O <768 flops, 7680 bytes>
// FUSED-NEXT:    }
// FUSED-NEXT:    block "stage 1" parameters 128
// FUSED-NEXT:      kernel "f1: contractions" on matrix F <2048 flops, 1280 bytes>
// FUSED-NEXT:      kernel "target: other ops" on vector I <0 flops, 256 bytes>
// FUSED-NEXT:      kernel "loss: other ops" on vector I <192 flops, 772 bytes>
// FUSED-NEXT:      kernel "i1: contractions" on matrix I <2048 flops, 1280 bytes>
// FUSED-NEXT:      kernel "w1: contractions" on matrix W <2048 flops, 1280 bytes>
// FUSED-NEXT:      kernel "w1: sum of gradient w" on vector W <128 flops, 512 bytes>

#ik = affine_map<(m, n, k) -> (m, k)>
#ki = affine_map<(m, n, k) -> (k, m)>
#kj = affine_map<(m, n, k) -> (k, n)>
#jk = affine_map<(m, n, k) -> (n, k)>
#ij = affine_map<(m, n, k) -> (m, n)>

func.func @data(%microbatch: i64 {pipe.microbatch}) -> (tensor<8x24xf32> {pipe.input}) {
  %one = arith.constant 1.0 : f32
  %x = tensor.splat %one : tensor<8x24xf32>
  return %x : tensor<8x24xf32>
}
func.func @f0(%w: tensor<24x16xf32> {pipe.param = "w"}, %x: tensor<8x24xf32> {pipe.input})
    -> (tensor<8x16xf32> {pipe.output}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x16xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x16xf32>) -> tensor<8x16xf32>
  %y = linalg.matmul ins(%x, %w : tensor<8x24xf32>, tensor<24x16xf32>)
      outs(%sum : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
func.func @i0(%w: tensor<24x16xf32> {pipe.param = "w"}, %dy: tensor<8x16xf32> {pipe.output_gradient})
    -> (tensor<8x24xf32> {pipe.input_gradient}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x24xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x24xf32>) -> tensor<8x24xf32>
  %dx = linalg.matmul indexing_maps = [#ik, #jk, #ij]
      ins(%dy, %w : tensor<8x16xf32>, tensor<24x16xf32>)
      outs(%sum : tensor<8x24xf32>) -> tensor<8x24xf32>
  return %dx : tensor<8x24xf32>
}
func.func @w0(%x: tensor<8x24xf32> {pipe.input}, %dy: tensor<8x16xf32> {pipe.output_gradient},
              %sum: tensor<24x16xf32> {pipe.gradient = "w"})
    -> (tensor<24x16xf32> {pipe.gradient = "w"}) {
  %dw = linalg.matmul indexing_maps = [#ki, #kj, #ij]
      ins(%x, %dy : tensor<8x24xf32>, tensor<8x16xf32>)
      outs(%sum : tensor<24x16xf32>) -> tensor<24x16xf32>
  return %dw : tensor<24x16xf32>
}
func.func @o0(%w: tensor<24x16xf32> {pipe.param = "w"}, %dw: tensor<24x16xf32> {pipe.gradient = "w"},
              %m: tensor<24x16xf32> {pipe.state = "m"})
    -> (tensor<24x16xf32> {pipe.param = "w"}, tensor<24x16xf32> {pipe.state = "m"}) {
  %0 = arith.addf %m, %dw : tensor<24x16xf32>
  %1 = arith.subf %w, %0 : tensor<24x16xf32>
  return %1, %0 : tensor<24x16xf32>, tensor<24x16xf32>
}

func.func @f1(%w: tensor<16x8xf32> {pipe.param = "w"}, %x: tensor<8x16xf32> {pipe.input})
    -> (tensor<8x8xf32> {pipe.output}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x8xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = linalg.matmul ins(%x, %w : tensor<8x16xf32>, tensor<16x8xf32>)
      outs(%sum : tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
func.func @target(%microbatch: i64 {pipe.microbatch}) -> (tensor<8x8xf32> {pipe.target}) {
  %one = arith.constant 1.0 : f32
  %t = tensor.splat %one : tensor<8x8xf32>
  return %t : tensor<8x8xf32>
}
func.func @loss(%y: tensor<8x8xf32> {pipe.output}, %t: tensor<8x8xf32> {pipe.target})
    -> (tensor<f32> {pipe.loss}, tensor<8x8xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %dy = arith.subf %y, %t : tensor<8x8xf32>
  %square = arith.mulf %dy, %dy : tensor<8x8xf32>
  %loss = linalg.reduce { arith.addf } ins(%square : tensor<8x8xf32>)
      outs(%zero : tensor<f32>) dimensions = [0, 1]
  return %loss, %dy : tensor<f32>, tensor<8x8xf32>
}
func.func @i1(%w: tensor<16x8xf32> {pipe.param = "w"}, %dy: tensor<8x8xf32> {pipe.output_gradient})
    -> (tensor<8x16xf32> {pipe.input_gradient}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x16xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x16xf32>) -> tensor<8x16xf32>
  %dx = linalg.matmul indexing_maps = [#ik, #jk, #ij]
      ins(%dy, %w : tensor<8x8xf32>, tensor<16x8xf32>)
      outs(%sum : tensor<8x16xf32>) -> tensor<8x16xf32>
  return %dx : tensor<8x16xf32>
}
func.func @w1(%x: tensor<8x16xf32> {pipe.input}, %dy: tensor<8x8xf32> {pipe.output_gradient})
    -> (tensor<16x8xf32> {pipe.gradient = "w"}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x8xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x8xf32>) -> tensor<16x8xf32>
  %dw = linalg.matmul indexing_maps = [#ki, #kj, #ij]
      ins(%x, %dy : tensor<8x16xf32>, tensor<8x8xf32>)
      outs(%sum : tensor<16x8xf32>) -> tensor<16x8xf32>
  return %dw : tensor<16x8xf32>
}

pipe.schedule @linear workers 2 microbatches 4 {
  path on [0, 1]
  stage 0 forward @f0 input_gradient @i0 weight_gradient @w0 update @o0
  stage 1 forward @f1 input_gradient @i1 weight_gradient @w1
  data @data
  target @target
  loss @loss
}
