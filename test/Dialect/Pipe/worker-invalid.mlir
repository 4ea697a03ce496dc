// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
pipe.schedule @p workers 1 microbatches 2 {
  path on [0]
  @@
}

// spelling: unknown phase letter
// error: unknown phase 'K' in '0K1'; wanted one of F, B, I, W, R, D, U, O, G, d, u, S, T, X, Y, Z, E, A, C, V
worker 0 runs [0F0 0K1]
// spelling: a hexadecimal number to MLIR's lexer
// error: unknown phase 'x' in '0x1'; wanted one of F, B, I, W, R, D, U, O, G, d, u, S, T, X, Y, Z, E, A, C, V
worker 0 runs [0x1]
// spelling: a stage and its phase apart
// error: expected a phase letter right after stage 0, as in 0F0
worker 0 runs [0 F0]
// spelling: no microbatch
// error: no microbatch after '0F'; wanted a cell as 2F0
worker 0 runs [0F]
// spelling: two cells without a space
// error: unknown cell '0F0B0'; wanted a cell as 2F0
worker 0 runs [0F0B0]
// spelling: a cell with text after its microbatch
// error: '0F0.5' names a slice, but its schedule has no slices
worker 0 runs [0F0 0F0.5]
// spelling: no stage
// error: expected a cell as 2F0, or _ for idle
worker 0 runs [F0]
// spelling: negative stage
// error: expected a cell as 2F0, or _ for idle
worker 0 runs [-1F0]
// spelling: a fraction
// error: expected a cell as 2F0, or _ for idle
worker 0 runs [1.5F0]
// spelling: separated by commas
// error: expected a cell as 2F0, or _ for idle
worker 0 runs [0F0, 0B0]
// spelling: a plus without a second cell
// error: expected a cell as 2F0, or _ for idle
worker 0 runs [0F0+]
// spelling: stage too large
// error: stage of '16777216F0' is above 16777215
worker 0 runs [16777216F0]
// spelling: a stage that overflows 64 bits
// error: stage of '99999999999999999999999F0' is above 16777215
worker 0 runs [99999999999999999999999F0]
// spelling: microbatch too large
// error: microbatch of '0F2147483648' is above 2147483647
worker 0 runs [0F2147483648]
// spelling: a microbatch that overflows 64 bits
// error: microbatch of '0F18446744073709551616' is above 2147483647
worker 0 runs [0F18446744073709551616]
// spelling: no idle slot
// error: idle slots of '_0' are not from 1 to 2147483647
worker 0 runs [0F0 _0 0B0]
// spelling: too many idle slots
// error: idle slots of '_2147483648' are not from 1 to 2147483647
worker 0 runs [0F0 _2147483648 0B0]
// spelling: idle slots that are not a number
// error: unknown cell '_F0'
worker 0 runs [_F0]
// generic form: not an array
// error: expected cells as an i64 array, got "0F0"
"pipe.worker"() <{cells = "0F0", worker = 0}> : () -> ()
// generic form: an entry without phase
// error: entry 1 (-1) is not the bits of a cell
"pipe.worker"() <{cells = array<i64: 0, -1>, worker = 0}> : () -> ()
// generic form: an overlap with nothing
// error: the last cell overlaps a next one
"pipe.worker"() <{cells = array<i64: 2147483648>, worker = 0}> : () -> ()
// worker_c2: no such microbatch
// error: 'pipe.worker' op cell 1 (0F2): microbatch 2 is out of range: there are 2 (0 to 1)
worker 0 runs [0F0 0F2]

// CASES
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  @@
}

// worker_c1: no such worker
// error: 'pipe.worker' op is worker 1, which is not one of the 1 workers (0 to 0)
worker 1 runs [0F0 0B0]
// worker_c1: a negative worker
// error: 'pipe.worker' op is worker -1, which is not one of the 1 workers (0 to 0)
worker -1 runs [0F0 0B0]
// worker_c3: no such stage
// error: 'pipe.worker' op cell 0 (1F0): stage 1 is out of range: path 0 has 1 stage (0 to 0)
worker 0 runs [1F0]
// worker_c6: overlapped with idle slots
// error: 'pipe.worker' op cell 0 (0F0) is overlapped with _2, which is not a compute cell
worker 0 runs [0F0+_2 0B0]
// worker_c6: a copy overlapped
// error: 'pipe.worker' op cell 1 (0D0) is not a compute cell and cannot be overlapped
worker 0 runs [0F0 0D0+0B0]

// CASES
@@

// spelling: a row without its end
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0B0
// error: expected a cell as 2F0, or _ for idle
}
// worker_c3: a stage of another worker, by the path of the microbatch
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 0B0]
  // error: 'pipe.worker' op cell 1 (1F1): path 1 puts stage 1 on worker 0, not on worker 1
  worker 1 runs [0F1 1F1]
}
// A row is in a schedule.
// error: 'pipe.worker' op expects parent op 'pipe.schedule'
pipe.worker 0 runs []

// -----

// worker_c4: a cell twice
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  // expected-error @+2 {{'pipe.worker' op cell 3 (0F1) occurs twice}}
  // expected-note @+1 {{0F1 is cell 1 of this row}}
  worker 0 runs [0F0 0F1 0B0 0F1]
}

// -----

// worker_c4: a backward both whole and split
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  // expected-error @+2 {{'pipe.worker' op cell 2 (0B0) and 0I0: a backward is either whole (B) or split (I and W)}}
  // expected-note @+1 {{0I0 is cell 1 of this row}}
  worker 0 runs [0F0 0I0 0B0]
}

// -----

// worker_c5: backward before forward
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  // expected-error @+2 {{'pipe.worker' op cell 3 (0B1) runs before its forward 0F1}}
  // expected-note @+1 {{0F1 is cell 5 of this row}}
  worker 0 runs [_ 0F0 0B0 0B1 _2 0F1]
}
