// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-eager-1f1b,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-eager-1f1b{split-backward=true},pipe-verify)' | FileCheck %s --check-prefix=SPLIT
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-eager-1f1b{gradient-after=I split-backward=true})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-eager-1f1b{gradient-after=I schedule= split-backward=true}

// The order of JaxPP.
// CHECK-LABEL: pipe.schedule @golden workers 4 microbatches 8 family "eager-1f1b" {
// CHECK-NEXT:     path on [0, 1, 2, 3]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 0F4 0F5 0F6 0B0 0F7 0B1 0B2 0B3 0B4 0B5 0B6 0B7]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 1F4 1B0 1F5 1B1 1F6 1B2 1F7 1B3 1B4 1B5 1B6 1B7]
// CHECK-NEXT:     worker 2 runs [2F0 2F1 2F2 2B0 2F3 2B1 2F4 2B2 2F5 2B3 2F6 2B4 2F7 2B5 2B6 2B7]
// CHECK-NEXT:     worker 3 runs [3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7]
// CHECK-NEXT:   }
// SPLIT-LABEL: pipe.schedule @golden workers 4 microbatches 8 family "eager-1f1b" {split_backward = true} gradient after W {
// SPLIT-NEXT:     path on [0, 1, 2, 3]
// SPLIT-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 0F4 0F5 0F6 0I0 0W0 0F7 0I1 0W1 0I2 0W2 0I3 0W3 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7]
// SPLIT-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 1F4 1I0 1W0 1F5 1I1 1W1 1F6 1I2 1W2 1F7 1I3 1W3 1I4 1W4 1I5 1W5 1I6 1W6 1I7 1W7]
// SPLIT-NEXT:     worker 2 runs [2F0 2F1 2F2 2I0 2W0 2F3 2I1 2W1 2F4 2I2 2W2 2F5 2I3 2W3 2F6 2I4 2W4 2F7 2I5 2W5 2I6 2W6 2I7 2W7]
// SPLIT-NEXT:     worker 3 runs [3F0 3I0 3W0 3F1 3I1 3W1 3F2 3I2 3W2 3F3 3I3 3W3 3F4 3I4 3W4 3F5 3I5 3W5 3F6 3I6 3W6 3F7 3I7 3W7]
// SPLIT-NEXT:   }
pipe.schedule @golden workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// Fewer microbatches than the warm-up takes, on a path of its own.
// CHECK-LABEL: pipe.schedule @short workers 3 microbatches 2 family "eager-1f1b" {
// CHECK-NEXT:     path on [2, 1, 0]
// CHECK-NEXT:     worker 0 runs [2F0 2B0 2F1 2B1]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1B0 1B1]
// CHECK-NEXT:     worker 2 runs [0F0 0F1 0B0 0B1]
// CHECK-NEXT:   }
// SPLIT-LABEL: pipe.schedule @short workers 3 microbatches 2 family "eager-1f1b" {split_backward = true} gradient after W {
// SPLIT-NEXT:     path on [2, 1, 0]
// SPLIT-NEXT:     worker 0 runs [2F0 2I0 2W0 2F1 2I1 2W1]
// SPLIT-NEXT:     worker 1 runs [1F0 1F1 1I0 1W0 1I1 1W1]
// SPLIT-NEXT:     worker 2 runs [0F0 0F1 0I0 0W0 0I1 0W1]
// SPLIT-NEXT:   }
pipe.schedule @short workers 3 microbatches 2 {
  path on [2, 1, 0]
}
