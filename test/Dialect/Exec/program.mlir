// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt-raw %s -mlir-print-op-generic | pipesched-opt | FileCheck %s
// RUN: pipesched-opt-raw %s -emit-bytecode | pipesched-opt | FileCheck %s

// CHECK-LABEL: exec.program @two_stages {
// CHECK-NEXT: worker 0 {
// CHECK-NEXT:   %f0 = compute 0F0
// CHECK-NEXT:   %s0 = send 0F0 to 1 after %f0
// CHECK-NEXT:   %g0 = recv 1B0 from 1
// CHECK-NEXT:   %b0 = compute 0B0 after %f0, %g0
// CHECK-NEXT: }
// CHECK-NEXT: worker 1 {
// CHECK-NEXT:   %act0 = recv 0F0 from 0
// CHECK-NEXT:   %f0 = compute 1F0 after %act0
// CHECK-NEXT:   %b0 = compute 1B0 after %f0
// CHECK-NEXT:   %sg0 = send 1B0 to 0 after %b0
// CHECK-NEXT: }
exec.program @two_stages {
  worker 0 {
    %0 = compute 0F0
    %1 = send 0F0 to 1 after %0
    %2 = recv 1B0 from 1
    %3 = compute 0B0 after %0, %2
  }
  worker 1 {
    %0 = recv 0F0 from 0
    %1 = compute 1F0 after %0
    %2 = compute 1B0 after %1
    %3 = send 1B0 to 0 after %2
  }
}

pipe.model @toy microbatch_size 1 boundary_bytes 64 state_bytes [2, 2, 12] {
  block "layer" x 2 parameters 16 activation_bytes 256 {}
}

// The whole header.
// CHECK-LABEL: exec.program @header workers 2 microbatches 4
// CHECK-SAME: family "interleaved-1f1b" {group = 2 : i64}
// CHECK-SAME: gradient after W recompute selective model @toy profile <"F=1us"> {
// CHECK-NEXT: pipe.path on [0, 1] takes [0:4:2]
// CHECK-NEXT: pipe.path on [1, 0] takes [1, 3]
// CHECK-NEXT: worker 1 {
// CHECK-NEXT: }
// CHECK-NEXT: worker 0 {
// CHECK-NEXT:   %f0 = compute 0F0
// CHECK-NEXT: }
exec.program @header workers 2 microbatches 4
    family "interleaved-1f1b" {group = 2} gradient after W recompute selective model @toy
    profile <"F=1us"> {
  pipe.path on [0, 1] takes [0:4:2]
  pipe.path on [1, 0] takes [1, 3]
  worker 1 {}
  worker 0 {
    %0 = compute 0F0
  }
}

// Families need not be ours.
// CHECK-LABEL: exec.program @foreign family "by hand" {rounds = 3 : i64} {
exec.program @foreign family "by hand" {rounds = 3} {
  worker 0 {
    %0 = compute 0F0
  }
}

// Foreign attributes stay.
// CHECK-LABEL: exec.program @attributes attributes {test.a} {
// CHECK-NEXT: worker 0 attributes {test.b} {
// CHECK-NEXT:   %f0 = compute 0F0 {test.c}
exec.program @attributes attributes {test.a} {
  worker 0 attributes {test.b} {
    %0 = compute 0F0 {test.c}
  }
}
