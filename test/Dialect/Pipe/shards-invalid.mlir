// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file --pipe-verify

// S before the output of the last stage is there
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  // expected-note @+2 {{0X0 is cell 2 of this row}}
  // expected-error @+1 {{cell 1 (0S0) runs before its broadcast of the last output 0X0}}
  worker 0 runs [0F0 0S0 0X0 0Y0 0T0 0B0]
}

// -----

// Y after the backward that waits for it
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  // expected-note @+2 {{0B0 is cell 3 of this row}}
  // expected-error @+1 {{cell 4 (0Y0)}}
  worker 0 runs [0F0 0X0 0S0 0B0 0Y0 0T0]
}

// CASES
pipe.schedule @p workers 1 microbatches 1 {
@@
}

// S without T
  path on [0]
  // error: 0T0 is missing: worker 0 runs 0S0 without it
  worker 0 runs [0F0 0X0 0S0 0Y0 0B0]
// shards that do not wait for the last stage of their worker
  path on [0, 0]
  // error: cell 3 (0S0) is of stage 0, but worker 0 has the last stage of its path, which exchanges data with the shards: expected 1S0
  worker 0 runs [0F0 0X0 1F0 0S0 0Y0 0T0 1B0 0B0]

// CASES
@@

// a worker without its shard
pipe.schedule @s workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  // error: 0X0 is missing: worker 1 runs 1X0 and worker 0 is on the path of the same microbatch
  worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0]
}
// a microbatch without shards
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  // error: 0S1 is missing: worker 0 runs 0S0, and worker 0 has a shard of it
  worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0B0 0F1 0B1]
}
// written slots: T before all have come to Y
pipe.schedule @s workers 2 microbatches 1 aligned {
  path on [0, 1]
  // error: cell 5 (0T0) of worker 0 starts at slot 3, but worker 1 reaches 1Y0 only at slot 4
  worker 0 runs [0F0 0X0 _ 0S0 0Y0 0T0 _3 0B0]
  // note: 1Y0 is cell
  worker 1 runs [_ 1F0 1X0 _ 1S0 1Y0 1T0 1B0]
}

// -----

// two workers with the reductions of a queue in different orders
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
  // expected-note @+3 {{0Y1 on worker 0 waits for 1Y1 on worker 1}}
  // expected-note @+2 {{0Y0 on worker 0 runs after 0Y1 in its row}}
  // expected-error @+1 {{the rows deadlock: 0Y1 waits for itself in a cycle of 4}}
  worker 0 runs [0F0 0X0 0F1 0X1 0S0 0S1 0Y1 0Y0 0T0 0T1 0B0 0B1]
  // expected-note @+2 {{1Y1 on worker 1 runs after 1Y0 in its row}}
  // expected-note @+1 {{1Y0 on worker 1 waits for 0Y0 on worker 0}}
  worker 1 runs [1F0 1X0 1F1 1X1 1S0 1Y0 1S1 1Y1 1T0 1T1 1B0 1B1]
}
