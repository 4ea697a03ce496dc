// RUN: not pipesched-opt %s --exec-verify 2>&1 | FileCheck %s
// RUN: not pipesched-opt %s --exec-verify=messages=pairs 2>&1 | FileCheck %s
// RUN: not pipesched-translate --export-report %s 2>&1 | FileCheck %s

// Worker 1 takes part in the sum of microbatch 1 before that of microbatch 0, which the
// forwards of worker 0 wait for in the other order.
// CHECK: deadlock
// CHECK: reduce_lookups {{[01]}}A{{[01]}}
exec.program @orders workers 2 microbatches 2 {
  worker 0 {
    %e0 = compute 0E0
    %a0 = reduce_lookups 0A0 after %e0
    %e1 = compute 0E1
    %a1 = reduce_lookups 0A1 after %e1
    %f0 = compute 0F0 after %a0
    %f1 = compute 0F1 after %a1
  }
  worker 1 {
    %e0 = compute 1E0
    %e1 = compute 1E1
    %a1 = reduce_lookups 1A1 after %e1
    %a0 = reduce_lookups 1A0 after %e0
  }
}
