// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-align-slots)'
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-align-slots{schedule=problem})' 2>&1 | FileCheck %s --check-prefix=PROBLEM
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-align-slots{slots=minutes})' 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-align-slots{slots=blocks slot=1us})' 2>&1 | FileCheck %s --check-prefix=SLOT
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-align-slots{slots=durations slot=0us})' 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-align-slots{slots=durations slot=1})' 2>&1 | FileCheck %s --check-prefix=UNIT

// SLOT: error: pipe-align-slots: the length of a slot is for slots=durations, found slots=blocks
// ZERO: error: pipe-align-slots: slot: expected a time above 0, found '0us'
// UNIT: error: pipe-align-slots: slot: expected a unit (ps, ns, us, ms or s) after '1', found ''
// PROBLEM: error: 'pipe.schedule' op has no rows
// OPTION: Cannot find option named 'minutes'!

// a forward is missing
// expected-error @+1 {{'pipe.schedule' op 1F1 is missing: worker 1 never runs it}}
pipe.schedule @missing workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0]
}

// -----

// the rows deadlock: worker 1 starts with the microbatch that worker 0 sends last
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
  // expected-error @+3 {{'pipe.worker' op the rows deadlock: 0B0 waits for itself in a cycle of 4}}
  // expected-note @+2 {{0B0 on worker 0 waits for 1B0 on worker 1}}
  // expected-note @+1 {{0F1 on worker 0 runs after 0B0 in its row}}
  worker 0 runs [0F0 0B0 0F1 0B1]
  // expected-note @+2 {{1B0 on worker 1 runs after 1F1 in its row}}
  // expected-note @+1 {{1F1 on worker 1 waits for 0F1 on worker 0}}
  worker 1 runs [1F1 1B1 1F0 1B0]
}


// -----

// expected-no-diagnostics
pipe.schedule @problem workers 1 microbatches 1 {
  path on [0]
}
