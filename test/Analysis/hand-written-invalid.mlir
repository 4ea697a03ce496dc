// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -exec-annotate-timeline -verify-diagnostics -split-input-file

// CASES
@@

// Ambiguous stage.
exec.program @p {
  worker 0 {
    // note: worker 0 runs it here
    %f0 = compute 0F0
  }
  worker 1 {
    // error: 'exec.compute' op runs stage 0 on worker 1, which worker 0 runs too; say with 'pipe.path' which path a microbatch takes
    %f1 = compute 0F1
  }
}
// Missing stage.
// error: 'exec.program' op runs no cell of stage 1; say with 'pipe.path' where it is
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
    %f2 = compute 2F0 after %f0
  }
}
// Nothing to run.
// error: 'exec.program' op runs no cells
exec.program @p {
  worker 0 {}
}
// No system.
// error: 'exec.program' op 'flops' and 'bytes' have no times: attach a system
exec.program @p {
  worker 0 {
    %f0 = compute 0F0 flops 100
  }
}

// error: the module has no exec.program; run convert-pipe-to-exec first
module {}

// CASES
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
      matrix = <flops_per_s = 1000000000000>,
      vector = <flops_per_s = 1000000000000>,
      memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000>,
    "network" = #pipe.network_spec<bytes_per_s = 1000000000000>>} {
@@
}

  // error: 'exec.program' op cell 0F1 on worker 0 states no work, and no model or profile gives its cost: attach one
  exec.program @half_stated {
    worker 0 {
      %f0 = compute 0F0 flops 100
      %f1 = compute 0F1
    }
  }

  // error: 'exec.program' op copies with 'bytes' need the 'host' link of the system, 'toy' has none
  exec.program @no_host profile <"F=1ps"> {
    worker 0 {
      %f0 = compute 0F0
      %d0 = offload 0D0 after %f0 bytes 8
    }
  }

// CASES
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
      matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>,
      memory = <bytes_per_s = 1>, memory_bytes = 1000000>,
    "network" = #pipe.network_spec<bytes_per_s = 1>>} {
@@
}

  // error: 'exec.program' op the time of a compute with 9223372036854775807 flops and 0 bytes is over 2^63 - 1 ps
  exec.program @endless {
    worker 0 {
      %f0 = compute 0F0 flops 9223372036854775807
    }
  }

  // error: 'exec.program' op the times of stated work add up to more than 2^63 - 1 ps
  exec.program @too_long {
    worker 0 {
      %f0 = compute 0F0 flops 9000000
      %f1 = compute 0F1 flops 9000000
    }
  }
