// RUN: pipesched-opt %s -convert-pipe-to-exec -verify-diagnostics -split-input-file

// expected-error@+1 {{'pipe.schedule' op has no rows; run a pipe-schedule-* pass first}}
pipe.schedule @problem workers 2 microbatches 4 {
  path on [0, 1]
}

// -----

pipe.schedule @all_reduce workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [0, 1] takes [1]
  // expected-error@-3 {{'pipe.schedule' op gradient all-reduce cells (0G0) are not lowered: take them out of the rows}}
  worker 0 runs [0F0 0F1 0B0 0B1 0G0 0G1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}

// -----

// expected-error@+1 {{the module has no pipe.schedule}}
module {}
