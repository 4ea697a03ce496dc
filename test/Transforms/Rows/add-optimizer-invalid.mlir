// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-optimizer)' -verify-diagnostics -split-input-file

pipe.schedule @stepped workers 1 microbatches 1 {
  path on [0]
  // expected-error@+1 {{'pipe.worker' op cell 2 (0O0): the schedule has optimizer steps or all-reduces already}}
  worker 0 runs [0F0 0B0 0O0]
}

// -----

pipe.schedule @incomplete workers 1 microbatches 1 {
  path on [0]
  // expected-error@+1 {{'pipe.worker' op 0B0 is missing: worker 0 runs 0F0 but no backward, whole (B) or split (I and W)}}
  worker 0 runs [0F0]
}
