// RUN: pipesched-opt %s -pipe-order-microbatches -split-input-file | FileCheck %s
// RUN: pipesched-opt %s -pipe-order-microbatches='order=longest-first' -split-input-file | FileCheck %s --check-prefix=LONGEST
// RUN: pipesched-opt %s -pipe-order-microbatches='given=1,2,0' -split-input-file | FileCheck %s --check-prefix=GIVEN

// The shortest is last, the second shortest first.
// CHECK-LABEL: pipe.schedule @lengths workers 2 microbatches 3 profile
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F2 0F0 0B2 0F1 0B0 0B1]
// CHECK-NEXT:    worker 1 runs [1F2 1B2 1F0 1B0 1F1 1B1]
// LONGEST-LABEL: pipe.schedule @lengths workers 2 microbatches 3 profile
// LONGEST-NEXT:    path on [0, 1]
// LONGEST-NEXT:    worker 0 runs [0F0 0F2 0B0 0F1 0B2 0B1]
// LONGEST-NEXT:    worker 1 runs [1F0 1B0 1F2 1B2 1F1 1B1]
// GIVEN-LABEL: pipe.schedule @lengths workers 2 microbatches 3 profile
// GIVEN-NEXT:    path on [0, 1]
// GIVEN-NEXT:    worker 0 runs [0F1 0F2 0B1 0F0 0B2 0B0]
// GIVEN-NEXT:    worker 1 runs [1F1 1B1 1F2 1B2 1F0 1B0]
pipe.schedule @lengths workers 2 microbatches 3 family "1f1b" profile <"B=2ms,microbatches.F=[3ms,1ms,2ms]"> {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0F2 0B1 0B2]
  worker 1 runs [1F0 1B0 1F1 1B1 1F2 1B2]
}

// -----

// The family stays if the rows do.
// CHECK-LABEL: pipe.schedule @ordered workers 1 microbatches 3 family "gpipe"
// CHECK:         worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
// LONGEST-LABEL: pipe.schedule @ordered workers 1 microbatches 3 profile
// LONGEST:         worker 0 runs [0F1 0F0 0F2 0B1 0B0 0B2]
// GIVEN-LABEL: pipe.schedule @ordered workers 1 microbatches 3 profile
pipe.schedule @ordered workers 1 microbatches 3 family "gpipe" profile <"B=2ms,microbatches.F=[2ms,3ms,1ms]"> {
  path on [0]
  worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
}

// -----

// Each path keeps its microbatches, and slices stay in order. O is of a stage.
// CHECK-LABEL: pipe.schedule @paths workers 2 microbatches 3 slices 2 profile
// CHECK:         worker 0 runs [0F2.0 0F2.1 0F0.0 0F0.1 1F1.0 1F1.1 1B1.1 1B1.0 0B0.1 0B0.0 0B2.1 0B2.0 0O0]
pipe.schedule @paths workers 2 microbatches 3 slices 2 profile <"B=2ms,microbatches.F=[2ms,2ms,3ms]"> {
  path on [0, 1] takes [0, 2]
  path on [1, 0] takes [1]
  worker 0 runs [0F0.0 0F0.1 0F2.0 0F2.1 1F1.0 1F1.1 1B1.1 1B1.0 0B2.1 0B2.0 0B0.1 0B0.0 0O0]
  worker 1 runs [0F1.0 0F1.1 1F0.0 1F0.1 1B0.1 1B0.0 1F2.0 1F2.1 1B2.1 1B2.0 0B1.1 0B1.0]
}
