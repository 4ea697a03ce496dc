// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// CHECK-LABEL: pipe.schedule @takes
// CHECK-NEXT:    path on [0, 1] takes [0:8192:2, 8193, 8195]
// CHECK-NEXT:    path on [1, 0] takes [1:8193:2, 8192, 8194]
// GENERIC:       "pipe.path"() <{backward = array<i64>, takes = array<i64: 0, 8192, 2, 8193, 8194, 1, 8195, 8196, 1>, workers = array<i32: 0, 1>}> : () -> ()
pipe.schedule @takes workers 2 microbatches 8196 {
  path on [0, 1] takes [0:8192:2, 8193, 8195]
  path on [1, 0] takes [1:8193:2, 8192, 8194:8195:1]
}

// A range of one microbatch keeps its stride, which has no effect here but must
// round-trip.
// CHECK-LABEL: pipe.schedule @step
// CHECK-NEXT:    path on [0] takes [0:1:2, 1]
pipe.schedule @step workers 1 microbatches 2 {
  path on [0] takes [0:1:2, 1:2]
}

// CHECK-LABEL: pipe.schedule @blocks
// CHECK-NEXT:    path on [0, 1, 1, 0] blocks [0, 20, 40, 60]
// CHECK-NEXT:    path on [0, 1, 0]
pipe.schedule @blocks workers 2 microbatches 3 {
  path on [0, 1, 1, 0] blocks [0, 20, 40, 60]
  path on [0, 1, 0]
}

// CHECK-LABEL: pipe.schedule @weights
// CHECK-NEXT:    path on [0, 1] takes [0:3:2] weights [1, 9223372036854775806]
// CHECK-NEXT:    path on [1, 0] takes [1] weights [3, 2] {test.note}
// GENERIC:       "pipe.path"() <{backward = array<i64>, takes = array<i64: 1, 2, 1>, weights = array<i64: 3, 2>, workers = array<i32: 1, 0>}> {test.note} : () -> ()
pipe.schedule @weights workers 2 microbatches 3 {
  path on [0, 1] takes [0:3:2] weights [1, 9223372036854775806]
  path on [1, 0] takes [1] weights [3, 2] {test.note}
}
