// RUN: pipesched-opt %s -exec-annotate-timeline=transport=delay | FileCheck %s
// RUN: pipesched-opt %s -exec-annotate-timeline | FileCheck %s
// RUN: not pipesched-opt %s -exec-annotate-timeline=transport=blocking 2>&1 | FileCheck %s --check-prefix=BLOCKING

// Both workers compute, then receive, then send: with separate queues the sends run
// ahead, with a single row the workers wait for each other.
// CHECK: compute 0B0 after %f0, %g0 {{.*}}exec.start_ps = 3000000 : i64
// BLOCKING: error: 'exec.program' op deadlocks in a cycle of 4 waits
// BLOCKING-DAG: note: send 0F1 to 1 stands behind recv 1B0 from 1 in the row of worker 0
// BLOCKING-DAG: note: send 1B0 to 0 stands behind recv 0F1 from 0 in the row of worker 1
// BLOCKING-DAG: note: recv 1B0 from 1 on worker 0 waits for send 1B0 to 0 on worker 1 (its message)
// BLOCKING-DAG: note: recv 0F1 from 0 on worker 1 waits for send 0F1 to 1 on worker 0 (its message)
exec.program @exchange profile <"F=1us,B=1us"> {
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %f1 = compute 0F1
    %g0 = recv 1B0 from 1
    %s1 = send 0F1 to 1 after %f1
    %b0 = compute 0B0 after %f0, %g0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %b0 = compute 1B0 after %f0
    %act1 = recv 0F1 from 0
    %sg0 = send 1B0 to 0 after %b0
    %f1 = compute 1F1 after %act1
  }
}
