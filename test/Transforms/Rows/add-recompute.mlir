// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-recompute,pipe-verify{schedule=s},pipe-verify{schedule=v},pipe-verify{schedule=pair},pipe-verify{schedule=aligned},pipe-verify{schedule=some_are_there})' 2>&1 | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-recompute{kind=selective stages=0 keep=1 ahead=1 schedule=s})' | FileCheck %s --check-prefix=AHEAD
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-recompute{skip-adjacent=true schedule=v})' | FileCheck %s --check-prefix=SKIP
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-recompute{stages=0,3 microbatches=0:3:2 workers=0 schedule=v})' | FileCheck %s --check-prefix=SOME
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-recompute{kind=selective stages=0,1:2 workers=0:2:1 microbatches=1 keep=2 skip-adjacent=true ahead=3 schedule=s})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-add-recompute{ahead=3 keep=2 kind=selective microbatches={1} schedule=s skip-adjacent=true stages={0,1:2} workers={0:2:1}}

// CHECK: remark: @some_are_there: 1 backward has an R already

// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 3 {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0F2 0R0 0B0 0R1 0B1 0R2 0B2]
// CHECK-NEXT:    worker 1 runs [1F0 1F1 1F2 1R0 1B0 1R1 1B1 1R2 1B2]
// CHECK-NEXT:  }
// AHEAD-LABEL: pipe.schedule @s workers 2 microbatches 3 recompute selective {
// AHEAD-NEXT:    path on [0, 1]
// AHEAD-NEXT:    worker 0 runs [0F0 0F1 0F2 0R1 0B0 0B1 0R2 0B2]
// AHEAD-NEXT:    worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
pipe.schedule @s workers 2 microbatches 3 family "gpipe" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
  worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
}

// On a V an R stands right before its I.
// CHECK-LABEL: pipe.schedule @v workers 2 microbatches 3 {
// CHECK-NEXT:    path on [0, 1, 1, 0]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0F2 3F0 3R0 3I0 3W0 3F1 3R1 3I1 3W1 0R0 0I0 0W0 3F2 3R2 3I2 3W2 0R1 0I1 0W1 0R2 0I2 0W2]
// CHECK-NEXT:    worker 1 runs [1F0 2F0 1F1 2F1 2R0 2I0 2W0 1F2 1R0 1I0 1W0 2F2 2R1 2I1 2W1 1R1 1I1 2R2 2I2 1R2 1I2 1W1 2W2 1W2]
// SKIP-LABEL: pipe.schedule @v workers 2 microbatches 3 {
// SKIP-NEXT:    path on [0, 1, 1, 0]
// SKIP-NEXT:    worker 0 runs [0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0R0 0I0 0W0 3F2 3I2 3W2 0R1 0I1 0W1 0R2 0I2 0W2]
// SKIP-NEXT:    worker 1 runs [1F0 2F0 1F1 2F1 2R0 2I0 2W0 1F2 1R0 1I0 1W0 2F2 2R1 2I1 2W1 1R1 1I1 2R2 2I2 1R2 1I2 1W1 2W2 1W2]
// SOME-LABEL: pipe.schedule @v workers 2 microbatches 3 {
// SOME-NEXT:    path on [0, 1, 1, 0]
// SOME-NEXT:    worker 0 runs [0F0 0F1 0F2 3F0 3R0 3I0 3W0 3F1 3I1 3W1 0R0 0I0 0W0 3F2 3R2 3I2 3W2 0I1 0W1 0R2 0I2 0W2]
// SOME-NEXT:    worker 1 runs [1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2]
pipe.schedule @v workers 2 microbatches 3 family "zb-v" {
  path on [0, 1, 1, 0]
  worker 0 runs [0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2]
  worker 1 runs [1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2]
}

// Two paths, an overlapped pair, copies and a join.
// CHECK-LABEL: pipe.schedule @pair workers 2 microbatches 2 {
// CHECK-NEXT:    path on [0, 1] takes [0]
// CHECK-NEXT:    path on [1, 0] takes [1]
// CHECK-NEXT:    worker 0 runs [0F0 0D0 1F1 1R1 1B1 0U0 0u0 0R0 0B0]
// CHECK-NEXT:    worker 1 runs [0F1 0R1 1F0+0B1 1R0 1B0]
pipe.schedule @pair workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 0D0 1F1 1B1 0U0 0u0 0B0]
  worker 1 runs [0F1 1F0+0B1 1B0]
}

// An aligned schedule is aligned again; the first R of worker 0 takes a slot in which
// the worker waited.
// CHECK-LABEL: pipe.schedule @aligned workers 2 microbatches 2 aligned {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0R0 _2 0B0 0R1 _ 0B1]
// CHECK-NEXT:    worker 1 runs [_ 1F0 1R0 1B0 1F1 1R1 1B1 _2]
pipe.schedule @aligned workers 2 microbatches 2 aligned {
  path on [0, 1]
  worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
  worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
}

// CHECK-LABEL: pipe.schedule @some_are_there workers 1 microbatches 2 {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:    worker 0 runs [0F0 0R0 0F1 0B0 0R1 0B1]
pipe.schedule @some_are_there workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0R0 0F1 0B0 0B1]
}

// CHECK-LABEL: pipe.schedule @problem workers 1 microbatches 1 family "x" {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:  }
pipe.schedule @problem workers 1 microbatches 1 family "x" {
  path on [0]
}
