// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir --convert-exec-to-mpi --verify-diagnostics --split-input-file
// RUN: sed '/pipe.schedule @ties/,/^}/d; /^  worker .* runs/d' %project_src/test/Run/ties.mlir > %t.ties.mlir
// RUN: not pipesched-opt %t.ties.mlir --pass-pipeline='builtin.module(pipe-schedule-zb-v, \
// RUN:   pipe-add-optimizer, convert-pipe-to-exec, exec-order-messages, exec-assign-buffers, \
// RUN:   convert-exec-to-mpi)' 2>&1 | FileCheck %s --check-prefix=TIES
// TIES: error: 'exec.compute' op of cell {{[0-9]}}O0 sums tied gradients of several workers, which convert-exec-to-mpi does not lower; convert-exec-to-func does

// expected-error@+1 {{the module has no exec.program; run convert-pipe-to-exec first}}
module {
}

// CASES
func.func private @f(%x: tensor<4xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
func.func private @data() -> (tensor<4xf32> {pipe.input}) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  return %ones : tensor<4xf32>
}
@@

// Blocking calls.
// error: 'exec.program' op deadlocks with messages=rendezvous in a cycle of 4 waits
exec.program @p workers 2 microbatches 2 {
  pipe.path on [0, 1] takes [0]
  pipe.path on [1, 0] takes [1]
  pipe.stage 0 forward @f
  pipe.stage 1 forward @f
  pipe.data @data
  worker 0 arena 128 {
    %f0 = compute 0F0 at [0, 64]
    // note: send 0F0 to 1 on worker 0 waits for recv 0F0 from 0 on worker 1 (its message)
    %s0 = send 0F0 to 1 after %f0 tag 0 at [64]
    // note: recv 0F1 from 1 comes after send 0F0 to 1 in the row of worker 0
    %act1 = recv 0F1 from 1 tag 0 at [0]
    %f1 = compute 1F1 after %act1 at [0, 64]
  }
  worker 1 arena 128 {
    %f1 = compute 0F1 at [0, 64]
    // note: send 0F1 to 0 on worker 1 waits for recv 0F1 from 1 on worker 0 (its message)
    %s1 = send 0F1 to 0 after %f1 tag 0 at [64]
    // note: recv 0F0 from 0 comes after send 0F1 to 0 in the row of worker 1
    %act0 = recv 0F0 from 0 tag 0 at [0]
    %f0 = compute 1F0 after %act0 at [0, 64]
  }
}
// No buffers.
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0]
  pipe.stage 0 forward @f
  pipe.data @data
  // error: has no arena; run exec-assign-buffers first
  worker 0 {
    %f0 = compute 0F0
  }
}
// A name that is taken.
// note: the symbol is here
func.func private @p_begin()
// error: becomes functions, one of them @p_begin, but the module already has this symbol; rename one of them
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0]
  pipe.stage 0 forward @f
  pipe.data @data
  worker 0 arena 128 {
    %f0 = compute 0F0 at [0, 64]
  }
}

// CASES
func.func private @f(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
func.func private @b(%x: tensor<4xf32> {pipe.input}, %dy: tensor<4xf32> {pipe.output_gradient}) -> (tensor<4xf32> {pipe.gradient = "w"}) {
  return %x : tensor<4xf32>
}
func.func private @data() -> (tensor<4xf32> {pipe.input}) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  return %ones : tensor<4xf32>
}
func.func private @loss(%y: tensor<4xf32> {pipe.output}) -> (tensor<f32> {pipe.loss}, tensor<4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  return %zero, %y : tensor<f32>, tensor<4xf32>
}
@@

// A sum over workers.
exec.program @p workers 2 microbatches 2 {
  pipe.path on [0] takes [0]
  pipe.path on [1] takes [1]
  pipe.stage 0 forward @f backward @b
  pipe.data @data
  pipe.loss @loss
  worker 0 arena 192 {
    %f0 = compute 0F0 at [0, 64]
    %b0 = compute 0B0 after %f0 at [64, 128, 0]
    // error: 'exec.all_reduce' op of cell 0G0 is not a compute, send or receive, which convert-exec-to-mpi does not lower; convert-exec-to-func does
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
  }
  worker 1 arena 192 {
    %f1 = compute 0F1 at [0, 64]
    %b1 = compute 0B1 after %f1 at [64, 128, 0]
    %ar1 = all_reduce 0G1 blocks 0 to 1 after %b1
  }
}

// CASES
func.func private @f(%x: tensor<3000000000xi8> {pipe.input}) -> (tensor<3000000000xi8> {pipe.output}) {
  return %x : tensor<3000000000xi8>
}
func.func private @data() -> (tensor<3000000000xi8> {pipe.input}) {
  %empty = tensor.empty() : tensor<3000000000xi8>
  return %empty : tensor<3000000000xi8>
}
exec.program @p workers 2 microbatches 1 {
  pipe.path on [0, 1]
  pipe.stage 0 forward @f
  pipe.stage 1 forward @f
  pipe.data @data
@@
}

// Too long.
  worker 0 arena 6000000128 {
    %f0 = compute 0F0 at [0, 3000000064]
    // error: carries 3000000000 numbers; a message of MPI has at most 2147483647
    %s0 = send 0F0 to 1 after %f0 tag 0 at [3000000064]
  }
  worker 1 arena 6000000128 {
    %act0 = recv 0F0 from 0 tag 0 at [0]
    %f0 = compute 1F0 after %act0 at [0, 3000000064]
  }
