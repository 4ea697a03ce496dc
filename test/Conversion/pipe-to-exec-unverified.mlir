// RUN: pipesched-opt %s -pipe-verify -verify-diagnostics -split-input-file
// RUN: pipesched-opt %s -convert-pipe-to-exec -verify-diagnostics -split-input-file

// The conversion refuses what pipe-verify refuses, in the same words.

pipe.schedule @incomplete workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  // expected-error@+1 {{'pipe.worker' op 1B0 is missing: worker 1 runs 1F0 but no backward, whole (B) or split (I and W)}}
  worker 1 runs [1F0]
}

// -----

pipe.schedule @cyclic workers 2 microbatches 2 {
  path on [0, 1]
  // expected-error@+3 {{'pipe.worker' op the rows deadlock: 0B0 waits for itself in a cycle of 4}}
  // expected-note@+2 {{0B0 on worker 0 waits for 1B0 on worker 1}}
  // expected-note@+1 {{0F1 on worker 0 runs after 0B0 in its row}}
  worker 0 runs [0F0 0B0 0F1 0B1]
  // expected-note@+2 {{1B0 on worker 1 runs after 1F1 in its row}}
  // expected-note@+1 {{1F1 on worker 1 waits for 0F1 on worker 0}}
  worker 1 runs [1F1 1F0 1B0 1B1]
}

// -----

pipe.schedule @misaligned workers 2 microbatches 1 aligned {
  path on [0, 1]
  // expected-note@+1 {{0F0 is cell 0 of worker 0 and starts at slot 0}}
  worker 0 runs [0F0 _3 0B0]
  // expected-error-re@+1 {{'pipe.worker' op {{.*}}1F0}}
  worker 1 runs [1F0 1B0]
}
