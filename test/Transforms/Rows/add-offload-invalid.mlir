// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-add-offload{memory=2 stages=0:2})'
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-add-offload{amount=third})' 2>&1 | FileCheck %s --check-prefix=AMOUNT
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-add-offload{stages=0,one})' 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-add-offload{workers=2 schedule=missing})' 2>&1 | FileCheck %s --check-prefix=WORKER
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-add-offload{ahead=-1 schedule=missing})' 2>&1 | FileCheck %s --check-prefix=AHEAD

// AMOUNT: Cannot find option named 'third'!
// STAGE: error: pipe-add-offload: stages: expected an index or a range as in 5, 0:4 or 0:8:2, found 'one'
// WORKER: error: 'pipe.schedule' op worker 2 is out of range: there are 2 (0 to 1)
// AHEAD: error: 'pipe.schedule' op activations to keep or to hold and cells to reload ahead are 0 or more, found -1

// a backward is missing
pipe.schedule @missing workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  // expected-error @+1 {{'pipe.worker' op 1B0 is missing: worker 1 runs 1F0 but no backward, whole (B) or split (I and W)}}
  worker 1 runs [1F0]
}

// -----

// no room: stage 2 stays on the device
pipe.schedule @s workers 2 microbatches 3 {
  path on [0, 1, 0]
  // expected-error @+1 {{'pipe.worker' op worker 0 holds 3 activations when 2F2 starts, with every offload before it awaited: memory is 2}}
  worker 0 runs [0F0 0F1 0F2 2F0 2F1 2F2 2B0 2B1 2B2 0B0 0B1 0B2]
  worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
}
