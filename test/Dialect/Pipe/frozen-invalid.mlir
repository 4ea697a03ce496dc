// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file --pipe-verify

// CASES
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1] @@
}

// path_c6: a stage that the path lacks
// error: 'pipe.path' op path 0 freezes stage 2, and has stages 0 to 1
frozen [2]
// path_c6: not in order
// error: 'pipe.path' op path 0 freezes stage 0 after stage 1: list each stage once, in ascending order
frozen [1, 0]
// no stage
// error: freezes no stage
frozen []

// -----

// worker_c8: a backward that no stage before it needs
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1] frozen [0]
  // expected-error @+1 {{cell 1 (0B0) must not occur: stage 0 of path 0 is frozen and no stage before it trains, so it runs only F}}
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}

// -----

// worker_c8: a weight gradient of a frozen stage
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1] frozen [1]
  worker 0 runs [0F0 0B0]
  // expected-error @+1 {{cell 2 (1W0) must not occur: stage 1 of path 0 is frozen after a stage that trains, so it runs F and, for the gradient of its input, I}}
  worker 1 runs [1F0 1I0 1W0]
}

// -----

// worker_c8: a backward of an evaluation
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1] none
  // expected-error @+1 {{cell 1 (0B0) must not occur: path 0 is forward only, so its stages run only F}}
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0]
}

// -----

// the gradient of the input is missing
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1] frozen [1]
  worker 0 runs [0F0 0B0]
  // expected-error @+1 {{1I0 is missing: worker 1 runs 1F0 without it, and stage 1 of path 0 is frozen after a stage that trains}}
  worker 1 runs [1F0]
}

// -----

// blocks that one path trains and another one does not
// expected-error @+1 {{stage 0 of path 0 and stage 1 of path 1 have the same blocks, and one of them trains}}
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1] takes [0] blocks [1, 2]
  path on [1, 0] takes [1] frozen [1] blocks [0, 3]
  worker 0 runs [0F0 1F1 1I1 0B0]
  worker 1 runs [1F0 1B0 0F1 0B1]
}
