// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-optimizer)' -o %t.end
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-optimizer{all-reduce=eager})' -o %t.eager
// RUN: pipesched-translate --export-report %t.end | FileCheck %s --check-prefixes=CHECK,END
// RUN: pipesched-translate --export-report --transport=delay %t.end | FileCheck %s --check-prefixes=CHECK,END
// RUN: pipesched-translate --export-report --transport=blocking %t.end | FileCheck %s --check-prefixes=CHECK,BLOCKING
// RUN: pipesched-translate --export-report %t.eager | FileCheck %s --check-prefixes=CHECK,EAGER
// RUN: pipesched-translate --export-report --transport=delay %t.eager | FileCheck %s --check-prefixes=CHECK,EAGER
// RUN: pipesched-translate --export-report --transport=blocking %t.eager | FileCheck %s --check-prefixes=CHECK,BLOCKING
// RUN: pipesched-opt %t.eager --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-annotate-timeline)' | FileCheck %s --check-prefix=OVERLAP
// RUN: pipesched-opt %t.eager --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-annotate-timeline{transport=delay})' | FileCheck %s --check-prefix=DELAY
// RUN: pipesched-opt %t.end --pass-pipeline='builtin.module(pipe-attach-profile{times="G=1000ps"})' | pipesched-translate --export-report | FileCheck %s --check-prefix=PROFILE

// A matrix FLOP and a byte of memory take 1 ps each, a byte of the network 10 ps, and a
// message 7 ps more. A stage has two layers: F 2 * 100, B 2 * (200 + 60), 40 bytes of
// gradients. A message is 5 bytes. An all-reduce of two sends half of the gradients
// twice, 2 * (200 + 7). O moves 40 bytes of gradients, 2 * 240 of optimizer state and
// 40 of weights.
//
//   0F0 [0,200]  1F1 [257,457]  1B1 [457,977]  0B0 [1034,1554]
//
// Both stages are reduced after 0B0, one after the other, until 1968 and 2368:
// 0O0 [1968,2528], 1O1 [2528,3088].
// END:      "makespan_ps": 3088,
// END-NEXT: "busy_ps": [2560, 2560],
// END:      "dependency": [0, 0],
// END-NEXT: "queue_order": [0, 0],
// END-NEXT: "communication": [528, 528]

// Eager, stage 1 is reduced during 0B0, in parallel with the message of 1B1: [977,1377];
// 1O1 [1554,2114] runs during the all-reduce of stage 0, 0O0 [2114,2674].
// EAGER:      "makespan_ps": 2674,
// EAGER-NEXT: "busy_ps": [2560, 2560],
// EAGER:      "communication": [114, 114]

// If messages hold rows, all-reduces do too: nothing runs in parallel with them.
// BLOCKING:      "makespan_ps": 3502,
// BLOCKING-NEXT: "busy_ps": [2560, 2560],

// There are two messages, and two all-reduces that send half of 40 bytes twice.
// CHECK: "messages": 4,
// CHECK: "bytes_sent": [90, 90],
// EAGER: "critical_path": ["0F0", "1F0", "1B0", "0B0", "1O1", "0O0"],

// A measured G holds its queue for 1000 ps: 0O0 at 2554, 1O1 at 3554.
// PROFILE: "makespan_ps": 4114,

// OVERLAP-LABEL: worker 0
// OVERLAP: all_reduce 1G1 {{.*}} {exec.end_ps = 1391 : i64, exec.start_ps = 977 : i64}
// OVERLAP: all_reduce 0G0 {{.*}} {exec.end_ps = 1968 : i64, exec.start_ps = 1554 : i64}
// OVERLAP: compute 1O1 {{.*}} {exec.end_ps = 2114 : i64, exec.start_ps = 1554 : i64}
// OVERLAP-LABEL: worker 1
// OVERLAP: all_reduce 1G0 {{.*}} {exec.end_ps = 1391 : i64, exec.start_ps = 977 : i64}

// Under delay there is no queue to wait for.
// DELAY: all_reduce 1G1 {{.*}} {exec.end_ps = 1391 : i64, exec.start_ps = 977 : i64}
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 1000000000000>, vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 5000>,
  "network" = #pipe.network_spec<bytes_per_s = 100000000000, latency_ps = 7>>} {
  pipe.model @m microbatch_size 1 boundary_bytes 5 state_bytes [2, 2, 12] {
    block "layer" x 4 parameters 10 activation_bytes 50 {
      kernel "linear" on matrix F <100 flops, 60 bytes> I <200 flops, 60 bytes> W <10 flops, 60 bytes>
    }
  }
  pipe.schedule @mirrored workers 2 microbatches 2 model @m {
    path on [0, 1] takes [0]
    path on [1, 0] takes [1]
    worker 0 runs [0F0 1F1 1B1 0B0]
    worker 1 runs [0F1 1F0 1B0 0B1]
  }
}
