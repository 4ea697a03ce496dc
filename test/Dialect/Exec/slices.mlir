// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt %s --emit-bytecode | pipesched-opt | FileCheck %s
// RUN: pipesched-opt %s --mlir-print-op-generic | pipesched-opt | FileCheck %s

// Results of a slice have its number after that of its microbatch.
// CHECK-LABEL: exec.program @sliced workers 2 microbatches 2 slices 2 {
// CHECK:      worker 0 {
// CHECK-NEXT:   %f0_0 = compute 0F0.0
// CHECK-NEXT:   %s0_0 = send 0F0.0 to 1 after %f0_0
// CHECK-NEXT:   %f0_1 = compute 0F0.1
// CHECK-NEXT:   %s0_1 = send 0F0.1 to 1 after %f0_1
// CHECK-NEXT:   %g0_1 = recv 1B0.1 from 1
// CHECK-NEXT:   %f1_0_b0_1 = compute 0F1.0+0B0.1 after %f0_1, %g0_1
// CHECK-NEXT:   %d1_0 = offload 0D1.0 after %f1_0_b0_1
// CHECK:      worker 1 {
// CHECK-NEXT:   %act0_0 = recv 0F0.0 from 0
// CHECK-NEXT:   %act0_1 = recv 0F0.1 from 0
// CHECK-NEXT:   %f0_0 = compute 1F0.0 after %act0_0
// CHECK-NEXT:   %f0_1 = compute 1F0.1 after %act0_1
// CHECK-NEXT:   %b0_1 = compute 1B0.1 after %f0_1
// CHECK-NEXT:   %sg0_1 = send 1B0.1 to 0 after %b0_1
exec.program @sliced workers 2 microbatches 2 slices 2 {
  worker 0 {
    %a = compute 0F0.0
    %b = send 0F0.0 to 1 after %a
    %c = compute 0F0.1
    %d = send 0F0.1 to 1 after %c
    %e = recv 1B0.1 from 1
    %f = compute 0F1.0+0B0.1 after %c, %e
    %g = offload 0D1.0 after %f
  }
  worker 1 {
    %a = recv 0F0.0 from 0
    %b = recv 0F0.1 from 0
    %c = compute 1F0.0 after %a
    %d = compute 1F0.1 after %b
    %e = compute 1B0.1 after %d
    %f = send 1B0.1 to 0 after %e
  }
}

// The number of microbatches follows from the slices that run, that of O is a
// path.
// CHECK-LABEL: exec.program @counted slices 3 {
// CHECK:         %f1_2 = compute 0F1.2
// CHECK-NEXT:    %o0 = compute 0O0
exec.program @counted slices 3 {
  pipe.path on [0]
  worker 0 {
    compute 0F1.2
    compute 0O0
  }
}
