// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-spread-vocabulary{embedding=true},pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-spread-vocabulary{embedding=true})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-spread-vocabulary{embedding=true schedule= vocabulary=vocab-1}

// The unit tests verify such tables for all families, with what workers hold.

// E of a microbatch comes after the F of the second before it, and V where the first stage has
// run the next backward. On worker 1 a lookup comes after the cell that runs then.
// CHECK-LABEL: pipe.schedule @plain workers 2 microbatches 4 {
// CHECK-NEXT: path on [0, 1]
// CHECK-NEXT: worker 0 runs [0E0 0A0 0E1 0A1 0F0 0X0 0E2 0A2 0F1 0X1 0E3 0A3 0S0 0Y0 0T0 0Z0 0B0 0C0 0S1 0Y1 0T1 0Z1 0F2 0X2 0B1 0C1 0V0 0S2 0Y2 0T2 0Z2 0F3 0X3 0B2 0C2 0V1 0S3 0Y3 0T3 0Z3 0B3 0C3 0V2 0V3]
// CHECK-NEXT: worker 1 runs [1E0 1A0 1E1 1A1 1F0 1X0 1E2 1A2 1E3 1A3 1S0 1Y0 1T0 1Z0 1B0 1C0 1F1 1X1 1S1 1Y1 1T1 1Z1 1B1 1C1 1F2 1X2 1S2 1Y2 1V0 1T2 1Z2 1B2 1C2 1F3 1X3 1S3 1Y3 1V1 1T3 1Z3 1B3 1C3 1V2 1V3]
pipe.schedule @plain workers 2 microbatches 4 family "1f1b" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3]
  worker 1 runs [1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3]
}

// Two paths: all workers have the sums of both in one order, and two outputs of each at most.
// CHECK-LABEL: pipe.schedule @mirrored workers 2 microbatches 2 {
// CHECK-NEXT: path on [0, 1] takes [0]
// CHECK-NEXT: path on [1, 0] takes [1]
// CHECK-NEXT: worker 0 runs [0E0 0A0 1E1 1A1 0F0 1F1 1X1 0X0 1S1 1Y1 0S0 0Y0 1T1 1Z1 0T0 0Z0 1B1 0B0 0C0 1C1 0V0 1V1]
// CHECK-NEXT: worker 1 runs [1E0 1A0 0E1 0A1 0F1 0X1 1F0 1X0 0S1 0Y1 1S0 1Y0 0T1 0Z1 1T0 1Z0 1B0 1C0 0B1 0C1 1V0 0V1]
pipe.schedule @mirrored workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 0B0]
  worker 1 runs [0F1 1F0 1B0 0B1]
}

// Nothing is inside of an overlapped pair.
// CHECK-LABEL: pipe.schedule @pair workers 1 microbatches 3 {
// CHECK-NEXT: path on [0]
// CHECK-NEXT: worker 0 runs [0E0 0A0 0E1 0A1 0F0 0X0 0E2 0A2 0S0 0Y0 0T0 0Z0 0F1+0B0 0C0 0X1 0S1 0Y1 0T1 0Z1 0F2+0B1 0C1 0X2 0V0 0S2 0Y2 0T2 0Z2 0B2 0C2 0V1 0V2]
pipe.schedule @pair workers 1 microbatches 3 {
  path on [0]
  worker 0 runs [0F0 0F1+0B0 0F2+0B1 0B2]
}
