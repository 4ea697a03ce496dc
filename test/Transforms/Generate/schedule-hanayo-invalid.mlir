// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-hanayo{waves=2})'
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=s workers=4 microbatches=8},pipe-schedule-hanayo{schedule=s waves=-1})' -split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: 'pipe.schedule' op -1 waves: there must be 1 to 2097152 with 4 workers, for at most 16777216 stages

// waves that the path does not have
// expected-error @+1 {{'pipe.schedule' op hanayo is asked for 2 waves, but the path has 1}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 1, 0]
}

// -----

// half a wave
// expected-error @+1 {{'pipe.schedule' op hanayo takes a wave placement, of a multiple of 4 stages on 2 workers, found 6 stages}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 1, 0, 0, 1]
}

// -----

// a path that does not turn round
// expected-error @+1 {{'pipe.schedule' op hanayo takes a wave placement, with stage 2 on worker 1, found it on worker 0}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 0, 1]
}

// -----

// more than one path
// expected-error @+1 {{'pipe.schedule' op hanayo takes one path, found 2}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  path on [1, 0]
}

// -----

// too many cells
// expected-error @+1 {{'pipe.schedule' op hanayo of 2147483647 microbatches on 2 workers has 51539607528 cells: a table may have 268435456 at most}}
pipe.schedule @p workers 2 microbatches 2147483647 {
  path on [0, 1]
}
