// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-zb-h2,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-zb-h2)' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-zb-h2{schedule= slices=0}

// This table is as long and holds as much as that of zero-bubble.
// CHECK-LABEL: pipe.schedule @large workers 4 microbatches 8 family "zb-h2" {
// CHECK-NEXT:     path on [0, 1, 2, 3]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 0F4 0F5 0F6 0I0 0W0 0F7 0I1 0W1 0I2 0W2 0I3 0W3 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 1F4 1I0 1F5 1I1 1F6 1I2 1W0 1F7 1I3 1W1 1I4 1W2 1I5 1W3 1I6 1W4 1I7 1W5 1W6 1W7]
// CHECK-NEXT:     worker 2 runs [2F0 2F1 2F2 2I0 2F3 2I1 2F4 2I2 2F5 2I3 2F6 2I4 2W0 2F7 2I5 2W1 2I6 2W2 2I7 2W3 2W4 2W5 2W6 2W7]
// CHECK-NEXT:     worker 3 runs [3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3F4 3I4 3F5 3I5 3F6 3I6 3W0 3F7 3I7 3W1 3W2 3W3 3W4 3W5 3W6 3W7]
// CHECK-NEXT:   }
pipe.schedule @large workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// Fewer microbatches than the warm-up takes.
// CHECK-LABEL: pipe.schedule @short workers 3 microbatches 2 family "zb-h2" {
// CHECK-NEXT:     path on [0, 1, 2]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0I0 0W0 0I1 0W1]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1I0 1I1 1W0 1W1]
// CHECK-NEXT:     worker 2 runs [2F0 2I0 2F1 2I1 2W0 2W1]
// CHECK-NEXT:   }
pipe.schedule @short workers 3 microbatches 2 {
  path on [0, 1, 2]
}
