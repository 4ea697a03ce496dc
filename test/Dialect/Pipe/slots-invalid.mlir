// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
@@

// slots_c1: nothing given
// error: expected a phase such as F
#s = #pipe.slots<F = 1, >
// slots_c1: an unknown name
// error: no slots are given by 'FW', the closest is 'F'
#s = #pipe.slots<FW = 1>
// slots_c1: a name twice
// error: 'F' is given twice
#s = #pipe.slots<F = 1, F = 1>
// slots_c1: a name twice, first with nothing
// error: expected integer value
#s = #pipe.slots<F = [], F = 1>
// slots_c1: weights come first
// error: expected a phase such as F
#s = #pipe.slots<F = 1, [1, 2]>
// slots_c2: negative
// error: expected slots from 0 to 9223372036854775807, found -1
#s = #pipe.slots<F = -1>
// slots_c2: a weight that is too large
// error: expected weights from 0 to 2305843009213693952, found 2305843009213693953
#s = #pipe.slots<2305843009213693953>
// slots_c2: more than 64 bits
// error: integer value too large
#s = #pipe.slots<F = 9223372036854775808>
// schedule_c7: on one path
// error: 'pipe.schedule' op has 3 numbers of slots for B, expected one or one for each of the 2 stages of the path
pipe.schedule @s workers 2 microbatches 1 slots <F = [1, 1], B = [1, 2, 3]> {
  path on [0, 1]
}
// schedule_c7: on paths alike
// error: 'pipe.schedule' op has 3 weights, expected one or one for each of the 2 stages of a path or one for each of the 4 stages of all paths
pipe.schedule @s workers 2 microbatches 2 slots <[1, 2, 3]> {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
}
// schedule_c7: on paths of different lengths
// error: 'pipe.schedule' op has 2 weights, expected one or one for each of the 5 stages of all paths
pipe.schedule @s workers 2 microbatches 2 slots <[1, 2]> {
  path on [0, 1] takes [0]
  path on [1, 0, 1] takes [1]
}
// schedule_c8: a half whose slots are not known
pipe.schedule @s workers 1 microbatches 2 slots <F = 2, B = 3> {
  path on [0]
  // error: 'pipe.worker' op cell 3 (0I1) has no number of slots: the schedule's slots give B; give I and W too
  worker 0 runs [0F0 0B0 0F1 0I1 0W1]
}

// -----

// pipe-verify checks the slots of an aligned table; verifiers of rows do not.
// expected-no-diagnostics
pipe.schedule @s workers 2 microbatches 1 aligned slots <[1, 2]> {
  path on [0, 1]
  worker 0 runs [0F0 _3 0B0]
  worker 1 runs [_ 1F0 1B0 _2]
}
