//===- ExecInterfaces.td - Interfaces of the exec dialect -*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Interfaces of instructions for loaders, cost models and lowerings: their
// order and their work.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_EXEC_IR_EXECINTERFACES_TD
#define PIPESCHED_DIALECT_EXEC_IR_EXECINTERFACES_TD

include "mlir/IR/OpBase.td"

def Exec_InstructionOpInterface : OpInterface<"InstructionOpInterface"> {
  let cppNamespace = "::pipesched::exec";
  let description = [{
    An instruction of a worker, of this dialect or of another. It starts when
    all instructions before it in its queues have left them and all tokens that
    it waits for are done. Its kind decides its queues, its cost and its place
    in pictures (PipeSched/Schedule/Kinds/Instructions.h).

    The verifier of the interface checks each implementation: the parent is an
    `exec.worker`; the cell has a phase of the instruction's kind; a message
    goes to another worker and its send waits for the compute of its cell; an
    all-reduce waits for a weight gradient of its stage; a collective of a
    microbatch waits for the cells that its phase needs. Stated work is not
    negative.
  }];
  let methods = [
    StaticInterfaceMethod<"Which instruction it is.",
                          "::pipesched::InstructionKind",
                          "getInstructionKind">,
    InterfaceMethod<[{The cell that it runs, whose output it sends or receives,
                      or of which its collective is; nothing for a Wait.}],
                    "::std::optional<::pipesched::Cell>",
                    "getInstructionCell">,
    InterfaceMethod<"Of a Compute: the cell that runs overlapped with it.",
                    "::std::optional<::pipesched::Cell>", "getOverlappedCell",
                    (ins), "", "return ::std::nullopt;">,
    InterfaceMethod<"Of a Send: the destination; of a Recv: the source.",
                    "int64_t", "getPeer", (ins), "", "return -1;">,
    InterfaceMethod<[{Of a collective: the blocks that name it, in the unit of
                      `all_reduce`.}],
                    "::pipesched::BlockSpan", "getGroupBlocks", (ins), "",
                    "return {};">,
    InterfaceMethod<"Tokens of the same worker that it waits for.",
                    "::mlir::OperandRange", "getWaits">,
    InterfaceMethod<"The token of its end, null where nothing can wait for it.",
                    "::mlir::Value", "getDone">
  ];
  let verify = [{
    return ::pipesched::exec::detail::verifyInstruction(
        ::llvm::cast<::pipesched::exec::InstructionOpInterface>($_op));
  }];
}

def Exec_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::pipesched::exec";
  let description = [{
    A collective that `convert-pipe-to-exec` creates from the cell of a table.
    Ops of other dialects need not implement it.
  }];
  let methods = [
    InterfaceMethod<"Sets the cell by which the worker takes part.", "void",
                    "setCell", (ins "::pipesched::Cell":$cell)>,
    InterfaceMethod<[{Sets the blocks that name its group, if it is grouped by
                      blocks.}],
                    "void", "setGroupBlocks",
                    (ins "::pipesched::BlockSpan":$blocks), "",
                    "(void)blocks;">
  ];
}

def Exec_WorkOpInterface : OpInterface<"WorkOpInterface"> {
  let cppNamespace = "::pipesched::exec";
  let description = [{
    The work that an instruction states itself, which replaces the work of its
    cell by model or profile. Nullopt if it states none. A cost model turns work
    into time.
  }];
  let methods = [
    InterfaceMethod<"FLOPs of the worker's matrix engines.",
                    "::std::optional<int64_t>", "getFlops", (ins), "",
                    "return ::std::nullopt;">,
    InterfaceMethod<"Bytes that compute or a copy moves.",
                    "::std::optional<int64_t>", "getBytesMoved", (ins), "",
                    "return ::std::nullopt;">,
    InterfaceMethod<[{Bytes of a message between workers, or of what each worker
                      of a collective has.}],
                    "::std::optional<int64_t>", "getMessageBytes", (ins), "",
                    "return ::std::nullopt;">,
    InterfaceMethod<[{Bytes of memory that are held from its start on
                      (positive) or free from its end on (negative).}],
                    "::std::optional<int64_t>", "getMemoryDelta", (ins), "",
                    "return ::std::nullopt;">,
    InterfaceMethod<"Whether it states any of these.", "bool", "statesWork",
                    (ins), "", [{
                      return $_op.getFlops() || $_op.getBytesMoved() ||
                             $_op.getMessageBytes() || $_op.getMemoryDelta();
                    }]>
  ];
}

#endif // PIPESCHED_DIALECT_EXEC_IR_EXECINTERFACES_TD
