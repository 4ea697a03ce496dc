//===- SchedulePasses.td - Passes around generators --------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What generator passes share, and the families of schedules on one path that
// goes one way, in the order of Schedule/Generators.h.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_SCHEDULEPASSES_TD
#define PIPESCHED_TRANSFORMS_SCHEDULEPASSES_TD

include "PipeSched/Transforms/PassBase.td"

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

def Pipe_SplitBackwardOption
    : Option<"splitBackward", "split-backward", "bool", /*default=*/"false",
             "Split each backward into I and, right behind it, W">;

def Pipe_SplitOrWholeOption
    : Option<"splitBackward", "split-backward", "bool", /*default=*/"true",
             "Split each backward into I and W">;

def Pipe_GradientAfterOption
    : Option<"gradientAfter", "gradient-after", "::pipesched::GradientAfter",
             /*default=*/"::pipesched::GradientAfter::WeightGrad",
             "Which cell of a split backward sends the gradient upstream",
             [{::pipesched::enumOptionValues<::pipesched::GradientAfter>()}]>;

def Pipe_ChunksOption
    : Option<"chunks", "chunks", "int64_t", /*default=*/"0",
             "Stages per worker; 0: as the path says">;

def Pipe_GroupOption
    : Option<"group", "group", "int64_t", /*default=*/"0",
             "Microbatches that run on a chunk before the next has its turn; "
             "0: the N / max(1, N div D) of PyTorch">;

/// A pass `pipe-schedule-<family>`. Fills every schedule without rows.
class Pipe_GeneratorPass<string family, list<Option> familyOptions = []>
    : Pipe_ModulePass<"pipe-schedule-" # family> {
  let options = !listconcat([Pipe_ScheduleOption], familyOptions);
}

/// Keeps B whole unless it is asked to split it.
class Pipe_SplittablePass<string family, list<Option> familyOptions = []>
    : Pipe_GeneratorPass<
          family, !listconcat(familyOptions, [Pipe_SplitBackwardOption,
                                              Pipe_GradientAfterOption])>;

//===----------------------------------------------------------------------===//
// One path that visits every worker once
//===----------------------------------------------------------------------===//

def PipeScheduleGPipePass : Pipe_SplittablePass<"gpipe"> {
  let summary = "Fill schedules with all forwards, then all backwards";
  let description = [{
    GPipe (Huang 2019, arXiv 1811.06965). Fills every schedule without rows; all
    need one path that visits each worker once. Schedules with rows stay as they
    are.

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-gpipe`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 family "gpipe" {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
      worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
    }
    ```

    After `pipe-schedule-gpipe{split-backward=true}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3
        family "gpipe" {split_backward = true} gradient after W {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2]
      worker 1 runs [1F0 1F1 1F2 1I0 1W0 1I1 1W1 1I2 1W2]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells.
  }];
}

def PipeSchedule1F1BPass : Pipe_SplittablePass<"1f1b"> {
  let summary = "Fill schedules with one forward, one backward in turn";
  let description = [{
    1F1B (PipeDream-flush; Narayanan 2021, arXiv 2104.04473): min(N, D - r)
    forwards on the r-th worker of the path, then one backward and one forward
    in turn, then the remaining backwards. Fills every schedule without rows;
    all need one path that visits each worker once. Schedules with rows stay as
    they are.

    ```mlir
    pipe.schedule @s workers 3 microbatches 4 {
      path on [0, 1, 2]
    }
    ```

    After `pipe-schedule-1f1b`:

    ```mlir
    pipe.schedule @s workers 3 microbatches 4 family "1f1b" {
      path on [0, 1, 2]
      worker 0 runs [0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3]
      worker 1 runs [1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3]
      worker 2 runs [2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3]
    }
    ```

    After `pipe-schedule-1f1b{split-backward=true gradient-after=I}`:

    ```mlir
    pipe.schedule @s workers 3 microbatches 4
        family "1f1b" {split_backward = true} {
      path on [0, 1, 2]
      worker 0 runs [0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3]
      worker 1 runs [1F0 1F1 1I0 1W0 1F2 1I1 1W1 1F3 1I2 1W2 1I3 1W3]
      worker 2 runs [2F0 2I0 2W0 2F1 2I1 2W1 2F2 2I2 2W2 2F3 2I3 2W3]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells.
  }];
}

def PipeScheduleEager1F1BPass : Pipe_SplittablePass<"eager-1f1b"> {
  let summary = "Fill schedules with 1F1B that warms up twice as long";
  let description = [{
    1F1B with min(N, 2(D - r) - 1) forwards to warm up on the r-th worker of the
    path, so that each message has a slot to travel in (as in JaxPP, Xhebraj
    2024, arXiv 2412.14374). Holds up to 2D - 1 activations instead of D. Fills
    every schedule without rows; all need one path that visits each worker once.

    ```mlir
    pipe.schedule @s workers 3 microbatches 5 {
      path on [0, 1, 2]
    }
    ```

    After `pipe-schedule-eager-1f1b`:

    ```mlir
    pipe.schedule @s workers 3 microbatches 5 family "eager-1f1b" {
      path on [0, 1, 2]
      worker 0 runs [0F0 0F1 0F2 0F3 0F4 0B0 0B1 0B2 0B3 0B4]
      worker 1 runs [1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1B3 1B4]
      worker 2 runs [2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2F4 2B4]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells.
  }];
}

def PipeScheduleZBH1Pass : Pipe_GeneratorPass<"zb-h1"> {
  let summary = "Fill schedules with ZB-H1";
  let description = [{
    1F1B with every backward split and W put off by r microbatches on the r-th
    worker of the path, so that it fills the drain (Qi 2024, arXiv 2401.10241).
    As much memory as 1F1B. The gradient goes upstream after I. Fills every
    schedule without rows; all need one path that visits each worker once.

    ```mlir
    pipe.schedule @s workers 3 microbatches 4 {
      path on [0, 1, 2]
    }
    ```

    After `pipe-schedule-zb-h1`:

    ```mlir
    pipe.schedule @s workers 3 microbatches 4 family "zb-h1" {
      path on [0, 1, 2]
      worker 0 runs [0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3]
      worker 1 runs [1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3]
      worker 2 runs [2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells.
  }];
}

def PipeScheduleZBH2Pass : Pipe_GeneratorPass<"zb-h2"> {
  let summary = "Fill schedules with ZB-H2";
  let description = [{
    ZB-H1 with the warm-up of eager 1F1B and W put off by 2r: at equal times of
    F, I and W, and N of at least 2D - 1, no worker idles between its first and
    its last cell (Qi 2024, arXiv 2401.10241). Holds up to 2D - 1 activations.
    The gradient goes upstream after I. Fills every schedule without rows; all
    need one path that visits each worker once.

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-zb-h2`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 family "zb-h2" {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3]
      worker 1 runs [1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells.
  }];
}

//===----------------------------------------------------------------------===//
// One interleaved path
//===----------------------------------------------------------------------===//

def PipeScheduleLoopedBFSPass
    : Pipe_SplittablePass<"looped-bfs", [Pipe_ChunksOption]> {
  let summary = "Fill schedules breadth first";
  let description = [{
    Looped BFS (Lamy-Poirier 2023, arXiv 2211.05953): stages upward, all
    forwards of each; then stages downward, all backwards of each, last
    microbatch first. Fills every schedule without rows; all need a path that
    goes through all workers in the same order again and again. `chunks` must
    agree with the path, but turns a path 0..D-1 into one of so many stages per
    worker.

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-looped-bfs{chunks=2}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 family "looped-bfs" {
      path on [0, 1, 0, 1]
      worker 0 runs [0F0 0F1 2F0 2F1 2B1 2B0 0B1 0B0]
      worker 1 runs [1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells.
  }];
}

def PipeScheduleMpmdCircularPass
    : Pipe_SplittablePass<"mpmd-circular", [Pipe_ChunksOption]> {
  let summary = "Fill schedules with the circular order of Shardy MPMD";
  let description = [{
    Microbatches in phases of D: forwards by phase, stage upward and microbatch,
    then backwards by phase, stage downward and microbatch (Shardy's MPMD
    partitioner). The last phase may be short. Fills every schedule without
    rows; all need a path that goes through all workers in the same order again
    and again. `chunks` must agree with the path, but turns a path 0..D-1 into
    one of so many stages per worker.

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-mpmd-circular{chunks=2}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 family "mpmd-circular" {
      path on [0, 1, 0, 1]
      worker 0 runs [0F0 0F1 2F0 2F1 0F2 2F2 2B0 2B1 0B0 0B1 2B2 0B2]
      worker 1 runs [1F0 1F1 3F0 3F1 1F2 3F2 3B0 3B1 1B0 1B1 3B2 1B2]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells.
  }];
}

def PipeScheduleInterleaved1F1BPass
    : Pipe_SplittablePass<"interleaved-1f1b",
                          [Pipe_ChunksOption, Pipe_GroupOption]> {
  let summary = "Fill schedules with interleaved 1F1B";
  let description = [{
    Groups of microbatches take turns on the V chunks of a worker: min((V - 1)
    group + 2(D - 1 - r), NV) forwards to warm up, then one forward and one
    backward in turn, then the remaining backwards (Narayanan 2021, arXiv
    2104.04473, section 2.2). Fills every schedule without rows; all need a path
    that goes through all workers in the same order again and again. `chunks`
    must agree with the path, but turns a path 0..D-1 into one of so many stages
    per worker.

    Without `group` the rule is that of PyTorch: max(1, N div D) equal groups,
    which must divide N. A given group follows Megatron-LM: D to N, the last
    group as large as the rest or at least D.

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-interleaved-1f1b{chunks=2}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 family "interleaved-1f1b" {
      path on [0, 1, 0, 1]
      worker 0 runs [0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2
                     0B3]
      worker 1 runs [1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2
                     1B3]
    }
    ```

    After `pipe-schedule-interleaved-1f1b{chunks=2 group=4}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 4
        family "interleaved-1f1b" {group = 4 : i64} {
      path on [0, 1, 0, 1]
      worker 0 runs [0F0 0F1 0F2 0F3 2F0 2F1 2F2 2B0 2F3 2B1 2B2 2B3 0B0 0B1 0B2
                     0B3]
      worker 1 runs [1F0 1F1 1F2 1F3 3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 1B0 1B1 1B2
                     1B3]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells; groups that do not come out, with the
    nearest sizes that do.
  }];
}

def PipeScheduleInterleavedZBPass
    : Pipe_GeneratorPass<"interleaved-zb",
                         [Pipe_ChunksOption, Pipe_GroupOption]> {
  let summary = "Fill schedules with interleaved zero bubble";
  let description = [{
    The interleaved order with (V - 1) group + D - 1 - r forwards to warm up, I
    for B, and W put off by r (ScheduleInterleavedZeroBubble of PyTorch, after
    Qi 2024, arXiv 2401.10241). The gradient goes upstream after I. Fills every
    schedule without rows; all need a path that goes through all workers in the
    same order again and again. `chunks` must agree with the path, but turns a
    path 0..D-1 into one of so many stages per worker. `group` is that of
    `pipe-schedule-interleaved-1f1b`.

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-interleaved-zb{chunks=2}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 family "interleaved-zb" {
      path on [0, 1, 0, 1]
      worker 0 runs [0F0 0F1 2F0 2F1 2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0 2F2 0I1 0W1
                     2F3 2I2 2W2 2I3 2W3 0I2 0W2 0I3 0W3]
      worker 1 runs [1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 1F3 1I1 1W0 3F2 3I2
                     1W1 3F3 3I3 3W2 1I2 3W3 1I3 1W2 1W3]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^28 cells; groups that do not come out, with the
    nearest sizes that do.
  }];
}

#endif // PIPESCHED_TRANSFORMS_SCHEDULEPASSES_TD
