// Placements are of whole microbatches, and keep the slices of a problem.
// RUN: pipesched-opt %s --pipe-place-linear | FileCheck %s -DPATH="[0, 1]"
// RUN: pipesched-opt %s --pipe-place-v | FileCheck %s -DPATH="[0, 1, 1, 0]"
// RUN: pipesched-opt %s --pipe-place-wave | FileCheck %s -DPATH="[0, 1, 1, 0]"
// RUN: pipesched-opt %s --pipe-place-interleaved=chunks=2 | FileCheck %s -DPATH="[0, 1, 0, 1]"
// RUN: pipesched-opt %s --pipe-place-bidirectional | FileCheck %s -DPATH="[0, 1] takes [0:4:2]"
// RUN: pipesched-opt %s --pipe-place-asymmetric=ratio=1:3 | FileCheck %s -DPATH="[0, 1] takes [0:4:2] weights [1, 3]"

// CHECK: pipe.schedule @sliced workers 2 microbatches 4 slices 3 {
// CHECK-NEXT: path on [[PATH]]{{$}}
pipe.schedule @sliced workers 2 microbatches 4 slices 3 {
  path on [0, 1]
}
