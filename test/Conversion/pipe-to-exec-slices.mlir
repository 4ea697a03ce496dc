// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec)' \
// RUN:   | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec, \
// RUN:   exec-verify)' -o /dev/null

// The first slice of the gradients waits for nothing of the other slice: both
// are on one queue.
// CHECK-LABEL: exec.program @sliced workers 2 microbatches 1 slices 2 {
// CHECK-NEXT:    pipe.path on [0, 1]
// CHECK-NEXT:    worker 0 {
// CHECK-NEXT:      %f0_0 = compute 0F0.0
// CHECK-NEXT:      %s0_0 = send 0F0.0 to 1 after %f0_0
// CHECK-NEXT:      %f0_1 = compute 0F0.1
// CHECK-NEXT:      %s0_1 = send 0F0.1 to 1 after %f0_1
// CHECK-NEXT:      %g0_1 = recv 1B0.1 from 1
// CHECK-NEXT:      %b0_1 = compute 0B0.1 after %f0_1, %g0_1
// CHECK-NEXT:      %g0_0 = recv 1B0.0 from 1
// CHECK-NEXT:      %b0_0 = compute 0B0.0 after %f0_0, %g0_0
// CHECK-NEXT:    }
// CHECK-NEXT:    worker 1 {
// CHECK-NEXT:      %act0_0 = recv 0F0.0 from 0
// CHECK-NEXT:      %f0_0 = compute 1F0.0 after %act0_0
// CHECK-NEXT:      %act0_1 = recv 0F0.1 from 0
// CHECK-NEXT:      %f0_1 = compute 1F0.1 after %act0_1
// CHECK-NEXT:      %b0_1 = compute 1B0.1 after %f0_1
// CHECK-NEXT:      %sg0_1 = send 1B0.1 to 0 after %b0_1
// CHECK-NEXT:      %b0_0 = compute 1B0.0 after %f0_0
// CHECK-NEXT:      %sg0_0 = send 1B0.0 to 0 after %b0_0
pipe.schedule @sliced workers 2 microbatches 1 slices 2 {
  path on [0, 1]
  worker 0 runs [0F0.0 0F0.1 _4 0B0.1 0B0.0]
  worker 1 runs [_ 1F0.0 1F0.1 1B0.1 1B0.0]
}
