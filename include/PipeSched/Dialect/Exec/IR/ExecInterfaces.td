//===- ExecInterfaces.td - Interfaces of the exec dialect -*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What loaders, cost models and lowerings ask of instructions: order, and work.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_EXEC_IR_EXECINTERFACES_TD
#define PIPESCHED_DIALECT_EXEC_IR_EXECINTERFACES_TD

include "mlir/IR/OpBase.td"

def Exec_InstructionOpInterface : OpInterface<"InstructionOpInterface"> {
  let cppNamespace = "::pipesched::exec";
  let description = [{
    An instruction of a worker. It starts when all instructions before it in its
    queue have left the queue and all tokens it waits for are done.
  }];
  let methods = [
    InterfaceMethod<"Tokens of the same worker that it waits for.",
                    "::mlir::OperandRange", "getWaits">,
    InterfaceMethod<"The token of its end, null where nothing can wait for it.",
                    "::mlir::Value", "getDone">,
    InterfaceMethod<"The queue it runs on.", "::pipesched::exec::Queue",
                    "getQueue">
  ];
}

def Exec_WorkOpInterface : OpInterface<"WorkOpInterface"> {
  let cppNamespace = "::pipesched::exec";
  let description = [{
    Work that an instruction states itself, in place of what its cell implies by
    model or profile. Nothing stated: nullopt. A cost model turns work into
    time.
  }];
  let methods = [
    InterfaceMethod<"FLOPs of the worker's matrix engines.",
                    "::std::optional<int64_t>", "getFlops", (ins), "",
                    "return ::std::nullopt;">,
    InterfaceMethod<"Bytes that compute or a copy moves.",
                    "::std::optional<int64_t>", "getBytesMoved", (ins), "",
                    "return ::std::nullopt;">,
    InterfaceMethod<[{Bytes of a message between workers, or of the gradients
                      that each worker of an all-reduce has.}],
                    "::std::optional<int64_t>", "getMessageBytes", (ins), "",
                    "return ::std::nullopt;">,
    InterfaceMethod<[{Bytes of memory that are held from its start on
                      (positive) or free from its end on (negative).}],
                    "::std::optional<int64_t>", "getMemoryDelta", (ins), "",
                    "return ::std::nullopt;">
  ];
}

#endif // PIPESCHED_DIALECT_EXEC_IR_EXECINTERFACES_TD
