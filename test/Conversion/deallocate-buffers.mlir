// RUN: split-file %s %t
// RUN: pipesched-opt %t/others.mlir -deallocate-buffers | FileCheck %t/others.mlir
// RUN: not pipesched-opt %t/kernel.mlir -deallocate-buffers 2>&1 | FileCheck %t/kernel.mlir
// RUN: not pipesched-opt %t/unregistered.mlir -allow-unregistered-dialect -deallocate-buffers 2>&1 \
// RUN:   | FileCheck %t/unregistered.mlir

//--- others.mlir

// CHECK-LABEL: func @temporary
// CHECK:         bufferization.dealloc
func.func @temporary() {
  %buffer = memref.alloc() : memref<4xf32>
  return
}

// CHECK-LABEL: func @unknown
// CHECK-NOT:     bufferization.dealloc
func.func @unknown() {
  %buffer = memref.alloc() : memref<4xf32>
  llvm.fence seq_cst
  return
}

// CHECK-LABEL: func @frees
// CHECK-NOT:     bufferization.dealloc
func.func @frees() {
  %buffer = memref.alloc() : memref<4xf32>
  memref.dealloc %buffer : memref<4xf32>
  return
}

// CHECK-LABEL: func private @elsewhere
func.func private @elsewhere(memref<4xf32>)

//--- kernel.mlir

// CHECK: error: {{.*}}unknown memory side effects
func.func private @kernel() attributes {llvm.linkage = #llvm.linkage<internal>} {
  llvm.fence seq_cst
  return
}

//--- unregistered.mlir

// CHECK: error: {{.*}}unknown memory side effects
func.func @unregistered() {
  "other.init"() : () -> ()
  return
}
