// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-offload,pipe-verify{schedule=s},pipe-verify{schedule=v},pipe-verify{schedule=pair},pipe-verify{schedule=aligned},pipe-verify{schedule=some_are_there})' 2>&1 | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-offload{amount=half workers=0 schedule=s})' | FileCheck %s --check-prefix=HALF
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-offload{memory=2 schedule=s},pipe-verify{memory=2 schedule=s},pipe-attach-profile{times="F=3ms,B=5ms,D=50ms,U=20ms" schedule=s},pipe-verify{memory=2 schedule=s})' | FileCheck %s --check-prefix=MEMORY
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-offload{stages=0 microbatches=0:3:2 ahead=0 schedule=v})' 2>&1 | FileCheck %s --check-prefix=SOME
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-offload{amount=half stages=0,1:2 workers=0:2:1 microbatches=1 keep=2 ahead=3 memory=9 schedule=s})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-add-offload{ahead=3 amount=half keep=2 memory=9 microbatches={1} schedule=s stages={0,1:2} workers={0:2:1}}

// CHECK:     remark: @v: 3 activations stay on the device: fewer than 2 compute cells stand between forward and backward
// CHECK:     remark: @pair: 3 activations stay on the device
// CHECK:     remark: @some_are_there: 1 activation is offloaded already
// CHECK:     remark: @some_are_there: 1 activation is recomputed, not offloaded

// CHECK-LABEL: pipe.schedule @of_the_description workers 2 microbatches 3 {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0D0 0F1 0D1 0U0 0F2 0D2 0U1 0B0 0U2 0B1 0B2]
// CHECK-NEXT:    worker 1 runs [1F0 1D0 1F1 1D1 1U0 1F2 1D2 1U1 1B0 1U2 1B1 1B2]
pipe.schedule @of_the_description workers 2 microbatches 3 family "gpipe" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
  worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
}

// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 4 {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0D0 0F1 0D1 0F2 0D2 0U0 0F3 0D3 0U1 0B0 0U2 0B1 0U3 0B2 0B3]
// CHECK-NEXT:    worker 1 runs [1F0 1D0 1F1 1D1 1F2 1D2 1U0 1F3 1D3 1U1 1B0 1U2 1B1 1U3 1B2 1B3]
// CHECK-NEXT:  }
// HALF-LABEL: pipe.schedule @s workers 2 microbatches 4 {
// HALF-NEXT:    path on [0, 1]
// HALF-NEXT:    worker 0 runs [0F0 0F1 0F2 0D2 0F3 0D3 0B0 0U2 0B1 0U3 0B2 0B3]
// HALF-NEXT:    worker 1 runs [1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3]
// MEMORY-LABEL: pipe.schedule @s workers 2 microbatches 4 profile
// MEMORY-NEXT:    path on [0, 1]
// MEMORY-NEXT:    worker 0 runs [0F0 0D0 0F1 0D1 0d0 0F2 0D2 0d1 0d2 0F3 0D3 0U0 0B0 0U1 0B1 0U2 0B2 0U3 0B3]
// MEMORY-NEXT:    worker 1 runs [1F0 1D0 1F1 1D1 1d0 1F2 1D2 1d1 1d2 1F3 1D3 1U0 1B0 1U1 1B1 1U2 1B2 1U3 1B3]
pipe.schedule @s workers 2 microbatches 4 family "gpipe" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3]
  worker 1 runs [1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3]
}

// On a V only those of the first stages live long enough.
// CHECK-LABEL: pipe.schedule @v workers 2 microbatches 3 {
// CHECK-NEXT:    path on [0, 1, 1, 0]
// CHECK-NEXT:    worker 0 runs [0F0 0D0 0F1 0D1 0F2 0D2 3F0 3I0 3W0 3F1 3I1 0U0 3W1 0I0 0W0 3F2 3I2 0U1 3W2 0I1 0U2 0W1 0I2 0W2]
// CHECK-NEXT:    worker 1 runs [1F0 1D0 2F0 2D0 1F1 1D1 2U0 2F1 2D1 2I0 2W0 1U0 1F2 1D2 1I0 1W0 2U1 2F2 2D2 2I1 1U1 2W1 2U2 1I1 1U2 2I2 1I2 1W1 2W2 1W2]
// SOME-LABEL: pipe.schedule @v workers 2 microbatches 3 {
// SOME-NEXT:    path on [0, 1, 1, 0]
// SOME-NEXT:    worker 0 runs [0F0 0D0 0F1 0F2 0D2 3F0 3I0 3W0 3F1 3I1 3W1 0U0 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0U2 0I2 0W2]
// SOME-NEXT:    worker 1 runs [1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2]
pipe.schedule @v workers 2 microbatches 3 family "zb-v" {
  path on [0, 1, 1, 0]
  worker 0 runs [0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2]
  worker 1 runs [1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2]
}

// Two paths and an overlapped pair.
// CHECK-LABEL: pipe.schedule @pair workers 2 microbatches 2 {
// CHECK-NEXT:    path on [0, 1] takes [0]
// CHECK-NEXT:    path on [1, 0] takes [1]
// CHECK-NEXT:    worker 0 runs [0F0 0D0 1F1 0U0 1B1 0B0]
// CHECK-NEXT:    worker 1 runs [0F1 1F0+0B1 1B0]
pipe.schedule @pair workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 0B0]
  worker 1 runs [0F1 1F0+0B1 1B0]
}

// An aligned schedule keeps its slots.
// CHECK-LABEL: pipe.schedule @aligned workers 2 microbatches 3 aligned {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0D0 0F1 0D1 0U0 0F2 0D2 0U1 _4 0B0 0U2 0B1 0B2]
// CHECK-NEXT:    worker 1 runs [_ 1F0 1D0 _ 1F1 1D1 1U0 1F2 1D2 1U1 1B0 1U2 1B1 1B2 _2]
pipe.schedule @aligned workers 2 microbatches 3 aligned {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 _4 0B0 0B1 0B2]
  worker 1 runs [_ 1F0 _ 1F1 1F2 1B0 1B1 1B2 _2]
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
