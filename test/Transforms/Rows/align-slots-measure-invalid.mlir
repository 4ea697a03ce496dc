// Lengths that cannot be determined.

// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-align-slots{slots=durations},pipe-align-slots{slots=blocks schedule=blocks})'

// durations: the profile lacks a phase
// expected-error @+1 {{'pipe.schedule' op the schedule has split backward cells, the profile gives only B; give I and W}}
pipe.schedule @durations workers 1 microbatches 1 profile <"F=1ms,B=1ms"> {
  path on [0]
  worker 0 runs [0F0 0I0 0W0]
}

// -----

// durations: a slot of 1 ps
// expected-remark @+1 {{no slot longer than 1ps divides all durations; one that rounds them, as slot=1us, makes rows shorter}}
pipe.schedule @durations workers 1 microbatches 2 profile <"F=4000000s,B=1ps"> {
  path on [0]
  // expected-error @+1 {{'pipe.worker' op the cells up to cell 2 (0F1) of worker 0, which takes 4000000000000000000 slots, take more than 4611686018427387904 in all; a longer slot, as in slot=1us, makes fewer}}
  worker 0 runs [0F0 0B0 0F1 0B1]
}

// CASES
@@
pipe.model @m microbatch_size 1 boundary_bytes 1 state_bytes [2, 2, 12] source "" {
  block "layer" x 5 parameters 1 activation_bytes 1 weight_grad_bytes 1 recomputed_bytes 1 {
  }
}

// durations: a model without times
// error: 'pipe.schedule' op model 'm' has no times: attach a system or a profile
pipe.schedule @durations workers 1 microbatches 1 model @m {
  path on [0]
  worker 0 runs [0F0 0B0]
}
// blocks: not those of the model
// error: 'pipe.schedule' op the 2 stages of path 0 do not divide the model's 5 layers; stage counts that do: 1 and 5
pipe.schedule @blocks workers 2 microbatches 1 model @m profile <"F=1ms,B=1ms"> {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}
