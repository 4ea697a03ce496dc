// RUN: pipesched-opt %s -verify-diagnostics -split-input-file

// offload_c1
exec.program @offload_phase {
  worker 0 {
    // expected-error@+1 {{'exec.offload' op cell 0U0 has phase U, wanted D}}
    %d0 = offload 0U0
  }
}

// -----

// offload_c2
exec.program @offload_bytes {
  worker 0 {
    // expected-error@+1 {{'exec.offload' op has bytes -1, wanted zero or more}}
    %d0 = offload 0D0 bytes -1
  }
}

// -----

// reload_c1
exec.program @reload_phase {
  worker 0 {
    // expected-error@+1 {{'exec.reload' op cell 0D0 has phase D, wanted U}}
    %u0 = reload 0D0
  }
}

// -----

// reload_c2
exec.program @reload_bytes {
  worker 0 {
    // expected-error@+1 {{'exec.reload' op has bytes -1, wanted zero or more}}
    %u0 = reload 0U0 bytes -1
  }
}

// -----

// wait_c1
exec.program @wait_for_nothing {
  worker 0 {
    // expected-error@+1 {{'exec.wait' op waits for nothing; name at least one token after 'after'}}
    wait
  }
}

// -----

// program_c4 holds for copies too.
exec.program @copied_twice {
  worker 0 {
    // expected-note@+1 {{the first is here}}
    %d0 = offload 0D0
    // expected-error@+1 {{'exec.offload' op runs cell 0D0 a second time}}
    %d1 = offload 0D0
  }
}
