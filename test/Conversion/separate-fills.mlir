// RUN: pipesched-opt %s --separate-fills | FileCheck %s
// RUN: pipesched-opt %s --separate-fills | mlir-opt --one-shot-bufferize=bufferize-function-boundaries \
// RUN:   | FileCheck %s --check-prefix=BUFFERS

// Both products begin with zeros of their own, and what reads the fill keeps it.
// CHECK-LABEL: func.func @shared(
// CHECK:         %[[FILL:.*]] = linalg.fill
// CHECK:         %[[OWN:.*]] = linalg.fill
// CHECK-NEXT:    linalg.matmul {{.*}} outs(%[[OWN]]
// CHECK:         %[[OTHER:.*]] = linalg.fill
// CHECK-NEXT:    linalg.matmul {{.*}} outs(%[[OTHER]]
// CHECK:         linalg.add ins(%{{.*}}, %[[FILL]]
// BUFFERS-LABEL: func.func @shared(
// BUFFERS-NOT:   memref.copy
// BUFFERS:       return
func.func @shared(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x4xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x4xf32>) -> tensor<4x4xf32>
  %h = linalg.matmul ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%fill : tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = linalg.matmul ins(%h, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%fill : tensor<4x4xf32>) -> tensor<4x4xf32>
  %into = tensor.empty() : tensor<4x4xf32>
  %z = linalg.add ins(%y, %fill : tensor<4x4xf32>, tensor<4x4xf32>) outs(%into : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %z : tensor<4x4xf32>
}

// One use, and sizes that are not known: as before.
// CHECK-LABEL: func.func @others(
// CHECK-COUNT-2: linalg.fill
// CHECK-NOT:     linalg.fill
// CHECK:         return
func.func @others(%x: tensor<4xf32>, %d: tensor<?x4xf32>) -> (tensor<f32>, tensor<?xf32>, tensor<?xf32>) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %empty = tensor.empty() : tensor<f32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>) -> tensor<f32>
  %a = linalg.reduce { arith.addf } ins(%x : tensor<4xf32>) outs(%fill : tensor<f32>) dimensions = [0]
  %size = tensor.dim %d, %c0 : tensor<?x4xf32>
  %rows = tensor.empty(%size) : tensor<?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%rows : tensor<?xf32>) -> tensor<?xf32>
  %b = linalg.reduce { arith.addf } ins(%d : tensor<?x4xf32>) outs(%start : tensor<?xf32>) dimensions = [1]
  %c = linalg.reduce { arith.maximumf } ins(%d : tensor<?x4xf32>) outs(%start : tensor<?xf32>) dimensions = [1]
  return %a, %b, %c : tensor<f32>, tensor<?xf32>, tensor<?xf32>
}
