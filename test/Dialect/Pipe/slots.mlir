// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt %s -mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: pipesched-opt-raw %s --emit-bytecode -o %t.bc
// RUN: pipesched-opt-raw %t.bc | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{schedule=weighted},pipe-verify{schedule=named},pipe-verify{schedule=all_paths})' -o /dev/null

// Only weights; a schedule with lengths need not be aligned.
// CHECK-LABEL: pipe.schedule @weighted workers 2 microbatches 1 gradient after W aligned slots <[1, 2]> {
// GENERIC: slots = #pipe.slots<[1, 2]>, sym_name = "weighted"
pipe.schedule @weighted workers 2 microbatches 1 gradient after W aligned slots <[1, 2]> {
  path on [0, 1]
  worker 0 runs [0F0 _6 0I0 0W0]
  worker 1 runs [_ 1F0 1I0 1W0 _2]
}

// Every name, in any order; a pair that is shorter than its cells.
// CHECK-LABEL: pipe.schedule @named workers 1 microbatches 2 aligned slots <3, F = 1, B = 10, I = 4, W = 5, R = 7, O = 0, G = 8, FB = 6> profile <"F=1ms"> {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:    worker 0 runs [0F0 _ 0F1+0B0 0R1 0I1 0W1 0O0]
pipe.schedule @named workers 1 microbatches 2 aligned slots <3, FB = 6, O = 0, G = 8, R = 7, W = 5, I = 4, B = 10, F = 1> profile <"F=1ms"> {
  path on [0]
  worker 0 runs [0F0 _ 0F1+0B0 0R1 0I1 0W1 0O0]
}

// One number, one per stage of a path, one per stage of all paths.
// CHECK-LABEL: pipe.schedule @all_paths workers 2 microbatches 2 slots <F = 1, B = [2, 4], O = [1, 2, 3, 4]> {
pipe.schedule @all_paths workers 2 microbatches 2 slots <F = 1, B = [2, 4], O = [1, 2, 3, 4]> {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 0B0 0O0 1O1]
  worker 1 runs [0F1 1F0 1B0 0B1 1O0 0O1]
}

// A list of one element prints as a number.
// CHECK-LABEL: pipe.schedule @problem workers 1 microbatches 1 slots <4, B = 4611686018427387905> {
pipe.schedule @problem workers 1 microbatches 1 slots <[4], B = [4611686018427387905]> {
  path on [0]
}
