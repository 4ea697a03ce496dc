// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
@@

// all_reduce_c1
exec.program @phase workers 1 microbatches 1 {
  pipe.path on [0]
  worker 0 {
    %b0 = compute 0B0
    // error: 'exec.all_reduce' op cell 0O0 has phase O, wanted G
    %ar0 = all_reduce 0O0 blocks 0 to 1 after %b0
  }
}
// all_reduce_c4
exec.program @bytes workers 1 microbatches 1 {
  pipe.path on [0]
  worker 0 {
    %b0 = compute 0B0
    // error: 'exec.all_reduce' op has bytes -1, wanted zero or more
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0 bytes -1
  }
}
// program_c3
exec.program @path workers 1 microbatches 1 {
  pipe.path on [0]
  worker 0 {
    %b0 = compute 0B0
    // error: 'exec.all_reduce' op cell 0G1 is of path 1, the program has 1
    %ar1 = all_reduce 0G1 blocks 0 to 1 after %b0
  }
}
// program_c10: pathless
exec.program @p {
  worker 0 {
    %b0 = compute 0B0
    // error: 'exec.all_reduce' op needs paths; say with 'pipe.path' which workers hold its blocks
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
  }
}
// program_c13: stepper
exec.program @p workers 1 microbatches 2 {
  pipe.path on [0] takes [0]
  pipe.path on [0] takes [1]
  worker 0 {
    %b0 = compute 0B0
    %b1 = compute 0B1
    // error: 'exec.compute' op cell 0O1 has no blocks to step: worker 0 holds the blocks of stage 0 of path 1 with stage 0 of path 0, whose O steps them (0O0)
    %o1 = compute 0O1 after %b1
  }
}
// program_c14
exec.program @behind workers 1 microbatches 2 {
  pipe.path on [0] takes [0]
  pipe.path on [0] takes [1]
  worker 0 {
    %b0 = compute 0B0
    // note: which is here
    %o0 = compute 0O0 after %b0
    // error: 'exec.compute' op runs 0B1 behind the step or the all-reduce of its blocks
    %b1 = compute 0B1
  }
}

// CASES
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0]
  worker 0 {
    %b0 = compute 0B0
@@
  }
}

// all_reduce_c2: backwards
    // error: 'exec.all_reduce' op reduces blocks 1 to 0, wanted a range that begins at zero or more and does not end before
    %ar0 = all_reduce 0G0 blocks 1 to 0 after %b0
// all_reduce_c2: negative
    // error: 'exec.all_reduce' op reduces blocks -1 to 1, wanted
    %ar0 = all_reduce 0G0 blocks -1 to 1 after %b0
// program_c11: twice
    // note: the first is here
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
    // error: 'exec.all_reduce' op reduces blocks 0 to 1 a second time
    %ar1 = all_reduce 0G0 blocks 0 to 1 after %b0

// CASES
exec.program @p workers 1 microbatches 1 {
@@
}

// all_reduce_c3: early
  pipe.path on [0, 0]
  worker 0 {
    %b0 = compute 1B0
    // error: 'exec.all_reduce' op of cell 0G0 waits for no weight gradient (B or W) of stage 0; add the token of the last to 'after'
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
  }
// program_c10: elsewhere
  pipe.path on [0, 0] blocks [4, 6]
  worker 0 {
    %b0 = compute 0B0
    // error: 'exec.all_reduce' op reduces blocks 0 to 5, stage 0 of path 0 holds blocks 0 to 4
    %ar0 = all_reduce 0G0 blocks 0 to 5 after %b0
  }
// program_c10: only the ends of the model have blocks of no length.
  pipe.path on [0, 0] blocks [4, 6]
  worker 0 {
    %b0 = compute 0B0
    // error: 'exec.all_reduce' op reduces blocks 2 to 2, stage 0 of path 0 holds blocks 0 to 4
    %ar0 = all_reduce 0G0 blocks 2 to 2 after %b0
  }
// program_c11: again
  pipe.path on [0] blocks [10]
  worker 0 {
    %b0 = compute 0B0
    // error: 'exec.all_reduce' op reduces blocks 4 to 6, some of which are among blocks 0 to 5
    %ar0 = all_reduce 0G0 blocks 4 to 6 after %b0
    // note: blocks 0 to 5 are reduced here
    %ar1 = all_reduce 0G0 blocks 0 to 5 after %b0
  }

// CASES
exec.program @p workers 2 microbatches 2 {
@@
}

// program_c6: home
  pipe.path on [0, 1] takes [0]
  pipe.path on [1, 0] takes [1]
  worker 0 {}
  worker 1 {
    %b1 = compute 0B1
    // error: 'exec.all_reduce' op cell 0G0 runs on worker 1, by its path stage 0 is on worker 0
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b1
  }
// program_c12: alone
  pipe.path on [0, 1] takes [0]
  pipe.path on [1, 0] takes [1]
  worker 0 {
    %b0 = compute 0B0
    // error: 'exec.all_reduce' op has no partner: worker 1 holds blocks 0 to 1 as stage 0 of path 1 and has no 'all_reduce' of blocks 0 to 1
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
  }
  worker 1 {
    %b0 = compute 1B0
    %ar0 = all_reduce 1G0 blocks 1 to 2 after %b0
  }
// program_c12: sizes
  pipe.path on [0] takes [0]
  pipe.path on [1] takes [1]
  worker 0 {
    %b0 = compute 0B0
    // note: worker 0 states no bytes
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
  }
  worker 1 {
    %b0 = compute 0B1
    // error: 'exec.all_reduce' op states 8 bytes
    %ar0 = all_reduce 0G1 blocks 0 to 1 after %b0 bytes 8
  }
// program_c10: part
  pipe.path on [0, 1] takes [0] blocks [3, 3]
  pipe.path on [1, 0] takes [1] blocks [2, 4]
  worker 0 {
    %b0 = compute 0B0
    // error: 'exec.all_reduce' op reduces blocks 0 to 3, stage 0 of path 0 owns blocks 0 to 2; another stage of worker 0 reduces the others
    %ar0 = all_reduce 0G0 blocks 0 to 3 after %b0
  }
  worker 1 {}
// program_c14: an all-reduce of some blocks waits for the stages that hold these.
  pipe.path on [0, 1] takes [0] blocks [3, 3]
  pipe.path on [1, 0] takes [1] blocks [2, 4]
  worker 0 {
    %b1 = compute 1B1
    %ar0 = all_reduce 1G1 blocks 3 to 6 after %b1
    // note: which is here
    %ar1 = all_reduce 1G1 blocks 2 to 3 after %b1
    // error: 'exec.compute' op runs 0B0 behind the step or the all-reduce of its blocks
    %b0 = compute 0B0
  }
  worker 1 {
    %b0 = compute 1B0
    %ar0 = all_reduce 1G0 blocks 3 to 6 after %b0
  }

// CASES
exec.program @p workers 2 microbatches 3 {
  pipe.path on [0] takes [0]
  pipe.path on [0] takes [1]
  pipe.path on [1] takes [2]
  worker 0 {
    %b0 = compute 0B0
@@
  }
  worker 1 {
    %b2 = compute 0B2
    %ar2 = all_reduce 0G2 blocks 0 to 1 after %b2
  }
}

// program_c10: path 0 owns what worker 0 holds twice.
    %b1 = compute 0B1
    // error: 'exec.all_reduce' op reduces blocks 0 to 1, stage 0 of path 1 owns none: worker 0 holds the blocks of stage 0 of path 1 with stage 0 of path 0, whose G reduces them (0G0)
    %ar1 = all_reduce 0G1 blocks 0 to 1 after %b1
// program_c14: an all-reduce runs in parallel with computes, so that its place is not enough.
    // note: 0B1 is here
    %b1 = compute 0B1
    // error: 'exec.all_reduce' op of cell 0G0 does not wait for 0B1, which adds to its gradients; add the token of 'compute 0B1' to 'after'
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0

// -----

// program_c14
exec.program @beside workers 1 microbatches 1 {
  pipe.path on [0]
  worker 0 {
    %i0 = compute 0I0
    // expected-note@+2 {{which is here}}
    // expected-error@+1 {{'exec.compute' op runs 0W0 beside the step or the all-reduce of its blocks}}
    %w0_o0 = compute 0W0+0O0 after %i0
  }
}
