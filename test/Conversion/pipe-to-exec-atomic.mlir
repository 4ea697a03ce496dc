// RUN: not pipesched-opt %s -convert-pipe-to-exec -mlir-print-ir-after-failure 2>&1 | FileCheck %s

// If one schedule is refused, the others stay unchanged.
// CHECK: has no rows
// CHECK: pipe.schedule @good
// CHECK: pipe.schedule @bad
// CHECK-NOT: exec.program
pipe.schedule @good workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
}
pipe.schedule @bad workers 1 microbatches 1 {
  path on [0]
}
