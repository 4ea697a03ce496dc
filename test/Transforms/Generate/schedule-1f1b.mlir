// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-1f1b,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-1f1b{split-backward=true gradient-after=I},pipe-verify)' | FileCheck %s --check-prefix=SPLIT
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-1f1b{split-backward=true gradient-after=I})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-1f1b{gradient-after=I schedule= split-backward=true}

// CHECK-LABEL: pipe.schedule @s workers 3 microbatches 4 family "1f1b" {
// CHECK-NEXT:    path on [0, 1, 2]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3]
// CHECK-NEXT:    worker 1 runs [1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3]
// CHECK-NEXT:    worker 2 runs [2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3]
// CHECK-NEXT:  }
// SPLIT-LABEL: pipe.schedule @s workers 3 microbatches 4 family "1f1b" {split_backward = true} {
// SPLIT-NEXT:    path on [0, 1, 2]
// SPLIT-NEXT:    worker 0 runs [0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3]
// SPLIT-NEXT:    worker 1 runs [1F0 1F1 1I0 1W0 1F2 1I1 1W1 1F3 1I2 1W2 1I3 1W3]
// SPLIT-NEXT:    worker 2 runs [2F0 2I0 2W0 2F1 2I1 2W1 2F2 2I2 2W2 2F3 2I3 2W3]
pipe.schedule @s workers 3 microbatches 4 {
  path on [0, 1, 2]
}

// With fewer microbatches than workers, no worker reaches its steady state.
// CHECK-LABEL: pipe.schedule @short workers 4 microbatches 2 family "1f1b" {
// CHECK-NEXT:    path on [0, 1, 2, 3]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0B0 0B1]
// CHECK-NEXT:    worker 1 runs [1F0 1F1 1B0 1B1]
// CHECK-NEXT:    worker 2 runs [2F0 2F1 2B0 2B1]
// CHECK-NEXT:    worker 3 runs [3F0 3B0 3F1 3B1]
pipe.schedule @short workers 4 microbatches 2 {
  path on [0, 1, 2, 3]
}

// CHECK-LABEL: pipe.schedule @single workers 1 microbatches 2 family "1f1b" {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:    worker 0 runs [0F0 0B0 0F1 0B1]
pipe.schedule @single workers 1 microbatches 2 {
  path on [0]
}
