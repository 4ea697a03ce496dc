// RUN: pipesched-opt %s -pipe-order-microbatches -verify-diagnostics -split-input-file

// expected-error @+1 {{has no times by microbatch; attach a profile with some, or give the order}}
pipe.schedule @equal workers 1 microbatches 2 profile <"F=1ms,B=2ms"> {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}

// -----

// expected-error @+1 {{the profile's microbatches.F has 3 times, expected one for each of the 2 microbatches}}
pipe.schedule @length workers 1 microbatches 2 profile <"B=2ms,microbatches.F=[1ms,2ms,3ms]"> {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}

// -----

// expected-error @+1 {{has a microbatch that takes more than 2^63 - 1 ps}}
pipe.schedule @overflow workers 1 microbatches 2 profile <"F=9000000s,microbatches.B=[9000000s,1s]"> {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}

// -----

// expected-error @+1 {{node 1 runs microbatch 0 and does not run 1, which would take its place}}
pipe.schedule @takes workers 1 microbatches 2 profile <"B=2ms,microbatches.F=[1ms,20ms]"> {
  path on [0]
  node 1 on [0] takes [0]
  edge 0 -> 1
  worker 0 runs [0F0 1F0 0F1 1B0 0B0 0B1]
}
