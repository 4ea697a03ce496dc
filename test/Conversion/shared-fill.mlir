// RUN: split-file %s %t
// RUN: pipesched-run %t/model.mlir --schedule=gpipe --no-update --check --steps=1 \
// RUN:   | FileCheck %s --check-prefix=MODEL
// RUN: mlir-opt %t/reduced.mlir --eliminate-empty-tensors --one-shot-bufferize \
// RUN:   | FileCheck %s

// Two products begin with one zero fill, and the second result is a reshape.

// Losses are 4 * 4 * 64: every number of x is 1, of w 2.
// MODEL: step 0: loss 1024,
// MODEL: check: passed

// Why kernels write memrefs only at their end. Where a result goes to a memref
// between other ops, upstream's elimination of empty tensors gives both products
// the memref of the first, and the copy of the second reads what is overwritten.
// CHECK-LABEL: @memrefs(
// CHECK-SAME:    %[[H:[^:]*]]: memref<4x4xf32>, %[[Y:[^:]*]]: memref<2x2x4xf32>)
// CHECK:         %[[VIEW:.*]] = memref.expand_shape %[[H]]
// CHECK-NEXT:    memref.copy %{{.*}}, %[[H]]
// CHECK-NEXT:    memref.copy %[[VIEW]], %[[Y]]

// On tensors, as kernels have it, bufferization keeps the second product apart.
// CHECK-LABEL: @tensors(
// CHECK-SAME:    %[[H:[^:]*]]: memref<4x4xf32>, %[[Y:[^:]*]]: memref<2x2x4xf32>)
// CHECK-NOT:     memref.expand_shape %[[H]]
// CHECK:         return

//--- reduced.mlir
func.func @memrefs(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>,
    %into_h: memref<4x4xf32>, %into_y: memref<2x2x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4xf32>)
      -> tensor<4x4xf32>
  %h = linalg.matmul ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%fill : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = linalg.matmul ins(%h, %w : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%fill : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y3 = tensor.expand_shape %y [[0, 1], [2]] output_shape [2, 2, 4]
      : tensor<4x4xf32> into tensor<2x2x4xf32>
  bufferization.materialize_in_destination %h in restrict writable %into_h
      : (tensor<4x4xf32>, memref<4x4xf32>) -> ()
  bufferization.materialize_in_destination %y3 in restrict writable %into_y
      : (tensor<2x2x4xf32>, memref<2x2x4xf32>) -> ()
  return
}

func.func @tensors(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>,
    %into_h: memref<4x4xf32>, %into_y: memref<2x2x4xf32>) {
  %old_h = bufferization.to_tensor %into_h restrict writable
      : memref<4x4xf32> to tensor<4x4xf32>
  %old_y = bufferization.to_tensor %into_y restrict writable
      : memref<2x2x4xf32> to tensor<2x2x4xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4xf32>)
      -> tensor<4x4xf32>
  %h = linalg.matmul ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%fill : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = linalg.matmul ins(%h, %w : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%fill : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y3 = tensor.expand_shape %y [[0, 1], [2]] output_shape [2, 2, 4]
      : tensor<4x4xf32> into tensor<2x2x4xf32>
  %new_h = linalg.copy ins(%h : tensor<4x4xf32>)
      outs(%old_h : tensor<4x4xf32>) -> tensor<4x4xf32>
  %new_y = linalg.copy ins(%y3 : tensor<2x2x4xf32>)
      outs(%old_y : tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  bufferization.materialize_in_destination %new_h in restrict writable %into_h
      : (tensor<4x4xf32>, memref<4x4xf32>) -> ()
  bufferization.materialize_in_destination %new_y in restrict writable %into_y
      : (tensor<2x2x4xf32>, memref<2x2x4xf32>) -> ()
  return
}

//--- model.mlir
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  stage 0 init @init forward @forward backward @backward
  data @data
  loss @loss
}
func.func @init() -> (tensor<4x4xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<2.0> : tensor<4x4xf32>
  return %w : tensor<4x4xf32>
}
func.func @forward(%w: tensor<4x4xf32> {pipe.param = "w"},
    %x: tensor<4x4xf32> {pipe.input})
    -> (tensor<4x4xf32> {pipe.residual = "h"}, tensor<2x2x4xf32> {pipe.output}) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4xf32>)
      -> tensor<4x4xf32>
  %h = linalg.matmul ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%fill : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = linalg.matmul ins(%h, %w : tensor<4x4xf32>, tensor<4x4xf32>)
      outs(%fill : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y3 = tensor.expand_shape %y [[0, 1], [2]] output_shape [2, 2, 4]
      : tensor<4x4xf32> into tensor<2x2x4xf32>
  return %h, %y3 : tensor<4x4xf32>, tensor<2x2x4xf32>
}
func.func @backward(%h: tensor<4x4xf32> {pipe.residual = "h"},
    %dy: tensor<2x2x4xf32> {pipe.output_gradient})
    -> (tensor<4x4xf32> {pipe.gradient = "w"}) {
  return %h : tensor<4x4xf32>
}
func.func @data() -> (tensor<4x4xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<4x4xf32>
  return %x : tensor<4x4xf32>
}
func.func @loss(%y: tensor<2x2x4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<2x2x4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %sum = linalg.reduce { arith.addf } ins(%y : tensor<2x2x4xf32>)
      outs(%zero : tensor<f32>) dimensions = [0, 1, 2]
  return %sum, %y : tensor<f32>, tensor<2x2x4xf32>
}
