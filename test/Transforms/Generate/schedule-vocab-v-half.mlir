// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-vocab-v-half,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-vocab-v-half{vocabulary=vocab-2},pipe-verify)' | FileCheck %s --check-prefix=SECOND
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-vocab-v-half)' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-vocab-v-half{embedding=false schedule= vocabulary=vocab-1}

// Workers run shards by their second stage.
// CHECK-LABEL: pipe.schedule @even workers 2 microbatches 3 family "vocab-v-half" {
// CHECK-NEXT: path on [0, 1, 1, 0]
// CHECK-NEXT: worker 0 runs [0F0 0F1 0F2 3F0 3X0 3S0 3Y0 3T0 3Z0 3I0 3F1 3X1 3S1 3Y1 3T1 3Z1 3I1 3F2 3X2 3S2 3Y2 3T2 3Z2 3I2 0I0 3W0 0I1 3W1 0I2 3W2 0W0 0W1 0W2]
// CHECK-NEXT: worker 1 runs [1F0 2F0 2X0 1F1 2S0 2Y0 2T0 2Z0 2F1 2X1 1F2 2S1 2Y1 2T1 2Z1 2F2 2X2 2I0 2S2 2Y2 2T2 2Z2 1I0 2I1 1I1 2I2 1I2 2W0 1W0 2W1 1W1 2W2 1W2]
// SECOND-LABEL: pipe.schedule @even workers 2 microbatches 3 family "vocab-v-half" {vocabulary = "vocab-2"} {
// SECOND-NEXT: path on [0, 1, 1, 0]
// SECOND-NEXT: worker 0 runs [0F0 0F1 0F2 3F0 3X0 3S0 3Y0 3I0 3F1 3X1 3S1 3Y1 3T0 3I1 3F2 3X2 3S2 3Y2 3T1 3T2 3I2 0I0 3W0 0I1 3W1 0I2 3W2 0W0 0W1 0W2]
// SECOND-NEXT: worker 1 runs [1F0 2F0 2X0 1F1 2S0 2Y0 2F1 2X1 1F2 2S1 2Y1 2T0 2F2 2X2 2I0 2S2 2Y2 2T1 2T2 1I0 2I1 1I1 2I2 1I2 2W0 1W0 2W1 1W1 2W2 1W2]
pipe.schedule @even workers 2 microbatches 3 {
  path on [0, 1]
}

// An odd number of workers.
// CHECK-LABEL: pipe.schedule @odd workers 3 microbatches 2 family "vocab-v-half" {
// CHECK-NEXT: path on [0, 1, 2, 2, 1, 0]
// CHECK-NEXT: worker 0 runs [0F0 0F1 5F0 5X0 5S0 5Y0 5T0 5Z0 5I0 5F1 5X1 5S1 5Y1 5T1 5Z1 5I1 5W0 5W1 0I0 0W0 0I1 0W1]
// CHECK-NEXT: worker 1 runs [1F0 1F1 4F0 4X0 4S0 4Y0 4T0 4Z0 4F1 4X1 4I0 4S1 4Y1 4T1 4Z1 4W0 4I1 1I0 4W1 1I1 1W0 1W1]
// CHECK-NEXT: worker 2 runs [2F0 3F0 3X0 2F1 3F1 3X1 3S0 3Y0 3T0 3Z0 3S1 3Y1 3T1 3Z1 3I0 2I0 3I1 2I1 3W0 2W0 3W1 2W1]
// SECOND-LABEL: pipe.schedule @odd workers 3 microbatches 2 family "vocab-v-half" {vocabulary = "vocab-2"} {
// SECOND-NEXT: path on [0, 1, 2, 2, 1, 0]
// SECOND-NEXT: worker 0 runs [0F0 0F1 5F0 5X0 5S0 5Y0 5I0 5F1 5X1 5S1 5Y1 5T0 5T1 5I1 5W0 5W1 0I0 0W0 0I1 0W1]
// SECOND-NEXT: worker 1 runs [1F0 1F1 4F0 4X0 4S0 4Y0 4F1 4X1 4I0 4S1 4Y1 4T0 4T1 4W0 4I1 1I0 4W1 1I1 1W0 1W1]
// SECOND-NEXT: worker 2 runs [2F0 3F0 3X0 2F1 3F1 3X1 3S0 3Y0 3S1 3Y1 3T0 3T1 3I0 2I0 3I1 2I1 3W0 2W0 3W1 2W1]
pipe.schedule @odd workers 3 microbatches 2 {
  path on [0, 1, 2]
}
