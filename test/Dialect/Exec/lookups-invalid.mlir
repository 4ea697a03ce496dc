// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
exec.program @p {
  worker 0 {
@@
  }
}

// a phase of another collective
    %e0 = compute 0E0
    // error: 'exec.reduce_lookups' op cell 0Z0 has phase Z, wanted A
    %a0 = reduce_lookups 0Z0 after %e0
// the broadcast of an output in place of that of a gradient
    %b0 = compute 0B0
    // error: 'exec.broadcast' op cell 0C0 has phase C, wanted X
    %c0 = broadcast 0C0 after %b0
// a sum that does not wait for its lookup
    %e0 = compute 0E0
    // error: of cell 0A0 does not wait for 0E0; add the token of 'compute 0E0' of this worker to 'after'
    %a0 = reduce_lookups 0A0
// a broadcast that waits for no backward
    %f0 = compute 0F0
    %b0 = compute 0B0 after %f0
    // error: of cell 0C0 waits for no B or I of its microbatch; add the token of 'compute 0B0' or of its split to 'after'
    %c0 = broadcast_gradient 0C0 after %f0

// -----

// a worker that does not come
exec.program @p {
  worker 0 {
    %e0 = compute 0E0
    // expected-error @+1 {{has no partner: worker 1 has no 'reduce_lookups' of microbatch 0}}
    %a0 = reduce_lookups 0A0 after %e0
  }
  worker 1 {
    %e0 = compute 1E0
  }
}
