// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
exec.program @p {
  worker 0 {
@@
  }
}

// offload_c1
    // error: 'exec.offload' op cell 0U0 has phase U, wanted D
    %d0 = offload 0U0
// offload_c2
    // error: 'exec.offload' op has bytes -1, wanted zero or more
    %d0 = offload 0D0 bytes -1
// reload_c1
    // error: 'exec.reload' op cell 0D0 has phase D, wanted U
    %u0 = reload 0D0
// reload_c2
    // error: 'exec.reload' op has bytes -1, wanted zero or more
    %u0 = reload 0U0 bytes -1
// wait_c1
    // error: 'exec.wait' op waits for nothing; name at least one token after 'after'
    wait
// program_c4 holds for copies too.
    // note: the first is here
    %d0 = offload 0D0
    // error: 'exec.offload' op runs cell 0D0 a second time
    %d1 = offload 0D0

// -----

// program_c15
exec.program @frees_what_is_sent {
  worker 0 {
    %f0 = compute 0F0
    // expected-note@+1 {{the send is here}}
    %s0 = send 0F0 to 1 after %f0
    // expected-error@+1 {{'exec.offload' op frees the output of 0F0 and does not wait for its send to worker 1; add the token of that send to 'after'}}
    %d0 = offload 0D0 after %f0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
  }
}
