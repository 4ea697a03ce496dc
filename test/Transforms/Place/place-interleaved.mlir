// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-interleaved{chunks=2})' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-interleaved{chunks=4})' | FileCheck %s --check-prefix=FOUR
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-interleaved{chunks=4 schedule=p})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// CHECK-LABEL: pipe.schedule @p workers 3 microbatches 6 {
// CHECK-NEXT:    path on [0, 1, 2, 0, 1, 2]
// CHECK-NEXT:  }
// FOUR-LABEL:  pipe.schedule @p workers 3 microbatches 6 {
// FOUR-NEXT:     path on [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]
// FOUR-NEXT:   }
// PIPELINE:    pipe-place-interleaved{chunks=4 schedule=p}
pipe.schedule @p workers 3 microbatches 6 {
  path on [0, 1, 2]
}
