// RUN: pipesched-opt %s --exec-order-messages -split-input-file -verify-diagnostics

// expected-error@+1 {{the module has no exec.program; run convert-pipe-to-exec first}}
module {}

// -----

// expected-error@+1 {{'exec.program' op deadlocks with messages in any order in a cycle of 4 waits}}
exec.program @dead workers 2 microbatches 2 {
  pipe.path on [0, 1]
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    // expected-note@+1 {{recv 1B0 from 1 on worker 0 waits for send 1B0 to 0 on worker 1 (its message)}}
    %g0 = recv 1B0 from 1
    %b0 = compute 0B0 after %f0, %g0
    %f1 = compute 0F1
    // expected-note@+1 {{send 0F1 to 1 comes after recv 1B0 from 1 in the row of worker 0}}
    %s1 = send 0F1 to 1 after %f1
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    // expected-note@+1 {{recv 0F1 from 0 on worker 1 waits for send 0F1 to 1 on worker 0 (its message)}}
    %act1 = recv 0F1 from 0
    %f1 = compute 1F1 after %act1
    %b0 = compute 1B0 after %f0
    // expected-note@+1 {{send 1B0 to 0 comes after recv 0F1 from 0 in the row of worker 1}}
    %sg0 = send 1B0 to 0 after %b0
  }
}

// -----

exec.program @placed workers 1 microbatches 1 {
  pipe.path on [0]
  // expected-error@+1 {{'exec.worker' op has buffers for the order of its instructions; run exec-order-messages before exec-assign-buffers}}
  worker 0 arena 64 {
    %f0 = compute 0F0 at [0]
  }
}
