// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-hanayo{waves=1},pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-hanayo{waves=1 split-backward=false},pipe-verify)' | FileCheck %s --check-prefix=WHOLE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-hanayo{schedule=linear waves=2})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-hanayo{gradient-after=W schedule=linear split-backward=true waves=2}

// One wave.
// CHECK-LABEL: pipe.schedule @linear workers 4 microbatches 4 family "hanayo" gradient after W {
// CHECK-NEXT:     path on [0, 1, 2, 3, 3, 2, 1, 0]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 7W2 7F3 7I3 7W3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 6F0 6F1 6I0 6W0 6F2 6I1 6W1 6F3 6I2 6W2 6I3 1I0 1W0 6W3 1I1 1W1 1I2 1W2 1I3 1W3]
// CHECK-NEXT:     worker 2 runs [2F0 2F1 2F2 5F0 2F3 5F1 5F2 5F3 5I0 5W0 5I1 5W1 2I0 2W0 5I2 5W2 2I1 2W1 5I3 5W3 2I2 2W2 2I3 2W3]
// CHECK-NEXT:     worker 3 runs [3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 4I0 4W0 3I0 3W0 4I1 4W1 3I1 3W1 4I2 4W2 3I2 3W2 4I3 4W3 3I3 3W3]
// CHECK-NEXT:   }
// WHOLE-LABEL: pipe.schedule @linear workers 4 microbatches 4 family "hanayo" {split_backward = false} {
// WHOLE-NEXT:     path on [0, 1, 2, 3, 3, 2, 1, 0]
// WHOLE-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 0B0 0B1 0B2 0B3]
// WHOLE-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 6F0 6F1 6B0 6F2 6B1 6F3 6B2 6B3 1B0 1B1 1B2 1B3]
// WHOLE-NEXT:     worker 2 runs [2F0 2F1 2F2 5F0 2F3 5F1 5F2 5F3 5B0 5B1 2B0 5B2 2B1 5B3 2B2 2B3]
// WHOLE-NEXT:     worker 3 runs [3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 4B0 3B0 4B1 3B1 4B2 3B2 4B3 3B3]
// WHOLE-NEXT:   }
pipe.schedule @linear workers 4 microbatches 4 {
  path on [0, 1, 2, 3]
}

// A wave that begins elsewhere.
// CHECK-LABEL: pipe.schedule @placed workers 2 microbatches 2 family "hanayo" gradient after W {
// CHECK-NEXT:     path on [1, 0, 0, 1]
// CHECK-NEXT:     worker 0 runs [1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 2I1 2W1 1I1 1W1]
// CHECK-NEXT:     worker 1 runs [0F0 0F1 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 0I1 0W1]
// CHECK-NEXT:   }
// WHOLE-LABEL: pipe.schedule @placed workers 2 microbatches 2 family "hanayo" {split_backward = false} {
// WHOLE-NEXT:     path on [1, 0, 0, 1]
// WHOLE-NEXT:     worker 0 runs [1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1]
// WHOLE-NEXT:     worker 1 runs [0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1]
// WHOLE-NEXT:   }
pipe.schedule @placed workers 2 microbatches 2 {
  path on [1, 0, 0, 1]
}
