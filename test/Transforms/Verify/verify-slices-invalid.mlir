// What counts whole microbatches refuses a schedule whose microbatches have
// slices, and what verifies slices names them.
// RUN: pipesched-opt-raw %s --split-input-file --verify-diagnostics --pipe-verify

pipe.schedule @missing workers 2 microbatches 2 slices 2 {
  path on [0, 1]
  worker 0 runs [0F0.0 0F0.1 0F1.0 0B0.1 0F1.1 0B0.0 0B1.1 0B1.0]
  // expected-error @below {{1B1.0 is missing: worker 1 runs 1F1.0 but no backward}}
  worker 1 runs [1F0.0 1F0.1 1B0.1 1F1.0 1B0.0 1F1.1 1B1.1]
}

// -----

pipe.schedule @deadlock workers 2 microbatches 2 slices 2 {
  path on [0, 1]
  // expected-error @below {{the rows deadlock: 0B0.1 waits for itself in a cycle of 4}}
  // expected-note @below {{0B0.1 on worker 0 waits for 1B0.1 on worker 1}}
  // expected-note @below {{0F1.0 on worker 0 runs after 0B0.1 in its row}}
  worker 0 runs [0F0.0 0F0.1 0B0.1 0F1.0 0F1.1 0B0.0 0B1.1 0B1.0]
  // expected-note @below {{1B0.1 on worker 1 runs after 1F1.0 in its row}}
  // expected-note @below {{1F1.0 on worker 1 waits for 0F1.0 on worker 0}}
  worker 1 runs [1F0.0 1F0.1 1F1.0 1F1.1 1B0.1 1B0.0 1B1.1 1B1.0]
}

// -----

// expected-error @below {{is not a schedule of family "1f1b": family "1f1b" takes whole microbatches only, and each has 2 slices}}
pipe.schedule @family workers 1 microbatches 1 slices 2 family "1f1b" {
  path on [0]
  worker 0 runs [0F0.0 0F0.1 0B0.1 0B0.0]
}
