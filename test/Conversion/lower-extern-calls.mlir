// RUN: pipesched-opt %s --lower-stage-ops | FileCheck %s

func.func private @add(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    attributes {pipe.extern = {symbol = "add_to", in_place = array<i64: 1>}}
func.func private @twice(tensor<8xf32>) -> tensor<8xf32> attributes {pipe.extern = {symbol = "twice"}}

// CHECK-NOT: @add(
// CHECK-LABEL: func.func @f(
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<8xf32>
// CHECK: %[[TWO:.*]] = exec.call_extern "twice" ins(%arg0 : tensor<8xf32>) outs(%[[EMPTY]] : tensor<8xf32>) in_place [-1]
// CHECK: exec.call_extern "add_to" ins(%[[TWO]] : tensor<8xf32>) outs(%arg1 : tensor<8xf32>) in_place [1]
func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %two = call @twice(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %sum = call @add(%two, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %both = linalg.add ins(%sum, %y : tensor<8xf32>, tensor<8xf32>) outs(%two : tensor<8xf32>) -> tensor<8xf32>
  return %sum, %both : tensor<8xf32>, tensor<8xf32>
}
