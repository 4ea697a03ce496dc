// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt-raw %s -mlir-print-op-generic | pipesched-opt | FileCheck %s
// RUN: pipesched-opt-raw %s -emit-bytecode | pipesched-opt | FileCheck %s

// CHECK-LABEL: func.func @tensors
// CHECK: %{{.*}}:2 = exec.call_extern "f" ins(%arg0, %arg1 : tensor<8xf32>, i64) outs(%arg2, %arg3 : tensor<4xf32>, tensor<2xf64>) in_place [-1, 1] -> tensor<4xf32>, tensor<2xf64>
func.func @tensors(%x: tensor<8xf32>, %n: i64, %y: tensor<4xf32>, %z: tensor<2xf64>) -> (tensor<4xf32>, tensor<2xf64>) {
  %r:2 = exec.call_extern "f" ins(%x, %n : tensor<8xf32>, i64)
      outs(%y, %z : tensor<4xf32>, tensor<2xf64>) in_place [-1, 1] -> tensor<4xf32>, tensor<2xf64>
  return %r#0, %r#1 : tensor<4xf32>, tensor<2xf64>
}

// CHECK-LABEL: func.func @memrefs
// CHECK: exec.call_extern "g" outs(%arg0 : memref<8xf32>) in_place [-1]
func.func @memrefs(%x: memref<8xf32>) {
  exec.call_extern "g" outs(%x : memref<8xf32>) in_place [-1]
  return
}
