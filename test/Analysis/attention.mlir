// RUN: sed s/KERNEL/flash-2/ %s | pipesched-translate --export-report | FileCheck %s
// RUN: sed s/KERNEL/flash-2/ %s | pipesched-opt --pass-pipeline='builtin.module(convert-pipe-to-exec)' | pipesched-translate --export-report | FileCheck %s
// RUN: sed s/KERNEL/flash-3/ %s | not pipesched-translate --export-report 2>&1 | FileCheck %s --check-prefix=NONE

// With six tokens the kernel has half of its peak of 1 TFLOP/s forward and a quarter
// backward: F takes 1000 * 2 ps, and a backward that runs the core again 1000 * 2 and
// 2500 * 4. The matrix engine is twice as fast, which does not matter.
// CHECK: "makespan_ps": 14000,

// NONE: kernel 'attention' of block 'layer' is flash-3 with heads of 4, for which the system 'toy' has no rates; it has: flash-2 with heads of 4
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 2000000000000>,
    vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000,
    attention = [<kernel = "flash-2", head_size = 4, flops_per_s = 1000000000000,
      forward = <3 : 1.0, 6 : 0.5>, backward = <0.25>>]>,
  "network" = #pipe.network_spec<bytes_per_s = 1000000000000>>} {
  pipe.model @attention microbatch_size 1 boundary_bytes 8 state_bytes [2, 2, 12] recompute selective {
    block "layer" parameters 8 activation_bytes 8 core_bytes 8 {
      kernel "attention" on attention shape <kernel = "KERNEL", head_size = 4, sequence = 6> core F <1000 flops, 9 bytes> I <2500 flops, 9 bytes>
    }
  }
  pipe.schedule @s workers 1 microbatches 1 model @attention {
    path on [0]
    worker 0 runs [0F0 0B0]
  }
}
