// RUN: %cases %s > %t.mlir
// RUN: pipesched-translate --export-torch-csv -split-input-file -verify-diagnostics %t.mlir
// RUN: pipesched-translate --export-torch-csv --torch-csv-format=compute_comms \
// RUN:   -split-input-file -verify-diagnostics %t.mlir

// CASES
@@

// error: the schedule has 2 paths: in PyTorch's CSV each stage sits on one rank, replicated stages cannot be written
pipe.schedule @replicated workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  // note: cell 1 (1F1) runs stage 1 of path 1 on worker 0; path 0 runs it on worker 1
  worker 0 runs [0F0 1F1 1B1 0B0]
  worker 1 runs [0F1 1F0 1B0 0B1]
}

pipe.schedule @optimizer workers 1 microbatches 1 {
  path on [0]
  // error: cell 2 (0O0): PyTorch's CSV has no token for O (optimizer)
  worker 0 runs [0F0 0B0 0O0]
}

pipe.schedule @offload workers 1 microbatches 2 {
  path on [0]
  // error: cell 1 (0D0): PyTorch's CSV has no token for D (offload)
  worker 0 runs [0F0 0D0 0F1 0U0 0B0 0B1]
}
// Split in pair.
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  // error: cell 1 (0F1+0I0): PyTorch's CSV overlaps a forward with a whole backward only, in this order
  worker 0 runs [0F0 0F1+0I0 0W0 0B1]
}
// Idle worker.
// error: worker 1 runs nothing: PyTorch's CSV has an action on every rank
pipe.schedule @s workers 2 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
  worker 1 runs []
}
// Long.
// error: the schedule has 2147483648 cells and idle slots: the export writes 268435456 at most
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 _2147483646 0B0]
}
// Problem.
// error: 'pipe.schedule' op has no rows to export; fill it with a pipe-schedule-* pass
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
}

// error: found 2 schedules, but a CSV file holds one; name it with --torch-csv-schedule
module {
  // note: @first is here
  pipe.schedule @first workers 1 microbatches 1 {
    path on [0]
    worker 0 runs [0F0 0B0]
  }
  // note: @second is here
  pipe.schedule @second workers 1 microbatches 1 {
    path on [0]
    worker 0 runs [0F0 0B0]
  }
}

// error: found no schedule to export; pipe-create makes one, pipe-schedule-* fills it
module {
}

// CASES
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
@@
}

// Join.
  // error: cell 1 (0D0): PyTorch's CSV has no token for D (offload)
  worker 0 runs [0F0 0D0 0d0 0U0 0u0 0B0]
// Reduction.
  // error: cell 2 (0G0): PyTorch's CSV has no token for G (all-reduce)
  worker 0 runs [0F0 0B0 0G0]
