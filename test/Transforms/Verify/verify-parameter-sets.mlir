// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -pipe-verify -verify-diagnostics -split-input-file

// These are valid: worker 1 steps the middle of the model once, after all gradients; G of
// blocks that one worker holds are separate.
pipe.schedule @s workers 3 microbatches 2 {
  path on [0, 1, 2] takes [0]
  path on [2, 1, 0] takes [1]
  worker 0 runs [0F0 2F1 2B1 0B0 0G0 2G1 0O0 2O1]
  worker 1 runs [1F0 1F1 1B0 1B1 1G0 1O0]
  worker 2 runs [0F1 2F0 2B0 0B1 0G1 2G0 0O1 2O0]
}

// CASES
@@

// an O of a stage whose blocks another one steps
pipe.schedule @s workers 3 microbatches 2 {
  path on [0, 1, 2] takes [0]
  path on [2, 1, 0] takes [1]
  worker 0 runs [0F0 2F1 2B1 0B0]
  // error: 'pipe.worker' op cell 5 (1O1) has no blocks to step: worker 1 holds the blocks of stage 1 of path 1 with stage 1 of path 0, whose O steps them (1O0)
  worker 1 runs [1F0 1F1 1B0 1B1 1O0 1O1]
  worker 2 runs [0F1 2F0 2B0 0B1]
}
// a G of such a stage; two stages own its blocks
pipe.schedule @s workers 2 microbatches 3 {
  path on [0, 1] takes [0] blocks [4, 2]
  path on [0, 1] takes [1] blocks [5, 1]
  path on [1, 0] takes [2] blocks [2, 4]
  // error: 'pipe.worker' op cell 6 (0G0) has no blocks to reduce: worker 0 holds the blocks of stage 0 of path 0 with stage 0 of path 1 and stage 1 of path 2, whose G reduce them (0G1 and 1G2)
  worker 0 runs [0F0 0F1 1F2 1B2 0B0 0B1 0G0]
  worker 1 runs [0F2 1F0 1B0 1F1 1B1 0B2]
}
// Empty.
pipe.schedule @s workers 1 microbatches 1 {
  path on [0, 0, 0] blocks [1, 0, 1]
  // error: 'pipe.worker' op cell 6 (1O0) has no blocks to step: stage 1 of path 0 has no blocks
  worker 0 runs [0F0 1F0 2F0 2B0 1B0 0B0 1O0]
}

// -----

// the gradient of the other path's microbatch comes too late for the step
pipe.schedule @s workers 3 microbatches 2 {
  path on [0, 1, 2] takes [0]
  path on [2, 1, 0] takes [1]
  worker 0 runs [0F0 2F1 2B1 0B0]
  // expected-error@+2 {{'pipe.worker' op cell 4 (1B1) runs after 1O0, which steps its blocks}}
  // expected-note@+1 {{1O0 is cell 3 of this row}}
  worker 1 runs [1F0 1F1 1B0 1O0 1B1]
  worker 2 runs [0F1 2F0 2B0 0B1]
}

// -----

// a forward would use parameters of the next step
pipe.schedule @s workers 1 microbatches 2 {
  path on [0] takes [0]
  path on [0] takes [1]
  // expected-error@+2 {{'pipe.worker' op cell 3 (0F1) runs after 0O0, which steps its blocks}}
  // expected-note@+1 {{0O0 is cell 2 of this row}}
  worker 0 runs [0F0 0B0 0O0 0F1 0B1]
}

// -----

// two cells of a pair run at the same time
pipe.schedule @s workers 1 microbatches 2 {
  path on [0] takes [0]
  path on [0] takes [1]
  // expected-error@+2 {{'pipe.worker' op cell 3 (0B1) is overlapped with 0O0, which steps its blocks}}
  // expected-note@+1 {{0O0 is cell 4 of this row}}
  worker 0 runs [0F0 0B0 0F1 0B1+0O0]
}

// -----

// the all-reduce too waits for the microbatches of both paths
pipe.schedule @s workers 2 microbatches 3 {
  path on [0] takes [0]
  path on [0] takes [1]
  path on [1] takes [2]
  // expected-error@+2 {{'pipe.worker' op cell 4 (0B1) runs after 0G0, which reduces the gradients of its blocks}}
  // expected-note@+1 {{0G0 is cell 2 of this row}}
  worker 0 runs [0F0 0B0 0G0 0F1 0B1]
  worker 1 runs [0F2 0B2 0G2]
}

// -----

// stages may share only some of their blocks: 1O1 steps 2 to 6, among them one that path 0
// holds too
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1] takes [0] blocks [3, 3]
  path on [1, 0] takes [1] blocks [2, 4]
  // expected-error@+2 {{'pipe.worker' op cell 4 (0B0) runs after 1O1, which steps its blocks}}
  // expected-note@+1 {{1O1 is cell 3 of this row}}
  worker 0 runs [0F0 1F1 1B1 1O1 0B0 0O0]
  worker 1 runs [0F1 1F0 1B0 0B1]
}

// -----

// This is valid: 0O0 steps 0 to 2, which path 1 does not hold on worker 0.
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1] takes [0] blocks [3, 3]
  path on [1, 0] takes [1] blocks [2, 4]
  worker 0 runs [0F0 0B0 0O0 1F1 1B1 1O1]
  worker 1 runs [1F0 1B0 0F1 0B1 0O1 1O0]
}
