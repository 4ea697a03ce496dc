// RUN: split-file %s %t
// RUN: pipesched-opt %t/cpu.mlir -pipe-schedule-1f1b -pipe-verify=memory=2 -convert-pipe-to-exec \
// RUN:   -exec-verify -exec-annotate-timeline | FileCheck %t/cpu.mlir
// RUN: pipesched-opt %t/cpu.mlir -pipe-attach-system=name=h100-sxm -pipe-attach-system=name=toy \
// RUN:   | FileCheck %t/cpu.mlir --check-prefix=ATTACHED
// RUN: pipesched-opt %t/nested.mlir --pass-pipeline='builtin.module(builtin.module(exec-annotate-timeline))' \
// RUN:   | FileCheck %t/nested.mlir
// RUN: not pipesched-opt %t/taken.mlir -pipe-attach-system=name=toy 2>&1 | FileCheck %t/taken.mlir
// RUN: not pipesched-opt %t/part.mlir -exec-annotate-timeline 2>&1 | FileCheck %t/part.mlir

//--- cpu.mlir

// The target of another compiler says nothing of workers: cells take a slot of 1 us. A
// system is added to it, and replaces only another system.
// CHECK:    "CPU" = #dlti.target_device_spec<"L1" = 1 : i64>
// CHECK:    compute 1B1 {{.*}}exec.end_ps = 7000000 : i64
// ATTACHED: #dlti.target_system_spec<"CPU" = #dlti.target_device_spec<"L1" = 1 : i64>, "worker" = #pipe.worker_spec<name = "toy"
// ATTACHED-NOT: h100
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "CPU" = #dlti.target_device_spec<"L1" = 1>>} {
  pipe.schedule @s workers 2 microbatches 2 {
    path on [0, 1]
  }
}

//--- nested.mlir

// The system of an outer module holds where an inner one has only the target of others.
// CHECK: compute 0F0 flops 8 {exec.end_ps = 8 : i64
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
      matrix = <flops_per_s = 1000000000000>,
      vector = <flops_per_s = 1000000000000>,
      memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000>,
    "network" = #pipe.network_spec<bytes_per_s = 1000000000000>>} {
  module attributes {dlti.target_system_spec = #dlti.target_system_spec<
      "CPU" = #dlti.target_device_spec<"L1" = 1>>} {
    exec.program @p {
      worker 0 {
        %f0 = compute 0F0 flops 8
      }
    }
  }
}

//--- taken.mlir

// CHECK: error: target system has #dlti.target_device_spec<"L1" = 1 : i64> where the system belongs, under the key "worker"
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #dlti.target_device_spec<"L1" = 1>>} {}

//--- part.mlir

// CHECK: error: target system has no "worker" = #pipe.worker_spec<...>
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "network" = #pipe.network_spec<bytes_per_s = 1>>} {
  exec.program @p {
    worker 0 {
      %f0 = compute 0F0
    }
  }
}
