// RUN: rm -rf %t && split-file %s %t
// RUN: pipesched-translate --export-report %t/reduced.mlir | FileCheck %s
// RUN: sed 's/data_parallel = 2/&, sharding = "full"/' %t/reduced.mlir > %t/gathered.mlir
// RUN: not pipesched-translate --export-report %t/gathered.mlir 2>&1 | FileCheck %s --check-prefix=GATHERED
// RUN: not pipesched-translate --export-report %t/paths.mlir 2>&1 | FileCheck %s --check-prefix=PATHS

// Two pipelines sum their gradients over the network, whose bytes take 10 ps and whose
// messages 7 ps more. Each worker has 20 parameters of its layer, 40 bytes, and after
// them 6 of the head and 7 of the embedding, 26 bytes: 2 messages of 20 bytes, 207 ps
// each, and 2 of 13, 137 ps each. Without G the step takes 1442 ps (shards-model.mlir).
// CHECK: "schedule": "vocab"
// CHECK: "makespan_ps": 2130,

// A table that embedding and head share is summed once, 7 of its 14 parameters on each
// worker, 14 bytes: 2 messages of 7 bytes, 77 ps each.
// CHECK: "schedule": "tied"
// CHECK: "makespan_ps": 2010,

// GATHERED: shards of a vocabulary have no costs by model where cells gather weights (sharding=full); give a profile, or take sharding=optimizer
// PATHS: the all-reduces of shards of a vocabulary (G) have costs by model on one path only, and the placement has 2; give a profile

//--- reduced.mlir
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 1000000000000>, vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 5000, data_parallel = 2>,
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
  pipe.schedule @vocab workers 2 microbatches 1 model @m {
    path on [0, 1]
    worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0B0 0G0]
    worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0 1G0]
  }
  pipe.model @t microbatch_size 1 boundary_bytes 8 state_bytes [2, 2, 12] sequence 2 {
    block "embedding" first parameters 14 activation_bytes 4 {
    }
    block "layer" x 2 parameters 20 activation_bytes 8 {
      kernel "linear" on matrix F <100 flops, 0 bytes> I <100 flops, 0 bytes> W <60 flops, 0 bytes>
    }
    block "head" last parameters 14 tied_parameters 14 activation_bytes 40 {
      kernel "logits" on matrix F <80 flops, 0 bytes> I <40 flops, 0 bytes> W <40 flops, 0 bytes>
    }
  }
  pipe.schedule @tied workers 2 microbatches 1 model @t {
    path on [0, 1]
    worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0B0 0G0]
    worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0 1G0]
  }
}

//--- paths.mlir
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 1000000000000>, vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 5000>,
  "network" = #pipe.network_spec<bytes_per_s = 100000000000, latency_ps = 7>>} {
  pipe.model @m microbatch_size 1 boundary_bytes 8 state_bytes [2, 2, 12] sequence 2 {
    block "layer" x 2 parameters 20 activation_bytes 8 {
      kernel "linear" on matrix F <100 flops, 0 bytes> I <100 flops, 0 bytes> W <60 flops, 0 bytes>
    }
    block "head" last parameters 12 activation_bytes 40 {
      kernel "logits" on matrix F <80 flops, 0 bytes> I <40 flops, 0 bytes> W <40 flops, 0 bytes>
    }
  }
  pipe.schedule @vocab workers 2 microbatches 2 model @m {
    path on [0, 1] takes [0]
    path on [1, 0] takes [1]
    worker 0 runs [0F0 1F1 0X0 0S0 0Y0 0T0 0Z0 1X1 1S1 1Y1 1T1 1Z1 1B1 0B0 0G0 1G1]
    worker 1 runs [0F1 1F0 1X0 1S0 1Y0 1T0 1Z0 0X1 0S1 0Y1 0T1 0Z1 1B0 0B1 0G1 1G0]
  }
}
