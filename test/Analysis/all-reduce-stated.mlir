// RUN: pipesched-opt %s -exec-annotate-timeline -split-input-file -verify-diagnostics | FileCheck %s
// RUN: pipesched-translate --export-report %s -split-input-file -verify-diagnostics | FileCheck %s --check-prefix=BYTES

// 40 bytes of gradients on a network of 1 byte per ps and 5 ps: two messages of 20
// bytes each, one after the other. Stated bytes override the profile. The profile has
// no time for the other all-reduce, which only waits for the queues.
// CHECK-LABEL: exec.program @stated
// CHECK: all_reduce 0G0 {{.*}} bytes 40 {exec.end_ps = 57 : i64, exec.start_ps = 7 : i64}
// CHECK: all_reduce 1G1 {{.*}} {exec.end_ps = 47 : i64, exec.start_ps = 47 : i64}
// CHECK: compute 0O0 after %ar0 {exec.end_ps = 59 : i64, exec.start_ps = 57 : i64}
// BYTES: "bytes_sent": [40, 40],
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
      matrix = <flops_per_s = 1000000000000>,
      vector = <flops_per_s = 1000000000000>,
      memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000>,
    "network" = #pipe.network_spec<bytes_per_s = 1000000000000, latency_ps = 5>>} {
  exec.program @stated workers 2 microbatches 2 profile <"B=7ps,O=2ps"> {
    pipe.path on [0, 1] takes [0]
    pipe.path on [1, 0] takes [1]
    worker 0 {
      %b0 = compute 0B0
      %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0 bytes 40
      %b1 = compute 1B1
      %ar1 = all_reduce 1G1 blocks 1 to 2 after %b1
      %o0 = compute 0O0 after %ar0
    }
    worker 1 {
      %b1 = compute 0B1
      %ar1 = all_reduce 0G1 blocks 0 to 1 after %b1 bytes 40
      %b0 = compute 1B0
      %ar0 = all_reduce 1G0 blocks 1 to 2 after %b0
    }
  }
}

// -----

module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
      matrix = <flops_per_s = 1000000000000>,
      vector = <flops_per_s = 1000000000000>,
      memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000>,
    "network" = #pipe.network_spec<bytes_per_s = 1000000000000, latency_ps = 5>>} {
  // expected-error@+1 {{'exec.program' op cell 0G0 on worker 0 states no work, and no model or profile gives its cost: attach one}}
  exec.program @partly workers 1 microbatches 1 {
    pipe.path on [0]
    worker 0 {
      %b0 = compute 0B0 flops 7
      %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
    }
  }
}
