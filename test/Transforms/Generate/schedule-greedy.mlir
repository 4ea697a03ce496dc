// The order of greedy goes by the lengths that a slot measures.

// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-greedy,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-greedy{slots=blocks},pipe-verify)' | FileCheck %s --check-prefix=BLOCKS
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-greedy{slots=durations split-backward=false},pipe-verify)' | FileCheck %s --check-prefix=TIMES

// Longer stages give another order, aligned by their lengths.
// CHECK-LABEL: pipe.schedule @longer workers 2 microbatches 3 family "greedy" gradient after W {
// CHECK-NEXT:     path on [0, 1] weights [2, 1]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2]
// CHECK-NEXT:     worker 1 runs [1F0 1I0 1W0 1F1 1I1 1W1 1F2 1I2 1W2]
// CHECK-NEXT:   }
// BLOCKS-LABEL: pipe.schedule @longer workers 2 microbatches 3 family "greedy" {slots = "blocks"} gradient after W aligned slots <[2, 1]> {
// BLOCKS-NEXT:     path on [0, 1] weights [2, 1]
// BLOCKS-NEXT:     worker 0 runs [0F0 0F1 0F2 0I0 0W0 0I1 0I2 0W1 0W2]
// BLOCKS-NEXT:     worker 1 runs [_2 1F0 1I0 1W0 1F1 1I1 1W1 1F2 1I2 1W2 _7]
// BLOCKS-NEXT:   }
// In unit times a stage takes as long as its weight.
// TIMES-LABEL: pipe.schedule @longer workers 2 microbatches 3 family "greedy" {slots = "durations", split_backward = false} aligned slots <F = [2, 1], B = [4, 2]> {
// TIMES-NEXT:     path on [0, 1] weights [2, 1]
// TIMES-NEXT:     worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
// TIMES-NEXT:     worker 1 runs [_2 1F0 1B0 1F1 1B1 1F2 1B2 _7]
// TIMES-NEXT:   }
pipe.schedule @longer workers 2 microbatches 3 {
  path on [0, 1] weights [2, 1]
}

// TIMES-LABEL: pipe.schedule @profiled workers 2 microbatches 3 family "greedy" {slots = "durations", split_backward = false} aligned slots <F = [4, 1], B = [2, 1]> profile <"F=[4ms,1ms],B=[2ms,1ms]"> {
// TIMES-NEXT:     path on [0, 1]
// TIMES-NEXT:     worker 0 runs [0F0 0F1 0B0 0B1 0F2 _2 0B2]
// TIMES-NEXT:     worker 1 runs [_4 1F0 1B0 _2 1F1 1B1 _6 1F2 1B2 _2]
// TIMES-NEXT:   }
pipe.schedule @profiled workers 2 microbatches 3 profile <"F=[4ms,1ms],B=[2ms,1ms]"> {
  path on [0, 1]
}
