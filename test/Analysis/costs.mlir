// RUN: split-file %s %t
// RUN: pipesched-translate --export-report --transport=delay %t/roofline.mlir | FileCheck %s
// RUN: pipesched-opt %t/roofline.mlir --pass-pipeline='builtin.module(convert-pipe-to-exec)' | pipesched-translate --export-report --transport=delay | FileCheck %s
// RUN: pipesched-opt %t/roofline.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=1us"})' | pipesched-translate --export-report --transport=delay | FileCheck %s --check-prefix=OVERLAY
// RUN: not pipesched-translate --export-report %t/no-network.mlir 2>&1 | FileCheck %s --check-prefix=NETWORK
// RUN: not pipesched-translate --export-report %t/no-system.mlir 2>&1 | FileCheck %s --check-prefix=SYSTEM
// RUN: not pipesched-translate --export-report %t/ragged.mlir 2>&1 | FileCheck %s --check-prefix=RAGGED
// RUN: not pipesched-translate --export-report %t/split.mlir 2>&1 | FileCheck %s --check-prefix=SPLIT

// A matrix FLOP and a byte of memory take 1 ps each, a byte of the network 10 ps, and a
// message 7 ps more. A stage has two layers: F 2 * 100, B 2 * (200 + 60); a message is
// 5 bytes. The makespan is 2 (200 + 520 + 50 + 7).
// CHECK: "makespan_ps": 1554,
// CHECK: "bytes_sent": [5, 5],
// 2 * 10 parameters of 16 bytes, 2 * 50 bytes of activations, 5000 of memory.
// CHECK: "persistent_bytes": [320, 320]
// CHECK: "peak_activation_bytes": [100, 100]
// CHECK: "capacity_bytes": 5000

// F is from the profile, the rest from the roofline: 2 (1000000 + 520 + 57).
// OVERLAY: "makespan_ps": 2001154,

// NETWORK: no-network.mlir:1:1: error: target system has no "network" = #pipe.network_spec<...>
// SYSTEM: no-system.mlir:6:1: error: 'pipe.schedule' op model 'm' has no times: attach a system or a profile
// RAGGED: ragged.mlir:12:1: error: 'pipe.schedule' op the 2 stages of path 0 do not divide the model's 3 layers; stage counts that do: 1 and 3
// SPLIT: split.mlir:1:1: error: 'pipe.schedule' op the schedule has split backward cells, the profile gives only B; give I and W

//--- roofline.mlir
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
  pipe.schedule @s workers 2 microbatches 1 model @m {
    path on [0, 1]
    worker 0 runs [0F0 0B0]
    worker 1 runs [1F0 1B0]
  }
}

//--- no-network.mlir
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>,
    memory = <bytes_per_s = 1>, memory_bytes = 1>>} {
  pipe.schedule @s workers 1 microbatches 1 {
    path on [0]
    worker 0 runs [0F0 0B0]
  }
}

//--- no-system.mlir
pipe.model @m microbatch_size 1 boundary_bytes 5 state_bytes [2, 2, 12] {
  block "layer" x 4 parameters 10 activation_bytes 50 {
    kernel "linear" on matrix F <100 flops, 60 bytes>
  }
}
pipe.schedule @s workers 1 microbatches 1 model @m {
  path on [0]
  worker 0 runs [0F0 0B0]
}

//--- ragged.mlir
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>,
    memory = <bytes_per_s = 1>, memory_bytes = 1>,
  "network" = #pipe.network_spec<bytes_per_s = 1>>} {
pipe.model @m microbatch_size 1 boundary_bytes 5 state_bytes [2, 2, 12] {
  block "layer" x 3 parameters 10 activation_bytes 50 {
    kernel "linear" on matrix F <100 flops, 60 bytes>
  }
}

pipe.schedule @s workers 2 microbatches 1 model @m {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}
}

//--- split.mlir
pipe.schedule @s workers 1 microbatches 1 profile <"F=1ps,B=2ps"> {
  path on [0]
  worker 0 runs [0F0 0I0 0W0]
}
