// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt-raw %s -mlir-print-op-generic | pipesched-opt | FileCheck %s
// RUN: pipesched-opt-raw %s -emit-bytecode | pipesched-opt | FileCheck %s
// RUN: pipesched-opt %s -canonicalize -cse | FileCheck %s

// Results are named after the path, and the stage if the worker has several. No pass
// drops or moves an all-reduce.
// CHECK-LABEL: exec.program @mirrored
// CHECK:      worker 0 {
// CHECK-NEXT:   %b0 = compute 0B0
// CHECK-NEXT:   %f1_w1 = compute 1F1+1W1
// CHECK-NEXT:   %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
// CHECK-NEXT:   %ar1_1 = all_reduce 1G1 blocks 1 to 2 after %f1_w1, %b0 bytes 64 {test.a}
// CHECK-NEXT:   %o0 = compute 0O0 after %ar0
// CHECK-NEXT:   wait after %ar1_1
// CHECK-NEXT:   %o1_1 = compute 1O1
// CHECK-NEXT: }
// CHECK-NEXT: worker 1 {
// CHECK-NEXT:   %b0 = compute 1B0
// CHECK-NEXT:   %b1_0 = compute 0B1
// CHECK-NEXT:   %ar0 = all_reduce 1G0 blocks 1 to 2 after %b0 bytes 64
// CHECK-NEXT:   %ar1_0 = all_reduce 0G1 blocks 0 to 1 after %b1_0
exec.program @mirrored workers 2 microbatches 2 {
  pipe.path on [0, 1] takes [0]
  pipe.path on [1, 0] takes [1]
  worker 0 {
    %0 = compute 0B0
    %1 = compute 1F1+1W1
    %2 = all_reduce 0G0 blocks 0 to 1 after %0
    %3 = all_reduce 1G1 blocks 1 to 2 after %1, %0 bytes 64 {test.a}
    %4 = compute 0O0 after %2
    wait after %3
    %5 = compute 1O1
  }
  worker 1 {
    %0 = compute 1B0
    %1 = compute 0B1
    %2 = all_reduce 1G0 blocks 1 to 2 after %0 bytes 64
    %3 = all_reduce 0G1 blocks 0 to 1 after %1
  }
}

// Blocks may be reduced in parts, and some not at all; a worker may be the only member.
// CHECK-LABEL: exec.program @parts
// CHECK:   %ar0 = all_reduce 0G0 blocks 0 to 3 after %b0
// CHECK:   %ar0_0 = all_reduce 0G0 blocks 3 to 8 after %b0
// CHECK-LABEL: exec.program @pinned
// CHECK:   all_reduce 0G0 blocks 0 to 0 after
exec.program @parts workers 1 microbatches 1 {
  pipe.path on [0] blocks [10]
  worker 0 {
    %0 = compute 0B0
    %1 = all_reduce 0G0 blocks 0 to 3 after %0
    %2 = all_reduce 0G0 blocks 3 to 8 after %0
  }
}
exec.program @pinned workers 1 microbatches 1 {
  pipe.path on [0, 0] blocks [0, 10]
  worker 0 {
    %0 = compute 0B0
    %1 = all_reduce 0G0 blocks 0 to 0 after %0
  }
}

// Worker 0 holds the blocks for two paths: one all-reduce waits for the gradients of both,
// since 0B1 ends after 0B0.
// CHECK-LABEL: exec.program @shared
// CHECK:   %ar0 = all_reduce 0G0 blocks 0 to 1 after %b1
// CHECK-NEXT:   %o0 = compute 0O0 after %ar0
exec.program @shared workers 2 microbatches 3 {
  pipe.path on [0] takes [0]
  pipe.path on [0] takes [1]
  pipe.path on [1] takes [2]
  worker 0 {
    %0 = compute 0B0
    %1 = compute 0B1
    %2 = all_reduce 0G0 blocks 0 to 1 after %1
    %3 = compute 0O0 after %2
  }
  worker 1 {
    %0 = compute 0B2
    %1 = all_reduce 0G2 blocks 0 to 1 after %0
  }
}
