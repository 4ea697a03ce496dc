// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-merge-backward{apart=refuse})'
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-merge-backward{apart=no})' 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: Cannot find option named 'no'!

// a cell between I and W
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  // expected-error @+2 {{'pipe.worker' op cell 2 (0I0) of worker 0 cannot be merged with 0W0: 0I1 is between the two}}
  // expected-note @+1 {{0W0 is cell 5 of this row}}
  worker 0 runs [0F0 0F1 0I0 _ 0I1 0W0 0W1]
}

// -----

// an aligned schedule without all its forwards cannot be aligned again
// expected-error @+1 {{'pipe.schedule' op the table has 1 of 2 forward cells}}
pipe.schedule @s workers 2 microbatches 1 aligned {
  path on [0, 1]
  worker 0 runs [0F0 0I0 0W0]
  worker 1 runs []
}
