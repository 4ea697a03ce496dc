// RUN: not pipesched-opt %s -exec-verify -split-input-file 2>&1 | FileCheck %s --check-prefixes=CHECK,ROW
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(exec-verify{messages=batched})' -split-input-file 2>&1 | FileCheck %s --check-prefixes=CHECK,ROW
// RUN: not pipesched-opt %s -exec-annotate-timeline -split-input-file 2>&1 | FileCheck %s --check-prefixes=CHECK,QUEUE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(exec-annotate-timeline{transport=delay})' -split-input-file -o /dev/null

// A hand-written program whose workers reach their all-reduces in opposite order.
// It deadlocks if all-reduces hold the row or queues, and finishes if they hold
// neither.
// CHECK: error: 'exec.program' op deadlocks {{(with messages=[a-z]+ )?}}in a cycle of 4 waits
// ROW:        note: all_reduce 0G0 blocks 0 to 1 on worker 0 waits for all_reduce 0G1 blocks 0 to 1 on worker 1 (its group)
// ROW-NEXT:     %ar0 = all_reduce 0G0
// ROW:        note: all_reduce 0G1 blocks 0 to 1 comes after all_reduce 1G0 blocks 1 to 2 in the row of worker 1
// ROW:        note: all_reduce 1G0 blocks 1 to 2 on worker 1 waits for all_reduce 1G1 blocks 1 to 2 on worker 0 (its group)
// ROW:        note: all_reduce 1G1 blocks 1 to 2 comes after all_reduce 0G0 blocks 0 to 1 in the row of worker 0
// QUEUE:      note: all_reduce 0G1 blocks 0 to 1 comes after all_reduce 1G0 blocks 1 to 2 in the collective queue of worker 1
// QUEUE:      note: all_reduce 1G0 blocks 1 to 2 on worker 1 waits for all_reduce 1G1 blocks 1 to 2 on worker 0 (its group)
// QUEUE:      note: all_reduce 1G1 blocks 1 to 2 comes after all_reduce 0G0 blocks 0 to 1 in the collective queue of worker 0
// QUEUE:      note: all_reduce 0G0 blocks 0 to 1 on worker 0 waits for all_reduce 0G1 blocks 0 to 1 on worker 1 (its group)
// CHECK-NOT:  note:
exec.program @opposite workers 2 microbatches 2 {
  pipe.path on [0, 1] takes [0]
  pipe.path on [1, 0] takes [1]
  worker 0 {
    %b0 = compute 0B0
    %b1 = compute 1B1
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
    %ar1 = all_reduce 1G1 blocks 1 to 2 after %b1
  }
  worker 1 {
    %b0 = compute 1B0
    %b1 = compute 0B1
    %ar1 = all_reduce 1G0 blocks 1 to 2 after %b0
    %ar0 = all_reduce 0G1 blocks 0 to 1 after %b1
  }
}
