// RUN: pipesched-opt %s -verify-diagnostics -split-input-file

// worker_c1
exec.program @negative {
  // expected-error@+1 {{'exec.worker' op has number -1, wanted zero or more}}
  worker -1 {}
}

// -----

// worker_c2
exec.program @nested {
  worker 0 {
    builtin.module {
      // expected-error@+1 {{'exec.wait' op expects parent op 'exec.worker'}}
      "exec.wait"() : () -> ()
    }
  }
}

// -----

// expected-error@+1 {{'exec.worker' op expects parent op 'exec.program'}}
"exec.worker"() <{worker = 0 : i64}> ({
^bb0:
}) : () -> ()

// -----

// A token of another worker cannot be named.
exec.program @isolated {
  worker 0 {
    %f0 = compute 0F0
  }
  worker 1 {
    // expected-error@+1 {{use of undeclared SSA value name}}
    %f1 = compute 1F0 after %f0
  }
}

// -----

// Queues run in the order of the text.
exec.program @used_before_defined {
  worker 0 {
    // expected-error@+1 {{operand #0 does not dominate this use}}
    %f0 = compute 0F0 after %f1
    // expected-note@+1 {{operand defined here}}
    %f1 = compute 0F1
  }
}
