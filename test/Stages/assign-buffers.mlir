// RUN: pipesched-opt %s --split-input-file --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-assign-buffers)' | FileCheck %s
// RUN: pipesched-opt-raw %s --split-input-file --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-assign-buffers{report=true})' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REPORT

// Two stages on one worker hand over one tensor. Under R what F gives for B ends
// with F: each microbatch keeps only its input, 64 bytes.

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

// CHECK-LABEL: exec.program @local
// CHECK: worker 0 arena 448 {
// data's x at 0, y at 64, residual at 128:
// CHECK-NEXT: compute 0F0 at [0, 64, 128]
// The output of stage 0 is the input of stage 1, at 64.
// CHECK-NEXT: compute 1F0 after {{.*}} at [64, 0, 256]
// y of stage 1, its gradient, the residual, and the gradient of its input:
// CHECK-NEXT: compute 1B0 after {{.*}} at [0, 64, 256, 384]
// CHECK-NEXT: compute 0B0 after {{.*}} at [128, 384, 0]
// REPORT: remark: worker 0: an arena of 448 bytes holds at most
pipe.schedule @local workers 1 microbatches 1 {
  path on [0, 0]
  stage 0 forward @f backward @b
  stage 1 forward @f backward @b
  data @d
  loss @l
  worker 0 runs [0F0 1F0 1B0 0B0]
}

// -----

func.func @d() -> (tensor<16xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<16xf32>
  return %x : tensor<16xf32>
}
func.func @f(%x: tensor<16xf32> {pipe.input})
    -> (tensor<16xf32> {pipe.output}, tensor<32xf32> {pipe.residual}) {
  %r = arith.constant dense<0.0> : tensor<32xf32>
  return %x, %r : tensor<16xf32>, tensor<32xf32>
}
func.func @b(%r: tensor<32xf32> {pipe.residual}) -> () {
  return
}

// CHECK-LABEL: exec.program @recomputed
// CHECK: worker 0 arena 320 {
// CHECK-NEXT: compute 0F0 at [0, 64, 128]
// CHECK-NEXT: compute 0F1 at [64, 128, 192]
// CHECK-NEXT: compute 0R0 after {{.*}} at [0, 128, 192]
// CHECK-NEXT: compute 0B0 after {{.*}} at [192]
// CHECK-NEXT: compute 0R1 after {{.*}} at [64, 0, 128]
// CHECK-NEXT: compute 0B1 after {{.*}} at [128]
// REPORT: remark: worker 0: an arena of 320 bytes
pipe.schedule @recomputed workers 1 microbatches 2 recompute full {
  path on [0]
  stage 0 forward @f backward @b
  data @d
  worker 0 runs [0F0 0F1 0R0 0B0 0R1 0B1]
}

// CHECK-LABEL: exec.program @offloaded
// CHECK: worker 0 arena 256 host 128 {
// CHECK-NEXT: %[[F0:.*]] = compute 0F0 at [0, 64, 128]
// Only the residual is read later; it moves to the host, and comes back.
// CHECK-NEXT: %[[D0:.*]] = offload 0D0 after %[[F0]] at [128, 0, 128]
// CHECK-NEXT: %[[U0:.*]] = reload 0U0 after %[[F0]], %[[D0]] at [0, 0, 128]
// CHECK-NEXT: compute 0B0 after %[[F0]], %[[U0]] at [0]
pipe.schedule @offloaded workers 1 microbatches 1 {
  path on [0]
  stage 0 forward @f backward @b
  data @d
  worker 0 runs [0F0 0D0 0U0 0B0]
}
