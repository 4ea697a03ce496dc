// Cells of slices in text, generic text and bytecode.
// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt %s | pipesched-opt | FileCheck %s
// RUN: pipesched-opt %s --mlir-print-op-generic | pipesched-opt | FileCheck %s
// RUN: pipesched-opt-raw %s --emit-bytecode | pipesched-opt | FileCheck %s

// The order of Seq1F1B (arXiv 2406.03488) for two workers, two microbatches of
// two slices, and the slots that it takes.
// RUN: pipesched-opt %s --pipe-verify --pipe-align-slots -o %t.aligned
// RUN: FileCheck %s --check-prefix=ALIGNED --input-file %t.aligned
// RUN: pipesched-opt %t.aligned --pipe-verify --pipe-compact | FileCheck %s

// CHECK-LABEL: pipe.schedule @seq1f1b workers 2 microbatches 2 slices 2 {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0.0 0F0.1 0F1.0 0B0.1 0F1.1 0B0.0 0B1.1 0B1.0]
// CHECK-NEXT:    worker 1 runs [1F0.0 1F0.1 1B0.1 1F1.0 1B0.0 1F1.1 1B1.1 1B1.0]
// ALIGNED-LABEL: @seq1f1b workers 2 microbatches 2 slices 2 aligned {
// ALIGNED:         worker 0 runs [0F0.0 0F0.1 0F1.0 _2 0B0.1 0F1.1 0B0.0 _ 0B1.1 0B1.0]
// ALIGNED-NEXT:    worker 1 runs [_ 1F0.0 1F0.1 1B0.1 1F1.0 1B0.0 1F1.1 1B1.1 1B1.0 _2]
pipe.schedule @seq1f1b workers 2 microbatches 2 slices 2 {
  path on [0, 1]
  worker 0 runs [0F0.0 0F0.1 0F1.0 0B0.1 0F1.1 0B0.0 0B1.1 0B1.0]
  worker 1 runs [1F0.0 1F0.1 1B0.1 1F1.0 1B0.0 1F1.1 1B1.1 1B1.0]
}

// Split backwards, recomputation, copies, pairs, O and G.
// CHECK-LABEL: pipe.schedule @all_phases workers 2 microbatches 2 slices 3 {
// CHECK:         worker 0 runs [0F0.0 0F0.1 0F0.2 0D0.1 0I0.2 0U0.1 0W0.2+1F1.0
pipe.schedule @all_phases workers 2 microbatches 2 slices 3 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0.0 0F0.1 0F0.2 0D0.1 0I0.2 0U0.1 0W0.2+1F1.0 0R0.1 0B0.1
                 0B0.0 1F1.1 1F1.2 1B1.2 1B1.1 1B1.0 0G0 1G1 0O0 1O1]
  worker 1 runs [1F0.0 1F0.1 1F0.2 1B0.2 0F1.0 1B0.1 1B0.0 0F1.1 0F1.2 0B1.2
                 0B1.1 0B1.0 0G1 1G0 0O1 1O0]
}
