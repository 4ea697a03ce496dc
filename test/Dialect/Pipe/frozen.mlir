// Stages that do not train: text, generic form, bytecode, checks, programs.

// RUN: pipesched-opt %s --pipe-verify | FileCheck %s
// RUN: pipesched-opt %s --emit-bytecode -o %t.bc
// RUN: pipesched-opt-raw %t.bc | FileCheck %s
// RUN: pipesched-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: pipesched-opt %s --convert-pipe-to-exec | FileCheck %s --check-prefix=EXEC

// GENERIC: "pipe.path"() <{backward = array<i64: 0>, blocks = array<i64: 4, 4>, workers = array<i32: 0, 1>}>
// CHECK-LABEL: pipe.schedule @front
// CHECK-NEXT:    path on [0, 1] frozen [0] blocks [4, 4]
// CHECK-NEXT:    worker 0 runs [0F0 0F1]
// CHECK-NEXT:    worker 1 runs [1F0 1B0 1F1 1B1]

// The gradient of the first trained stage is sent to nobody.
// EXEC-LABEL: exec.program @front
// EXEC:         path on [0, 1] frozen [0]
// EXEC:         worker 0 {
// EXEC-NOT:       recv
// EXEC:         worker 1 {
// EXEC-NOT:       send
// EXEC-LABEL: exec.program @behind
pipe.schedule @front workers 2 microbatches 2 {
  path on [0, 1] frozen [0] blocks [4, 4]
  worker 0 runs [0F0 0F1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}

// A frozen stage sends the gradient of its input after I, whatever the rule.
// EXEC:         worker 1 {
// EXEC:           compute 1I0
// EXEC-NEXT:      send 1I0
// CHECK-LABEL: pipe.schedule @behind
// CHECK-NEXT:    path on [0, 1] takes [0:2] frozen [1]
pipe.schedule @behind workers 2 microbatches 2 gradient after W {
  path on [0, 1] takes [0:2] frozen [1]
  worker 0 runs [0F0 0F1 0I0 0W0 0I1 0W1]
  worker 1 runs [1F0 1I0 1F1 1I1]
}

// GENERIC: "pipe.path"() <{backward = "none"
// EXEC-LABEL: exec.program @forward
// EXEC-NOT:     compute {{.*}}B
// CHECK-LABEL: pipe.schedule @forward
// CHECK-NEXT:    path on [0, 1] none
pipe.schedule @forward workers 2 microbatches 2 {
  path on [0, 1] none
  worker 0 runs [0F0 0F1]
  worker 1 runs [1F0 1F1]
}
