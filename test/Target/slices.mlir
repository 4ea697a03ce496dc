// RUN: pipesched-translate --export-report %s | FileCheck %s
// RUN: pipesched-translate --export-text %s | FileCheck %s --check-prefix=TEXT
// RUN: pipesched-translate --export-svg --svg-variant=slots %s | FileCheck %s --check-prefix=SVG
// RUN: pipesched-translate --export-chrome-trace %s | FileCheck %s --check-prefix=TRACE
// RUN: pipesched-opt %s --pipe-verify=messages=fifo -o /dev/null
// RUN: not pipesched-opt %s --pipe-verify='memory=9B' 2>&1 | FileCheck %s --check-prefix=BUDGET

// Two stages, one microbatch of two slices of two tokens each. A layer computes
// 400 ps in F and in B, half of it in each slice. In the attention the four
// tokens see 1 + 2 + 3 + 4 tokens, so that slices have 3 and 7 of its 100 ps in F
// and of its 200 ps in B. A message of 4 of 8 bytes takes 4 ps.
//
//   worker 0   0F0.0 [0,230]  0F0.1 [230,500]    0B0.1 [1118,1458]  0B0.0 [1458,1718]
//   worker 1   1F0.0 [234,464]  1F0.1 [504,774]  1B0.1 [774,1114]   1B0.0 [1114,1374]

// CHECK:      "microbatches": 1,
// CHECK-NEXT: "slices": 2,
// CHECK:      "slots": 9,
// CHECK:      "makespan_ps": 1718,
// CHECK-NEXT: "busy_ps": [1100, 1100],
// CHECK:      "bytes_sent": [8, 8],
// CHECK:      "critical_path": ["0F0.0", "0F0.1", "1F0.1", "1B0.1", "0B0.1", "0B0.0"],

// Both slices hold 4 of 8 bytes. The keys and values of the first one take 2
// bytes, of which the backward of the second one makes the gradients: 10 bytes
// while it runs, 6 when it has ended.
// CHECK:      "peak_activation_bytes": [10, 10],
// CHECK:      "peak_cell": ["0B0.1", "1B0.1"],

// TEXT: 0F0.0

// Slices have shades.
// SVG: dark to light: slice 0 to 1
// SVG: <title>0F0.1: slots 1 to 2</title>

// TRACE: "name":"0F0.1"{{.*}}"microbatch":0,"slice":1

// BUDGET: worker 0 holds 10 bytes at cell 2 (0B0.1), 1 byte more than the budget of 9 bytes
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 1000000000000>,
    vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000>,
  "network" = #pipe.network_spec<bytes_per_s = 1000000000000>>} {
  pipe.model @toy microbatch_size 1 boundary_bytes 8 state_bytes [0, 0, 0] sequence 4 {
    block "layer" x 2 parameters 8 activation_bytes 8 {
      kernel "exchange" on context core sees 4 tokens F <0 flops, 4 bytes> I <0 flops, 8 bytes>
      kernel "linear" on matrix F <400 flops, 0 bytes> I <400 flops, 0 bytes>
      kernel "attention" on matrix core sees 4 tokens F <100 flops, 0 bytes> I <200 flops, 0 bytes>
    }
  }
  pipe.schedule @seq workers 2 microbatches 1 slices 2 family "seq1f1b" model @toy {
    path on [0, 1]
    worker 0 runs [0F0.0 0F0.1 0B0.1 0B0.0]
    worker 1 runs [1F0.0 1F0.1 1B0.1 1B0.0]
  }
}
