// RUN: pipesched-translate --export-report %s | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec)' | pipesched-translate --export-report | FileCheck %s

// One stage on two accelerators that divide the experts. F and B take 100 ps of
// FLOPs each. Of 40 bytes of rows each accelerator has 20, and sends half of them
// to the other one in 10 ps, there and back: F and B take 120 ps. The pair begins
// with the way back of B's rows and ends with that of F's, which are seen; the two
// others go after its 200 ps of FLOPs.
//
//   worker 0   0F0 [0,120]  0F1+0B0 [120,340]  0B1 [340,460]

// CHECK:     "{{schedule|program}}": "paired",
// CHECK:     "makespan_ps": 460,
// CHECK:     "all_to_all_ps": [80],
// CHECK-NEXT: "exposed_all_to_all_ps": [60],

// In turn each of the four is seen.
// CHECK:     "{{schedule|program}}": "in_turn",
// CHECK:     "makespan_ps": 480,
// CHECK:     "all_to_all_ps": [80],
// CHECK-NEXT: "exposed_all_to_all_ps": [80],
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 2,
    matrix = <flops_per_s = 1000000000000>,
    vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000,
    link = <bytes_per_s = 1000000000000>, expert_parallel = 2>,
  "network" = #pipe.network_spec<bytes_per_s = 1000000000000>>} {
  pipe.model @experts microbatch_size 1 boundary_bytes 8 state_bytes [2, 2, 12] {
    block "layer" parameters 8 activation_bytes 8
        experts <count = 2, per_token = 1, rows = 4, parameters = 4, activation_bytes = 4, weight_grad_bytes = 0> {
      kernel "dispatch" on all_to_all F <0 flops, 40 bytes> I <0 flops, 40 bytes>
      kernel "expert" on matrix routed F <200 flops, 0 bytes> I <200 flops, 0 bytes>
      kernel "combine" on all_to_all F <0 flops, 40 bytes> I <0 flops, 40 bytes>
    }
  }
  pipe.schedule @paired workers 1 microbatches 2 model @experts {
    path on [0]
    worker 0 runs [0F0 0F1+0B0 0B1]
  }
  pipe.schedule @in_turn workers 1 microbatches 2 model @experts {
    path on [0]
    worker 0 runs [0F0 0F1 0B0 0B1]
  }
}
