// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-combined-1f1b{chunks=2})'
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=s workers=4 microbatches=8},pipe-schedule-combined-1f1b{schedule=s chunks=2 group=3})' -split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: 'pipe.schedule' op combined-1f1b on 4 workers takes a group of at least 4 and at most all 8 microbatches, found 3; the nearest is 4

// chunks that the path does not have
// expected-error @+1 {{'pipe.schedule' op combined-1f1b is asked for 2 chunks, but the path has 3 stages on each worker}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 0, 1, 0, 1]
}

// -----

// a path that turns round
// expected-error @+1 {{'pipe.schedule' op combined-1f1b takes an interleaved path, with stage 2 on worker 0 as stage 0 is, found it on worker 1}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 1, 0]
}

// -----

// more than one path
// expected-error @+1 {{'pipe.schedule' op combined-1f1b takes one path, found 2}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  path on [1, 0]
}

// -----

// too many cells
// expected-error @+1 {{'pipe.schedule' op combined-1f1b of 2147483646 microbatches on 2 workers has 17179869168 cells: a table may have 268435456 at most}}
pipe.schedule @p workers 2 microbatches 2147483646 {
  path on [0, 1]
}

// -----

// microbatches that make no equal groups
// expected-error @+1 {{'pipe.schedule' op combined-1f1b shares 11 microbatches on 4 workers out into 2 equal groups, but 2 does not divide 11; the nearest are 10 and 12, or give a group}}
pipe.schedule @p workers 4 microbatches 11 {
  path on [0, 1, 2, 3]
}
