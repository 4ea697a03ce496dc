// RUN: pipesched-translate --export-report %s | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec)' | pipesched-translate --export-report | FileCheck %s

// One stage on two accelerators that divide the sequence, in a ring. Attention of
// F and of B takes 100 ps, in two steps of 50 ps. In F each passes on its 20 of 40
// bytes of keys and values in 20 ps, after a step. In B it does so again, then
// passes on 20 bytes of gradients after the second step, and 20 more when all
// attention is done: 20 ps of 60 are seen. In two of F and of B 4 x 20 and 4 x 60
// bytes go from one to the other.
//
//   worker 0   0F0 [0,100]  0F1 [100,200]  0B0 [200,320]  0B1 [320,440]

// CHECK:     "{{schedule|program}}": "ring",
// CHECK:     "makespan_ps": 440,
// CHECK:     "context_exchange_ps": [160],
// CHECK-NEXT: "exposed_context_exchange_ps": [40],
// CHECK-NEXT: "context_exchange_bytes": [320],
// CHECK-NEXT: "exposed_communication_ps": 0,
// CHECK-NEXT: "messages": 0,
// CHECK-NEXT: "bytes_sent": [0],

// A schedule of which no model is known passes nothing on.
// CHECK:     "{{schedule|program}}": "slots",
// CHECK-NOT: context_exchange
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
  pipe.schedule @ring workers 1 microbatches 2 model @attention {
    path on [0]
    worker 0 runs [0F0 0F1 0B0 0B1]
  }
  pipe.schedule @slots workers 1 microbatches 2 profile <"F=1us,B=2us"> {
    path on [0]
    worker 0 runs [0F0 0F1 0B0 0B1]
  }
}
