//===- VectorizeRowReductions.td - Sums of rows ------------*- tablegen -*-===//
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

#ifndef PIPESCHED_CONVERSION_VECTORIZEROWREDUCTIONS_TD
#define PIPESCHED_CONVERSION_VECTORIZEROWREDUCTIONS_TD

include "mlir/Pass/PassBase.td"

def VectorizeRowReductionsPass
    : Pass<"vectorize-row-reductions", "::mlir::ModuleOp"> {
  let summary = "Add up rows in lanes of vectors";
  let description = [{
    LLVM neither reorders floating-point sums nor makes vectors of them. Behind
    bufferization, an op of linalg that adds up, or takes the maximum or minimum
    of, the last dimension of its operands, of 32 elements and more, becomes
    loops over vectors of 32: each lane has a sum of its own, halves of the
    lanes are added until one is left, then what remains of the row. Sums have
    the same bits on every processor.

    ```mlir
    #row = affine_map<(m, k) -> (m, k)>
    #sum = affine_map<(m, k) -> (m)>
    func.func @largest(%x: memref<8x64xf32>, %y: memref<8xf32>) {
      linalg.generic {indexing_maps = [#row, #sum],
                      iterator_types = ["parallel", "reduction"]}
          ins(%x : memref<8x64xf32>) outs(%y : memref<8xf32>) {
      ^bb0(%a: f32, %b: f32):
        %c = arith.maximumf %b, %a : f32
        linalg.yield %c : f32
      }
      return
    }
    ```

    After `vectorize-row-reductions,canonicalize`:

    ```mlir
    func.func @largest(%arg0: memref<8x64xf32>, %arg1: memref<8xf32>) {
      %c32 = arith.constant 32 : index
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %c1 = arith.constant 1 : index
      scf.for %arg2 = %c0 to %c8 step %c1 {
        %0 = vector.load %arg0[%arg2, %c0] : memref<8x64xf32>, vector<32xf32>
        %1 = vector.load %arg0[%arg2, %c32] : memref<8x64xf32>, vector<32xf32>
        %2 = arith.maximumf %0, %1 : vector<32xf32>
        %3 = vector.extract_strided_slice %2
            {offsets = [0], sizes = [16], strides = [1]}
            : vector<32xf32> to vector<16xf32>
        %4 = vector.extract_strided_slice %2
            {offsets = [16], sizes = [16], strides = [1]}
            : vector<32xf32> to vector<16xf32>
        %5 = arith.maximumf %3, %4 : vector<16xf32>
        %6 = vector.extract_strided_slice %5
            {offsets = [0], sizes = [8], strides = [1]}
            : vector<16xf32> to vector<8xf32>
        %7 = vector.extract_strided_slice %5
            {offsets = [8], sizes = [8], strides = [1]}
            : vector<16xf32> to vector<8xf32>
        %8 = arith.maximumf %6, %7 : vector<8xf32>
        %9 = vector.extract_strided_slice %8
            {offsets = [0], sizes = [4], strides = [1]}
            : vector<8xf32> to vector<4xf32>
        %10 = vector.extract_strided_slice %8
            {offsets = [4], sizes = [4], strides = [1]}
            : vector<8xf32> to vector<4xf32>
        %11 = arith.maximumf %9, %10 : vector<4xf32>
        %12 = vector.extract_strided_slice %11
            {offsets = [0], sizes = [2], strides = [1]}
            : vector<4xf32> to vector<2xf32>
        %13 = vector.extract_strided_slice %11
            {offsets = [2], sizes = [2], strides = [1]}
            : vector<4xf32> to vector<2xf32>
        %14 = arith.maximumf %12, %13 : vector<2xf32>
        %15 = vector.extract_strided_slice %14
            {offsets = [0], sizes = [1], strides = [1]}
            : vector<2xf32> to vector<1xf32>
        %16 = vector.extract_strided_slice %14
            {offsets = [1], sizes = [1], strides = [1]}
            : vector<2xf32> to vector<1xf32>
        %17 = arith.maximumf %15, %16 : vector<1xf32>
        %18 = vector.extract %17[0] : f32 from vector<1xf32>
        %19 = memref.load %arg1[%arg2] : memref<8xf32>
        %20 = arith.maximumf %19, %18 : f32
        memref.store %20, %arg1[%arg2] : memref<8xf32>
      }
      return
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

#endif // PIPESCHED_CONVERSION_VECTORIZEROWREDUCTIONS_TD
