// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-interlaced-1f1b,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-interlaced-1f1b)' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-interlaced-1f1b{embedding=false schedule=}

// All workers run S and T of a microbatch together.
// CHECK-LABEL: pipe.schedule @paper workers 4 microbatches 6 family "interlaced-1f1b" {
// CHECK-NEXT: path on [0, 1, 2, 3]
// CHECK-NEXT: worker 0 runs [0F0 0X0 0F1 0X1 0S0 0Y0 0T0 0Z0 0F2 0X2 0S1 0Y1 0T1 0Z1 0F3 0X3 0S2 0Y2 0T2 0Z2 0F4 0X4 0S3 0Y3 0T3 0Z3 0F5 0X5 0B0 0S4 0Y4 0T4 0Z4 0B1 0S5 0Y5 0T5 0Z5 0B2 0B3 0B4 0B5]
// CHECK-NEXT: worker 1 runs [1F0 1X0 1F1 1X1 1S0 1Y0 1T0 1Z0 1F2 1X2 1S1 1Y1 1T1 1Z1 1F3 1X3 1S2 1Y2 1T2 1Z2 1B0 1F4 1X4 1S3 1Y3 1T3 1Z3 1B1 1F5 1X5 1S4 1Y4 1T4 1Z4 1B2 1S5 1Y5 1T5 1Z5 1B3 1B4 1B5]
// CHECK-NEXT: worker 2 runs [2F0 2X0 2S0 2Y0 2T0 2Z0 2F1 2X1 2S1 2Y1 2T1 2Z1 2F2 2X2 2B0 2S2 2Y2 2T2 2Z2 2F3 2X3 2B1 2S3 2Y3 2T3 2Z3 2F4 2X4 2B2 2S4 2Y4 2T4 2Z4 2F5 2X5 2B3 2S5 2Y5 2T5 2Z5 2B4 2B5]
// CHECK-NEXT: worker 3 runs [3F0 3X0 3S0 3Y0 3T0 3Z0 3B0 3F1 3X1 3S1 3Y1 3T1 3Z1 3B1 3F2 3X2 3S2 3Y2 3T2 3Z2 3B2 3F3 3X3 3S3 3Y3 3T3 3Z3 3B3 3F4 3X4 3S4 3Y4 3T4 3Z4 3B4 3F5 3X5 3S5 3Y5 3T5 3Z5 3B5]
pipe.schedule @paper workers 4 microbatches 6 {
  path on [0, 1, 2, 3]
}

// Fewer microbatches than workers.
// CHECK-LABEL: pipe.schedule @short workers 3 microbatches 1 family "interlaced-1f1b" {
// CHECK-NEXT: path on [0, 1, 2]
// CHECK-NEXT: worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0B0]
// CHECK-NEXT: worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0]
// CHECK-NEXT: worker 2 runs [2F0 2X0 2S0 2Y0 2T0 2Z0 2B0]
pipe.schedule @short workers 3 microbatches 1 {
  path on [0, 1, 2]
}
