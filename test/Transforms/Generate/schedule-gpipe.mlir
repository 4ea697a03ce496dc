// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-gpipe,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-gpipe{split-backward=true})' | FileCheck %s --check-prefix=SPLIT
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-gpipe{split-backward=true gradient-after=I})' | FileCheck %s --check-prefix=AFTER-I
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-gpipe{schedule=s})' | FileCheck %s --check-prefix=NAMED
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-gpipe{split-backward=true gradient-after=I})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-gpipe{gradient-after=I schedule= split-backward=true}

// CHECK-LABEL:   pipe.schedule @s workers 2 microbatches 3 family "gpipe" {
// CHECK-NEXT:      path on [0, 1]
// CHECK-NEXT:      worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
// CHECK-NEXT:      worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
// CHECK-NEXT:    }
// SPLIT-LABEL:   pipe.schedule @s workers 2 microbatches 3 family "gpipe" {split_backward = true} gradient after W {
// SPLIT-NEXT:      path on [0, 1]
// SPLIT-NEXT:      worker 0 runs [0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2]
// SPLIT-NEXT:      worker 1 runs [1F0 1F1 1F2 1I0 1W0 1I1 1W1 1I2 1W2]
// AFTER-I-LABEL: pipe.schedule @s workers 2 microbatches 3 family "gpipe" {split_backward = true} {
pipe.schedule @s workers 2 microbatches 3 {
  path on [0, 1]
}

// The path decides which worker has which stage.
// CHECK-LABEL: pipe.schedule @turned workers 3 microbatches 1 family "gpipe" {
// CHECK-NEXT:    path on [2, 0, 1]
// CHECK-NEXT:    worker 0 runs [1F0 1B0]
// CHECK-NEXT:    worker 1 runs [2F0 2B0]
// CHECK-NEXT:    worker 2 runs [0F0 0B0]
// NAMED-LABEL: pipe.schedule @turned workers 3 microbatches 1 {
// NAMED-NEXT:    path on [2, 0, 1]
// NAMED-NEXT:  }
pipe.schedule @turned workers 3 microbatches 1 {
  path on [2, 0, 1]
}

// A schedule with rows stays unchanged.
// CHECK-LABEL: pipe.schedule @filled workers 1 microbatches 2 {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:    worker 0 runs [0F0 0B0 0F1 0B1]
pipe.schedule @filled workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0B0 0F1 0B1]
}
