// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-verify)'
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-verify{messages=carrier-pigeon})' 2>&1 | FileCheck %s

// CHECK: Cannot find option named 'carrier-pigeon'!

// a forward is missing
// expected-error @+1 {{'pipe.schedule' op 1F1 is missing: worker 1 never runs it}}
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0]
}

// -----

// a cell before its message
pipe.schedule @s workers 2 microbatches 1 aligned {
  path on [0, 1]
  // expected-note @+1 {{0F0 is cell 0 of worker 0 and starts at slot 0}}
  worker 0 runs [0F0 _3 0B0]
  // expected-error @+1 {{'pipe.worker' op cell 0 (1F0) of worker 1 starts at slot 0, but 0F0 ends only at slot 1}}
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

// no rows
// expected-error @+1 {{'pipe.schedule' op has no rows to verify}}
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
}

// -----

// no schedule
// expected-error @+1 {{the module has no pipe.schedule}}
module {
}

// -----

// only a program
// expected-error @+1 {{the module has no pipe.schedule, but programs, which exec-verify proves}}
module {
  exec.program @p {
    worker 0 {
      %f0 = compute 0F0
    }
  }
}
