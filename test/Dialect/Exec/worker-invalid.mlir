// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
exec.program @p {
@@
}

// worker_c1
  // error: 'exec.worker' op has number -1, wanted zero or more
  worker -1 {}
// worker_c2
  worker 0 {
    builtin.module {
      // error: 'exec.wait' op expects parent op 'exec.worker'
      "exec.wait"() : () -> ()
    }
  }
// A token of another worker cannot be named.
  worker 0 {
    %f0 = compute 0F0
  }
  worker 1 {
    // error: use of undeclared SSA value name
    %f1 = compute 1F0 after %f0
  }
// Queues run in the order of the text.
  worker 0 {
    // error: operand #0 does not dominate this use
    %f0 = compute 0F0 after %f1
    // note: operand defined here
    %f1 = compute 0F1
  }

// -----

// expected-error@+1 {{'exec.worker' op expects parent op 'exec.program'}}
"exec.worker"() <{worker = 0 : i64}> ({
^bb0:
}) : () -> ()
