// RUN: pipesched-opt %s -exec-verify -exec-annotate-timeline | FileCheck %s

// All that waits in another way than by naming what it reads.

// Worker 0 computes for 10, then 20 ms, worker 1 as long, and a message takes 100 ms.
// CHECK-LABEL: exec.program @named
// CHECK: compute 0B0 {{.*}}exec.end_ps = 260000000000 : i64
exec.program @named profile <"F=10ms,B=20ms,comm=100ms"> {
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %g0 = recv 1B0 from 1
    %b0 = compute 0B0 after %f0, %g0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %b0 = compute 1B0 after %f0
    %sg0 = send 1B0 to 0 after %b0
  }
}

// A compute waits by a receive that waits, a send, a join, and an earlier compute.
// CHECK-LABEL: exec.program @transitive
exec.program @transitive workers 2 microbatches 4 {
  pipe.path on [0, 1]
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %f1 = compute 0F1
    %s1 = send 0F1 to 1 after %f1
    %f2 = compute 0F2
    %s2 = send 0F2 to 1 after %f2
    %f3 = compute 0F3
    %s3 = send 0F3 to 1 after %f3
    %g0 = recv 1B0 from 1
    %b0 = compute 0B0 after %g0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %act1 = recv 0F1 from 0 after %act0
    %act2 = recv 0F2 from 0
    %act3 = recv 0F3 from 0
    %f0 = compute 1F0 after %act1
    %f1 = compute 1F1
    %b0 = compute 1B0
    %sg0 = send 1B0 to 0 after %b0, %act3
    wait after %act2
    %f2 = compute 1F2
    %f3 = compute 1F3 after %sg0
  }
}

// A reload waits for its offload by a join, and a pair by either of its halves.
// CHECK-LABEL: exec.program @copies
exec.program @copies {
  worker 0 {
    %f0 = compute 0F0
    %d0 = offload 0D0 after %f0
    wait after %d0
    %u0 = reload 0U0
    %f1 = compute 0F1
    %d1 = offload 0D1 after %f1, %u0
    %f2_b0 = compute 0F2+0B0 after %d1
  }
}

// A copy waits for its forward by a later compute.
// CHECK-LABEL: exec.program @later_compute
exec.program @later_compute {
  worker 0 {
    %f0 = compute 0F0
    %f1 = compute 0F1
    %d0 = offload 0D0 after %f1
  }
}

// Without its message a program is a part of a step.
// CHECK-LABEL: exec.program @part
exec.program @part workers 2 microbatches 1 {
  pipe.path on [0, 1]
  worker 0 {
    %f0 = compute 0F0
  }
  worker 1 {
    %f0 = compute 1F0
    %b0 = compute 1B0
  }
}

// Only the first stage takes the sum of the lookups.
// CHECK-LABEL: exec.program @lookup
exec.program @lookup workers 2 microbatches 1 {
  pipe.path on [0, 1]
  worker 0 {
    %e0 = compute 0E0
    %a0 = reduce_lookups 0A0 after %e0
    %f0 = compute 0F0 after %a0
    %s0 = send 0F0 to 1 after %f0
  }
  worker 1 {
    %e0 = compute 1E0
    %a0 = reduce_lookups 1A0 after %e0
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
  }
}
