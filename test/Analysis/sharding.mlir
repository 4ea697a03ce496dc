// RUN: sed s/SHARDING/full/ %s | pipesched-translate --export-report --transport=delay | FileCheck %s --check-prefix=FULL
// RUN: sed s/SHARDING/full/ %s | pipesched-opt --pass-pipeline='builtin.module(convert-pipe-to-exec)' | pipesched-translate --export-report --transport=delay | FileCheck %s --check-prefix=FULL
// RUN: sed s/SHARDING/full/ %s | pipesched-opt --pass-pipeline='builtin.module(pipe-add-optimizer)' | pipesched-translate --export-report --transport=delay | FileCheck %s --check-prefix=STEP
// RUN: sed s/SHARDING/gradients/ %s | pipesched-translate --export-report --transport=delay | FileCheck %s --check-prefix=GRADIENTS
// RUN: sed s/SHARDING/full-kept/ %s | pipesched-translate --export-report --transport=delay | FileCheck %s --check-prefix=KEPT
// RUN: sed s/SHARDING/full/ %s | pipesched-opt --pass-pipeline='builtin.module(pipe-attach-profile{times="F=1us"})' | pipesched-translate --export-report --transport=delay | FileCheck %s --check-prefix=MEASURED

// A stage has two layers, each with F 100 ps, B 260 ps, and 20 bytes of weights and of
// gradients. Four peers gather 20 bytes in 3 (5 * 10 + 7) = 171 ps; summing gradients
// takes as long. The weights of a layer are gathered while the layer before computes:
//
//   F   171 + max(100, 171) + 100                      = 442, of which 200 compute
//   B   171 + max(260, 171) + max(260, 171) + 171      = 862, of which 520 compute
//
// The makespan is 2 (442 + 862 + 50 + 7). A worker sends a message of 5 bytes, and 15
// bytes for each of two layers in F and twice as many in B. It holds a quarter of 40
// bytes of weights, 40 of gradients and 240 of state, and for a while two layers of
// weights and one of gradients. Time in which its cells wait is not compute; the bubble of the
// table is what is left without cells.
// FULL: "makespan_ps": 2722,
// FULL-NEXT: "busy_ps": [720, 720],
// FULL-NEXT: "idle_ratio": 0.73548861131520
// FULL: "span_bubble_ratio": 0.52094048493754
// FULL: "imbalance": [0, 0],
// FULL-NEXT: "weights": [584, 584],
// FULL-NEXT: "experts": [0, 0],
// FULL: "bytes_sent": [95, 95],
// FULL-NEXT: "exposed_sharding_ps": [584, 584],
// FULL: "persistent_bytes": [140, 140],
// FULL: "weight_bytes": [50, 50],
// FULL-NEXT: "gradient_bytes": [30, 30],
// FULL-NEXT: "optimizer_bytes": [60, 60],

// Nothing is left for G. O reads 10 bytes of gradients, moves 2 * 60 of state and writes
// 10 of weights.
// STEP: "makespan_ps": 2862,

// Weights are whole, so that only gradients move: B is 260 + max(260, 171) + 171.
// GRADIENTS: "makespan_ps": 1896,
// GRADIENTS: "bytes_sent": [35, 35],
// GRADIENTS-NEXT: "exposed_sharding_ps": [171, 171],
// GRADIENTS: "weight_bytes": [40, 40],
// GRADIENTS-NEXT: "gradient_bytes": [30, 30],
// GRADIENTS-NEXT: "optimizer_bytes": [60, 60],

// Nothing moves in cells.
// KEPT: "makespan_ps": 1554,
// KEPT: "bytes_sent": [5, 5],
// KEPT-NEXT: "exposed_sharding_ps": [0, 0],
// KEPT: "weight_bytes": [40, 40],
// KEPT-NEXT: "gradient_bytes": [40, 40],
// KEPT-NEXT: "optimizer_bytes": [60, 60],

// Of a measured F two layers compute 500000 ps each. Its first gather takes 171 ps and the
// second hides: 2 (171 + 1000000 + 862 + 57).
// MEASURED: "makespan_ps": 2002180,
// MEASURED-NEXT: "busy_ps": [1000520, 1000520],
// MEASURED: "bytes_sent": [95, 95],
// MEASURED-NEXT: "exposed_sharding_ps": [513, 513],
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 1000000000000>, vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 5000,
    data_parallel = 4, sharding = "SHARDING">,
  "network" = #pipe.network_spec<bytes_per_s = 100000000000, latency_ps = 7>>} {
  pipe.model @m microbatch_size 1 boundary_bytes 5 state_bytes [2, 2, 12] {
    block "layer" x 4 parameters 10 activation_bytes 50 {
      kernel "linear" on matrix F <100 flops, 60 bytes> I <200 flops, 60 bytes> W <10 flops, 60 bytes>
    }
  }
  pipe.schedule @s workers 2 microbatches 1 model @m {
    path on [0, 1]
    worker 0 runs [0F0 0B0]
    worker 1 runs [1F0 1B0]
  }
}
