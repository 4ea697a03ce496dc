//===- PipeTransformOps.td - Scripts of schedules ----------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops of MLIR's transform dialect that make, change and check schedules. The
// page docs/Transforms.md has an example.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMOPS_PIPETRANSFORMOPS_TD
#define PIPESCHED_TRANSFORMOPS_PIPETRANSFORMOPS_TD

include "mlir/Dialect/Transform/IR/TransformDialect.td"
include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def PipeMatchScheduleOp : TransformDialectOp<"pipe.match_schedule", [
    DeclareOpInterfaceMethods<TransformOpInterface>, MemoryEffectsOpInterface,
    NavigationTransformOpTrait]> {
  let summary = "the schedules of a module, or the one with this name";
  let description = [{
    A silenceable failure if the module has no such schedule.
  }];
  let arguments = (ins OptionalAttr<StrAttr>:$name,
                       TransformHandleTypeInterface:$target);
  let results = (outs TransformHandleTypeInterface:$schedules);
  let assemblyFormat = [{
    ($name^)? `in` $target attr-dict `:` functional-type($target, $schedules)
  }];
}

/// An op that runs on each schedule of a handle.
class PipeEachOp<string mnemonic, list<Trait> traits>
    : TransformDialectOp<"pipe." # mnemonic, [
        MemoryEffectsOpInterface, TransformEachOpTrait, TransformOpInterface
      ] # traits> {
  let extraClassDeclaration = [{
    ::mlir::DiagnosedSilenceableFailure applyToOne(
        ::mlir::transform::TransformRewriter &rewriter,
        ::pipesched::pipe::ScheduleOp target,
        ::mlir::transform::ApplyToEachResultList &results,
        ::mlir::transform::TransformState &state);
  }];
}

/// An op that changes schedules. It returns a new handle to them and
/// invalidates handles to their rows and paths.
class PipeChangeOp<string mnemonic, dag parts, string format,
                   list<Trait> traits = []>
    : PipeEachOp<mnemonic, [FunctionalStyleTransformOpTrait] # traits> {
  let arguments = !con((ins TransformHandleTypeInterface:$target), parts);
  let results = (outs TransformHandleTypeInterface:$changed);
  let assemblyFormat = "$target " # format # [{
    attr-dict `:` functional-type($target, $changed)
  }];
}

def PipeGenerateOp : PipeChangeOp<"generate",
    (ins StrAttr:$family, OptionalAttr<StrAttr>:$options),
    "$family (`options` $options^)?"> {
  let summary = "fills schedules without rows, as pipe-schedule-FAMILY does";
  let description = [{
    The family is a name or an alias; `options` are options of the pass.
  }];
}

def PipePlaceOp : PipeChangeOp<"place",
    (ins StrAttr:$placement, OptionalAttr<StrAttr>:$options),
    "$placement (`options` $options^)?"> {
  let summary = "places the stages of schedules, as pipe-place-PLACEMENT does";
  let description = [{`options` are options of the pass.}];
}

def PipeOptimizeOp : PipeChangeOp<"optimize",
    (ins OptionalAttr<StrAttr>:$options), "(`options` $options^)?"> {
  let summary = "finds rows for schedules, as pipe-optimize does";
  let description = [{`options` are options of the pass.}];
}

def PipeMoveCellOp : PipeChangeOp<"move_cell",
    (ins StrAttr:$cell, OptionalAttr<StrAttr>:$before,
         OptionalAttr<StrAttr>:$after),
    "$cell (`before` $before^)? (`after` $after^)?"> {
  let summary = "moves a cell within its row";
  let description = [{
    Names another cell of the row, before or after which the cell is then. If
    that cell is one of an overlapped pair, the cell is before or after the
    pair. The schedule has no family afterwards.
  }];
  let hasVerifier = 1;
}

def PipeReplaceRowsOp : PipeChangeOp<"replace_rows",
    (ins), "`with` $bodyRegion", [NoTerminator, SingleBlock, SymbolTable]> {
  let summary = "gives schedules the rows of the schedule in the region";
  let description = [{The schedule has no family afterwards.}];
  let regions = (region SizedRegion<1>:$bodyRegion);
  let hasRegionVerifier = 1;
}

/// An op that checks schedules without changing them.
class PipeCheckOp<string mnemonic, dag parts, string format>
    : PipeEachOp<mnemonic, [NavigationTransformOpTrait]> {
  let arguments = !con((ins TransformHandleTypeInterface:$target), parts);
  let assemblyFormat = "$target " # format # " attr-dict `:` type($target)";
}

def PipeVerifyOp : PipeCheckOp<"verify", (ins OptionalAttr<StrAttr>:$options),
                               "(`options` $options^)?"> {
  let summary = "proves schedules, as pipe-verify does";
  let description = [{`options` are options of the pass.}];
}

def PipeAssertMakespanOp : PipeCheckOp<"assert_makespan",
    (ins StrAttr:$limit, OptionalAttr<StrAttr>:$transport),
    "`at_most` $limit (`transport` $transport^)?"> {
  let summary = "checks that a step takes no longer than this";
  let description = [{
    The limit is a number of slots of the table, `21 slots`, or a time of the
    execution, `1.5ms`, with the times that the schedule and its module name and
    the transport of messages.
  }];
  let hasVerifier = 1;
}

#endif // PIPESCHED_TRANSFORMOPS_PIPETRANSFORMOPS_TD
