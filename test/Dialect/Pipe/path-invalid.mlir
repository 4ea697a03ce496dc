// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
pipe.schedule @p workers 1 microbatches 1 {
  @@
}

// path_c2: no stage
// error: 'pipe.path' op path 0 is empty: it needs the worker of each stage
path on []
// path_c3: nothing taken
// error: 'pipe.path' op must take ranges of begin, end and step, got 0 numbers
path on [0] takes []
// path_c3: half a range, in the generic form
// error: 'pipe.path' op must take ranges of begin, end and step, got 4 numbers
"pipe.path"() <{takes = array<i64: 0, 1, 1, 0>, workers = array<i32: 0>}> : () -> ()

// CASES
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1] @@
}

// path_c4: blocks of another length
// error: 'pipe.path' op path 0 has 2 stages but blocks for 1
blocks [4]
// path_c4: no blocks at all
// error: 'pipe.path' op has blocks of no stage
blocks []
// path_c5: weights of another length
// error: 'pipe.path' op path 0 has 2 stages but weights for 3
weights [1, 2, 1]
// path_c5: no weights at all
// error: 'pipe.path' op has weights of no stage
weights []

// -----

// path_c1: not in a schedule
// expected-error @+1 {{'pipe.path' op must stand in a pipe.schedule or an exec.program}}
pipe.path on [0]

// CASES
pipe.schedule @s workers 1 microbatches 4 {
@@
}

// path_c3: an empty range
  // error: 'pipe.path' op path 0 takes [2:2:1], which is empty
  path on [0] takes [2:2]
// path_c3: a microbatch whose end would overflow
  // error: microbatch 9223372036854775807 is above 2147483647
  path on [0] takes [9223372036854775807]
