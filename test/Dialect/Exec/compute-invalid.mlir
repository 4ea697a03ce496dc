// RUN: pipesched-opt %s -verify-diagnostics -split-input-file

// compute_c1
exec.program @copy {
  worker 0 {
    // expected-error@+1 {{'exec.compute' op cell 0D0 has phase D, wanted F, B, I, W, R, O, S, T, E or V}}
    %d0 = compute 0D0
  }
}

// -----

// compute_c1
exec.program @all_reduce {
  worker 0 {
    // expected-error@+1 {{'exec.compute' op cell 0G0 has phase G, wanted F, B, I, W, R, O, S, T, E or V}}
    %g0 = compute 0G0
  }
}

// -----

// compute_c1
exec.program @idle {
  worker 0 {
    // expected-error@+1 {{'exec.compute' op cell _ has phase _, wanted F, B, I, W, R, O, S, T, E or V}}
    %i = compute _
  }
}

// -----

// compute_c1
exec.program @overlapped_reload {
  worker 0 {
    // expected-error@+1 {{'exec.compute' op cell 0U0 has phase U, wanted F, B, I, W, R, O, S, T, E or V}}
    %f = compute 0F1+0U0
  }
}

// -----

// compute_c1: 1 << 31 is the overlap bit.
exec.program @overlap_bit {
  worker 0 {
    // expected-error@+1 {{'exec.compute' op cell 0F0 has the overlap bit of a row}}
    %f = "exec.compute"() <{cell = 2147483648 : i64}> : () -> !exec.token
  }
}

// -----

// compute_c2
exec.program @itself {
  worker 0 {
    // expected-error@+1 {{'exec.compute' op overlaps cell 0F0 with itself}}
    %f = compute 0F0+0F0
  }
}

// -----

// compute_c3
exec.program @negative_flops {
  worker 0 {
    // expected-error@+1 {{'exec.compute' op has flops -1, wanted zero or more}}
    %f = compute 0F0 flops -1
  }
}

// -----

// compute_c3
exec.program @negative_bytes {
  worker 0 {
    // expected-error@+1 {{'exec.compute' op has bytes -8, wanted zero or more}}
    %f = compute 0F0 bytes -8
  }
}

// -----

// The lowest number stands for none.
exec.program @lowest {
  worker 0 {
    // expected-error@+2 {{number -9223372036854775808 is too low, wanted -9223372036854775807 or more}}
    // expected-error@+1 {{invalid value for property memoryDelta, expected optional int64_t}}
    %f = compute 0F0 memory -9223372036854775808
  }
}

// -----

exec.program @lowest_as_attribute {
  worker 0 {
    // expected-error@+1 {{number -9223372036854775808 is too low, wanted -9223372036854775807 or more}}
    %f = "exec.compute"() <{cell = 0 : i64, memoryDelta = [-9223372036854775808 : i64]}> : () -> !exec.token
  }
}

// -----

// expected-error@+1 {{'exec.compute' op expects parent op 'exec.worker'}}
%f = "exec.compute"() <{cell = 0 : i64}> : () -> !exec.token
