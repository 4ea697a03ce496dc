// RUN: pipesched-opt %s -exec-annotate-timeline -split-input-file | FileCheck %s

// A program without any header has unit costs, and stage s is where it is computed.
// CHECK-LABEL: exec.program @bare
// CHECK: compute 1B0 {{.*}} {exec.end_ps = 4000000 : i64, exec.start_ps = 2000000 : i64}
exec.program @bare {
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %b0 = compute 1B0 after %f0
  }
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
  }
}

// -----

// With two mirrored paths a stage is on the worker that the microbatch's path says, and
// has the costs of its place on that path.
// CHECK-LABEL: exec.program @mirrored
// CHECK: compute 0F0 {exec.end_ps = 1 : i64, exec.start_ps = 0 : i64}
// CHECK: compute 1F1 {{.*}} {exec.end_ps = 11 : i64, exec.start_ps = 1 : i64}
exec.program @mirrored microbatches 2 profile <"F=[1ps,10ps]"> {
  pipe.path on [0, 1] takes [0]
  pipe.path on [1, 0] takes [1]
  worker 0 {
    %f0 = compute 0F0
    %act1 = recv 0F1 from 1
    %f1 = compute 1F1 after %act1
  }
  worker 1 {
    %f1 = compute 0F1
    %s1 = send 0F1 to 0 after %f1
  }
}

// -----

// Stated work, on an accelerator with 1 flop and 1 byte of memory per ps, a network of
// 1 byte per ps and 5 ps, a host link of 1 byte in 2 ps: 100 flops hide 30 bytes, 300
// bytes hide 100 flops, 20 bytes of message hold the queues for 20 and arrive 5 later,
// 40 bytes of copy take 80, from the end of the send on.
// CHECK-LABEL: exec.program @stated
// CHECK:      compute 0F0 flops 100 bytes 30 {exec.end_ps = 100 : i64, exec.start_ps = 0 : i64}
// CHECK-NEXT: send 0F0 {{.*}} {exec.end_ps = 120 : i64, exec.start_ps = 100 : i64}
// CHECK-NEXT: offload 0D0 {{.*}} {exec.end_ps = 200 : i64, exec.start_ps = 120 : i64}
// CHECK-NEXT: reload 0U0 {{.*}} {exec.end_ps = 210 : i64, exec.start_ps = 200 : i64}
// CHECK:      recv 0F0 {{.*}} {exec.end_ps = 125 : i64, exec.start_ps = 100 : i64}
// CHECK-NEXT: compute 1F0 {{.*}} {exec.end_ps = 425 : i64, exec.start_ps = 125 : i64}
// CHECK-NEXT: compute 1F1+1B0 {{.*}} {exec.end_ps = 432 : i64, exec.start_ps = 425 : i64}
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
      matrix = <flops_per_s = 1000000000000>,
      vector = <flops_per_s = 1000000000000>,
      memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000,
      host = <bytes_per_s = 500000000000>>,
    "network" = #pipe.network_spec<bytes_per_s = 1000000000000, latency_ps = 5>>} {
  exec.program @stated {
    worker 0 {
      %f0 = compute 0F0 flops 100 bytes 30
      %s0 = send 0F0 to 1 after %f0 bytes 20
      %d0 = offload 0D0 after %f0, %s0 bytes 40
      %u0 = reload 0U0 after %d0 bytes 5
    }
    worker 1 {
      %act0 = recv 0F0 from 0
      %f0 = compute 1F0 after %act0 flops 100 bytes 300
      %f1_b0 = compute 1F1+1B0 after %f0 flops 7
    }
  }
}

// -----

// Stated work overrides the profile; the profile gives the rest.
// CHECK-LABEL: exec.program @mixed
// CHECK:      compute 0F0 {exec.end_ps = 3 : i64, exec.start_ps = 0 : i64}
// CHECK-NEXT: compute 0F1 flops 11 {exec.end_ps = 14 : i64, exec.start_ps = 3 : i64}
// CHECK-NEXT: send 0F0 {{.*}} {exec.end_ps = 3 : i64, exec.start_ps = 3 : i64}
// CHECK-NEXT: send 0F1 {{.*}} {exec.end_ps = 34 : i64, exec.start_ps = 14 : i64}
// CHECK:      recv 0F0 {{.*}} {exec.end_ps = 10 : i64, exec.start_ps = 3 : i64}
// CHECK-NEXT: recv 0F1 {{.*}} {exec.end_ps = 39 : i64, exec.start_ps = 14 : i64}
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
      matrix = <flops_per_s = 1000000000000>,
      vector = <flops_per_s = 1000000000000>,
      memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000>,
    "network" = #pipe.network_spec<bytes_per_s = 1000000000000, latency_ps = 5>>} {
  exec.program @mixed profile <"F=3ps,comm=7ps"> {
    worker 0 {
      %f0 = compute 0F0
      %f1 = compute 0F1 flops 11
      %s0 = send 0F0 to 1 after %f0
      %s1 = send 0F1 to 1 after %f1 bytes 20
    }
    worker 1 {
      %act0 = recv 0F0 from 0
      %act1 = recv 0F1 from 0
      %f0 = compute 1F0 after %act0
      %f1 = compute 1F1 after %act1
    }
  }
}
