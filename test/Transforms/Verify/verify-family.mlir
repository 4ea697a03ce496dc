// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-verify)'

// CASES
@@

// Rows of 1F1B
pipe.schedule @s workers 2 microbatches 2 family "gpipe" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  // error: 'pipe.worker' op cell 1 (1B0) differs from family "gpipe", which has 1F1 here; remove 'family' from the schedule, or generate its rows again
  worker 1 runs [1F0 1B0 1F1 1B1]
}
// The family always splits backwards
pipe.schedule @s workers 2 microbatches 2 family "zb-h1" {
  path on [0, 1]
  // error: cell 2 (0B0) differs from family "zb-h1", which has 0I0 here
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}
// An overlap that the family does not have
pipe.schedule @s workers 2 microbatches 2 family "1f1b" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  // error: cell 1 (1B0) differs from family "1f1b", which has 1B0 not overlapped with the next cell here
  worker 1 runs [1F0 1B0+1F1 1B1]
}
// The family has another placement
// error: 'pipe.schedule' op is not a schedule of family "zb-v":
pipe.schedule @s workers 2 microbatches 2 family "zb-v" {
  path on [1, 0]
  worker 0 runs [1F0 1B0 1F1 1B1]
  worker 1 runs [0F0 0F1 0B0 0B1]
}

// -----

// Idle slots do not count, nor does another name of the family
pipe.schedule @s workers 2 microbatches 2 family "Schedule1F1B" aligned {
  path on [0, 1]
  worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
  worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
}

// -----

// Split by a pass, as the option says
pipe.schedule @s workers 2 microbatches 2 family "1f1b" {split_backward = true} {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0I0 0W0 0I1 0W1]
  worker 1 runs [1F0 1I0 1W0 1F1 1I1 1W1]
}

// -----

// A family that is not ours has no formula
pipe.schedule @s workers 2 microbatches 2 family "by hand" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1F1 1B1 1B0]
}
