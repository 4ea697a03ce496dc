// An op of a dialect that is not registered does not stop the pipeline where nothing calls its
// function.

// RUN: cat %S/Inputs/linear.mlir %s | pipesched-opt -allow-unregistered-dialect --pass-pipeline='builtin.module( \
// RUN:   pipe-schedule-1f1b{schedule=one}, pipe-schedule-chimera{schedule=two}, \
// RUN:   pipe-schedule-zb-v{schedule=apart}, pipe-add-optimizer, pipesched-to-llvm)' 2> %t.warnings \
// RUN:   | mlir-translate --mlir-to-llvmir | FileCheck %s
// RUN: FileCheck %s --check-prefix=WARNING < %t.warnings

// CHECK-NOT: foreign
// CHECK: define i32 @one_step
// WARNING: warning: function 'foreign' is left out: nothing calls it, and this op is of no registered dialect
// WARNING: warning: function 'of_tensors' is left out

func.func @foreign() -> f32 {
  %x = "foreign.number"() : () -> f32
  return %x : f32
}
func.func @of_tensors(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "foreign.op"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
