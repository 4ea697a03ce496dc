// RUN: pipesched-opt %s --pipesched-to-llvm | FileCheck %s

// Temporaries of a kernel are freed after their last use, before what the
// functions compute next. %start ends with %number.

// CHECK-LABEL: llvm.func internal @p_0F(
// CHECK:         %[[FIRST:.*]] = llvm.call @malloc
// CHECK:         %[[SECOND:.*]] = llvm.call @malloc
// CHECK:         llvm.call @free(%[[FIRST]])
// CHECK:         %[[THIRD:.*]] = llvm.call @malloc
// CHECK-DAG:     llvm.call @free(%[[SECOND]])
// CHECK-DAG:     llvm.call @free(%[[THIRD]])
// CHECK:         llvm.return

pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  stage 0 forward @forward backward @backward
  data @data
  loss @loss
  worker 0 runs [0F0 0B0]
}
func.func @forward(%x: tensor<64xf32> {pipe.input}) -> (tensor<64xf32> {pipe.output}) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %scalar = tensor.empty() : tensor<f32>
  %empty = tensor.empty() : tensor<64xf32>
  %start = linalg.fill ins(%zero : f32) outs(%scalar : tensor<f32>) -> tensor<f32>
  %a = linalg.reduce { arith.addf } ins(%x : tensor<64xf32>) outs(%start : tensor<f32>) dimensions = [0]
  %number = tensor.extract %a[] : tensor<f32>
  %b = linalg.fill ins(%number : f32) outs(%empty : tensor<64xf32>) -> tensor<64xf32>
  %row = tensor.expand_shape %b [[0, 1]] output_shape [1, 64] : tensor<64xf32> into tensor<1x64xf32>
  %single = tensor.empty() : tensor<1xf32>
  %first = linalg.fill ins(%one : f32) outs(%single : tensor<1xf32>) -> tensor<1xf32>
  %c = linalg.reduce { arith.mulf } ins(%row : tensor<1x64xf32>) outs(%first : tensor<1xf32>) dimensions = [1]
  %place = arith.constant 0 : index
  %last = tensor.extract %c[%place] : tensor<1xf32>
  %y = linalg.fill ins(%last : f32) outs(%empty : tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
}
func.func @backward(%dy: tensor<64xf32> {pipe.output_gradient}) {
  return
}
func.func @data() -> (tensor<64xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<64xf32>
  return %x : tensor<64xf32>
}
func.func @loss(%y: tensor<64xf32> {pipe.output}) -> (tensor<f32> {pipe.loss}, tensor<64xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  return %zero, %y : tensor<f32>, tensor<64xf32>
}
