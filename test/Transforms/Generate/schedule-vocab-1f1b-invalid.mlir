// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-vocab-1f1b)'

// more than one stage per worker
// expected-error @+1 {{'pipe.schedule' op vocab-1f1b takes one stage per worker, found 4 stages on 2 workers}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 1, 0]
}

// -----

// more than one path
// expected-error @+1 {{'pipe.schedule' op vocab-1f1b takes one path, found 2}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  path on [1, 0]
}

// -----

// slices
// expected-error @+1 {{family "vocab-1f1b" takes whole microbatches only, and each has 2 slices}}
pipe.schedule @p workers 2 microbatches 4 slices 2 {
  path on [0, 1]
}
