// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-merge-backward,pipe-verify{schedule=s},pipe-verify{schedule=after_w},pipe-verify{schedule=h1})' 2>&1 | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-merge-backward,pipe-merge-backward)' 2>&1 | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-merge-backward{schedule=s apart=refuse})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-merge-backward{apart=refuse schedule=s}

// CHECK: remark: @h1: 1 backward stays split: W is not right after I

// The whole backward sends a slot later than I did, so cells move.
// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 1 aligned {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 _3 0B0]
// CHECK-NEXT:    worker 1 runs [_ 1F0 1B0 _2]
// CHECK-NEXT:  }
pipe.schedule @s workers 2 microbatches 1 aligned {
  path on [0, 1]
  worker 0 runs [0F0 _2 0I0 0W0]
  worker 1 runs [_ 1F0 1I0 1W0 _]
}

// After W nothing moves; the family is whole, and no rule is left to print.
// CHECK-LABEL: pipe.schedule @after_w workers 2 microbatches 1 family "gpipe" aligned {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 _4 0B0 _]
// CHECK-NEXT:    worker 1 runs [_ 1F0 1B0 _ _3]
pipe.schedule @after_w workers 2 microbatches 1 family "gpipe" {split_backward = true} gradient after W aligned {
  path on [0, 1]
  worker 0 runs [0F0 _4 0I0 0W0 _]
  worker 1 runs [_ 1F0 1I0 _ 1W0 _3]
}

// Halves that are apart stay, and so does the rule; the rows are no longer those of the family.
// CHECK-LABEL: pipe.schedule @h1 workers 1 microbatches 3 {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0I0 0F2 0W0 0B1 0B2]
pipe.schedule @h1 workers 1 microbatches 3 family "zb-h1" {
  path on [0]
  worker 0 runs [0F0 0F1 0I0 0F2 0W0 0I1 0W1 0I2 0W2]
}

// CHECK-LABEL: pipe.schedule @problem workers 1 microbatches 1 {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:  }
pipe.schedule @problem workers 1 microbatches 1 {
  path on [0]
}
