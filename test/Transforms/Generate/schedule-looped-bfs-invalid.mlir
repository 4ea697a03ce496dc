// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-looped-bfs{chunks=2})'
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=s workers=4 microbatches=8},pipe-schedule-looped-bfs{schedule=s chunks=-1})' -split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: 'pipe.schedule' op -1 chunks: there must be 1 to 4194304 with 4 workers, for at most 16777216 stages

// chunks that the path does not have
// expected-error @+1 {{'pipe.schedule' op looped-bfs is asked for 2 chunks, but the path has 3 stages on each worker}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 0, 1, 0, 1]
}

// -----

// a path that comes back too early
// expected-error @+1 {{'pipe.schedule' op looped-bfs takes a path that visits every worker before it comes back to one, found stage 1 on worker 0 again}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 0, 1, 1]
}

// -----

// a path that turns round
// expected-error @+1 {{'pipe.schedule' op looped-bfs takes an interleaved path, with stage 2 on worker 0 as stage 0 is, found it on worker 1}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 1, 0]
}

// -----

// a worker with fewer stages
// expected-error @+1 {{'pipe.schedule' op looped-bfs takes the same number of stages on every worker, found 3 stages on 2 workers}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 0]
}

// -----

// more than one path
// expected-error @+1 {{'pipe.schedule' op looped-bfs takes one path, found 2}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  path on [1, 0]
}

// -----

// too many cells
// expected-error @+1 {{'pipe.schedule' op looped-bfs of 2147483647 microbatches on 2 workers has 17179869176 cells: a table may have 268435456 at most}}
pipe.schedule @p workers 2 microbatches 2147483647 {
  path on [0, 1]
}
