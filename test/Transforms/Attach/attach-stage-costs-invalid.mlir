// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir --pass-pipeline='builtin.module(pipe-attach-stage-costs)' \
// RUN:   -verify-diagnostics -split-input-file

// expected-error @+1 {{no schedule or program names functions of stages; expected clauses such as 'stage 0 forward @f'}}
module {
  pipe.schedule @none workers 1 microbatches 1 {
    path on [0]
  }
}

// CASES
@@
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  stage 0 forward @f
}

// A dynamic shape inside of a function
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // error: 'tensor.cast' op result #0 has type 'tensor<?xf32>', whose FLOPs and bytes are unknown; costs need ranked tensors of static shape, so give the sizes
  %0 = tensor.cast %x : tensor<8xf32> to tensor<?xf32>
  %1 = math.exp %0 : tensor<?xf32>
  %2 = tensor.cast %1 : tensor<?xf32> to tensor<8xf32>
  return %2 : tensor<8xf32>
}
// An op without known work, after a call
func.func @inner(%x: tensor<8xf32>) -> tensor<8xf32> {
  // error: 'scf.while' op has no known work; lower it to linalg, tensor, arith, math or scf, or let it implement StageWorkOpInterface
  %0 = scf.while (%a = %x) : (tensor<8xf32>) -> tensor<8xf32> {
    %false = arith.constant false
    scf.condition(%false) %a : tensor<8xf32>
  } do {
  ^bb0(%a: tensor<8xf32>):
    scf.yield %a : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  // note: called from here
  %0 = call @inner(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CASES
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}
@@

// error: recomputes selectively, which functions of stages do not know; leave it out, and let 'recompute' functions give again what they shall
pipe.schedule @selective workers 1 microbatches 1 recompute selective {
  path on [0]
  stage 0 forward @f
}
// Uneven.
pipe.schedule @s workers 2 microbatches 1 {
  // error: has stages of different lengths, and the schedule has rows for them; functions make one block of each stage, so attach their costs before rows are generated
  path on [0, 1] blocks [1, 2]
  stage 0 forward @f
  stage 1 forward @f
  worker 0 runs [0F0]
  worker 1 runs [1F0]
}
