// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-1f1b)'
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-schedule-1f1b{schedule=filled})' 2>&1 | FileCheck %s
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-schedule-1f1b{gradient-after=B})' 2>&1 | FileCheck %s --check-prefix=OPTION

// CHECK: error: 'pipe.schedule' op has rows already
// OPTION: Cannot find option named 'B'!

// more than one stage per worker
// expected-error @+1 {{'pipe.schedule' op 1f1b takes one stage per worker, found 4 stages on 2 workers}}
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1, 1, 0]
}

// -----

// a worker without a stage
// expected-error @+1 {{'pipe.schedule' op 1f1b takes one stage per worker, found 2 on worker 0}}
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 0]
}

// -----

// more than one path
// expected-error @+1 {{'pipe.schedule' op 1f1b takes one path, found 2}}
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1]
  path on [1, 0]
}

// -----

// too many cells
// expected-error @+1 {{a table may have}}
pipe.schedule @s workers 2 microbatches 2147483647 {
  path on [0, 1]
}

// -----

// no problem to fill
// expected-error @+1 {{every pipe.schedule of the module has rows already}}
module {
  pipe.schedule @filled workers 1 microbatches 1 {
    path on [0]
    worker 0 runs [0F0 0B0]
  }
}

// -----

// no schedule
// expected-error @+1 {{the module has no pipe.schedule}}
module {
}
