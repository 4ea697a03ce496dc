// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-vocab-1f1b,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-vocab-1f1b{vocabulary=vocab-2},pipe-verify)' | FileCheck %s --check-prefix=SECOND
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-vocab-1f1b)' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-vocab-1f1b{schedule=paper backward=150})' | FileCheck %s --check-prefix=SHORT
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-vocab-1f1b{backward=10001})' 2>&1 | FileCheck %s --check-prefix=RANGE

// PIPELINE: pipe-schedule-vocab-1f1b{backward=0 embedding=false schedule= vocabulary=vocab-1}
// RANGE: error: 'pipe.schedule' op backward of vocab-1f1b is the time of B in percent of that of F, from 1 to 10000; found 10001

// Where B takes less than two F, worker 1 is the one that is B F S.
// SHORT: family "vocab-1f1b" {backward = 150 : i64} {
// SHORT: worker 0 runs [{{.*}} 0B0 0S4 0Y4
// SHORT: worker 1 runs [{{.*}} 1B0 1F5 1X5 1S4 1Y4

// The order of the paper: worker 0, the fourth from the last, is B F S, the others B S F.
// CHECK-LABEL: pipe.schedule @paper workers 4 microbatches 6 family "vocab-1f1b" {
// CHECK-NEXT: path on [0, 1, 2, 3]
// CHECK-NEXT: worker 0 runs [0F0 0X0 0F1 0X1 0F2 0X2 0F3 0X3 0S0 0Y0 0F4 0X4 0S1 0Y1 0T0 0Z0 0F5 0X5 0S2 0Y2 0T1 0Z1 0S3 0Y3 0T2 0Z2 0S4 0Y4 0T3 0Z3 0B0 0S5 0Y5 0T4 0Z4 0B1 0T5 0Z5 0B2 0B3 0B4 0B5]
// CHECK-NEXT: worker 1 runs [1F0 1X0 1F1 1X1 1F2 1X2 1S0 1Y0 1F3 1X3 1S1 1Y1 1T0 1Z0 1F4 1X4 1S2 1Y2 1T1 1Z1 1S3 1Y3 1T2 1Z2 1B0 1S4 1Y4 1T3 1Z3 1F5 1X5 1B1 1S5 1Y5 1T4 1Z4 1B2 1T5 1Z5 1B3 1B4 1B5]
// CHECK-NEXT: worker 2 runs [2F0 2X0 2F1 2X1 2S0 2Y0 2F2 2X2 2S1 2Y1 2T0 2Z0 2F3 2X3 2S2 2Y2 2T1 2Z1 2B0 2S3 2Y3 2T2 2Z2 2F4 2X4 2B1 2S4 2Y4 2T3 2Z3 2F5 2X5 2B2 2S5 2Y5 2T4 2Z4 2B3 2T5 2Z5 2B4 2B5]
// CHECK-NEXT: worker 3 runs [3F0 3X0 3S0 3Y0 3F1 3X1 3S1 3Y1 3T0 3Z0 3F2 3X2 3B0 3S2 3Y2 3T1 3Z1 3F3 3X3 3B1 3S3 3Y3 3T2 3Z2 3F4 3X4 3B2 3S4 3Y4 3T3 3Z3 3F5 3X5 3B3 3S5 3Y5 3T4 3Z4 3B4 3T5 3Z5 3B5]
// SECOND-LABEL: pipe.schedule @paper workers 4 microbatches 6 family "vocab-1f1b" {vocabulary = "vocab-2"} {
// SECOND-NEXT: path on [0, 1, 2, 3]
// SECOND-NEXT: worker 0 runs [0F0 0X0 0F1 0X1 0F2 0X2 0F3 0X3 0S0 0Y0 0F4 0X4 0S1 0Y1 0T0 0S2 0Y2 0T1 0S3 0Y3 0T2 0B0 0F5 0X5 0S4 0Y4 0T3 0B1 0S5 0Y5 0T4 0B2 0T5 0B3 0B4 0B5]
// SECOND-NEXT: worker 1 runs [1F0 1X0 1F1 1X1 1F2 1X2 1S0 1Y0 1F3 1X3 1S1 1Y1 1T0 1S2 1Y2 1T1 1B0 1S3 1Y3 1T2 1F4 1X4 1B1 1S4 1Y4 1T3 1F5 1X5 1B2 1S5 1Y5 1T4 1B3 1T5 1B4 1B5]
// SECOND-NEXT: worker 2 runs [2F0 2X0 2F1 2X1 2S0 2Y0 2F2 2X2 2S1 2Y1 2T0 2B0 2S2 2Y2 2T1 2F3 2X3 2B1 2S3 2Y3 2T2 2F4 2X4 2B2 2S4 2Y4 2T3 2F5 2X5 2B3 2S5 2Y5 2T4 2B4 2T5 2B5]
// SECOND-NEXT: worker 3 runs [3F0 3X0 3S0 3Y0 3F1 3X1 3B0 3S1 3Y1 3T0 3F2 3X2 3B1 3S2 3Y2 3T1 3F3 3X3 3B2 3S3 3Y3 3T2 3F4 3X4 3B3 3S4 3Y4 3T3 3F5 3X5 3B4 3S5 3Y5 3T4 3B5 3T5]
pipe.schedule @paper workers 4 microbatches 6 {
  path on [0, 1, 2, 3]
}

// Fewer microbatches than workers.
// CHECK-LABEL: pipe.schedule @short workers 3 microbatches 1 family "vocab-1f1b" {
// CHECK-NEXT: path on [0, 1, 2]
// CHECK-NEXT: worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0B0]
// CHECK-NEXT: worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0]
// CHECK-NEXT: worker 2 runs [2F0 2X0 2S0 2Y0 2T0 2Z0 2B0]
// SECOND-LABEL: pipe.schedule @short workers 3 microbatches 1 family "vocab-1f1b" {vocabulary = "vocab-2"} {
// SECOND-NEXT: path on [0, 1, 2]
// SECOND-NEXT: worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0B0]
// SECOND-NEXT: worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1B0]
// SECOND-NEXT: worker 2 runs [2F0 2X0 2S0 2Y0 2B0 2T0]
pipe.schedule @short workers 3 microbatches 1 {
  path on [0, 1, 2]
}

// One worker has all shards.
// CHECK-LABEL: pipe.schedule @alone workers 1 microbatches 3 family "vocab-1f1b" {
// CHECK-NEXT: path on [0]
// CHECK-NEXT: worker 0 runs [0F0 0X0 0S0 0Y0 0F1 0X1 0S1 0Y1 0T0 0Z0 0F2 0X2 0B0 0S2 0Y2 0T1 0Z1 0B1 0T2 0Z2 0B2]
// SECOND-LABEL: pipe.schedule @alone workers 1 microbatches 3 family "vocab-1f1b" {vocabulary = "vocab-2"} {
// SECOND-NEXT: path on [0]
// SECOND-NEXT: worker 0 runs [0F0 0X0 0S0 0Y0 0F1 0X1 0B0 0S1 0Y1 0T0 0F2 0X2 0B1 0S2 0Y2 0T1 0B2 0T2]
pipe.schedule @alone workers 1 microbatches 3 {
  path on [0]
}
