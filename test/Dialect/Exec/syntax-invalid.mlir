// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
exec.program @p {
  worker 0 {
@@
  }
}

    // error: unknown phase 'K' in '0K0'; wanted one of F, B, I, W, R, D, U, O, G, d, u, S, T, X, Y, Z, E, A, C, V
    %f0 = compute 0K0

    // error: expected a phase letter right after stage 0, as in 0F0
    %f0 = compute 0F0+0

    %f0 = compute 0F0
    // error: expected 'to'
    %s0 = send 0F0 after %f0

    // error: expected 'from'
    %act0 = recv 0F0 to 1

    // error: unknown phase 'K' in '0K0'
    %act0 = recv 0K0 from 1
