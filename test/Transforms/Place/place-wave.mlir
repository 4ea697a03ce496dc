// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-wave{waves=2})' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-wave)' | FileCheck %s --check-prefix=ONE

// CHECK-LABEL: pipe.schedule @p workers 2 microbatches 6 {
// CHECK-NEXT:    path on [0, 1, 1, 0, 0, 1, 1, 0]
// CHECK-NEXT:  }
// ONE-LABEL:   pipe.schedule @p workers 2 microbatches 6 {
// ONE-NEXT:      path on [0, 1, 1, 0]
// ONE-NEXT:    }
pipe.schedule @p workers 2 microbatches 6 {
  path on [0, 1]
}
