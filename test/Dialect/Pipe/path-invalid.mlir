// RUN: pipesched-opt %s -verify-diagnostics -split-input-file

// path_c1: not in a schedule
// expected-error @+1 {{'pipe.path' op must stand in a pipe.schedule or an exec.program}}
pipe.path on [0]

// -----

// path_c2: no stage
pipe.schedule @s workers 1 microbatches 1 {
  // expected-error @+1 {{'pipe.path' op path 0 is empty: it needs the worker of each stage}}
  path on []
}

// -----

// path_c2: a worker that does not exist, on the second path
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  // expected-error @+1 {{'pipe.path' op path 1 puts stage 1 on worker 2, which is not one of the 2 workers (0 to 1)}}
  path on [0, 2] takes [1]
}

// -----

// path_c2: a negative worker
pipe.schedule @s workers 2 microbatches 2 {
  // expected-error @+1 {{'pipe.path' op path 0 puts stage 0 on worker -1, which is not one of the 2 workers (0 to 1)}}
  path on [-1]
}

// -----

// path_c3: nothing taken
pipe.schedule @s workers 1 microbatches 1 {
  // expected-error @+1 {{'pipe.path' op must take ranges of begin, end and step, got 0 numbers}}
  path on [0] takes []
}

// -----

// path_c3: half a range, in the generic form
pipe.schedule @s workers 1 microbatches 1 {
  // expected-error @+1 {{'pipe.path' op must take ranges of begin, end and step, got 4 numbers}}
  "pipe.path"() <{takes = array<i64: 0, 1, 1, 0>, workers = array<i32: 0>}> : () -> ()
}

// -----

// path_c3: an empty range
pipe.schedule @s workers 1 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op path 0 takes [2:2:1], which is empty}}
  path on [0] takes [2:2]
}

// -----

// path_c3: a step that does not ascend
pipe.schedule @s workers 1 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op path 0 takes [0:4:0]: the step must be 1 or more}}
  path on [0] takes [0:4:0]
}

// -----

// path_c3: above the number of microbatches
pipe.schedule @s workers 1 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op path 0 takes [4:5:1], which is not within the 4 microbatches (0 to 3)}}
  path on [0] takes [0:4, 4]
}

// -----

// path_c3: negative
pipe.schedule @s workers 1 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op path 0 takes [-1:4:1], which is not within the 4 microbatches (0 to 3)}}
  path on [0] takes [-1:4]
}

// -----

// path_c3: a microbatch whose end would overflow
pipe.schedule @s workers 1 microbatches 4 {
  // expected-error @+1 {{microbatch 9223372036854775807 is above 2147483647}}
  path on [0] takes [9223372036854775807]
}

// -----

// path_c4: blocks of another length
pipe.schedule @s workers 2 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op path 0 has 2 stages but blocks for 1}}
  path on [0, 1] blocks [4]
}

// -----

// path_c4: no blocks at all
pipe.schedule @s workers 2 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op has blocks of no stage}}
  path on [0, 1] blocks []
}

// -----

// path_c4: negative
pipe.schedule @s workers 2 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op stage 1 of path 0 has -1 blocks: there cannot be fewer than 0}}
  path on [0, 1] blocks [4, -1]
}

// -----

// path_c4: none anywhere
pipe.schedule @s workers 2 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op path 0 has no block on any stage}}
  path on [0, 1] blocks [0, 0]
}

// -----

// path_c4: a sum that overflows
pipe.schedule @s workers 2 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op the blocks of path 0 add up to more than 2^63 - 1}}
  path on [0, 1] blocks [9223372036854775807, 1]
}

// -----

// path_c5: weights of another length
pipe.schedule @s workers 2 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op path 0 has 2 stages but weights for 3}}
  path on [0, 1] weights [1, 2, 1]
}

// -----

// path_c5: no weights at all
pipe.schedule @s workers 2 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op has weights of no stage}}
  path on [0, 1] weights []
}

// -----

// path_c5: nothing on a stage
pipe.schedule @s workers 2 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op stage 1 of path 0 has weight 0: it must be 1 or more}}
  path on [0, 1] weights [1, 0]
}

// -----

// path_c5: with blocks
pipe.schedule @s workers 2 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op path 0 has blocks and weights: its stages are as long as one of them says}}
  path on [0, 1] blocks [4, 8] weights [1, 2]
}

// -----

// path_c5: a sum that overflows
pipe.schedule @s workers 2 microbatches 4 {
  // expected-error @+1 {{'pipe.path' op the weights of path 0 add up to more than 2^63 - 1}}
  path on [0, 1] weights [9223372036854775807, 1]
}
