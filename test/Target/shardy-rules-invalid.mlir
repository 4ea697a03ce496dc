// RUN: %cases %s > %t.mlir
// RUN: pipesched-translate --export-shardy-rules -split-input-file -verify-diagnostics %t.mlir
// RUN: pipesched-translate --export-shardy-rules --shardy-backward=fragments \
// RUN:   -split-input-file -verify-diagnostics %t.mlir

// CASES
@@

// error: the schedule has 2 paths: Shardy assigns each computation to one mesh, replicated stages cannot be written
pipe.schedule @replicated workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 0B0]
  worker 1 runs [0F1 1F0 1B0 0B1]
}
// Pair.
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  // error: cell 1 (0F1+0B0): Shardy's rules order fragments one after the other, they cannot overlap two
  worker 0 runs [0F0 0F1+0B0 0B1]
}

pipe.schedule @recompute workers 1 microbatches 1 {
  path on [0]
  // error: cell 1 (0R0): Shardy's rules have no fragment for R (recompute)
  worker 0 runs [0F0 0R0 0B0]
}

pipe.schedule @optimizer workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  // error: cell 2 (1O0): Shardy's rules have no fragment for O (optimizer)
  worker 1 runs [1F0 1B0 1O0]
}

pipe.schedule @offload workers 1 microbatches 2 {
  path on [0]
  // error: cell 1 (0D0): Shardy's rules have no fragment for D (offload)
  worker 0 runs [0F0 0D0 0F1 0U0 0B0 0B1]
}
// Problem.
// error: has no rows to export; fill it with a pipe-schedule-* pass
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
}
// Incomplete.
// error: 0F1 is missing
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0B0]
}

// error: found no schedule to export; pipe-create makes one, pipe-schedule-* fills it
module {
}

// error: found 2 schedules, but a set of rules holds one; name it with --shardy-schedule
module {
  // note: @first is here
  pipe.schedule @first workers 1 microbatches 1 {
    path on [0]
  }
  // note: @second is here
  pipe.schedule @second workers 1 microbatches 1 {
    path on [0]
  }
}
