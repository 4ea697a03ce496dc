// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
exec.program @p {
  worker 0 {
    @@
  }
}

// compute_c1
// error: 'exec.compute' op cell 0D0 has phase D, wanted F, B, I, W, R, O, S, T, E or V
%d0 = compute 0D0
// compute_c1
// error: 'exec.compute' op cell 0G0 has phase G, wanted F, B, I, W, R, O, S, T, E or V
%g0 = compute 0G0
// compute_c1
// error: 'exec.compute' op cell _ has phase _, wanted F, B, I, W, R, O, S, T, E or V
%i = compute _
// compute_c1
// error: 'exec.compute' op cell 0U0 has phase U, wanted F, B, I, W, R, O, S, T, E or V
%f = compute 0F1+0U0
// compute_c1: 1 << 31 is the overlap bit.
// error: 'exec.compute' op cell 0F0 has the overlap bit of a row
%f = "exec.compute"() <{cell = 2147483648 : i64}> : () -> !exec.token
// compute_c3
// error: 'exec.compute' op has flops -1, wanted zero or more
%f = compute 0F0 flops -1
// compute_c3
// error: 'exec.compute' op has bytes -8, wanted zero or more
%f = compute 0F0 bytes -8

// error: number -9223372036854775808 is too low, wanted -9223372036854775807 or more
%f = "exec.compute"() <{cell = 0 : i64, memoryDelta = [-9223372036854775808 : i64]}> : () -> !exec.token

// -----

// compute_c2
exec.program @itself {
  worker 0 {
    // expected-error@+1 {{'exec.compute' op overlaps cell 0F0 with itself}}
    %f = compute 0F0+0F0
  }
}

// -----

// The lowest number means none.
exec.program @lowest {
  worker 0 {
    // expected-error@+2 {{number -9223372036854775808 is too low, wanted -9223372036854775807 or more}}
    // expected-error@+1 {{invalid value for property memoryDelta, expected optional int64_t}}
    %f = compute 0F0 memory -9223372036854775808
  }
}

// -----

// expected-error@+1 {{'exec.compute' op expects parent op 'exec.worker'}}
%f = "exec.compute"() <{cell = 0 : i64}> : () -> !exec.token
