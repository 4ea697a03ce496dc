// RUN: pipesched-translate --export-report %s | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec)' | pipesched-translate --export-report | FileCheck %s

// The ring of context-parallel.mlir, whose second forward and first backward
// overlap. As in a step without pairs, each F passes on 40 bytes per rank in 20
// ps after its attention, and each B 120 in 60 ps, of which 20 are seen.
//
//   worker 0   0F0 [0,100]  0F1+0B0 [100,320]  0B1 [320,440]

// CHECK:     "{{schedule|program}}": "by_model",
// CHECK:     "makespan_ps": 440,
// CHECK:     "context_exchange_ps": [160],
// CHECK-NEXT: "exposed_context_exchange_ps": [40],
// CHECK-NEXT: "context_exchange_bytes": [320],

// A measured pair does not say what of it is an exchange: one F and one B are
// left.
//
//   worker 0   0F0 [0,100]  0F1+0B0 [100,250]  0B1 [250,370]

// CHECK:     "{{schedule|program}}": "measured",
// CHECK:     "makespan_ps": 370,
// CHECK:     "context_exchange_ps": [80],
// CHECK-NEXT: "exposed_context_exchange_ps": [20],
// CHECK-NEXT: "context_exchange_bytes": [160],
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 2,
    matrix = <flops_per_s = 1000000000000>,
    vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000,
    link = <bytes_per_s = 1000000000000>, context_parallel = 2>,
  "network" = #pipe.network_spec<bytes_per_s = 1000000000000>>} {
  pipe.model @attention microbatch_size 1 boundary_bytes 8 state_bytes [2, 2, 12] {
    block "layer" parameters 8 activation_bytes 8 {
      kernel "exchange" on context core F <0 flops, 40 bytes> I <0 flops, 80 bytes>
      kernel "attention" on matrix core F <200 flops, 0 bytes> I <200 flops, 0 bytes>
    }
  }
  pipe.schedule @by_model workers 1 microbatches 2 model @attention {
    path on [0]
    worker 0 runs [0F0 0F1+0B0 0B1]
  }
  pipe.schedule @measured workers 1 microbatches 2 model @attention profile <"FB=150ps"> {
    path on [0]
    worker 0 runs [0F0 0F1+0B0 0B1]
  }
}
