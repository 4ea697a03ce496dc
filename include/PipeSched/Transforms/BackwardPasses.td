//===- BackwardPasses.td - Passes on backwards -------------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes that split and merge backwards, and that recompute for them. The rules
// are in Schedule/Backward.h, Schedule/Recompute.h and docs/Transforms.md.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_BACKWARDPASSES_TD
#define PIPESCHED_TRANSFORMS_BACKWARDPASSES_TD

include "PipeSched/Transforms/PassBase.td"

/// What a pass does with backwards that it cannot change.
class Pipe_RemainderOption<string name, string description>
    : Option<name, name, "::pipesched::Remainder",
             /*default=*/"::pipesched::Remainder::Keep", description,
             [{::pipesched::enumOptionValues<::pipesched::Remainder>()}]>;

def PipeSplitBackwardPass : Pipe_SchedulePass<"pipe-split-backward"> {
  let summary = "Split each backward into I and W";
  let description = [{
    Replaces each B by an I directly followed by a W. In an aligned schedule
    these take the slots of the B. Generators do the same with
    `split-backward=true`. Problems are left alone. The family stays; if it has
    the option `split_backward`, that is set.

    `gradient-after` says which of the two sends the gradient upstream. All
    split backwards of a schedule follow one rule. If some are split already,
    `gradient-after` must be their rule; `auto` takes it.

    A B that runs overlapped (`0F1+3B0`) stays whole, since PyTorch's
    OVERLAP_F_B and the profile's FB also overlap the whole B. With
    `overlapped=refuse` it is an error.

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 family "1f1b" aligned {
      path on [0, 1]
      worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
      worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
    }
    ```

    After `pipe-split-backward`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 2
        family "1f1b" {split_backward = true} gradient after W aligned {
      path on [0, 1]
      worker 0 runs [0F0 0F1 _2 0I0 0W0 _ 0I1 0W1]
      worker 1 runs [_ 1F0 1I0 1W0 1F1 1I1 1W1 _2]
    }
    ```

    Errors: split backwards that do not follow `gradient-after`; an overlapped B
    with `overlapped=refuse`; cells whose number of slots is not known; no
    schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"gradientAfter", "gradient-after",
           "::pipesched::pipe::SplitGradient",
           /*default=*/"::pipesched::pipe::SplitGradient::Auto",
           "Which cell of a split backward sends the gradient upstream",
           [{::pipesched::enumOptionValues<
               ::pipesched::pipe::SplitGradient>()}]>,
    Pipe_RemainderOption<"overlapped", "Backwards that run overlapped">
  ];
}

def PipeMergeBackwardPass : Pipe_SchedulePass<"pipe-merge-backward"> {
  let summary = "Merge each I with the W behind it";
  let description = [{
    Replaces each I that its own W follows, apart from idle slots, by a B. This
    is the inverse of `pipe-split-backward`, and what PyTorch does to merge its
    compute-only schedules. An I stays as it is if it runs overlapped or if its
    W comes later, as in zero-bubble schedules; with `apart=refuse` that is an
    error. Problems are left alone. The family stays.

    A B sends the gradient at its end. Where I sent it before W, the previous
    stage may now wait longer. If an aligned schedule has no room for this wait,
    it is aligned again, as by `pipe-align-slots`. A schedule that is free of
    deadlock stays so.

    ```mlir
    pipe.schedule @s workers 2 microbatches 1 aligned {
      path on [0, 1]
      worker 0 runs [0F0 _2 0I0 0W0]
      worker 1 runs [_ 1F0 1I0 1W0 _]
    }
    ```

    After `pipe-merge-backward`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 1 aligned {
      path on [0, 1]
      worker 0 runs [0F0 _3 0B0]
      worker 1 runs [_ 1F0 1B0 _2]
    }
    ```

    Errors: an I that cannot be merged, with `apart=refuse`; cells whose number
    of slots is not known; in an aligned schedule also those of
    `pipe-align-slots`; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Pipe_RemainderOption<"apart", "Backwards whose W is not right behind I">
  ];
}

def PipeAddRecomputePass : Pipe_SchedulePass<"pipe-add-recompute"> {
  let summary = "Recompute activations before their backward";
  let description = [{
    Puts an R before each backward, B or I. F then keeps only the input of R,
    and R computes the activations again (Chen et al. 2016, arXiv 1604.06174).
    `kind` says what R runs again: every layer, or only the core of the
    attention (Korthikanti et al. 2022, arXiv 2205.05198); the schedule then has
    the clause `recompute selective`. The model has the costs of both kinds. A
    profile has a time for R; its default, if the kind is full, is the time of
    F.

    An R stands directly before its backward, or before the overlapped pair that
    its backward is part of. It needs no gradient, so a worker can recompute
    while it waits for one. R cells that are already there stay, with a remark.
    An aligned schedule is aligned again. The family is dropped. Problems are
    left alone.

    These options select the backwards:

    - `stages`, `workers`, `microbatches`: only the backwards of these, given as
      indices and ranges `begin:end` or `begin:end:step`, where `end` is
      excluded. A stage is a position on its path.
    - `keep`: the number of whole activations that a worker may hold. An F that
      finds fewer than this number on its worker gets no R. With 1F1B these are
      the microbatches that Megatron-LM does not recompute because of its number
      of microbatches with partial activation checkpoints.
    - `skip-adjacent`: no R where it would directly follow its own F, apart from
      idle slots, since no memory is freed in between.

    With `ahead=N` an R may stand further up the row, in slots in which its
    worker waits for a message, as long as at most N recomputed activations wait
    for their backward. This delays no cell in slots and costs the memory of N
    activations.

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 family "gpipe" {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
      worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
    }
    ```

    After `pipe-add-recompute`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0R0 0B0 0R1 0B1 0R2 0B2]
      worker 1 runs [1F0 1F1 1F2 1R0 1B0 1R1 1B1 1R2 1B2]
    }
    ```

    After `pipe-add-recompute{kind=selective stages=0 keep=1 ahead=1}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 recompute selective {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0R1 0B0 0B1 0R2 0B2]
      worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
    }
    ```

    Errors: cells that `pipe-verify` finds missing, or a cycle that it finds; R
    cells of the other kind; indices out of range; cells whose number of slots
    is not known; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"kind", "kind", "::pipesched::Recompute",
           /*default=*/"::pipesched::Recompute::Full", "What R runs again",
           [{::pipesched::someEnumOptionValues<
               ::pipesched::Recompute::Full,
               ::pipesched::Recompute::Selective>()}]>,
    ListOption<"stages", "stages", "std::string",
               "Stages to recompute; none: all">,
    ListOption<"workers", "workers", "std::string",
               "Workers to recompute on; none: all">,
    ListOption<"microbatches", "microbatches", "std::string",
               "Microbatches to recompute; none: all">,
    Option<"keep", "keep", "int64_t", /*default=*/"0",
           "Activations that a worker may hold whole">,
    Option<"skipAdjacent", "skip-adjacent", "bool", /*default=*/"false",
           "Leave out backwards that follow their own forward">,
    Option<"ahead", "ahead", "int64_t", /*default=*/"0",
           "Recomputed activations that may wait for their backward">
  ];
}

#endif // PIPESCHED_TRANSFORMS_BACKWARDPASSES_TD
