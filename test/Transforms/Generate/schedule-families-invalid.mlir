// What the pass of every family refuses. The placements and sizes that a family refuses are in
// unittests/Schedule/FamiliesTest.cpp and next to the tests of its table.

// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-gpipe)'
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-schedule-gpipe{schedule=filled})' 2>&1 | FileCheck %s
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-schedule-gpipe{gradient-after=B})' 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-schedule-zb-h1{gradient-after=W})' 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: echo 'module {}' | not pipesched-opt --pass-pipeline='builtin.module(pipe-create{workers=2 microbatches=4},pipe-schedule-vocab-1f1b{backward=10001})' 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: echo 'module {}' | pipesched-opt --pass-pipeline='builtin.module(pipe-create{workers=2 microbatches=4},pipe-place-bidirectional{assign=alternate},pipe-schedule-dualpipe)' 2>&1 | FileCheck %s --check-prefix=TAKES

// CHECK: error: 'pipe.schedule' op has rows already
// VALUE: Cannot find option named 'B'!
// OPTION: no such option gradient-after
// RANGE: error: 'pipe.schedule' op backward of vocab-1f1b is the time of B in percent of the time of F, expected 1 to 10000, found 10001
// TAKES: remark: dualpipe assigns microbatches to paths by a rule of its own, which replaces what they took

// a placement of another family
// expected-error @+1 {{'pipe.schedule' op gpipe takes one stage per worker, found 4 stages on 2 workers}}
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1, 1, 0]
}

// -----

// slices, in a family of whole microbatches
// expected-error @+1 {{family "gpipe" takes whole microbatches only, and each has 2 slices}}
pipe.schedule @s workers 2 microbatches 4 slices 2 {
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
