// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-chimera,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-chimera{construction=doubling},pipe-verify)' | FileCheck %s --check-prefix=DOUBLING
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-chimera{construction=halving split-backward=true},pipe-verify)' | FileCheck %s --check-prefix=HALVING
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-chimera{construction=doubling pairs=1})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-chimera{construction=doubling gradient-after=W pairs=1 schedule= split-backward=false}

// The basic unit of the paper, figure 2; with doubling it is half of a unit.
// CHECK-LABEL: pipe.schedule @figure workers 4 microbatches 4 family "chimera" {
// CHECK-NEXT:     path on [0, 1, 2, 3] takes [0:4:2]
// CHECK-NEXT:     path on [3, 2, 1, 0] takes [1:4:2]
// CHECK-NEXT:     worker 0 runs [0F0 0F2 3F1 3B1 3F3 3B3 0B0 0B2]
// CHECK-NEXT:     worker 1 runs [1F0 2F1 1F2 2F3 2B1 1B0 2B3 1B2]
// CHECK-NEXT:     worker 2 runs [1F1 2F0 1F3 2F2 2B0 1B1 2B2 1B3]
// CHECK-NEXT:     worker 3 runs [0F1 0F3 3F0 3B0 3F2 3B2 0B1 0B3]
// CHECK-NEXT:   }
// DOUBLING-LABEL: pipe.schedule @figure workers 4 microbatches 4 family "chimera" {construction = "doubling"} {
// DOUBLING-NEXT:     path on [0, 1, 2, 3] takes [0:4:2]
// DOUBLING-NEXT:     path on [3, 2, 1, 0] takes [1:4:2]
// DOUBLING-NEXT:     worker 0 runs [0F0 0F2 3F1 3F3 3B1 3B3 0B0 0B2]
// DOUBLING-NEXT:     worker 1 runs [1F0 1F2 2F1 2F3 2B1 1B0 2B3 1B2]
// DOUBLING-NEXT:     worker 2 runs [1F1 1F3 2F0 2F2 2B0 1B1 2B2 1B3]
// DOUBLING-NEXT:     worker 3 runs [0F1 0F3 3F0 3F2 3B0 3B2 0B1 0B3]
// DOUBLING-NEXT:   }
// HALVING-LABEL: pipe.schedule @figure workers 4 microbatches 4 family "chimera" {construction = "halving", split_backward = true} gradient after W {
// HALVING-NEXT:     path on [0, 1, 2, 3] takes [0:4:2]
// HALVING-NEXT:     path on [3, 2, 1, 0] takes [1:4:2]
// HALVING-NEXT:     worker 0 runs [0F0 0F2 3F1 3F3 3I1 3W1 3I3 3W3 0I0 0W0 0I2 0W2]
// HALVING-NEXT:     worker 1 runs [1F0 1F2 2F1 2F3 2I1 2W1 1I0 1W0 2I3 2W3 1I2 1W2]
// HALVING-NEXT:     worker 2 runs [1F1 1F3 2F0 2F2 2I0 2W0 1I1 1W1 2I2 2W2 1I3 1W3]
// HALVING-NEXT:     worker 3 runs [0F1 0F3 3F0 3F2 3I0 3W0 3I2 3W2 0I1 0W1 0I3 0W3]
// HALVING-NEXT:   }
pipe.schedule @figure workers 4 microbatches 4 {
  path on [0, 1, 2, 3]
}

// Four units, or two of twice the microbatches.
// CHECK-LABEL: pipe.schedule @units workers 2 microbatches 8 family "chimera" {
// CHECK-NEXT:     path on [0, 1] takes [0:8:2]
// CHECK-NEXT:     path on [1, 0] takes [1:8:2]
// CHECK-NEXT:     worker 0 runs [0F0 1F1 1B1 0B0 0F2 1F3 1B3 0B2 0F4 1F5 1B5 0B4 0F6 1F7 1B7 0B6]
// CHECK-NEXT:     worker 1 runs [0F1 1F0 1B0 0B1 0F3 1F2 1B2 0B3 0F5 1F4 1B4 0B5 0F7 1F6 1B6 0B7]
// CHECK-NEXT:   }
// DOUBLING-LABEL: pipe.schedule @units workers 2 microbatches 8 family "chimera" {construction = "doubling"} {
// DOUBLING-NEXT:     path on [0, 1] takes [0:8:2]
// DOUBLING-NEXT:     path on [1, 0] takes [1:8:2]
// DOUBLING-NEXT:     worker 0 runs [0F0 0F2 1F1 1F3 1B1 0B0 1B3 0B2 0F4 0F6 1F5 1F7 1B5 0B4 1B7 0B6]
// DOUBLING-NEXT:     worker 1 runs [0F1 0F3 1F0 1F2 1B0 0B1 1B2 0B3 0F5 0F7 1F4 1F6 1B4 0B5 1B6 0B7]
// DOUBLING-NEXT:   }
// HALVING-LABEL: pipe.schedule @units workers 2 microbatches 8 family "chimera" {construction = "halving", split_backward = true} gradient after W {
// HALVING-NEXT:     path on [0, 1] takes [0:8:2]
// HALVING-NEXT:     path on [1, 0] takes [1:8:2]
// HALVING-NEXT:     worker 0 runs [0F0 0F2 1F1 1F3 1I1 1W1 0I0 0W0 1I3 1W3 0I2 0W2 0F4 0F6 1F5 1F7 1I5 1W5 0I4 0W4 1I7 1W7 0I6 0W6]
// HALVING-NEXT:     worker 1 runs [0F1 0F3 1F0 1F2 1I0 1W0 0I1 0W1 1I2 1W2 0I3 0W3 0F5 0F7 1F4 1F6 1I4 1W4 0I5 0W5 1I6 1W6 0I7 0W7]
// HALVING-NEXT:   }
pipe.schedule @units workers 2 microbatches 8 {
  path on [0, 1]
}
