// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-zb-h1,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-zb-h1)' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-zb-h1{schedule= slices=0}

// The order of zero-bubble.
// CHECK-LABEL: pipe.schedule @golden workers 4 microbatches 8 family "zb-h1" {
// CHECK-NEXT:     path on [0, 1, 2, 3]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 0I0 0W0 0F4 0I1 0W1 0F5 0I2 0W2 0F6 0I3 0W3 0F7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1I0 1F3 1I1 1W0 1F4 1I2 1W1 1F5 1I3 1W2 1F6 1I4 1W3 1F7 1I5 1W4 1I6 1W5 1I7 1W6 1W7]
// CHECK-NEXT:     worker 2 runs [2F0 2F1 2I0 2F2 2I1 2F3 2I2 2W0 2F4 2I3 2W1 2F5 2I4 2W2 2F6 2I5 2W3 2F7 2I6 2W4 2I7 2W5 2W6 2W7]
// CHECK-NEXT:     worker 3 runs [3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3W0 3F4 3I4 3W1 3F5 3I5 3W2 3F6 3I6 3W3 3F7 3I7 3W4 3W5 3W6 3W7]
// CHECK-NEXT:   }
pipe.schedule @golden workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// Fewer microbatches than workers.
// CHECK-LABEL: pipe.schedule @short workers 3 microbatches 2 family "zb-h1" {
// CHECK-NEXT:     path on [0, 1, 2]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0I0 0W0 0I1 0W1]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1I0 1I1 1W0 1W1]
// CHECK-NEXT:     worker 2 runs [2F0 2I0 2F1 2I1 2W0 2W1]
// CHECK-NEXT:   }
pipe.schedule @short workers 3 microbatches 2 {
  path on [0, 1, 2]
}
