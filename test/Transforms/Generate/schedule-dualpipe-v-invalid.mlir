// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-dualpipe-v)'
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=s workers=4 microbatches=8},pipe-schedule-dualpipe-v{schedule=s gradient-after=W})' -split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: no such option gradient-after

// a path that does not come back
// expected-error @+1 {{'pipe.schedule' op dualpipe-v takes a V path, down all workers and up again in 4 stages on 2 workers, found 2 stages}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [1, 0]
}

// -----

// a path that does not turn round
// expected-error @+1 {{'pipe.schedule' op dualpipe-v takes a wave placement, with stage 2 on worker 1, found it on worker 0}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 0, 1]
}

// -----

// a path that stays
// expected-error @+1 {{'pipe.schedule' op dualpipe-v takes a path that visits every worker before it comes back to one, found stage 1 on worker 0 again}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 0, 1, 1]
}

// -----

// more than one path
// expected-error @+1 {{'pipe.schedule' op dualpipe-v takes one path, found 2}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  path on [1, 0]
}

// -----

// too few microbatches
// expected-error @+1 {{'pipe.schedule' op dualpipe-v takes at least two microbatches per worker, found 7 on 4 workers; the nearest is 8}}
pipe.schedule @p workers 4 microbatches 7 {
  path on [0, 1, 2, 3]
}

// -----

// too many cells
// expected-error @+1 {{'pipe.schedule' op dualpipe-v of 2147483647 microbatches on 2 workers has 25769803764 cells: a table may have 268435456 at most}}
pipe.schedule @p workers 2 microbatches 2147483647 {
  path on [0, 1]
}
