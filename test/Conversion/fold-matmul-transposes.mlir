// RUN: pipesched-opt %s --fold-matmul-transposes | FileCheck %s

// The heads and channels of %x do not follow each other: call-blas makes the copy.
// CHECK-LABEL: func.func @heads(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<2x4x8x16xf32>, %[[W:[^:]*]]: tensor<32x4x16xf32>
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.generic {{.*}} ins(%[[X]], %[[W]]
#x = affine_map<(b, t, n, h, c) -> (b, t, h, c)>
#w = affine_map<(b, t, n, h, c) -> (h, c, n)>
#y = affine_map<(b, t, n, h, c) -> (b, t, n)>
func.func @heads(%x: tensor<2x4x8x16xf32>, %w: tensor<32x4x16xf32>, %y: tensor<2x8x32xf32>) -> tensor<2x8x32xf32> {
  %x_empty = tensor.empty() : tensor<2x8x4x16xf32>
  %x_rows = linalg.transpose ins(%x : tensor<2x4x8x16xf32>) outs(%x_empty : tensor<2x8x4x16xf32>)
      permutation = [0, 2, 1, 3]
  %w_empty = tensor.empty() : tensor<4x16x32xf32>
  %w_columns = linalg.transpose ins(%w : tensor<32x4x16xf32>) outs(%w_empty : tensor<4x16x32xf32>)
      permutation = [1, 2, 0]
  %z = linalg.generic {indexing_maps = [#x, #w, #y],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x_rows, %w_columns : tensor<2x8x4x16xf32>, tensor<4x16x32xf32>) outs(%y : tensor<2x8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x8x32xf32>
  return %z : tensor<2x8x32xf32>
}

// Heads of which each has its own product, and dimensions of size 1.
// CHECK-LABEL: func.func @batches(
// CHECK-NOT:     linalg.transpose
#q = affine_map<(h, t, s, u, c) -> (h, t, u, c)>
#k = affine_map<(h, t, s, u, c) -> (h, u, c, s)>
#s = affine_map<(h, t, s, u, c) -> (h, t, s)>
func.func @batches(%q: tensor<1x32x4x16xf32>, %k: tensor<4x16x1x32xf32>, %y: tensor<4x32x32xf32>) -> tensor<4x32x32xf32> {
  %q_empty = tensor.empty() : tensor<4x32x1x16xf32>
  %q_rows = linalg.transpose ins(%q : tensor<1x32x4x16xf32>) outs(%q_empty : tensor<4x32x1x16xf32>)
      permutation = [2, 1, 0, 3]
  %k_empty = tensor.empty() : tensor<4x1x16x32xf32>
  %k_columns = linalg.transpose ins(%k : tensor<4x16x1x32xf32>) outs(%k_empty : tensor<4x1x16x32xf32>)
      permutation = [0, 2, 1, 3]
  %z = linalg.generic {indexing_maps = [#q, #k, #s],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%q_rows, %k_columns : tensor<4x32x1x16xf32>, tensor<4x1x16x32xf32>) outs(%y : tensor<4x32x32xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x32x32xf32>
  return %z : tensor<4x32x32xf32>
}
