// RUN: not pipesched-opt %s -exec-annotate-timeline 2>&1 | FileCheck %s

// A program that cannot finish is refused with its cycle of waits: what one note waits
// for is the waiter of the next note.

// Each worker waits for the other's output before it computes its own.
// CHECK:     :[[#@LINE+8]]:1: error: 'exec.program' op deadlocks in a cycle of 6 waits
// CHECK:     :[[#@LINE+10]]:11: note: compute 0F0 on worker 0 waits for recv 1F0 from 1 on worker 0
// CHECK:     :[[#@LINE+8]]:13: note: recv 1F0 from 1 on worker 0 waits for send 1F0 to 0 on worker 1 (its message)
// CHECK:     :[[#@LINE+14]]:11: note: send 1F0 to 0 on worker 1 waits for compute 1F0 on worker 1
// CHECK:     :[[#@LINE+12]]:11: note: compute 1F0 on worker 1 waits for recv 0F0 from 0 on worker 1
// CHECK:     :[[#@LINE+10]]:13: note: recv 0F0 from 0 on worker 1 waits for send 0F0 to 1 on worker 0 (its message)
// CHECK:     :[[#@LINE+6]]:11: note: send 0F0 to 1 on worker 0 waits for compute 0F0 on worker 0
// CHECK-NOT: note:
exec.program @two_workers {
  worker 0 {
    %act0 = recv 1F0 from 1
    %f0 = compute 0F0 after %act0
    %s0 = send 0F0 to 1 after %f0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %s0 = send 1F0 to 0 after %f0
  }
}
