// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-dualpipe,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-dualpipe)' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-dualpipe{schedule=}

// The order of DeepSeek.
// CHECK-LABEL: pipe.schedule @golden workers 4 microbatches 8 family "dualpipe" {
// CHECK-NEXT:     path on [0, 1, 2, 3] takes [0:4]
// CHECK-NEXT:     path on [3, 2, 1, 0] takes [4:8]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 3F4 3I4 3W4 3F5 0F3+3B5 3F6+0B0 3B6 3F7+0B1 3B7 0I2 0W2 0I3 0W3]
// CHECK-NEXT:     worker 1 runs [1F0 2F4 1F1 2F5 1F2 2B4 2F6+1B0 1F3+2B5 2F7+1B1 2B6 1B2 2I7 1I3 2W7 1W3]
// CHECK-NEXT:     worker 2 runs [1F4 2F0 1F5 2F1 1F6 2B0 2F2+1B4 1F7+2B1 2F3+1B5 2B2 1B6 2I3 1I7 2W3 1W7]
// CHECK-NEXT:     worker 3 runs [0F4 0F5 0F6 3F0 3I0 3W0 3F1 0F7+3B1 3F2+0B4 3B2 3F3+0B5 3B3 0I6 0W6 0I7 0W7]
// CHECK-NEXT:   }
pipe.schedule @golden workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// A pair whose paths do not yet say what they take.
// CHECK-LABEL: pipe.schedule @placed workers 2 microbatches 4 family "dualpipe" {
// CHECK-NEXT:     path on [1, 0] takes [0:2]
// CHECK-NEXT:     path on [0, 1] takes [2:4]
// CHECK-NEXT:     worker 0 runs [0F2 1F0 0F3 1B0 1F1+0B2 1B1 0I3 0W3]
// CHECK-NEXT:     worker 1 runs [0F0 1F2 0F1 1B2 1F3+0B0 1B3 0I1 0W1]
// CHECK-NEXT:   }
pipe.schedule @placed workers 2 microbatches 4 {
  path on [1, 0]
  path on [0, 1]
}
