// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-linear)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-linear{schedule=uneven})' | FileCheck %s --check-prefix=NAMED

// CHECK-LABEL: pipe.schedule @p workers 3 microbatches 6 {
// CHECK-NEXT:    path on [0, 1, 2]
// CHECK-NEXT:  }
// NAMED-LABEL: pipe.schedule @p workers 3 microbatches 6 {
// NAMED-NEXT:    path on [2, 1, 0]
// NAMED-NEXT:  }
pipe.schedule @p workers 3 microbatches 6 {
  path on [2, 1, 0]
}

// Blocks are dropped with the paths to which they belong.
// CHECK-LABEL: pipe.schedule @uneven workers 2 microbatches 4 {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:  }
// NAMED-LABEL: pipe.schedule @uneven workers 2 microbatches 4 {
// NAMED-NEXT:    path on [0, 1]
// NAMED-NEXT:  }
pipe.schedule @uneven workers 2 microbatches 4 {
  path on [1, 0, 1] takes [0:2] blocks [4, 2, 2]
  path on [0, 1] takes [2:4]
}
