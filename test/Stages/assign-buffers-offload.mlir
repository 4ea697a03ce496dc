// RUN: pipesched-opt %s --exec-assign-buffers | FileCheck %s

// The gradient of the output is posted ahead of the offload and has not arrived
// there: it stays, and only the residual moves.

func.func @d() -> (tensor<16xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<16xf32>
  return %x : tensor<16xf32>
}
func.func @f(%x: tensor<16xf32> {pipe.input})
    -> (tensor<16xf32> {pipe.output}, tensor<32xf32> {pipe.residual}) {
  %r = arith.constant dense<0.0> : tensor<32xf32>
  return %x, %r : tensor<16xf32>, tensor<32xf32>
}
func.func @b(%r: tensor<32xf32> {pipe.residual}, %dy: tensor<16xf32> {pipe.output_gradient})
    -> (tensor<16xf32> {pipe.input_gradient}) {
  return %dy : tensor<16xf32>
}
func.func @l(%y: tensor<16xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<16xf32> {pipe.output_gradient}) {
  %l = arith.constant dense<0.0> : tensor<f32>
  return %l, %y : tensor<f32>, tensor<16xf32>
}

// CHECK-LABEL: exec.program @gradient_ahead
// CHECK: worker 0 arena
// CHECK: %[[G0:.*]] = recv 1B0 from 1 tag 0 at [[[#DY:]]]
// CHECK-NEXT: offload 0D0 {{.*}} at [128, 0, 128]
// CHECK-NEXT: reload 0U0 {{.*}} at [{{[0-9]+}}, 0, 128]
// CHECK-NEXT: compute 0B0 {{.*}} at [{{[0-9]+}}, [[#DY]],
exec.program @gradient_ahead workers 2 microbatches 1 {
  pipe.path on [0, 1]
  pipe.stage 0 forward @f backward @b
  pipe.stage 1 forward @f backward @b
  pipe.data @d
  pipe.loss @l
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %g0 = recv 1B0 from 1
    %d0 = offload 0D0 after %f0, %s0
    %u0 = reload 0U0 after %d0
    %b0 = compute 0B0 after %g0, %u0
  }
  worker 1 {
    %a0 = recv 0F0 from 0
    %f0 = compute 1F0 after %a0
    %b0 = compute 1B0 after %f0
    %s0 = send 1B0 to 0 after %b0
  }
}
