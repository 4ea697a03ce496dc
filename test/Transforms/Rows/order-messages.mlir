// RUN: pipesched-opt %s --exec-order-messages --exec-verify=messages=rendezvous | FileCheck %s
// RUN: for family in 1f1b{split-backward=true} interleaved-1f1b chimera dualpipe zb-v vocab-1f1b seq1f1b; do \
// RUN:   echo | pipesched-opt-raw --pass-pipeline="builtin.module(pipe-create{workers=4 microbatches=8}, \
// RUN:     pipe-schedule-$family, pipe-add-optimizer, pipe-add-offload, \
// RUN:     convert-pipe-to-exec{receive-placement=consumer}, exec-order-messages, \
// RUN:     exec-verify{messages=rendezvous})" | grep -c "exec.program"; done | FileCheck %s --check-prefix=FAMILIES
// FAMILIES-COUNT-7: {{^1$}}

// Neighbours that send to each other first: the receive comes in front of the send. A pair stays
// one instruction, and the op of another dialect stays in front of those that it was written for.

// CHECK-LABEL: exec.program @exchange
// CHECK:      worker 1 {
// CHECK-NEXT:   arith.constant
// CHECK-NEXT:   %act0 = recv 0F0 from 0
// CHECK-NEXT:   %f0 = compute 1F0 after %act0
// CHECK-NEXT:   %act1 = recv 0F1 from 0
// CHECK-NEXT:   %f1_b0 = compute 1F1+1B0 after %act1, %f0
// CHECK-NEXT:   %act2 = recv 0F2 from 0
// CHECK-NEXT:   %sg0 = send 1B0 to 0 after %f1_b0
// CHECK-NEXT:   %f2_b1 = compute 1F2+1B1 after %act2, %f1_b0
// CHECK-NEXT:   %sg1 = send 1B1 to 0 after %f2_b1
exec.program @exchange workers 2 microbatches 3 {
  pipe.path on [0, 1]
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %f1 = compute 0F1
    %s1 = send 0F1 to 1 after %f1
    %f2 = compute 0F2
    %s2 = send 0F2 to 1 after %f2
    %g0 = recv 1B0 from 1
    %b0 = compute 0B0 after %f0, %g0
    %g1 = recv 1B1 from 1
    %b1 = compute 0B1 after %f1, %g1
  }
  worker 1 {
    %bytes = arith.constant 0 : i64
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %act1 = recv 0F1 from 0
    %f1_b0 = compute 1F1+1B0 after %act1, %f0
    %sg0 = send 1B0 to 0 after %f1_b0
    %act2 = recv 0F2 from 0
    %f2_b1 = compute 1F2+1B1 after %act2, %f1_b0
    %sg1 = send 1B1 to 0 after %f2_b1
  }
}

// Workers start the sums of one cell together, in any order.
// CHECK-LABEL: exec.program @crossed
exec.program @crossed workers 3 microbatches 2 {
  pipe.path on [0, 1] takes [0] blocks [1, 1]
  pipe.path on [2, 2] takes [1] blocks [1, 1]
  worker 0 {
    %b0 = compute 0B0
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
  }
  worker 1 {
    %b0 = compute 1B0
    %ar0 = all_reduce 1G0 blocks 1 to 2 after %b0
  }
  worker 2 {
    %b1_1 = compute 1B1
    %b1 = compute 0B1
    %ar1_1 = all_reduce 1G1 blocks 1 to 2 after %b1_1, %b1
    %ar1 = all_reduce 0G1 blocks 0 to 1 after %b1
  }
}
