// RUN: pipesched-opt %s -canonicalize -cse -symbol-dce | FileCheck %s

// No instruction of a queue is dropped or moved, though nothing uses 0F1, the end of the send,
// or the receive. Equal waits are kept where an instruction is between them; neighbours are
// merged, and no instruction names a token twice.
// CHECK-LABEL: exec.program @kept
// CHECK-NEXT: worker 0 {
// CHECK-NEXT:   %f1 = compute 0F1
// CHECK-NEXT:   %f0 = compute 0F0
// CHECK-NEXT:   %s0 = send 0F0 to 1 after %f0
// CHECK-NEXT:   %s1 = send 0F1 to 1 after %f1
// CHECK-NEXT:   %d0 = offload 0D0 after %f0, %s0
// CHECK-NEXT:   wait after %s1, %d0
// CHECK-NEXT:   %u0 = reload 0U0 after %d0
// CHECK-NEXT:   wait after %d0
// CHECK-NEXT:   %b0 = compute 0B0 after %u0
// CHECK-NEXT: }
// CHECK-NEXT: worker 1 {
// CHECK-NEXT:   %act0 = recv 0F0 from 0
// CHECK-NEXT:   %act1 = recv 0F1 from 0
// CHECK-NEXT: }
// CHECK-NEXT: worker 2 {
// CHECK-NEXT: }
exec.program @kept {
  worker 0 {
    %f1 = compute 0F1
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %s1 = send 0F1 to 1 after %f1
    %d0 = offload 0D0 after %f0, %s0
    wait after %s1
    wait after %d0
    wait after %s1, %d0
    %u0 = reload 0U0 after %d0, %d0
    wait after %d0
    %b0 = compute 0B0 after %u0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %act1 = recv 0F1 from 0
  }
  worker 2 {}
}
