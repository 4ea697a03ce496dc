// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt-raw %s -mlir-print-op-generic | pipesched-opt | FileCheck %s
// RUN: pipesched-opt-raw %s -emit-bytecode | pipesched-opt | FileCheck %s

// Names consist of phase, microbatch and, if the worker has several, stage; a receive
// has the stage that needs the message.
// CHECK-LABEL: exec.program @messages
// CHECK-NEXT: worker 0 {
// CHECK-NEXT:   %f0 = compute 0F0
// CHECK-NEXT:   %s0 = send 0F0 to 1 after %f0 bytes 1024
// CHECK-NEXT:   %act0_2 = recv 1F0 from 1 after %s0
// CHECK-NEXT:   %f0_2 = compute 2F0 after %act0_2
// CHECK-NEXT:   %w0_2 = compute 2W0 after %f0_2
// CHECK-NEXT:   %sg0_2 = send 2W0 to 1 after %f0_2, %w0_2 bytes 0
// CHECK-NEXT:   %g0 = recv 1I0 from 1
// CHECK-NEXT: }
// CHECK-NEXT: worker 1 {
// CHECK-NEXT:   %act0 = recv 0F0 from 0
// CHECK-NEXT:   %f0 = compute 1F0 after %act0
// CHECK-NEXT:   %s0 = send 1F0 to 0 after %f0
// CHECK-NEXT:   %g0 = recv 2W0 from 0
// CHECK-NEXT:   %f1_i0 = compute 1F1+1I0 after %g0
// CHECK-NEXT:   %sg0 = send 1I0 to 0 after %f1_i0
exec.program @messages {
  worker 0 {
    %0 = compute 0F0
    %1 = send 0F0 to 1 after %0 bytes 1024
    %2 = recv 1F0 from 1 after %1
    %3 = compute 2F0 after %2
    %4 = compute 2W0 after %3
    %5 = send 2W0 to 1 after %3, %4 bytes 0
    %6 = recv 1I0 from 1
  }
  worker 1 {
    %0 = recv 0F0 from 0
    %1 = compute 1F0 after %0
    %2 = send 1F0 to 0 after %1
    %3 = recv 2W0 from 0
    %4 = compute 1F1+1I0 after %3
    %5 = send 1I0 to 0 after %4
  }
}
