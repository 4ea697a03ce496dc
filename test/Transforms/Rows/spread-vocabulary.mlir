// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-spread-vocabulary)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-spread-vocabulary{vocabulary=vocab-2})' | FileCheck %s --check-prefix=SECOND

// Other cells keep their order; the unit tests verify these tables for all families.

// Rows without room for the steps.
// CHECK-LABEL: pipe.schedule @plain workers 2 microbatches 2 {
// CHECK-NEXT: path on [0, 1]
// CHECK-NEXT: worker 0 runs [0F0 0X0 0F1 0X1 0S0 0Y0 0T0 0Z0 0B0 0S1 0Y1 0T1 0Z1 0B1]
// CHECK-NEXT: worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0 1F1 1X1 1S1 1Y1 1T1 1Z1 1B1]
// SECOND-LABEL: pipe.schedule @plain workers 2 microbatches 2 {
// SECOND-NEXT: path on [0, 1]
// SECOND-NEXT: worker 0 runs [0F0 0X0 0F1 0X1 0S0 0Y0 0B0 0S1 0Y1 0T0 0T1 0B1]
// SECOND-NEXT: worker 1 runs [1F0 1X0 1S0 1Y0 1B0 1F1 1X1 1S1 1Y1 1T0 1T1 1B1]
pipe.schedule @plain workers 2 microbatches 2 family "1f1b" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}

// With room, T comes one step after its S. A W waits for nothing of the head.
// CHECK-LABEL: pipe.schedule @room workers 2 microbatches 2 {
// CHECK-NEXT: path on [0, 1]
// CHECK-NEXT: worker 0 runs [0F0 0X0 0F1 0X1 0S0 0Y0 0S1 0Y1 0T0 0Z0 0T1 0Z1 0I0 0W0 0I1 0W1]
// CHECK-NEXT: worker 1 runs [1F0 1X0 1S0 1Y0 1F1 1X1 1S1 1Y1 1T0 1Z0 1T1 1Z1 1I0 1I1 1W0 1W1]
// SECOND-LABEL: pipe.schedule @room workers 2 microbatches 2 {
// SECOND-NEXT: path on [0, 1]
// SECOND-NEXT: worker 0 runs [0F0 0X0 0F1 0X1 0S0 0Y0 0S1 0Y1 0T0 0T1 0I0 0W0 0I1 0W1]
// SECOND-NEXT: worker 1 runs [1F0 1X0 1S0 1Y0 1F1 1X1 1S1 1Y1 1T0 1T1 1I0 1I1 1W0 1W1]
pipe.schedule @room workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0I0 0W0 0I1 0W1]
  worker 1 runs [1F0 1F1 1I0 1I1 1W0 1W1]
}

// A problem stays unchanged.
// CHECK-LABEL: pipe.schedule @problem workers 2 microbatches 2 {
// CHECK-NEXT: path on [0, 1]
// SECOND-LABEL: pipe.schedule @problem workers 2 microbatches 2 {
// SECOND-NEXT: path on [0, 1]
pipe.schedule @problem workers 2 microbatches 2 {
  path on [0, 1]
}
