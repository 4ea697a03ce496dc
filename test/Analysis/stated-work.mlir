// RUN: pipesched-translate --export-report %s | FileCheck %s

// The report has stated bytes and memory. Worker 0 sends 20 + 30 bytes. It holds 64
// bytes from 0 on and 100 more from 10 on, of which the offload frees 40 after 16 ps,
// and 30 more from 20 on: 194 before the 40 are freed. Worker 1 frees at its end what
// it holds from its start.
// CHECK:      "schedule": "stated",
// CHECK:        "makespan_ps": 85,
// CHECK:        "bytes_sent": [50, 0],
// CHECK:        "persistent_bytes": [0, 0],
// CHECK-NEXT:   "peak_activation_bytes": [194, 7],
// CHECK-NEXT:   "peak_bytes": [194, 7],
// CHECK-NEXT:   "peak_ps": [20, 30],
// CHECK-NEXT:   "peak_cell": ["0F2", "1F0"],
// CHECK:        "offloaded_bytes": [40, 0],
// CHECK-NEXT:   "reloaded_bytes": [0, 0],
// CHECK:        "bottleneck_worker": 0,
// CHECK:        "capacity_bytes": 1000000
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
      matrix = <flops_per_s = 1000000000000>,
      vector = <flops_per_s = 1000000000000>,
      memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000,
      host = <bytes_per_s = 2500000000000>>,
    "network" = #pipe.network_spec<bytes_per_s = 1000000000000>>} {
  exec.program @stated {
    worker 0 {
      %f0 = compute 0F0 flops 10 memory 64
      %s0 = send 0F0 to 1 after %f0 bytes 20
      %d0 = offload 0D0 after %f0, %s0 bytes 40 memory -40
      %f1 = compute 0F1 flops 10 memory 100
      %s1 = send 0F1 to 1 after %f1 bytes 30
      %f2 = compute 0F2 flops 10 memory 30
    }
    worker 1 {
      %act0 = recv 0F0 from 0
      %f0 = compute 1F0 after %act0 flops 25 memory 7
      %act1 = recv 0F1 from 0
      %f1 = compute 1F1 after %act1 flops 25 memory -7
    }
  }
}
