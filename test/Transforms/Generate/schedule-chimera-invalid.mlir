// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-chimera{pairs=1})'
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=s workers=4 microbatches=8},pipe-schedule-chimera{schedule=s construction=third})' -split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: Cannot find option named 'third'!

// a path that is no pair
// expected-error @+1 {{'pipe.schedule' op chimera takes mirrored pairs of paths, found 1 path}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [1, 0]
}

// -----

// an odd number of workers
// expected-error @+1 {{'pipe.schedule' op 3 workers: a bidirectional placement takes an even number; the nearest are 2 and 4}}
pipe.schedule @p workers 3 microbatches 6 {
  path on [0, 1, 2]
}

// -----

// pairs that the paths are not
// expected-error @+1 {{'pipe.schedule' op chimera is asked for 1 pairs, but the paths are 2}}
pipe.schedule @p workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
  path on [3, 2, 1, 0]
  path on [2, 3, 0, 1]
  path on [1, 0, 3, 2]
}

// -----

// fewer microbatches than paths
// expected-error @+1 {{'pipe.schedule' op 1 microbatches: 2 paths need at least 2}}
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
}

// -----

// fewer microbatches than placed paths
// expected-error @+1 {{'pipe.schedule' op 1 microbatches: 2 paths need at least 2}}
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  path on [1, 0]
}

// -----

// paths that do not mirror each other
// expected-error @+1 {{'pipe.schedule' op chimera takes a bidirectional placement, with stage 0 of path 1 on worker 1, found it on worker 0}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  path on [0, 1]
}

// -----

// unequal shares
// expected-error @+1 {{'pipe.schedule' op chimera shares microbatches out evenly, found 1 on path 0 and 3 on path 1}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1:4]
}

// -----

// too many cells
// expected-error @+1 {{'pipe.schedule' op chimera of 268435456 microbatches on 2 workers has 1073741824 cells: a table may have 268435456 at most}}
pipe.schedule @p workers 2 microbatches 268435456 {
  path on [0, 1]
}
