// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-optimizer)' -verify-diagnostics -split-input-file

pipe.schedule @stepped workers 1 microbatches 1 {
  path on [0]
  // expected-error@+1 {{'pipe.worker' op cell 2 (0O0): the schedule has optimizer steps or all-reduces already}}
  worker 0 runs [0F0 0B0 0O0]
}

// -----

pipe.schedule @reduced workers 2 microbatches 2 {
  path on [0] takes [0]
  path on [1] takes [1]
  worker 0 runs [0F0 0B0 0G0]
  // expected-error@-1 {{'pipe.worker' op cell 2 (0G0): the schedule has optimizer steps or all-reduces already}}
  worker 1 runs [0F1 0B1 0G1]
}

// -----

pipe.schedule @incomplete workers 1 microbatches 1 {
  path on [0]
  // expected-error@+1 {{'pipe.worker' op 0B0 is missing: worker 0 runs 0F0 but no backward, whole (B) or split (I and W)}}
  worker 0 runs [0F0]
}

// -----

// expected-error@+1 {{'pipe.schedule' op the stages of the paths have no common measure below 2^63}}
pipe.schedule @unmeasured workers 2 microbatches 2 {
  path on [0] takes [0] blocks [4611686018427387847]
  path on [1] takes [1] blocks [4611686018427387845]
  worker 0 runs [0F0 0B0]
  worker 1 runs [0F1 0B1]
}
