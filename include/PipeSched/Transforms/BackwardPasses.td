//===- BackwardPasses.td - Passes around the backward ------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Splitting, merging and recomputing for it. The rules stand in
// Schedule/Backward.h, Schedule/Recompute.h and docs/Transforms.md.
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
    Replaces each B by I and, right behind it, W. In an aligned schedule they
    take its slots. Generators with `split-backward=true` do the same. Problems
    are left alone; the family stays, with `split_backward` where it is one of
    its options.

    `gradient-after` says which of the two sends the gradient upstream. It holds
    for all split backwards of a schedule, so that where some are split already
    only their own rule will do, which `auto` takes.

    A B that runs overlapped (`0F1+3B0`) is overlapped as a whole, as PyTorch's
    OVERLAP_F_B and the profile's FB are, and stays whole unless `overlapped`
    refuses it.

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

    Errors: split backwards that send the gradient after another cell than
    `gradient-after`; an overlapped B, where it is refused; cells whose number
    of slots is not known; no schedule.
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
    Replaces each I that its own W follows, idle slots aside, by B: the inverse
    of `pipe-split-backward`, and PyTorch's merging of its compute-only
    schedules. An I whose W stands further on, as in zero-bubble schedules, or
    that runs overlapped stays as it is unless `apart` refuses it. Problems are
    left alone; the family stays.

    A B sends the gradient at its end. Where I did so before W, the stage before
    may wait longer; an aligned schedule in which it cannot is aligned again, as
    by `pipe-align-slots`. A schedule free of deadlock stays so.

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

    Errors: an I apart from its W, where it is refused; cells whose number of
    slots is not known; in an aligned schedule also those of `pipe-align-slots`;
    no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Pipe_RemainderOption<"apart", "Backwards whose W is not right behind I">
  ];
}

def PipeAddRecomputePass : Pipe_SchedulePass<"pipe-add-recompute"> {
  let summary = "Compute activations again before their backward";
  let description = [{
    Puts an R before each backward, B or I: F then keeps only what R starts from
    and R brings the activations back (Chen et al. 2016, arXiv 1604.06174).
    `kind` says what R runs again: every layer, or only the core of the
    attention (Korthikanti et al. 2022, arXiv 2205.05198), which the schedule
    then says in `recompute selective`. The model has the facts for both; a
    profile gives R, by default F's time where the kind is full.

    An R stands right before its backward, or before the overlapped pair that
    the backward is half of, and needs no gradient: a worker that waits for one
    recomputes meanwhile. R that are there stay, with a remark. An aligned
    schedule is aligned again. The family is dropped. Problems are left alone.

    Which backwards:

    - `stages`, `workers`, `microbatches`: of these only, as indices and ranges
      `begin:end` or `begin:end:step` without their end. A stage is a position
      on its path.
    - `keep`: a worker may hold so many activations whole; F that find fewer get
      no R. With 1F1B these are the microbatches that Megatron-LM leaves out by
      its number of microbatches with partial activation checkpoints.
    - `skip-adjacent`: none that would follow its own F, idle slots aside, since
      nothing is freed in between.

    Where: with `ahead=N` an R may stand further up the row, in slots in which
    its worker waits for a message, while no more than N activations recomputed
    so wait for their backward. That delays nothing in slots and costs the
    memory of N activations.

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

    Errors: what `pipe-verify` finds missing or circular; R cells of the other
    kind; indices out of range; cells whose number of slots is not known; no
    schedule.
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
