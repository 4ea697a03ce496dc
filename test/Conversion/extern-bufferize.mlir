// UNSUPPORTED: sanitizer

// RUN: mlir-opt %s --load-dialect-plugin=%plugin --load-pass-plugin=%plugin --pass-pipeline='builtin.module( \
// RUN:   lower-stage-ops, one-shot-bufferize{bufferize-function-boundaries \
// RUN:   function-boundary-type-conversion=identity-layout-map}, canonicalize)' | FileCheck %s

func.func private @add(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    attributes {pipe.extern = {symbol = "add_to", in_place = array<i64: 1>}}
func.func private @twice(tensor<8xf32>) -> tensor<8xf32> attributes {pipe.extern = {symbol = "twice"}}

// The argument is still read after the call: it gets a copy, which the function writes.
// CHECK-LABEL: func.func @f(
// CHECK: %[[TWO:.*]] = memref.alloc() {{.*}} : memref<8xf32>
// CHECK: exec.call_extern "twice" ins(%arg0 : memref<8xf32>) outs(%[[TWO]] : memref<8xf32>) in_place [-1]
// CHECK: %[[SUM:.*]] = memref.alloc() {{.*}} : memref<8xf32>
// CHECK: memref.copy %arg1, %[[SUM]]
// CHECK: exec.call_extern "add_to" ins(%[[TWO]] : memref<8xf32>) outs(%[[SUM]] : memref<8xf32>) in_place [1]
func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %two = call @twice(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %sum = call @add(%two, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %both = linalg.add ins(%sum, %y : tensor<8xf32>, tensor<8xf32>) outs(%two : tensor<8xf32>) -> tensor<8xf32>
  return %sum, %both : tensor<8xf32>, tensor<8xf32>
}
