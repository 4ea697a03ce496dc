// RUN: pipesched-opt %s -convert-pipe-to-exec -verify-diagnostics -split-input-file

// expected-error@+1 {{'pipe.schedule' op has no rows; run a pipe-schedule-* pass first}}
pipe.schedule @problem workers 2 microbatches 4 {
  path on [0, 1]
}

// -----

pipe.schedule @all_reduce workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  // expected-error@+1 {{'pipe.worker' op 0G1 is missing: worker 0 runs 0G0 and worker 1 holds the same blocks}}
  worker 0 runs [0F0 1F1 1B1 0B0 0G0 1G1]
  worker 1 runs [0F1 1F0 1B0 0B1 1G0]
}

// -----

// expected-error@+1 {{the module has no pipe.schedule}}
module {}
