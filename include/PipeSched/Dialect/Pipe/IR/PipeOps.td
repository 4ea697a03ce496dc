//===- PipeOps.td - Schedules, paths, workers --------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table as ops: one op per schedule, per path and per row. Cells are a
// property of the row.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_PIPEOPS_TD
#define PIPESCHED_DIALECT_PIPE_IR_PIPEOPS_TD

include "PipeSched/Dialect/Pipe/IR/PipeDialect.td"
include "PipeSched/Dialect/Pipe/IR/PipeInterfaces.td"
include "PipeSched/Dialect/Pipe/IR/PipeModelOps.td"
include "PipeSched/Dialect/Pipe/IR/PipeProfileAttrs.td"
include "PipeSched/Dialect/Pipe/IR/PipeProperties.td"
include "PipeSched/Dialect/Pipe/IR/PipeSlotsAttrs.td"
include "PipeSched/Dialect/Pipe/IR/PipeStageOps.td"
include "PipeSched/Dialect/Pipe/IR/PipeSystemAttrs.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def Pipe_ScheduleOp : Pipe_Op<"schedule", [
    IsolatedFromAbove, NoTerminator, SingleBlock, Symbol,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getDefaultDialect"]>,
    DeclareOpInterfaceMethods<Pipe_PlacementOwnerOpInterface,
                              ["getNumSlices"]>]> {
  let summary = "a schedule table, or the problem of filling one";
  let description = [{
    The paths of the microbatches through the workers and, in a solution, one
    row of cells per worker. Without rows it is a problem for a
    `pipe-schedule-*` pass.

    ```mlir
    pipe.schedule @problem workers 2 microbatches 4 {
      path on [0, 1]
    }
    pipe.schedule @one_f_one_b workers 2 microbatches 2 family "1f1b" {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0B0 0B1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    `slices` is the number of slices into which each microbatch is divided along
    its tokens; cells are then of a slice, such as `2F3.1`, while O and G are of
    a whole stage. `family` names the generator and its options; it is dropped
    when anything else changes the rows. `gradient after W` says that in a split
    backward W, not I, sends the gradient upstream. `recompute selective` says
    that R cells recompute only the attention core. `aligned` says that each
    cell is at its slot and idle slots are written. `slots` gives the lengths of
    cells in slots, aligned or not; without it they take unit slots: one for F,
    I, W, R, O and G, two for B, the sum for a pair. `model` names the
    `pipe.model` that is trained; `profile` gives measured times, which have
    precedence over the model's.

    Constraints:
    - `schedule_c1`: there are 1 to 65536 workers and 1 to 2147483647
      microbatches.
    - `schedule_c2`: the body holds `pipe.path` ops, at least one, `pipe.node`,
      `pipe.edge` and `pipe.worker` ops, and the clauses of functions:
      `pipe.stage`, `pipe.data`, `pipe.target`, `pipe.loss`.
    - `schedule_c3`: every microbatch is on exactly one path; with rows, several
      paths say which microbatches they take.
    - `schedule_c4`: there are no rows, or exactly one per worker.
    - `schedule_c5`: `model` names a `pipe.model`.
    - `schedule_c6`: family options need a family, and are not empty.
    - `schedule_c7`: lists of `slots` fit the paths.
    - `schedule_c8`: `slots` give every cell of the rows a number of slots, and
      all of them together at most 2^62.
    - `schedule_c9`: `recompute` is `selective` or `full`.
    - `schedule_c10`: `slices` is 1 or more, and all microbatches together have
      at most 2147483647.
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    I64Prop:$workers,
    I64Prop:$microbatches,
    Pipe_SlicesProp:$slices,
    OptionalAttr<StrAttr>:$family,
    OptionalAttr<DictionaryAttr>:$familyOptions,
    Pipe_GradientAfterProp:$gradientAfter,
    OptionalAttr<Pipe_RecomputeKind>:$recompute,
    UnitAttr:$aligned,
    OptionalAttr<Pipe_SlotsAttr>:$slots,
    OptionalAttr<FlatSymbolRefAttr>:$model,
    OptionalAttr<Pipe_ProfileAttr>:$profile
  );
  let regions = (region SizedRegion<1>:$bodyRegion);
  let assemblyFormat = [{
    $sym_name `workers` $workers `microbatches` $microbatches
    (`slices` $slices^)? (custom<Family>($family, $familyOptions)^)?
    (`gradient` `after` custom<GradientAfter>($gradientAfter)^)?
    (`recompute` $recompute^)? (`aligned` $aligned^)? (`slots` $slots^)?
    (`model` $model^)? (`profile` $profile^)?
    attr-dict-with-keyword custom<Rows>($bodyRegion, ref($slices))
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "int64_t":$workers,
                                 "int64_t":$microbatches)>];
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    /// The paths in order: path p is the p-th.
    auto getPaths() { return getBody()->getOps<PathOp>(); }
    /// The rows in their written order, which need not be the order of workers.
    auto getRows() { return getBody()->getOps<WorkerOp>(); }
    /// Whether there are no rows yet.
    bool isProblem() { return getRows().empty(); }
    /// Sets family and options, or drops both if the name is empty.
    void setFamily(::llvm::StringRef name,
                   ::llvm::ArrayRef<::mlir::NamedAttribute> options);
    void dropFamily();
  }];
}

def Pipe_PathOp : Pipe_Op<"path"> {
  let summary = "the sequence of stages that microbatches go through";
  let description = [{
    Entry s of `on` is the worker of stage s. `takes` lists the path's
    microbatches, singly or as ranges `begin:end` or `begin:end:step` without
    their end; a single path takes all microbatches by default. `blocks` gives
    the number of the model's layers per stage. `weights` gives the relative
    lengths of stages before there is a model; `pipe-attach-model` turns them
    into blocks. Without either, layers are divided evenly. Stages that are
    `frozen` have no weight gradients; with `none` no stage has a backward, as
    in an evaluation. The cells of a stage follow: F and B, or F, I and W, if it
    trains; F and I if it is frozen and a stage before it trains; else only F.
    Stage s + 1 takes the output of stage s; `pipe.edge` adds others.

    ```mlir
    pipe.schedule @mirrored workers 2 microbatches 8 {
      path on [0, 1] takes [0:4, 7] blocks [20, 20]
      path on [1, 0] takes [4:7]
    }
    pipe.schedule @asymmetric workers 4 microbatches 8 {
      path on [0, 1, 2, 3] takes [0:8:2] weights [1, 1, 2, 2]
      path on [3, 2, 1, 0] takes [1:8:2] weights [1, 1, 2, 2]
    }
    pipe.schedule @frozen_prefix workers 2 microbatches 2 {
      path on [0, 1] frozen [0]
      worker 0 runs [0F0 0F1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    Constraints:
    - `path_c1`: it is inside a `pipe.schedule` or an `exec.program`.
    - `path_c2`: it has at least one stage, each on a worker that exists.
    - `path_c3`: `takes` and its ranges are not empty, ascend and stay below the
      number of microbatches.
    - `path_c4`: there is one number of blocks per stage, 0 or more, not all 0.
    - `path_c5`: there is one weight per stage, 1 or more, and no blocks.
    - `path_c6`: `frozen` lists stages of the path in ascending order.
  }];
  let arguments = (ins
    DenseI32ArrayAttr:$workers,
    OptionalAttr<DenseI64ArrayAttr>:$takes,
    Pipe_PathBackwardProp:$backward,
    OptionalAttr<DenseI64ArrayAttr>:$blocks,
    OptionalAttr<DenseI64ArrayAttr>:$weights
  );
  let assemblyFormat = [{
    `on` $workers (`takes` custom<Ranges>($takes)^)? ($backward^)?
    (`blocks` $blocks^)? (`weights` $weights^)? attr-dict
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "const ::pipesched::Path &":$path)>];
  let extraClassDeclaration = [{
    /// The path as data.
    ::pipesched::Path toPath();
  }];
}

def Pipe_NodeOp : Pipe_Op<"node"> {
  let summary = "a stage that is on no path";
  let description = [{
    The numbers of nodes continue those of the stages of the path, and cells
    name nodes by them. `pipe.edge` ops say to which stages a node passes its
    output.
    Nodes may be `frozen`, or have no backward (`none`), as stages of a path.
    `takes` lists the microbatches that run the node; for others its edges do
    not exist. `holds` lists its blocks of the model by name; the path holds all
    others.

    ```mlir
    pipe.schedule @vision_encoder workers 3 microbatches 2 {
      path on [1, 2]
      node 2 on [0] frozen takes [1] holds "patches", "vision_layer" x 24
      edge 2 -> 0
      worker 0 runs [2F1]
      worker 1 runs [0F0 0F1 0B0 0B1]
      worker 2 runs [1F0 1B0 1F1 1B1]
    }
    ```

    Constraints:
    - `node_c1`: it is inside a `pipe.schedule` or an `exec.program` with a
      single path and whole microbatches; if the path has blocks or weights, it
      holds blocks.
    - `node_c2`: it is on one worker, which exists.
    - `node_c3`: its number is the next one after the stages and nodes before.
    - `node_c4`: an edge leads to it or from it.
    - `node_c5`: the ranges of `takes` ascend, are not empty and stay below the
      number of microbatches.
    - `node_c6`: it holds each block once or more, and names it once.
  }];
  let arguments = (ins I64Prop:$number, DenseI32ArrayAttr:$workers,
                       UnitAttr:$frozen, UnitAttr:$none,
                       OptionalAttr<DenseI64ArrayAttr>:$takes,
                       OptionalAttr<StrArrayAttr>:$blocks,
                       OptionalAttr<DenseI64ArrayAttr>:$block_counts);
  let assemblyFormat = [{
    $number `on` $workers (`frozen` $frozen^)? (`none` $none^)?
    (`takes` custom<Ranges>($takes)^)?
    (`holds` custom<HeldBlocks>($blocks, $block_counts)^)? attr-dict
  }];
  let builders = [OpBuilder<(ins "const ::pipesched::StageNode &":$node)>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The node as data.
    ::pipesched::StageNode toNode();
  }];
}

def Pipe_EdgeOp : Pipe_Op<"edge"> {
  let summary = "an edge between stages besides the chain of the path";
  let description = [{
    The forward of the second stage waits for that of the first one, whose
    output it takes; a backward of the first one waits for the gradients from
    all stages that take its output, unless the edge has `no gradient`. Stages
    that pass no output to others make losses. The edge carries the output, or
    the tensor of this name, which may say its `bytes` for a microbatch.

    ```mlir
    pipe.schedule @skip workers 3 microbatches 1 {
      path on [0, 1, 2]
      edge 0 -> 2 "features" bytes 4096
      worker 0 runs [0F0 0B0]
      worker 1 runs [1F0 1B0]
      worker 2 runs [2F0 2B0]
    }
    ```

    Constraints:
    - `edge_c1`: it is inside a `pipe.schedule` or an `exec.program` with a
      single path and whole microbatches.
    - `edge_c2`: both stages exist, and no edge or chain connects them already.
    - `edge_c3`: edges and chains lead in no circle.
    - `edge_c4`: no stage trains after one that has no backward.
    - `edge_c5`: edges that carry one tensor of a stage say the same bytes, and
      only named tensors have some.
  }];
  let arguments = (ins I64Prop:$from, I64Prop:$to,
                       OptionalAttr<StrAttr>:$tensor,
                       OptionalAttr<I64Attr>:$bytes, UnitAttr:$noGradient);
  let assemblyFormat = [{
    $from `->` $to ($tensor^)? (`bytes` $bytes^)?
    (`no` `gradient` $noGradient^)? attr-dict
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "const ::pipesched::AddedEdge &":$edge)>];
  let extraClassDeclaration = [{
    /// The edge as data.
    ::pipesched::AddedEdge toEdge();
  }];
}

def Pipe_WorkerOp : Pipe_Op<"worker", [HasParent<"ScheduleOp">]> {
  let summary = "one row of a schedule table";
  let description = [{
    The cells that one worker runs, in this order. `_` is one idle slot, `_12`
    twelve; `a+b` runs two cells overlapped. `d` and `u` join an offload or
    reload: the next compute cell or U of the row, whichever comes first, waits
    for the copy.

    ```mlir
    pipe.schedule @offloaded workers 1 microbatches 2 {
      path on [0]
      worker 0 runs [0F0 0D0 0U0 0F1+0B0 _2 0I1 0W1]
    }
    pipe.schedule @sliced workers 1 microbatches 1 slices 2 {
      path on [0]
      worker 0 runs [0F0.0 0F0.1 0B0.1 0B0.0 0O0]
    }
    ```

    Constraints, checked with the placement of the schedule:
    - `worker_c1`: the worker exists.
    - `worker_c2`: every cell's microbatch (O and G: path) exists.
    - `worker_c3`: every cell's stage is on this worker by its path.
    - `worker_c4`: no cell occurs twice, except that several joins may name one
      copy; there is not both B and I or W.
    - `worker_c5`: B and I come after their own F, W after its I, U after its D,
      a join after its copy.
    - `worker_c6`: exactly two cells overlap, and both compute.
    - `worker_c7`: the forwards of a microbatch's slices on a stage are in the
      order of the slices, its backwards (B, I and W) in the reverse order.
    - `worker_c8`: a stage that does not train has no cell that only training
      stages have (`pipe.path`).
  }];
  let arguments = (ins I64Prop:$worker, Pipe_CellsProp:$cells);
  let assemblyFormat = "$worker `runs` custom<Row>($cells) attr-dict";
  let builders = [
    OpBuilder<(ins "int64_t":$worker,
                   "::std::vector<::pipesched::Cell> &&":$cells)>
  ];
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    /// Replaces the cells without copying them.
    void takeCells(::std::vector<::pipesched::Cell> &&cells) {
      getProperties().cells = std::move(cells);
    }
  }];
}

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPEOPS_TD
