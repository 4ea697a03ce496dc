//===- PlacementPasses.td - Passes for unequal stages ------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asymmetric paths, paths written by hand, and how many layers a stage holds.
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
    by a wave, as `pipe-place-wave` does (with one wave a V), and makes the
    halves of every path as long as `ratio` says. Stages s and S-1-s of a path
    always add up to the same, so that every worker has the same to do (Chimera
    with asymmetric placement, arXiv 2605.24006). `way` says how lengths depart
    from equal ones:

    - `halves`: by a step in the middle; each half has equal stages.
    - `ramp`: by the same amount from stage to stage.
    - `ends`: on the first and the last stage alone.
    - `middle`: on the last stage of the first half and the one after it alone.

    Lengths are blocks where `blocks` gives the layers of the model or the
    schedule has one, and weights until then.

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

    Errors: those of the two placing passes; a ratio that is none, or that
    leaves nothing to a stage, with the bounds of those that do not; blocks that
    cannot be divided so, with the nearest numbers that can, or that are not the
    layers of the model; options of the paths that are not placed.
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
    Replaces the paths by those of `paths`: between semicolons, the worker of
    each stage, and what else a `pipe.path` may say. A range is `begin:end` or
    `begin:end:step` without its end, and workers may count down; `n*c` is the
    count n, c times over. Lists may stand in brackets, as in the IR.

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

    Errors: text that is no list of paths, with the character; paths that no
    `pipe.schedule` may have (a worker that does not exist, microbatches on no
    path or two, blocks of another length); a schedule that has rows; no
    schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"paths", "paths", "std::string", /*default=*/"",
           "Workers of each path, such as \"0,1,2,3;3,2,1,0\"; required">
  ];
}

def PipePlaceBlocksPass : Pipe_SchedulePass<"pipe-place-blocks"> {
  let summary = "Say how many layers each stage holds";
  let description = [{
    Keeps the paths and gives their stages `blocks`, in place of blocks or
    weights that are there. `counts` gives them by hand, one list for every path
    or lists for each between semicolons; `n*c` is n, c times over. Otherwise
    the layers of the model, or `blocks` of them, are divided over each path by
    `balance`:

    - `exact`: alike on all stages, or not at all.
    - `count`: as evenly as they go. Where a worker holds several stages of the
      path, workers come before stages. A tie goes to the last stage, which
      holds fewer activations.
    - `cost`: the same by the time that a microbatch takes (F, B and what is
      recomputed, with the model and the system of the schedule), embedding and
      head included. Where layers differ, the longest stage is as short as it
      can be, and workers are not looked at.

    For `exact` and `count`, `embedding` and `head` say how many layers the
    first stage is to have less for the embedding, and the last for the head.

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

    Errors: `exact` with layers that do not divide, with the nearest numbers
    that do; counts for another number of stages, or that do not add up to the
    layers of the model; no model and no blocks; `cost` without a model and a
    system; options that exclude each other; a schedule that has rows; no
    schedule.
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
  let summary = "Place stages as a pipeline layout of Megatron-Core says";
  let description = [{
    Replaces the paths by one that goes through all workers again and again, as
    often as the stages of `layout` need it, with the layers that it gives them
    (the string of `--pipeline-model-parallel-layout`, docs/Exchange.md).

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

    Errors: what is no layout or cannot be said with blocks, with the character;
    stages that are no multiple of the workers, with the nearest numbers of
    workers that divide them; layers that are not those of the model; a schedule
    that has rows; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"layout", "layout", "std::string", /*default=*/"",
           "A pipeline layout, such as \"Et*2|(t*2|)*6,tL\"; required">
  ];
}

#endif // PIPESCHED_TRANSFORMS_PLACEMENTPASSES_TD
