//===- CallBlas.td - Products of matrices ------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part of Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_CALLBLAS_TD
#define PIPESCHED_CONVERSION_CALLBLAS_TD

include "mlir/Pass/PassBase.td"

def FoldMatmulTransposesPass
    : Pass<"fold-matmul-transposes", "::mlir::ModuleOp"> {
  let summary = "Let products of matrices read inputs of transposes";
  let description = [{
    BLAS takes transposed matrices. Before bufferization, a contraction that
    `call-blas` will take reads the input of a `linalg.transpose` by other
    indexing maps, so that no transposed copy is made of it.

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

def CallBlasPass : Pass<"call-blas", "::mlir::ModuleOp"> {
  let summary = "Let a BLAS library multiply matrices";
  let description = [{
    After bufferization, products of matrices whose sums are f32 or f64 become
    calls of `pipesched_rt_matmul` (docs/Runtime.md), which calls a BLAS
    library: named ops of linalg and generic ones that add products, with any
    order of dimensions. Elements may be narrower than the sums, as bf16 and f16
    are after `lower-stage-ops`. Dimensions that follow each other in memory are
    merged; there is a call for each element of the batch. An operand that BLAS
    cannot take in place is copied before the calls.

    Products of fewer than 4096 multiplications are not changed, nor are sums of
    products that are a single number.

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

    After `call-blas,canonicalize`:

    ```mlir
    func.func private @pipesched_rt_matmul(i32, i64, i64, i64,
        !llvm.ptr, i64, i64, !llvm.ptr, i64, i64, !llvm.ptr, i64, i64)
    func.func @scores(%q: memref<32x16xf32>, %k: memref<32x16xf32>,
                      %scores: memref<32x32xf32>) {
      %one = arith.constant 1 : i64
      %f32 = arith.constant 0 : i32
      %n = arith.constant 32 : i64
      %c = arith.constant 16 : i64
      %0 = memref.extract_aligned_pointer_as_index %q
          : memref<32x16xf32> -> index
      %1 = arith.index_cast %0 : index to i64
      %a = llvm.inttoptr %1 : i64 to !llvm.ptr
      %2 = memref.extract_aligned_pointer_as_index %k
          : memref<32x16xf32> -> index
      %3 = arith.index_cast %2 : index to i64
      %b = llvm.inttoptr %3 : i64 to !llvm.ptr
      %4 = memref.extract_aligned_pointer_as_index %scores
          : memref<32x32xf32> -> index
      %5 = arith.index_cast %4 : index to i64
      %s = llvm.inttoptr %5 : i64 to !llvm.ptr
      call @pipesched_rt_matmul(%f32, %n, %n, %c, %a, %c, %one, %b, %one, %c,
          %s, %n, %one) : (i32, i64, i64, i64, !llvm.ptr, i64, i64, !llvm.ptr,
          i64, i64, !llvm.ptr, i64, i64) -> ()
      return
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"
  ];
}

#endif // PIPESCHED_CONVERSION_CALLBLAS_TD
