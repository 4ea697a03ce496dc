// RUN: pipesched-translate --export-report %s | FileCheck %s

// The model of shards-vocabulary.mlir with cells for its embedding: what S, T, X and Y have there
// of lookups is in E, V, C and A. A matrix FLOP and a byte of memory take 1 ps, a byte of the
// network 10 ps, and a message 7 ps more.
//
//   E    24 bytes, of whose 8 of rows a shard reads 4      20
//   V    12 of the 24 bytes of the lookup's gradients      12
//   A    8 bytes of the embedding's output, and 7          87
//   C    as many of its gradient                           87
//   S    80 of the head, 24 and 16 of the passes          120
//   T    40 + 40 of the head, 64 and 24 of the passes     168
//   X    24 bytes of the output, and 7                    247
//   Y    2 messages of 8 bytes                            174
//   E [0,20]  A [20,107]  0F0 [107,207]  1F0 [294,418]  X [418,665]  S [665,785]  Y [785,959]
//   T [959,1127]  Z [1127,1374]  1B0 [1374,1558]  0B0 [1645,1805]  C [1805,1892]  V [1892,1904]
// Workers are as busy as there: each lookup counts once.
// CHECK: "schedule": "vocab1"
// CHECK: "makespan_ps": 1904,
// CHECK-NEXT: "busy_ps": [580, 628],
// Of one microbatch nothing is held next to S and T.
// CHECK: "peak_bytes": [725, 721]

// Vocab-2: S [665,889] has 224 then, Y 414 less the 2 x 80 of the embedding's output [889,1183],
// 1B0 [1183,1367]  0B0 [1454,1614]  C [1614,1701]  V [1701,1713].
// CHECK: "schedule": "vocab2"
// CHECK: "makespan_ps": 1713,
// CHECK-NEXT: "busy_ps": [716, 764],

// Worker 0 keeps the 8 bytes of the output of microbatch 1 during S0, both workers those of the
// gradient of microbatch 0 during S1.
// CHECK: "schedule": "held"
// CHECK: "peak_bytes": [733, 729]

// Where outputs are large, 80 bytes, worker 1 holds three until A0 has summed the first: 240, more
// than the 8 + 200 of S.
// CHECK: "schedule": "ahead"
// CHECK: "peak_activation_bytes": [{{[0-9]+}}, 240]

module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 1000000000000>, vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 5000>,
  "network" = #pipe.network_spec<bytes_per_s = 100000000000, latency_ps = 7>>} {
  pipe.model @m microbatch_size 1 boundary_bytes 8 state_bytes [2, 2, 12] sequence 2 vocabulary 5 {
    block "embedding" first parameters 14 activation_bytes 4 {
      kernel "lookup" on vector F <0 flops, 24 bytes> W <4 flops, 24 bytes>
    }
    block "layer" x 2 parameters 20 activation_bytes 8 {
      kernel "linear" on matrix F <100 flops, 0 bytes> I <100 flops, 0 bytes> W <60 flops, 0 bytes>
    }
    block "head" last parameters 12 activation_bytes 40 {
      kernel "logits" on matrix F <100 flops, 0 bytes> I <50 flops, 0 bytes> W <50 flops, 0 bytes>
    }
  }
  pipe.model @wide microbatch_size 1 boundary_bytes 80 state_bytes [2, 2, 12] sequence 2 vocabulary 5 {
    block "embedding" first parameters 14 activation_bytes 4 {
      kernel "lookup" on vector F <0 flops, 24 bytes> W <4 flops, 24 bytes>
    }
    block "layer" x 2 parameters 20 activation_bytes 8 {
      kernel "linear" on matrix F <100 flops, 0 bytes> I <100 flops, 0 bytes> W <60 flops, 0 bytes>
    }
    block "head" last parameters 12 activation_bytes 40 {
      kernel "logits" on matrix F <100 flops, 0 bytes> I <50 flops, 0 bytes> W <50 flops, 0 bytes>
    }
  }
  pipe.schedule @vocab1 workers 2 microbatches 1 model @m {
    path on [0, 1]
    worker 0 runs [0E0 0A0 0F0 0X0 0S0 0Y0 0T0 0Z0 0B0 0C0 0V0]
    worker 1 runs [1E0 1A0 1F0 1X0 1S0 1Y0 1T0 1Z0 1B0 1C0 1V0]
  }
  pipe.schedule @vocab2 workers 2 microbatches 1 model @m {
    path on [0, 1]
    worker 0 runs [0E0 0A0 0F0 0X0 0S0 0Y0 0T0 0B0 0C0 0V0]
    worker 1 runs [1E0 1A0 1F0 1X0 1S0 1Y0 1B0 1C0 1T0 1V0]
  }
  pipe.schedule @held workers 2 microbatches 2 model @m {
    path on [0, 1]
    worker 0 runs [0E0 0A0 0E1 0A1 0F0 0X0 0S0 0Y0 0T0 0Z0 0B0 0C0 0F1 0X1 0S1 0Y1 0T1 0Z1 0B1 0C1 0V0 0V1]
    worker 1 runs [1E0 1A0 1E1 1A1 1F0 1X0 1S0 1Y0 1T0 1Z0 1B0 1C0 1F1 1X1 1S1 1Y1 1T1 1Z1 1B1 1C1 1V0 1V1]
  }
  pipe.schedule @ahead workers 2 microbatches 3 model @wide {
    path on [0, 1]
    worker 0 runs [0E0 0E1 0E2 0A0 0A1 0A2 0F0 0X0 0S0 0Y0 0T0 0Z0 0B0 0C0 0V0 0F1 0X1 0S1 0Y1 0T1 0Z1 0B1 0C1 0V1 0F2 0X2 0S2 0Y2 0T2 0Z2 0B2 0C2 0V2]
    worker 1 runs [1E0 1E1 1E2 1A0 1A1 1A2 1F0 1X0 1S0 1Y0 1T0 1Z0 1B0 1C0 1V0 1F1 1X1 1S1 1Y1 1T1 1Z1 1B1 1C1 1V1 1F2 1X2 1S2 1Y2 1T2 1Z2 1B2 1C2 1V2]
  }
}
