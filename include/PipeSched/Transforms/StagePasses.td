//===- StagePasses.td - Passes on functions of stages ------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes that read what stages compute.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_STAGEPASSES_TD
#define PIPESCHED_TRANSFORMS_STAGEPASSES_TD

include "PipeSched/Transforms/PassBase.td"

def PipeVerifyStagesPass : Pipe_ModulePass<"pipe-verify-stages"> {
  let summary = "Verify the functions of stages, and that they fit together";
  let description = [{
    Verifies for each `pipe.schedule` and `exec.program` of the module that
    every stage names functions, that their arguments and results have roles and
    types that agree, that the output of a stage is the input of the next one on
    every path, and that every cell of the rows has its function. Rows need not
    exist. The module stays as it is (docs/Stages.md).

    ```mlir
    func.func @scale(%w: tensor<8xf32> {pipe.param}, %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
      %y = arith.mulf %w, %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
    pipe.schedule @forward workers 2 microbatches 2 {
      path on [0, 1]
      stage 0 forward @scale
      stage 1 forward @scale
    }
    ```

    After `pipe-verify-stages`:

    ```mlir
    func.func @scale(%arg0: tensor<8xf32> {pipe.param}, %arg1: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
      %0 = arith.mulf %arg0, %arg1 : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    pipe.schedule @forward workers 2 microbatches 2 {
      path on [0, 1]
      stage 0 forward @scale
      stage 1 forward @scale
    }
    ```

    Errors: a schedule or program without functions of stages; what
    `loadStageFunctions` (include/PipeSched/Stages/StageFunctions.h) refuses; a
    cell whose stage has no function for it; no schedule and no program.
  }];
}

#endif // PIPESCHED_TRANSFORMS_STAGEPASSES_TD
