// Upstream clean-up passes do not change a table, even if rows are equal.

// RUN: pipesched-opt %s --canonicalize --cse --symbol-dce | FileCheck %s

// CHECK:      pipe.schedule @s workers 3 microbatches 2 {
// CHECK-NEXT:   path on [0] takes [0]
// CHECK-NEXT:   path on [0] takes [1]
// CHECK-NEXT:   worker 0 runs [0F0 0B0 0F1 0B1]
// CHECK-NEXT:   worker 1 runs []
// CHECK-NEXT:   worker 2 runs []
// CHECK-NEXT: }
pipe.schedule @s workers 3 microbatches 2 {
  path on [0] takes [0]
  path on [0] takes [1]
  worker 0 runs [0F0 0B0 0F1 0B1]
  worker 1 runs []
  worker 2 runs []
}
