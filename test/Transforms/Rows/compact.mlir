// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-compact)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots{schedule=s},pipe-align-slots{schedule=kept},pipe-compact)' | FileCheck %s
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-compact{schedule=problem})' 2>&1 | FileCheck %s --check-prefix=PROBLEM

// PROBLEM: error: 'pipe.schedule' op has no rows

// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 1 {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0B0]
// CHECK-NEXT:    worker 1 runs [1F0 1B0]
// CHECK-NEXT:  }
pipe.schedule @s workers 2 microbatches 1 aligned {
  path on [0, 1]
  worker 0 runs [0F0 _3 0B0]
  worker 1 runs [_ 1F0 1B0 _2]
}

// Family, gradient rule, pairs and copies stay.
// CHECK-LABEL: pipe.schedule @kept workers 1 microbatches 2 family "hand" {group = 4 : i64} gradient after W profile <"F=1ms,B=2ms"> {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:    worker 0 runs [0F0 0D0 0U0 0F1+0B0 0B1]
pipe.schedule @kept workers 1 microbatches 2 family "hand" {group = 4} gradient after W profile <"F=1ms,B=2ms"> {
  path on [0]
  worker 0 runs [_ 0F0 _ _3 0D0 0U0 0F1+0B0 _ 0B1 _12]
}

// So do the lengths of cells, which give the level-2 numbers of an order.
// CHECK-LABEL: pipe.schedule @lengths workers 2 microbatches 1 slots <[1, 2]> {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0B0]
// CHECK-NEXT:    worker 1 runs [1F0 1B0]
pipe.schedule @lengths workers 2 microbatches 1 aligned slots <[1, 2]> {
  path on [0, 1]
  worker 0 runs [0F0 _6 0B0]
  worker 1 runs [_ 1F0 1B0 _2]
}

// CHECK-LABEL: pipe.schedule @problem
pipe.schedule @problem workers 1 microbatches 1 {
  path on [0]
}
