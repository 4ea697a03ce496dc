// RUN: pipesched-translate --export-report %s | FileCheck %s

// With its vocabulary known, a model is divided as its shards really are: 5 entries on two
// workers are padded to 8, 4 each, so that a shard has 4/5 of the head. A matrix FLOP and a
// byte of memory take 1 ps, a byte of the network 10 ps, and a message 7 ps more. The output
// has 4 elements, a shard 8 scores.
//
//   S    80 of the head, 24 for the input's cast, 16 for the maximum, 20 for the lookup, which
//        reads 4 of its 8 bytes of rows
//   T    40 + 40 of the head, 64 for the correction, 24 for the cast before Z, 12 of the
//        24 bytes of the lookup's gradients
//   X    24 bytes of the output, 8 of the embedding's gradient, and 7
//   Y    16 bytes of statistics and 2 x 8 of the embedding's output reduced, 16 gathered
//   1F   100 of the layer, 24 for the cast of its output, and as many for its gradient in 1B
//   0F0 [0,100]  1F0 [187,311]  X [311,638]  S [638,778]  Y [778,1032]  T [1032,1212]
//   Z [1212,1459]  1B0 [1459,1643]  0B0 [1730,1890]
// CHECK: "schedule": "vocab1"
// CHECK: "makespan_ps": 1890,
// CHECK-NEXT: "busy_ps": [580, 628],

// 20 parameters of the layer take 320 bytes; of the 24, 24 and 144 bytes of the head 4/5 are
// 20, 20 and 116; of the 28, 28 and 168 of the embedding 23, 23 and 135. From S to T a worker
// keeps 32 bytes of the head, and the 24 of the output.
// CHECK: "peak_bytes": [725, 721]

// Vocab-2: S also has I of the shard, the rows of the targets and both parts of the gradient,
// 40 + 16 + 48; T has no I, and casts the softmax and joins the parts, 48 + 48.
//   S [638,882]  Y, which also reduces 24 bytes [882,1256]  1B0 [1256,1440]  T [1440,1652]
//   0T0 [1256,1468]  0B0 [1527,1687]
// CHECK: "schedule": "vocab2"
// CHECK: "makespan_ps": 1687,
// CHECK-NEXT: "busy_ps": [716, 764],
// CHECK: "peak_bytes": [725, 721]

// O of each worker steps its layer, 20 parameters, and its parts of head and embedding, 10 and
// 12; for each it reads 2 bytes of gradient, writes 2 of weight, and does both with 12 of state.
//   0O0 [1890,3066]
// CHECK: "schedule": "steps"
// CHECK: "makespan_ps": 3066,
// CHECK-NEXT: "busy_ps": [1756, 1804],

// Where R makes the activations again, of which F then keeps nothing, T gives back the 56 that S
// took, so that all microbatches hold as much as the first.
// CHECK: "schedule": "again"
// CHECK: "peak_bytes": [713, 713]
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
  pipe.schedule @vocab1 workers 2 microbatches 1 model @m {
    path on [0, 1]
    worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0B0]
    worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0]
  }
  pipe.schedule @vocab2 workers 2 microbatches 1 model @m {
    path on [0, 1]
    worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0B0]
    worker 1 runs [1F0 1X0 1S0 1Y0 1B0 1T0]
  }
  pipe.schedule @steps workers 2 microbatches 1 model @m {
    path on [0, 1]
    worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0B0 0O0]
    worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0 1O0]
  }
  pipe.schedule @again workers 2 microbatches 3 model @m {
    path on [0, 1]
    worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0R0 0B0 0F1 0X1 0S1 0Y1 0T1 0Z1 0R1 0B1 0F2 0X2 0S2 0Y2 0T2 0Z2 0R2 0B2]
    worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1R0 1B0 1F1 1X1 1S1 1Y1 1T1 1Z1 1R1 1B1 1F2 1X2 1S2 1Y2 1T2 1Z2 1R2 1B2]
  }
}
