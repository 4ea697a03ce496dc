// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -exec-verify -verify-diagnostics -split-input-file
// RUN: pipesched-opt %t.mlir -exec-annotate-timeline -verify-diagnostics -split-input-file

// CASES
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
  }
  worker 1 {
@@
  }
}

// Forward.
    // note: which is here
    %act0 = recv 0F0 from 0
    // error: 'exec.compute' op of cell 1F0 does not wait for the message that it reads, 'recv 0F0 from 0'; add its token to 'after'
    %f0 = compute 1F0
// Too late.
    // error: of cell 1F0 comes before the message that it reads, 'recv 0F0 from 0'
    %f0 = compute 1F0
    // note: which is here
    %act0 = recv 0F0 from 0

// CASES
@@

// Backward.
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    // note: which is here
    %g0 = recv 1B0 from 1
    // error: of cell 0B0 does not wait for the message that it reads, 'recv 1B0 from 1'
    %b0 = compute 0B0 after %f0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %b0 = compute 1B0 after %f0
    %sg0 = send 1B0 to 0 after %b0
  }
}
// The gradient comes with W by this rule, and W of stage 0 does not read it.
exec.program @p workers 2 microbatches 1 gradient after W {
  worker 0 {
    %f0 = compute 0F0
    // note: which is here
    %g0 = recv 1W0 from 1
    // error: of cell 0I0 does not wait for the message that it reads, 'recv 1W0 from 1'
    %i0 = compute 0I0 after %f0
    %w0 = compute 0W0 after %i0, %g0
  }
  worker 1 {
    %f0 = compute 1F0
    %i0 = compute 1I0 after %f0
    %w0 = compute 1W0 after %i0
    %sg0 = send 1W0 to 0 after %w0
  }
}
// Another message; receives have an order, but messages may arrive in any.
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %f1 = compute 0F1
    %s1 = send 0F1 to 1 after %f1
  }
  worker 1 {
    // note: which is here
    %act0 = recv 0F0 from 0
    %act1 = recv 0F1 from 0
    // error: of cell 1F0 does not wait for the message that it reads, 'recv 0F0 from 0'
    %f0 = compute 1F0 after %act1
    %f1 = compute 1F1 after %act0
  }
}
// Sliced.
exec.program @p microbatches 1 slices 2 {
  worker 0 {
    %f0_0 = compute 0F0.0
    %s0_0 = send 0F0.0 to 1 after %f0_0
    %f0_1 = compute 0F0.1
    %s0_1 = send 0F0.1 to 1 after %f0_1
  }
  worker 1 {
    %act0_0 = recv 0F0.0 from 0
    // note: which is here
    %act0_1 = recv 0F0.1 from 0
    %f0_0 = compute 1F0.0 after %act0_0
    // error: of cell 1F0.1 does not wait for the message that it reads, 'recv 0F0.1 from 0'
    %f0_1 = compute 1F0.1 after %f0_0
  }
}

exec.program @reload {
  worker 0 {
    %f0 = compute 0F0
    %d0 = offload 0D0 after %f0
    // note: which is here
    %u0 = reload 0U0 after %d0
    // error: of cell 0B0 does not wait for 'reload 0U0', whose result it reads; add its token to 'after'
    %b0 = compute 0B0 after %f0, %d0
  }
}

exec.program @offload {
  worker 0 {
    // note: which is here
    %f0 = compute 0F0
    // error: 'exec.offload' op of cell 0D0 does not wait for 'compute 0F0', whose result it reads
    %d0 = offload 0D0
  }
}
// Lookup.
exec.program @p workers 2 microbatches 1 {
  pipe.path on [0, 1]
  worker 0 {
    %e0 = compute 0E0
    // note: which is here
    %a0 = reduce_lookups 0A0 after %e0
    // error: of cell 0F0 does not wait for 'reduce_lookups 0A0', whose result it reads
    %f0 = compute 0F0 after %e0
  }
  worker 1 {
    %e0 = compute 1E0
    %a0 = reduce_lookups 1A0 after %e0
    %f0 = compute 1F0
  }
}

// CASES
exec.program @p workers 2 microbatches 2 {
@@
}

// Pair.
  pipe.path on [0, 1]
  worker 0 {
    %f0 = compute 0F0
    // note: which is here
    %g0 = recv 1B0 from 1
    // error: of cell 0B0 does not wait for the message that it reads, 'recv 1B0 from 1'
    %f1_b0 = compute 0F1+0B0 after %f0
  }
  worker 1 {
    %b0 = compute 1B0
    %sg0 = send 1B0 to 0 after %b0
  }
// By its path a microbatch takes the message of worker 1.
  pipe.path on [0, 1] takes [0]
  pipe.path on [1, 0] takes [1]
  worker 0 {
    // note: which is here
    %act1 = recv 0F1 from 1
    %f0 = compute 0F0
    // error: of cell 1F1 does not wait for the message that it reads, 'recv 0F1 from 1'
    %f1 = compute 1F1 after %f0
  }
  worker 1 {
    %f1 = compute 0F1
    %s1 = send 0F1 to 0 after %f1
  }
// Step.
  pipe.path on [0] takes [0]
  pipe.path on [1] takes [1]
  worker 0 {
    %b0 = compute 0B0
    // note: which is here
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
    // error: of cell 0O0 does not wait for 'all_reduce 0G0 blocks 0 to 1', whose result it reads
    %o0 = compute 0O0 after %b0
  }
  worker 1 {
    %b1 = compute 0B1
    %ar1 = all_reduce 0G1 blocks 0 to 1 after %b1
    %o1 = compute 0O1 after %ar1
  }

// CASES
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0, 0]
  worker 0 {
@@
  }
}

// Both stages.
    // error: of cell 1F0 comes before 'compute 0F0', whose result it reads
    %f0_1 = compute 1F0
    // note: which is here
    %f0 = compute 0F0
// In one pair.
    // error: of cell 1F0 overlaps 'compute 0F0', whose result it reads
    %f0 = compute 0F0+1F0

// CASES
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
@@
  }
}

// Reload of nothing.
    // note: which is here
    %d0 = offload 0D0 after %f0
    // error: 'exec.reload' op of cell 0U0 does not wait for 'offload 0D0', whose result it reads
    %u0 = reload 0U0 after %f0
// Recompute.
    // error: of cell 0B0 comes before 'compute 0R0', whose result it reads
    %b0 = compute 0B0 after %f0
    // note: which is here
    %r0 = compute 0R0 after %f0
// Shard.
    // note: which is here
    %x0 = broadcast 0X0 after %f0
    // error: of cell 0S0 does not wait for 'broadcast 0X0', whose result it reads
    %s0 = compute 0S0 after %f0
