// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-dualpipe)'
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=s workers=4 microbatches=8},pipe-schedule-dualpipe{schedule=s pairs=2})' -split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: no such option pairs

// a path that is no pair
// expected-error @+1 {{'pipe.schedule' op dualpipe takes two mirrored paths, found 1}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [1, 0]
}

// -----

// paths that do not mirror each other
// expected-error @+1 {{'pipe.schedule' op dualpipe takes a bidirectional placement, with stage 0 of path 1 on worker 1, found it on worker 0}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  path on [0, 1]
}

// -----

// an odd number of workers
// expected-error @+1 {{'pipe.schedule' op dualpipe takes an even number of workers, found 3; the nearest are 2 and 4}}
pipe.schedule @p workers 3 microbatches 6 {
  path on [0, 1, 2]
}

// -----

// an odd number of microbatches
// expected-error @+1 {{'pipe.schedule' op dualpipe takes an even number of microbatches, half of them for each direction, found 9; the nearest are 8 and 10}}
pipe.schedule @p workers 4 microbatches 9 {
  path on [0, 1, 2, 3]
}

// -----

// too few microbatches
// expected-error @+1 {{'pipe.schedule' op dualpipe takes at least two microbatches per worker, found 6 on 4 workers; the nearest is 8}}
pipe.schedule @p workers 4 microbatches 6 {
  path on [0, 1, 2, 3]
}

// -----

// too many cells
// expected-error @+1 {{'pipe.schedule' op 2147483646 microbatches: there may be 268435456 at most where paths say which ones they take}}
pipe.schedule @p workers 2 microbatches 2147483646 {
  path on [0, 1]
}

// -----

// what the paths took before does not hold
// expected-remark @+1 {{dualpipe assigns microbatches to paths by a rule of its own, which replaces what they took}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1] takes [0:4:2]
  path on [1, 0] takes [1:4:2]
}
