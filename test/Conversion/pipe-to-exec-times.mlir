// RUN: pipesched-opt %s -convert-pipe-to-exec | FileCheck %s --check-prefix=SLOTS
// RUN: pipesched-opt %s -pass-pipeline='builtin.module(pipe-attach-profile{times="F=[10us,10us,40us],B=10us"},convert-pipe-to-exec)' | FileCheck %s --check-prefix=TIMES

// Receives of a table with nodes follow its times, if it has any. 2F1 is made in slot 1 or until
// 80 us, 1B0 in slot 4 or until at 70 us.
// SLOTS:      worker 1 {
// SLOTS-NEXT:   %act0_3 = recv 2F0 from 0
// SLOTS-NEXT:   %f0 = compute 0F0 after %act0_3
// SLOTS-NEXT:   %s0 = send 0F0 to 2 after %f0
// SLOTS-NEXT:   %act1_3 = recv 2F1 from 0
// SLOTS-NEXT:   %g0 = recv 1B0 from 2
// SLOTS-NEXT:   %b0 = compute 0B0 after %f0, %g0

// TIMES:      worker 1 {
// TIMES-NEXT:   %act0_3 = recv 2F0 from 0
// TIMES-NEXT:   %f0 = compute 0F0 after %act0_3
// TIMES-NEXT:   %s0 = send 0F0 to 2 after %f0
// TIMES-NEXT:   %g0 = recv 1B0 from 2
// TIMES-NEXT:   %b0 = compute 0B0 after %f0, %g0
// TIMES-NEXT:   %act1_3 = recv 2F1 from 0
// TIMES-NEXT:   %f1 = compute 0F1 after %act1_3
pipe.schedule @encoder workers 3 microbatches 2 {
  path on [1, 2]
  node 2 on [0] frozen
  edge 2 -> 0
  worker 0 runs [2F0 2F1]
  worker 1 runs [0F0 0B0 0F1 0B1]
  worker 2 runs [1F0 1B0 1F1 1B1]
}
