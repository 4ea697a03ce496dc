// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
exec.program @p {
@@
}

// send_c1
  worker 0 {
    %r0 = compute 0R0
    // error: 'exec.send' op cell 0R0 has phase R, wanted F, B, I or W
    %s0 = send 0R0 to 1 after %r0
  }
  worker 1 {}
// send_c2
  worker 0 {
    %f0 = compute 0F0
    // error: 'exec.send' op goes to worker 0, its own; a message needs another worker
    %s0 = send 0F0 to 0 after %f0
  }
// send_c4
  worker 0 {
    %f0 = compute 0F0
    // error: 'exec.send' op has bytes -1, wanted zero or more
    %s0 = send 0F0 to 1 after %f0 bytes -1
  }
  worker 1 {}
// recv_c1
  worker 0 {
    // error: 'exec.recv' op cell 1O0 has phase O, wanted F, B, I or W
    %o = recv 1O0 from 1
  }
  worker 1 {}
// recv_c2
  worker 0 {
    // error: 'exec.recv' op goes from worker 0, its own; a message needs another worker
    %act0 = recv 0F0 from 0
  }

// CASES
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
@@
  }
  worker 1 {
    %act0 = recv 0F0 from 0
  }
}

// send_c3: send without wait
    // error: 'exec.send' op does not wait for the compute of its cell 0F0; add the token of 'compute 0F0' of this worker to 'after'
    %s0 = send 0F0 to 1
// send_c3: it waits for another cell.
    %f1 = compute 0F1
    // error: 'exec.send' op does not wait for the compute of its cell 0F0
    %s0 = send 0F0 to 1 after %f1
