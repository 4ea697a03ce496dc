// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-greedy,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-greedy{split-backward=false},pipe-verify)' | FileCheck %s --check-prefix=WHOLE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-greedy{gradient-after=I},pipe-verify)' | FileCheck %s --check-prefix=INPUT
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-greedy{gradient-after=I})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-greedy{slots=blocks},pipe-verify)' | FileCheck %s --check-prefix=BLOCKS
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-greedy{slots=durations split-backward=false},pipe-verify)' | FileCheck %s --check-prefix=TIMES

// PIPELINE: pipe-schedule-greedy{gradient-after=I schedule= slices=0 slot= slots=unit split-backward=true}

// One path.
// CHECK-LABEL: pipe.schedule @linear workers 3 microbatches 3 family "greedy" gradient after W {
// CHECK-NEXT:     path on [0, 1, 2]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1I0 1W0 1I1 1W1 1I2 1W2]
// CHECK-NEXT:     worker 2 runs [2F0 2I0 2W0 2F1 2I1 2W1 2F2 2I2 2W2]
// CHECK-NEXT:   }
// WHOLE-LABEL: pipe.schedule @linear workers 3 microbatches 3 family "greedy" {split_backward = false} {
// WHOLE-NEXT:     path on [0, 1, 2]
// WHOLE-NEXT:     worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
// WHOLE-NEXT:     worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
// WHOLE-NEXT:     worker 2 runs [2F0 2B0 2F1 2B1 2F2 2B2]
// WHOLE-NEXT:   }
// INPUT-LABEL: pipe.schedule @linear workers 3 microbatches 3 family "greedy" {
// INPUT-NEXT:     path on [0, 1, 2]
// INPUT-NEXT:     worker 0 runs [0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2]
// INPUT-NEXT:     worker 1 runs [1F0 1F1 1F2 1I0 1W0 1I1 1W1 1I2 1W2]
// INPUT-NEXT:     worker 2 runs [2F0 2I0 2W0 2F1 2I1 2W1 2F2 2I2 2W2]
// INPUT-NEXT:   }
pipe.schedule @linear workers 3 microbatches 3 {
  path on [0, 1, 2]
}

// Two paths, which take microbatches in turn.
// CHECK-LABEL: pipe.schedule @mirrored workers 2 microbatches 2 family "greedy" gradient after W {
// CHECK-NEXT:     path on [0, 1] takes [0:2:2]
// CHECK-NEXT:     path on [1, 0] takes [1:2:2]
// CHECK-NEXT:     worker 0 runs [0F0 1F1 1I1 1W1 0I0 0W0]
// CHECK-NEXT:     worker 1 runs [0F1 1F0 1I0 1W0 0I1 0W1]
// CHECK-NEXT:   }
// WHOLE-LABEL: pipe.schedule @mirrored workers 2 microbatches 2 family "greedy" {split_backward = false} {
// WHOLE-NEXT:     path on [0, 1] takes [0:2:2]
// WHOLE-NEXT:     path on [1, 0] takes [1:2:2]
// WHOLE-NEXT:     worker 0 runs [0F0 1F1 1B1 0B0]
// WHOLE-NEXT:     worker 1 runs [0F1 1F0 1B0 0B1]
// WHOLE-NEXT:   }
// INPUT-LABEL: pipe.schedule @mirrored workers 2 microbatches 2 family "greedy" {
// INPUT-NEXT:     path on [0, 1] takes [0:2:2]
// INPUT-NEXT:     path on [1, 0] takes [1:2:2]
// INPUT-NEXT:     worker 0 runs [0F0 1F1 1I1 0I0 0W0 1W1]
// INPUT-NEXT:     worker 1 runs [0F1 1F0 1I0 0I1 0W1 1W0]
// INPUT-NEXT:   }
pipe.schedule @mirrored workers 2 microbatches 2 {
  path on [0, 1]
  path on [1, 0]
}

// A path of no family.
// CHECK-LABEL: pipe.schedule @uneven workers 2 microbatches 2 family "greedy" gradient after W {
// CHECK-NEXT:     path on [0, 0, 1]
// CHECK-NEXT:     worker 0 runs [0F0 1F0 0F1 1F1 1I0 1W0 0I0 0W0 1I1 1W1 0I1 0W1]
// CHECK-NEXT:     worker 1 runs [2F0 2I0 2W0 2F1 2I1 2W1]
// CHECK-NEXT:   }
// WHOLE-LABEL: pipe.schedule @uneven workers 2 microbatches 2 family "greedy" {split_backward = false} {
// WHOLE-NEXT:     path on [0, 0, 1]
// WHOLE-NEXT:     worker 0 runs [0F0 1F0 0F1 1F1 1B0 0B0 1B1 0B1]
// WHOLE-NEXT:     worker 1 runs [2F0 2B0 2F1 2B1]
// WHOLE-NEXT:   }
// INPUT-LABEL: pipe.schedule @uneven workers 2 microbatches 2 family "greedy" {
// INPUT-NEXT:     path on [0, 0, 1]
// INPUT-NEXT:     worker 0 runs [0F0 1F0 0F1 1F1 1I0 0I0 0W0 1W0 1I1 0I1 0W1 1W1]
// INPUT-NEXT:     worker 1 runs [2F0 2I0 2W0 2F1 2I1 2W1]
// INPUT-NEXT:   }
pipe.schedule @uneven workers 2 microbatches 2 {
  path on [0, 0, 1]
}

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
