// RUN: not pipesched-opt %s --exec-verify 2>&1 | FileCheck %s
// RUN: not pipesched-opt %s --exec-verify=messages=pairs 2>&1 | FileCheck %s
// RUN: not pipesched-translate --export-report %s 2>&1 | FileCheck %s

// Two workers have the reductions of two microbatches in different orders. What holds
// their rows is the cell that takes a token.
// CHECK: deadlock
// CHECK: combine {{[01]}}Y{{[01]}}
exec.program @orders workers 2 microbatches 2 {
  worker 0 {
    %s0 = compute 0S0
    %s1 = compute 0S1
    %y1 = combine 0Y1 after %s1
    %y0 = combine 0Y0 after %s0
    %t0 = compute 0T0 after %y0
    %t1 = compute 0T1 after %y1
  }
  worker 1 {
    %s0 = compute 1S0
    %y0 = combine 1Y0 after %s0
    %s1 = compute 1S1
    %y1 = combine 1Y1 after %s1
    %t0 = compute 1T0 after %y0
    %t1 = compute 1T1 after %y1
  }
}
