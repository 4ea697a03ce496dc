// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt-raw %t.mlir --split-input-file --verify-diagnostics

// CASES
pipe.schedule @p workers 1 microbatches 1 slices 2 {
  path on [0]
  worker 0 runs [@@]
}

// error: cell 4 (0W0.0) runs before 0W0.1: the backwards of a microbatch run from its last slice to its first
// note: 0W0.1 is cell 5 of this row
0F0.0 0F0.1 0I0.1 0I0.0 0W0.0 0W0.1
// worker_c6: neighbours wait for each other.
// error: cell 0 (0F0.0) is overlapped with 0F0.1 of the same stage and microbatch: one waits for the other
0F0.0+0F0.1

// error: '0F0' names no slice; wanted a cell as 2F0.1, with a slice from 0 to 1
0F0

// error: slice of '0F0.2' is out of range: there are 2 (0 to 1)
0F0.0 0F0.2

// error: '0O0.1' names a slice, but O and G are of a whole stage
0F0.0 0F0.1 0B0.1 0B0.0 0O0.1

// error: unknown cell '0F0.'; wanted a cell as 2F0
0F0.

// error: unknown cell '0F0.1.1'; wanted a cell as 2F0
0F0.1.1

// error: microbatch of '0F1073741824.1' is above 1073741822
0F1073741824.1

// CASES
@@

// worker_c7: forwards from the first slice to the last.
pipe.schedule @forwards workers 1 microbatches 1 slices 2 {
  path on [0]
  // error: cell 0 (0F0.1) runs before 0F0.0: the forwards of a microbatch run from its first slice to its last
  // note: 0F0.0 is cell 1 of this row
  worker 0 runs [0F0.1 0F0.0]
}

pipe.schedule @backwards workers 1 microbatches 1 slices 2 {
  path on [0]
  // error: cell 2 (0B0.0) runs before 0B0.1: the backwards of a microbatch run from its last slice to its first
  // note: 0B0.1 is cell 3 of this row
  worker 0 runs [0F0.0 0F0.1 0B0.0 0B0.1]
}
// The slice after it may have a split backward.
pipe.schedule @s workers 1 microbatches 1 slices 3 {
  path on [0]
  // error: cell 4 (0B0.0) runs before 0I0.1: the backwards of a microbatch run from its last slice to its first
  // note: 0I0.1 is cell 5 of this row
  worker 0 runs [0F0.0 0F0.1 0F0.2 0B0.2 0B0.0 0I0.1 0W0.1]
}
// Missing.
pipe.schedule @s workers 1 microbatches 100000 slices 4 {
  path on [0]
  // error: cell 0 (0F9.1) runs before 0F9.0: the forwards of a microbatch run from its first slice to its last
  // note: 0F9.0 is not in this row
  worker 0 runs [0F9.1]
}
// worker_c2 counts whole microbatches.
pipe.schedule @range workers 1 microbatches 2 slices 2 {
  path on [0]
  // error: cell 0 (0F2.0): microbatch 2 is out of range: there are 2 (0 to 1)
  worker 0 runs [0F2.0]
}

pipe.schedule @twice workers 1 microbatches 1 slices 2 {
  path on [0]
  // error: cell 1 (0F0.0) occurs twice
  // note: 0F0.0 is cell 0 of this row
  worker 0 runs [0F0.0 0F0.0]
}
// Unsliced.
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  // error: '0F0.0' names a slice, but its schedule has no slices
  worker 0 runs [0F0.0]
}
// schedule_c10.
// error: 'pipe.schedule' op has 0 slices a microbatch: there must be 1 or more
pipe.schedule @s workers 1 microbatches 1 slices 0 {
  path on [0]
}
// Many.
// error: 3 slices of each of 1000000000 microbatches: there may be 1 to 2
pipe.schedule @s workers 1 microbatches 1000000000 slices 3 {
  path on [0]
}
// Programs have no slices.
exec.program @program {
  worker 0 {
    // error: '0F0.1' names a slice, but its schedule has no slices
    %f0 = compute 0F0.1
  }
}
