// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-split-backward{gradient-after=W overlapped=refuse})'
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-split-backward{gradient-after=B})' 2>&1 | FileCheck %s --check-prefix=RULE
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-split-backward{overlapped=perhaps})' 2>&1 | FileCheck %s --check-prefix=OVERLAPPED
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-split-backward{schedule=problem})' 2>&1 | FileCheck %s --check-prefix=PROBLEM

// RULE: Cannot find option named 'B'!
// OVERLAPPED: Cannot find option named 'perhaps'!
// PROBLEM: error: 'pipe.schedule' op has no rows

// a B that runs overlapped
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  // expected-error @+1 {{'pipe.worker' op cell 2 (1B0) of worker 1 is overlapped and cannot be split: only whole backwards overlap}}
  worker 1 runs [1F0 1F1+1B0 1B1]
}

// -----

// expected-no-diagnostics
pipe.schedule @problem workers 1 microbatches 1 {
  path on [0]
}
