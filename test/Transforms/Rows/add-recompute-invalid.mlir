// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-add-recompute{kind=selective stages=0:2})'
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-add-recompute{kind=none})' 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-add-recompute{stages=0,one})' 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-add-recompute{microbatches=3:3})' 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-add-recompute{workers=2 schedule=missing})' 2>&1 | FileCheck %s --check-prefix=WORKER
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-add-recompute{keep=-1 schedule=missing})' 2>&1 | FileCheck %s --check-prefix=KEEP

// KIND: Cannot find option named 'none'!
// STAGE: error: pipe-add-recompute: stages: expected an index or a range as in 5, 0:4 or 0:8:2, found 'one'
// EMPTY: error: pipe-add-recompute: microbatches: expected an index or a range as in 5, 0:4 or 0:8:2, found '3:3'
// WORKER: error: 'pipe.schedule' op worker 2 is out of range: there are 2 (0 to 1)
// KEEP: error: 'pipe.schedule' op activations to keep or to recompute ahead are 0 or more, found -1

// a backward is missing
pipe.schedule @missing workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  // expected-error @+1 {{'pipe.worker' op 1B0 is missing: worker 1 runs 1F0 but no backward, whole (B) or split (I and W)}}
  worker 1 runs [1F0]
}

// -----

// stages out of range
// expected-error @+1 {{'pipe.schedule' op stage 0:2 is out of range: there is 1 (0 to 0)}}
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
}

// -----

// R of the other kind
pipe.schedule @s workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  // expected-error @+1 {{'pipe.worker' op cell 1 (1R0) recomputes full, as all R of a schedule do; found kind=selective}}
  worker 1 runs [1F0 1R0 1B0]
}
