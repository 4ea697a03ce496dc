// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-v)' | FileCheck %s

// CHECK-LABEL: pipe.schedule @p workers 3 microbatches 6 {
// CHECK-NEXT:    path on [0, 1, 2, 2, 1, 0]
// CHECK-NEXT:  }
pipe.schedule @p workers 3 microbatches 6 {
  path on [0, 1, 2]
}

// CHECK-LABEL: pipe.schedule @one workers 1 microbatches 6 {
// CHECK-NEXT:    path on [0, 0]
// CHECK-NEXT:  }
pipe.schedule @one workers 1 microbatches 6 {
  path on [0]
}
