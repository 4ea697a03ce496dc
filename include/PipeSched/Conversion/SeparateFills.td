//===- SeparateFills.td - A fill for each op ---------------*- tablegen -*-===//
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

#ifndef PIPESCHED_CONVERSION_SEPARATEFILLS_TD
#define PIPESCHED_CONVERSION_SEPARATEFILLS_TD

include "mlir/Pass/PassBase.td"

def SeparateFillsPass : Pass<"separate-fills", "::mlir::ModuleOp"> {
  let summary = "Give each op that begins with a fill one of its own";
  let description = [{
    Of several ops that begin with one `linalg.fill` in `outs`, bufferization
    lets one compute in place and copies the fill for the others. In front of
    bufferization, and behind the last `cse`, each gets its own fill, which
    `lower-matmuls` makes a part of a product.

    Fills whose sizes are not all known stay.

    ```mlir
    func.func @sums(%x: tensor<4xf32>, %y: tensor<4xf32>)
        -> (tensor<f32>, tensor<f32>) {
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<f32>
      %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>)
          -> tensor<f32>
      %a = linalg.reduce { arith.addf } ins(%x : tensor<4xf32>)
          outs(%start : tensor<f32>) dimensions = [0]
      %b = linalg.reduce { arith.addf } ins(%y : tensor<4xf32>)
          outs(%start : tensor<f32>) dimensions = [0]
      return %a, %b : tensor<f32>, tensor<f32>
    }
    ```

    After `separate-fills,canonicalize`:

    ```mlir
    func.func @sums(%x: tensor<4xf32>, %y: tensor<4xf32>)
        -> (tensor<f32>, tensor<f32>) {
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<f32>
      %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>)
          -> tensor<f32>
      %a = linalg.reduce { arith.addf } ins(%x : tensor<4xf32>)
          outs(%start : tensor<f32>) dimensions = [0]
      %empty_0 = tensor.empty() : tensor<f32>
      %start_1 = linalg.fill ins(%zero : f32) outs(%empty_0 : tensor<f32>)
          -> tensor<f32>
      %b = linalg.reduce { arith.addf } ins(%y : tensor<4xf32>)
          outs(%start_1 : tensor<f32>) dimensions = [0]
      return %a, %b : tensor<f32>, tensor<f32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // PIPESCHED_CONVERSION_SEPARATEFILLS_TD
