// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-offload,pipe-verify{schedule=s},pipe-verify{schedule=some_are_there})' 2>&1 | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-offload{amount=half workers=0 schedule=s})' | FileCheck %s --check-prefix=HALF
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-offload{memory=2 schedule=s},pipe-verify{memory=2 schedule=s},pipe-attach-profile{times="F=3ms,B=5ms,D=50ms,U=20ms" schedule=s},pipe-verify{memory=2 schedule=s})' | FileCheck %s --check-prefix=MEMORY
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-offload{stages=0 microbatches=0:3:2 ahead=0 schedule=s})' 2>&1 | FileCheck %s --check-prefix=SOME
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-offload{amount=half stages=0,1:2 workers=0:2:1 microbatches=1 keep=2 ahead=3 memory=9 schedule=s})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-add-offload{ahead=3 amount=half keep=2 memory=9 microbatches={1} schedule=s stages={0,1:2} workers={0:2:1}}

// CHECK:     remark: @some_are_there: 1 activation is offloaded already
// CHECK:     remark: @some_are_there: 1 activation is recomputed, not offloaded

// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 4 {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0D0 0F1 0D1 0F2 0D2 0U0 0F3 0D3 0U1 0B0 0U2 0B1 0U3 0B2 0B3]
// CHECK-NEXT:    worker 1 runs [1F0 1D0 1F1 1D1 1F2 1D2 1U0 1F3 1D3 1U1 1B0 1U2 1B1 1U3 1B2 1B3]
// CHECK-NEXT:  }
// HALF-LABEL: pipe.schedule @s workers 2 microbatches 4 {
// HALF-NEXT:    path on [0, 1]
// HALF-NEXT:    worker 0 runs [0F0 0F1 0F2 0D2 0F3 0D3 0B0 0U2 0B1 0U3 0B2 0B3]
// HALF-NEXT:    worker 1 runs [1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3]
// SOME-LABEL: pipe.schedule @s workers 2 microbatches 4 {
// SOME-NEXT:    path on [0, 1]
// SOME-NEXT:    worker 0 runs [0F0 0D0 0F1 0F2 0D2 0F3 0U0 0B0 0B1 0U2 0B2 0B3]
// SOME-NEXT:    worker 1 runs [1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3]
// MEMORY-LABEL: pipe.schedule @s workers 2 microbatches 4 profile
// MEMORY-NEXT:    path on [0, 1]
// MEMORY-NEXT:    worker 0 runs [0F0 0D0 0F1 0D1 0d0 0F2 0D2 0d1 0d2 0F3 0D3 0U0 0B0 0U1 0B1 0U2 0B2 0U3 0B3]
// MEMORY-NEXT:    worker 1 runs [1F0 1D0 1F1 1D1 1d0 1F2 1D2 1d1 1d2 1F3 1D3 1U0 1B0 1U1 1B1 1U2 1B2 1U3 1B3]
pipe.schedule @s workers 2 microbatches 4 family "gpipe" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3]
  worker 1 runs [1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3]
}

// CHECK-LABEL: pipe.schedule @some_are_there workers 1 microbatches 3 {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:    worker 0 runs [0F0 0D0 0F1 0F2 0D2 0U0 0B0 0R1 0U2 0B1 0B2]
pipe.schedule @some_are_there workers 1 microbatches 3 {
  path on [0]
  worker 0 runs [0F0 0D0 0F1 0F2 0U0 0B0 0R1 0B1 0B2]
}

// CHECK-LABEL: pipe.schedule @problem workers 1 microbatches 1 family "x" {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:  }
pipe.schedule @problem workers 1 microbatches 1 family "x" {
  path on [0]
}
