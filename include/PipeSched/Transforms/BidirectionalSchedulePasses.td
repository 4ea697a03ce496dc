//===- BidirectionalSchedulePasses.td - Paths down and up --*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Families of schedules on a V, on mirrored pairs and on waves, and the greedy
// rule, in the order of Schedule/Generators.h.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_BIDIRECTIONALSCHEDULEPASSES_TD
#define PIPESCHED_TRANSFORMS_BIDIRECTIONALSCHEDULEPASSES_TD

include "PipeSched/Transforms/SchedulePasses.td"

//===----------------------------------------------------------------------===//
// One V
//===----------------------------------------------------------------------===//

def PipeScheduleZBVPass : Pipe_GeneratorPass<"zb-v"> {
  let summary = "Fill schedules with ZB-V";
  let description = [{
    The handcrafted V schedule of Qi 2024 (arXiv 2405.15362) in the order of
    ScheduleZBVZeroBubble of PyTorch: at equal times of F, I and W, and N of at
    least 2D - 1, no worker idles between its first and its last cell, with the
    memory of 1F1B. Fewer microbatches run the same order without the cells that
    are not there. The gradient goes upstream after I. Fills every schedule
    without rows; all need a V, which replaces a path 0..D-1.

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-zb-v`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 family "zb-v" {
      path on [0, 1, 1, 0]
      worker 0 runs [0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1
                     0W1 0I2 0W2]
      worker 1 runs [1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2
                     1W1 2W2 1W2]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells.
  }];
}

def PipeScheduleVHalfPass : Pipe_GeneratorPass<"v-half"> {
  let summary = "Fill schedules with V-Half";
  let description = [{
    V schedule of about half the activations of 1F1B, D + 2 halves of a worker's
    share for even D, D + 1 for odd D (Qi 2024, arXiv 2405.15362): building
    blocks, repeated and shifted left at that memory, for equal times of F, I
    and W. The gradient goes upstream after I. Fills every schedule without
    rows; all need a V, which replaces a path 0..D-1.

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-v-half`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 family "v-half" {
      path on [0, 1, 1, 0]
      worker 0 runs [0F0 0F1 0F2 3F0 3I0 3W0 3F1 0I0 3I1 0W0 3W1 3F2 3I2 0I1 3W2
                     0I2 0W1 0W2]
      worker 1 runs [1F0 2F0 1F1 2F1 2I0 1I0 2W0 1F2 1W0 2F2 2I1 1I1 2I2 1I2 2W1
                     1W1 2W2 1W2]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells.
  }];
}

def PipeScheduleVMinPass : Pipe_GeneratorPass<"v-min"> {
  let summary = "Fill schedules with V-Min";
  let description = [{
    V schedule of about a third of the activations of 1F1B, 2(floor((D + 1) / 3)
    + 1) halves of a worker's share (Qi 2024, arXiv 2405.15362): building
    blocks, repeated and shifted left at that memory, for equal times of F, I
    and W. The gradient goes upstream after I. Fills every schedule without
    rows; all need a V, which replaces a path 0..D-1.

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-v-min`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 family "v-min" {
      path on [0, 1, 1, 0]
      worker 0 runs [0F0 0F1 0F2 3F0 3I0 3W0 3F1 0I0 3I1 0W0 3W1 0I1 0W1 3F2 3I2
                     3W2 0I2 0W2]
      worker 1 runs [1F0 2F0 1F1 2F1 2I0 1I0 2W0 1F2 2I1 1I1 1W0 2F2 2W1 1W1 2I2
                     1I2 2W2 1W2]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells.
  }];
}

def PipeScheduleZBAutoPass
    : Pipe_GeneratorPass<
          "zb-auto",
          [Option<"memory", "memory", "int64_t", /*default=*/"0",
                  "Activations of one stage and microbatch that a worker may "
                  "hold, at least 2; 0: 2D, as 1F1B holds">]> {
  let summary = "Fill schedules with the shortest V schedule that fits";
  let description = [{
    Of V schedules made from building blocks, like V-Half and V-Min, the
    shortest at unit slots that holds no more than `memory` activations, each of
    one stage and microbatch: half of a worker's share (after Qi 2024, arXiv
    2405.15362; the blocks between V-Half and 1F1B are not from there). The
    gradient goes upstream after I. Fills every schedule without rows; all need
    a V, which replaces a path 0..D-1.

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-zb-auto{memory=3}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3
        family "zb-auto" {memory = 3 : i64} {
      path on [0, 1, 1, 0]
      worker 0 runs [0F0 0F1 3F0 3I0 3W0 3F1 0I0 3I1 0W0 0F2 0I1 3W1 0W1 3F2 3I2
                     3W2 0I2 0W2]
      worker 1 runs [1F0 2F0 1F1 2I0 2W0 2F1 1I0 1W0 2I1 1I1 1F2 2W1 2F2 1W1 2I2
                     1I2 2W2 1W2]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells; a memory below 2.
  }];
}

def PipeScheduleDualPipeVPass : Pipe_GeneratorPass<"dualpipe-v"> {
  let summary = "Fill schedules with DualPipeV";
  let description = [{
    DualPipe cut in half: both directions on the two legs of one V, forwards of
    one overlapped with backwards of the other as cells `a+b` (DeepSeek-AI 2025,
    arXiv 2412.19437). N is at least 2D. Some backwards are split; their
    gradient goes upstream after I. Fills every schedule without rows; all need
    a V, which replaces a path 0..D-1.

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-dualpipe-v`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 family "dualpipe-v" {
      path on [0, 1, 1, 0]
      worker 0 runs [0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3+3B1 3F2+0B0 3B2 3F3+0B1 3B3
                     0I2 0W2 0I3 0W3]
      worker 1 runs [1F0 2F0 1F1 2F1 1F2 2B0 2F2+1B0 1F3+2B1 2F3+1B1 2B2 1B2 2I3
                     1I3 2W3 1W3]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells; fewer than 2D microbatches.
  }];
}

//===----------------------------------------------------------------------===//
// Mirrored paths
//===----------------------------------------------------------------------===//

def PipeScheduleDualPipePass : Pipe_GeneratorPass<"dualpipe"> {
  let summary = "Fill schedules with DualPipe";
  let description = [{
    Two mirrored paths, forwards of one overlapped with backwards of the other
    as cells `a+b` (DeepSeek-AI 2025, arXiv 2412.19437, section 3.2.1). D and N
    are even, N is at least 2D. Some backwards are split; their gradient goes
    upstream after I. Fills every schedule without rows; all need one mirrored
    pair, which replaces a path 0..D-1. The first path takes the first half of
    the microbatches, whatever it took before; a remark says where that is a
    change.

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 {
      path on [0, 1] takes [0:4:2]
      path on [1, 0] takes [1:4:2]
    }
    ```

    After `pipe-schedule-dualpipe`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 family "dualpipe" {
      path on [0, 1] takes [0:2]
      path on [1, 0] takes [2:4]
      worker 0 runs [0F0 1F2 0F1 1B2 1F3+0B0 1B3 0I1 0W1]
      worker 1 runs [0F2 1F0 0F3 1B0 1F1+0B2 1B1 0I3 0W3]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells; odd numbers of workers or microbatches, or
    fewer than 2D microbatches, with the nearest that do.
  }];
}

def PipeScheduleChimeraPass
    : Pipe_SplittablePass<
          "chimera",
          [Option<"pairs", "pairs", "int64_t", /*default=*/"0",
                  "Pairs of paths; 0: as the paths say, or one">,
           Option<"construction", "construction",
                  "::pipesched::ChimeraConstruction",
                  /*default=*/"::pipesched::ChimeraConstruction::Concat",
                  "What more microbatches than a basic unit has become",
                  [{::pipesched::enumOptionValues<
                      ::pipesched::ChimeraConstruction>()}]>]> {
  let summary = "Fill schedules with Chimera";
  let description = [{
    Mirrored paths (Li and Hoefler 2021, arXiv 2107.06925): in a basic unit of D
    microbatches each of the P paths enters D / P of them, one every other slot,
    and they walk down the path and back. More microbatches are more units, one
    after the other (section 3.2), or units of 2D with two microbatches in each
    forward (`doubling`, section 3.5), which may be the halves of one
    (`halving`). The last unit may be incomplete.

    Fills every schedule without rows; all need `pairs` mirrored pairs, which
    replace a path 0..D-1. Paths that do not say what they take get microbatches
    in turn.

    ```mlir
    pipe.schedule @s workers 4 microbatches 4 {
      path on [0, 1, 2, 3]
    }
    ```

    After `pipe-schedule-chimera`:

    ```mlir
    pipe.schedule @s workers 4 microbatches 4 family "chimera" {
      path on [0, 1, 2, 3] takes [0:4:2]
      path on [3, 2, 1, 0] takes [1:4:2]
      worker 0 runs [0F0 0F2 3F1 3B1 3F3 3B3 0B0 0B2]
      worker 1 runs [1F0 2F1 1F2 2F3 2B1 1B0 2B3 1B2]
      worker 2 runs [1F1 2F0 1F3 2F2 2B0 1B1 2B2 1B3]
      worker 3 runs [0F1 0F3 3F0 3B0 3F2 3B2 0B1 0B3]
    }
    ```

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-chimera{construction=doubling}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 4
        family "chimera" {construction = "doubling"} {
      path on [0, 1] takes [0:4:2]
      path on [1, 0] takes [1:4:2]
      worker 0 runs [0F0 0F2 1F1 1F3 1B1 0B0 1B3 0B2]
      worker 1 runs [0F1 0F3 1F0 1F2 1B0 0B1 1B2 0B3]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells; paths of unequal shares; an odd number of
    microbatches on a path with `halving`.
  }];
}

//===----------------------------------------------------------------------===//
// Any paths
//===----------------------------------------------------------------------===//

def PipeScheduleGreedyPass
    : Pipe_GeneratorPass<
          "greedy", [Pipe_SplitOrWholeOption, Pipe_GradientAfterOption,
                     Pipe_SlotsOption, Pipe_SlotOption]> {
  let summary = "Fill schedules slot by slot";
  let description = [{
    At each slot every free worker runs, of its ready cells, the one furthest
    along its chain; of several, the one that was ready first (arXiv
    2605.24006). All microbatches are ready at slot 0. Fills every schedule
    without rows, on any paths. Paths that do not say what they take get
    microbatches in turn.

    `slots` and `slot` are those of `pipe-align-slots`. With other slots than
    unit slots the rows are aligned by them.

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 {
      path on [0, 1]
      path on [1, 0]
    }
    ```

    After `pipe-schedule-greedy`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 family "greedy" gradient after W {
      path on [0, 1] takes [0:2:2]
      path on [1, 0] takes [1:2:2]
      worker 0 runs [0F0 1F1 1I1 1W1 0I0 0W0]
      worker 1 runs [0F1 1F0 1I0 1W0 0I1 0W1]
    }
    ```

    After `pipe-schedule-greedy{split-backward=false}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 2
        family "greedy" {split_backward = false} {
      path on [0, 1] takes [0:2:2]
      path on [1, 0] takes [1:2:2]
      worker 0 runs [0F0 1F1 1B1 0B0]
      worker 1 runs [0F1 1F0 1B0 0B1]
    }
    ```

    By blocks, where the second stage is twice as long as the first:

    ```mlir
    pipe.schedule @uneven workers 2 microbatches 2 {
      path on [0, 1] weights [1, 2]
      path on [1, 0] weights [1, 2]
    }
    ```

    After `pipe-schedule-greedy{slots=blocks}`:

    ```mlir
    pipe.schedule @uneven workers 2 microbatches 2
        family "greedy" {slots = "blocks"} gradient after W
        aligned slots <[1, 2]> {
      path on [0, 1] takes [0:2:2] weights [1, 2]
      path on [1, 0] takes [1:2:2] weights [1, 2]
      worker 0 runs [0F0 1F1 1I1 1W1 0I0 0W0]
      worker 1 runs [0F1 1F0 1I0 1W0 0I1 0W1]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; fewer
    microbatches than paths; more than 2^28 cells; those of `pipe-align-slots`
    about slots.
  }];
}

def PipeScheduleHanayoPass
    : Pipe_GeneratorPass<
          "hanayo",
          [Option<"waves", "waves", "int64_t", /*default=*/"0",
                  "Times down and up again; 0: as the path says, or one">,
           Pipe_SplitOrWholeOption, Pipe_GradientAfterOption]> {
  let summary = "Fill schedules with Hanayo";
  let description = [{
    A path that goes down and up the workers `waves` times (Liu 2023, arXiv
    2308.15762), filled by the rule of `pipe-schedule-greedy`. Fills every
    schedule without rows; all need such a path, which replaces a path 0..D-1.

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-hanayo{waves=1}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 family "hanayo" gradient after W {
      path on [0, 1, 1, 0]
      worker 0 runs [0F0 0F1 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 0I1 0W1]
      worker 1 runs [1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 2I1 2W1 1I1 1W1]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells.
  }];
}

#endif // PIPESCHED_TRANSFORMS_BIDIRECTIONALSCHEDULEPASSES_TD
