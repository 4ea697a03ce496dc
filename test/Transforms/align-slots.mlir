// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots,pipe-verify{schedule=s})' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots,pipe-align-slots)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots{slots=unit schedule=s})' | FileCheck %s --check-prefix=NAMED
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots{slots=unit schedule=s})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-align-slots{schedule=s slots=unit}

// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 2 family "1f1b" aligned {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
// CHECK-NEXT:    worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
// CHECK-NEXT:  }
pipe.schedule @s workers 2 microbatches 2 family "1f1b" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}

// With the gradient after W, a stage waits one slot longer for it.
// CHECK-LABEL: pipe.schedule @after_i workers 2 microbatches 1 aligned {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 _2 0I0 0W0]
// CHECK-NEXT:    worker 1 runs [_ 1F0 1I0 1W0 _]
// NAMED-LABEL: pipe.schedule @after_i workers 2 microbatches 1 {
// NAMED-NEXT:    path on [0, 1]
// NAMED-NEXT:    worker 0 runs [0F0 0I0 0W0]
pipe.schedule @after_i workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0I0 0W0]
  worker 1 runs [1F0 1I0 1W0]
}

// CHECK-LABEL: pipe.schedule @after_w workers 2 microbatches 1 gradient after W aligned {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 _3 0I0 0W0]
// CHECK-NEXT:    worker 1 runs [_ 1F0 1I0 1W0 _2]
pipe.schedule @after_w workers 2 microbatches 1 gradient after W {
  path on [0, 1]
  worker 0 runs [0F0 0I0 0W0]
  worker 1 runs [1F0 1I0 1W0]
}

// A pair takes the slots of both and starts when both can; what was idle does not
// count.
// CHECK-LABEL: pipe.schedule @pair workers 2 microbatches 2 aligned {
// CHECK-NEXT:    path on [0, 1] takes [0]
// CHECK-NEXT:    path on [1, 0] takes [1]
// CHECK-NEXT:    worker 0 runs [0F0 1F1 1B1 _5 0B0]
// CHECK-NEXT:    worker 1 runs [0F1 _3 1F0+0B1 1B0 _2]
pipe.schedule @pair workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 _5 1F1 1B1 0B0]
  worker 1 runs [0F1 1F0+0B1 1B0]
}

// Copies and joins take none.
// CHECK-LABEL: pipe.schedule @copies workers 2 microbatches 1 aligned {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0D0 0d0 0U0 _3 0u0 0B0]
pipe.schedule @copies workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0D0 0d0 0U0 0u0 0B0]
  worker 1 runs [1F0 1B0]
}

// A problem has nothing to align.
// CHECK-LABEL: pipe.schedule @problem workers 1 microbatches 1 {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:  }
pipe.schedule @problem workers 1 microbatches 1 {
  path on [0]
}
