// RUN: split-file %s %t
// RUN: pipesched-opt %t/odd-even.mlir --pass-pipeline='builtin.module(exec-verify)' | FileCheck %t/odd-even.mlir
// RUN: pipesched-opt %t/odd-even.mlir --pass-pipeline='builtin.module(exec-verify{messages=fifo},exec-verify{messages=batched})' -o /dev/null
// RUN: not pipesched-opt %t/odd-even.mlir --pass-pipeline='builtin.module(exec-verify{messages=rendezvous})' 2>&1 | FileCheck %t/odd-even.mlir --check-prefix=RENDEZVOUS
// RUN: pipesched-opt %t/receive-first.mlir --pass-pipeline='builtin.module(exec-verify{messages=batched},exec-annotate-timeline)' -o /dev/null
// RUN: not pipesched-opt %t/receive-first.mlir --pass-pipeline='builtin.module(exec-verify)' 2>&1 | FileCheck %t/receive-first.mlir
// RUN: not pipesched-opt %t/empty.mlir --pass-pipeline='builtin.module(exec-verify)' 2>&1 | FileCheck %t/empty.mlir

//--- odd-even.mlir

// pytorch/pytorch issue 172668: receiving before sending on odd ranks only does not
// help if the two directions carry different microbatches.
// RENDEZVOUS:     :[[#@LINE+5]]:1: error: 'exec.program' op deadlocks with messages=rendezvous in a cycle of 4 waits
// RENDEZVOUS:     note: send 0F2 to 1 on worker 0 waits for recv 0F2 from 0 on worker 1 (its message)
// RENDEZVOUS:     note: recv 0F2 from 0 comes after send 3B0 to 0 in the row of worker 1
// RENDEZVOUS:     note: send 3B0 to 0 on worker 1 waits for recv 3B0 from 1 on worker 0 (its message)
// RENDEZVOUS:     note: recv 3B0 from 1 comes after send 0F2 to 1 in the row of worker 0
exec.program @odd_even {
  worker 0 {
    %f1_2 = compute 2F1
    %s1_2 = send 2F1 to 1 after %f1_2
    %f2 = compute 0F2
    %s2 = send 0F2 to 1 after %f2
    %g0 = recv 3B0 from 1
    %b0 = compute 2B0 after %g0
  }
  worker 1 {
    %b0_3 = compute 3B0
    %act1 = recv 2F1 from 0
    %sg0 = send 3B0 to 0 after %b0_3
    %f1_3 = compute 3F1 after %act1
    %act2 = recv 0F2 from 0
    %f2 = compute 1F2 after %act2
  }
}
// CHECK-LABEL: exec.program @odd_even
// CHECK-NOT:   exec.start_ps

//--- receive-first.mlir

// With separate queues (exec-annotate-timeline) the sends overtake, and in a batch
// they run together; a single-threaded process that receives first never sends.
// CHECK: error: 'exec.program' op deadlocks with messages=unbounded in a cycle of 4 waits
// CHECK: :[[#@LINE+17]]:13: note: recv 0F1 from 0 on worker 1 waits for send 0F1 to 1 on worker 0 (its message)
// CHECK: :[[#@LINE+9]]:11: note: send 0F1 to 1 comes after recv 1B0 from 1 in the row of worker 0
// CHECK: :[[#@LINE+7]]:11: note: recv 1B0 from 1 on worker 0 waits for send 1B0 to 0 on worker 1 (its message)
// CHECK: :[[#@LINE+15]]:12: note: send 1B0 to 0 comes after recv 0F1 from 0 in the row of worker 1
exec.program @receive_first profile <"F=1us,B=1us"> {
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

//--- empty.mlir

// CHECK: error: the module has no exec.program; run convert-pipe-to-exec first
module {
}
