// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
@@
  }
}

// a phase of another collective
    // error: 'exec.broadcast' op cell 0Y0 has phase Y, wanted X
    %x0 = broadcast 0Y0 after %f0
// a softmax that does not wait for its logits
    %x0 = broadcast 0X0 after %f0
    %s0 = compute 0S0 after %x0
    // error: of cell 0Y0 does not wait for 0S0; add the token of 'compute 0S0' of this worker to 'after'
    %y0 = combine 0Y0 after %f0

// -----

// a worker that does not come
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
    // expected-error @+1 {{has no partner: worker 1 has no 'broadcast' of microbatch 0}}
    %x0 = broadcast 0X0 after %f0
  }
  worker 1 {
    %f0 = compute 1F0
  }
}
