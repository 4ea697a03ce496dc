//===- PlaceReshapedResults.td - Results behind reshapes ---*- tablegen -*-===//
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

#ifndef PIPESCHED_CONVERSION_PLACERESHAPEDRESULTS_TD
#define PIPESCHED_CONVERSION_PLACERESHAPEDRESULTS_TD

include "mlir/Pass/PassBase.td"

def PlaceReshapedResultsPass
    : Pass<"place-reshaped-results", "::mlir::ModuleOp"> {
  let summary = "Compute where reshapes of results are copied to";
  let description = [{
    Where a reshape of what an op computes is copied to a tensor, as kernels
    copy their results to where they are stored, that op begins with this tensor
    instead of an empty one. Without it, bufferization computes in a temporary
    and copies. `eliminate-empty-tensors` does the same where there is no
    reshape.

    Tensors that something else reads, too, and sizes that are not all known,
    stay.

    ```mlir
    func.func @twice(%x: tensor<2x3xf32>, %place: tensor<6xf32>)
        -> tensor<6xf32> {
      %empty = tensor.empty() : tensor<2x3xf32>
      %twice = linalg.add
          ins(%x, %x : tensor<2x3xf32>, tensor<2x3xf32>)
          outs(%empty : tensor<2x3xf32>) -> tensor<2x3xf32>
      %flat = tensor.collapse_shape %twice [[0, 1]]
          : tensor<2x3xf32> into tensor<6xf32>
      %result = linalg.copy ins(%flat : tensor<6xf32>)
          outs(%place : tensor<6xf32>) -> tensor<6xf32>
      return %result : tensor<6xf32>
    }
    ```

    After `place-reshaped-results,canonicalize`:

    ```mlir
    func.func @twice(%x: tensor<2x3xf32>, %place: tensor<6xf32>)
        -> tensor<6xf32> {
      %out = tensor.expand_shape %place [[0, 1]] output_shape [2, 3]
          : tensor<6xf32> into tensor<2x3xf32>
      %twice = linalg.add
          ins(%x, %x : tensor<2x3xf32>, tensor<2x3xf32>)
          outs(%out : tensor<2x3xf32>) -> tensor<2x3xf32>
      %flat = tensor.collapse_shape %twice [[0, 1]]
          : tensor<2x3xf32> into tensor<6xf32>
      %result = linalg.copy ins(%flat : tensor<6xf32>)
          outs(%place : tensor<6xf32>) -> tensor<6xf32>
      return %result : tensor<6xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
}

#endif // PIPESCHED_CONVERSION_PLACERESHAPEDRESULTS_TD
