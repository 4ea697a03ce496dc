// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt %s --mlir-print-op-generic | pipesched-opt | FileCheck %s
// RUN: pipesched-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// CHECK-LABEL: pipe.schedule @one_f_one_b workers 4 microbatches 4 family "1f1b" {
// CHECK-NEXT:    path on [0, 1, 2, 3]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3]
// CHECK-NEXT:    worker 1 runs [1F0 1F1 1F2 1B0 1F3 1B1 1B2 1B3]
// CHECK-NEXT:    worker 2 runs [2F0 2F1 2B0 2F2 2B1 2F3 2B2 2B3]
// CHECK-NEXT:    worker 3 runs [3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3]
// CHECK-NEXT:  }
// GENERIC:     "pipe.schedule"() <{family = "1f1b", gradientAfter = "I", microbatches = 4 : i64, slices = 1 : i64, sym_name = "one_f_one_b", workers = 4 : i64}> ({
// GENERIC-NEXT:  "pipe.path"() <{backward = array<i64>, workers = array<i32: 0, 1, 2, 3>}> : () -> ()
// GENERIC-NEXT:  "pipe.worker"() <{cells = array<i64: 0, 1, 2, 3, 72057594037927936,
pipe.schedule @one_f_one_b workers 4 microbatches 4 family "1f1b" {
  path on [0, 1, 2, 3]
  worker 0 runs [0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3]
  worker 1 runs [1F0 1F1 1F2 1B0 1F3 1B1 1B2 1B3]
  worker 2 runs [2F0 2F1 2B0 2F2 2B1 2F3 2B2 2B3]
  worker 3 runs [3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3]
}

// CHECK-LABEL: pipe.schedule @problem workers 2 microbatches 4 {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:  }
pipe.schedule @problem workers 2 microbatches 4 {
  path on [0, 1]
}

// CHECK-LABEL: pipe.schedule @chimera workers 4 microbatches 4 {
// CHECK-NEXT:    path on [0, 1, 2, 3] takes [0:2]
// CHECK-NEXT:    path on [3, 2, 1, 0] takes [2:4]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 3F2 3B2 3F3 3B3 0B0 0B1]
pipe.schedule @chimera workers 4 microbatches 4 {
  path on [0, 1, 2, 3] takes [0:2]
  path on [3, 2, 1, 0] takes [2:4]
  worker 0 runs [0F0 0F1 3F2 3B2 3F3 3B3 0B0 0B1]
  worker 1 runs [1F0 1F1 2F2 2F3 2B2 2B3 1B0 1B1]
  worker 2 runs [1F2 1F3 2F0 2F1 2B0 2B1 1B2 1B3]
  worker 3 runs [0F2 0F3 3F0 3B0 3F1 3B1 0B2 0B3]
}

// Every clause, and rows in any order.
// CHECK-LABEL: pipe.schedule @clauses workers 2 microbatches 1 family "hand" {first, group = 4 : i64} gradient after W recompute selective aligned model @toy profile <"F=1ms,I=1ms,W=1ms"> attributes {note = "kept"} {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 1 runs [_ 1F0 1I0 1W0 _2]
// CHECK-NEXT:    worker 0 runs [0F0 _3 0I0 0W0]
// GENERIC:     "pipe.schedule"() <{aligned, family = "hand", familyOptions = {first, group = 4 : i64}, gradientAfter = "W",
pipe.schedule @clauses workers 2 microbatches 1 family "hand" {first, group = 4} gradient after W recompute selective aligned model @toy profile <"F=1ms,I=1ms,W=1ms"> attributes {note = "kept"} {
  path on [0, 1]
  worker 1 runs [_ 1F0 1I0 1W0 _2]
  worker 0 runs [0F0 _3 0I0 0W0]
}

// `full` is the default for R cells; it is kept if it is written.
// CHECK-LABEL: pipe.schedule @full workers 1 microbatches 1 recompute full {
pipe.schedule @full workers 1 microbatches 1 recompute full {
  path on [0]
  worker 0 runs [0F0 0R0 0B0]
}

// A brace after a family opens either its options or the body.
// CHECK-LABEL: pipe.schedule @family_and_body workers 1 microbatches 1 family "x" {
// CHECK-NEXT:    path on [0]
// CHECK-LABEL: pipe.schedule @family_and_generic_body workers 1 microbatches 1 family "x" {
// CHECK-NEXT:    path on [0]
// CHECK-LABEL: pipe.schedule @quoted_key workers 1 microbatches 1 family "x" {"a key" = 1 : i64} {
// CHECK-LABEL: pipe.schedule @unit_key workers 1 microbatches 1 family "x" {path} {
pipe.schedule @family_and_body workers 1 microbatches 1 family "x" { // a comment
  path on [0]
}
pipe.schedule @family_and_generic_body workers 1 microbatches 1 family "x" {
  "pipe.path"() <{workers = array<i32: 0>}> : () -> ()
}
pipe.schedule @quoted_key workers 1 microbatches 1 family "x" {"a key" = 1} {
  path on [0]
}
pipe.schedule @unit_key workers 1 microbatches 1 family "x" { // a comment
    path } {
  path on [0]
}

// The largest sizes.
// CHECK-LABEL: pipe.schedule @largest workers 65536 microbatches 2147483647 {
// CHECK-NEXT:    path on [65535]
pipe.schedule @largest workers 65536 microbatches 2147483647 {
  path on [65535]
}

pipe.model @toy microbatch_size 1 boundary_bytes 64 state_bytes [2, 2, 12] {
  block "layer" x 2 parameters 16 activation_bytes 256 {
    kernel "linear" on matrix F <100 flops, 80 bytes> I <100 flops, 80 bytes> W <100 flops, 80 bytes>
  }
}
