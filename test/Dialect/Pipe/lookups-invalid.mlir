// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file --pipe-verify

// A before the lookup
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  // expected-note @+2 {{0E0 is cell 1 of this row}}
  // expected-error @+1 {{cell 0 (0A0) runs before its lookup in a shard 0E0}}
  worker 0 runs [0A0 0E0 0F0 0B0 0C0 0V0]
}

// -----

// A after the forward that waits for it
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  // expected-note @+2 {{0F0 is cell 1 of this row}}
  // expected-error @+1 {{cell 2 (0A0) runs after 0F0, which needs it}}
  worker 0 runs [0E0 0F0 0A0 0B0 0C0 0V0]
}

// -----

// V before the gradient is there
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  // expected-note @+2 {{0C0 is cell 5 of this row}}
  // expected-error @+1 {{cell 4 (0V0) runs before its broadcast of the embedding's gradient 0C0}}
  worker 0 runs [0E0 0A0 0F0 0B0 0V0 0C0]
}

// CASES
pipe.schedule @p workers 1 microbatches 1 {
@@
}

// E without A
  path on [0]
  // error: 0A0 is missing: worker 0 runs 0E0 without it
  worker 0 runs [0E0 0F0 0B0 0C0 0V0]
// lookups that the first stage does not wait for
  path on [0, 0]
  // error: cell 0 (1E0) is of stage 1, but worker 0 has the first stage of its path, which exchanges data with the shards: expected 0E0
  worker 0 runs [1E0 1A0 0F0 1F0 1B0 1C0 1V0 0B0]

// -----

// V without E and A
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  // expected-note @+2 {{0E0 is not in this row}}
  // expected-error @+1 {{cell 3 (0V0) runs before its lookup in a shard 0E0}}
  worker 0 runs [0F0 0B0 0C0 0V0]
}

// -----

// a worker without its shard
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  // expected-error @+1 {{1A0 is missing: worker 0 runs 0A0 and worker 1 is on the path of the same microbatch}}
  worker 0 runs [0E0 0A0 0F0 0B0 0C0 0V0]
  worker 1 runs [1F0 1B0]
}

// -----

// a microbatch without shards
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  // expected-error @+1 {{0E1 is missing: worker 0 runs 0E0, and worker 0 has a shard of it}}
  worker 0 runs [0E0 0A0 0F0 0B0 0C0 0V0 0F1 0B1]
}

// -----

// two workers with the sums of lookups in different orders
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1]
  // expected-note @+3 {{0A1 on worker 0 waits for 1A1 on worker 1}}
  // expected-note @+2 {{0A0 on worker 0 runs after 0A1 in its row}}
  // expected-error @+1 {{the rows deadlock: 0A1 waits for itself in a cycle of 4}}
  worker 0 runs [0E0 0E1 0A1 0A0 0F0 0F1 0B0 0C0 0V0 0B1 0C1 0V1]
  // expected-note @+2 {{1A1 on worker 1 runs after 1A0 in its row}}
  // expected-note @+1 {{1A0 on worker 1 waits for 0A0 on worker 0}}
  worker 1 runs [1E0 1A0 1E1 1A1 1F0 1B0 1C0 1V0 1F1 1B1 1C1 1V1]
}
