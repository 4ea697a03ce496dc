// Offloaded slices leave their keys and values where later slices read them.
// RUN: split-file %s %t

// A slice keeps 48 bytes, 8 of them keys and values. When slice 1 runs, those 8
// are left of slice 0; its backward takes 8 more, for their gradients.
// RUN: cat %t/costs.mlir %t/early.mlir > %t/1.mlir
// RUN: pipesched-translate --export-report %t/1.mlir | FileCheck %s --check-prefix=EARLY
// RUN: pipesched-opt %t/1.mlir --pipe-verify='memory=64B' -o /dev/null
// RUN: not pipesched-opt %t/1.mlir --pipe-verify='memory=63B' 2>&1 | FileCheck %s --check-prefix=LESS
// EARLY: "peak_activation_bytes": [64]
// EARLY: "offloaded_bytes": [40]
// LESS: error: {{.*}}64

// Behind the last forward and back before the last backward all leaves: the
// peak is at the backward, of two slices and the gradients.
// RUN: cat %t/costs.mlir %t/late.mlir > %t/2.mlir
// RUN: pipesched-translate --export-report %t/2.mlir | FileCheck %s --check-prefix=LATE
// RUN: pipesched-opt %t/2.mlir --pipe-verify='memory=104B' -o /dev/null
// LATE: "peak_activation_bytes": [104]
// LATE: "offloaded_bytes": [96]

// Back too late for the backward of the last slice.
// RUN: cat %t/costs.mlir %t/behind.mlir > %t/3.mlir
// RUN: pipesched-translate --export-report %t/3.mlir | FileCheck %s --check-prefix=BEHIND
// BEHIND: "offloaded_bytes": [88]

// Three slices of 32 bytes with keys and values of 4, 4 and 8: at the forward of
// the last, 4 + 4 are left of the others.
// RUN: sed -e 's/memory_bytes = 1000000/&, slice_cut = [2, 2, 4]/' %t/costs.mlir > %t/cut.mlir
// RUN: cat %t/cut.mlir %t/three.mlir > %t/4.mlir
// RUN: pipesched-translate --export-report %t/4.mlir | FileCheck %s --check-prefix=THREE
// RUN: pipesched-opt %t/4.mlir --pipe-verify='memory=64B' -o /dev/null
// RUN: not pipesched-opt %t/4.mlir --pipe-verify='memory=63B' -o /dev/null
// THREE: "peak_activation_bytes": [64]

//--- costs.mlir
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 1000000000000>, vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000,
    host = <bytes_per_s = 1000000000000>>,
  "network" = #pipe.network_spec<bytes_per_s = 1000000000000>>} {
pipe.model @toy microbatch_size 1 boundary_bytes 8 state_bytes [0, 0, 0] sequence 8 {
  block "layer" x 1 parameters 8 activation_bytes 96 {
    kernel "linear" on matrix F <400000 flops, 0 bytes> I <400000 flops, 0 bytes> W <400000 flops, 0 bytes>
    kernel "exchange" on context core sees 8 tokens F <0 flops, 16 bytes> I <0 flops, 32 bytes>
  }
}
//--- early.mlir
pipe.schedule @s workers 1 microbatches 1 slices 2 model @toy {
  path on [0]
  worker 0 runs [0F0.0 0D0.0 0d0.0 0F0.1 0B0.1 0U0.0 0B0.0]
}
}
//--- late.mlir
pipe.schedule @s workers 1 microbatches 1 slices 2 model @toy {
  path on [0]
  worker 0 runs [0F0.0 0F0.1 0D0.0 0D0.1 0d0.1 0U0.0 0U0.1 0B0.1 0B0.0]
}
}
//--- behind.mlir
pipe.schedule @s workers 1 microbatches 1 slices 2 model @toy {
  path on [0]
  worker 0 runs [0F0.0 0F0.1 0D0.0 0D0.1 0d0.1 0U0.1 0B0.1 0U0.0 0B0.0]
}
}
//--- three.mlir
pipe.schedule @s workers 1 microbatches 1 slices 3 model @toy {
  path on [0]
  worker 0 runs [0F0.0 0D0.0 0d0.0 0F0.1 0D0.1 0d0.1 0F0.2 0B0.2 0U0.1 0B0.1 0U0.0 0B0.0]
}
}
