//===- PipeInterfaces.td - Interfaces of the pipe dialect --*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interface of pipe.path to its parent op, which lets schedules and
// programs place stages with the same syntax, and the interface with which ops
// of other dialects state their work.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_PIPEINTERFACES_TD
#define PIPESCHED_DIALECT_PIPE_IR_PIPEINTERFACES_TD

include "mlir/IR/OpBase.td"

def Pipe_PlacementOwnerOpInterface : OpInterface<"PlacementOwnerOpInterface"> {
  let cppNamespace = "::pipesched::pipe";
  let description = [{
    An op whose first region holds `pipe.path` ops in its only block. See
    `loadPlacement` for the placement that they define together.
  }];
  let methods = [
    InterfaceMethod<"Workers, from 1 to 65536.", "int64_t", "getNumWorkers">,
    InterfaceMethod<"Microbatches, from 1 to 2^31 - 1.", "int64_t",
                    "getNumMicrobatches">,
    InterfaceMethod<"Slices of each microbatch, 1 where there are none.",
                    "int64_t", "getNumSlices", (ins), [{}], [{ return 1; }]>
  ];
}

def Pipe_StageWorkOpInterface : OpInterface<"StageWorkOpInterface"> {
  let cppNamespace = "::pipesched::pipe";
  let description = [{
    An op in the function of a stage that states its work, so that costs can be
    derived from functions with ops of other dialects (docs/StageCosts.md).
    Nothing is counted inside of such an op. A dialect that somebody else owns
    gets it by an external model.
  }];
  let methods = [
    InterfaceMethod<[{
      The work of one run of this op, one entry for each engine or kernel that
      runs: FLOPs, and the bytes that are read and written if nothing is fused
      with it. Of `link`, bytes only. Error, emitted at the op: its work is not
      known, such as that of dynamic shapes.
    }], "::llvm::FailureOr<::llvm::SmallVector<::pipesched::EngineWork>>",
        "getStageWork">
  ];
}

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPEINTERFACES_TD
