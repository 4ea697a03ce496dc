//===- PlacementPasses.td - Passes for unequal stages ------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes that place asymmetric paths and user-defined paths, and that set the
// number of layers of each stage.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_PLACEMENTPASSES_TD
#define PIPESCHED_TRANSFORMS_PLACEMENTPASSES_TD

include "PipeSched/Transforms/PassBase.td"

def Pipe_BlocksOption
    : Option<"blocks", "blocks", "int64_t", /*default=*/"0",
             "Layers to divide; 0: those of the model">;

def PipePlaceAsymmetricPass : Pipe_SchedulePass<"pipe-place-asymmetric"> {
  let summary = "Place paths whose halves differ in length";
  let description = [{
    Replaces the paths by mirrored pairs, as `pipe-place-bidirectional` does, or
    by a wave, as `pipe-place-wave` does (one wave is a V). The lengths of the
    two halves of every path are in proportion `ratio`. Stages s and S-1-s of a
    path always have the same total length, so every worker has the same work
    (Chimera with asymmetric placement, arXiv 2605.24006). `way` says how
    lengths depart from equal ones:

    - `halves`: they jump in the middle; within each half all stages are equal.
    - `ramp`: they change by the same amount from stage to stage.
    - `ends`: only the first and the last stage differ.
    - `middle`: only the last stage of the first half and the first stage of the
      second half differ.

    Lengths are blocks if the schedule has a model or `blocks` gives its layers,
    otherwise weights.

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3]
    }
    ```

    After `pipe-place-asymmetric{ratio=1:2}`:

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3] takes [0:8:2] weights [1, 1, 2, 2]
      path on [3, 2, 1, 0] takes [1:8:2] weights [1, 1, 2, 2]
    }
    ```

    After `pipe-place-asymmetric{ratio=1:2 way=ramp blocks=120}`:

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3] takes [0:8:2] blocks [15, 25, 35, 45]
      path on [3, 2, 1, 0] takes [1:8:2] blocks [15, 25, 35, 45]
    }
    ```

    After `pipe-place-asymmetric{ratio=3:2 on=wave}`:

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3, 3, 2, 1, 0] weights [3, 3, 3, 3, 2, 2, 2, 2]
    }
    ```

    Errors: as for the two placing passes; text that is not a ratio; a ratio
    that leaves nothing to a stage, with the bounds of the valid ratios; a
    number of blocks that cannot be divided so, with the nearest numbers that
    can, or that differs from the layers of the model; options that belong to
    the other kind of paths.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"ratio", "ratio", "std::string", /*default=*/"\"1:2\"",
           "First half of a path to its second half">,
    Option<"way", "way", "::pipesched::Asymmetry",
           /*default=*/"::pipesched::Asymmetry::Halves",
           "How lengths depart from equal ones",
           [{::pipesched::enumOptionValues<::pipesched::Asymmetry>()}]>,
    Pipe_BlocksOption,
    Option<"on", "on", "::pipesched::pipe::AsymmetricPaths",
           /*default=*/"::pipesched::pipe::AsymmetricPaths::Mirrored",
           "Which paths are placed",
           [{::pipesched::enumOptionValues<
               ::pipesched::pipe::AsymmetricPaths>()}]>,
    Option<"pairs", "pairs", "int64_t", /*default=*/"1",
           "Pairs of mirrored paths">,
    Option<"assign", "assign", "::pipesched::Assign",
           /*default=*/"::pipesched::Assign::Alternate",
           "How microbatches go to mirrored paths",
           [{::pipesched::enumOptionValues<::pipesched::Assign>()}]>,
    Option<"waves", "waves", "int64_t", /*default=*/"1",
           "Times down and up of a wave">
  ];
}

def PipePlaceListPass : Pipe_SchedulePass<"pipe-place-list"> {
  let summary = "Place paths given by hand";
  let description = [{
    Replaces the paths by the given `paths`. Semicolons separate paths; each
    lists the worker of each stage, followed by any other clauses of a
    `pipe.path`. A range is `begin:end` or `begin:end:step`, where `end` is
    excluded; workers may count down. `n*c` repeats the number n c times. Lists
    may be in brackets, as in the IR.

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3]
    }
    ```

    After `pipe-place-list{paths="0,1,3,2;2,3,1,0"}`:

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 3, 2]
      path on [2, 3, 1, 0]
    }
    ```

    After `pipe-place-list{paths="0:4 takes 0:5 blocks 8*4;3:-1:-1 takes 5:8"}`:

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3] takes [0:5] blocks [8, 8, 8, 8]
      path on [3, 2, 1, 0] takes [5:8]
    }
    ```

    Errors: text that is not a list of paths, with the position of the wrong
    character; paths that no `pipe.schedule` may have (a worker that does not
    exist, microbatches on no path or two, a list of blocks of another length);
    a schedule that has rows; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"paths", "paths", "std::string", /*default=*/"",
           "Workers of each path, such as \"0,1,2,3;3,2,1,0\"; required">
  ];
}

def PipePlaceBlocksPass : Pipe_SchedulePass<"pipe-place-blocks"> {
  let summary = "Set the number of layers of each stage";
  let description = [{
    Keeps the paths and sets `blocks` of their stages, replacing blocks or
    weights that are there. `counts` gives the numbers by hand: one list for all
    paths, or one list per path, separated by semicolons; `n*c` repeats n c
    times. Otherwise the layers of the model, or `blocks` layers, are divided
    over each path by `balance`:

    - `exact`: the same number on all stages; an error if that is impossible.
    - `count`: as evenly as possible. If a worker holds several stages of the
      path, the totals of workers are balanced before stages are. On a tie the
      last stages get more, because they hold fewer activations.
    - `cost`: as `count`, but by the time of a microbatch (F, B and
      recomputation, with the model and the system of the schedule), embedding
      and head included. If layers differ, only the longest stage is made as
      short as possible; the totals of workers are ignored.

    Stages stay on their workers, so a schedule that has rows keeps them; they
    are in the order that the family chose for the former lengths of stages.

    For `exact` and `count`, the first stage gets `embedding` layers less
    because of the embedding, and the last stage `head` layers less because of
    the head.

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3]
    }
    ```

    After `pipe-place-blocks{blocks=30 embedding=1 head=1}`:

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3] blocks [7, 8, 8, 7]
    }
    ```

    After `pipe-place-blocks{blocks=30 balance=count}`:

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3] blocks [7, 7, 8, 8]
    }
    ```

    After `pipe-place-blocks{counts=6,8*3}`:

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3] blocks [6, 8, 8, 8]
    }
    ```

    Errors: `exact` with a number of layers that does not divide, with the
    nearest numbers that do; counts for another number of stages, or that do not
    add up to the layers of the model; no model and no blocks; `cost` without a
    model and a system; options that exclude each other; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"counts", "counts", "std::string", /*default=*/"",
           "Layers of each stage, such as \"7,8*14,7\"">,
    Option<"balance", "balance", "::pipesched::Balance",
           /*default=*/"::pipesched::Balance::Exact",
           "What is to be even",
           [{::pipesched::enumOptionValues<::pipesched::Balance>()}]>,
    Pipe_BlocksOption,
    Option<"embedding", "embedding", "int64_t", /*default=*/"0",
           "Layers that the embedding stands for">,
    Option<"head", "head", "int64_t", /*default=*/"0",
           "Layers that the head stands for">
  ];
}

def PipePlaceLayoutPass : Pipe_SchedulePass<"pipe-place-layout"> {
  let summary = "Place stages by a pipeline layout of Megatron-Core";
  let description = [{
    Replaces the paths by one that goes through all workers as many times as the
    stages of `layout` require. Each stage gets the layers that `layout` gives
    it (the string of `--pipeline-model-parallel-layout`, docs/Exchange.md).

    ```mlir
    pipe.schedule @p workers 2 microbatches 8 {
      path on [0, 1]
    }
    ```

    After `pipe-place-layout{layout=Et|(t*2|)*2,tL}`:

    ```mlir
    pipe.schedule @p workers 2 microbatches 8 {
      path on [0, 1, 0, 1] blocks [1, 2, 2, 1]
    }
    ```

    Errors: text that is not a layout or that blocks cannot express, with the
    position of the wrong character; a number of stages that is not a multiple
    of the workers, with the nearest numbers of workers that divide it; a number
    of layers that differs from the model's; a schedule that has rows; no
    schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"layout", "layout", "std::string", /*default=*/"",
           "A pipeline layout, such as \"Et*2|(t*2|)*6,tL\"; required">
  ];
}

#endif // PIPESCHED_TRANSFORMS_PLACEMENTPASSES_TD
