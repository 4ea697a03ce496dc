//===- PipeInterfaces.td - Interfaces of the pipe dialect --*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What pipe.path needs from its parent op, so that schedules and programs place
// stages with the same syntax.
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
                    "getNumMicrobatches">
  ];
}

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPEINTERFACES_TD
