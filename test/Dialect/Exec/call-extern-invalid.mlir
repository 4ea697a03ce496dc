// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
func.func @f(%x: memref<8xf32>) {
@@
  return
}

// call_extern_c1
  // error: 'exec.call_extern' op has 2 numbers in in_place, expected 1, one for each of outs
  exec.call_extern "g" outs(%x : memref<8xf32>) in_place [-1, -1]
// call_extern_c1
  // error: 'exec.call_extern' op has 1 in in_place, expected -1 or 0 to 0
  exec.call_extern "g" outs(%x : memref<8xf32>) in_place [1]

// CASES
@@

// call_extern_c1
func.func @f(%x: memref<8xf32>, %y: memref<8xf32>) {
  // error: 'exec.call_extern' op has 1 in in_place twice
  exec.call_extern "g" outs(%x, %y : memref<8xf32>, memref<8xf32>) in_place [1, 1]
  return
}
// call_extern_c2
func.func @f(%x: memref<?xf32>) {
  // error: 'exec.call_extern' op has an operand of type 'memref<?xf32>', expected sizes that are all known
  exec.call_extern "g" outs(%x : memref<?xf32>) in_place [-1]
  return
}
// call_extern_c3
func.func @f(%x: tensor<4xf32>, %y: memref<4xf32>) {
  // error: 'exec.call_extern' op has tensors and memrefs; expected one of them
  exec.call_extern "g" ins(%x : tensor<4xf32>) outs(%y : memref<4xf32>) in_place [-1]
  return
}
