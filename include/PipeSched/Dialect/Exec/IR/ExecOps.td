//===- ExecOps.td - Ops of the exec dialect -*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs, their workers, and the instructions of a worker. Constraint ids
// return at the check and name the test.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_EXEC_IR_EXECOPS_TD
#define PIPESCHED_DIALECT_EXEC_IR_EXECOPS_TD

include "PipeSched/Dialect/Exec/IR/ExecDialect.td"
include "PipeSched/Dialect/Exec/IR/ExecInterfaces.td"
include "PipeSched/Dialect/Exec/IR/ExecTypes.td"
include "PipeSched/Dialect/Pipe/IR/PipeEnums.td"
include "PipeSched/Dialect/Pipe/IR/PipeInterfaces.td"
include "PipeSched/Dialect/Pipe/IR/PipeProfileAttrs.td"
include "PipeSched/Dialect/Pipe/IR/PipeProperties.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Programs and workers
//===----------------------------------------------------------------------===//

/// As Pipe_SlicesProp. Bytecode has the slices of programs from version 4 on.
def Exec_SlicesValueProp : IntProp<"int64_t"> {
  let summary = "slices of a microbatch";
  let writeToMlirBytecode = [{
    $_writer.writeSignedVarInt($_storage);
  }];
  let readFromMlirBytecode = [{
    if (::mlir::failed(readSlices($_reader, $_storage)))
      return ::mlir::failure();
  }];
}
def Exec_SlicesProp : DefaultValuedProp<Exec_SlicesValueProp, "1">;

def Exec_ProgramOp : Exec_Op<"program", [
    IsolatedFromAbove, NoRegionArguments, NoTerminator, SingleBlock, Symbol,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getDefaultDialect"]>,
    DeclareOpInterfaceMethods<Pipe_PlacementOwnerOpInterface,
                              ["getNumSlices"]>]> {
  let summary = "programs of all workers of a pipeline";
  let description = [{
    One `worker` per process of a pipeline-parallel training step. The costs of
    cells follow from the header and the `pipe.path` ops, which
    `convert-pipe-to-exec` takes over from the schedule. A program written by
    hand needs none of them: then stage s is on the worker that computes it, and
    all microbatches take that one path.

    ```mlir
    exec.program @two_stages {
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %g0 = recv 1B0 from 1
        %b0 = compute 0B0 after %f0, %g0
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
        %b0 = compute 1B0 after %f0
        %sg0 = send 1B0 to 0 after %b0
      }
    }
    exec.program @forward_only workers 2 microbatches 1 gradient after W {
      pipe.path on [0, 1]
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
      }
    }
    ```

    With `slices`, cells are of a slice, as `2F3.1`.

    ```mlir
    exec.program @sliced microbatches 1 slices 2 {
      worker 0 {
        %f0_0 = compute 0F0.0
        %f0_1 = compute 0F0.1
        %b0_1 = compute 0B0.1
        %b0_0 = compute 0B0.0
      }
    }
    ```

    Constraints:
    - `program_c1`: the body holds `pipe.path`, `pipe.node` and `pipe.edge` ops
      and clauses of functions (`pipe.stage`, `pipe.data`, `pipe.target`,
      `pipe.loss`), then `exec.worker` ops.
    - `program_c2`: 1 to 65536 workers, numbered 0..D-1, each once; as many as
      `workers` says.
    - `program_c3`: 1 to 2147483647 microbatches; every cell's microbatch is
      below `microbatches`, with paths every O's and G's path exists.
    - `program_c4`: no cell is computed or copied twice.
    - `program_c5`: every message has one `send` and one `recv`.
    - `program_c6`: with paths, every cell is on the worker of its stage.
    - `program_c7`: `model` names a `pipe.model`.
    - `program_c8`: family options need a family, and are not empty.
    - `program_c9`: `recompute` is `selective` or `full`.
    - `program_c10`: an `all_reduce` needs paths, and reduces blocks that its
      cell's stage owns: if several stages of a worker hold the same blocks,
      only the stage that ends last in the model reduces and steps them.
    - `program_c11`: no worker reduces a block twice.
    - `program_c12`: all workers that hold the blocks of an `all_reduce` have
      one of the same blocks and `bytes`.
    - `program_c13`: the stage of an O owns blocks.
    - `program_c14`: after an O or an `all_reduce` there is no B or W of a stage
      that holds any of its blocks; an `all_reduce` waits for the last such B or
      W in front of it, or for a later `compute`.
    - `program_c15`: an `offload` waits for the `send` of its forward's output,
      if there is one.
    - `program_c16`: a collective of a microbatch is on each worker of its path
      once, with the same `bytes`.
    - `program_c17`: `slices` is 1 or more, and all microbatches together have
      at most 2147483647.
    - `program_c18`: on a worker the slices of a microbatch run in their order,
      backwards in the reverse order.
    - `program_c19`: nodes and edges are there only with a path.
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    OptionalProp<I64Prop>:$workers,
    OptionalProp<I64Prop>:$microbatches,
    Exec_SlicesProp:$slices,
    OptionalAttr<StrAttr>:$family,
    OptionalAttr<DictionaryAttr>:$familyOptions,
    Pipe_GradientAfterProp:$gradientAfter,
    OptionalAttr<Pipe_RecomputeKind>:$recompute,
    OptionalAttr<FlatSymbolRefAttr>:$model,
    OptionalAttr<Pipe_ProfileAttr>:$profile
  );
  let regions = (region SizedRegion<1>:$bodyRegion);
  let assemblyFormat = [{
    $sym_name (`workers` $workers^)? (`microbatches` $microbatches^)?
    (`slices` $slices^)? (custom<Family>($family, $familyOptions)^)?
    (`gradient` `after` $gradientAfter^)? (`recompute` $recompute^)?
    (`model` $model^)? (`profile` $profile^)?
    attr-dict-with-keyword custom<Workers>($bodyRegion, ref($slices))
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
  let extraClassDeclaration = [{
    auto getPaths() { return getBody()->getOps<::pipesched::pipe::PathOp>(); }
    /// As they are written, not by number.
    auto getWorkerOps() { return getBody()->getOps<WorkerOp>(); }
  }];
}

def Exec_WorkerOp : Exec_Op<"worker", [
    HasParent<"ProgramOp">, IsolatedFromAbove, NoRegionArguments, NoTerminator,
    SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getDefaultDialect"]>]> {
  let summary = "program of one worker";
  let description = [{
    The instructions of one process in the order in which it issues them to its
    queues. The region is isolated: workers share only messages.

    Ops of other dialects are instructions if they implement
    `InstructionOpInterface`. Further ops may be among them, for lowerings that
    go step by step: they take neither time nor memory in any analysis.

    `exec-assign-buffers` sets `arena`, the bytes in which the worker keeps
    activations and messages, and `host`, the bytes of host memory to which it
    offloads; the instructions then say by `at` where in them their tensors are.

    ```mlir
    exec.program @alone {
      worker 0 {
        %f0 = compute 0F0
        %b0 = compute 0B0 after %f0
      }
    }
    ```

    Constraints:
    - `worker_c1`: the number is not negative.
    - `worker_c2`: instructions are directly in the body, not in a region of
      another op.
  }];
  let arguments = (ins
    I64Prop:$worker,
    OptionalProp<I64Prop>:$arena,
    OptionalProp<I64Prop>:$host
  );
  let regions = (region SizedRegion<1>:$bodyRegion);
  let assemblyFormat = [{
    $worker (`arena` $arena^)? (`host` $host^)? attr-dict-with-keyword
    $bodyRegion
  }];
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "int64_t":$worker)>];
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// An optional fact of an instruction, without extra memory
/// (CompactOptional.h).
class Exec_OptionalProp<Property p> : OptionalProp<p> {
  let storageType = "::pipesched::exec::CompactOptional<" # p.storageType # ">";
  let convertFromStorage = "$_storage.toOptional()";
  let assignToStorage = "$_storage = $_value";
}

/// A number that an instruction states. The lowest number of its type is
/// refused, because it represents an absent number.
class Exec_NumberProp<string type> : IntProp<type> {
  let optionalParser = "return parseFact($_parser, $_storage);";
  let convertFromAttribute = [{
    return factFromAttribute($_storage, $_attr, $_diag);
  }];
  let readFromMlirBytecode = [{
    if (::mlir::failed(readFact($_reader, $_storage)))
      return ::mlir::failure();
  }];
}
def Exec_OptionalI64Prop : Exec_OptionalProp<Exec_NumberProp<"int64_t">>;
def Exec_OptionalI32Prop : Exec_OptionalProp<Exec_NumberProp<"int32_t">>;
def Exec_OptionalCellProp : Exec_OptionalProp<Pipe_CellProp>;

class Exec_QueueWrite<string queue>
    : MemWrite<Resource<"::pipesched::exec::" # queue # "Queue">>;

/// An instruction writes its queues as resources: the order of a queue is part
/// of the program, so no pass may drop, merge or swap instructions.
class Exec_InstructionOp<string mnemonic, string kind, list<string> queues,
                         list<Trait> traits = []>
    : Exec_Op<mnemonic, [
        HasParent<"WorkerOp">, Exec_InstructionOpInterface,
        MemoryEffects<!foreach(name, queues, Exec_QueueWrite<name>)>
      ] # traits> {
  code kindDeclaration = [{
    static ::pipesched::InstructionKind getInstructionKind() {
      return ::pipesched::InstructionKind::}] # kind # [{;
    }
  }];
}

/// An instruction of a cell, for which others can wait. The table of
/// instructions defines the name of its result.
class Exec_CellOp<string mnemonic, string kind, list<string> queues,
                  list<Trait> traits = []>
    : Exec_InstructionOp<mnemonic, kind, queues, [
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>
      ] # traits> {
  let results = (outs Exec_Token:$done);
  code cellDeclaration = kindDeclaration # [{
    ::std::optional<::pipesched::Cell> getInstructionCell() {
      return getCell();
    }
  }];
  let extraClassDeclaration = cellDeclaration;
  let extraClassDefinition = [{
    void $cppClass::getAsmResultNames(::mlir::OpAsmSetValueNameFn setName) {
      nameByTraits(setName, *this, getCell(), getInstructionKind());
    }
  }];
}

/// A collective of a cell. It may state the bytes of each worker of its group;
/// `exec-assign-buffers` adds the places of the exchanged data. Collectives
/// that are grouped by microbatch have no other attributes.
class Exec_CollectiveOp<string mnemonic, string kind, list<string> queues,
                        list<Trait> traits = []>
    : Exec_CellOp<mnemonic, kind, queues, [
        Exec_CollectiveOpInterface, Exec_WorkOpInterface
      ] # traits> {
  let arguments = (ins
    Pipe_CellProp:$cell,
    Exec_OptionalI64Prop:$messageBytes,
    Variadic<Exec_Token>:$waits,
    OptionalAttr<DenseI64ArrayAttr>:$buffers
  );
  let assemblyFormat = [{
    custom<Cell>($cell) (`after` $waits^)? (`bytes` $messageBytes^)?
    (`at` $buffers^)? attr-dict
  }];
}

def Exec_ComputeOp : Exec_CellOp<"compute", "Compute", ["Compute"],
                                 [Exec_WorkOpInterface]> {
  let summary = "run a phase of a microbatch on a stage";
  let description = [{
    Runs one cell, or two cells overlapped, on the worker's compute queue. Its
    work follows from the program's model or profile, unless it is stated:
    `flops` and `bytes` (a roofline on the system's matrix engine and memory),
    and `memory`, the bytes that it holds from its start on, or frees at its end
    if negative.

    ```mlir
    exec.program @stated workers 1 microbatches 2 {
      worker 0 {
        %f0 = compute 0F0 flops 8000 bytes 100 memory 64
        %f1_b0 = compute 0F1+0B0 after %f0
        %b1 = compute 0B1 after %f1_b0 memory -64
      }
    }
    ```

    Constraints:
    - `compute_c1`: the phase is F, B, I, W, R, O, S, T, E or V.
    - `compute_c2`: two overlapped cells differ.
    - `compute_c3`: `flops` and `bytes` are not negative.
  }];
  let arguments = (ins
    Pipe_CellProp:$cell,
    Exec_OptionalCellProp:$overlapped,
    Exec_OptionalI64Prop:$flops,
    Exec_OptionalI64Prop:$bytesMoved,
    Exec_OptionalI64Prop:$memoryDelta,
    Variadic<Exec_Token>:$waits,
    OptionalAttr<DenseI64ArrayAttr>:$buffers
  );
  let assemblyFormat = [{
    custom<CellPair>($cell, $overlapped) (`after` $waits^)?
    (`flops` $flops^)? (`bytes` $bytesMoved^)? (`memory` $memoryDelta^)?
    (`at` $buffers^)?
    attr-dict
  }];
  let extraClassDeclaration = cellDeclaration # [{
    ::std::optional<::pipesched::Cell> getOverlappedCell() {
      return getOverlapped();
    }
  }];
  let extraClassDefinition = "";
}

def Exec_SendOp : Exec_CellOp<"send", "Send", ["Send"],
                              [Exec_WorkOpInterface]> {
  let summary = "send the output of a cell to another worker";
  let description = [{
    Sends the output of the named cell: activations (F) or the gradient of the
    stage's input (B, I, or W under `gradient after W`). `bytes` replaces the
    model's size of the message. The token marks the end of the sending, when
    the buffer may be used again.

    ```mlir
    exec.program @message {
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0 bytes 1024
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
      }
    }
    ```

    Constraints:
    - `send_c1`: the phase is F, B, I or W.
    - `send_c2`: the destination is another worker.
    - `send_c3`: it waits for the `compute` of its cell.
    - `send_c4`: `bytes` is not negative.
  }];
  let arguments = (ins
    Pipe_CellProp:$cell,
    I32Prop:$destination,
    Exec_OptionalI64Prop:$messageBytes,
    Variadic<Exec_Token>:$waits,
    Exec_OptionalI32Prop:$tag,
    OptionalAttr<DenseI64ArrayAttr>:$buffers
  );
  let assemblyFormat = [{
    custom<Cell>($cell) `to` $destination (`after` $waits^)?
    (`bytes` $messageBytes^)? (`tag` $tag^)? (`at` $buffers^)?
    attr-dict
  }];
  let extraClassDeclaration = cellDeclaration # [{
    int64_t getPeer() { return getDestination(); }
  }];
  let extraClassDefinition = "";
}

def Exec_RecvOp : Exec_CellOp<"recv", "Recv", ["Receive"]> {
  let summary = "receive the output of a cell from another worker";
  let description = [{
    Receives the message that is named by the cell which produced it. The token
    is its arrival.

    ```mlir
    exec.program @message {
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
      }
    }
    ```

    Constraints:
    - `recv_c1`: the phase is F, B, I or W.
    - `recv_c2`: the source is another worker.
  }];
  let arguments = (ins
    Pipe_CellProp:$cell,
    I32Prop:$source,
    Variadic<Exec_Token>:$waits,
    OptionalProp<I32Prop>:$tag,
    OptionalAttr<DenseI64ArrayAttr>:$buffers
  );
  let assemblyFormat = [{
    custom<Cell>($cell) `from` $source (`after` $waits^)? (`tag` $tag^)?
    (`at` $buffers^)? attr-dict
  }];
  let extraClassDeclaration = cellDeclaration # [{
    int64_t getPeer() { return getSource(); }
  }];
  let extraClassDefinition = "";
}

def Exec_OffloadOp : Exec_CellOp<"offload", "Offload", ["Offload"],
                                 [Exec_WorkOpInterface]> {
  let summary = "copy activations to host memory";
  let description = [{
    Moves the activations of a stage and microbatch to the host, on the copy
    queue of that direction. `bytes` and `memory` as for `compute`.

    ```mlir
    exec.program @offloaded {
      worker 0 {
        %f0 = compute 0F0
        %d0 = offload 0D0 after %f0 bytes 4096 memory -4096
        %u0 = reload 0U0 after %d0 bytes 4096 memory 4096
        %b0 = compute 0B0 after %f0, %u0
      }
    }
    ```

    Constraints:
    - `offload_c1`: the phase is D.
    - `offload_c2`: `bytes` is not negative.
  }];
  let arguments = (ins
    Pipe_CellProp:$cell,
    Exec_OptionalI64Prop:$bytesMoved,
    Exec_OptionalI64Prop:$memoryDelta,
    Variadic<Exec_Token>:$waits,
    OptionalAttr<DenseI64ArrayAttr>:$buffers
  );
  let assemblyFormat = [{
    custom<Cell>($cell) (`after` $waits^)? (`bytes` $bytesMoved^)?
    (`memory` $memoryDelta^)? (`at` $buffers^)? attr-dict
  }];
}

def Exec_ReloadOp : Exec_CellOp<"reload", "Reload", ["Reload"],
                                [Exec_WorkOpInterface]> {
  let summary = "copy activations back from host memory";
  let description = [{
    Brings back the data that `offload` moved, on the copy queue of that
    direction.

    ```mlir
    exec.program @offloaded {
      worker 0 {
        %f0 = compute 0F0
        %d0 = offload 0D0 after %f0
        %u0 = reload 0U0 after %d0
        %b0 = compute 0B0 after %f0, %u0
      }
    }
    ```

    Constraints:
    - `reload_c1`: the phase is U.
    - `reload_c2`: `bytes` is not negative.
  }];
  let arguments = (ins
    Pipe_CellProp:$cell,
    Exec_OptionalI64Prop:$bytesMoved,
    Exec_OptionalI64Prop:$memoryDelta,
    Variadic<Exec_Token>:$waits,
    OptionalAttr<DenseI64ArrayAttr>:$buffers
  );
  let assemblyFormat = [{
    custom<Cell>($cell) (`after` $waits^)? (`bytes` $bytesMoved^)?
    (`memory` $memoryDelta^)? (`at` $buffers^)? attr-dict
  }];
}

def Exec_AllReduceOp : Exec_CollectiveOp<"all_reduce", "AllReduce",
                                         ["Send", "Receive"]> {
  let summary = "sum gradients with the workers that hold the same blocks";
  let description = [{
    A collective of all workers that hold the blocks by any path: it starts when
    all of them have reached their instruction and its operands are done. It is
    named by the blocks; the cell says which G of the worker it belongs to.
    Blocks are layers of the model if all paths state `blocks`, else equal parts
    of it that divide the stages of all paths: for two paths with two stages
    each, halves. `bytes` replaces the model's size of the gradients.

    The token marks the end of the collective, when the sum is there. It runs on
    the all-reduce queue of each worker, in parallel with compute and messages.

    ```mlir
    exec.program @mirrored workers 2 microbatches 2 {
      pipe.path on [0, 1] takes [0]
      pipe.path on [1, 0] takes [1]
      worker 0 {
        %b0 = compute 0B0
        %b1 = compute 1B1
        %ar0 = all_reduce 0G0 blocks 0 to 1 after %b1, %b0
        %ar1 = all_reduce 1G1 blocks 1 to 2 after %b1
        %o0 = compute 0O0 after %ar0
      }
      worker 1 {
        %b0 = compute 1B0
        %b1 = compute 0B1
        %ar1 = all_reduce 0G1 blocks 0 to 1 after %b1
        %ar0 = all_reduce 1G0 blocks 1 to 2 after %b1, %b0
      }
    }
    ```

    Constraints:
    - `all_reduce_c1`: the phase is G.
    - `all_reduce_c2`: `begin` and `end` of the blocks are not negative, and
      `end` is not before `begin`.
    - `all_reduce_c3`: it waits for the `compute` of a B or W of its stage.
    - `all_reduce_c4`: `bytes` is not negative.
  }];
  let arguments = (ins
    Pipe_CellProp:$cell,
    I64Prop:$firstBlock,
    I64Prop:$endBlock,
    Exec_OptionalI64Prop:$messageBytes,
    Variadic<Exec_Token>:$waits
  );
  let assemblyFormat = [{
    custom<Cell>($cell) `blocks` $firstBlock `to` $endBlock (`after` $waits^)?
    (`bytes` $messageBytes^)? attr-dict
  }];
  let extraClassDeclaration = cellDeclaration # [{
    ::pipesched::BlockSpan getGroupBlocks() {
      return {getFirstBlock(), getEndBlock()};
    }
    void setGroupBlocks(::pipesched::BlockSpan blocks) {
      setFirstBlock(blocks.begin);
      setEndBlock(blocks.end);
    }
  }];
}

include "PipeSched/Dialect/Exec/IR/ExecShards.td"

def Exec_WaitOp : Exec_InstructionOp<"wait", "Wait",
                                      ["Compute", "Reload"]> {
  let summary = "hold compute or a reload until tokens are done";
  let description = [{
    Makes the next `compute` or `reload` of the worker, whichever comes first,
    wait for the tokens as well. Joins of a schedule (`0d3`, `0u3`) become this.

    ```mlir
    exec.program @joined {
      worker 0 {
        %f0 = compute 0F0
        %d0 = offload 0D0 after %f0
        wait after %d0
        %f1 = compute 0F1
      }
    }
    ```

    Constraints:
    - `wait_c1`: it waits for at least one token.
  }];
  let arguments = (ins Variadic<Exec_Token>:$waits);
  let assemblyFormat = "(`after` $waits^)? attr-dict";
  let extraClassDeclaration = kindDeclaration # [{
    ::std::optional<::pipesched::Cell> getInstructionCell() { return {}; }
    /// Nothing waits for a wait.
    ::mlir::Value getDone() { return {}; }
  }];
}

#endif // PIPESCHED_DIALECT_EXEC_IR_EXECOPS_TD
