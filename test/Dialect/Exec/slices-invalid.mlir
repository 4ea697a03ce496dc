// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
@@

// program_c17: none
// error: 'exec.program' op has 0 slices a microbatch: there must be 1 or more
exec.program @p slices 0 {
  worker 0 {}
}
// program_c17: many
// error: 'exec.program' op has 3 slices of each of 1000000000 microbatches, wanted 1 to 2
exec.program @p microbatches 1000000000 slices 3 {
  worker 0 {}
}
// program_c3: range
exec.program @p microbatches 2 slices 2 {
  worker 0 {
    // error: 'exec.compute' op cell 0F2.0 is of microbatch 2, the program has 2
    compute 0F2.0
  }
}
// None.
exec.program @p {
  worker 0 {
    // error: '0F2.0' names a slice, but its schedule has no slices
    compute 0F2.0
  }
}
// program_c5: unpaired
exec.program @p slices 2 {
  worker 0 {
    %f = compute 0F0.1
    // error: 'exec.send' op has no partner: worker 1 has no 'recv 0F0.1 from 0'
    send 0F0.1 to 1 after %f
  }
  worker 1 {}
}

// CASES
exec.program @p slices 2 {
  worker 0 {
@@
  }
}

// program_c18: forward
    // note: 0F3.1 is here
    compute 0F3.1
    // error: 'exec.compute' op runs 0F3.0 behind 0F3.1; expected the slices of a microbatch in ascending order
    compute 0F3.0
// program_c18: backward
    compute 0F0.0
    compute 0F0.1
    // note: 0I0.0 is here
    compute 0I0.0
    // error: 'exec.compute' op runs 0I0.1 behind 0I0.0; expected the slices of a microbatch in descending order
    compute 0I0.1
// Unsliced.
    // error: '0F2' names no slice; wanted a cell as 2F0.1, with a slice from 0 to 1
    compute 0F2
