// Clean-up passes do not change a table, even if rows are equal. Neighbouring idle slots are
// written as one, and a schedule whose rows are all empty becomes a problem.

// RUN: pipesched-opt %s --canonicalize --cse --symbol-dce | FileCheck %s

// CHECK:      pipe.schedule @s workers 3 microbatches 2 {
// CHECK-NEXT:   path on [0] takes [0]
// CHECK-NEXT:   path on [0] takes [1]
// CHECK-NEXT:   worker 0 runs [0F0 _4 0B0 0F1 _2 0B1]
// CHECK-NEXT:   worker 1 runs []
// CHECK-NEXT:   worker 2 runs []
// CHECK-NEXT: }
pipe.schedule @s workers 3 microbatches 2 {
  path on [0] takes [0]
  path on [0] takes [1]
  worker 0 runs [0F0 _ _2 _ 0B0 0F1 _2 0B1]
  worker 1 runs []
  worker 2 runs []
}

// CHECK:      pipe.schedule @empty workers 2 microbatches 2 {
// CHECK-NEXT:   path on [0, 1]
// CHECK-NEXT: }
pipe.schedule @empty workers 2 microbatches 2 family "gpipe" {
  path on [0, 1]
  worker 0 runs []
  worker 1 runs []
}
