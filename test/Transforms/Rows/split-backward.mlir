// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-split-backward,pipe-verify{schedule=s},pipe-verify{schedule=dualpipe})' 2>&1 | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-split-backward,pipe-split-backward)' 2>&1 | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-split-backward{gradient-after=I schedule=s})' | FileCheck %s --check-prefix=AFTER-I
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-split-backward{schedule=s gradient-after=W overlapped=refuse})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-split-backward{gradient-after=W overlapped=refuse schedule=s}

// CHECK: remark: @dualpipe: 2 overlapped backwards stay whole

// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 2 family "1f1b" {split_backward = true} gradient after W aligned {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 _2 0I0 0W0 _ 0I1 0W1]
// CHECK-NEXT:    worker 1 runs [_ 1F0 1I0 1W0 1F1 1I1 1W1 _2]
// CHECK-NEXT:  }
// AFTER-I-LABEL: pipe.schedule @s workers 2 microbatches 2 family "1f1b" {split_backward = true} aligned {
// AFTER-I-NEXT:    path on [0, 1]
// AFTER-I-NEXT:    worker 0 runs [0F0 0F1 _2 0I0 0W0 _ 0I1 0W1]
// AFTER-I-NEXT:    worker 1 runs [_ 1F0 1I0 1W0 1F1 1I1 1W1 _2]
pipe.schedule @s workers 2 microbatches 2 family "1f1b" aligned {
  path on [0, 1]
  worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
  worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
}

// Other options of the family, copies, joins and costs stay.
// CHECK-LABEL: pipe.schedule @kept workers 1 microbatches 2 family "interleaved-1f1b" {group = 2 : i64, split_backward = true} gradient after W profile <"F=1ms,I=2ms,W=1ms"> {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:    worker 0 runs [0F0 0D0 0F1 0U0 0u0 0R0 0I0 0W0 _3 0I1 0W1 0O0]
pipe.schedule @kept workers 1 microbatches 2 family "interleaved-1f1b" {group = 2} profile <"F=1ms,I=2ms,W=1ms"> {
  path on [0]
  worker 0 runs [0F0 0D0 0F1 0U0 0u0 0R0 0B0 _3 0B1 0O0]
}

// Overlapped backwards stay whole; split ones keep their rule.
// CHECK-LABEL: pipe.schedule @dualpipe workers 1 microbatches 4 {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:    worker 0 runs [0F0 0F1+0B0 0B1+0F2 0F3 0I2 0W2 0I3 0W3]
pipe.schedule @dualpipe workers 1 microbatches 4 family "dualpipe" {
  path on [0]
  worker 0 runs [0F0 0F1+0B0 0B1+0F2 0F3 0B2 0I3 0W3]
}

// A problem has nothing to split.
// CHECK-LABEL: pipe.schedule @problem workers 1 microbatches 1 {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:  }
pipe.schedule @problem workers 1 microbatches 1 {
  path on [0]
}
