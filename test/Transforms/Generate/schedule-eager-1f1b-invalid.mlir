// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-eager-1f1b)'
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=s workers=4 microbatches=8},pipe-schedule-eager-1f1b{schedule=s gradient-after=B})' -split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: Cannot find option named 'B'!

// more than one stage per worker
// expected-error @+1 {{'pipe.schedule' op eager-1f1b takes one stage per worker, found 4 stages on 2 workers}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 1, 0]
}

// -----

// a worker without a stage
// expected-error @+1 {{'pipe.schedule' op eager-1f1b takes one stage per worker, found 2 on worker 0}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 0]
}

// -----

// more than one path
// expected-error @+1 {{'pipe.schedule' op eager-1f1b takes one path, found 2}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  path on [1, 0]
}

// -----

// too many cells
// expected-error @+1 {{'pipe.schedule' op eager-1f1b of 2147483647 microbatches on 2 workers has 8589934588 cells: a table may have 268435456 at most}}
pipe.schedule @p workers 2 microbatches 2147483647 {
  path on [0, 1]
}
