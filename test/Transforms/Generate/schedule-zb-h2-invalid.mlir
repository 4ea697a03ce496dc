// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-zb-h2)'
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=s workers=4 microbatches=8},pipe-schedule-zb-h2{schedule=s split-backward=false})' -split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: no such option split-backward

// more than one stage per worker
// expected-error @+1 {{'pipe.schedule' op zb-h2 takes one stage per worker, found 4 stages on 2 workers}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 1, 0]
}

// -----

// a worker without a stage
// expected-error @+1 {{'pipe.schedule' op zb-h2 takes one stage per worker, found 2 on worker 0}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 0]
}

// -----

// more than one path
// expected-error @+1 {{'pipe.schedule' op zb-h2 takes one path, found 2}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  path on [1, 0]
}

// -----

// too many cells
// expected-error @+1 {{'pipe.schedule' op zb-h2 of 2147483647 microbatches on 2 workers has 12884901882 cells: a table may have 268435456 at most}}
pipe.schedule @p workers 2 microbatches 2147483647 {
  path on [0, 1]
}
