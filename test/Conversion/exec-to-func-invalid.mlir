// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir --convert-exec-to-func --verify-diagnostics --split-input-file

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
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0]
  pipe.stage 0 forward @f
  pipe.data @data
@@
}

  // error: has no arena; run exec-assign-buffers first
  worker 0 {
    %f0 = compute 0F0
  }

  worker 0 arena 128 {
    // error: has too few buffers for 0F0, which needs 2; run exec-assign-buffers again
    %f0 = compute 0F0 at [0]
  }

  worker 0 arena 128 {
    // error: has 3 buffers, but needs 2; run exec-assign-buffers again
    %f0 = compute 0F0 at [0, 64, 128]
  }

  worker 0 arena 128 {
    // error: has a buffer at 32; expected a multiple of 64
    %f0 = compute 0F0 at [0, 32]
  }

  worker 0 arena 128 {
    // error: has a buffer of 16 bytes at 128, but the arena of worker 0 has 128 bytes
    %f0 = compute 0F0 at [0, 128]
  }

  worker 0 arena 128 {
    // error: has buffers 0 and 1, of which it writes one, at overlapping bytes
    %f0 = compute 0F0 at [64, 64]
  }

  worker 0 arena 128 {
    // error: runs 0B0, but stage 0 names no function for phase B
    %b0 = compute 0B0 at [0, 64]
  }

  worker 0 arena 128 {
    // error: has a buffer of 16 bytes at 9223372036854775744, but the arena of worker 0 has 128 bytes
    %f0 = compute 0F0 at [9223372036854775744, 64]
  }

  worker 0 arena 128 host 64 {
    %f0 = compute 0F0 at [0, 64]
    // error: has a buffer of 9223372036854775744 bytes at 64, but the arena of worker 0 has 128 bytes
    %d0 = offload 0D0 after %f0 at [64, 0, 9223372036854775744]
  }

  worker 0 arena 128 host 64 {
    %f0 = compute 0F0 at [0, 64]
    // error: has a buffer of -64 bytes at 64, but the arena of worker 0 has 128 bytes
    %d0 = offload 0D0 after %f0 at [64, 0, -64]
  }

// -----

// expected-error@+1 {{names no functions of stages}}
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0]
  worker 0 arena 128 {
    %f0 = compute 0F0 at [0, 64]
  }
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

exec.program @p workers 2 microbatches 1 {
  pipe.path on [0, 1]
  pipe.stage 0 forward @f
  pipe.stage 1 forward @f
  pipe.data @data
  worker 0 arena 128 {
    %f0 = compute 0F0 at [0, 64]
    // error: has no tag; run exec-assign-buffers first
    %s0 = send 0F0 to 1 after %f0 at [64]
  }
  worker 1 arena 128 {
    %act0 = recv 0F0 from 0 tag 0 at [0]
    %f0 = compute 1F0 after %act0 at [0, 64]
  }
}

exec.program @p workers 2 microbatches 2 {
  pipe.path on [0, 1]
  pipe.stage 0 forward @f
  pipe.stage 1 forward @f
  pipe.data @data
  worker 0 arena 256 {
    %f0 = compute 0F0 at [0, 64]
    // note: sent here
    %s0 = send 0F0 to 1 after %f0 tag 1 at [64]
    %f1 = compute 0F1 at [128, 192]
    %s1 = send 0F1 to 1 after %f1 tag 0 at [192]
  }
  worker 1 arena 256 {
    // error: receives 0F0 from worker 0 with tag 2, but it is sent with tag 1; run exec-assign-buffers again
    %act0 = recv 0F0 from 0 tag 2 at [0]
    %act1 = recv 0F1 from 0 tag 0 at [128]
    %f0 = compute 1F0 after %act0 at [0, 64]
    %f1 = compute 1F1 after %act1 at [128, 192]
  }
}

exec.program @p workers 2 microbatches 2 {
  pipe.path on [0, 1]
  pipe.stage 0 forward @f
  pipe.stage 1 forward @f
  pipe.data @data
  worker 0 arena 256 {
    %f0 = compute 0F0 at [0, 64]
    %s0 = send 0F0 to 1 after %f0 tag 0 at [64]
    %f1 = compute 0F1 at [128, 192]
    %s1 = send 0F1 to 1 after %f1 tag 0 at [192]
  }
  worker 1 arena 256 {
    // note: received here
    %act1 = recv 0F1 from 0 tag 0 at [128]
    // error: receives 0F0 from worker 0 behind 0F1, which has the same tag 0 and is sent later; run exec-assign-buffers again
    %act0 = recv 0F0 from 0 tag 0 at [0]
    %f0 = compute 1F0 after %act0 at [0, 64]
    %f1 = compute 1F1 after %act1 at [128, 192]
  }
}

// note: the symbol is here
func.func private @p_step()
// error: becomes functions, one of them @p_step, but the module already has this symbol; rename one of them
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0]
  pipe.stage 0 forward @f
  pipe.data @data
  worker 0 arena 128 {
    %f0 = compute 0F0 at [0, 64]
  }
}

func.func private @hook()
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0]
  pipe.stage 0 forward @f
  pipe.data @data
  worker 0 arena 128 {
    %f0 = compute 0F0 at [0, 64]
    // error: 'func.call' op on worker 0 is not an exec instruction, so convert-exec-to-func cannot lower it
    func.call @hook() : () -> ()
  }
}
