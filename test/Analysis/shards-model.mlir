// RUN: pipesched-translate --export-report %s | FileCheck %s

// A matrix FLOP takes 1 ps, a byte of the network 10 ps, and a message 7 ps more. The
// head has 80 + 80 FLOPs, of which each of two workers has a half. The last output has 8
// bytes, in 32 bits with one more column for 2 tokens 16 + 8, and a maximum and a sum of
// each token have 16.
//
//   0F0 [0,100]  1F0 [187,287]  X: 24 bytes and 7 [287,534]  S [534,574]
//   Y: 2 messages of 8 bytes [574,748]  T [748,788]  Z: as X [788,1035]
//   1B0 [1035,1195]  0B0 [1282,1442]
// CHECK: "schedule": "vocab1"
// CHECK: "makespan_ps": 1442,
// CHECK-NEXT: "busy_ps": [340, 340],

// A worker has 20 parameters of its layer, 6 of the head and 7 of the embedding, of 16 bytes
// each, 8 bytes of activations of the layer, and from S to T 40 / 2 of the head and the
// output's 24. The first one has 4 bytes of activations of the embedding.
// CHECK: "peak_bytes": [584, 580]

// Vocab-2: S has I of the shard too, Y also sums the 24 bytes of the output's gradient,
// and B does not wait for T.
//
//   S [534,594]  Y: 20 bytes and 7, 8 bytes and 7 [594,888]  1B0 [888,1048]
//   0B0 [1135,1295]
// CHECK: "schedule": "vocab2"
// CHECK: "makespan_ps": 1295,
// CHECK-NEXT: "busy_ps": [340, 340],
// CHECK: "peak_bytes": [584, 580]

// A table that embedding and head share counts once, 7 of its 14 parameters next to two layers.
// CHECK: "schedule": "tied"
// CHECK: "peak_bytes": [816, 812]

// Also where one worker has both ends.
// CHECK: "schedule": "both_ends"
// CHECK: "peak_bytes": [816, 812]
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 1000000000000>, vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 5000>,
  "network" = #pipe.network_spec<bytes_per_s = 100000000000, latency_ps = 7>>} {
  pipe.model @m microbatch_size 1 boundary_bytes 8 state_bytes [2, 2, 12] sequence 2 {
    block "embedding" first parameters 14 activation_bytes 4 {
    }
    block "layer" x 2 parameters 20 activation_bytes 8 {
      kernel "linear" on matrix F <100 flops, 0 bytes> I <100 flops, 0 bytes> W <60 flops, 0 bytes>
    }
    block "head" last parameters 12 activation_bytes 40 {
      kernel "logits" on matrix F <80 flops, 0 bytes> I <40 flops, 0 bytes> W <40 flops, 0 bytes>
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
  pipe.model @t microbatch_size 1 boundary_bytes 8 state_bytes [2, 2, 12] sequence 2 {
    block "embedding" first parameters 14 activation_bytes 4 {
    }
    block "layer" x 4 parameters 20 activation_bytes 8 {
      kernel "linear" on matrix F <100 flops, 0 bytes> I <100 flops, 0 bytes> W <60 flops, 0 bytes>
    }
    block "head" last parameters 14 tied_parameters 14 activation_bytes 40 {
      kernel "logits" on matrix F <80 flops, 0 bytes> I <40 flops, 0 bytes> W <40 flops, 0 bytes>
    }
  }
  pipe.schedule @tied workers 2 microbatches 1 model @t {
    path on [0, 1]
    worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0B0]
    worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0]
  }
  pipe.schedule @both_ends workers 2 microbatches 1 model @t {
    path on [0, 1, 1, 0]
    worker 0 runs [0F0 3F0 3X0 3S0 3Y0 3T0 3Z0 3B0 0B0]
    worker 1 runs [1F0 2F0 2X0 2S0 2Y0 2T0 2Z0 2B0 1B0]
  }
}
