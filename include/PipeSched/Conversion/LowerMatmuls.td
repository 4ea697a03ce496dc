//===- LowerMatmuls.td - Products of matrices --------------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part of Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_LOWERMATMULS_TD
#define PIPESCHED_CONVERSION_LOWERMATMULS_TD

include "mlir/Pass/PassBase.td"

def FoldMatmulTransposesPass
    : Pass<"fold-matmul-transposes", "::mlir::ModuleOp"> {
  let summary = "Let products of matrices read what is transposed for them";
  let description = [{
    The product of two matrices in the runtime takes them by strides. In front
    of bufferization, a contraction that `lower-matmuls` will take reads the
    input of a `linalg.transpose` by other indexing maps, so that no transposed
    copy is made of it. A transpose stays where rows, columns or summands, such
    as heads and their channels, follow each other in its result alone: there
    would be a call for each head. Where another transpose of the same input, in
    front of the contraction, has them so as well, that one is read instead.

    ```mlir
    func.func @product(%x: tensor<32x16xf32>, %w: tensor<48x16xf32>,
                       %y: tensor<32x48xf32>) -> tensor<32x48xf32> {
      %empty = tensor.empty() : tensor<16x48xf32>
      %t = linalg.transpose ins(%w : tensor<48x16xf32>)
          outs(%empty : tensor<16x48xf32>) permutation = [1, 0]
      %z = linalg.matmul ins(%x, %t : tensor<32x16xf32>, tensor<16x48xf32>)
          outs(%y : tensor<32x48xf32>) -> tensor<32x48xf32>
      return %z : tensor<32x48xf32>
    }
    ```

    After `fold-matmul-transposes,canonicalize`:

    ```mlir
    #x = affine_map<(m, n, k) -> (m, k)>
    #w = affine_map<(m, n, k) -> (n, k)>
    #y = affine_map<(m, n, k) -> (m, n)>
    func.func @product(%x: tensor<32x16xf32>, %w: tensor<48x16xf32>,
                       %y: tensor<32x48xf32>) -> tensor<32x48xf32> {
      %z = linalg.generic {indexing_maps = [#x, #w, #y],
          iterator_types = ["parallel", "parallel", "reduction"]}
          ins(%x, %w : tensor<32x16xf32>, tensor<48x16xf32>)
          outs(%y : tensor<32x48xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32):
        %product = arith.mulf %a, %b : f32
        %sum = arith.addf %c, %product : f32
        linalg.yield %sum : f32
      } -> tensor<32x48xf32>
      return %z : tensor<32x48xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect"];
}

def LowerMatmulsPass : Pass<"lower-matmuls", "::mlir::ModuleOp"> {
  let summary = "Let the runtime multiply matrices";
  let description = [{
    Behind bufferization, products of matrices of f32 or f64 become calls of
    `pipesched_rt_matmul` (docs/Runtime.md): named ops of linalg and generic
    ones that add products, with any order of dimensions. Dimensions that lie
    behind each other in memory are taken as one; for others there are loops
    around the call. Summands are added in their order. A `linalg.fill` of the
    result with zeros in front of the product is not written: the call begins
    with zeros. Where an op behind such a product does nothing but add a bias or
    another memref to it, and is the only one that reads it, the call adds that
    at last. With `only-sums` these alone become calls.

    Products of fewer than 4096 multiplications, and those with fewer than 4
    rows or columns, stay as they are.

    With `to=loops` the same products become loops that give the same bits,
    since both compute `c = fma(a, b, c)`.

    ```mlir
    func.func @scores(%q: memref<32x16xf32>, %k: memref<32x16xf32>,
                      %scores: memref<32x32xf32>) {
      linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                                     affine_map<(m, n, k) -> (n, k)>,
                                     affine_map<(m, n, k) -> (m, n)>]
          ins(%q, %k : memref<32x16xf32>, memref<32x16xf32>)
          outs(%scores : memref<32x32xf32>)
      return
    }
    ```

    After `lower-matmuls{to=loops}`:

    ```mlir
    #map = affine_map<(d0, d1, d2) -> (d0, d1)>
    #map1 = affine_map<(d0, d1, d2) -> (d2, d1)>
    #map2 = affine_map<(d0, d1, d2) -> (d0, d2)>
    func.func @scores(%q: memref<32x16xf32>, %k: memref<32x16xf32>,
                      %scores: memref<32x32xf32>) {
      linalg.generic {indexing_maps = [#map, #map1, #map2],
                      iterator_types = ["parallel", "reduction", "parallel"]}
          ins(%q, %k : memref<32x16xf32>, memref<32x16xf32>)
          outs(%scores : memref<32x32xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32):
        %sum = math.fma %a, %b, %c : f32
        linalg.yield %sum : f32
      }
      return
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect"
  ];
  let options = [
    Option<"to", "to", "::pipesched::MatmulCode",
           /*default=*/"::pipesched::MatmulCode::Calls",
           "What products of matrices become",
           [{::pipesched::enumOptionValues<::pipesched::MatmulCode>()}]>,
    Option<"onlySums", "only-sums", "bool", /*default=*/"false",
           "Leave calls of products to which nothing is added">
  ];
}

#endif // PIPESCHED_CONVERSION_LOWERMATMULS_TD
