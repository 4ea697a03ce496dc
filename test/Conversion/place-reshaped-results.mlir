// RUN: pipesched-opt %s --place-reshaped-results | FileCheck %s
// RUN: pipesched-opt %s --place-reshaped-results \
// RUN:   | mlir-opt --one-shot-bufferize=bufferize-function-boundaries --canonicalize \
// RUN:   | FileCheck %s --check-prefix=BUFFERS

// The fill begins with the place, and the product goes on in it.
// CHECK-LABEL: func.func @product(
// CHECK-SAME:      %[[PLACE:[a-z0-9]+]]: tensor<2x3x4xf32>)
// CHECK:         %[[FLAT:.*]] = tensor.collapse_shape %[[PLACE]] {{\[\[}}0, 1], [2]]
// CHECK:         %[[FILL:.*]] = linalg.fill {{.*}} outs(%[[FLAT]]
// CHECK:         linalg.matmul {{.*}} outs(%[[FILL]]
func.func @product(%x: tensor<6x5xf32>, %w: tensor<5x4xf32>, %place: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<6x4xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<6x4xf32>) -> tensor<6x4xf32>
  %y = linalg.matmul ins(%x, %w : tensor<6x5xf32>, tensor<5x4xf32>) outs(%fill : tensor<6x4xf32>) -> tensor<6x4xf32>
  %z = tensor.expand_shape %y [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
  %copy = linalg.copy ins(%z : tensor<2x3x4xf32>) outs(%place : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %copy : tensor<2x3x4xf32>
}

// What reshapes the empty tensor before its op does not matter, nor do other
// uses of it and of the result.
// CHECK-LABEL: func.func @shared(
// CHECK-SAME:      %[[PLACE:[a-z0-9]+]]: tensor<6xf32>, %[[OTHER:[a-z0-9]*]]: tensor<2x3xf32>)
// CHECK:         %[[OUT:.*]] = tensor.expand_shape %[[PLACE]]
// CHECK:         %[[Y:.*]] = linalg.exp {{.*}} outs(%[[OUT]]
// CHECK:         linalg.add ins(%[[Y]]
func.func @shared(%x: tensor<2x3xf32>, %place: tensor<6xf32>, %other: tensor<2x3xf32>) -> (tensor<6xf32>, tensor<2x3xf32>) {
  %empty = tensor.empty() : tensor<6xf32>
  %wide = tensor.expand_shape %empty [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %y = linalg.exp ins(%x : tensor<2x3xf32>) outs(%wide : tensor<2x3xf32>) -> tensor<2x3xf32>
  %z = linalg.add ins(%y, %other : tensor<2x3xf32>, tensor<2x3xf32>) outs(%wide : tensor<2x3xf32>) -> tensor<2x3xf32>
  %flat = tensor.collapse_shape %y [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
  %copy = linalg.copy ins(%flat : tensor<6xf32>) outs(%place : tensor<6xf32>) -> tensor<6xf32>
  return %copy, %z : tensor<6xf32>, tensor<2x3xf32>
}

// The place is read after the op: it stays what it was.
// CHECK-LABEL: func.func @read(
// CHECK:         %[[EMPTY:.*]] = tensor.empty() : tensor<2x3xf32>
// CHECK:         linalg.exp {{.*}} outs(%[[EMPTY]]
func.func @read(%x: tensor<2x3xf32>, %place: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %empty = tensor.empty() : tensor<2x3xf32>
  %y = linalg.exp ins(%x : tensor<2x3xf32>) outs(%empty : tensor<2x3xf32>) -> tensor<2x3xf32>
  %flat = tensor.collapse_shape %y [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
  %before = tensor.empty() : tensor<6xf32>
  %old = linalg.exp ins(%place : tensor<6xf32>) outs(%before : tensor<6xf32>) -> tensor<6xf32>
  %copy = linalg.copy ins(%flat : tensor<6xf32>) outs(%place : tensor<6xf32>) -> tensor<6xf32>
  return %copy, %old : tensor<6xf32>, tensor<6xf32>
}

// The place does not exist yet where the op stands, and sizes are not known.
// CHECK-LABEL: func.func @later(
// CHECK-NOT:     outs(%{{(expanded|collapsed).*}})
// CHECK:         return
func.func @later(%x: tensor<2x3xf32>, %d: tensor<?x3xf32>, %place: tensor<?xf32>, %m: memref<6xf32>) -> (tensor<6xf32>, tensor<?xf32>) {
  %empty = tensor.empty() : tensor<2x3xf32>
  %y = linalg.exp ins(%x : tensor<2x3xf32>) outs(%empty : tensor<2x3xf32>) -> tensor<2x3xf32>
  %flat = tensor.collapse_shape %y [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
  %late = bufferization.to_tensor %m restrict writable : memref<6xf32> to tensor<6xf32>
  %copy = linalg.copy ins(%flat : tensor<6xf32>) outs(%late : tensor<6xf32>) -> tensor<6xf32>
  %c0 = arith.constant 0 : index
  %size = tensor.dim %d, %c0 : tensor<?x3xf32>
  %rows = tensor.empty(%size) : tensor<?x3xf32>
  %z = linalg.exp ins(%d : tensor<?x3xf32>) outs(%rows : tensor<?x3xf32>) -> tensor<?x3xf32>
  %line = tensor.collapse_shape %z [[0, 1]] : tensor<?x3xf32> into tensor<?xf32>
  %other = linalg.copy ins(%line : tensor<?xf32>) outs(%place : tensor<?xf32>) -> tensor<?xf32>
  return %copy, %other : tensor<6xf32>, tensor<?xf32>
}

// A kernel computes in the memory of its result.
// BUFFERS-LABEL: func.func @kernel(
// BUFFERS-SAME:      %[[X:.*]]: memref<2x3xf32>, %[[Y:.*]]: memref<6xf32>)
// BUFFERS-NEXT:  %[[OUT:.*]] = memref.expand_shape %[[Y]]
// BUFFERS-NEXT:  linalg.exp ins(%[[X]] : memref<2x3xf32>) outs(%[[OUT]] : memref<2x3xf32>)
// BUFFERS-NEXT:  return
func.func @kernel(%x: memref<2x3xf32>, %y: memref<6xf32>) {
  %in = bufferization.to_tensor %x restrict : memref<2x3xf32> to tensor<2x3xf32>
  %place = bufferization.to_tensor %y restrict writable : memref<6xf32> to tensor<6xf32>
  %empty = tensor.empty() : tensor<2x3xf32>
  %out = linalg.exp ins(%in : tensor<2x3xf32>) outs(%empty : tensor<2x3xf32>) -> tensor<2x3xf32>
  %flat = tensor.collapse_shape %out [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
  %copy = linalg.copy ins(%flat : tensor<6xf32>) outs(%place : tensor<6xf32>) -> tensor<6xf32>
  bufferization.materialize_in_destination %copy in restrict writable %y : (tensor<6xf32>, memref<6xf32>) -> ()
  return
}
