// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt-raw %t.mlir --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(exec-assign-buffers{host-memory=100})'

// What exec-assign-buffers refuses.

// CASES
@@

// error: the module has no exec.program; run convert-pipe-to-exec first
module {}

// error: names no functions of stages
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0]
  worker 0 {
    %f0 = compute 0F0
  }
}
// A tensor that nothing makes.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
exec.program @p workers 2 microbatches 1 {
  pipe.path on [0, 1]
  pipe.stage 0 forward @f
  pipe.stage 1 forward @f
  worker 0 {
    // error: reads a tensor of stage 0 and microbatch 0 that no instruction of worker 0 in front of it has made or received
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
  }
}
// Too little host memory.
func.func @d() -> (tensor<32xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<32xf32>
  return %x : tensor<32xf32>
}
func.func @f(%x: tensor<32xf32> {pipe.input}) -> (tensor<32xf32> {pipe.output}) {
  return %x : tensor<32xf32>
}
func.func @b(%x: tensor<32xf32> {pipe.input}) -> () {
  return
}
// error: has a worker 0 that offloads 128 bytes at once, and its host has 100; offload fewer microbatches at a time, or give it more
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0]
  pipe.stage 0 forward @f backward @b
  pipe.data @d
  worker 0 {
    %f0 = compute 0F0
    %d0 = offload 0D0 after %f0
    %u0 = reload 0U0 after %d0
    %b0 = compute 0B0 after %f0, %u0
  }
}

// CASES
func.func @d() -> (tensor<8xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<8xf32>
  return %x : tensor<8xf32>
}
@@

// A message that is read before it is there: the wait was left out.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
exec.program @p workers 2 microbatches 1 {
  pipe.path on [0, 1]
  pipe.stage 0 forward @f
  pipe.stage 1 forward @f
  pipe.data @d
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
  }
  worker 1 {
    // note: which is here
    %act0 = recv 0F0 from 0
    // error: of cell 1F0 does not wait for the message that it reads, 'recv 0F0 from 0'; add its token to 'after'
    %f0 = compute 1F0
  }
}
// A cell without a function.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0]
  pipe.stage 0 forward @f
  pipe.data @d
  worker 0 {
    %f0 = compute 0F0
    // error: runs B of stage 0, which has no function for it
    %b0 = compute 0B0 after %f0
  }
}
// An arena larger than sums of places may be. All of it is alive: the backward
// of the second microbatch needs both residuals.
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}, tensor<1152921504606844928xi8> {pipe.residual}) {
  %r = tensor.empty() : tensor<1152921504606844928xi8>
  return %x, %r : tensor<8xf32>, tensor<1152921504606844928xi8>
}
func.func @b(%r: tensor<1152921504606844928xi8> {pipe.residual}, %dy: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.input_gradient}) {
  return %dy : tensor<8xf32>
}
func.func @l(%y: tensor<8xf32> {pipe.output}) -> (tensor<f32> {pipe.loss}, tensor<8xf32> {pipe.output_gradient}) {
  %l = arith.constant dense<0.0> : tensor<f32>
  return %l, %y : tensor<f32>, tensor<8xf32>
}
exec.program @p workers 1 microbatches 2 {
  pipe.path on [0]
  pipe.stage 0 forward @f backward @b
  pipe.data @d
  pipe.loss @l
  worker 0 {
    %f0 = compute 0F0
    // error: makes the arena of worker 0 larger than 1152921504606846976 bytes
    %f1 = compute 0F1
    %b0 = compute 0B0 after %f0
    %b1 = compute 0B1 after %f1
  }
}
