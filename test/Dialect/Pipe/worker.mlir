// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt %s --mlir-print-op-generic | pipesched-opt | FileCheck %s

// Every phase, idle slots, joins.
// CHECK-LABEL: pipe.schedule @phases
// CHECK:         worker 0 runs [0F0 0D0 0d0 0F1 _ _12 0U0 0u0 0R0 0I0 0W0 0B1 0G0 0O0]
pipe.schedule @phases workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0D0 0d0 0F1 _ _12 0U0 0u0 0R0 0I0 0W0 0B1 0G0 0O0]
}

// A cell per line, comments, spaces around the plus and leading zeros.
// CHECK-LABEL: pipe.schedule @spelling
// CHECK:         worker 0 runs [0F0 0F1+0B0 _ 0B1]
pipe.schedule @spelling workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [
    00F0 // the first
    0F1 + 0B0 _1
    0B01]
}

// Several spaces, tabs, brackets and spaces in comments, zeros that would not
// fit into a number.
// CHECK-LABEL: pipe.schedule @layout
// CHECK:         worker 0 runs [0F0 0F1 0F2 0F3 0B0 _3 0B1+0F4 _ 0B2 0B3 0B4]
pipe.schedule @layout workers 1 microbatches 5 {
  path on [0]
  worker 0 runs [ 0F0  0F1	0F2 // ] is not the end [         ]
    0F3 0B0//
    _3 0B1 +0F4 _
    0000000000000000000000000B2 0B0000000000000000000000000000003 0B4 ]
}

// CHECK-LABEL: pipe.schedule @empty
// CHECK:         worker 0 runs [0F0 0B0]
// CHECK-NEXT:    worker 1 runs []
pipe.schedule @empty workers 2 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
  worker 1 runs []
}

// The largest numbers a cell can have.
// CHECK-LABEL: pipe.schedule @largest
// CHECK:         worker 0 runs [_2147483647 0F2147483646]
pipe.schedule @largest workers 1 microbatches 2147483647 {
  path on [0]
  worker 0 runs [_2147483647 0F2147483646]
}
