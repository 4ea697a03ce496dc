// RUN: pipesched-opt %s --pipe-verify --convert-pipe-to-exec | FileCheck %s --check-prefix=EXEC
// RUN: pipesched-translate --export-report %s | FileCheck %s
// RUN: pipesched-opt %s --convert-pipe-to-exec | pipesched-translate --export-report | FileCheck %s

// F of the first stage waits for the sum, C for the backward of the first stage, and V for C.
// EXEC-LABEL: exec.program @whole
// EXEC:       worker 0 {
// EXEC:         %e0 = compute 0E0
// EXEC:         %a0 = reduce_lookups 0A0 after %e0
// EXEC:         %f0 = compute 0F0 after %a0
// EXEC:         %b0 = compute 0B0 after
// EXEC:         %c0 = broadcast_gradient 0C0 after %b0
// EXEC:         compute 0V0 after %e0, %c0
// EXEC:       worker 1 {
// EXEC:         %e0 = compute 1E0
// EXEC:         %a0 = reduce_lookups 1A0 after %e0
// EXEC:         %f0 = compute 1F0 after %act0, %a0
// EXEC:         %c0 = broadcast_gradient 1C0 after %b0
// EXEC-LABEL: exec.program @split
// EXEC:         %c0 = broadcast_gradient 0C0 after %i0
// EXEC:         compute 0V0 after %e0, %c0

// Times by hand, on two workers with one microbatch: E, A, F0 and F1, B1, B0, C, V, with 3 for
// a message in between: 6+4+10+3+10+20+3+20+2+5 = 83.
// CHECK: "schedule": "whole"
// CHECK: "makespan_ps": 83
// C waits only for I, and W comes before V in the row: 6+4+10+3+10+8+3+8, then 12 of W during
// the 2 of C, and 5.
// CHECK: "schedule": "split"
// CHECK: "makespan_ps": 69
pipe.schedule @whole workers 2 microbatches 1
    profile <"F=10ps,B=20ps,E=6ps,A=4ps,C=2ps,V=5ps,comm=3ps"> {
  path on [0, 1]
  worker 0 runs [0E0 0A0 0F0 0B0 0C0 0V0]
  worker 1 runs [1E0 1A0 1F0 1B0 1C0 1V0]
}
pipe.schedule @split workers 2 microbatches 1
    profile <"F=10ps,I=8ps,W=12ps,E=6ps,A=4ps,C=2ps,V=5ps,comm=3ps"> {
  path on [0, 1]
  worker 0 runs [0E0 0A0 0F0 0I0 0C0 0W0 0V0]
  worker 1 runs [1E0 1A0 1F0 1I0 1C0 1W0 1V0]
}
