// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt-raw %s -mlir-print-op-generic | pipesched-opt | FileCheck %s
// RUN: pipesched-opt-raw %s -emit-bytecode | pipesched-opt | FileCheck %s

// CHECK-LABEL: exec.program @copies
// CHECK:      %f0 = compute 0F0
// CHECK-NEXT: %d0 = offload 0D0 after %f0 bytes 4096 memory -4096
// CHECK-NEXT: wait after %d0
// CHECK-NEXT: %f1 = compute 0F1
// CHECK-NEXT: %u0 = reload 0U0 after %d0, %f1 bytes 4096 memory 4096
// CHECK-NEXT: wait after %u0, %f1 {test.a}
// CHECK-NEXT: %b0 = compute 0B0 after %f0, %u0
// CHECK-NEXT: %d1 = offload 0D1
exec.program @copies {
  worker 0 {
    %0 = compute 0F0
    %1 = offload 0D0 after %0 bytes 4096 memory -4096
    wait after %1
    %2 = compute 0F1
    %3 = reload 0U0 after %1, %2 bytes 4096 memory 4096
    wait after %3, %2 {test.a}
    %4 = compute 0B0 after %0, %3
    %5 = offload 0D1
  }
}
