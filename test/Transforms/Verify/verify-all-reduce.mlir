// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -pipe-verify -verify-diagnostics -split-input-file

// These are valid: groups meet in one order, whatever is between them.
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 1G1 0B0 0G0 0O0 1O1]
  worker 1 runs [0F1 1F0 1B0 0B1 1G0 1O0 0G1 0O1]
}

// CASES
@@

// either all replicas have a G or none has
pipe.schedule @missing workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 0B0]
  // error: 'pipe.worker' op 1G1 is missing: worker 1 runs 1G0 and worker 0 holds the same blocks
  worker 1 runs [0F1 1F0 1B0 0B1 1G0]
}
// in slots, too, a group must meet at the same time
pipe.schedule @s workers 2 microbatches 2 aligned {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  // note: 0G0 is cell 5 of worker 0 and starts at slot 7
  worker 0 runs [0F0 1F1 1B1 0B0 _ 0G0 1G1]
  // error: 'pipe.worker' op cell 4 (0G1) of worker 1 starts at slot 6, 0G0 of worker 0 at slot 7: an all-reduce starts in all rows at once
  worker 1 runs [0F1 1F0 1B0 0B1 0G1 1G0 _]
}
// a G that is in two groups starts when both of their rows are free
pipe.schedule @s workers 3 microbatches 2 aligned {
  path on [0, 1] takes [0] blocks [4, 2]
  path on [2, 2] takes [1] blocks [2, 4]
  // error: 'pipe.worker' op cell 3 (0G0) of worker 0 starts at slot 6, but worker 2 can start 1G1 only at slot 7
  worker 0 runs [0F0 _3 0B0 0G0 _]
  worker 1 runs [_ 1F0 1B0 _3 1G0]
  // note: 1G1 is cell 5 of worker 2 and starts at slot 7
  worker 2 runs [0F1 1F1 1B1 0B1 0G1 1G1]
}

// -----

// all-reduces in another order on the other worker
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  // expected-error@+3 {{'pipe.worker' op the rows deadlock: 0G0 waits for itself in a cycle of 4}}
  // expected-note@+2 {{0G0 on worker 0 waits for 0G1 on worker 1}}
  // expected-note@+1 {{1G1 on worker 0 runs after 0G0 in its row}}
  worker 0 runs [0F0 1F1 1B1 0B0 0G0 1G1]
  // expected-note@+2 {{0G1 on worker 1 runs after 1G0 in its row}}
  // expected-note@+1 {{1G0 on worker 1 waits for 1G1 on worker 0}}
  worker 1 runs [0F1 1F0 1B0 0B1 1G0 0G1]
}
