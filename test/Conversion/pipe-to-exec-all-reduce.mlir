// RUN: pipesched-opt %s -convert-pipe-to-exec | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-verify{messages=batched})' -o /dev/null

// An all-reduce waits for the compute before it, where it is issued, and for the last
// weight gradient of its stage. O waits for its all-reduce. 1G1 comes before 0B0,
// so that the two may run at the same time.
// CHECK-LABEL: exec.program @eager workers 2 microbatches 2 {
// CHECK-NEXT:    pipe.path on [0, 1] takes [0]
// CHECK-NEXT:    pipe.path on [1, 0] takes [1]
// CHECK-NEXT:    worker 0 {
// CHECK-NEXT:      %f0 = compute 0F0
// CHECK-NEXT:      %s0 = send 0F0 to 1 after %f0
// CHECK-NEXT:      %act1_1 = recv 0F1 from 1
// CHECK-NEXT:      %f1_1 = compute 1F1 after %act1_1
// CHECK-NEXT:      %b1_1 = compute 1B1 after %f1_1
// CHECK-NEXT:      %sg1_1 = send 1B1 to 1 after %b1_1
// CHECK-NEXT:      %g0 = recv 1B0 from 1
// CHECK-NEXT:      %ar1_1 = all_reduce 1G1 blocks 1 to 2 after %b1_1
// CHECK-NEXT:      %b0 = compute 0B0 after %f0, %g0
// CHECK-NEXT:      %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
// CHECK-NEXT:      %o1_1 = compute 1O1 after %ar1_1
// CHECK-NEXT:      %o0 = compute 0O0 after %ar0
// CHECK-NEXT:    }
// CHECK-NEXT:    worker 1 {
// CHECK:           %ar0_1 = all_reduce 1G0 blocks 1 to 2 after %b0_1
// CHECK:           %ar1 = all_reduce 0G1 blocks 0 to 1 after %b1
pipe.schedule @eager workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 1G1 0B0 0G0 1O1 0O0]
  worker 1 runs [0F1 1F0 1B0 1G0 0B1 0G1 1O0 0O1]
}

// Path 0 cuts six blocks at 4, path 1 at 2: 0G0 meets 0G1 and 1G1, and 1G1 also meets 1G0.
// CHECK-LABEL: exec.program @cut
// CHECK:         worker 0 {
// CHECK:           %ar0 = all_reduce 0G0 blocks 0 to 2 after %b0
// CHECK-NEXT:      %ar0_0 = all_reduce 0G0 blocks 2 to 4 after %b0
// CHECK-NEXT:      %o0 = compute 0O0 after %ar0, %ar0_0
// CHECK:         worker 1 {
// CHECK:           %ar0 = all_reduce 1G0 blocks 4 to 6 after %b0
// CHECK:         worker 2 {
// CHECK:           %ar1 = all_reduce 0G1 blocks 0 to 2 after %b1
// CHECK:         worker 3 {
// CHECK:           %ar1 = all_reduce 1G1 blocks 2 to 4 after %b1
// CHECK-NEXT:      %ar1_0 = all_reduce 1G1 blocks 4 to 6 after %b1
pipe.schedule @cut workers 4 microbatches 2 {
  path on [0, 1] takes [0] blocks [4, 2]
  path on [2, 3] takes [1] blocks [2, 4]
  worker 0 runs [0F0 0B0 0G0 0O0]
  worker 1 runs [1F0 1B0 1G0]
  worker 2 runs [0F1 0B1 0G1]
  worker 3 runs [1F1 1B1 1G1]
}

// Worker 0 holds the stage by three paths and takes part once, when it has all gradients.
// The last one of path 1 is in an overlapped pair.
// CHECK-LABEL: exec.program @twice
// CHECK:         worker 0 {
// CHECK:           %b0 = compute 0B0
// CHECK:           %f2_b1 = compute 0F2+0B1
// CHECK-NEXT:      %b2 = compute 0B2
// CHECK-NEXT:      %ar0 = all_reduce 0G0 blocks 0 to 1 after %b2, %b0, %f2_b1
// CHECK-NEXT:      %o0 = compute 0O0 after %ar0
// CHECK-NEXT:    }
// CHECK-NEXT:    worker 1 {
// CHECK:           %ar3 = all_reduce 0G3 blocks 0 to 1 after %b3
pipe.schedule @twice workers 2 microbatches 4 {
  path on [0] takes [0]
  path on [0] takes [1]
  path on [0] takes [2]
  path on [1] takes [3]
  worker 0 runs [0F0 0B0 0F1 0F2+0B1 0B2 0G0 0O0]
  worker 1 runs [0F3 0B3 0G3]
}

// Without all-reduces O itself waits for the gradients of all paths. In part of its blocks
// 1O1 waits for those of stage 0 of path 0 too.
// CHECK-LABEL: exec.program @crossing
// CHECK:         worker 1 {
// CHECK:           %b0 = compute 1B0
// CHECK:           %b1 = compute 1B1
// CHECK-NEXT:      %sg1 = send 1B1 to 2 after %b1
// CHECK-NEXT:      %o0 = compute 1O0 after %b0, %b1
// CHECK-LABEL: exec.program @partly
// CHECK:         worker 0 {
// CHECK:           %o0 = compute 0O0 after %b0
// CHECK-NEXT:      %o1_1 = compute 1O1 after %b0, %b1_1
pipe.schedule @crossing workers 3 microbatches 2 {
  path on [0, 1, 2] takes [0]
  path on [2, 1, 0] takes [1]
  worker 0 runs [0F0 2F1 2B1 0B0 0O0 2O1]
  worker 1 runs [1F0 1F1 1B0 1B1 1O0]
  worker 2 runs [0F1 2F0 2B0 0B1 0O1 2O0]
}
pipe.schedule @partly workers 2 microbatches 2 {
  path on [0, 1] takes [0] blocks [3, 3]
  path on [1, 0] takes [1] blocks [2, 4]
  worker 0 runs [0F0 0B0 1F1 1B1 0O0 1O1]
  worker 1 runs [0F1 1F0 1B0 0B1 1O0 0O1]
}

// No other worker has the stage: the all-reduce has one member.
// CHECK-LABEL: exec.program @alone
// CHECK:           %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
pipe.schedule @alone workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0 0G0]
}
