// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-recompute,pipe-verify{schedule=s},pipe-verify{schedule=some_are_there})' 2>&1 | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-recompute{kind=selective stages=0 keep=1 ahead=1 schedule=s})' | FileCheck %s --check-prefix=AHEAD
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-recompute{skip-adjacent=true schedule=adjacent})' | FileCheck %s --check-prefix=SKIP
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-recompute{stages=0,1 microbatches=0:3:2 workers=0 schedule=s})' | FileCheck %s --check-prefix=SOME
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
// SOME-LABEL: pipe.schedule @s workers 2 microbatches 3 {
// SOME-NEXT:    path on [0, 1]
// SOME-NEXT:    worker 0 runs [0F0 0F1 0F2 0R0 0B0 0B1 0R2 0B2]
// SOME-NEXT:    worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
pipe.schedule @s workers 2 microbatches 3 family "gpipe" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
  worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
}

// SKIP-LABEL: pipe.schedule @adjacent
// SKIP:          worker 0 runs [0F0 0B0]
pipe.schedule @adjacent workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
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
