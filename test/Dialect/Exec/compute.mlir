// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt-raw %s -mlir-print-op-generic | pipesched-opt | FileCheck %s
// RUN: pipesched-opt-raw %s -emit-bytecode | pipesched-opt | FileCheck %s

// Every phase that occupies compute, and its name.
// CHECK-LABEL: exec.program @phases
// CHECK:      %f3 = compute 0F3
// CHECK-NEXT: %r3 = compute 0R3 after %f3
// CHECK-NEXT: %i3 = compute 0I3 after %r3
// CHECK-NEXT: %w3 = compute 0W3 after %i3
// CHECK-NEXT: %b2 = compute 0B2 after %f3, %w3
// CHECK-NEXT: %o0 = compute 0O0 after %w3, %b2
exec.program @phases {
  worker 0 {
    %0 = compute 0F3
    %1 = compute 0R3 after %0
    %2 = compute 0I3 after %1
    %3 = compute 0W3 after %2
    %4 = compute 0B2 after %0, %3
    %5 = compute 0O0 after %3, %4
  }
}

// The name includes the stage if the worker has others.
// CHECK-LABEL: exec.program @stages
// CHECK:      %f0 = compute 0F0
// CHECK-NEXT: %f0_4 = compute 4F0 after %f0
// CHECK-NEXT: %f1_b0 = compute 0F1+4B0 after %f0_4
exec.program @stages {
  worker 0 {
    %0 = compute 0F0
    %1 = compute 4F0 after %0
    %2 = compute 0F1+4B0 after %1
  }
}

// Stated work, including zero and negative memory.
// CHECK-LABEL: exec.program @stated
// CHECK:      %f0 = compute 0F0 flops 8000 bytes 100 memory 64
// CHECK-NEXT: %f1 = compute 0F1 after %f0 flops 0
// CHECK-NEXT: %f2 = compute 0F2 bytes 9223372036854775807
// CHECK-NEXT: %b0 = compute 0B0 memory -64 {test.a}
// CHECK-NEXT: %b1 = compute 0B1 memory -9223372036854775807
exec.program @stated {
  worker 0 {
    %0 = compute 0F0 flops 8000 bytes 100 memory 64
    %1 = compute 0F1 after %0 flops 0
    %2 = compute 0F2 bytes 9223372036854775807
    %3 = compute 0B0 memory -64 {test.a}
    %4 = compute 0B1 memory -9223372036854775807
  }
}
