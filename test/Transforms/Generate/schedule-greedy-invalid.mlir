// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-greedy)'
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=s workers=4 microbatches=8},pipe-schedule-greedy{schedule=s gradient-after=B})' -split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: Cannot find option named 'B'!

// fewer microbatches than paths
// expected-error @+1 {{'pipe.schedule' op 1 microbatches: 2 paths need at least 2}}
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  path on [1, 0]
}

// -----

// too many cells
// expected-error @+1 {{'pipe.schedule' op greedy of 2147483647 microbatches on 2 workers has 12884901882 cells: a table may have 268435456 at most}}
pipe.schedule @p workers 2 microbatches 2147483647 {
  path on [0, 1]
}
