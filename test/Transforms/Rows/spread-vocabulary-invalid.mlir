// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-spread-vocabulary)'

// spread twice
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  // expected-error @+1 {{cell 1 (0X0): the vocabulary is already sharded over the workers}}
  worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0B0]
}

// -----

// an optimizer step before T
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  // expected-error @+1 {{cell 2 (0O0): it would run before the shards have added their gradients; shard the vocabulary before adding optimizer steps}}
  worker 0 runs [0F0 0B0 0O0]
}

// -----

// written slots
// expected-error @+1 {{the schedule has written slots; shard the vocabulary before aligning it}}
pipe.schedule @p workers 1 microbatches 1 aligned {
  path on [0]
  worker 0 runs [0F0 0B0]
}

// -----

// a missing cell
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  // expected-error @+1 {{1B0 is missing}}
  worker 1 runs [1F0]
}
