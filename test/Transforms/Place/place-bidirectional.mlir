// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-bidirectional)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-bidirectional{pairs=2 assign=halves})' | FileCheck %s --check-prefix=HALVES
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-bidirectional{pairs=2 assign=halves})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// CHECK-LABEL:  pipe.schedule @p workers 4 microbatches 8 {
// CHECK-NEXT:     path on [0, 1, 2, 3] takes [0:8:2]
// CHECK-NEXT:     path on [3, 2, 1, 0] takes [1:8:2]
// CHECK-NEXT:   }
// HALVES-LABEL: pipe.schedule @p workers 4 microbatches 8 {
// HALVES-NEXT:    path on [0, 1, 2, 3] takes [0:2]
// HALVES-NEXT:    path on [3, 2, 1, 0] takes [2:4]
// HALVES-NEXT:    path on [2, 3, 0, 1] takes [4:6]
// HALVES-NEXT:    path on [1, 0, 3, 2] takes [6:8]
// HALVES-NEXT:  }
// PIPELINE:     pipe-place-bidirectional{assign=halves pairs=2 schedule=}
pipe.schedule @p workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}
